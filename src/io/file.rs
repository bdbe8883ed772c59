//! Files: direct, aligned, by offset.

use std::path::Path;

use super::{AlignedBuf, IoError, real, sim};

/// How to open a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenHow {
    /// An existing file, to read.
    Read,
    /// An existing file, to read and write.
    ReadWrite,
    /// A file that must not exist yet, to read and write.
    CreateNew,
    /// A new or emptied file, to read and write.
    CreateOrTruncate,
}

/// One entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    pub name: String,
    pub is_dir: bool,
    pub len_bytes: u64,
}

/// An open file; a cheap clone. Offsets and lengths of reads and writes are multiples of [`super::ALIGN_BYTES`].
/// It closes after the last handle is dropped and what is under way has completed.
#[derive(Clone)]
pub struct File(FileHalf);

#[derive(Clone)]
enum FileHalf {
    Real(real::File),
    Sim(sim::File),
}

impl File {
    pub(super) fn real(file: real::File) -> Self {
        File(FileHalf::Real(file))
    }

    pub(super) fn sim(file: sim::File) -> Self {
        File(FileHalf::Sim(file))
    }

    /// Fills `buf` up to its length from `offset_bytes`; fewer bytes mean that the file ends there.
    pub async fn read_at(&self, buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<usize, IoError>) {
        match &self.0 {
            FileHalf::Real(file) => file.read_at(buf, offset_bytes).await,
            FileHalf::Sim(file) => file.read_at(buf, offset_bytes).await,
        }
    }

    /// Writes all of `buf`. Not durable until a sync.
    pub async fn write_at(&self, buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<(), IoError>) {
        match &self.0 {
            FileHalf::Real(file) => file.write_at(buf, offset_bytes).await,
            FileHalf::Sim(file) => file.write_at(buf, offset_bytes).await,
        }
    }

    /// Writes all of `buf`; when it completes, these bytes (and the length, if they extended the file) are durable.
    pub async fn write_at_synced(&self, buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<(), IoError>) {
        match &self.0 {
            FileHalf::Real(file) => file.write_at_synced(buf, offset_bytes).await,
            FileHalf::Sim(file) => file.write_at_synced(buf, offset_bytes).await,
        }
    }

    /// Makes every completed write durable. A failure is final: what was written may be gone.
    pub async fn sync_data(&self) -> Result<(), IoError> {
        match &self.0 {
            FileHalf::Real(file) => file.sync_data().await,
            FileHalf::Sim(file) => file.sync_data().await,
        }
    }

    /// Gives the file `len_bytes` of written zeros and syncs them, so that later syncs there write no metadata.
    pub async fn allocate_zeroed(&self, len_bytes: u64) -> Result<(), IoError> {
        match &self.0 {
            FileHalf::Real(file) => file.allocate_zeroed(len_bytes).await,
            FileHalf::Sim(file) => file.allocate_zeroed(len_bytes).await,
        }
    }

    pub async fn set_len(&self, len_bytes: u64) -> Result<(), IoError> {
        match &self.0 {
            FileHalf::Real(file) => file.set_len(len_bytes).await,
            FileHalf::Sim(file) => file.set_len(len_bytes).await,
        }
    }

    #[expect(clippy::len_without_is_empty, reason = "a length that is asked of the system")]
    pub async fn len(&self) -> Result<u64, IoError> {
        match &self.0 {
            FileHalf::Real(file) => file.len().await,
            FileHalf::Sim(file) => file.len().await,
        }
    }

    pub fn path(&self) -> &Path {
        match &self.0 {
            FileHalf::Real(file) => file.path(),
            FileHalf::Sim(file) => file.path(),
        }
    }
}
