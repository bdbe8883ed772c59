//! What a reader is shown of a partition: the rows that are live now, no deletions.

use crate::mutation::cursor::{Fragment, PartitionCursor, PartitionStart, ReadStop};
use crate::mutation::row::Row;

/// The live rows of a merged partition (deletions have been applied, so the cursor is a `Merge` or stands over one).
#[derive(Debug)]
pub struct LiveRows<C> {
    cursor: C,
    now_s: i64,
}

impl<'a, C: PartitionCursor<'a>> LiveRows<C> {
    pub fn new(cursor: C, now_s: i64) -> Self {
        LiveRows { cursor, now_s }
    }

    /// The partition's head, with its static row where that is live.
    pub fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop> {
        let mut start = self.cursor.start()?;
        start.static_row = start.static_row.take().and_then(|mut row| row.retain_live(self.now_s).then_some(row));
        Ok(start)
    }

    /// The next live row, with nothing in it but what is live.
    pub fn next_row(&mut self) -> Result<Option<Row<'a>>, ReadStop> {
        while let Some(fragment) = self.cursor.next()? {
            if let Fragment::Row(mut row) = fragment
                && row.retain_live(self.now_s)
            {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}
