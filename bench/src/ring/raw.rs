//! The same echo on a bare io_uring: the floor. Single issuer, deferred task run, one enter a turn, nothing between the
//! kernel and the buffers.

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::mpsc::Receiver;

use io_uring::{IoUring, opcode, types};

use super::{BUFFER_BYTES, Meter, Reading, Served, accepted, on_core};

struct Connection {
    socket: TcpStream,
    buffer: Vec<u8>,
    /// What was received and is being sent, from where.
    received: usize,
    sent: usize,
    receiving: bool,
}

pub(super) fn serve(served: Served, core: Option<usize>) -> Receiver<(Reading, Reading)> {
    on_core(served, core, echo)
}

fn echo(served: &Served) -> (Reading, Reading) {
    let connections: Vec<Connection> = accepted(served)
        .map(|socket| Connection { socket, buffer: vec![0; BUFFER_BYTES], received: 0, sent: 0, receiving: true })
        .collect();
    // Never freed: the kernel may hold the last receives a little longer than the ring stands.
    let connections = connections.leak();
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(1024)
        .expect("io_uring with deferred task run (Linux 6.1)");
    let mut meter = Meter::new(served);
    let mut enters = 0;
    for (at, connection) in connections.iter_mut().enumerate() {
        connection.push(&mut ring, at);
    }
    let mut completed = Vec::new();
    loop {
        enters += 1;
        ring.submit_and_wait(1).expect("enter");
        completed.extend(ring.completion().map(|done| (done.user_data(), done.result())));
        for (at, result) in completed.drain(..) {
            let at = at as usize;
            let moved = usize::try_from(result).expect("the load generator does not fail");
            let connection = &mut connections[at];
            if connection.turn(moved)
                && let Some(both) = meter.echoed(connection.received, || enters)
            {
                return both;
            }
            connection.push(&mut ring, at);
        }
    }
}

impl Connection {
    /// Takes a completion that moved so many bytes. True where an answer is complete.
    fn turn(&mut self, moved: usize) -> bool {
        if self.receiving {
            (self.received, self.sent, self.receiving) = (moved, 0, false);
            return false;
        }
        self.sent += moved;
        self.receiving = self.sent == self.received;
        self.receiving
    }

    fn push(&mut self, ring: &mut IoUring, at: usize) {
        let fd = types::Fd(self.socket.as_raw_fd());
        let entry = if self.receiving {
            opcode::Recv::new(fd, self.buffer.as_mut_ptr(), self.buffer.len() as u32).build()
        } else {
            let rest = &self.buffer[self.sent..self.received];
            opcode::Send::new(fd, rest.as_ptr(), rest.len() as u32).build()
        };
        // SAFETY: one operation a connection is in flight, nothing else touches the buffer meanwhile, and buffer and
        // socket are never freed.
        unsafe { ring.submission().push(&entry.user_data(at as u64)) }.expect("room for every connection");
    }
}
