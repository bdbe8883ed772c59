//! What shards say to each other, and what ordinary threads say to a shard.

use std::fmt;

use crate::base::ids::{TableId, TimestampMicros};
use crate::io::Accepted;
use crate::mutation::read::{ReadCommand, ReadPage};
use crate::protocol::{CqlError, SchemaChange};
use crate::schema::SchemaOp;
use crate::shard::root::Root;
use crate::shard::{Applied, ExpectedBatch, PurgeHold, TableReport, Write};

/// One message of the mesh.
pub enum Message {
    /// Asks; the receiver answers with the same number.
    Request {
        number: u64,
        request: Request,
    },
    Reply {
        number: u64,
        reply: Result<Reply, CqlError>,
    },
    /// The read of this number is wanted no more.
    GivenUp {
        number: u64,
    },
    /// From an ordinary thread, with what to do with the answer.
    Outside {
        request: Request,
        answer: Answer,
    },
    /// While the node starts, before any shard serves.
    Boot(BootStep),
}

/// How shards wait for one another while they start. Shard 0 leads.
#[derive(Clone, Debug)]
pub enum BootStep {
    /// From shard 0: the directory is this one's, with this stored schema.
    Start { root: Box<Root>, ops: Vec<SchemaOp> },
    /// From shard 0: the stored schema after replay.
    Schema { ops: Vec<SchemaOp> },
    /// To shard 0: this step is done here, or why not.
    Done { step: u8, failed: Option<String> },
    /// From shard 0: every shard has done this step.
    Go { step: u8 },
    /// From shard 0: the start has failed; the reason is logged by the shard that failed.
    Abort,
}

/// Takes the answer to an ordinary thread. Runs on the shard: it must not block.
pub type Answer = Box<dyn FnOnce(Result<Reply, CqlError>) + Send>;

/// What a shard can be asked.
pub enum Request {
    /// Apply these mutations, and reply when they are acknowledged as the sync mode promises.
    Apply {
        write: Write,
        deadline_ns: u64,
    },
    /// Reply with these mutations, what must be read first resolved; nothing is applied.
    Resolve {
        write: Write,
        deadline_ns: u64,
    },
    /// Reserve a timestamp for a batch over several shards: at least this one, which is the coordinator's now.
    ReserveTimestamp(TimestampMicros),
    /// A part of this batch will come.
    ExpectBatch(ExpectedBatch),
    /// Read a page. One of more than `bytes_max` is not sent: the asker has no room for it yet.
    Read {
        command: ReadCommand,
        deadline_ns: u64,
        bytes_max: usize,
    },
    /// Log the completion of the batches that this shard coordinates.
    CompleteBatches,
    /// The completions of these batches are durable, or they were never begun: purges need not heed them any more.
    ReleasePurges(Vec<PurgeHold>),
    /// Sync the log and reply once all that was applied before is durable.
    Sync,
    /// To shard 0: run a DDL statement.
    Ddl {
        text: String,
        keyspace: Option<String>,
    },
    /// Be able to apply and read under these changes; statements are still planned under the old schema.
    ExpectSchema(Vec<SchemaOp>),
    /// Plan statements under these changes, and forget what they drop.
    AdoptSchema(Vec<SchemaOp>),
    /// Take this table's snapshot of this tag, if any is named, and then discard what the table holds.
    Truncate {
        table: TableId,
        snapshot: Option<String>,
    },
    /// To shard 0: truncate on every shard.
    TruncateEverywhere(TableId),
    Flush {
        tables: Option<Vec<TableId>>,
    },
    Compact {
        tables: Option<Vec<TableId>>,
    },
    Snapshot {
        tag: String,
        tables: Vec<TableId>,
    },
    Report,
    /// Run an operation on every shard (from the admin endpoint).
    Everywhere(Operation),
    /// Serve this connection.
    Connection(Accepted),
    /// To shard 0, which accepts: a connection that it handed out is closed.
    ConnectionClosed,
    /// Know this statement before its PREPARE is answered.
    Prepare {
        text: String,
        keyspace: Option<String>,
    },
    /// Tell registered clients.
    SchemaEvent(SchemaChange),
    /// Take no new connection and no new request.
    Shutdown,
    /// Sync, record the log's end, and end.
    Close,
}

/// An operator's command, over all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Flush {
        keyspace: Option<String>,
        tables: Vec<String>,
    },
    Compact {
        keyspace: Option<String>,
        tables: Vec<String>,
    },
    Snapshot {
        tag: String,
        keyspaces: Vec<String>,
        tables: Vec<String>,
    },
    /// Snapshots of a tag, of keyspaces, of tables; what is empty leaves nothing out.
    ClearSnapshot {
        tag: Option<String>,
        keyspaces: Vec<String>,
        tables: Vec<String>,
    },
    Report,
}

impl Request {
    /// Whether it has steps that must all be made once the first is: half of a DDL statement is none.
    pub(super) fn outlives_its_client(&self) -> bool {
        matches!(self, Request::Ddl { .. } | Request::TruncateEverywhere(_) | Request::Everywhere(_))
    }
}

/// What a shard answers.
#[derive(Debug)]
pub enum Reply {
    Done,
    Applied(Applied),
    Mutations(Vec<Vec<u8>>),
    Timestamp(TimestampMicros),
    Page(ReadPage),
    /// The page has so many bytes, more than there is room for.
    PageTooLarge {
        bytes: usize,
    },
    /// What the DDL statement changed; `None`: nothing (IF NOT EXISTS), with the warnings.
    Ddl {
        change: Option<SchemaChange>,
        warnings: Vec<String>,
    },
    Report(Vec<ShardReport>),
}

/// One shard's figures, for the operator.
#[derive(Clone, Debug, Default)]
pub struct ShardReport {
    pub shard: u16,
    pub tables: Vec<TableReport>,
    /// (name, value) of this shard's counters and gauges, names as in METRICS.md.
    pub counters: Vec<(&'static str, u64)>,
    pub connections: u64,
}

impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Message::Request { number, .. } => write!(f, "Request {number}"),
            Message::Reply { number, .. } => write!(f, "Reply {number}"),
            Message::GivenUp { number } => write!(f, "Given up {number}"),
            Message::Outside { .. } => write!(f, "Outside"),
            Message::Boot(step) => write!(f, "{step:?}"),
        }
    }
}
