//! What one read holds of its connection's answers: the rows it has gathered, and the page that it waits for.

use std::cell::{Cell, RefCell};

use crate::net::budget::Held;
use crate::protocol::CqlError;
use crate::router::PageRoom;

/// The least that a page is expected to be.
const PAGE_BYTES_MIN: usize = 1 << 10;

/// What is expected while at least half of the room is free: a page that is larger than expected is read twice.
const AMPLE_PAGE_BYTES: usize = 64 << 10;

pub struct Room {
    held: RefCell<Held>,
    gathered_bytes: Cell<usize>,
    expected_bytes: usize,
}

impl Room {
    /// `expected_bytes`: a page may well be so large, by the last answers.
    pub fn new(held: Held, expected_bytes: usize) -> Self {
        let expected_bytes = expected_bytes.saturating_add(expected_bytes / 4).max(PAGE_BYTES_MIN);
        Room { held: RefCell::new(held), gathered_bytes: Cell::new(0), expected_bytes }
    }

    /// So many bytes of rows are there now, and no page is waited for.
    pub fn gathered(&self, bytes: usize) -> Result<(), CqlError> {
        self.gathered_bytes.set(bytes);
        self.take(0)
    }

    pub fn into_held(self) -> Held {
        self.held.into_inner()
    }
}

impl PageRoom for Room {
    /// Where what the last answers had has no place, a small page may have one.
    fn expect(&self) -> Result<usize, CqlError> {
        let ample_bytes = self.expected_bytes.max(AMPLE_PAGE_BYTES);
        if self.held.borrow_mut().resize_if_ample(self.gathered_bytes.get().saturating_add(ample_bytes)) {
            return Ok(ample_bytes);
        }
        match self.take(self.expected_bytes) {
            Ok(()) => Ok(self.expected_bytes),
            Err(_) => self.take(PAGE_BYTES_MIN).map(|()| PAGE_BYTES_MIN),
        }
    }

    fn take(&self, bytes: usize) -> Result<(), CqlError> {
        self.held.borrow_mut().resize(self.gathered_bytes.get().saturating_add(bytes))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::net::budget::Budget;

    #[test]
    fn a_page_is_counted_before_it_is_there_and_beside_what_was_gathered() {
        let budget = Budget::new("answers", 10_000);
        let other = budget.hold(1_000).unwrap();
        let room = Room::new(budget.holder(), 4_000);
        assert_eq!(room.expect().unwrap(), 5_000);
        assert!(budget.hold(4_001).is_err());
        room.gathered(6_000).unwrap();
        assert!(budget.hold(3_001).is_err());
        assert_eq!(room.expect().unwrap(), PAGE_BYTES_MIN, "what is expected has no room any more");
        assert!(room.take(3_001).is_err());
        room.take(3_000).unwrap();
        room.gathered(10).unwrap();
        let held = room.into_held();
        drop(budget.hold(8_990).unwrap());
        drop((held, other));
        budget.hold(10_000).unwrap();
    }
    #[test]
    fn a_page_of_unknown_size_is_expected_to_be_large_while_half_of_the_room_is_free() {
        let whole = Budget::new("answers", 10 * AMPLE_PAGE_BYTES);
        let share = whole.share(4 * AMPLE_PAGE_BYTES);
        let rooms: Vec<Room> = (0..3).map(|_| Room::new(share.holder(), 0)).collect();
        let expected: Vec<usize> = rooms.iter().map(|room| room.expect().unwrap()).collect();
        assert_eq!(expected, [AMPLE_PAGE_BYTES, AMPLE_PAGE_BYTES, PAGE_BYTES_MIN], "half of its own share");
        rooms[0].gathered(10).unwrap();
        assert_eq!(rooms[0].expect().unwrap(), PAGE_BYTES_MIN, "with what was gathered it is more than half");
        drop(rooms);
        let room = Room::new(share.holder(), 0);
        let other = whole.hold(4 * AMPLE_PAGE_BYTES + 1).unwrap();
        assert_eq!(room.expect().unwrap(), PAGE_BYTES_MIN, "half of the whole");
        drop(other);
        assert_eq!(room.expect().unwrap(), AMPLE_PAGE_BYTES);
        assert_eq!(Room::new(whole.holder(), 2 * AMPLE_PAGE_BYTES).expect().unwrap(), 5 * AMPLE_PAGE_BYTES / 2);
    }
}
