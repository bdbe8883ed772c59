//! Connecting, and all that is said before the first statement.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;

use helenus::protocol::client::Response;
use helenus::protocol::client::requests::{put_auth_response, put_startup};
use helenus::protocol::frame::BODY_BYTES_MAX;
use helenus::protocol::{ErrorCode, FrameDecoder, FrameEncoder, Framing, Opcode, ProtocolVersion};
use helenus::schema::partitioner::Sharding;

use super::{Connection, ConnectionError, Manner};

/// How long connecting and each step of starting may take.
const START_WITHIN: Duration = Duration::from_secs(30);
/// The receive buffer at first; it grows to the longest answer.
const RECEIVE_BYTES: usize = 256 << 10;
/// Ports that are the client's own to choose from.
const LOCAL_PORTS: std::ops::Range<u32> = 32_768..65_536;

/// What a sharded server announces to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shards {
    pub sharding: Sharding,
    /// The shard that serves this connection.
    pub mine: u16,
    /// Where a connection is served by the shard that its local port modulo the shards names; 0 where nowhere.
    pub port: u16,
}

impl Connection {
    /// Connects and starts: in the version given, or in the newest that the server speaks.
    pub fn start(address: SocketAddr, manner: &Manner) -> Result<Connection, ConnectionError> {
        Connection::start_on(address, manner, None)
    }

    /// The same, on a shard-aware port, served by this shard of so many.
    pub fn start_on_shard(
        address: SocketAddr,
        manner: &Manner,
        shard: u16,
        shards: u16,
    ) -> Result<Connection, ConnectionError> {
        Connection::start_on(address, manner, Some((shard, shards)))
    }

    fn start_on(
        address: SocketAddr,
        manner: &Manner,
        shard: Option<(u16, u16)>,
    ) -> Result<Connection, ConnectionError> {
        let first = manner.version.unwrap_or(ProtocolVersion::NEWEST);
        match Connection::start_in(address, manner, first, shard) {
            Err(ConnectionError::Refused { error, .. })
                if manner.version.is_none() && error.code() == ErrorCode::ProtocolError =>
            {
                Connection::start_in(address, manner, ProtocolVersion::V4, shard)
            }
            outcome => outcome,
        }
    }

    fn start_in(
        address: SocketAddr,
        manner: &Manner,
        version: ProtocolVersion,
        shard: Option<(u16, u16)>,
    ) -> Result<Connection, ConnectionError> {
        let connect = |source| ConnectionError::Connect { address, source };
        let socket = match shard {
            None => TcpStream::connect_timeout(&address, START_WITHIN),
            Some((shard, shards)) => connect_from_port_of(address, shard, shards),
        };
        let socket = socket.map_err(connect)?;
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
            shards: None,
        };
        connection.shards = connection.ask(
            "OPTIONS",
            Opcode::Options,
            |_| (),
            |answer| match answer {
                Response::Supported(options) => Ok(Some(shards_of(&options))),
                _ => Ok(None),
            },
        )?;
        connection.start_up(manner, version)?;
        Ok(connection)
    }

    /// STARTUP, and what the server asks for then.
    fn start_up(&mut self, manner: &Manner, version: ProtocolVersion) -> Result<(), ConnectionError> {
        let refused = |error| ConnectionError::Refused { request: "STARTUP".into(), error: Box::new(error) };
        let framing = Framing::after_startup(version, manner.compression).map_err(refused)?;
        let mut options = vec![("CQL_VERSION", "3.0.0")];
        options.extend(manner.compression.map(|compression| ("COMPRESSION", compression.name())));
        if matches!(framing, Framing::Compressed(_)) {
            // Up to version 4 the answer to STARTUP may be compressed already.
            self.decoder.set_framing(framing);
        }
        let asked = self.ask(
            "STARTUP",
            Opcode::Startup,
            |out| put_startup(&options, out),
            |answer| match answer {
                Response::Ready => Ok(Some(None)),
                Response::Authenticate(name) => Ok(Some(Some(name.to_owned()))),
                _ => Ok(None),
            },
        )?;
        self.encoder.set_framing(framing);
        self.decoder.set_framing(framing);
        let Some(authenticator) = asked else { return Ok(()) };
        let Some((name, password)) = &manner.login else { return Err(ConnectionError::Password(authenticator)) };
        // SASL PLAIN (RFC 4616), without a name to act for.
        let token = [&[0], name.as_bytes(), &[0], password.as_bytes()].concat();
        let put = |out: &mut Vec<u8>| put_auth_response(Some(&token), out);
        self.ask("the login", Opcode::AuthResponse, put, |answer| {
            Ok(matches!(answer, Response::AuthSuccess(_)).then_some(()))
        })
    }
}

/// What the options of SUPPORTED say of shards.
fn shards_of(options: &[(&str, Vec<&str>)]) -> Option<Shards> {
    let text = |name: &str| options.iter().find(|(known, _)| *known == name).and_then(|(_, values)| values.first());
    let number = |name: &str| text(name).and_then(|value| value.parse::<u16>().ok());
    if text("SCYLLA_SHARDING_ALGORITHM") != Some(&"biased-token-round-robin") {
        return None;
    }
    let shards = number("SCYLLA_NR_SHARDS").filter(|shards| *shards > 0)?;
    let ignore_msb = number("SCYLLA_SHARDING_IGNORE_MSB").and_then(|bits| u8::try_from(bits).ok())?;
    let sharding = Sharding { shards, ignore_msb };
    let port = number("SCYLLA_SHARD_AWARE_PORT").unwrap_or(0);
    Some(Shards { sharding, mine: number("SCYLLA_SHARD")?, port }).filter(|_| ignore_msb < 64)
}

/// Connects from a local port that, modulo the shards, is the shard.
fn connect_from_port_of(address: SocketAddr, shard: u16, shards: u16) -> io::Result<TcpStream> {
    use socket2::{Domain, Protocol, Socket, Type};
    let (shard, shards) = (u32::from(shard), u32::from(shards));
    // Processes start at different places, so that they do not try each other's ports first.
    let span = LOCAL_PORTS.end - LOCAL_PORTS.start;
    let first = LOCAL_PORTS.start + std::process::id().wrapping_mul(7_919) % span;
    let mut last = io::Error::new(io::ErrorKind::AddrInUse, "no local port is free for this shard");
    for step in 0..span {
        let port = LOCAL_PORTS.start + (first - LOCAL_PORTS.start + step) % span;
        if port % shards != shard {
            continue;
        }
        let port = u16::try_from(port).expect("below 65536");
        let local = match address {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
        };
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        let connected = socket.bind(&local.into()).and_then(|()| socket.connect_timeout(&address.into(), START_WITHIN));
        match connected {
            Ok(()) => return Ok(socket.into()),
            Err(error) if matches!(error.kind(), io::ErrorKind::AddrInUse | io::ErrorKind::AddrNotAvailable) => {
                last = error;
            }
            Err(error) => return Err(error),
        }
    }
    Err(last)
}
