//! The IF of a modification. It is prepared whole, so that its bind variables are known; carrying it out is refused,
//! for it reads and decides before it writes.

use crate::cql::ast::{self, ConditionTest, InValues, Operator, Target, UpdateCondition};
use crate::plan::term::{Scope, Term, invalid};
use crate::plan::{ColumnSpec, names};
use crate::protocol::CqlError;
use crate::schema::{Column, ColumnKind, Table};
use crate::types::CqlType;

/// What a modification makes its doing depend on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions {
    exists: bool,
    not_exists: bool,
    on_static: bool,
    on_regular: bool,
}

impl Conditions {
    pub fn if_not_exists(not_exists: bool) -> Conditions {
        Conditions { not_exists, ..Conditions::default() }
    }

    pub fn is_none(&self) -> bool {
        *self == Conditions::default()
    }

    /// Whether a condition concerns a regular column.
    pub fn has_regular(&self) -> bool {
        self.on_regular
    }

    /// Whether a condition concerns a static column.
    pub fn has_static(&self) -> bool {
        self.on_static
    }

    /// Why a conditional modification is not carried out.
    pub fn refuse(&self) -> Result<(), CqlError> {
        let clause = match self {
            _ if self.is_none() => return Ok(()),
            Conditions { exists: true, .. } => "IF EXISTS",
            Conditions { not_exists: true, .. } => "IF NOT EXISTS",
            _ => "IF",
        };
        Err(invalid(format!("Conditional updates ({clause}) are not supported yet")))
    }

    pub fn prepare(table: &Table, condition: &UpdateCondition, scope: &mut Scope<'_>) -> Result<Conditions, CqlError> {
        let mut out = Conditions::default();
        match condition {
            UpdateCondition::None => {}
            UpdateCondition::IfExists => out.exists = true,
            UpdateCondition::If(conditions) => {
                for condition in conditions {
                    let column = names::column(table, &condition.column)?;
                    prepare_one(table, column, condition, scope)?;
                    match column.kind {
                        ColumnKind::Static => out.on_static = true,
                        _ => out.on_regular = true,
                    }
                }
            }
        }
        Ok(out)
    }
}

fn prepare_one(
    table: &Table,
    column: &Column,
    condition: &ast::Condition,
    scope: &mut Scope<'_>,
) -> Result<(), CqlError> {
    let name = &column.name;
    if matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. }) {
        return Err(invalid(format!("PRIMARY KEY column '{name}' cannot have IF conditions")));
    }
    if column.ty.is_counter() {
        return Err(invalid("Conditions on counters are not supported"));
    }
    let spec = ColumnSpec::of_column(table, column);
    let receiver = match (&condition.target, column.ty.unfrozen()) {
        (Target::Column, _) => spec,
        (Target::Element(key), CqlType::Map(k, v)) => {
            Term::prepare(key, &spec.key_spec(k), scope)?;
            spec.value_spec(v)
        }
        (Target::Element(key), CqlType::List(element)) => {
            Term::prepare(key, &spec.index_spec(), scope)?;
            spec.value_spec(element)
        }
        (Target::Element(_), CqlType::Set(_)) => {
            return Err(invalid(format!("Invalid element access syntax for set column {name}")));
        }
        (Target::Element(_), _) => {
            return Err(invalid(format!("Invalid element access syntax for non-collection column {name}")));
        }
        (Target::Field(field), CqlType::Udt(udt)) => {
            let found = udt.fields.iter().find(|(name, _)| name == field.as_str());
            let (_, ty) = found.ok_or_else(|| {
                invalid(format!("Undefined column name {field} in table {}", names::full_name(table)))
            })?;
            spec.renamed(format!("{name}.{field}"), ty.clone())
        }
        (Target::Field(_), _) => {
            return Err(invalid(format!("Invalid field access syntax for non-UDT column {name}")));
        }
    };
    prepare_test(&condition.test, &receiver, scope)
}

fn prepare_test(test: &ConditionTest, receiver: &ColumnSpec, scope: &mut Scope<'_>) -> Result<(), CqlError> {
    match (test, receiver.ty.unfrozen()) {
        (ConditionTest::Compare(operator, value), ty) => {
            let is_slice = !matches!(operator, Operator::Eq | Operator::Ne);
            if is_slice && ty.contains_duration() {
                let what = if *ty == CqlType::Duration { "durations" } else { "values that hold durations" };
                let symbol = operator.symbol();
                return Err(invalid(format!("Slice conditions ( {symbol} ) are not supported on {what}")));
            }
            Term::prepare(value, receiver, scope)?;
        }
        (ConditionTest::In(InValues::Marker(marker)), _) => {
            Term::marker(*marker, &receiver.in_spec(), scope);
        }
        (ConditionTest::In(InValues::List(values)), _) => {
            for value in values {
                Term::prepare(value, receiver, scope)?;
            }
        }
        (ConditionTest::Contains(value), CqlType::List(element) | CqlType::Set(element)) => {
            Term::prepare(value, &receiver.value_spec(element), scope)?;
        }
        (ConditionTest::Contains(value), CqlType::Map(_, element)) => {
            Term::prepare(value, &receiver.value_spec(element), scope)?;
        }
        (ConditionTest::ContainsKey(key), CqlType::Map(k, _)) => {
            Term::prepare(key, &receiver.key_spec(k), scope)?;
        }
        (ConditionTest::Contains(_), _) => {
            return Err(invalid(format!("Cannot use CONTAINS on non-collection column {}", receiver.name)));
        }
        (ConditionTest::ContainsKey(_), _) => {
            return Err(invalid(format!("Cannot use CONTAINS KEY on non-map column {}", receiver.name)));
        }
    }
    Ok(())
}
