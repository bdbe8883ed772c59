//! Futures that wait until a log has reached a position, woken in order; and the writers that wait for work.
//! Nothing here allocates once its queues have grown.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::task::Waker;

use crate::base::ids::LogPosition;

struct Waiter {
    position: LogPosition,
    number: u64,
    waker: Waker,
}

/// Those who wait for positions, lowest first.
#[derive(Default)]
pub struct Waiters {
    queue: RefCell<VecDeque<Waiter>>,
    next_number: Cell<u64>,
}

impl Waiters {
    /// Wakes `waker` once `position` is reached. `number` is what an earlier call of the same waiter gave, if any;
    /// the waiter keeps what this call gives.
    pub fn wait(&self, position: LogPosition, number: Option<u64>, waker: &Waker) -> u64 {
        let mut queue = self.queue.borrow_mut();
        let first = queue.partition_point(|waiter| waiter.position < position);
        if let Some(number) = number {
            let same = queue.range_mut(first..).take_while(|waiter| waiter.position == position);
            if let Some(waiter) = same.into_iter().find(|waiter| waiter.number == number) {
                waiter.waker.clone_from(waker);
                return number;
            }
        }
        let number = self.next_number.replace(self.next_number.get() + 1);
        let after = queue.partition_point(|waiter| waiter.position <= position);
        queue.insert(after, Waiter { position, number, waker: waker.clone() });
        number
    }

    /// Wakes all who wait for `position` or less, lowest first.
    pub fn wake_up_to(&self, position: LogPosition) {
        loop {
            let waiter = {
                let mut queue = self.queue.borrow_mut();
                match queue.front() {
                    Some(first) if first.position <= position => queue.pop_front(),
                    _ => None,
                }
            };
            let Some(waiter) = waiter else { return };
            waiter.waker.wake();
        }
    }

    pub fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.queue.borrow_mut());
        waiting.into_iter().for_each(|waiter| waiter.waker.wake());
    }
}

/// Tasks that wait for work of which one will do.
#[derive(Default)]
pub struct Idle {
    waiting: RefCell<VecDeque<Waker>>,
}

impl Idle {
    pub fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push_back(waker.clone());
        }
    }

    pub fn wake_one(&self) {
        let waker = self.waiting.borrow_mut().pop_front();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn wake_all(&self) {
        let waiting = std::mem::take(&mut *self.waiting.borrow_mut());
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::SegmentId;
    use std::sync::{Arc, Mutex};
    use std::task::Wake;

    /// Notes its number when it is woken.
    struct Note(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Note {
        fn wake(self: Arc<Self>) {
            self.1.lock().expect("not poisoned").push(self.0);
        }
    }

    fn at(offset_bytes: u32) -> LogPosition {
        LogPosition { segment: SegmentId(1), offset_bytes }
    }

    #[test]
    fn waiters_wake_in_order_of_position() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let waker = |number| Waker::from(Arc::new(Note(number, woken.clone())));
        let waiters = Waiters::default();
        for position in [30, 10, 20, 10] {
            waiters.wait(at(position), None, &waker(position));
        }
        waiters.wake_up_to(at(9));
        assert!(woken.lock().expect("not poisoned").is_empty());
        waiters.wake_up_to(at(20));
        assert_eq!(*woken.lock().expect("not poisoned"), [10, 10, 20]);
        waiters.wake_all();
        assert_eq!(*woken.lock().expect("not poisoned"), [10, 10, 20, 30]);
    }

    #[test]
    fn a_waiter_that_polls_again_waits_once_and_with_its_last_waker() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let waker = |number| Waker::from(Arc::new(Note(number, woken.clone())));
        let waiters = Waiters::default();
        let number = waiters.wait(at(5), None, &waker(1));
        assert_eq!(waiters.wait(at(5), Some(number), &waker(2)), number);
        waiters.wake_all();
        assert_eq!(*woken.lock().expect("not poisoned"), [2]);
        assert_ne!(waiters.wait(at(5), Some(number), &waker(3)), number, "a woken waiter waits anew");
    }

    #[test]
    fn one_idle_task_wakes_for_one_piece_of_work() {
        let woken = Arc::new(Mutex::new(Vec::new()));
        let idle = Idle::default();
        let wakers: Vec<_> = (0..2).map(|number| Waker::from(Arc::new(Note(number, woken.clone())))).collect();
        idle.wait(&wakers[0]);
        idle.wait(&wakers[1]);
        idle.wait(&wakers[0]);
        idle.wake_one();
        assert_eq!(*woken.lock().expect("not poisoned"), [0]);
        idle.wake_all();
        assert_eq!(*woken.lock().expect("not poisoned"), [0, 1]);
    }
}
