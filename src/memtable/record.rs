//! How partitions, rows, cells and deleted ranges lie in the arena. Little-endian, every record at a granule's start.
//!
//! | record | layout |
//! | --- | --- |
//! | partition | token i64, deletion (timestamp i64, local time i64), greatest content timestamp i64, content bytes u64, rows, static row, ranges (u32 each), key length u32, key |
//! | row | liveness (timestamp i64, expiry i64), deletion (i64, i64), TTL u32, cells u32, clustering length u32, 0 u32, clustering |
//! | cell | timestamp i64, value length u32, column u16, flags u8, 0 u8; where flagged: local deletion i64 and TTL u32; path length u32; then path, value |
//! | range | deletion (i64, i64), start length u32, end length u32, start weight i8, end weight i8, 6 × 0, start prefix, end prefix |
//!
//! A collection's deletion is a cell without path or value, flagged, that stands before the collection's cells.

use std::cmp::Ordering;

use crate::base::ids::{ColumnId, Token};
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
    pub const MAX_TIMESTAMP: usize = 24;
    pub const CONTENT_BYTES: usize = 32;
    pub const ROWS: usize = 40;
    pub const STATIC_ROW: usize = 44;
    pub const RANGES: usize = 48;
    const KEY_LEN: usize = 52;
    /// The number of the last mutation applied, within the memtable; 0: none.
    const LAST_MUTATION: usize = 56;
    const HEAD_BYTES: usize = 64;

    pub fn create(arena: &mut Arena, token: Token, key: &[u8]) -> Ref {
        let at = arena.alloc(HEAD_BYTES + key.len());
        arena.bytes_mut(at, 0, HEAD_BYTES).fill(0);
        arena.set(at, TOKEN, &token.0.to_le_bytes());
        set_deletion(arena, at, DeletionTime::LIVE);
        arena.set(at, MAX_TIMESTAMP, &i64::MIN.to_le_bytes());
        arena.set(at, KEY_LEN, &len_u32(key).to_le_bytes());
        arena.set(at, HEAD_BYTES, key);
        at
    }

    #[inline]
    pub fn token(arena: &Arena, at: Ref) -> Token {
        Token(arena.i64(at, TOKEN))
    }

    #[inline]
    pub fn key(arena: &Arena, at: Ref) -> &[u8] {
        arena.bytes(at, HEAD_BYTES, arena.u32(at, KEY_LEN) as usize)
    }

    pub fn deletion(arena: &Arena, at: Ref) -> DeletionTime {
        read_deletion(arena, at, DELETION)
    }

    pub fn set_deletion(arena: &mut Arena, at: Ref, deletion: DeletionTime) {
        write_deletion(arena, at, DELETION, deletion);
    }

    pub fn last_mutation(arena: &Arena, at: Ref) -> u64 {
        u64::from_le_bytes(*arena.array(at, LAST_MUTATION))
    }

    pub fn set_last_mutation(arena: &mut Arena, at: Ref, number: u64) {
        arena.set(at, LAST_MUTATION, &number.to_le_bytes());
    }
}

/// A row's record.
pub mod row {
    use super::*;

    const LIVENESS: usize = 0;
    const DELETION: usize = 16;
    const TTL: usize = 32;
    pub const CELLS: usize = 36;
    const CLUSTERING_LEN: usize = 40;
    const HEAD_BYTES: usize = 48;

    pub fn create(arena: &mut Arena, clustering: &[u8]) -> Ref {
        let mut head = [0; HEAD_BYTES];
        for (at, value) in [
            (LIVENESS, Liveness::NONE.timestamp),
            (LIVENESS + 8, Liveness::NONE.expires_s),
            (DELETION, DeletionTime::LIVE.timestamp),
            (DELETION + 8, DeletionTime::LIVE.local_deletion_s),
        ] {
            head[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        head[CLUSTERING_LEN..CLUSTERING_LEN + 4].copy_from_slice(&len_u32(clustering).to_le_bytes());
        let at = arena.alloc(HEAD_BYTES + clustering.len());
        let record = arena.bytes_mut(at, 0, HEAD_BYTES + clustering.len());
        record[..HEAD_BYTES].copy_from_slice(&head);
        record[HEAD_BYTES..].copy_from_slice(clustering);
        at
    }

    #[inline]
    pub fn clustering(arena: &Arena, at: Ref) -> &[u8] {
        arena.bytes(at, HEAD_BYTES, arena.u32(at, CLUSTERING_LEN) as usize)
    }

    pub fn liveness(arena: &Arena, at: Ref) -> Liveness {
        let timestamp = arena.i64(at, LIVENESS);
        Liveness { timestamp, expires_s: arena.i64(at, LIVENESS + 8), ttl_s: arena.u32(at, TTL) }
    }

    pub fn set_liveness(arena: &mut Arena, at: Ref, liveness: Liveness) {
        arena.set(at, LIVENESS, &liveness.timestamp.to_le_bytes());
        arena.set(at, LIVENESS + 8, &liveness.expires_s.to_le_bytes());
        arena.set(at, TTL, &liveness.ttl_s.to_le_bytes());
    }

    pub fn deletion(arena: &Arena, at: Ref) -> DeletionTime {
        read_deletion(arena, at, DELETION)
    }

    pub fn set_deletion(arena: &mut Arena, at: Ref, deletion: DeletionTime) {
        write_deletion(arena, at, DELETION, deletion);
    }

    /// The row as a reader takes it, its bytes in the arena.
    pub fn read(arena: &Arena, at: Ref) -> Row<'_> {
        let mut row = Row::new(clustering(arena, at));
        row.liveness = liveness(arena, at);
        row.deletion = deletion(arena, at);
        let mut path = tree::seek(arena, arena.get_ref(at, CELLS), |_| false);
        while let Some(element) = path.element(arena) {
            match cell::read(arena, element) {
                Content::Cell(cell) => row.cells.push(cell),
                Content::ComplexDeletion(column, deletion) => row.complex.push((column, deletion)),
            }
            path.step(arena);
        }
        row
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
        let len = lens(content);
        let at = arena.alloc(len);
        write(arena.bytes_mut(at, 0, len), content);
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
        write(arena.bytes_mut(at, 0, len), content);
        true
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
        let head: &[u8; HEAD_BYTES] = arena.array(at, 0);
        let timestamp = i64::from_le_bytes(field(head, TIMESTAMP));
        let value_len = u32::from_le_bytes(field(head, VALUE_LEN)) as usize;
        let column = ColumnId(u16::from_le_bytes(field(head, COLUMN)));
        let [flags] = field(head, FLAGS);
        let mut offset = HEAD_BYTES;
        let (mut local_deletion_s, mut ttl_s) = (NEVER_S, 0);
        if flags & HAS_EXPIRY != 0 {
            local_deletion_s = arena.i64(at, offset);
            ttl_s = arena.u32(at, offset + 8);
            offset += EXPIRY_BYTES;
        }
        if flags & IS_COMPLEX_DELETION != 0 {
            return Content::ComplexDeletion(column, DeletionTime { timestamp, local_deletion_s });
        }
        let mut path = None;
        if flags & HAS_PATH != 0 {
            let len = arena.u32(at, offset) as usize;
            path = Some(arena.bytes(at, offset + PATH_LEN_BYTES, len));
            offset += PATH_LEN_BYTES + len;
        }
        let value = arena.bytes(at, offset, value_len);
        Content::Cell(Cell { column, path, timestamp, ttl_s, local_deletion_s, value })
    }

    /// Orders the record at `at` against `place`.
    #[inline]
    pub fn compare(arena: &Arena, at: Ref, place: &Place<'_>) -> Ordering {
        let column = ColumnId(u16::from_le_bytes(*arena.array(at, COLUMN)));
        column.cmp(&place.column).then_with(|| read(arena, at).place().cmp(place))
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
        let at = arena.alloc(HEAD_BYTES + start.prefix.len() + end.prefix.len());
        arena.bytes_mut(at, 0, HEAD_BYTES).fill(0);
        write_deletion(arena, at, DELETION, *deletion);
        arena.set(at, START_LEN, &len_u32(start.prefix).to_le_bytes());
        arena.set(at, END_LEN, &len_u32(end.prefix).to_le_bytes());
        arena.set(at, WEIGHTS, &[start.weight.cast_unsigned(), end.weight.cast_unsigned()]);
        arena.set(at, HEAD_BYTES, start.prefix);
        arena.set(at, HEAD_BYTES + start.prefix.len(), end.prefix);
        at
    }

    pub fn read(arena: &Arena, at: Ref) -> Range<'_> {
        let start_len = arena.u32(at, START_LEN) as usize;
        let end_len = arena.u32(at, END_LEN) as usize;
        let [start_weight, end_weight] = arena.array::<2>(at, WEIGHTS).map(u8::cast_signed);
        let start = Position { prefix: arena.bytes(at, HEAD_BYTES, start_len), weight: start_weight };
        let end = Position { prefix: arena.bytes(at, HEAD_BYTES + start_len, end_len), weight: end_weight };
        Range { start, end, deletion: read_deletion(arena, at, DELETION) }
    }

    pub fn size(range: &Range<'_>) -> usize {
        HEAD_BYTES + range.start.prefix.len() + range.end.prefix.len()
    }
}

fn read_deletion(arena: &Arena, at: Ref, offset: usize) -> DeletionTime {
    DeletionTime { timestamp: arena.i64(at, offset), local_deletion_s: arena.i64(at, offset + 8) }
}

fn write_deletion(arena: &mut Arena, at: Ref, offset: usize, deletion: DeletionTime) {
    arena.set(at, offset, &deletion.timestamp.to_le_bytes());
    arena.set(at, offset + 8, &deletion.local_deletion_s.to_le_bytes());
}

fn field<const N: usize, const M: usize>(bytes: &[u8; M], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

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
        assert_eq!((partition::token(&arena, at), partition::key(&arena, at)), (Token(-5), &b"key"[..]));
        assert!(partition::deletion(&arena, at).is_live());
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
