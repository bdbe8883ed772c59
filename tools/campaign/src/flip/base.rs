//! The directory whose bytes are flipped: tables of every kind and compression, written in generations so that each
//! has several SSTables that overlap, and a tail that only the commit log holds.

use std::path::Path;

use super::judge::Question;
use crate::admin;
use crate::cql::Connection;
use crate::dice::Dice;
use crate::server::{Server, ServerOptions};

const KEYSPACE: &str = "flip";
/// Rows of the table that only the log of a killed server holds.
pub const TAIL_ROWS: i32 = 40;
const GENERATIONS: i32 = 3;

/// How the directory was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// By SIGTERM: everything in the log is known to be synced.
    Clean,
    /// By kill -9, in sync mode `batch`, after writes of one connection, one after the other: of the log, the last
    /// write alone is not known to be synced by a later one.
    Killed,
}

const TABLES: [&str; 5] = [
    "snappy (pk int, ck int, s text static, v int, w text, PRIMARY KEY (pk, ck)) WITH compression = \
     {'class': 'SnappyCompressor', 'chunk_length_in_kb': 4}",
    "lz4 (pk text PRIMARY KEY, m frozen<map<int, text>>, l frozen<list<int>>, n frozen<set<text>>) WITH compression \
     = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 4}",
    "zstd (a int, b text, ck int, v bigint, d double, PRIMARY KEY ((a, b), ck)) WITH CLUSTERING ORDER BY (ck DESC) \
     AND compression = {'class': 'ZstdCompressor', 'chunk_length_in_kb': 4}",
    "plain (pk int, ck int, w text, PRIMARY KEY (pk, ck)) WITH compression = {'enabled': false}",
    "tail (pk int, ck int, v int, PRIMARY KEY (pk, ck))",
];

/// The server over `dir`, for building and for reading alike.
pub fn options(dir: &Path, ending: Ending) -> ServerOptions {
    let mode = match ending {
        Ending::Clean => "periodic",
        Ending::Killed => "batch",
    };
    let set = [
        format!("commitlog_sync={mode}"),
        "commitlog_segment_size=1MiB".to_owned(),
        "commitlog_total_space=8MiB".to_owned(),
        "memtable_offheap_space=8MiB".to_owned(),
        "file_cache_size=4MiB".to_owned(),
        "write_request_timeout=30s".to_owned(),
        "read_request_timeout=30s".to_owned(),
        "range_request_timeout=30s".to_owned(),
    ];
    ServerOptions { shards: Some(2), set: set.into(), ..ServerOptions::below(dir) }
}

/// Fills `dir/data`.
pub fn build(dir: &Path, ending: Ending, dice: &mut Dice) -> Result<(), String> {
    let server = Server::start(&options(dir, ending)).map_err(|error| error.to_string())?;
    let mut connection = Connection::open(server.ready().cql).map_err(|error| error.to_string())?;
    let mut run = |text: &str| connection.run(text).map(|_| ()).map_err(|error| format!("{text}: {error}"));
    run(&format!(
        "CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"
    ))?;
    for table in TABLES {
        run(&format!("CREATE TABLE {KEYSPACE}.{table}"))?;
    }
    for generation in 0..GENERATIONS {
        for statement in statements(generation, dice) {
            run(&statement)?;
        }
        // What a clean stop leaves unflushed is replayed; after a kill only the tail shall be.
        if generation + 1 < GENERATIONS || ending == Ending::Killed {
            flush(&server)?;
        }
    }
    for ck in 0..TAIL_ROWS {
        run(&format!("INSERT INTO {KEYSPACE}.tail (pk, ck, v) VALUES (1, {ck}, {})", ck * 3))?;
    }
    match ending {
        Ending::Killed => server.kill9().map(|_| ()).map_err(|error| error.to_string()),
        Ending::Clean => match server.stop().map_err(|error| error.to_string())? {
            status if status.success() => Ok(()),
            status => Err(format!("after SIGTERM the server ended with {status}")),
        },
    }
}

fn flush(server: &Server) -> Result<(), String> {
    match admin::post(server.ready().admin, "/flush") {
        Ok((200, _)) => Ok(()),
        Ok((status, body)) => Err(format!("POST /flush: {status} {body}")),
        Err(error) => Err(format!("POST /flush: {error}")),
    }
}

/// Inserts, then, from the second generation on, deletions of every kind over what earlier ones wrote.
fn statements(generation: i32, dice: &mut Dice) -> Vec<String> {
    let mut statements = Vec::new();
    for pk in 0..8 {
        statements.push(format!("UPDATE {KEYSPACE}.snappy SET s = 's{generation}.{pk}' WHERE pk = {pk}"));
        for _ in 0..8 {
            let (ck, v, w) = (dice.small(40), dice.small(1 << 30), words(dice, 120));
            statements.push(format!("INSERT INTO {KEYSPACE}.snappy (pk, ck, v, w) VALUES ({pk}, {ck}, {v}, '{w}')"));
            let (ck, w) = (dice.small(40), words(dice, 500));
            statements.push(format!("INSERT INTO {KEYSPACE}.plain (pk, ck, w) VALUES ({pk}, {ck}, '{w}')"));
            let (a, ck, v) = (dice.small(4), dice.small(40), dice.small(1 << 30));
            statements
                .push(format!("INSERT INTO {KEYSPACE}.zstd (a, b, ck, v, d) VALUES ({a}, 'b{pk}', {ck}, {v}, {v}.25)"));
            let (key, v, w) = (dice.small(60), dice.small(1000), words(dice, 40));
            statements.push(format!(
                "INSERT INTO {KEYSPACE}.lz4 (pk, m, l, n) VALUES ('k{key}', {{1: '{w}', {}: 'm'}}, [{v}, 2], \
                 {{'{w}', 'n'}})",
                v + 2
            ));
        }
    }
    if generation > 0 {
        statements.extend(deletions(generation, dice));
    }
    statements
}

fn deletions(generation: i32, dice: &mut Dice) -> Vec<String> {
    let mut statements = Vec::new();
    for pk in 0..8 {
        let (from, ck) = (dice.small(30), dice.small(40));
        statements.extend([
            format!("DELETE FROM {KEYSPACE}.snappy WHERE pk = {pk} AND ck >= {from} AND ck < {}", from + 6),
            format!("DELETE FROM {KEYSPACE}.plain WHERE pk = {pk} AND ck = {ck}"),
            format!("DELETE w FROM {KEYSPACE}.snappy WHERE pk = {pk} AND ck = {ck}"),
            format!("DELETE FROM {KEYSPACE}.lz4 WHERE pk = 'k{ck}'"),
        ]);
    }
    statements.push(format!("DELETE FROM {KEYSPACE}.plain WHERE pk = {generation}"));
    statements.push(format!("DELETE s FROM {KEYSPACE}.snappy WHERE pk = {generation}"));
    statements.push(format!("DELETE FROM {KEYSPACE}.zstd WHERE a = {generation} AND b = 'b1' AND ck > 20"));
    statements
}

/// Text of up to `bytes_max` bytes.
fn words(dice: &mut Dice, bytes_max: usize) -> String {
    let length = 1 + dice.index(bytes_max);
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        text.push_str(&format!("{:x} ", dice.next() >> 20));
    }
    text.truncate(length);
    text
}

/// Everything that is read after a flip: each table by scan and by key, both ways, and the schema.
pub fn questions() -> Vec<Question> {
    let mut questions = Vec::new();
    let mut ask = |text: String, page_size| questions.push(Question { text, page_size, tail: false });
    ask(format!("SELECT pk, ck, s, v, w, writetime(v), writetime(w) FROM {KEYSPACE}.snappy"), 37);
    ask(format!("SELECT pk, m, l, n, writetime(m) FROM {KEYSPACE}.lz4"), 11);
    ask(format!("SELECT a, b, ck, v, d FROM {KEYSPACE}.zstd"), 1000);
    ask(format!("SELECT pk, ck, w FROM {KEYSPACE}.plain"), 1000);
    ask(format!("SELECT count(*) FROM {KEYSPACE}.snappy"), 1000);
    ask(format!("SELECT count(*) FROM {KEYSPACE}.plain"), 1000);
    for pk in 0..8 {
        ask(format!("SELECT ck, s, v, w FROM {KEYSPACE}.snappy WHERE pk = {pk} ORDER BY ck DESC"), 5);
        ask(format!("SELECT ck, w FROM {KEYSPACE}.plain WHERE pk = {pk} AND ck >= 10 AND ck < 30"), 100);
        ask(format!("SELECT ck, v FROM {KEYSPACE}.zstd WHERE a = 1 AND b = 'b{pk}'"), 100);
    }
    for key in 0..60 {
        ask(format!("SELECT m, l, n FROM {KEYSPACE}.lz4 WHERE pk = 'k{key}'"), 10);
    }
    ask(
        format!("SELECT table_name, id, compression FROM system_schema.tables WHERE keyspace_name = '{KEYSPACE}'"),
        100,
    );
    ask(
        format!(
            "SELECT table_name, column_name, kind, type FROM system_schema.columns WHERE keyspace_name = '{KEYSPACE}'"
        ),
        100,
    );
    ask("SELECT host_id, cluster_name, data_center, rack FROM system.local".to_owned(), 10);
    let text = format!("SELECT pk, ck, v FROM {KEYSPACE}.tail");
    questions.push(Question { text, page_size: 100, tail: true });
    questions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_written_and_asked_for() {
        let mut dice = Dice::new(1);
        let written: Vec<String> = (0..GENERATIONS).flat_map(|generation| statements(generation, &mut dice)).collect();
        let questions = questions();
        for table in TABLES {
            let name = format!("{KEYSPACE}.{} ", table.split(' ').next().unwrap_or_default());
            assert!(questions.iter().any(|question| format!("{} ", question.text).contains(&name)), "{name}");
            assert!(name.contains("tail") || written.iter().any(|text| text.contains(&name)), "{name}");
        }
        assert_eq!(questions.iter().filter(|question| question.tail).count(), 1);
    }

    #[test]
    fn the_first_generation_deletes_nothing_and_the_second_does() {
        let mut dice = Dice::new(2);
        let deletes = |texts: Vec<String>| texts.iter().filter(|text| text.starts_with("DELETE")).count();
        assert_eq!(deletes(statements(0, &mut dice)), 0);
        assert_eq!(deletes(statements(1, &mut dice)), 35);
    }

    #[test]
    fn the_same_seed_writes_the_same() {
        assert_eq!(statements(1, &mut Dice::new(5)), statements(1, &mut Dice::new(5)));
        assert!(words(&mut Dice::new(5), 40).len() <= 40);
    }
}
