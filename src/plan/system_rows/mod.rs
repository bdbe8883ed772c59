//! The rows by which the system tables show the schema and the node, as mutations of those tables.
//!
//! They are made of the schema's values only, never of rows: a change and its rows cannot differ. All of a change carries
//! one timestamp, which the owner gives; what a name had before goes with that timestamp less one.

mod definitions;
mod local;
mod writer;

use crate::plan::{Context, PlannedMutation};
use crate::schema::{Schema, SchemaOp, stored, system};
use writer::Writer;

pub use definitions::{schema_version, without_user_types};
pub use local::{
    Addresses, CQL_VERSION, LocalInfo, NATIVE_PROTOCOL_VERSION, PARTITIONER, RELEASE_VERSION, settings, show_address,
};

/// What `ops`, which lead from `before` to `after`, do to the system tables: the canonical schema, `system_schema`, and
/// the schema's version in `system.local`.
pub fn of_change(before: &Schema, after: &Schema, ops: &[SchemaOp], context: &Context) -> Vec<PlannedMutation> {
    let mut writer = Writer::new(before, context);
    for row in stored::rows_of(before, ops) {
        definitions::stored_row(&mut writer, &row);
    }
    for op in ops {
        match op {
            SchemaOp::PutKeyspace { name, .. } => {
                if let Some(keyspace) = after.keyspace(name) {
                    definitions::keyspace(&mut writer, keyspace);
                }
            }
            SchemaOp::DropKeyspace { name } => definitions::drop_keyspace(&mut writer, name),
            SchemaOp::PutType(udt) => definitions::user_type(&mut writer, udt),
            SchemaOp::DropType { keyspace, name } => definitions::drop_type(&mut writer, keyspace, name),
            SchemaOp::PutTable(table) => definitions::table(&mut writer, table),
            SchemaOp::DropTable { keyspace, name, .. } => definitions::drop_table(&mut writer, keyspace, name),
        }
    }
    local::schema_version_row(&mut writer, after);
    writer.finish()
}

/// All rows that a node shows of itself and of the whole schema, written anew at every start. Those of the system's own
/// keyspaces are left out where `mark`, which an earlier start wrote behind them, says that they are there.
pub fn of_boot(schema: &Schema, mark: Option<&[u8]>, info: &LocalInfo, context: &Context) -> Vec<PlannedMutation> {
    let mut writer = Writer::new(schema, context);
    let system_mark = definitions::system_rows_mark(schema);
    let is_written = mark == Some(&system_mark);
    let keyspaces = schema.keyspaces.values().filter(|keyspace| !(is_written && system::is_system(&keyspace.name)));
    for keyspace in keyspaces {
        definitions::drop_keyspace(&mut writer, &keyspace.name);
        definitions::keyspace(&mut writer, keyspace);
        keyspace.types.values().for_each(|udt| definitions::user_type(&mut writer, udt));
        keyspace.tables.values().for_each(|table| definitions::table(&mut writer, table));
    }
    local::local_row(&mut writer, info);
    local::schema_version_row(&mut writer, schema);
    if !is_written {
        definitions::system_rows_mark_row(&mut writer, system_mark);
    }
    writer.finish()
}

#[cfg(test)]
mod tests;
