//! One operation that is done again and again, in a future that is allocated once.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// At most one of it is under way. Dropping this drops that one.
pub struct Repeated<I, O> {
    turn: Rc<Cell<Turn<I, O>>>,
    work: Pin<Box<dyn Future<Output = ()>>>,
    is_under_way: bool,
}

/// Whose turn it is.
#[derive(Default)]
enum Turn<I, O> {
    /// The caller's, or the operation's while it is under way.
    #[default]
    Taken,
    Begun(I),
    Done(O),
}

impl<I: 'static, O: 'static> Repeated<I, O> {
    pub fn new<F: Future<Output = O>>(operation: impl Fn(I) -> F + 'static) -> Self {
        let turn: Rc<Cell<Turn<I, O>>> = Rc::default();
        let own = turn.clone();
        let work = async move {
            loop {
                // Polled by `poll` alone, which begins first: nobody needs to be woken.
                let begun = poll_fn(|_| match own.take() {
                    Turn::Begun(input) => Poll::Ready(input),
                    other => {
                        own.set(other);
                        Poll::Pending
                    }
                });
                let output = operation(begun.await).await;
                own.set(Turn::Done(output));
            }
        };
        Repeated { turn, work: Box::pin(work), is_under_way: false }
    }

    /// Begins the operation once more.
    ///
    /// # Panics
    /// Where it is under way.
    pub fn begin(&mut self, input: I) {
        assert!(!std::mem::replace(&mut self.is_under_way, true), "one at a time");
        self.turn.set(Turn::Begun(input));
    }

    pub fn is_under_way(&self) -> bool {
        self.is_under_way
    }

    /// What it came to; pending, and waking nobody, where none is under way.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<O> {
        if !self.is_under_way {
            return Poll::Pending;
        }
        let ended = self.work.as_mut().poll(context);
        debug_assert!(ended.is_pending(), "there is always a next time");
        match self.turn.take() {
            Turn::Done(output) => {
                self.is_under_way = false;
                Poll::Ready(output)
            }
            other => {
                self.turn.set(other);
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    #[test]
    fn each_time_it_is_done_once() {
        let gate = Rc::new(Cell::new(false));
        let opened = gate.clone();
        let mut doubled = Repeated::new(move |input: u32| {
            let opened = opened.clone();
            async move {
                poll_fn(|_| if opened.take() { Poll::Ready(()) } else { Poll::Pending }).await;
                input * 2
            }
        });
        let context = &mut Context::from_waker(Waker::noop());
        for input in 1..4 {
            assert!(doubled.poll(context).is_pending() && !doubled.is_under_way());
            doubled.begin(input);
            assert!(doubled.poll(context).is_pending() && doubled.is_under_way());
            gate.set(true);
            assert_eq!(doubled.poll(context), Poll::Ready(input * 2));
        }
        assert!(!doubled.is_under_way());
    }

    #[test]
    #[should_panic(expected = "one at a time")]
    fn two_at_a_time_are_a_defect() {
        let mut never = Repeated::new(|(): ()| std::future::pending::<()>());
        never.begin(());
        never.begin(());
    }

    #[test]
    fn what_is_under_way_goes_with_it() {
        let held = Rc::new(());
        let mut never = Repeated::new(|held: Rc<()>| async move {
            std::future::pending::<()>().await;
            drop(held);
        });
        never.begin(held.clone());
        assert!(never.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(Rc::strong_count(&held), 2);
        drop(never);
        assert_eq!(Rc::strong_count(&held), 1);
    }
}
