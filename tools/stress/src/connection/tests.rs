#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::net::TcpListener;
use std::thread::JoinHandle;
use std::time::Duration;

use helenus::protocol::frame::BODY_BYTES_MAX;
use helenus::protocol::wire::{put_count, put_string, put_string_list};
use helenus::protocol::{Framing, Request};

use super::*;

fn manner() -> Manner {
    Manner { version: Some(ProtocolVersion::V4), ..Manner::default() }
}

/// A SUPPORTED with these options.
fn supported(options: &[(&str, &str)]) -> (Opcode, Vec<u8>) {
    let mut body = Vec::new();
    put_count(&mut body, options.len());
    for (name, value) in options {
        put_string(&mut body, name);
        put_string_list(&mut body, &[value]);
    }
    (Opcode::Supported, body)
}

/// A server that answers OPTIONS, and each request after it, of one connection as told.
fn server(rest: Vec<(Opcode, Vec<u8>)>) -> (SocketAddr, JoinHandle<Vec<Opcode>>) {
    server_of([vec![supported(&[])], rest].concat())
}

fn server_of(answers: Vec<(Opcode, Vec<u8>)>) -> (SocketAddr, JoinHandle<Vec<Opcode>>) {
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
    let mut connection = Connection::start(address, &manner()).unwrap();
    assert_eq!(connection.version(), ProtocolVersion::V4);
    connection.query("USE ks").unwrap();
    let refused = connection.query("SELECT x").unwrap_err().to_string();
    assert_eq!(refused, "SELECT x is refused: no such table (0x2200)");
    assert_eq!(server.join().unwrap(), [Opcode::Options, Opcode::Startup, Opcode::Query, Opcode::Query]);
}

#[test]
fn a_prepared_statement_has_its_id() {
    let mut body = 4u32.to_be_bytes().to_vec();
    body.extend_from_slice(&[0, 2, 7, 8]); // the id
    body.extend_from_slice(&[0; 12]); // bound values: flags, columns, places of the partition key
    body.extend_from_slice(&[0, 0, 0, 4, 0, 0, 0, 0]); // the result: no metadata, no columns
    let (address, server) = server(vec![(Opcode::Ready, vec![]), (Opcode::Result, body)]);
    let mut connection = Connection::start(address, &manner()).unwrap();
    let statement = connection.prepare("SELECT").unwrap();
    assert_eq!((statement.id.as_slice(), statement.result_metadata_id), (&[7, 8][..], None));
    server.join().unwrap();
}

#[test]
fn a_password_and_an_odd_answer_are_told() {
    let (address, asks) = server(vec![(Opcode::Authenticate, [&[0, 4][..], b"Some"].concat())]);
    let Err(password) = Connection::start(address, &manner()) else { panic!("it started") };
    assert!(password.to_string().contains("asks for a password (Some)"), "{password}");
    asks.join().unwrap();
    let (address, odd) = server(vec![(Opcode::Supported, vec![0, 0])]);
    let Err(unexpected) = Connection::start(address, &manner()) else { panic!("it started") };
    assert_eq!(unexpected.to_string(), "STARTUP has an answer of another kind");
    odd.join().unwrap();
}

#[test]
fn a_server_that_closes_or_is_not_there_is_told() {
    let (address, server) = server(vec![]);
    let Err(closed) = Connection::start(address, &manner()) else { panic!("it started") };
    server.join().unwrap();
    assert!(matches!(closed, ConnectionError::Closed { .. } | ConnectionError::Io { .. }), "{closed}");
    let Err(absent) = Connection::start(address, &Manner::default()) else { panic!("it started") };
    assert!(matches!(absent, ConnectionError::Connect { .. }), "{absent}");
}

#[test]
fn the_first_answer_may_be_compressed() {
    let mut frames = Vec::new();
    let mut encoder = FrameEncoder::responses(ProtocolVersion::V4);
    encoder.set_framing(Framing::Compressed(Compression::Snappy));
    let frame = encoder.begin(&mut frames, 0, Opcode::Authenticate);
    // Long enough to be worth it.
    frames.extend_from_slice(&[0, 100]);
    frames.extend_from_slice(&[b'a'; 100]);
    encoder.finish(&mut frames, frame);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut buffer = [0; 4096];
        assert_eq!(socket.read(&mut buffer).unwrap(), 9, "OPTIONS");
        let mut answer = Vec::new();
        let mut plain = FrameEncoder::responses(ProtocolVersion::V4);
        let frame = plain.begin(&mut answer, 0, Opcode::Supported);
        put_count(&mut answer, 0);
        plain.finish(&mut answer, frame);
        socket.write_all(&answer).unwrap();
        assert!(socket.read(&mut buffer).unwrap() > 9, "STARTUP");
        socket.write_all(&frames).unwrap();
    });
    let manner = Manner { compression: Some(Compression::Snappy), ..manner() };
    let Err(password) = Connection::start(address, &manner) else { panic!("it started") };
    assert!(password.to_string().contains("aaaa"), "{password}");
    server.join().unwrap();
}

#[test]
fn a_login_is_answered_and_shards_are_read() {
    let announced = supported(&[
        ("SCYLLA_SHARD", "1"),
        ("SCYLLA_NR_SHARDS", "3"),
        ("SCYLLA_SHARDING_IGNORE_MSB", "8"),
        ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin"),
        ("SCYLLA_SHARD_AWARE_PORT", "19042"),
    ]);
    let asks = (Opcode::Authenticate, [&[0, 4][..], b"Some"].concat());
    let answers = vec![announced, asks, (Opcode::AuthSuccess, (-1i32).to_be_bytes().to_vec())];
    let (address, server) = server_of(answers);
    let manner = Manner { login: Some(("me".into(), "secret".into())), ..manner() };
    let connection = Connection::start_on_shard(address, &manner, 1, 3).unwrap();
    assert_eq!(connection.socket().local_addr().unwrap().port() % 3, 1);
    let sharding = Sharding { shards: 3, ignore_msb: 8 };
    assert_eq!(connection.shards(), Some(Shards { sharding, mine: 1, port: 19042 }));
    assert_eq!(server.join().unwrap(), [Opcode::Options, Opcode::Startup, Opcode::AuthResponse]);
}
