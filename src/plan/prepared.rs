//! A statement with its schema, ready for many executions: what PREPARE makes and EXECUTE runs. QUERY does both.

use std::rc::Rc;

use crate::cql::Parsed;
use crate::cql::ast::{Describe, Modification, QualifiedName, Statement};
use crate::plan::markers::Markers;
use crate::plan::select::PreparedSelect;
use crate::plan::write::{PreparedBatch, PreparedWrite, Surroundings};
use crate::plan::{ColumnSpec, Plan, RequestOptions, names};
use crate::protocol::{CqlError, Value, Values};
use crate::schema::{Schema, Table};

/// A statement ready for execution.
#[derive(Debug)]
pub struct Prepared {
    pub(super) statement: Kind,
    /// The current keyspace when it was prepared; it stays bound to that.
    pub keyspace: Option<String>,
    /// The table it reads or writes; none where a batch has several.
    pub table: Option<Rc<Table>>,
    pub variables: Vec<ColumnSpec>,
    /// Which variables give the partition key, by its columns in order; empty unless all are given by variables.
    pub pk_indexes: Vec<u16>,
    /// The columns of its result; empty where it gives no rows.
    pub columns: Vec<ColumnSpec>,
    pub warnings: Vec<String>,
    /// Whether the text names every keyspace, so that its id is the same in any.
    pub names_keyspaces: bool,
}

#[derive(Debug)]
pub(super) enum Kind {
    Select(Box<PreparedSelect>),
    Write(Box<PreparedWrite>),
    Batch(PreparedBatch),
    Use(String),
    Truncate(QualifiedName),
    Describe(Box<Describe>),
    /// The text is planned anew where the schema is changed.
    Ddl,
}

/// What a statement comes to once it is prepared.
struct Outcome {
    statement: Kind,
    table: Option<Rc<Table>>,
    columns: Vec<ColumnSpec>,
}

impl Outcome {
    /// Of a statement without table, rows and variables.
    fn plain(statement: Kind) -> Outcome {
        Outcome { statement, table: None, columns: Vec::new() }
    }
}

/// Makes a parsed statement ready. `keyspace` is the current one.
pub fn prepare(parsed: &Parsed, schema: &Schema, keyspace: Option<&str>) -> Result<Prepared, CqlError> {
    let mut markers = Markers::new(&parsed.bind_markers);
    let mut around = Surroundings { schema, keyspace, markers: &mut markers };
    let outcome = match &parsed.statement {
        Statement::Select(select) => {
            let select = PreparedSelect::prepare(select, schema, keyspace, &mut markers)?;
            let (table, columns) = (Some(select.table.clone()), select.columns.to_vec());
            Outcome { statement: Kind::Select(Box::new(select)), table, columns }
        }
        Statement::Insert(insert) => write(&Modification::Insert(insert.clone()), &mut around)?,
        Statement::InsertJson(insert) => write(&Modification::InsertJson(insert.clone()), &mut around)?,
        Statement::Update(update) => write(&Modification::Update(update.clone()), &mut around)?,
        Statement::Delete(delete) => write(&Modification::Delete(delete.clone()), &mut around)?,
        Statement::Batch(batch) => {
            let batch = PreparedBatch::prepare(batch, &mut around)?;
            let table = batch.only_table().cloned();
            Outcome { statement: Kind::Batch(batch), table, columns: Vec::new() }
        }
        Statement::Use(name) => Outcome::plain(Kind::Use(name.to_string())),
        Statement::Truncate(name) => Outcome::plain(Kind::Truncate(qualified(name, keyspace))),
        Statement::Describe(describe) => Outcome::plain(Kind::Describe(Box::new(describe.clone()))),
        Statement::Access(_) => return Err(CqlError::invalid("Roles and permissions are not supported yet")),
        _ => Outcome::plain(Kind::Ddl),
    };
    let (variables, pk_indexes) = markers.finish(outcome.table.as_deref())?;
    Ok(Prepared {
        statement: outcome.statement,
        keyspace: keyspace.map(str::to_owned),
        table: outcome.table,
        variables,
        pk_indexes,
        columns: outcome.columns,
        warnings: Vec::new(),
        names_keyspaces: names_keyspaces(&parsed.statement),
    })
}

/// As Cassandra 5.0 has it (`isFullyQualified`): reads, modifications and batches of them; nothing else.
fn names_keyspaces(statement: &Statement) -> bool {
    let named = |table: &QualifiedName| table.keyspace.is_some();
    match statement {
        Statement::Select(select) => named(&select.table),
        Statement::Insert(insert) => named(&insert.table),
        Statement::InsertJson(insert) => named(&insert.table),
        Statement::Update(update) => named(&update.table),
        Statement::Delete(delete) => named(&delete.table),
        Statement::Batch(batch) => batch.statements.iter().all(|modification| match modification {
            Modification::Insert(insert) => named(&insert.table),
            Modification::InsertJson(insert) => named(&insert.table),
            Modification::Update(update) => named(&update.table),
            Modification::Delete(delete) => named(&delete.table),
        }),
        _ => false,
    }
}

fn write(modification: &Modification, around: &mut Surroundings<'_>) -> Result<Outcome, CqlError> {
    let write = PreparedWrite::prepare(modification, around)?;
    let table = Some(write.table().clone());
    Ok(Outcome { statement: Kind::Write(Box::new(write)), table, columns: Vec::new() })
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
        match &self.statement {
            Kind::Select(select) => Ok(Plan::Read(Box::new(select.bind(values, options)?))),
            Kind::Write(write) => write.bind(values, options),
            Kind::Batch(batch) => batch.bind(values, options),
            Kind::Use(name) if schema.keyspace(name).is_some() => Ok(Plan::Use(name.clone())),
            Kind::Use(name) => Err(CqlError::invalid(format!("Keyspace '{name}' does not exist"))),
            Kind::Truncate(name) => {
                let table = names::table(schema, name, None)?;
                names::check_writable(table)?;
                Ok(Plan::Truncate(table.clone()))
            }
            Kind::Describe(describe) => Ok(Plan::Describe(describe.clone())),
            Kind::Ddl => Ok(Plan::Ddl),
        }
    }

    /// Whether it is a batch, which may write several tables.
    pub fn is_batch(&self) -> bool {
        matches!(self.statement, Kind::Batch(_))
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
