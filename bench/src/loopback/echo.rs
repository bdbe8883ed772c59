//! The floor over loopback: on a bare io_uring, so many bytes back for so many received. Single issuer, deferred task
//! run, one enter a turn, one send for all that one receive asked for.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use io_uring::{IoUring, opcode, types};

use crate::baseline::server::thread_cpu_ns;

const BUFFER_BYTES: usize = 64 << 10;

pub struct Echo {
    pub address: SocketAddr,
    thread_id: i32,
    thread: JoinHandle<Result<(), String>>,
}

/// One connection: it is receiving, or sending `unsent` bytes of `out`.
struct Connection {
    socket: TcpStream,
    received: Vec<u8>,
    out: Vec<u8>,
    /// Received of a request that has not come whole.
    part_bytes: usize,
    unsent: usize,
    open: bool,
}

/// Serves so many connections, until the peer has closed them all.
pub fn start(
    connections: usize,
    request_bytes: usize,
    answer_bytes: usize,
    core: Option<usize>,
) -> Result<Echo, String> {
    let (told, taken) = channel();
    let thread = std::thread::spawn(move || {
        if let Some(id) = core {
            core_affinity::set_for_current(core_affinity::CoreId { id });
        }
        serve(connections, request_bytes, answer_bytes, &told).map_err(|error| format!("the echo: {error}"))
    });
    match taken.recv() {
        Ok((address, thread_id)) => Ok(Echo { address, thread_id, thread }),
        Err(_) => Err(thread.join().ok().and_then(Result::err).unwrap_or_else(|| "the echo did not start".into())),
    }
}

impl Echo {
    pub fn cpu_ns(&self) -> Result<u64, String> {
        thread_cpu_ns(std::process::id(), self.thread_id)
    }

    pub fn join(self) -> Result<(), String> {
        self.thread.join().unwrap_or_else(|_| Err("the echo panicked".into()))
    }
}

fn serve(count: usize, request: usize, answer: usize, told: &Sender<(SocketAddr, i32)>) -> std::io::Result<()> {
    let mut ring: IoUring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(1024)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    // SAFETY: gettid takes nothing and cannot fail.
    let thread_id = unsafe { libc::gettid() };
    let address = listener.local_addr()?;
    // Nobody waits any more where this fails; accepting then fails too, or serves nobody.
    let _told = told.send((address, thread_id));
    let mut connections = Vec::new();
    for _ in 0..count {
        let (socket, _) = listener.accept()?;
        socket.set_nodelay(true)?;
        let buffers = (vec![0; BUFFER_BYTES], vec![0; (BUFFER_BYTES / request + 1) * answer]);
        connections.push(Connection {
            socket,
            received: buffers.0,
            out: buffers.1,
            part_bytes: 0,
            unsent: 0,
            open: true,
        });
    }
    for (at, connection) in connections.iter_mut().enumerate() {
        connection.push(&mut ring, at, answer);
    }
    let mut open = count;
    let mut completed = Vec::new();
    while open > 0 {
        ring.submit_and_wait(1)?;
        completed.extend(ring.completion().map(|done| (done.user_data(), done.result())));
        for (at, result) in completed.drain(..) {
            let at = at as usize;
            let connection = &mut connections[at];
            connection.turn(result, request, answer);
            if connection.open {
                connection.push(&mut ring, at, answer);
            } else {
                open -= 1;
            }
        }
    }
    Ok(())
}

impl Connection {
    /// Takes a completion: bytes moved, nothing where the peer has closed, or an error.
    fn turn(&mut self, result: i32, request: usize, answer: usize) {
        match usize::try_from(result) {
            Ok(0) | Err(_) => self.open = false,
            Ok(sent) if self.unsent > 0 => self.unsent -= sent,
            Ok(got) => {
                self.part_bytes += got;
                self.unsent = self.part_bytes / request * answer;
                self.part_bytes %= request;
            }
        }
    }

    fn push(&mut self, ring: &mut IoUring, at: usize, answer: usize) {
        debug_assert!(self.unsent <= self.out.len() && answer > 0);
        let fd = types::Fd(self.socket.as_raw_fd());
        let entry = if self.unsent == 0 {
            opcode::Recv::new(fd, self.received.as_mut_ptr(), self.received.len() as u32).build()
        } else {
            opcode::Send::new(fd, self.out.as_ptr(), self.unsent as u32).build()
        };
        // SAFETY: one operation a connection is in flight, nothing else touches its buffer meanwhile, and buffers and
        // socket stay until every connection's last operation has completed.
        unsafe { ring.submission().push(&entry.user_data(at as u64)) }.expect("room for every connection");
    }
}
