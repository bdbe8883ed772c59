//! The order of values: Cassandra's comparators.
//!
//! Every comparison is a total preorder over arbitrary bytes, so that sorted structures hold whatever they are fed:
//! bytes that are no value of the type sort before all values, among themselves by their bytes. Values of no bytes
//! come first of all. Equal order does not always mean equal bytes (decimals 1.0 and 1.00, the NaNs).

use std::cmp::Ordering;

use super::collection::{Elements, element_type, elements_unchecked};
use super::cql_type::CqlType;
use super::number::{self, Decimal};
use super::{marshal, uuid};

/// Which of two values (neither null) of a type comes first.
pub fn compare(ty: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    match ty {
        CqlType::Ascii
        | CqlType::Text
        | CqlType::Blob
        | CqlType::Inet
        | CqlType::Date
        | CqlType::Time
        | CqlType::Duration
        | CqlType::Empty => a.cmp(b),
        CqlType::Boolean => by_key(a, b, number::boolean),
        CqlType::TinyInt => by_key(a, b, number::int8),
        CqlType::SmallInt => by_key(a, b, number::int16),
        CqlType::Int => by_key(a, b, number::int32),
        CqlType::BigInt | CqlType::Counter | CqlType::Timestamp => by_key(a, b, number::int64),
        CqlType::Float => by_key(a, b, |bytes| number::float32(bytes).map(|value| java_float_key(value.into()))),
        CqlType::Double => by_key(a, b, |bytes| number::float64(bytes).map(java_float_key)),
        CqlType::Varint => varints(a, b),
        CqlType::Decimal => match (Decimal::decode(a), Decimal::decode(b)) {
            (Some(left), Some(right)) => left.compare(&right),
            (left, right) => invalid_first(left.is_some(), right.is_some(), a, b),
        },
        CqlType::Uuid => by_key(a, b, uuid_key),
        CqlType::TimeUuid => by_key(a, b, timeuuid_key),
        CqlType::Custom(class) if class == marshal::LEGACY_TIMEUUID => by_key(a, b, timeuuid_key),
        CqlType::Custom(_) => a.cmp(b),
        CqlType::Frozen(inner) => compare(inner, a, b),
        CqlType::Tuple(_) | CqlType::Udt(_) => fields(ty, a, b),
        CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Vector(..) => sequences(ty, a, b),
    }
}

fn by_key<K: Ord>(a: &[u8], b: &[u8], key: impl Fn(&[u8]) -> Option<K>) -> Ordering {
    match (key(a), key(b)) {
        (Some(left), Some(right)) => left.cmp(&right),
        (left, right) => invalid_first(left.is_some(), right.is_some(), a, b),
    }
}

/// At least one side is no value.
fn invalid_first(a_valid: bool, b_valid: bool, a: &[u8], b: &[u8]) -> Ordering {
    a_valid.cmp(&b_valid).then_with(|| a.cmp(b))
}

/// Integers in the order of Java's `Double.compare`: -0.0 before 0.0, all NaNs equal and last.
fn java_float_key(value: f64) -> i64 {
    if value.is_nan() {
        return i64::MAX;
    }
    let bits = value.to_bits().cast_signed();
    // Negative numbers fall as their magnitude rises.
    if bits < 0 { !(bits & i64::MAX) } else { bits }
}

/// By value, without building the numbers where sign and length decide.
fn varints(a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().cmp(&b.len());
    }
    let (a_negative, a) = stripped(a);
    let (b_negative, b) = stripped(b);
    let signs = b_negative.cmp(&a_negative);
    let lengths = if a_negative { b.len().cmp(&a.len()) } else { a.len().cmp(&b.len()) };
    signs.then(lengths).then_with(|| a.cmp(b))
}

/// The sign of a two's complement number, and its bytes without those that only repeat the sign.
fn stripped(mut bytes: &[u8]) -> (bool, &[u8]) {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    let filler = if negative { 0xff } else { 0 };
    while let [first, rest @ ..] = bytes {
        let next_negative = rest.first().map(|byte| byte & 0x80 != 0);
        if *first != filler || next_negative != Some(negative) {
            break;
        }
        bytes = rest;
    }
    (negative, bytes)
}

/// By version; version 1 by time; the rest as unsigned bytes.
fn uuid_key(bytes: &[u8]) -> Option<(u8, u64, u64)> {
    let bytes: &[u8; 16] = bytes.try_into().ok()?;
    let version = uuid::version(bytes);
    let (high, low) = uuid::halves(bytes);
    let high = if version == 1 { uuid::time_ordered(bytes) } else { u64::from_be_bytes(high) };
    Some((version, high, u64::from_be_bytes(low)))
}

/// By time, then by the low half as signed bytes.
fn timeuuid_key(bytes: &[u8]) -> Option<(i64, [i8; 8])> {
    let bytes: &[u8; 16] = bytes.try_into().ok()?;
    Some((uuid::time_ordered(bytes).cast_signed(), uuid::halves(bytes).1.map(u8::cast_signed)))
}

/// Lists, sets, maps (keys and values by turns) and vectors: the first difference decides, then the number.
fn sequences(ty: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().min(1).cmp(&b.len().min(1));
    }
    let (mut left, mut right) = (elements_unchecked(ty, a), elements_unchecked(ty, b));
    for at in 0.. {
        let order = match (left.next(), right.next()) {
            (Some(x), Some(y)) => nullable(element_type(ty, at), x, y),
            (None, None) => return rest_of(&left, &right),
            (x, y) => return x.is_some().cmp(&y.is_some()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

/// Tuples and user-defined types: missing fields at the end are null, and null comes first.
fn fields(ty: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    if a.is_empty() || b.is_empty() {
        return a.len().min(1).cmp(&b.len().min(1));
    }
    let (mut left, mut right) = (elements_unchecked(ty, a), elements_unchecked(ty, b));
    for at in 0.. {
        let order = match (left.next(), right.next()) {
            (None, None) => return rest_of(&left, &right),
            (x, y) => nullable(element_type(ty, at), x.flatten(), y.flatten()),
        };
        if order != Ordering::Equal {
            return order;
        }
    }
    Ordering::Equal
}

fn nullable(ty: Option<&CqlType>, a: Option<&[u8]>, b: Option<&[u8]>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => compare(ty.unwrap_or(&CqlType::Blob), a, b),
        (a, b) => a.is_some().cmp(&b.is_some()),
    }
}

/// Bytes that could not be walked, which only damaged values have.
fn rest_of(a: &Elements<'_>, b: &Elements<'_>) -> Ordering {
    a.rest().cmp(b.rest())
}

#[cfg(test)]
mod tests {
    use super::super::collection::{pack_list, pack_tuple};
    use super::super::number::varint_bytes;
    use super::*;
    use num_bigint::BigInt;
    use proptest::prelude::*;

    fn rising(ty: &CqlType, values: &[Vec<u8>]) {
        for (at, a) in values.iter().enumerate() {
            for (bt, b) in values.iter().enumerate() {
                assert_eq!(compare(ty, a, b), at.cmp(&bt), "{ty} {a:?} {b:?}");
            }
        }
    }

    #[test]
    fn numbers() {
        let ints = [i32::MIN, -1, 0, 2, i32::MAX].map(|v| v.to_be_bytes().to_vec());
        rising(&CqlType::Int, &[vec![vec![]], ints.to_vec()].concat());
        let doubles = [f64::NEG_INFINITY, -1.0, -0.0, 0.0, f64::MIN_POSITIVE, f64::INFINITY, f64::NAN];
        rising(&CqlType::Double, &doubles.map(|v| v.to_be_bytes().to_vec()));
        let floats = [f32::NEG_INFINITY, -1.0, -0.0, 0.0, 1e-45, f32::INFINITY, f32::NAN];
        rising(&CqlType::Float, &floats.map(|v| v.to_be_bytes().to_vec()));
        rising(&CqlType::Boolean, &[vec![], vec![0], vec![1]]);
        assert_eq!(compare(&CqlType::Boolean, &[1], &[2]), Ordering::Equal);
        assert_eq!(compare(&CqlType::Varint, &[0, 0, 0, 1], &[1]), Ordering::Equal);
        assert_eq!(compare(&CqlType::Double, &f64::NAN.to_be_bytes(), &[0xff; 8]), Ordering::Equal);
    }

    #[test]
    fn text_dates_and_inets_compare_as_bytes() {
        let words = ["", "B", "ab", "b", "é", "😀"].map(|word| word.as_bytes().to_vec());
        rising(&CqlType::Text, &words);
        rising(&CqlType::Date, &[0u32, 1 << 31, u32::MAX].map(|v| v.to_be_bytes().to_vec()));
        rising(&CqlType::Inet, &[vec![1, 2, 3, 4], vec![127, 0, 0, 1], vec![255; 16]]);
    }

    #[test]
    fn uuids_sort_by_version_and_timeuuids_by_time() {
        let time = |ticks, low| uuid::version1(ticks, low).to_vec();
        let version4 = [0, 0, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
        rising(&CqlType::Uuid, &[vec![], time(1, [0; 8]), time(1, [0x80; 8]), time(1 << 40, [0; 8]), version4]);
        rising(
            &CqlType::TimeUuid,
            &[vec![], time(1, [0x80; 8]), time(1, [0; 8]), time(1, [0x7f; 8]), time(2, [0x80; 8])],
        );
    }

    #[test]
    fn collections_compare_by_elements_then_number() {
        let int = |v: i32| v.to_be_bytes();
        let list = |values: &[i32]| {
            let values: Vec<_> = values.iter().map(|v| int(*v)).collect();
            pack_list(values.iter().map(|v| Some(v.as_slice())))
        };
        rising(&CqlType::list(CqlType::Int).freeze(), &[vec![], list(&[]), list(&[-1]), list(&[-1, 5]), list(&[2])]);
        let tuple = |a: Option<i32>, b: Option<&str>| {
            let a = a.map(int);
            pack_tuple([a.as_ref().map(<[u8; 4]>::as_slice), b.map(str::as_bytes)])
        };
        let ty = CqlType::tuple([CqlType::Int, CqlType::Text]);
        rising(
            &ty,
            &[vec![], tuple(None, None), tuple(None, Some("a")), tuple(Some(1), None), tuple(Some(1), Some(""))],
        );
        let short = pack_tuple([Some(int(1).as_slice())]);
        assert_eq!(compare(&ty, &short, &tuple(Some(1), None)), Ordering::Equal);
    }

    fn any_type() -> impl Strategy<Value = CqlType> {
        let leaf = prop::sample::select(CqlType::NATIVE.to_vec());
        leaf.prop_recursive(2, 8, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|ty| CqlType::list(ty).freeze()),
                inner.clone().prop_map(|ty| CqlType::set(ty).freeze()),
                (inner.clone(), inner.clone()).prop_map(|(k, v)| CqlType::map(k, v).freeze()),
                prop::collection::vec(inner.clone(), 1..3).prop_map(CqlType::tuple),
                (inner, 1u16..4).prop_map(|(ty, n)| CqlType::vector(ty, n)),
            ]
        })
    }

    /// Few distinct bytes, so that values often share a beginning or a length that means something.
    fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0u8, 0, 0, 1, 2, 4, 0x10, 0x7f, 0x80, 0xff]), 0..24)
    }

    proptest! {
        #[test]
        fn order_is_total(ty in any_type(), a in any_bytes(), b in any_bytes(), c in any_bytes()) {
            prop_assert_eq!(compare(&ty, &a, &a), Ordering::Equal);
            prop_assert_eq!(compare(&ty, &a, &b), compare(&ty, &b, &a).reverse());
            let mut sorted = [&a, &b, &c];
            sorted.sort_by(|x, y| compare(&ty, x, y));
            prop_assert_ne!(compare(&ty, sorted[0], sorted[2]), Ordering::Greater);
            if compare(&ty, &a, &b) == Ordering::Equal {
                prop_assert_eq!(compare(&ty, &a, &c), compare(&ty, &b, &c));
            }
        }

        #[test]
        fn varints_agree_with_their_numbers(a: i128, b: i128, shift in 0u32..127, pad in 0usize..3) {
            let (a, b) = (BigInt::from(a >> shift), BigInt::from(b));
            let filler = if a < BigInt::ZERO { 0xff } else { 0 };
            let padded = [vec![filler; pad], varint_bytes(&a)].concat();
            prop_assert_eq!(compare(&CqlType::Varint, &padded, &varint_bytes(&b)), a.cmp(&b));
        }
    }
}
