//! The variable-length integers of Cassandra's wire values: durations, and the lengths of vector elements.
//! The leading one bits of the first byte count the bytes that follow; the rest is big-endian.
//! Signed values are zigzag-coded first. (The engine's own formats use `base::vint`.)

/// Appends `value`.
pub fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    let extra = extra_bytes(value);
    let bytes = value.to_be_bytes();
    if extra == 8 {
        out.push(0xff);
        out.extend_from_slice(&bytes);
        return;
    }
    let start = out.len();
    out.extend(bytes.into_iter().skip(7 - extra));
    let ones = !(0xffu8 >> extra);
    if let Some(first) = out.get_mut(start) {
        *first |= ones;
    }
}

/// Appends `value`, zigzag-coded.
pub fn write_signed(out: &mut Vec<u8>, value: i64) {
    write_unsigned(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Takes one integer off the front of `input`; `None` where it ends early.
pub fn read_unsigned(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first()?;
    let extra = first.leading_ones() as usize;
    let (tail, rest) = rest.split_at_checked(extra)?;
    let head = u64::from(first) & (0xffu64 >> extra);
    *input = rest;
    Some(tail.iter().fold(head, |value, &byte| (value << 8) | u64::from(byte)))
}

/// Takes one zigzag-coded integer off the front of `input`.
pub fn read_signed(input: &mut &[u8]) -> Option<i64> {
    read_unsigned(input).map(|value| (value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

/// The bytes after the first: each adds seven bits, the eighth one eight.
fn extra_bytes(value: u64) -> usize {
    let bits = 64 - (value | 1).leading_zeros() as usize;
    if bits > 56 { 8 } else { (bits - 1) / 7 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        write_unsigned(&mut out, value);
        out
    }

    #[test]
    fn known_forms() {
        assert_eq!(encoded(0), [0]);
        assert_eq!(encoded(127), [0x7f]);
        assert_eq!(encoded(128), [0x80, 0x80]);
        assert_eq!(encoded(16_384), [0xc0, 0x40, 0x00]);
        assert_eq!(encoded((1 << 56) - 1), [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(encoded(1 << 56), [0xff, 1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encoded(u64::MAX), [0xff; 9]);
    }

    proptest! {
        #[test]
        fn unsigned_round_trip(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let out = encoded(value);
            let mut input = out.as_slice();
            prop_assert_eq!(read_unsigned(&mut input), Some(value));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn signed_round_trip(value: i64, shift in 0u32..64) {
            let value = value >> shift;
            let mut out = Vec::new();
            write_signed(&mut out, value);
            prop_assert_eq!(read_signed(&mut out.as_slice()), Some(value));
        }

        #[test]
        fn any_bytes_give_a_value_or_none(bytes: Vec<u8>) {
            let mut input = bytes.as_slice();
            let _ = read_signed(&mut input);
            prop_assert!(input.len() <= bytes.len());
        }
    }
}
