//! The trace of a simulation: one hash over every decision, operation and completion. Two runs of a seed that give
//! different hashes are not deterministic; the kept events (`keep`) then say where they part.

use std::cell::{Cell, RefCell};

/// What happened. The two operands of an event say to what: see where each is noted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    Spawn = 1,
    Poll,
    Done,
    Timer,
    Read,
    WriteStart,
    WriteDone,
    Sync,
    Resize,
    Name,
    Fault,
    MeshSend,
    MeshReceive,
    Connect,
    Send,
    Receive,
    Close,
    Start,
    Crash,
    FailStop,
    WallJump,
    Random,
    Outside,
}

/// One event: its kind, the virtual time, two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub kind: Kind,
    pub at_ns: u64,
    pub a: u64,
    pub b: u64,
}

#[derive(Default)]
pub(super) struct Trace {
    hash: Cell<u64>,
    events: Cell<u64>,
    kept: RefCell<Option<Vec<Event>>>,
}

impl Trace {
    pub fn note(&self, kind: Kind, at_ns: u64, a: u64, b: u64) {
        let mut hash = self.hash.get();
        for word in [kind as u64, at_ns, a, b] {
            hash = (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            hash ^= hash >> 32;
        }
        self.hash.set(hash);
        self.events.set(self.events.get() + 1);
        if let Some(kept) = self.kept.borrow_mut().as_mut() {
            kept.push(Event { kind, at_ns, a, b });
        }
    }

    pub fn hash(&self) -> u64 {
        self.hash.get()
    }

    pub fn events(&self) -> u64 {
        self.events.get()
    }

    /// From here on events are kept, not only hashed.
    pub fn keep(&self) {
        self.kept.borrow_mut().get_or_insert_default();
    }

    /// Takes what was kept.
    pub fn take(&self) -> Vec<Event> {
        self.kept.borrow_mut().as_mut().map(std::mem::take).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_depends_on_kind_time_operands_and_order() {
        let hash = |events: &[(Kind, u64, u64, u64)]| {
            let trace = Trace::default();
            events.iter().for_each(|(kind, at, a, b)| trace.note(*kind, *at, *a, *b));
            trace.hash()
        };
        let base = hash(&[(Kind::Poll, 1, 2, 3), (Kind::Poll, 2, 3, 4)]);
        assert_eq!(base, hash(&[(Kind::Poll, 1, 2, 3), (Kind::Poll, 2, 3, 4)]));
        assert_ne!(base, hash(&[(Kind::Done, 1, 2, 3), (Kind::Poll, 2, 3, 4)]));
        assert_ne!(base, hash(&[(Kind::Poll, 1, 2, 3), (Kind::Poll, 2, 3, 5)]));
        assert_ne!(base, hash(&[(Kind::Poll, 2, 3, 4), (Kind::Poll, 1, 2, 3)]));
        assert_ne!(base, hash(&[(Kind::Poll, 1, 2, 3)]));
    }

    #[test]
    fn events_are_kept_only_when_asked() {
        let trace = Trace::default();
        trace.note(Kind::Poll, 1, 0, 0);
        assert!(trace.take().is_empty());
        trace.keep();
        trace.note(Kind::Timer, 2, 5, 0);
        assert_eq!(trace.take(), vec![Event { kind: Kind::Timer, at_ns: 2, a: 5, b: 0 }]);
        assert_eq!(trace.events(), 2);
    }
}
