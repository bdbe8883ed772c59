//! An encoded mutation as it is read: checked whole once, then walked without allocation.

use crate::base::ids::{TableId, TimestampMicros, Token};
use crate::mutation::cell::DeletionTime;
use crate::mutation::encode::{FORMAT_VERSION, KEY_AT, SCHEMA_VERSION_AT, TABLE_AT, TIMESTAMP_AT};
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

/// A checked mutation.
#[derive(Clone, Copy, Debug)]
pub struct MutationView<'a> {
    bytes: &'a [u8],
    key: &'a [u8],
    entries: &'a [u8],
    table: TableId,
    schema_version: u32,
    timestamp: TimestampMicros,
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
        let (header, mut rest) = bytes.split_first_chunk::<KEY_AT>().ok_or(MutationError::Header(bytes.len()))?;
        let &[version, flags, ..] = header;
        if version != FORMAT_VERSION || flags != 0 {
            return Err(MutationError::Version { got: version, flags });
        }
        let at = |error| MutationError::Entry { offset_bytes: KEY_AT, error };
        let key_len = read_canonical(&mut rest).map_err(at)?;
        if key_len == 0 || key_len > KEY_BYTES_MAX as u64 {
            return Err(MutationError::Key(key_len));
        }
        let split = rest.split_at_checked(key_len as usize);
        let (key, entries) = split.ok_or(at(EntryError::Truncated))?;
        let view = MutationView {
            bytes,
            key,
            entries,
            table: TableId(field(header, TABLE_AT)),
            schema_version: u32::from_le_bytes(field(header, SCHEMA_VERSION_AT)),
            timestamp: i64::from_le_bytes(field(header, TIMESTAMP_AT)),
        };
        view.check_entries()?;
        Ok(view)
    }

    fn check_entries(&self) -> Result<(), MutationError> {
        let mut reader = EntryReader::new(self.entries, self.timestamp);
        let mut in_row = false;
        loop {
            let offset_bytes = self.bytes.len() - reader.rest().len();
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
        self.bytes
    }

    pub fn table(&self) -> TableId {
        self.table
    }

    /// The table's schema version that it was encoded under.
    pub fn schema_version(&self) -> u32 {
        self.schema_version
    }

    /// The base timestamp.
    pub fn timestamp(&self) -> TimestampMicros {
        self.timestamp
    }

    pub fn key(&self) -> &'a [u8] {
        self.key
    }

    /// The partition's token, computed anew at each call.
    pub fn token(&self) -> Token {
        partitioner::token_of(self.key)
    }

    /// The entries in order, timestamps resolved.
    pub fn entries(&self) -> Entries<'a> {
        Entries { reader: EntryReader::new(self.entries, self.timestamp) }
    }

    /// What it does, in order, row by row. A row's cells are ordered and reconciled here; several items may concern
    /// one row.
    pub fn items(&self) -> Items<'a> {
        Items { reader: EntryReader::new(self.entries, self.timestamp) }
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

impl<'a> Iterator for Entries<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        self.reader.next_entry().expect("parse has checked every entry")
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
        let checked = "parse has checked every entry";
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
