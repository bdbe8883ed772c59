//! Connections, in-flight windows, the serve loop. One task a connection, on the shard that owns it; none a request.
//!
//! | file | owns |
//! | --- | --- |
//! | `listen` | accepting, on shard 0, and which shard gets a connection |
//! | `connection` | receive, decode, start, poll, send; what a slow or silent client costs itself |
//! | `undecoded` | what was received and not taken: the receive buffer |
//! | `unsent` | what is encoded and not sent |
//! | `request` | the way of a request, on one screen |
//! | `point` | reads and writes of one row that are done at once |
//! | `written` | answers of writes that wait for the log |
//! | `outcome` | what a request came to, and its bytes |
//! | `statements` | prepared statements by id, the same on every shard |
//! | `events` | who is told of schema changes |
//! | `limits` | every bound, with what happens at it |
//! | `budget` | bytes held for clients, and OVERLOADED |
//! | `room` | what one read holds, the page it waits for among it |
//!
//! A request owns a copy of its body, so a receive buffer never waits for an answer. Answers are encoded when they are
//! ready, in any order of their streams, into the one buffer that the next send takes. What the router has for clients
//! (a connection or its end, a statement to know, an event, the end of all) comes through its trait `Above`.

mod budget;
mod connection;
mod events;
mod limits;
mod listen;
mod outcome;
mod point;
mod request;
mod room;
mod statements;
mod texts;
mod undecoded;
mod unsent;
mod written;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::base::ids::ShardId;
use crate::base::local::Notify;
use crate::io::{Accepted, Io, TaskClass};
use crate::net::budget::Budget;
use crate::net::connection::Connection;
use crate::net::events::Listeners;
use crate::net::point::Scratch;
use crate::net::statements::Statements;
use crate::net::texts::Texts;
use crate::plan::system_rows::LocalInfo;
use crate::protocol::{CqlError, Event, SchemaChange, Value};
use crate::router::message::Request;
use crate::router::{Above, Router};
use crate::schema::{Schema, SchemaOp};

pub use limits::Limits;
pub use listen::{Ports, listen};

/// From when clients have given back most of what they held, until the memory goes back to the system.
const GIVE_BACK_AFTER: Duration = Duration::from_secs(1);

/// What went over this shard's connections: a receive may bring many requests, and a send take many answers.
#[derive(Default)]
struct Traffic {
    requests: Cell<u64>,
    receives: Cell<u64>,
    sends: Cell<u64>,
}

/// Counts one more.
fn count(counter: &Cell<u64>) {
    counter.set(counter.get() + 1);
}

/// What every connection of one shard shares.
pub struct Net {
    io: Io,
    router: Rc<Router>,
    statements: Statements,
    texts: Texts,
    listeners: Listeners,
    limits: Limits,
    /// This node as DESCRIBE CLUSTER shows it.
    local: LocalInfo,
    /// What SUPPORTED announces to shard-aware drivers: the shard-aware port. `None`: nothing.
    shard_aware_port: Cell<Option<u16>>,
    /// This node listens on every address: a client is shown the one it connected to.
    shows_connected_address: Cell<bool>,
    open: Cell<u64>,
    traffic: Traffic,
    /// On shard 0, which accepts: connections open on all shards.
    accepted: Cell<u64>,
    /// Requests in flight on this shard, and unfinished frames.
    requests: Rc<Budget>,
    /// Their share that unfinished frames may take, so that clients who never finish one leave room for those who do.
    unfinished: Rc<Budget>,
    /// Answers of this shard's connections until they are sent.
    answers: Rc<Budget>,
    /// Receive buffers, beyond the little that every connection has.
    receives: Rc<Budget>,
    /// What is read and written at once uses it.
    scratch: RefCell<Scratch>,
    /// Memory for the values of one request, of none while nothing is served.
    values: Cell<Vec<Value<'static>>>,
    stopping: Cell<bool>,
    /// Woken when this shard stops, and whenever a connection closes.
    changed: Notify,
}

impl Net {
    pub fn new(io: Io, router: Rc<Router>, limits: Limits, local: LocalInfo) -> Rc<Self> {
        let requests = Budget::new("requests", limits.in_flight_bytes_max);
        let unfinished = requests.share(limits.in_flight_bytes_max / 2);
        let answers = Budget::new("answers", limits.shard_answer_bytes_max);
        let receives = Budget::new("receive buffers", limits.receive_bytes_max);
        let net = Rc::new(Net {
            io,
            router: router.clone(),
            statements: Statements::new(limits.prepared_statements_max),
            texts: Texts::new(),
            listeners: Listeners::default(),
            limits,
            local,
            shard_aware_port: Cell::new(None),
            shows_connected_address: Cell::new(false),
            open: Cell::new(0),
            traffic: Traffic::default(),
            accepted: Cell::new(0),
            unfinished,
            requests,
            answers,
            receives,
            scratch: RefCell::default(),
            values: Cell::default(),
            stopping: Cell::new(false),
            changed: Notify::new(),
        });
        router.set_above(Rc::new(Serving(net.clone())));
        for budget in [&net.requests, &net.answers] {
            net.io.spawn(TaskClass::Foreground, give_back_memory(net.io.clone(), budget.clone()));
        }
        net
    }

    /// Announces shard awareness in SUPPORTED from now on.
    pub fn announce_shards(&self, shard_aware_port: u16) {
        self.shard_aware_port.set(Some(shard_aware_port));
    }

    /// Shows each client the address that it connected to as the node's own, from now on.
    pub fn show_connected_address(&self) {
        self.shows_connected_address.set(true);
    }

    /// Waits until this shard is told to stop and every connection has ended.
    pub async fn stopped(&self) {
        while !self.stopping.get() || self.open.get() > 0 {
            self.changed.notified().await;
        }
    }

    /// What OPTIONS is answered with.
    fn supported(&self) -> Vec<(&'static str, Vec<String>)> {
        let mut options = vec![
            ("CQL_VERSION", vec![crate::plan::system_rows::CQL_VERSION.to_owned()]),
            ("COMPRESSION", vec!["snappy".to_owned(), "lz4".to_owned()]),
            ("PROTOCOL_VERSIONS", vec!["3/v3".to_owned(), "4/v4".to_owned(), "5/v5".to_owned()]),
        ];
        if let Some(port) = self.shard_aware_port.get() {
            let sharding = self.router.sharding();
            options.extend([
                ("SCYLLA_SHARD", vec![self.io.shard_id().0.to_string()]),
                ("SCYLLA_NR_SHARDS", vec![sharding.shards.to_string()]),
                ("SCYLLA_SHARDING_IGNORE_MSB", vec![sharding.ignore_msb.to_string()]),
                ("SCYLLA_PARTITIONER", vec!["org.apache.cassandra.dht.Murmur3Partitioner".to_owned()]),
                ("SCYLLA_SHARDING_ALGORITHM", vec!["biased-token-round-robin".to_owned()]),
                ("SCYLLA_SHARD_AWARE_PORT", vec![port.to_string()]),
            ]);
        }
        options
    }

    fn is_stopping(&self) -> bool {
        self.stopping.get()
    }
}

/// After clients had much and have little, the process gives what it does not use back to the system: the allocator
/// keeps it otherwise.
async fn give_back_memory(io: Io, budget: Rc<Budget>) {
    loop {
        budget.emptied().await;
        io.sleep(GIVE_BACK_AFTER).await;
        io.give_back_memory().await;
    }
}

/// The `Above` of a router.
struct Serving(Rc<Net>);

impl Above for Serving {
    fn connection(&self, accepted: Accepted) {
        if self.0.stopping.get() {
            return;
        }
        let net = self.0.clone();
        net.open.set(net.open.get() + 1);
        self.0.io.spawn(TaskClass::Foreground, async move {
            match net.io.adopt(accepted) {
                Ok(stream) => Connection::new(net.clone(), stream).serve().await,
                Err(error) => tracing::debug!(%error, "a connection ended before it was served"),
            }
            net.open.set(net.open.get() - 1);
            net.changed.notify_all();
            net.router.hand_over(ShardId(0), Request::ConnectionClosed).await;
        });
    }

    fn connection_closed(&self) {
        self.0.accepted.set(self.0.accepted.get() - 1);
    }

    fn prepare(&self, text: &str, keyspace: Option<&str>) -> Result<(), CqlError> {
        self.0.statements.prepare(&self.0.router.schema(), text, keyspace).map(|_| ())
    }

    fn schema_changed(&self, schema: &Rc<Schema>, ops: &[SchemaOp]) {
        self.0.statements.schema_changed(schema, ops);
        self.0.texts.forget();
    }

    fn schema_event(&self, change: &SchemaChange) {
        self.0.listeners.tell(&Event::Schema(change.clone()));
    }

    fn shutdown(&self) {
        self.0.stopping.set(true);
        self.0.listeners.wake_all();
        self.0.changed.notify_all();
    }

    fn connections(&self) -> u64 {
        self.0.open.get()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        let Traffic { requests, receives, sends } = &self.0.traffic;
        vec![
            ("helenus_requests_total", requests.get()),
            ("helenus_receives_total", receives.get()),
            ("helenus_sends_total", sends.get()),
        ]
    }
}
