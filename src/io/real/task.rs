//! Tasks, and the exact count of those that can run. glommio does not tell whether anything is runnable, and the
//! driver may block in the ring only when nothing is: so every task of a shard runs behind a waker that counts.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

use glommio::{Latency, Shares, TaskQueueHandle};

use crate::io::TaskClass;

/// So many tasks have a turn between two passes of the driver. Without a bound, tasks that wake each other would keep a
/// queue running until glommio's preempt timer (100 ms) fires.
const POLLS_PER_PASS: u32 = 64;

/// What a task waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// To be woken.
    Idle,
    /// Woken and not polled since: counted as runnable.
    Scheduled,
    /// Finished or dropped: wakes mean nothing any more.
    Done,
}

thread_local! {
    /// Its address tells this thread from all others that live.
    static HERE: u8 = const { 0 };
}

fn here() -> usize {
    HERE.with(|here| std::ptr::from_ref(here).addr())
}

/// The waker of one task. It stands before glommio's own, which it calls only for the first wake since the last poll.
/// Counts are plain: wakers never leave their shard (nothing above `io` has threads), and one that does ends the process
/// before it touches anything.
struct TaskWaker {
    thread: usize,
    state: Cell<State>,
    runnable: Rc<Cell<usize>>,
    inner: OnceCell<Waker>,
}

impl TaskWaker {
    const VTABLE: RawWakerVTable =
        RawWakerVTable::new(Self::clone_raw, Self::wake_raw, Self::wake_by_ref_raw, Self::drop_raw);

    fn waker(self: &Rc<Self>) -> Waker {
        let data = Rc::into_raw(self.clone());
        // SAFETY: the functions of the vtable take a pointer that `Rc::into_raw` gave, each waker holding one count of
        // it; `wake` and `drop` give that back, `clone` takes another. A waker may be sent to any thread: there each
        // function stops the process before it reads anything but `thread`, which never changes. See `of`.
        unsafe { Waker::from_raw(RawWaker::new(data.cast(), &Self::VTABLE)) }
    }

    /// The waker that `data` was made of, its count not touched.
    ///
    /// # Safety
    /// `data` is that of a waker from `waker` that has not been dropped.
    unsafe fn of(data: *const ()) -> ManuallyDrop<Rc<TaskWaker>> {
        // SAFETY: `data` came from `Rc::into_raw`, and a count of it is held, so it is alive; `ManuallyDrop` leaves that
        // count to the caller. Making an `Rc` of it reads and writes nothing.
        let waker = ManuallyDrop::new(unsafe { Rc::from_raw(data.cast::<TaskWaker>()) });
        assert!(waker.thread == here(), "a waker left its shard");
        waker
    }

    unsafe fn clone_raw(data: *const ()) -> RawWaker {
        // SAFETY: passed on from the vtable's caller.
        let waker = unsafe { Self::of(data) };
        RawWaker::new(Rc::into_raw(Rc::clone(&waker)).cast(), &Self::VTABLE)
    }

    unsafe fn wake_raw(data: *const ()) {
        // SAFETY: passed on from the vtable's caller, who gives the waker up.
        ManuallyDrop::into_inner(unsafe { Self::of(data) }).wake();
    }

    unsafe fn wake_by_ref_raw(data: *const ()) {
        // SAFETY: passed on from the vtable's caller.
        unsafe { Self::of(data) }.wake();
    }

    unsafe fn drop_raw(data: *const ()) {
        // SAFETY: passed on from the vtable's caller, who gives the waker up.
        drop(ManuallyDrop::into_inner(unsafe { Self::of(data) }));
    }

    fn wake(&self) {
        if self.state.get() == State::Idle {
            self.state.set(State::Scheduled);
            self.runnable.set(self.runnable.get() + 1);
            self.inner.get().expect("a task is idle only after its first poll").wake_by_ref();
        }
    }

    /// Leaves `Scheduled` for `next`, and takes the task out of the count.
    fn leave_scheduled(&self, next: State) {
        if self.state.replace(next) == State::Scheduled {
            self.runnable.set(self.runnable.get() - 1);
        }
    }
}

/// One task's future, which the shard can drop while glommio still holds the task.
struct TaskCell {
    future: RefCell<Option<Pin<Box<dyn Future<Output = ()>>>>>,
    waker: Waker,
    shared: Rc<TaskWaker>,
    number: usize,
}

/// What glommio runs for a task.
struct Tracked {
    cell: Rc<TaskCell>,
    tasks: Rc<Tasks>,
}

impl Future for Tracked {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Tracked { cell, tasks } = self.get_mut();
        cell.shared.inner.get_or_init(|| context.waker().clone());
        cell.shared.leave_scheduled(State::Idle);
        let mut held = cell.future.borrow_mut();
        let polled = match held.as_mut() {
            Some(future) => future.as_mut().poll(&mut Context::from_waker(&cell.waker)),
            None => Poll::Ready(()),
        };
        if polled.is_ready() {
            cell.shared.leave_scheduled(State::Done);
            let finished = held.take();
            drop(held);
            drop(finished);
            tasks.forget(cell.number);
        }
        tasks.another_ran();
        polled
    }
}

/// The tasks of one shard.
pub(super) struct Tasks {
    runnable: Rc<Cell<usize>>,
    queues: [TaskQueueHandle; TaskClass::ALL.len()],
    /// Every unfinished task by number.
    cells: RefCell<Vec<Option<Rc<TaskCell>>>>,
    free: RefCell<Vec<usize>>,
    driver: RefCell<Option<Waker>>,
    driver_parked: Cell<bool>,
    polls_since_driver: Cell<u32>,
    closed: Cell<bool>,
}

impl Tasks {
    /// Makes the shard's task queues; must run inside its executor.
    pub(super) fn new() -> Rc<Self> {
        let queue = |class: TaskClass| {
            let name = format!("{class:?}");
            glommio::executor().create_task_queue(Shares::Static(class.shares()), Latency::NotImportant, &name)
        };
        Rc::new(Tasks {
            runnable: Rc::default(),
            queues: TaskClass::ALL.map(queue),
            cells: RefCell::default(),
            free: RefCell::default(),
            driver: RefCell::default(),
            driver_parked: Cell::new(false),
            polls_since_driver: Cell::new(0),
            closed: Cell::new(false),
        })
    }

    pub(super) fn spawn(self: &Rc<Self>, class: TaskClass, future: impl Future<Output = ()> + 'static) {
        if self.closed.get() {
            return;
        }
        let shared = Rc::new(TaskWaker {
            thread: here(),
            state: Cell::new(State::Scheduled),
            runnable: self.runnable.clone(),
            inner: OnceCell::new(),
        });
        self.runnable.set(self.runnable.get() + 1);
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            self.cells.borrow_mut().push(None);
            self.cells.borrow().len() - 1
        });
        let cell =
            Rc::new(TaskCell { future: RefCell::new(Some(Box::pin(future))), waker: shared.waker(), shared, number });
        self.cells.borrow_mut()[number] = Some(cell.clone());
        let queue = self.queues[class as usize];
        glommio::spawn_local_into(Tracked { cell, tasks: self.clone() }, queue)
            .expect("the queue was made by this executor and is never removed")
            .detach();
    }

    /// How many tasks could run now.
    pub(super) fn runnable(&self) -> usize {
        self.runnable.get()
    }

    /// Waits until some task had a turn. Only where one is runnable.
    pub(super) async fn until_another_ran(&self) {
        debug_assert!(self.runnable() > 0, "nothing would ever end this wait");
        self.driver_parked.set(true);
        std::future::poll_fn(|context| {
            if !self.driver_parked.get() {
                return Poll::Ready(());
            }
            let mut driver = self.driver.borrow_mut();
            if driver.is_none() {
                *driver = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }

    /// Drops every unfinished task and takes no more.
    pub(super) fn close(&self) {
        self.closed.set(true);
        // A future's drop may run code that looks at other tasks: nothing is borrowed meanwhile.
        let mut number = 0;
        loop {
            let cell = match self.cells.borrow_mut().get_mut(number) {
                Some(place) => place.take(),
                None => return,
            };
            if let Some(cell) = cell {
                cell.shared.leave_scheduled(State::Done);
                let future = cell.future.borrow_mut().take();
                drop(future);
            }
            number += 1;
        }
    }

    fn forget(&self, number: usize) {
        let cell = self.cells.borrow_mut().get_mut(number).and_then(Option::take);
        if cell.is_some() {
            self.free.borrow_mut().push(number);
        }
    }

    /// After each task's turn: the driver may go on, and gets its turn soon however many tasks wake each other.
    fn another_ran(&self) {
        if self.driver_parked.replace(false)
            && let Some(driver) = &*self.driver.borrow()
        {
            driver.wake_by_ref();
            self.polls_since_driver.set(0);
        }
        self.polls_since_driver.set(self.polls_since_driver.get() + 1);
        if self.polls_since_driver.get() >= POLLS_PER_PASS {
            self.polls_since_driver.set(0);
            let _always_pending = end_queue_turn(&mut Context::from_waker(Waker::noop()));
        }
    }
}

/// Tells glommio that the queue which runs now ends its turn with this task, and wakes the waker of `context`.
fn end_queue_turn(context: &mut Context<'_>) -> Poll<()> {
    let executor = glommio::executor();
    let turn = std::pin::pin!(executor.yield_task_queue_now());
    turn.poll(context)
}

/// Completes after the other runnable tasks and the driver had a turn.
pub struct Yield {
    yielded: bool,
}

impl Yield {
    pub(super) fn new() -> Self {
        Yield { yielded: false }
    }
}

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.yielded {
            return Poll::Ready(());
        }
        self.yielded = true;
        end_queue_turn(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(runnable: &Rc<Cell<usize>>) -> Rc<TaskWaker> {
        let (state, inner) = (Cell::new(State::Idle), OnceCell::from(Waker::noop().clone()));
        Rc::new(TaskWaker { thread: here(), state, runnable: runnable.clone(), inner })
    }

    #[test]
    fn a_task_counts_once_however_often_and_by_whichever_waker_it_is_woken() {
        let runnable = Rc::default();
        let task = idle(&runnable);
        let (first, second) = (task.waker(), task.waker());
        let third = first.clone();
        assert_eq!(Rc::strong_count(&task), 4);
        assert!(first.will_wake(&third));
        first.wake();
        second.wake_by_ref();
        assert_eq!((runnable.get(), Rc::strong_count(&task)), (1, 3));
        task.leave_scheduled(State::Idle);
        assert_eq!(runnable.get(), 0);
        drop(second);
        third.wake();
        assert_eq!((runnable.get(), Rc::strong_count(&task)), (1, 1));
        task.leave_scheduled(State::Done);
        task.waker().wake();
        assert_eq!((runnable.get(), Rc::strong_count(&task)), (0, 1));
    }

    #[test]
    fn a_waker_on_another_thread_is_refused_untouched() {
        let task = idle(&Rc::default());
        let waker = task.waker();
        let elsewhere = std::thread::spawn(move || {
            let refused = std::panic::catch_unwind(|| waker.wake_by_ref());
            (refused.is_err(), waker)
        });
        let (is_refused, waker) = elsewhere.join().expect("caught");
        assert!(is_refused);
        assert_eq!(task.state.get(), State::Idle);
        drop(waker);
        assert_eq!(Rc::strong_count(&task), 1);
    }
}
