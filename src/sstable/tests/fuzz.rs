//! Every decoder on bytes that nobody wrote: an answer or an error, no panic, and no endless loop.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::crafted::{body, file, footer, reseal, verdict};
use super::*;
use crate::sstable::block::{Block, BlockBuilder};
use crate::sstable::filter::Filter;
use crate::sstable::footer::{Footer, check_header};
use crate::sstable::frame::{self, FrameKind};
use crate::sstable::index::{Handle, IndexEntry, Place, Within, index_entry, last_at_or_before, write_index_entry};
use crate::sstable::{Statistics, entry};

/// Asks a block for all that it has.
fn walk(block: &Block) {
    for n in 0..block.heads() {
        let _ = (block.head(n), block.partition_entries(n));
        if let Ok(key) = block.head_key(n) {
            let _ = block.head_at_or_after(key);
        }
    }
    for n in 0..block.entries() {
        let (entry, base) = (block.entry(n), block.base());
        let _ =
            (block.kind(n), block.change(n), entry::position_of(entry), entry::row(entry, base), index_entry(block, n));
    }
    let place = Place { token: Token(5), key: b"k", within: Within::Head };
    let _ = last_at_or_before(block, &place, table().clustering_order());
}

fn any_bytes(len: usize) -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 0..len)
}

/// Places and what to put there.
fn edits() -> impl Strategy<Value = Vec<(prop::sample::Index, u8)>> {
    proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
}

fn edit(bytes: &mut [u8], edits: &[(prop::sample::Index, u8)]) {
    for (at, byte) in edits {
        let at = at.index(bytes.len());
        bytes[at] = *byte;
    }
}

fn index_block() -> Vec<u8> {
    let mut builder = BlockBuilder::default();
    for n in 0..6u8 {
        let prefix = prefix(&[i32::from(n)]);
        let within =
            if n % 2 == 0 { Within::Head } else { Within::At(crate::schema::Position { prefix: &prefix, weight: -1 }) };
        let first = Place { token: Token(i64::from(n)), key: &[n; 4], within };
        let handle = Handle { offset_bytes: u64::from(n) << 20, len_bytes: 7000 };
        write_index_entry(&mut builder, &IndexEntry { first, handle });
    }
    builder.finish().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn decoders_take_any_bytes(bytes in any_bytes(200), offset in any::<u64>(), len in any::<u64>()) {
        for kind in [FrameKind::Data, FrameKind::Leaf, FrameKind::Root, FrameKind::Filter, FrameKind::Statistics] {
            prop_assert!(frame::open(kind, &bytes, offset).is_err());
        }
        let _ = frame::lengths(&bytes);
        let _ = (Filter::decode(&bytes).map(|filter| filter.may_contain(Token(1))), Statistics::decode(&bytes));
        prop_assert!(Footer::decode("f", &bytes, len).is_err());
        prop_assert!(check_header("f", TableId([0; 16]), &bytes).is_err());
        if let Ok(block) = Block::parse(&Rc::from("f"), offset, bytes) {
            walk(&block);
        }
    }

    #[test]
    fn an_index_block_with_other_bytes_in_it(edits in edits()) {
        let mut bytes = index_block();
        edit(&mut bytes, &edits);
        if let Ok(block) = Block::parse(&Rc::from("f"), 0, bytes) {
            walk(&block);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Bytes changed in one part of a file, its checksum made right again: the whole reader on top of it.
    #[test]
    fn a_file_with_other_bytes_under_right_checksums(part in 0..5usize, block in any::<prop::sample::Index>(), edits in edits()) {
        let (sim, mut whole) = file();
        let parts = footer(&whole);
        let (kind, handle) = match part {
            0 => (FrameKind::Root, parts.root),
            1 => (FrameKind::Filter, parts.filter),
            2 => (FrameKind::Statistics, parts.statistics),
            _ => {
                let frames = frames(&whole, parts.root.offset_bytes);
                frames[block.index(frames.len())]
            }
        };
        let mut bytes = body(&whole, kind, handle);
        edit(&mut bytes, &edits);
        reseal(&mut whole, kind, handle, &bytes);
        prop_assert!(!verdict(&sim, &whole).is_empty());
    }
}

/// The data and leaf frames, which stand one after another up to `end`.
fn frames(file: &[u8], end: u64) -> Vec<(FrameKind, Handle)> {
    let mut frames = Vec::new();
    let mut at = crate::sstable::footer::HEADER_BYTES as u64;
    while at < end {
        let bytes = &file[usize::try_from(at).unwrap()..];
        let kind = if bytes[0] == 1 { FrameKind::Data } else { FrameKind::Leaf };
        let framed = frame::lengths(bytes).unwrap().framed;
        frames.push((kind, Handle { offset_bytes: at, len_bytes: u32::try_from(framed).unwrap() }));
        at += framed;
    }
    frames
}
