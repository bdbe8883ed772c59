//! What operators may ask of a server, and what nobody else may: the admin endpoint, and snapshots beside other work.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use helenus::io::sim::Faults;
use helenus::net::Limits;
use helenus::protocol::{CqlError, ErrorCode, ProtocolVersion, Value};
use helenus::router::Timeouts;
use helenus::router::message::{Operation, Reply};
use support::server::Server;
use support::wire::{Client, Node};

const KEYSPACE: &str = "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

/// A node of two shards with rows in ks.t and ks.u, and a client.
fn node() -> (Node, Client) {
    node_with(Timeouts::all(Duration::from_secs(3600)))
}

fn node_with(timeouts: Timeouts) -> (Node, Client) {
    let node = Node::start_with(2, Limits::default(), timeouts);
    let mut client = node.started(ProtocolVersion::V4);
    let client = node.run(async move {
        for text in [KEYSPACE, "CREATE TABLE ks.t (k int PRIMARY KEY)", "CREATE TABLE ks.u (k int PRIMARY KEY)"] {
            assert_eq!(client.ask(text, &[]).await.code(), None);
        }
        fill(&mut client).await;
        client
    });
    (node, client)
}

async fn fill(client: &mut Client) {
    for k in 0..20_i32 {
        for text in ["INSERT INTO ks.t (k) VALUES (?)", "INSERT INTO ks.u (k) VALUES (?)"] {
            assert_eq!(client.ask(text, &[Value::Bytes(&k.to_be_bytes())]).await.code(), None);
        }
    }
}

fn snapshot(tag: &str, keyspaces: &[&str], tables: &[&str]) -> Operation {
    let strings = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
    Operation::Snapshot { tag: tag.into(), keyspaces: strings(keyspaces), tables: strings(tables) }
}

fn clear_all() -> Operation {
    Operation::ClearSnapshot { tag: None, keyspaces: Vec::new(), tables: Vec::new() }
}

/// What came of a command that has had time enough.
fn outcome(begun: &Receiver<Result<Reply, CqlError>>) -> Result<(), (ErrorCode, String)> {
    let reply = begun.try_recv().expect("an answer");
    reply.map(|_| ()).map_err(|error| (error.code(), error.message().to_owned()))
}

fn operate(node: &Node, operation: Operation) -> Result<(), (ErrorCode, String)> {
    let begun = node.operate(operation);
    node.sim.run_for(Duration::from_secs(5)).unwrap();
    outcome(&begun)
}

/// The snapshots on disk: path of each link under the tag, by tag.
fn links(node: &Node) -> Vec<String> {
    let io = node.sim.client_io();
    node.run(async move {
        let mut found = Vec::new();
        let mut dirs = vec![std::path::PathBuf::from("/data/snapshots")];
        while let Some(dir) = dirs.pop() {
            for entry in io.list_dir(&dir).await.unwrap() {
                let path = dir.join(&entry.name);
                if entry.is_dir { dirs.push(path) } else { found.push(path.display().to_string()) }
            }
        }
        found.sort_unstable();
        found
    })
}

#[test]
fn a_tag_serves_a_table_once() {
    let (node, mut client) = node();
    let exists = |tag: &str| Err((ErrorCode::Invalid, format!("Snapshot {tag} already exists.")));
    assert_eq!(operate(&node, snapshot("s", &["ks"], &["t"])), Ok(()));
    let before = links(&node);
    assert!(!before.is_empty());
    let mut client = node.run(async move {
        fill(&mut client).await;
        client
    });
    for again in [snapshot("s", &["ks"], &["t"]), snapshot("s", &["ks"], &[]), snapshot("s", &[], &[])] {
        assert_eq!(operate(&node, again.clone()), exists("s"), "{again:?}");
        assert_eq!(links(&node), before, "{again:?}: refused before anything is linked");
    }
    // Another table may have the tag, as in Cassandra, and so may another of the same name.
    assert_eq!(operate(&node, snapshot("s", &["ks"], &["u"])), Ok(()));
    let two = links(&node);
    assert!(two.len() > before.len());
    node.run(async move {
        for text in ["DROP TABLE ks.t", "CREATE TABLE ks.t (k int PRIMARY KEY)"] {
            assert_eq!(client.ask(text, &[]).await.code(), None);
        }
        fill(&mut client).await;
    });
    assert_eq!(operate(&node, snapshot("s", &["ks"], &["t"])), Ok(()));
    assert_eq!(operate(&node, snapshot("s", &["ks"], &["t", "u"])), exists("s"));
}

#[test]
fn a_tag_that_is_no_name_is_refused_by_every_command() {
    let (node, _client) = node();
    for tag in ["a/b", "..", "a\nb", ""] {
        let clear = Operation::ClearSnapshot { tag: Some(tag.into()), keyspaces: Vec::new(), tables: Vec::new() };
        for command in [snapshot(tag, &["ks"], &[]), clear] {
            assert!(matches!(operate(&node, command), Err((ErrorCode::Invalid, _))), "{tag:?}");
        }
    }
    assert!(links(&node).is_empty());
}

#[test]
fn a_snapshot_that_fails_leaves_nothing_and_its_tag_is_free() {
    use helenus::io::sim::{DiskOp, Planned};
    let (node, _client) = node();
    assert_eq!(operate(&node, snapshot("s", &["ks"], &["u"])), Ok(()));
    let before = links(&node);
    // No space for the flush of one shard, after the other has linked its own.
    node.sim.plan_fault(Planned { op: DiskOp::Write, path_contains: "sst-1-1-".into(), after: 0, errno: 28 });
    assert!(operate(&node, snapshot("s", &["ks"], &["t"])).is_err(), "there is no space");
    assert_eq!(links(&node), before);
    assert_eq!(operate(&node, snapshot("s", &["ks"], &["t"])), Ok(()));
    assert!(links(&node).len() > before.len());
}

/// A shard links what it was asked to when it comes to it, whether anyone still waits or not.
#[test]
fn a_snapshot_that_comes_too_late_leaves_nothing_and_its_tag_is_free() {
    let (mut late, mut in_time) = (0, 0);
    for patience_ms in (250..8_000).step_by(250) {
        let operation = Duration::from_millis(patience_ms);
        let (node, mut client) = node_with(Timeouts { operation, ..Timeouts::all(Duration::from_secs(3600)) });
        // One shard alone has something to flush, and is slower than the others.
        node.flush();
        let key = (patience_ms as i32).to_be_bytes();
        let mut client = node.run(async move {
            assert_eq!(client.ask("INSERT INTO ks.t (k) VALUES (?)", &[Value::Bytes(&key)]).await.code(), None);
            client
        });
        node.sim.set_faults(Faults { slow_io_ppm: 1_000_000, ..Faults::NONE });
        let begun = node.operate(snapshot("s", &["ks"], &["t"]));
        node.sim.run_for(Duration::from_secs(60)).unwrap();
        let taken = outcome(&begun);
        node.sim.set_faults(Faults::NONE);
        if taken.is_ok() {
            in_time += 1;
        } else {
            late += 1;
            assert_eq!(links(&node), [""; 0], "after {patience_ms} ms");
            assert_eq!(operate(&node, snapshot("s", &["ks"], &["t"])), Ok(()), "after {patience_ms} ms");
        }
        assert_eq!(links(&node).len(), 3, "after {patience_ms} ms");
        // And the one that TRUNCATE takes first.
        node.sim.set_faults(Faults { slow_io_ppm: 1_000_000, ..Faults::NONE });
        let truncated = node.run(async move { client.ask("TRUNCATE ks.t", &[]).await.code().is_none() });
        node.sim.run_for(Duration::from_secs(60)).unwrap();
        node.sim.set_faults(Faults::NONE);
        let left = links(&node).iter().filter(|path| path.contains("/truncated-")).count();
        assert!(left == if truncated { 3 } else { 0 }, "after {patience_ms} ms: {left} links stay");
    }
    assert!(late > 0 && in_time > 0, "{late} late, {in_time} in time");
}

/// Wherever a snapshot is when snapshots are cleared, whoever takes it: both are done, and it is whole.
#[test]
fn clearing_all_beside_snapshots_under_way() {
    let whole = {
        let (node, _client) = node();
        assert_eq!(operate(&node, snapshot("s", &["ks"], &[])), Ok(()));
        links(&node).len()
    };
    for wait_us in (0..4_000).step_by(200) {
        let (node, _client) = node();
        let taking = node.operate(snapshot("s", &["ks"], &[]));
        node.sim.run_for(Duration::from_micros(wait_us)).unwrap();
        let cleared = operate(&node, clear_all());
        assert_eq!((outcome(&taking), cleared), (Ok(()), Ok(())), "after {wait_us} us");
        assert!([0, whole].contains(&links(&node).len()), "after {wait_us} us: {:?}", links(&node));
    }
    for (change, per_shard) in [("TRUNCATE ks.t", 1), ("DROP TABLE ks.t", 1), ("DROP KEYSPACE ks", 2)] {
        let mut stayed = 0;
        for wait_us in (0..6_000).step_by(300) {
            let (node, mut client) = node();
            let changed = Rc::new(Cell::new(false));
            let tell = changed.clone();
            node.spawn(async move {
                assert_eq!(client.ask(change, &[]).await.code(), None, "{change} after {wait_us} us");
                tell.set(true);
            });
            node.sim.run_for(Duration::from_micros(wait_us)).unwrap();
            assert_eq!(operate(&node, clear_all()), Ok(()), "{change} after {wait_us} us");
            assert!(changed.get(), "{change} after {wait_us} us");
            let left = links(&node);
            assert!([0, 2 * per_shard].contains(&left.len()), "{change} after {wait_us} us: {left:?}");
            stayed += usize::from(!left.is_empty());
        }
        assert!(stayed > 0, "{change}: no snapshot was under way");
    }
}

#[test]
fn pages_in_browsers_and_mistaken_commands_are_refused() {
    let server = Server::start("operators", &[]);
    let port = server.admin.port();
    server.operate("POST", "/snapshot?tag=kept&keyspace=system");
    let kept = || server.operate("GET", "/snapshots").contains("\"kept\"");
    assert!(kept());
    let is_error = |body: &str| body.starts_with("{\"error\":\"");
    for (host, more) in [
        ("evil.example", String::new()),
        (&*format!("evil.example:{port}"), String::new()),
        (&*format!("127.0.0.1:{port}"), "Origin: http://evil.example\r\n".into()),
        (&*format!("127.0.0.1:{port}"), "Origin: null\r\n".into()),
        (&*format!("localhost:{port}"), format!("Origin: http://127.0.0.1:{port}\r\n")),
    ] {
        for (method, path) in [("POST", "/clearsnapshot"), ("GET", "/metrics"), ("GET", "/nowhere")] {
            let request = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
            let (status, body) = server.send_admin(&request);
            assert!(status == 403 && is_error(&body), "{host} {more}: {status} {body}");
        }
    }
    let (status, _) = server.send_admin("GET /health HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert_eq!(status, 403, "no Host");
    for path in [
        "/clearsnapshot?tagg=kept",
        "/clearsnapshot?tag=",
        "/clearsnapshot?tag=kept&tag=kept",
        "/clearsnapshot?tag=..",
        "/clearsnapshot?tag=a%2Fb",
        "/clearsnapshot?tag=a%0Ab",
        "/clearsnapshot?tag=a%00b",
        "/clearsnapshot?tag=%zz",
        "/clearsnapshot?table=local",
        "/snapshot?table=local",
        "/snapshot?tag=kept",
        "/snapshot?tag=a%0Ab&keyspace=system",
        "/snapshot?keyspace=none",
        "/flush?tag=kept",
        "/flush?keyspace=none",
        "/compact?keyspace=system&keyspace=system",
    ] {
        let (status, body) = server.ask_admin("POST", path, "");
        assert!(status == 400 && is_error(&body), "{path}: {status} {body}");
    }
    let (status, body) = server.ask_admin("POST", "/clearsnapshot", "Content-Length: 8\r\n\r\ntag=none");
    assert!(status == 400 && is_error(&body), "a form: {status} {body}");
    let chunked = "Transfer-Encoding: chunked\r\n\r\n8\r\ntag=none\r\n0\r\n\r\n";
    assert_eq!(server.ask_admin("POST", "/clearsnapshot", chunked).0, 400);
    for (method, path, want) in [("GET", "/clearsnapshot", 405), ("POST", "/nowhere", 404), ("GET", "/info?x=1", 400)] {
        let (status, body) = server.ask_admin(method, path, "");
        assert!(status == want && is_error(&body), "{method} {path}: {status} {body}");
    }
    assert!(kept(), "nothing of all this was done");
    for keyspace in ["..", "../..", "/", "none"] {
        server.operate("POST", &format!("/clearsnapshot?keyspace={keyspace}"));
    }
    assert!(kept());
    let own = format!("Origin: http://127.0.0.1:{port}\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(server.ask_admin("POST", "/clearsnapshot", &own).0, 200);
    assert!(!kept());
}

/// Requests that come together are told from receives, and answers that leave together from sends.
#[test]
fn traffic_is_counted() {
    let (node, mut client) = node();
    let counters = ["helenus_requests_total", "helenus_receives_total", "helenus_sends_total"];
    let before = counters.map(|name| node.metric(name));
    (0..20).for_each(|stream| client.query(stream, "SELECT k FROM ks.t WHERE k = 1", &[]));
    node.run(async move {
        assert!(client.send().await);
        for _ in 0..20 {
            assert_eq!(client.answer().await.unwrap().1.code(), None);
        }
    });
    let [requests, receives, sends] = std::array::from_fn(|at| node.metric(counters[at]) - before[at]);
    assert_eq!(requests, 20);
    assert!((1..20).contains(&receives) && (1..20).contains(&sends), "{receives} receives, {sends} sends");
}
