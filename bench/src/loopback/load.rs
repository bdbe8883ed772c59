//! The load generator: every connection keeps its requests in flight until all are answered. Plain epoll, and nothing
//! is looked at but the number of bytes, so that server and echo meet the same thing.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::{Rate, Shape, Wire, cql};
use crate::counters::clock_ns;
use crate::ring::Epoll;

const BUFFER_BYTES: usize = 64 << 10;
/// Of the operations, so many tenths before the measurement and so many in it.
const WARM_UP_TENTHS: u64 = 2;

struct Connection {
    socket: TcpStream,
    /// The next request of the cycle.
    next: usize,
    unsent: u64,
    unanswered: u64,
    /// Bytes of an answer that has not come whole.
    part_bytes: usize,
}

/// The requests, repeated, so that any run of them lies in one piece.
struct Cycle {
    bytes: Vec<u8>,
    requests: usize,
    request_bytes: usize,
}

/// `asks` says whether the server speaks CQL. `cpu_ns` reads the server's clock.
pub fn run(
    address: SocketAddr,
    wire: &Wire,
    asks: bool,
    shape: Shape,
    cpu_ns: impl Fn() -> Result<u64, String>,
) -> Result<Rate, String> {
    let requests = wire.requests.len() / wire.request_bytes;
    assert!(shape.in_flight <= requests, "a request for every place in flight");
    let cycle = Cycle { bytes: wire.requests.repeat(2), requests, request_bytes: wire.request_bytes };
    let each = shape.operations.div_ceil(shape.connections as u64);
    let epoll = Epoll::new();
    let mut open = Vec::new();
    for at in 0..shape.connections {
        let socket = if asks { cql::connect(address)? } else { plain(address)? };
        epoll.add(&socket, at as u64);
        open.push(Connection { socket, next: at * 7 % requests, unsent: each, unanswered: each, part_bytes: 0 });
    }
    for connection in &mut open {
        connection.send(&cycle, shape.in_flight as u64)?;
        connection.socket.set_nonblocking(true).map_err(|error| error.to_string())?;
    }
    let total = each * shape.connections as u64;
    let mut answered = 0;
    let mut first = None;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut failed = None;
    while answered < total && failed.is_none() {
        epoll.wait(|at| match open[at as usize].answer(&cycle, wire.answer_bytes, &mut buffer) {
            Ok(count) => answered += count,
            Err(error) => failed = Some(error),
        });
        if first.is_none() && answered >= total * WARM_UP_TENTHS / 10 {
            first = Some((answered, clock_ns(libc::CLOCK_MONOTONIC), cpu_ns()?));
        }
    }
    let (before, started_ns, cpu_before) = first.ok_or("nothing was answered")?;
    let measured = (answered - before) as f64;
    let elapsed_ns = (clock_ns(libc::CLOCK_MONOTONIC) - started_ns) as f64;
    let cpu = cpu_ns()?.saturating_sub(cpu_before) as f64;
    match failed {
        Some(error) => Err(error),
        None => Ok(Rate { operations_per_s: measured / elapsed_ns * 1e9, server_cpu_ns: cpu / measured }),
    }
}

fn plain(address: SocketAddr) -> Result<TcpStream, String> {
    let socket = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
    socket.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(socket)
}

impl Connection {
    fn send(&mut self, cycle: &Cycle, requests: u64) -> Result<(), String> {
        let count = requests.min(self.unsent);
        let start = self.next * cycle.request_bytes;
        let bytes = &cycle.bytes[start..start + count as usize * cycle.request_bytes];
        // What is in flight is less than a socket's buffer, so it never blocks.
        self.socket.write_all(bytes).map_err(|error| format!("send: {error}"))?;
        self.next = (self.next + count as usize) % cycle.requests;
        self.unsent -= count;
        Ok(())
    }

    /// Takes what came and sends as many requests as were answered: that number.
    fn answer(&mut self, cycle: &Cycle, answer_bytes: usize, buffer: &mut [u8]) -> Result<u64, String> {
        match self.socket.read(buffer) {
            Ok(0) if self.unanswered == 0 => Ok(0),
            Ok(0) => Err(format!("the server closed with {} requests unanswered", self.unanswered)),
            Ok(got) => {
                self.part_bytes += got;
                let count = (self.part_bytes / answer_bytes) as u64;
                self.part_bytes %= answer_bytes;
                self.unanswered = self.unanswered.checked_sub(count).ok_or("more answers than requests")?;
                self.send(cycle, count)?;
                Ok(count)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(0),
            Err(error) => Err(format!("receive: {error}")),
        }
    }
}
