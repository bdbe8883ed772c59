//! Encodes a mutation, straight into the buffer that it leaves in. `FORMAT.md` states the bytes.

use crate::base::ids::{ColumnId, TableId, TimestampMicros};
use crate::base::vint;
use crate::mutation::draft::{self, ElementChange};
use crate::mutation::entry::{self, KEY_BYTES_MAX, Stamp};
use crate::schema::Position;

/// The first byte of every encoded mutation.
pub const FORMAT_VERSION: u8 = 1;

/// The header's flag: the base timestamp was given by a server's clock, not by a client.
pub(super) const FLAG_SERVER_TIMESTAMP: u8 = 1;

/// The header's flag: a draft, in which the owner must put in what it reads (`mutation::draft`).
pub(super) const FLAG_DRAFT: u8 = 2;

/// Where the header's fields stand.
pub(super) const FLAGS_AT: usize = 1;
pub(super) const TABLE_AT: usize = 2;
pub(super) const SCHEMA_VERSION_AT: usize = 18;
pub(super) const TIMESTAMP_AT: usize = 22;
pub(super) const KEY_AT: usize = 30;

/// Fills in the base timestamp of an encoded mutation.
///
/// # Panics
/// Where `mutation` is shorter than a header.
pub fn set_timestamp(mutation: &mut [u8], timestamp: TimestampMicros) {
    mutation
        .get_mut(TIMESTAMP_AT..KEY_AT)
        .expect("an encoded mutation has its header")
        .copy_from_slice(&timestamp.to_le_bytes());
}

/// The same with a timestamp that a server's clock gave. The mutation says so from then on, so that whoever applies it
/// gives no lower one afterwards.
///
/// # Panics
/// Where `mutation` is shorter than a header.
pub fn set_server_timestamp(mutation: &mut [u8], timestamp: TimestampMicros) {
    set_timestamp(mutation, timestamp);
    if let Some(flags) = mutation.get_mut(FLAGS_AT) {
        *flags |= FLAG_SERVER_TIMESTAMP;
    }
}

/// The base timestamp of an encoded mutation; `None` where it is shorter than a header.
pub fn timestamp(mutation: &[u8]) -> Option<TimestampMicros> {
    let field = mutation.get(TIMESTAMP_AT..)?.first_chunk::<8>()?;
    Some(i64::from_le_bytes(*field))
}

/// Appends one mutation to a buffer, entry by entry in the statement's order. What belongs to a row follows
/// `static_row` or `row`.
#[derive(Debug)]
pub struct MutationBuilder<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    in_row: bool,
    uses_base: bool,
}

impl<'o> MutationBuilder<'o> {
    /// Starts a mutation at the end of `out`.
    ///
    /// # Panics
    /// Where `key` is empty or longer than `KEY_BYTES_MAX`; binding has refused both.
    pub fn begin(out: &'o mut Vec<u8>, table: TableId, schema_version: u32, key: &[u8]) -> Self {
        assert!(!key.is_empty() && key.len() <= KEY_BYTES_MAX, "a partition key of {} bytes", key.len());
        let start = out.len();
        let mut header = [0; KEY_AT];
        header[0] = FORMAT_VERSION;
        header[TABLE_AT..SCHEMA_VERSION_AT].copy_from_slice(&table.0);
        header[SCHEMA_VERSION_AT..TIMESTAMP_AT].copy_from_slice(&schema_version.to_le_bytes());
        out.extend_from_slice(&header);
        vint::write_u64(out, key.len() as u64);
        out.extend_from_slice(key);
        MutationBuilder { out, start, in_row: false, uses_base: false }
    }

    /// How many bytes it has so far.
    pub fn len_bytes(&self) -> usize {
        self.out.len() - self.start
    }

    /// Whether anything in it takes the base timestamp, so that the owner must fill it in.
    pub fn uses_base(&self) -> bool {
        self.uses_base
    }

    pub fn partition_deletion(&mut self, stamp: Stamp, local_deletion_s: i64) -> &mut Self {
        self.in_row = false;
        self.note(stamp);
        entry::write_partition_deletion(self.out, stamp, local_deletion_s);
        self
    }

    /// Deletes from `start` to `end`. At weight 0 a bound is a row itself, within the range.
    pub fn range_tombstone(
        &mut self,
        start: Position<'_>,
        end: Position<'_>,
        stamp: Stamp,
        local_deletion_s: i64,
    ) -> &mut Self {
        self.in_row = false;
        self.note(stamp);
        entry::write_range_tombstone(self.out, start, end, stamp, local_deletion_s);
        self
    }

    pub fn static_row(&mut self) -> &mut Self {
        self.in_row = true;
        entry::write_static_row(self.out);
        self
    }

    /// Begins the row with this full encoded clustering key.
    pub fn row(&mut self, clustering: &[u8]) -> &mut Self {
        self.in_row = true;
        entry::write_row(self.out, clustering);
        self
    }

    /// The row exists, for ever or until an expiry of (TTL, when), both in seconds.
    pub fn liveness(&mut self, stamp: Stamp, expiry: Option<(u32, i64)>) -> &mut Self {
        self.note_in_row(stamp);
        entry::write_liveness(self.out, stamp, expiry);
        self
    }

    pub fn row_deletion(&mut self, stamp: Stamp, local_deletion_s: i64) -> &mut Self {
        self.note_in_row(stamp);
        entry::write_row_deletion(self.out, stamp, local_deletion_s);
        self
    }

    /// Deletes all of a multi-cell collection or user type.
    pub fn complex_deletion(&mut self, column: ColumnId, stamp: Stamp, local_deletion_s: i64) -> &mut Self {
        self.note_in_row(stamp);
        entry::write_complex_deletion(self.out, column, stamp, local_deletion_s);
        self
    }

    /// A value, for ever or until an expiry of (TTL, when), both in seconds.
    #[inline]
    pub fn cell(
        &mut self,
        column: ColumnId,
        path: Option<&[u8]>,
        stamp: Stamp,
        expiry: Option<(u32, i64)>,
        value: &[u8],
    ) -> &mut Self {
        self.note_in_row(stamp);
        entry::write_cell(self.out, column, path, stamp, expiry, value);
        self
    }

    /// The same under the base timestamp, for ever, in a column of one value: what most cells are.
    #[inline]
    pub fn plain_cell(&mut self, column: ColumnId, value: &[u8]) -> &mut Self {
        self.note_in_row(Stamp::Base(0));
        entry::write_plain_cell(self.out, column, value);
        self
    }

    pub fn cell_tombstone(
        &mut self,
        column: ColumnId,
        path: Option<&[u8]>,
        stamp: Stamp,
        local_deletion_s: i64,
    ) -> &mut Self {
        self.note_in_row(stamp);
        entry::write_cell_tombstone(self.out, column, path, stamp, local_deletion_s);
        self
    }

    /// The owner must read before it can write this: it is a draft.
    pub fn mark_draft(&mut self) -> &mut Self {
        if let Some(flags) = self.out.get_mut(self.start + FLAGS_AT) {
            *flags |= FLAG_DRAFT;
        }
        self
    }

    /// Adds to a counter. Makes it a draft, as do the next two.
    pub fn counter_addition(&mut self, column: ColumnId, delta: i64) -> &mut Self {
        self.note_in_row(Stamp::Base(0));
        draft::write_counter_addition(self.out, column, delta);
        self.mark_draft()
    }

    /// Changes the element of a list that stands at `index` when the owner looks.
    pub fn list_element(
        &mut self,
        column: ColumnId,
        index: i32,
        change: &ElementChange<'_>,
        stamp: Stamp,
        now_s: i64,
    ) -> &mut Self {
        self.note_in_row(stamp);
        draft::write_list_element(self.out, column, index, change, stamp, now_s);
        self.mark_draft()
    }

    /// Removes from a list all elements with one of these values.
    pub fn list_removal<'v>(
        &mut self,
        column: ColumnId,
        values: impl Iterator<Item = &'v [u8]>,
        stamp: Stamp,
        now_s: i64,
    ) -> &mut Self {
        self.note_in_row(stamp);
        draft::write_list_removal(self.out, column, values, stamp, now_s);
        self.mark_draft()
    }

    #[inline]
    fn note(&mut self, stamp: Stamp) {
        self.uses_base |= matches!(stamp, Stamp::Base(_));
    }

    #[inline]
    fn note_in_row(&mut self, stamp: Stamp) {
        assert!(self.in_row, "an entry of a row follows the row's beginning");
        self.note(stamp);
    }
}
