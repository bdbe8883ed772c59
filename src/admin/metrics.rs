//! `/metrics` in Prometheus' text format. The names are listed in METRICS.md and stay.
#![doc = include_str!("METRICS.md")]

use std::fmt::Write;

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use crate::admin::parameters::NoParameters;
use crate::admin::{Admin, Failed};
use crate::router::message::ShardReport;
use crate::shard::TableReport;

pub async fn metrics(State(admin): State<Admin>, _: NoParameters) -> Result<impl IntoResponse, Failed> {
    let text = render(&admin.reports().await?);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text))
}

/// Reads one figure of a table.
type Figure = fn(&TableReport) -> u64;

/// A table's metrics: name, kind, figure.
const TABLE_METRICS: [(&str, &str, Figure); 8] = [
    ("helenus_table_sstables", "gauge", |table| table.sstables),
    ("helenus_table_sstable_bytes", "gauge", |table| table.sstable_bytes),
    ("helenus_table_memtable_bytes", "gauge", |table| table.memtable_bytes),
    ("helenus_table_memtable_partitions", "gauge", |table| table.memtable_partitions),
    ("helenus_table_reads_total", "counter", |table| table.reads),
    ("helenus_table_writes_total", "counter", |table| table.writes),
    ("helenus_table_flushes_total", "counter", |table| table.flushes),
    ("helenus_table_compactions_total", "counter", |table| table.compactions),
];

fn render(reports: &[ShardReport]) -> String {
    let mut out = String::new();
    put(&mut out, "helenus_connections", "gauge", reports.iter().map(|report| (shard(report), report.connections)));
    let names: Vec<&str> =
        reports.first().map_or_else(Vec::new, |report| report.counters.iter().map(|(name, _)| *name).collect());
    for name in names {
        let kind = if name.ends_with("_total") { "counter" } else { "gauge" };
        let figures = reports.iter().filter_map(|report| {
            report.counters.iter().find(|(other, _)| *other == name).map(|(_, value)| (shard(report), *value))
        });
        put(&mut out, name, kind, figures);
    }
    for (name, kind, figure) in TABLE_METRICS {
        let figures = reports.iter().flat_map(|report| {
            report.tables.iter().map(move |table| {
                let labels = format!(
                    "{},keyspace=\"{}\",table=\"{}\"",
                    shard(report),
                    escaped(&table.keyspace),
                    escaped(&table.table)
                );
                (labels, figure(table))
            })
        });
        put(&mut out, name, kind, figures);
    }
    out
}

fn shard(report: &ShardReport) -> String {
    format!("shard=\"{}\"", report.shard)
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn put(out: &mut String, name: &str, kind: &str, figures: impl Iterator<Item = (String, u64)>) {
    let _ = writeln!(out, "# TYPE {name} {kind}");
    for (labels, value) in figures {
        let _ = writeln!(out, "{name}{{{labels}}} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shard_and_table_has_its_line() {
        let table = TableReport { keyspace: "k\"s".into(), table: "t".into(), reads: 7, ..TableReport::default() };
        let report =
            ShardReport { shard: 1, tables: vec![table], counters: vec![("helenus_stalls_total", 2)], connections: 3 };
        let text = render(&[report]);
        assert!(text.contains("# TYPE helenus_stalls_total counter\nhelenus_stalls_total{shard=\"1\"} 2\n"), "{text}");
        assert!(text.contains("helenus_table_reads_total{shard=\"1\",keyspace=\"k\\\"s\",table=\"t\"} 7\n"), "{text}");
        assert!(text.contains("helenus_connections{shard=\"1\"} 3\n"), "{text}");
    }

    #[test]
    fn every_name_is_documented() {
        let documented = include_str!("METRICS.md");
        let report = ShardReport { tables: vec![TableReport::default()], ..ShardReport::default() };
        for line in render(&[report]).lines().filter(|line| line.starts_with("# TYPE ")) {
            let name = line.split(' ').nth(2).expect("a name");
            assert!(documented.contains(&format!("`{name}`")), "{name} is not in METRICS.md");
        }
    }
}
