//! Serialised partition keys: one column's value as it is; several in Cassandra's composite form, each a two-byte
//! big-endian length, the value, and a zero byte.

/// Cassandra's limit of a partition key.
pub const PARTITION_KEY_BYTES_MAX: usize = 65_535;

/// Joins the values of the partition key's columns. The caller has checked their lengths against
/// `PARTITION_KEY_BYTES_MAX`.
pub fn join<'a>(values: impl ExactSizeIterator<Item = &'a [u8]>) -> Vec<u8> {
    let is_single = values.len() == 1;
    let mut key = Vec::new();
    values.for_each(|value| push(&mut key, is_single, value));
    key
}

/// Appends a component, or the whole key where it is the only one.
pub fn push(key: &mut Vec<u8>, is_single: bool, value: &[u8]) {
    if is_single {
        return key.extend_from_slice(value);
    }
    let len = u16::try_from(value.len()).expect("key components are limited to 65,535 bytes when bound");
    key.extend_from_slice(&len.to_be_bytes());
    key.extend_from_slice(value);
    key.push(0);
}

/// The components of a composite key, in order. Stops at the first malformed one.
pub fn components(mut key: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = key.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_be_bytes(*len));
        let value = rest.get(..len)?;
        key = rest.get(len + 1..)?;
        Some(value)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_column_stands_as_it_is() {
        assert_eq!(join([b"abc".as_slice()].into_iter()), b"abc");
    }

    #[test]
    fn several_columns_come_back_in_order() {
        let key = join([b"a".as_slice(), b"", b"xyz"].into_iter());
        assert_eq!(key, b"\0\x01a\0\0\0\0\0\x03xyz\0");
        assert_eq!(components(&key).collect::<Vec<_>>(), [b"a".as_slice(), b"", b"xyz"]);
    }

    #[test]
    fn lengths_that_lie_end_the_walk() {
        assert_eq!(components(b"\0\x09a\0").count(), 0);
        assert_eq!(components(b"\0").count(), 0);
    }
}
