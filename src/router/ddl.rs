//! DDL: one statement at a time on shard 0. What it drops is in a snapshot first, where one is due; every shard can apply
//! and read under the new schema; the schema is durable; every shard plans under it; then the answer, and the event.

use std::rc::Rc;

use crate::base::ids::ShardId;
use crate::plan::{Context, ddl, system_rows};
use crate::protocol::CqlError;
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Reply, Request};
use crate::schema::{Schema, SchemaOp, Table};
use crate::shard::{AutoSnapshot, Write};

/// A wall clock that goes back by less is held instead.
const STEP_BACK_US: i64 = 1_000_000;

impl Router {
    /// Runs a DDL statement, wherever the client is connected.
    pub async fn ddl(self: &Rc<Self>, text: &str, keyspace: Option<&str>) -> Result<Reply, CqlError> {
        let deadline_ns = self.deadline(self.timeouts.operation);
        let request = Request::Ddl { text: text.to_owned(), keyspace: keyspace.map(str::to_owned) };
        match self.call(ShardId(0), request, deadline_ns).await {
            Some(reply) => reply,
            None => Err(CqlError::server_error("the schema change did not finish in time; it may still be made")),
        }
    }

    /// Shard 0's half.
    pub(super) async fn run_ddl(self: &Rc<Self>, text: &str, keyspace: Option<&str>) -> Result<Reply, CqlError> {
        let _turn = self.ddl_turn.acquire(1).await;
        let context = self.context();
        let parsed = crate::cql::parse(text).map_err(|error| CqlError::syntax(error.to_string()))?;
        let before = self.schema();
        let planned = ddl::plan(&parsed, &before, keyspace, &context)?;
        if planned.ops.is_empty() {
            return Ok(Reply::Ddl { change: planned.change, warnings: planned.warnings });
        }
        let deadline_ns = self.deadline(self.timeouts.operation);
        let dropped = dropped_tables(&before, &planned.ops);
        if !dropped.is_empty() {
            self.ask_all(|| Request::CompleteBatches, deadline_ns).await?;
            let due = dropped.iter().filter_map(|table| self.snapshot_due(AutoSnapshot::Drop, table));
            self.snapshot_first(&due.collect::<Vec<_>>()).await?;
        }
        let mut after = (*before).clone();
        planned.ops.iter().for_each(|op| after.apply(op));
        self.ask_all(|| Request::ExpectSchema(planned.ops.clone()), deadline_ns).await?;
        self.store_schema(&before, &after, &planned.ops, &context).await?;
        self.ask_all(|| Request::AdoptSchema(planned.ops.clone()), deadline_ns).await?;
        if let Some(change) = &planned.change {
            self.ask_all(|| Request::SchemaEvent(change.clone()), deadline_ns).await?;
        }
        Ok(Reply::Ddl { change: planned.change, warnings: planned.warnings })
    }

    /// Writes the change to the system tables, with the new schema version, and flushes them.
    async fn store_schema(
        self: &Rc<Self>,
        before: &Schema,
        after: &Schema,
        ops: &[SchemaOp],
        context: &Context,
    ) -> Result<(), CqlError> {
        let stored = system_rows::of_change(before, after, ops, context);
        let tables: Vec<_> = stored.iter().map(|mutation| mutation.table.id).collect();
        let mutations = stored.into_iter().map(|mutation| mutation.bytes).collect();
        let write = Write { mutations, ..Write::default() };
        self.apply_here(write, self.deadline(self.timeouts.operation)).await?;
        self.shard.flush(Some(&tables)).await.map_err(|error| errors::shard_error(&error))
    }

    /// Plans under the changed schema from here on.
    pub(super) async fn adopt_schema(self: &Rc<Self>, ops: &[SchemaOp]) -> Result<Reply, CqlError> {
        let mut schema = (*self.schema()).clone();
        ops.iter().for_each(|op| schema.apply(op));
        let schema = Rc::new(schema);
        *self.schema.borrow_mut() = schema.clone();
        let above = self.above.borrow().clone();
        if let Some(above) = above {
            above.schema_changed(&schema, ops);
        }
        self.shard.adopt_schema(ops).await.map_err(|error| errors::shard_error(&error))?;
        Ok(Reply::Done)
    }

    /// The clock and random bits for one statement.
    pub fn context(&self) -> Context {
        Context { now_us: self.rising_now_us(), random: [self.io.random_u64(), self.io.random_u64()] }
    }

    /// The wall clock, never the same twice on a shard, so that what is appended to a list later stands later. A clock
    /// that was set back is followed.
    fn rising_now_us(&self) -> i64 {
        let (wall_us, last_us) = (self.io.wall_us(), self.last_now_us.get());
        let small_step_back = last_us >= wall_us && last_us - wall_us < STEP_BACK_US;
        let now_us = if small_step_back { last_us + 1 } else { wall_us };
        self.last_now_us.set(now_us);
        now_us
    }
}

/// The tables that these changes of `schema` drop.
fn dropped_tables(schema: &Schema, ops: &[SchemaOp]) -> Vec<Rc<Table>> {
    let mut dropped = Vec::new();
    for op in ops {
        match op {
            SchemaOp::DropTable { id, .. } => dropped.extend(schema.table_by_id(*id).cloned()),
            SchemaOp::DropKeyspace { name } => {
                dropped.extend(schema.keyspace(name).iter().flat_map(|keyspace| keyspace.tables.values().cloned()));
            }
            _ => {}
        }
    }
    dropped
}
