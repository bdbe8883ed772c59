//! A mutation that is not resolved yet: what it does depends on what its owner reads. `FORMAT.md` states the bytes.
//!
//! It goes from the coordinator to the owner, never into a log or a memtable: `MutationView` refuses it.
//! `mutation::resolve` makes the mutation of it.

use crate::base::ids::{ColumnId, TableId, TimestampMicros};
use crate::base::vint;
use crate::mutation::encode::{FLAG_DRAFT, FLAGS_AT};
use crate::mutation::entry::{
    self, Entry, EntryError, EntryReader, Stamp, is_in_row, stamp_flag, tag, write_bytes, write_expiry, write_seconds,
    write_stamp,
};
use crate::mutation::view::{Head, MutationError};

/// What becomes of an element of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementChange<'a> {
    /// `DELETE l[i]`
    Delete,
    /// `l[i] = null`
    Null,
    /// `l[i] = ?` with a value that is not set: the element must be there, and stays.
    Unset,
    /// A value, with (TTL, when it expires), both in seconds.
    Value(&'a [u8], Option<(u32, i64)>),
}

mod change {
    pub const DELETE: u8 = 0;
    pub const NULL: u8 = 1;
    pub const UNSET: u8 = 2;
    pub const VALUE: u8 = 3;
    pub const EXPIRING: u8 = 4;
}

/// One entry of a draft.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Stays as it is; its own bytes. In a counter's table the tombstone of a cell is resolved too.
    Entry(Entry<'a>, &'a [u8]),
    CounterAddition {
        column: ColumnId,
        delta: i64,
    },
    ListElement {
        column: ColumnId,
        index: i32,
        change: ElementChange<'a>,
        stamp: Stamp,
        now_s: i64,
    },
    ListRemoval {
        column: ColumnId,
        values: Values<'a>,
        stamp: Stamp,
        now_s: i64,
    },
}

/// The values of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values<'a>(&'a [u8]);

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mut reader = EntryReader::new(self.0, 0);
        let value = reader.bytes().ok()?;
        self.0 = reader.rest();
        Some(value)
    }
}

/// Whether encoded bytes are a draft.
pub fn is_draft(mutation: &[u8]) -> bool {
    mutation.get(FLAGS_AT).is_some_and(|flags| flags & FLAG_DRAFT != 0)
}

/// A checked draft.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    head: Head<'a>,
}

impl<'a> Draft<'a> {
    /// Checks all of `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, MutationError> {
        let draft = Draft { head: Head::parse(bytes, FLAG_DRAFT)? };
        let mut pieces = draft.pieces(0);
        let mut in_row = false;
        loop {
            let offset_bytes = bytes.len() - pieces.reader.rest().len();
            let err = |error| MutationError::Entry { offset_bytes, error };
            let byte = pieces.reader.rest().first().copied().unwrap_or_default();
            let belongs_to_row = is_in_row(byte) || is_resolved(byte);
            match pieces.read().map_err(err)? {
                None => return Ok(draft),
                Some(Piece::Entry(Entry::Row { .. } | Entry::StaticRow, _)) => in_row = true,
                Some(Piece::Entry(Entry::Partition { .. }, _)) => return Err(err(EntryError::Misplaced(byte))),
                Some(_) if belongs_to_row && !in_row => return Err(err(EntryError::OutsideRow)),
                Some(_) if belongs_to_row => {}
                Some(_) => in_row = false,
            }
        }
    }

    pub fn table(&self) -> TableId {
        self.head.table
    }

    pub fn key(&self) -> &'a [u8] {
        self.head.key
    }

    /// All before the first entry, as encoded.
    pub(super) fn head_bytes(&self) -> &'a [u8] {
        &self.head.bytes[..self.head.bytes.len() - self.head.entries.len()]
    }

    /// What it has, timestamps resolved under this base.
    pub fn pieces(&self, base: TimestampMicros) -> Pieces<'a> {
        Pieces { reader: EntryReader::new(self.head.entries, base) }
    }
}

fn is_resolved(byte: u8) -> bool {
    matches!(byte & tag::KIND_MASK, tag::COUNTER_ADDITION..=tag::LIST_REMOVAL)
}

/// See `Draft::pieces`.
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    reader: EntryReader<'a>,
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        self.read().expect("parse has checked every piece")
    }
}

impl<'a> Pieces<'a> {
    fn read(&mut self) -> Result<Option<Piece<'a>>, EntryError> {
        let before = self.reader.rest();
        let Some(&byte) = before.first() else { return Ok(None) };
        if !is_resolved(byte) {
            let Some(entry) = self.reader.next_entry()? else { return Ok(None) };
            let bytes = &before[..before.len() - self.reader.rest().len()];
            return Ok(Some(Piece::Entry(entry, bytes)));
        }
        let reader = &mut self.reader;
        let byte = reader.byte()?;
        let (kind, form) = (byte & tag::KIND_MASK, byte & tag::STAMP_MASK);
        if byte & !(tag::KIND_MASK | tag::STAMP_MASK) != 0 || (kind == tag::COUNTER_ADDITION && form != 0) {
            return Err(EntryError::Tag(byte));
        }
        let column = reader.column()?;
        if kind == tag::COUNTER_ADDITION {
            return Ok(Some(Piece::CounterAddition { column, delta: reader.signed()? }));
        }
        let (stamp, now_s) = (reader.given_stamp(form)?, reader.seconds()?);
        Ok(Some(match kind {
            tag::LIST_ELEMENT => {
                let index = i32::try_from(reader.signed()?).map_err(|_| EntryError::Integer)?;
                Piece::ListElement { column, index, change: read_change(reader)?, stamp, now_s }
            }
            _ => Piece::ListRemoval { column, values: read_values(reader)?, stamp, now_s },
        }))
    }
}

fn read_change<'a>(reader: &mut EntryReader<'a>) -> Result<ElementChange<'a>, EntryError> {
    Ok(match reader.byte()? {
        change::DELETE => ElementChange::Delete,
        change::NULL => ElementChange::Null,
        change::UNSET => ElementChange::Unset,
        change::VALUE => ElementChange::Value(reader.bytes()?, None),
        change::EXPIRING => {
            let expiry = reader.expiry()?;
            ElementChange::Value(reader.bytes()?, Some(expiry))
        }
        got => return Err(EntryError::Bounds { what: "change of an element", got: u64::from(got) }),
    })
}

fn read_values<'a>(reader: &mut EntryReader<'a>) -> Result<Values<'a>, EntryError> {
    let bytes = reader.bytes()?;
    let mut values = EntryReader::new(bytes, 0);
    while !values.rest().is_empty() {
        values.bytes()?;
    }
    Ok(Values(bytes))
}

pub(super) fn write_counter_addition(out: &mut Vec<u8>, column: ColumnId, delta: i64) {
    out.push(tag::COUNTER_ADDITION);
    vint::write_u64(out, u64::from(column.0));
    vint::write_i64(out, delta);
}

pub(super) fn write_list_element(
    out: &mut Vec<u8>,
    column: ColumnId,
    index: i32,
    change: &ElementChange<'_>,
    stamp: Stamp,
    now_s: i64,
) {
    write_list_head(out, tag::LIST_ELEMENT, column, stamp, now_s);
    vint::write_i64(out, i64::from(index));
    match change {
        ElementChange::Delete => out.push(change::DELETE),
        ElementChange::Null => out.push(change::NULL),
        ElementChange::Unset => out.push(change::UNSET),
        ElementChange::Value(value, expiry) => {
            out.push(if expiry.is_some() { change::EXPIRING } else { change::VALUE });
            write_expiry(out, *expiry);
            write_bytes(out, value);
        }
    }
}

pub(super) fn write_list_removal<'v>(
    out: &mut Vec<u8>,
    column: ColumnId,
    values: impl Iterator<Item = &'v [u8]>,
    stamp: Stamp,
    now_s: i64,
) {
    write_list_head(out, tag::LIST_REMOVAL, column, stamp, now_s);
    let mut packed = Vec::new();
    values.for_each(|value| write_bytes(&mut packed, value));
    write_bytes(out, &packed);
}

fn write_list_head(out: &mut Vec<u8>, kind: u8, column: ColumnId, stamp: Stamp, now_s: i64) {
    out.push(kind | stamp_flag(stamp));
    vint::write_u64(out, u64::from(column.0));
    write_stamp(out, stamp);
    write_seconds(out, now_s);
}

/// A resolved cell, in the place of a piece.
pub(super) use entry::{write_cell, write_cell_tombstone};

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]
    use super::*;
    use crate::mutation::{MutationBuilder, MutationView, set_server_timestamp};
    use proptest::prelude::*;

    const TABLE: TableId = TableId([3; 16]);

    fn draft(stamp: Stamp) -> Vec<u8> {
        let mut out = Vec::new();
        let mut builder = MutationBuilder::begin(&mut out, TABLE, 2, b"k");
        builder.static_row().counter_addition(ColumnId(300), i64::MIN);
        builder.row(&[]).cell(ColumnId(1), None, stamp, None, b"v");
        for (index, change) in [
            (0, ElementChange::Delete),
            (-1, ElementChange::Null),
            (i32::MIN, ElementChange::Unset),
            (i32::MAX, ElementChange::Value(b"v", None)),
            (7, ElementChange::Value(b"", Some((5, 6)))),
        ] {
            builder.list_element(ColumnId(2), index, &change, stamp, 9);
        }
        builder.list_removal(ColumnId(2), [&b"a"[..], b"", b"bc"].into_iter(), stamp, 9);
        out
    }

    #[test]
    fn every_piece_comes_back() {
        for stamp in [Stamp::Base(0), Stamp::Base(-1), Stamp::At(77)] {
            let bytes = draft(stamp);
            assert!(is_draft(&bytes));
            let draft = Draft::parse(&bytes).unwrap();
            assert_eq!((draft.table(), draft.key()), (TABLE, &b"k"[..]));
            let pieces: Vec<Piece<'_>> = draft.pieces(10).collect();
            assert_eq!(pieces.len(), 10);
            let Piece::Entry(Entry::Cell(cell), _) = pieces[3] else { panic!("{:?}", pieces[3]) };
            assert_eq!((cell.timestamp, cell.value), (stamp.resolve(10), &b"v"[..]));
            assert_eq!(pieces[1], Piece::CounterAddition { column: ColumnId(300), delta: i64::MIN });
            let change = ElementChange::Value(&[], Some((5, 6)));
            assert_eq!(pieces[8], Piece::ListElement { column: ColumnId(2), index: 7, change, stamp, now_s: 9 });
            let Piece::ListRemoval { values, .. } = pieces[9] else { panic!("{:?}", pieces[9]) };
            assert_eq!(values.collect::<Vec<_>>(), [&b"a"[..], b"", b"bc"]);
        }
    }

    #[test]
    fn drafts_and_mutations_are_not_taken_for_each_other() {
        let mut bytes = draft(Stamp::Base(0));
        set_server_timestamp(&mut bytes, 5);
        assert!(Draft::parse(&bytes).is_ok());
        assert_eq!(MutationView::parse(&bytes).unwrap_err(), MutationError::Version { got: 1, flags: 3 });
        bytes[FLAGS_AT] &= !FLAG_DRAFT;
        assert_eq!(Draft::parse(&bytes).unwrap_err(), MutationError::Version { got: 1, flags: 1 });
        let tag = EntryError::Tag(tag::COUNTER_ADDITION);
        assert!(matches!(MutationView::parse(&bytes), Err(MutationError::Entry { error, .. }) if error == tag));
    }

    #[test]
    fn what_belongs_to_a_row_stands_in_one() {
        let mut out = Vec::new();
        MutationBuilder::begin(&mut out, TABLE, 2, b"k").mark_draft();
        write_counter_addition(&mut out, ColumnId(1), 1);
        assert!(matches!(Draft::parse(&out), Err(MutationError::Entry { error: EntryError::OutsideRow, .. })));
    }

    proptest! {
        #[test]
        fn damage_never_panics(at: prop::sample::Index, xor in 1u8.., cut: prop::sample::Index, entries: Vec<u8>) {
            let good = draft(Stamp::At(7));
            let mut flipped = good.clone();
            flipped[at.index(good.len())] ^= xor;
            let mut other = Vec::new();
            MutationBuilder::begin(&mut other, TABLE, 2, b"k").mark_draft();
            other.extend_from_slice(&entries);
            for bytes in [&flipped[..], &good[..cut.index(good.len())], &other] {
                if let Ok(draft) = Draft::parse(bytes) {
                    draft.pieces(1).for_each(drop);
                }
            }
        }
    }
}
