//! Scanners, scans, misses and the writer's statistics, piece by piece.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::time::Duration;

use super::*;
use crate::io::TaskClass;
use crate::mutation::read::TokenRange;
use crate::sstable::{Compression, HeadKey, ScanItem, Scanner};

fn few() -> Vec<OwnedPartition> {
    sorted((1..6u8).map(|key| partition(&[key], vec![row(&[1, 1], 5, b"one"), row(&[2, 1], 6, b"two")])).collect())
}

#[test]
fn a_scanner_shows_each_entry_once_whatever_the_blocks() {
    for block_bytes in [1, 100, 16 * 1024] {
        simulate(async move |io| {
            write(&io, "/1.sst", options(1, block_bytes), &few()).await.unwrap();
            let reader = open(&io, 1, "/1.sst").await.unwrap();
            let mut scanner = Scanner::open(&io, &reader).await.unwrap();
            for partition in few() {
                scanner.settle().await.unwrap();
                assert!(scanner.at_head() && scanner.row_position().is_none());
                let key = HeadKey { token: partition.token, key: &partition.key };
                assert_eq!(scanner.key().unwrap(), Some(key));
                assert!(matches!(scanner.item().unwrap(), ScanItem::Partition(_)));
                scanner.step();
                for fragment in &partition.fragments {
                    scanner.settle().await.unwrap();
                    assert!(!scanner.at_head());
                    assert_eq!(scanner.key().unwrap(), Some(key));
                    assert_eq!(scanner.row_position(), Some(fragment.borrow().position()));
                    let ScanItem::Row(row) = scanner.item().unwrap() else { panic!("a row") };
                    assert_eq!(Fragment::Row(row), fragment.borrow());
                    scanner.step();
                }
            }
            scanner.settle().await.unwrap();
            assert!(matches!(scanner.item().unwrap(), ScanItem::End));
            assert_eq!(scanner.key().unwrap(), None);
            scanner.settle().await.unwrap();
            assert!(!scanner.at_head(), "the end stays the end");
        });
    }
}

#[test]
fn a_scanner_reads_files_of_many_spans() {
    simulate(async |io| {
        let rows = (0..9000).map(|a| row(&[a, 1], 5, &[a as u8; 300])).collect();
        let options = WriterOptions { compression: Compression::None, ..options(1, 5000) };
        let info = write(&io, "/1.sst", options, &[partition(b"large", rows)]).await.unwrap();
        assert!(info.file_bytes > 4 * 512 * 1024, "several reads of half a megabyte");
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let mut scanner = Scanner::open(&io, &reader).await.unwrap();
        let mut rows = 0;
        loop {
            scanner.settle().await.unwrap();
            match scanner.item().unwrap() {
                ScanItem::Row(_) => rows += 1,
                ScanItem::End => break,
                _ => {}
            }
            scanner.step();
        }
        assert_eq!(rows, 9000);
    });
}

#[test]
fn a_scanner_stops_at_damage_and_at_a_failed_read() {
    let sim = Simulation::new(1, Faults::NONE);
    let options = WriterOptions { compression: Compression::None, ..options(1, 1) };
    let scan = async |io: Io| {
        let reader = open(&io, 1, "/1.sst").await?;
        let mut scanner = Scanner::open(&io, &reader).await?;
        let mut seen = 0;
        loop {
            scanner.settle().await?;
            if matches!(scanner.item()?, ScanItem::End) {
                return Ok(seen);
            }
            seen += 1;
            scanner.step();
        }
    };
    sim.run_on_node(async |io| write(&io, "/1.sst", options, &few()).await.unwrap()).unwrap();
    assert_eq!(sim.run_on_node(scan).unwrap().unwrap(), 15);
    // A length in a frame's header that reaches beyond the data.
    assert!(sim.disk().flip(Path::new("/1.sst"), 32 + 6, 0x7f));
    let error: SSTableError = sim.run_on_node(scan).unwrap().unwrap_err();
    assert!(error.to_string().contains("a block longer than the data"), "{error}");
    assert!(sim.disk().flip(Path::new("/1.sst"), 32 + 6, 0x7f));
    assert!(sim.disk().flip(Path::new("/1.sst"), 32 + 16 + 12, 1));
    let error = sim.run_on_node(scan).unwrap().unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
}

#[test]
fn misses_are_noted_once_and_held_until_released() {
    simulate(async |io| {
        write(&io, "/1.sst", options(1, 100), &few()).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let cache = BlockCache::new(0);
        let mut misses = Misses::new();
        let key = few()[2].key.clone();
        let slices = [Slice::all()];
        for round in 0..2 {
            {
                let pins = Pins::new();
                let view = View { cache: &cache, pins: &pins, misses: &misses };
                for _ in 0..3 {
                    let missed = reader.partition(view, token_of(&key), &key, &slices, false).map(drop);
                    assert_eq!(missed, Err(ReadStop::Miss));
                }
            }
            assert_eq!(misses.len(), 1, "the leaf, then the data block");
            misses.load(&cache).await.unwrap();
            assert!(misses.is_empty());
            assert_eq!(cache.stats().blocks, round + 1, "held beyond a budget of nothing");
        }
        {
            let pins = Pins::new();
            let view = View { cache: &cache, pins: &pins, misses: &misses };
            assert!(reader.partition(view, token_of(&key), &key, &slices, false).unwrap().is_some());
            assert_eq!(pins.len(), 2);
        }
        misses.release();
        cache.set_bytes_max(0);
        assert_eq!(cache.stats().blocks, 0);
    });
}

/// Reads that load more than there is room for wait for those that came first, and those that hold something and need
/// more do not wait for each other.
#[test]
fn loads_wait_for_room_and_not_for_each_other() {
    simulate(async |io| {
        write(&io, "/1.sst", options(1, 100), &few()).await.unwrap();
        let reader = Rc::new(open(&io, 1, "/1.sst").await.unwrap());
        // Room for two blocks; none stays that nobody holds.
        let cache = Rc::new(BlockCache::with_loads(0, 2 * (64 << 10)));
        let (loaded, may_go, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)), Rc::new(Cell::new(0)));
        for partition in few() {
            let (reader, cache, clock) = (reader.clone(), cache.clone(), io.clone());
            let (loaded, may_go, ended) = (loaded.clone(), may_go.clone(), ended.clone());
            io.spawn(TaskClass::Foreground, async move {
                let mut misses = Misses::new();
                loop {
                    let found = {
                        let pins = Pins::new();
                        let view = View { cache: &cache, pins: &pins, misses: &misses };
                        reader.partition(view, partition.token, &partition.key, &[Slice::all()], false).map(drop)
                    };
                    if found.is_ok() {
                        break;
                    }
                    misses.load(&cache).await.unwrap();
                    loaded.set(loaded.get() + 1);
                    while !may_go.get() {
                        clock.sleep(Duration::from_millis(1)).await;
                    }
                }
                ended.set(ended.get() + 1);
            });
        }
        io.sleep(Duration::from_secs(1)).await;
        assert_eq!((loaded.get(), cache.loads().waiting()), (2, few().len() - 2));
        may_go.set(true);
        io.sleep(Duration::from_secs(1)).await;
        assert_eq!((ended.get(), cache.loads().taken()), (few().len(), 0));
    });
}

/// What is larger than all the room is loaded alone.
#[test]
fn a_load_larger_than_the_room_is_alone() {
    simulate(async |io| {
        write(&io, "/1.sst", options(1, 100), &few()).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let cache = BlockCache::with_loads(0, 1);
        for partition in few() {
            let found = read(&reader, &cache, &partition.key, &[Slice::all()], false).await.unwrap();
            assert!(found.is_some());
            assert_eq!(cache.loads().taken(), 0);
        }
    });
}

#[test]
fn a_point_read_of_cached_blocks_pins_two_of_them() {
    simulate(async |io| {
        write(&io, "/1.sst", options(1, 16 * 1024), &few()).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let cache = BlockCache::new(1 << 20);
        for partition in few() {
            read(&reader, &cache, &partition.key, &[Slice::all()], false).await.unwrap().unwrap();
        }
        let (misses, pins, slices) = (Misses::new(), Pins::new(), [Slice::all()]);
        let view = View { cache: &cache, pins: &pins, misses: &misses };
        for partition in &few() {
            let mut cursor = reader.partition(view, partition.token, &partition.key, &slices, false).unwrap().unwrap();
            let start = cursor.start().unwrap();
            assert_eq!((start.token, start.key), (partition.token, partition.key.as_slice()));
            while cursor.next().unwrap().is_some() {}
        }
        // Two each; the last one of the block looks whether it goes on in the next.
        assert!(pins.len() <= 2 * 5 + 3, "{} pins", pins.len());
        assert!(misses.is_empty());
    });
}

#[test]
fn a_scan_can_be_asked_again_after_each_miss() {
    simulate(async |io| {
        write(&io, "/1.sst", options(1, 1), &few()).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let (cache, misses, pins) = (BlockCache::new(1 << 20), Misses::new(), Pins::new());
        let view = View { cache: &cache, pins: &pins, misses: &misses };
        let mut scan = reader.scan(view, Token(i64::MIN), b"");
        let (mut seen, mut stops) = (Vec::new(), 0);
        loop {
            let step = scan.peek().and_then(|next| {
                if let Some((_, key)) = next {
                    scan.advance()?;
                    seen.push(key.to_vec());
                }
                Ok(next.is_some())
            });
            match step {
                Ok(true) => {}
                Ok(false) => break,
                Err(stop) => {
                    assert_eq!(stop, ReadStop::Miss);
                    stops += 1;
                    // Another read loads what this one is missing.
                    let _ = super::scan(&reader, &cache, (Token(i64::MIN), b""), false).await.unwrap();
                }
            }
        }
        assert!(stops >= 1);
        assert_eq!(seen, few().into_iter().map(|partition| partition.key).collect::<Vec<_>>());
        assert_eq!(scan.peek(), Ok(None));
        assert_eq!(scan.advance(), Ok(()), "past the end is the end");
    });
}

#[test]
fn a_reader_answers_no_for_what_cannot_be_there() {
    simulate(async |io| {
        let all: Vec<_> = sorted((0..200u8).map(|key| partition(&[key], vec![row(&[1, 1], 5, b"v")])).collect());
        let options = WriterOptions { expected_partitions: 200, ..options(1, 4096) };
        write(&io, "/1.sst", options, &all).await.unwrap();
        let mut reader = open(&io, 1, "/1.sst").await.unwrap();
        assert!(all.iter().all(|partition| reader.may_contain(partition.token)));
        assert!(!reader.may_contain(Token(all[0].token.0 - 1)), "before the first");
        let absent = (0..2000u32).filter(|key| reader.may_contain(token_of(&key.to_be_bytes()))).count();
        assert!(absent < 80, "{absent} of 2000 pass a filter of 1 %");
        assert!(reader.memory_bytes() > 200 && reader.owned().is_none());
        reader.restrict(vec![TokenRange { start_exclusive: Some(all[99].token), end_inclusive: None }]);
        assert!(!reader.may_contain(all[99].token) && reader.may_contain(all[100].token));
    });
}

#[test]
fn the_index_grows_a_second_leaf_and_still_finds_everything() {
    simulate(async |io| {
        let key = |n: u32| format!("{n:08}-{}", "k".repeat(200)).into_bytes();
        let all = sorted((0..300).map(|n| partition(&key(n), vec![row(&[1, 1], 5, b"v")])).collect());
        write(&io, "/1.sst", options(1, 1), &all).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        assert!(reader.root().entries() > 5, "{} leaves", reader.root().entries());
        let cache = BlockCache::new(0);
        for partition in all.iter().step_by(7) {
            for reversed in [false, true] {
                let got = read(&reader, &cache, &partition.key, &[Slice::all()], reversed).await.unwrap();
                assert_eq!(got.as_ref().map(text), Some(text(partition)));
            }
        }
        assert_eq!(texts(&scan(&reader, &cache, (Token(i64::MIN), b""), false).await.unwrap()), texts(&all));
    });
}

#[test]
fn statistics_follow_what_is_written() {
    simulate(async |io| {
        let mut gone = partition(
            &[7],
            vec![row(&[1, 1], 50, b"v"), change(&[2], -1, deletion(3)), change(&[2], 1, DeletionTime::LIVE)],
        );
        gone.deletion = deletion(20);
        let all = sorted(vec![gone, partition(&[8], vec![row(&[1, 1], 90, b"v")])]);
        let info = write(&io, "/1.sst", options(1, 4096), &all).await.unwrap();
        let statistics = &info.statistics;
        assert_eq!((statistics.min_timestamp, statistics.max_timestamp), (3, 90));
        assert_eq!((statistics.partitions, statistics.rows, statistics.cells, statistics.tombstones), (2, 2, 2, 2));
        assert_eq!((statistics.min_local_deletion_s, statistics.max_local_deletion_s), (1003, NEVER_S));
        assert_eq!((&statistics.first.1, &statistics.last.1), (&all[0].key, &all[1].key));
        assert_eq!(statistics.schema_versions, [3]);
        assert_eq!(info.file_bytes % 4096, 0);
    });
}

#[test]
#[should_panic(expected = "partitions come in token and key order")]
fn partitions_out_of_order_are_a_broken_invariant() {
    simulate(async |io| {
        let mut all = few();
        all.swap(0, 1);
        let _ = write(&io, "/1.sst", options(1, 4096), &all).await;
    });
}

#[test]
#[should_panic(expected = "the partition before has ended")]
fn a_partition_within_a_partition_is_a_broken_invariant() {
    simulate(async |io| {
        let mut writer = Writer::create(&io, Path::new("/1.sst"), options(1, 4096)).await.unwrap();
        for partition in few() {
            writer.begin_partition(&partition.cursor().start().unwrap());
        }
    });
}
