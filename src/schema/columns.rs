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
/// What is asked of them takes logarithmic time, however many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns {
    list: Vec<Column>,
    /// Made from `list` with each change of it, as all that follows: every read of a partition asks for it.
    clustering_order: ClusteringOrder,
    /// Places in `list`, sorted by name.
    by_name: Vec<u32>,
    /// Places in `list`, sorted by id.
    by_id: Vec<u32>,
    /// Where in `list` the clustering columns, the statics and the regulars begin.
    begins: [usize; 3],
}

impl Columns {
    pub fn new(mut list: Vec<Column>) -> Columns {
        list.sort_by(|a, b| column_order(a).cmp(&column_order(b)));
        let clustering_order = ClusteringOrder::new(list.iter().filter_map(|column| match column.kind {
            ColumnKind::Clustering { descending, .. } => Some((column.ty.clone(), descending)),
            _ => None,
        }));
        let mut by_name: Vec<u32> = (0..).zip(&list).map(|(at, _)| at).collect();
        let mut by_id = by_name.clone();
        let column = |at: &u32| &list[*at as usize];
        by_name.sort_by(|a, b| column(a).name.cmp(&column(b).name));
        by_id.sort_by_key(|at| column(at).id);
        let begin = |kind: ColumnKind| list.partition_point(|column| column.kind < kind);
        let clustering = begin(ColumnKind::Clustering { position: 0, descending: false });
        let begins = [clustering, begin(ColumnKind::Static), begin(ColumnKind::Regular)];
        Columns { list, clustering_order, by_name, by_id, begins }
    }

    pub fn clustering_order(&self) -> &ClusteringOrder {
        &self.clustering_order
    }

    /// The place of the column of this name.
    pub fn place(&self, name: &str) -> Option<usize> {
        let found = self.by_name.binary_search_by(|at| self.list[*at as usize].name.as_str().cmp(name));
        found.ok().map(|at| self.by_name[at] as usize)
    }

    pub fn by_id(&self, id: ColumnId) -> Option<&Column> {
        let found = self.by_id.binary_search_by_key(&id, |at| self.list[*at as usize].id);
        found.ok().map(|at| &self.list[self.by_id[at] as usize])
    }

    pub fn partition_key(&self) -> &[Column] {
        &self.list[..self.begins[0]]
    }

    pub fn clustering(&self) -> &[Column] {
        &self.list[self.begins[0]..self.begins[1]]
    }

    pub fn statics(&self) -> &[Column] {
        &self.list[self.begins[1]..self.begins[2]]
    }

    pub fn regulars(&self) -> &[Column] {
        &self.list[self.begins[2]..]
    }

    /// Changes the columns, and puts them in order again: as many as change, in one call.
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
    #![expect(clippy::unwrap_used, reason = "tests")]
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

    #[test]
    fn columns_are_found_by_name_id_and_kind() {
        let mut list: Vec<Column> =
            (0..1000).map(|at| column(&format!("c{}", at * 7919 % 1000), CqlType::Int, ColumnKind::Regular)).collect();
        (0..).zip(&mut list).for_each(|(id, column)| column.id = ColumnId(id * 3));
        list[5].kind = ColumnKind::PartitionKey(0);
        list[6].kind = clustering(0, true);
        list[7].kind = ColumnKind::Static;
        let columns = Columns::new(list.clone());
        for column in &list {
            assert_eq!(&columns[columns.place(&column.name).unwrap()], column);
            assert_eq!(columns.by_id(column.id), Some(column));
        }
        assert_eq!((columns.place("c1000"), columns.by_id(ColumnId(1))), (None, None));
        assert_eq!(columns.partition_key(), &list[5..6]);
        assert_eq!(columns.clustering(), &list[6..7]);
        assert_eq!(columns.statics(), &list[7..8]);
        assert_eq!(columns.regulars().len(), 997);
    }
}
