//! Rows and fragments with bytes of their own, for what outlives its source: a compaction's merge, a batch's intent.

use smallvec::SmallVec;

use crate::base::ids::{ColumnId, TimestampMicros, Token};
use crate::mutation::cell::{Cell, DeletionTime, Liveness};
use crate::mutation::cursor::{Fragment, PartitionCursor, PartitionStart, RangeChange, ReadStop};
use crate::mutation::read::OwnedPosition;
use crate::mutation::row::Row;

/// A row with its own bytes, all in one buffer.
#[derive(Clone, Debug, Default)]
pub struct OwnedRow {
    bytes: Vec<u8>,
    clustering_len: usize,
    liveness: Option<Liveness>,
    deletion: Option<DeletionTime>,
    complex: Vec<(ColumnId, DeletionTime)>,
    cells: Vec<OwnedCell>,
}

/// A cell's fields; its path and value stand one after the other at `at` in the row's buffer.
#[derive(Clone, Copy, Debug)]
struct OwnedCell {
    column: ColumnId,
    timestamp: TimestampMicros,
    ttl_s: u32,
    local_deletion_s: i64,
    at: usize,
    path_len: Option<usize>,
    value_len: usize,
}

impl OwnedRow {
    pub fn copy(row: &Row<'_>) -> Self {
        let mut owned = OwnedRow::default();
        owned.assign(row);
        owned
    }

    /// Becomes a copy of `row`, keeping its buffers.
    pub fn assign(&mut self, row: &Row<'_>) {
        self.bytes.clear();
        self.bytes.extend_from_slice(row.clustering);
        self.clustering_len = row.clustering.len();
        self.liveness = (!row.liveness.is_none()).then_some(row.liveness);
        self.deletion = (!row.deletion.is_live()).then_some(row.deletion);
        self.complex.clear();
        self.complex.extend_from_slice(&row.complex);
        self.cells.clear();
        for cell in &row.cells {
            let at = self.bytes.len();
            self.bytes.extend_from_slice(cell.path.unwrap_or_default());
            self.bytes.extend_from_slice(cell.value);
            self.cells.push(OwnedCell {
                column: cell.column,
                timestamp: cell.timestamp,
                ttl_s: cell.ttl_s,
                local_deletion_s: cell.local_deletion_s,
                at,
                path_len: cell.path.map(<[u8]>::len),
                value_len: cell.value.len(),
            });
        }
    }

    pub fn borrow(&self) -> Row<'_> {
        Row {
            clustering: &self.bytes[..self.clustering_len],
            liveness: self.liveness.unwrap_or(Liveness::NONE),
            deletion: self.deletion.unwrap_or(DeletionTime::LIVE),
            complex: SmallVec::from_slice(&self.complex),
            cells: self.cells.iter().map(|cell| self.cell(cell)).collect(),
        }
    }

    fn cell(&self, cell: &OwnedCell) -> Cell<'_> {
        let value_at = cell.at + cell.path_len.unwrap_or(0);
        Cell {
            column: cell.column,
            path: cell.path_len.map(|len| &self.bytes[cell.at..cell.at + len]),
            timestamp: cell.timestamp,
            ttl_s: cell.ttl_s,
            local_deletion_s: cell.local_deletion_s,
            value: &self.bytes[value_at..value_at + cell.value_len],
        }
    }
}

/// A fragment with its own bytes.
#[derive(Clone, Debug)]
pub enum OwnedFragment {
    Row(OwnedRow),
    Change { position: OwnedPosition, deletion: DeletionTime },
}

impl OwnedFragment {
    pub fn copy(fragment: &Fragment<'_>) -> Self {
        match fragment {
            Fragment::Row(row) => OwnedFragment::Row(OwnedRow::copy(row)),
            Fragment::Change(RangeChange { position, deletion }) => {
                OwnedFragment::Change { position: OwnedPosition::of(*position), deletion: *deletion }
            }
        }
    }

    pub fn borrow(&self) -> Fragment<'_> {
        match self {
            OwnedFragment::Row(row) => Fragment::Row(row.borrow()),
            OwnedFragment::Change { position, deletion } => {
                Fragment::Change(RangeChange { position: position.borrow(), deletion: *deletion })
            }
        }
    }
}

/// A whole partition with its own bytes.
#[derive(Clone, Debug)]
pub struct OwnedPartition {
    pub token: Token,
    pub key: Vec<u8>,
    pub deletion: DeletionTime,
    pub static_row: Option<OwnedRow>,
    pub fragments: Vec<OwnedFragment>,
}

impl OwnedPartition {
    /// Reads a source to its end.
    pub fn read<'a>(mut cursor: impl PartitionCursor<'a>) -> Result<Self, ReadStop> {
        let start = cursor.start()?;
        let mut fragments = Vec::new();
        while let Some(fragment) = cursor.next()? {
            fragments.push(OwnedFragment::copy(&fragment));
        }
        Ok(OwnedPartition {
            token: start.token,
            key: start.key.to_vec(),
            deletion: start.deletion,
            static_row: start.static_row.as_ref().map(OwnedRow::copy),
            fragments,
        })
    }

    pub fn cursor(&self) -> OwnedCursor<'_> {
        OwnedCursor { partition: self, at: 0 }
    }
}

/// Walks an `OwnedPartition`.
#[derive(Clone, Debug)]
pub struct OwnedCursor<'a> {
    partition: &'a OwnedPartition,
    at: usize,
}

impl<'a> PartitionCursor<'a> for OwnedCursor<'a> {
    fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop> {
        Ok(PartitionStart {
            token: self.partition.token,
            key: &self.partition.key,
            deletion: self.partition.deletion,
            static_row: self.partition.static_row.as_ref().map(OwnedRow::borrow),
        })
    }

    fn next(&mut self) -> Result<Option<Fragment<'a>>, ReadStop> {
        let fragment = self.partition.fragments.get(self.at);
        self.at += 1;
        Ok(fragment.map(OwnedFragment::borrow))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::mutation::testing::{any_op, encode};
    use crate::mutation::view::{Item, MutationView};
    use proptest::prelude::*;

    proptest! {
        /// A copy is what it was made of, also in a buffer that held another row before.
        #[test]
        fn a_copy_is_its_row(ops in prop::collection::vec(any_op(), 1..10)) {
            let bytes = encode(&ops);
            let mut reused = OwnedRow::default();
            for item in MutationView::parse(&bytes).unwrap().items() {
                if let Item::Row(row) | Item::Static(row) = item {
                    reused.assign(&row);
                    let copy = OwnedRow::copy(&row);
                    prop_assert_eq!(format!("{:?}", reused.borrow()), format!("{row:?}"));
                    prop_assert_eq!(format!("{:?}", copy.borrow()), format!("{row:?}"));
                }
            }
        }
    }

    #[test]
    fn a_partition_read_and_walked_is_the_same() {
        let partition = OwnedPartition {
            token: Token(3),
            key: b"k".to_vec(),
            deletion: DeletionTime { timestamp: 1, local_deletion_s: 2 },
            static_row: Some(OwnedRow::copy(&Row::new(b""))),
            fragments: vec![OwnedFragment::Change { position: OwnedPosition::start(), deletion: DeletionTime::LIVE }],
        };
        let again = OwnedPartition::read(partition.cursor()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{partition:?}"));
    }
}
