//! Damage of every kind: a read gives the right answer or an error that names the file, never anything else.

#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::sstable::{Compression, verify};

fn small() -> Vec<OwnedPartition> {
    let fragments = || {
        vec![
            row(&[1, 1], 5, b"one"),
            change(&[2], -1, deletion(3)),
            row(&[2, 2], 6, b"two"),
            change(&[2], 1, DeletionTime::LIVE),
            row(&[3, 1], 7, b"three"),
        ]
    };
    let mut all: Vec<_> = (1..5u8).map(|key| partition(&[key], fragments())).collect();
    let mut still = Row::new(&[]);
    still.cells.push(cell(STATIC, 4, b"static"));
    all[2].static_row = Some(OwnedRow::copy(&still));
    sorted(all)
}

/// Reads everything in every way; what was read, or the error.
async fn read_all(io: &Io) -> Result<Vec<String>, SSTableError> {
    let reader = open(io, 1, "/1.sst").await?;
    let cache = BlockCache::new(1 << 20);
    let scanned = scan(&reader, &cache, (Token(i64::MIN), b""), false).await?;
    for whole in &small() {
        let got = read(&reader, &cache, &whole.key, &[Slice::all()], false).await?;
        assert_eq!(got.as_ref().map(text), Some(text(whole)), "a wrong answer");
        let back = read(&reader, &cache, &whole.key, &[Slice::all()], true).await?;
        assert_eq!(back.map(|back| back.fragments.len()), Some(whole.fragments.len()), "a wrong answer backwards");
    }
    verify(io, &reader).await?;
    Ok(texts(&scanned))
}

fn written_file(sim: &Simulation) -> Vec<u8> {
    sim.run_on_node(async |io| write(&io, "/1.sst", options(1, 150), &small()).await.unwrap()).unwrap();
    sim.disk().read(Path::new("/1.sst")).unwrap()
}

#[test]
fn every_flipped_byte_gives_the_right_answer_or_an_error() {
    let sim = Simulation::new(1, Faults::NONE);
    let whole = written_file(&sim);
    let wanted = texts(&small());
    assert_eq!(sim.run_on_node(async |io| read_all(&io).await.unwrap()).unwrap(), wanted);
    let used = whole.len() - whole.iter().rev().skip(80).take_while(|byte| **byte == 0).count() - 80;
    let mut errors = 0;
    for at in (0..whole.len()).filter(|at| *at < used + 8 || *at + 88 > whole.len()) {
        for mask in [0x01, 0xff] {
            assert!(sim.disk().flip(Path::new("/1.sst"), at as u64, mask));
            match sim.run_on_node(async |io| read_all(&io).await).unwrap() {
                Ok(got) => assert_eq!(got, wanted, "byte {at}"),
                Err(error) => {
                    errors += 1;
                    assert!(error.to_string().contains("/1.sst"), "{error}");
                }
            }
            assert!(sim.disk().flip(Path::new("/1.sst"), at as u64, mask));
        }
    }
    assert!(errors >= 2 * (used - 4), "{errors} errors of {used} bytes in use");
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let sim = Simulation::new(2, Faults::NONE);
    let whole = written_file(&sim);
    for len in (0..whole.len()).step_by(509).chain([1, 31, 32, whole.len() - 1]) {
        sim.disk().write(Path::new("/1.sst"), &whole[..len]).unwrap();
        let error = sim.run_on_node(async |io| read_all(&io).await).unwrap().unwrap_err();
        assert!(error.is_corrupt(), "{len} bytes: {error}");
    }
}

#[test]
fn a_block_moved_elsewhere_is_seen() {
    let sim = Simulation::new(3, Faults::NONE);
    let options = WriterOptions { compression: Compression::None, ..options(1, 1) };
    sim.run_on_node(async |io| write(&io, "/1.sst", options, &small()).await.unwrap()).unwrap();
    let whole = sim.disk().read(Path::new("/1.sst")).unwrap();
    // Two frames of the same length change places: each is sound, and neither is where it belongs.
    let frames: Vec<(usize, usize)> = frames(&whole);
    let same = |a: &(usize, usize)| frames.iter().find(|b| b.1 == a.1 && b.0 > a.0).map(|b| (*a, *b));
    let ((a, len), (b, _)) = frames.iter().find_map(same).expect("partitions of one shape");
    let (first, second) = (whole[a..a + len].to_vec(), whole[b..b + len].to_vec());
    assert_ne!(first, second);
    sim.disk().overwrite(Path::new("/1.sst"), a as u64, &second);
    sim.disk().overwrite(Path::new("/1.sst"), b as u64, &first);
    let error = sim.run_on_node(async |io| read_all(&io).await).unwrap().unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
}

fn frames(file: &[u8]) -> Vec<(usize, usize)> {
    let mut frames = Vec::new();
    let mut at = crate::sstable::footer::HEADER_BYTES;
    while file[at] == 1 {
        let framed = usize::try_from(crate::sstable::frame::lengths(&file[at..]).unwrap().framed).unwrap();
        frames.push((at, framed));
        at += framed;
    }
    frames
}

#[test]
fn a_file_of_a_newer_version_or_another_table_is_refused_by_name() {
    let sim = Simulation::new(4, Faults::NONE);
    written_file(&sim);
    let error = sim
        .run_on_node(async |io| {
            let other = Table { id: TableId([1; 16]), ..table() };
            Reader::open(&io, SSTableId(1), Path::new("/1.sst"), &other).await.map(|_| ()).unwrap_err()
        })
        .unwrap();
    assert!(matches!(error, SSTableError::OtherTable { .. }));
    sim.disk().overwrite(Path::new("/1.sst"), 0, &[2]);
    let error = sim.run_on_node(async |io| read_all(&io).await).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "/1.sst has SSTable format 2; this version reads formats up to 1");
}

#[test]
fn a_failed_write_fails_the_file() {
    let sim = Simulation::new(5, Faults::NONE);
    sim.disk().set_capacity_bytes(4096);
    let error = sim
        .run_on_node(async |io| {
            let rows = (0..20_000).map(|a| row(&[a, 1], 5, &a.to_be_bytes())).collect();
            write(&io, "/1.sst", options(1, 4096), &[partition(b"k", rows)]).await.map(|_| ()).unwrap_err()
        })
        .unwrap();
    assert!(matches!(&error, SSTableError::Io(io) if io.is_no_space()), "{error}");
}
