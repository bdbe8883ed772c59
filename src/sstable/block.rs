//! A block in memory: entries and the directory that finds the n-th of them. Data and index blocks share this shape.
//! See FORMAT.md.

use std::rc::Rc;

use crate::base::ids::{TimestampMicros, Token};
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

/// Where a partition's head is: side by side, so that a search meets few lines of memory.
#[derive(Clone, Copy, Debug)]
struct HeadAt {
    token: Token,
    /// Its number among the entries.
    entry: u32,
    offset: u32,
}

/// A block, checked and expanded.
#[derive(Debug)]
pub struct Block {
    file: Rc<str>,
    offset_bytes: u64,
    bytes: Vec<u8>,
    base: TimestampMicros,
    entries: usize,
    /// The partitions' heads in order.
    heads: Vec<HeadAt>,
    /// The tokens of the first and the last of them.
    tokens: (Token, Token),
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
        let (file, tokens) = (file.clone(), (Token(0), Token(0)));
        let mut block = Block { file, offset_bytes, bytes, base, entries, heads: Vec::new(), tokens, directory, flags };
        if !block.entries_ascend() {
            return None;
        }
        block.heads = (0..heads).map(|n| block.read_head_at(n)).collect::<Option<_>>()?;
        if let (Some(first), Some(last)) = (block.heads.first(), block.heads.last()) {
            block.tokens = (first.token, last.token);
        }
        block.heads.is_sorted_by(|a, b| a.entry < b.entry).then_some(block)
    }

    /// Entries lie in order between header and directory.
    fn entries_ascend(&self) -> bool {
        let mut least = BODY_HEADER_BYTES;
        for at in 0..self.entries {
            let offset = self.number(at);
            let first_off_place = at == 0 && offset != BODY_HEADER_BYTES;
            if offset < least || offset >= self.directory || first_off_place {
                return false;
            }
            least = offset + 1;
        }
        true
    }

    /// The n-th head as the directory names it, if there is one.
    fn read_head_at(&self, n: usize) -> Option<HeadAt> {
        let entry = self.number(self.entries + n);
        let offset = self.number(Some(entry).filter(|entry| *entry < self.entries)?);
        let token = entry::head_token(&self.bytes[offset..])?;
        Some(HeadAt { token, entry: u32::try_from(entry).ok()?, offset: u32::try_from(offset).ok()? })
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
        self.heads.len()
    }

    /// Which entry the n-th head is.
    #[inline]
    pub fn head_entry(&self, n: usize) -> usize {
        self.heads[n].entry as usize
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
        self.bytes.capacity() + self.heads.capacity() * size_of::<HeadAt>() + size_of::<Block>()
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
        let head = &self.bytes[self.heads[n].offset as usize..];
        entry::head_key(head).ok_or_else(|| self.damage("a partition's head"))
    }

    pub fn head(&self, n: usize) -> Result<Head<'_>, ReadStop> {
        entry::head(self.entry(self.head_entry(n)), self.base).ok_or_else(|| self.damage("a partition's head"))
    }

    /// The n-th head and, where the partition has but one row or change and no static row, that entry: without a look at
    /// the directory, which lies elsewhere in memory.
    #[inline]
    pub fn head_and_lone_entry(&self, n: usize) -> Result<(Head<'_>, Option<&[u8]>), ReadStop> {
        let at = self.heads[n];
        let (next, end) = match self.heads.get(n + 1) {
            Some(next) => (next.entry as usize, next.offset as usize),
            None => (self.entries, self.directory),
        };
        if next - at.entry as usize != 2 {
            return Ok((self.head(n)?, None));
        }
        match entry::head_and_rest(&self.bytes[at.offset as usize..end], self.base) {
            Some((head, rest)) if head.static_entry.is_none() => Ok((head, Some(rest))),
            _ => Ok((self.head(n)?, None)),
        }
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
        let mut n = first_not_before(&self.heads, self.tokens, key.token);
        while self.heads.get(n).is_some_and(|head| head.token == key.token) && self.head_key(n)? < key {
            n += 1;
        }
        Ok(n)
    }

    /// The entries of the n-th head's partition: after the head, up to the next head or the block's end.
    pub fn partition_entries(&self, n: usize) -> std::ops::Range<usize> {
        let end = if n + 1 < self.heads.len() { self.head_entry(n + 1) } else { self.entries };
        self.head_entry(n) + 1..end
    }
}

/// The first head whose token is not before this one. Tokens are spread evenly: it is nearly where the token lies between
/// the first and the last.
fn first_not_before(heads: &[HeadAt], (first, last): (Token, Token), token: Token) -> usize {
    if heads.is_empty() || token <= first {
        return 0;
    }
    let whole = last.0.abs_diff(first.0).max(1);
    let share = token.0.abs_diff(first.0) as f64 / whole as f64;
    let guess = ((share * (heads.len() - 1) as f64) as usize).min(heads.len() - 1);
    let (mut low, mut high, mut step) = (guess, guess, 1);
    if heads[guess].token < token {
        while high < heads.len() && heads[high].token < token {
            low = high + 1;
            high = (high + step).min(heads.len());
            step *= 2;
        }
    } else {
        while low > 0 && heads[low - 1].token >= token {
            high = low - 1;
            low = low.saturating_sub(step);
            step *= 2;
        }
    }
    low + heads[low..high.max(low)].partition_point(|head| head.token < token)
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
    use crate::mutation::{DeletionTime, Row};
    use crate::schema::Position;
    use proptest::prelude::*;

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

    proptest! {
        #[test]
        fn the_first_head_not_before_is_found_however_tokens_lie(
            mut tokens in prop::collection::vec(prop_oneof![any::<i64>(), -20i64..20], 0..60),
            sought in prop_oneof![any::<i64>(), -21i64..21],
        ) {
            tokens.sort_unstable();
            let heads: Vec<HeadAt> = tokens.iter().map(|token| HeadAt { token: Token(*token), entry: 0, offset: 0 }).collect();
            let ends = heads.first().map_or((Token(0), Token(0)), |first| (first.token, heads[heads.len() - 1].token));
            for sought in tokens.iter().copied().chain([sought, i64::MIN, i64::MAX]) {
                let want = tokens.partition_point(|token| *token < sought);
                prop_assert_eq!(first_not_before(&heads, ends, Token(sought)), want);
            }
        }
    }

    #[test]
    fn partitions_of_one_token_are_told_apart_by_their_keys() {
        let mut builder = BlockBuilder::default();
        for (token, key) in [(1, b"a"), (5, b"b"), (5, b"d"), (5, b"f"), (9, b"a")] {
            let (out, base) = builder.start_entry(true);
            entry::write_head(out, base, (Token(token), key), DeletionTime::LIVE, None, None);
        }
        let block = parse(builder.finish().to_vec()).unwrap();
        for (key, want) in [("a", 1), ("b", 1), ("c", 2), ("d", 2), ("f", 3), ("g", 4)] {
            assert_eq!(
                block.head_at_or_after(HeadKey { token: Token(5), key: key.as_bytes() }).unwrap(),
                want,
                "{key}"
            );
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
