//! Waiting within one core: a notification, a one-value channel, a counting semaphore. Nothing here crosses threads,
//! so there is no lock and no atomic.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Tasks that wait for one thing.
#[derive(Default)]
pub struct WakerList(RefCell<Vec<Waker>>);

impl WakerList {
    /// Has `waker` woken at the next `wake_all`.
    pub fn wait(&self, waker: &Waker) {
        let mut waiting = self.0.borrow_mut();
        if !waiting.iter().any(|known| known.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    pub fn wake_all(&self) {
        let mut woken = std::mem::take(&mut *self.0.borrow_mut());
        woken.drain(..).for_each(Waker::wake);
        let mut waiting = self.0.borrow_mut();
        if waiting.is_empty() {
            // Its memory serves those who wait next.
            *waiting = woken;
        }
    }
}

/// Wakes everyone who waits. A wait that starts after `notify_all` waits for the next one.
#[derive(Default)]
pub struct Notify {
    generation: Cell<u64>,
    waiting: WakerList,
}

impl Notify {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn notify_all(&self) {
        self.generation.set(self.generation.get() + 1);
        self.waiting.wake_all();
    }

    /// Completes at the first `notify_all` after this call.
    pub fn notified(&self) -> Notified<'_> {
        Notified { of: self, seen: self.generation.get() }
    }
}

pub struct Notified<'a> {
    of: &'a Notify,
    seen: u64,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.of.generation.get() != self.seen {
            return Poll::Ready(());
        }
        self.of.waiting.wait(context.waker());
        Poll::Pending
    }
}

struct Slot<T> {
    value: Option<T>,
    waker: Option<Waker>,
    sender_gone: bool,
}

/// The sending half of a one-value channel.
pub struct Sender<T>(Rc<RefCell<Slot<T>>>);

/// The receiving half: a future that gives the value, or `None` where the sender was dropped without one.
pub struct Receiver<T>(Rc<RefCell<Slot<T>>>);

/// A channel for exactly one value.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Rc::new(RefCell::new(Slot { value: None, waker: None, sender_gone: false }));
    (Sender(slot.clone()), Receiver(slot))
}

impl<T> Sender<T> {
    pub fn send(self, value: T) {
        self.0.borrow_mut().value = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = self.0.borrow_mut();
            slot.sender_gone = true;
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let mut slot = self.0.borrow_mut();
        if let Some(value) = slot.value.take() {
            return Poll::Ready(Some(value));
        }
        if slot.sender_gone {
            return Poll::Ready(None);
        }
        slot.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

/// So many who left a semaphore's queue are not worth looking for.
const GONE_KEPT: usize = 16;

/// Permits, given out first come, first served. A request larger than the whole is granted when everything is free.
pub struct Semaphore {
    total: Cell<u64>,
    free: Cell<u64>,
    queue: RefCell<VecDeque<(u64, Sender<()>)>>,
    /// Those in the queue whose waiter has not been dropped.
    waiting: Cell<usize>,
}

impl Semaphore {
    pub fn new(permits: u64) -> Rc<Self> {
        let (total, free) = (Cell::new(permits), Cell::new(permits));
        Rc::new(Semaphore { total, free, queue: RefCell::default(), waiting: Cell::new(0) })
    }

    pub fn available(&self) -> u64 {
        self.free.get()
    }

    /// How many permits are out.
    pub fn taken(&self) -> u64 {
        self.total.get() - self.free.get()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.waiting.get()
    }

    /// Takes `permits` now, or nothing. Never overtakes those who wait.
    pub fn try_acquire(self: &Rc<Self>, permits: u64) -> Option<Permit> {
        let permits = permits.min(self.total.get());
        if !self.queue.borrow().is_empty() || self.free.get() < permits {
            return None;
        }
        self.free.set(self.free.get() - permits);
        Some(Permit { of: self.clone(), permits })
    }

    /// Waits until `permits` are free and takes them.
    pub async fn acquire(self: &Rc<Self>, permits: u64) -> Permit {
        if let Some(permit) = self.try_acquire(permits) {
            return permit;
        }
        let permits = permits.min(self.total.get());
        let (sender, receiver) = oneshot();
        self.queue.borrow_mut().push_back((permits, sender));
        self.waiting.set(self.waiting.get() + 1);
        Waiting { of: self, receiver, permits }.await
    }

    /// Those who left stay in the queue until they come to its front, or until they are more than those who wait: whoever
    /// holds the permits for long must not let the queue grow with all who came and left. `leaving` is about to be gone.
    fn forget_the_gone(&self, leaving: *const Slot<()>) {
        let mut queue = self.queue.borrow_mut();
        if queue.len() > GONE_KEPT + 2 * self.waiting.get() {
            queue.retain(|(_, sender)| Rc::strong_count(&sender.0) > 1 && !std::ptr::eq(sender.0.as_ptr(), leaving));
            queue.shrink_to(2 * self.waiting.get());
        }
    }

    fn release(&self, permits: u64) {
        self.free.set(self.free.get() + permits);
        loop {
            let next = {
                let mut queue = self.queue.borrow_mut();
                // A waiter that was dropped holds no receiver any more: its permits are not taken.
                while queue.front().is_some_and(|(_, sender)| Rc::strong_count(&sender.0) == 1) {
                    queue.pop_front();
                }
                match queue.front() {
                    Some((wanted, _)) if *wanted <= self.free.get() => queue.pop_front(),
                    _ => None,
                }
            };
            let Some((wanted, sender)) = next else { return };
            self.free.set(self.free.get() - wanted);
            sender.send(());
        }
    }
}

/// A place in a semaphore's queue. Dropped after the grant and before it was seen, it gives the permits back.
struct Waiting<'a> {
    of: &'a Rc<Semaphore>,
    receiver: Receiver<()>,
    permits: u64,
}

impl Future for Waiting<'_> {
    type Output = Permit;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Permit> {
        match Pin::new(&mut self.receiver).poll(context) {
            Poll::Ready(_) => Poll::Ready(Permit { of: self.of.clone(), permits: self.permits }),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.of.waiting.set(self.of.waiting.get() - 1);
        self.of.forget_the_gone(self.receiver.0.as_ptr());
        if self.receiver.0.borrow_mut().value.take().is_some() {
            self.of.release(self.permits);
        }
    }
}

/// Permits held; dropping gives them back.
pub struct Permit {
    of: Rc<Semaphore>,
    permits: u64,
}

impl Permit {
    pub fn permits(&self) -> u64 {
        self.permits
    }

    /// Keeps only `permits` of them and gives the rest back.
    pub fn shrink_to(&mut self, permits: u64) {
        let back = self.permits.saturating_sub(permits);
        self.permits -= back;
        self.of.release(back);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.of.release(self.permits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_notification_wakes_those_who_waited_before_it() {
        let notify = Notify::new();
        let mut early = Box::pin(notify.notified());
        assert!(poll_once(&mut early).is_pending());
        notify.notify_all();
        assert!(poll_once(&mut early).is_ready());
        assert!(poll_once(&mut Box::pin(notify.notified())).is_pending());
    }

    #[test]
    fn a_dropped_sender_gives_none() {
        let (sender, receiver) = oneshot::<u32>();
        let mut receiver = Box::pin(receiver);
        assert!(poll_once(&mut receiver).is_pending());
        drop(sender);
        assert_eq!(poll_once(&mut receiver), Poll::Ready(None));
        let (sender, receiver) = oneshot();
        sender.send(7);
        assert_eq!(poll_once(&mut Box::pin(receiver)), Poll::Ready(Some(7)));
    }

    #[test]
    fn permits_go_first_come_first_served() {
        let semaphore = Semaphore::new(10);
        let held = semaphore.try_acquire(8).expect("free");
        let mut large = Box::pin(semaphore.acquire(5));
        let mut small = Box::pin(semaphore.acquire(1));
        assert!(poll_once(&mut large).is_pending());
        assert!(poll_once(&mut small).is_pending(), "a small request never overtakes");
        assert!(semaphore.try_acquire(1).is_none());
        drop(held);
        assert!(poll_once(&mut large).is_ready());
        assert!(poll_once(&mut small).is_ready());
        assert_eq!(semaphore.available(), 10);
    }

    #[test]
    fn a_dropped_waiter_keeps_nothing() {
        let semaphore = Semaphore::new(4);
        let held = semaphore.try_acquire(4).expect("free");
        let mut before = Box::pin(semaphore.acquire(4));
        let mut after = Box::pin(semaphore.acquire(4));
        assert!(poll_once(&mut before).is_pending());
        assert!(poll_once(&mut after).is_pending());
        assert_eq!((semaphore.waiting(), semaphore.taken()), (2, 4));
        drop(before);
        assert_eq!(semaphore.waiting(), 1);
        drop(held);
        drop(after); // granted by the release above, never seen
        assert_eq!(semaphore.available(), 4);
    }

    #[test]
    fn those_who_came_and_left_do_not_lengthen_the_queue() {
        let semaphore = Semaphore::new(1);
        let held = semaphore.try_acquire(1).expect("free");
        let mut first = Box::pin(semaphore.acquire(1));
        assert!(poll_once(&mut first).is_pending());
        for _ in 0..100 {
            let mut many: Vec<_> = (0..100).map(|_| Box::pin(semaphore.acquire(1))).collect();
            assert!(many.iter_mut().all(|waiter| poll_once(waiter).is_pending()));
        }
        let mut last = Box::pin(semaphore.acquire(1));
        assert!(poll_once(&mut last).is_pending());
        assert_eq!(semaphore.waiting(), 2);
        assert!(semaphore.queue.borrow().len() <= GONE_KEPT + 2 * 2, "of 10,000 that left");
        assert!(semaphore.queue.borrow().capacity() <= 256);
        drop(held);
        assert!(poll_once(&mut last).is_pending(), "in their order");
        assert!(poll_once(&mut first).is_ready());
        assert!(poll_once(&mut last).is_ready());
        assert_eq!((semaphore.available(), semaphore.queue.borrow().len()), (1, 0));
    }

    #[test]
    fn more_than_the_whole_is_the_whole() {
        let semaphore = Semaphore::new(3);
        let permit = semaphore.try_acquire(100).expect("clamped");
        assert_eq!(permit.permits(), 3);
    }
}
