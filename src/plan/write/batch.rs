//! BATCH, written in CQL and as a protocol message: what may stand in one, its timestamp, and its size.

use std::rc::Rc;

use crate::cql::ast::{self, BatchKind};
use crate::plan::prepared::{Kind, Prepared};
use crate::plan::term::{Binding, Scope, Term, invalid};
use crate::plan::{ColumnSpec, Plan, RequestOptions, WritePlan};
use crate::protocol::{self, CqlError, Value};
use crate::schema::{Schema, Table};
use crate::types::CqlType;

use super::encode::{Part, mutations};
use super::{PreparedWrite, Surroundings, timing};

/// A BEGIN BATCH ready for binding.
#[derive(Clone, Debug)]
pub struct PreparedBatch {
    kind: BatchKind,
    timestamp: Option<Term>,
    writes: Vec<PreparedWrite>,
}

impl PreparedBatch {
    pub(in crate::plan) fn prepare(
        batch: &ast::Batch,
        around: &mut Surroundings<'_>,
    ) -> Result<PreparedBatch, CqlError> {
        if batch.using.ttl.is_some() {
            return Err(invalid("Global TTL on the BATCH statement is not supported."));
        }
        let spec = ColumnSpec {
            keyspace: "[batch]".to_owned(),
            table: "[batch]".to_owned(),
            name: "[timestamp]".to_owned(),
            ty: CqlType::BigInt,
        };
        let keyspace = around.keyspace.unwrap_or_default();
        let mut scope = Scope { schema: around.schema, keyspace, table: None, markers: &mut *around.markers };
        let timestamp =
            batch.using.timestamp.as_ref().map(|term| Term::prepare(term, &spec, &mut scope)).transpose()?;
        let writes = batch
            .statements
            .iter()
            .map(|statement| PreparedWrite::prepare(statement, around))
            .collect::<Result<Vec<_>, _>>()?;
        check(batch.kind, &writes.iter().collect::<Vec<_>>(), timestamp.is_some())?;
        Ok(PreparedBatch { kind: batch.kind, timestamp, writes })
    }

    /// The table of all its statements; none where they have several, or there are none.
    pub(in crate::plan) fn only_table(&self) -> Option<&Rc<Table>> {
        let first = self.writes.first()?.table();
        self.writes.iter().all(|write| write.table.id == first.id).then_some(first)
    }

    pub(in crate::plan) fn bind(&self, values: &[Value<'_>], options: &RequestOptions<'_>) -> Result<Plan, CqlError> {
        let uses = std::cell::Cell::new(0);
        let binding = Binding::new(values, options.context, &uses);
        let timestamp = self.timestamp.as_ref().map(|term| timing::timestamp(term, &binding)).transpose()?.flatten();
        let parts: Vec<Part<'_>> = self.writes.iter().map(|write| Part { write, values }).collect();
        plan(self.kind, &parts, timestamp.or(options.timestamp), options)
    }
}

/// A BATCH message: each statement with its values, in marker order.
pub fn bind_batch(
    kind: protocol::BatchKind,
    parts: &[(&Prepared, &[Value<'_>])],
    options: &RequestOptions<'_>,
    _schema: &Schema,
) -> Result<Plan, CqlError> {
    let kind = match kind {
        protocol::BatchKind::Logged => BatchKind::Logged,
        protocol::BatchKind::Unlogged => BatchKind::Unlogged,
        protocol::BatchKind::Counter => BatchKind::Counter,
    };
    let mut writes = Vec::with_capacity(parts.len());
    for (prepared, values) in parts {
        let Kind::Write(write) = &prepared.statement else {
            return Err(invalid("Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed."));
        };
        let (wanted, given) = (prepared.variables.len(), values.len());
        if wanted != given {
            return Err(invalid(format!("There were {wanted} markers(?) in CQL but {given} bound variables")));
        }
        writes.push(Part { write, values });
    }
    check(kind, &writes.iter().map(|part| part.write).collect::<Vec<_>>(), false)?;
    plan(kind, &writes, options.timestamp, options)
}

impl PreparedWrite {
    /// A modification that stands alone.
    pub(in crate::plan) fn bind(&self, values: &[Value<'_>], options: &RequestOptions<'_>) -> Result<Plan, CqlError> {
        plan(BatchKind::Unlogged, &[Part { write: self, values }], options.timestamp, options)
    }
}

/// What may stand together in a batch.
fn check(kind: BatchKind, writes: &[&PreparedWrite], has_timestamp: bool) -> Result<(), CqlError> {
    let counters = writes.iter().filter(|write| write.table.is_counter).count();
    let is_conditional = writes.iter().any(|write| write.is_conditional());
    if has_timestamp && is_conditional {
        return Err(invalid("Cannot provide custom timestamp for conditional BATCH"));
    }
    if has_timestamp && kind == BatchKind::Counter {
        return Err(invalid("Cannot provide custom timestamp for counter BATCH"));
    }
    if has_timestamp && writes.iter().any(|write| write.using.timestamp.is_some()) {
        return Err(invalid("Timestamp must be set either on BATCH or individual statements"));
    }
    if counters > 0 && counters < writes.len() {
        return Err(invalid("Counter and non-counter mutations cannot exist in the same batch"));
    }
    if kind == BatchKind::Logged && counters > 0 {
        return Err(invalid("Cannot include a counter statement in a logged batch"));
    }
    if kind == BatchKind::Counter && counters < writes.len() {
        return Err(invalid("Cannot include non-counter statement in a counter batch"));
    }
    if is_conditional && writes.windows(2).any(|pair| pair[0].table.id != pair[1].table.id) {
        return Err(invalid("Batch with conditions cannot span multiple tables"));
    }
    Ok(())
}

fn plan(
    kind: BatchKind,
    parts: &[Part<'_>],
    timestamp: Option<i64>,
    options: &RequestOptions<'_>,
) -> Result<Plan, CqlError> {
    if options.consistency.is_serial() && parts.iter().all(|part| !part.write.is_conditional()) {
        return Err(invalid("You must use conditional updates for serializable writes"));
    }
    let mutations = mutations(parts, options)?;
    if mutations.is_empty() {
        return Ok(Plan::Void);
    }
    let logged_batch = kind == BatchKind::Logged && mutations.len() > 1;
    Ok(Plan::Write(WritePlan { mutations, logged_batch, timestamp, warnings: Vec::new() }))
}

/// How large batches may be: Cassandra's `batch_size_warn_threshold`, `batch_size_fail_threshold` and
/// `unlogged_batch_across_partitions_warn_threshold`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    pub warn_bytes: usize,
    pub fail_bytes: usize,
    pub unlogged_partitions_warn: usize,
}

impl Default for BatchLimits {
    fn default() -> BatchLimits {
        BatchLimits { warn_bytes: 5 * 1024, fail_bytes: 50 * 1024, unlogged_partitions_warn: 10 }
    }
}

impl BatchLimits {
    /// Refuses a batch that is too large, and adds warnings to one that is large. One of a single mutation may have
    /// any size, as in Cassandra.
    pub fn check(&self, plan: &mut WritePlan) -> Result<(), CqlError> {
        if plan.mutations.len() < 2 {
            return Ok(());
        }
        let bytes: usize = plan.mutations.iter().map(|mutation| mutation.bytes.len()).sum();
        let mut tables: Vec<String> =
            plan.mutations.iter().map(|m| format!("{}.{}", m.table.keyspace, m.table.name)).collect();
        tables.sort();
        tables.dedup();
        let tables = tables.join(", ");
        if bytes > self.fail_bytes {
            return Err(invalid("Batch too large"));
        }
        if bytes > self.warn_bytes {
            let (limit, over) = (self.warn_bytes, bytes - self.warn_bytes);
            plan.warnings.push(format!(
                "Batch for [{tables}] is of size {bytes}, exceeding specified threshold of {limit} by {over}."
            ));
        }
        let partitions = plan.mutations.len();
        if !plan.logged_batch && partitions > self.unlogged_partitions_warn {
            let tables_word = if tables.contains(", ") { "tables" } else { "table" };
            plan.warnings.push(format!(
                "Unlogged batch covering {partitions} partitions detected against {tables_word} [{tables}]. You should \
                 use a logged batch for atomicity, or asynchronous writes for performance."
            ));
        }
        Ok(())
    }
}
