//! The entries of an encoded mutation and of a page, one codec for both. `FORMAT.md` states the bytes.
//!
//! Reading checks everything, so that arbitrary bytes give an error and never a panic. What is read has exactly one
//! encoding: a longer form of the same value is refused.

use crate::base::ids::{ColumnId, TimestampMicros, Token};
use crate::base::vint;
use crate::mutation::cell::{Cell, DeletionTime, Liveness, NEVER_S, NO_TIMESTAMP};
use crate::schema::Position;
use crate::schema::clustering::split_component;

/// The longest partition key and the longest component of a clustering key.
pub const KEY_BYTES_MAX: usize = 65_535;

/// When something was written, as the writer knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamp {
    /// The base timestamp plus this: 0 for what has the write's own time, -1 for the deletion that comes before
    /// setting a whole collection.
    Base(i64),
    /// This timestamp, whatever the base (`USING TIMESTAMP`).
    At(TimestampMicros),
}

impl Stamp {
    /// The timestamp under this base; never that of nothing.
    pub fn resolve(self, base: TimestampMicros) -> TimestampMicros {
        let timestamp = match self {
            Stamp::Base(difference) => base.saturating_add(difference),
            Stamp::At(timestamp) => timestamp,
        };
        timestamp.max(NO_TIMESTAMP + 1)
    }
}

/// One entry, its timestamp resolved against the base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry<'a> {
    PartitionDeletion(DeletionTime),
    StaticRow,
    Row { clustering: &'a [u8] },
    RangeTombstone { start: Position<'a>, end: Position<'a>, deletion: DeletionTime },
    Liveness(Liveness),
    RowDeletion(DeletionTime),
    ComplexDeletion(ColumnId, DeletionTime),
    Cell(Cell<'a>),
    Partition { token: Token, key: &'a [u8] },
}

/// What is wrong with an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    #[error("the bytes end within an entry")]
    Truncated,
    #[error("an integer is not in its shortest form or does not fit")]
    Integer,
    #[error("tag {0:#04x} is not known")]
    Tag(u8),
    #[error("{what} {got} is out of bounds")]
    Bounds { what: &'static str, got: u64 },
    #[error("a clustering key of {0} bytes does not divide into components")]
    Clustering(usize),
    #[error("an entry of a row stands outside every row")]
    OutsideRow,
    #[error("entry {0} does not belong here")]
    Misplaced(u8),
}

pub(super) mod tag {
    pub const PARTITION_DELETION: u8 = 1;
    pub const STATIC_ROW: u8 = 2;
    pub const ROW: u8 = 3;
    pub const RANGE_TOMBSTONE: u8 = 4;
    pub const LIVENESS: u8 = 5;
    pub const LIVENESS_EXPIRING: u8 = 6;
    pub const ROW_DELETION: u8 = 7;
    pub const COMPLEX_DELETION: u8 = 8;
    pub const CELL: u8 = 9;
    pub const CELL_EXPIRING: u8 = 10;
    pub const CELL_TOMBSTONE: u8 = 11;
    pub const PARTITION: u8 = 12;
    // In drafts only.
    pub const COUNTER_ADDITION: u8 = 13;
    pub const LIST_ELEMENT: u8 = 14;
    pub const LIST_REMOVAL: u8 = 15;

    pub const KIND_MASK: u8 = 0x0f;
    pub const STAMP_MASK: u8 = 0x30;
    pub const STAMP_BASE: u8 = 0x00;
    pub const STAMP_DIFFERENCE: u8 = 0x10;
    pub const STAMP_AT: u8 = 0x20;
    pub const PATH: u8 = 0x40;
}

/// Whether the entry that starts with this byte belongs to the row before it.
pub fn is_in_row(tag_byte: u8) -> bool {
    matches!(tag_byte & tag::KIND_MASK, tag::LIVENESS..=tag::CELL_TOMBSTONE)
}

pub(super) fn stamp_flag(stamp: Stamp) -> u8 {
    match stamp {
        Stamp::Base(0) => tag::STAMP_BASE,
        Stamp::Base(_) => tag::STAMP_DIFFERENCE,
        Stamp::At(_) => tag::STAMP_AT,
    }
}

pub(super) fn write_stamp(out: &mut Vec<u8>, stamp: Stamp) {
    match stamp {
        Stamp::Base(0) => {}
        Stamp::Base(difference) => vint::write_i64(out, difference),
        Stamp::At(timestamp) => {
            debug_assert_ne!(timestamp, NO_TIMESTAMP, "the timestamp of nothing is never written");
            vint::write_i64(out, timestamp);
        }
    }
}

pub(super) fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    vint::write_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Seconds since 1970; a clock before that counts as 1970.
pub(super) fn write_seconds(out: &mut Vec<u8>, seconds: i64) {
    debug_assert_ne!(seconds, NEVER_S, "a deletion or an expiry has its time");
    vint::write_u64(out, seconds.max(0).cast_unsigned());
}

fn write_bound(out: &mut Vec<u8>, weight: u8, prefix: &[u8]) {
    out.push(weight);
    write_bytes(out, prefix);
}

pub fn write_partition(out: &mut Vec<u8>, token: Token, key: &[u8]) {
    out.push(tag::PARTITION);
    out.extend_from_slice(&token.0.to_le_bytes());
    write_bytes(out, key);
}

pub fn write_partition_deletion(out: &mut Vec<u8>, stamp: Stamp, local_deletion_s: i64) {
    out.push(tag::PARTITION_DELETION | stamp_flag(stamp));
    write_stamp(out, stamp);
    write_seconds(out, local_deletion_s);
}

pub fn write_static_row(out: &mut Vec<u8>) {
    out.push(tag::STATIC_ROW);
}

pub fn write_row(out: &mut Vec<u8>, clustering: &[u8]) {
    out.push(tag::ROW);
    write_bytes(out, clustering);
}

/// A bound at weight 0 is a row itself, within the range.
pub fn write_range_tombstone(
    out: &mut Vec<u8>,
    start: Position<'_>,
    end: Position<'_>,
    stamp: Stamp,
    local_deletion_s: i64,
) {
    out.push(tag::RANGE_TOMBSTONE | stamp_flag(stamp));
    write_bound(out, u8::from(start.weight > 0), start.prefix);
    write_bound(out, u8::from(end.weight >= 0), end.prefix);
    write_stamp(out, stamp);
    write_seconds(out, local_deletion_s);
}

/// `expiry` is (TTL, when it expires), both in seconds.
pub fn write_liveness(out: &mut Vec<u8>, stamp: Stamp, expiry: Option<(u32, i64)>) {
    let kind = if expiry.is_some() { tag::LIVENESS_EXPIRING } else { tag::LIVENESS };
    out.push(kind | stamp_flag(stamp));
    write_stamp(out, stamp);
    write_expiry(out, expiry);
}

pub fn write_row_deletion(out: &mut Vec<u8>, stamp: Stamp, local_deletion_s: i64) {
    out.push(tag::ROW_DELETION | stamp_flag(stamp));
    write_stamp(out, stamp);
    write_seconds(out, local_deletion_s);
}

pub fn write_complex_deletion(out: &mut Vec<u8>, column: ColumnId, stamp: Stamp, local_deletion_s: i64) {
    out.push(tag::COMPLEX_DELETION | stamp_flag(stamp));
    vint::write_u64(out, u64::from(column.0));
    write_stamp(out, stamp);
    write_seconds(out, local_deletion_s);
}

/// A cell with a value; `expiry` is (TTL, when it expires), both in seconds.
#[inline]
pub fn write_cell(
    out: &mut Vec<u8>,
    column: ColumnId,
    path: Option<&[u8]>,
    stamp: Stamp,
    expiry: Option<(u32, i64)>,
    value: &[u8],
) {
    let is_plain = matches!((path, stamp, expiry), (None, Stamp::Base(0), None));
    if is_plain && write_short_cell(out, column, value) {
        return;
    }
    let kind = if expiry.is_some() { tag::CELL_EXPIRING } else { tag::CELL };
    write_cell_head(out, kind, column, path, stamp);
    write_expiry(out, expiry);
    write_bytes(out, value);
}

/// A cell under the base timestamp that has no path and does not expire.
#[inline]
pub fn write_plain_cell(out: &mut Vec<u8>, column: ColumnId, value: &[u8]) {
    if !write_short_cell(out, column, value) {
        write_cell(out, column, None, Stamp::Base(0), None, value);
    }
}

/// The same where column and length take a byte each: what `EntryReader::next_plain_cell` reads. Whether they do.
#[inline]
fn write_short_cell(out: &mut Vec<u8>, column: ColumnId, value: &[u8]) -> bool {
    let is_short = column.0 < 0x80 && value.len() < 0x80;
    if is_short {
        out.extend_from_slice(&[tag::CELL, column.0 as u8, value.len() as u8]);
        out.extend_from_slice(value);
    }
    is_short
}

pub fn write_cell_tombstone(
    out: &mut Vec<u8>,
    column: ColumnId,
    path: Option<&[u8]>,
    stamp: Stamp,
    local_deletion_s: i64,
) {
    write_cell_head(out, tag::CELL_TOMBSTONE, column, path, stamp);
    write_seconds(out, local_deletion_s);
}

fn write_cell_head(out: &mut Vec<u8>, kind: u8, column: ColumnId, path: Option<&[u8]>, stamp: Stamp) {
    out.push(kind | stamp_flag(stamp) | if path.is_some() { tag::PATH } else { 0 });
    vint::write_u64(out, u64::from(column.0));
    if let Some(path) = path {
        write_bytes(out, path);
    }
    write_stamp(out, stamp);
}

pub(super) fn write_expiry(out: &mut Vec<u8>, expiry: Option<(u32, i64)>) {
    if let Some((ttl_s, expires_s)) = expiry {
        debug_assert_ne!(ttl_s, 0, "a TTL of 0 is no TTL");
        vint::write_u64(out, u64::from(ttl_s));
        write_seconds(out, expires_s);
    }
}

/// Reads entries from the front of its bytes.
#[derive(Clone, Copy, Debug)]
pub struct EntryReader<'a> {
    rest: &'a [u8],
    base: TimestampMicros,
    /// In a page: the next timestamp that is given itself becomes the base.
    adopts_base: bool,
}

impl<'a> EntryReader<'a> {
    /// Over a mutation's entries.
    pub fn new(bytes: &'a [u8], base: TimestampMicros) -> Self {
        EntryReader { rest: bytes, base, adopts_base: false }
    }

    /// Over a page.
    pub fn page(bytes: &'a [u8]) -> Self {
        EntryReader { rest: bytes, base: 0, adopts_base: true }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether the next entry belongs to the row before it.
    pub fn next_is_in_row(&self) -> bool {
        self.rest.first().is_some_and(|byte| is_in_row(*byte))
    }

    /// The next entry, `None` at the end.
    #[inline]
    pub fn next_entry(&mut self) -> Result<Option<Entry<'a>>, EntryError> {
        if let Some((column, value)) = self.next_plain_cell() {
            let timestamp = self.base_timestamp();
            let cell = Cell { column, path: None, timestamp, ttl_s: 0, local_deletion_s: NEVER_S, value };
            return Ok(Some(Entry::Cell(cell)));
        }
        let Some((&byte, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        self.entry(byte).map(Some)
    }

    /// Column and value of the next entry where that is a cell under the base timestamp, without path and expiry, its
    /// column and its length a byte each, as most are; `None`, and nothing read, where it is anything else.
    #[inline]
    pub fn next_plain_cell(&mut self) -> Option<(ColumnId, &'a [u8])> {
        let [tag::CELL, column @ 0..0x80, len_bytes @ 0..0x80, rest @ ..] = self.rest else { return None };
        let (value, rest) = rest.split_at_checked(usize::from(*len_bytes))?;
        self.rest = rest;
        Some((ColumnId(u16::from(*column)), value))
    }

    /// What stands under the base timestamp has this one.
    #[inline]
    pub fn base_timestamp(&self) -> TimestampMicros {
        self.base.max(NO_TIMESTAMP + 1)
    }

    fn entry(&mut self, byte: u8) -> Result<Entry<'a>, EntryError> {
        let stamp = byte & tag::STAMP_MASK;
        let has_path = byte & tag::PATH != 0;
        let kind = byte & tag::KIND_MASK;
        let flags_allowed = match kind {
            tag::CELL | tag::CELL_EXPIRING | tag::CELL_TOMBSTONE => tag::STAMP_MASK | tag::PATH,
            tag::STATIC_ROW | tag::ROW | tag::PARTITION => 0,
            _ => tag::STAMP_MASK,
        };
        if byte & !tag::KIND_MASK & !flags_allowed != 0 || stamp == tag::STAMP_MASK {
            return Err(EntryError::Tag(byte));
        }
        match kind {
            tag::CELL | tag::CELL_EXPIRING | tag::CELL_TOMBSTONE => self.cell(kind, stamp, has_path).map(Entry::Cell),
            tag::ROW => self.clustering().map(|clustering| Entry::Row { clustering }),
            tag::LIVENESS => {
                Ok(Entry::Liveness(Liveness { timestamp: self.stamp(stamp)?, ttl_s: 0, expires_s: NEVER_S }))
            }
            tag::LIVENESS_EXPIRING => {
                let timestamp = self.stamp(stamp)?;
                let (ttl_s, expires_s) = self.expiry()?;
                Ok(Entry::Liveness(Liveness { timestamp, ttl_s, expires_s }))
            }
            tag::STATIC_ROW => Ok(Entry::StaticRow),
            tag::ROW_DELETION => self.deletion(stamp).map(Entry::RowDeletion),
            tag::COMPLEX_DELETION => Ok(Entry::ComplexDeletion(self.column()?, self.deletion(stamp)?)),
            tag::PARTITION_DELETION => self.deletion(stamp).map(Entry::PartitionDeletion),
            tag::RANGE_TOMBSTONE => {
                let (start, end) = (self.bound()?, self.bound()?);
                Ok(Entry::RangeTombstone { start, end, deletion: self.deletion(stamp)? })
            }
            tag::PARTITION => self.partition(),
            _ => Err(EntryError::Tag(byte)),
        }
    }

    fn cell(&mut self, kind: u8, stamp: u8, has_path: bool) -> Result<Cell<'a>, EntryError> {
        let column = self.column()?;
        let path = if has_path { Some(self.bytes()?) } else { None };
        let timestamp = self.stamp(stamp)?;
        let (ttl_s, local_deletion_s) = match kind {
            tag::CELL => (0, NEVER_S),
            tag::CELL_EXPIRING => self.expiry()?,
            _ => (0, self.seconds()?),
        };
        let value = if kind == tag::CELL_TOMBSTONE { &[] } else { self.bytes()? };
        Ok(Cell { column, path, timestamp, ttl_s, local_deletion_s, value })
    }

    fn partition(&mut self) -> Result<Entry<'a>, EntryError> {
        let (token, rest) = self.rest.split_first_chunk::<8>().ok_or(EntryError::Truncated)?;
        self.rest = rest;
        let token = Token(i64::from_le_bytes(*token));
        let key = self.bytes()?;
        self.adopts_base = true;
        Ok(Entry::Partition { token, key })
    }

    fn deletion(&mut self, stamp: u8) -> Result<DeletionTime, EntryError> {
        Ok(DeletionTime { timestamp: self.stamp(stamp)?, local_deletion_s: self.seconds()? })
    }

    fn bound(&mut self) -> Result<Position<'a>, EntryError> {
        let (&after, rest) = self.rest.split_first().ok_or(EntryError::Truncated)?;
        self.rest = rest;
        let weight = match after {
            0 => -1,
            1 => 1,
            got => return Err(EntryError::Bounds { what: "weight of a bound", got: u64::from(got) }),
        };
        Ok(Position { prefix: self.clustering()?, weight })
    }

    /// An encoded clustering key or prefix, all of it components.
    fn clustering(&mut self) -> Result<&'a [u8], EntryError> {
        let bytes = self.bytes()?;
        let mut rest = bytes;
        while !rest.is_empty() {
            split_component(&mut rest).ok_or(EntryError::Clustering(bytes.len()))?;
        }
        Ok(bytes)
    }

    pub(super) fn column(&mut self) -> Result<ColumnId, EntryError> {
        let got = self.unsigned()?;
        u16::try_from(got).map(ColumnId).map_err(|_| EntryError::Bounds { what: "column", got })
    }

    fn stamp(&mut self, form: u8) -> Result<TimestampMicros, EntryError> {
        match form {
            tag::STAMP_BASE => Ok(self.base_timestamp()),
            tag::STAMP_DIFFERENCE => match self.signed()? {
                0 => Err(EntryError::Integer),
                difference => Ok(self.base.saturating_add(difference).max(NO_TIMESTAMP + 1)),
            },
            _ => {
                let timestamp = self.signed()?;
                if timestamp == NO_TIMESTAMP {
                    return Err(EntryError::Integer);
                }
                if self.adopts_base {
                    self.base = timestamp;
                    self.adopts_base = false;
                }
                Ok(timestamp)
            }
        }
    }

    /// A timestamp as its writer gave it.
    pub(super) fn given_stamp(&mut self, form: u8) -> Result<Stamp, EntryError> {
        match form {
            tag::STAMP_BASE => Ok(Stamp::Base(0)),
            tag::STAMP_DIFFERENCE => match self.signed()? {
                0 => Err(EntryError::Integer),
                difference => Ok(Stamp::Base(difference)),
            },
            tag::STAMP_AT => match self.signed()? {
                NO_TIMESTAMP => Err(EntryError::Integer),
                timestamp => Ok(Stamp::At(timestamp)),
            },
            _ => Err(EntryError::Tag(form)),
        }
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> Result<u8, EntryError> {
        let (&byte, rest) = self.rest.split_first().ok_or(EntryError::Truncated)?;
        self.rest = rest;
        Ok(byte)
    }

    pub(super) fn expiry(&mut self) -> Result<(u32, i64), EntryError> {
        let got = self.unsigned()?;
        match u32::try_from(got) {
            Ok(ttl_s) if ttl_s != 0 => Ok((ttl_s, self.seconds()?)),
            _ => Err(EntryError::Bounds { what: "TTL", got }),
        }
    }

    pub(super) fn seconds(&mut self) -> Result<i64, EntryError> {
        let got = self.unsigned()?;
        match i64::try_from(got) {
            Ok(seconds) if seconds != NEVER_S => Ok(seconds),
            _ => Err(EntryError::Bounds { what: "local deletion time", got }),
        }
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8], EntryError> {
        let len = usize::try_from(self.unsigned()?).map_err(|_| EntryError::Truncated)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(EntryError::Truncated)?;
        self.rest = rest;
        Ok(bytes)
    }

    #[inline]
    pub(super) fn unsigned(&mut self) -> Result<u64, EntryError> {
        read_canonical(&mut self.rest)
    }

    pub(super) fn signed(&mut self) -> Result<i64, EntryError> {
        let bits = self.unsigned()?;
        Ok((bits >> 1).cast_signed() ^ -(bits & 1).cast_signed())
    }
}

/// Takes one vint in its shortest form off the front of `input`.
#[inline]
pub fn read_canonical(input: &mut &[u8]) -> Result<u64, EntryError> {
    if let [byte @ 0..0x80, rest @ ..] = *input {
        *input = rest;
        return Ok(u64::from(*byte));
    }
    let before = input.len();
    let value = vint::read_u64(input).ok_or(if before < vint::VINT_BYTES_MAX {
        EntryError::Truncated
    } else {
        EntryError::Integer
    })?;
    if before - input.len() != vint::len_u64(value) {
        return Err(EntryError::Integer);
    }
    Ok(value)
}
