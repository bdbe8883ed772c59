//! Damage to the files of a log, place by place: bytes flipped, sectors zeroed, files cut, removed or written by others.

use std::cell::Cell;
use std::path::PathBuf;

use super::format::{BLOCK_HEADER_BYTES, BlockHeader, Place, RECORD_HEADER_BYTES, padded, segment_file_name};
use super::*;
use crate::io::sim::DiskImage;

/// A log of two segments whose process was killed: some of it known to be synced, the rest not.
struct Victim {
    sim: Simulation,
    image: DiskImage,
    /// Each mutation with its position.
    whole: Vec<(LogPosition, Vec<u8>)>,
    synced: LogPosition,
    checks: Cell<u32>,
}

/// After every so many checks the log is also written on: that takes longer than all else.
const GO_ON_EVERY: u32 = 29;

fn victim() -> Victim {
    let sim = Simulation::new(11, Faults::NONE);
    sim.run_on_node(|io| async move {
        let log = open(io, config(periodic()), Inherited::nothing()).await.unwrap();
        for (n, size) in [30, 3000, 500, 7000, 10, 2500, 100].into_iter().enumerate() {
            let ticket = append(&log, &vec![n as u8 + 1; size]).await.unwrap();
            log.wait_acknowledged(ticket.end).await.unwrap();
            if n == 3 {
                log.sync().await.unwrap();
            }
        }
    })
    .unwrap();
    sim.kill();
    let back = recovered(&sim, ReplayOptions::default()).unwrap();
    assert_eq!(back.mutations.len(), 7);
    assert_eq!(back.replayed.tail, Tail::Open);
    sim.kill();
    let image = sim.disk().image();
    Victim { sim, image, whole: back.mutations, synced: back.replayed.inherited.synced, checks: Cell::new(0) }
}

fn file_of(segment: u64) -> PathBuf {
    dir().join(segment_file_name(STREAM, SegmentId(segment)))
}

impl Victim {
    /// Recovers under both policies from what `damage` leaves, and checks what comes back.
    /// `lost_max` is how many records the damage may cost where it is reported and passed over.
    fn check(&self, what: &str, lost_max: usize, damage: impl Fn(&Simulation)) {
        self.sim.kill();
        self.sim.disk().restore(&self.image);
        damage(&self.sim);
        let below = self.whole.iter().take_while(|(position, _)| *position < self.synced).count();
        let refused = match recovered(&self.sim, ReplayOptions::default()) {
            Ok(back) => {
                let got = back.mutations.len();
                assert_eq!(back.mutations, self.whole[..got], "{what}: a run from the start");
                assert!(got >= below, "{what}: {got} of {below} that are known to be synced");
                assert!(back.replayed.damage.is_empty());
                let lost = matches!(back.replayed.tail, Tail::Lost(_));
                assert!(got == self.whole.len() || lost || back.replayed.tail == Tail::Open, "{what}");
                if self.checks.replace(self.checks.get() + 1).is_multiple_of(GO_ON_EVERY) {
                    self.go_on(what, back);
                }
                false
            }
            Err(ReplayError::Corrupt { path, offset_bytes, .. }) => {
                let segment = format::parse_segment_file_name(path.file_name().unwrap().to_str().unwrap()).unwrap().1;
                assert!(LogPosition { segment, offset_bytes } < self.synced, "{what}: refused above what is synced");
                true
            }
            Err(other) => panic!("{what}: {other}"),
        };
        let options = ReplayOptions { damage: DamagePolicy::Quarantine, ..ReplayOptions::default() };
        if refused {
            let back = recovered(&self.sim, options).unwrap();
            assert!(!back.replayed.damage.is_empty(), "{what}: reported");
            let mut rest = self.whole.iter();
            for got in &back.mutations {
                assert!(rest.any(|one| one == got), "{what}: nothing that was not written, all in order");
            }
            assert!(back.mutations.len() + lost_max >= self.whole.len(), "{what}: only the damaged block is lost");
            assert!(back.replayed.inherited.segments.iter().any(|segment| segment.damaged));
        }
    }

    /// A log goes on from what was recovered; later recoveries give that and what was added, every time.
    fn go_on(&self, what: &str, back: Recovered) {
        let mut want = back.bodies();
        want.push(b"added".to_vec());
        let inherited = back.replayed.inherited;
        self.sim
            .run_on_node(|io| async move {
                let log = open(io, config(periodic()), inherited).await.unwrap();
                append(&log, b"added").await.unwrap();
                log.sync().await.unwrap();
            })
            .unwrap();
        self.sim.crash();
        for _ in 0..2 {
            let again =
                recovered(&self.sim, ReplayOptions::default()).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(again.bodies(), want, "{what}: again");
        }
    }

    /// Offsets worth damaging: all near the start of a block, and a sample of the others.
    fn offsets(&self) -> impl Iterator<Item = (u64, u32)> {
        (1..=2).flat_map(|segment| (0..16384).filter(|at| at % 4096 < 80 || at % 151 == 0).map(move |at| (segment, at)))
    }
}

#[test]
fn a_byte_flipped_anywhere() {
    let victim = victim();
    for (segment, at) in victim.offsets() {
        let mask = 1 << (at % 8);
        victim.check(&format!("flip at {segment}/{at}"), 1, |sim| {
            assert!(sim.disk().flip(&file_of(segment), u64::from(at), mask));
        });
    }
}

#[test]
fn zeros_from_any_byte_to_its_sector_end() {
    let victim = victim();
    for (segment, at) in victim.offsets() {
        let zeros = vec![0; (512 - at % 512) as usize];
        victim.check(&format!("zeros at {segment}/{at}"), 1, |sim| {
            assert!(sim.disk().overwrite(&file_of(segment), u64::from(at), &zeros));
        });
    }
}

#[test]
fn a_file_cut_at_any_byte() {
    let victim = victim();
    for (segment, at) in victim.offsets() {
        victim.check(&format!("cut at {segment}/{at}"), victim.whole.len(), |sim| {
            assert!(sim.disk().truncate(&file_of(segment), u64::from(at)));
        });
    }
}

#[test]
fn valid_blocks_behind_a_hole_are_dropped_for_good() {
    let victim = victim();
    let (hole, _) = victim.whole[5];
    let block = hole.offset_bytes / 4096 * 4096;
    victim.check("a hole in the tail", 0, |sim| {
        assert!(sim.disk().overwrite(&file_of(hole.segment.0), u64::from(block), &[0; 4096]));
        let back = recovered(sim, ReplayOptions::default()).unwrap();
        assert_eq!(back.mutations.len(), 5, "the seventh is whole, and behind the hole");
        assert!(matches!(back.replayed.tail, Tail::Lost(report) if report.offset_bytes == block));
        sim.kill();
    });
}

/// What a clean stop wrote cannot be lost without a word where the manifest knows the end.
#[test]
fn a_closed_log_that_lost_its_tail_is_corrupt() {
    let sim = Simulation::new(12, Faults::NONE);
    let end = written_and_closed(&sim, config(periodic()), (0..5).map(|n| vec![n; 2000]).collect());
    let known = ReplayOptions { known_end: Some(end), ..ReplayOptions::default() };
    assert_eq!(recovered(&sim, known).unwrap().replayed.tail, Tail::Clean);
    let last = u64::from(end.offset_bytes) - 4096;
    assert!(sim.disk().overwrite(&file_of(end.segment.0), last, &[0; 4096]));
    assert!(matches!(recovered(&sim, known), Err(ReplayError::Corrupt { .. })));
    assert_eq!(recovered(&sim, ReplayOptions::default()).unwrap().replayed.tail, Tail::Open);
    assert!(sim.disk().remove(&file_of(end.segment.0)));
    assert!(recovered(&sim, known).is_err());
}

#[test]
fn a_missing_segment_is_named() {
    let sim = Simulation::new(13, Faults::NONE);
    written_and_closed(&sim, config(periodic()), (0..9).map(|n| vec![n; 5000]).collect());
    assert!(sim.disk().remove(&file_of(2)));
    let missing = recovered(&sim, ReplayOptions::default()).map(|back| back.bodies()).unwrap_err();
    assert!(matches!(missing, ReplayError::MissingSegment { segment: SegmentId(2), .. }), "{missing}");
}

/// Appends a block to the log with one record of a kind of its own, in a version of its own.
fn with_foreign_block(version: u16, kind: u8) -> ReplayError {
    let sim = Simulation::new(14, Faults::NONE);
    let end = written_and_closed(&sim, config(periodic()), vec![b"known".to_vec()]);
    let place = Place { stream: STREAM, segment: end.segment, offset_bytes: end.offset_bytes };
    let mut payload = vec![0; RECORD_HEADER_BYTES + 3];
    let seed = place.plus(BLOCK_HEADER_BYTES).record_seed(version);
    format::write_record(&mut payload, seed, RecordKind::Mutation, &[b"new"]);
    payload[8] = kind;
    let crc = crc32c::crc32c_append(seed, &payload[4..]);
    payload[..4].copy_from_slice(&crc.to_le_bytes());
    let header = BlockHeader {
        version,
        place,
        payload_bytes: payload.len() as u32,
        payload_crc: format::payload_crc(&payload),
        synced: LogPosition::ZERO,
        previous_end: LogPosition::ZERO,
    };
    let mut block = header.encode().to_vec();
    block.extend(payload);
    block.resize(padded(block.len()), 0);
    assert!(sim.disk().overwrite(&file_of(end.segment.0), u64::from(end.offset_bytes), &block));
    recovered(&sim, ReplayOptions::default()).map(|back| back.bodies()).unwrap_err()
}

#[test]
fn an_unknown_kind_and_a_newer_version_stop_replay() {
    let reserved = with_foreign_block(format::FORMAT_VERSION, 18);
    assert!(matches!(reserved, ReplayError::UnknownKind { kind: 18, .. }));
    assert!(reserved.to_string().contains("commit"), "{reserved}");
    assert!(matches!(with_foreign_block(7, 1), ReplayError::NewerVersion { version: 7, .. }));
}

/// A damaged segment is kept, under another name, when all that could be read of it is flushed.
#[test]
fn a_damaged_segment_is_set_aside_and_never_removed() {
    let victim = victim();
    victim.sim.kill();
    victim.sim.disk().restore(&victim.image);
    assert!(victim.sim.disk().flip(&file_of(1), 4096 + 70, 1));
    let options = ReplayOptions { damage: DamagePolicy::Quarantine, ..ReplayOptions::default() };
    let back = recovered(&victim.sim, options).unwrap();
    let inherited = back.replayed.inherited;
    victim
        .sim
        .run_on_node(|io| async move {
            let log = open(io.clone(), config(periodic()), inherited).await.unwrap();
            log.mark_flushed(TABLE, LogPosition::ZERO, log.position());
            io.sleep(Duration::from_secs(1)).await;
            log.close().await.unwrap();
        })
        .unwrap();
    victim.sim.run_until_idle().unwrap();
    let files = victim.sim.disk().files();
    let aside = files.iter().find(|path| path.to_string_lossy().ends_with(".damaged"));
    assert!(aside.is_some(), "{files:?}");
    let left = recovered(&victim.sim, ReplayOptions::default()).unwrap();
    assert!(left.mutations.iter().all(|(position, _)| position.segment > SegmentId(1)), "it is not replayed again");
}
