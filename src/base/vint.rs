//! Variable-length integers: seven bits a byte, least significant first; the high bit says that another byte follows.
//! Signed values are zigzag-coded first.

/// The longest encoding of a `u64`.
pub const VINT_BYTES_MAX: usize = 10;

/// Appends `value`.
pub fn write_u64(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends `value`, zigzag-coded so that small negative numbers are short.
pub fn write_i64(out: &mut Vec<u8>, value: i64) {
    write_u64(out, zigzag(value));
}

/// Takes one integer off the front of `input`. `None` where it ends early or does not fit 64 bits.
pub fn read_u64(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for at in 0..VINT_BYTES_MAX {
        let byte = *input.get(at)?;
        let bits = u64::from(byte & 0x7f);
        if at == VINT_BYTES_MAX - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * at);
        if byte & 0x80 == 0 {
            *input = input.get(at + 1..)?;
            return Some(value);
        }
    }
    None
}

/// Takes one zigzag-coded integer off the front of `input`.
pub fn read_i64(input: &mut &[u8]) -> Option<i64> {
    read_u64(input).map(unzigzag)
}

/// How many bytes `write_u64` appends for `value`.
pub fn len_u64(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn unsigned_round_trip(value: u64) {
            let mut out = Vec::new();
            write_u64(&mut out, value);
            prop_assert_eq!(out.len(), len_u64(value));
            let mut input = out.as_slice();
            prop_assert_eq!(read_u64(&mut input), Some(value));
            prop_assert!(input.is_empty());
        }

        #[test]
        fn signed_round_trip(value: i64) {
            let mut out = Vec::new();
            write_i64(&mut out, value);
            prop_assert_eq!(read_i64(&mut out.as_slice()), Some(value));
        }

        #[test]
        fn any_bytes_give_a_value_or_none(bytes: Vec<u8>) {
            let mut input = bytes.as_slice();
            let _ = read_u64(&mut input);
            prop_assert!(input.len() <= bytes.len());
        }
    }

    #[test]
    fn too_long_or_cut_short_is_none() {
        assert_eq!(read_u64(&mut [0x80u8; 3].as_slice()), None);
        assert_eq!(read_u64(&mut [0xffu8; 11].as_slice()), None);
        assert_eq!(read_u64(&mut [].as_slice()), None);
    }
}
