//! Bytes for tests.

/// Bytes that no compressor makes shorter (xorshift64).
pub fn noise(len_bytes: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    (0..len_bytes).map(|_| next()).collect()
}
