//! The two-level index: which block holds a place in the file. A leaf points at data blocks, the root at leaves; both
//! are blocks whose entries name the first thing in the block that they point at. See FORMAT.md.

use std::cmp::Ordering;

use crate::base::ids::Token;
use crate::base::vint::{read_u64, write_u64};
use crate::mutation::ReadStop;
use crate::schema::{ClusteringOrder, Position};
use crate::sstable::block::{Block, BlockBuilder};

/// A place in the order of a whole file: by token, key, then from the partition's head to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place<'a> {
    pub token: Token,
    pub key: &'a [u8],
    pub within: Within<'a>,
}

/// A place in a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within<'a> {
    /// Its head.
    Head,
    At(Position<'a>),
    /// After all of it.
    End,
}

impl Within<'_> {
    fn rank(self) -> u8 {
        match self {
            Within::Head => 0,
            Within::At(_) => 1,
            Within::End => 2,
        }
    }
}

impl Place<'_> {
    pub fn compare(&self, other: &Place<'_>, order: &ClusteringOrder) -> Ordering {
        let ring = self.token.cmp(&other.token).then_with(|| self.key.cmp(other.key));
        ring.then_with(|| match (self.within, other.within) {
            (Within::At(a), Within::At(b)) => order.compare(a, b),
            (a, b) => a.rank().cmp(&b.rank()),
        })
    }
}

/// Where a block is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handle {
    pub offset_bytes: u64,
    /// With the frame's header.
    pub len_bytes: u32,
}

/// One entry: the first place of a block, and where the block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IndexEntry<'a> {
    pub first: Place<'a>,
    pub handle: Handle,
}

/// 0: the block begins with a partition's head; otherwise the weight of the first position, plus 2.
const WITHIN_HEAD: u8 = 0;

pub fn write_index_entry(builder: &mut BlockBuilder, entry: &IndexEntry<'_>) {
    let (out, _) = builder.start_entry(false);
    out.extend_from_slice(&entry.first.token.0.to_le_bytes());
    let position = match entry.first.within {
        Within::Head => None,
        Within::At(position) => Some(position),
        Within::End => unreachable!("a block begins with something"),
    };
    out.push(position.map_or(WITHIN_HEAD, |position| 2u8.wrapping_add_signed(position.weight.signum())));
    write_u64(out, entry.first.key.len() as u64);
    out.extend_from_slice(entry.first.key);
    if let Some(position) = position {
        write_u64(out, position.prefix.len() as u64);
        out.extend_from_slice(position.prefix);
    }
    write_u64(out, entry.handle.offset_bytes);
    write_u64(out, u64::from(entry.handle.len_bytes));
}

fn take<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(read_u64(input)?).ok()?;
    let (taken, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(taken)
}

fn decode(entry: &[u8]) -> Option<IndexEntry<'_>> {
    let (token, rest) = entry.split_first_chunk::<8>()?;
    let (within, mut input) = rest.split_first()?;
    let key = take(&mut input)?;
    let within = match *within {
        WITHIN_HEAD => Within::Head,
        tag @ 1..=3 => Within::At(Position { weight: tag as i8 - 2, prefix: take(&mut input)? }),
        _ => return None,
    };
    let handle = Handle { offset_bytes: read_u64(&mut input)?, len_bytes: u32::try_from(read_u64(&mut input)?).ok()? };
    let first = Place { token: Token(i64::from_le_bytes(*token)), key, within };
    input.is_empty().then_some(IndexEntry { first, handle })
}

/// The n-th entry of an index block.
pub fn index_entry(block: &Block, n: usize) -> Result<IndexEntry<'_>, ReadStop> {
    decode(block.entry(n)).ok_or_else(|| block.damage("an index entry"))
}

/// The last entry whose block begins at or before `place`: if the place is anywhere, it is there.
#[inline]
pub fn last_at_or_before(block: &Block, place: &Place<'_>, order: &ClusteringOrder) -> Result<Option<usize>, ReadStop> {
    let (mut low, mut high) = (0, block.entries());
    while low < high {
        let middle = (low + high) / 2;
        if begins_at_or_before(block, middle, place, order)? {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    Ok(low.checked_sub(1))
}

/// Most entries differ in the token: those are told apart by eight bytes.
#[inline]
fn begins_at_or_before(block: &Block, n: usize, place: &Place<'_>, order: &ClusteringOrder) -> Result<bool, ReadStop> {
    let Some(token) = block.entry_onwards(n).first_chunk::<8>() else { return Err(block.damage("an index entry")) };
    match i64::from_le_bytes(*token).cmp(&place.token.0) {
        Ordering::Less => Ok(true),
        Ordering::Greater => Ok(false),
        Ordering::Equal => Ok(index_entry(block, n)?.first.compare(place, order).is_le()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::rc::Rc;

    use super::*;
    use crate::types::CqlType;

    fn place(token: i64, key: &'static [u8], within: Within<'static>) -> Place<'static> {
        Place { token: Token(token), key, within }
    }

    const ROW: Position<'static> = Position { prefix: &[4, 0, 0, 0, 0, 9], weight: 0 };
    const BEFORE: Position<'static> = Position { prefix: &[4, 0, 0, 0, 0, 5], weight: -1 };

    fn places() -> Vec<Place<'static>> {
        vec![
            place(-5, b"a", Within::Head),
            place(-5, b"b", Within::Head),
            place(-5, b"b", Within::At(BEFORE)),
            place(-5, b"b", Within::At(ROW)),
            place(7, b"c", Within::Head),
        ]
    }

    fn block() -> Block {
        let mut builder = BlockBuilder::default();
        for (n, first) in places().into_iter().enumerate() {
            let handle = Handle { offset_bytes: n as u64 * 100, len_bytes: n as u32 };
            write_index_entry(&mut builder, &IndexEntry { first, handle });
        }
        Block::parse(&Rc::from("f"), 0, builder.finish().to_vec()).unwrap()
    }

    fn order() -> ClusteringOrder {
        ClusteringOrder::new([(CqlType::Int, false)])
    }

    #[test]
    fn entries_read_back() {
        let block = block();
        for (n, first) in places().into_iter().enumerate() {
            let entry = index_entry(&block, n).unwrap();
            assert_eq!(entry.first, first);
            assert_eq!(entry.handle, Handle { offset_bytes: n as u64 * 100, len_bytes: n as u32 });
        }
    }

    #[test]
    fn the_block_before_a_place_is_found() {
        let block = block();
        let find = |place| last_at_or_before(&block, &place, &order()).unwrap();
        assert_eq!(find(place(-6, b"z", Within::Head)), None);
        assert_eq!(find(place(-5, b"", Within::Head)), None);
        assert_eq!(find(place(-5, b"a", Within::Head)), Some(0));
        assert_eq!(find(place(-5, b"b", Within::Head)), Some(1));
        assert_eq!(find(place(-5, b"b", Within::At(Position::START))), Some(1));
        assert_eq!(find(place(-5, b"b", Within::At(BEFORE))), Some(2));
        assert_eq!(find(place(-5, b"b", Within::At(ROW))), Some(3));
        assert_eq!(find(place(-5, b"b", Within::End)), Some(3));
        assert_eq!(find(place(0, b"", Within::Head)), Some(3));
        assert_eq!(find(place(7, b"c", Within::At(Position::START))), Some(4));
        assert_eq!(find(place(9, b"", Within::Head)), Some(4));
    }

    #[test]
    fn places_are_in_order() {
        let all = places();
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!(a.compare(b, &order()), i.cmp(&j));
            }
        }
    }

    #[test]
    fn cut_entries_do_not_decode() {
        let block = block();
        for n in 0..block.entries() {
            let entry = block.entry(n);
            for len in 0..entry.len() {
                assert_eq!(decode(&entry[..len]), None);
            }
        }
    }
}
