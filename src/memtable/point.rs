//! One row by its whole primary key, without the cursor that slices need.

use crate::memtable::record::{Content, cell, partition, row};
use crate::memtable::{Memtable, tree};
use crate::mutation::point::{PointKey, PointMerge, PointRow};

/// What a memtable says of a row.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "it stands on the stack for one call")]
pub enum Point<'a> {
    /// It has nothing live of the row.
    None,
    Row(PointRow<'a>),
    /// There are deletions in the partition or the row that the cells must be held against: a merge says.
    Deletions,
}

impl Memtable {
    /// What is live of the row at `now_s`, as if there were no other source.
    pub fn point(&self, at: &PointKey, now_s: i64) -> Point<'_> {
        let arena = &self.arena;
        let Some(partition) = self.partition_head(at) else { return Point::None };
        if !partition.ranges().is_null() || !partition.deletion().is_live() {
            return Point::Deletions;
        }
        let Some(row) = self.row_head(partition, at) else { return Point::None };
        if !row.deletion().is_live() {
            return Point::Deletions;
        }
        let mut live = PointRow { clustering: row.clustering(), cells: Default::default() };
        let mut is_live = row.liveness().is_live(now_s);
        for element in tree::elements(arena, row.cells()) {
            match cell::read(arena, element) {
                Content::Cell(cell) if cell.is_live(now_s) => {
                    is_live = true;
                    if cell.path.is_none() {
                        live.cells.push((cell.column, cell.value));
                    }
                }
                Content::Cell(_) => {}
                Content::ComplexDeletion(..) => return Point::Deletions,
            }
        }
        if is_live { Point::Row(live) } else { Point::None }
    }

    /// Adds to `merge` what is here of a row that has no multi-cell column. False, and the merge of no use, where it is not
    /// so simple: ranges of its partition are deleted, or it has such a column.
    pub fn add_point<'a>(&'a self, at: &PointKey, merge: &mut PointMerge<'a>) -> bool {
        let arena = &self.arena;
        let Some(partition) = self.partition_head(at) else { return true };
        if !partition.ranges().is_null() {
            return false;
        }
        merge.cover(partition.deletion());
        let Some(row) = self.row_head(partition, at) else { return true };
        merge.row(row.clustering(), row.liveness(), row.deletion());
        for element in tree::elements(arena, row.cells()) {
            match cell::read(arena, element) {
                Content::Cell(cell) if cell.path.is_none() => merge.cell(cell),
                Content::Cell(_) | Content::ComplexDeletion(..) => return false,
            }
        }
        true
    }

    #[inline]
    fn partition_head(&self, at: &PointKey) -> Option<partition::Head<'_>> {
        let found = self.partitions.find(&self.arena, at.token, &at.key)?;
        Some(partition::read(&self.arena, found))
    }

    #[inline]
    fn row_head(&self, partition: partition::Head<'_>, at: &PointKey) -> Option<row::Head<'_>> {
        let (arena, order) = (&self.arena, self.table.clustering_order());
        let compare = |element| order.compare_rows(row::clustering(arena, element), &at.clustering);
        tree::find(arena, partition.rows(), compare).map(|found| row::head(arena, found))
    }
}
