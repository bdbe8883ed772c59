//! What is written is read back: whole, in slices, in both directions, by scans, by scanners; against the plain list of
//! what went in.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::mutation::read::TokenRange;
use crate::schema::{ClusteringOrder, Position};
use crate::sstable::{Compression, ScanItem, Scanner, Verified, verify};

/// What holds at a row's place after a stream's changes, in either direction.
fn covered_at(order: &ClusteringOrder, fragments: &[OwnedFragment], at: Position<'_>, reversed: bool) -> DeletionTime {
    let mut deletion = DeletionTime::LIVE;
    for fragment in fragments {
        if let Fragment::Change(change) = fragment.borrow() {
            let compared = order.compare(change.position, at);
            if if reversed { compared.is_gt() } else { compared.is_lt() } {
                deletion = change.deletion;
            }
        }
    }
    deletion
}

/// Checks what a cursor gave for `slices` against all of the partition: the rows, their order, and which deletion each
/// place of the grid is under.
fn check_slices(whole: &OwnedPartition, got: &OwnedPartition, slices: &[Slice], reversed: bool) {
    let table = table();
    let order = table.clustering_order();
    assert_eq!((got.token, &got.key, got.deletion), (whole.token, &whole.key, whole.deletion));
    let within = |at: Position<'_>| {
        slices.iter().any(|s| order.compare(s.start.borrow(), at).is_le() && order.compare(at, s.end.borrow()).is_le())
    };
    let rows = |partition: &OwnedPartition| -> Vec<String> {
        let rows = partition.fragments.iter().map(OwnedFragment::borrow);
        rows.filter(|fragment| matches!(fragment, Fragment::Row(_)) && within(fragment.position()))
            .map(|fragment| format!("{fragment:?}"))
            .collect()
    };
    let mut wanted = rows(whole);
    if reversed {
        wanted.reverse();
    }
    assert_eq!(rows(got), wanted, "rows of {slices:?} reversed {reversed}");
    assert_eq!(rows(got).len(), got.fragments.iter().filter(|f| matches!(f, OwnedFragment::Row(_))).count());
    for (a, b) in (0..6).flat_map(|a| (0..4).map(move |b| (a, b))) {
        let clustering = prefix(&[a, b]);
        let at = Position::row(&clustering);
        let wanted = if within(at) { covered_at(order, &whole.fragments, at, false) } else { DeletionTime::LIVE };
        let found = covered_at(order, &got.fragments, at, reversed);
        assert_eq!(found, wanted, "at ({a}, {b}) of {slices:?} reversed {reversed}");
    }
    for pair in got.fragments.windows(2) {
        let compared = order.compare(pair[0].borrow().position(), pair[1].borrow().position());
        assert!(if reversed { compared.is_gt() } else { compared.is_lt() }, "{pair:?}");
    }
}

/// Ascending, disjoint slices on the grid.
fn slices() -> impl Strategy<Value = Vec<Slice>> {
    let edge = prop_oneof![
        (0..6i32, prop_oneof![Just(-1i8), Just(1)]).prop_map(|(a, weight)| position(&[a], weight)),
        (0..6i32, 0..4i32, -1..=1i8).prop_map(|(a, b, weight)| position(&[a, b], weight)),
        Just(OwnedPosition::start()),
        Just(OwnedPosition::end()),
    ];
    proptest::collection::vec(edge, 0..7).prop_map(|mut edges| {
        let table = table();
        let order = table.clustering_order();
        edges.sort_by(|a, b| order.compare(a.borrow(), b.borrow()));
        edges.dedup_by(|a, b| order.compare(a.borrow(), b.borrow()).is_eq());
        if edges.len() < 2 {
            return vec![Slice::all()];
        }
        let pairs = edges.chunks_exact(2).map(|pair| Slice { start: pair[0].clone(), end: pair[1].clone() });
        let mut slices: Vec<Slice> = pairs.collect();
        // Where two touch at a row, a range that goes over both closes and opens at one place: no read asks for such.
        slices.dedup_by(|later, earlier| later.start.prefix == earlier.end.prefix);
        slices
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn files_read_back(
        all in partitions(),
        slices in slices(),
        block_bytes in prop_oneof![Just(1usize), 40..700usize, Just(16 * 1024)],
        cache_bytes in prop_oneof![Just(0usize), Just(1 << 20)],
    ) {
        simulate(async move |io| {
            let info = write(&io, "/1.sst", options(1, block_bytes), &all).await.unwrap();
            let reader = open(&io, 1, "/1.sst").await.unwrap();
            assert_eq!(reader.statistics(), &info.statistics);
            let cache = BlockCache::new(cache_bytes);
            for whole in &all {
                for reversed in [false, true] {
                    let got = read(&reader, &cache, &whole.key, &slices, reversed).await.unwrap().unwrap();
                    check_slices(whole, &got, &slices, reversed);
                    let got = read(&reader, &cache, &whole.key, &[Slice::all()], reversed).await.unwrap().unwrap();
                    check_slices(whole, &got, &[Slice::all()], reversed);
                    assert_eq!(got.static_row.is_some(), whole.static_row.is_some());
                }
                let got = read(&reader, &cache, &whole.key, &[Slice::all()], false).await.unwrap().unwrap();
                assert_eq!(text(&got), text(whole));
            }
            assert!(read(&reader, &cache, b"absent", &slices, false).await.unwrap().is_none());
            check_scans(&reader, &cache, &all).await;
            let verified = verify(&io, &reader).await.unwrap();
            assert_eq!(verified.partitions, all.len() as u64);
        });
    }
}

async fn check_scans(reader: &Reader, cache: &BlockCache, all: &[OwnedPartition]) {
    let start = (Token(i64::MIN), b"".as_slice());
    assert_eq!(texts(&scan(reader, cache, start, false).await.unwrap()), texts(all));
    for (n, partition) in all.iter().enumerate() {
        let at = (partition.token, partition.key.as_slice());
        assert_eq!(texts(&scan(reader, cache, at, false).await.unwrap()), texts(&all[n..]));
        assert_eq!(texts(&scan(reader, cache, at, true).await.unwrap()), texts(&all[n + 1..]));
        let before = (Token(partition.token.0 - 1), b"zzz".as_slice());
        assert_eq!(texts(&scan(reader, cache, before, true).await.unwrap()), texts(&all[n..]));
    }
}

/// 40 partitions; the fifth has 3,000 rows under range deletions that cross blocks.
fn large() -> Vec<OwnedPartition> {
    let rows = |n: i32| (0..n).map(|a| row(&[a, 1], 5, &[a as u8; 100])).collect::<Vec<_>>();
    let mut all: Vec<_> = (0..40u8).map(|key| partition(&[key], rows(i32::from(key) % 7))).collect();
    let mut fragments = Vec::new();
    for a in 0..3000 {
        if a % 500 == 250 {
            fragments.push(change(&[a], -1, deletion(2)));
        }
        if a % 500 == 450 {
            fragments.push(change(&[a], -1, DeletionTime::LIVE));
        }
        fragments.push(row(&[a, 1], 5, &[a as u8; 100]));
    }
    all[5].fragments = fragments;
    sorted(all)
}

#[test]
fn a_partition_over_many_blocks_reads_from_anywhere() {
    simulate(async |io| {
        let all = large();
        write(&io, "/1.sst", options(1, 4096), &all).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let cache = BlockCache::new(1 << 20);
        for from in [0, 249, 250, 251, 449, 450, 1700, 2999] {
            let slice = [Slice { start: position(&[from], -1), end: position(&[from + 20], 1) }];
            for reversed in [false, true] {
                let got = read(&reader, &cache, &[5], &slice, reversed).await.unwrap().unwrap();
                let rows: Vec<_> = got.fragments.iter().filter(|f| matches!(f, OwnedFragment::Row(_))).collect();
                assert_eq!(rows.len(), 21.min(3000 - usize::try_from(from).unwrap()));
                let open = got.fragments.iter().filter(|f| !matches!(f, OwnedFragment::Row(_))).count();
                assert_eq!(open % 2, 0, "what opens closes");
            }
        }
        assert_eq!(texts(&scan(&reader, &cache, (Token(i64::MIN), b""), false).await.unwrap()), texts(&all));
    });
}

#[test]
fn a_slice_deep_in_a_partition_loads_only_its_blocks() {
    simulate(async |io| {
        let all = large();
        write(&io, "/1.sst", options(1, 4096), &all).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let cache = BlockCache::new(1 << 30);
        let slice = [Slice { start: position(&[2000, 1], 0), end: position(&[2000, 1], 0) }];
        let got = read(&reader, &cache, &[5], &slice, false).await.unwrap().unwrap();
        assert_eq!(got.fragments.len(), 1);
        assert!(cache.stats().blocks <= 2, "a leaf and a data block, not {:?}", cache.stats());
    });
}

#[test]
fn every_compression_verifies_and_scans() {
    for compression in [Compression::None, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        simulate(async move |io| {
            let all = large();
            let options = WriterOptions { compression, ..options(1, 16 * 1024) };
            let info = write(&io, "/1.sst", options, &all).await.unwrap();
            assert!(compression == Compression::None || info.file_bytes < info.statistics.raw_bytes);
            let reader = open(&io, 1, "/1.sst").await.unwrap();
            let Verified { partitions, rows, .. } = verify(&io, &reader).await.unwrap();
            assert_eq!((partitions, rows), (info.statistics.partitions, info.statistics.rows));
            let mut scanner = Scanner::open(&io, &reader).await.unwrap();
            let mut seen = (0, 0, 0);
            loop {
                scanner.settle().await.unwrap();
                match scanner.item().unwrap() {
                    ScanItem::Partition(_) => seen.0 += 1,
                    ScanItem::Row(_) => seen.1 += 1,
                    ScanItem::Change(_) => seen.2 += 1,
                    ScanItem::End => break,
                }
                scanner.step();
            }
            assert_eq!(seen, (partitions, rows, 12));
        });
    }
}

#[test]
fn a_shared_file_shows_only_the_owned_ranges() {
    simulate(async |io| {
        let all = large();
        write(&io, "/1.sst", options(1, 600), &all).await.unwrap();
        let mut reader = open(&io, 1, "/1.sst").await.unwrap();
        let edge = |n: usize| Some(all[n].token);
        reader.restrict(vec![
            TokenRange { start_exclusive: edge(3), end_inclusive: edge(6) },
            TokenRange { start_exclusive: edge(30), end_inclusive: edge(31) },
        ]);
        let cache = BlockCache::new(1 << 20);
        let mut wanted = texts(&all[4..=6]);
        wanted.extend(texts(&all[31..=31]));
        assert_eq!(texts(&scan(&reader, &cache, (Token(i64::MIN), b""), false).await.unwrap()), wanted);
        assert!(read(&reader, &cache, &all[3].key, &[Slice::all()], false).await.unwrap().is_none());
        assert!(read(&reader, &cache, &all[4].key, &[Slice::all()], false).await.unwrap().is_some());
    });
}

#[test]
fn a_range_deletion_left_open_is_closed_at_the_partitions_end() {
    simulate(async |io| {
        let open_end = partition(b"p", vec![change(&[1], -1, deletion(3)), row(&[2, 2], 9, b"v")]);
        write(&io, "/1.sst", options(1, 4096), &[open_end]).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        verify(&io, &reader).await.unwrap();
        let cache = BlockCache::new(1 << 20);
        let got = read(&reader, &cache, b"p", &[Slice::all()], false).await.unwrap().unwrap();
        assert_eq!(got.fragments.len(), 3);
    });
}

#[test]
fn an_abandoned_file_is_gone() {
    simulate(async |io| {
        let mut writer = Writer::create(&io, Path::new("/1.sst"), options(1, 4096)).await.unwrap();
        for partition in large() {
            writer.begin_partition(&partition.cursor().start().unwrap());
            writer.end_partition();
        }
        writer.settle().await.unwrap();
        writer.abandon().await.unwrap();
        assert!(!io.exists(Path::new("/1.sst")).await.unwrap());
    });
}
