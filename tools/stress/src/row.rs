//! The rows of `standard1` and `counter1`: a key, and columns that are a function of the row's number, so that a read
//! can tell whether it got the right bytes.

use helenus::protocol::wire::{begin_bytes, end_bytes, put_int, put_long};

use crate::arguments::Columns;
use crate::distribution::{Distribution, Draws};
use crate::random::{Random, mix, salt_of};

/// The size of a key, unless told.
pub const KEY_BYTES: usize = 10;

/// Tells the sizes of cells, and what is added to counters, from other draws.
const SIZE_SALT: u64 = 0x7369_7a65;
const ADD_SALT: u64 = 0x6164_6473;

/// How rows are made.
#[derive(Clone, Debug)]
pub struct Rows {
    key_bytes: usize,
    /// For each column.
    salts: Vec<u64>,
    size: Distribution,
    add: Distribution,
}

impl Rows {
    pub fn new(columns: &Columns, key_bytes: usize, add: Distribution) -> Rows {
        let salts = columns.names.iter().map(|name| salt_of(name)).collect();
        Rows { key_bytes, salts, size: columns.size.clone(), add }
    }

    /// Appends the key of a row: hexadecimal digits. Different numbers have different keys, as far as there are as many
    /// keys.
    #[inline]
    pub fn put_key(&self, number: u64, out: &mut Vec<u8>) {
        let mut bits = spread(number, (4 * self.key_bytes).min(64) as u32);
        let start = out.len();
        out.resize(start + self.key_bytes, 0);
        for (at, digit) in out[start..].iter_mut().rev().enumerate() {
            if at > 0 && at % 16 == 0 {
                bits = mix(number ^ at as u64);
            }
            *digit = b"0123456789ABCDEF"[(bits & 15) as usize];
            bits >>= 4;
        }
    }

    /// Appends a column's cell to `out`, without its length.
    #[inline]
    fn put_bytes_of(&self, number: u64, column: usize, out: &mut Vec<u8>) {
        let seed = number ^ self.salts[column];
        let size = match self.size.only() {
            Some(size) => size,
            None => self.size.draw(&mut Draws::of(seed, SIZE_SALT)),
        };
        let start = out.len();
        out.resize(start + size as usize, 0);
        Random::of(seed).fill(&mut out[start..]);
    }

    /// Appends every column's value, each with its length before it.
    #[inline]
    pub fn put_values(&self, number: u64, out: &mut Vec<u8>) {
        for column in 0..self.salts.len() {
            let at = begin_bytes(out);
            self.put_bytes_of(number, column, out);
            end_bytes(out, at);
        }
    }

    /// Appends what the operation at this place adds to each column.
    pub fn put_increments(&self, place: u64, out: &mut Vec<u8>) {
        let mut draws = Draws::of(place, ADD_SALT);
        for _ in &self.salts {
            put_int(out, 8);
            put_long(out, self.add.draw(&mut draws));
        }
    }

    /// Whether these are the cells of the row, in the columns' order.
    pub fn are_of(&self, number: u64, cells: &[Option<&[u8]>], scratch: &mut Vec<u8>) -> bool {
        cells.len() == self.salts.len()
            && cells.iter().enumerate().all(|(column, cell)| {
                scratch.clear();
                self.put_bytes_of(number, column, scratch);
                *cell == Some(scratch.as_slice())
            })
    }
}

/// Spreads numbers below 2^bits over as many. Each step can be undone, so that no two become the same.
fn spread(number: u64, bits: u32) -> u64 {
    let mask = u64::MAX >> (64 - bits);
    let mut spread = number & mask;
    for _ in 0..2 {
        spread = spread.wrapping_mul(0x9e_3779_b97f) & mask;
        spread ^= spread >> (bits / 2).max(1);
    }
    spread
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn rows(size: &str, key_bytes: usize) -> Rows {
        let size = Distribution::parse(size).expect("a distribution");
        let names = ["C0", "C1", "C2"].map(str::to_owned).to_vec();
        Rows::new(&Columns { names, size, slice: false, timestamp: None }, key_bytes, Distribution::fixed(3))
    }

    fn key(rows: &Rows, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        rows.put_key(number, &mut out);
        out
    }

    #[test]
    fn a_number_always_gives_the_same_row() {
        // What one version wrote, a later one must verify.
        let rows = rows("fixed(34)", 10);
        assert_eq!(key(&rows, 1), b"EFF79A8E81");
        let mut first = Vec::new();
        rows.put_bytes_of(1, 0, &mut first);
        assert_eq!(first[..8], [65, 192, 61, 105, 221, 214, 203, 215]);
    }

    #[test]
    fn no_two_rows_share_a_key() {
        for key_bytes in [5, 10, 16, 24] {
            let rows = rows("fixed(34)", key_bytes);
            let keys: HashSet<Vec<u8>> = (0..20_000).map(|number| key(&rows, number)).collect();
            assert_eq!(keys.len(), 20_000, "{key_bytes}");
            assert!(keys.iter().all(|key| key.len() == key_bytes));
        }
        let short: HashSet<Vec<u8>> = (0..16).map(|number| key(&rows("fixed(1)", 1), number)).collect();
        assert_eq!(short.len(), 16, "every digit");
    }

    #[test]
    fn values_have_their_sizes_and_are_recognised() {
        for (size, sizes) in [("fixed(34)", 34..=34), ("uniform(0..9)", 0..=9)] {
            let rows = rows(size, 10);
            let (mut out, mut scratch) = (Vec::new(), Vec::new());
            for number in 0..100 {
                out.clear();
                rows.put_values(number, &mut out);
                let mut rest = out.as_slice();
                let mut cells = Vec::new();
                while let Some((len, after)) = rest.split_first_chunk::<4>() {
                    let (cell, after) = after.split_at(u32::from_be_bytes(*len) as usize);
                    assert!(sizes.contains(&cell.len()));
                    cells.push(Some(cell));
                    rest = after;
                }
                assert!(rows.are_of(number, &cells, &mut scratch));
                assert!(size.starts_with('u') || !rows.are_of(number + 1, &cells, &mut scratch));
                assert!(!rows.are_of(number, &cells[1..], &mut scratch));
                cells[1] = None;
                assert!(!rows.are_of(number, &cells, &mut scratch));
            }
        }
    }

    #[test]
    fn counters_are_added_to() {
        let mut out = Vec::new();
        rows("fixed(1)", 10).put_increments(9, &mut out);
        assert_eq!(out, [0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 3].repeat(3));
    }
}
