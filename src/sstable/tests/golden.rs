//! A file of each version, byte for byte: what was written once is written the same and read for ever.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::sstable::{Compression, verify};

/// Written by version 1 from `content`.
const VERSION_1: &[u8] = include_bytes!("version1.sst");

fn content() -> Vec<OwnedPartition> {
    let fixed = |token: i64, key: &[u8], fragments| OwnedPartition { token: Token(token), ..partition(key, fragments) };
    let mut wide = fixed(
        -7,
        b"wide",
        vec![
            row(&[1, 2], 1_700_000_000_000_000, b"first"),
            row(&[1, 1], 1_700_000_000_000_001, b"second"),
            change(&[2], -1, DeletionTime { timestamp: 1_700_000_000_000_002, local_deletion_s: 1_700_000_000 }),
            change(&[2], 1, DeletionTime::LIVE),
            grid_row((3, 0), (1_700_000_000_000_003, 0xab, 3)),
            grid_row((4, 0), (1_700_000_000_000_004, 0xcd, 1)),
        ],
    );
    let mut still = Row::new(&[]);
    still.cells.push(cell(STATIC, 1_700_000_000_000_005, b"static"));
    wide.static_row = Some(OwnedRow::copy(&still));
    let mut gone = fixed(90, b"gone", Vec::new());
    gone.deletion = DeletionTime { timestamp: 1_700_000_000_000_006, local_deletion_s: 1_700_000_001 };
    vec![wide, gone]
}

fn golden_options() -> WriterOptions {
    WriterOptions {
        compression: Compression::None,
        expected_partitions: 2,
        log_intervals: vec![1, 2, 3],
        origin_host: [5; 16],
        ..options(1, 96)
    }
}

#[test]
fn version_1_is_written_byte_for_byte() {
    let sim = Simulation::new(1, Faults::NONE);
    sim.run_on_node(async |io| write(&io, "/1.sst", golden_options(), &content()).await.unwrap()).unwrap();
    let written = sim.disk().read(Path::new("/1.sst")).unwrap();
    if let Some(path) = option_env!("HELENUS_WRITE_GOLDEN_SSTABLE") {
        std::fs::write(path, &written).unwrap();
    }
    assert!(written == VERSION_1, "the format has changed: give it a new version");
}

#[test]
fn version_1_is_read() {
    let sim = Simulation::new(1, Faults::NONE);
    sim.disk().write(Path::new("/1.sst"), VERSION_1).unwrap();
    sim.run_on_node(async |io| {
        let reader = open(&io, 1, "/1.sst").await.unwrap();
        let cache = BlockCache::new(1 << 20);
        let all = scan(&reader, &cache, (Token(i64::MIN), b""), false).await.unwrap();
        assert_eq!(texts(&all), texts(&content()));
        assert_eq!(reader.statistics().log_intervals, [1, 2, 3]);
        assert_eq!(reader.statistics().schema_versions, [3]);
        assert_eq!(reader.statistics().min_timestamp, 1_700_000_000_000_000);
        verify(&io, &reader).await.unwrap();
    })
    .unwrap();
}
