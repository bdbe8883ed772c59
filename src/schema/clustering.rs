//! Clustering keys and positions between them, encoded and ordered.
//!
//! An encoded prefix is each component in turn as a two-byte little-endian length and the component's serialised value.
//! A `Position` is a prefix and a weight: a row stands at weight 0 with all components; -1 is just before everything
//! that starts with the prefix, +1 just after. The empty prefix at -1 and +1 is the partition's start and end.

use std::cmp::Ordering;

use crate::types::{self, CqlType};

/// The types and directions of a table's clustering columns: all that ordering rows needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusteringOrder {
    columns: Vec<(CqlType, bool)>,
}

/// A place in a partition's order of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    pub prefix: &'a [u8],
    pub weight: i8,
}

impl<'a> Position<'a> {
    /// Before every row.
    pub const START: Position<'static> = Position { prefix: &[], weight: -1 };
    /// After every row.
    pub const END: Position<'static> = Position { prefix: &[], weight: 1 };

    /// Where the row with this full clustering key stands.
    pub fn row(clustering: &'a [u8]) -> Self {
        Position { prefix: clustering, weight: 0 }
    }

    /// Just before everything that starts with `prefix`: an inclusive start or an exclusive end.
    pub fn before(prefix: &'a [u8]) -> Self {
        Position { prefix, weight: -1 }
    }

    /// Just after everything that starts with `prefix`: an exclusive start or an inclusive end.
    pub fn after(prefix: &'a [u8]) -> Self {
        Position { prefix, weight: 1 }
    }
}

/// Appends one component to an encoded prefix. The caller has checked that it is at most 65,535 bytes.
pub fn push_component(prefix: &mut Vec<u8>, value: &[u8]) {
    let len = u16::try_from(value.len()).expect("clustering components are limited to 65,535 bytes when bound");
    prefix.extend_from_slice(&len.to_le_bytes());
    prefix.extend_from_slice(value);
}

/// The components of an encoded prefix, in order. Stops at the first malformed one.
pub fn components(mut prefix: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || split_component(&mut prefix))
}

/// Takes one component off the front; `None` at the end (or where the bytes lie).
#[inline]
pub fn split_component<'a>(prefix: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = prefix.split_first_chunk::<2>()?;
    let len = usize::from(u16::from_le_bytes(*len));
    let value = rest.get(..len)?;
    *prefix = rest.get(len..)?;
    Some(value)
}

impl ClusteringOrder {
    /// From (type, descending) of each clustering column.
    pub fn new(columns: impl IntoIterator<Item = (CqlType, bool)>) -> Self {
        ClusteringOrder { columns: columns.into_iter().collect() }
    }

    pub fn len(&self) -> usize {
        self.columns.len()
    }

    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Orders two full clustering keys.
    pub fn compare_rows(&self, a: &[u8], b: &[u8]) -> Ordering {
        self.compare(Position::row(a), Position::row(b))
    }

    /// Orders two positions of one partition.
    pub fn compare(&self, a: Position<'_>, b: Position<'_>) -> Ordering {
        let (mut left, mut right) = (a.prefix, b.prefix);
        for (ty, descending) in &self.columns {
            match (split_component(&mut left), split_component(&mut right)) {
                (Some(x), Some(y)) => {
                    let order = types::compare(ty, x, y);
                    if order.is_ne() {
                        return if *descending { order.reverse() } else { order };
                    }
                }
                (None, None) => break,
                (None, Some(_)) => return if a.weight < 0 { Ordering::Less } else { Ordering::Greater },
                (Some(_), None) => return if b.weight < 0 { Ordering::Greater } else { Ordering::Less },
            }
        }
        a.weight.cmp(&b.weight)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prefix(values: &[i32]) -> Vec<u8> {
        let mut prefix = Vec::new();
        values.iter().for_each(|value| push_component(&mut prefix, &value.to_be_bytes()));
        prefix
    }

    fn order(descending: &[bool]) -> ClusteringOrder {
        ClusteringOrder::new(descending.iter().map(|descending| (CqlType::Int, *descending)))
    }

    /// Positions given as (prefix, weight) stand in this order.
    fn check(order: &ClusteringOrder, ascending: &[(&[i32], i8)]) {
        let positions: Vec<_> = ascending.iter().map(|(values, weight)| (prefix(values), *weight)).collect();
        for (i, (a, weight_a)) in positions.iter().enumerate() {
            for (j, (b, weight_b)) in positions.iter().enumerate() {
                let (a, b) = (Position { prefix: a, weight: *weight_a }, Position { prefix: b, weight: *weight_b });
                assert_eq!(order.compare(a, b), i.cmp(&j), "{:?} and {:?}", ascending[i], ascending[j]);
            }
        }
    }

    #[test]
    fn components_come_back() {
        let bytes = prefix(&[1, -2]);
        assert_eq!(bytes, b"\x04\0\0\0\0\x01\x04\0\xff\xff\xff\xfe");
        let back: Vec<&[u8]> = components(&bytes).collect();
        assert_eq!(back, [1i32.to_be_bytes().as_slice(), &(-2i32).to_be_bytes()]);
        let mut empty = Vec::new();
        push_component(&mut empty, b"");
        assert_eq!(components(&empty).collect::<Vec<_>>(), [b"".as_slice()]);
    }

    #[test]
    fn lengths_that_lie_end_the_walk() {
        assert_eq!(components(b"\x09\0a").count(), 0);
        assert_eq!(components(b"\x01").count(), 0);
        assert_eq!(components(b"\x01\0a\x01").count(), 1);
    }

    #[test]
    fn prefixes_stand_around_what_starts_with_them() {
        check(
            &order(&[false, false]),
            &[
                (&[], -1),
                (&[1], -1),
                (&[1, 5], -1),
                (&[1, 5], 0),
                (&[1, 5], 1),
                (&[1, 6], 0),
                (&[1], 1),
                (&[2], -1),
                (&[2, 0], 0),
                (&[], 1),
            ],
        );
    }

    #[test]
    fn descending_columns_turn_values_and_not_bounds() {
        check(
            &order(&[true, false]),
            &[(&[], -1), (&[2], -1), (&[2, 0], 0), (&[2, 1], 0), (&[2], 1), (&[1, 9], 0), (&[], 1)],
        );
        check(&order(&[false, true]), &[(&[1], -1), (&[1, 9], 0), (&[1, 8], 0), (&[1], 1), (&[2, 0], 0)]);
    }

    #[test]
    fn values_order_by_their_type_and_not_by_bytes() {
        check(&order(&[false]), &[(&[i32::MIN], 0), (&[-1], 0), (&[0], 0), (&[1], 0)]);
        assert_eq!(order(&[]).compare_rows(b"", b""), Ordering::Equal);
        assert!(order(&[]).is_empty() && order(&[false]).len() == 1);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_and_the_order_is_antisymmetric(a: Vec<u8>, b: Vec<u8>, x in -1i8..=1, y in -1i8..=1) {
            let order = order(&[false, true]);
            let (a, b) = (Position { prefix: &a, weight: x }, Position { prefix: &b, weight: y });
            prop_assert_eq!(order.compare(a, b), order.compare(b, a).reverse());
        }
    }
}
