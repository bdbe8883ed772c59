//! Files whose every checksum is right and whose parts contradict each other: `verify` names what is wrong, and reads
//! do not panic.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::sstable::block::BlockBuilder;
use crate::sstable::compression::Compressor;
use crate::sstable::entry::{write_change, write_head, write_row};
use crate::sstable::footer::{FOOTER_BYTES, Footer};
use crate::sstable::frame::{self, FrameKind};
use crate::sstable::index::{Handle, IndexEntry, Place, Within, write_index_entry};
use crate::sstable::{Compression, Statistics, verify};

fn good() -> Vec<OwnedPartition> {
    sorted((1..4u8).map(|key| partition(&[key], vec![row(&[1, 1], 5, b"one"), row(&[2, 1], 6, b"two")])).collect())
}

pub(super) fn file() -> (Simulation, Vec<u8>) {
    let sim = Simulation::new(1, Faults::NONE);
    let options = WriterOptions { compression: Compression::None, ..options(1, 1) };
    sim.run_on_node(async |io| write(&io, "/1.sst", options, &good()).await.unwrap()).unwrap();
    let bytes = sim.disk().read(Path::new("/1.sst")).unwrap();
    (sim, bytes)
}

pub(super) fn footer(file: &[u8]) -> Footer {
    Footer::decode("f", &file[file.len() - FOOTER_BYTES..], file.len() as u64).unwrap()
}

pub(super) fn body(file: &[u8], kind: FrameKind, handle: Handle) -> Vec<u8> {
    let at = usize::try_from(handle.offset_bytes).unwrap();
    frame::open(kind, &file[at..at + handle.len_bytes as usize], handle.offset_bytes).unwrap()
}

/// Puts another body of the same length in a frame's place, with a right checksum.
pub(super) fn reseal(file: &mut [u8], kind: FrameKind, handle: Handle, body: &[u8]) {
    let mut out = vec![0; frame::sealed_len_max(Compression::None, body.len())];
    let len = frame::seal(kind, Compression::None, &mut Compressor::default(), body, handle.offset_bytes, &mut out);
    assert_eq!(len, handle.len_bytes as usize, "the frame keeps its length");
    let at = usize::try_from(handle.offset_bytes).unwrap();
    file[at..at + len].copy_from_slice(&out[..len]);
}

/// What `verify` says about a file; every partition is read too, and may be anything but a panic.
pub(super) fn verdict(sim: &Simulation, file: &[u8]) -> String {
    sim.disk().write(Path::new("/1.sst"), file).unwrap();
    sim.run_on_node(async |io| {
        let reader = match open(&io, 1, "/1.sst").await {
            Ok(reader) => reader,
            Err(error) => return error.to_string(),
        };
        let cache = BlockCache::new(1 << 20);
        for partition in good() {
            for reversed in [false, true] {
                let _ = read(&reader, &cache, &partition.key, &[Slice::all()], reversed).await;
            }
        }
        let _ = scan(&reader, &cache, (Token(i64::MIN), b""), false).await;
        verify(&io, &reader).await.map_or_else(|error| error.to_string(), |verified| format!("{verified:?}"))
    })
    .unwrap()
}

/// Replaces all data blocks by one, which the index names from `first` on.
fn with_block(build: impl FnOnce(&mut BlockBuilder), first: Place<'_>) -> (Simulation, Vec<u8>) {
    let (sim, whole) = file();
    let mut block = BlockBuilder::default();
    build(&mut block);
    let mut file = whole[..crate::sstable::footer::HEADER_BYTES].to_vec();
    let put = |file: &mut Vec<u8>, kind, body: &[u8]| {
        let mut out = vec![0; frame::sealed_len_max(Compression::None, body.len())];
        let offset_bytes = file.len() as u64;
        let len = frame::seal(kind, Compression::None, &mut Compressor::default(), body, offset_bytes, &mut out);
        file.extend_from_slice(&out[..len]);
        Handle { offset_bytes, len_bytes: u32::try_from(len).unwrap() }
    };
    let handle = put(&mut file, FrameKind::Data, block.finish());
    let mut footer = Footer { data_end_bytes: file.len() as u64, ..footer(&whole) };
    let old = self::footer(&whole);
    let (filter, statistics) =
        (body(&whole, FrameKind::Filter, old.filter), body(&whole, FrameKind::Statistics, old.statistics));
    let mut index = BlockBuilder::default();
    write_index_entry(&mut index, &IndexEntry { first, handle });
    let leaf = put(&mut file, FrameKind::Leaf, index.finish());
    index.clear();
    write_index_entry(&mut index, &IndexEntry { first, handle: leaf });
    footer.root = put(&mut file, FrameKind::Root, index.finish());
    footer.filter = put(&mut file, FrameKind::Filter, &filter);
    footer.statistics = put(&mut file, FrameKind::Statistics, &statistics);
    file.resize((file.len() + FOOTER_BYTES).next_multiple_of(4096) - FOOTER_BYTES, 0);
    footer.file_bytes = (file.len() + FOOTER_BYTES) as u64;
    let mut bytes = [0; FOOTER_BYTES];
    footer.encode(&mut bytes);
    file.extend_from_slice(&bytes);
    (sim, file)
}

fn head(block: &mut BlockBuilder, partition: &OwnedPartition, continued: Option<DeletionTime>) {
    let (out, base) = block.start_entry(true);
    write_head(out, base, (partition.token, &partition.key), DeletionTime::LIVE, None, continued);
}

fn put_row(block: &mut BlockBuilder, fragment: &OwnedFragment) {
    let Fragment::Row(row) = fragment.borrow() else { panic!("a row") };
    let (out, base) = block.start_entry(false);
    write_row(out, base, &row);
}

fn put_change(block: &mut BlockBuilder, at: &[i32], before: DeletionTime, after: DeletionTime) {
    let (out, base) = block.start_entry(false);
    write_change(out, base, position(at, -1).borrow(), before, after);
}

fn place(partition: &OwnedPartition) -> Place<'_> {
    Place { token: partition.token, key: &partition.key, within: Within::Head }
}

#[test]
fn a_sound_file_passes() {
    let (sim, whole) = file();
    assert_eq!(verdict(&sim, &whole), "Verified { blocks: 9, partitions: 3, static_rows: 0, rows: 6, cells: 6 }");
}

#[test]
fn a_filter_that_hides_a_partition_is_found() {
    let (sim, mut whole) = file();
    let handle = footer(&whole).filter;
    let mut filter = body(&whole, FrameKind::Filter, handle);
    filter[4..].fill(0);
    reseal(&mut whole, FrameKind::Filter, handle, &filter);
    assert!(verdict(&sim, &whole).contains("the filter hides"));
}

#[test]
fn statistics_that_count_otherwise_are_found() {
    let (sim, mut whole) = file();
    let handle = footer(&whole).statistics;
    let mut statistics = Statistics::decode(&body(&whole, FrameKind::Statistics, handle)).unwrap();
    statistics.rows -= 1;
    let mut encoded = Vec::new();
    statistics.encode(&mut encoded);
    reseal(&mut whole, FrameKind::Statistics, handle, &encoded);
    assert!(verdict(&sim, &whole).contains("statistics that count otherwise"));
}

#[test]
fn an_index_that_points_elsewhere_is_found() {
    let (sim, mut whole) = file();
    let handle = footer(&whole).root;
    let mut root = body(&whole, FrameKind::Root, handle);
    // The key in the root's only entry: token, one byte, the key's length, then the key.
    root[9 + 8 + 1 + 1] ^= 0xff;
    reseal(&mut whole, FrameKind::Root, handle, &root);
    assert!(verdict(&sim, &whole).contains("a leaf that begins elsewhere"));
}

#[test]
fn a_part_in_anothers_place_is_refused() {
    let (sim, mut whole) = file();
    let mut swapped = footer(&whole);
    std::mem::swap(&mut swapped.root, &mut swapped.statistics);
    let mut bytes = [0; FOOTER_BYTES];
    swapped.encode(&mut bytes);
    let at = whole.len() - FOOTER_BYTES;
    whole[at..].copy_from_slice(&bytes);
    assert!(verdict(&sim, &whole).contains("kind 5 where kind 3 belongs"));
}

#[test]
fn rows_and_partitions_out_of_order_are_found() {
    let all = good();
    let rows = |block: &mut BlockBuilder| {
        head(block, &all[0], None);
        put_row(block, &row(&[2, 1], 5, b"x"));
        put_row(block, &row(&[1, 1], 5, b"y"));
    };
    let (sim, file) = with_block(rows, place(&all[0]));
    assert!(verdict(&sim, &file).contains("rows out of order"));
    let heads = |block: &mut BlockBuilder| {
        head(block, &all[1], None);
        head(block, &all[0], None);
    };
    let (sim, file) = with_block(heads, place(&all[1]));
    assert!(verdict(&sim, &file).contains("partitions out of order"));
}

#[test]
fn range_deletions_that_do_not_join_are_found() {
    let all = good();
    let gap = |block: &mut BlockBuilder| {
        head(block, &all[0], None);
        put_change(block, &[1], DeletionTime::LIVE, deletion(3));
        put_change(block, &[2], deletion(4), DeletionTime::LIVE);
    };
    let (sim, file) = with_block(gap, place(&all[0]));
    assert!(verdict(&sim, &file).contains("range deletions that do not join"));
    let open = |block: &mut BlockBuilder| {
        head(block, &all[0], None);
        put_change(block, &[1], DeletionTime::LIVE, deletion(3));
        head(block, &all[1], None);
    };
    let (sim, file) = with_block(open, place(&all[0]));
    assert!(verdict(&sim, &file).contains("a range deletion left open"));
}

#[test]
fn a_repeated_head_of_nothing_is_found() {
    let all = good();
    let first = Place { within: Within::At(crate::schema::Position::START), ..place(&all[0]) };
    let alone = |block: &mut BlockBuilder| head(block, &all[0], Some(DeletionTime::LIVE));
    let (sim, file) = with_block(alone, first);
    assert!(verdict(&sim, &file).contains("a repeated head and nothing after it"));
    let second = position(&[1, 1], 0);
    let first = Place { within: Within::At(second.borrow()), ..place(&all[0]) };
    let orphan = |block: &mut BlockBuilder| {
        head(block, &all[0], Some(DeletionTime::LIVE));
        put_row(block, &row(&[1, 1], 5, b"x"));
    };
    let (sim, file) = with_block(orphan, first);
    assert!(verdict(&sim, &file).contains("goes on from no block"));
}

#[test]
fn a_block_without_a_head_is_refused() {
    let all = good();
    let bare = |block: &mut BlockBuilder| put_row(block, &row(&[1, 1], 5, b"x"));
    let (sim, file) = with_block(bare, place(&all[0]));
    assert!(verdict(&sim, &file).contains("does not begin with a partition's head"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A data block of any bytes, rightly framed: reads give something or an error.
    #[test]
    fn any_block_is_read_without_a_panic(mut bytes in proptest::collection::vec(any::<u8>(), 9..80), entries in 0..4u32) {
        let (sim, mut whole) = file();
        bytes[0] &= 3;
        let handle = first_data(&whole);
        let wanted = handle.len_bytes as usize - frame::FRAME_HEADER_BYTES;
        bytes.resize(wanted - 8, 0);
        bytes.extend_from_slice(&entries.to_le_bytes());
        bytes.extend_from_slice(&1u32.to_le_bytes());
        let directory = wanted - 8 - 2 * (entries as usize + 1);
        for n in 0..entries as usize {
            let offset = 9 + 5 * n;
            bytes[directory + 2 * n..][..2].copy_from_slice(&u16::try_from(offset).unwrap().to_le_bytes());
        }
        reseal(&mut whole, FrameKind::Data, handle, &bytes);
        prop_assert!(!verdict(&sim, &whole).is_empty());
    }
}

fn first_data(file: &[u8]) -> Handle {
    let offset = crate::sstable::footer::HEADER_BYTES;
    let framed = frame::lengths(&file[offset..]).unwrap().framed;
    Handle { offset_bytes: offset as u64, len_bytes: u32::try_from(framed).unwrap() }
}
