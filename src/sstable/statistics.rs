//! What a file says about itself as a whole: bounds, counts and where its rows came from.

use crate::base::ids::{TimestampMicros, Token};
use crate::base::vint::{read_i64, read_u64, write_i64, write_u64};
use crate::mutation::{DeletionTime, Liveness, NEVER_S, Row};

/// A file's statistics. Bounds of nothing are the empty interval (least above greatest).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Of all that is written or deleted in the file.
    pub min_timestamp: TimestampMicros,
    pub max_timestamp: TimestampMicros,
    /// Of tombstones and of what expires; `NEVER_S` counts in the greatest where anything lives for ever.
    pub min_local_deletion_s: i64,
    pub max_local_deletion_s: i64,
    /// 0 where something does not expire.
    pub min_ttl_s: u32,
    pub max_ttl_s: u32,
    pub partitions: u64,
    pub static_rows: u64,
    pub rows: u64,
    pub cells: u64,
    /// Cell, row, range, collection and partition tombstones.
    pub tombstones: u64,
    /// Cells and rows that expire.
    pub expiring: u64,
    /// The bytes of data blocks before compression.
    pub raw_bytes: u64,
    /// The first and last partition.
    pub first: (Token, Vec<u8>),
    pub last: (Token, Vec<u8>),
    /// The schema versions of the table that rows were written under, ascending.
    pub schema_versions: Vec<u32>,
    /// The log intervals whose mutations this file covers, as the manifest encodes them.
    pub log_intervals: Vec<u8>,
    /// How many compactions the oldest of its rows went through.
    pub generation_level: u32,
    /// Reserved for repair between nodes: 0, and 16 zero bytes.
    pub repaired_at_us: i64,
    pub repair_session: [u8; 16],
    /// The host that wrote the file first.
    pub origin_host: [u8; 16],
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics {
            min_timestamp: TimestampMicros::MAX,
            max_timestamp: TimestampMicros::MIN,
            min_local_deletion_s: NEVER_S,
            max_local_deletion_s: i64::MIN,
            min_ttl_s: u32::MAX,
            max_ttl_s: 0,
            partitions: 0,
            static_rows: 0,
            rows: 0,
            cells: 0,
            tombstones: 0,
            expiring: 0,
            raw_bytes: 0,
            first: (Token(i64::MAX), Vec::new()),
            last: (Token(i64::MIN), Vec::new()),
            schema_versions: Vec::new(),
            log_intervals: Vec::new(),
            generation_level: 0,
            repaired_at_us: 0,
            repair_session: [0; 16],
            origin_host: [0; 16],
        }
    }
}

impl Statistics {
    fn note(&mut self, timestamp: TimestampMicros, ttl_s: u32, local_deletion_s: i64) {
        self.min_timestamp = self.min_timestamp.min(timestamp);
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.min_local_deletion_s = self.min_local_deletion_s.min(local_deletion_s);
        self.max_local_deletion_s = self.max_local_deletion_s.max(local_deletion_s);
        self.min_ttl_s = self.min_ttl_s.min(ttl_s);
        self.max_ttl_s = self.max_ttl_s.max(ttl_s);
        self.expiring += u64::from(ttl_s != 0);
        self.tombstones += u64::from(ttl_s == 0 && local_deletion_s != NEVER_S);
    }

    pub fn note_deletion(&mut self, deletion: DeletionTime) {
        if !deletion.is_live() {
            self.note(deletion.timestamp, 0, deletion.local_deletion_s);
        }
    }

    fn note_liveness(&mut self, liveness: Liveness) {
        if !liveness.is_none() {
            self.note(liveness.timestamp, liveness.ttl_s, liveness.expires_s);
        }
    }

    /// Notes all that is in a row, static or not.
    pub fn note_row(&mut self, row: &Row<'_>) {
        self.note_liveness(row.liveness);
        self.note_deletion(row.deletion);
        row.complex.iter().for_each(|(_, deletion)| self.note_deletion(*deletion));
        for cell in &row.cells {
            self.note(cell.timestamp, cell.ttl_s, cell.local_deletion_s);
        }
        self.cells += row.cells.len() as u64;
    }

    /// The ratio of tombstones and expiring data to all cells and rows, between 0 and 1.
    pub fn droppable_ratio(&self) -> f64 {
        let all = (self.cells + self.rows).max(1);
        ((self.tombstones + self.expiring) as f64 / all as f64).min(1.0)
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        write_i64(out, self.min_timestamp);
        write_i64(out, self.max_timestamp);
        write_i64(out, self.min_local_deletion_s);
        write_i64(out, self.max_local_deletion_s);
        for number in [u64::from(self.min_ttl_s), u64::from(self.max_ttl_s), self.partitions, self.static_rows] {
            write_u64(out, number);
        }
        for number in [self.rows, self.cells, self.tombstones, self.expiring, self.raw_bytes] {
            write_u64(out, number);
        }
        for (token, key) in [&self.first, &self.last] {
            write_i64(out, token.0);
            write_bytes(out, key);
        }
        write_u64(out, self.schema_versions.len() as u64);
        self.schema_versions.iter().for_each(|version| write_u64(out, u64::from(*version)));
        write_bytes(out, &self.log_intervals);
        write_u64(out, u64::from(self.generation_level));
        write_i64(out, self.repaired_at_us);
        out.extend_from_slice(&self.repair_session);
        out.extend_from_slice(&self.origin_host);
    }

    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let input = &mut bytes;
        let statistics = Statistics {
            min_timestamp: read_i64(input)?,
            max_timestamp: read_i64(input)?,
            min_local_deletion_s: read_i64(input)?,
            max_local_deletion_s: read_i64(input)?,
            min_ttl_s: read_u32(input)?,
            max_ttl_s: read_u32(input)?,
            partitions: read_u64(input)?,
            static_rows: read_u64(input)?,
            rows: read_u64(input)?,
            cells: read_u64(input)?,
            tombstones: read_u64(input)?,
            expiring: read_u64(input)?,
            raw_bytes: read_u64(input)?,
            first: (Token(read_i64(input)?), read_bytes(input)?),
            last: (Token(read_i64(input)?), read_bytes(input)?),
            schema_versions: (0..read_u64(input)?).map(|_| read_u32(input)).collect::<Option<_>>()?,
            log_intervals: read_bytes(input)?,
            generation_level: read_u32(input)?,
            repaired_at_us: read_i64(input)?,
            repair_session: read_array(input)?,
            origin_host: read_array(input)?,
        };
        input.is_empty().then_some(statistics)
    }
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn read_u32(input: &mut &[u8]) -> Option<u32> {
    u32::try_from(read_u64(input)?).ok()
}

fn read_bytes(input: &mut &[u8]) -> Option<Vec<u8>> {
    let len = usize::try_from(read_u64(input)?).ok()?;
    let (bytes, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(bytes.to_vec())
}

fn read_array<const N: usize>(input: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = input.split_first_chunk::<N>()?;
    *input = rest;
    Some(*array)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::base::ids::ColumnId;
    use crate::mutation::Cell;

    fn filled() -> Statistics {
        let mut statistics = Statistics {
            first: (Token(-4), b"first".to_vec()),
            last: (Token(90), b"last".to_vec()),
            schema_versions: vec![1, 4],
            log_intervals: vec![9; 40],
            partitions: 3,
            rows: 2,
            raw_bytes: 1 << 40,
            origin_host: [7; 16],
            ..Statistics::default()
        };
        let mut row = Row::new(b"c");
        row.liveness = Liveness { timestamp: 100, ttl_s: 60, expires_s: 1060 };
        let cell = |timestamp, ttl_s, local_deletion_s| Cell {
            column: ColumnId(1),
            path: None,
            timestamp,
            ttl_s,
            local_deletion_s,
            value: b"v",
        };
        row.cells.extend([cell(100, 60, 1060), cell(80, 0, NEVER_S), cell(120, 0, 900)]);
        statistics.note_row(&row);
        statistics.note_deletion(DeletionTime::LIVE);
        statistics.note_deletion(DeletionTime { timestamp: 70, local_deletion_s: 800 });
        statistics
    }

    #[test]
    fn bounds_and_counts_follow_what_is_noted() {
        let statistics = filled();
        assert_eq!((statistics.min_timestamp, statistics.max_timestamp), (70, 120));
        assert_eq!((statistics.min_local_deletion_s, statistics.max_local_deletion_s), (800, NEVER_S));
        assert_eq!((statistics.min_ttl_s, statistics.max_ttl_s), (0, 60));
        assert_eq!((statistics.cells, statistics.tombstones, statistics.expiring), (3, 2, 2));
        assert!((statistics.droppable_ratio() - 0.8).abs() < 1e-9);
    }

    #[test]
    fn they_read_back_whole_or_not_at_all() {
        for statistics in [Statistics::default(), filled()] {
            let mut bytes = Vec::new();
            statistics.encode(&mut bytes);
            assert_eq!(Statistics::decode(&bytes).unwrap(), statistics);
            for len in 0..bytes.len() {
                assert_eq!(Statistics::decode(&bytes[..len]), None);
            }
            bytes.push(0);
            assert_eq!(Statistics::decode(&bytes), None);
        }
    }
}
