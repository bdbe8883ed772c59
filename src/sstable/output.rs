//! The bytes of a file on their way to it: filled in place into aligned buffers, handed out in whole pages.

use std::collections::VecDeque;

use crate::io::{ALIGN_BYTES, AlignedBuf};

/// A buffer goes to the device when it holds this much.
pub const WRITE_BYTES: usize = 256 * 1024;
/// Room behind that for the block that fills it up.
const SLACK_BYTES: usize = 64 * 1024;
/// The first buffer of a file, of which nothing is known yet: many are smaller than one write.
const FIRST_BYTES: usize = 32 * 1024;
/// Written buffers kept for use again.
const SPARE_MAX: usize = 4;

/// Buffers being filled and full ones that wait to be written.
pub struct Output {
    current: AlignedBuf,
    filled: usize,
    /// Where `current` starts in the file: a multiple of the alignment.
    start_bytes: u64,
    full: VecDeque<(AlignedBuf, u64)>,
    spare: Vec<AlignedBuf>,
}

impl Output {
    pub fn new() -> Self {
        Output {
            current: AlignedBuf::new(FIRST_BYTES),
            filled: 0,
            start_bytes: 0,
            full: VecDeque::new(),
            spare: Vec::new(),
        }
    }

    /// Where in the file the next byte goes.
    pub fn offset_bytes(&self) -> u64 {
        self.start_bytes + self.filled as u64
    }

    /// Room for up to `len` bytes at `offset_bytes`; `advance` says how many were used.
    pub fn room(&mut self, len: usize) -> &mut [u8] {
        if self.filled + len > self.current.capacity() {
            self.turn(len);
        }
        &mut self.current[self.filled..]
    }

    pub fn advance(&mut self, len: usize) {
        self.filled += len;
        assert!(self.filled <= self.current.capacity(), "no more than the room that was given");
        if self.filled >= WRITE_BYTES {
            self.turn(0);
        }
    }

    pub fn append(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.advance(bytes.len());
    }

    /// Zeros until `tail_bytes` more end on a page.
    pub fn pad_for(&mut self, tail_bytes: usize) {
        let zeros = (self.filled + tail_bytes).next_multiple_of(ALIGN_BYTES) - (self.filled + tail_bytes);
        self.room(zeros)[..zeros].fill(0);
        self.advance(zeros);
    }

    /// Takes a buffer that is ready to be written, and where it goes.
    pub fn take_full(&mut self) -> Option<(AlignedBuf, u64)> {
        self.full.pop_front()
    }

    /// Gives a written buffer back.
    pub fn recycle(&mut self, buf: AlignedBuf) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(buf);
        }
    }

    /// Everything is filled in: hands out the rest, which ends on a page.
    pub fn finish(&mut self) {
        assert!(self.filled.is_multiple_of(ALIGN_BYTES), "the footer ends on a page");
        let mut full = std::mem::replace(&mut self.current, AlignedBuf::new(0));
        full.set_len(self.filled);
        if self.filled > 0 {
            self.full.push_back((full, self.start_bytes));
        }
        self.start_bytes += self.filled as u64;
        self.filled = 0;
    }

    /// Queues the whole pages of the current buffer and goes on in another one, with room for `len`.
    fn turn(&mut self, len: usize) {
        let whole = self.filled / ALIGN_BYTES * ALIGN_BYTES;
        let rest = self.filled - whole;
        let wanted = (rest + len).max(WRITE_BYTES + SLACK_BYTES);
        let mut next = match self.spare.iter().position(|buf| buf.capacity() >= wanted) {
            Some(at) => self.spare.swap_remove(at),
            None => AlignedBuf::new(wanted),
        };
        next.set_len(next.capacity());
        next[..rest].copy_from_slice(&self.current[whole..self.filled]);
        let mut full = std::mem::replace(&mut self.current, next);
        if whole > 0 {
            full.set_len(whole);
            self.full.push_back((full, self.start_bytes));
        }
        self.start_bytes += whole as u64;
        self.filled = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a file would hold after all that was handed out.
    fn drain(output: &mut Output, file: &mut Vec<u8>) {
        while let Some((buf, offset)) = output.take_full() {
            assert_eq!(offset, file.len() as u64);
            assert_eq!(buf.len() % ALIGN_BYTES, 0);
            file.extend_from_slice(&buf);
            output.recycle(buf);
        }
    }

    #[test]
    fn every_byte_comes_out_once_and_in_order() {
        let mut output = Output::new();
        let (mut file, mut model) = (Vec::new(), Vec::new());
        for n in 0..4000usize {
            let bytes = vec![n as u8; (n * 37) % 1500];
            assert_eq!(output.offset_bytes(), model.len() as u64);
            output.append(&bytes);
            model.extend_from_slice(&bytes);
            if n % 50 == 0 {
                drain(&mut output, &mut file);
            }
        }
        let large = vec![9; 3 * WRITE_BYTES + 17];
        output.append(&large);
        model.extend_from_slice(&large);
        output.pad_for(80);
        output.append(&[7; 80]);
        output.finish();
        drain(&mut output, &mut file);
        assert_eq!(file.len() % ALIGN_BYTES, 0);
        assert!(file[model.len()..file.len() - 80].iter().all(|byte| *byte == 0));
        assert!(file.starts_with(&model) && file.ends_with(&[7; 80]));
    }

    #[test]
    fn room_that_was_not_used_is_not_written() {
        let mut output = Output::new();
        output.room(100).fill(1);
        output.advance(10);
        output.room(WRITE_BYTES * 2).fill(2);
        output.advance(4086);
        assert_eq!(output.offset_bytes(), 4096);
        output.finish();
        let (buf, offset) = output.take_full().expect("one page");
        assert_eq!((buf.len(), offset, buf[9], buf[10]), (4096, 0, 1, 2));
        assert!(output.take_full().is_none());
    }
}
