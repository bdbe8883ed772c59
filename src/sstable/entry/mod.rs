//! The entries of a data block: the head of a partition, a row, and a change of the range deletion. Each entry stands
//! for itself: nothing in it refers to the entry before, only to the block's base timestamp. See FORMAT.md.

mod decode;
mod encode;

pub use decode::{
    Change, Head, HeadKey, add_row, change, head, head_and_rest, head_key, head_token, kind_of, position_of, row,
    static_row,
};
pub use encode::{BaseTimestamp, write_change, write_head, write_row};

/// The lowest two bits of an entry's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    Head,
    Row,
    Change,
}

const KIND_MASK: u8 = 0b11;
const KIND_HEAD: u8 = 0;
const KIND_ROW: u8 = 1;
const KIND_CHANGE: u8 = 2;

const HEAD_DELETION: u8 = 1 << 2;
/// The partition began in an earlier block.
const HEAD_CONTINUED: u8 = 1 << 3;
const HEAD_STATIC: u8 = 1 << 4;
/// A range deletion is open where the block begins.
const HEAD_OPEN: u8 = 1 << 5;

const ROW_LIVENESS: u8 = 1 << 2;
const ROW_EXPIRES: u8 = 1 << 3;
const ROW_DELETION: u8 = 1 << 4;
const ROW_COMPLEX: u8 = 1 << 5;

const CHANGE_WEIGHT_SHIFT: u8 = 2;
const CHANGE_BEFORE: u8 = 1 << 4;
const CHANGE_AFTER: u8 = 1 << 5;

const CELL_PATH: u8 = 1;
/// The timestamp differs from the one before it in the row (the liveness's, then each cell's in turn).
const CELL_TIMESTAMP: u8 = 1 << 1;
const CELL_DELETED: u8 = 1 << 2;
const CELL_EXPIRES: u8 = 1 << 3;
const CELL_VALUE: u8 = 1 << 4;

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::base::ids::{ColumnId, Token};
    use crate::mutation::{Cell, DeletionTime, Liveness, NEVER_S, Row};
    use crate::schema::Position;
    use proptest::prelude::*;

    fn deletion() -> impl Strategy<Value = DeletionTime> {
        prop_oneof![
            Just(DeletionTime::LIVE),
            (any::<i32>(), 0..=i64::from(u32::MAX)).prop_map(|(timestamp, local_deletion_s)| DeletionTime {
                timestamp: i64::from(timestamp),
                local_deletion_s
            }),
        ]
    }

    fn liveness() -> impl Strategy<Value = Liveness> {
        prop_oneof![
            Just(Liveness::NONE),
            any::<i64>().prop_map(|t| Liveness { timestamp: t.max(i64::MIN + 1), ttl_s: 0, expires_s: NEVER_S }),
            (any::<i32>(), 1..1000u32).prop_map(|(t, ttl_s)| Liveness {
                timestamp: i64::from(t),
                ttl_s,
                expires_s: 1_700_000_000 + i64::from(ttl_s)
            }),
        ]
    }

    type CellParts = (u16, Option<Vec<u8>>, i64, u32, i64, Vec<u8>);

    fn cell() -> impl Strategy<Value = CellParts> {
        let bytes = || proptest::collection::vec(any::<u8>(), 0..40);
        (
            any::<u16>(),
            proptest::option::of(bytes()),
            prop_oneof![Just(5i64), any::<i64>()],
            prop_oneof![Just(0u32), any::<u32>()],
            prop_oneof![Just(NEVER_S), 0..i64::from(u32::MAX)],
            bytes(),
        )
    }

    fn row_of<'a>(clustering: &'a [u8], cells: &'a [CellParts]) -> Row<'a> {
        let mut row = Row::new(clustering);
        row.cells.extend(cells.iter().map(|(column, path, timestamp, ttl_s, local_deletion_s, value)| Cell {
            column: ColumnId(*column),
            path: path.as_deref(),
            timestamp: *timestamp,
            ttl_s: *ttl_s,
            local_deletion_s: *local_deletion_s,
            value,
        }));
        row
    }

    proptest! {
        #[test]
        fn a_row_reads_back(
            clustering in proptest::collection::vec(any::<u8>(), 0..20),
            cells in proptest::collection::vec(cell(), 0..12),
            liveness in liveness(),
            deletion in deletion(),
            complex in proptest::collection::vec((any::<u16>(), deletion()), 0..3),
        ) {
            let mut out = Vec::new();
            let mut row = row_of(&clustering, &cells);
            row.liveness = liveness;
            row.deletion = deletion;
            row.complex.extend(complex.iter().map(|(column, deletion)| (ColumnId(*column), *deletion)));
            let mut base = BaseTimestamp::default();
            write_row(&mut out, &mut base, &row);
            prop_assert_eq!(kind_of(&out), Some(EntryKind::Row));
            prop_assert_eq!(position_of(&out), Some(Position::row(&clustering)));
            prop_assert_eq!(super::row(&out, base.get()), Some(row));
            for len in 0..out.len() {
                prop_assert_eq!(super::row(&out[..len], base.get()), None);
            }
        }

        #[test]
        fn a_change_reads_back(
            prefix in proptest::collection::vec(any::<u8>(), 0..20),
            weight in -1..=1i8,
            before in deletion(),
            after in deletion(),
        ) {
            let position = Position { prefix: &prefix, weight };
            let mut out = Vec::new();
            let mut base = BaseTimestamp::default();
            write_change(&mut out, &mut base, position, before, after);
            prop_assert_eq!(position_of(&out), Some(position));
            prop_assert_eq!(change(&out, base.get()), Some(Change { position, before, after }));
        }

        #[test]
        fn any_bytes_decode_or_do_not(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = (kind_of(&bytes), position_of(&bytes), super::row(&bytes, 9), change(&bytes, 9));
            if let Some(head) = head(&bytes, 9) {
                let _ = static_row(&head, 9);
            }
        }
    }

    #[test]
    fn a_head_reads_back_with_its_static_row() {
        let gone = DeletionTime { timestamp: 50, local_deletion_s: 7 };
        let cells = [(3, None, 60, 0, NEVER_S, b"v".to_vec())];
        let mut out = Vec::new();
        let still = row_of(b"", &cells);
        let mut base = BaseTimestamp::default();
        write_head(&mut out, &mut base, (Token(-9), b"key"), gone, Some(&still), None);
        let read = head(&out, base.get()).unwrap();
        assert_eq!((read.token, read.key, read.deletion, read.continued), (Token(-9), b"key".as_slice(), gone, false));
        assert_eq!(static_row(&read, base.get()).unwrap(), Some(still));
        assert_eq!(head_key(&out).unwrap(), HeadKey { token: Token(-9), key: b"key" });
        let mut out = Vec::new();
        write_head(&mut out, &mut base, (Token(1), b"k"), DeletionTime::LIVE, None, Some(gone));
        let read = head(&out, base.get()).unwrap();
        assert!(read.continued && read.deletion.is_live() && read.open == gone);
        assert_eq!(static_row(&read, base.get()), Some(None));
        assert_eq!(position_of(&out), None);
    }
}
