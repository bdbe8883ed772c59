//! Operators' commands over all shards, and TRUNCATE. Snapshots are in `snapshots`.

use std::rc::Rc;

use futures_util::future::join_all;

use crate::base::ids::{ShardId, TableId};
use crate::protocol::CqlError;
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Operation, Reply, Request};
use crate::shard::AutoSnapshot;

impl Router {
    /// Asks every shard the same and gathers the replies, in shard order.
    pub(super) async fn ask_all(
        self: &Rc<Self>,
        request: impl Fn() -> Request,
        deadline_ns: u64,
    ) -> Result<Vec<Reply>, CqlError> {
        let late = || CqlError::server_error("a shard did not answer in time; the operation may still finish");
        self.ask(self.shards(), request, deadline_ns, late).await
    }

    /// Asks these shards the same and gathers the replies, in their order; `late` says what it means that one gave none.
    pub(super) async fn ask(
        self: &Rc<Self>,
        shards: impl IntoIterator<Item = ShardId>,
        request: impl Fn() -> Request,
        deadline_ns: u64,
        late: impl Fn() -> CqlError,
    ) -> Result<Vec<Reply>, CqlError> {
        let asked = shards.into_iter().map(|shard| self.call(shard, request(), deadline_ns));
        join_all(asked).await.into_iter().map(|reply| reply.unwrap_or_else(|| Err(late()))).collect()
    }

    /// TRUNCATE: done when every shard has entered its position.
    pub async fn truncate(self: &Rc<Self>, table: TableId) -> Result<(), CqlError> {
        let deadline_ns = self.deadline(self.timeouts.truncate);
        let request = Request::TruncateEverywhere(table);
        match self.call(ShardId(0), request, deadline_ns).await {
            Some(reply) => reply.map(|_| ()),
            None => Err(CqlError::truncate_error("Truncate timed out - received only 0 responses")),
        }
    }

    /// Shard 0's half: in turn with DDL, so that no shard truncates what another has dropped.
    pub(super) async fn truncate_everywhere(self: &Rc<Self>, table: TableId) -> Result<Reply, CqlError> {
        let _turn = self.ddl_turn.acquire(1).await;
        let deadline_ns = self.deadline(self.timeouts.truncate);
        self.ask_all(|| Request::CompleteBatches, deadline_ns).await?;
        let truncate_error = |error: CqlError| CqlError::truncate_error(error.message());
        let schema = self.schema();
        let snapshot = schema.table_by_id(table).and_then(|table| self.snapshot_due(AutoSnapshot::Truncate, table));
        let _under_way = self.snapshot_first(snapshot.as_slice()).await.map_err(truncate_error)?;
        // Those begun while the snapshot was taken: a crash must not redo a part of one over what is truncated.
        self.ask_all(|| Request::CompleteBatches, deadline_ns).await?;
        let tag = snapshot.map(|due| due.tag);
        let request = || Request::Truncate { table, snapshot: tag.clone() };
        self.ask_all(request, deadline_ns).await.map_err(truncate_error)?;
        Ok(Reply::Done)
    }

    /// Runs an operator's command on every shard.
    pub async fn operate_everywhere(self: &Rc<Self>, operation: Operation) -> Result<Reply, CqlError> {
        let deadline_ns = self.deadline(self.timeouts.operation);
        let replies = match operation {
            Operation::Report => self.ask_all(|| Request::Report, deadline_ns).await?,
            Operation::Flush { keyspace, tables } => {
                let tables = self.chosen(keyspace.as_deref(), &tables)?;
                self.ask_all(|| Request::Flush { tables: tables.clone() }, deadline_ns).await?
            }
            Operation::Compact { keyspace, tables } => {
                let tables = self.chosen(keyspace.as_deref(), &tables)?;
                self.ask_all(|| Request::Compact { tables: tables.clone() }, deadline_ns).await?
            }
            Operation::Snapshot { tag, keyspaces, tables } => {
                let chosen = self.chosen_of_all(&keyspaces, &tables)?;
                self.take_snapshot(&tag, &chosen).await?
            }
            Operation::ClearSnapshot { tag, keyspaces, tables } => {
                self.clear_snapshots(tag, keyspaces, tables).await?;
                Vec::new()
            }
        };
        let mut reports = Vec::new();
        for reply in replies {
            if let Reply::Report(report) = reply {
                reports.extend(report);
            }
        }
        Ok(if reports.is_empty() { Reply::Done } else { Reply::Report(reports) })
    }

    /// The tables of these keyspaces that have one of these names; none of either: all.
    fn chosen_of_all(&self, keyspaces: &[String], tables: &[String]) -> Result<Vec<TableId>, CqlError> {
        let mut chosen = Vec::new();
        for keyspace in keyspaces {
            chosen.extend(self.chosen(Some(keyspace), tables)?.unwrap_or_default());
        }
        if keyspaces.is_empty() {
            let schema = self.schema();
            chosen.extend(schema.keyspaces.values().flat_map(|of| of.tables.values().map(|table| table.id)));
        }
        Ok(chosen)
    }

    /// The tables that a command names; `None`: all.
    fn chosen(&self, keyspace: Option<&str>, tables: &[String]) -> Result<Option<Vec<TableId>>, CqlError> {
        let Some(name) = keyspace else { return Ok(None) };
        let schema = self.schema();
        let unknown = || CqlError::invalid(format!("Keyspace [{name}] does not exist."));
        let keyspace = schema.keyspace(name).ok_or_else(unknown)?;
        if tables.is_empty() {
            return Ok(Some(keyspace.tables.values().map(|table| table.id).collect()));
        }
        let find = |table: &String| {
            let unknown = || CqlError::invalid(format!("Unknown keyspace/cf pair ({name}.{table})"));
            keyspace.tables.get(table).map(|table| table.id).ok_or_else(unknown)
        };
        tables.iter().map(find).collect::<Result<Vec<_>, _>>().map(Some)
    }

    /// This shard's half of a command.
    pub(super) async fn operate_here(&self, request: Request) -> Result<Reply, CqlError> {
        let shard = &self.shard;
        let done = match request {
            Request::Flush { tables } => shard.flush(tables.as_deref()).await,
            Request::Compact { tables } => shard.compact(tables.as_deref()).await,
            Request::Snapshot { tag, tables } => shard.snapshot(&tag, &tables).await,
            _ => return Err(CqlError::server_error("not an operation")),
        };
        done.map(|()| Reply::Done).map_err(|error| errors::shard_error(&error))
    }
}
