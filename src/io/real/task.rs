//! Tasks, and the exact count of those that can run. glommio does not tell whether anything is runnable, and the
//! driver may block in the ring only when nothing is: so every task of a shard runs behind a waker that counts.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

use glommio::{Latency, Shares, TaskQueueHandle};

use crate::io::TaskClass;

/// So many tasks have a turn between two passes of the driver. Without a bound, tasks that wake each other would keep a
/// queue running until glommio's preempt timer (100 ms) fires.
const POLLS_PER_PASS: u32 = 64;

/// Waits to be woken.
const IDLE: u8 = 0;
/// Woken and not polled since: counted as runnable.
const SCHEDULED: u8 = 1;
/// Finished or dropped: wakes mean nothing any more.
const DONE: u8 = 2;

/// The waker of one task. It stands before glommio's own, which it calls only for the first wake since the last poll.
/// Wakers never leave their shard (nothing above `io` has threads), so a wake always finds the shard awake.
struct TaskWaker {
    state: AtomicU8,
    runnable: Arc<AtomicUsize>,
    inner: OnceLock<Waker>,
}

impl TaskWaker {
    /// Leaves SCHEDULED for `next`, and takes the task out of the count.
    fn leave_scheduled(&self, next: u8) {
        if self.state.swap(next, Ordering::Relaxed) == SCHEDULED {
            self.runnable.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.state.compare_exchange(IDLE, SCHEDULED, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.runnable.fetch_add(1, Ordering::Relaxed);
            self.inner.get().expect("a task is idle only after its first poll").wake_by_ref();
        }
    }
}

/// One task's future, which the shard can drop while glommio still holds the task.
struct TaskCell {
    future: RefCell<Option<Pin<Box<dyn Future<Output = ()>>>>>,
    waker: Waker,
    shared: Arc<TaskWaker>,
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
        cell.shared.leave_scheduled(IDLE);
        let mut held = cell.future.borrow_mut();
        let polled = match held.as_mut() {
            Some(future) => future.as_mut().poll(&mut Context::from_waker(&cell.waker)),
            None => Poll::Ready(()),
        };
        if polled.is_ready() {
            cell.shared.leave_scheduled(DONE);
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
    runnable: Arc<AtomicUsize>,
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
            runnable: Arc::default(),
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
        let shared = Arc::new(TaskWaker {
            state: AtomicU8::new(SCHEDULED),
            runnable: self.runnable.clone(),
            inner: OnceLock::new(),
        });
        self.runnable.fetch_add(1, Ordering::Relaxed);
        let number = self.free.borrow_mut().pop().unwrap_or_else(|| {
            self.cells.borrow_mut().push(None);
            self.cells.borrow().len() - 1
        });
        let cell = Rc::new(TaskCell {
            future: RefCell::new(Some(Box::pin(future))),
            waker: Waker::from(shared.clone()),
            shared,
            number,
        });
        self.cells.borrow_mut()[number] = Some(cell.clone());
        let queue = self.queues[class as usize];
        glommio::spawn_local_into(Tracked { cell, tasks: self.clone() }, queue)
            .expect("the queue was made by this executor and is never removed")
            .detach();
    }

    /// How many tasks could run now.
    pub(super) fn runnable(&self) -> usize {
        self.runnable.load(Ordering::Relaxed)
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
                cell.shared.leave_scheduled(DONE);
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
