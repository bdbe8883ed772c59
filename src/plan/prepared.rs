//! A statement with its schema, ready for many executions: what PREPARE makes and EXECUTE runs. QUERY does both.

use std::rc::Rc;

use crate::cql::Parsed;
use crate::cql::ast::{QualifiedName, Statement};
use crate::plan::markers::Markers;
use crate::plan::{ColumnSpec, Plan, RequestOptions, names};
use crate::protocol::{CqlError, Value, Values};
use crate::schema::{Schema, Table};

/// A statement ready for execution.
#[derive(Debug)]
pub struct Prepared {
    pub(super) statement: Kind,
    /// The current keyspace when it was prepared; it stays bound to that.
    pub keyspace: Option<String>,
    /// The table it reads or writes; of a batch, the first statement's.
    pub table: Option<Rc<Table>>,
    pub variables: Vec<ColumnSpec>,
    /// Which variables give the partition key, by its columns in order; empty unless all are given by variables.
    pub pk_indexes: Vec<u16>,
    /// The columns of its result; empty where it gives no rows.
    pub columns: Vec<ColumnSpec>,
    pub warnings: Vec<String>,
}

#[derive(Debug)]
pub(super) enum Kind {
    Use(String),
    Truncate(QualifiedName),
    /// The text is planned anew where the schema is changed.
    Ddl,
}

/// What each kind of statement makes of itself.
pub(super) struct Outcome {
    pub statement: Kind,
    pub table: Option<Rc<Table>>,
    /// Whether the variables may give the partition key of `table`.
    pub has_key: bool,
    pub columns: Vec<ColumnSpec>,
    pub warnings: Vec<String>,
}

impl Outcome {
    /// Of a statement without rows and variables.
    fn plain(statement: Kind) -> Outcome {
        Outcome { statement, table: None, has_key: false, columns: Vec::new(), warnings: Vec::new() }
    }
}

/// Makes a parsed statement ready. `keyspace` is the current one.
pub fn prepare(parsed: &Parsed, _schema: &Schema, keyspace: Option<&str>) -> Result<Prepared, CqlError> {
    let markers = Markers::new(&parsed.bind_markers);
    let outcome = match &parsed.statement {
        Statement::Use(name) => Outcome::plain(Kind::Use(name.to_string())),
        Statement::Truncate(name) => Outcome::plain(Kind::Truncate(qualified(name, keyspace))),
        Statement::Access(_) => return Err(CqlError::invalid("Roles and permissions are not supported yet")),
        Statement::Select(_)
        | Statement::Describe(_)
        | Statement::Insert(_)
        | Statement::InsertJson(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Batch(_) => return Err(CqlError::invalid("This statement is not supported yet")),
        _ => Outcome::plain(Kind::Ddl),
    };
    let table = outcome.table.as_deref().filter(|_| outcome.has_key);
    let (variables, pk_indexes) = markers.finish(table)?;
    Ok(Prepared {
        statement: outcome.statement,
        keyspace: keyspace.map(str::to_owned),
        table: outcome.table,
        variables,
        pk_indexes,
        columns: outcome.columns,
        warnings: outcome.warnings,
    })
}

/// The name with the current keyspace where it has none.
fn qualified(name: &QualifiedName, keyspace: Option<&str>) -> QualifiedName {
    let keyspace = name.keyspace.clone().or_else(|| keyspace.map(crate::cql::ast::Ident::quoted));
    QualifiedName { keyspace, name: name.name.clone() }
}

impl Prepared {
    /// What this execution asks. `values` are in the order of the variables.
    pub fn bind(&self, values: &[Value<'_>], schema: &Schema, options: &RequestOptions<'_>) -> Result<Plan, CqlError> {
        if values.len() != self.variables.len() {
            return Err(CqlError::invalid("Invalid amount of bind variables"));
        }
        let _ = options;
        match &self.statement {
            Kind::Use(name) if schema.keyspace(name).is_some() => Ok(Plan::Use(name.clone())),
            Kind::Use(name) => Err(CqlError::invalid(format!("Keyspace '{name}' does not exist"))),
            Kind::Truncate(name) => {
                let table = names::table(schema, name, None)?;
                names::check_writable(table)?;
                Ok(Plan::Truncate(table.clone()))
            }
            Kind::Ddl => Ok(Plan::Ddl),
        }
    }

    /// EXECUTE's own words for a wrong number of values; QUERY's are `bind`'s.
    pub fn check_count(&self, given: usize) -> Result<(), CqlError> {
        let wanted = self.variables.len();
        if given == wanted {
            return Ok(());
        }
        Err(CqlError::invalid(format!("there were {wanted} markers(?) in CQL but {given} bound variables")))
    }

    /// The values in the order of the variables. Of named values each variable takes the one of its name; a value that
    /// is missing makes the list shorter, and one that no variable names is left out.
    pub fn order_named<'v>(&self, values: Values<'v>) -> Vec<Value<'v>> {
        if !values.is_named() {
            return values.iter().map(|(_, value)| value).collect();
        }
        let named: Vec<_> = values.iter().collect();
        let find = |name: &str| named.iter().rev().find(|(given, _)| *given == Some(name)).map(|(_, value)| *value);
        self.variables.iter().filter_map(|variable| find(&variable.name)).collect()
    }
}
