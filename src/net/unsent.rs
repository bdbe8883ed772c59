//! Answers that are encoded and not sent, in pieces of a size that one send is given.

use std::collections::VecDeque;

use crate::net::limits::{SEND_BYTES_MAX, SPARE_BYTES_MAX};

/// What one send is given.
pub struct Piece {
    pub bytes: Vec<u8>,
    /// When it could have been sent first.
    pub ready_ns: u64,
}

#[derive(Default)]
pub struct Unsent {
    /// In their order, of at most `SEND_BYTES_MAX` each.
    pieces: VecDeque<Piece>,
    /// Of the pieces, and of the one that is being sent.
    bytes: usize,
    /// Buffers of the last sends: while one is sent and one waits for that, one is filled.
    spares: [Vec<u8>; 2],
}

impl Unsent {
    pub fn len_bytes(&self) -> usize {
        self.bytes
    }

    /// Whether nothing waits but what is being sent.
    pub fn is_waiting(&self) -> bool {
        !self.pieces.is_empty()
    }

    /// Takes over what `out` holds, and leaves it an empty buffer. Nothing may be waiting.
    pub fn put(&mut self, out: &mut Vec<u8>, ready_ns: u64) {
        debug_assert!(!self.is_waiting(), "what waits is sent first");
        let [spare, other] = &mut self.spares;
        let spare = if spare.capacity() > 0 { spare } else { other };
        let mut full = std::mem::replace(out, std::mem::take(spare));
        self.bytes += full.len();
        // From the end, so that each byte moves once.
        while full.len() > SEND_BYTES_MAX {
            let last = (full.len() - 1) / SEND_BYTES_MAX * SEND_BYTES_MAX;
            self.pieces.push_front(Piece { bytes: full.split_off(last), ready_ns });
            full.shrink_to(SEND_BYTES_MAX);
        }
        self.pieces.push_front(Piece { bytes: full, ready_ns });
    }

    /// The next piece, to be sent.
    pub fn next(&mut self) -> Option<Piece> {
        self.pieces.pop_front()
    }

    /// The piece that was being sent has gone.
    pub fn sent(&mut self, mut buffer: Vec<u8>) {
        self.bytes -= buffer.len();
        buffer.clear();
        if buffer.capacity() <= SPARE_BYTES_MAX
            && let Some(place) = self.spares.iter_mut().find(|spare| spare.capacity() == 0)
        {
            *place = buffer;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_is_given_so_much_and_no_more_in_order() {
        for len in
            [1, SEND_BYTES_MAX - 1, SEND_BYTES_MAX, SEND_BYTES_MAX + 1, 5 * SEND_BYTES_MAX, 5 * SEND_BYTES_MAX + 7]
        {
            let all: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
            let (mut unsent, mut out) = (Unsent::default(), all.clone());
            unsent.put(&mut out, 5);
            assert!(out.is_empty());
            let (mut gone, mut sends) = (Vec::new(), 0);
            while let Some(piece) = unsent.next() {
                assert_eq!(unsent.len_bytes(), len - gone.len());
                assert!(piece.ready_ns == 5 && (1..=SEND_BYTES_MAX).contains(&piece.bytes.len()));
                assert!(piece.bytes.capacity() <= 2 * SEND_BYTES_MAX, "what is not sent is not kept");
                gone.extend_from_slice(&piece.bytes);
                unsent.sent(piece.bytes);
                sends += 1;
            }
            assert!(gone == all && sends == len.div_ceil(SEND_BYTES_MAX), "{len} bytes in {sends} sends");
            assert_eq!((unsent.len_bytes(), unsent.is_waiting()), (0, false));
        }
    }

    #[test]
    fn a_large_buffer_is_given_back_and_a_small_one_used_again() {
        let (mut unsent, mut out) = (Unsent::default(), Vec::with_capacity(2 * SPARE_BYTES_MAX));
        for kept in [false, true] {
            out.push(1);
            let capacity = out.capacity();
            unsent.put(&mut out, 0);
            unsent.next().into_iter().for_each(|piece| unsent.sent(piece.bytes));
            out.push(1);
            unsent.put(&mut out, 0);
            unsent.next().into_iter().for_each(|piece| unsent.sent(piece.bytes));
            assert_eq!(out.capacity() == capacity, kept);
            out = Vec::with_capacity(100);
        }
    }
}
