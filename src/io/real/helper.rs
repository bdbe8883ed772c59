//! The helper thread of a shard: blocking work that has no operation in the ring. Made at its first use.

use std::io;
use std::sync::Arc;
use std::task::Poll;

use super::core::Core;
use super::cpus::Affinity;
use super::eventfd::Eventfd;
use super::spsc::{Consumer, Producer, ring};

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that wait for the helper; more run on their shard.
const JOBS_MAX: usize = 1024;

/// Jobs go through a ring, and the helper sleeps in the read of an eventfd: the shard takes no lock and wakes nobody by a
/// futex.
pub(super) struct Helper {
    /// Taken away to tell the helper that there is nothing more to come.
    jobs: Option<Producer<Job>>,
    bell: Arc<Eventfd>,
}

impl Helper {
    fn start(name: String) -> io::Result<Self> {
        let bell = Arc::new(Eventfd::new()?);
        let (jobs, queue) = ring::<Job>(JOBS_MAX);
        let theirs = bell.clone();
        std::thread::Builder::new().name(name).spawn(move || {
            // A new thread inherits its shard's one core; blocking work must not stand in that one's way.
            Affinity::of_the_process().apply();
            serve(&queue, &theirs);
        })?;
        Ok(Helper { jobs: Some(jobs), bell })
    }

    /// Gives the job back where too many wait.
    fn take(&self, job: Job) -> Result<(), Job> {
        self.jobs.as_ref().expect("taken away at the end alone").push(job)?;
        self.bell.ring();
        Ok(())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.jobs = None;
        self.bell.ring();
    }
}

/// Does jobs until the shard's end of the ring is gone.
fn serve(queue: &Consumer<Job>, bell: &Eventfd) {
    loop {
        // Looked at before the ring: what was put in before that end went is still taken.
        let is_last = queue.is_abandoned();
        while queue.take(1, |job| job()) > 0 {}
        if is_last {
            return;
        }
        let _rung = bell.read(); // whatever it ends with, the ring is looked at
    }
}

/// Other allocators than glibc's are left to themselves.
fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: it takes no pointer, and may be called by any thread at any time.
        let _gave_some = unsafe { libc::malloc_trim(0) };
    }
}

impl Core {
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (give, given) = ring(1);
        let (doorbells, id) = (self.shard().doorbells.clone(), self.shard_id());
        let job = move || {
            let _given = give.push(work()); // there is room for one
            doorbells[usize::from(id.0)].ring_from_thread();
        };
        self.hand_over(Box::new(job));
        std::future::poll_fn(|context| {
            let mut value = None;
            given.take(1, |done| value = Some(done));
            match value {
                Some(value) => Poll::Ready(value),
                None => {
                    self.wait_at_the_door(context.waker());
                    Poll::Pending
                }
            }
        })
        .await
    }

    pub async fn give_back_memory(&self) {
        self.blocking(give_back_memory).await;
    }

    /// Gives a job to the helper thread; runs it here where no thread can be made, or too many jobs wait for it.
    fn hand_over(&self, job: Job) {
        let mut helper = self.shard().helper.borrow_mut();
        if helper.is_none() {
            match Helper::start(format!("helper-{}", self.shard_id().0)) {
                Ok(started) => *helper = Some(started),
                Err(error) => tracing::warn!(%error, "no helper thread: blocking work runs on its shard"),
            }
        }
        let left = match &*helper {
            Some(helper) => helper.take(job),
            None => Err(job),
        };
        drop(helper);
        if let Err(job) = left {
            job();
        }
    }
}
