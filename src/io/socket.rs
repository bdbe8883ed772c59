//! TCP: listeners, accepted connections on their way to a shard, streams.

use std::net::SocketAddr;

use super::{Io, IoError, IoHalf, real, sim};

/// A listening socket of one shard.
pub struct Listener(ListenerHalf);

enum ListenerHalf {
    Real(real::Listener),
    Sim(sim::Listener),
}

impl Listener {
    pub(super) fn real(listener: real::Listener) -> Self {
        Listener(ListenerHalf::Real(listener))
    }

    pub(super) fn sim(listener: sim::Listener) -> Self {
        Listener(ListenerHalf::Sim(listener))
    }

    /// The address it listens on, with the port that the system picked for port 0.
    pub fn local_addr(&self) -> SocketAddr {
        match &self.0 {
            ListenerHalf::Real(listener) => listener.local_addr(),
            ListenerHalf::Sim(listener) => listener.local_addr(),
        }
    }

    pub async fn accept(&self) -> Result<Accepted, IoError> {
        match &self.0 {
            ListenerHalf::Real(listener) => listener.accept().await.map(|half| Accepted(AcceptedHalf::Real(half))),
            ListenerHalf::Sim(listener) => listener.accept().await.map(|half| Accepted(AcceptedHalf::Sim(half))),
        }
    }
}

/// A connection that no shard owns yet. It may cross shards; [`Io::adopt`] makes it a [`Stream`]. Dropped, it closes.
pub struct Accepted(AcceptedHalf);

enum AcceptedHalf {
    Real(real::Accepted),
    Sim(sim::Accepted),
}

impl Accepted {
    pub fn peer_addr(&self) -> SocketAddr {
        match &self.0 {
            AcceptedHalf::Real(accepted) => accepted.peer_addr(),
            AcceptedHalf::Sim(accepted) => accepted.peer_addr(),
        }
    }

    pub fn local_addr(&self) -> SocketAddr {
        match &self.0 {
            AcceptedHalf::Real(accepted) => accepted.local_addr(),
            AcceptedHalf::Sim(accepted) => accepted.local_addr(),
        }
    }
}

const fn assert_send<T: Send>() {}
const _: () = assert_send::<Accepted>();

pub(super) fn adopt(io: &Io, accepted: Accepted) -> Result<Stream, IoError> {
    match (&io.0, accepted.0) {
        (IoHalf::Real(core), AcceptedHalf::Real(half)) => core.adopt(half).map(|half| Stream(StreamHalf::Real(half))),
        (IoHalf::Sim(core), AcceptedHalf::Sim(half)) => core.adopt(half).map(|half| Stream(StreamHalf::Sim(half))),
        _ => panic!("a connection of the other half of io"),
    }
}

/// A connection of this shard; a cheap clone. One task may receive while another sends. It closes after the last
/// handle is dropped and what is under way has completed.
#[derive(Clone)]
pub struct Stream(StreamHalf);

#[derive(Clone)]
enum StreamHalf {
    Real(real::Stream),
    Sim(sim::Stream),
}

impl Stream {
    pub(super) fn sim(stream: sim::Stream) -> Self {
        Stream(StreamHalf::Sim(stream))
    }

    /// Appends what has come, into the spare capacity of `buf` (which is at least one byte). 0 means that the peer
    /// sends no more. A receive that is dropped before its end may have taken bytes with it: drop one only to end the
    /// connection.
    pub async fn recv(&self, buf: Vec<u8>) -> (Vec<u8>, Result<usize, IoError>) {
        match &self.0 {
            StreamHalf::Real(stream) => stream.recv(buf).await,
            StreamHalf::Sim(stream) => stream.recv(buf).await,
        }
    }

    /// Sends all of `buf`. One at a time a stream; the buffer comes back as it was.
    pub async fn send_all(&self, buf: Vec<u8>) -> (Vec<u8>, Result<(), IoError>) {
        match &self.0 {
            StreamHalf::Real(stream) => stream.send_all(buf).await,
            StreamHalf::Sim(stream) => stream.send_all(buf).await,
        }
    }

    /// Completes once the peer sends no more or is gone, though what it sent before may not have been received.
    pub async fn hung_up(&self) {
        match &self.0 {
            StreamHalf::Real(stream) => stream.hung_up().await,
            StreamHalf::Sim(stream) => stream.hung_up().await,
        }
    }

    pub fn peer_addr(&self) -> SocketAddr {
        match &self.0 {
            StreamHalf::Real(stream) => stream.peer_addr(),
            StreamHalf::Sim(stream) => stream.peer_addr(),
        }
    }

    pub fn local_addr(&self) -> SocketAddr {
        match &self.0 {
            StreamHalf::Real(stream) => stream.local_addr(),
            StreamHalf::Sim(stream) => stream.local_addr(),
        }
    }

    /// Ends both directions: a pending receive gives 0, the peer sees the end.
    pub fn shutdown(&self) {
        match &self.0 {
            StreamHalf::Real(stream) => stream.shutdown(),
            StreamHalf::Sim(stream) => stream.shutdown(),
        }
    }
}
