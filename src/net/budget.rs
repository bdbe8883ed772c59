//! What a shard holds for its clients, in bytes: asked for where it can be foreseen, counted where it is there already,
//! given back however that ends.

use std::cell::Cell;
use std::rc::Rc;

use crate::base::local::Notify;
use crate::protocol::CqlError;

/// A budget that held so much and holds a quarter of it is emptied.
const MUCH_BYTES: usize = 64 << 20;

/// So many bytes of one kind, and no more.
pub struct Budget {
    what: &'static str,
    held_bytes: Cell<usize>,
    bytes_max: usize,
    /// The most that was held since it was last emptied.
    peak_bytes: Cell<usize>,
    is_emptied: Cell<bool>,
    changed: Notify,
    /// What this is a share of: its limit holds too.
    whole: Option<Rc<Budget>>,
}

impl Budget {
    pub fn new(what: &'static str, bytes_max: usize) -> Rc<Self> {
        Budget::of(what, bytes_max, None)
    }

    /// One user's share, with a limit of its own.
    pub fn share(self: &Rc<Self>, bytes_max: usize) -> Rc<Self> {
        Budget::of(self.what, bytes_max, Some(self.clone()))
    }

    fn of(what: &'static str, bytes_max: usize, whole: Option<Rc<Budget>>) -> Rc<Self> {
        let (held_bytes, peak_bytes, is_emptied) = (Cell::new(0), Cell::new(0), Cell::new(false));
        Rc::new(Budget { what, held_bytes, bytes_max, peak_bytes, is_emptied, changed: Notify::new(), whole })
    }

    /// Waits until little is held after much was.
    pub async fn emptied(&self) {
        while !self.is_emptied.replace(false) {
            self.changed.notified().await;
        }
    }

    /// A holder that holds nothing yet.
    pub fn holder(self: &Rc<Self>) -> Held {
        Held { budget: self.clone(), bytes: 0 }
    }

    /// A holder of `bytes`, or OVERLOADED.
    pub fn hold(self: &Rc<Self>, bytes: usize) -> Result<Held, CqlError> {
        let mut held = self.holder();
        held.resize(bytes)?;
        Ok(held)
    }

    /// Whether one holder may go from `before` to `after` bytes. The only one always may: what is larger than the
    /// whole budget is refused elsewhere or served alone.
    fn check(&self, before: usize, after: usize) -> Result<(), CqlError> {
        let others = self.held_bytes.get() - before;
        if others > 0 && others + after > self.bytes_max {
            return Err(CqlError::overloaded(format!(
                "Server is in overloaded state: {others} bytes of {} are held here, of at most {}",
                self.what, self.bytes_max
            )));
        }
        self.whole.as_ref().map_or(Ok(()), |whole| whole.check(before, after))
    }

    /// Whether at least half of it is free.
    pub fn has_ample_room(&self) -> bool {
        self.is_ample(0, 0)
    }

    /// Whether no more than half is held when one holder has gone from `before` to `after` bytes.
    fn is_ample(&self, before: usize, after: usize) -> bool {
        self.held_bytes.get() - before + after <= self.bytes_max / 2
            && self.whole.as_ref().is_none_or(|whole| whole.is_ample(before, after))
    }

    fn change(&self, before: usize, after: usize) {
        let held = self.held_bytes.get() - before + after;
        self.held_bytes.set(held);
        if held > self.peak_bytes.get() {
            self.peak_bytes.set(held);
        } else if self.peak_bytes.get() >= MUCH_BYTES && held <= self.peak_bytes.get() / 4 {
            self.peak_bytes.set(held);
            self.is_emptied.set(true);
            self.changed.notify_all();
        }
        if let Some(whole) = &self.whole {
            whole.change(before, after);
        }
    }
}

/// Some bytes of a budget; dropping it gives them back.
pub struct Held {
    budget: Rc<Budget>,
    bytes: usize,
}

impl Held {
    /// Holds `bytes` from now on, or what it held before and OVERLOADED.
    pub fn resize(&mut self, bytes: usize) -> Result<(), CqlError> {
        if bytes > self.bytes {
            self.budget.check(self.bytes, bytes)?;
        }
        self.set(bytes);
        Ok(())
    }

    /// Holds `bytes` from now on if at least half of the budget is free then.
    pub fn resize_if_ample(&mut self, bytes: usize) -> bool {
        let is_ample = self.budget.is_ample(self.bytes, bytes);
        if is_ample {
            self.set(bytes);
        }
        is_ample
    }

    /// Holds `bytes` from now on, whatever the limit: they are there already.
    #[inline]
    pub fn set(&mut self, bytes: usize) {
        if bytes != self.bytes {
            self.budget.change(self.bytes, bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::protocol::error::ErrorCode;

    #[test]
    fn what_is_held_is_bounded_and_comes_back() {
        let budget = Budget::new("requests", 100);
        let mut first = budget.hold(60).unwrap();
        let refused = budget.hold(41).err().unwrap();
        assert_eq!(refused.code(), ErrorCode::Overloaded);
        assert!(refused.message().contains("60 bytes of requests"), "{}", refused.message());
        let second = budget.hold(40).unwrap();
        assert!(first.resize(61).is_err());
        first.resize(10).unwrap();
        assert_eq!(budget.held_bytes.get(), 50);
        drop(second);
        drop(first);
        assert_eq!(budget.held_bytes.get(), 0);
    }

    #[test]
    fn one_alone_may_be_larger_and_what_is_there_is_counted() {
        let budget = Budget::new("answers", 100);
        let large = budget.hold(1000).unwrap();
        assert!(budget.hold(1).is_err());
        drop(large);
        let mut there = budget.holder();
        there.set(150);
        assert!(budget.hold(1).is_err());
        assert_eq!(budget.held_bytes.get(), 150);
    }

    #[test]
    fn it_tells_once_when_little_is_left_of_much() {
        let budget = Budget::new("answers", 1 << 30);
        let is_emptied = || budget.is_emptied.replace(false);
        let rest = budget.hold(MUCH_BYTES / 4).unwrap();
        drop(budget.hold(MUCH_BYTES / 2).unwrap());
        assert!(!is_emptied(), "that was not much");
        let most = budget.hold(MUCH_BYTES).unwrap();
        drop(rest);
        assert!(!is_emptied(), "most is held");
        drop(most);
        assert!(is_emptied());
        drop(budget.hold(MUCH_BYTES / 2).unwrap());
        assert!(!is_emptied());
    }

    #[test]
    fn a_share_has_its_own_limit_and_that_of_the_whole() {
        let whole = Budget::new("answers", 100);
        let (one, other) = (whole.share(60), whole.share(60));
        let _half = one.hold(50).unwrap();
        assert!(one.hold(11).is_err(), "its own limit");
        let _another = other.hold(45).unwrap();
        assert!(one.hold(6).is_err(), "that of the whole");
        drop(one.hold(5).unwrap());
        assert_eq!((whole.held_bytes.get(), one.held_bytes.get()), (95, 50));
    }
}
