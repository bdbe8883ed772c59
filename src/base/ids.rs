//! Ids as types, so that one is never taken for another.

use std::fmt;

/// A Murmur3 token: where a partition stands on the ring. `i64::MIN` is the ring's minimum and no partition's token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub i64);

/// One pinned core's number on this node, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(pub u16);

/// A table's id: the UUID that Cassandra shows in `system_schema.tables.id`, as its 16 bytes in network order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub [u8; 16]);

/// A column's number within its table. Given once, never reused, also after DROP and re-ADD.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ColumnId(pub u16);

/// One shard's log on disk. Its number is never reused, also under another shard count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// A commit log segment within its stream: 1, 2, 3 …, never reused and never from the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId(pub u64);

/// Microseconds since 1970 as CQL's USING TIMESTAMP counts them.
pub type TimestampMicros = i64;

/// A place in a log: everything before it is older. Ordered within one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogPosition {
    pub segment: SegmentId,
    pub offset_bytes: u32,
}

impl LogPosition {
    /// Before everything that a stream can hold.
    pub const ZERO: LogPosition = LogPosition { segment: SegmentId(0), offset_bytes: 0 };
}

impl fmt::Display for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, byte) in self.0.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for TableId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TableId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_id_prints_as_a_uuid() {
        let id = TableId([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(id.to_string(), "01234567-89ab-cdef-0001-020304050607");
    }

    #[test]
    fn positions_order_by_segment_then_offset() {
        let at = |segment, offset_bytes| LogPosition { segment: SegmentId(segment), offset_bytes };
        assert!(LogPosition::ZERO < at(1, 0));
        assert!(at(1, 900) < at(2, 0));
        assert!(at(2, 1) < at(2, 2));
    }
}
