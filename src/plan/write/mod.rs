//! INSERT, UPDATE, DELETE and BATCH: from a statement to encoded mutations, one for each table and partition.
//!
//! `prepare` checks all that does not depend on values; `bind` finds the partitions and encodes. What must read before
//! it writes (counters, list elements by index or value) becomes a draft, which the partition's owner resolves. IF is
//! prepared, so that clients learn its variables, and refused when it is bound.

mod batch;
mod conditions;
mod encode;
mod json;
mod operation;
mod point;
mod restrictions;
mod rows;
#[cfg(test)]
mod testing;
mod timing;

use std::fmt;
use std::rc::Rc;

use crate::base::collections::{HashSet, hasher};
use crate::cql::ast;
use crate::plan::markers::Markers;
use crate::plan::term::{Scope, Term, invalid};
use crate::plan::{ColumnSpec, names};
use crate::protocol::CqlError;
use crate::schema::{Column, ColumnKind, Schema, Table};

pub use batch::{BatchLimits, PreparedBatch, bind_batch};
pub use encode::{CHANGES_MAX, ENCODED_BYTES_MAX, JSON_VALUES_MAX};
pub use point::PointWrite;
pub use rows::COMBINATIONS_MAX;
pub use timing::{EXPIRES_S_MAX, TTL_S_MAX};

use conditions::Conditions;
use json::JsonInsert;
use operation::Operation;
use restrictions::Where;
use timing::Using;

/// The kinds of modification, by the names that errors have for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Insert,
    Update,
    Delete,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Insert => "INSERT",
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
        })
    }
}

/// A modification ready for binding.
#[derive(Clone, Debug)]
pub struct PreparedWrite {
    table: Rc<Table>,
    verb: Verb,
    which: Where,
    operations: Vec<Operation>,
    using: Using,
    conditions: Conditions,
    /// INSERT JSON: the text gives the values of the columns, which stand as markers in the rest.
    json: Option<JsonInsert>,
    /// What it is as well, where it is no more than a write of one row.
    pub point: Option<PointWrite>,
}

/// Where a modification is prepared: the schema, the current keyspace, the markers of the whole statement.
pub(super) struct Surroundings<'s> {
    pub schema: &'s Schema,
    pub keyspace: Option<&'s str>,
    pub markers: &'s mut Markers,
}

impl PreparedWrite {
    /// Makes a modification ready.
    pub(super) fn prepare(
        statement: &ast::Modification,
        around: &mut Surroundings<'_>,
    ) -> Result<PreparedWrite, CqlError> {
        let table = names::table(around.schema, statement.table(), around.keyspace)?.clone();
        names::check_writable(&table)?;
        let mut scope = Scope::new(around.schema, &table.keyspace, Some(&table), &mut *around.markers);
        let mut write = match statement {
            ast::Modification::Insert(insert) => prepare_insert(&table, insert, &mut scope),
            ast::Modification::InsertJson(insert) => json::prepare(&table, insert, &mut scope),
            ast::Modification::Update(update) => prepare_update(&table, update, &mut scope),
            ast::Modification::Delete(delete) => prepare_delete(&table, delete, &mut scope),
        }?;
        write.check()?;
        write.point = PointWrite::of(&write);
        Ok(write)
    }

    /// Neither INSERT JSON nor known to be of one row: that is added.
    fn new(
        table: &Rc<Table>,
        verb: Verb,
        which: Where,
        operations: Vec<Operation>,
        using: Using,
        conditions: Conditions,
    ) -> PreparedWrite {
        PreparedWrite { table: table.clone(), verb, which, operations, using, conditions, json: None, point: None }
    }

    pub fn table(&self) -> &Rc<Table> {
        &self.table
    }

    fn is_conditional(&self) -> bool {
        !self.conditions.is_none()
    }

    /// The rules between the clauses.
    fn check(&self) -> Result<(), CqlError> {
        let (timestamp, ttl) = (self.using.timestamp.is_some(), self.using.ttl.is_some());
        if self.is_conditional() && self.table.is_counter {
            return Err(invalid("Conditional updates are not supported on counter tables"));
        }
        if self.is_conditional() && timestamp {
            return Err(invalid("Cannot provide custom timestamp for conditional updates"));
        }
        if self.table.is_counter && timestamp {
            return Err(invalid("Cannot provide custom timestamp for counter updates"));
        }
        if self.table.is_counter && ttl {
            return Err(invalid("Cannot provide custom TTL for counter updates"));
        }
        Ok(())
    }
}

fn only_static(operations: &[Operation], conditions: &Conditions) -> bool {
    let no_regular = operations.iter().all(|operation| operation.is_static) && !conditions.has_regular();
    no_regular && (!operations.is_empty() || conditions.has_static())
}

fn prepare_insert(table: &Rc<Table>, insert: &ast::Insert, scope: &mut Scope<'_>) -> Result<PreparedWrite, CqlError> {
    let using = Using::prepare(&insert.using, table, scope)?;
    if table.is_counter {
        return Err(invalid("INSERT statements are not allowed on counter tables, use UPDATE instead"));
    }
    if insert.columns.is_empty() {
        return Err(invalid("No columns provided to INSERT"));
    }
    if insert.columns.len() != insert.values.len() {
        return Err(invalid("Unmatched column names/values"));
    }
    let mut names: HashSet<&ast::Ident> = HashSet::with_hasher(hasher());
    if insert.columns.iter().any(|name| !names.insert(name)) {
        return Err(invalid("The column names contains duplicates"));
    }
    let mut keys = Vec::new();
    let mut operations = Vec::new();
    for (name, value) in insert.columns.iter().zip(&insert.values) {
        let column = names::column(table, name)?;
        match column.kind {
            ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. } => keys.push((column, value)),
            ColumnKind::Static | ColumnKind::Regular => {
                operations.push(Operation::set(table, column, value, scope)?);
            }
        }
    }
    let mut terms = Vec::with_capacity(keys.len());
    for (column, value) in keys {
        terms.push((column, Term::prepare(value, &ColumnSpec::of_column(table, column), scope)?));
    }
    insert_of_terms(table, terms, operations, using, Conditions::if_not_exists(insert.if_not_exists))
}

/// An INSERT of these values into the key columns, and of these operations on others.
fn insert_of_terms(
    table: &Rc<Table>,
    keys: Vec<(&Column, Term)>,
    operations: Vec<Operation>,
    using: Using,
    conditions: Conditions,
) -> Result<PreparedWrite, CqlError> {
    let has_clustering = keys.iter().any(|(column, _)| matches!(column.kind, ColumnKind::Clustering { .. }));
    let only_static = !has_clustering && only_static(&operations, &conditions);
    let which = Where::of_insert(table, keys, only_static)?;
    Ok(PreparedWrite::new(table, Verb::Insert, which, operations, using, conditions))
}

fn prepare_update(table: &Rc<Table>, update: &ast::Update, scope: &mut Scope<'_>) -> Result<PreparedWrite, CqlError> {
    let using = Using::prepare(&update.using, table, scope)?;
    let conditions = Conditions::prepare(table, &update.condition, scope)?;
    let mut operations = Vec::with_capacity(update.assignments.len());
    for assignment in &update.assignments {
        let column = names::column(table, &assignment.column)?;
        if matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. }) {
            return Err(invalid(format!("PRIMARY KEY part {} found in SET part", column.name)));
        }
        operations.push(Operation::update(table, column, assignment, !conditions.is_none(), scope)?);
    }
    let only_static = only_static(&operations, &conditions);
    let which = Where::prepare(table, Verb::Update, &update.relations, only_static, scope)?;
    Ok(PreparedWrite::new(table, Verb::Update, which, operations, using, conditions))
}

fn prepare_delete(table: &Rc<Table>, delete: &ast::Delete, scope: &mut Scope<'_>) -> Result<PreparedWrite, CqlError> {
    let using = Using::prepare(&delete.using, table, scope)?;
    let conditions = Conditions::prepare(table, &delete.condition, scope)?;
    let mut operations = Vec::with_capacity(delete.deletions.len());
    for deletion in &delete.deletions {
        let column = names::column(table, &deletion.column)?;
        if matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. }) {
            let name = &column.name;
            return Err(invalid(format!("Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)")));
        }
        operations.push(Operation::delete(table, column, &deletion.target, scope)?);
    }
    let only_static = !operations.is_empty() && only_static(&operations, &conditions);
    let which = Where::prepare(table, Verb::Delete, &delete.relations, only_static, scope)?;
    let changes_rows = operations.is_empty() || operations.iter().any(|operation| !operation.is_static);
    if !conditions.is_none() && !table.is_counter && changes_rows && !which.names_rows(table) {
        return Err(invalid(
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to delete non \
             static columns",
        ));
    }
    Ok(PreparedWrite::new(table, Verb::Delete, which, operations, using, conditions))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::testing::{check, check_refused, plan_with, words, write};
    use crate::plan::testing;
    use crate::plan::{Plan, RequestOptions};
    use crate::protocol::{Consistency, Value};
    use crate::schema::Schema;

    fn schema() -> Schema {
        testing::schema(&[
            "CREATE TABLE t (k int, c int, s int static, v int, w text, PRIMARY KEY (k, c))",
            "CREATE TABLE plain (k int PRIMARY KEY, v int, w int)",
            "CREATE TABLE pair (a int, b text, v int, PRIMARY KEY ((a, b)))",
            "CREATE TABLE text (k text PRIMARY KEY, v int)",
            "CREATE TABLE ttl (k int PRIMARY KEY, v int) WITH default_time_to_live = 60",
            "CREATE TABLE n (k int PRIMARY KEY, n counter)",
        ])
    }

    #[test]
    fn an_insert_makes_its_row_live_and_an_update_does_not() {
        let schema = schema();
        check(&schema, "INSERT INTO t (k, c) VALUES (1, 2)", &["t 1: row(2) live"]);
        check(&schema, "INSERT INTO t (c, v, k) VALUES (2, 3, 1)", &["t 1: row(2) live v=3"]);
        check(&schema, "UPDATE t SET v = 3 WHERE k = 1 AND c = 2", &["t 1: row(2) v=3"]);
        check(&schema, "INSERT INTO plain (k) VALUES (1)", &["plain 1: row() live"]);
        check(&schema, "UPDATE plain SET v = 1, w = null WHERE k = 1", &["plain 1: row() v=1 -w"]);
    }

    #[test]
    fn statics_go_to_the_static_row() {
        let schema = schema();
        check(&schema, "INSERT INTO t (k, s) VALUES (1, 2)", &["t 1: static s=2"]);
        check(&schema, "INSERT INTO t (k, c, s) VALUES (1, 2, 3)", &["t 1: row(2) live static s=3"]);
        check(&schema, "UPDATE t SET s = 2 WHERE k = 1", &["t 1: static s=2"]);
        check(&schema, "UPDATE t SET s = 2, v = 3 WHERE k = 1 AND c = 4", &["t 1: row(4) v=3 static s=2"]);
        check(&schema, "DELETE s FROM t WHERE k = 1", &["t 1: static -s"]);
        let only = "Invalid restrictions on clustering columns since the DELETE statement modifies only static columns";
        check_refused(&schema, "DELETE s FROM t WHERE k = 1 AND c = 1", only);
    }

    #[test]
    fn times_to_live_and_timestamps_stand_in_each_cell() {
        let schema = schema();
        let cql = "INSERT INTO t (k, c, v) VALUES (1, 2, 3) USING TIMESTAMP 5 AND TTL 10";
        check(&schema, cql, &["t 1: row(2) live@5~10 v=3@5~10"]);
        check(&schema, "UPDATE t USING TTL 9 SET v = 1, w = null WHERE k = 1 AND c = 2", &["t 1: row(2) v=1~9 -w"]);
        check(&schema, "UPDATE ttl SET v = 1 WHERE k = 1", &["ttl 1: row() v=1~60"]);
        check(&schema, "UPDATE ttl USING TTL 0 SET v = 1 WHERE k = 1", &["ttl 1: row() v=1"]);
        check(&schema, "DELETE v FROM t USING TIMESTAMP 7 WHERE k = 1 AND c = 2", &["t 1: row(2) -v@7"]);
    }

    #[test]
    fn each_partition_of_an_in_gets_a_mutation() {
        let schema = schema();
        let cql = "UPDATE t SET v = 7 WHERE k IN (2, 1, 2) AND c IN (4, 3)";
        check(&schema, cql, &["t 1: row(3) v=7 row(4) v=7", "t 2: row(3) v=7 row(4) v=7"]);
        check(&schema, "UPDATE t SET v = 7 WHERE k IN () AND c = 1", &[]);
        check(&schema, "INSERT INTO pair (a, b, v) VALUES (1, 'x', 2)", &["pair 4000000010000017800: row() live v=2"]);
        check(&schema, "DELETE FROM plain WHERE k IN (1, 2)", &["plain 1: -all", "plain 2: -all"]);
    }

    #[test]
    fn unset_values_write_nothing_and_null_values_delete() {
        let schema = schema();
        let one = 1i32.to_be_bytes();
        let run = |value| words(&schema, "INSERT INTO plain (k, v) VALUES (?, ?)", &[Value::Bytes(&one), value]);
        assert_eq!(run(Value::Unset).unwrap(), ["plain 1: row() live"]);
        assert_eq!(run(Value::Null).unwrap(), ["plain 1: row() live -v"]);
        let run = |value| words(&schema, "UPDATE plain SET v = ? WHERE k = ?", &[value, Value::Bytes(&one)]);
        assert_eq!(run(Value::Unset).unwrap(), ["plain 1: row()"]);
        let run = |value| words(&schema, "UPDATE plain SET v = 1 WHERE k = ?", &[value]).unwrap_err();
        assert_eq!(run(Value::Unset), "Invalid unset value for column k");
        assert_eq!(run(Value::Null), "Invalid null value in condition for column k");
        assert_eq!(run(Value::Bytes(b"123")), "Expected 4 or 0 byte int (3)");
        assert_eq!(run(Value::Bytes(b"")), "Key may not be empty");
    }

    #[test]
    fn keys_have_limits() {
        let schema = schema();
        let long = vec![b'x'; 65_536];
        let run = |key: &[u8]| words(&schema, "INSERT INTO text (k) VALUES (?)", &[Value::Bytes(key)]).map(|_| ());
        assert_eq!(run(&long).unwrap_err(), "Key length of 65536 is longer than maximum of 65535");
        assert_eq!(run(&long[..65_535]), Ok(()));
        check(&schema, "INSERT INTO pair (a, b) VALUES (1, '')", &["pair 40000000100000000: row() live"]);
        let several = "UPDATE pair SET v = 1 WHERE a = 1 AND b = ?";
        let error = words(&schema, several, &[Value::Bytes(&long)]).unwrap_err();
        assert_eq!(error, "Key length of 65536 is longer than maximum of 65535");
    }

    #[test]
    fn an_insert_names_columns_and_values_that_belong_together() {
        let schema = schema();
        for (cql, expected) in [
            ("INSERT INTO t (k, c) VALUES (1)", "Unmatched column names/values"),
            ("INSERT INTO t (k, k, c) VALUES (1, 1, 1)", "The column names contains duplicates"),
            ("INSERT INTO t (k, c, x) VALUES (1, 1, 1)", "Undefined column name x in table ks.t"),
            ("INSERT INTO t (c) VALUES (1)", "Some partition key parts are missing: k"),
            ("INSERT INTO t (k, v) VALUES (1, 1)", "Some clustering keys are missing: c"),
            ("INSERT INTO t (k, c) VALUES (1, 'x')", "Invalid STRING constant (x) for \"c\" of type int"),
            ("INSERT INTO n (k) VALUES (1)", "INSERT statements are not allowed on counter tables, use UPDATE instead"),
            ("UPDATE t SET c = 1 WHERE k = 1", "PRIMARY KEY part c found in SET part"),
            ("DELETE k FROM t WHERE k = 1", "Invalid identifier k for deletion (should not be a PRIMARY KEY part)"),
        ] {
            check_refused(&schema, cql, expected);
        }
    }

    #[test]
    fn what_must_read_first_is_prepared_and_refused_when_bound() {
        let schema = schema();
        let if_exists = "Conditional updates (IF EXISTS) are not supported yet";
        check_refused(&schema, "UPDATE plain SET v = 1 WHERE k = 1 IF EXISTS", if_exists);
        let if_not = "Conditional updates (IF NOT EXISTS) are not supported yet";
        check_refused(&schema, "INSERT INTO plain (k) VALUES (1) IF NOT EXISTS", if_not);
        check_refused(
            &schema,
            "UPDATE plain USING TIMESTAMP 5 SET v = 1 WHERE k = 1 IF v = 2",
            "Cannot provide custom timestamp for conditional updates",
        );
        let parsed = crate::cql::parse("UPDATE plain SET v = ? WHERE k = ? IF v IN ? AND w = ?").unwrap();
        let prepared = crate::plan::prepare(&parsed, &schema, Some("ks")).unwrap();
        let names: Vec<&str> = prepared.variables.iter().map(|variable| variable.name.as_str()).collect();
        assert_eq!(names, ["v", "k", "in(v)", "w"]);
        assert_eq!(prepared.pk_indexes, [1]);
    }

    #[test]
    fn the_clients_timestamp_serves_the_whole_plan() {
        let schema = schema();
        let options = RequestOptions { timestamp: Some(77), ..testing::options() };
        let Plan::Write(plan) = plan_with(&schema, "UPDATE plain SET v = 1 WHERE k = 1", &[], &options).unwrap() else {
            panic!("an UPDATE is a write");
        };
        assert_eq!((plan.timestamp, plan.logged_batch), (Some(77), false));
        assert_eq!(write(&schema, "UPDATE plain SET v = 1 WHERE k = 1", &[]).unwrap().timestamp, None);
        let options = RequestOptions { consistency: Consistency::Serial, ..testing::options() };
        let error = plan_with(&schema, "UPDATE plain SET v = 1 WHERE k = 1", &[], &options).unwrap_err();
        assert_eq!(error, "You must use conditional updates for serializable writes");
    }

    /// As many as a table may have: were each looked for among the others, this would take longer than anyone waits.
    #[test]
    fn every_column_of_a_wide_table_is_named_at_once() {
        let names: Vec<String> = (0..9_999).map(|at| format!("c{}", at * 7 % 9_999)).collect();
        let schema = testing::schema(&[&format!("CREATE TABLE w (k int PRIMARY KEY, {} int)", names.join(" int, "))]);
        let cql = format!("INSERT INTO w (k, {}) VALUES (1{})", names.join(", "), ", 2".repeat(9_999));
        assert_eq!(words(&schema, &cql, &[]).unwrap()[0].matches("=2").count(), 9_999);
        let cql = format!("INSERT INTO w (k, {}, c5) VALUES (1{})", names.join(", "), ", 2".repeat(10_000));
        check_refused(&schema, &cql, "The column names contains duplicates");
        let cql = format!("UPDATE w SET {} = 2 WHERE k = 1", names.join(" = 2, "));
        assert_eq!(words(&schema, &cql, &[]).unwrap()[0].matches("=2").count(), 9_999);
    }

    #[test]
    fn what_one_request_multiplies_is_limited() {
        let schema = schema();
        let list = (0..400).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let cql = format!("DELETE FROM t WHERE k IN ({list}) AND c IN ({list})");
        check_refused(&schema, &cql, "One request may change at most 131072 rows");
        // Each INSERT JSON of a batch has its own columns beside the batch's values, and no copy of those.
        let statements = "INSERT INTO plain JSON ?; ".repeat(20_000);
        let object = Value::Bytes(br#"{"k": 1, "v": 2}"#);
        let cql = format!("BEGIN UNLOGGED BATCH {statements} APPLY BATCH");
        assert_eq!(words(&schema, &cql, &[object; 20_000]).unwrap().len(), 1);
        let columns = (0..1_000).map(|at| format!("c{at} int")).collect::<Vec<_>>().join(", ");
        let schema = testing::schema(&[&format!("CREATE TABLE w (k int PRIMARY KEY, {columns})")]);
        let statements = "INSERT INTO w JSON '{}'; ".repeat(1_100);
        let cql = format!("BEGIN UNLOGGED BATCH {statements} APPLY BATCH");
        check_refused(&schema, &cql, "The INSERT JSONs of one request may give at most 1048576 values");
    }

    /// One value stands wherever its name does: it is counted before it is copied, or some gigabytes would be held.
    #[test]
    fn what_one_value_comes_to_is_limited() {
        let refused = "The values of one request come to more than 134217728 bytes";
        let names: Vec<String> = (0..9_998).map(|at| format!("c{at}")).collect();
        let columns = format!("{} blob", names.join(" blob, "));
        let types = |ty: &str| vec![ty; 1_000].join(", ");
        let schema = testing::schema(&[
            &format!("CREATE TABLE w (k int PRIMARY KEY, {columns})"),
            &format!("CREATE TABLE s (k int, c int, {} blob static, PRIMARY KEY (k, c))", names.join(" blob static, ")),
            &format!(
                "CREATE TABLE l (k blob PRIMARY KEY, t tuple<{}>, s tuple<{}>, v blob)",
                types("blob"),
                types("set<blob>")
            ),
            "CREATE TABLE pair (k int, a blob, b blob, v int, PRIMARY KEY (k, a, b))",
            "CREATE TABLE keys (k int, a blob, b blob, v int, PRIMARY KEY ((k, a, b)))",
        ]);
        let run = |cql: &str, value: &[u8]| {
            let values = vec![Value::Bytes(value); cql.matches('?').count()];
            words(&schema, cql, &values).map(|_| ()).unwrap_err()
        };
        let large = vec![7; 1 << 20];
        let markers = |count: usize| vec!["?"; count].join(", ");
        let each = names.join(", ");
        assert_eq!(run(&format!("INSERT INTO w (k, {each}) VALUES (1, {})", markers(9_998)), &large), refused);
        assert_eq!(run(&format!("INSERT INTO s (k, {each}) VALUES (1, {})", markers(9_998)), &large), refused);
        let tuple = markers(1_000);
        assert_eq!(run(&format!("UPDATE l SET t = ({tuple}) WHERE k = 0x01"), &large), refused);
        let unsorted = crate::types::collection::pack_list([Some(&large[..]), Some(b"1")]);
        assert_eq!(run(&format!("UPDATE l SET s = ({tuple}) WHERE k = 0x01"), &unsorted), refused);
        let json = format!(r#"{{"k": "0x01", "v": "0x{}"}}"#, "07".repeat(1 << 16));
        let batch = format!("BEGIN BATCH {} APPLY BATCH", "INSERT INTO l JSON ?; ".repeat(3_000));
        assert_eq!(run(&batch, json.as_bytes()), refused);
        let parts: Vec<Vec<u8>> = (0..255).map(|at| vec![at; 32_000]).collect();
        let parts = crate::types::collection::pack_list(parts.iter().map(|part| Some(&part[..])));
        for table in ["pair", "keys"] {
            assert_eq!(run(&format!("DELETE FROM {table} WHERE k = 1 AND a IN ? AND b IN ?"), &parts), refused);
            assert_eq!(run(&format!("SELECT v FROM {table} WHERE k = 1 AND a IN ? AND b IN ?"), &parts), refused);
        }
    }
}
