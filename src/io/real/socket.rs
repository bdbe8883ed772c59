//! TCP through the ring.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};
use std::rc::Rc;

use super::core::Core;
use super::fd::Fd;
use super::ops::Work;
use crate::io::IoError;

/// What a receive reserves where the caller left no room.
const RECV_RESERVE_BYTES: usize = 4096;

pub struct Listener {
    core: Core,
    fd: Fd,
    local: SocketAddr,
}

/// A connection on its way to a shard.
pub struct Accepted {
    socket: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
}

/// A connection of this shard; a cheap clone.
#[derive(Clone)]
pub struct Stream(Rc<Inner>);

struct Inner {
    core: Core,
    fd: Fd,
    peer: SocketAddr,
    local: SocketAddr,
}

impl Core {
    pub async fn listen(&self, addr: SocketAddr) -> Result<Listener, IoError> {
        let failed = |error: std::io::Error| IoError::from_std("listen", None, &error);
        let socket = TcpListener::bind(addr).map_err(failed)?;
        let local = socket.local_addr().map_err(failed)?;
        Ok(Listener { core: self.clone(), fd: Fd::new(self, socket.into()), local })
    }

    pub fn adopt(&self, accepted: Accepted) -> Result<Stream, IoError> {
        let Accepted { socket, peer, local } = accepted;
        socket.set_nodelay(true).map_err(|error| IoError::from_std("set nodelay", None, &error))?;
        Ok(Stream(Rc::new(Inner { core: self.clone(), fd: Fd::new(self, socket.into()), peer, local })))
    }
}

impl Listener {
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    pub async fn accept(&self) -> Result<Accepted, IoError> {
        loop {
            let (_, result) = self.core.run(Work::Accept { fd: self.fd.clone() }).await;
            let raw = match result {
                Ok(raw) => i32::try_from(raw).expect("the kernel gave a descriptor, which is an int"),
                // It was gone before it was accepted: not the listener's failure.
                Err(libc::ECONNABORTED | libc::EPROTO) => continue,
                Err(errno) => return Err(IoError::os("accept", None, errno)),
            };
            // SAFETY: the kernel just made this descriptor for us; nothing else knows it.
            let socket = TcpStream::from(unsafe { OwnedFd::from_raw_fd(raw) });
            // A peer that has already gone has no address: drop it and take the next.
            if let (Ok(peer), Ok(local)) = (socket.peer_addr(), socket.local_addr()) {
                return Ok(Accepted { socket, peer, local });
            }
        }
    }
}

impl Accepted {
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Stream {
    pub async fn recv(&self, mut buf: Vec<u8>) -> (Vec<u8>, Result<usize, IoError>) {
        if buf.len() == buf.capacity() {
            buf.reserve(RECV_RESERVE_BYTES);
        }
        let (work, result) = self.0.core.run(Work::Recv { fd: self.0.fd.clone(), buf }).await;
        let Work::Recv { mut buf, .. } = work else { unreachable!("a receive comes back as one") };
        match result {
            Ok(got) => {
                let got = got as usize;
                assert!(got <= buf.capacity() - buf.len(), "more received than there was room for");
                // SAFETY: the kernel wrote `got` bytes from the start of the spare capacity, which holds that many.
                unsafe { buf.set_len(buf.len() + got) };
                (buf, Ok(got))
            }
            Err(errno) => (buf, Err(IoError::os("receive", None, errno))),
        }
    }

    pub async fn send_all(&self, buf: Vec<u8>) -> (Vec<u8>, Result<(), IoError>) {
        if buf.is_empty() {
            return (buf, Ok(()));
        }
        let mut work = Work::Send { fd: self.0.fd.clone(), buf, from: 0 };
        loop {
            let (back, result) = self.0.core.run(work).await;
            let Work::Send { fd, buf, from } = back else { unreachable!("a send comes back as one") };
            let sent = match result {
                Ok(0) => return (buf, Err(IoError::kind("send", None, ErrorKind::WriteZero))),
                Ok(sent) => from + sent as usize,
                Err(errno) => return (buf, Err(IoError::os("send", None, errno))),
            };
            assert!(sent <= buf.len(), "{sent} bytes sent of {}", buf.len());
            if sent == buf.len() {
                return (buf, Ok(()));
            }
            work = Work::Send { fd, buf, from: sent };
        }
    }

    pub async fn hung_up(&self) {
        // Whatever it ends with: one that cannot be watched is not waited for.
        let _ended = self.0.core.run(Work::HangUp { fd: self.0.fd.clone() }).await;
    }

    pub fn peer_addr(&self) -> SocketAddr {
        self.0.peer
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.0.local
    }

    pub fn shutdown(&self) {
        // SAFETY: shutdown takes no pointers; the descriptor is ours. Its failure means that the peer was faster.
        unsafe { libc::shutdown(self.0.fd.raw(), libc::SHUT_RDWR) };
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::super::testing::{on_one_shard, on_shards};
    use crate::base::ids::ShardId;
    use crate::io::{Accepted, Io, Mesh, Stream, TaskClass};
    use std::io::{Read, Write};
    use std::net::SocketAddr;
    use std::time::Duration;

    fn any_port() -> SocketAddr {
        "127.0.0.1:0".parse().unwrap()
    }

    async fn echo(stream: Stream) -> u64 {
        let mut total = 0;
        loop {
            let (buf, got) = stream.recv(Vec::with_capacity(1000)).await;
            match got {
                Ok(0) | Err(_) => return total,
                Ok(got) => total += got as u64,
            }
            stream.send_all(buf).await.1.unwrap();
        }
    }

    /// An ordinary client: sends `rounds` messages of `len` and checks what comes back.
    fn client(addr: SocketAddr, rounds: usize, len: usize) -> std::thread::JoinHandle<()> {
        std::thread::spawn(move || {
            let mut socket = std::net::TcpStream::connect(addr).unwrap();
            socket.set_nodelay(true).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let mut back = vec![0; len];
            for round in 0..rounds {
                let message: Vec<u8> = (0..len).map(|at| (at * 31 + round) as u8).collect();
                let mut writing = socket.try_clone().unwrap();
                let sent = message.clone();
                let writer = std::thread::spawn(move || writing.write_all(&sent).unwrap());
                socket.read_exact(&mut back).unwrap();
                writer.join().unwrap();
                assert_eq!(back, message);
            }
        })
    }

    #[test]
    fn an_echo_over_loopback() {
        on_one_shard(async move |io| {
            let listener = io.listen(any_port()).await.unwrap();
            for (rounds, len) in [(50, 1), (50, 128), (3, 3_000_000)] {
                let client = client(listener.local_addr(), rounds, len);
                let accepted = listener.accept().await.unwrap();
                assert_eq!(accepted.local_addr(), listener.local_addr());
                let stream = io.adopt(accepted).unwrap();
                assert!(stream.peer_addr().ip().is_loopback());
                assert_eq!(echo(stream).await, (rounds * len) as u64);
                client.join().unwrap();
            }
        });
    }

    #[test]
    fn an_accepted_connection_crosses_shards() {
        async fn entry(io: Io, mesh: Mesh<Accepted>) {
            if io.shard_id() == ShardId(0) {
                let listener = io.listen(any_port()).await.unwrap();
                let clients: Vec<_> = (0..4).map(|_| client(listener.local_addr(), 20, 500)).collect();
                for _ in 0..4 {
                    mesh.send(ShardId(1), listener.accept().await.unwrap()).await;
                    mesh.flush();
                }
                io.blocking(move || clients.into_iter().for_each(|client| client.join().unwrap())).await;
            } else {
                let mut got = Vec::new();
                let served = std::rc::Rc::new(std::cell::Cell::new(0));
                let mut adopted = 0;
                while adopted < 4 {
                    mesh.recv(&mut got).await;
                    for (from, accepted) in got.drain(..) {
                        assert_eq!(from, ShardId(0));
                        let stream = io.adopt(accepted).unwrap();
                        let served = served.clone();
                        adopted += 1;
                        io.spawn(TaskClass::Foreground, async move {
                            let total = echo(stream).await;
                            served.set(served.get() + total);
                        });
                    }
                }
                while served.get() < 4 * 20 * 500 {
                    io.sleep(Duration::from_millis(1)).await;
                }
            }
        }
        on_shards(2, entry);
    }

    #[test]
    fn shutdown_ends_a_pending_receive() {
        on_one_shard(async move |io| {
            let listener = io.listen(any_port()).await.unwrap();
            let peer = std::net::TcpStream::connect(listener.local_addr()).unwrap();
            let stream = io.adopt(listener.accept().await.unwrap()).unwrap();
            let other = stream.clone();
            let later = io.clone();
            io.spawn(TaskClass::Foreground, async move {
                later.sleep(Duration::from_millis(5)).await;
                other.shutdown();
            });
            let (buf, got) = stream.recv(Vec::with_capacity(10)).await;
            assert_eq!((buf.len(), got.unwrap()), (0, 0));
            drop(peer);
        });
    }

    #[test]
    fn a_dropped_stream_closes_though_a_receive_was_pending() {
        on_one_shard(async move |io| {
            let listener = io.listen(any_port()).await.unwrap();
            let mut peer = std::net::TcpStream::connect(listener.local_addr()).unwrap();
            peer.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let stream = io.adopt(listener.accept().await.unwrap()).unwrap();
            let mut pending = Box::pin(stream.recv(Vec::with_capacity(10)));
            let polled = pending.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert!(polled.is_pending());
            io.yield_now().await;
            drop(pending);
            drop(stream);
            let read = io.blocking(move || peer.read(&mut [0; 4]).unwrap()).await;
            assert_eq!(read, 0, "the peer sees the end");
        });
    }

    #[test]
    fn a_hang_up_is_seen_before_what_was_sent_is_received() {
        on_one_shard(async move |io| {
            let listener = io.listen(any_port()).await.unwrap();
            let mut peer = std::net::TcpStream::connect(listener.local_addr()).unwrap();
            let stream = io.adopt(listener.accept().await.unwrap()).unwrap();
            peer.write_all(b"last words").unwrap();
            let mut hung_up = Box::pin(stream.hung_up());
            let mut poll = || hung_up.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
            assert!(poll().is_pending());
            io.sleep(Duration::from_millis(20)).await;
            assert!(poll().is_pending(), "it is there, and has sent something");
            drop(peer);
            hung_up.await;
            let (buf, got) = stream.recv(Vec::with_capacity(100)).await;
            assert_eq!((got.unwrap(), buf.as_slice()), (10, &b"last words"[..]));
        });
    }

    #[test]
    fn receiving_and_sending_at_once() {
        on_one_shard(async move |io| {
            let listener = io.listen(any_port()).await.unwrap();
            let addr = listener.local_addr();
            let peer = std::thread::spawn(move || {
                let mut socket = std::net::TcpStream::connect(addr).unwrap();
                let mut all = Vec::new();
                socket.take_while_sending(&mut all);
                all.len()
            });
            let stream = io.adopt(listener.accept().await.unwrap()).unwrap();
            let receiving = stream.clone();
            let received = std::rc::Rc::new(std::cell::Cell::new(false));
            let seen = received.clone();
            io.spawn(TaskClass::Foreground, async move {
                let (buf, got) = receiving.recv(Vec::with_capacity(16)).await;
                assert_eq!(got.unwrap(), 4);
                assert_eq!(buf, b"done");
                seen.set(true);
            });
            io.yield_now().await;
            stream.send_all(vec![5; 1_000_000]).await.1.unwrap();
            while !received.get() {
                io.sleep(Duration::from_millis(1)).await;
            }
            stream.shutdown();
            assert_eq!(io.blocking(move || peer.join().unwrap()).await, 1_000_000);
        });
    }

    trait TakeWhileSending {
        fn take_while_sending(&mut self, all: &mut Vec<u8>);
    }

    impl TakeWhileSending for std::net::TcpStream {
        /// Reads a million bytes, says so, reads to the end.
        fn take_while_sending(&mut self, all: &mut Vec<u8>) {
            all.resize(1_000_000, 0);
            self.read_exact(all).unwrap();
            self.write_all(b"done").unwrap();
            self.read_to_end(all).unwrap();
        }
    }
}
