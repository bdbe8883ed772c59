//! One row by its whole primary key, without the cursor that slices need.

use crate::memtable::record::{Content, cell, partition, row};
use crate::memtable::{Memtable, tree};
use crate::mutation::point::{PointKey, PointRow};
use crate::schema::Position;

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
        let Some(partition) = self.partitions.find(arena, at.token, &at.key) else { return Point::None };
        let has_ranges = !arena.get_ref(partition, partition::RANGES).is_null();
        if has_ranges || !partition::deletion(arena, partition).is_live() {
            return Point::Deletions;
        }
        let order = self.table.clustering_order();
        let place = Position::row(&at.clustering);
        let against = |element| order.compare(Position::row(row::clustering(arena, element)), place);
        let path = tree::seek(arena, arena.get_ref(partition, partition::ROWS), |element| against(element).is_lt());
        let Some(found) = path.element(arena).filter(|element| against(*element).is_eq()) else { return Point::None };
        if !row::deletion(arena, found).is_live() {
            return Point::Deletions;
        }
        let mut live = PointRow { clustering: row::clustering(arena, found), cells: Default::default() };
        let mut is_live = row::liveness(arena, found).is_live(now_s);
        let mut cells = tree::seek(arena, arena.get_ref(found, row::CELLS), |_| false);
        while let Some(element) = cells.element(arena) {
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
            cells.step(arena);
        }
        if is_live { Point::Row(live) } else { Point::None }
    }
}
