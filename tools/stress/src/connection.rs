//! One CQL connection: blocking while it starts, then non-blocking with many requests in flight.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use helenus::protocol::client::requests::{put_execute, put_prepare, put_query, put_startup};
use helenus::protocol::client::{Answer, Parameters, Response, ResultBody};
use helenus::protocol::frame::BODY_BYTES_MAX;
use helenus::protocol::wire::Malformed;
use helenus::protocol::{
    CqlError, ErrorCode, FrameDecoder, FrameEncoder, FrameError, Framing, Opcode, ProtocolVersion,
};

/// How long connecting and each step of starting may take.
const START_WITHIN: Duration = Duration::from_secs(30);
/// The receive buffer at first; it grows to the longest answer.
const RECEIVE_BYTES: usize = 64 << 10;

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
    #[error("the server asks for a password ({0}), which is not there yet")]
    Password(String),
}

/// A prepared statement.
#[derive(Clone, Debug)]
pub struct Statement {
    id: Vec<u8>,
    /// Empty before version 5.
    result_metadata_id: Vec<u8>,
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
}

impl Connection {
    /// Connects and starts: in the version given, or in the newest that the server speaks.
    pub fn start(address: SocketAddr, version: Option<ProtocolVersion>) -> Result<Connection, ConnectionError> {
        let first = version.unwrap_or(ProtocolVersion::NEWEST);
        match Connection::start_in(address, first) {
            Err(ConnectionError::Refused { error, .. })
                if version.is_none() && error.code() == ErrorCode::ProtocolError =>
            {
                Connection::start_in(address, ProtocolVersion::V4)
            }
            outcome => outcome,
        }
    }

    fn start_in(address: SocketAddr, version: ProtocolVersion) -> Result<Connection, ConnectionError> {
        let connect = |source| ConnectionError::Connect { address, source };
        let socket = TcpStream::connect_timeout(&address, START_WITHIN).map_err(connect)?;
        socket.set_nodelay(true).map_err(connect)?;
        socket.set_read_timeout(Some(START_WITHIN)).map_err(connect)?;
        let mut connection = Connection {
            address,
            socket,
            encoder: FrameEncoder::requests(version),
            decoder: FrameDecoder::responses(BODY_BYTES_MAX),
            unsent: Vec::new(),
            received: vec![0; RECEIVE_BYTES],
            from: 0,
            to: 0,
            starting: true,
        };
        connection.ask(
            "STARTUP",
            Opcode::Startup,
            |out| put_startup(&[("CQL_VERSION", "3.0.0")], out),
            |answer| match answer {
                Response::Ready => Ok(Some(())),
                Response::Authenticate(name) => Err(ConnectionError::Password(name.to_owned())),
                _ => Ok(None),
            },
        )?;
        let framing = if version >= ProtocolVersion::V5 { Framing::Segments } else { Framing::Plain };
        connection.encoder.set_framing(framing);
        connection.decoder.set_framing(framing);
        Ok(connection)
    }

    /// The version that is spoken.
    pub fn version(&self) -> ProtocolVersion {
        self.encoder.version()
    }

    pub fn socket(&self) -> &TcpStream {
        &self.socket
    }

    /// Runs a statement without values and drops its result.
    pub fn query(&mut self, text: &str) -> Result<(), ConnectionError> {
        let version = self.version();
        let put = |out: &mut Vec<u8>| put_query(version, text, &Parameters::default(), out);
        self.ask(text, Opcode::Query, put, |answer| Ok(matches!(answer, Response::Result(_)).then_some(())))
    }

    pub fn prepare(&mut self, text: &str) -> Result<Statement, ConnectionError> {
        let version = self.version();
        let put = |out: &mut Vec<u8>| put_prepare(version, text, None, out);
        self.ask(text, Opcode::Prepare, put, |answer| {
            let Response::Result(ResultBody::Prepared(prepared)) = answer else { return Ok(None) };
            let result_metadata_id = prepared.result_metadata_id.unwrap_or_default();
            Ok(Some(Statement { id: prepared.id, result_metadata_id }))
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
        self.encoder.seal(&mut self.unsent);
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
    pub fn execute(&mut self, stream: i16, statement: &Statement, parameters: &Parameters<'_>) {
        let version = self.version();
        let frame = self.encoder.begin(&mut self.unsent, stream, Opcode::Execute);
        put_execute(version, &statement.id, &statement.result_metadata_id, parameters, &mut self.unsent);
        self.encoder.finish(&mut self.unsent, frame);
    }

    /// Sends what there is. Whether all of it went.
    pub fn send(&mut self) -> Result<bool, ConnectionError> {
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
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::net::TcpListener;
    use std::thread::JoinHandle;

    use helenus::protocol::Request;

    use super::*;

    /// A server that answers each request of one connection as told, in its own version or an older one.
    fn server(answers: Vec<(Opcode, Vec<u8>)>) -> (SocketAddr, JoinHandle<Vec<Opcode>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            let (mut socket, _) = listener.accept().unwrap();
            let (mut decoder, mut encoder) =
                (FrameDecoder::requests(BODY_BYTES_MAX), FrameEncoder::responses(ProtocolVersion::V4));
            let (mut buffer, mut held, mut asked) = ([0; 4096], Vec::new(), Vec::new());
            for (opcode, body) in answers {
                let (stream, got) = loop {
                    let step = decoder.next(&held).unwrap();
                    if let Some(frame) = step.frame {
                        assert!(!matches!(frame.request(), Ok(Request::Batch(_)) | Err(_)));
                        let found = (frame.stream, frame.opcode);
                        let consumed = step.consumed;
                        held.drain(..consumed);
                        break found;
                    }
                    let count = socket.read(&mut buffer).unwrap();
                    held.extend_from_slice(&buffer[..count]);
                };
                asked.push(got);
                let mut out = Vec::new();
                let frame = encoder.begin(&mut out, stream, opcode);
                out.extend_from_slice(&body);
                encoder.finish(&mut out, frame);
                // In two pieces, so that a frame is also received in parts.
                let middle = out.len() / 2;
                socket.write_all(&out[..middle]).unwrap();
                std::thread::sleep(Duration::from_millis(2));
                socket.write_all(&out[middle..]).unwrap();
            }
            asked
        };
        (address, std::thread::spawn(serve))
    }

    fn error(code: u32, message: &str) -> (Opcode, Vec<u8>) {
        let mut body = code.to_be_bytes().to_vec();
        body.extend_from_slice(&u16::try_from(message.len()).unwrap().to_be_bytes());
        body.extend_from_slice(message.as_bytes());
        (Opcode::Error, body)
    }

    #[test]
    fn it_starts_asks_and_says_what_is_refused() {
        let void = (Opcode::Result, 1u32.to_be_bytes().to_vec());
        let (address, server) = server(vec![(Opcode::Ready, vec![]), void, error(0x2200, "no such table")]);
        let mut connection = Connection::start(address, Some(ProtocolVersion::V4)).unwrap();
        assert_eq!(connection.version(), ProtocolVersion::V4);
        connection.query("USE ks").unwrap();
        let refused = connection.query("SELECT x").unwrap_err().to_string();
        assert_eq!(refused, "SELECT x is refused: no such table (0x2200)");
        assert_eq!(server.join().unwrap(), [Opcode::Startup, Opcode::Query, Opcode::Query]);
    }

    #[test]
    fn a_prepared_statement_has_its_id() {
        let mut body = 4u32.to_be_bytes().to_vec();
        body.extend_from_slice(&[0, 2, 7, 8]); // the id
        body.extend_from_slice(&[0; 12]); // bound values: flags, columns, places of the partition key
        body.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0]); // the result: no metadata, no columns
        let (address, server) = server(vec![(Opcode::Ready, vec![]), (Opcode::Result, body)]);
        let mut connection = Connection::start(address, Some(ProtocolVersion::V4)).unwrap();
        let statement = connection.prepare("SELECT").unwrap();
        assert_eq!((statement.id.as_slice(), statement.result_metadata_id.len()), (&[7, 8][..], 0));
        server.join().unwrap();
    }

    #[test]
    fn a_password_and_an_odd_answer_are_told() {
        let (address, asks) = server(vec![(Opcode::Authenticate, [&[0, 4][..], b"Some"].concat())]);
        let Err(password) = Connection::start(address, Some(ProtocolVersion::V4)) else { panic!("it started") };
        assert!(password.to_string().contains("asks for a password (Some)"), "{password}");
        asks.join().unwrap();
        let (address, odd) = server(vec![(Opcode::Supported, vec![0, 0])]);
        let Err(unexpected) = Connection::start(address, Some(ProtocolVersion::V4)) else { panic!("it started") };
        assert_eq!(unexpected.to_string(), "STARTUP has an answer of another kind");
        odd.join().unwrap();
    }

    #[test]
    fn a_server_that_closes_or_is_not_there_is_told() {
        let (address, server) = server(vec![]);
        let Err(closed) = Connection::start(address, Some(ProtocolVersion::V4)) else { panic!("it started") };
        server.join().unwrap();
        assert!(matches!(closed, ConnectionError::Closed { .. } | ConnectionError::Io { .. }), "{closed}");
        let Err(absent) = Connection::start(address, None) else { panic!("it started") };
        assert!(matches!(absent, ConnectionError::Connect { .. }), "{absent}");
    }
}
