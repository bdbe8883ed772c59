//! A shard's manifest: which SSTables are live and who may read what in them, which parts of the logs they cover, what
//! was truncated, and the highest timestamp the shard may have given out. One file a shard and layout,
//! replaced as a whole at each flush, compaction, TRUNCATE and DROP.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::envelope::{self, BodyReader, BodyWriter, FileKind, FrameError};
use crate::base::ids::{LogPosition, SegmentId, ShardId, StreamId, TableId, TimestampMicros, Token};
use crate::base::plants::Planted;
use crate::commitlog::IntervalSet;
use crate::io::{Io, IoError};
use crate::sstable::SSTableId;

const KIND: FileKind = FileKind { magic: *b"HLNSMANI", version: 1, noun: "Helenus manifest" };
const POSITION_BYTES: usize = 12;
const RANGE_BYTES: usize = 16;
const FLAG_TRUNCATED: u8 = 2;

/// Tokens from `first` to `last`, both included. Never wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenSpan {
    pub first: Token,
    pub last: Token,
}

impl TokenSpan {
    /// Every token.
    pub const ALL: TokenSpan = TokenSpan { first: Token(i64::MIN), last: Token(i64::MAX) };

    pub fn contains(&self, token: Token) -> bool {
        self.first <= token && token <= self.last
    }
}

/// A live SSTable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSstable {
    pub id: SSTableId,
    /// Its file, relative to the directory of SSTables.
    pub file: String,
    /// What this shard may read in it, in order. A file shared with other shards is read by each in its own part.
    pub spans: Vec<TokenSpan>,
    /// The level of levelled compaction; 0 elsewhere.
    pub level: u8,
}

/// What the manifest says of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableManifest {
    pub sstables: Vec<LiveSstable>,
    /// What of each log is durable in SSTables: replay skips it.
    pub flushed: BTreeMap<StreamId, IntervalSet>,
    /// What a TRUNCATE discarded: in each stream everything before this position.
    pub discarded_before: BTreeMap<StreamId, LogPosition>,
    /// When the last TRUNCATE was.
    pub truncated_at: Option<TimestampMicros>,
}

impl TableManifest {
    /// Whether replay skips a record of this table at `position`.
    pub fn skips(&self, stream: StreamId, position: LogPosition) -> bool {
        self.discarded_before.get(&stream).is_some_and(|before| position < *before)
            || self.flushed.get(&stream).is_some_and(|set| set.contains(position))
    }

    /// A flush made `[from, to)` of `stream` durable.
    pub fn add_flushed(&mut self, stream: StreamId, from: LogPosition, to: LogPosition) {
        self.flushed.entry(stream).or_default().add(from, to);
    }

    /// A TRUNCATE discards everything before `before`. Positions never go back.
    pub fn discard(&mut self, stream: StreamId, before: LogPosition) {
        let entry = self.discarded_before.entry(stream).or_insert(before);
        *entry = (*entry).max(before);
    }
}

/// One shard's manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub shard: ShardId,
    pub layout: u64,
    /// Raised at each store.
    pub sequence: u64,
    /// No SSTable of this shard has this number or a higher one.
    pub next_sstable: SSTableId,
    /// No timestamp above this was given out.
    pub timestamp_high_water: TimestampMicros,
    /// Where a clean stop ended each log: everything before it was synced.
    pub log_ends: BTreeMap<StreamId, LogPosition>,
    pub tables: BTreeMap<TableId, TableManifest>,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    #[error("{path} cannot be read: {cause}")]
    Unreadable { path: PathBuf, cause: FrameError },
    #[error("{path} is the manifest of shard {} in layout {layout}", .shard.0)]
    Misplaced { path: PathBuf, shard: ShardId, layout: u64 },
    #[error(transparent)]
    Io(#[from] IoError),
}

/// The file of a shard's manifest in the data directory.
pub fn manifest_file_name(layout: u64, shard: ShardId) -> String {
    format!("manifest-{layout}-{}", shard.0)
}

/// Whether `name` is that of some manifest.
pub fn is_manifest_file_name(name: &str) -> bool {
    parse_manifest_file_name(name).is_some()
}

/// Layout and shard of a manifest's file name.
pub fn parse_manifest_file_name(name: &str) -> Option<(u64, ShardId)> {
    let (layout, shard) = name.strip_prefix("manifest-")?.split_once('-')?;
    let parsed = (layout.parse().ok()?, ShardId(shard.parse().ok()?));
    (manifest_file_name(parsed.0, parsed.1) == name).then_some(parsed)
}

impl Manifest {
    /// An empty one.
    pub fn new(layout: u64, shard: ShardId) -> Manifest {
        Manifest {
            shard,
            layout,
            sequence: 0,
            next_sstable: SSTableId(1),
            timestamp_high_water: 0,
            log_ends: BTreeMap::new(),
            tables: BTreeMap::new(),
        }
    }

    /// Whether replay skips a record of `table` at `position`.
    pub fn skips(&self, table: TableId, stream: StreamId, position: LogPosition) -> bool {
        self.tables.get(&table).is_some_and(|entry| entry.skips(stream, position))
    }

    /// Forgets what covers a log before `position`: its segments are gone.
    pub fn forget_log_before(&mut self, stream: StreamId, position: LogPosition) {
        for table in self.tables.values_mut() {
            if let Some(set) = table.flushed.get_mut(&stream) {
                set.remove_before(position);
                if set.is_empty() {
                    table.flushed.remove(&stream);
                }
            }
            if table.discarded_before.get(&stream).is_some_and(|before| *before <= position) {
                table.discarded_before.remove(&stream);
            }
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut body = BodyWriter::default();
        body.u16(self.shard.0);
        body.u64(self.layout);
        body.u64(self.sequence);
        body.u64(self.next_sstable.0);
        body.i64(self.timestamp_high_water);
        encode_positions(&mut body, &self.log_ends);
        body.count(self.tables.len());
        for (id, table) in &self.tables {
            body.raw(&id.0);
            encode_table(&mut body, table);
        }
        envelope::frame(KIND, &body.0)
    }

    pub fn decode(bytes: &[u8]) -> Result<Manifest, FrameError> {
        let mut body = envelope::unframe(KIND, bytes)?;
        let mut manifest = Manifest {
            shard: ShardId(body.u16("shard")?),
            layout: body.u64("layout")?,
            sequence: body.u64("sequence")?,
            next_sstable: SSTableId(body.u64("next SSTable")?),
            timestamp_high_water: body.i64("timestamp high-water mark")?,
            log_ends: decode_positions(&mut body, "log ends")?,
            tables: BTreeMap::new(),
        };
        for _ in 0..body.count(16, "tables")? {
            let id = TableId(body.raw("table id")?);
            let table = decode_table(&mut body)?;
            manifest.tables.insert(id, table);
        }
        body.finish()?;
        Ok(manifest)
    }

    /// Reads the manifest of `shard` in `layout` from the data directory.
    pub async fn load(io: &Io, dir: &Path, layout: u64, shard: ShardId) -> Result<Manifest, ManifestError> {
        let path = dir.join(manifest_file_name(layout, shard));
        let bytes = io.read_file(&path).await?;
        match Self::decode(&bytes) {
            Ok(manifest) if (manifest.layout, manifest.shard) == (layout, shard) => Ok(manifest),
            Ok(other) => Err(ManifestError::Misplaced { path, shard: other.shard, layout: other.layout }),
            Err(cause) => Err(ManifestError::Unreadable { path, cause }),
        }
    }

    /// Makes this the shard's manifest. Durable when it returns. An error ends the process: what the disk holds now is
    /// the old or the new content, and only a restart tells which.
    pub async fn store(&mut self, io: &Io, dir: &Path, planted: Planted) -> Result<(), ManifestError> {
        self.sequence += 1;
        let name = manifest_file_name(self.layout, self.shard);
        Ok(envelope::replace(io, dir, &name, &self.encode(), planted).await?)
    }
}

fn encode_table(body: &mut BodyWriter, table: &TableManifest) {
    body.u8(if table.truncated_at.is_some() { FLAG_TRUNCATED } else { 0 });
    if let Some(at) = table.truncated_at {
        body.i64(at);
    }
    encode_positions(body, &table.discarded_before);
    body.count(table.flushed.len());
    for (stream, set) in &table.flushed {
        body.u32(stream.0);
        body.count(set.intervals().len());
        for interval in set.intervals() {
            encode_position(body, interval.from);
            encode_position(body, interval.to);
        }
    }
    body.count(table.sstables.len());
    for sstable in &table.sstables {
        body.u64(sstable.id.0);
        body.text(&sstable.file);
        body.u8(sstable.level);
        body.count(sstable.spans.len());
        for span in &sstable.spans {
            body.i64(span.first.0);
            body.i64(span.last.0);
        }
    }
}

fn decode_table(body: &mut BodyReader<'_>) -> Result<TableManifest, FrameError> {
    let flags = body.u8("table flags")?;
    if flags & !FLAG_TRUNCATED != 0 {
        return Err(body.bad("table flags"));
    }
    let truncated_at = if flags & FLAG_TRUNCATED != 0 { Some(body.i64("truncated at")?) } else { None };
    let mut table = TableManifest {
        truncated_at,
        discarded_before: decode_positions(body, "discarded before")?,
        ..TableManifest::default()
    };
    for _ in 0..body.count(8, "flushed streams")? {
        let stream = StreamId(body.u32("flushed stream")?);
        let mut set = IntervalSet::new();
        for _ in 0..body.count(2 * POSITION_BYTES, "flushed intervals")? {
            let (from, to) = (decode_position(body, "flushed from")?, decode_position(body, "flushed to")?);
            if from >= to {
                return Err(body.bad("flushed interval"));
            }
            set.add(from, to);
        }
        table.flushed.insert(stream, set);
    }
    for _ in 0..body.count(8, "SSTables")? {
        let sstable = decode_sstable(body)?;
        table.sstables.push(sstable);
    }
    Ok(table)
}

fn decode_sstable(body: &mut BodyReader<'_>) -> Result<LiveSstable, FrameError> {
    let id = SSTableId(body.u64("SSTable id")?);
    let file = body.text("SSTable file")?;
    // A name that leaves its directory is no name of ours.
    if file.is_empty() || file.starts_with('/') || file.split('/').any(|part| part == "..") {
        return Err(body.bad("SSTable file"));
    }
    let level = body.u8("SSTable level")?;
    let mut spans = Vec::new();
    for _ in 0..body.count(RANGE_BYTES, "token spans")? {
        let span = TokenSpan { first: Token(body.i64("first token")?), last: Token(body.i64("last token")?) };
        if span.first > span.last {
            return Err(body.bad("token span"));
        }
        spans.push(span);
    }
    Ok(LiveSstable { id, file, spans, level })
}

fn encode_position(body: &mut BodyWriter, position: LogPosition) {
    body.u64(position.segment.0);
    body.u32(position.offset_bytes);
}

fn decode_position(body: &mut BodyReader<'_>, field: &'static str) -> Result<LogPosition, FrameError> {
    Ok(LogPosition { segment: SegmentId(body.u64(field)?), offset_bytes: body.u32(field)? })
}

fn encode_positions(body: &mut BodyWriter, positions: &BTreeMap<StreamId, LogPosition>) {
    body.count(positions.len());
    for (stream, position) in positions {
        body.u32(stream.0);
        encode_position(body, *position);
    }
}

fn decode_positions(
    body: &mut BodyReader<'_>,
    field: &'static str,
) -> Result<BTreeMap<StreamId, LogPosition>, FrameError> {
    let mut positions = BTreeMap::new();
    for _ in 0..body.count(4 + POSITION_BYTES, field)? {
        let stream = StreamId(body.u32(field)?);
        positions.insert(stream, decode_position(body, field)?);
    }
    Ok(positions)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::io::sim::{DiskOp, Faults, Planned, Simulation};
    use proptest::prelude::*;

    const TABLE: TableId = TableId([7; 16]);
    const STREAM: StreamId = StreamId(4);

    fn at(segment: u64, offset_bytes: u32) -> LogPosition {
        LogPosition { segment: SegmentId(segment), offset_bytes }
    }

    fn manifest() -> Manifest {
        let mut table = TableManifest {
            sstables: vec![LiveSstable {
                id: SSTableId(12),
                file: String::from("ks/t/12.sst"),
                spans: vec![TokenSpan { first: Token(-5), last: Token(900) }, TokenSpan::ALL],
                level: 2,
            }],
            truncated_at: Some(-1),
            ..TableManifest::default()
        };
        table.add_flushed(STREAM, at(3, 64), at(3, 900));
        table.add_flushed(STREAM, at(5, 0), at(6, 0));
        table.discard(StreamId(2), at(9, 1));
        let mut manifest = Manifest::new(3, ShardId(1));
        manifest.timestamp_high_water = 1_700_000_000_000_000;
        manifest.log_ends.insert(STREAM, at(6, 4096));
        manifest.tables.insert(TABLE, table);
        manifest.tables.insert(TableId([8; 16]), TableManifest::default());
        manifest
    }

    #[test]
    fn a_manifest_round_trips() {
        assert_eq!(Manifest::decode(&manifest().encode()).unwrap(), manifest());
    }

    /// The bytes of version 1, for ever.
    #[test]
    fn golden_bytes_of_version_1() {
        let bytes = manifest().encode();
        assert_eq!(bytes.len(), 276);
        assert_eq!(crc32c::crc32c(&bytes), GOLDEN_CRC);
    }
    const GOLDEN_CRC: u32 = 0xb140_091a;

    #[test]
    fn replay_skips_what_is_flushed_or_truncated() {
        let manifest = manifest();
        assert!(manifest.skips(TABLE, STREAM, at(3, 64)));
        assert!(!manifest.skips(TABLE, STREAM, at(3, 900)));
        assert!(!manifest.skips(TABLE, StreamId(5), at(3, 64)), "another stream's interval says nothing");
        assert!(manifest.skips(TABLE, StreamId(2), at(9, 0)));
        assert!(!manifest.skips(TABLE, StreamId(2), at(9, 1)));
        assert!(!manifest.skips(TableId([9; 16]), STREAM, at(3, 64)), "an unknown table is replayed");
    }

    #[test]
    fn a_discard_never_goes_back() {
        let mut table = TableManifest::default();
        table.discard(STREAM, at(5, 0));
        table.discard(STREAM, at(4, 0));
        assert!(table.skips(STREAM, at(4, 900)));
    }

    #[test]
    fn what_covers_released_segments_is_forgotten() {
        let mut manifest = manifest();
        manifest.forget_log_before(STREAM, at(6, 0));
        manifest.forget_log_before(StreamId(2), at(10, 0));
        let table = &manifest.tables[&TABLE];
        assert!(table.flushed.is_empty() && table.discarded_before.is_empty());
    }

    #[test]
    fn every_flipped_byte_is_refused() {
        let whole = manifest().encode();
        for byte in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[byte] ^= 0x04;
            assert!(Manifest::decode(&damaged).is_err(), "byte {byte}");
        }
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let with_file = |file: &str| {
            let mut manifest = manifest();
            manifest.tables.get_mut(&TABLE).unwrap().sstables[0].file = file.to_owned();
            Manifest::decode(&manifest.encode())
        };
        assert!(with_file("a/b..c").is_ok());
        for file in ["", "/etc/passwd", "../x", "a/../../x"] {
            assert!(matches!(with_file(file), Err(FrameError::Field { .. })), "{file}");
        }
        let mut manifest = manifest();
        manifest.tables.get_mut(&TABLE).unwrap().sstables[0].spans[0].last = Token(-6);
        assert!(Manifest::decode(&manifest.encode()).is_err());
    }

    #[test]
    fn file_names_round_trip() {
        assert_eq!(parse_manifest_file_name("manifest-12-3"), Some((12, ShardId(3))));
        for other in ["manifest-012-3", "manifest--3", "manifest-1-70000", "manifest-1-3.new", "manifest"] {
            assert_eq!(parse_manifest_file_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_manifest_is_stored_loaded_and_kept_to_its_place() {
        let sim = Simulation::new(1, Faults::NONE);
        sim.run_on_node(|io| async move {
            let mut stored = manifest();
            stored.store(&io, Path::new("/"), Planted::default()).await.unwrap();
            assert_eq!(stored.sequence, 1);
        })
        .unwrap();
        sim.crash();
        let load = |layout| {
            sim.run_on_node(move |io| async move { Manifest::load(&io, Path::new("/"), layout, ShardId(1)).await })
                .unwrap()
        };
        assert_eq!(load(3).unwrap(), Manifest { sequence: 1, ..manifest() });
        assert!(matches!(load(4), Err(ManifestError::Io(error)) if error.is_not_found()));
        let bytes = sim.disk().read(Path::new("/manifest-3-1")).unwrap();
        sim.disk().write(Path::new("/manifest-4-1"), &bytes).unwrap();
        assert!(matches!(load(4), Err(ManifestError::Misplaced { layout: 3, .. })));
        assert!(sim.disk().flip(Path::new("/manifest-3-1"), 30, 1));
        assert!(matches!(load(3), Err(ManifestError::Unreadable { cause: FrameError::Crc { .. }, .. })));
    }

    /// ROCKSDB-5287 and its like: a step of the replacement fails.
    #[test]
    fn a_failed_store_is_an_error_and_leaves_an_old_or_a_new_manifest() {
        for op in [DiskOp::Write, DiskOp::Sync, DiskOp::Name, DiskOp::SyncDir] {
            let sim = Simulation::new(2, Faults::NONE);
            let failed = sim.run_on_node(|io| async move {
                manifest().store(&io, Path::new("/"), Planted::default()).await.unwrap();
                io
            });
            let io = failed.unwrap();
            sim.plan_fault(Planned { op, path_contains: String::new(), after: 0, errno: 5 });
            let failed = sim
                .run_on_node(move |_| async move {
                    let mut next = Manifest { sequence: 1, ..manifest() };
                    next.store(&io, Path::new("/"), Planted::default()).await
                })
                .unwrap();
            assert!(
                matches!(failed, Err(ManifestError::Io(ref error)) if error.raw_os == Some(5)),
                "{op:?} {failed:?}"
            );
            sim.crash();
            let left = sim
                .run_on_node(|io| async move { Manifest::load(&io, Path::new("/"), 3, ShardId(1)).await })
                .unwrap()
                .unwrap();
            assert!(matches!(left.sequence, 1 | 2), "{op:?}");
        }
    }

    proptest! {
        #[test]
        fn any_body_gives_a_manifest_or_an_error(body: Vec<u8>) {
            let _ = Manifest::decode(&envelope::frame(KIND, &body));
        }

        #[test]
        fn any_intervals_round_trip(intervals in prop::collection::vec((0u64..9, any::<u32>(), 0u64..9, any::<u32>()), 0..9)) {
            let mut manifest = manifest();
            let table = manifest.tables.get_mut(&TABLE).unwrap();
            for (segment, offset, to_segment, to_offset) in intervals {
                table.add_flushed(STREAM, at(segment, offset), at(to_segment, to_offset));
            }
            prop_assert_eq!(&Manifest::decode(&manifest.encode()).unwrap(), &manifest);
        }
    }
}
