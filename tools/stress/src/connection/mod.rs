//! One CQL connection: blocking while it starts, then non-blocking with many requests in flight.

mod start;

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use helenus::protocol::client::requests::{put_prepare, put_query};
use helenus::protocol::client::{Answer, Parameters, PreparedStatement, Response, ResultBody};
use helenus::protocol::wire::Malformed;
use helenus::protocol::{
    Compression, CqlError, ErrorCode, FrameDecoder, FrameEncoder, FrameError, Opcode, ProtocolVersion,
};
use helenus::schema::partitioner::Sharding;
pub use start::Shards;

#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error("cannot connect to {address}: {source}")]
    Connect { address: SocketAddr, source: io::Error },
    #[error("the connection to {address}: {source}")]
    Io { address: SocketAddr, source: io::Error },
    #[error("the server at {address} closed the connection")]
    Closed { address: SocketAddr },
    #[error("a frame of the server: {}", .0.error.message())]
    Frame(Box<FrameError>),
    #[error("an answer of the server: {0}")]
    Malformed(#[from] Malformed),
    #[error("{request} is refused: {} (0x{:04x})", .error.message(), .error.code().number())]
    Refused { request: String, error: Box<CqlError> },
    #[error("{request} has an answer of another kind")]
    Unexpected { request: String },
    #[error("the server asks for a password ({0}): -mode user=NAME password=PASSWORD is needed")]
    Password(String),
}

/// How connections are started.
#[derive(Clone, Debug, Default)]
pub struct Manner {
    /// Given, or tried from the newest down.
    pub version: Option<ProtocolVersion>,
    pub compression: Option<Compression>,
    /// Name and password.
    pub login: Option<(String, String)>,
}

/// A connection that has started.
pub struct Connection {
    address: SocketAddr,
    socket: TcpStream,
    encoder: FrameEncoder,
    decoder: FrameDecoder,
    /// What is still to be sent.
    unsent: Vec<u8>,
    received: Vec<u8>,
    /// Where in `received` the bytes are that were not taken yet.
    from: usize,
    to: usize,
    /// Still blocking: a read that would block has waited too long.
    starting: bool,
    /// The shard that serves it, where the server announces shards.
    shards: Option<Shards>,
}

impl Connection {
    /// The version that is spoken.
    pub fn version(&self) -> ProtocolVersion {
        self.encoder.version()
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    pub fn shards(&self) -> Option<Shards> {
        self.shards
    }

    /// How the server divides tokens among its shards, where it announces that.
    pub fn sharding(&self) -> Option<Sharding> {
        self.shards.map(|shards| shards.sharding)
    }

    /// Runs a statement without values and drops its result.
    pub fn query(&mut self, text: &str) -> Result<(), ConnectionError> {
        let version = self.version();
        let put = |out: &mut Vec<u8>| put_query(version, text, &Parameters::default(), out);
        self.ask(text, Opcode::Query, put, |answer| Ok(matches!(answer, Response::Result(_)).then_some(())))
    }

    /// Runs a statement that creates something, which may be there already.
    pub fn create(&mut self, text: &str) -> Result<(), ConnectionError> {
        match self.query(text) {
            Err(ConnectionError::Refused { error, .. }) if error.code() == ErrorCode::AlreadyExists => Ok(()),
            outcome => outcome,
        }
    }

    /// The rows of a statement without values, at most a page.
    pub fn rows(&mut self, text: &str) -> Result<Vec<Vec<Option<Vec<u8>>>>, ConnectionError> {
        let version = self.version();
        let put = |out: &mut Vec<u8>| put_query(version, text, &Parameters::default(), out);
        self.ask(text, Opcode::Query, put, |answer| {
            let Response::Result(ResultBody::Rows(rows)) = answer else { return Ok(None) };
            let owned = |row: Vec<Option<&[u8]>>| row.into_iter().map(|cell| cell.map(<[u8]>::to_vec)).collect();
            Ok(Some(rows.iter().map(owned).collect()))
        })
    }

    pub fn prepare(&mut self, text: &str) -> Result<PreparedStatement, ConnectionError> {
        let version = self.version();
        let put = |out: &mut Vec<u8>| put_prepare(version, text, None, out);
        self.ask(text, Opcode::Prepare, put, |answer| {
            Ok(if let Response::Result(ResultBody::Prepared(prepared)) = answer { Some(prepared) } else { None })
        })
    }

    /// Sends one request and waits for its answer, of which `take` makes what is wanted; `None` where it cannot.
    fn ask<T>(
        &mut self,
        request: &str,
        opcode: Opcode,
        put: impl FnOnce(&mut Vec<u8>),
        mut take: impl FnMut(Response<'_>) -> Result<Option<T>, ConnectionError>,
    ) -> Result<T, ConnectionError> {
        let frame = self.encoder.begin(&mut self.unsent, 0, opcode);
        put(&mut self.unsent);
        self.encoder.finish(&mut self.unsent, frame);
        self.send()?;
        let mut outcome = None;
        while outcome.is_none() {
            self.receive(|_, answer| {
                outcome = Some(match answer {
                    Response::Error(error) => {
                        Err(ConnectionError::Refused { request: request.to_owned(), error: Box::new(error) })
                    }
                    answer => match take(answer) {
                        Ok(Some(taken)) => Ok(taken),
                        Ok(None) => Err(ConnectionError::Unexpected { request: request.to_owned() }),
                        Err(error) => Err(error),
                    },
                });
            })?;
        }
        outcome.expect("the loop ends with an outcome")
    }

    /// From now on sending and receiving do what can be done at once.
    pub fn set_nonblocking(&mut self) -> Result<(), ConnectionError> {
        self.starting = false;
        self.socket.set_nonblocking(true).map_err(|source| ConnectionError::Io { address: self.address, source })
    }

    /// Adds a request to what is to be sent.
    #[inline]
    pub fn request(&mut self, stream: i16, opcode: Opcode, body: &[u8]) {
        let frame = self.encoder.begin(&mut self.unsent, stream, opcode);
        self.unsent.extend_from_slice(body);
        self.encoder.finish(&mut self.unsent, frame);
    }

    /// Sends what there is. Whether all of it went.
    pub fn send(&mut self) -> Result<bool, ConnectionError> {
        if self.unsent.is_empty() {
            return Ok(true);
        }
        self.encoder.seal(&mut self.unsent);
        let mut sent = 0;
        let outcome = loop {
            if sent == self.unsent.len() {
                break Ok(true);
            }
            match self.socket.write(&self.unsent[sent..]) {
                Ok(0) => break Err(ConnectionError::Closed { address: self.address }),
                Ok(count) => sent += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break Ok(false),
                Err(source) => break Err(ConnectionError::Io { address: self.address, source }),
            }
        };
        self.unsent.drain(..sent);
        outcome
    }

    /// Receives once, and gives out every answer that is whole, with its stream.
    pub fn receive(&mut self, mut take: impl FnMut(i16, Response<'_>)) -> Result<(), ConnectionError> {
        self.make_room();
        match self.socket.read(&mut self.received[self.to..]) {
            Ok(0) => return Err(ConnectionError::Closed { address: self.address }),
            Ok(count) => self.to += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock && !self.starting => return Ok(()),
            Err(source) => return Err(ConnectionError::Io { address: self.address, source }),
        }
        loop {
            let step = self.decoder.next(&self.received[self.from..self.to]);
            let step = step.map_err(|error| ConnectionError::Frame(Box::new(error)))?;
            self.from += step.consumed;
            let Some(frame) = step.frame else { return Ok(()) };
            take(frame.stream, Answer::decode(&frame)?.response);
        }
    }

    /// Moves what was not taken to the front, and grows the buffer where that filled it.
    fn make_room(&mut self) {
        self.received.copy_within(self.from..self.to, 0);
        self.to -= self.from;
        self.from = 0;
        if self.to == self.received.len() {
            self.received.resize(2 * self.to, 0);
        }
    }
}

#[cfg(test)]
mod tests;
