//! UUIDs: their text, their version, and the time within those of version 1.

/// Milliseconds from the start of the Gregorian calendar (1582-10-15), from which version 1 counts, to 1970.
const GREGORIAN_TO_UNIX_MS: i64 = 12_219_292_800_000;
const TICKS_PER_MS: i64 = 10_000;
/// The low half that sorts before, and after, every other: its bytes compare signed.
const LOW_MIN: [u8; 8] = [0x80; 8];
const LOW_MAX: [u8; 8] = [0x7f; 8];

/// Reads `8-4-4-4-12` hexadecimal digits.
pub fn parse(text: &str) -> Option<[u8; 16]> {
    let groups = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    if !groups {
        return None;
    }
    let digits: String = text.chars().filter(|c| *c != '-').collect();
    super::literal::decode_hex(&digits)?.try_into().ok()
}

/// Writes it in lower case with hyphens.
pub fn format(bytes: &[u8; 16]) -> String {
    ::uuid::Uuid::from_bytes(*bytes).hyphenated().to_string()
}

/// The version, from the four bits that hold it.
pub fn version(bytes: &[u8; 16]) -> u8 {
    let [.., version, _, _, _, _, _, _, _, _, _] = bytes;
    version >> 4
}

/// The high half with the bits of the time in order, so that whole numbers compare as times do.
pub(super) fn time_ordered(bytes: &[u8; 16]) -> u64 {
    let high = u64::from_be_bytes(halves(bytes).0);
    (high << 48) | ((high << 16) & 0xffff_0000_0000) | (high >> 32)
}

pub(super) fn halves(bytes: &[u8; 16]) -> ([u8; 8], [u8; 8]) {
    let value = u128::from_be_bytes(*bytes);
    let high = u64::try_from(value >> 64).unwrap_or(0);
    let low = u64::try_from(value & u128::from(u64::MAX)).unwrap_or(0);
    (high.to_be_bytes(), low.to_be_bytes())
}

/// 100 ns ticks since 1582-10-15 of a version 1 UUID.
pub fn ticks(bytes: &[u8; 16]) -> i64 {
    (time_ordered(bytes) & 0x0fff_ffff_ffff_ffff).cast_signed()
}

/// Milliseconds since 1970 of a version 1 UUID, rounded to zero within Gregorian time as Java's division does.
pub fn unix_ms(bytes: &[u8; 16]) -> i64 {
    ticks(bytes) / TICKS_PER_MS - GREGORIAN_TO_UNIX_MS
}

/// A version 1 UUID of this many ticks since 1582 and these low eight bytes (clock sequence and node).
pub fn version1(ticks: i64, low: [u8; 8]) -> [u8; 16] {
    let ticks = ticks.cast_unsigned();
    let high = (ticks << 32) | ((ticks >> 16) & 0xffff_0000) | 0x1000 | ((ticks >> 48) & 0x0fff);
    (u128::from(high) << 64 | u128::from(u64::from_be_bytes(low))).to_be_bytes()
}

/// The first tick of a millisecond since 1970. Wraps outside the years 1582 to 5236, as Cassandra's does.
pub fn ticks_of_unix_ms(unix_ms: i64) -> i64 {
    unix_ms.wrapping_add(GREGORIAN_TO_UNIX_MS).wrapping_mul(TICKS_PER_MS)
}

/// No timeuuid of this millisecond sorts before it.
pub fn min_timeuuid(unix_ms: i64) -> [u8; 16] {
    version1(ticks_of_unix_ms(unix_ms), LOW_MIN)
}

/// No timeuuid of this millisecond sorts after it.
pub fn max_timeuuid(unix_ms: i64) -> [u8; 16] {
    version1(ticks_of_unix_ms(unix_ms.wrapping_add(1)).wrapping_sub(1), LOW_MAX)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_and_version() {
        let text = "123e4567-e89b-12d3-a456-426614174000";
        let uuid = parse(text).unwrap();
        assert_eq!(format(&uuid), text);
        assert_eq!(format(&parse(&text.to_uppercase()).unwrap()), text);
        assert_eq!(version(&uuid), 1);
        assert_eq!(unix_ms(&uuid), 8_156_923_288_545);
        for wrong in ["", "x", "123e4567e89b12d3a456426614174000", "123e4567-e89b-12d3-a456-42661417400", "é"] {
            assert_eq!(parse(wrong), None);
        }
    }

    #[test]
    fn bounds_of_a_millisecond_are_cassandras() {
        assert_eq!(format(&min_timeuuid(1_577_836_800_000)), "a747c000-2c29-11ea-8080-808080808080");
        assert_eq!(format(&max_timeuuid(0)), "1381670f-1dd2-11b2-7f7f-7f7f7f7f7f7f");
        assert_eq!(format(&min_timeuuid(-1)), "138118f0-1dd2-11b2-8080-808080808080");
    }

    proptest! {
        #[test]
        fn text_round_trips(bytes: [u8; 16]) {
            prop_assert_eq!(parse(&format(&bytes)), Some(bytes));
        }

        #[test]
        fn time_round_trips(ms in -12_219_292_800_000i64..100_000_000_000_000, low: [u8; 8]) {
            let uuid = version1(ticks_of_unix_ms(ms), low);
            prop_assert_eq!(version(&uuid), 1);
            prop_assert_eq!(unix_ms(&uuid), ms);
            prop_assert_eq!(unix_ms(&max_timeuuid(ms)), ms);
            prop_assert_eq!(halves(&uuid).1, low);
        }
    }
}
