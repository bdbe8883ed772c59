//! What a client has sent and nobody has taken yet: a buffer that is small until the client fills it, and how long a
//! frame may remain unfinished.

use std::rc::Rc;

use crate::net::budget::{Budget, Held};
use crate::net::limits::{KEPT_BYTES_MAX, RECEIVE_BYTES, RECEIVE_BYTES_MIN};

/// So many receives in a row that fill less than such a share of the buffer make it small again. Much less than what makes
/// it grow, so that a client's requests do not do both in turns.
const SMALL_RECEIVES: u32 = 16;
const SMALL_SHARE: usize = 16;

pub struct Undecoded {
    /// Received and not decoded; empty while a receive is under way.
    bytes: Vec<u8>,
    /// Room for the next receive.
    room_bytes: usize,
    /// Room beyond that for what an unfinished frame still lacks.
    ahead_bytes: usize,
    /// Counts the room beyond `RECEIVE_BYTES_MIN`.
    grown: Held,
    small_receives: u32,
    /// Received since an unfinished frame was last given time.
    progress_bytes: usize,
}

impl Undecoded {
    pub fn new(buffers: &Rc<Budget>) -> Self {
        Undecoded {
            bytes: Vec::new(),
            room_bytes: RECEIVE_BYTES_MIN,
            ahead_bytes: 0,
            grown: buffers.holder(),
            small_receives: 0,
            progress_bytes: 0,
        }
    }

    /// The buffer for a receive, behind what is in it.
    pub fn lend(&mut self) -> Vec<u8> {
        let mut buffer = std::mem::take(&mut self.bytes);
        let ahead_bytes = std::mem::take(&mut self.ahead_bytes);
        if buffer.capacity() - buffer.len() < enough(self.room_bytes) {
            buffer.reserve_exact(self.room_bytes + ahead_bytes);
        }
        buffer
    }

    /// Of an unfinished frame `held_bytes` are in the buffer and `missing_bytes` are to come: where the next receive needs
    /// a larger one, it grows by half of what it holds, so that no byte is copied many times. Gives what that may take
    /// beyond the room for a receive, for the caller to count.
    pub fn reserve_ahead(&mut self, held_bytes: usize, missing_bytes: usize) -> usize {
        self.ahead_bytes = (held_bytes / 2).min(missing_bytes).saturating_sub(self.room_bytes);
        self.ahead_bytes
    }

    /// The buffer comes back with `got` bytes more. Once STARTUP has come (`may_grow`), one that was filled is larger the
    /// next time, where there is room.
    pub fn give_back(&mut self, buffer: Vec<u8>, got: usize, may_grow: bool) {
        self.bytes = buffer;
        self.progress_bytes = self.progress_bytes.saturating_add(got);
        let room = self.room_bytes;
        if got >= enough(room) && room < RECEIVE_BYTES && may_grow {
            self.resize((4 * room).min(RECEIVE_BYTES));
            self.small_receives = 0;
        } else if got >= room / SMALL_SHARE {
            self.small_receives = 0;
        } else {
            self.small_receives += 1;
            if self.small_receives >= SMALL_RECEIVES && room > RECEIVE_BYTES_MIN {
                self.resize(RECEIVE_BYTES_MIN);
            }
        }
    }

    fn resize(&mut self, room_bytes: usize) {
        // Without room the buffer stays as it is: more receives take as much.
        if self.grown.resize(room_bytes - RECEIVE_BYTES_MIN).is_ok() {
            self.room_bytes = room_bytes;
        }
    }

    /// What is in it, to be decoded; `keep` takes back what is not.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Keeps what was received and not taken.
    pub fn keep(&mut self, mut buffer: Vec<u8>, taken_bytes: usize) {
        buffer.drain(..taken_bytes);
        let kept_max = if self.room_bytes == RECEIVE_BYTES { KEPT_BYTES_MAX } else { 2 * self.room_bytes };
        if buffer.capacity() > kept_max && buffer.len() <= self.room_bytes {
            buffer.shrink_to(self.room_bytes);
        }
        self.bytes = buffer;
    }

    /// Whether so much has come since the last call that a frame deserves more time.
    pub fn take_progress(&mut self, bytes: usize) -> bool {
        let is_enough = self.progress_bytes >= bytes;
        if is_enough {
            self.progress_bytes = 0;
        }
        is_enough
    }
}

/// What of the room may be left beside the beginning of a frame, so that each such beginning does not make another buffer;
/// a receive of so much has filled it.
fn enough(room_bytes: usize) -> usize {
    room_bytes - room_bytes / 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn receive(undecoded: &mut Undecoded, bytes: usize, may_grow: bool) -> usize {
        let mut buffer = undecoded.lend();
        let room = buffer.capacity() - buffer.len();
        let got = bytes.min(room);
        buffer.resize(buffer.len() + got, 7);
        undecoded.give_back(buffer, got, may_grow);
        let all = undecoded.take();
        let taken = all.len();
        undecoded.keep(all, taken);
        room
    }

    /// The buffer of a frame is moved so often while the frame comes, at every pace of receives.
    fn moves(frame_bytes: usize, receive_bytes: usize, may_grow: bool) -> usize {
        let budget = Budget::new("receive buffers", RECEIVE_BYTES);
        let mut undecoded = Undecoded::new(&budget);
        let (mut held_bytes, mut capacity, mut moves) = (0, 0, 0);
        while held_bytes < frame_bytes {
            let missing_bytes = frame_bytes - held_bytes;
            let ahead_bytes = undecoded.reserve_ahead(held_bytes, missing_bytes);
            let counted_bytes = held_bytes + ahead_bytes + undecoded.room_bytes;
            let mut buffer = undecoded.lend();
            moves += usize::from(buffer.capacity() != capacity);
            capacity = buffer.capacity();
            assert!(capacity <= counted_bytes.max(held_bytes + held_bytes / 2 + RECEIVE_BYTES));
            assert!(capacity <= frame_bytes + RECEIVE_BYTES, "no more than the frame");
            let got = receive_bytes.min(missing_bytes).min(capacity - held_bytes);
            held_bytes += got;
            buffer.resize(held_bytes, 7);
            undecoded.give_back(buffer, got, may_grow);
            let all = undecoded.take();
            undecoded.keep(all, 0);
        }
        moves
    }

    #[test]
    fn a_large_frame_is_not_moved_at_every_receive() {
        for receive_bytes in [1_448, RECEIVE_BYTES_MIN, RECEIVE_BYTES, usize::MAX] {
            for may_grow in [false, true] {
                let moves = moves(16 << 20, receive_bytes, may_grow);
                assert!(moves <= 32, "{moves} moves at {receive_bytes} bytes a receive");
            }
        }
    }

    #[test]
    fn the_buffer_grows_where_it_is_filled_and_shrinks_where_it_is_not() {
        let budget = Budget::new("receive buffers", RECEIVE_BYTES);
        let (mut one, mut other) = (Undecoded::new(&budget), Undecoded::new(&budget));
        for _ in 0..5 {
            assert_eq!(receive(&mut one, usize::MAX, false), RECEIVE_BYTES_MIN, "not before STARTUP");
        }
        for _ in 0..5 {
            receive(&mut one, usize::MAX, true);
        }
        assert!(receive(&mut one, usize::MAX, true) >= RECEIVE_BYTES);
        for _ in 0..5 {
            assert!(receive(&mut other, usize::MAX, true) < RECEIVE_BYTES, "there is room for one");
        }
        for _ in 0..=SMALL_RECEIVES {
            receive(&mut one, 10, true);
        }
        assert_eq!(receive(&mut one, 10, true), RECEIVE_BYTES_MIN);
        for _ in 0..5 {
            receive(&mut other, usize::MAX, true);
        }
        assert!(receive(&mut other, usize::MAX, true) >= RECEIVE_BYTES);
    }
}
