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
    /// The same, from one SSTable whose blocks are cached, and from four that all hold the row.
    ReadSSTable,
    ReadFour,
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
    /// W4: a row that is new, of one text column, in a partition that grows.
    Row,
    /// W4: an element that is new, in a map that has so many to begin with.
    Add(MapSize),
}

/// Elements of a map that grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapSize {
    Ten,
    Thousand,
    HundredThousand,
}

impl MapSize {
    pub fn elements(self) -> usize {
        match self {
            MapSize::Ten => 10,
            MapSize::Thousand => 1_000,
            MapSize::HundredThousand => 100_000,
        }
    }

    /// Maps that share the additions, so that small ones do not become large ones.
    fn partitions(self) -> u64 {
        match self {
            MapSize::Ten => 256,
            MapSize::Thousand => 16,
            MapSize::HundredThousand => 1,
        }
    }
}

/// All but those of W4.
pub const KINDS: [Kind; 8] = [
    Kind::Read,
    Kind::ReadSSTable,
    Kind::ReadFour,
    Kind::Write,
    Kind::Batch,
    Kind::Slice,
    Kind::Collection,
    Kind::Counter,
];

/// Rows of a batch and of a slice.
pub const BATCH_ROWS: usize = 10;
/// Rows of a partition that slices are read of.
const PARTITION_ROWS: usize = 100;
/// Elements of a map that is updated.
const MAP_ELEMENTS: usize = 100;

/// Requests in flight on a connection: so many go out with each send.
pub const WINDOW: u64 = 64;
/// Keys between two elements that are there before any is added; and of these gaps, so many are filled in turn.
const ADDED_BETWEEN: usize = 1_000;
const ADDED_MAX: u64 = 99_991;

pub const KEYSPACE: &str = "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::ReadSSTable => "read-sstable",
            Kind::ReadFour => "read-4-sstables",
            Kind::Write => "write",
            Kind::Batch => "batch",
            Kind::Slice => "slice",
            Kind::Collection => "collection",
            Kind::Counter => "counter",
            Kind::Row => "row",
            Kind::Add(MapSize::Ten) => "add-to-10",
            Kind::Add(MapSize::Thousand) => "add-to-1000",
            Kind::Add(MapSize::HundredThousand) => "add-to-100000",
        }
    }

    pub fn named(name: &str) -> Result<Kind, String> {
        let sizes = [MapSize::Ten, MapSize::Thousand, MapSize::HundredThousand].map(Kind::Add);
        let kinds: Vec<Kind> = KINDS.into_iter().chain([Kind::Row]).chain(sizes).collect();
        let known = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
        let found = kinds.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| format!("`{name}` is not one of {known}"))
    }

    /// How often all rows are written and flushed before they are asked for; none: they stay in the memtable.
    pub fn sstables(self) -> u64 {
        match self {
            Kind::ReadSSTable => 1,
            Kind::ReadFour => 4,
            _ => 0,
        }
    }

    pub fn table(self) -> &'static str {
        match self {
            Kind::Read | Kind::ReadSSTable | Kind::ReadFour | Kind::Write => {
                "CREATE TABLE k.t (key blob PRIMARY KEY, c0 blob, c1 blob, c2 blob, c3 blob, c4 blob)"
            }
            Kind::Batch | Kind::Slice => {
                "CREATE TABLE k.t (pk text, ck text, c0 text, c1 text, c2 text, c3 text, c4 text, PRIMARY KEY (pk, ck))"
            }
            Kind::Row => "CREATE TABLE k.t (pk text, ck text, c0 text, PRIMARY KEY (pk, ck))",
            Kind::Collection | Kind::Add(_) => "CREATE TABLE k.t (pk text PRIMARY KEY, m map<text, text>)",
            Kind::Counter => "CREATE TABLE k.t (pk text PRIMARY KEY, c counter)",
        }
    }

    /// The statement that is measured.
    pub fn statement(self) -> &'static str {
        match self {
            Kind::Read | Kind::ReadSSTable | Kind::ReadFour => "SELECT c0, c1, c2, c3, c4 FROM k.t WHERE key = ?",
            Kind::Write => "UPDATE k.t SET c0 = ?, c1 = ?, c2 = ?, c3 = ?, c4 = ? WHERE key = ?",
            Kind::Batch => "INSERT INTO k.t (pk, ck, c0, c1, c2, c3, c4) VALUES (?, ?, ?, ?, ?, ?, ?)",
            Kind::Slice => "SELECT ck, c0, c1, c2, c3, c4 FROM k.t WHERE pk = ? AND ck >= ? LIMIT 10",
            Kind::Row => "INSERT INTO k.t (pk, ck, c0) VALUES (?, ?, ?)",
            Kind::Collection | Kind::Add(_) => "UPDATE k.t SET m[?] = ? WHERE pk = ?",
            Kind::Counter => "UPDATE k.t SET c = c + ? WHERE pk = ?",
        }
    }

    /// The statement that makes the rows, where it is another.
    pub fn filling(self) -> &'static str {
        match self {
            Kind::Read | Kind::ReadSSTable | Kind::ReadFour => Kind::Write.statement(),
            Kind::Slice => Kind::Batch.statement(),
            Kind::Collection => "UPDATE k.t SET m = ? WHERE pk = ?",
            Kind::Add(_) => "UPDATE k.t SET m = m + ? WHERE pk = ?",
            Kind::Write | Kind::Batch | Kind::Counter | Kind::Row => self.statement(),
        }
    }

    /// Rows that an answer has; `None`: it is no page of rows.
    pub fn answer_rows(self) -> Option<usize> {
        match self {
            Kind::Read | Kind::ReadSSTable | Kind::ReadFour => Some(1),
            Kind::Slice => Some(BATCH_ROWS),
            _ => None,
        }
    }

    /// Every request changes the table's size: none is asked twice.
    pub fn grows(self) -> bool {
        matches!(self, Kind::Row | Kind::Add(_))
    }

    /// Partitions that a connection asks for in turn, where they are fewer than its requests.
    pub fn partitions(self) -> Option<u64> {
        match self {
            Kind::Row => Some(1),
            Kind::Add(size) => Some(size.partitions()),
            _ => None,
        }
    }

    /// The partition key of this number: 10 bytes for W1, 15 for W2 (as the workloads have them).
    pub fn key(self, number: u64) -> Vec<u8> {
        match self {
            Kind::Read | Kind::ReadSSTable | Kind::ReadFour | Kind::Write => format!("{number:010X}").into_bytes(),
            _ => format!("{number:015}").into_bytes(),
        }
    }

    /// The requests that make what is asked for: frames on the streams from 0 on.
    pub fn put_filling(self, encoder: &mut FrameEncoder, id: &[u8], key: &[u8], out: &mut Vec<u8>) -> u64 {
        match self {
            Kind::Read | Kind::ReadSSTable | Kind::ReadFour | Kind::Write => {
                execute(encoder, 0, id, &standard1(key, 0), out)
            }
            Kind::Batch => batch(encoder, 0, id, key, 0, out),
            Kind::Slice => {
                let batches = PARTITION_ROWS / BATCH_ROWS;
                (0..batches).for_each(|at| batch(encoder, at as i16, id, key, at * BATCH_ROWS, out));
                return batches as u64;
            }
            Kind::Collection => execute(encoder, 0, id, &[map(0..MAP_ELEMENTS), key.to_vec()], out),
            Kind::Row => return 0,
            Kind::Add(size) => {
                const AT_ONCE: usize = 1_000;
                let starts = (0..size.elements()).step_by(AT_ONCE);
                for start in starts.clone() {
                    // Those that requests add come in between.
                    let elements = (start..size.elements().min(start + AT_ONCE)).map(|at| at * ADDED_BETWEEN);
                    execute(encoder, 0, id, &[map(elements), key.to_vec()], out);
                }
                return starts.count() as u64;
            }
            Kind::Counter => execute(encoder, 0, id, &[1i64.to_be_bytes().to_vec(), key.to_vec()], out),
        }
        1
    }

    /// One request of those that are measured; its number is another for each of a connection's windows.
    pub fn put_request(self, encoder: &mut FrameEncoder, number: u64, id: &[u8], key: &[u8], out: &mut Vec<u8>) {
        let at = (number % WINDOW) as usize;
        let stream = at as i16;
        match self {
            Kind::Row => execute(encoder, stream, id, &[key.to_vec(), ten(scattered(number)), ten(at)], out),
            Kind::Add(_) => execute(encoder, stream, id, &[ten(scattered(number)), ten(at), key.to_vec()], out),
            Kind::Read | Kind::ReadSSTable | Kind::ReadFour => execute(encoder, stream, id, &[key.to_vec()], out),
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

/// Numbers among those of the elements that are there, each once.
fn scattered(number: u64) -> usize {
    (number.wrapping_mul(7_919) % ADDED_MAX * ADDED_BETWEEN as u64 + 1 + number / ADDED_MAX) as usize
}

/// A text of 10 characters.
fn ten(number: usize) -> Vec<u8> {
    format!("{number:010}").into_bytes()
}

fn map(elements: impl Iterator<Item = usize> + Clone) -> Vec<u8> {
    let mut out = (elements.clone().count() as i32).to_be_bytes().to_vec();
    for text in elements.flat_map(|at| [ten(at), ten(at)]) {
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
