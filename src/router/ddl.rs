//! DDL: one statement at a time on shard 0. What it drops is in a snapshot first, where one is due; every shard can apply
//! and read under the new schema; the schema is durable; every shard plans under it; then the answer, and the event.

use std::rc::Rc;

use crate::base::ids::ShardId;
use crate::plan::{Context, ddl, system_rows};
use crate::protocol::CqlError;
use crate::router::Router;
use crate::router::errors;
use crate::router::message::{Reply, Request};
use crate::schema::{Keyspace, Schema, SchemaOp, Table, stored};
use crate::shard::{AutoSnapshot, NO_DEADLINE, Write};

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
            drop(self.snapshot_first(&due.collect::<Vec<_>>()).await?);
        }
        let mut after = (*before).clone();
        planned.ops.iter().for_each(|op| after.apply(op));
        let expected = self.ask_all(|| Request::ExpectSchema(planned.ops.clone()), deadline_ns).await;
        let stored = match expected {
            Ok(_) => self.store_schema(&before, &after, &planned.ops, &context).await,
            Err(error) => Err(NotStored { error, is_logged: false }),
        };
        if let Err(NotStored { error, is_logged }) = stored {
            self.undo(&before, &after, &planned.ops, is_logged).await;
            return Err(error);
        }
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
    ) -> Result<(), NotStored> {
        let stored = system_rows::of_change(before, after, ops, context);
        let tables: Vec<_> = stored.iter().map(|mutation| mutation.table.id).collect();
        let mutations = stored.into_iter().map(|mutation| mutation.bytes).collect();
        let mut write = Write { mutations, ..Write::default() };
        let not_logged = |error| NotStored { error: errors::write_error(error), is_logged: false };
        let deadline_ns = self.deadline(self.timeouts.operation);
        self.shard.admit(&write, deadline_ns).await.map_err(not_logged)?;
        let applied = self.shard.when_room(deadline_ns, || self.shard.apply(&mut write)).await.map_err(not_logged)?;
        let logged = |error| NotStored { error, is_logged: true };
        self.shard.acknowledged(applied).await.map_err(|error| logged(errors::write_error(error)))?;
        self.shard.flush(Some(&tables)).await.map_err(|error| logged(errors::shard_error(&error)))
    }

    /// Takes back a change that could not be stored: every shard goes on under the schema before it, and where the change
    /// stands in the log, so does its opposite, behind it. Where that cannot be logged the next start would make the
    /// change, and lose what is written until then: the process ends.
    async fn undo(self: &Rc<Self>, before: &Schema, after: &Schema, ops: &[SchemaOp], is_logged: bool) {
        let back = opposite(before, ops);
        if is_logged {
            let rows = system_rows::of_change(after, before, &back, &self.context());
            let mutations = rows.into_iter().map(|mutation| mutation.bytes).collect();
            let mut write = Write { mutations, ..Write::default() };
            let undone = match self.shard.when_room(NO_DEADLINE, || self.shard.apply(&mut write)).await {
                Ok(applied) => self.shard.acknowledged(applied).await,
                Err(error) => Err(error),
            };
            if let Err(error) = undone {
                self.io.fail_stop(&format!("a schema change could neither be stored nor taken back: {error}"));
            }
        }
        let deadline_ns = self.deadline(self.timeouts.operation);
        if let Err(error) = self.ask_all(|| Request::ExpectSchema(back.clone()), deadline_ns).await {
            self.io.fail_stop(&format!("a schema change could not be taken back on every shard: {error}"));
        }
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

/// Why a change is not stored, and whether a restart might find it all the same.
struct NotStored {
    error: CqlError,
    is_logged: bool,
}

/// The changes that lead back to `before` from where `ops` lead.
fn opposite(before: &Schema, ops: &[SchemaOp]) -> Vec<SchemaOp> {
    let put_keyspace = |keyspace: &Keyspace| SchemaOp::PutKeyspace {
        name: keyspace.name.clone(),
        durable_writes: keyspace.durable_writes,
        replication: keyspace.replication.clone(),
    };
    let put_type = |keyspace: &str, name: &str| Some(before.keyspace(keyspace)?.types.get(name)?.clone());
    let put_table = |table: &Rc<Table>| SchemaOp::PutTable(Box::new((**table).clone()));
    let mut back = Vec::new();
    for op in ops.iter().rev() {
        match op {
            SchemaOp::PutKeyspace { name, .. } => back.push(match before.keyspace(name) {
                Some(keyspace) => put_keyspace(keyspace),
                None => SchemaOp::DropKeyspace { name: name.clone() },
            }),
            SchemaOp::DropKeyspace { name } => {
                let Some(keyspace) = before.keyspace(name) else { continue };
                back.push(put_keyspace(keyspace));
                let types = stored::in_dependency_order(keyspace.types.values().cloned().collect());
                back.extend(types.into_iter().map(SchemaOp::PutType));
                back.extend(keyspace.tables.values().map(put_table));
            }
            SchemaOp::PutType(udt) => back.push(match put_type(&udt.keyspace, &udt.name) {
                Some(old) => SchemaOp::PutType(old),
                None => SchemaOp::DropType { keyspace: udt.keyspace.clone(), name: udt.name.clone() },
            }),
            SchemaOp::DropType { keyspace, name } => back.extend(put_type(keyspace, name).map(SchemaOp::PutType)),
            SchemaOp::PutTable(table) => back.push(match before.table_by_id(table.id) {
                Some(old) => put_table(old),
                None => {
                    SchemaOp::DropTable { keyspace: table.keyspace.clone(), name: table.name.clone(), id: table.id }
                }
            }),
            SchemaOp::DropTable { id, .. } => back.extend(before.table_by_id(*id).map(put_table)),
        }
    }
    back
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
