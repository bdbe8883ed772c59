//! From a token to the shard that owns it: mesh messages, fan-out and merge, timeouts, and where shard errors become
//! CQL's.
//!
//! A request for another shard is a message and a numbered place that waits for its reply. A request for this shard is
//! a call. System keyspaces stand on shard 0 whatever the token.
//!
//! | file | owns |
//! | --- | --- |
//! | `write`, `batch` | mutations by owner, one timestamp for all; logged batches over several shards |
//! | `read`, `keys`, `scan` | keys in the order asked; ranges from all shards, merged by token |
//! | `wanted` | reads that end everywhere once their client has gone or their time is over |
//! | `ddl`, `operate`, `snapshots` | what shard 0 leads: schema changes, TRUNCATE, operators' commands |
//! | `consistency` | UNAVAILABLE where a level wants more replicas than one |
//! | `serve`, `message` | the receiving end, and what shards say to each other |
//! | `errors` | the one place where a shard's errors get CQL's codes |
//!
//! A write or read that its owner does not answer before the deadline is answered with a timeout; a reply that comes
//! later is dropped. A read ends then on its owner too; a write is not taken back: after a timeout it may be there.

mod batch;
mod consistency;
mod ddl;
mod errors;
mod keys;
pub mod message;
mod operate;
mod read;
mod scan;
mod serve;
mod snapshots;
mod wanted;
mod write;

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use crate::base::ids::{ShardId, TableId, Token};
use crate::base::local::{Notify, Semaphore, oneshot};
use crate::io::{Io, Mesh, TaskClass};
use crate::protocol::{Consistency, CqlError};
use crate::router::message::{Message, Reply, Request};
use crate::router::wanted::{Places, Wanted};
use crate::schema::partitioner::Sharding;
use crate::schema::{Schema, Table, system};
use crate::shard::Shard;

pub use batch::OpenBatches;
pub use message::{Answer, Operation, ShardReport};
pub use read::PageRoom;

/// How long requests may take, by kind.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    pub read: Duration,
    pub range: Duration,
    pub write: Duration,
    pub truncate: Duration,
    /// DDL, flushes and what else an operator waits for.
    pub operation: Duration,
}

impl Timeouts {
    /// The same patience with requests of every kind.
    pub fn all(patience: Duration) -> Timeouts {
        Timeouts { read: patience, range: patience, write: patience, truncate: patience, operation: patience }
    }
}

/// What the layers above do with messages that are theirs.
pub trait Above {
    /// Serve this connection.
    fn connection(&self, accepted: crate::io::Accepted);
    /// A connection is closed that this shard accepted.
    fn connection_closed(&self);
    /// Know this statement from now on.
    fn prepare(&self, text: &str, keyspace: Option<&str>) -> Result<(), CqlError>;
    /// The planning schema is another.
    fn schema_changed(&self, schema: &Rc<Schema>, ops: &[crate::schema::SchemaOp]);
    /// Tell registered clients.
    fn schema_event(&self, change: &crate::protocol::SchemaChange);
    /// Stop, once what is in flight is answered.
    fn shutdown(&self);
    fn connections(&self) -> u64;
    /// Counters of what clients sent and got, by metric name.
    fn counters(&self) -> Vec<(&'static str, u64)>;
}

/// One shard's view of all shards.
pub struct Router {
    pub(crate) io: Io,
    pub(crate) shard: Rc<Shard>,
    mesh: Mesh<Message>,
    sharding: Sharding,
    pub(crate) timeouts: Timeouts,
    /// The schema that statements are planned under.
    schema: RefCell<Rc<Schema>>,
    /// What `check_consistency` has found right last: most requests ask the same again.
    consistency_passed: RefCell<Option<(Rc<Schema>, TableId, Consistency)>>,
    places: Places,
    /// What this shard reads for others.
    wanted: Wanted,
    /// Bytes of the pages of ranges that are asked for here and not merged.
    range_pages: Rc<Semaphore>,
    next_number: Cell<u64>,
    /// On shard 0: one DDL statement at a time.
    ddl_turn: Rc<Semaphore>,
    snapshots: snapshots::Snapshots,
    open_batches: OpenBatches,
    above: RefCell<Option<Rc<dyn Above>>>,
    /// The last clock reading that a statement was given.
    last_now_us: Cell<i64>,
    closed: Cell<bool>,
    closing: Notify,
}

impl Router {
    pub fn new(
        io: Io,
        shard: Rc<Shard>,
        mesh: Mesh<Message>,
        sharding: Sharding,
        timeouts: Timeouts,
        schema: Rc<Schema>,
    ) -> Rc<Self> {
        Rc::new(Router {
            io,
            shard,
            mesh,
            sharding,
            timeouts,
            schema: RefCell::new(schema),
            consistency_passed: RefCell::default(),
            places: Places::new(),
            wanted: Wanted::new(),
            range_pages: Semaphore::new(read::RANGE_PAGES_BYTES_MAX),
            next_number: Cell::new(0),
            ddl_turn: Semaphore::new(1),
            snapshots: snapshots::Snapshots::default(),
            open_batches: OpenBatches::default(),
            above: RefCell::new(None),
            last_now_us: Cell::new(i64::MIN / 2),
            closed: Cell::new(false),
            closing: Notify::new(),
        })
    }

    /// Connects the layer that serves clients.
    pub fn set_above(&self, above: Rc<dyn Above>) {
        *self.above.borrow_mut() = Some(above);
    }

    /// The schema that statements are planned under now.
    pub fn schema(&self) -> Rc<Schema> {
        self.schema.borrow().clone()
    }

    pub fn io(&self) -> &Io {
        &self.io
    }

    pub fn shard(&self) -> &Rc<Shard> {
        &self.shard
    }

    pub fn sharding(&self) -> Sharding {
        self.sharding
    }

    /// Waits until this shard has been closed.
    pub async fn closed(&self) {
        while !self.closed.get() {
            self.closing.notified().await;
        }
    }

    fn close(&self) {
        self.closed.set(true);
        self.closing.notify_all();
    }

    fn here(&self) -> ShardId {
        self.io.shard_id()
    }

    fn shards(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.sharding.shards).map(ShardId)
    }

    /// UNAVAILABLE where `table`'s keyspace has too few live replicas for the level.
    pub fn check_consistency(&self, table: &Table, level: Consistency) -> Result<(), CqlError> {
        let schema = self.schema.borrow();
        let is_known = |(of, table_id, passed): &(Rc<Schema>, TableId, Consistency)| {
            Rc::ptr_eq(of, &schema) && *table_id == table.id && *passed == level
        };
        if self.consistency_passed.borrow().as_ref().is_some_and(is_known) {
            return Ok(());
        }
        if let Some(keyspace) = schema.keyspace(&table.keyspace) {
            consistency::check(keyspace, level)?;
        }
        *self.consistency_passed.borrow_mut() = Some((schema.clone(), table.id, level));
        Ok(())
    }

    /// The shard that owns a partition of `table`.
    fn owner(&self, table: &Table, token: Token) -> ShardId {
        if system::is_system(&table.keyspace) { ShardId(0) } else { self.sharding.shard_of(token) }
    }

    /// When a request of this kind, begun now, is too late.
    fn deadline(&self, timeout: Duration) -> u64 {
        self.io.now_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    /// Asks a shard and waits for its reply. `None`: not before the deadline.
    async fn call(self: &Rc<Self>, to: ShardId, request: Request, deadline_ns: u64) -> Option<Result<Reply, CqlError>> {
        if to == self.here() {
            if request.outlives_its_client() {
                return self.serve_apart(request).await;
            }
            return Some(Box::pin(self.serve(request)).await);
        }
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        let reads_at = matches!(request, Request::Read { .. }).then_some(to);
        let (_place, receiver) = self.places.take(number, reads_at);
        let reply = async {
            self.mesh.send(to, Message::Request { number, request }).await;
            receiver.await
        };
        self.before(deadline_ns, reply).await.flatten()
    }

    /// The future's value, or `None` where it does not come before the deadline.
    async fn before<F: Future>(&self, deadline_ns: u64, future: F) -> Option<F::Output> {
        self.io.within(Duration::from_nanos(deadline_ns.saturating_sub(self.io.now_ns())), future).await
    }

    /// Serves in a task of its own, as another shard's loop would: a client that goes ends the wait, not the work.
    async fn serve_apart(self: &Rc<Self>, request: Request) -> Option<Result<Reply, CqlError>> {
        let (sender, receiver) = oneshot();
        let router = self.clone();
        self.io.spawn(TaskClass::Foreground, async move {
            // Nobody waits any more where the client has gone.
            sender.send(router.serve(request).await);
        });
        receiver.await
    }

    /// Gives another shard (or this one) something of which no answer is awaited.
    pub async fn hand_over(self: &Rc<Self>, to: ShardId, request: Request) {
        if to == self.here() {
            // Only what belongs to the layer above is handed over, and that is done at once.
            if let Err(error) = Box::pin(self.serve(request)).await {
                tracing::debug!(%error, "what was handed over was not taken");
            }
            return;
        }
        let number = self.next_number.get();
        self.next_number.set(number + 1);
        self.mesh.send(to, Message::Request { number, request }).await;
    }

    /// Has every other shard know a statement.
    pub async fn prepare_elsewhere(self: &Rc<Self>, text: &str, keyspace: Option<&str>) -> Result<(), CqlError> {
        let deadline_ns = self.deadline(self.timeouts.operation);
        let others = self.shards().filter(|shard| *shard != self.here());
        let asked = others.map(|shard| {
            let request = Request::Prepare { text: text.to_owned(), keyspace: keyspace.map(str::to_owned) };
            self.call(shard, request, deadline_ns)
        });
        let late = || CqlError::server_error("a shard did not take the prepared statement in time");
        for reply in futures_util::future::join_all(asked).await {
            reply.unwrap_or_else(|| Err(late()))?;
        }
        Ok(())
    }
}
