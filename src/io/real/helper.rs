//! The helper thread of a shard: blocking work that has no operation in the ring. Made at its first use.

use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use super::core::Core;
use super::cpus::Affinity;

type Job = Box<dyn FnOnce() + Send>;

pub(super) struct Helper {
    jobs: Sender<Job>,
}

impl Helper {
    fn start(name: String) -> std::io::Result<Self> {
        let (jobs, queue) = mpsc::channel::<Job>();
        std::thread::Builder::new().name(name).spawn(move || {
            // A new thread inherits its shard's one core; blocking work must not stand in that one's way.
            Affinity::of_the_process().apply();
            queue.into_iter().for_each(|job| job());
        })?;
        Ok(Helper { jobs })
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
        let result = Arc::new(Mutex::new(None));
        let (theirs, doorbells, id) = (result.clone(), self.shard().doorbells.clone(), self.shard_id());
        let job = move || {
            let value = work();
            *theirs.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
            doorbells[usize::from(id.0)].ring_from_thread();
        };
        self.hand_over(Box::new(job));
        std::future::poll_fn(|context| match result.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(value) => Poll::Ready(value),
            None => {
                self.wait_at_the_door(context.waker());
                Poll::Pending
            }
        })
        .await
    }

    pub async fn give_back_memory(&self) {
        self.blocking(give_back_memory).await;
    }

    /// Gives a job to the helper thread; runs it here where no thread can be made.
    fn hand_over(&self, job: Job) {
        let mut helper = self.shard().helper.borrow_mut();
        if helper.is_none() {
            match Helper::start(format!("helper-{}", self.shard_id().0)) {
                Ok(started) => *helper = Some(started),
                Err(error) => tracing::warn!(%error, "no helper thread: blocking work runs on its shard"),
            }
        }
        match &*helper {
            Some(helper) => helper.jobs.send(job).expect("the helper ends only after its sender"),
            None => job(),
        }
    }
}
