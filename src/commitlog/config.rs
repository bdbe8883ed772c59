//! How a log is kept: what an operator chooses, and what a simulation or a benchmark varies.

use std::time::Duration;

use super::format::{BLOCK_ALIGN_BYTES, BLOCK_HEADER_BYTES, RECORD_HEADER_BYTES};
use crate::base::plants::Planted;

/// The smallest segment: a largest record and its block's header still fit.
pub const SEGMENT_BYTES_MIN: u32 = 4 * BLOCK_ALIGN_BYTES as u32;
/// The largest segment: offsets are 32 bits.
pub const SEGMENT_BYTES_MAX: u32 = 1 << 30;

/// When a record counts as acknowledged (`commitlog_sync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// When its write has completed: a killed process loses nothing, a power cut at most this period
    /// (`commitlog_sync_period`).
    Periodic { period: Duration },
    /// When it is synced; each block at once.
    Batch,
    /// When it is synced; a sync at most every window (`commitlog_sync_group_window`).
    Group { window: Duration },
}

/// How one block becomes durable in batch mode: which is faster depends on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMethod {
    WriteThenSync,
    SyncedWrite,
}

/// A log's configuration.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// `commitlog_segment_size`: a multiple of 4096.
    pub segment_bytes: u32,
    /// `commitlog_total_space`, this log's share: above it, [`super::CommitLog::pressure`] names what to flush.
    pub total_bytes: u64,
    pub mode: SyncMode,
    pub method: SyncMethod,
    /// Writes in the device at once, from this log.
    pub writes_in_flight: usize,
    /// A block is closed at this size, or above it where one record needs more.
    pub block_bytes: usize,
    /// Bytes that wait for their write. At it, appends are refused with `Busy` until some are written.
    pub pending_bytes_max: usize,
    /// Released segments that are kept to be used again.
    pub recycled_max: usize,
    pub planted: Planted,
}

impl Default for LogConfig {
    fn default() -> Self {
        LogConfig {
            segment_bytes: 32 << 20,
            total_bytes: 4 << 30,
            mode: SyncMode::Periodic { period: Duration::from_secs(10) },
            method: SyncMethod::SyncedWrite,
            writes_in_flight: 4,
            block_bytes: 256 << 10,
            pending_bytes_max: 32 << 20,
            recycled_max: 2,
            planted: Planted::default(),
        }
    }
}

impl LogConfig {
    /// The longest body of a record: half a segment.
    pub fn record_bytes_max(&self) -> usize {
        self.segment_bytes as usize / 2
    }

    /// The most bytes of records, headers included, that one segment takes in one block.
    pub(super) fn payload_bytes_max(&self) -> usize {
        self.segment_bytes as usize - BLOCK_HEADER_BYTES
    }

    /// Says what is wrong with it, if anything.
    pub fn check(&self) -> Result<(), String> {
        let align = BLOCK_ALIGN_BYTES as u32;
        if !self.segment_bytes.is_multiple_of(align)
            || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&self.segment_bytes)
        {
            return Err(format!(
                "a commit log segment of {} bytes: must be a multiple of {align} from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_MAX}",
                self.segment_bytes
            ));
        }
        if self.writes_in_flight == 0 || self.block_bytes < BLOCK_HEADER_BYTES + RECORD_HEADER_BYTES {
            return Err(String::from(
                "a commit log needs at least one write in flight and room for a record in a block",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_sound_and_lies_are_named() {
        assert_eq!(LogConfig::default().check(), Ok(()));
        assert_eq!(LogConfig::default().record_bytes_max(), 16 << 20);
        for segment_bytes in [0, 4096, (32 << 20) + 1, 2 << 30] {
            let config = LogConfig { segment_bytes, ..LogConfig::default() };
            assert!(config.check().is_err_and(|text| text.contains(&segment_bytes.to_string())));
        }
        assert!(LogConfig { writes_in_flight: 0, ..LogConfig::default() }.check().is_err());
    }
}
