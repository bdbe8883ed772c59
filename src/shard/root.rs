//! The root file of a data directory: who this node is, how the directory is laid out, which log streams exist.
//! It switches as a whole (write aside, sync, rename, sync the directory), and everything else in the directory is
//! reached from it. A directory that this code does not understand is refused before anything in it is touched.

use std::path::{Path, PathBuf};

use uuid::Uuid;

use super::device::{DEVICE_FILE, PROBE_FILE};
use super::envelope::{self, BodyReader, BodyWriter, FileKind, FrameError, NEW_SUFFIX};
use super::manifest::is_manifest_file_name;
use crate::base::ids::{ShardId, StreamId};
use crate::base::plants::Planted;
use crate::io::{Io, IoError, PROBE_PREFIX};

/// The root file's name.
pub const ROOT_FILE: &str = "ROOT";
/// The directory of log segments.
pub const COMMITLOG_DIR: &str = "commitlog";
/// The directory of SSTables.
pub const SSTABLES_DIR: &str = "sstables";
/// The directory of snapshots.
pub const SNAPSHOTS_DIR: &str = "snapshots";
/// The file whose lock keeps a second process out.
pub const LOCK_FILE: &str = "LOCK";

/// The highest shard count that a root may state.
pub const SHARDS_MAX: u16 = 1024;
/// Feature bits that this code knows. A root with any other is refused.
const KNOWN_FEATURES: u64 = 0;
const KIND: FileKind = FileKind { magic: *b"HLNSROOT", version: 1, noun: "Helenus root file" };
const STREAM_BYTES: usize = 4 + 2 + 1;
/// What a fresh filesystem puts into its own top directory.
const IGNORED: &str = "lost+found";

/// One log stream that exists on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogStream {
    pub stream: StreamId,
    /// The shard, under the current layout, that replays it, and appends to it where it is live.
    pub owner: ShardId,
    /// False where it is only kept until all that it holds is flushed.
    pub live: bool,
}

/// The content of the root file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Raised at each switch of this file.
    pub generation: u64,
    pub cluster_id: Uuid,
    pub host_id: Uuid,
    pub cluster_name: String,
    pub data_center: String,
    pub rack: String,
    /// Raised before any acknowledgement of a boot.
    pub boot_generation: u64,
    /// The epoch of the metadata.
    pub epoch: u64,
    /// Required features, one bit each.
    pub features: u64,
    pub shards: u16,
    /// m of the sharding function: how many high bits of a token do not choose the shard.
    pub ignore_msb: u8,
    /// Which manifests are current: those of this layout, one a shard. Raised when the shard count changes.
    pub layout: u64,
    /// Which stored schema is current; its meaning is the schema's own.
    pub schema: u64,
    pub streams: Vec<LogStream>,
    /// The next stream's number; numbers are never reused.
    pub next_stream: StreamId,
}

/// Why a data directory is refused.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    #[error("{path} cannot be read: {cause}")]
    Unreadable { path: PathBuf, cause: FrameError },
    #[error("{dir} is no data directory of this version of Helenus: it holds {names}, which Helenus did not make")]
    Foreign { dir: PathBuf, names: String },
    #[error("{dir} holds data in {holds} but no file {ROOT_FILE}; restore that file, or give an empty directory")]
    RootMissing { dir: PathBuf, holds: &'static str },
    #[error("{path} needs features {features:#x} that this version of Helenus does not have")]
    UnknownFeatures { path: PathBuf, features: u64 },
    #[error(transparent)]
    Io(#[from] IoError),
}

/// What a directory turned out to be. Nothing in it has been touched.
#[derive(Debug)]
pub enum Examined {
    /// Absent, empty, or left by a first start that did not reach its root file: nothing was ever acknowledged in it.
    Fresh,
    Existing(Box<Root>),
}

impl Root {
    /// A new node's root, with one live stream a shard.
    pub fn new(cluster_id: Uuid, host_id: Uuid, shards: u16, ignore_msb: u8) -> Root {
        assert!((1..=SHARDS_MAX).contains(&shards), "a node has between 1 and {SHARDS_MAX} shards");
        let streams = (0..shards)
            .map(|shard| LogStream { stream: StreamId(u32::from(shard) + 1), owner: ShardId(shard), live: true })
            .collect();
        Root {
            generation: 0,
            cluster_id,
            host_id,
            cluster_name: String::from("Test Cluster"),
            data_center: String::from("datacenter1"),
            rack: String::from("rack1"),
            boot_generation: 0,
            epoch: 0,
            features: 0,
            shards,
            ignore_msb,
            layout: 1,
            schema: 0,
            streams,
            next_stream: StreamId(u32::from(shards) + 1),
        }
    }

    /// The stream to which `shard` appends.
    pub fn live_stream(&self, shard: ShardId) -> Option<StreamId> {
        self.streams.iter().find(|one| one.live && one.owner == shard).map(|one| one.stream)
    }

    /// The next layout under `shards` shards: old streams are kept for replay, dealt out over the new shards, and each
    /// shard gets a new live stream. The caller writes the new layout's manifests, then stores this root.
    #[must_use]
    pub fn with_shards(&self, shards: u16) -> Root {
        assert!((1..=SHARDS_MAX).contains(&shards), "a node has between 1 and {SHARDS_MAX} shards");
        let mut next = Root { shards, layout: self.layout + 1, ..self.clone() };
        for stream in &mut next.streams {
            stream.live = false;
            stream.owner = ShardId(stream.owner.0 % shards);
        }
        for shard in 0..shards {
            next.streams.push(LogStream { stream: next.next_stream, owner: ShardId(shard), live: true });
            next.next_stream.0 += 1;
        }
        next
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut body = BodyWriter::default();
        body.u64(self.generation);
        body.raw(self.cluster_id.as_bytes());
        body.raw(self.host_id.as_bytes());
        body.text(&self.cluster_name);
        body.text(&self.data_center);
        body.text(&self.rack);
        body.u64(self.boot_generation);
        body.u64(self.epoch);
        body.u64(self.features);
        body.u16(self.shards);
        body.u8(self.ignore_msb);
        body.u64(self.layout);
        body.u64(self.schema);
        body.count(self.streams.len());
        for stream in &self.streams {
            body.u32(stream.stream.0);
            body.u16(stream.owner.0);
            body.u8(u8::from(stream.live));
        }
        body.u32(self.next_stream.0);
        envelope::frame(KIND, &body.0)
    }

    pub fn decode(bytes: &[u8]) -> Result<Root, FrameError> {
        let mut body = envelope::unframe(KIND, bytes)?;
        let root = Root {
            generation: body.u64("generation")?,
            cluster_id: Uuid::from_bytes(body.raw("cluster id")?),
            host_id: Uuid::from_bytes(body.raw("host id")?),
            cluster_name: body.text("cluster name")?,
            data_center: body.text("data centre")?,
            rack: body.text("rack")?,
            boot_generation: body.u64("boot generation")?,
            epoch: body.u64("epoch")?,
            features: body.u64("features")?,
            shards: body.u16("shards")?,
            ignore_msb: body.u8("ignore_msb")?,
            layout: body.u64("layout")?,
            schema: body.u64("schema")?,
            streams: decode_streams(&mut body)?,
            next_stream: StreamId(body.u32("next stream")?),
        };
        let sane = (1..=SHARDS_MAX).contains(&root.shards)
            && root.ignore_msb < 64
            && root.streams.iter().all(|one| one.owner.0 < root.shards && one.stream < root.next_stream);
        if !sane {
            return Err(body.bad("shards or streams"));
        }
        body.finish()?;
        Ok(root)
    }

    /// Looks at `dir` and touches nothing: a root, a fresh directory, or a refusal.
    pub async fn examine(io: &Io, dir: &Path) -> Result<Examined, RootError> {
        if !io.exists(dir).await? {
            return Ok(Examined::Fresh);
        }
        let entries = io.list_dir(dir).await?;
        let unknown: Vec<&str> =
            entries.iter().map(|entry| entry.name.as_str()).filter(|name| !is_known_name(name)).collect();
        if !unknown.is_empty() {
            let shown = unknown.len().min(5);
            let more = if unknown.len() > shown { ", …" } else { "" };
            let names = format!("{}{more}", unknown[..shown].join(", "));
            return Err(RootError::Foreign { dir: dir.to_owned(), names });
        }
        if entries.iter().any(|entry| entry.name == ROOT_FILE) {
            return Ok(Examined::Existing(Box::new(Self::load(io, dir).await?)));
        }
        for holds in [COMMITLOG_DIR, SSTABLES_DIR, SNAPSHOTS_DIR] {
            let there = entries.iter().any(|entry| entry.name == holds && entry.is_dir);
            if there && !io.list_dir(&dir.join(holds)).await?.is_empty() {
                return Err(RootError::RootMissing { dir: dir.to_owned(), holds });
            }
        }
        Ok(Examined::Fresh)
    }

    /// Reads the root file of `dir`.
    pub async fn load(io: &Io, dir: &Path) -> Result<Root, RootError> {
        let path = dir.join(ROOT_FILE);
        let bytes = io.read_file(&path).await?;
        let root = Self::decode(&bytes).map_err(|cause| RootError::Unreadable { path: path.clone(), cause })?;
        match root.features & !KNOWN_FEATURES {
            0 => Ok(root),
            features => Err(RootError::UnknownFeatures { path, features }),
        }
    }

    /// Makes this the directory's root, under the next generation. Durable when it returns.
    pub async fn store(&mut self, io: &Io, dir: &Path, planted: Planted) -> Result<(), RootError> {
        self.generation += 1;
        Ok(envelope::replace(io, dir, ROOT_FILE, &self.encode(), planted).await?)
    }
}

fn decode_streams(body: &mut BodyReader<'_>) -> Result<Vec<LogStream>, FrameError> {
    let count = body.count(STREAM_BYTES, "streams")?;
    let mut streams = Vec::with_capacity(count);
    for _ in 0..count {
        streams.push(LogStream {
            stream: StreamId(body.u32("stream")?),
            owner: ShardId(body.u16("stream's owner")?),
            live: match body.u8("stream's state")? {
                0 => false,
                1 => true,
                _ => return Err(body.bad("stream's state")),
            },
        });
    }
    Ok(streams)
}

fn is_known_name(name: &str) -> bool {
    let plain = name.strip_suffix(NEW_SUFFIX).unwrap_or(name);
    [COMMITLOG_DIR, SSTABLES_DIR, SNAPSHOTS_DIR, LOCK_FILE, PROBE_FILE, IGNORED].contains(&name)
        || [ROOT_FILE, DEVICE_FILE].contains(&plain)
        || is_manifest_file_name(plain)
        || name.starts_with(PROBE_PREFIX)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::io::sim::{Faults, Simulation};
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::rc::Rc;
    use std::time::Duration;

    fn root() -> Root {
        let mut root = Root::new(Uuid::from_u128(1), Uuid::from_u128(2), 2, 8);
        root.boot_generation = 5;
        root.epoch = 9;
        root
    }

    #[test]
    fn a_root_round_trips() {
        assert_eq!(Root::decode(&root().encode()), Ok(root()));
        assert_eq!(root().live_stream(ShardId(1)), Some(StreamId(2)));
        assert_eq!(root().live_stream(ShardId(2)), None);
    }

    /// The bytes of version 1, for ever.
    #[test]
    fn golden_bytes_of_version_1() {
        let bytes = root().encode();
        assert_eq!(bytes.len(), 165);
        assert_eq!(crc32c::crc32c(&bytes), GOLDEN_CRC);
    }
    const GOLDEN_CRC: u32 = 0x0ee1_033d;

    #[test]
    fn every_flipped_byte_is_refused() {
        let whole = root().encode();
        for byte in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[byte] ^= 0x10;
            assert!(Root::decode(&damaged).is_err(), "byte {byte}");
        }
    }

    #[test]
    fn another_shard_count_keeps_old_streams_and_reuses_no_number() {
        let one = root().with_shards(1);
        assert_eq!((one.shards, one.layout), (1, 2));
        assert_eq!(one.live_stream(ShardId(0)), Some(StreamId(3)));
        assert!(one.streams.iter().all(|stream| stream.owner == ShardId(0)));
        let two = one.with_shards(2);
        let numbers: Vec<u32> = two.streams.iter().map(|one| one.stream.0).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 5]);
        assert_eq!(Root::decode(&two.encode()), Ok(two));
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let broken = [
            Root { shards: 0, ..root() },
            Root { shards: 1, ..root() },
            Root { ignore_msb: 64, ..root() },
            Root { next_stream: StreamId(1), ..root() },
        ];
        for root in broken {
            assert!(matches!(Root::decode(&root.encode()), Err(FrameError::Field { .. })), "{root:?}");
        }
    }

    #[test]
    fn names_of_this_version_are_known() {
        for name in ["ROOT", "ROOT.new", "LOCK", "commitlog", "sstables", "manifest-1-0", "manifest-1-0.new"] {
            assert!(is_known_name(name), "{name}");
        }
        for name in ["root", "LOCK.new", "data", "manifest-1", "manifest-x-0", ".git"] {
            assert!(!is_known_name(name), "{name}");
        }
    }

    const DIR: &str = "/data";

    fn examine(sim: &Simulation) -> Result<Examined, RootError> {
        sim.run_on_node(|io| async move { Root::examine(&io, Path::new(DIR)).await }).unwrap()
    }

    #[test]
    fn a_directory_is_fresh_existing_or_refused_and_never_touched() {
        let sim = Simulation::new(1, Faults::NONE);
        assert!(matches!(examine(&sim), Ok(Examined::Fresh)), "absent");
        sim.run_on_node(|io| async move {
            io.create_dir_all(Path::new("/data/commitlog")).await.unwrap();
            io.write_file_synced(Path::new("/data/ROOT.new"), b"cut short").await.unwrap();
        })
        .unwrap();
        assert!(matches!(examine(&sim), Ok(Examined::Fresh)), "a first start that did not get far");
        sim.disk().write(Path::new("/data/commitlog/log-1"), b"x").unwrap();
        assert!(matches!(examine(&sim), Err(RootError::RootMissing { holds: COMMITLOG_DIR, .. })));
        sim.disk().write(Path::new("/data/ROOT"), &root().encode()).unwrap();
        assert!(matches!(examine(&sim), Ok(Examined::Existing(found)) if *found == root()));

        let newer = envelope::frame(FileKind { version: 9, ..KIND }, b"unknown");
        let featured = Root { features: 4, ..root() }.encode();
        for (content, says) in [(newer, "version 9"), (featured, "features 0x4"), (b"else".to_vec(), "magic")] {
            sim.disk().remove(Path::new("/data/ROOT"));
            sim.disk().write(Path::new("/data/ROOT"), &content).unwrap();
            let before = sim.disk().files();
            let refusal = examine(&sim).unwrap_err().to_string();
            assert!(refusal.contains(says), "{refusal}");
            assert_eq!(sim.disk().files(), before);
            assert_eq!(sim.disk().read(Path::new("/data/ROOT")), Some(content));
        }
        sim.disk().write(Path::new("/data/thesis.doc"), b"x").unwrap();
        let refusal = examine(&sim).unwrap_err().to_string();
        assert!(refusal.contains("thesis.doc"), "{refusal}");
    }

    #[test]
    fn a_crash_during_a_switch_leaves_the_old_root_or_the_new() {
        let (mut old, mut new) = (0, 0);
        for seed in 0..60 {
            let sim = Simulation::new(seed, Faults::NONE);
            sim.run_on_node(|io| async move {
                io.create_dir_all(Path::new(DIR)).await.unwrap();
                io.sync_dir(Path::new("/")).await.unwrap();
                root().store(&io, Path::new(DIR), Planted::default()).await.unwrap();
            })
            .unwrap();
            let told = Rc::new(Cell::new(false));
            let tell = told.clone();
            sim.kill();
            let _: crate::io::Outside<()> = sim.start(1, move |io, _| {
                let tell = tell.clone();
                async move {
                    let mut next = Root { generation: 1, boot_generation: 6, ..root() };
                    next.store(&io, Path::new(DIR), Planted::default()).await.unwrap();
                    tell.set(true);
                }
            });
            sim.run_for(Duration::from_micros(seed * 40)).unwrap();
            sim.crash();
            let Ok(Examined::Existing(found)) = examine(&sim) else { panic!("seed {seed}: the root is gone") };
            match found.boot_generation {
                5 => assert!(!told.get(), "seed {seed}: a switch that was told is lost"),
                boot => assert_eq!((boot, found.generation), (6, 2)),
            }
            if found.boot_generation == 5 { old += 1 } else { new += 1 }
        }
        assert!(old > 5 && new > 5, "{old} {new}");
    }

    proptest! {
        #[test]
        fn any_body_gives_a_root_or_an_error(body: Vec<u8>) {
            let _ = Root::decode(&envelope::frame(KIND, &body));
        }
    }
}
