//! The tables that are written, and the CQL of every change to them.

use super::model::{Cells, Change, Column, Seen};
use crate::cql::{self, Row};

pub const KEYSPACE: &str = "kill9";
/// Partitions of each table: few, so that every one sees many changes.
pub const PARTITIONS: i32 = 48;
/// Clustering keys of a partition.
pub const CLUSTERINGS: i32 = 24;

const TTL_S: u32 = 10 * 86_400;

/// One table's form.
#[derive(Debug)]
pub struct Spec {
    pub name: &'static str,
    /// Partitions have rows, and a static column.
    pub clustered: bool,
    pub descending: bool,
    /// Statements carry USING TIMESTAMP; otherwise the server's own count.
    pub timestamped: bool,
    /// `v` is a counter, and there is no other column.
    pub counts: bool,
    options: &'static str,
}

pub const SPECS: [Spec; 5] = [
    Spec {
        name: "wide",
        clustered: true,
        descending: false,
        timestamped: false,
        counts: false,
        options: "compression = {'class': 'SnappyCompressor'}",
    },
    // Tombstones are purged at once: what they hid must not come back.
    Spec {
        name: "purged",
        clustered: true,
        descending: true,
        timestamped: false,
        counts: false,
        options: "CLUSTERING ORDER BY (ck DESC) AND gc_grace_seconds = 0 AND compression = {'class': 'LZ4Compressor'}",
    },
    Spec {
        name: "flat",
        clustered: false,
        descending: false,
        timestamped: false,
        counts: false,
        options: "gc_grace_seconds = 0",
    },
    Spec {
        name: "stamped",
        clustered: true,
        descending: false,
        timestamped: true,
        counts: false,
        options: "compression = {'enabled': false}",
    },
    Spec {
        name: "counts",
        clustered: true,
        descending: false,
        timestamped: false,
        counts: true,
        options: "gc_grace_seconds = 0",
    },
];

/// The statements that make keyspace and tables.
pub fn schema() -> Vec<String> {
    let mut statements = vec![format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    )];
    statements.extend(SPECS.iter().map(Spec::create));
    statements
}

impl Spec {
    fn create(&self) -> String {
        let columns = if self.counts {
            "pk int, ck int, v counter, PRIMARY KEY (pk, ck)"
        } else if self.clustered {
            "pk int, ck int, s int static, v int, w text, x int, PRIMARY KEY (pk, ck)"
        } else {
            "pk int PRIMARY KEY, v int, w text, x int"
        };
        format!("CREATE TABLE {KEYSPACE}.{} ({columns}) WITH {}", self.name, self.options)
    }

    /// `ALTER TABLE … ADD x int`, or DROP.
    pub fn alter(&self, add: bool) -> String {
        let what = if add { "ADD x int" } else { "DROP x" };
        format!("ALTER TABLE {KEYSPACE}.{} {what}", self.name)
    }

    pub fn truncate(&self) -> String {
        format!("TRUNCATE {KEYSPACE}.{}", self.name)
    }

    /// Asks whether the column `x` is there.
    pub fn asks_for_x(&self) -> String {
        format!(
            "SELECT column_name FROM system_schema.columns WHERE keyspace_name = '{KEYSPACE}' AND table_name = '{}' \
             AND column_name = 'x'",
            self.name
        )
    }

    /// All columns of the whole table, in the order that [`Spec::seen`] reads.
    pub fn select(&self, with_x: bool) -> String {
        if self.counts {
            return format!("SELECT pk, ck, v FROM {KEYSPACE}.{}", self.name);
        }
        let keys = if self.clustered { "pk, ck, s" } else { "pk" };
        let x = if with_x { ", x" } else { "" };
        format!("SELECT {keys}, v, w{x} FROM {KEYSPACE}.{}", self.name)
    }

    /// The same, of one partition.
    pub fn select_partition(&self, with_x: bool, pk: i32) -> String {
        format!("{} WHERE pk = {pk}", self.select(with_x))
    }

    /// The same, against the table's order.
    pub fn select_reversed(&self, with_x: bool, pk: i32) -> String {
        let order = if self.descending { "ASC" } else { "DESC" };
        format!("{} ORDER BY ck {order}", self.select_partition(with_x, pk))
    }

    /// A row of those: partition key, and what it shows.
    pub fn seen(&self, row: &Row) -> (Option<i32>, Seen) {
        let cell = |at: usize| row.get(at);
        let seen = if self.counts {
            let v = cql::bigint(cell(2)).and_then(|count| i32::try_from(count).ok());
            Seen { ck: cql::int(cell(1)), s: None, v, w: None, x: None }
        } else if self.clustered {
            let (ck, s) = (cql::int(cell(1)), cql::int(cell(2)));
            Seen { ck, s, v: cql::int(cell(3)), w: cql::text(cell(4)), x: cql::int(cell(5)) }
        } else {
            Seen { ck: Some(0), s: None, v: cql::int(cell(1)), w: cql::text(cell(2)), x: cql::int(cell(3)) }
        };
        (cql::int(cell(0)), seen)
    }

    /// The statement that makes `change` in partition `pk`, at `timestamp` where one is given.
    pub fn statement(&self, pk: i32, change: &Change, timestamp: Option<i64>) -> String {
        let table = format!("{KEYSPACE}.{}", self.name);
        let using = timestamp.map_or(String::new(), |timestamp| format!(" USING TIMESTAMP {timestamp}"));
        let using_ttl = |cells: &Cells| match (cells.expiring, using.as_str()) {
            (false, using) => using.to_owned(),
            (true, "") => format!(" USING TTL {TTL_S}"),
            (true, using) => format!("{using} AND TTL {TTL_S}"),
        };
        let row = |ck: &i32| if self.clustered { format!("pk = {pk} AND ck = {ck}") } else { format!("pk = {pk}") };
        match change {
            Change::Insert { ck, cells } => {
                let mut names = vec!["pk"];
                let mut values = vec![pk.to_string()];
                if self.clustered {
                    names.push("ck");
                    values.push(ck.to_string());
                }
                for (name, value) in literals(cells) {
                    names.push(name);
                    values.push(value);
                }
                format!("INSERT INTO {table} ({}) VALUES ({}){}", names.join(", "), values.join(", "), using_ttl(cells))
            }
            Change::Update { ck, cells } => {
                let set: Vec<String> =
                    literals(cells).into_iter().map(|(name, value)| format!("{name} = {value}")).collect();
                format!("UPDATE {table}{} SET {} WHERE {}", using_ttl(cells), set.join(", "), row(ck))
            }
            Change::Count { ck, delta } => format!("UPDATE {table} SET v = v + {delta} WHERE {}", row(ck)),
            Change::SetStatic(s) => format!("UPDATE {table}{using} SET s = {s} WHERE pk = {pk}"),
            Change::DeleteCell { ck, column } => {
                let name = match column {
                    Column::V => "v",
                    Column::W => "w",
                };
                format!("DELETE {name} FROM {table}{using} WHERE {}", row(ck))
            }
            Change::DeleteRow { ck } => format!("DELETE FROM {table}{using} WHERE {}", row(ck)),
            Change::DeleteRange { from, to } => {
                format!("DELETE FROM {table}{using} WHERE pk = {pk} AND ck >= {from} AND ck < {to}")
            }
            Change::DeletePartition => format!("DELETE FROM {table}{using} WHERE pk = {pk}"),
        }
    }
}

fn literals(cells: &Cells) -> Vec<(&'static str, String)> {
    let mut literals = Vec::new();
    literals.extend(cells.v.map(|v| ("v", v.to_string())));
    literals.extend(cells.w.as_ref().map(|w| ("w", format!("'{w}'"))));
    literals.extend(cells.x.map(|x| ("x", x.to_string())));
    literals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_has_its_statement() {
        let cells = Cells { v: Some(1), w: Some("a".into()), x: Some(2), expiring: false };
        let (wide, flat) = (&SPECS[0], &SPECS[2]);
        let check = |spec: &Spec, change: Change, timestamp, expected: &str| {
            assert_eq!(spec.statement(5, &change, timestamp), expected);
        };
        let insert = Change::Insert { ck: 3, cells: cells.clone() };
        check(wide, insert.clone(), None, "INSERT INTO kill9.wide (pk, ck, v, w, x) VALUES (5, 3, 1, 'a', 2)");
        check(flat, insert, Some(9), "INSERT INTO kill9.flat (pk, v, w, x) VALUES (5, 1, 'a', 2) USING TIMESTAMP 9");
        let update = Change::Update { ck: 3, cells: Cells { w: None, ..cells } };
        check(wide, update, Some(9), "UPDATE kill9.wide USING TIMESTAMP 9 SET v = 1, x = 2 WHERE pk = 5 AND ck = 3");
        let expiring = Change::Insert { ck: 3, cells: Cells { v: Some(1), expiring: true, ..Cells::default() } };
        check(flat, expiring.clone(), None, "INSERT INTO kill9.flat (pk, v) VALUES (5, 1) USING TTL 864000");
        let both = "INSERT INTO kill9.flat (pk, v) VALUES (5, 1) USING TIMESTAMP 9 AND TTL 864000";
        check(flat, expiring, Some(9), both);
        check(wide, Change::SetStatic(8), None, "UPDATE kill9.wide SET s = 8 WHERE pk = 5");
        let cell = Change::DeleteCell { ck: 3, column: Column::W };
        check(wide, cell, None, "DELETE w FROM kill9.wide WHERE pk = 5 AND ck = 3");
        check(flat, Change::DeleteRow { ck: 0 }, None, "DELETE FROM kill9.flat WHERE pk = 5");
        let range = Change::DeleteRange { from: 2, to: 4 };
        check(wide, range, Some(1), "DELETE FROM kill9.wide USING TIMESTAMP 1 WHERE pk = 5 AND ck >= 2 AND ck < 4");
        check(wide, Change::DeletePartition, None, "DELETE FROM kill9.wide WHERE pk = 5");
        let count = Change::Count { ck: 3, delta: -2 };
        check(&SPECS[4], count, None, "UPDATE kill9.counts SET v = v + -2 WHERE pk = 5 AND ck = 3");
    }

    #[test]
    fn rows_are_read_in_the_order_they_are_selected() {
        let int = |value: i32| Some(value.to_be_bytes().to_vec());
        let wide = vec![int(5), int(3), None, int(1), Some(b"a".to_vec()), int(2)];
        let seen = Seen { ck: Some(3), s: None, v: Some(1), w: Some("a".into()), x: Some(2) };
        assert_eq!(SPECS[0].seen(&wide), (Some(5), seen));
        let flat = vec![int(5), int(1), None];
        let seen = Seen { ck: Some(0), s: None, v: Some(1), w: None, x: None };
        assert_eq!(SPECS[2].seen(&flat), (Some(5), seen));
        let counts = vec![int(5), int(3), Some((-7i64).to_be_bytes().to_vec())];
        let seen = Seen { ck: Some(3), s: None, v: Some(-7), w: None, x: None };
        assert_eq!(SPECS[4].seen(&counts), (Some(5), seen));
        assert_eq!(
            SPECS[1].select_reversed(false, 5),
            "SELECT pk, ck, s, v, w FROM kill9.purged WHERE pk = 5 ORDER BY ck ASC"
        );
    }
}
