//! Waits until one of many sockets can be read or written, or until a time.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

/// The sockets waited for, each at the place it was added.
#[derive(Default)]
pub struct Poll {
    sockets: Vec<libc::pollfd>,
}

impl Poll {
    /// Waits for this socket, too; the caller keeps it open for as long as it waits.
    pub fn add(&mut self, socket: &TcpStream) {
        self.sockets.push(libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLIN, revents: 0 });
    }

    /// Whether a socket is also waited for until it takes more to send.
    pub fn wants_to_send(&mut self, at: usize, wants: bool) {
        self.sockets[at].events = if wants { libc::POLLIN | libc::POLLOUT } else { libc::POLLIN };
    }

    /// Waits for a socket no longer.
    #[cfg(test)]
    pub fn forget(&mut self, at: usize) {
        self.sockets[at].fd = -1;
    }

    /// Waits at most `timeout`.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let timeout = libc::timespec {
            tv_sec: libc::time_t::try_from(timeout.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        let count = libc::nfds_t::try_from(self.sockets.len()).expect("a few sockets");
        // SAFETY: `sockets` holds `count` whole entries, which nothing else touches for the length of the call;
        // `timeout` lives as long, and no signal mask is given.
        let result = unsafe { libc::ppoll(self.sockets.as_mut_ptr(), count, &raw const timeout, std::ptr::null()) };
        match result {
            0.. => Ok(()),
            _ => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(()),
                error => Err(error),
            },
        }
    }

    /// Whether the last wait found something at a socket: bytes, room, or its end.
    pub fn is_ready(&self, at: usize) -> bool {
        self.sockets[at].revents != 0
    }
}

/// Lets this thread's waits end within a microsecond of their time: the kernel's 50 would count as latency.
pub fn be_punctual() {
    const SLACK_NS: libc::c_ulong = 1_000;
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches this thread only.
    let result = unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, SLACK_NS) };
    debug_assert_eq!(result, 0, "every thread may set its own slack");
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::io::Write;
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_socket_is_ready_when_bytes_came() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let mut poll = Poll::default();
        poll.add(&near);
        let start = Instant::now();
        poll.wait(Duration::from_millis(5)).unwrap();
        assert!(!poll.is_ready(0) && start.elapsed() >= Duration::from_millis(4));
        far.write_all(b"x").unwrap();
        poll.wait(Duration::from_secs(10)).unwrap();
        assert!(poll.is_ready(0));
    }

    #[test]
    fn an_idle_socket_takes_more_to_send() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut poll = Poll::default();
        poll.add(&near);
        poll.wants_to_send(0, true);
        poll.wait(Duration::from_secs(10)).unwrap();
        assert!(poll.is_ready(0));
    }
}
