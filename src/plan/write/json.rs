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
