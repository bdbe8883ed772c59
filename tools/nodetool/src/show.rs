//! The answers as Cassandra's nodetool prints them: scripts read these.

use std::fmt::Write;

use serde_json::Value;

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or("?")
}

fn number(value: &Value, key: &str) -> u64 {
    value.get(key).and_then(Value::as_u64).unwrap_or_default()
}

/// Bytes as nodetool prints them: `1.5 KiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.2} {}", UNITS[unit]) }
}

pub fn status(status: &Value) -> String {
    let load = size(number(status, "load_bytes"));
    let owns = status.get("owns_percent").and_then(Value::as_f64).unwrap_or_default();
    format!(
        "Datacenter: {}\n=======================\nStatus=Up/Down\n|/ State=Normal/Leaving/Joining/Moving\n\
         --  Address      Load        Owns (effective)  Rack\n{}  {:<11}  {load:<10}  {owns:<16}  {}\n",
        text(status, "data_center"),
        text(status, "state"),
        text(status, "address"),
        text(status, "rack"),
    )
}

pub fn info(info: &Value) -> String {
    let mut out = String::new();
    let rows = [
        ("Cluster", text(info, "cluster_name").to_owned()),
        ("Version", text(info, "version").to_owned()),
        ("Release version", text(info, "release_version").to_owned()),
        ("Native Transport", text(info, "cql").to_owned()),
        ("Shard-aware port", text(info, "shard_aware").to_owned()),
        ("Data directory", text(info, "data_dir").to_owned()),
        ("Shards", number(info, "shards").to_string()),
        ("Connections", number(info, "connections").to_string()),
        ("Uptime (seconds)", number(info, "uptime_s").to_string()),
    ];
    for (name, value) in rows {
        let _ = writeln!(out, "{name:<23}: {value}");
    }
    out
}

pub fn snapshots(list: &Value) -> String {
    let rows = list.get("snapshots").and_then(Value::as_array).cloned().unwrap_or_default();
    if rows.is_empty() {
        return "There are no snapshots\n".into();
    }
    let mut out = "Snapshot Details: \n".to_owned();
    let _ = writeln!(
        out,
        "{:<24} {:<20} {:<24} {:<12} Size on disk",
        "Snapshot name", "Keyspace name", "Column family name", "True size"
    );
    for row in rows {
        let bytes = size(number(&row, "bytes"));
        let (tag, keyspace, table) = (text(&row, "tag"), text(&row, "keyspace"), text(&row, "table"));
        let _ = writeln!(out, "{tag:<24} {keyspace:<20} {table:<24} {bytes:<12} {bytes}");
    }
    out
}

pub fn tablestats(stats: &Value) -> String {
    let rows = stats.get("tables").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut out = String::new();
    let mut keyspace = String::new();
    for row in rows {
        if text(&row, "keyspace") != keyspace {
            keyspace = text(&row, "keyspace").to_owned();
            let _ = writeln!(out, "----------------\nKeyspace: {keyspace}");
        }
        let _ = writeln!(out, "\t\tTable: {}", text(&row, "table"));
        let figures = [
            ("SSTable count", number(&row, "sstables")),
            ("Space used (live)", number(&row, "sstable_bytes")),
            ("Number of partitions (estimate)", number(&row, "partitions_estimate")),
            ("Memtable data size", number(&row, "memtable_bytes")),
            ("Memtable partition count", number(&row, "memtable_partitions")),
            ("Memtable switch count", number(&row, "flushes")),
            ("Compactions", number(&row, "compactions")),
            ("Local read count", number(&row, "reads")),
            ("Local write count", number(&row, "writes")),
        ];
        for (name, value) in figures {
            let _ = writeln!(out, "\t\t{name}: {value}");
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sizes_have_their_unit() {
        assert_eq!(size(12), "12 bytes");
        assert_eq!(size(1536), "1.50 KiB");
        assert_eq!(size(3 << 30), "3.00 GiB");
    }

    #[test]
    fn a_snapshot_is_a_line_with_its_name_first() {
        let list = json!({ "snapshots": [{ "tag": "t1", "keyspace": "ks", "table": "users", "bytes": 10 }] });
        let shown = snapshots(&list);
        assert!(shown.lines().nth(2).is_some_and(|line| line.starts_with("t1 ")), "{shown}");
        assert_eq!(snapshots(&json!({ "snapshots": [] })), "There are no snapshots\n");
    }

    #[test]
    fn tables_stand_under_their_keyspace() {
        let table = |name: &str| json!({ "keyspace": "ks", "table": name, "sstables": 2 });
        let shown = tablestats(&json!({ "tables": [table("a"), table("b")] }));
        assert_eq!(shown.matches("Keyspace: ks").count(), 1);
        assert!(shown.contains("Table: a\n\t\tSSTable count: 2"), "{shown}");
    }
}
