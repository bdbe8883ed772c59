//! Who is told of events.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::task::Waker;

use crate::protocol::{Event, EventKind};

/// One connection's place for events.
pub struct Inbox {
    kinds: RefCell<Vec<EventKind>>,
    waiting: RefCell<VecDeque<Event>>,
    waiting_max: usize,
    /// More events came than may wait.
    overflowed: Cell<bool>,
    /// Whether something may have changed since the connection looked.
    pub woken: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl Inbox {
    pub fn new(waiting_max: usize) -> Self {
        Inbox {
            kinds: RefCell::default(),
            waiting: RefCell::default(),
            waiting_max,
            overflowed: Cell::new(false),
            woken: Cell::new(false),
            waker: RefCell::default(),
        }
    }

    /// Wants events of these kinds from now on.
    pub fn register(&self, kinds: &[EventKind]) {
        let mut wanted = self.kinds.borrow_mut();
        for kind in kinds {
            if !wanted.contains(kind) {
                wanted.push(*kind);
            }
        }
    }

    /// The next event.
    pub fn next(&self) -> Option<Event> {
        self.waiting.borrow_mut().pop_front()
    }

    /// Whether events were lost, because more came than may wait.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed.get()
    }

    fn put(&self, event: &Event) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() < self.waiting_max {
            waiting.push_back(event.clone());
        } else {
            self.overflowed.set(true);
        }
    }

    /// Wakes the connection's task at the next event.
    pub fn wait(&self, waker: &Waker) {
        let mut waiting = self.waker.borrow_mut();
        if !waiting.as_ref().is_some_and(|waiting| waiting.will_wake(waker)) {
            *waiting = Some(waker.clone());
        }
    }

    fn wake(&self) {
        self.woken.set(true);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }
}

/// The inboxes of this shard's connections.
#[derive(Default)]
pub struct Listeners(RefCell<Vec<Weak<Inbox>>>);

impl Listeners {
    pub fn add(&self, inbox: &Rc<Inbox>) {
        let mut inboxes = self.0.borrow_mut();
        inboxes.retain(|inbox| inbox.strong_count() > 0);
        inboxes.push(Rc::downgrade(inbox));
    }

    /// Tells every connection that has registered for such events.
    pub fn tell(&self, event: &Event) {
        for inbox in self.0.borrow().iter().filter_map(Weak::upgrade) {
            if inbox.kinds.borrow().contains(&event.kind()) {
                inbox.put(event);
                inbox.wake();
            }
        }
    }

    pub fn wake_all(&self) {
        self.0.borrow().iter().filter_map(Weak::upgrade).for_each(|inbox| inbox.wake());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Change, SchemaChange};

    #[test]
    fn only_those_who_registered_are_told() {
        let listeners = Listeners::default();
        let (wants, other) = (Rc::new(Inbox::new(2)), Rc::new(Inbox::new(2)));
        listeners.add(&wants);
        listeners.add(&other);
        wants.register(&[EventKind::SchemaChange, EventKind::SchemaChange]);
        other.register(&[EventKind::StatusChange]);
        let event = Event::Schema(SchemaChange::keyspace(Change::Created, "ks"));
        listeners.tell(&event);
        assert_eq!((wants.next(), wants.next()), (Some(event.clone()), None));
        assert_eq!(other.next(), None);
        assert!(wants.woken.get() && !other.woken.get());
        for _ in 0..3 {
            assert!(!wants.has_overflowed());
            listeners.tell(&event);
        }
        assert!(wants.has_overflowed() && !other.has_overflowed());
        assert_eq!((wants.next(), wants.next(), wants.next()), (Some(event.clone()), Some(event), None));
    }
}
