//! Random numbers from the kernel, fetched in blocks.

const BLOCK_WORDS: usize = 64;

#[derive(Default)]
pub(super) struct RandomPool {
    words: Vec<u64>,
}

impl RandomPool {
    pub(super) fn next(&mut self) -> u64 {
        if let Some(word) = self.words.pop() {
            return word;
        }
        self.refill();
        self.words.pop().expect("just filled")
    }

    fn refill(&mut self) {
        let mut block = [0u64; BLOCK_WORDS];
        let block_bytes = std::mem::size_of_val(&block);
        let mut filled = 0;
        while filled < block_bytes {
            // SAFETY: the block has `block_bytes - filled` writable bytes from there on.
            let got =
                unsafe { libc::getrandom(block.as_mut_ptr().cast::<u8>().add(filled).cast(), block_bytes - filled, 0) };
            match usize::try_from(got) {
                Ok(got) => filled += got,
                Err(_) => {
                    let error = std::io::Error::last_os_error();
                    assert_eq!(error.kind(), std::io::ErrorKind::Interrupted, "getrandom, which no kernel here lacks");
                }
            }
        }
        self.words.extend_from_slice(&block);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_differ_over_block_ends() {
        let mut pool = RandomPool::default();
        let seen: BTreeSet<u64> = (0..BLOCK_WORDS * 3).map(|_| pool.next()).collect();
        assert_eq!(seen.len(), BLOCK_WORDS * 3);
    }
}
