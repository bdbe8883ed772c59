//! How partitions, rows, cells and deleted ranges lie in the arena. Little-endian, every record at a granule's start.
//!
//! | record | layout |
//! | --- | --- |
//! | partition | token i64, deletion (timestamp i64, local time i64), greatest content timestamp i64, content bytes u64, last mutation u64, rows, static row, ranges (u32 each), key length u32, key |
//! | row | liveness (timestamp i64, expiry i64, TTL u32), cells u32, deletion (i64, i64), clustering length u32, 0 u32, clustering |
//! | cell | timestamp i64, value length u32, column u16, flags u8, 0 u8; where flagged: local deletion i64 and TTL u32; path length u32; then path, value |
//! | range | deletion (i64, i64), start length u32, end length u32, start weight i8, end weight i8, 6 × 0, start prefix, end prefix |
//!
//! A collection's deletion is a cell without path or value, flagged, that stands before the collection's cells.
//!
//! A record is looked up once: its head is an array, and what follows is taken off the rest.

use std::cmp::Ordering;

use crate::base::ids::{ColumnId, TimestampMicros, Token};
use crate::memtable::arena::{Arena, Ref, footprint};
use crate::memtable::tree;
use crate::mutation::cell::{Cell, DeletionTime, Liveness, NEVER_S};
use crate::mutation::row::Row;
use crate::schema::Position;

/// A partition's record.
pub mod partition {
    use super::*;

    const TOKEN: usize = 0;
    const DELETION: usize = 8;
    const MAX_TIMESTAMP: usize = 24;
    const CONTENT_BYTES: usize = 32;
    const LAST_MUTATION: usize = 40;
    const ROWS: usize = 48;
    const STATIC_ROW: usize = 52;
    const RANGES: usize = 56;
    const KEY_LEN: usize = 60;
    const HEAD_BYTES: usize = 64;

    /// A partition's record as it is read.
    #[derive(Clone, Copy, Debug)]
    pub struct Head<'a> {
        head: &'a [u8; HEAD_BYTES],
        rest: &'a [u8],
    }

    /// What a mutation changes of a partition's record, all of it at once.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Content {
        /// The greatest timestamp of what the partition holds, its own deletion aside.
        pub max_timestamp: TimestampMicros,
        /// Live bytes of what it holds.
        pub bytes: u64,
        /// The number of the last mutation applied, within the memtable; 0: none.
        pub last_mutation: u64,
        pub rows: Ref,
        pub static_row: Ref,
        pub ranges: Ref,
    }

    pub fn create(arena: &mut Arena, token: Token, key: &[u8]) -> Ref {
        let (at, record) = arena.alloc(HEAD_BYTES + key.len());
        let (head, rest) = record.split_first_chunk_mut::<HEAD_BYTES>().expect("it was made so long");
        put(head, TOKEN, token.0.to_le_bytes());
        put_deletion(head, DELETION, DeletionTime::LIVE);
        put(head, KEY_LEN, len_u32(key).to_le_bytes());
        put_content(head, &Content::NONE);
        rest.copy_from_slice(key);
        at
    }

    #[inline]
    pub fn read(arena: &Arena, at: Ref) -> Head<'_> {
        let (head, rest) = arena.record(at);
        Head { head, rest }
    }

    pub fn set_deletion(arena: &mut Arena, at: Ref, deletion: DeletionTime) {
        put_deletion(arena.record_mut::<HEAD_BYTES>(at).0, DELETION, deletion);
    }

    #[inline]
    pub fn set_content(arena: &mut Arena, at: Ref, content: &Content) {
        put_content(arena.record_mut::<HEAD_BYTES>(at).0, content);
    }

    #[inline]
    fn put_content(head: &mut [u8; HEAD_BYTES], content: &Content) {
        put(head, MAX_TIMESTAMP, content.max_timestamp.to_le_bytes());
        put(head, CONTENT_BYTES, content.bytes.to_le_bytes());
        put(head, LAST_MUTATION, content.last_mutation.to_le_bytes());
        put(head, ROWS, content.rows.to_bytes());
        put(head, STATIC_ROW, content.static_row.to_bytes());
        put(head, RANGES, content.ranges.to_bytes());
    }

    impl Content {
        pub const NONE: Content = Content {
            max_timestamp: TimestampMicros::MIN,
            bytes: 0,
            last_mutation: 0,
            rows: Ref::NULL,
            static_row: Ref::NULL,
            ranges: Ref::NULL,
        };
    }

    impl<'a> Head<'a> {
        #[inline]
        pub fn token(self) -> Token {
            Token(i64::from_le_bytes(field(self.head, TOKEN)))
        }

        #[inline]
        pub fn key(self) -> &'a [u8] {
            front(self.rest, u32::from_le_bytes(field(self.head, KEY_LEN)))
        }

        #[inline]
        pub fn is(self, token: Token, key: &[u8]) -> bool {
            self.token() == token && self.key() == key
        }

        #[inline]
        pub fn deletion(self) -> DeletionTime {
            get_deletion(self.head, DELETION)
        }

        #[inline]
        pub fn rows(self) -> Ref {
            Ref::from_bytes(field(self.head, ROWS))
        }

        #[inline]
        pub fn static_row(self) -> Ref {
            Ref::from_bytes(field(self.head, STATIC_ROW))
        }

        #[inline]
        pub fn ranges(self) -> Ref {
            Ref::from_bytes(field(self.head, RANGES))
        }

        #[inline]
        pub fn last_mutation(self) -> u64 {
            u64::from_le_bytes(field(self.head, LAST_MUTATION))
        }

        #[inline]
        pub fn content(self) -> Content {
            Content {
                max_timestamp: i64::from_le_bytes(field(self.head, MAX_TIMESTAMP)),
                bytes: u64::from_le_bytes(field(self.head, CONTENT_BYTES)),
                last_mutation: self.last_mutation(),
                rows: self.rows(),
                static_row: self.static_row(),
                ranges: self.ranges(),
            }
        }
    }
}

/// A row's record.
pub mod row {
    use super::*;

    const LIVENESS: usize = 0;
    const CELLS: usize = 20;
    const DELETION: usize = 24;
    const CLUSTERING_LEN: usize = 40;
    const HEAD_BYTES: usize = 48;

    /// A row's record as it is read.
    #[derive(Clone, Copy, Debug)]
    pub struct Head<'a> {
        head: &'a [u8; HEAD_BYTES],
        rest: &'a [u8],
    }

    #[inline]
    pub fn create(arena: &mut Arena, clustering: &[u8]) -> Ref {
        let (at, record) = arena.alloc(HEAD_BYTES + clustering.len());
        let (head, rest) = record.split_first_chunk_mut::<HEAD_BYTES>().expect("it was made so long");
        put_liveness(head, Liveness::NONE);
        put(head, CELLS, Ref::NULL.to_bytes());
        put_deletion(head, DELETION, DeletionTime::LIVE);
        put(head, CLUSTERING_LEN, u64::from(len_u32(clustering)).to_le_bytes());
        rest.copy_from_slice(clustering);
        at
    }

    #[inline]
    pub fn head(arena: &Arena, at: Ref) -> Head<'_> {
        let (head, rest) = arena.record(at);
        Head { head, rest }
    }

    #[inline]
    pub fn clustering(arena: &Arena, at: Ref) -> &[u8] {
        head(arena, at).clustering()
    }

    #[inline]
    pub fn set_liveness(arena: &mut Arena, at: Ref, liveness: Liveness) {
        put_liveness(arena.record_mut::<HEAD_BYTES>(at).0, liveness);
    }

    pub fn set_deletion(arena: &mut Arena, at: Ref, deletion: DeletionTime) {
        put_deletion(arena.record_mut::<HEAD_BYTES>(at).0, DELETION, deletion);
    }

    #[inline]
    pub fn set_cells(arena: &mut Arena, at: Ref, root: Ref) {
        put(arena.record_mut::<HEAD_BYTES>(at).0, CELLS, root.to_bytes());
    }

    /// The row as a reader takes it, its bytes in the arena.
    pub fn read(arena: &Arena, at: Ref) -> Row<'_> {
        let head = head(arena, at);
        let mut row = Row::new(head.clustering());
        row.liveness = head.liveness();
        row.deletion = head.deletion();
        for element in tree::elements(arena, head.cells()) {
            match cell::read(arena, element) {
                Content::Cell(cell) => row.cells.push(cell),
                Content::ComplexDeletion(column, deletion) => row.complex.push((column, deletion)),
            }
        }
        row
    }

    #[inline]
    fn put_liveness(head: &mut [u8; HEAD_BYTES], liveness: Liveness) {
        put(head, LIVENESS, liveness.timestamp.to_le_bytes());
        put(head, LIVENESS + 8, liveness.expires_s.to_le_bytes());
        put(head, LIVENESS + 16, liveness.ttl_s.to_le_bytes());
    }

    impl<'a> Head<'a> {
        #[inline]
        pub fn clustering(self) -> &'a [u8] {
            front(self.rest, u32::from_le_bytes(field(self.head, CLUSTERING_LEN)))
        }

        #[inline]
        pub fn liveness(self) -> Liveness {
            Liveness {
                timestamp: i64::from_le_bytes(field(self.head, LIVENESS)),
                expires_s: i64::from_le_bytes(field(self.head, LIVENESS + 8)),
                ttl_s: u32::from_le_bytes(field(self.head, LIVENESS + 16)),
            }
        }

        #[inline]
        pub fn deletion(self) -> DeletionTime {
            get_deletion(self.head, DELETION)
        }

        #[inline]
        pub fn cells(self) -> Ref {
            Ref::from_bytes(field(self.head, CELLS))
        }
    }
}

/// What stands among the cells of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content<'a> {
    Cell(Cell<'a>),
    ComplexDeletion(ColumnId, DeletionTime),
}

impl<'a> Content<'a> {
    fn place(&self) -> Place<'a> {
        match self {
            Content::Cell(Cell { column, path, .. }) => Place { column: *column, is_cell: true, path: *path },
            Content::ComplexDeletion(column, _) => Place { column: *column, is_cell: false, path: None },
        }
    }
}

/// Where something stands among the cells of a row: by column, a collection's deletion first, then by path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place<'a> {
    pub column: ColumnId,
    pub is_cell: bool,
    pub path: Option<&'a [u8]>,
}

/// A cell's record.
pub mod cell {
    use super::*;

    const TIMESTAMP: usize = 0;
    const VALUE_LEN: usize = 8;
    const COLUMN: usize = 12;
    const FLAGS: usize = 14;
    const HEAD_BYTES: usize = 16;
    const EXPIRY_BYTES: usize = 12;
    const PATH_LEN_BYTES: usize = 4;

    const HAS_EXPIRY: u8 = 1;
    const HAS_PATH: u8 = 2;
    const IS_COMPLEX_DELETION: u8 = 4;

    fn flags(content: &Content<'_>) -> u8 {
        match content {
            Content::Cell(cell) => {
                let expiry = if cell.local_deletion_s == NEVER_S { 0 } else { HAS_EXPIRY };
                expiry | if cell.path.is_some() { HAS_PATH } else { 0 }
            }
            Content::ComplexDeletion(..) => HAS_EXPIRY | IS_COMPLEX_DELETION,
        }
    }

    /// The record's length for this content.
    fn record_len(flags: u8, path: Option<&[u8]>, value: &[u8]) -> usize {
        let expiry = if flags & HAS_EXPIRY == 0 { 0 } else { EXPIRY_BYTES };
        HEAD_BYTES + expiry + path.map_or(0, |path| PATH_LEN_BYTES + path.len()) + value.len()
    }

    fn lens(content: &Content<'_>) -> usize {
        match content {
            Content::Cell(cell) => record_len(flags(content), cell.path, cell.value),
            Content::ComplexDeletion(..) => record_len(flags(content), None, &[]),
        }
    }

    pub fn create(arena: &mut Arena, content: &Content<'_>) -> Ref {
        let (at, record) = arena.alloc(lens(content));
        write(record, content);
        at
    }

    /// A cell that has no path and does not expire.
    #[derive(Clone, Copy, Debug)]
    pub struct Plain<'a> {
        pub column: ColumnId,
        pub timestamp: TimestampMicros,
        pub value: &'a [u8],
    }

    impl<'a> Plain<'a> {
        /// The same cell, where it is such a one.
        pub fn of(cell: &Cell<'a>) -> Option<Plain<'a>> {
            let is_plain = cell.path.is_none() && cell.local_deletion_s == NEVER_S;
            is_plain.then_some(Plain { column: cell.column, timestamp: cell.timestamp, value: cell.value })
        }

        pub fn cell(&self) -> Cell<'a> {
            let Plain { column, timestamp, value } = *self;
            Cell { column, path: None, timestamp, ttl_s: 0, local_deletion_s: NEVER_S, value }
        }
    }

    #[inline]
    pub fn create_plain(arena: &mut Arena, cell: &Plain<'_>) -> Ref {
        let (at, record) = arena.alloc(HEAD_BYTES + cell.value.len());
        let (head, rest) = record.split_first_chunk_mut::<HEAD_BYTES>().expect("it was made so long");
        put(head, TIMESTAMP, cell.timestamp.to_le_bytes());
        put(head, VALUE_LEN, len_u32(cell.value).to_le_bytes());
        put(head, COLUMN, u32::from(cell.column.0).to_le_bytes());
        rest.copy_from_slice(cell.value);
        at
    }

    /// Bytes that the record at `at` takes.
    pub fn size(arena: &Arena, at: Ref) -> usize {
        lens(&read(arena, at))
    }

    /// Writes `content` over the record at `at`, which has the same place, if it takes as many bytes. Whether it did.
    pub fn overwrite(arena: &mut Arena, at: Ref, content: &Content<'_>) -> bool {
        let len = lens(content);
        if footprint(len) != footprint(size(arena, at)) {
            return false;
        }
        write(&mut arena.tail_mut(at)[..len], content);
        true
    }

    /// What has become of a plain cell.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Met {
        /// It has won over what stood in its place, and stands there.
        Won,
        Lost,
        /// What stands there is of a column before its own.
        Later,
        /// What stands there is not plain, takes other bytes, or is of a column behind.
        Other,
    }

    /// Lets a plain cell win over the record at `at`, or not, where that is a plain one of its column and of its size.
    #[inline]
    pub fn meet_plain(arena: &mut Arena, at: Ref, new: &Plain<'_>) -> Met {
        let (head, rest) = arena.record_mut::<HEAD_BYTES>(at);
        // The column with the flags behind it.
        if u32::from_le_bytes(field(head, COLUMN)) != u32::from(new.column.0) {
            return if u16::from_le_bytes(field(head, COLUMN)) < new.column.0 { Met::Later } else { Met::Other };
        }
        let old_len = u32::from_le_bytes(field(head, VALUE_LEN)) as usize;
        let old_timestamp = i64::from_le_bytes(field(head, TIMESTAMP));
        if new.timestamp < old_timestamp || new.timestamp == old_timestamp && new.value <= &rest[..old_len] {
            return Met::Lost;
        }
        let new_len = new.value.len();
        if new_len != old_len && footprint(HEAD_BYTES + new_len) != footprint(HEAD_BYTES + old_len) {
            return Met::Other;
        }
        put(head, TIMESTAMP, new.timestamp.to_le_bytes());
        put(head, VALUE_LEN, len_u32(new.value).to_le_bytes());
        rest[..new_len].copy_from_slice(new.value);
        Met::Won
    }

    fn write(mut out: &mut [u8], content: &Content<'_>) {
        let flags = flags(content);
        let (timestamp, column, path, local_deletion_s, ttl_s, value) = match content {
            Content::Cell(c) => (c.timestamp, c.column, c.path, c.local_deletion_s, c.ttl_s, c.value),
            Content::ComplexDeletion(column, d) => (d.timestamp, *column, None, d.local_deletion_s, 0, &[][..]),
        };
        let mut head = [0; HEAD_BYTES];
        head[TIMESTAMP..VALUE_LEN].copy_from_slice(&timestamp.to_le_bytes());
        head[VALUE_LEN..COLUMN].copy_from_slice(&len_u32(value).to_le_bytes());
        head[COLUMN..FLAGS].copy_from_slice(&column.0.to_le_bytes());
        head[FLAGS] = flags;
        let mut put = |bytes: &[u8]| {
            let (head, tail) = std::mem::take(&mut out).split_at_mut(bytes.len());
            head.copy_from_slice(bytes);
            out = tail;
        };
        put(&head);
        if flags & HAS_EXPIRY != 0 {
            put(&local_deletion_s.to_le_bytes());
            put(&ttl_s.to_le_bytes());
        }
        if let Some(path) = path {
            put(&len_u32(path).to_le_bytes());
            put(path);
        }
        put(value);
    }

    #[inline]
    pub fn read(arena: &Arena, at: Ref) -> Content<'_> {
        let (head, mut rest) = arena.record::<HEAD_BYTES>(at);
        let timestamp = i64::from_le_bytes(field(head, TIMESTAMP));
        let value_len = u32::from_le_bytes(field(head, VALUE_LEN));
        let column = ColumnId(u16::from_le_bytes(field(head, COLUMN)));
        let [flags] = field(head, FLAGS);
        let (mut local_deletion_s, mut ttl_s, mut path) = (NEVER_S, 0, None);
        if flags & HAS_EXPIRY != 0 {
            let (expiry, behind) = rest.split_first_chunk::<EXPIRY_BYTES>().expect("a record is within its slab");
            local_deletion_s = i64::from_le_bytes(field(expiry, 0));
            ttl_s = u32::from_le_bytes(field(expiry, 8));
            rest = behind;
        }
        if flags & IS_COMPLEX_DELETION != 0 {
            return Content::ComplexDeletion(column, DeletionTime { timestamp, local_deletion_s });
        }
        if flags & HAS_PATH != 0 {
            let (found, behind) = take_path(rest);
            (path, rest) = (Some(found), behind);
        }
        Content::Cell(Cell { column, path, timestamp, ttl_s, local_deletion_s, value: front(rest, value_len) })
    }

    /// A path and what follows it.
    #[inline]
    fn take_path(rest: &[u8]) -> (&[u8], &[u8]) {
        let (len, rest) = rest.split_first_chunk::<PATH_LEN_BYTES>().expect("a record is within its slab");
        rest.split_at(u32::from_le_bytes(*len) as usize)
    }

    /// Orders the record at `at` against `place`.
    #[inline]
    pub fn compare(arena: &Arena, at: Ref, place: &Place<'_>) -> Ordering {
        let (head, rest) = arena.record::<HEAD_BYTES>(at);
        let column = ColumnId(u16::from_le_bytes(field(head, COLUMN)));
        if column != place.column {
            return column.cmp(&place.column);
        }
        let [flags] = field(head, FLAGS);
        let behind_expiry = if flags & HAS_EXPIRY == 0 { 0 } else { EXPIRY_BYTES };
        let path = (flags & HAS_PATH != 0).then(|| take_path(&rest[behind_expiry..]).0);
        (flags & IS_COMPLEX_DELETION == 0).cmp(&place.is_cell).then_with(|| path.cmp(&place.path))
    }

    pub fn place<'a>(content: &Content<'a>) -> Place<'a> {
        content.place()
    }
}

/// A deleted range's record.
pub mod range {
    use super::*;

    const DELETION: usize = 0;
    const START_LEN: usize = 16;
    const END_LEN: usize = 20;
    const WEIGHTS: usize = 24;
    const HEAD_BYTES: usize = 32;

    /// A deleted range.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Range<'a> {
        pub start: Position<'a>,
        pub end: Position<'a>,
        pub deletion: DeletionTime,
    }

    pub fn create(arena: &mut Arena, range: &Range<'_>) -> Ref {
        let Range { start, end, deletion } = range;
        let (at, record) = arena.alloc(size(range));
        let (head, rest) = record.split_first_chunk_mut::<HEAD_BYTES>().expect("it was made so long");
        head.fill(0);
        put_deletion(head, DELETION, *deletion);
        put(head, START_LEN, len_u32(start.prefix).to_le_bytes());
        put(head, END_LEN, len_u32(end.prefix).to_le_bytes());
        put(head, WEIGHTS, [start.weight.cast_unsigned(), end.weight.cast_unsigned()]);
        let (start_prefix, end_prefix) = rest.split_at_mut(start.prefix.len());
        start_prefix.copy_from_slice(start.prefix);
        end_prefix.copy_from_slice(end.prefix);
        at
    }

    pub fn read(arena: &Arena, at: Ref) -> Range<'_> {
        let (head, rest) = arena.record::<HEAD_BYTES>(at);
        let [start_weight, end_weight] = field::<2, _>(head, WEIGHTS).map(u8::cast_signed);
        let (start, rest) = rest.split_at(u32::from_le_bytes(field(head, START_LEN)) as usize);
        let end = front(rest, u32::from_le_bytes(field(head, END_LEN)));
        Range {
            start: Position { prefix: start, weight: start_weight },
            end: Position { prefix: end, weight: end_weight },
            deletion: get_deletion(head, DELETION),
        }
    }

    pub fn size(range: &Range<'_>) -> usize {
        HEAD_BYTES + range.start.prefix.len() + range.end.prefix.len()
    }
}

#[inline]
fn get_deletion<const M: usize>(head: &[u8; M], at: usize) -> DeletionTime {
    DeletionTime {
        timestamp: i64::from_le_bytes(field(head, at)),
        local_deletion_s: i64::from_le_bytes(field(head, at + 8)),
    }
}

#[inline]
fn put_deletion<const M: usize>(head: &mut [u8; M], at: usize, deletion: DeletionTime) {
    put(head, at, deletion.timestamp.to_le_bytes());
    put(head, at + 8, deletion.local_deletion_s.to_le_bytes());
}

/// A field of a head; at a constant place, nothing is left of the bounds check.
#[inline]
fn field<const N: usize, const M: usize>(head: &[u8; M], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&head[at..at + N]);
    value
}

#[inline]
fn put<const N: usize, const M: usize>(head: &mut [u8; M], at: usize, value: [u8; N]) {
    head[at..at + N].copy_from_slice(&value);
}

/// The first `len` bytes of what follows a head.
#[inline]
fn front(rest: &[u8], len: u32) -> &[u8] {
    &rest[..len as usize]
}

#[inline]
fn len_u32(bytes: &[u8]) -> u32 {
    u32::try_from(bytes.len()).expect("a mutation is at most half a log segment")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::arena::SlabPool;
    use proptest::prelude::*;

    fn any_content() -> impl Strategy<Value = (u16, Option<Vec<u8>>, i64, u32, i64, Vec<u8>, bool)> {
        let path = prop::option::of(prop::collection::vec(any::<u8>(), 0..20));
        let value = prop::collection::vec(any::<u8>(), 0..40);
        (any::<u16>(), path, any::<i64>(), any::<u32>(), 0..i64::MAX, value, any::<bool>())
    }

    proptest! {
        #[test]
        fn cells_come_back(parts in prop::collection::vec(any_content(), 1..20)) {
            let mut arena = Arena::new(SlabPool::new());
            let contents: Vec<Content<'_>> = parts.iter().map(|(column, path, timestamp, ttl_s, at_s, value, plain)| {
                let (ttl_s, local_deletion_s) = if *plain { (0, NEVER_S) } else { (*ttl_s, *at_s) };
                let (column, path, timestamp) = (ColumnId(*column), path.as_deref(), *timestamp);
                match path {
                    None if !*plain && value.is_empty() => {
                        Content::ComplexDeletion(column, DeletionTime { timestamp, local_deletion_s })
                    }
                    _ => Content::Cell(Cell { column, path, timestamp, ttl_s, local_deletion_s, value }),
                }
            }).collect();
            let made: Vec<Ref> = contents.iter().map(|content| cell::create(&mut arena, content)).collect();
            for (at, content) in made.iter().zip(&contents) {
                prop_assert_eq!(&cell::read(&arena, *at), content);
                for other in &contents {
                    let want = cell::place(content).cmp(&cell::place(other));
                    prop_assert_eq!(cell::compare(&arena, *at, &cell::place(other)), want);
                }
            }
        }
    }

    #[test]
    fn a_cell_is_overwritten_in_place_where_it_takes_the_same_granules() {
        let mut arena = Arena::new(SlabPool::new());
        let content = |value| {
            Content::Cell(Cell {
                column: ColumnId(1),
                path: None,
                timestamp: 1,
                ttl_s: 0,
                local_deletion_s: NEVER_S,
                value,
            })
        };
        let at = cell::create(&mut arena, &content(b"abc"));
        let used = arena.used_bytes();
        assert!(cell::overwrite(&mut arena, at, &content(b"defghij")));
        assert_eq!(cell::read(&arena, at), content(b"defghij"));
        assert!(!cell::overwrite(&mut arena, at, &content(b"defghijkl")));
        assert_eq!(arena.used_bytes(), used);
    }

    #[test]
    fn heads_come_back() {
        let mut arena = Arena::new(SlabPool::new());
        let at = partition::create(&mut arena, Token(-5), b"key");
        let head = partition::read(&arena, at);
        assert_eq!((head.token(), head.key(), head.content()), (Token(-5), &b"key"[..], partition::Content::NONE));
        assert!(head.deletion().is_live() && head.is(Token(-5), b"key") && !head.is(Token(-5), b"kez"));
        let deletion = DeletionTime { timestamp: 3, local_deletion_s: 4 };
        let row = row::create(&mut arena, b"clustering");
        let liveness = Liveness { timestamp: 7, ttl_s: 8, expires_s: 9 };
        row::set_liveness(&mut arena, row, liveness);
        row::set_deletion(&mut arena, row, deletion);
        let read = row::read(&arena, row);
        assert_eq!((read.clustering, read.liveness, read.deletion), (&b"clustering"[..], liveness, deletion));
        assert!(read.cells.is_empty());
        drop(read);
        let range = range::Range { start: Position::before(b"aa"), end: Position::after(b"b"), deletion };
        let at = range::create(&mut arena, &range);
        assert_eq!(range::read(&arena, at), range);
    }
}
