//! Finds the record that kills replay. A file marks a replay under way; one that is still there at the next start means
//! that the process ended in the middle. From then on each record is named in the mark before it is given out, and one
//! that was named when the process ended twice is set aside in a file of its own and not tried a third time.
//!
//! The mark is written, not synced: it must outlive the process, not the machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::error::ReplayError;
use super::format::BLOCK_ALIGN_BYTES;
use crate::base::ids::{LogPosition, SegmentId, StreamId};
use crate::io::{File, Io, IoClass, IoError, OpenHow};

/// A record that was named at the end of so many processes is set aside.
const DEATHS_MAX: u32 = 2;
const MARK_BYTES: usize = 20;

/// Where a process was in its replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    /// The record being applied; `LogPosition::ZERO` where none was named.
    position: LogPosition,
    /// How many earlier processes ended at it.
    deaths: u32,
}

impl Mark {
    const NONE: Mark = Mark { position: LogPosition::ZERO, deaths: 0 };

    fn encode(self) -> [u8; MARK_BYTES] {
        let mut out = [0; MARK_BYTES];
        out[..8].copy_from_slice(&self.position.segment.0.to_le_bytes());
        out[8..12].copy_from_slice(&self.position.offset_bytes.to_le_bytes());
        out[12..16].copy_from_slice(&self.deaths.to_le_bytes());
        let crc = crc32c::crc32c(&out[..16]);
        out[16..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// A mark that cannot be read names no record.
    fn decode(bytes: &[u8]) -> Mark {
        let Some(raw) = bytes.first_chunk::<MARK_BYTES>() else { return Mark::NONE };
        let word = |at: usize| u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]]);
        if word(16) != crc32c::crc32c(&raw[..16]) {
            return Mark::NONE;
        }
        let segment = SegmentId(u64::from(word(0)) | u64::from(word(4)) << 32);
        Mark { position: LogPosition { segment, offset_bytes: word(8) }, deaths: word(12) }
    }
}

/// The mark of one shard's replay of one stream.
pub struct Attempts {
    io: Io,
    dir: PathBuf,
    stream: StreamId,
    path: PathBuf,
    /// Where the last process ended, if it ended in a replay. Then each record is named.
    last: Option<Mark>,
    file: File,
    set_aside: BTreeSet<LogPosition>,
}

/// What to do with a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    Apply,
    /// It was set aside, now or at an earlier start.
    Skip,
}

impl Attempts {
    /// Marks that a replay of `stream` begins.
    pub async fn begin(io: &Io, dir: &Path, stream: StreamId) -> Result<Attempts, IoError> {
        let path = dir.join(format!("replaying-{:08x}-{}", stream.0, io.shard_id().0));
        let found = if io.exists(&path).await? { Some(Mark::decode(&io.read_file(&path).await?)) } else { None };
        let how = if found.is_some() { OpenHow::ReadWrite } else { OpenHow::CreateNew };
        let file = io.open(&path, how, IoClass::Log).await?;
        let set_aside = io.list_dir(dir).await?.iter().filter_map(|entry| parse_aside(&entry.name, stream)).collect();
        let attempts = Attempts { io: io.clone(), dir: dir.to_owned(), stream, path, last: found, file, set_aside };
        if found.is_none() {
            attempts.write(Mark::NONE).await?;
        }
        Ok(attempts)
    }

    async fn write(&self, mark: Mark) -> Result<(), IoError> {
        let mut buf = self.io.buffer(BLOCK_ALIGN_BYTES);
        buf[..MARK_BYTES].copy_from_slice(&mark.encode());
        self.file.write_at(buf, 0).await.1
    }

    /// Asked before each record is given out.
    pub async fn before(&mut self, position: LogPosition, body: &[u8]) -> Result<Attempt, ReplayError> {
        if self.set_aside.contains(&position) {
            return Ok(Attempt::Skip);
        }
        let Some(last) = self.last else { return Ok(Attempt::Apply) };
        let deaths = if last.position == position { last.deaths + 1 } else { 0 };
        if deaths >= DEATHS_MAX {
            let path = self.dir.join(aside_name(self.stream, position));
            self.io.write_file_synced(&path, body).await?;
            self.io.sync_dir(&self.dir).await?;
            self.set_aside.insert(position);
            return Ok(Attempt::Skip);
        }
        self.write(Mark { position, deaths }).await?;
        Ok(Attempt::Apply)
    }

    /// The replay ended by itself.
    pub async fn end(self) -> Result<(), IoError> {
        drop(self.file);
        self.io.remove_file(&self.path).await
    }
}

/// The file that keeps the body of a record that was set aside.
fn aside_name(stream: StreamId, position: LogPosition) -> String {
    format!("record-{:08x}-{:016x}-{:08x}", stream.0, position.segment.0, position.offset_bytes)
}

fn parse_aside(name: &str, stream: StreamId) -> Option<LogPosition> {
    let mut parts = name.strip_prefix("record-")?.split('-').map(|part| u64::from_str_radix(part, 16).ok());
    let of = parts.next()??;
    let segment = SegmentId(parts.next()??);
    let position = LogPosition { segment, offset_bytes: u32::try_from(parts.next()??).ok()? };
    (of == u64::from(stream.0) && aside_name(stream, position) == name).then_some(position)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::io::sim::{Faults, Simulation};

    const STREAM: StreamId = StreamId(5);

    fn at(offset_bytes: u32) -> LogPosition {
        LogPosition { segment: SegmentId(1), offset_bytes }
    }

    /// One process: asks about positions 1 to 5 and is killed where it may apply `killer`.
    fn process(sim: &Simulation, killer: Option<u32>) -> Vec<(u32, Attempt)> {
        let asked = sim
            .run_on_node(move |io| async move {
                let dir = Path::new("/log");
                io.create_dir_all(dir).await.unwrap();
                let mut attempts = Attempts::begin(&io, dir, STREAM).await.unwrap();
                let mut asked = Vec::new();
                for offset in 1..=5 {
                    let attempt = attempts.before(at(offset), &[offset as u8; 3]).await.unwrap();
                    asked.push((offset, attempt));
                    if killer == Some(offset) && attempt == Attempt::Apply {
                        return asked;
                    }
                }
                attempts.end().await.unwrap();
                asked
            })
            .unwrap();
        sim.kill();
        asked
    }

    fn skipped(asked: &[(u32, Attempt)]) -> Vec<(u32, Attempt)> {
        asked.iter().filter(|(_, attempt)| *attempt != Attempt::Apply).copied().collect()
    }

    #[test]
    fn a_record_that_kills_twice_by_name_is_set_aside_for_good() {
        let sim = Simulation::new(1, Faults::NONE);
        for _ in 0..3 {
            assert_eq!(process(&sim, Some(3)).last(), Some(&(3, Attempt::Apply)));
        }
        assert_eq!(skipped(&process(&sim, Some(3))), [(3, Attempt::Skip)]);
        assert_eq!(skipped(&process(&sim, Some(3))), [(3, Attempt::Skip)]);
        let kept = Path::new("/log").join(aside_name(STREAM, at(3)));
        assert_eq!(sim.disk().read(&kept), Some(vec![3; 3]));
        assert_eq!(sim.disk().files().len(), 1, "the mark is gone");
    }

    #[test]
    fn a_process_that_is_killed_at_other_records_loses_none() {
        let sim = Simulation::new(2, Faults::NONE);
        for killer in [1, 2, 3, 4, 5, 4, 3, 2, 1] {
            assert_eq!(process(&sim, Some(killer)).len(), killer as usize);
        }
        assert_eq!(skipped(&process(&sim, None)), []);
        assert!(sim.disk().files().is_empty());
    }

    #[test]
    fn a_mark_that_cannot_be_read_names_no_record() {
        let mark = Mark { position: at(77), deaths: 1 };
        assert_eq!(Mark::decode(&mark.encode()), mark);
        for byte in 0..MARK_BYTES {
            let mut damaged = mark.encode();
            damaged[byte] ^= 1;
            assert_eq!(Mark::decode(&damaged), Mark::NONE);
        }
        assert_eq!(Mark::decode(&[]), Mark::NONE);
    }

    #[test]
    fn names_of_records_set_aside_are_of_one_stream() {
        let name = aside_name(STREAM, at(0xabc));
        assert_eq!(parse_aside(&name, STREAM), Some(at(0xabc)));
        assert_eq!(parse_aside(&name, StreamId(6)), None);
        for other in ["record-", "record-5-1-1", "log-00000005-0000000000000001"] {
            assert_eq!(parse_aside(other, STREAM), None);
        }
    }
}
