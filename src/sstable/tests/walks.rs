//! Walks through single partitions: where range deletions open and close at the edges of blocks and slices, in both
//! directions, and pages of every size.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

/// A partition in which every entry may stand in a block of its own.
fn ranged() -> OwnedPartition {
    partition(
        b"p",
        vec![
            row(&[0, 1], 9, b"a"),
            change(&[1], -1, deletion(2)),
            row(&[1, 3], 9, b"b"),
            row(&[1, 2], 9, b"c"),
            change(&[2], -1, deletion(5)),
            row(&[2, 1], 9, b"d"),
            change(&[3], 1, DeletionTime::LIVE),
            row(&[4, 0], 9, b"e"),
        ],
    )
}

/// `a0.1` for a row, `(2@1-` for a change to the deletion of timestamp 2 before prefix 1, `)` where it closes.
fn sketch(partition: &OwnedPartition) -> String {
    let ints = |prefix: &[u8]| {
        let all = crate::schema::clustering::components(prefix).map(|c| i32::from_be_bytes(c.try_into().unwrap()));
        all.map(|n| n.to_string()).collect::<Vec<_>>().join(".")
    };
    let one = |fragment: &OwnedFragment| match fragment.borrow() {
        Fragment::Row(row) => ints(row.clustering),
        Fragment::Change(change) => {
            let sign = if change.position.weight < 0 { '-' } else { '+' };
            let what = if change.deletion.is_live() { ")".into() } else { format!("({}", change.deletion.timestamp) };
            format!("{what}@{}{sign}", ints(change.position.prefix))
        }
    };
    partition.fragments.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn slice(start: (&[i32], i8), end: (&[i32], i8)) -> Slice {
    Slice { start: position(start.0, start.1), end: position(end.0, end.1) }
}

/// What each walk gives, with every entry in its own block, a few to a block, and all in one.
fn check(slices: Vec<Slice>, forward: &'static str, reversed: &'static str) {
    for block_bytes in [1, 120, 16 * 1024] {
        let slices = slices.clone();
        simulate(async move |io| {
            write(&io, "/1.sst", options(1, block_bytes), &[ranged()]).await.unwrap();
            let reader = open(&io, 1, "/1.sst").await.unwrap();
            let cache = BlockCache::new(0);
            let got = read(&reader, &cache, b"p", &slices, false).await.unwrap().unwrap();
            assert_eq!(sketch(&got), forward, "forward, blocks of {block_bytes}");
            let got = read(&reader, &cache, b"p", &slices, true).await.unwrap().unwrap();
            assert_eq!(sketch(&got), reversed, "reversed, blocks of {block_bytes}");
        });
    }
}

#[test]
fn the_whole_partition() {
    check(vec![Slice::all()], "0.1 (2@1- 1.3 1.2 (5@2- 2.1 )@3+ 4.0", "4.0 (5@3+ 2.1 (2@2- 1.2 1.3 )@1- 0.1");
}

#[test]
fn a_slice_that_begins_and_ends_within_a_deletion() {
    check(vec![slice((&[1, 2], -1), (&[2, 1], 1))], "(2@1.2- 1.2 (5@2- 2.1 )@2.1+", "(5@2.1+ 2.1 (2@2- 1.2 )@1.2-");
}

#[test]
fn a_slice_of_one_row_closes_around_it() {
    check(vec![slice((&[1, 2], 0), (&[1, 2], 0))], "(2@1.2- 1.2 )@1.2+", "(2@1.2+ 1.2 )@1.2-");
}

#[test]
fn a_slice_whose_edges_are_changes() {
    check(vec![slice((&[1], -1), (&[2], -1))], "(2@1- 1.3 1.2 )@2-", "(2@2- 1.2 1.3 )@1-");
    check(vec![slice((&[2], -1), (&[3], 1))], "(5@2- 2.1 )@3+", "(5@3+ 2.1 )@2-");
    check(vec![slice((&[3], 1), (&[], 1))], "4.0", "4.0");
    check(vec![slice((&[], -1), (&[1], -1))], "0.1", "0.1");
}

#[test]
fn a_slice_without_rows_still_tells_of_its_deletion() {
    check(vec![slice((&[3], -1), (&[3], 1))], "(5@3- )@3+", "(5@3+ )@3-");
    check(vec![slice((&[5], -1), (&[6], 1))], "", "");
}

#[test]
fn several_slices_are_closed_one_by_one() {
    check(
        vec![slice((&[0], -1), (&[1, 3], 1)), slice((&[2], -1), (&[2], 1)), slice((&[4, 0], 0), (&[], 1))],
        "0.1 (2@1- 1.3 )@1.3+ (5@2- 2.1 )@2+ 4.0",
        "4.0 (5@2+ 2.1 )@2- (2@1.3+ 1.3 )@1- 0.1",
    );
}

#[test]
fn no_slices_give_the_head_alone() {
    check(Vec::new(), "", "");
}

/// The rows of a partition read in pages, each starting after the last row of the one before.
async fn paged(reader: &Reader, cache: &BlockCache, page_rows: usize, reversed: bool) -> Vec<Vec<u8>> {
    let mut rows: Vec<Vec<u8>> = Vec::new();
    let mut rest = Slice::all();
    loop {
        let got = read(reader, cache, b"p", std::slice::from_ref(&rest), reversed).await.unwrap().unwrap();
        let page: Vec<_> = got
            .fragments
            .iter()
            .filter_map(|fragment| match fragment.borrow() {
                Fragment::Row(row) => Some(row.clustering.to_vec()),
                Fragment::Change(_) => None,
            })
            .take(page_rows)
            .collect();
        let Some(last) = page.last().cloned() else { return rows };
        rows.extend(page);
        if reversed {
            rest.end = OwnedPosition { prefix: last, weight: -1 };
        } else {
            rest.start = OwnedPosition { prefix: last, weight: 1 };
        }
    }
}

#[test]
fn pages_of_every_size_add_up_in_both_directions() {
    simulate(async |io| {
        let mut whole = ranged();
        let mut still = Row::new(&[]);
        still.cells.push(cell(STATIC, 4, b"static"));
        whole.static_row = Some(OwnedRow::copy(&still));
        for (id, block_bytes) in [(1, 1), (2, 130), (3, 16 * 1024)] {
            let path = format!("/{id}.sst");
            write(&io, &path, options(id, block_bytes), std::slice::from_ref(&whole)).await.unwrap();
            let reader = open(&io, id, &path).await.unwrap();
            let cache = BlockCache::new(1 << 20);
            let all = paged(&reader, &cache, 100, false).await;
            assert_eq!(all.len(), 5);
            for page_rows in 1..6 {
                assert_eq!(paged(&reader, &cache, page_rows, false).await, all);
                let mut back = paged(&reader, &cache, page_rows, true).await;
                back.reverse();
                assert_eq!(back, all);
            }
        }
    });
}

#[test]
fn a_walk_goes_on_after_each_miss() {
    simulate(async |io| {
        write(&io, "/1.sst", options(1, 1), &[ranged()]).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let cache = BlockCache::new(1 << 20);
        // Warm all but one block at a time: the walk stops there, and the same cursor goes on once it is loaded.
        read(&reader, &cache, b"p", &[Slice::all()], false).await.unwrap();
        let blocks = cache.stats().blocks;
        assert!(blocks > 8, "{blocks}");
        let slices = [Slice::all()];
        let pins = Pins::new();
        let misses = Misses::new();
        let view = View { cache: &cache, pins: &pins, misses: &misses };
        let mut cursor = reader.partition(view, token_of(b"p"), b"p", &slices, false).unwrap().unwrap();
        let first = cursor.next().unwrap().map(|fragment| OwnedFragment::copy(&fragment));
        cache.forget(SSTableId(1));
        let mut seen: Vec<OwnedFragment> = first.into_iter().collect();
        let mut loads = 0;
        loop {
            match cursor.next() {
                Ok(Some(fragment)) => seen.push(OwnedFragment::copy(&fragment)),
                Ok(None) => break,
                Err(stop) => {
                    assert_eq!(stop, ReadStop::Miss);
                    assert!(!misses.is_empty());
                    loads += 1;
                    // What one read noted, another one loads.
                    read(&reader, &cache, b"p", &slices, false).await.unwrap();
                }
            }
        }
        assert!(loads > 0);
        assert_eq!(sketch(&partition(b"p", seen)), sketch(&ranged()));
    });
}

#[test]
fn a_sequential_walk_asks_for_the_blocks_ahead() {
    simulate(async |io| {
        let rows = (0..400).map(|a| row(&[a, 0], 5, &[1; 100])).collect();
        let options = WriterOptions { compression: crate::sstable::Compression::None, ..options(1, 1024) };
        write(&io, "/1.sst", options, &[partition(b"p", rows)]).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let cache = BlockCache::new(1 << 20);
        let mut misses = Misses::new();
        let (mut loads, mut asked) = (0, 0);
        loop {
            let pins = Pins::new();
            let view = View { cache: &cache, pins: &pins, misses: &misses };
            let slices = [Slice::all()];
            let cursor = reader.partition(view, token_of(b"p"), b"p", &slices, false);
            if cursor.and_then(|cursor| cursor.map(OwnedPartition::read).transpose()).is_ok() {
                break;
            }
            loads += 1;
            asked += misses.len();
            misses.load(&cache).await.unwrap();
        }
        assert!(asked > 40 && loads * 3 < asked, "{asked} blocks in {loads} loads");
    });
}
