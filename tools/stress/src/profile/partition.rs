//! The rows of a partition: which there are follows from its key alone, so that a query names what an insert wrote.
//!
//! Under each value of a clustering column hang the values of the next, as many as its `cluster` draws. A row's other
//! columns are drawn from a seed made of its key.

use std::collections::HashSet;

use helenus::types::compare;

use super::column::Column;
use crate::arguments::Order;
use crate::random::{Random, seed_of};

/// A table's columns, by what they are in it.
#[derive(Clone, Debug)]
pub struct Table {
    pub keyspace: String,
    pub name: String,
    pub partition: Vec<Column>,
    pub clustering: Vec<Column>,
    pub values: Vec<Column>,
}

/// A partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// Of the columns of the partition key.
    seed: u64,
    /// Of the rows: the same wherever the key is.
    rows_seed: u64,
}

/// Which rows of a partition are visited.
pub struct Choice {
    /// The share of all rows.
    pub share: f64,
    pub order: Order,
}

/// A row that is visited.
pub struct Row<'a> {
    /// The clustering columns' values, each with its length before it.
    pub clustering: &'a [u8],
    /// Of the other columns.
    pub seed: u64,
}

impl Table {
    /// The partition of a seed; `key` becomes the values of its key, each with its length before it. Seeds whose keys
    /// are the same give the same rows.
    pub fn partition(&self, seed: u64, key: &mut Vec<u8>) -> Partition {
        key.clear();
        self.partition.iter().for_each(|column| column.put(seed, key));
        Partition { seed, rows_seed: seed_of(0, key) }
    }

    /// Appends one value of the partition key.
    pub fn put_partition_column(&self, partition: Partition, at: usize, out: &mut Vec<u8>) {
        self.partition[at].put(partition.seed, out);
    }

    /// The most rows that a partition has.
    pub fn rows_max(&self) -> f64 {
        self.clustering.iter().map(|column| column.cluster_max() as f64).product()
    }

    /// Gives every row that is chosen to `visit`, and says how many those are. `path` is room to work in.
    pub fn visit(
        &self,
        partition: Partition,
        choice: &Choice,
        random: &mut Random,
        path: &mut Vec<u8>,
        visit: &mut dyn FnMut(Row<'_>),
    ) -> u32 {
        path.clear();
        self.descend(0, partition.rows_seed, choice, random, path, visit)
    }

    fn descend(
        &self,
        level: usize,
        seed: u64,
        choice: &Choice,
        random: &mut Random,
        path: &mut Vec<u8>,
        visit: &mut dyn FnMut(Row<'_>),
    ) -> u32 {
        let Some(column) = self.clustering.get(level) else {
            visit(Row { clustering: path, seed });
            return 1;
        };
        let leaves = level + 1 == self.clustering.len();
        let mut visited = 0;
        let mut below = |member: i64, path: &mut Vec<u8>, random: &mut Random| {
            let start = path.len();
            column.put_member(member, path);
            let child = seed_of(seed, &path[start..]);
            visited += self.descend(level + 1, child, choice, random, path, visit);
            path.truncate(start);
        };
        let count = column.cluster_count(seed);
        if leaves && choice.share < 1.0 {
            for at in skips(count, choice.share, random) {
                below(column.member(seed.wrapping_add(at)), path, random);
            }
            return visited;
        }
        if choice.order == Order::Arbitrary && (count == 1 || !column.may_repeat()) {
            for at in 0..count {
                below(column.member(seed.wrapping_add(at)), path, random);
            }
            return visited;
        }
        for member in members(column, seed, count, choice.order, random) {
            below(member, path, random);
        }
        visited
    }

    /// Appends the clustering values of any one row and gives the seed of its other columns.
    pub fn any_row(&self, partition: Partition, random: &mut Random, clustering: &mut Vec<u8>) -> u64 {
        self.clustering.iter().fold(partition.rows_seed, |seed, column| {
            let at = random.below(column.cluster_count(seed));
            let start = clustering.len();
            column.put(seed.wrapping_add(at), clustering);
            seed_of(seed, &clustering[start..])
        })
    }

    /// Appends the values of a row that are not in its key, each with its length before it; those after the share
    /// that is populated are null.
    pub fn put_values(&self, row_seed: u64, populated: f64, out: &mut Vec<u8>) {
        for (at, column) in self.values.iter().enumerate() {
            if populated < 1.0 && (at + 1) as f64 / self.values.len() as f64 > populated {
                out.extend_from_slice(&(-1i32).to_be_bytes());
            } else {
                column.put(row_seed, out);
            }
        }
    }
}

/// The different values of a clustering column under one parent.
fn members(column: &Column, seed: u64, count: u64, order: Order, random: &mut Random) -> Vec<i64> {
    let (mut seen, mut value) = (HashSet::new(), Vec::new());
    let all = (0..count).map(|at| column.member(seed.wrapping_add(at)));
    let is_new = |member: &i64| {
        value.clear();
        column.put_member(*member, &mut value);
        seen.insert(seed_of(0, &value))
    };
    let mut members: Vec<i64> = all.filter(is_new).collect();
    match order {
        Order::Arbitrary => {}
        Order::Sorted => {
            let value = |member: i64| {
                let mut out = Vec::new();
                column.put_member(member, &mut out);
                out.split_off(4)
            };
            let mut valued: Vec<(Vec<u8>, i64)> = members.iter().map(|member| (value(*member), *member)).collect();
            valued.sort_by(|(a, _), (b, _)| compare(&column.ty, a, b));
            members = valued.into_iter().map(|(_, member)| member).collect();
        }
        Order::Shuffled => {
            for at in (1..members.len()).rev() {
                members.swap(at, random.below(at as u64 + 1) as usize);
            }
        }
    }
    members
}

/// Places below `count`, each with this chance: steps from one to the next are drawn, so that what is not chosen
/// costs nothing.
fn skips(count: u64, share: f64, random: &mut Random) -> impl Iterator<Item = u64> + use<> {
    let mut draws = Random::of(random.bits());
    let mut next = 0u64;
    std::iter::from_fn(move || {
        if share <= 0.0 {
            return None;
        }
        let step = ((1.0 - draws.unit()).ln() / (1.0 - share).ln()) as u64;
        let at = next.checked_add(step).filter(|at| *at < count)?;
        next = at + 1;
        Some(at)
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use helenus::types::CqlType;

    use super::super::column::ColumnSpec;
    use super::*;
    use crate::distribution::Distribution;

    fn column(name: &str, population: &str, cluster: &str) -> Column {
        let parsed = |text: &str| Some(Distribution::parse(text).unwrap());
        let spec = ColumnSpec { population: parsed(population), cluster: parsed(cluster), size: None };
        Column::new(name, CqlType::Int, Some(&spec)).unwrap()
    }

    fn table(clustering: Vec<Column>) -> Table {
        Table {
            keyspace: "ks".into(),
            name: "t".into(),
            partition: vec![column("pk", "seq(1..1000000)", "fixed(1)")],
            clustering,
            values: vec![column("v", "uniform(1..1000)", "fixed(1)"), column("w", "uniform(1..9)", "fixed(1)")],
        }
    }

    fn rows(table: &Table, seed: u64, share: f64, order: Order) -> Vec<(Vec<u8>, u64)> {
        let mut rows = Vec::new();
        let choice = Choice { share, order };
        let count = table.visit(
            table.partition(seed, &mut Vec::new()),
            &choice,
            &mut Random::of(seed),
            &mut Vec::new(),
            &mut |row| {
                rows.push((row.clustering.to_vec(), row.seed));
            },
        );
        assert_eq!(count as usize, rows.len());
        rows
    }

    fn ints(clustering: &[u8]) -> Vec<i32> {
        clustering.chunks(8).map(|value| i32::from_be_bytes(value[4..].try_into().unwrap())).collect()
    }

    #[test]
    fn a_sequence_gives_so_many_different_rows() {
        let table = table(vec![column("ck", "seq(1..1000)", "fixed(10)")]);
        for seed in 0..50 {
            let rows = rows(&table, seed, 1.0, Order::Arbitrary);
            let keys: HashSet<&Vec<u8>> = rows.iter().map(|(clustering, _)| clustering).collect();
            assert_eq!((rows.len(), keys.len()), (10, 10));
        }
        assert_eq!(table.rows_max(), 10.0);
        assert_eq!(rows(&table, 1, 1.0, Order::Arbitrary), rows(&table, 1, 1.0, Order::Arbitrary));
    }

    #[test]
    fn repeats_are_left_out() {
        let table = table(vec![column("ck", "uniform(1..3)", "fixed(20)")]);
        assert_eq!(rows(&table, 1, 1.0, Order::Arbitrary).len(), 3);
    }

    #[test]
    fn values_that_are_the_same_have_the_same_rows() {
        // Many members of the population, two values.
        let wide = |name: &str, cluster: &str| {
            let mut column = column(name, "uniform(1..1000)", cluster);
            column.ty = CqlType::Boolean;
            column
        };
        let table = Table { partition: vec![wide("pk", "fixed(1)")], ..table(vec![wide("ck", "fixed(9)")]) };
        let mut partitions = HashSet::new();
        for seed in 0..100 {
            let mut key = Vec::new();
            let partition = table.partition(seed, &mut key);
            partitions.insert((key, partition.rows_seed));
            assert_eq!(rows(&table, seed, 1.0, Order::Arbitrary).len(), 2);
        }
        assert_eq!(partitions.len(), 2);
    }

    #[test]
    fn levels_hang_below_each_other() {
        let table = table(vec![column("a", "seq(1..100)", "fixed(3)"), column("b", "seq(1..100)", "uniform(1..4)")]);
        let rows = rows(&table, 9, 1.0, Order::Arbitrary);
        let firsts: HashSet<i32> = rows.iter().map(|(clustering, _)| ints(clustering)[0]).collect();
        assert!(firsts.len() == 3 && rows.len() > 3 && rows.len() <= 12, "{}", rows.len());
        assert!(rows.iter().all(|(clustering, _)| clustering.len() == 16));
    }

    #[test]
    fn a_share_of_the_rows_is_visited() {
        let table = table(vec![column("a", "seq(1..100)", "fixed(4)"), column("b", "seq(1..100000)", "fixed(1000)")]);
        for share in [0.001, 0.1, 0.7] {
            let visited: usize = (0..50).map(|seed| rows(&table, seed, share, Order::Arbitrary).len()).sum();
            let expected = 50.0 * 4000.0 * share;
            assert!((visited as f64 - expected).abs() < expected * 0.15 + 30.0, "{share}: {visited}");
        }
        assert_eq!(rows(&table, 1, 0.0, Order::Arbitrary).len(), 0);
    }

    #[test]
    fn any_row_is_one_of_the_partition() {
        let table = table(vec![column("a", "seq(1..100)", "fixed(3)"), column("b", "uniform(1..50)", "fixed(5)")]);
        let all: HashSet<(Vec<u8>, u64)> = rows(&table, 4, 1.0, Order::Arbitrary).into_iter().collect();
        let mut random = Random::of(1);
        let mut seen = HashSet::new();
        for _ in 0..500 {
            let mut clustering = Vec::new();
            let seed = table.any_row(table.partition(4, &mut Vec::new()), &mut random, &mut clustering);
            assert!(all.contains(&(clustering.clone(), seed)));
            seen.insert(clustering);
        }
        assert_eq!(seen.len(), all.len());
    }

    #[test]
    fn rows_come_sorted_or_shuffled() {
        let table = table(vec![column("ck", "uniform(-500..500)", "fixed(40)")]);
        let keys = |order| -> Vec<i32> {
            rows(&table, 3, 1.0, order).iter().map(|(clustering, _)| ints(clustering)[0]).collect()
        };
        let (arbitrary, mut sorted, shuffled) = (keys(Order::Arbitrary), keys(Order::Sorted), keys(Order::Shuffled));
        assert!(sorted.is_sorted() && sorted[0] < 0 && !arbitrary.is_sorted() && arbitrary != shuffled);
        let mut others = [arbitrary, shuffled];
        others.iter_mut().for_each(|keys| keys.sort_unstable());
        sorted.dedup();
        assert!(others.iter().all(|keys| *keys == sorted));
    }

    #[test]
    fn what_is_not_populated_is_null() {
        let table = table(Vec::new());
        let (mut all, mut half) = (Vec::new(), Vec::new());
        table.put_values(7, 1.0, &mut all);
        table.put_values(7, 0.5, &mut half);
        assert_eq!((all.len(), half.len(), &half[8..]), (16, 12, &[255; 4][..]));
        assert_eq!(all[..8], half[..8]);
        let mut rows = Vec::new();
        let choice = Choice { share: 1.0, order: Order::Arbitrary };
        let mut visit = |row: Row<'_>| rows.push(row.clustering.len());
        table.visit(table.partition(1, &mut Vec::new()), &choice, &mut Random::of(1), &mut Vec::new(), &mut visit);
        assert_eq!(rows, [0], "without clustering a partition is a row");
    }
}
