//! Operators' commands: flush, compact, snapshot, clearsnapshot, tablestats.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use axum::extract::{RawQuery, State};
use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::admin::parameters::{NoParameters, Parameters};
use crate::admin::{Admin, Failed};
use crate::router::message::Operation;
use crate::shard::TableReport;
use crate::shard::root::SNAPSHOTS_DIR;

type Answer = Result<axum::Json<Value>, Failed>;

/// The parameters of all commands but snapshot and clearsnapshot.
const TABLES: &[&str] = &["keyspace", "table"];
const TABLES_AND_TAG: &[&str] = &["keyspace", "table", "tag"];

async fn done(admin: &Admin, operation: Operation) -> Answer {
    admin.everywhere(operation).await?;
    Ok(axum::Json(json!({ "done": true })))
}

pub async fn flush(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Answer {
    let parameters = Parameters::read(query.as_deref(), TABLES)?;
    let keyspace = parameters.one_keyspace()?;
    done(&admin, Operation::Flush { keyspace, tables: parameters.tables }).await
}

pub async fn compact(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Answer {
    let parameters = Parameters::read(query.as_deref(), TABLES)?;
    let keyspace = parameters.one_keyspace()?;
    done(&admin, Operation::Compact { keyspace, tables: parameters.tables }).await
}

/// Without a tag, the milliseconds since 1970 are the tag, as nodetool's are.
pub async fn snapshot(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Answer {
    let Parameters { keyspaces, tables, tag } = Parameters::read(query.as_deref(), TABLES_AND_TAG)?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let tag = tag.unwrap_or_else(|| now.as_millis().to_string());
    admin.everywhere(Operation::Snapshot { tag: tag.clone(), keyspaces, tables }).await?;
    Ok(axum::Json(json!({ "tag": tag })))
}

/// Without any parameter, all snapshots.
pub async fn clear_snapshot(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Answer {
    let Parameters { keyspaces, tables, tag } = Parameters::read(query.as_deref(), TABLES_AND_TAG)?;
    done(&admin, Operation::ClearSnapshot { tag, keyspaces, tables }).await
}

/// Every table's figures, shards added up.
pub async fn tablestats(State(admin): State<Admin>, RawQuery(query): RawQuery) -> Answer {
    let parameters = Parameters::read(query.as_deref(), TABLES)?;
    let keyspace = parameters.one_keyspace()?;
    let mut tables: BTreeMap<(String, String), TableReport> = BTreeMap::new();
    for report in admin.reports().await? {
        for table in report.tables {
            let key = (table.keyspace.clone(), table.table.clone());
            tables.entry(key).and_modify(|sum| sum.add(&table)).or_insert(table);
        }
    }
    let wanted = |table: &TableReport| {
        keyspace.as_ref().is_none_or(|keyspace| *keyspace == table.keyspace)
            && (parameters.tables.is_empty() || parameters.tables.contains(&table.table))
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
pub async fn snapshots(State(admin): State<Admin>, _: NoParameters) -> Answer {
    let dir = admin.info.data_dir.join(SNAPSHOTS_DIR);
    let listed = tokio::task::spawn_blocking(move || list_snapshots(&dir)).await;
    match listed {
        Ok(Ok(rows)) => Ok(axum::Json(json!({ "snapshots": rows }))),
        Ok(Err(error)) => Err(Failed(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
        Err(error) => Err(Failed(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

fn list_snapshots(dir: &Path) -> std::io::Result<Vec<Value>> {
    let mut rows = Vec::new();
    for (tag, tag_dir) in directories(dir)? {
        for (keyspace, keyspace_dir) in directories(&tag_dir)? {
            for (table, table_dir) in directories(&keyspace_dir)? {
                let files = entries(&table_dir)?;
                let bytes: u64 = files.iter().filter(|(_, file)| file.is_file()).map(|(_, file)| file.len()).sum();
                let name = table.rsplit_once('-').map_or(table.as_str(), |(name, _)| name);
                rows.push(json!({ "tag": tag, "keyspace": keyspace, "table": name, "bytes": bytes }));
            }
        }
    }
    Ok(rows)
}

/// The directories in one, by name.
fn directories(dir: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let found = entries(dir)?.into_iter().filter(|(_, found)| found.is_dir());
    Ok(found.map(|(path, _)| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), path)).collect())
}

/// What stands in a directory, by name. What is removed meanwhile, the directory itself too, is not there.
fn entries(dir: &Path) -> std::io::Result<Vec<(PathBuf, Metadata)>> {
    let gone = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    let listed = match std::fs::read_dir(dir) {
        Err(error) if gone(&error) => return Ok(Vec::new()),
        listed => listed?,
    };
    let mut found = Vec::new();
    for entry in listed {
        let path = entry?.path();
        match std::fs::symlink_metadata(&path) {
            Err(error) if gone(&error) => {}
            metadata => found.push((path, metadata?)),
        }
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_listed_by_tag_keyspace_and_table() {
        let dir = std::env::temp_dir().join(format!("helenus-snapshots-{}", std::process::id()));
        let table = dir.join("tag1/ks/users-0123");
        std::fs::create_dir_all(&table).expect("made");
        std::fs::write(table.join("sst-1-0-1.db"), [0; 10]).expect("written");
        std::fs::write(dir.join("tag1/stray"), [0; 10]).expect("written");
        let rows = list_snapshots(&dir).expect("listed");
        assert_eq!(rows, [json!({ "tag": "tag1", "keyspace": "ks", "table": "users", "bytes": 10 })]);
        std::fs::remove_dir_all(&dir).expect("removed");
        assert!(list_snapshots(&dir).expect("nothing is there").is_empty());
    }
}
