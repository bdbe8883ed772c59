//! SSTables: immutable files of sorted partitions, and everything that writes, reads, caches and checks them.
//!
//! A [`Writer`] takes partitions in order; [`Reader::open`] gives point reads and ordered scans over cached blocks,
//! synchronous: what is not in memory is noted in [`Misses`], loaded, and the read starts again. A [`Scanner`] reads a
//! whole file once, around the cache.
#![doc = include_str!("FORMAT.md")]

mod block;
mod builder;
mod cache;
mod compression;
mod cursor;
mod entry;
mod error;
mod filter;
mod footer;
mod frame;
mod in_flight;
mod index;
mod misses;
mod output;
mod pins;
mod point;
mod reader;
mod scan;
mod scanner;
mod statistics;
mod verify;
mod writer;

#[cfg(test)]
pub(crate) mod tests;

pub use cache::{BlockCache, CacheStats};
pub use compression::{BLOCK_BYTES_DEFAULT, Compression, CompressionOptionError};
pub use cursor::SSTableCursor;
pub use entry::{Change, HeadKey};
pub use error::SSTableError;
pub use footer::FORMAT_VERSION;
pub use misses::Misses;
pub use pins::Pins;
pub use reader::{Reader, View};
pub use scan::SSTableScan;
pub use scanner::{ScanItem, Scanner};
pub use statistics::Statistics;
pub use verify::{Verified, verify};
pub use writer::{SSTableInfo, Writer, WriterOptions};

/// A file's number within its shard: no two files that are there at one time have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SSTableId(pub u64);

impl SSTableId {
    /// The number after this one.
    pub fn next(self) -> SSTableId {
        SSTableId(self.0 + 1)
    }
}
