//! A block in memory: entries and the directory that finds the n-th of them. Data and index blocks share this shape.
//! See FORMAT.md.

use std::rc::Rc;

use crate::base::ids::TimestampMicros;
use crate::mutation::ReadStop;
use crate::sstable::entry::{self, BaseTimestamp, Change, EntryKind, Head, HeadKey};
use crate::sstable::error::{SSTableError, damaged};

/// Flags and base timestamp.
const BODY_HEADER_BYTES: usize = 1 + 8;
/// The two counts at the end.
const TAIL_BYTES: usize = 8;
/// Directory numbers take four bytes instead of two.
const FLAG_WIDE: u8 = 1;
/// A range deletion is open or changes somewhere in the block.
const FLAG_RANGES: u8 = 1 << 1;

/// A block, checked and expanded.
#[derive(Debug)]
pub struct Block {
    file: Rc<str>,
    offset_bytes: u64,
    bytes: Vec<u8>,
    base: TimestampMicros,
    entries: usize,
    heads: usize,
    /// Where the entry directory starts.
    directory: usize,
    flags: u8,
}

impl Block {
    /// Takes the body of the frame at `offset_bytes` of `file` and checks its directories.
    pub fn parse(file: &Rc<str>, offset_bytes: u64, bytes: Vec<u8>) -> Result<Self, SSTableError> {
        Self::try_parse(file, offset_bytes, bytes)
            .ok_or_else(|| SSTableError::corrupt(file, offset_bytes, "the block's directory"))
    }

    fn try_parse(file: &Rc<str>, offset_bytes: u64, bytes: Vec<u8>) -> Option<Self> {
        let flags = *bytes.first()?;
        let base = TimestampMicros::from_le_bytes(*bytes.get(1..)?.first_chunk::<8>()?);
        let (rest, tail) = bytes.split_last_chunk::<TAIL_BYTES>()?;
        let count = |at: usize| u32::from_le_bytes([tail[at], tail[at + 1], tail[at + 2], tail[at + 3]]) as usize;
        let (entries, heads) = (count(0), count(4));
        let width = if flags & FLAG_WIDE != 0 { 4 } else { 2 };
        let directory = rest.len().checked_sub(entries.checked_add(heads)?.checked_mul(width)?)?;
        let block = Block { file: file.clone(), offset_bytes, bytes, base, entries, heads, directory, flags };
        block.directories_ascend().then_some(block)
    }

    /// Entries lie in order between header and directory, and heads are among them.
    fn directories_ascend(&self) -> bool {
        let mut least = BODY_HEADER_BYTES;
        for at in 0..self.entries {
            let offset = self.number(at);
            let first_off_place = at == 0 && offset != BODY_HEADER_BYTES;
            if offset < least || offset >= self.directory || first_off_place {
                return false;
            }
            least = offset + 1;
        }
        let mut least = 0;
        for at in 0..self.heads {
            let head = self.number(self.entries + at);
            if head < least || head >= self.entries {
                return false;
            }
            least = head + 1;
        }
        true
    }

    /// The n-th number of the directories: the offsets of entries, then the numbers of heads.
    #[inline]
    fn number(&self, n: usize) -> usize {
        if self.flags & FLAG_WIDE == 0 {
            usize::from(u16::from_le_bytes(self.word(self.directory + 2 * n)))
        } else {
            u32::from_le_bytes(self.word(self.directory + 4 * n)) as usize
        }
    }

    #[inline]
    fn word<const N: usize>(&self, at: usize) -> [u8; N] {
        *self.bytes[at..].first_chunk().expect("the directory was measured when the block was parsed")
    }

    pub fn entries(&self) -> usize {
        self.entries
    }

    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Which entry the n-th head is.
    #[inline]
    pub fn head_entry(&self, n: usize) -> usize {
        self.number(self.entries + n)
    }

    /// The bytes of an entry, from its start to the next one's.
    #[inline]
    pub fn entry(&self, n: usize) -> &[u8] {
        let end = if n + 1 < self.entries { self.number(n + 1) } else { self.directory };
        &self.bytes[self.number(n)..end]
    }

    /// The bytes from the start of an entry on, for what stands at its front.
    #[inline]
    pub fn entry_onwards(&self, n: usize) -> &[u8] {
        &self.bytes[self.number(n)..]
    }

    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// What the block costs in memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + size_of::<Block>()
    }

    pub fn has_ranges(&self) -> bool {
        self.flags & FLAG_RANGES != 0
    }

    pub fn base(&self) -> TimestampMicros {
        self.base
    }

    /// An entry that does not decode, as a walk reports it.
    pub fn damage(&self, what: &str) -> ReadStop {
        damaged(&self.file, self.offset_bytes, what)
    }

    /// The same as an error.
    pub fn damage_error(&self, what: &str) -> SSTableError {
        SSTableError::corrupt(&self.file, self.offset_bytes, what)
    }

    pub fn head_key(&self, n: usize) -> Result<HeadKey<'_>, ReadStop> {
        entry::head_key(self.entry(self.head_entry(n))).ok_or_else(|| self.damage("a partition's head"))
    }

    pub fn head(&self, n: usize) -> Result<Head<'_>, ReadStop> {
        entry::head(self.entry(self.head_entry(n)), self.base).ok_or_else(|| self.damage("a partition's head"))
    }

    pub fn change(&self, n: usize) -> Result<Change<'_>, ReadStop> {
        entry::change(self.entry(n), self.base).ok_or_else(|| self.damage("a range deletion"))
    }

    pub fn kind(&self, n: usize) -> Result<EntryKind, ReadStop> {
        entry::kind_of(self.entry_onwards(n)).ok_or_else(|| self.damage("an entry's kind"))
    }

    /// The first head at or after `key` in token and key order (`heads()` where there is none).
    #[inline]
    pub fn head_at_or_after(&self, key: HeadKey<'_>) -> Result<usize, ReadStop> {
        let (mut low, mut high) = (0, self.heads);
        while low < high {
            let middle = (low + high) / 2;
            if self.head_is_before(middle, key)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// Most heads differ in the token, which stands at a fixed place.
    #[inline]
    fn head_is_before(&self, n: usize, key: HeadKey<'_>) -> Result<bool, ReadStop> {
        match entry::head_token(self.entry_onwards(self.head_entry(n))) {
            Some(token) if token != key.token => Ok(token < key.token),
            _ => Ok(self.head_key(n)? < key),
        }
    }

    /// The entries of the n-th head's partition: after the head, up to the next head or the block's end.
    pub fn partition_entries(&self, n: usize) -> std::ops::Range<usize> {
        let end = if n + 1 < self.heads { self.head_entry(n + 1) } else { self.entries };
        self.head_entry(n) + 1..end
    }
}

/// A block being built.
pub struct BlockBuilder {
    bytes: Vec<u8>,
    entries: Vec<u32>,
    heads: Vec<u32>,
    base: BaseTimestamp,
    ranges: bool,
}

impl Default for BlockBuilder {
    fn default() -> Self {
        let mut builder = BlockBuilder {
            bytes: Vec::new(),
            entries: Vec::new(),
            heads: Vec::new(),
            base: BaseTimestamp::default(),
            ranges: false,
        };
        builder.clear();
        builder
    }
}

impl BlockBuilder {
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.resize(BODY_HEADER_BYTES, 0);
        self.entries.clear();
        self.heads.clear();
        self.base = BaseTimestamp::default();
        self.ranges = false;
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What the block would take if it ended here.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len() + 2 * (self.entries.len() + self.heads.len()) + TAIL_BYTES
    }

    /// Starts an entry; its bytes go to what this gives.
    pub fn start_entry(&mut self, head: bool) -> (&mut Vec<u8>, &mut BaseTimestamp) {
        if head {
            self.heads.push(narrow(self.entries.len()));
        }
        self.entries.push(narrow(self.bytes.len()));
        (&mut self.bytes, &mut self.base)
    }

    /// Notes that a range deletion is open or changes in this block.
    pub fn note_ranges(&mut self) {
        self.ranges = true;
    }

    /// Appends the directories and fills in the header: the frame's body. `clear` comes next.
    pub fn finish(&mut self) -> &[u8] {
        let wide = self.bytes.len() > usize::from(u16::MAX) || self.entries.len() > usize::from(u16::MAX);
        self.bytes[0] = if wide { FLAG_WIDE } else { 0 } | if self.ranges { FLAG_RANGES } else { 0 };
        self.bytes[1..BODY_HEADER_BYTES].copy_from_slice(&self.base.get().to_le_bytes());
        for number in self.entries.iter().chain(&self.heads) {
            let bytes = number.to_le_bytes();
            self.bytes.extend_from_slice(if wide { &bytes } else { &bytes[..2] });
        }
        self.bytes.extend_from_slice(&narrow(self.entries.len()).to_le_bytes());
        self.bytes.extend_from_slice(&narrow(self.heads.len()).to_le_bytes());
        &self.bytes
    }
}

fn narrow(n: usize) -> u32 {
    u32::try_from(n).expect("a block is far below 4 GiB: rows are bounded")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::base::ids::Token;
    use crate::mutation::{DeletionTime, Row};
    use crate::schema::Position;

    fn build(partitions: i64, rows: usize) -> Vec<u8> {
        let mut builder = BlockBuilder::default();
        for token in 0..partitions {
            let (out, base) = builder.start_entry(true);
            let key = token.to_be_bytes();
            entry::write_head(out, base, (Token(token * 10), &key), DeletionTime::LIVE, None, None);
            for row in 0..rows {
                let (out, base) = builder.start_entry(false);
                entry::write_row(out, base, &Row::new(&row.to_be_bytes()));
            }
        }
        builder.finish().to_vec()
    }

    fn parse(bytes: Vec<u8>) -> Result<Block, SSTableError> {
        Block::parse(&Rc::from("f"), 64, bytes)
    }

    #[test]
    fn heads_and_entries_are_found_narrow_and_wide() {
        for rows in [3, 2000] {
            let block = parse(build(5, rows)).unwrap();
            assert_eq!((block.heads(), block.entries()), (5, 5 * (rows + 1)));
            assert_eq!(block.flags & FLAG_WIDE != 0, rows == 2000);
            for n in 0..5 {
                let key = block.head_key(n).unwrap();
                assert_eq!(key.token, Token(n as i64 * 10));
                assert_eq!(block.head_at_or_after(key).unwrap(), n);
                assert_eq!(block.head_at_or_after(HeadKey { token: Token(key.token.0 + 1), key: b"" }).unwrap(), n + 1);
                let entries = block.partition_entries(n);
                assert_eq!(entries.len(), rows);
                let last = block.entry(entries.end - 1);
                assert_eq!(entry::position_of(last).unwrap(), Position::row(&(rows - 1).to_be_bytes()));
            }
        }
    }

    #[test]
    fn a_block_of_nothing_parses() {
        let mut builder = BlockBuilder::default();
        assert!(builder.is_empty());
        let block = parse(builder.finish().to_vec()).unwrap();
        assert_eq!((block.entries(), block.heads()), (0, 0));
    }

    #[test]
    fn directories_that_lie_are_refused_and_nothing_panics() {
        let whole = build(2, 3);
        for len in 0..whole.len() {
            let _ = parse(whole[..len].to_vec());
        }
        let tail = whole.len() - TAIL_BYTES - 2 * 10;
        for at in tail..whole.len() {
            for bit in 0..8 {
                let mut bytes = whole.clone();
                bytes[at] ^= 1 << bit;
                if let Ok(block) = parse(bytes) {
                    (0..block.entries()).for_each(|n| drop((block.kind(n), block.change(n))));
                    (0..block.heads()).for_each(|n| drop((block.head(n), block.partition_entries(n))));
                }
            }
        }
        assert!(parse(whole[..whole.len() - 1].to_vec()).unwrap_err().is_corrupt());
    }
}
