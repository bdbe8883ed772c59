//! An encoded mutation as it is read: checked whole once, then walked without allocation.

use crate::base::ids::{ColumnId, TableId, TimestampMicros, Token};
use crate::mutation::cell::DeletionTime;
use crate::mutation::encode::{
    FLAG_SERVER_TIMESTAMP, FORMAT_VERSION, KEY_AT, SCHEMA_VERSION_AT, TABLE_AT, TIMESTAMP_AT,
};
use crate::mutation::entry::{Entry, EntryError, EntryReader, KEY_BYTES_MAX, is_in_row, read_canonical};
use crate::mutation::row::Row;
use crate::schema::{Position, partitioner};

/// Why bytes are not an encoded mutation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MutationError {
    #[error("a mutation of {0} bytes is shorter than its header")]
    Header(usize),
    #[error("mutation format version {got} with flags {flags:#04x} is not known (this reads version {FORMAT_VERSION})")]
    Version { got: u8, flags: u8 },
    #[error("a partition key of {0} bytes")]
    Key(u64),
    #[error("mutation entry at byte {offset_bytes}: {error}")]
    Entry { offset_bytes: usize, error: EntryError },
}

/// What stands before a mutation's entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head<'a> {
    pub bytes: &'a [u8],
    pub table: TableId,
    pub schema_version: u32,
    pub timestamp: TimestampMicros,
    pub has_server_timestamp: bool,
    pub key: &'a [u8],
    pub entries: &'a [u8],
}

impl<'a> Head<'a> {
    /// Of a mutation with these flags, that of the timestamp's origin aside.
    pub fn parse(bytes: &'a [u8], flags_wanted: u8) -> Result<Self, MutationError> {
        let (header, mut rest) = bytes.split_first_chunk::<KEY_AT>().ok_or(MutationError::Header(bytes.len()))?;
        let &[version, flags, ..] = header;
        if version != FORMAT_VERSION || flags & !FLAG_SERVER_TIMESTAMP != flags_wanted {
            return Err(MutationError::Version { got: version, flags });
        }
        let at = |error| MutationError::Entry { offset_bytes: KEY_AT, error };
        let key_len = read_canonical(&mut rest).map_err(at)?;
        if key_len == 0 || key_len > KEY_BYTES_MAX as u64 {
            return Err(MutationError::Key(key_len));
        }
        let split = rest.split_at_checked(key_len as usize);
        let (key, entries) = split.ok_or(at(EntryError::Truncated))?;
        Ok(Head {
            bytes,
            key,
            entries,
            table: TableId(field(header, TABLE_AT)),
            schema_version: u32::from_le_bytes(field(header, SCHEMA_VERSION_AT)),
            timestamp: i64::from_le_bytes(field(header, TIMESTAMP_AT)),
            has_server_timestamp: flags & FLAG_SERVER_TIMESTAMP != 0,
        })
    }
}

/// A checked mutation.
#[derive(Clone, Copy, Debug)]
pub struct MutationView<'a> {
    head: Head<'a>,
}

/// One thing that a mutation does, with its row put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item<'a> {
    PartitionDeletion(DeletionTime),
    Static(Row<'a>),
    Row(Row<'a>),
    RangeTombstone { start: Position<'a>, end: Position<'a>, deletion: DeletionTime },
}

impl<'a> MutationView<'a> {
    /// Checks all of `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MutationError> {
        let view = MutationView { head: Head::parse(bytes, 0)? };
        view.check_entries()?;
        Ok(view)
    }

    /// Of what a `MutationBuilder` has just made: its entries are right, and are not checked again.
    ///
    /// # Panics
    /// At the first entry that is wrong all the same, when it is read.
    pub fn built(bytes: &'a [u8]) -> Result<Self, MutationError> {
        debug_assert_eq!(MutationView::parse(bytes).map(|_| ()), Ok(()), "a builder makes mutations");
        Head::parse(bytes, 0).map(|head| MutationView { head })
    }

    fn check_entries(&self) -> Result<(), MutationError> {
        let mut reader = EntryReader::new(self.head.entries, self.head.timestamp);
        let mut in_row = false;
        loop {
            let offset_bytes = self.head.bytes.len() - reader.rest().len();
            let err = |error| MutationError::Entry { offset_bytes, error };
            let tag = reader.rest().first().copied().unwrap_or_default();
            match reader.next_entry().map_err(err)? {
                None => return Ok(()),
                Some(Entry::Row { .. } | Entry::StaticRow) => in_row = true,
                Some(Entry::Partition { .. }) => return Err(err(EntryError::Misplaced(tag))),
                Some(_) if is_in_row(tag) && !in_row => return Err(err(EntryError::OutsideRow)),
                Some(_) if is_in_row(tag) => {}
                Some(_) => in_row = false,
            }
        }
    }

    /// All of it, as encoded.
    pub fn bytes(&self) -> &'a [u8] {
        self.head.bytes
    }

    pub fn table(&self) -> TableId {
        self.head.table
    }

    /// The table's schema version that it was encoded under.
    pub fn schema_version(&self) -> u32 {
        self.head.schema_version
    }

    /// The base timestamp.
    pub fn timestamp(&self) -> TimestampMicros {
        self.head.timestamp
    }

    /// The base timestamp if a server's clock gave it: no clock of the owners may give that one or a lower one again.
    pub fn server_timestamp(&self) -> Option<TimestampMicros> {
        self.head.has_server_timestamp.then_some(self.head.timestamp)
    }

    pub fn key(&self) -> &'a [u8] {
        self.head.key
    }

    /// The partition's token, computed anew at each call.
    pub fn token(&self) -> Token {
        partitioner::token_of(self.head.key)
    }

    /// The entries in order, timestamps resolved.
    pub fn entries(&self) -> Entries<'a> {
        Entries { reader: EntryReader::new(self.head.entries, self.head.timestamp) }
    }

    /// What it does, in order, row by row. A row's cells are ordered and reconciled here; several items may concern
    /// one row.
    pub fn items(&self) -> Items<'a> {
        Items { reader: EntryReader::new(self.head.entries, self.head.timestamp) }
    }
}

fn field<const N: usize>(header: &[u8; KEY_AT], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&header[at..at + N]);
    value
}

/// See `MutationView::entries`.
#[derive(Clone, Debug)]
pub struct Entries<'a> {
    reader: EntryReader<'a>,
}

impl<'a> Entries<'a> {
    /// Column and value of the next entry where that is a plain cell (`EntryReader::next_plain_cell`).
    #[inline]
    pub fn next_plain_cell(&mut self) -> Option<(ColumnId, &'a [u8])> {
        self.reader.next_plain_cell()
    }

    /// The timestamp of those.
    #[inline]
    pub fn base_timestamp(&self) -> TimestampMicros {
        self.reader.base_timestamp()
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        self.reader.next_entry().expect("entries are checked by parse, or their builder's")
    }
}

/// See `MutationView::items`.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    reader: EntryReader<'a>,
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        let checked = "entries are checked by parse, or their builder's";
        Some(match self.reader.next_entry().expect(checked)? {
            Entry::PartitionDeletion(deletion) => Item::PartitionDeletion(deletion),
            Entry::RangeTombstone { start, end, deletion } => Item::RangeTombstone { start, end, deletion },
            Entry::StaticRow => Item::Static(read_row_body(&mut self.reader, &[]).expect(checked)),
            Entry::Row { clustering } => Item::Row(read_row_body(&mut self.reader, clustering).expect(checked)),
            entry => unreachable!("parse refuses {entry:?} here"),
        })
    }
}

/// Reads what belongs to a row just begun and puts the row together.
pub(super) fn read_row_body<'a>(reader: &mut EntryReader<'a>, clustering: &'a [u8]) -> Result<Row<'a>, EntryError> {
    let mut row = Row::new(clustering);
    let mut ordered = true;
    while reader.next_is_in_row() {
        match reader.next_entry()? {
            Some(Entry::Liveness(liveness)) => row.liveness = row.liveness.max(liveness),
            Some(Entry::RowDeletion(deletion)) => row.deletion = row.deletion.max(deletion),
            Some(Entry::ComplexDeletion(column, deletion)) => row.add_complex_deletion(column, deletion),
            Some(Entry::Cell(cell)) => {
                ordered &= row.cells.last().is_none_or(|last| last.order(&cell).is_lt());
                row.cells.push(cell);
            }
            _ => return Err(EntryError::OutsideRow),
        }
    }
    if !ordered {
        row.order_cells();
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::mutation::cell::{Cell, Liveness, NEVER_S, NO_TIMESTAMP};
    use crate::mutation::encode::{MutationBuilder, set_server_timestamp, set_timestamp, timestamp};
    use crate::mutation::entry::Stamp;
    use crate::mutation::testing::{any_op, encode};
    use proptest::prelude::*;

    const TABLE: TableId = TableId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

    /// The example of FORMAT.md: a changed byte here is a changed format, which needs a new version.
    #[test]
    fn the_bytes_are_those_of_the_format_document() {
        let mut out = Vec::new();
        let mut builder = MutationBuilder::begin(&mut out, TABLE, 2, b"k");
        builder.row(&[4, 0, 0, 0, 0, 7]).cell(ColumnId(3), None, Stamp::Base(0), None, b"x");
        assert!(builder.uses_base());
        set_timestamp(&mut out, 1_000);
        let mut golden = vec![1, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 2, 0, 0, 0];
        golden.extend([0xe8, 3, 0, 0, 0, 0, 0, 0, 1, 0x6b, 3, 6, 4, 0, 0, 0, 0, 7, 9, 3, 1, 0x78]);
        assert_eq!(out, golden);
        let view = MutationView::parse(&out).unwrap();
        assert_eq!((view.table(), view.schema_version(), view.timestamp()), (TABLE, 2, 1_000));
        assert_eq!((view.key(), timestamp(&out)), (&b"k"[..], Some(1_000)));
    }

    /// Every entry in every form of its timestamp.
    #[test]
    fn every_entry_comes_back() {
        let (column, path) = (ColumnId(300), Some(&b"p"[..]));
        for (stamp, resolved) in [(Stamp::Base(0), 10), (Stamp::Base(-1), 9), (Stamp::At(-77), -77)] {
            let mut out = Vec::new();
            let mut builder = MutationBuilder::begin(&mut out, TABLE, 2, b"k");
            let (from, to) = (Position::before(&[1, 0, 9]), Position::row(&[1, 0, 9]));
            builder.partition_deletion(stamp, 1).range_tombstone(from, to, stamp, 2);
            builder.static_row().liveness(stamp, Some((5, 6))).row_deletion(stamp, 3);
            builder.row(b"").liveness(stamp, None).complex_deletion(column, stamp, 4);
            builder.cell(column, path, stamp, None, b"v").cell(column, None, stamp, Some((7, 8)), b"");
            builder.cell_tombstone(column, path, stamp, 9);
            set_timestamp(&mut out, 10);
            let deletion = |local_deletion_s| DeletionTime { timestamp: resolved, local_deletion_s };
            let cell = |path, ttl_s, local_deletion_s, value| {
                Entry::Cell(Cell { column, path, timestamp: resolved, ttl_s, local_deletion_s, value })
            };
            let end = Position::after(&[1, 0, 9]);
            let want = [
                Entry::PartitionDeletion(deletion(1)),
                Entry::RangeTombstone { start: from, end, deletion: deletion(2) },
                Entry::StaticRow,
                Entry::Liveness(Liveness { timestamp: resolved, ttl_s: 5, expires_s: 6 }),
                Entry::RowDeletion(deletion(3)),
                Entry::Row { clustering: b"" },
                Entry::Liveness(Liveness { timestamp: resolved, ttl_s: 0, expires_s: NEVER_S }),
                Entry::ComplexDeletion(column, deletion(4)),
                cell(path, 0, NEVER_S, &b"v"[..]),
                cell(None, 7, 8, &b""[..]),
                cell(path, 0, 9, &b""[..]),
            ];
            let view = MutationView::parse(&out).unwrap();
            assert_eq!(view.entries().collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn items_put_rows_together_in_order() {
        let mut out = Vec::new();
        let mut builder = MutationBuilder::begin(&mut out, TABLE, 2, b"k");
        builder.row(b"");
        for (column, value) in [(2, b"x"), (1, b"y"), (2, b"z")] {
            builder.cell(ColumnId(column), None, Stamp::At(5), None, value);
        }
        assert!(!builder.uses_base());
        let view = MutationView::parse(&out).unwrap();
        let [Item::Row(row)] = &view.items().collect::<Vec<_>>()[..] else { panic!("one row") };
        let cells: Vec<_> = row.cells.iter().map(|cell| (cell.column.0, cell.value)).collect();
        assert_eq!(cells, [(1, &b"y"[..]), (2, &b"z"[..])]);
    }

    fn check_refused(entries: &[u8], want: EntryError) {
        let mut out = Vec::new();
        MutationBuilder::begin(&mut out, TABLE, 2, b"k");
        out.extend_from_slice(entries);
        match MutationView::parse(&out) {
            Err(MutationError::Entry { error, .. }) => assert_eq!(error, want, "{entries:x?}"),
            other => panic!("{entries:x?} gave {other:?}"),
        }
    }

    #[test]
    fn what_is_not_canonical_is_refused() {
        check_refused(&[0], EntryError::Tag(0));
        check_refused(&[0x7f], EntryError::Tag(0x7f));
        check_refused(&[0x31, 0, 0], EntryError::Tag(0x31));
        check_refused(&[0x45], EntryError::Tag(0x45));
        check_refused(&[5], EntryError::OutsideRow);
        check_refused(&[2, 1, 0, 5], EntryError::OutsideRow);
        check_refused(&[12, 0, 0, 0, 0, 0, 0, 0, 0, 0], EntryError::Misplaced(12));
        check_refused(&[2, 0x15, 0], EntryError::Integer);
        check_refused(&[2, 9, 0x81, 0, 0], EntryError::Integer);
        check_refused(&[2, 6, 0, 1], EntryError::Bounds { what: "TTL", got: 0 });
        check_refused(&[2, 9, 0x80, 0x80, 4, 0], EntryError::Bounds { what: "column", got: 65_536 });
        check_refused(&[4, 2, 0], EntryError::Bounds { what: "weight of a bound", got: 2 });
        check_refused(&[3, 2, 1, 0], EntryError::Clustering(2));
        check_refused(&[2, 9, 1, 5, 0], EntryError::Truncated);
    }

    #[test]
    fn headers_are_checked() {
        let mut out = Vec::new();
        MutationBuilder::begin(&mut out, TABLE, 2, b"k");
        assert_eq!(MutationView::parse(&out[..29]).unwrap_err(), MutationError::Header(29));
        let mut other = out.clone();
        other[0] = 2;
        assert_eq!(MutationView::parse(&other).unwrap_err(), MutationError::Version { got: 2, flags: 0 });
        other = out.clone();
        other[1] = 2;
        assert_eq!(MutationView::parse(&other).unwrap_err(), MutationError::Version { got: 1, flags: 2 });
        other = out.clone();
        other[30] = 0;
        assert_eq!(MutationView::parse(&other).unwrap_err(), MutationError::Key(0));
    }

    #[test]
    fn a_mutation_says_whose_clock_its_timestamp_is() {
        let mut out = Vec::new();
        MutationBuilder::begin(&mut out, TABLE, 2, b"k").partition_deletion(Stamp::Base(0), 1);
        set_timestamp(&mut out, 7);
        assert_eq!(MutationView::parse(&out).unwrap().server_timestamp(), None);
        set_server_timestamp(&mut out, 8);
        assert_eq!(MutationView::parse(&out).unwrap().server_timestamp(), Some(8));
        set_timestamp(&mut out, 9);
        assert_eq!(MutationView::parse(&out).unwrap().server_timestamp(), Some(9));
    }

    #[test]
    fn a_base_at_the_ends_of_time_stays_a_timestamp() {
        let mut out = Vec::new();
        let mut builder = MutationBuilder::begin(&mut out, TABLE, 2, b"k");
        builder.partition_deletion(Stamp::Base(-1), 0).partition_deletion(Stamp::Base(0), 0);
        for base in [i64::MIN, i64::MIN + 1, i64::MAX] {
            set_timestamp(&mut out, base);
            for entry in MutationView::parse(&out).unwrap().entries() {
                let Entry::PartitionDeletion(deletion) = entry else { panic!("{entry:?}") };
                assert_ne!(deletion.timestamp, NO_TIMESTAMP);
            }
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes: Vec<u8>, entries: Vec<u8>) {
            let _ = MutationView::parse(&bytes);
            let mut out = Vec::new();
            MutationBuilder::begin(&mut out, TABLE, 2, b"k");
            out.extend_from_slice(&entries);
            if let Ok(view) = MutationView::parse(&out) {
                view.items().for_each(drop);
            }
        }

        /// A flipped byte in a good mutation is refused or gives another mutation that can be walked.
        #[test]
        fn damage_never_panics(ops in prop::collection::vec(any_op(), 1..6), at: prop::sample::Index, xor in 1u8..) {
            let mut bytes = encode(&ops);
            let at = at.index(bytes.len());
            bytes[at] ^= xor;
            if let Ok(view) = MutationView::parse(&bytes) {
                view.items().for_each(drop);
            }
        }

        #[test]
        fn a_cut_mutation_never_panics(ops in prop::collection::vec(any_op(), 1..6), at: prop::sample::Index) {
            let bytes = encode(&ops);
            prop_assert!(MutationView::parse(&bytes).is_ok());
            let _ = MutationView::parse(&bytes[..at.index(bytes.len())]);
        }
    }
}
