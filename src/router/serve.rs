//! The receiving end: what a shard does with messages of the mesh, many at once in one task.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, Stream};

use crate::base::ids::ShardId;
use crate::mutation::read::ReadCommand;
use crate::protocol::CqlError;
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Answer, Message, Reply, Request, ShardReport};

/// What the receiving task has in flight.
#[expect(clippy::large_enum_variant, reason = "it moves once, into the future that has room for either")]
enum Work {
    Answer {
        asker: Asker,
        request: Request,
    },
    /// Tell a shard that a read asked of it is wanted no more.
    GiveUp {
        shard: ShardId,
        number: u64,
    },
}

/// Who asked.
enum Asker {
    Shard { shard: ShardId, number: u64 },
    Outside(Answer),
}

impl Router {
    /// Receives and serves until the shard ends. One task a shard runs it.
    /// `early` came while this shard was starting.
    pub async fn run(self: Rc<Self>, early: Vec<(ShardId, Message)>) {
        let mut received = early;
        let mut in_flight = FuturesUnordered::new();
        // Apart from the others, which would wait for a turn of each that is ready.
        let mut scans = FuturesUnordered::new();
        loop {
            if received.is_empty() {
                self.receive_or_progress(&mut received, [&mut in_flight, &mut scans]).await;
            }
            for (from, message) in received.drain(..) {
                let (asker, request) = match message {
                    Message::Reply { number, reply } => {
                        self.places.complete(number, reply);
                        continue;
                    }
                    Message::GivenUp { number } => {
                        self.wanted.forget((from, number));
                        continue;
                    }
                    Message::Request { number, request } => {
                        if matches!(request, Request::Read { .. }) {
                            self.wanted.begin((from, number));
                        }
                        (Asker::Shard { shard: from, number }, request)
                    }
                    Message::Outside { request, answer } => (Asker::Outside(answer), request),
                    // A step of a start that is over.
                    Message::Boot(_) => continue,
                };
                let is_scan = matches!(&request, Request::Read { command, .. } if self.shard.is_scan(command));
                let kind = if is_scan { &mut scans } else { &mut in_flight };
                kind.push(self.clone().work(Work::Answer { asker, request }));
            }
            for (shard, number) in self.places.take_given_up() {
                in_flight.push(self.clone().work(Work::GiveUp { shard, number }));
            }
        }
    }

    /// Waits until messages have come or reads are given up, driving the requests in flight meanwhile.
    async fn receive_or_progress<F: Future<Output = ()>>(
        &self,
        received: &mut Vec<(ShardId, Message)>,
        mut in_flight: [&mut FuturesUnordered<F>; 2],
    ) {
        let mut receive = std::pin::pin!(self.mesh.recv(received));
        let mut given_up = std::pin::pin!(self.places.given_up());
        let done = Cell::new(false);
        poll_fn(|context| {
            if receive.as_mut().poll(context).is_ready() {
                done.set(true);
            }
            for kind in &mut in_flight {
                while let Poll::Ready(Some(())) = Pin::new(&mut **kind).poll_next(context) {}
            }
            if done.get() { Poll::Ready(()) } else { given_up.as_mut().poll(context) }
        })
        .await;
    }

    async fn work(self: Rc<Self>, work: Work) {
        let (shard, message) = match work {
            Work::GiveUp { shard, number } => (shard, Message::GivenUp { number }),
            Work::Answer { asker: Asker::Outside(answer), request } => return answer(self.serve(request).await),
            Work::Answer { asker: Asker::Shard { shard, number }, request } => {
                let reply = match request {
                    Request::Read { command, deadline_ns, bytes_max } => {
                        let read = self.read_page(command, deadline_ns, bytes_max);
                        match self.wanted.unless_forgotten((shard, number), read).await {
                            Some(reply) => reply,
                            None => return,
                        }
                    }
                    request => self.serve(request).await,
                };
                (shard, Message::Reply { number, reply })
            }
        };
        self.mesh.send(shard, message).await;
    }

    /// One page of what this shard has; one that is too large for its asker is told of, not sent.
    async fn read_page(&self, command: ReadCommand, deadline_ns: u64, bytes_max: usize) -> Result<Reply, CqlError> {
        let page = self.shard.read(&command, deadline_ns).await.map_err(errors::read_error)?;
        let bytes = page.bytes.len();
        if bytes > bytes_max {
            return Ok(Reply::PageTooLarge { bytes });
        }
        Ok(Reply::Page(page))
    }

    /// Does what was asked of this shard.
    pub(super) async fn serve(self: &Rc<Self>, request: Request) -> Result<Reply, CqlError> {
        match request {
            Request::Apply { write, deadline_ns } => self.apply_here(write, deadline_ns).await.map(Reply::Applied),
            Request::Resolve { write, deadline_ns } => {
                let resolved = self.shard.resolve(&write, deadline_ns).await.map_err(errors::write_error)?;
                Ok(Reply::Mutations(resolved))
            }
            Request::ReserveTimestamp(at_least) => Ok(Reply::Timestamp(self.shard.reserve_timestamp(at_least))),
            Request::ExpectBatch(expected) => {
                self.shard.expect_batch(expected);
                Ok(Reply::Done)
            }
            Request::Read { command, deadline_ns, bytes_max } => self.read_page(command, deadline_ns, bytes_max).await,
            Request::CompleteBatches => {
                let deadline_ns = self.deadline(self.timeouts.operation);
                self.complete_open_batches(deadline_ns).await?;
                Ok(Reply::Done)
            }
            Request::ReleasePurges(holds) => {
                self.shard.release_purges(&holds);
                Ok(Reply::Done)
            }
            Request::Sync => {
                self.shard.sync().await.map_err(errors::write_error)?;
                Ok(Reply::Done)
            }
            Request::Ddl { text, keyspace } => self.run_ddl(&text, keyspace.as_deref()).await,
            Request::ExpectSchema(ops) => {
                self.shard.expect_schema(&ops);
                Ok(Reply::Done)
            }
            Request::AdoptSchema(ops) => self.adopt_schema(&ops).await,
            Request::Truncate { table, snapshot } => {
                self.shard.truncate(table, snapshot.as_deref()).await.map_err(|error| errors::shard_error(&error))?;
                Ok(Reply::Done)
            }
            Request::TruncateEverywhere(table) => self.truncate_everywhere(table).await,
            Request::Everywhere(operation) => self.operate_everywhere(operation).await,
            Request::Report => Ok(Reply::Report(vec![self.report()])),
            Request::Flush { .. } | Request::Compact { .. } | Request::Snapshot { .. } => {
                self.operate_here(request).await
            }
            Request::Close => {
                self.shard.close().await.map_err(|error| errors::shard_error(&error))?;
                self.close();
                Ok(Reply::Done)
            }
            Request::Connection(_)
            | Request::ConnectionClosed
            | Request::Prepare { .. }
            | Request::SchemaEvent(_)
            | Request::Shutdown => self.pass_above(request),
        }
    }

    /// What belongs to the layer that serves clients.
    fn pass_above(&self, request: Request) -> Result<Reply, CqlError> {
        let above = self.above.borrow().clone();
        let Some(above) = above else {
            return match request {
                // Nobody is connected whom this concerns.
                Request::SchemaEvent(_) | Request::Prepare { .. } | Request::Shutdown => Ok(Reply::Done),
                _ => Err(CqlError::is_bootstrapping("this shard does not serve clients yet")),
            };
        };
        match request {
            Request::Connection(accepted) => above.connection(accepted),
            Request::ConnectionClosed => above.connection_closed(),
            Request::Prepare { text, keyspace } => above.prepare(&text, keyspace.as_deref())?,
            Request::SchemaEvent(change) => above.schema_event(&change),
            _ => above.shutdown(),
        }
        Ok(Reply::Done)
    }

    /// This shard's figures.
    pub(super) fn report(&self) -> ShardReport {
        let above = self.above.borrow();
        let mut counters = self.shard.counters();
        counters.extend(above.iter().flat_map(|above| above.counters()));
        ShardReport {
            shard: self.here().0,
            tables: self.shard.table_reports(),
            counters,
            connections: above.as_ref().map_or(0, |above| above.connections()),
        }
    }
}
