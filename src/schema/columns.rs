//! A table's columns, in the one order that they have everywhere.

use std::ops::Deref;

use crate::base::ids::ColumnId;
use crate::schema::clustering::ClusteringOrder;
use crate::types::CqlType;

/// What a column is to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ColumnKind {
    /// The component's position in the partition key.
    PartitionKey(u16),
    /// The component's position among the clustering columns, and whether its order is descending.
    Clustering {
        position: u16,
        descending: bool,
    },
    Static,
    Regular,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Given once within the table and never reused. Cells of a row are ordered by it.
    pub id: ColumnId,
    pub name: String,
    pub ty: CqlType,
    pub kind: ColumnKind,
}

/// Columns as `SELECT *` shows them: partition key and clustering by position, then statics, then regulars, each by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    list: Vec<Column>,
    /// Made from `list` with each change of it: every read of a partition asks for it.
    clustering_order: ClusteringOrder,
}

impl Columns {
    pub fn new(mut list: Vec<Column>) -> Columns {
        list.sort_by(|a, b| column_order(a).cmp(&column_order(b)));
        let clustering_order = ClusteringOrder::new(list.iter().filter_map(|column| match column.kind {
            ColumnKind::Clustering { descending, .. } => Some((column.ty.clone(), descending)),
            _ => None,
        }));
        Columns { list, clustering_order }
    }

    pub fn clustering_order(&self) -> &ClusteringOrder {
        &self.clustering_order
    }

    /// Changes the columns, and puts them in order again.
    pub fn change<T>(&mut self, change: impl FnOnce(&mut Vec<Column>) -> T) -> T {
        let mut list = std::mem::take(&mut self.list);
        let changed = change(&mut list);
        *self = Columns::new(list);
        changed
    }
}

impl Deref for Columns {
    type Target = [Column];

    fn deref(&self) -> &[Column] {
        &self.list
    }
}

impl<'a> IntoIterator for &'a Columns {
    type Item = &'a Column;
    type IntoIter = std::slice::Iter<'a, Column>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter()
    }
}

/// The key that columns are sorted by. Cassandra compares the first six bytes of names with the first one as signed,
/// so that names that are not ASCII come first, and then whole names.
fn column_order(column: &Column) -> (ColumnKind, [u8; 6], &[u8]) {
    let name = column.name.as_bytes();
    if matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. }) {
        return (column.kind, [0; 6], name);
    }
    let mut prefix = [0; 6];
    prefix.iter_mut().zip(name).for_each(|(to, from)| *to = *from);
    prefix[0] ^= 0x80;
    (column.kind, prefix, name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &str, ty: CqlType, kind: ColumnKind) -> Column {
        Column { id: ColumnId(0), name: name.to_owned(), ty, kind }
    }

    fn names(columns: &Columns) -> Vec<&str> {
        columns.iter().map(|column| column.name.as_str()).collect()
    }

    fn clustering(position: u16, descending: bool) -> ColumnKind {
        ColumnKind::Clustering { position, descending }
    }

    #[test]
    fn columns_sort_as_select_shows_them() {
        let list = || CqlType::list(CqlType::Int);
        let columns = Columns::new(vec![
            column("a_list", list(), ColumnKind::Regular),
            column("z", CqlType::Int, ColumnKind::Regular),
            column("frozen", list().freeze(), ColumnKind::Regular),
            column("s_list", list(), ColumnKind::Static),
            column("s", CqlType::Int, ColumnKind::Static),
            column("c", CqlType::Int, clustering(1, false)),
            column("d", CqlType::Text, clustering(0, true)),
            column("k", CqlType::Int, ColumnKind::PartitionKey(1)),
            column("p", CqlType::Int, ColumnKind::PartitionKey(0)),
        ]);
        assert_eq!(names(&columns), ["p", "k", "d", "c", "s", "s_list", "a_list", "frozen", "z"]);
        let expected = ClusteringOrder::new([(CqlType::Text, true), (CqlType::Int, false)]);
        assert_eq!(*columns.clustering_order(), expected);
    }

    /// Names that differ within six bytes by those; beyond, by all bytes; not ASCII first.
    #[test]
    fn names_sort_as_cassandra_sorts_them() {
        let check = |expected: &[&str]| {
            let columns = expected.iter().rev().map(|name| column(name, CqlType::Int, ColumnKind::Regular)).collect();
            assert_eq!(names(&Columns::new(columns)), expected);
        };
        check(&["é", "A", "a", "aé", "b"]);
        check(&["abc", "abcdef", "abcdefa", "abcdefé", "abcdeg"]);
    }

    #[test]
    fn a_change_leaves_columns_and_clustering_in_order() {
        let mut columns = Columns::new(vec![
            column("k", CqlType::Int, ColumnKind::PartitionKey(0)),
            column("c", CqlType::Int, clustering(0, false)),
            column("v", CqlType::Int, ColumnKind::Regular),
        ]);
        columns.change(|list| list.push(column("a", CqlType::Int, ColumnKind::Regular)));
        assert_eq!(names(&columns), ["k", "c", "a", "v"]);
        let gone = columns.change(|list| {
            list[1].ty = CqlType::Text;
            list.remove(3)
        });
        assert_eq!((gone.name.as_str(), names(&columns)), ("v", vec!["k", "c", "a"]));
        assert_eq!(*columns.clustering_order(), ClusteringOrder::new([(CqlType::Text, false)]));
    }
}
