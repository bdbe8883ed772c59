//! What is asked in-process: tables, statements, the rows to begin with and the requests.

use helenus::protocol::client::requests::{put_batch, put_execute};
use helenus::protocol::client::{BatchEntry, Parameters};
use helenus::protocol::request::{BatchKind, StatementRef};
use helenus::protocol::{FrameEncoder, Opcode, ProtocolVersion, Value};

pub const VERSION: ProtocolVersion = ProtocolVersion::V4;

/// What is asked again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// W1's read: a row of five columns by its partition key, in the memtable.
    Read,
    /// W1's write: five columns of a row that is there.
    Write,
    /// W2's batch: 10 rows of one partition.
    Batch,
    /// 10 rows of a partition, from a clustering key on.
    Slice,
    /// One element of a map of `MAP_ELEMENTS`.
    Collection,
    /// One counter column, by one.
    Counter,
}

pub const KINDS: [Kind; 6] = [Kind::Read, Kind::Write, Kind::Batch, Kind::Slice, Kind::Collection, Kind::Counter];

/// Rows of a batch and of a slice.
pub const BATCH_ROWS: usize = 10;
/// Rows of a partition that slices are read of.
const PARTITION_ROWS: usize = 100;
/// Elements of a map that is updated.
const MAP_ELEMENTS: usize = 100;

pub const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Batch => "batch",
            Kind::Slice => "slice",
            Kind::Collection => "collection",
            Kind::Counter => "counter",
        }
    }

    pub fn named(name: &str) -> Result<Kind, String> {
        let known = KINDS.map(Kind::name).join(", ");
        let found = KINDS.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("`{name}` is not one of {known}"))
    }

    pub fn table(self) -> &'static str {
        match self {
            Kind::Read | Kind::Write => {
                "CREATE TABLE k.t (key blob PRIMARY KEY, c0 blob, c1 blob, c2 blob, c3 blob, c4 blob)"
            }
            Kind::Batch | Kind::Slice => {
                "CREATE TABLE k.t (pk text, ck text, c0 text, c1 text, c2 text, c3 text, c4 text, PRIMARY KEY (pk, ck))"
            }
            Kind::Collection => "CREATE TABLE k.t (pk text PRIMARY KEY, m map<text, text>)",
            Kind::Counter => "CREATE TABLE k.t (pk text PRIMARY KEY, c counter)",
        }
    }

    /// The statement that is measured.
    pub fn statement(self) -> &'static str {
        match self {
            Kind::Read => "SELECT c0, c1, c2, c3, c4 FROM k.t WHERE key = ?",
            Kind::Write => "UPDATE k.t SET c0 = ?, c1 = ?, c2 = ?, c3 = ?, c4 = ? WHERE key = ?",
            Kind::Batch => "INSERT INTO k.t (pk, ck, c0, c1, c2, c3, c4) VALUES (?, ?, ?, ?, ?, ?, ?)",
            Kind::Slice => "SELECT ck, c0, c1, c2, c3, c4 FROM k.t WHERE pk = ? AND ck >= ? LIMIT 10",
            Kind::Collection => "UPDATE k.t SET m[?] = ? WHERE pk = ?",
            Kind::Counter => "UPDATE k.t SET c = c + ? WHERE pk = ?",
        }
    }

    /// The statement that makes the rows, where it is another.
    pub fn filling(self) -> &'static str {
        match self {
            Kind::Read => Kind::Write.statement(),
            Kind::Slice => Kind::Batch.statement(),
            Kind::Collection => "UPDATE k.t SET m = ? WHERE pk = ?",
            Kind::Write | Kind::Batch | Kind::Counter => self.statement(),
        }
    }

    /// Rows that an answer has; `None`: it is no page of rows.
    pub fn answer_rows(self) -> Option<usize> {
        match self {
            Kind::Read => Some(1),
            Kind::Slice => Some(BATCH_ROWS),
            Kind::Write | Kind::Batch | Kind::Collection | Kind::Counter => None,
        }
    }

    /// The partition key of this number: 10 bytes for W1, 15 for W2 (as the workloads have them).
    pub fn key(self, number: u64) -> Vec<u8> {
        match self {
            Kind::Read | Kind::Write => format!("{number:010X}").into_bytes(),
            Kind::Batch | Kind::Slice | Kind::Collection | Kind::Counter => format!("{number:015}").into_bytes(),
        }
    }

    /// The requests that make what is asked for: frames on the streams from 0 on.
    pub fn put_filling(self, encoder: &mut FrameEncoder, id: &[u8], key: &[u8], out: &mut Vec<u8>) -> u64 {
        match self {
            Kind::Read | Kind::Write => execute(encoder, 0, id, &standard1(key, 0), out),
            Kind::Batch => batch(encoder, 0, id, key, 0, out),
            Kind::Slice => {
                let batches = PARTITION_ROWS / BATCH_ROWS;
                (0..batches).for_each(|at| batch(encoder, at as i16, id, key, at * BATCH_ROWS, out));
                return batches as u64;
            }
            Kind::Collection => execute(encoder, 0, id, &[whole_map(), key.to_vec()], out),
            Kind::Counter => execute(encoder, 0, id, &[1i64.to_be_bytes().to_vec(), key.to_vec()], out),
        }
        1
    }

    /// One request of those that are measured.
    pub fn put_request(self, encoder: &mut FrameEncoder, stream: i16, id: &[u8], key: &[u8], out: &mut Vec<u8>) {
        let at = usize::from(stream.unsigned_abs());
        match self {
            Kind::Read => execute(encoder, stream, id, &[key.to_vec()], out),
            Kind::Write => execute(encoder, stream, id, &standard1(key, stream as u8), out),
            Kind::Batch => batch(encoder, stream, id, key, 0, out),
            Kind::Slice => {
                let first = at % (PARTITION_ROWS - BATCH_ROWS);
                execute(encoder, stream, id, &[key.to_vec(), ten(first)], out);
            }
            Kind::Collection => {
                execute(encoder, stream, id, &[ten(at % MAP_ELEMENTS), ten(at), key.to_vec()], out);
            }
            Kind::Counter => execute(encoder, stream, id, &[1i64.to_be_bytes().to_vec(), key.to_vec()], out),
        }
    }
}

/// W1's values: five columns of 34 bytes, and the key.
fn standard1(key: &[u8], seed: u8) -> [Vec<u8>; 6] {
    let column = || vec![seed; 34];
    [column(), column(), column(), column(), column(), key.to_vec()]
}

/// A text of 10 characters.
fn ten(number: usize) -> Vec<u8> {
    format!("{number:010}").into_bytes()
}

fn whole_map() -> Vec<u8> {
    let mut out = (MAP_ELEMENTS as i32).to_be_bytes().to_vec();
    for text in (0..MAP_ELEMENTS).flat_map(|at| [ten(at), ten(at)]) {
        out.extend_from_slice(&(text.len() as i32).to_be_bytes());
        out.extend_from_slice(&text);
    }
    out
}

fn values(owned: &[Vec<u8>]) -> Vec<Value<'_>> {
    owned.iter().map(|value| Value::Bytes(value)).collect()
}

fn execute(encoder: &mut FrameEncoder, stream: i16, id: &[u8], owned: &[Vec<u8>], out: &mut Vec<u8>) {
    let values = values(owned);
    let parameters = Parameters { values: &values, skip_metadata: true, ..Parameters::default() };
    let frame = encoder.begin(out, stream, Opcode::Execute);
    put_execute(VERSION, id, &[], &parameters, out);
    encoder.finish(out, frame);
}

/// W2's batch: rows from this one on.
fn batch(encoder: &mut FrameEncoder, stream: i16, id: &[u8], key: &[u8], first: usize, out: &mut Vec<u8>) {
    let rows: Vec<Vec<Vec<u8>>> = (first..first + BATCH_ROWS)
        .map(|row| [key.to_vec()].into_iter().chain((0..6).map(|column| ten(row + column * row))).collect())
        .collect();
    let rows: Vec<Vec<Value<'_>>> = rows.iter().map(|row| values(row)).collect();
    let statement = StatementRef::Prepared(id);
    let entries: Vec<BatchEntry<'_>> = rows.iter().map(|values| BatchEntry { statement, values }).collect();
    let frame = encoder.begin(out, stream, Opcode::Batch);
    put_batch(VERSION, BatchKind::Unlogged, &entries, &Parameters::default(), out);
    encoder.finish(out, frame);
}
