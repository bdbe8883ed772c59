//! The load generator: every connection keeps its messages in flight until all are answered. Plain epoll, so that the
//! two servers meet the same thing.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;

use super::{BUFFER_BYTES, MESSAGE_BYTES};

struct Connection {
    socket: TcpStream,
    /// Bytes that are still to be sent, and to come back.
    unsent: u64,
    unanswered: u64,
}

/// Sends `per_connection` messages on each connection and waits for all answers.
pub(super) fn run(address: SocketAddr, connections: usize, in_flight: usize, per_connection: u64) {
    let window = vec![7u8; in_flight * MESSAGE_BYTES];
    let bytes = per_connection * MESSAGE_BYTES as u64;
    let epoll = Epoll::new();
    let mut open: Vec<Connection> = (0..connections)
        .map(|at| {
            let socket = TcpStream::connect(address).expect("the server accepts");
            socket.set_nodelay(true).expect("a TCP socket");
            epoll.add(&socket, at as u64);
            Connection { socket, unsent: bytes, unanswered: bytes }
        })
        .collect();
    for connection in &mut open {
        connection.send(&window);
        connection.socket.set_nonblocking(true).expect("a socket");
    }
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut busy = connections;
    while busy > 0 {
        epoll.wait(|at| {
            let connection = &mut open[at as usize];
            if connection.answer(&window, &mut buffer) && connection.unanswered == 0 {
                busy -= 1;
            }
        });
    }
}

impl Connection {
    fn send(&mut self, bytes: &[u8]) {
        let count = (bytes.len() as u64).min(self.unsent);
        // What is in flight is less than a socket's buffer, so it never blocks.
        self.socket.write_all(&bytes[..count as usize]).expect("the server reads");
        self.unsent -= count;
    }

    /// Takes what came back and sends as much again. False where nothing had come.
    fn answer(&mut self, window: &[u8], buffer: &mut [u8]) -> bool {
        match self.socket.read(buffer) {
            // The server ends with its last message, while other connections' answers are still on their way.
            Ok(0) if self.unanswered == 0 => false,
            Ok(0) => panic!("the server closed with {} bytes unanswered", self.unanswered),
            Ok(got) => {
                self.unanswered -= got as u64;
                self.send(&window[..got.min(window.len())]);
                true
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => false,
            Err(error) => panic!("receive from the server: {error}"),
        }
    }
}

pub struct Epoll(libc::c_int);

impl Epoll {
    pub fn new() -> Self {
        // SAFETY: epoll_create1 takes no pointers.
        let raw = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        assert!(raw >= 0, "epoll_create1: {}", std::io::Error::last_os_error());
        Epoll(raw)
    }

    pub fn add(&self, socket: &TcpStream, data: u64) {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: data };
        // SAFETY: both descriptors are open and `event` is whole for the length of the call.
        let result = unsafe { libc::epoll_ctl(self.0, libc::EPOLL_CTL_ADD, socket.as_raw_fd(), &raw mut event) };
        assert_eq!(result, 0, "epoll_ctl: {}", std::io::Error::last_os_error());
    }

    pub fn wait(&self, mut ready: impl FnMut(u64)) {
        const MOST: usize = 64;
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        // SAFETY: `events` has room for MOST events for the length of the call.
        let count = unsafe { libc::epoll_wait(self.0, events.as_mut_ptr(), MOST as libc::c_int, -1) };
        events.iter().take(usize::try_from(count).unwrap_or(0)).for_each(|event| ready(event.u64));
    }
}

impl Drop for Epoll {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours and is closed only here.
        unsafe { libc::close(self.0) };
    }
}
