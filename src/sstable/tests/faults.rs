//! Disks that fail and machines that lose power under a file being written or read.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::sstable::verify;

fn content() -> Vec<OwnedPartition> {
    let rows = |key: u8| (0..30).map(|a| row(&[a, 1], 5, &[key ^ a as u8; 400])).collect();
    sorted((0..60u8).map(|key| partition(&[key], rows(key))).collect())
}

#[test]
fn a_finished_file_survives_a_power_cut_once_its_directory_is_synced() {
    for seed in 0..8 {
        let sim = Simulation::new(seed, Faults::NONE);
        sim.run_on_node(async |io| {
            write(&io, "/1.sst", options(1, 4096), &content()).await.unwrap();
            io.sync_dir(Path::new("/")).await.unwrap();
        })
        .unwrap();
        sim.crash();
        sim.run_on_node(async |io| {
            let reader = open(&io, 1, "/1.sst").await.unwrap();
            assert_eq!(verify(&io, &reader).await.unwrap().rows, 1800);
        })
        .unwrap();
    }
}

#[test]
fn a_file_cut_off_by_a_power_cut_is_never_taken_for_whole() {
    for seed in 0..24 {
        let sim = Simulation::new(seed, Faults { crash_ppm: 20_000, ..Faults::NONE });
        let outcome = sim.run_on_node(async |io| write(&io, "/1.sst", options(1, 4096), &content()).await.map(drop));
        let finished = matches!(outcome, Ok(Ok(())));
        sim.set_faults(Faults::NONE);
        let verdict = sim.run_on_node(async |io| {
            let reader = open(&io, 1, "/1.sst").await?;
            verify(&io, &reader).await
        });
        match verdict.unwrap() {
            Ok(verified) => assert_eq!(verified.rows, 1800),
            Err(SSTableError::Io(error)) => assert!(error.is_not_found(), "{error}"),
            Err(error) => assert!(!finished && error.is_corrupt(), "{error}"),
        }
    }
}

#[test]
fn failed_writes_and_syncs_fail_the_file() {
    let (mut failed, mut whole) = (0, 0);
    for seed in 0..16 {
        let faults = Faults { write_error_ppm: 100_000, sync_error_ppm: 200_000, ..Faults::NONE };
        let sim = Simulation::new(seed, faults);
        match sim.run_on_node(async |io| write(&io, "/1.sst", options(1, 4096), &content()).await.map(drop)).unwrap() {
            Err(SSTableError::Io(_)) => failed += 1,
            Err(other) => panic!("{other}"),
            Ok(()) => {
                sim.set_faults(Faults::NONE);
                let verified = sim.run_on_node(async |io| {
                    let reader = open(&io, 1, "/1.sst").await.unwrap();
                    verify(&io, &reader).await.unwrap()
                });
                assert_eq!(verified.unwrap().rows, 1800);
                whole += 1;
            }
        }
    }
    assert!(failed > 0 && whole > 0, "{failed} failed, {whole} whole");
}

#[test]
fn a_failed_read_is_an_error_and_the_next_one_is_right() {
    let sim = Simulation::new(3, Faults::NONE);
    let reader = sim
        .run_on_node(async |io| {
            write(&io, "/1.sst", options(1, 4096), &content()).await.unwrap();
            Rc::new(open(&io, 1, "/1.sst").await.unwrap())
        })
        .unwrap();
    let cache = Rc::new(BlockCache::new(0));
    let mut errors = 0;
    for round in 0..40 {
        sim.set_faults(Faults { read_error_ppm: if round % 2 == 0 { 300_000 } else { 0 }, ..Faults::NONE });
        let (reader, cache) = (reader.clone(), cache.clone());
        let got = sim.run_on_node(async move |_| read(&reader, &cache, &[7], &[Slice::all()], false).await).unwrap();
        match got {
            Ok(found) => assert_eq!(found.unwrap().fragments.len(), 30),
            Err(SSTableError::Io(_)) if round % 2 == 0 => errors += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(errors > 0);
}

#[test]
fn a_missing_file_says_so() {
    simulate(async |io| {
        let error = open(&io, 1, "/none.sst").await.map(drop).unwrap_err();
        assert!(matches!(&error, SSTableError::Io(io) if io.is_not_found()), "{error}");
        write(&io, "/1.sst", options(1, 4096), &[]).await.unwrap();
        let error = write(&io, "/1.sst", options(1, 4096), &[]).await.map(drop).unwrap_err();
        assert!(matches!(&error, SSTableError::Io(_)), "an existing file is not overwritten: {error}");
    });
}

#[test]
fn a_file_of_no_partitions_answers_nothing() {
    simulate(async |io| {
        write(&io, "/1.sst", options(1, 4096), &[]).await.unwrap();
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let cache = BlockCache::new(1 << 20);
        assert!(read(&reader, &cache, b"k", &[Slice::all()], false).await.unwrap().is_none());
        assert!(scan(&reader, &cache, (Token(i64::MIN), b""), false).await.unwrap().is_empty());
        assert_eq!(verify(&io, &reader).await.unwrap(), crate::sstable::Verified::default());
    });
}
