//! INSERT JSON: an INSERT of every column whose values come out of a JSON object.
//!
//! It is prepared as an INSERT that has a marker for each column, in the table's order, before the statement's own
//! variables. Binding puts the object's values in these places.

use std::rc::Rc;

use serde_json::{Map, Value as Json};

use crate::cql::ast::{self, JsonDefault, JsonSource};
use crate::plan::ColumnSpec;
use crate::plan::term::{Binding, Bound, Scope, Term, invalid};
use crate::protocol::{CqlError, Value};
use crate::schema::{ColumnKind, Table};
use crate::types::{CqlType, json};

use super::conditions::Conditions;
use super::operation::Operation;
use super::timing::Using;
use super::{PreparedWrite, insert_of_terms};

/// Where the object comes from, and what becomes of columns that it leaves out.
#[derive(Clone, Debug)]
pub(super) struct JsonInsert {
    source: Source,
    default: JsonDefault,
}

#[derive(Clone, Debug)]
enum Source {
    Object(Map<String, Json>),
    Marker(Term),
}

pub(super) fn prepare(
    table: &Rc<Table>,
    insert: &ast::InsertJson,
    scope: &mut Scope<'_>,
) -> Result<PreparedWrite, CqlError> {
    let columns = table.columns.len();
    let shifted = |term: Term| term.with_markers_after(columns);
    let using = Using::prepare(&insert.using, table, scope)?;
    let using = Using { timestamp: using.timestamp.map(shifted), ttl: using.ttl.map(shifted) };
    if table.is_counter {
        return Err(invalid("INSERT statements are not allowed on counter tables, use UPDATE instead"));
    }
    let source = match &insert.source {
        JsonSource::Literal(text) => Source::Object(object(table, text)?),
        JsonSource::Marker(marker) => {
            let spec = ColumnSpec {
                keyspace: table.keyspace.clone(),
                table: table.name.clone(),
                name: "[json]".to_owned(),
                ty: CqlType::Text,
            };
            Source::Marker(Term::marker(*marker, &spec, scope))
        }
    };
    let mut keys = Vec::new();
    let mut operations = Vec::new();
    for (at, column) in table.columns.iter().enumerate() {
        let term = Term::of_marker(&column.ty, at);
        match column.kind {
            ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. } => keys.push((column, term)),
            ColumnKind::Static | ColumnKind::Regular => operations.push(Operation::of_term(column, term)?),
        }
    }
    let conditions = Conditions::if_not_exists(insert.if_not_exists);
    let write = insert_of_terms(table, keys, operations, using, conditions)?;
    Ok(PreparedWrite { json: Some(JsonInsert { source, default: insert.default }), ..write })
}

/// The object of a text, by column names; all of them are the table's.
fn object(table: &Table, text: &str) -> Result<Map<String, Json>, CqlError> {
    let parsed = json::parse_object(text).map_err(|error| invalid(error.to_string()))?;
    let named: Map<String, Json> = parsed.into_iter().map(|(key, value)| (json::unquote_key(&key), value)).collect();
    match named.keys().find(|name| table.column(name).is_none()) {
        Some(unknown) => Err(invalid(format!("JSON values map contains unrecognized column: {unknown}"))),
        None => Ok(named),
    }
}

/// The value of one column, out of the object.
#[derive(Clone, Debug)]
pub(super) enum Column {
    Null,
    Unset,
    Bytes(Vec<u8>),
}

impl Column {
    pub fn len_bytes(&self) -> usize {
        match self {
            Column::Null | Column::Unset => 0,
            Column::Bytes(bytes) => bytes.len(),
        }
    }

    pub fn as_value(&self) -> Value<'_> {
        match self {
            Column::Null => Value::Null,
            Column::Unset => Value::Unset,
            Column::Bytes(bytes) => Value::Bytes(bytes),
        }
    }
}

impl JsonInsert {
    /// The values of all columns, in the table's order.
    pub fn columns(&self, table: &Table, binding: &Binding<'_>) -> Result<Vec<Column>, CqlError> {
        let bound;
        let object = match &self.source {
            Source::Object(object) => object,
            Source::Marker(term) => {
                bound = match term.bind(binding)? {
                    Bound::Null => return Err(invalid("Got null for INSERT JSON values")),
                    Bound::Unset => object(table, "")?,
                    Bound::Bytes(bytes) => object(table, &String::from_utf8_lossy(&bytes))?,
                };
                &bound
            }
        };
        let now_ms = binding.context().now_us.div_euclid(1000);
        let columns = table.columns.iter().map(|column| {
            let Some(value) = object.get(&column.name) else {
                let is_key = matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. });
                return Ok(if self.default == JsonDefault::Unset && !is_key { Column::Unset } else { Column::Null });
            };
            let value = json::from_json(&column.ty, value, now_ms)
                .map_err(|error| invalid(format!("Error decoding JSON value for {}: {error}", column.name)))?;
            Ok(value.map_or(Column::Null, Column::Bytes))
        });
        columns.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::plan::testing;
    use crate::plan::write::testing::{check, check_refused, words};
    use crate::protocol::Value;
    use crate::schema::Schema;

    fn schema() -> Schema {
        testing::schema(&["CREATE TABLE t (k int, c int, v int, w text, \"Q\" int, PRIMARY KEY (k, c))"])
    }

    #[test]
    fn an_object_gives_every_column() {
        let insert = |object: &str, rest: &str| format!("INSERT INTO t JSON '{object}' {rest}");
        let all = insert(r#"{"k": 1, "C": "2", "v": 3, "\"Q\"": 4}"#, "");
        check(&schema(), &all, &["t 1: row(2) live Q=4 v=3 -w"]);
        let some = insert(r#"{"k": 1, "c": 2, "v": null}"#, "DEFAULT UNSET USING TTL 9");
        check(&schema(), &some, &["t 1: row(2) live~9 -v"]);
    }

    #[test]
    fn the_text_may_be_bound_beside_other_variables() {
        let timestamp = 5i64.to_be_bytes();
        let text = br#"{"k": 1, "c": 2, "v": 3}"#;
        let run = |value| {
            let cql = "INSERT INTO t JSON ? DEFAULT UNSET USING TIMESTAMP ?";
            words(&schema(), cql, &[value, Value::Bytes(&timestamp)])
        };
        assert_eq!(run(Value::Bytes(text)).unwrap(), ["t 1: row(2) live@5 v=3@5"]);
        assert_eq!(run(Value::Null).unwrap_err(), "Got null for INSERT JSON values");
        assert!(run(Value::Unset).unwrap_err().starts_with("Could not decode JSON string as a map: "));
    }

    #[test]
    fn objects_that_do_not_fit_are_refused() {
        for (object, expected) in [
            (r#"{"k": 1, "c": 2, "x": 3}"#, "JSON values map contains unrecognized column: x"),
            (
                r#"{"k": 1, "c": 2, "v": 1.5}"#,
                "Error decoding JSON value for v: Expected an int value, but got a Double: 1.5",
            ),
            (r#"{"c": 2}"#, "Invalid null value in condition for column k"),
            (r#"{"k": 1}"#, "Invalid null value in condition for column c"),
        ] {
            check_refused(&schema(), &format!("INSERT INTO t JSON '{object}'"), expected);
        }
    }
}
