//! The rows of `standard1`: a 10-byte key and five 34-byte columns, all a function of the row's number, so that a read
//! can tell whether it got the right bytes.

/// The size of a key, and of each column.
pub const KEY_BYTES: usize = 10;
pub const COLUMN_BYTES: usize = 34;
pub const COLUMNS: usize = 5;

/// Keys are ten hexadecimal digits: so many row numbers have a key of their own.
const KEY_BITS: u32 = 40;
const KEY_MASK: u64 = (1 << KEY_BITS) - 1;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub key: [u8; KEY_BYTES],
    pub columns: [[u8; COLUMN_BYTES]; COLUMNS],
}

impl Row {
    /// The row of a number.
    pub fn of(number: u64) -> Row {
        let mut state = number;
        let mut columns = [[0; COLUMN_BYTES]; COLUMNS];
        for chunk in columns.as_flattened_mut().chunks_mut(8) {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            chunk.copy_from_slice(&mix(state).to_le_bytes()[..chunk.len()]);
        }
        Row { key: key_of(number), columns }
    }
}

/// The key of a row's number. The steps over 40 bits can each be undone, so two numbers below 2^40 never share a key.
pub fn key_of(number: u64) -> [u8; KEY_BYTES] {
    let mut bits = number & KEY_MASK;
    for _ in 0..2 {
        bits = bits.wrapping_mul(0x9e_3779_b97f) & KEY_MASK;
        bits ^= bits >> (KEY_BITS / 2);
    }
    let mut key = [0; KEY_BYTES];
    for digit in key.iter_mut().rev() {
        *digit = b"0123456789ABCDEF"[(bits & 15) as usize];
        bits >>= 4;
    }
    key
}

/// SplitMix64's finalizer: spreads a counter over all bits.
pub fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_number_always_gives_the_same_row() {
        // What one version wrote, a later one must verify.
        let row = Row::of(1);
        assert_eq!(row, Row::of(1));
        assert_eq!(&row.key, &key_of(1));
        assert_eq!(row.columns[0][..8], mix(1u64.wrapping_add(0x9e37_79b9_7f4a_7c15)).to_le_bytes());
    }

    #[test]
    fn no_two_rows_share_a_key_or_a_column() {
        let numbers = (1..20_000).chain((1 << 39)..(1 << 39) + 20_000);
        let rows: Vec<Row> = numbers.map(Row::of).collect();
        let keys: HashSet<_> = rows.iter().map(|row| row.key).collect();
        let columns: HashSet<_> = rows.iter().flat_map(|row| row.columns).collect();
        assert_eq!((keys.len(), columns.len()), (rows.len(), rows.len() * COLUMNS));
    }

    #[test]
    fn every_byte_of_a_column_is_filled() {
        for at in 0..COLUMN_BYTES {
            assert!((0..64).any(|number| Row::of(number).columns[COLUMNS - 1][at] != 0), "byte {at}");
        }
    }
}
