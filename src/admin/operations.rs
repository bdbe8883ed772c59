//! Operators' commands: flush, compact, snapshot, clearsnapshot, tablestats. Parameters are query parameters, `table`
//! and `keyspace` repeated as `a,b`.

use std::collections::BTreeMap;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admin::{Admin, Failed};
use crate::router::message::Operation;
use crate::shard::TableReport;
use crate::shard::root::SNAPSHOTS_DIR;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    keyspace: Option<String>,
    /// Names, separated by commas.
    table: Option<String>,
    tag: Option<String>,
}

type Answer = Result<axum::Json<Value>, Failed>;

impl Parameters {
    fn tables(&self) -> Vec<String> {
        names(self.table.as_deref())
    }

    fn keyspaces(&self) -> Vec<String> {
        names(self.keyspace.as_deref())
    }

    /// One keyspace or none, as flush and compact take it.
    fn one_keyspace(&self) -> Result<Option<String>, Failed> {
        if self.keyspace.is_none() && self.table.is_some() {
            return Err(Failed(StatusCode::BAD_REQUEST, "`table` needs `keyspace`".into()));
        }
        Ok(self.keyspace.clone())
    }
}

fn names(list: Option<&str>) -> Vec<String> {
    list.map_or_else(Vec::new, |list| list.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

async fn done(admin: &Admin, operation: Operation) -> Answer {
    admin.everywhere(operation).await?;
    Ok(axum::Json(json!({ "done": true })))
}

pub async fn flush(State(admin): State<Admin>, Query(parameters): Query<Parameters>) -> Answer {
    let keyspace = parameters.one_keyspace()?;
    done(&admin, Operation::Flush { keyspace, tables: parameters.tables() }).await
}

pub async fn compact(State(admin): State<Admin>, Query(parameters): Query<Parameters>) -> Answer {
    let keyspace = parameters.one_keyspace()?;
    done(&admin, Operation::Compact { keyspace, tables: parameters.tables() }).await
}

/// Without a tag, the milliseconds since 1970 are the tag, as nodetool's are.
pub async fn snapshot(State(admin): State<Admin>, Query(parameters): Query<Parameters>) -> Answer {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let tag = parameters.tag.clone().unwrap_or_else(|| now.as_millis().to_string());
    let (keyspaces, tables) = (parameters.keyspaces(), parameters.tables());
    admin.everywhere(Operation::Snapshot { tag: tag.clone(), keyspaces, tables }).await?;
    Ok(axum::Json(json!({ "tag": tag })))
}

pub async fn clear_snapshot(State(admin): State<Admin>, Query(parameters): Query<Parameters>) -> Answer {
    done(&admin, Operation::ClearSnapshot { tag: parameters.tag, keyspace: parameters.keyspace }).await
}

/// Every table's figures, shards added up.
pub async fn tablestats(State(admin): State<Admin>, Query(parameters): Query<Parameters>) -> Answer {
    let mut tables: BTreeMap<(String, String), TableReport> = BTreeMap::new();
    for report in admin.reports().await? {
        for table in report.tables {
            let key = (table.keyspace.clone(), table.table.clone());
            tables.entry(key).and_modify(|sum| sum.add(&table)).or_insert(table);
        }
    }
    let wanted = |table: &TableReport| {
        parameters.keyspace.as_ref().is_none_or(|keyspace| *keyspace == table.keyspace)
            && parameters.table.as_ref().is_none_or(|name| *name == table.table)
    };
    let rows: Vec<Value> = tables.values().filter(|table| wanted(table)).map(figures).collect();
    Ok(axum::Json(json!({ "tables": rows })))
}

fn figures(table: &TableReport) -> Value {
    json!({
        "keyspace": table.keyspace,
        "table": table.table,
        "sstables": table.sstables,
        "sstable_bytes": table.sstable_bytes,
        "partitions_estimate": table.partitions_estimate,
        "memtable_bytes": table.memtable_bytes,
        "memtable_partitions": table.memtable_partitions,
        "reads": table.reads,
        "writes": table.writes,
        "flushes": table.flushes,
        "compactions": table.compactions,
    })
}

/// The snapshots on disk: tag, keyspace, table, bytes.
pub async fn snapshots(State(admin): State<Admin>) -> Answer {
    let dir = admin.info.data_dir.join(SNAPSHOTS_DIR);
    let listed = tokio::task::spawn_blocking(move || list_snapshots(&dir)).await;
    match listed {
        Ok(Ok(rows)) => Ok(axum::Json(json!({ "snapshots": rows }))),
        Ok(Err(error)) => Err(Failed(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        Err(error) => Err(Failed(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

fn list_snapshots(dir: &std::path::Path) -> std::io::Result<Vec<Value>> {
    let mut rows = Vec::new();
    for (tag, tag_dir) in sorted(dir)? {
        for (keyspace, keyspace_dir) in sorted(&tag_dir)? {
            for (table, table_dir) in sorted(&keyspace_dir)? {
                let mut bytes = 0;
                for (_, file) in sorted(&table_dir)? {
                    bytes += std::fs::metadata(&file)?.len();
                }
                let name = table.rsplit_once('-').map_or(table.as_str(), |(name, _)| name);
                rows.push(json!({ "tag": tag, "keyspace": keyspace, "table": name, "bytes": bytes }));
            }
        }
    }
    Ok(rows)
}

fn sorted(dir: &std::path::Path) -> std::io::Result<Vec<(String, std::path::PathBuf)>> {
    let mut entries = std::fs::read_dir(dir)?
        .map(|entry| entry.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())))
        .collect::<std::io::Result<Vec<_>>>()?;
    entries.sort();
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_at_commas() {
        assert_eq!(names(Some("a,b,,c")), ["a", "b", "c"]);
        assert!(names(None).is_empty());
    }

    #[test]
    fn a_table_needs_its_keyspace() {
        let parameters = Parameters { table: Some("t".into()), ..Parameters::default() };
        assert!(parameters.one_keyspace().is_err());
    }

    #[test]
    fn snapshots_are_listed_by_tag_keyspace_and_table() {
        let dir = std::env::temp_dir().join(format!("helenus-snapshots-{}", std::process::id()));
        let table = dir.join("tag1/ks/users-0123");
        std::fs::create_dir_all(&table).expect("made");
        std::fs::write(table.join("sst-1-0-1.db"), [0; 10]).expect("written");
        let rows = list_snapshots(&dir).expect("listed");
        assert_eq!(rows, [json!({ "tag": "tag1", "keyspace": "ks", "table": "users", "bytes": 10 })]);
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
