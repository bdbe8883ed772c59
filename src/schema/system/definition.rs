//! How a table of a system keyspace is written down here, and the `Table` it stands for.

use std::collections::BTreeMap;

use md5::{Digest, Md5};

use crate::base::ids::{ColumnId, TableId};
use crate::schema::columns::{Column, ColumnKind, Columns};
use crate::schema::table::{Table, TableOptions};
use crate::types::{CqlType, parse_cql_type};

/// A system table. Start from `TABLE`. Columns are written as in CREATE TABLE: `a int, b map<text, int>`.
pub struct Definition {
    pub name: &'static str,
    pub comment: &'static str,
    pub partition_key: &'static str,
    pub clustering: &'static str,
    /// Clustering columns in descending order.
    pub descending: &'static [&'static str],
    pub statics: &'static str,
    pub regulars: &'static str,
    pub compaction: Compaction,
    pub default_time_to_live_s: i32,
    pub gc_grace_s: i32,
    pub memtable_flush_period_ms: i32,
}

/// The compaction options that system tables have.
#[derive(Clone, Copy)]
pub enum Compaction {
    /// That of every table.
    Default,
    /// Size tiers of two files and more.
    SizeTieredFromTwo,
    Leveled,
    /// Time windows of a day.
    DailyWindows,
}

/// What most system tables are.
pub const TABLE: Definition = Definition {
    name: "",
    comment: "",
    partition_key: "",
    clustering: "",
    descending: &[],
    statics: "",
    regulars: "",
    compaction: Compaction::Default,
    default_time_to_live_s: 0,
    gc_grace_s: 864_000,
    memtable_flush_period_ms: 0,
};

impl Definition {
    /// The table, with the id that Cassandra gives it in every cluster.
    pub fn table(&self, keyspace: &str) -> Table {
        let mut list = Vec::new();
        let mut add = |name: &str, ty: &str, kind| {
            let id = ColumnId(u16::try_from(list.len()).expect("a system table has few columns"));
            list.push(Column { id, name: name.to_owned(), ty: column_type(ty), kind });
        };
        for (position, (name, ty)) in (0..).zip(columns(self.partition_key)) {
            add(name, ty, ColumnKind::PartitionKey(position));
        }
        for (position, (name, ty)) in (0..).zip(columns(self.clustering)) {
            add(name, ty, ColumnKind::Clustering { position, descending: self.descending.contains(&name) });
        }
        columns(self.statics).for_each(|(name, ty)| add(name, ty, ColumnKind::Static));
        columns(self.regulars).for_each(|(name, ty)| add(name, ty, ColumnKind::Regular));
        let next_column_id = u16::try_from(list.len()).expect("a system table has few columns");
        Table {
            id: table_id(keyspace, self.name),
            keyspace: keyspace.to_owned(),
            name: self.name.to_owned(),
            version: 1,
            columns: Columns::new(list),
            dropped: Vec::new(),
            next_column_id,
            options: self.options(),
            is_counter: false,
        }
    }

    fn options(&self) -> TableOptions {
        let default = TableOptions::default();
        TableOptions {
            comment: self.comment.to_owned(),
            compaction: self.compaction.options().unwrap_or(default.compaction),
            default_time_to_live_s: self.default_time_to_live_s,
            gc_grace_seconds: self.gc_grace_s,
            memtable_flush_period_in_ms: self.memtable_flush_period_ms,
            ..default
        }
    }
}

impl Compaction {
    fn options(self) -> Option<BTreeMap<String, String>> {
        let (class, min_threshold, more): (_, _, &[(&str, &str)]) = match self {
            Compaction::Default => return None,
            Compaction::SizeTieredFromTwo => ("SizeTieredCompactionStrategy", "2", &[]),
            Compaction::Leveled => ("LeveledCompactionStrategy", "4", &[]),
            Compaction::DailyWindows => {
                let window = &[("compaction_window_size", "1"), ("compaction_window_unit", "DAYS")];
                ("TimeWindowCompactionStrategy", "4", window)
            }
        };
        let class = format!("org.apache.cassandra.db.compaction.{class}");
        let common = [("class", class.as_str()), ("max_threshold", "32"), ("min_threshold", min_threshold)];
        let all = common.iter().chain(more);
        Some(all.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
    }
}

/// Name and type of each column of a list.
fn columns(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut depth = 0_u32;
    let between = move |c| {
        match c {
            '<' => depth += 1,
            '>' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    let columns = text.split(between).map(str::trim).filter(|column| !column.is_empty());
    columns.map(|column| column.split_once(' ').expect("the tests read every column of every system table"))
}

fn column_type(text: &str) -> CqlType {
    parse_cql_type(text, &|_| None).expect("the tests read the type of every column of every system table")
}

/// The id of a system table: the name-based UUID (version 3) of keyspace and table, as Cassandra derives it.
pub fn table_id(keyspace: &str, table: &str) -> TableId {
    let mut digest = Md5::new();
    digest.update(keyspace);
    digest.update(table);
    TableId(name_uuid(digest.finalize().into()))
}

/// An MD5 as a UUID of version 3.
pub fn name_uuid(mut digest: [u8; 16]) -> [u8; 16] {
    digest[6] = digest[6] & 0x0f | 0x30;
    digest[8] = digest[8] & 0x3f | 0x80;
    digest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_cassandras() {
        let check = |keyspace, table, expected: &str| assert_eq!(table_id(keyspace, table).to_string(), expected);
        check("system", "local", "7ad54392-bcdd-35a6-8417-4e047860b377");
        check("system", "IndexInfo", "9f5c6374-d485-3229-9a0a-5094af9ad1e3");
        check("system_schema", "keyspaces", "abac5682-dea6-31c5-b535-b3d6cffd0fb6");
        check("system_auth", "roles", "5bc52802-de25-35ed-aeab-188eecebb090");
        check("system_traces", "sessions", "c5e99f16-8677-3914-b17e-960613512345");
    }

    #[test]
    fn lists_split_between_columns_only() {
        let check = |text, expected: &[(&str, &str)]| assert_eq!(columns(text).collect::<Vec<_>>(), expected);
        check("", &[]);
        check("a int", &[("a", "int")]);
        check(
            "a map<text, frozen<tuple<int, int>>>,  b text",
            &[("a", "map<text, frozen<tuple<int, int>>>"), ("b", "text")],
        );
    }

    #[test]
    fn a_definition_becomes_a_table() {
        let definition = Definition {
            name: "t",
            comment: "c",
            partition_key: "b int, a text",
            clustering: "d timeuuid, c int",
            descending: &["d"],
            statics: "s set<text>",
            regulars: "m map<text, frozen<list<int>>>, z blob",
            compaction: Compaction::DailyWindows,
            gc_grace_s: 7,
            ..TABLE
        };
        let table = definition.table("system_x");
        let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
        assert_eq!(names, ["b", "a", "d", "c", "s", "m", "z"]);
        assert_eq!(table.column("d").map(|c| c.kind), Some(ColumnKind::Clustering { position: 0, descending: true }));
        assert_eq!(table.column("c").map(|c| c.kind), Some(ColumnKind::Clustering { position: 1, descending: false }));
        assert_eq!(table.options.compaction.get("compaction_window_unit").map(String::as_str), Some("DAYS"));
        assert_eq!((table.options.gc_grace_seconds, table.next_column_id), (7, 7));
    }
}
