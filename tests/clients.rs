//! The scylla driver, unmodified, against the server as it is built: schema, types, paging, batches, preparing again
//! after ALTER, compression, errors, and what TRUNCATE and DROP leave for the operator. What `helenus-campaign clients`
//! does with the clients of other languages.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::os::unix::fs::DirEntryExt;
use std::path::PathBuf;

use futures_util::{StreamExt, TryStreamExt, stream};
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::frame::Compression;
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::value::{
    CqlDate, CqlDecimal, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, CqlValue, CqlVarint, MaybeUnset,
};

use support::server::Server;

const ROWS: i32 = 100_000;
const PARTITIONS: i32 = 100;

async fn connect(server: &Server, compression: Option<Compression>) -> Session {
    SessionBuilder::new().known_node_addr(server.cql).compression(compression).build().await.unwrap()
}

/// A server and a session that uses the keyspace `ks`.
async fn start(name: &str) -> (Server, Session) {
    let server = Server::start(&format!("clients-{name}"), &[]);
    let session = connect(&server, None).await;
    let keyspace =
        "CREATE KEYSPACE ks WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}";
    session.query_unpaged(keyspace, ()).await.unwrap();
    session.use_keyspace("ks", false).await.unwrap();
    (server, session)
}

async fn execute(session: &Session, statements: &[&str]) {
    for cql in statements {
        session.query_unpaged(*cql, ()).await.unwrap_or_else(|error| panic!("{cql}: {error}"));
    }
}

/// The server's error for a statement without values.
async fn refused(session: &Session, cql: &str) -> DbError {
    match session.query_unpaged(cql, ()).await {
        Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _message))) => error,
        other => panic!("{cql}: {other:?}"),
    }
}

/// Rows of two integers.
async fn pairs(session: &Session, cql: &str) -> Vec<(i32, i32)> {
    let result = session.query_unpaged(cql, ()).await.unwrap().into_rows_result().unwrap();
    result.rows::<(i32, i32)>().unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn schema_is_agreed_on_and_seen() {
    let (server, session) = start("schema").await;
    let table = "CREATE TABLE t (p int, c text, s int STATIC, v frozen<list<int>>, PRIMARY KEY (p, c))";
    execute(&session, &[table]).await;
    session.await_schema_agreement().await.unwrap();
    session.refresh_metadata().await.unwrap();
    let state = session.get_cluster_state();
    assert_eq!(state.get_nodes_info().len(), 1);
    assert_eq!(state.get_nodes_info()[0].address.ip(), server.cql.ip());
    let table = &state.get_keyspace("ks").unwrap().tables["t"];
    assert_eq!(
        (table.partition_key.as_slice(), table.clustering_key.as_slice()),
        (&["p".into()][..], &["c".into()][..])
    );
    assert_eq!(table.columns.len(), 4);

    let other = connect(&server, None).await;
    execute(&other, &["ALTER TABLE ks.t ADD w int", "CREATE TABLE ks.u (k int PRIMARY KEY)"]).await;
    session.refresh_metadata().await.unwrap();
    let state = session.get_cluster_state();
    assert_eq!(state.get_keyspace("ks").unwrap().tables["t"].columns.len(), 5);
    assert!(state.get_keyspace("ks").unwrap().tables.contains_key("u"));
}

/// A value of every native type, and of the frozen collections.
fn samples() -> Vec<(&'static str, CqlValue)> {
    let uuid = uuid::Uuid::from_u128(0xf066_f76d_5e96_4b52_8d8a_0f51_387d_f76b);
    let time_uuid = CqlTimeuuid::from_u128(0x8ac6_d1dc_fbeb_11e9_8f0b_362b_9e15_5667);
    let list = |numbers: &[i32]| numbers.iter().copied().map(CqlValue::Int).collect::<Vec<_>>();
    vec![
        ("ascii", CqlValue::Ascii("plain".into())),
        ("bigint", CqlValue::BigInt(i64::MIN)),
        ("blob", CqlValue::Blob(vec![0, 255])),
        ("boolean", CqlValue::Boolean(true)),
        ("date", CqlValue::Date(CqlDate(2_147_503_431))),
        ("decimal", CqlValue::Decimal(CqlDecimal::from_signed_be_bytes_and_exponent(vec![0xff, 0x6a], 2))),
        ("double", CqlValue::Double(f64::NEG_INFINITY)),
        ("duration", CqlValue::Duration(CqlDuration { months: -1, days: -2, nanoseconds: -3 })),
        ("float", CqlValue::Float(-1.5)),
        ("inet", CqlValue::Inet("fe80::1".parse().unwrap())),
        ("int", CqlValue::Int(i32::MIN)),
        ("smallint", CqlValue::SmallInt(i16::MIN)),
        ("text", CqlValue::Text("häuser ☃ 𝄞".into())),
        ("time", CqlValue::Time(CqlTime(86_399_999_999_999))),
        ("timestamp", CqlValue::Timestamp(CqlTimestamp(-1))),
        ("timeuuid", CqlValue::Timeuuid(time_uuid)),
        ("tinyint", CqlValue::TinyInt(i8::MIN)),
        ("uuid", CqlValue::Uuid(uuid)),
        ("varint", CqlValue::Varint(CqlVarint::from_signed_bytes_be(vec![0x80; 20]))),
        ("frozen<list<int>>", CqlValue::List(list(&[3, 1, 2]))),
        ("frozen<set<int>>", CqlValue::Set(list(&[1, 2]))),
        ("frozen<map<int, int>>", CqlValue::Map(vec![(CqlValue::Int(1), CqlValue::Int(-1))])),
        ("tuple<int, text>", CqlValue::Tuple(vec![Some(CqlValue::Int(7)), None])),
    ]
}

#[tokio::test]
async fn every_type_comes_back() {
    let (_server, session) = start("types").await;
    for (number, (ty, value)) in samples().into_iter().enumerate() {
        execute(&session, &[&format!("CREATE TABLE t{number} (k int PRIMARY KEY, v {ty})")]).await;
        let insert = session.prepare(format!("INSERT INTO t{number} (k, v) VALUES (?, ?)")).await.unwrap();
        session.execute_unpaged(&insert, (1, &value)).await.unwrap();
        session.execute_unpaged(&insert, (2, None::<CqlValue>)).await.unwrap();
        session.execute_unpaged(&insert, (1, MaybeUnset::<CqlValue>::Unset)).await.unwrap();
        let select = session.prepare(format!("SELECT v FROM t{number} WHERE k = ?")).await.unwrap();
        for (key, want) in [(1, Some(value)), (2, None)] {
            let result = session.execute_unpaged(&select, (key,)).await.unwrap().into_rows_result().unwrap();
            assert_eq!(result.single_row::<(Option<CqlValue>,)>().unwrap().0, want, "{ty}");
        }
    }
}

/// Fills `big` with `ROWS` rows, many in flight.
async fn fill(session: &Session) {
    execute(session, &["CREATE TABLE big (p int, c int, v bigint, PRIMARY KEY (p, c))"]).await;
    let insert = session.prepare("INSERT INTO big (p, c, v) VALUES (?, ?, ?)").await.unwrap();
    stream::iter(0..ROWS)
        .map(|n| session.execute_unpaged(&insert, (n % PARTITIONS, n / PARTITIONS, i64::from(n) * 7)))
        .buffer_unordered(256)
        .try_for_each(|_| async { Ok(()) })
        .await
        .unwrap();
}

#[tokio::test]
async fn a_hundred_thousand_rows_are_paged_over() {
    let (server, session) = start("paging").await;
    fill(&session).await;
    let statement = Statement::new("SELECT p, c, v FROM big").with_page_size(1000);
    let pager = session.query_iter(statement, ()).await.unwrap();
    let mut rows = pager.rows_stream::<(i32, i32, i64)>().unwrap();
    let mut found = vec![false; usize::try_from(ROWS).unwrap()];
    while let Some((p, c, v)) = rows.try_next().await.unwrap() {
        let n = c * PARTITIONS + p;
        assert_eq!(v, i64::from(n) * 7);
        let seen = &mut found[usize::try_from(n).unwrap()];
        assert!(!*seen, "row {n} twice");
        *seen = true;
    }
    assert!(found.iter().all(|seen| *seen));

    // A paging state is good on another connection and for other sizes of pages.
    let page = |size| Statement::new("SELECT p, c FROM ks.big WHERE p = 7").with_page_size(size);
    let whole = pairs(&session, "SELECT p, c FROM big WHERE p = 7").await;
    let (first, state) = session.query_single_page(page(10), (), PagingState::start()).await.unwrap();
    let mut got: Vec<(i32, i32)> =
        first.into_rows_result().unwrap().rows::<(i32, i32)>().unwrap().map(Result::unwrap).collect();
    let other = connect(&server, Some(Compression::Lz4)).await;
    let mut next = state;
    while let PagingStateResponse::HasMorePages { state } = next {
        let (rows, after) = other.query_single_page(page(333), (), state).await.unwrap();
        got.extend(rows.into_rows_result().unwrap().rows::<(i32, i32)>().unwrap().map(Result::unwrap));
        next = after;
    }
    assert_eq!(got, whole);
}

#[tokio::test]
async fn batches_are_written_whole() {
    let (_server, session) = start("batches").await;
    execute(&session, &["CREATE TABLE t (k int PRIMARY KEY, v int)", "INSERT INTO t (k, v) VALUES (99, 0)"]).await;
    let insert = session.prepare("INSERT INTO t (k, v) VALUES (?, ?)").await.unwrap();
    for (kind, start) in [(BatchType::Logged, 0), (BatchType::Unlogged, 100)] {
        let mut batch = Batch::new(kind);
        let mut values = Vec::new();
        for k in start..start + 50 {
            batch.append_statement(insert.clone());
            values.push((k, 2 * k));
        }
        session.batch(&batch, values).await.unwrap();
        let cql = format!("SELECT k, v FROM t WHERE k IN ({start}, {})", start + 49);
        assert_eq!(pairs(&session, &cql).await, [(start, 2 * start), (start + 49, 2 * start + 98)]);
    }
    execute(&session, &["BEGIN BATCH DELETE FROM t WHERE k = 99; INSERT INTO t (k, v) VALUES (98, 1); APPLY BATCH"])
        .await;
    assert_eq!(pairs(&session, "SELECT k, v FROM t WHERE k IN (98, 99)").await, [(98, 1)]);
}

#[tokio::test]
async fn statements_are_prepared_again_after_alter() {
    let (server, session) = start("alter").await;
    execute(&session, &["CREATE TABLE t (k int PRIMARY KEY, a int)"]).await;
    let insert = session.prepare("INSERT INTO t (k, a) VALUES (?, ?)").await.unwrap();
    let select = session.prepare("SELECT * FROM t WHERE k = ?").await.unwrap();
    session.execute_unpaged(&insert, (1, 10)).await.unwrap();
    execute(&connect(&server, None).await, &["ALTER TABLE ks.t ADD b text"]).await;
    session.execute_unpaged(&insert, (2, 20)).await.unwrap();
    execute(&session, &["UPDATE t SET b = 'new' WHERE k = 1"]).await;
    let result = session.execute_unpaged(&select, (1,)).await.unwrap().into_rows_result().unwrap();
    assert_eq!(result.single_row::<(i32, i32, String)>().unwrap(), (1, 10, "new".to_owned()));
}

#[tokio::test]
async fn bodies_are_compressed() {
    let (server, session) = start("compression").await;
    execute(&session, &["CREATE TABLE t (k int PRIMARY KEY, v blob)"]).await;
    for compression in [Compression::Lz4, Compression::Snappy] {
        let session = connect(&server, Some(compression)).await;
        let insert = session.prepare("INSERT INTO ks.t (k, v) VALUES (?, ?)").await.unwrap();
        for len in [0, 1, 1000, 1_000_000_usize] {
            let value: Vec<u8> = (0..len).map(|n| (n * n / 7) as u8).collect();
            session.execute_unpaged(&insert, (1, &value)).await.unwrap();
            let result = session.query_unpaged("SELECT v FROM ks.t WHERE k = 1", ()).await.unwrap();
            let result = result.into_rows_result().unwrap();
            assert_eq!(result.single_row::<(Vec<u8>,)>().unwrap().0, value, "{compression:?}, {len} bytes");
        }
    }
}

#[tokio::test]
async fn errors_have_their_codes_and_fields() {
    let (_server, session) = start("errors").await;
    execute(&session, &["CREATE TABLE t (k int PRIMARY KEY, v int)"]).await;
    assert_eq!(refused(&session, "SELEC nothing").await, DbError::SyntaxError);
    for cql in ["SELECT nosuch FROM t", "SELECT * FROM nosuch", "INSERT INTO t (v) VALUES (1)"] {
        assert_eq!(refused(&session, cql).await, DbError::Invalid, "{cql}");
    }
    let exists = DbError::AlreadyExists { keyspace: "ks".into(), table: "t".into() };
    assert_eq!(refused(&session, "CREATE TABLE t (k int PRIMARY KEY)").await, exists);
    let strategy = "CREATE KEYSPACE other WITH replication = {'class': 'NoSuchStrategy'}";
    assert_eq!(refused(&session, strategy).await, DbError::ConfigError);
}

/// The addresses that `system.local` shows.
async fn local_addresses(session: &Session) -> (IpAddr, IpAddr, IpAddr) {
    let cql = "SELECT rpc_address, broadcast_address, listen_address FROM system.local WHERE key = 'local'";
    session.query_unpaged(cql, ()).await.unwrap().into_rows_result().unwrap().single_row().unwrap()
}

#[tokio::test]
async fn a_server_on_every_address_shows_each_client_the_one_it_connected_to() {
    let mut server = Server::start("clients-addresses", &["--listen", "0.0.0.0"]);
    assert!(server.cql.ip().is_unspecified());
    for address in ["127.0.0.1", "127.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap()) {
        server.cql.set_ip(address);
        let session = connect(&server, None).await;
        // Whichever shard and connection answers.
        for _ in 0..8 {
            assert_eq!(local_addresses(&session).await, (address, address, address));
        }
        assert_eq!(session.get_cluster_state().get_nodes_info()[0].address.ip(), address);
        let json = "SELECT JSON rpc_address, max(listen_address) FROM system.local";
        let rows = session.query_unpaged(json, ()).await.unwrap().into_rows_result().unwrap();
        let (json,) = rows.single_row::<(String,)>().unwrap();
        assert_eq!(json.matches(&format!("\"{address}\"")).count(), 2, "{json}");
        session.use_keyspace("system", false).await.unwrap();
        let rows = session.query_unpaged("DESCRIBE CLUSTER", ()).await.unwrap().into_rows_result().unwrap();
        let (_, _, _, owners) = rows.single_row::<(String, String, String, BTreeMap<String, Vec<String>>)>().unwrap();
        assert!(owners.values().all(|owner| *owner == [format!("/{address}:7000")]), "{owners:?}");
    }
}

/// The SSTables below a folder of the data directory, by inode: another name of one is the same.
fn inodes(server: &Server, folder: &str) -> Vec<u64> {
    let mut found = Vec::new();
    let mut pending = vec![server.data_dir().join(folder)];
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() { pending.push(entry.path()) } else { found.push(entry.ino()) }
        }
    }
    found.sort_unstable();
    found
}

/// The tags of the server's snapshots of `ks`, with the tables in them.
fn snapshots(server: &Server) -> Vec<(String, String)> {
    let root = server.data_dir().join("snapshots");
    let names = |folder: PathBuf| -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    };
    let mut found = Vec::new();
    for tag in names(root.clone()) {
        for table in names(root.join(&tag).join("ks")) {
            found.push((tag.clone(), table.split_once('-').unwrap().0.to_owned()));
        }
    }
    found.sort_unstable();
    found
}

#[tokio::test]
async fn what_is_truncated_or_dropped_is_in_a_snapshot_until_it_is_cleared() {
    let (server, session) = start("snapshots").await;
    for table in ["a", "b", "c", "empty"] {
        execute(&session, &[&format!("CREATE TABLE {table} (k int PRIMARY KEY, v int)")]).await;
    }
    execute(&session, &["CREATE TABLE declines (k int PRIMARY KEY, v int) WITH allow_auto_snapshot = false"]).await;
    for table in ["a", "b", "c", "declines"] {
        for k in 0..20 {
            execute(&session, &[&format!("INSERT INTO {table} (k, v) VALUES ({k}, {k})")]).await;
        }
    }
    execute(&session, &["TRUNCATE a", "TRUNCATE empty", "TRUNCATE declines"]).await;
    assert_eq!(pairs(&session, "SELECT k, v FROM a").await, []);
    let kinds = |server: &Server| -> Vec<(String, String)> {
        let kind = |(tag, table): (String, String)| {
            let (kind, rest) = tag.split_once('-').unwrap();
            let (millis, of) = rest.split_once('-').unwrap();
            assert!(millis.parse::<u64>().unwrap() > 1_700_000_000_000 && of == table, "{tag}");
            (kind.to_owned(), table)
        };
        let mut kinds: Vec<_> = snapshots(server).into_iter().map(kind).collect();
        kinds.sort_unstable();
        kinds
    };
    let (truncated, dropped) = (|t: &str| ("truncated".into(), t.into()), |t: &str| ("dropped".into(), t.into()));
    assert_eq!(kinds(&server), [truncated("a")]);
    execute(&session, &["DROP TABLE b"]).await;
    execute(&session, &["INSERT INTO a (k, v) VALUES (1, 1)", "DROP KEYSPACE ks"]).await;
    assert_eq!(kinds(&server), [dropped("a"), dropped("b"), dropped("c"), truncated("a")]);

    let held = inodes(&server, "snapshots");
    assert!(held.len() >= 4, "{held:?}");
    let live = inodes(&server, "sstables");
    assert!(held.iter().all(|file| !live.contains(file)), "the tables themselves are gone");
    assert!(server.operate("GET", "/snapshots").contains("dropped-"));
    server.operate("POST", "/clearsnapshot");
    assert_eq!(inodes(&server, "snapshots"), [0_u64; 0]);
    assert_eq!(snapshots(&server), []);
}
