//! The statements that would make a keyspace, a table or a type again, in Cassandra's layout.

use std::collections::BTreeMap;

use crate::plan::describe::quoted;
use crate::schema::{Column, ColumnKind, Columns, DroppedColumn, Keyspace, Table, TableOptions, system};
use crate::types::UdtType;
use crate::types::literal::encode_hex;
use crate::types::number::double_text;

const LOCATOR: &str = "org.apache.cassandra.locator.";

pub fn keyspace(keyspace: &Keyspace) -> String {
    let name = quoted(&keyspace.name);
    if system::is_virtual(&keyspace.name) {
        return format!(
            "/*\nWarning: Keyspace {name} is a virtual keyspace and cannot be recreated with CQL.\n\
             Structure, for reference:\nVIRTUAL KEYSPACE {name};\n*/"
        );
    }
    let mut replication = keyspace.replication.clone();
    if let Some(short) = replication.get("class").and_then(|class| class.strip_prefix(LOCATOR)).map(str::to_owned) {
        replication.insert("class".to_owned(), short);
    }
    let (class, rest): (Vec<_>, Vec<_>) = replication.iter().partition(|(key, _)| *key == "class");
    let replication = entries(class.into_iter().chain(rest));
    let durable = keyspace.durable_writes;
    format!("CREATE KEYSPACE {name} WITH replication = {replication}  AND durable_writes = {durable};")
}

pub fn user_type(udt: &UdtType) -> String {
    let fields: Vec<String> = udt.fields.iter().map(|(name, ty)| format!("    {} {ty}", quoted(name))).collect();
    format!("CREATE TYPE {}.{} (\n{}\n);", quoted(&udt.keyspace), quoted(&udt.name), fields.join(",\n"))
}

/// With `internals` the text also restores the id and the columns dropped.
pub fn table(table: &Table, internals: bool) -> String {
    let name = format!("{}.{}", quoted(&table.keyspace), quoted(&table.name));
    if system::is_virtual(&table.keyspace) {
        return virtual_table(table, &name);
    }
    let dropped = if internals { last_dropped(table) } else { Vec::new() };
    let mut out = format!("CREATE TABLE {name} (\n{}) WITH ", definitions(table, &dropped));
    let mut options = Vec::new();
    if internals {
        options.push(format!("ID = {}", table.id));
    }
    options.extend(clustering_order(table));
    options.extend(options_of(&table.options));
    out.push_str(&options.join("\n    AND "));
    out.push(';');
    for column in dropped {
        let column_name = quoted(&column.name);
        out.push_str(&format!("\nALTER TABLE {name} DROP {column_name} USING TIMESTAMP {};", column.dropped_at));
        if let Some(again) = table.column(&column.name) {
            let kind = if again.kind == ColumnKind::Static { " static" } else { "" };
            out.push_str(&format!("\nALTER TABLE {name} ADD {column_name} {}{kind};", again.ty));
        }
    }
    out
}

fn virtual_table(table: &Table, name: &str) -> String {
    let mut options = Vec::new();
    options.extend(clustering_order(table));
    options.push(format!("comment = {}", string(&table.options.comment)));
    format!(
        "/*\nWarning: Table {name} is a virtual table and cannot be recreated with CQL.\nStructure, for reference:\n\
         VIRTUAL TABLE {name} (\n{}) WITH {};\n*/",
        definitions(table, &[]),
        options.join("\n    AND ")
    )
}

/// The dropped columns by name, each as it was dropped last.
fn last_dropped(table: &Table) -> Vec<&DroppedColumn> {
    let by_name: BTreeMap<&str, &DroppedColumn> =
        table.dropped.iter().map(|column| (column.name.as_str(), column)).collect();
    by_name.into_values().collect()
}

/// What stands between the parentheses, each on a line of its own: columns in their order, the dropped among them.
fn definitions(table: &Table, dropped: &[&DroppedColumn]) -> String {
    let gone = dropped.iter().filter(|column| table.column(&column.name).is_none()).map(|column| {
        let kind = if column.is_static { ColumnKind::Static } else { ColumnKind::Regular };
        Column { id: column.id, name: column.name.clone(), ty: column.ty.clone(), kind }
    });
    let with_dropped = Columns::new(table.columns.iter().cloned().chain(gone).collect());
    let alone = table.partition_key().count() == 1 && table.clustering().next().is_none();
    let mut lines: Vec<String> = with_dropped
        .iter()
        .map(|column| {
            let more = match column.kind {
                ColumnKind::Static => " static",
                ColumnKind::PartitionKey(_) if alone => " PRIMARY KEY",
                _ => "",
            };
            format!("    {} {}{more}", quoted(&column.name), column.ty)
        })
        .collect();
    if !alone {
        lines.push(format!("    PRIMARY KEY ({})", primary_key(table)));
    }
    lines.join(",\n") + "\n"
}

fn primary_key(table: &Table) -> String {
    let partition: Vec<String> = table.partition_key().map(|column| quoted(&column.name)).collect();
    let partition = if partition.len() == 1 { partition.join(", ") } else { format!("({})", partition.join(", ")) };
    let clustering = table.clustering().map(|column| quoted(&column.name));
    [partition].into_iter().chain(clustering).collect::<Vec<_>>().join(", ")
}

fn clustering_order(table: &Table) -> Option<String> {
    let columns: Vec<String> = table
        .clustering()
        .map(|column| {
            let descending = matches!(column.kind, ColumnKind::Clustering { descending: true, .. });
            format!("{} {}", quoted(&column.name), if descending { "DESC" } else { "ASC" })
        })
        .collect();
    (!columns.is_empty()).then(|| format!("CLUSTERING ORDER BY ({})", columns.join(", ")))
}

/// In Cassandra's order.
fn options_of(options: &TableOptions) -> Vec<String> {
    let extensions: Vec<String> =
        options.extensions.iter().map(|(key, value)| format!("{}: 0x{}", string(key), encode_hex(value))).collect();
    vec![
        format!("additional_write_policy = {}", string(&options.additional_write_policy)),
        format!("allow_auto_snapshot = {}", options.allow_auto_snapshot),
        format!("bloom_filter_fp_chance = {}", double_text(options.bloom_filter_fp_chance)),
        format!("caching = {}", entries(&options.caching)),
        format!("cdc = {}", options.cdc),
        format!("comment = {}", string(&options.comment)),
        format!("compaction = {}", entries(&options.compaction)),
        format!("compression = {}", entries(&options.compression)),
        format!("memtable = {}", string(&options.memtable)),
        format!("crc_check_chance = {}", double_text(options.crc_check_chance)),
        format!("default_time_to_live = {}", options.default_time_to_live_s),
        format!("extensions = {{{}}}", extensions.join(", ")),
        format!("gc_grace_seconds = {}", options.gc_grace_seconds),
        format!("incremental_backups = {}", options.incremental_backups),
        format!("max_index_interval = {}", options.max_index_interval),
        format!("memtable_flush_period_in_ms = {}", options.memtable_flush_period_in_ms),
        format!("min_index_interval = {}", options.min_index_interval),
        format!("read_repair = {}", string(&options.read_repair)),
        format!("speculative_retry = {}", string(&options.speculative_retry)),
    ]
}

fn string(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

fn entries<'a>(map: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let entries: Vec<String> =
        map.into_iter().map(|(key, value)| format!("{}: {}", string(key), string(value))).collect();
    format!("{{{}}}", entries.join(", "))
}
