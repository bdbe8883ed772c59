//! What a reader is shown of a partition: the rows that are live now, no deletions.

use std::rc::Rc;

use crate::base::ids::ColumnId;
use crate::mutation::cursor::{Fragment, PartitionCursor, PartitionStart, ReadStop};
use crate::mutation::row::Row;

/// The live rows of a merged partition (deletions have been applied, so the cursor is a `Merge` or stands over one).
#[derive(Debug)]
pub struct LiveRows<C> {
    cursor: C,
    now_s: i64,
    /// Columns that are no more, ascending: their cells show nothing, and keep no row alive.
    dropped: Option<Rc<[ColumnId]>>,
}

impl<'a, C: PartitionCursor<'a>> LiveRows<C> {
    pub fn new(cursor: C, now_s: i64) -> Self {
        LiveRows { cursor, now_s, dropped: None }
    }

    /// The same, without the cells of these columns, which ascend.
    #[must_use]
    pub fn without(mut self, dropped: Option<Rc<[ColumnId]>>) -> Self {
        debug_assert!(dropped.iter().all(|dropped| dropped.is_sorted()));
        self.dropped = dropped;
        self
    }

    pub fn cursor(&self) -> &C {
        &self.cursor
    }

    /// The partition's head, with its static row where that is live.
    pub fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop> {
        let mut start = self.cursor.start()?;
        start.static_row = start.static_row.take().and_then(|mut row| self.shows(&mut row).then_some(row));
        Ok(start)
    }

    /// The next live row, with nothing in it but what is live.
    pub fn next_row(&mut self) -> Result<Option<Row<'a>>, ReadStop> {
        while let Some(fragment) = self.cursor.next()? {
            if let Fragment::Row(mut row) = fragment
                && self.shows(&mut row)
            {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    /// Leaves what is live in the row, and tells whether that is anything.
    fn shows(&self, row: &mut Row<'a>) -> bool {
        if let Some(dropped) = &self.dropped {
            row.cells.retain(|cell| dropped.binary_search(&cell.column).is_err());
        }
        row.retain_live(self.now_s)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::base::ids::{ColumnId, Token};
    use crate::mutation::cell::{Cell, DeletionTime, Liveness};
    use crate::mutation::owned::{OwnedFragment, OwnedPartition, OwnedRow};
    use crate::mutation::read::OwnedPosition;

    fn expiring(expires_s: i64) -> Row<'static> {
        let mut row = Row::new(b"");
        row.liveness = Liveness { timestamp: 1, ttl_s: 10, expires_s };
        row.deletion = DeletionTime { timestamp: 0, local_deletion_s: 0 };
        let cell = |column, at_s| Cell {
            column: ColumnId(column),
            path: None,
            timestamp: 1,
            ttl_s: 10,
            local_deletion_s: at_s,
            value: b"v",
        };
        row.cells.extend([cell(1, expires_s), cell(2, expires_s - 5)]);
        row
    }

    #[test]
    fn only_what_is_live_now_is_shown() {
        let partition = OwnedPartition {
            token: Token(1),
            key: b"k".to_vec(),
            deletion: DeletionTime::LIVE,
            static_row: Some(OwnedRow::copy(&expiring(90))),
            fragments: vec![
                OwnedFragment::Row(OwnedRow::copy(&expiring(90))),
                OwnedFragment::Change { position: OwnedPosition::end(), deletion: DeletionTime::LIVE },
                OwnedFragment::Row(OwnedRow::copy(&expiring(102))),
            ],
        };
        let mut rows = LiveRows::new(partition.cursor(), 100);
        assert_eq!(rows.start().unwrap().static_row, None);
        let row = rows.next_row().unwrap().unwrap();
        assert_eq!((row.cells.len(), row.cells[0].column), (1, ColumnId(1)));
        assert!(row.deletion.is_live());
        assert_eq!(rows.next_row().unwrap(), None);
        let mut earlier = LiveRows::new(partition.cursor(), 84);
        assert_eq!(earlier.start().unwrap().static_row.unwrap().cells.len(), 2);
    }
    #[test]
    fn a_row_that_has_cells_of_dropped_columns_only_is_not_shown() {
        let mut row = expiring(102);
        row.liveness = Liveness::NONE;
        let partition = OwnedPartition {
            token: Token(1),
            key: b"k".to_vec(),
            deletion: DeletionTime::LIVE,
            static_row: Some(OwnedRow::copy(&row)),
            fragments: vec![OwnedFragment::Row(OwnedRow::copy(&row))],
        };
        let mut one = LiveRows::new(partition.cursor(), 90).without(Some([ColumnId(1)].into()));
        assert_eq!(one.start().unwrap().static_row.unwrap().cells.len(), 1);
        assert_eq!(one.next_row().unwrap().unwrap().cells[0].column, ColumnId(2));
        let mut both = LiveRows::new(partition.cursor(), 90).without(Some([ColumnId(1), ColumnId(2)].into()));
        assert_eq!(both.start().unwrap().static_row, None);
        assert_eq!(both.next_row().unwrap(), None);
    }
}
