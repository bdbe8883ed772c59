//! A digest of what a read found that does not depend on how it is laid out: two replicas with the same content agree,
//! whatever their memtables, SSTables and page sizes.

use md5::{Digest as _, Md5};

use crate::mutation::cell::{Cell, DeletionTime, Liveness};
use crate::mutation::cursor::{Fragment, PartitionStart};
use crate::mutation::row::Row;

/// Takes in partitions in order, each merged, so that nothing in it is covered.
#[derive(Clone, Debug, Default)]
pub struct ReadDigest {
    md5: Md5,
}

impl ReadDigest {
    pub fn new() -> Self {
        ReadDigest::default()
    }

    /// The head of the next partition.
    pub fn partition(&mut self, start: &PartitionStart<'_>) {
        self.md5.update([1]);
        self.bytes(start.key);
        self.deletion(start.deletion);
        if let Some(row) = &start.static_row {
            self.md5.update([2]);
            self.row(row);
        }
    }

    /// The next fragment of the partition.
    pub fn fragment(&mut self, fragment: &Fragment<'_>) {
        match fragment {
            Fragment::Row(row) => {
                self.md5.update([3]);
                self.row(row);
            }
            Fragment::Change(change) => {
                self.md5.update([4]);
                self.bytes(change.position.prefix);
                self.md5.update(change.position.weight.to_le_bytes());
                self.deletion(change.deletion);
            }
        }
    }

    pub fn finish(self) -> [u8; 16] {
        self.md5.finalize().into()
    }

    fn row(&mut self, row: &Row<'_>) {
        let Row { clustering, liveness, deletion, complex, cells } = row;
        self.bytes(clustering);
        let Liveness { timestamp, ttl_s, expires_s } = liveness;
        self.md5.update(timestamp.to_le_bytes());
        self.md5.update(ttl_s.to_le_bytes());
        self.md5.update(expires_s.to_le_bytes());
        self.deletion(*deletion);
        self.md5.update((complex.len() as u64).to_le_bytes());
        for (column, deletion) in complex {
            self.md5.update(column.0.to_le_bytes());
            self.deletion(*deletion);
        }
        self.md5.update((cells.len() as u64).to_le_bytes());
        for cell in cells {
            self.cell(cell);
        }
    }

    fn cell(&mut self, cell: &Cell<'_>) {
        let Cell { column, path, timestamp, ttl_s, local_deletion_s, value } = cell;
        self.md5.update(column.0.to_le_bytes());
        self.md5.update([u8::from(path.is_some())]);
        self.bytes(path.unwrap_or_default());
        self.md5.update(timestamp.to_le_bytes());
        self.md5.update(ttl_s.to_le_bytes());
        self.md5.update(local_deletion_s.to_le_bytes());
        self.bytes(value);
    }

    fn deletion(&mut self, deletion: DeletionTime) {
        self.md5.update(deletion.timestamp.to_le_bytes());
        self.md5.update(deletion.local_deletion_s.to_le_bytes());
    }

    /// With its length first, so that no two sequences of values are the same bytes.
    fn bytes(&mut self, bytes: &[u8]) {
        self.md5.update((bytes.len() as u64).to_le_bytes());
        self.md5.update(bytes);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::base::ids::{ColumnId, Token};
    use crate::mutation::cell::NEVER_S;
    use crate::mutation::cursor::PartitionCursor;
    use crate::mutation::merge::Merge;
    use crate::mutation::owned::{OwnedFragment, OwnedPartition, OwnedRow};
    use crate::mutation::testing::order;

    fn partition(rows: &[(i32, i64)]) -> OwnedPartition {
        let fragments = rows.iter().map(|(c, timestamp)| {
            let clustering = crate::mutation::testing::prefix(&[*c, 0]);
            let mut row = Row::new(&clustering);
            row.cells.push(Cell {
                column: ColumnId(1),
                path: None,
                timestamp: *timestamp,
                ttl_s: 0,
                local_deletion_s: NEVER_S,
                value: b"v",
            });
            OwnedFragment::Row(OwnedRow::copy(&row))
        });
        OwnedPartition {
            token: Token(1),
            key: b"k".to_vec(),
            deletion: DeletionTime::LIVE,
            static_row: None,
            fragments: fragments.collect(),
        }
    }

    fn digest(sources: &[OwnedPartition]) -> [u8; 16] {
        let order = order();
        let mut merge = Merge::new(&order, false, sources.iter().map(OwnedPartition::cursor));
        let mut digest = ReadDigest::new();
        digest.partition(&merge.start().unwrap());
        while let Some(fragment) = merge.next().unwrap() {
            digest.fragment(&fragment);
        }
        digest.finish()
    }

    #[test]
    fn the_same_content_in_other_sources_has_the_same_digest() {
        let one = digest(&[partition(&[(1, 5), (2, 6), (3, 7)])]);
        let two = digest(&[partition(&[(2, 6), (3, 1)]), partition(&[(1, 5), (2, 2), (3, 7)])]);
        assert_eq!(one, two);
    }

    #[test]
    fn other_content_has_another_digest() {
        let one = digest(&[partition(&[(1, 5), (2, 6)])]);
        assert_ne!(one, digest(&[partition(&[(1, 5), (2, 7)])]));
        assert_ne!(one, digest(&[partition(&[(1, 5)])]));
        assert_ne!(one, digest(&[partition(&[(1, 5), (3, 6)])]));
    }
}
