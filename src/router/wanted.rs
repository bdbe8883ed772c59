//! What is wanted no more: a read whose client has gone, or whose time is over, ends on every shard that works for it.
//!
//! The asking shard keeps a place for each reply that it waits for. Where a read's place is given up before the reply
//! has come, the asked shard is told, and drops what it was doing. Writes are not taken back.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};

use crate::base::collections::{HashMap, hasher};
use crate::base::ids::ShardId;
use crate::base::local::{Notify, Receiver, Sender, oneshot};
use crate::protocol::CqlError;
use crate::router::message::Reply;

type Result = std::result::Result<Reply, CqlError>;

/// The replies that this shard waits for, by number.
pub(super) struct Places {
    waiting: RefCell<HashMap<u64, Sender<Result>>>,
    /// Reads given up, of which the asked shard is to be told.
    given_up: RefCell<Vec<(ShardId, u64)>>,
    changed: Notify,
}

impl Places {
    pub fn new() -> Self {
        Places {
            waiting: RefCell::new(HashMap::with_hasher(hasher())),
            given_up: RefCell::default(),
            changed: Notify::new(),
        }
    }

    /// A place for the reply to `number`. `reads_at`: it is a read, by this shard.
    pub fn take(&self, number: u64, reads_at: Option<ShardId>) -> (Place<'_>, Receiver<Result>) {
        let (sender, receiver) = oneshot();
        self.waiting.borrow_mut().insert(number, sender);
        (Place { places: self, number, reads_at }, receiver)
    }

    /// A reply has come. One that nobody waits for came after its deadline.
    pub fn complete(&self, number: u64, reply: Result) {
        let waiting = self.waiting.borrow_mut().remove(&number);
        if let Some(sender) = waiting {
            sender.send(reply);
        }
    }

    /// Whether nobody waits.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.waiting.borrow().is_empty()
    }

    /// The reads given up since the last call.
    pub fn take_given_up(&self) -> Vec<(ShardId, u64)> {
        std::mem::take(&mut *self.given_up.borrow_mut())
    }

    /// Waits until a read is given up.
    pub async fn given_up(&self) {
        while self.given_up.borrow().is_empty() {
            self.changed.notified().await;
        }
    }
}

/// One reply's place; dropped before the reply has come, it gives the request up.
pub(super) struct Place<'p> {
    places: &'p Places,
    number: u64,
    reads_at: Option<ShardId>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let had_waited = self.places.waiting.borrow_mut().remove(&self.number).is_some();
        if had_waited && let Some(shard) = self.reads_at {
            self.places.given_up.borrow_mut().push((shard, self.number));
            self.places.changed.notify_all();
        }
    }
}

/// The reads that this shard does for others, each with who is told when it is wanted no more.
pub(super) struct Wanted(RefCell<HashMap<(ShardId, u64), Option<Waker>>>);

impl Wanted {
    pub fn new() -> Self {
        Wanted(RefCell::new(HashMap::with_hasher(hasher())))
    }

    /// A read has come.
    pub fn begin(&self, read: (ShardId, u64)) {
        self.0.borrow_mut().insert(read, None);
    }

    /// Its asker has given it up.
    pub fn forget(&self, read: (ShardId, u64)) {
        let waker = self.0.borrow_mut().remove(&read).flatten();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// What `work` gives, or `None` once `read` is given up.
    pub async fn unless_forgotten<F: Future>(&self, read: (ShardId, u64), work: F) -> Option<F::Output> {
        let mut work = pin!(work);
        let done = poll_fn(|context| {
            if !self.0.borrow().contains_key(&read) {
                return Poll::Ready(None);
            }
            let polled = work.as_mut().poll(context).map(Some);
            if polled.is_pending()
                && let Some(waker) = self.0.borrow_mut().get_mut(&read)
                && !waker.as_ref().is_some_and(|known| known.will_wake(context.waker()))
            {
                *waker = Some(context.waker().clone());
            }
            polled
        })
        .await;
        self.0.borrow_mut().remove(&read);
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::Pin;
    use std::task::Context;

    fn poll_once<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
        future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_read_given_up_before_its_reply_is_told_of_and_nothing_else_is() {
        let places = Places::new();
        let (answered, mut reply) = places.take(1, Some(ShardId(3)));
        places.complete(1, Ok(Reply::Done));
        assert!(poll_once(&mut Box::pin(&mut reply)).is_ready());
        drop(answered);
        drop(places.take(2, None));
        assert_eq!(places.take_given_up(), []);
        let mut told = Box::pin(places.given_up());
        assert!(poll_once(&mut told).is_pending());
        drop(places.take(3, Some(ShardId(4))));
        assert!(poll_once(&mut told).is_ready());
        assert_eq!(places.take_given_up(), [(ShardId(4), 3)]);
        places.complete(3, Ok(Reply::Done));
    }

    #[test]
    fn a_forgotten_read_ends_and_is_dropped() {
        let wanted = Wanted::new();
        let read = (ShardId(1), 7);
        wanted.begin(read);
        let held = std::rc::Rc::new(());
        let its = held.clone();
        let work = async move {
            std::future::pending::<()>().await;
            drop(its);
        };
        let mut doing = Box::pin(wanted.unless_forgotten(read, work));
        assert!(poll_once(&mut doing).is_pending());
        wanted.forget((ShardId(2), 7));
        assert!(poll_once(&mut doing).is_pending());
        wanted.forget(read);
        assert_eq!(poll_once(&mut doing), Poll::Ready(None));
        drop(doing);
        assert_eq!(std::rc::Rc::strong_count(&held), 1);
        wanted.begin(read);
        assert_eq!(poll_once(&mut Box::pin(wanted.unless_forgotten(read, async { 5 }))), Poll::Ready(Some(5)));
        assert!(wanted.0.borrow().is_empty());
    }
}
