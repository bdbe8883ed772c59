//! What will happen at a known virtual time: sleeps that end, wakes, writes that complete. A heap of times over a slab
//! of events, so that an event can be cancelled or picked up by its key without a search.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::task::Waker;

use super::file::OpenFile;
use super::scheduler::Owner;
use crate::io::AlignedBuf;

/// A write under way. It owns its buffer and keeps its file open; it completes also after its future was dropped.
pub(super) struct WriteInFlight {
    pub owner: Owner,
    pub file: Rc<OpenFile>,
    pub offset_bytes: u64,
    pub buf: AlignedBuf,
    pub synced: bool,
    pub waker: Option<Waker>,
    /// Nobody waits for it any more.
    pub detached: bool,
}

pub(super) enum Event {
    /// A sleep whose end has not come.
    Sleep(Option<Waker>),
    /// A sleep that has ended and was not seen yet.
    Slept,
    /// A wake for which nobody holds the key.
    Wake(Waker),
    Write(WriteInFlight),
    /// A write that has completed and was not seen yet.
    Written(AlignedBuf, Result<(), i32>),
}

/// What an event that is due asks for.
pub(super) enum Fired {
    Nothing,
    Wake(Waker),
    Slept(Option<Waker>),
    /// To be carried out, and then put back as `Event::Written` or removed.
    Write(WriteInFlight),
}

/// An event's place; the generation tells it from later ones in the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EventKey {
    slot: u32,
    generation: u32,
}

#[derive(Default)]
struct Slot {
    generation: u32,
    event: Option<Event>,
}

#[derive(Default)]
pub(super) struct Events {
    /// Time, then the order in which they were added.
    heap: BinaryHeap<Reverse<(u64, u64, EventKey)>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    added: u64,
}

impl Events {
    pub fn add(&mut self, at_ns: u64, event: Event) -> EventKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (self.slots.len() - 1) as u32
        });
        let place = &mut self.slots[slot as usize];
        place.event = Some(event);
        let key = EventKey { slot, generation: place.generation };
        self.heap.push(Reverse((at_ns, self.added, key)));
        self.added += 1;
        key
    }

    pub fn get_mut(&mut self, key: EventKey) -> Option<&mut Event> {
        let slot = &mut self.slots[key.slot as usize];
        if slot.generation == key.generation { slot.event.as_mut() } else { None }
    }

    /// Takes an event away: it no longer comes.
    pub fn remove(&mut self, key: EventKey) -> Option<Event> {
        let slot = &mut self.slots[key.slot as usize];
        if slot.generation != key.generation {
            return None;
        }
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(key.slot);
        slot.event.take()
    }

    /// When the next event comes.
    pub fn next_at_ns(&mut self) -> Option<u64> {
        while let Some(Reverse((at_ns, _, key))) = self.heap.peek().copied() {
            if self.get_mut(key).is_some() {
                return Some(at_ns);
            }
            self.heap.pop();
        }
        None
    }

    /// The next event that is due. It keeps its place until it is removed.
    pub fn pop_due(&mut self, now_ns: u64) -> Option<EventKey> {
        if self.next_at_ns()? > now_ns {
            return None;
        }
        self.heap.pop().map(|Reverse((_, _, key))| key)
    }

    /// Carries out what needs nothing but the event. A sleep and a write keep their place until they are seen.
    pub fn fire(&mut self, key: EventKey) -> Fired {
        let slot = &mut self.slots[key.slot as usize];
        if slot.generation != key.generation {
            return Fired::Nothing;
        }
        match slot.event.take() {
            Some(Event::Sleep(waker)) => {
                slot.event = Some(Event::Slept);
                Fired::Slept(waker)
            }
            Some(Event::Write(write)) => Fired::Write(write),
            Some(Event::Wake(waker)) => {
                self.remove(key);
                Fired::Wake(waker)
            }
            other => {
                slot.event = other;
                Fired::Nothing
            }
        }
    }

    /// Puts the outcome into the place of an event that was fired.
    pub fn put(&mut self, key: EventKey, event: Event) {
        let slot = &mut self.slots[key.slot as usize];
        debug_assert_eq!(slot.generation, key.generation);
        slot.event = Some(event);
    }

    /// Takes every write under way that `owned` names, in the order of their places.
    pub fn take_writes(&mut self, owned: impl Fn(Owner) -> bool) -> Vec<WriteInFlight> {
        let of_owner = |slot: &Slot| matches!(&slot.event, Some(Event::Write(write)) if owned(write.owner));
        let keys: Vec<EventKey> = (0..self.slots.len())
            .filter(|slot| of_owner(&self.slots[*slot]))
            .map(|slot| EventKey { slot: slot as u32, generation: self.slots[slot].generation })
            .collect();
        let taken = keys.into_iter().filter_map(|key| match self.remove(key) {
            Some(Event::Write(write)) => Some(write),
            _ => None,
        });
        taken.collect()
    }

    /// Takes everything.
    pub fn take_all(&mut self) -> Vec<Event> {
        self.heap.clear();
        self.free.clear();
        self.slots.drain(..).filter_map(|slot| slot.event).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_the_order_of_time_then_of_adding() {
        let mut events = Events::default();
        let late = events.add(20, Event::Slept);
        let first = events.add(10, Event::Slept);
        let second = events.add(10, Event::Slept);
        assert_eq!(events.next_at_ns(), Some(10));
        assert_eq!(events.pop_due(9), None);
        assert_eq!(events.pop_due(10), Some(first));
        assert_eq!(events.pop_due(15), Some(second));
        assert_eq!(events.pop_due(15), None);
        assert_eq!(events.pop_due(20), Some(late));
    }

    #[test]
    fn a_removed_event_never_comes_also_when_its_place_is_reused() {
        let mut events = Events::default();
        let gone = events.add(10, Event::Sleep(None));
        assert!(events.remove(gone).is_some());
        let next = events.add(30, Event::Sleep(None));
        assert_eq!(gone.slot, next.slot);
        assert!(events.get_mut(gone).is_none());
        assert!(events.remove(gone).is_none());
        assert_eq!(events.next_at_ns(), Some(30));
        assert_eq!(events.pop_due(100), Some(next));
        assert_eq!(events.next_at_ns(), None);
    }

    #[test]
    fn a_sleep_that_was_fired_waits_to_be_seen_and_a_wake_does_not() {
        let mut events = Events::default();
        let sleep = events.add(1, Event::Sleep(None));
        let wake = events.add(1, Event::Wake(Waker::noop().clone()));
        assert!(matches!(events.fire(sleep), Fired::Slept(None)));
        assert!(matches!(events.get_mut(sleep), Some(Event::Slept)));
        assert!(matches!(events.fire(wake), Fired::Wake(_)));
        assert!(events.get_mut(wake).is_none());
        assert!(matches!(events.fire(wake), Fired::Nothing));
    }

    #[test]
    fn an_event_keeps_its_place_until_it_is_picked_up() {
        let mut events = Events::default();
        let key = events.add(1, Event::Slept);
        assert_eq!(events.pop_due(1), Some(key));
        assert!(matches!(events.get_mut(key), Some(Event::Slept)));
        assert_eq!(events.take_all().len(), 1);
        assert_eq!(events.next_at_ns(), None);
    }
}
