//! The shard's one io_uring: set up as the kernel allows, fed, entered, reaped. What entries point to is owned by
//! `ops`; this file knows no operation.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode};

/// Entries of the submission queue: what one pass can hand over in one enter. More wait in a backlog.
const SQ_ENTRIES: u32 = 1024;
/// Entries of the completion queue. The kernel keeps what does not fit (NODROP) and gives it at the next enter.
const CQ_ENTRIES: u32 = 4096;

/// How the kernel runs completions for this ring; the first that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io) enum Setup {
    /// One issuer, completions only inside our own enters (6.1).
    DeferredSingleIssuer,
    /// Completions at the next system call, never by interruption (5.19).
    Cooperative,
    Plain,
}

/// How long an enter may block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    /// Until a completion, or for so long.
    Completion(Option<Duration>),
}

pub(super) struct Ring {
    uring: IoUring,
    backlog: VecDeque<Entry>,
    enters: u64,
    msg_ring: bool,
    ftruncate: bool,
}

impl Ring {
    pub(super) fn new() -> io::Result<Self> {
        let (uring, _) = build()?;
        let mut probe = Probe::new();
        uring.submitter().register_probe(&mut probe)?;
        Ok(Ring {
            uring,
            backlog: VecDeque::new(),
            enters: 0,
            msg_ring: probe.is_supported(opcode::MsgRingData::CODE),
            ftruncate: probe.is_supported(opcode::Ftruncate::CODE),
        })
    }

    pub(super) fn raw_fd(&self) -> RawFd {
        self.uring.as_raw_fd()
    }

    /// Whether another shard may be woken by a message from this ring (5.18).
    pub(super) fn has_msg_ring(&self) -> bool {
        self.msg_ring
    }

    /// Whether a file's length can be set through the ring (6.9).
    pub(super) fn has_ftruncate(&self) -> bool {
        self.ftruncate
    }

    pub(super) fn enters(&self) -> u64 {
        self.enters
    }

    /// Queues an entry for the next enter.
    ///
    /// # Safety
    /// All memory and descriptors that the entry names must stay as they are until its completion was reaped.
    pub(super) unsafe fn push(&mut self, entry: Entry) {
        if self.backlog.is_empty() {
            // SAFETY: passed on to our caller.
            if unsafe { self.uring.submission().push(&entry) }.is_ok() {
                return;
            }
        }
        self.backlog.push_back(entry);
    }

    /// Hands over what is queued and, if asked, blocks for a completion. An interrupted or timed out wait is no error:
    /// the caller looks again at everything anyway.
    pub(super) fn enter(&mut self, wait: Wait) -> io::Result<()> {
        loop {
            self.refill();
            let more_queued = !self.backlog.is_empty();
            let wait = if more_queued || !self.uring.completion().is_empty() { Wait::No } else { wait };
            if wait == Wait::No && !self.needs_enter() {
                return Ok(());
            }
            self.enters += 1;
            match self.enter_once(wait) {
                Ok(_) if more_queued => {}
                Ok(_) => return Ok(()),
                Err(error) => match error.raw_os_error() {
                    // EBUSY and EAGAIN: the completion queue is full or the kernel short of memory; reap, then go on.
                    Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN) => return Ok(()),
                    _ => return Err(error),
                },
            }
        }
    }

    /// Takes what has completed: (user data, result).
    pub(super) fn reap(&mut self, into: &mut Vec<(u64, i32)>) {
        into.extend(self.uring.completion().map(|entry| (entry.user_data(), entry.result())));
    }

    fn refill(&mut self) {
        let mut queue = self.uring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: whoever called `push` with this entry keeps what it names until its completion.
            if unsafe { queue.push(entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }

    fn needs_enter(&mut self) -> bool {
        let queue = self.uring.submission();
        !queue.is_empty() || queue.taskrun() || queue.cq_overflow()
    }

    fn enter_once(&mut self, wait: Wait) -> io::Result<usize> {
        match wait {
            Wait::No => self.uring.submit(),
            Wait::Completion(None) => self.uring.submit_and_wait(1),
            Wait::Completion(Some(limit)) => {
                let limit = Timespec::from(limit);
                self.uring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&limit))
            }
        }
    }
}

/// A ring in the best setup that this kernel takes.
fn build() -> io::Result<(IoUring, Setup)> {
    for setup in [Setup::DeferredSingleIssuer, Setup::Cooperative, Setup::Plain] {
        match build_as(setup) {
            Ok(uring) => return Ok((uring, setup)),
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && setup != Setup::Plain => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("the plain setup returns either way")
}

fn build_as(setup: Setup) -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.dontfork().setup_clamp().setup_cqsize(CQ_ENTRIES);
    match setup {
        Setup::DeferredSingleIssuer => {
            builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
        }
        Setup::Cooperative => {
            builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
        }
        Setup::Plain => {}
    }
    builder.build(SQ_ENTRIES)
}

/// What a trial ring says of this kernel: the setup it takes and the opcodes among `wanted` that it lacks.
pub(super) fn trial(wanted: &[(u8, &'static str)]) -> io::Result<(Setup, bool, Vec<&'static str>)> {
    let (uring, setup) = build()?;
    let mut probe = Probe::new();
    uring.submitter().register_probe(&mut probe)?;
    let missing = wanted.iter().filter(|(code, _)| !probe.is_supported(*code)).map(|(_, name)| *name).collect();
    Ok((setup, uring.params().is_feature_ext_arg(), missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nops(ring: &mut Ring, count: u64) {
        for user_data in 0..count {
            // SAFETY: a no-operation names no memory.
            unsafe { ring.push(opcode::Nop::new().build().user_data(user_data)) };
        }
    }

    #[test]
    fn every_setup_this_kernel_takes_completes_operations() {
        for setup in [Setup::DeferredSingleIssuer, Setup::Cooperative, Setup::Plain] {
            let Ok(mut uring) = build_as(setup) else { continue };
            let entry = opcode::Nop::new().build().user_data(7);
            // SAFETY: a no-operation names no memory.
            unsafe { uring.submission().push(&entry) }.expect("room");
            uring.submit_and_wait(1).expect("enter");
            assert_eq!(uring.completion().next().map(|done| done.user_data()), Some(7), "{setup:?}");
        }
    }

    #[test]
    fn more_than_the_queues_hold_completes_in_order() {
        let mut ring = Ring::new().expect("io_uring");
        let count = u64::from(SQ_ENTRIES) * 9;
        nops(&mut ring, count);
        let mut reaped = Vec::new();
        while reaped.len() < count as usize {
            ring.enter(Wait::Completion(None)).expect("enter");
            ring.reap(&mut reaped);
        }
        assert!(reaped.iter().map(|(user_data, _)| *user_data).eq(0..count));
    }

    #[test]
    fn an_enter_without_work_is_no_system_call_and_a_wait_ends_by_its_limit() {
        let mut ring = Ring::new().expect("io_uring");
        ring.enter(Wait::No).expect("nothing");
        assert_eq!(ring.enters(), 0);
        let start = std::time::Instant::now();
        ring.enter(Wait::Completion(Some(Duration::from_millis(5)))).expect("timed out");
        assert!(start.elapsed() >= Duration::from_millis(5));
        assert_eq!(ring.enters(), 1);
    }

    #[test]
    fn the_best_setup_is_the_first_that_works() {
        let (setup, ext_arg, missing) = trial(&[(opcode::Nop::CODE, "nop"), (250, "none")]).expect("io_uring");
        assert_eq!(build_as(Setup::DeferredSingleIssuer).is_ok(), setup == Setup::DeferredSingleIssuer);
        assert!(ext_arg);
        assert_eq!(missing, ["none"]);
    }
}
