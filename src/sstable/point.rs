//! One row of a file by its whole primary key, without the cursor that slices need.

use std::cmp::Ordering;
use std::ops::Range;

use crate::mutation::ReadStop;
use crate::mutation::point::{PointKey, PointMerge};
use crate::schema::Position;
use crate::sstable::cursor::position;
use crate::sstable::entry::{self, HeadKey};
use crate::sstable::index::{Place, Within};
use crate::sstable::reader::{Reader, View};

impl Reader {
    /// Adds to `merge` what the file has of a row that has no multi-cell column. False, and the merge of no use, where it
    /// is not so simple: ranges are deleted around it, or it has such a column.
    pub fn add_point<'a>(
        &'a self,
        view: View<'a>,
        at: &PointKey,
        merge: &mut PointMerge<'a>,
    ) -> Result<bool, ReadStop> {
        if !self.may_contain(at.token) {
            return Ok(true);
        }
        let (token, key, row) = (at.token, at.key.as_slice(), Position::row(&at.clustering));
        let Some(found) = self.find(view, &Place { token, key, within: Within::At(row) })? else { return Ok(true) };
        let block = self.data_block(view, found)?;
        let n = block.head_at_or_after(HeadKey { token, key })?;
        if n == block.heads() {
            return Ok(true);
        }
        let (head, lone) = block.head_and_lone_entry(n)?;
        if (head.token, head.key) != (token, key) {
            return Ok(true);
        }
        if block.has_ranges() {
            return Ok(false);
        }
        merge.cover(head.deletion);
        let mut add = |entry| entry::add_row(entry, block.base(), merge).ok_or_else(|| block.damage("a row"));
        if let Some(entry) = lone {
            let position = entry::position_of(entry).ok_or_else(|| block.damage("an entry's position"))?;
            return if self.order().compare(position, row).is_eq() { add(entry) } else { Ok(true) };
        }
        let Range { start: mut low, end: mut high } = block.partition_entries(n);
        while low < high {
            let middle = (low + high) / 2;
            match self.order().compare(position(block, middle)?, row) {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal => return add(block.entry(middle)),
            }
        }
        Ok(true)
    }
}
