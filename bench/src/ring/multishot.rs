//! The same echo on a bare io_uring whose receives are multishot and take their buffers from a ring of them: no receive is
//! handed over anew, and none waits with a buffer of its own.

use std::alloc::{Layout, alloc_zeroed};
use std::collections::VecDeque;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::mpsc::Receiver;

use io_uring::types::{BufRingEntry, Fd};
use io_uring::{IoUring, cqueue, opcode};

use super::{BUFFER_BYTES, Meter, Reading, Served, accepted, on_core};

/// A power of two, and more than connections have unanswered receives.
const BUFFERS: u16 = 1024;
const GROUP: u16 = 0;
/// The ring of buffers begins on a page.
const PAGE_BYTES: usize = 4096;
/// Marks the completions of sends.
const SENDING: u64 = 1 << 32;

pub(super) fn serve(served: Served, core: Option<usize>) -> Receiver<(Reading, Reading)> {
    on_core(served, core, echo)
}

/// Buffers that the kernel takes to receive into. Never freed, as the kernel may still hold some at the end.
struct Buffers {
    ring: *mut BufRingEntry,
    bytes: &'static mut [u8],
    tail: u16,
}

impl Buffers {
    fn register(ring: &IoUring) -> Buffers {
        let entries = usize::from(BUFFERS) * size_of::<BufRingEntry>();
        let layout = Layout::from_size_align(entries, PAGE_BYTES).expect("a small allocation");
        // SAFETY: the layout has a size.
        let entries = unsafe { alloc_zeroed(layout) }.cast::<BufRingEntry>();
        assert!(!entries.is_null(), "memory for the ring of buffers");
        // SAFETY: that many entries begin at this address, on a page, and are never freed.
        let registered = unsafe { ring.submitter().register_buf_ring_with_flags(entries as u64, BUFFERS, GROUP, 0) };
        registered.expect("rings of buffers (Linux 5.19)");
        let bytes = vec![0; usize::from(BUFFERS) * BUFFER_BYTES].leak();
        let mut buffers = Buffers { ring: entries, bytes, tail: 0 };
        (0..BUFFERS).for_each(|id| buffers.give(id));
        buffers
    }

    fn get(&self, id: u16) -> &[u8] {
        &self.bytes[usize::from(id) * BUFFER_BYTES..][..BUFFER_BYTES]
    }

    /// Lets the kernel have a buffer.
    fn give(&mut self, id: u16) {
        let start = self.bytes[usize::from(id) * BUFFER_BYTES..].as_mut_ptr();
        // SAFETY: the entry is one of the ring's, and the kernel looks at none from the tail on.
        let entry = unsafe { &mut *self.ring.add(usize::from(self.tail % BUFFERS)) };
        entry.set_addr(start as u64);
        entry.set_len(BUFFER_BYTES as u32);
        entry.set_bid(id);
        self.tail = self.tail.wrapping_add(1);
        // SAFETY: the ring's tail stands in its first entry, is written by this thread alone, and read by the kernel.
        let tail = unsafe { &*BufRingEntry::tail(self.ring).cast::<AtomicU16>() };
        tail.store(self.tail, Ordering::Release);
    }
}

/// A buffer that holds what was received, and what of it has been sent.
struct Held {
    id: u16,
    len: usize,
    sent: usize,
}

struct Connection {
    socket: TcpStream,
    /// In order; the first is being sent.
    held: VecDeque<Held>,
}

impl Connection {
    fn receive(&self, ring: &mut IoUring, at: usize) {
        let entry = opcode::RecvMulti::new(Fd(self.socket.as_raw_fd()), GROUP).build().user_data(at as u64);
        // SAFETY: the buffers it takes are the ring's, which are never freed.
        unsafe { ring.submission().push(&entry) }.expect("room for every connection");
    }

    fn send(&self, ring: &mut IoUring, at: usize, buffers: &Buffers) {
        let Some(Held { id, len, sent }) = self.held.front() else { return };
        let rest = &buffers.get(*id)[*sent..*len];
        let entry = opcode::Send::new(Fd(self.socket.as_raw_fd()), rest.as_ptr(), rest.len() as u32).build();
        // SAFETY: the buffer is not given back before this has completed, and never freed.
        unsafe { ring.submission().push(&entry.user_data(SENDING | at as u64)) }.expect("room for every connection");
    }
}

fn echo(served: &Served) -> (Reading, Reading) {
    let mut connections: Vec<Connection> =
        accepted(served).map(|socket| Connection { socket, held: VecDeque::new() }).collect();
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(1024)
        .expect("io_uring with deferred task run (Linux 6.1)");
    let mut buffers = Buffers::register(&ring);
    let mut meter = Meter::new(served);
    let mut enters = 0;
    connections.iter().enumerate().for_each(|(at, connection)| connection.receive(&mut ring, at));
    let mut completed = Vec::new();
    loop {
        enters += 1;
        ring.submit_and_wait(1).expect("enter");
        completed.extend(ring.completion().map(|done| (done.user_data(), done.result(), done.flags())));
        for (data, result, flags) in completed.drain(..) {
            let at = (data & !SENDING) as usize;
            let connection = &mut connections[at];
            let moved = usize::try_from(result).unwrap_or(0);
            if data & SENDING != 0 {
                let first = connection.held.front_mut().expect("it is being sent");
                first.sent += moved;
                if first.sent == first.len
                    && let Some(Held { id, len, .. }) = connection.held.pop_front()
                {
                    buffers.give(id);
                    if let Some(both) = meter.echoed(len, || enters) {
                        return both;
                    }
                }
                connection.send(&mut ring, at, &buffers);
                continue;
            }
            if let Some(id) = cqueue::buffer_select(flags) {
                connection.held.push_back(Held { id, len: moved, sent: 0 });
                if connection.held.len() == 1 {
                    connection.send(&mut ring, at, &buffers);
                }
            }
            if !cqueue::more(flags) {
                connection.receive(&mut ring, at);
            }
        }
    }
}
