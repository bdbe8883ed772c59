//! BATCH, written in CQL and as a protocol message: what may stand in one, its timestamp, and its size.

use std::rc::Rc;

use crate::cql::ast::{self, BatchKind};
use crate::plan::prepared::{Kind, Prepared};
use crate::plan::term::{Binding, Scope, Term, Uses, invalid};
use crate::plan::{ColumnSpec, Plan, RequestOptions, WritePlan};
use crate::protocol::{self, Consistency, CqlError, Value};
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
        let mut scope = Scope::new(around.schema, keyspace, None, &mut *around.markers);
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
        let uses = Uses::default();
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
        if self.table.is_counter {
            check_counter_level(&self.table, options.consistency)?;
        }
        plan(BatchKind::Unlogged, &[Part { write: self, values }], options.timestamp, options)
    }
}

/// Which consistency levels a counter may be written at; in a batch Cassandra does not ask.
fn check_counter_level(table: &Table, level: Consistency) -> Result<(), CqlError> {
    if level == Consistency::Any {
        let name = &table.name;
        return Err(invalid(format!("Consistency level ANY is not yet supported for counter table {name}")));
    }
    if level.is_serial() {
        return Err(invalid("Counter operations are inherently non-serializable"));
    }
    Ok(())
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
    if has_timestamp && counters > 0 {
        return Err(invalid("Cannot provide custom timestamp for a BATCH containing counters"));
    }
    if has_timestamp && writes.iter().any(|write| write.using.timestamp.is_some()) {
        return Err(invalid("Timestamp must be set either on BATCH or individual statements"));
    }
    if kind == BatchKind::Counter && counters < writes.len() {
        return Err(invalid("Cannot include non-counter statement in a counter batch"));
    }
    if counters > 0 && counters < writes.len() {
        return Err(invalid("Counter and non-counter mutations cannot exist in the same batch"));
    }
    if kind == BatchKind::Logged && counters > 0 {
        return Err(invalid("Cannot include a counter statement in a logged batch"));
    }
    if is_conditional && writes.windows(2).any(|pair| pair[0].table.id != pair[1].table.id) {
        return Err(invalid("Batch with conditions cannot span multiple tables"));
    }
    Ok(())
}

/// The latest timestamp that a client's counter write has, whatever it gives: so many additions may follow it.
pub const COUNTER_TIMESTAMP_MAX: i64 = i64::MAX / 2;

fn plan(
    kind: BatchKind,
    parts: &[Part<'_>],
    timestamp: Option<i64>,
    options: &RequestOptions<'_>,
) -> Result<Plan, CqlError> {
    let is_counter = parts.iter().any(|part| part.write.table.is_counter);
    if options.consistency.is_serial() && !is_counter && parts.iter().all(|part| !part.write.is_conditional()) {
        return Err(invalid("You must use conditional updates for serializable writes"));
    }
    let mutations = mutations(parts, options)?;
    if mutations.is_empty() {
        return Ok(Plan::Void);
    }
    let logged_batch = kind == BatchKind::Logged && mutations.len() > 1;
    // Every total must have a later timestamp than the one that it takes the place of.
    let timestamp = timestamp.map(|given| if is_counter { given.min(COUNTER_TIMESTAMP_MAX) } else { given });
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::testing;
    use crate::plan::write::testing::{check, check_refused, print, write};

    fn schema() -> Schema {
        testing::schema(&[
            "CREATE TABLE t (k int, c int, v int, PRIMARY KEY (k, c))",
            "CREATE TABLE u (k int PRIMARY KEY, v int)",
            "CREATE TABLE n (k int PRIMARY KEY, n counter)",
        ])
    }

    /// Additions are not lost that follow one with the greatest timestamp there is.
    #[test]
    fn a_counter_write_leaves_room_for_later_ones() {
        let schema = testing::schema(&[
            "CREATE TABLE n (k int PRIMARY KEY, n counter)",
            "CREATE TABLE u (k int PRIMARY KEY, v int)",
        ]);
        for (cql, given, expected) in [
            ("UPDATE n SET n = n + 1 WHERE k = 1", i64::MAX, COUNTER_TIMESTAMP_MAX),
            ("BEGIN COUNTER BATCH UPDATE n SET n = n + 1 WHERE k = 1; APPLY BATCH", i64::MAX, COUNTER_TIMESTAMP_MAX),
            ("UPDATE n SET n = n + 1 WHERE k = 1", 7, 7),
            ("UPDATE u SET v = 1 WHERE k = 1", i64::MAX, i64::MAX),
        ] {
            let options = RequestOptions { timestamp: Some(given), ..testing::options() };
            let plan = crate::plan::write::testing::plan_with(&schema, cql, &[], &options);
            let Ok(Plan::Write(write)) = plan else { panic!("{cql}") };
            assert_eq!(write.timestamp, Some(expected), "{cql}");
        }
    }

    #[test]
    fn statements_on_one_partition_share_a_mutation() {
        check(
            &schema(),
            "BEGIN BATCH INSERT INTO t (k, c) VALUES (1, 1); UPDATE u SET v = 2 WHERE k = 1; \
             DELETE FROM t WHERE k = 1 AND c = 2; INSERT INTO t (k, c) VALUES (2, 1); APPLY BATCH",
            &["t 1: row(1) live row(2) -row", "u 1: row() v=2", "t 2: row(1) live"],
        );
        assert!(matches!(
            crate::plan::write::testing::plan_with(&schema(), "BEGIN BATCH APPLY BATCH", &[], &testing::options()),
            Ok(Plan::Void)
        ));
    }

    #[test]
    fn a_batch_is_logged_where_it_has_several_mutations() {
        let two = "INSERT INTO u (k) VALUES (1); INSERT INTO u (k) VALUES (2);";
        let one = "INSERT INTO u (k) VALUES (1); UPDATE u SET v = 1 WHERE k = 1;";
        for (begin, body, expected) in [("BATCH", two, true), ("BATCH", one, false), ("UNLOGGED BATCH", two, false)] {
            let plan = write(&schema(), &format!("BEGIN {begin} {body} APPLY BATCH"), &[]).unwrap();
            assert_eq!(plan.logged_batch, expected, "{begin} {body}");
        }
    }

    #[test]
    fn a_batch_has_one_timestamp_or_each_statement_its_own() {
        let cql = "BEGIN BATCH USING TIMESTAMP 5 INSERT INTO u (k) VALUES (1); APPLY BATCH";
        assert_eq!(write(&schema(), cql, &[]).unwrap().timestamp, Some(5));
        check(
            &schema(),
            "BEGIN BATCH INSERT INTO u (k) VALUES (1) USING TIMESTAMP 7; UPDATE u SET v = 1 WHERE k = 1; APPLY BATCH",
            &["u 1: row() live@7 row() v=1"],
        );
    }

    #[test]
    fn what_may_not_stand_together() {
        let (insert, count) = ("INSERT INTO u (k) VALUES (1);", "UPDATE n SET n = n + 1 WHERE k = 1;");
        let timed = "INSERT INTO u (k) VALUES (1) USING TIMESTAMP 7;";
        for (begin, body, expected) in [
            ("BATCH USING TTL 5", insert, "Global TTL on the BATCH statement is not supported."),
            ("BATCH USING TIMESTAMP 5", timed, "Timestamp must be set either on BATCH or individual statements"),
            ("BATCH", count, "Cannot include a counter statement in a logged batch"),
            ("COUNTER BATCH", insert, "Cannot include non-counter statement in a counter batch"),
            ("COUNTER BATCH USING TIMESTAMP 5", count, "Cannot provide custom timestamp for counter BATCH"),
            (
                "UNLOGGED BATCH USING TIMESTAMP 5",
                count,
                "Cannot provide custom timestamp for a BATCH containing counters",
            ),
        ] {
            check_refused(&schema(), &format!("BEGIN {begin} {body} APPLY BATCH"), expected);
        }
        let both = format!("BEGIN BATCH {count} {insert} APPLY BATCH");
        check_refused(&schema(), &both, "Counter and non-counter mutations cannot exist in the same batch");
        let conditional = "BEGIN BATCH INSERT INTO u (k) VALUES (1) IF NOT EXISTS; \
                           INSERT INTO t (k, c) VALUES (1, 1); APPLY BATCH";
        check_refused(&schema(), conditional, "Batch with conditions cannot span multiple tables");
    }

    #[test]
    fn counters_stand_in_counter_batches_and_unlogged_ones() {
        let (schema, count) = (schema(), "UPDATE n SET n = n + 1 WHERE k = 1;");
        for begin in ["COUNTER BATCH", "UNLOGGED BATCH"] {
            let cql = format!("BEGIN {begin} {count} UPDATE n SET n = n - 5 WHERE k = 2; {count} APPLY BATCH");
            check(&schema, &cql, &["?n 1: row() n+=1 row() n+=1", "?n 2: row() n+=-5"]);
            assert!(!write(&schema, &cql, &[]).unwrap().logged_batch);
        }
        assert_eq!(message(protocol::BatchKind::Counter, &[(count, &[])]), Ok(vec!["?n 1: row() n+=1".to_owned()]));
    }

    #[test]
    fn counters_are_not_written_at_every_level() {
        let plan = |cql: &str, consistency| {
            let options = RequestOptions { consistency, ..testing::options() };
            crate::plan::write::testing::plan_with(&schema(), cql, &[], &options).map(|_| ())
        };
        let (count, batch) = (
            "UPDATE n SET n = n + 1 WHERE k = 1",
            "BEGIN COUNTER BATCH UPDATE n SET n = n + 1 WHERE k = 1 APPLY BATCH",
        );
        let any = "Consistency level ANY is not yet supported for counter table n";
        for (level, error) in
            [(Consistency::Any, any), (Consistency::Serial, "Counter operations are inherently non-serializable")]
        {
            assert_eq!(plan(count, level), Err(error.to_owned()));
            assert_eq!(plan(batch, level), Ok(()));
        }
    }

    fn message(kind: protocol::BatchKind, parts: &[(&str, &[Value<'_>])]) -> Result<Vec<String>, String> {
        let schema = schema();
        let prepared: Vec<Prepared> = parts
            .iter()
            .map(|(cql, _)| crate::plan::prepare(&crate::cql::parse(cql).unwrap(), &schema, Some("ks")).unwrap())
            .collect();
        let parts: Vec<(&Prepared, &[Value<'_>])> =
            prepared.iter().zip(parts).map(|(prepared, (_, values))| (prepared, *values)).collect();
        match bind_batch(kind, &parts, &testing::options(), &schema) {
            Ok(Plan::Write(plan)) => Ok(plan.mutations.into_iter().map(print).collect()),
            Ok(other) => Err(format!("{other:?}")),
            Err(error) => Err(error.message().to_owned()),
        }
    }

    #[test]
    fn a_batch_message_binds_each_statement_with_its_own_values() {
        let (one, two) = (1i32.to_be_bytes(), 2i32.to_be_bytes());
        let insert = "INSERT INTO t (k, c) VALUES (?, ?)";
        let kind = protocol::BatchKind::Unlogged;
        let first = [Value::Bytes(&one), Value::Bytes(&one)];
        let second = [Value::Bytes(&one), Value::Bytes(&two)];
        assert_eq!(
            message(kind, &[(insert, &first), (insert, &second)]),
            Ok(vec!["t 1: row(1) live row(2) live".to_owned()])
        );
        let wrong = message(kind, &[(insert, &first[..1])]).unwrap_err();
        assert_eq!(wrong, "There were 2 markers(?) in CQL but 1 bound variables");
        let select = message(kind, &[("SELECT * FROM t", &[])]).unwrap_err();
        assert_eq!(select, "Invalid statement in batch: only UPDATE, INSERT and DELETE statements are allowed.");
    }

    #[test]
    fn large_batches_are_told_and_larger_ones_refused() {
        let cql = "BEGIN UNLOGGED BATCH INSERT INTO u (k) VALUES (1); INSERT INTO u (k) VALUES (2); APPLY BATCH";
        let mut plan = write(&schema(), cql, &[]).unwrap();
        let bytes: usize = plan.mutations.iter().map(|mutation| mutation.bytes.len()).sum();
        BatchLimits::default().check(&mut plan).unwrap();
        assert_eq!(plan.warnings, [""; 0]);
        let limits = BatchLimits { warn_bytes: bytes - 1, fail_bytes: bytes, unlogged_partitions_warn: 1 };
        limits.check(&mut plan).unwrap();
        assert_eq!(
            plan.warnings,
            [
                format!(
                    "Batch for [ks.u] is of size {bytes}, exceeding specified threshold of {} by 1.",
                    bytes - 1
                ),
                "Unlogged batch covering 2 partitions detected against table [ks.u]. You should use a logged batch for \
                 atomicity, or asynchronous writes for performance."
                    .to_owned(),
            ]
        );
        let limits = BatchLimits { fail_bytes: bytes - 1, ..limits };
        assert_eq!(limits.check(&mut plan).unwrap_err().message(), "Batch too large");
    }
}
