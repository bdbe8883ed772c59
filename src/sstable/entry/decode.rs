//! Reading entries. The bytes have passed their checksum, and yet every length is checked: what does not fit is `None`.

use smallvec::SmallVec;

use super::{
    CELL_DELETED, CELL_EXPIRES, CELL_PATH, CELL_TIMESTAMP, CELL_VALUE, CHANGE_AFTER, CHANGE_BEFORE,
    CHANGE_WEIGHT_SHIFT, EntryKind, HEAD_CONTINUED, HEAD_DELETION, HEAD_OPEN, HEAD_STATIC, KIND_CHANGE, KIND_HEAD,
    KIND_MASK, KIND_ROW, ROW_COMPLEX, ROW_DELETION, ROW_EXPIRES, ROW_LIVENESS,
};
use crate::base::ids::{ColumnId, TimestampMicros, Token};
use crate::base::vint;
use crate::mutation::point::PointMerge;
use crate::mutation::{Cell, DeletionTime, Liveness, NEVER_S, Row};
use crate::schema::Position;

/// Where a partition stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HeadKey<'a> {
    pub token: Token,
    pub key: &'a [u8],
}

/// A partition's head as a block has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    pub token: Token,
    pub key: &'a [u8],
    pub deletion: DeletionTime,
    /// The partition began in an earlier block; `open` is the range deletion that holds where this one starts.
    pub continued: bool,
    pub open: DeletionTime,
    /// The static row's entry; decode it with `static_row`.
    pub static_entry: Option<&'a [u8]>,
}

/// A change of the range deletion, for both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change<'a> {
    pub position: Position<'a>,
    pub before: DeletionTime,
    pub after: DeletionTime,
}

/// Bytes being taken off the front, with the base of their timestamps.
struct Input<'a> {
    bytes: &'a [u8],
    base: TimestampMicros,
}

impl<'a> Input<'a> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(*first)
    }

    #[inline]
    fn unsigned(&mut self) -> Option<u64> {
        match self.bytes.split_first() {
            Some((&first, rest)) if first < 0x80 => {
                self.bytes = rest;
                Some(u64::from(first))
            }
            _ => vint::read_u64(&mut self.bytes),
        }
    }

    #[inline]
    fn signed(&mut self) -> Option<i64> {
        vint::read_i64(&mut self.bytes)
    }

    #[inline]
    fn slice(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.unsigned()?).ok()?;
        let (slice, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(slice)
    }

    #[inline]
    fn timestamp(&mut self) -> Option<TimestampMicros> {
        self.signed().map(|delta| self.base.wrapping_add(delta))
    }

    fn deletion_if(&mut self, present: bool) -> Option<DeletionTime> {
        if !present {
            return Some(DeletionTime::LIVE);
        }
        Some(DeletionTime { timestamp: self.timestamp()?, local_deletion_s: self.signed()? })
    }

    fn column(&mut self) -> Option<ColumnId> {
        u16::try_from(self.unsigned()?).ok().map(ColumnId)
    }
}

#[inline]
pub fn kind_of(entry: &[u8]) -> Option<EntryKind> {
    match *entry.first()? & KIND_MASK {
        KIND_HEAD => Some(EntryKind::Head),
        KIND_ROW => Some(EntryKind::Row),
        KIND_CHANGE => Some(EntryKind::Change),
        _ => None,
    }
}

/// Only the token of a head.
#[inline]
pub fn head_token(entry: &[u8]) -> Option<Token> {
    let (flags, rest) = entry.split_first()?;
    let token = *rest.first_chunk::<8>()?;
    (flags & KIND_MASK == KIND_HEAD).then(|| Token(i64::from_le_bytes(token)))
}

/// Only the token and key of a head.
#[inline]
pub fn head_key(entry: &[u8]) -> Option<HeadKey<'_>> {
    let (flags, rest) = entry.split_first()?;
    if flags & KIND_MASK != KIND_HEAD {
        return None;
    }
    let (token, rest) = rest.split_first_chunk::<8>()?;
    let mut input = Input { bytes: rest, base: 0 };
    Some(HeadKey { token: Token(i64::from_le_bytes(*token)), key: input.slice()? })
}

pub fn head(entry: &[u8], base: TimestampMicros) -> Option<Head<'_>> {
    head_and_rest(entry, base).map(|(head, _)| head)
}

/// The head at the front of `bytes`, and what follows it: what is to be its static row, where it has one.
#[inline]
pub fn head_and_rest(bytes: &[u8], base: TimestampMicros) -> Option<(Head<'_>, &[u8])> {
    let HeadKey { token, key } = head_key(bytes)?;
    let flags = *bytes.first()?;
    let mut input = Input { bytes: bytes.get(1 + 8..)?, base };
    input.slice()?;
    let deletion = input.deletion_if(flags & HEAD_DELETION != 0)?;
    let open = input.deletion_if(flags & HEAD_OPEN != 0)?;
    let static_entry = (flags & HEAD_STATIC != 0).then_some(input.bytes);
    let head = Head { token, key, deletion, continued: flags & HEAD_CONTINUED != 0, open, static_entry };
    Some((head, input.bytes))
}

/// Where a row or a change stands; `None` for a head.
#[inline]
pub fn position_of(entry: &[u8]) -> Option<Position<'_>> {
    let (flags, rest) = entry.split_first()?;
    let prefix = Input { bytes: rest, base: 0 }.slice()?;
    match flags & KIND_MASK {
        KIND_ROW => Some(Position::row(prefix)),
        KIND_CHANGE => Some(Position { prefix, weight: weight_of(*flags)? }),
        _ => None,
    }
}

fn weight_of(flags: u8) -> Option<i8> {
    match (flags >> CHANGE_WEIGHT_SHIFT) & 0b11 {
        0 => Some(-1),
        1 => Some(0),
        2 => Some(1),
        _ => None,
    }
}

pub fn change(entry: &[u8], base: TimestampMicros) -> Option<Change<'_>> {
    let mut input = Input { bytes: entry, base };
    let flags = input.byte()?;
    if flags & KIND_MASK != KIND_CHANGE {
        return None;
    }
    let position = Position { prefix: input.slice()?, weight: weight_of(flags)? };
    let before = input.deletion_if(flags & CHANGE_BEFORE != 0)?;
    let after = input.deletion_if(flags & CHANGE_AFTER != 0)?;
    input.bytes.is_empty().then_some(Change { position, before, after })
}

/// A head's static row, if it has one; the outer `None` is damage.
pub fn static_row<'a>(head: &Head<'a>, base: TimestampMicros) -> Option<Option<Row<'a>>> {
    match head.static_entry {
        None => Some(None),
        Some(entry) => row(entry, base).map(Some),
    }
}

pub fn row(entry: &[u8], base: TimestampMicros) -> Option<Row<'_>> {
    let mut parts = RowParts::read(entry, base)?;
    let mut row = Row::new(parts.clustering);
    (row.liveness, row.deletion) = (parts.liveness, parts.deletion);
    if parts.has_complex {
        for _ in 0..parts.input.unsigned()? {
            let column = parts.input.column()?;
            row.complex.push((column, parts.input.deletion_if(true)?));
        }
    }
    let cells = parts.begin_cells()?;
    // A cell takes two bytes at least: a count that lies reserves nothing for itself.
    row.cells = SmallVec::with_capacity(cells.min(parts.input.bytes.len() / 2));
    for _ in 0..cells {
        row.cells.push(parts.cell()?);
    }
    parts.input.bytes.is_empty().then_some(row)
}

/// Adds a row to a merge. False, and the merge of no use, where it has deletions of columns or cells with paths; `None`
/// where it does not decode.
pub fn add_row<'a>(entry: &'a [u8], base: TimestampMicros, merge: &mut PointMerge<'a>) -> Option<bool> {
    let mut parts = RowParts::read(entry, base)?;
    if parts.has_complex {
        return Some(false);
    }
    merge.row(parts.clustering, parts.liveness, parts.deletion);
    for _ in 0..parts.begin_cells()? {
        let cell = parts.cell()?;
        if cell.path.is_some() {
            return Some(false);
        }
        merge.cell(cell);
    }
    parts.input.bytes.is_empty().then_some(true)
}

/// A row's entry while it is read.
struct RowParts<'a> {
    clustering: &'a [u8],
    liveness: Liveness,
    deletion: DeletionTime,
    /// Deletions of columns come next, then the cells.
    has_complex: bool,
    /// The timestamp before the next cell's.
    previous: Option<TimestampMicros>,
    input: Input<'a>,
}

impl<'a> RowParts<'a> {
    #[inline]
    fn read(entry: &'a [u8], base: TimestampMicros) -> Option<Self> {
        let mut input = Input { bytes: entry, base };
        let flags = input.byte()?;
        if flags & KIND_MASK != KIND_ROW {
            return None;
        }
        let clustering = input.slice()?;
        let (mut liveness, mut previous) = (Liveness::NONE, None);
        if flags & ROW_LIVENESS != 0 {
            liveness.timestamp = input.timestamp()?;
            previous = Some(liveness.timestamp);
        }
        if flags & ROW_EXPIRES != 0 {
            liveness.ttl_s = u32::try_from(input.unsigned()?).ok()?;
            liveness.expires_s = input.signed()?;
        }
        let deletion = input.deletion_if(flags & ROW_DELETION != 0)?;
        Some(RowParts { clustering, liveness, deletion, has_complex: flags & ROW_COMPLEX != 0, previous, input })
    }

    /// How many cells follow.
    fn begin_cells(&mut self) -> Option<usize> {
        usize::try_from(self.input.unsigned()?).ok()
    }

    #[inline]
    fn cell(&mut self) -> Option<Cell<'a>> {
        let cell = cell(&mut self.input, self.previous)?;
        self.previous = Some(cell.timestamp);
        Some(cell)
    }
}

#[inline]
fn cell<'a>(input: &mut Input<'a>, previous: Option<TimestampMicros>) -> Option<Cell<'a>> {
    let flags = input.byte()?;
    let column = input.column()?;
    let path = if flags & CELL_PATH != 0 { Some(input.slice()?) } else { None };
    let timestamp = if flags & CELL_TIMESTAMP != 0 { input.timestamp()? } else { previous? };
    let local_deletion_s = if flags & CELL_DELETED != 0 { input.signed()? } else { NEVER_S };
    let ttl_s = if flags & CELL_EXPIRES != 0 { u32::try_from(input.unsigned()?).ok()? } else { 0 };
    let value = if flags & CELL_VALUE != 0 { input.slice()? } else { &[] };
    Some(Cell { column, path, timestamp, ttl_s, local_deletion_s, value })
}
