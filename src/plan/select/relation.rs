//! From one relation as parsed to a restriction: names, types and operators are checked here. Rules and words are
//! Cassandra's.

use crate::cql::ast::{self, Ident, InValues, Operator, Relation};
use crate::plan::select::restriction::{Bound, Contents, InList, Restriction, RestrictionKind, Tuple};
use crate::plan::term::{Scope, Term};
use crate::plan::{ColumnSpec, names};
use crate::protocol::CqlError;
use crate::schema::{Column, ColumnKind, Table};
use crate::types::CqlType;

/// What a relation restricts.
#[derive(Debug)]
pub(super) enum Restricted {
    Columns(Restriction),
    /// The token of the partition key; its columns are all of the key's.
    Token(Restriction),
}

pub(super) struct RelationBuilder<'b, 's> {
    pub scope: &'b mut Scope<'s>,
    pub table: &'b Table,
}

impl<'b> RelationBuilder<'b, '_> {
    pub fn restriction(&mut self, relation: &Relation) -> Result<Restricted, CqlError> {
        let restriction = match relation {
            Relation::Column { column, operator, value } => self.single(relation, column, *operator, value)?,
            Relation::ColumnIn { column, values } => self.single_in(column, values)?,
            Relation::Contains { column, value } => self.contains(column, value, false)?,
            Relation::ContainsKey { column, value } => self.contains(column, value, true)?,
            Relation::Element { column, key, operator, value } => self.element(column, key, *operator, value)?,
            Relation::Token { columns, operator, value } => {
                return self.token(relation, columns, *operator, value).map(Restricted::Token);
            }
            Relation::Tuple { columns, operator, value } => self.multi(relation, columns, *operator, value)?,
            Relation::TupleIn { columns, values } => self.multi_in(relation, columns, values)?,
            Relation::Like { column, value } => return Err(self.like(relation, column, value)?),
            Relation::IsNotNull { column } => {
                self.find(column)?;
                return Err(CqlError::invalid(format!("Unsupported restriction: {relation}")));
            }
            Relation::CustomIndex { index, .. } => {
                return Err(CqlError::invalid(format!(
                    "Invalid index expression, the index {index} does not exist on the table"
                )));
            }
        };
        Ok(Restricted::Columns(restriction))
    }

    fn find(&self, name: &Ident) -> Result<(usize, &'b Column), CqlError> {
        let at = names::place(self.table, name)?;
        Ok((at, &self.table.columns[at]))
    }

    fn single(
        &mut self,
        relation: &Relation,
        name: &Ident,
        operator: Operator,
        value: &ast::Term,
    ) -> Result<Restriction, CqlError> {
        let (at, column) = self.find(name)?;
        if operator == Operator::Ne {
            return Err(unsupported_not_equal(relation));
        }
        check_comparable(column, operator.symbol())?;
        if operator != Operator::Eq {
            check_ordered(&column.ty)?;
        }
        let receiver = ColumnSpec::of_column(self.table, column);
        let values = Tuple::Columns(vec![Term::prepare(value, &receiver, self.scope)?]);
        Ok(Restriction { columns: vec![at], is_multi: false, kind: compared(operator, values) })
    }

    fn single_in(&mut self, name: &Ident, values: &InValues) -> Result<Restriction, CqlError> {
        let (at, column) = self.find(name)?;
        check_comparable(column, "IN")?;
        let receiver = ColumnSpec::of_column(self.table, column);
        let kind = match values {
            InValues::Marker(marker) => {
                RestrictionKind::In(InList::Whole(Term::marker(*marker, &receiver.in_spec(), self.scope)))
            }
            InValues::List(terms) => {
                let prepared = terms
                    .iter()
                    .map(|term| Ok(Tuple::Columns(vec![Term::prepare(term, &receiver, self.scope)?])))
                    .collect::<Result<Vec<_>, CqlError>>()?;
                one_of(prepared)
            }
        };
        Ok(Restriction { columns: vec![at], is_multi: false, kind })
    }

    fn contains(&mut self, name: &Ident, value: &ast::Term, is_key: bool) -> Result<Restriction, CqlError> {
        let (at, column) = self.find(name)?;
        let receiver = ColumnSpec::of_column(self.table, column);
        let element = match (column.ty.unfrozen(), is_key) {
            (CqlType::Map(key, _), true) => receiver.key_spec(key),
            (CqlType::Map(_, element) | CqlType::List(element) | CqlType::Set(element), false) => {
                receiver.value_spec(element)
            }
            (_, true) => {
                return Err(CqlError::invalid(format!("Cannot use CONTAINS KEY on non-map column {name}")));
            }
            (_, false) => {
                return Err(CqlError::invalid(format!("Cannot use CONTAINS on non-collection column {name}")));
            }
        };
        let term = vec![Term::prepare(value, &element, self.scope)?];
        let contents = if is_key {
            Contents { keys: term, ..Contents::default() }
        } else {
            Contents { values: term, ..Contents::default() }
        };
        Ok(Restriction { columns: vec![at], is_multi: false, kind: RestrictionKind::Contains(contents) })
    }

    fn element(
        &mut self,
        name: &Ident,
        key: &ast::Term,
        operator: Operator,
        value: &ast::Term,
    ) -> Result<Restriction, CqlError> {
        let (at, column) = self.find(name)?;
        let (key_type, value_type) = match (&column.ty, column.ty.unfrozen()) {
            (_, CqlType::List(_)) => {
                return Err(CqlError::invalid(format!(
                    "Indexes on list entries ({name}[index] = value) are not currently supported."
                )));
            }
            (CqlType::Map(key, value), _) => (key, value),
            (_, CqlType::Map(..)) => {
                return Err(CqlError::invalid(format!(
                    "Map-entry equality predicates on frozen map column {name} are not supported"
                )));
            }
            _ => return Err(CqlError::invalid(format!("Column {name} cannot be used as a map"))),
        };
        if operator != Operator::Eq {
            return Err(CqlError::invalid("Only EQ relations are supported on map entries"));
        }
        let receiver = ColumnSpec::of_column(self.table, column);
        let (key_spec, value_spec) = (receiver.key_spec(key_type), receiver.value_spec(value_type));
        let key = Term::prepare(key, &key_spec, self.scope)?;
        let value = Term::prepare(value, &value_spec, self.scope)?;
        let contents = Contents { entries: vec![(key, value)], ..Contents::default() };
        Ok(Restriction { columns: vec![at], is_multi: false, kind: RestrictionKind::Contains(contents) })
    }

    /// LIKE needs an index, and there is none: the error that it gets.
    fn like(&mut self, relation: &Relation, name: &Ident, value: &ast::Term) -> Result<CqlError, CqlError> {
        let (_, column) = self.find(name)?;
        let receiver = ColumnSpec::of_column(self.table, column);
        Term::prepare(value, &receiver, self.scope)?;
        Ok(CqlError::invalid(format!(
            "LIKE restriction is only supported on properly indexed columns. {relation} is not valid."
        )))
    }

    fn token(
        &mut self,
        relation: &Relation,
        names: &[Ident],
        operator: Operator,
        value: &ast::Term,
    ) -> Result<Restriction, CqlError> {
        let columns = names.iter().map(|name| Ok(self.find(name)?.0)).collect::<Result<Vec<_>, CqlError>>()?;
        if operator == Operator::Ne {
            return Err(unsupported_not_equal(relation));
        }
        let key: Vec<usize> = (0..self.table.partition_key().count()).collect();
        if columns != key {
            return Err(CqlError::invalid(self.misplaced_token(&columns, &key)));
        }
        let receiver = ColumnSpec {
            keyspace: self.table.keyspace.clone(),
            table: self.table.name.clone(),
            name: "partition key token".to_owned(),
            ty: CqlType::BigInt,
        };
        let values = Tuple::Columns(vec![Term::prepare(value, &receiver, self.scope)?]);
        Ok(Restriction { columns, is_multi: true, kind: compared(operator, values) })
    }

    fn misplaced_token(&self, columns: &[usize], key: &[usize]) -> String {
        // The key's columns are the first ones.
        let mut named = columns.to_vec();
        named.sort_unstable();
        let count = named.len();
        named.dedup();
        if !named.starts_with(key) {
            return "The token() function must be applied to all partition key components or none of them".to_owned();
        }
        if named.len() < count {
            return "The token() function contains duplicate partition key components".to_owned();
        }
        if named.len() > key.len() {
            return "The token() function must contains only partition key components".to_owned();
        }
        let names: Vec<&str> = self.table.partition_key().map(|column| column.name.as_str()).collect();
        format!("The token function arguments must be in the partition key order: {}", names.join(", "))
    }

    /// The clustering columns of `(a, b)`, neighbours in their order.
    fn clustering(&self, relation: &Relation, names: &[Ident]) -> Result<Vec<usize>, CqlError> {
        let mut columns: Vec<usize> = Vec::with_capacity(names.len());
        for name in names {
            let (at, column) = self.find(name)?;
            if !matches!(column.kind, ColumnKind::Clustering { .. }) {
                return Err(CqlError::invalid(format!(
                    "Multi-column relations can only be applied to clustering columns but was applied to: {name}"
                )));
            }
            if columns.contains(&at) {
                return Err(CqlError::invalid(format!("Column \"{name}\" appeared twice in a relation: {relation}")));
            }
            if columns.last().is_some_and(|last| *last + 1 != at) {
                return Err(CqlError::invalid(format!(
                    "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {relation}"
                )));
            }
            columns.push(at);
        }
        Ok(columns)
    }

    /// What a marker for all of these columns takes.
    fn tuple_spec(&self, columns: &[usize]) -> ColumnSpec {
        let columns = || columns.iter().filter_map(|at| self.table.columns.get(*at));
        let names: Vec<&str> = columns().map(|column| column.name.as_str()).collect();
        ColumnSpec {
            keyspace: self.table.keyspace.clone(),
            table: self.table.name.clone(),
            name: format!("({})", names.join(",")),
            ty: CqlType::tuple(columns().map(|column| column.ty.clone())),
        }
    }

    fn tuple(&mut self, columns: &[usize], value: &ast::Term) -> Result<Tuple, CqlError> {
        let items = match value {
            ast::Term::Tuple(items) => items,
            ast::Term::Marker(marker) => {
                let spec = self.tuple_spec(columns);
                return Ok(Tuple::Whole(Term::marker(*marker, &spec, self.scope)));
            }
            other => return Err(CqlError::invalid(format!("{other} is not a tuple of values"))),
        };
        if items.len() != columns.len() {
            return Err(CqlError::invalid(format!(
                "Expected {} elements in value tuple, but got {}: {value}",
                columns.len(),
                items.len()
            )));
        }
        let mut terms = Vec::with_capacity(items.len());
        for (item, at) in items.iter().zip(columns) {
            if let Some(column) = self.table.columns.get(*at) {
                terms.push(Term::prepare(item, &ColumnSpec::of_column(self.table, column), self.scope)?);
            }
        }
        Ok(Tuple::Columns(terms))
    }

    fn multi(
        &mut self,
        relation: &Relation,
        names: &[Ident],
        operator: Operator,
        value: &ast::Term,
    ) -> Result<Restriction, CqlError> {
        let columns = self.clustering(relation, names)?;
        if operator == Operator::Ne {
            return Err(unsupported_not_equal(relation));
        }
        if operator != Operator::Eq {
            for column in columns.iter().filter_map(|at| self.table.columns.get(*at)) {
                check_ordered(&column.ty)?;
            }
        }
        let values = self.tuple(&columns, value)?;
        Ok(Restriction { columns, is_multi: true, kind: compared(operator, values) })
    }

    fn multi_in(&mut self, relation: &Relation, names: &[Ident], values: &InValues) -> Result<Restriction, CqlError> {
        let columns = self.clustering(relation, names)?;
        let kind = match values {
            InValues::Marker(marker) => {
                let spec = self.tuple_spec(&columns);
                // Such as `in(a,b)`, of lists of tuples.
                let list = spec.renamed(format!("in{}", spec.name), CqlType::list(spec.ty.clone()));
                RestrictionKind::In(InList::Whole(Term::marker(*marker, &list, self.scope)))
            }
            InValues::List(tuples) => {
                one_of(tuples.iter().map(|tuple| self.tuple(&columns, tuple)).collect::<Result<Vec<_>, _>>()?)
            }
        };
        Ok(Restriction { columns, is_multi: true, kind })
    }
}

/// IN of one value is an equality.
fn one_of(mut values: Vec<Tuple>) -> RestrictionKind {
    if values.len() == 1
        && let Some(value) = values.pop()
    {
        return RestrictionKind::Equal(value);
    }
    RestrictionKind::In(InList::Tuples(values))
}

fn compared(operator: Operator, values: Tuple) -> RestrictionKind {
    let is_inclusive = matches!(operator, Operator::Le | Operator::Ge);
    match operator {
        Operator::Eq | Operator::Ne => RestrictionKind::Equal(values),
        Operator::Gt | Operator::Ge => {
            RestrictionKind::Slice { lower: Some(Bound { values, is_inclusive }), upper: None }
        }
        Operator::Lt | Operator::Le => {
            RestrictionKind::Slice { lower: None, upper: Some(Bound { values, is_inclusive }) }
        }
    }
}

fn unsupported_not_equal(relation: &Relation) -> CqlError {
    CqlError::invalid(format!("Unsupported \"!=\" relation: {relation}"))
}

/// Values that are stored cell by cell cannot be compared as a whole.
fn check_comparable(column: &Column, operator: &str) -> Result<(), CqlError> {
    if !column.ty.is_multi_cell() {
        return Ok(());
    }
    let (name, ty) = (&column.name, &column.ty);
    Err(CqlError::invalid(if ty.as_udt().is_some() {
        format!("Non-frozen UDT column '{name}' ({ty}) cannot be restricted by any relation")
    } else {
        format!("Collection column '{name}' ({ty}) cannot be restricted by a '{operator}' relation")
    }))
}

fn check_ordered(ty: &CqlType) -> Result<(), CqlError> {
    if !ty.contains_duration() {
        return Ok(());
    }
    let what = match ty.unfrozen() {
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) => "collections containing durations",
        CqlType::Tuple(_) => "tuples containing durations",
        CqlType::Udt(_) => "UDTs containing durations",
        _ => "duration columns",
    };
    Err(CqlError::invalid(format!("Slice restrictions are not supported on {what}")))
}
