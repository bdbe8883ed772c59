//! Several file operations at once from one task, taken in the order in which they were started.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

enum Operation<T> {
    Running(Pin<Box<dyn Future<Output = T>>>),
    Done(T),
}

impl<T> Operation<T> {
    fn poll(&mut self, context: &mut Context<'_>) {
        if let Operation::Running(future) = self
            && let Poll::Ready(value) = future.as_mut().poll(context)
        {
            *self = Operation::Done(value);
        }
    }
}

/// Operations under way. Dropping it detaches them.
pub struct InFlight<T> {
    operations: VecDeque<Operation<T>>,
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        InFlight { operations: VecDeque::new() }
    }
}

impl<T> InFlight<T> {
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Starts an operation at once: it is polled before this returns.
    pub async fn start(&mut self, future: impl Future<Output = T> + 'static) {
        let mut operation = Operation::Running(Box::pin(future));
        poll_fn(|context| {
            operation.poll(context);
            Poll::Ready(())
        })
        .await;
        self.operations.push_back(operation);
    }

    /// Waits for the oldest; `None` where there is none.
    pub async fn next(&mut self) -> Option<T> {
        poll_fn(|context| {
            self.operations.iter_mut().for_each(|operation| operation.poll(context));
            match self.operations.front() {
                None => Poll::Ready(None),
                Some(Operation::Running(_)) => Poll::Pending,
                Some(Operation::Done(_)) => match self.operations.pop_front() {
                    Some(Operation::Done(value)) => Poll::Ready(Some(value)),
                    _ => unreachable!("the front was done"),
                },
            }
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::local::oneshot;
    use std::task::Waker;

    fn poll_once<F: Future>(future: F) -> Poll<F::Output> {
        Box::pin(future).as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn results_come_in_the_order_of_the_starts() {
        let (first_sender, first) = oneshot::<u32>();
        let (second_sender, second) = oneshot::<u32>();
        let mut in_flight = InFlight::default();
        assert!(poll_once(in_flight.start(first)).is_ready());
        assert!(poll_once(in_flight.start(second)).is_ready());
        assert_eq!(in_flight.len(), 2);
        second_sender.send(2);
        assert!(poll_once(in_flight.next()).is_pending(), "the second waits for the first");
        first_sender.send(1);
        assert_eq!(poll_once(in_flight.next()), Poll::Ready(Some(Some(1))));
        assert_eq!(poll_once(in_flight.next()), Poll::Ready(Some(Some(2))));
        assert_eq!(poll_once(in_flight.next()), Poll::Ready(None));
    }

    #[test]
    fn an_operation_starts_before_it_is_waited_for() {
        let started = std::rc::Rc::new(std::cell::Cell::new(false));
        let mut in_flight = InFlight::default();
        let seen = started.clone();
        assert!(poll_once(in_flight.start(async move { seen.set(true) })).is_ready());
        assert!(started.get());
    }
}
