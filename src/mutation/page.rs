//! The page of a read (`ReadPage::bytes`): partition after partition, each with its live rows. `FORMAT.md` states the
//! bytes; they are the entries of a mutation.

use crate::base::ids::{ColumnId, TimestampMicros, Token};
use crate::mutation::cell::{DeletionTime, Liveness};
use crate::mutation::entry::{self, Entry, EntryError, EntryReader, Stamp};
use crate::mutation::row::Row;
use crate::mutation::view::read_row_body;

/// Appends partitions and rows to a page.
#[derive(Debug)]
pub struct PageWriter<'o> {
    out: &'o mut Vec<u8>,
    /// The first timestamp of the current partition, to which later ones are differences.
    base: Option<TimestampMicros>,
}

/// A place in a page to go back to.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    len_bytes: usize,
    base: Option<TimestampMicros>,
}

impl<'o> PageWriter<'o> {
    /// At the end of `out`, where a partition begins next.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        PageWriter { out, base: None }
    }

    /// Within a partition, where `mark` was made at the end of the same bytes.
    pub fn resume(out: &'o mut Vec<u8>, mark: Mark) -> Self {
        debug_assert_eq!(out.len(), mark.len_bytes);
        PageWriter { out, base: mark.base }
    }

    pub fn len_bytes(&self) -> usize {
        self.out.len()
    }

    pub fn mark(&self) -> Mark {
        Mark { len_bytes: self.out.len(), base: self.base }
    }

    /// Forgets what was written since `mark`.
    pub fn rewind(&mut self, mark: Mark) {
        self.out.truncate(mark.len_bytes);
        self.base = mark.base;
    }

    pub fn partition(&mut self, token: Token, key: &[u8]) {
        entry::write_partition(self.out, token, key);
        self.base = None;
    }

    /// The static row, with the cells of `columns` (ascending; `None`: all).
    pub fn static_row(&mut self, row: &Row<'_>, columns: Option<&[ColumnId]>) {
        entry::write_static_row(self.out);
        self.body(row, columns);
    }

    /// A row, with the cells of `columns` (ascending; `None`: all).
    pub fn row(&mut self, row: &Row<'_>, columns: Option<&[ColumnId]>) {
        entry::write_row(self.out, row.clustering);
        self.body(row, columns);
    }

    fn body(&mut self, row: &Row<'_>, columns: Option<&[ColumnId]>) {
        if !row.liveness.is_none() {
            let Liveness { timestamp, ttl_s, expires_s } = row.liveness;
            let stamp = self.stamp(timestamp);
            entry::write_liveness(self.out, stamp, (ttl_s != 0).then_some((ttl_s, expires_s)));
        }
        if !row.deletion.is_live() {
            let DeletionTime { timestamp, local_deletion_s } = row.deletion;
            let stamp = self.stamp(timestamp);
            entry::write_row_deletion(self.out, stamp, local_deletion_s);
        }
        let wanted = |column: &ColumnId| columns.is_none_or(|columns| columns.binary_search(column).is_ok());
        for (column, deletion) in row.complex.iter().filter(|(column, _)| wanted(column)) {
            let stamp = self.stamp(deletion.timestamp);
            entry::write_complex_deletion(self.out, *column, stamp, deletion.local_deletion_s);
        }
        for cell in row.cells.iter().filter(|cell| wanted(&cell.column)) {
            let stamp = self.stamp(cell.timestamp);
            if cell.is_tombstone() {
                entry::write_cell_tombstone(self.out, cell.column, cell.path, stamp, cell.local_deletion_s);
            } else {
                let expiry = cell.is_expiring().then_some((cell.ttl_s, cell.local_deletion_s));
                entry::write_cell(self.out, cell.column, cell.path, stamp, expiry, cell.value);
            }
        }
    }

    fn stamp(&mut self, timestamp: TimestampMicros) -> Stamp {
        match self.base {
            Some(base) => timestamp.checked_sub(base).map_or(Stamp::At(timestamp), Stamp::Base),
            None => {
                self.base = Some(timestamp);
                Stamp::At(timestamp)
            }
        }
    }
}

/// What a page holds, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageItem<'a> {
    /// The rows that follow are this partition's.
    Partition {
        token: Token,
        key: &'a [u8],
    },
    Static(Row<'a>),
    Row(Row<'a>),
}

/// Walks a page.
#[derive(Clone, Copy, Debug)]
pub struct PageView<'a> {
    reader: EntryReader<'a>,
}

impl<'a> PageView<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        PageView { reader: EntryReader::page(bytes) }
    }

    /// The next partition or row, `None` at the end.
    pub fn next_item(&mut self) -> Result<Option<PageItem<'a>>, EntryError> {
        let tag = self.reader.rest().first().copied().unwrap_or_default();
        Ok(Some(match self.reader.next_entry()? {
            None => return Ok(None),
            Some(Entry::Partition { token, key }) => PageItem::Partition { token, key },
            Some(Entry::StaticRow) => PageItem::Static(read_row_body(&mut self.reader, &[])?),
            Some(Entry::Row { clustering }) => PageItem::Row(read_row_body(&mut self.reader, clustering)?),
            Some(_) => return Err(EntryError::Misplaced(tag)),
        }))
    }
}

impl<'a> Iterator for PageView<'a> {
    type Item = Result<PageItem<'a>, EntryError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_item().transpose()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::mutation::testing::{any_op, encode};
    use crate::mutation::view::{Item, MutationView};
    use proptest::prelude::*;

    proptest! {
        /// Rows of many shapes come back as they were, partition by partition.
        #[test]
        fn rows_come_back(ops in prop::collection::vec(any_op(), 1..10)) {
            let bytes = encode(&ops);
            let mut page = Vec::new();
            let mut writer = PageWriter::new(&mut page);
            let mut want = Vec::new();
            for (at, item) in MutationView::parse(&bytes).unwrap().items().enumerate() {
                if at % 3 == 0 {
                    writer.partition(Token(at as i64), b"key");
                    want.push(PageItem::Partition { token: Token(at as i64), key: b"key" });
                }
                match item {
                    Item::Static(row) => {
                        writer.static_row(&row, None);
                        want.push(PageItem::Static(row));
                    }
                    Item::Row(row) => {
                        writer.row(&row, None);
                        want.push(PageItem::Row(row));
                    }
                    _ => {}
                }
            }
            let got: Result<Vec<_>, _> = PageView::new(&page).collect();
            prop_assert_eq!(got.unwrap(), want);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
            let mut view = PageView::new(&bytes);
            while let Ok(Some(_)) = view.next_item() {}
        }
    }

    fn row<'a>(timestamp: i64) -> Row<'a> {
        let mut row = Row::new(b"");
        row.liveness = Liveness { timestamp, ..Liveness::NONE };
        for column in [1, 2, 3] {
            row.cells.push(crate::mutation::Cell {
                column: ColumnId(column),
                path: None,
                timestamp: timestamp + i64::from(column),
                ttl_s: 0,
                local_deletion_s: crate::mutation::NEVER_S,
                value: b"v",
            });
        }
        row
    }

    #[test]
    fn only_wanted_columns_are_written() {
        let mut page = Vec::new();
        PageWriter::new(&mut page).row(&row(5), Some(&[ColumnId(2), ColumnId(9)]));
        let Ok(Some(PageItem::Row(got))) = PageView::new(&page).next_item() else { panic!("a row") };
        assert_eq!(got.cells[..], row(5).cells[1..2]);
        assert_eq!(got.liveness, row(5).liveness);
    }

    /// What was rewound is gone, and what follows is read against the right base.
    #[test]
    fn a_mark_takes_back_what_follows() {
        let mut page = Vec::new();
        let mut writer = PageWriter::new(&mut page);
        writer.partition(Token(1), b"k");
        let mark = writer.mark();
        writer.row(&row(1_000), None);
        writer.rewind(mark);
        writer.row(&row(i64::MIN + 1), None);
        writer.row(&row(i64::MAX - 3), None);
        let items: Vec<_> = PageView::new(&page).map(Result::unwrap).collect();
        let want = [
            PageItem::Partition { token: Token(1), key: b"k" },
            PageItem::Row(row(i64::MIN + 1)),
            PageItem::Row(row(i64::MAX - 3)),
        ];
        assert_eq!(items, want);
    }
}
