//! The receiving end: what a shard does with messages of the mesh, many at once in one task.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;

use futures_util::stream::{FuturesUnordered, Stream};

use crate::base::ids::ShardId;
use crate::protocol::CqlError;
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Answer, Message, Reply, Request, ShardReport};

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
        loop {
            if received.is_empty() {
                self.receive_or_progress(&mut received, &mut in_flight).await;
            }
            for (from, message) in received.drain(..) {
                let (asker, request) = match message {
                    Message::Reply { number, reply } => {
                        self.complete(number, reply);
                        continue;
                    }
                    Message::Request { number, request } => (Asker::Shard { shard: from, number }, request),
                    Message::Outside { request, answer } => (Asker::Outside(answer), request),
                    // A step of a start that is over.
                    Message::Boot(_) => continue,
                };
                in_flight.push(self.clone().answer(asker, request));
            }
        }
    }

    /// Waits until messages have come, driving the requests in flight meanwhile.
    async fn receive_or_progress<F: Future<Output = ()>>(
        &self,
        received: &mut Vec<(ShardId, Message)>,
        in_flight: &mut FuturesUnordered<F>,
    ) {
        let mut receive = std::pin::pin!(self.mesh.recv(received));
        let done = Cell::new(false);
        poll_fn(|context| {
            if receive.as_mut().poll(context).is_ready() {
                done.set(true);
            }
            while let Poll::Ready(Some(())) = Pin::new(&mut *in_flight).poll_next(context) {}
            if done.get() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    async fn answer(self: Rc<Self>, asker: Asker, request: Request) {
        let reply = self.serve(request).await;
        match asker {
            Asker::Shard { shard, number } => self.mesh.send(shard, Message::Reply { number, reply }).await,
            Asker::Outside(answer) => answer(reply),
        }
    }

    /// Does what was asked of this shard.
    pub(super) async fn serve(self: &Rc<Self>, request: Request) -> Result<Reply, CqlError> {
        match request {
            Request::Apply { write, deadline_ns } => self.apply_here(write, deadline_ns).await.map(Reply::Applied),
            Request::ReserveTimestamp(at_least) => Ok(Reply::Timestamp(self.shard.reserve_timestamp(at_least))),
            Request::ExpectBatch(expected) => {
                self.shard.expect_batch(expected);
                Ok(Reply::Done)
            }
            Request::Read { command, deadline_ns } => {
                let page = self.shard.read(&command, deadline_ns).await.map_err(errors::read_error)?;
                Ok(Reply::Page(page))
            }
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
        let connections = self.above.borrow().as_ref().map_or(0, |above| above.connections());
        ShardReport {
            shard: self.here().0,
            tables: self.shard.table_reports(),
            counters: self.shard.counters(),
            connections,
        }
    }
}
