//! Operations in the kernel's hands. Each stands in a slot that owns everything its entry names (buffer, path,
//! descriptor) from submission until its completion was reaped, whatever becomes of the future that waits for it.

use std::ffi::CString;
use std::future::Future;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use io_uring::squeue::Entry;
use io_uring::{opcode, types};

use super::core::Core;
use super::fd::Fd;
use crate::base::local::Permit;
use crate::io::AlignedBuf;

/// User data of entries whose completion nobody looks at.
pub(super) const NOBODY: u64 = u64::MAX;
/// User data of a wake that another shard's ring sent to this one.
pub(super) const RUNG: u64 = u64::MAX - 1;
/// User data of this shard's wake of shard `n` is `RINGING + n`; it completes here only where it failed.
pub(super) const RINGING: u64 = u64::MAX - (1 << 32);

/// The end of what a peer sends; errors and the end of both ways are told in any case.
const HANG_UP: u32 = libc::POLLRDHUP as u32;

/// One operation and all that it needs.
pub(super) enum Work {
    Read {
        fd: Fd,
        buf: AlignedBuf,
        from: usize,
        offset: u64,
        permit: Option<Permit>,
    },
    Write {
        fd: Fd,
        buf: AlignedBuf,
        from: usize,
        offset: u64,
        synced: bool,
        permit: Option<Permit>,
    },
    SyncData {
        fd: Fd,
    },
    Allocate {
        fd: Fd,
        len: u64,
    },
    SetLen {
        fd: Fd,
        len: u64,
    },
    Stat {
        fd: Option<Fd>,
        path: CString,
        out: Box<libc::statx>,
    },
    Open {
        path: CString,
        flags: i32,
    },
    Close {
        raw: i32,
    },
    MakeDir {
        path: CString,
    },
    Unlink {
        path: CString,
        flags: i32,
    },
    Rename {
        from: CString,
        to: CString,
    },
    Link {
        from: CString,
        to: CString,
    },
    Accept {
        fd: Fd,
    },
    Recv {
        fd: Fd,
        buf: Vec<u8>,
    },
    Send {
        fd: Fd,
        buf: Vec<u8>,
        from: usize,
    },
    /// Ends when the peer sends no more.
    HangUp {
        fd: Fd,
    },
    /// The read of this shard's own eventfd, always armed. The shard keeps the descriptor for as long as it lives.
    Listen {
        eventfd: RawFd,
        count: Box<u64>,
    },
}

impl Work {
    /// The entry for this operation. What it points to is on the heap and owned by `self`, so it stays where it is
    /// when `self` moves.
    fn entry(&mut self) -> Entry {
        match self {
            Work::Read { fd, buf, from, offset, .. } => {
                let rest = &mut buf[*from..];
                opcode::Read::new(fd.target(), rest.as_mut_ptr(), clamp_len(rest.len())).offset(*offset).build()
            }
            Work::Write { fd, buf, from, offset, synced, .. } => {
                let rest = &buf[*from..];
                let flags = if *synced { libc::RWF_DSYNC } else { 0 };
                opcode::Write::new(fd.target(), rest.as_ptr(), clamp_len(rest.len()))
                    .offset(*offset)
                    .rw_flags(flags)
                    .build()
            }
            Work::SyncData { fd } => opcode::Fsync::new(fd.target()).flags(types::FsyncFlags::DATASYNC).build(),
            Work::Allocate { fd, len } => opcode::Fallocate::new(fd.target(), *len).build(),
            Work::SetLen { fd, len } => opcode::Ftruncate::new(fd.target(), *len).build(),
            Work::Close { raw } => opcode::Close::new(types::Fd(*raw)).build(),
            Work::Accept { fd } => opcode::Accept::new(fd.target(), std::ptr::null_mut(), std::ptr::null_mut())
                .flags(libc::SOCK_CLOEXEC)
                .build(),
            Work::Recv { fd, buf } => {
                let spare = buf.spare_capacity_mut();
                opcode::Recv::new(fd.target(), spare.as_mut_ptr().cast(), clamp_len(spare.len())).build()
            }
            Work::Send { fd, buf, from } => {
                let rest = &buf[*from..];
                opcode::Send::new(fd.target(), rest.as_ptr(), clamp_len(rest.len()))
                    .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
                    .build()
            }
            Work::HangUp { fd } => opcode::PollAdd::new(fd.target(), HANG_UP).build(),
            Work::Listen { eventfd, count } => {
                let into: *mut u64 = &mut **count;
                opcode::Read::new(types::Fd(*eventfd), into.cast(), 8).build()
            }
            named => named.name_entry(),
        }
    }

    /// The entries of operations on names.
    fn name_entry(&mut self) -> Entry {
        let here = types::Fd(libc::AT_FDCWD);
        match self {
            Work::Stat { fd, path, out } => {
                let (target, flags) = match fd {
                    Some(fd) => (fd.target(), libc::AT_EMPTY_PATH),
                    None => (here, 0),
                };
                let into: *mut libc::statx = &mut **out;
                opcode::Statx::new(target, path.as_ptr(), into.cast())
                    .flags(flags)
                    .mask(libc::STATX_SIZE | libc::STATX_TYPE)
                    .build()
            }
            Work::Open { path, flags } => {
                opcode::OpenAt::new(here, path.as_ptr()).flags(*flags | libc::O_CLOEXEC).mode(0o640).build()
            }
            Work::MakeDir { path } => opcode::MkDirAt::new(here, path.as_ptr()).mode(0o750).build(),
            Work::Unlink { path, flags } => opcode::UnlinkAt::new(here, path.as_ptr()).flags(*flags).build(),
            Work::Rename { from, to } => opcode::RenameAt::new(here, from.as_ptr(), here, to.as_ptr()).build(),
            Work::Link { from, to } => opcode::LinkAt::new(here, from.as_ptr(), here, to.as_ptr()).build(),
            _ => unreachable!("operations on descriptors have their entries above"),
        }
    }

    /// Whether it may wait for ever for a peer, so that nobody's waiting for it must end it.
    fn waits_for_a_peer(&self) -> bool {
        matches!(self, Work::Accept { .. } | Work::Recv { .. } | Work::Send { .. } | Work::HangUp { .. })
    }
}

/// One entry moves at most so much; callers go on with the rest.
fn clamp_len(len_bytes: usize) -> u32 {
    const MOST: usize = 1 << 30;
    u32::try_from(len_bytes.min(MOST)).expect("at most 1 GiB")
}

enum Slot {
    Free,
    InFlight { work: Work, waker: Option<Waker>, detached: bool },
    Done { work: Work, result: i32 },
}

/// All operations of a shard, by slot number, which is their user data.
#[derive(Default)]
pub(super) struct Ops {
    slots: Vec<Slot>,
    free: Vec<u32>,
    in_flight: usize,
    completed: u64,
}

/// What is left to do for a dropped future once the slots are free to be borrowed again.
enum Detached {
    /// Under way: its waker is to be dropped, and the kernel perhaps asked to end it.
    InFlight { waker: Option<Waker>, cancel: bool },
    /// Finished, and its result never seen.
    Done(Work, i32),
}

/// What is left to do for a completion once the slots are free to be borrowed again.
pub(super) enum Completed {
    Wake(Option<Waker>),
    /// Nobody waits any more: the work is dropped, with its buffer and its hold on the descriptor.
    Drop(Work, i32),
}

impl Ops {
    /// Takes the work over, and gives its slot and entry.
    fn begin(&mut self, mut work: Work, detached: bool) -> (u32, Entry) {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.slots.push(Slot::Free);
                u32::try_from(self.slots.len() - 1).expect("fewer operations than 2^32")
            }
        };
        let entry = work.entry().user_data(u64::from(slot));
        self.slots[slot as usize] = Slot::InFlight { work, waker: None, detached };
        self.in_flight += 1;
        (slot, entry)
    }

    /// The kernel is done with slot `user_data`.
    pub(super) fn complete(&mut self, user_data: u64, result: i32) -> Completed {
        let slot = usize::try_from(user_data).expect("a slot number");
        self.in_flight -= 1;
        self.completed += 1;
        match std::mem::replace(&mut self.slots[slot], Slot::Free) {
            Slot::InFlight { work, detached: true, .. } => {
                self.free.push(slot as u32);
                Completed::Drop(work, result)
            }
            Slot::InFlight { work, waker, detached: false } => {
                self.slots[slot] = Slot::Done { work, result };
                Completed::Wake(waker)
            }
            Slot::Free | Slot::Done { .. } => panic!("a completion for slot {slot}, which has nothing in flight"),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    /// The result, once it is there; until then `waker` is told.
    fn poll(&mut self, slot: u32, by: &Waker) -> Poll<(Work, i32)> {
        let place = &mut self.slots[slot as usize];
        if let Slot::InFlight { waker, .. } = place {
            if !waker.as_ref().is_some_and(|known| known.will_wake(by)) {
                *waker = Some(by.clone());
            }
            return Poll::Pending;
        }
        match std::mem::replace(place, Slot::Free) {
            Slot::Done { work, result } => {
                self.free.push(slot);
                Poll::Ready((work, result))
            }
            _ => panic!("slot {slot} was polled after its result was taken"),
        }
    }

    /// Its future is gone.
    fn detach(&mut self, slot: u32) -> Detached {
        match &mut self.slots[slot as usize] {
            Slot::InFlight { work, waker, detached } => {
                *detached = true;
                Detached::InFlight { waker: waker.take(), cancel: work.waits_for_a_peer() }
            }
            place => {
                let Slot::Done { work, result } = std::mem::replace(place, Slot::Free) else {
                    panic!("slot {slot} was dropped after its result was taken");
                };
                self.free.push(slot);
                Detached::Done(work, result)
            }
        }
    }
}

/// Waits for one operation. Dropping it leaves the operation to finish on its own (or ends it, where it waits for a
/// peer); its buffer lives until then.
pub(super) struct Op {
    core: Core,
    slot: Option<u32>,
}

impl Core {
    /// Hands work to the kernel at the next enter.
    pub(super) fn submit(&self, work: Work) -> Op {
        Op { slot: Some(self.start(work, false)), core: self.clone() }
    }

    /// Hands work to the kernel that nobody waits for.
    pub(super) fn submit_detached(&self, work: Work) {
        self.start(work, true);
    }

    /// Drops finished work that nobody waited for, and what it gave.
    pub(super) fn discard(&self, work: Work, result: i32) {
        match work {
            Work::Open { .. } | Work::Accept { .. } if result >= 0 => {
                // SAFETY: the kernel made this descriptor for us, and nobody was told of it.
                drop(Fd::new(self, unsafe { OwnedFd::from_raw_fd(result) }));
            }
            Work::Close { raw } if result < 0 => {
                let error = std::io::Error::from_raw_os_error(-result);
                tracing::warn!(%error, descriptor = raw, "close failed");
            }
            other => drop(other),
        }
    }

    fn start(&self, work: Work, detached: bool) -> u32 {
        assert!(!self.is_closed(), "an operation on a shard that has ended");
        let (slot, entry) = self.shard().ops.borrow_mut().begin(work, detached);
        // SAFETY: the slot owns all that the entry names and is emptied only by `Ops::complete`, which runs when the
        // completion was reaped; teardown drains the ring before the slots are dropped.
        unsafe { self.shard().ring.borrow_mut().push(entry) };
        slot
    }
}

impl Core {
    /// Runs work to its end, again where a signal got between. Gives errno on failure.
    pub(super) async fn run(&self, mut work: Work) -> (Work, Result<u32, i32>) {
        loop {
            let (back, result) = self.submit(work).await;
            match u32::try_from(result) {
                Ok(value) => return (back, Ok(value)),
                Err(_) if result == -libc::EINTR => work = back,
                Err(_) => return (back, Err(-result)),
            }
        }
    }
}

impl Future for Op {
    type Output = (Work, i32);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<(Work, i32)> {
        let slot = self.slot.expect("an operation is not polled after its result");
        let polled = self.core.shard().ops.borrow_mut().poll(slot, context.waker());
        if polled.is_ready() {
            self.slot = None;
        }
        polled
    }
}

impl Drop for Op {
    fn drop(&mut self) {
        let Some(slot) = self.slot else { return };
        let detached = self.core.shard().ops.borrow_mut().detach(slot);
        match detached {
            Detached::Done(work, result) => self.core.discard(work, result),
            Detached::InFlight { waker, cancel } => {
                drop(waker);
                if cancel && !self.core.is_closed() {
                    let entry = opcode::AsyncCancel::new(u64::from(slot)).build().user_data(NOBODY);
                    // SAFETY: a cancellation names no memory. It stands in the queue behind the operation that it
                    // means and before any later one of this slot.
                    unsafe { self.core.shard().ring.borrow_mut().push(entry) };
                }
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::{on_one_shard, scratch};
    use crate::io::{IoClass, OpenHow};
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    fn open_descriptors() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }

    /// Polls `future` once, lets it finish in the kernel where `finishes`, and drops it.
    async fn abandon(io: &crate::io::Io, future: impl Future, finishes: bool) {
        let mut future = pin!(future);
        let polled = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(polled, Poll::Pending));
        if finishes {
            io.sleep(Duration::from_millis(5)).await;
        }
    }

    #[test]
    fn what_was_opened_for_nobody_is_closed() {
        let dir = scratch("nobody");
        on_one_shard(async move |io| {
            let path = dir.join("a");
            io.write_file_synced(&path, b"x").await.unwrap();
            io.sleep(Duration::from_millis(5)).await;
            // Other tests of this process open and close too: many more than they ever have at once.
            let before = open_descriptors();
            for at in 0..400 {
                abandon(&io, io.open(&path, OpenHow::Read, IoClass::Read), at % 40 == 0).await;
            }
            io.sleep(Duration::from_millis(20)).await;
            assert!(open_descriptors() < before + 300, "{} before, {} now", before, open_descriptors());
        });
    }

    #[test]
    fn an_abandoned_accept_takes_no_later_connection() {
        on_one_shard(async move |io| {
            let listener = io.listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
            for finishes in [false, true] {
                abandon(&io, listener.accept(), finishes).await;
            }
            let addr = listener.local_addr();
            let peer = std::thread::spawn(move || std::net::TcpStream::connect(addr).unwrap());
            let accepted = listener.accept().await.unwrap();
            let peer = io.blocking(move || peer.join().unwrap()).await;
            assert_eq!(accepted.peer_addr(), peer.local_addr().unwrap());
        });
    }

    #[test]
    fn operations_are_counted() {
        let dir = scratch("counted");
        on_one_shard(async move |io| {
            let before = io.stats().operations;
            for _ in 0..10 {
                assert!(!io.exists(&dir.join("none")).await.unwrap());
            }
            assert_eq!(io.stats().operations - before, 10);
        });
    }
}
