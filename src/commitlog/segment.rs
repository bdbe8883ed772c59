//! The files of segments: found, made ahead, used again, set aside.

use std::path::{Path, PathBuf};

use super::config::LogConfig;
use super::format::{parse_segment_file_name, segment_file_name};
use super::live::LiveSegment;
use crate::base::ids::{SegmentId, StreamId};
use crate::base::plants::Plant;
use crate::io::{File, Io, IoClass, IoError, OpenHow};

/// What a segment's file is called once it was set aside as damaged.
pub const DAMAGED_SUFFIX: &str = ".damaged";

/// A segment's file as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentFile {
    pub id: SegmentId,
    pub path: PathBuf,
    pub len_bytes: u64,
}

/// A segment that is ready to be written: its file has its full size and its name is durable.
pub struct ReadySegment {
    pub id: SegmentId,
    pub path: PathBuf,
    pub file: File,
    pub bytes: u32,
}

impl ReadySegment {
    /// The segment as one that holds records.
    pub fn live(self) -> LiveSegment {
        LiveSegment::new(self.id, self.path, u64::from(self.bytes))
    }
}

/// The segments of one stream, lowest first. A directory that does not exist holds none.
pub async fn list_segments(io: &Io, dir: &Path, stream: StreamId) -> Result<Vec<SegmentFile>, IoError> {
    let mut segments = Vec::new();
    for (of, file) in list_all(io, dir).await? {
        if of == stream {
            segments.push(file);
        }
    }
    Ok(segments)
}

/// The streams of which segments exist, lowest first.
pub async fn list_streams(io: &Io, dir: &Path) -> Result<Vec<StreamId>, IoError> {
    let mut streams: Vec<StreamId> = list_all(io, dir).await?.into_iter().map(|(stream, _)| stream).collect();
    streams.sort_unstable();
    streams.dedup();
    Ok(streams)
}

async fn list_all(io: &Io, dir: &Path) -> Result<Vec<(StreamId, SegmentFile)>, IoError> {
    if !io.exists(dir).await? {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in io.list_dir(dir).await?.into_iter().filter(|entry| !entry.is_dir) {
        let Some((stream, id)) = parse_segment_file_name(&entry.name) else { continue };
        found.push((stream, SegmentFile { id, path: dir.join(&entry.name), len_bytes: entry.len_bytes }));
    }
    found.sort_unstable_by_key(|(stream, file)| (*stream, file.id));
    Ok(found)
}

/// Makes durable what a stream's files hold now, written though it may never have been synced.
pub async fn sync_stream(io: &Io, dir: &Path, stream: StreamId) -> Result<(), IoError> {
    for segment in list_segments(io, dir, stream).await? {
        io.open(&segment.path, OpenHow::ReadWrite, IoClass::Log).await?.sync_data().await?;
    }
    Ok(())
}

/// Removes every segment of a stream that ended: all that it held is flushed, and the root no longer names it.
/// Those set aside as damaged stay. Lowest first, so that a crash in between leaves a log without a hole.
pub async fn remove_stream(io: &Io, dir: &Path, stream: StreamId) -> Result<(), IoError> {
    for segment in list_segments(io, dir, stream).await? {
        io.remove_file(&segment.path).await?;
    }
    io.sync_dir(dir).await
}

/// Makes a zero-filled segment of `bytes` under a durable name. Where that fails, the part that was made is removed.
pub async fn create(
    io: &Io,
    dir: &Path,
    stream: StreamId,
    id: SegmentId,
    bytes: u32,
    config: &LogConfig,
) -> Result<ReadySegment, IoError> {
    let path = dir.join(segment_file_name(stream, id));
    let file = io.open(&path, OpenHow::CreateNew, IoClass::Log).await?;
    if let Err(error) = file.allocate_zeroed(u64::from(bytes)).await {
        drop(file);
        io.remove_file(&path).await?;
        return Err(error);
    }
    sync_dir(io, dir, config).await?;
    Ok(ReadySegment { id, path, file, bytes })
}

/// Uses a released segment's file again as segment `id`. Its old blocks stay in it until they are written over.
pub async fn recycle(
    io: &Io,
    dir: &Path,
    stream: StreamId,
    old: &Path,
    id: SegmentId,
    config: &LogConfig,
) -> Result<ReadySegment, IoError> {
    let path = dir.join(segment_file_name(stream, id));
    io.rename(old, &path).await?;
    sync_dir(io, dir, config).await?;
    let file = io.open(&path, OpenHow::ReadWrite, IoClass::Log).await?;
    Ok(ReadySegment { id, path, file, bytes: config.segment_bytes })
}

/// Disposes of a released segment that is not used again: removes it, or sets it aside where it is damaged.
pub async fn dispose(io: &Io, dir: &Path, segment: &LiveSegment, config: &LogConfig) -> Result<(), IoError> {
    if segment.damaged {
        let mut aside = segment.path.clone().into_os_string();
        aside.push(DAMAGED_SUFFIX);
        io.rename(&segment.path, Path::new(&aside)).await?;
    } else {
        io.remove_file(&segment.path).await?;
    }
    sync_dir(io, dir, config).await
}

async fn sync_dir(io: &Io, dir: &Path, config: &LogConfig) -> Result<(), IoError> {
    if config.planted.is(Plant::SkipDirectorySync) {
        return Ok(());
    }
    io.sync_dir(dir).await
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::io::sim::{DiskOp, Faults, Planned, Simulation};

    const STREAM: StreamId = StreamId(2);

    fn config() -> LogConfig {
        LogConfig { segment_bytes: 16384, ..LogConfig::default() }
    }

    fn dir() -> &'static Path {
        Path::new("/log")
    }

    async fn made(io: &Io, id: u64) -> Result<ReadySegment, IoError> {
        create(io, dir(), STREAM, SegmentId(id), config().segment_bytes, &config()).await
    }

    #[test]
    fn a_created_segment_survives_a_power_cut() {
        let sim = Simulation::new(1, Faults::NONE);
        sim.run_on_node(|io| async move {
            io.create_dir_all(dir()).await.unwrap();
            io.sync_dir(Path::new("/")).await.unwrap();
            made(&io, 7).await.unwrap();
            let old = made(&io, 8).await.unwrap();
            recycle(&io, dir(), STREAM, &old.path, SegmentId(9), &config()).await.unwrap();
        })
        .unwrap();
        sim.crash();
        let found = sim.run_on_node(|io| async move { list_segments(&io, dir(), STREAM).await }).unwrap().unwrap();
        let ids: Vec<_> = found.iter().map(|file| (file.id.0, file.len_bytes)).collect();
        assert_eq!(ids, [(7, 16384), (9, 16384)]);
    }

    #[test]
    fn a_segment_for_which_there_is_no_space_leaves_nothing() {
        let sim = Simulation::new(2, Faults::NONE);
        sim.disk().set_capacity_bytes(20000);
        let error = sim
            .run_on_node(|io| async move {
                io.create_dir_all(dir()).await.unwrap();
                made(&io, 1).await.unwrap();
                made(&io, 2).await.err()
            })
            .unwrap();
        assert!(error.unwrap().is_no_space());
        assert_eq!(sim.disk().files().len(), 1);
    }

    #[test]
    fn streams_are_told_apart_and_removed_whole() {
        let sim = Simulation::new(3, Faults::NONE);
        sim.run_on_node(|io| async move {
            assert_eq!(list_streams(&io, dir()).await.unwrap(), []);
            io.create_dir_all(dir()).await.unwrap();
            made(&io, 1).await.unwrap();
            let damaged = made(&io, 2).await.unwrap();
            create(&io, dir(), StreamId(1), SegmentId(5), config().segment_bytes, &config()).await.unwrap();
            io.write_file_synced(&dir().join("other"), b"x").await.unwrap();
            let mut segment = LiveSegment::new(damaged.id, damaged.path, 16384);
            segment.damaged = true;
            dispose(&io, dir(), &segment, &config()).await.unwrap();
            assert_eq!(list_streams(&io, dir()).await.unwrap(), [StreamId(1), STREAM]);
            remove_stream(&io, dir(), STREAM).await.unwrap();
            assert_eq!(list_streams(&io, dir()).await.unwrap(), [StreamId(1)]);
        })
        .unwrap();
        let names: Vec<_> = sim.disk().files().iter().map(|path| path.display().to_string()).collect();
        assert!(names.iter().any(|name| name.ends_with(".damaged")), "{names:?}");
    }

    #[test]
    fn a_directory_that_cannot_be_synced_gives_no_segment() {
        let sim = Simulation::new(4, Faults::NONE);
        sim.plan_fault(Planned { op: DiskOp::SyncDir, path_contains: String::from("/log"), after: 0, errno: 5 });
        let made = sim
            .run_on_node(|io| async move {
                io.create_dir_all(dir()).await.unwrap();
                made(&io, 1).await.err()
            })
            .unwrap();
        assert_eq!(made.unwrap().raw_os, Some(5));
    }
}
