//! A statement with its schema, ready for many executions: what PREPARE makes and EXECUTE runs. QUERY does both.

use std::rc::Rc;

use crate::base::collections::{HashMap, hasher};
use crate::cql::Parsed;
use crate::cql::ast::{Describe, Modification, QualifiedName, Statement};
use crate::plan::markers::Markers;
use crate::plan::select::{PointSelect, PreparedSelect};
use crate::plan::write::{PointWrite, PreparedBatch, PreparedWrite, Surroundings};
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

    /// What it is where it writes one row by its whole primary key and has nothing to warn of.
    pub fn point_write(&self) -> Option<(&PointWrite, &Rc<Table>)> {
        match &self.statement {
            Kind::Write(write) if self.warnings.is_empty() => write.point.as_ref().map(|point| (point, write.table())),
            _ => None,
        }
    }

    /// What it is where it reads one row by its whole primary key and has nothing to warn of.
    pub fn point_select(&self) -> Option<(&PointSelect, &Table)> {
        match &self.statement {
            Kind::Select(select) if self.warnings.is_empty() => {
                select.point.as_ref().map(|point| (point, &*select.table))
            }
            _ => None,
        }
    }

    /// Whether it is a batch, which may write several tables.
    pub fn is_batch(&self) -> bool {
        matches!(self.statement, Kind::Batch(_))
    }

    /// Whether it reads or writes rows: what else there is happens once, and changes what other statements mean.
    pub fn reads_or_writes(&self) -> bool {
        matches!(self.statement, Kind::Select(_) | Kind::Write(_) | Kind::Batch(_))
    }

    /// Whether it changes the schema.
    pub fn is_ddl(&self) -> bool {
        matches!(self.statement, Kind::Ddl)
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
        // Of a name given twice the last value counts.
        let mut named: HashMap<&str, Value<'v>> = HashMap::with_hasher(hasher());
        named.extend(values.iter().filter_map(|(name, value)| Some((name?, value))));
        self.variables.iter().filter_map(|variable| named.get(variable.name.as_str()).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::testing;

    fn schema() -> Schema {
        testing::schema(&[
            "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))",
            "CREATE TABLE u (k int PRIMARY KEY)",
        ])
    }

    fn prepared(cql: &str) -> Result<Prepared, String> {
        let parsed = crate::cql::parse(cql).unwrap();
        prepare(&parsed, &schema(), Some("ks")).map_err(|error| error.message().to_owned())
    }

    fn check_variables(cql: &str, names: &[&str], key: &[u16]) {
        let prepared = prepared(cql).unwrap();
        assert_eq!(prepared.variables.iter().map(|v| v.name.as_str()).collect::<Vec<_>>(), names, "{cql}");
        assert_eq!(prepared.pk_indexes, key, "{cql}");
    }

    #[test]
    fn variables_are_named_after_what_receives_them() {
        check_variables("SELECT * FROM t WHERE k = ? LIMIT ?", &["k", "[limit]"], &[0]);
        check_variables("INSERT INTO t (v, k, c) VALUES (?, ?, 1) USING TTL ?", &["v", "k", "[ttl]"], &[1]);
        check_variables("INSERT INTO t (k, c, v) VALUES (:k, :c, :k)", &["k", "c", "k"], &[0]);
        check_variables("INSERT INTO t JSON ?", &["[json]"], &[]);
        check_variables("DELETE FROM t WHERE k IN ? AND (c) = (?)", &["in(k)", "c"], &[]);
        check_variables("DELETE FROM t WHERE k = ? AND (c) IN ?", &["k", "in(c)"], &[0]);
        let batch = "BEGIN BATCH INSERT INTO t (k, c) VALUES (?, 1); DELETE FROM t WHERE k = ?; APPLY BATCH";
        check_variables(batch, &["k", "k"], &[1]);
        let timed = "BEGIN BATCH USING TIMESTAMP ? INSERT INTO t (k, c) VALUES (?, 1); APPLY BATCH";
        check_variables(timed, &["[timestamp]", "k"], &[]);
        let tables = "BEGIN BATCH INSERT INTO t (k, c) VALUES (?, 1); DELETE FROM u WHERE k = ?; APPLY BATCH";
        check_variables(tables, &["k", "k"], &[]);
    }

    #[test]
    fn wrong_numbers_of_values_are_refused_in_two_ways() {
        let prepared = prepared("DELETE FROM t WHERE k = ? AND c = ?").unwrap();
        let error = prepared.bind(&[Value::Null], &schema(), &testing::options()).unwrap_err();
        assert_eq!(error.message(), "Invalid amount of bind variables");
        let error = prepared.check_count(1).unwrap_err();
        assert_eq!(error.message(), "there were 2 markers(?) in CQL but 1 bound variables");
        assert!(prepared.check_count(2).is_ok());
    }

    #[test]
    fn keyspaces_and_tables_are_looked_up_when_a_statement_runs() {
        let run = |cql: &str| {
            let plan = prepared(cql).unwrap().bind(&[], &schema(), &testing::options());
            plan.map(|plan| format!("{plan:?}").chars().take(10).collect::<String>())
                .map_err(|error| error.message().to_owned())
        };
        assert_eq!(run("USE ks"), Ok("Use(\"ks\")".to_owned()));
        assert_eq!(run("USE other"), Err("Keyspace 'other' does not exist".to_owned()));
        assert!(run("TRUNCATE t").is_ok());
        assert_eq!(run("TRUNCATE ks.x"), Err("table x does not exist".to_owned()));
        assert_eq!(run("CREATE TABLE x (k int PRIMARY KEY)"), Ok("Ddl".to_owned()));
    }

    #[test]
    fn roles_are_refused_by_name() {
        let error = prepared("CREATE ROLE r").map(|_| ()).unwrap_err();
        assert_eq!(error, "Roles and permissions are not supported yet");
    }
}
