//! Searches of long texts, many bytes at a step: what a client sends between tokens costs next to nothing.

/// Bytes of one step: a test without branches over so many is a few vector instructions.
const STEP_BYTES: usize = 32;

/// Where the first byte stands that satisfies the test; one without branches is fast.
pub fn find(bytes: &[u8], test: impl Fn(u8) -> bool) -> Option<usize> {
    let (steps, _) = bytes.as_chunks::<STEP_BYTES>();
    let any = |step: &[u8; STEP_BYTES]| step.iter().fold(false, |found, byte| found | test(*byte));
    let passed = steps.iter().position(any).unwrap_or(steps.len()) * STEP_BYTES;
    bytes.get(passed..)?.iter().position(|byte| test(*byte)).map(|at| passed + at)
}

/// Where these two bytes first stand side by side.
pub fn find_pair(bytes: &[u8], [first, second]: [u8; 2]) -> Option<usize> {
    let behind = bytes.get(1..)?;
    let (firsts, _) = bytes.as_chunks::<STEP_BYTES>();
    let (seconds, _) = behind.as_chunks::<STEP_BYTES>();
    let any = |(a, b): (&[u8; STEP_BYTES], &[u8; STEP_BYTES])| {
        a.iter().zip(b).fold(false, |found, (a, b)| found | ((*a == first) & (*b == second)))
    };
    let passed = firsts.iter().zip(seconds).position(any).unwrap_or(seconds.len()) * STEP_BYTES;
    bytes.get(passed..)?.windows(2).position(|pair| pair == [first, second]).map(|at| passed + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_place_is_found_wherever_it_is(text in "[ab*/]{0,140}") {
            let bytes = text.as_bytes();
            prop_assert_eq!(find(bytes, |byte| byte == b'/'), text.find('/'));
            prop_assert_eq!(find_pair(bytes, *b"*/"), text.find("*/"));
            prop_assert_eq!(find_pair(bytes, *b"**"), text.find("**"));
        }
    }

    #[test]
    fn pairs_are_found_across_steps() {
        for before in 0..100 {
            let text = format!("{}*/{}", "*".repeat(before), "/".repeat(50));
            assert_eq!(find_pair(text.as_bytes(), *b"*/"), Some(before));
        }
        assert_eq!(find_pair(b"", *b"*/"), None);
        assert_eq!(find_pair(b"*", *b"*/"), None);
    }
}
