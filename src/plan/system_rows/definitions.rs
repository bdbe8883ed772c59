//! The rows of `system_schema`, `system_virtual_schema` and of the stored schema for keyspaces, tables and types.

use std::collections::BTreeMap;

use md5::{Digest, Md5};

use crate::plan::system_rows::writer::{Row, Writer};
use crate::schema::codec::{encode_op, encode_table};
use crate::schema::stored::{ROWS_KIND, StoredRow};
use crate::schema::{Column, ColumnKind, DroppedColumn, Keyspace, Schema, SchemaOp, Table, system};
use crate::types::collection::pack_map;
use crate::types::{CqlType, UdtType};

const SCHEMA: &str = "system_schema";
const VIRTUAL_SCHEMA: &str = "system_virtual_schema";

/// The tables of `system_schema` with a partition for each keyspace.
const BY_KEYSPACE: [&str; 11] = [
    "aggregates",
    "column_masks",
    "columns",
    "dropped_columns",
    "functions",
    "indexes",
    "keyspaces",
    "tables",
    "triggers",
    "types",
    "views",
];

/// Raised when the rows that show a definition become others though the definition stays: a test holds them beside it.
pub(super) const ROWS_VERSION: u32 = 1;

/// A digest of everything that is defined: equal schemas have equal versions, whatever led to them.
pub fn schema_version(schema: &Schema) -> [u8; 16] {
    let mut digest = Md5::new();
    add_definitions(&mut digest, schema.keyspaces.values());
    system::name_uuid(digest.finalize().into())
}

/// A digest of what the rows of the system's own keyspaces are made of: where it stands in the stored schema, those rows
/// are there already.
pub fn system_rows_mark(schema: &Schema) -> [u8; 16] {
    let mut digest = Md5::new();
    digest.update(ROWS_VERSION.to_le_bytes());
    let keyspaces = schema.keyspaces.values();
    add_definitions(&mut digest, keyspaces.filter(|keyspace| system::is_system(&keyspace.name)));
    digest.finalize().into()
}

pub fn system_rows_mark_row(writer: &mut Writer<'_>, mark: [u8; 16]) {
    writer.put("system", system::STORED_SCHEMA, ROWS_KIND, Row::new(&["system"]).bytes("definition", mark));
}

fn add_definitions<'s>(digest: &mut Md5, keyspaces: impl Iterator<Item = &'s Keyspace>) {
    let mut add = |definition: Vec<u8>| digest.update(definition);
    for keyspace in keyspaces {
        add(encode_op(&SchemaOp::PutKeyspace {
            name: keyspace.name.clone(),
            durable_writes: keyspace.durable_writes,
            replication: keyspace.replication.clone(),
        }));
        keyspace.types.values().for_each(|udt| add(encode_op(&SchemaOp::PutType(udt.clone()))));
        keyspace.tables.values().for_each(|table| add(encode_table(table)));
    }
}

pub fn stored_row(writer: &mut Writer<'_>, row: &StoredRow) {
    match &row.definition {
        Some(definition) => {
            let cells = Row::new(&[&row.name]).bytes("definition", definition.clone());
            writer.put("system", system::STORED_SCHEMA, row.kind, cells);
        }
        None => writer.delete("system", system::STORED_SCHEMA, row.kind, &[&row.name]),
    }
}

pub fn keyspace(writer: &mut Writer<'_>, keyspace: &Keyspace) {
    if system::is_virtual(&keyspace.name) {
        writer.put(VIRTUAL_SCHEMA, "keyspaces", &keyspace.name, Row::new(&[]));
        return;
    }
    let row =
        Row::new(&[]).boolean("durable_writes", keyspace.durable_writes).text_map("replication", &keyspace.replication);
    writer.put(SCHEMA, "keyspaces", &keyspace.name, row);
}

pub fn drop_keyspace(writer: &mut Writer<'_>, keyspace: &str) {
    if system::is_virtual(keyspace) {
        for table in ["keyspaces", "tables", "columns"] {
            writer.delete_partition(VIRTUAL_SCHEMA, table, keyspace);
        }
        return;
    }
    for table in BY_KEYSPACE {
        writer.delete_partition(SCHEMA, table, keyspace);
    }
}

pub fn user_type(writer: &mut Writer<'_>, udt: &UdtType) {
    let names: Vec<String> = udt.fields.iter().map(|(name, _)| name.clone()).collect();
    let types: Vec<String> = udt.fields.iter().map(|(_, ty)| ty.to_string()).collect();
    let row = Row::new(&[&udt.name]).text_list("field_names", &names).text_list("field_types", &types);
    writer.put(SCHEMA, "types", &udt.keyspace, row);
}

pub fn drop_type(writer: &mut Writer<'_>, keyspace: &str, name: &str) {
    writer.delete(SCHEMA, "types", keyspace, &[name]);
}

/// A table's rows, in place of whatever it had.
pub fn table(writer: &mut Writer<'_>, table: &Table) {
    let (keyspace, name) = (table.keyspace.as_str(), table.name.as_str());
    if system::is_private(keyspace, name) {
        return;
    }
    if system::is_virtual(keyspace) {
        let row = Row::new(&[name]).text("comment", &table.options.comment);
        writer.put(VIRTUAL_SCHEMA, "tables", keyspace, row);
        for column in &table.columns {
            writer.put(VIRTUAL_SCHEMA, "columns", keyspace, column_row(name, column));
        }
        return;
    }
    drop_table(writer, keyspace, name);
    writer.put(SCHEMA, "tables", keyspace, table_row(table));
    for column in &table.columns {
        writer.put(SCHEMA, "columns", keyspace, column_row(name, column));
    }
    // A name dropped twice has two of these; the later one is shown.
    let last: BTreeMap<&str, &DroppedColumn> =
        table.dropped.iter().map(|dropped| (dropped.name.as_str(), dropped)).collect();
    for dropped in last.values() {
        writer.put(SCHEMA, "dropped_columns", keyspace, dropped_row(name, dropped));
    }
}

pub fn drop_table(writer: &mut Writer<'_>, keyspace: &str, name: &str) {
    for table in ["tables", "columns", "dropped_columns"] {
        writer.delete(SCHEMA, table, keyspace, &[name]);
    }
}

/// Options that came with 4.1 and later are shown where they are not at their default, as Cassandra does for the sake
/// of older nodes.
fn table_row(table: &Table) -> Row {
    let options = &table.options;
    let flags: &[&str] = if table.is_counter { &["compound", "counter"] } else { &["compound"] };
    let extensions = options.extensions.iter().map(|(key, value)| (key.as_bytes(), value.as_slice()));
    let mut row = Row::new(&[&table.name])
        .text("additional_write_policy", &options.additional_write_policy)
        .double("bloom_filter_fp_chance", options.bloom_filter_fp_chance)
        .text_map("caching", &options.caching)
        .text("comment", &options.comment)
        .text_map("compaction", &options.compaction)
        .text_map("compression", &options.compression)
        .double("crc_check_chance", options.crc_check_chance)
        .double("dclocal_read_repair_chance", 0.0)
        .int("default_time_to_live", options.default_time_to_live_s)
        .bytes("extensions", pack_map(&CqlType::Text, extensions))
        .text_set("flags", flags)
        .int("gc_grace_seconds", options.gc_grace_seconds)
        .bytes("id", table.id.0)
        .int("max_index_interval", options.max_index_interval)
        .int("memtable_flush_period_in_ms", options.memtable_flush_period_in_ms)
        .int("min_index_interval", options.min_index_interval)
        .text("read_repair", &options.read_repair)
        .double("read_repair_chance", 0.0)
        .text("speculative_retry", &options.speculative_retry);
    if !options.allow_auto_snapshot {
        row = row.boolean("allow_auto_snapshot", false);
    }
    if !options.incremental_backups {
        row = row.boolean("incremental_backups", false);
    }
    if options.cdc {
        row = row.boolean("cdc", true);
    }
    if options.memtable != "default" {
        row = row.text("memtable", &options.memtable);
    }
    row
}

fn column_row(table: &str, column: &Column) -> Row {
    let (kind, position, order) = match column.kind {
        ColumnKind::PartitionKey(position) => ("partition_key", i32::from(position), "none"),
        ColumnKind::Clustering { position, descending: false } => ("clustering", i32::from(position), "asc"),
        ColumnKind::Clustering { position, descending: true } => ("clustering", i32::from(position), "desc"),
        ColumnKind::Static => ("static", -1, "none"),
        ColumnKind::Regular => ("regular", -1, "none"),
    };
    Row::new(&[table, &column.name])
        .text("clustering_order", order)
        .bytes("column_name_bytes", column.name.as_bytes())
        .text("kind", kind)
        .int("position", position)
        .text("type", &column.ty.to_string())
}

fn dropped_row(table: &str, dropped: &DroppedColumn) -> Row {
    Row::new(&[table, &dropped.name])
        .bytes("dropped_time", dropped.dropped_at.div_euclid(1_000).to_be_bytes())
        .text("kind", if dropped.is_static { "static" } else { "regular" })
        .text("type", &without_user_types(&dropped.ty).to_string())
}

/// A dropped column outlives its user types, which are then known as the tuples that they are stored as.
pub fn without_user_types(ty: &CqlType) -> CqlType {
    let again = |inner: &CqlType| Box::new(without_user_types(inner));
    match ty {
        CqlType::Udt(udt) => CqlType::tuple(udt.fields.iter().map(|(_, ty)| without_user_types(ty))),
        CqlType::List(inner) => CqlType::List(again(inner)),
        CqlType::Set(inner) => CqlType::Set(again(inner)),
        CqlType::Map(key, value) => CqlType::Map(again(key), again(value)),
        CqlType::Tuple(elements) => CqlType::tuple(elements.iter().map(without_user_types)),
        CqlType::Vector(inner, dimensions) => CqlType::Vector(again(inner), *dimensions),
        CqlType::Frozen(inner) => without_user_types(inner).freeze(),
        scalar => scalar.clone(),
    }
}
