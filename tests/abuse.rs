//! What clients may do to a server, and what it costs them and nobody else: too many connections, handshakes never
//! finished, answers never read, every stream in flight, frames at the limit and above, connections that vanish.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::rc::Rc;
use std::time::{Duration, Instant};

use helenus::io::sim::{DiskOp, Faults, Planned};
use helenus::net::Limits;
use helenus::protocol::client::Parameters;
use helenus::protocol::client::requests::{put_query, put_register, put_startup};
use helenus::protocol::frame::HEADER_BYTES;
use helenus::protocol::{ErrorCode, EventKind, FrameEncoder, Opcode, ProtocolVersion, Value};
use helenus::router::Timeouts;
use support::server::Server;
use support::wire::{Client, Got, Node};

const V4: ProtocolVersion = ProtocolVersion::V4;
const V5: ProtocolVersion = ProtocolVersion::V5;
const INSERT: &str = "INSERT INTO ks.t (k, v) VALUES (?, ?)";
const SELECT: &str = "SELECT v FROM ks.t WHERE k = ?";

/// A node with a table, and a client that made it.
fn node(shards: u16, limits: Limits) -> (Node, Client) {
    let node = Node::start(shards, limits);
    let mut client = node.started(V4);
    let client = node.run(async move {
        let keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        for text in [keyspace, "CREATE TABLE ks.t (k int PRIMARY KEY, v blob)"] {
            assert_eq!(client.ask(text, &[]).await.code(), None);
        }
        client
    });
    (node, client)
}

/// Writes rows of `len` bytes.
async fn fill(client: &mut Client, keys: std::ops::Range<i32>, len: usize) {
    let value = vec![7; len];
    for k in keys {
        let got = client.ask(INSERT, &[Value::Bytes(&k.to_be_bytes()), Value::Bytes(&value)]).await;
        assert_eq!(got.code(), None, "{got:?}");
    }
}

/// Whether a connection is served: false where it is closed.
async fn is_served(client: &mut Client) -> bool {
    client.put(9, Opcode::Options, |_, _| {});
    client.send().await && matches!(client.answer().await, Some((9, Got::Fine(_))))
}

fn total(node: &Node) -> u64 {
    node.connections().iter().sum()
}

#[test]
fn connections_beyond_the_limit_are_closed_and_others_go_on() {
    let node = Node::start(2, Limits { connections_max: 5, ..Limits::default() });
    let connect = |at: u16| if at.is_multiple_of(2) { node.connect(V4) } else { node.connect_to_shard_aware(V4) };
    let mut served = Vec::new();
    for at in 0..5 {
        let mut client = connect(at);
        served.push(node.run(async move {
            assert!(is_served(&mut client).await, "connection {at}");
            client
        }));
    }
    for at in 0..4 {
        let mut client = connect(at);
        assert!(!node.run(async move { is_served(&mut client).await }), "beyond the limit, port {}", at % 2);
    }
    assert_eq!(total(&node), 5);
    let mut first = served.remove(0);
    let first = node.run(async move {
        assert!(is_served(&mut first).await, "those within the limit go on");
        first
    });
    drop(first);
    assert_eq!(total(&node), 4);
    let mut next = connect(0);
    assert!(node.run(async move { is_served(&mut next).await }), "a place is free again");
}

#[test]
fn the_limit_holds_where_one_shard_has_all_connections() {
    let node = Node::start(2, Limits { connections_max: 3, ..Limits::default() });
    let mut all = Vec::new();
    for _ in 0..8 {
        // The simulated network gives ports in turn: with one used up in between, all belong to one shard.
        all.push(node.connect_to_shard_aware(V4));
        drop(node.connect(V4));
        node.sim.run_for(Duration::from_secs(1)).unwrap();
    }
    let mut open = node.connections();
    open.sort_unstable();
    assert_eq!(open, [0, 3]);
    all.clear();
    node.sim.run_for(Duration::from_secs(1)).unwrap();
    assert_eq!(total(&node), 0);
}

#[test]
fn a_handshake_that_is_never_finished_is_closed() {
    let patience = Duration::from_secs(30);
    let node = Node::start(1, Limits { startup_patience: patience, ..Limits::default() });
    let silent = node.connect(V4);
    let mut half = node.connect(V4);
    half.put(0, Opcode::Startup, |_, out| put_startup(&[("CQL_VERSION", "3.0.0")], out));
    half.out.truncate(12);
    let mut asks = node.connect(V4);
    let mut refused = node.connect(V5);
    refused.query(3, "SELECT * FROM system.local", &[]);
    let started = node.started(V4);
    let mut clients = node.run(async move {
        assert!(half.send().await);
        assert!(is_served(&mut asks).await);
        assert!(refused.send().await);
        assert_eq!(refused.answer().await.unwrap().1.code(), Some(ErrorCode::ProtocolError));
        [silent, half, asks, refused]
    });
    node.sim.run_for(patience / 2).unwrap();
    assert_eq!(node.connections(), [5]);
    node.sim.run_for(patience).unwrap();
    assert_eq!(node.connections(), [1]);
    node.run(async move {
        for client in &mut clients {
            assert_eq!(client.answer().await, None);
        }
        let mut started = started;
        assert!(is_served(&mut started).await, "one that has started may be silent");
    });
}

#[test]
fn every_answer_comes_however_large_they_are_together() {
    let (node, mut client) = node(2, Limits::default());
    node.run(async move {
        fill(&mut client, 0..8, 20_000).await;
        // All sent before any is read: what is unsent goes over its limit again and again.
        for stream in 0..1000_i16 {
            client.query(stream, SELECT, &[Value::Bytes(&i32::from(stream % 8).to_be_bytes())]);
        }
        assert!(client.send().await);
        let mut seen = [false; 1000];
        for _ in 0..1000 {
            let (stream, got) = client.answer().await.unwrap();
            assert!(matches!(got, Got::Fine(20_000..)), "{got:?}");
            assert!(!std::mem::replace(&mut seen[usize::try_from(stream).unwrap()], true));
        }
    });
}

#[test]
fn a_client_that_never_reads_is_not_received_from_and_closed_later() {
    let patience = Duration::from_secs(60);
    let (node, mut client) = node(2, Limits { send_patience: patience, ..Limits::default() });
    let mut client = node.run(async move {
        fill(&mut client, 0..8, 20_000).await;
        client
    });
    let mut deaf = node.started(V4);
    let taken = Rc::new(Cell::new(0));
    let (counted, ended) = (taken.clone(), Rc::new(Cell::new(false)));
    let tell = ended.clone();
    node.spawn(async move {
        for at in 0..100_000_u32 {
            let key = i32::try_from(at % 8).unwrap();
            deaf.query(1, SELECT, &[Value::Bytes(&key.to_be_bytes())]);
            if !deaf.send().await {
                break;
            }
            counted.set(counted.get() + 1);
        }
        tell.set(true);
    });
    node.sim.run_for(patience / 2).unwrap();
    let requests = taken.get();
    // 128 KiB on the way in each direction, a receive buffer of 64 KiB, and 256 KiB of answers of 20,000 bytes.
    assert!(requests < 8_000, "{requests} requests taken");
    node.sim.run_for(patience / 4).unwrap();
    assert_eq!(taken.get(), requests, "nothing more is received");
    assert_eq!(total(&node), 2);
    node.run(async move {
        for _ in 0..100 {
            assert!(matches!(client.ask(SELECT, &[Value::Bytes(&[0, 0, 0, 1])]).await, Got::Fine(20_000..)));
        }
    });
    node.sim.run_for(patience).unwrap();
    assert!(ended.get(), "it was closed");
    assert_eq!(total(&node), 0);
}

#[test]
fn every_stream_in_flight_leaves_room_for_another_connection() {
    const STREAMS: usize = 32_768;
    let (node, mut other) = node(2, Limits::default());
    let mut many = node.started(V4);
    for stream in 0..=i16::MAX {
        many.query(stream, INSERT, &[Value::Bytes(&i32::from(stream).to_be_bytes()), Value::Bytes(b"v")]);
    }
    let answered = Rc::new(Cell::new(0));
    let (count, wire) = (answered.clone(), many.stream.clone());
    let bytes = many.sealed();
    node.spawn(async move { assert!(wire.send_all(bytes).await.1.is_ok()) });
    node.spawn(async move {
        let mut seen = vec![false; STREAMS];
        while count.get() < STREAMS {
            let (stream, got) = many.answer().await.unwrap();
            assert_eq!(got.code(), None, "{got:?}");
            assert!(!std::mem::replace(&mut seen[usize::try_from(stream).unwrap()], true));
            count.set(count.get() + 1);
        }
    });
    let progress = answered.clone();
    let served_meanwhile = node.run(async move {
        let mut served = 0;
        while progress.get() < STREAMS {
            assert_eq!(other.ask(SELECT, &[Value::Bytes(&[0, 0, 0, 1])]).await.code(), None);
            served += 1;
        }
        served
    });
    assert!(served_meanwhile >= 20, "{served_meanwhile} answers meanwhile");
    assert_eq!(answered.get(), STREAMS);
}

#[test]
fn more_in_flight_than_allowed_waits() {
    let (node, mut client) = node(2, Limits { in_flight_max: 3, ..Limits::default() });
    node.run(async move {
        for stream in 0..500_i16 {
            client.query(stream, INSERT, &[Value::Bytes(&i32::from(stream).to_be_bytes()), Value::Bytes(b"v")]);
        }
        assert!(client.send().await);
        let mut streams = Vec::new();
        for _ in 0..500 {
            let (stream, got) = client.answer().await.unwrap();
            assert_eq!(got.code(), None);
            streams.push(stream);
        }
        streams.sort_unstable();
        assert_eq!(streams, (0..500).collect::<Vec<_>>());
    });
}

/// An INSERT whose body has `body_bytes`.
fn put_insert_of(client: &mut Client, version: ProtocolVersion, stream: i16, body_bytes: usize) {
    let key = i32::from(stream).to_be_bytes();
    let body = |value: &[u8], out: &mut Vec<u8>| {
        let values = [Value::Bytes(&key), Value::Bytes(value)];
        put_query(version, INSERT, &Parameters { values: &values, ..Parameters::default() }, out);
    };
    let mut empty = Vec::new();
    body(&[], &mut empty);
    let value = vec![5; body_bytes - empty.len()];
    client.put(stream, Opcode::Query, |_, out| body(&value, out));
}

#[test]
fn a_frame_at_the_limit_is_taken_and_one_byte_more_is_refused_on_its_stream() {
    for frame_bytes_max in [70_000, 300_000] {
        let (node, _maker) = node(1, Limits { frame_bytes_max, ..Limits::default() });
        for version in [V4, V5] {
            let mut client = node.started(version);
            node.run(async move {
                put_insert_of(&mut client, version, 10, frame_bytes_max);
                put_insert_of(&mut client, version, 11, frame_bytes_max + 1);
                put_insert_of(&mut client, version, 12, frame_bytes_max);
                put_insert_of(&mut client, version, 13, 4 * frame_bytes_max);
                client.query(14, SELECT, &[Value::Bytes(&12_i32.to_be_bytes())]);
                client.query(15, SELECT, &[Value::Bytes(&11_i32.to_be_bytes())]);
                assert!(client.send().await);
                let mut answers = BTreeMap::new();
                for _ in 0..6 {
                    let (stream, got) = client.answer().await.unwrap();
                    assert!(answers.insert(stream, got).is_none());
                }
                let codes: Vec<_> = answers.iter().map(|(stream, got)| (*stream, got.code())).collect();
                let refused = Some(ErrorCode::Invalid);
                let want = [(10, None), (11, refused), (12, None), (13, refused), (14, None), (15, None)];
                assert_eq!(codes, want, "{version:?}, {frame_bytes_max}");
                let Got::Error(_, message) = &answers[&11] else { unreachable!() };
                assert!(message.contains(&format!("length {}", frame_bytes_max + 1)), "{message}");
                assert!(is_served(&mut client).await);
            });
        }
    }
}

#[test]
fn requests_beyond_the_bytes_in_flight_are_overloaded_on_their_stream() {
    for version in [V4, V5] {
        let (node, _maker) = node(2, Limits { in_flight_bytes_max: 20_000, ..Limits::default() });
        let mut client = node.started(version);
        node.run(async move {
            for stream in 0..100 {
                put_insert_of(&mut client, version, stream, 3_000);
            }
            assert!(client.send().await);
            let mut codes = BTreeMap::new();
            for _ in 0..100 {
                let (stream, got) = client.answer().await.unwrap();
                assert!(codes.insert(stream, got.code()).is_none());
            }
            assert!(codes.values().all(|code| code.is_none_or(|code| code == ErrorCode::Overloaded)));
            let refused = codes.values().flatten().count();
            assert!((1..100).contains(&refused), "{refused} of 100 refused");
            // What was refused was not done, what was answered was.
            for (stream, code) in codes {
                let got = client.ask(SELECT, &[Value::Bytes(&i32::from(stream).to_be_bytes())]).await;
                let Got::Fine(bytes) = got else { panic!("{got:?}") };
                assert_eq!(bytes > 2_500, code.is_none(), "stream {stream}");
            }
        });
    }
}

#[test]
fn unfinished_frames_count_and_the_next_frame_is_not_misread() {
    for version in [V4, V5] {
        let limits = Limits { in_flight_bytes_max: 1_000_000, ..Limits::default() };
        let (node, mut other) = node(1, limits);
        // Each sends most of a frame of 600,000 bytes and waits: there is room for one.
        let mut clients: Vec<Client> = (0..2).map(|_| node.started(version)).collect();
        let ends = Rc::new(RefCell::new(Vec::new()));
        for client in &mut clients {
            put_insert_of(client, version, 20, 600_000);
            client.query(21, SELECT, &[Value::Bytes(&20_i32.to_be_bytes())]);
            let mut bytes = client.sealed();
            let end = bytes.split_off(560_000);
            ends.borrow_mut().push(end);
            let wire = client.stream.clone();
            node.run(async move { assert!(wire.send_all(bytes).await.1.is_ok()) });
        }
        node.sim.run_for(Duration::from_secs(1)).unwrap();
        let [mut held, mut refused]: [Client; 2] = clients.try_into().ok().unwrap();
        node.run(async move {
            let (stream, got) = refused.answer().await.unwrap();
            assert_eq!((stream, got.code()), (20, Some(ErrorCode::Overloaded)), "{version:?}");
            // Small requests of others fit beside it.
            let got = other.ask(SELECT, &[Value::Bytes(&[0, 0, 0, 1])]).await;
            assert_eq!(got.code(), None, "{got:?}");
            let mut ends = ends.borrow_mut().drain(..).collect::<Vec<_>>();
            assert!(refused.stream.send_all(ends.remove(1)).await.1.is_ok());
            let (stream, got) = refused.answer().await.unwrap();
            assert_eq!((stream, got.code()), (21, None), "the rest was passed over");
            assert!(held.stream.send_all(ends.remove(0)).await.1.is_ok());
            for _ in 0..2 {
                assert_eq!(held.answer().await.unwrap().1.code(), None);
            }
            put_insert_of(&mut refused, version, 22, 600_000);
            assert!(refused.send().await);
            assert_eq!(refused.answer().await.unwrap(), (22, Got::Fine(4)), "all was given back");
        });
    }
}

#[test]
fn answers_beyond_their_bytes_are_overloaded_on_their_stream() {
    let limits = Limits { answer_bytes_max: 500_000, ..Limits::default() };
    let (node, mut client) = node(2, limits);
    node.run(async move {
        fill(&mut client, 0..16, 90_000).await;
        // Those of the other shard run side by side before the first answer tells how large they are.
        for stream in 0..48_i16 {
            client.query(stream, SELECT, &[Value::Bytes(&i32::from(stream % 16).to_be_bytes())]);
        }
        assert!(client.send().await);
        let mut streams = Vec::new();
        for _ in 0..48 {
            let (stream, got) = client.answer().await.unwrap();
            match &got {
                Got::Fine(bytes) => assert!(*bytes > 90_000),
                Got::Error(code, _) => assert_eq!(*code, ErrorCode::Overloaded),
            }
            streams.push(stream);
        }
        streams.sort_unstable();
        assert_eq!(streams, (0..48).collect::<Vec<_>>());
        let got = client.ask(SELECT, &[Value::Bytes(&[0, 0, 0, 1])]).await;
        assert!(matches!(got, Got::Fine(90_000..)), "{got:?}: all was given back");
    });
}

#[test]
fn connections_that_vanish_give_back_all_they_held() {
    for version in [V4, V5] {
        let limits = Limits { in_flight_bytes_max: 1_000_000, answer_bytes_max: 1_000_000, ..Limits::default() };
        let (node, mut client) = node(2, limits);
        client = node.run(async move {
            fill(&mut client, 0..8, 20_000).await;
            client
        });
        for round in 0..20 {
            let mut one = node.started(version);
            for stream in 0..40 {
                one.query(stream, SELECT, &[Value::Bytes(&i32::from(stream % 8).to_be_bytes())]);
                put_insert_of(&mut one, version, 100 + stream, 2_000);
            }
            put_insert_of(&mut one, version, 30, 900_000);
            let mut bytes = one.sealed();
            bytes.truncate(bytes.len() - 1 - round * 40_000);
            // Some are gone while it is still sending.
            let wire = one.stream.clone();
            node.spawn(async move { drop(wire.send_all(bytes).await) });
            node.sim.run_for(Duration::from_micros(50 * round as u64)).unwrap();
            one.stream.shutdown();
        }
        node.sim.run_for(Duration::from_secs(5)).unwrap();
        assert_eq!(total(&node), 1, "{version:?}");
        node.run(async move {
            put_insert_of(&mut client, V4, 1, 990_000);
            assert!(client.send().await);
            assert_eq!(client.answer().await.unwrap(), (1, Got::Fine(4)), "the bytes of requests are free");
            assert!(matches!(client.ask(SELECT, &[Value::Bytes(&1_i32.to_be_bytes())]).await, Got::Fine(900_000..)));
        });
        assert_eq!(total(&node), 0);
    }
}

#[test]
fn an_error_for_a_first_frame_has_its_version() {
    let node = Node::start(1, Limits { frame_bytes_max: 1_000, ..Limits::default() });
    let mut client = node.connect(V4);
    node.run(async move {
        client.put(5, Opcode::Query, |_, out| out.resize(out.len() + 1_001, 0));
        assert!(client.send().await);
        let (stream, got) = client.answer().await.unwrap();
        assert_eq!((stream, got.code()), (5, Some(ErrorCode::Invalid)));
        client.start().await;
    });
}

/// A statement over a real server's socket that has started.
fn put_real_query(out: &mut Vec<u8>, stream: i16, text: &str, values: &[Value<'_>]) {
    let mut encoder = FrameEncoder::requests(V4);
    let frame = encoder.begin(out, stream, Opcode::Query);
    put_query(V4, text, &Parameters { values, ..Parameters::default() }, out);
    encoder.finish(out, frame);
}

/// The next frame: its stream and opcode.
fn real_answer(socket: &mut TcpStream) -> std::io::Result<(i16, u8)> {
    let mut header = [0; HEADER_BYTES];
    socket.read_exact(&mut header)?;
    let [_, _, high, low, opcode, len @ ..] = header;
    let mut body = vec![0; usize::try_from(i32::from_be_bytes(len)).unwrap()];
    socket.read_exact(&mut body)?;
    Ok((i16::from_be_bytes([high, low]), opcode))
}

/// Connects and starts; an error where the server closes.
fn real_client(server: &Server) -> std::io::Result<TcpStream> {
    let mut socket = TcpStream::connect(server.cql)?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    let mut encoder = FrameEncoder::requests(V4);
    let mut out = Vec::new();
    let frame = encoder.begin(&mut out, 0, Opcode::Startup);
    put_startup(&[("CQL_VERSION", "3.0.0")], &mut out);
    encoder.finish(&mut out, frame);
    socket.write_all(&out)?;
    assert_eq!(real_answer(&mut socket)?, (0, Opcode::Ready.number()));
    Ok(socket)
}

fn real_ask(socket: &mut TcpStream, text: &str, values: &[Value<'_>]) {
    let mut out = Vec::new();
    put_real_query(&mut out, 1, text, values);
    socket.write_all(&out).unwrap();
    assert_eq!(real_answer(socket).unwrap(), (1, Opcode::Result.number()), "{text}");
}

fn wait_for_connections(server: &Server, want: u64) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while server.metric("helenus_connections") != want {
        assert!(Instant::now() < deadline, "{} connections", server.metric("helenus_connections"));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_server_bounds_what_deaf_and_vanishing_clients_cost() {
    const DEAF: u64 = 8;
    let limit = format!("native_transport_max_concurrent_connections={}", DEAF + 2);
    let server = Server::start("abuse", &["--set", &limit]);
    let mut client = real_client(&server).unwrap();
    let keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
    real_ask(&mut client, keyspace, &[]);
    real_ask(&mut client, "CREATE TABLE ks.t (k int PRIMARY KEY, v blob)", &[]);
    for k in 0..8_i32 {
        real_ask(&mut client, INSERT, &[Value::Bytes(&k.to_be_bytes()), Value::Bytes(&vec![1; 1 << 20])]);
    }
    let before = server.resident_bytes();
    // Each asks for 20 GB in all and reads nothing.
    let deaf: Vec<TcpStream> = (0..DEAF)
        .map(|_| {
            let mut socket = real_client(&server).unwrap();
            let mut out = Vec::new();
            for stream in 0..20_000_i16 {
                put_real_query(&mut out, stream, SELECT, &[Value::Bytes(&i32::from(stream % 8).to_be_bytes())]);
            }
            socket.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
            let _full_or_done = socket.write_all(&out);
            socket
        })
        .collect();
    // One that leaves within a frame.
    let mut vanishing = real_client(&server).unwrap();
    vanishing.write_all(&[4, 0, 0, 1, 7, 0, 0x80, 0, 0, 1, 2, 3]).unwrap();
    wait_for_connections(&server, DEAF + 2);
    assert!(real_client(&server).is_err(), "beyond the limit");
    for _ in 0..50 {
        real_ask(&mut client, SELECT, &[Value::Bytes(&1_i32.to_be_bytes())]);
    }
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(grown < 512 << 20, "{grown} bytes more are resident");
    drop((deaf, vanishing));
    wait_for_connections(&server, 1);
    real_client(&server).unwrap();
    drop(client);
    wait_for_connections(&server, 0);
}

/// Whatever step a DROP has come to when its client goes, it is made to its end, or was never begun: no table that the
/// schema does not name is served.
#[test]
fn a_schema_change_goes_on_when_its_client_has_gone() {
    let mut were_dropped = 0;
    for wait_us in (0..6_000).step_by(150) {
        let (node, mut client) = node(1, Limits::default());
        let mut leaver = node.started(V4);
        let (kept, leaver) = node.run(async move {
            fill(&mut client, 0..3, 10).await;
            leaver.query(1, "DROP TABLE ks.t", &[]);
            leaver.send().await;
            (client, leaver)
        });
        client = kept;
        node.sim.run_for(Duration::from_micros(wait_us)).unwrap();
        drop(leaver);
        node.sim.run_for(Duration::from_secs(5)).unwrap();
        let is_dropped = node.run(async move {
            let tables =
                |keyspace: &str| format!("SELECT id FROM system_schema.tables WHERE keyspace_name = '{keyspace}'");
            let none = client.ask(&tables("no_keyspace"), &[]).await;
            let is_named = client.ask(&tables("ks"), &[]).await != none;
            let is_served = client.ask(SELECT, &[Value::Bytes(&1_i32.to_be_bytes())]).await.code().is_none();
            assert_eq!(is_served, is_named, "after {wait_us} us");
            !is_named
        });
        were_dropped += usize::from(is_dropped);
    }
    assert!(were_dropped > 10, "{were_dropped} were made");
}

/// A change that cannot be stored is no change: not for reads and writes that follow, and not in what is stored.
#[test]
fn a_schema_change_that_fails_leaves_everything_as_it_was() {
    let changes = ["DROP TABLE ks.t", "ALTER TABLE ks.t DROP v", "ALTER TABLE ks.t ADD w int", "DROP KEYSPACE ks"];
    for change in changes {
        let (node, mut client) = node(2, Limits::default());
        let columns = "SELECT column_name, type, kind FROM system_schema.columns WHERE keyspace_name = 'ks'";
        let (client, before) = node.run(async move {
            fill(&mut client, 0..8, 10).await;
            let before = client.ask(columns, &[]).await;
            (client, before)
        });
        let full = Planned { op: DiskOp::Write, path_contains: "sst-1-0-".into(), after: 0, errno: 28 };
        node.sim.plan_fault(full);
        node.run(async move {
            let mut client = client;
            // The table's own flush, before its snapshot, is the first to find no space, where there is one.
            assert!(client.ask(change, &[]).await.code().is_some(), "{change}: there is no space for it");
            assert_eq!(client.ask(columns, &[]).await, before, "{change}");
            let key = 3_i32.to_be_bytes();
            let read = client.ask(SELECT, &[Value::Bytes(&key)]).await;
            let other = client.ask(SELECT, &[Value::Bytes(&99_i32.to_be_bytes())]).await;
            assert!(read.code().is_none() && read != other, "{change}: the row is there with its value: {read:?}");
            fill(&mut client, 8..10, 10).await;
            assert_eq!(client.ask(change, &[]).await.code(), None, "{change}: with space it is made");
        });
    }
}

/// What each key of an IN costs does not depend on how many there are (were it so, this would take minutes), whichever
/// shards own them; rows come in the order of the keys' values, each key once, in pages of any size.
#[test]
fn keys_of_a_long_in_are_read_in_order() {
    const KEYS: i32 = 20_000;
    for shards in [1, 3] {
        let (node, mut client) = node(shards, Limits::default());
        node.run(async move {
            fill(&mut client, 0..300, 1).await;
            let list =
                |keys: &mut dyn Iterator<Item = i32>| keys.map(|key| key.to_string()).collect::<Vec<_>>().join(",");
            let keys = list(&mut (-KEYS / 2..KEYS / 2).rev().chain(0..300));
            let all: Vec<Vec<u8>> = (0..300i32).map(|key| key.to_be_bytes().to_vec()).collect();
            let cql = format!("SELECT k FROM ks.t WHERE k IN ({keys})");
            assert_eq!(client.page(&cql, 5000, None).await, (all.clone(), None));
            assert_eq!(client.page(&format!("{cql} LIMIT 7"), 5000, None).await.0, all[..7]);
            let few = format!("SELECT k FROM ks.t WHERE k IN ({})", list(&mut (0..320).rev()));
            for page_size in [1, 7, 100] {
                let (mut got, mut state) = (Vec::new(), None);
                loop {
                    let (rows, next) = client.page(&few, page_size, state.as_deref()).await;
                    assert!(rows.len() <= page_size as usize, "{page_size}");
                    got.extend(rows);
                    state = next;
                    if state.is_none() {
                        break;
                    }
                }
                assert_eq!(got, all, "{shards} shards, pages of {page_size}");
            }
            let many = list(&mut (0..65_537));
            let got = client.ask(&format!("SELECT k FROM ks.t WHERE k IN ({many})"), &[]).await;
            assert!(matches!(&got, Got::Error(ErrorCode::Invalid, text) if text.contains("at most 65536")), "{got:?}");
        });
    }
}

/// A node of two shards whose table `ks.t` has rows enough in SSTables that a scan reads for long.
fn node_with_scans(limits: Limits, timeouts: Timeouts) -> (Node, Client) {
    let node = Node::start_with(2, limits, timeouts);
    let mut client = node.started(V4);
    let client = node.run(async move {
        let keyspace = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
        for text in [keyspace, "CREATE TABLE ks.t (k int PRIMARY KEY, v blob) WITH compression = {'enabled': false}"] {
            assert_eq!(client.ask(text, &[]).await.code(), None);
        }
        let value = vec![7; 4_000];
        for k in 0..2_000_i32 {
            client.query(1, INSERT, &[Value::Bytes(&k.to_be_bytes()), Value::Bytes(&value)]);
        }
        client.send().await;
        for _ in 0..2_000 {
            assert_eq!(client.answer().await.unwrap().1.code(), None);
        }
        client
    });
    node.flush();
    // Every block that is not cached takes milliseconds from now on.
    node.sim.set_faults(Faults { slow_io_ppm: 1_000_000, ..Faults::NONE });
    (node, client)
}

const SCAN: &str = "SELECT k FROM ks.t WHERE v = 0x00 ALLOW FILTERING";

/// Scans of clients that leave end at once, on every shard, whether their connection was still received from or not.
#[test]
fn scans_end_with_their_client() {
    for in_flight_max in [32_768, 10] {
        let limits = Limits { in_flight_max, ..Limits::default() };
        let (node, mut client) = node_with_scans(limits, Timeouts::all(Duration::from_secs(3600)));
        let mut leavers: Vec<Client> = (0..4).map(|_| node.started(V4)).collect();
        for leaver in &mut leavers {
            for stream in 0..40 {
                leaver.query(stream, SCAN, &[]);
            }
            let (bytes, wire) = (leaver.sealed(), leaver.stream.clone());
            node.run(async move { assert!(wire.send_all(bytes).await.1.is_ok()) });
        }
        node.sim.run_for(Duration::from_secs(1)).unwrap();
        let running = node.metric("helenus_range_reads");
        assert!(running >= 40, "{running} are read");
        drop(leavers);
        node.sim.run_for(Duration::from_secs(1)).unwrap();
        assert_eq!(node.metric("helenus_range_reads"), 0, "with {in_flight_max} in flight, {running} before");
        node.run(async move { assert_eq!(client.ask(SCAN, &[]).await.code(), None) });
    }
}

/// However many scans there are, others are served between their turns: a handshake, a read by key, a range of a small
/// table, which waits for a turn of each scan before it and not for its end. Each scan is answered.
#[test]
fn scans_leave_room_for_others_and_take_turns() {
    let (node, mut client) = node_with_scans(Limits::default(), Timeouts::all(Duration::from_secs(3600)));
    client = node.run(async move {
        for text in ["CREATE TABLE ks.u (k int PRIMARY KEY, v int)", "INSERT INTO ks.u (k, v) VALUES (1, 2)"] {
            assert_eq!(client.ask(text, &[]).await.code(), None);
        }
        client
    });
    let mut scanner = node.started(V4);
    for stream in 0..60 {
        scanner.query(stream, SCAN, &[]);
    }
    let (bytes, wire) = (scanner.sealed(), scanner.stream.clone());
    node.run(async move { assert!(wire.send_all(bytes).await.1.is_ok()) });
    node.sim.run_for(Duration::from_secs(1)).unwrap();
    // A turn is a load, which takes up to half a second here; a scan on its own would take many.
    let statements =
        [("SELECT key FROM system.local", 2), ("SELECT v FROM ks.u WHERE k = 1", 2), ("SELECT v FROM ks.u", 8)];
    for (text, patience_s) in statements {
        let began = node.sim.now_ns();
        drop(node.started(V4));
        client = node.run(async move {
            assert!(matches!(client.ask(text, &[]).await, Got::Fine(30..)), "{text}");
            client
        });
        let waited = Duration::from_nanos(node.sim.now_ns() - began);
        assert!(waited < Duration::from_secs(patience_s), "{text}: {waited:?}");
        assert!(node.metric("helenus_range_reads") >= 40, "they are still read");
    }
    node.run(async move {
        for _ in 0..60 {
            assert_eq!(scanner.answer().await.unwrap().1.code(), None);
        }
    });
}

/// A read that is too late is answered with a timeout, and nothing works for it any more. One deadline holds for all of
/// its pages.
#[test]
fn reads_that_are_too_late_end_everywhere() {
    let range = Duration::from_secs(2);
    let timeouts = Timeouts { range, ..Timeouts::all(Duration::from_secs(3600)) };
    let (node, mut client) = node_with_scans(Limits::default(), timeouts);
    for text in [SCAN, "SELECT count(*) FROM ks.t", "SELECT max(v) FROM ks.t"] {
        for stream in 0..50 {
            client.query(stream, text, &[]);
        }
        let began = node.sim.now_ns();
        client = node.run(async move {
            assert!(client.send().await);
            let mut late = 0;
            for _ in 0..50 {
                let code = client.answer().await.unwrap().1.code();
                assert!(code.is_none_or(|code| code == ErrorCode::ReadTimeout), "{code:?}");
                late += usize::from(code.is_some());
            }
            assert!(late > 0, "{text}");
            client
        });
        let waited = Duration::from_nanos(node.sim.now_ns() - began);
        assert!(waited < 3 * range, "{text}: {waited:?}");
        node.sim.run_for(range / 4).unwrap();
        assert_eq!(node.metric("helenus_range_reads"), 0, "{text}");
    }
}

/// Pages of other shards are counted before they are there: what has no room is refused without being sent.
#[test]
fn pages_on_their_way_are_counted() {
    let limits = Limits { shard_answer_bytes_max: 1_000_000, ..Limits::default() };
    let (node, mut client) = node(2, limits);
    client = node.run(async move {
        fill(&mut client, 0..16, 90_000).await;
        client
    });
    // Each is new: what answers of theirs may be is not known.
    let mut many: Vec<Client> = (0..6).map(|_| node.started(V4)).collect();
    for one in &mut many {
        for stream in 0..40_i16 {
            one.query(stream, SELECT, &[Value::Bytes(&i32::from(stream % 16).to_be_bytes())]);
        }
    }
    node.run(async move {
        for one in &mut many {
            assert!(one.send().await);
        }
        let (mut fine, mut refused) = (0, 0);
        for one in &mut many {
            for _ in 0..40 {
                match one.answer().await.unwrap().1 {
                    Got::Fine(bytes) => fine += usize::from(bytes > 90_000),
                    Got::Error(code, _) => refused += usize::from(code == ErrorCode::Overloaded),
                }
            }
        }
        assert_eq!(fine + refused, 240);
        assert!(fine >= 20, "{fine} answered, {refused} refused");
        for _ in 0..20 {
            assert!(matches!(client.ask(SELECT, &[Value::Bytes(&[0, 0, 0, 1])]).await, Got::Fine(90_000..)));
            assert!(matches!(client.ask(SELECT, &[Value::Bytes(&[0, 0, 0, 2])]).await, Got::Fine(90_000..)));
        }
    });
}

/// A client that begins a frame and hardly goes on is closed; one that goes on slowly is not.
#[test]
fn a_frame_that_is_not_finished_is_given_up() {
    let patience = Duration::from_secs(30);
    for version in [V4, V5] {
        let (node, _maker) = node(1, Limits { frame_patience: patience, ..Limits::default() });
        let mut drips = node.started(version);
        let mut slow = node.started(version);
        let mut idle = node.started(version);
        for client in [&mut drips, &mut slow] {
            put_insert_of(client, version, 7, 1_000_000);
        }
        let (dripped, slowly) = (drips.sealed(), slow.sealed());
        let ended = Rc::new(Cell::new(false));
        let (tell, wire, io) = (ended.clone(), drips.stream.clone(), node.sim.client_io());
        node.spawn(async move {
            let (first, rest) = dripped.split_at(1_000);
            let mut sent = wire.send_all(first.to_vec()).await.1;
            for byte in rest {
                if sent.is_err() {
                    break;
                }
                io.sleep(Duration::from_secs(5)).await;
                sent = wire.send_all(vec![*byte]).await.1;
            }
            tell.set(true);
        });
        let (wire, io) = (slow.stream.clone(), node.sim.client_io());
        node.spawn(async move {
            for part in slowly.chunks(100_000) {
                assert!(wire.send_all(part.to_vec()).await.1.is_ok());
                io.sleep(Duration::from_secs(20)).await;
            }
        });
        node.sim.run_for(patience / 2).unwrap();
        assert_eq!(total(&node), 4, "{version:?}");
        node.sim.run_for(patience).unwrap();
        assert!(ended.get() && total(&node) == 3, "{version:?}");
        node.run(async move {
            assert_eq!(slow.answer().await.unwrap(), (7, Got::Fine(4)), "{version:?}");
            assert!(is_served(&mut idle).await);
        });
    }
}

/// A long text of nothing but blanks and comments is an error like another, and before a statement it is nothing.
#[test]
fn a_frame_of_blanks_is_answered() {
    let (node, mut client) = node(1, Limits::default());
    node.run(async move {
        for blanks in [" \t\n", "-- x\n", "/* * / */ "] {
            let text = blanks.repeat((4 << 20) / blanks.len());
            let got = client.ask(&text, &[]).await;
            assert_eq!(got.code(), Some(ErrorCode::SyntaxError), "{got:?}");
            assert_eq!(client.ask(&format!("{text}SELECT v FROM ks.t WHERE k = 1"), &[]).await.code(), None);
        }
    });
}

/// A client that takes its answers slowly holds them for so long and no longer.
#[test]
fn answers_that_are_not_taken_in_time_end_the_connection() {
    let patience = Duration::from_secs(120);
    let limits = Limits { answer_patience: patience, send_patience: Duration::from_secs(60), ..Limits::default() };
    let (node, mut client) = node(1, limits);
    client = node.run(async move {
        fill(&mut client, 0..8, 1_000_000).await;
        client
    });
    let mut slow = node.started(V4);
    for stream in 0..100_i16 {
        slow.query(stream, "SELECT k, v FROM ks.t", &[]);
    }
    let io = node.sim.client_io();
    let (began, ended) = (node.sim.now_ns(), Rc::new(Cell::new(0)));
    let tell = ended.clone();
    node.spawn(async move {
        slow.send().await;
        // A send of 1 MiB is taken every 30 s.
        let mut buffer = Vec::new();
        loop {
            io.sleep(Duration::from_secs(1)).await;
            buffer.clear();
            buffer.reserve_exact(36_000);
            let (back, got) = slow.stream.recv(buffer).await;
            buffer = back;
            if !matches!(got, Ok(1..)) {
                break;
            }
            tell.set(io.now_ns());
        }
    });
    node.sim.run_for(patience / 2).unwrap();
    assert_eq!(total(&node), 2, "it reads");
    node.sim.run_for(3 * patience).unwrap();
    assert_eq!(total(&node), 1, "closed");
    assert!(Duration::from_nanos(ended.get() - began) > patience);
    node.run(async move { assert!(is_served(&mut client).await) });
}

/// Events for a client that does not read are bounded: it is closed, and others are told.
#[test]
fn a_client_that_does_not_read_its_events_is_closed() {
    let (node, mut client) = node(1, Limits { events_waiting_max: 20, ..Limits::default() });
    let (mut reads, mut deaf) = (node.started(V4), node.started(V4));
    let (client, deaf) = node.run(async move {
        fill(&mut client, 0..1, 100_000).await;
        for one in [&mut reads, &mut deaf] {
            one.put(3, Opcode::Register, |_, out| put_register(&[EventKind::SchemaChange], out));
            assert!(one.send().await);
            assert!(matches!(one.answer().await, Some((3, Got::Fine(_)))));
        }
        // More than the network holds, so that events have to wait.
        for stream in 0..20 {
            deaf.query(stream, SELECT, &[Value::Bytes(&0_i32.to_be_bytes())]);
        }
        assert!(deaf.send().await);
        for at in 0..24 {
            let text = if at % 2 == 0 { "CREATE TABLE ks.u (k int PRIMARY KEY)" } else { "DROP TABLE ks.u" };
            assert_eq!(client.ask(text, &[]).await.code(), None);
            assert_eq!(reads.answer().await.unwrap().0, -1, "event {at}");
        }
        assert!(is_served(&mut reads).await);
        ((client, reads), deaf)
    });
    assert_eq!(total(&node), 2);
    drop((client, deaf));
}

/// Sends `text` (OPTIONS, where there is none) so often at once, and gives how many answers came in the first receive, that is, of the first send.
async fn answers_of_the_first_send(client: &mut Client, text: &str, times: usize) -> usize {
    for stream in 0..times {
        let stream = i16::try_from(stream).unwrap();
        if text.is_empty() { client.put(stream, Opcode::Options, |_, _| {}) } else { client.query(stream, text, &[]) }
    }
    assert!(client.send().await);
    let (mut received, mut of_first, mut answers, mut at) = (Vec::new(), None, 0, 0);
    while answers < times {
        received.reserve(1 << 20);
        let (buffer, got) = client.stream.recv(received).await;
        assert!(matches!(got, Ok(1..)));
        received = buffer;
        while let Some([_, _, _, _, _, len @ ..]) = received.get(at..at + HEADER_BYTES) {
            let end = at + HEADER_BYTES + usize::try_from(i32::from_be_bytes(len.try_into().unwrap())).unwrap();
            if end > received.len() {
                break;
            }
            (at, answers) = (end, answers + 1);
        }
        of_first.get_or_insert(answers);
    }
    of_first.unwrap()
}

/// A connection serves 64 frames or for 100 µs, and sends what it has, before others get their turn.
#[test]
fn a_turn_ends_after_so_many_frames_or_so_much_time() {
    let (node, mut client) = node(1, Limits::default());
    node.run(async move {
        fill(&mut client, 0..100, 10).await;
        let keys: Vec<String> = (0..100).map(|k| k.to_string()).collect();
        let many = format!("SELECT k FROM ks.t WHERE k IN ({})", keys.join(","));
        for (text, times, turn) in [("", 600, 64..=64), (many.as_str(), 120, 2..=60)] {
            // The first rounds make the receive buffer large. In others, chunks are cut or come together on their way.
            let mut seen: BTreeMap<usize, u32> = BTreeMap::new();
            for round in 0..30 {
                let answers = answers_of_the_first_send(&mut client, text, times).await;
                *seen.entry(answers).or_default() += u32::from(round >= 3);
            }
            let usual = seen.iter().find(|(_, often)| **often >= 3).unwrap_or_else(|| panic!("{seen:?}"));
            assert!(turn.contains(usual.0), "answers in one turn: {seen:?}");
        }
    });
}
