//! Prepared statements of one shard, by id: MD5 of keyspace and text, whatever the schema version or the restart.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use crate::base::collections::{HashMap, hasher};
use crate::cql;
use crate::plan::{self, ColumnSpec, Prepared};
use crate::protocol::{CqlError, ResultMetadata, statement_id};
use crate::schema::{Schema, SchemaOp, Table};

/// An id as EXECUTE sends it.
pub type StatementId = [u8; 16];

/// A statement with what its answers need, made once.
pub struct Statement {
    /// The text of a schema change, which is planned where it is made.
    pub ddl_text: Option<String>,
    /// The keyspace current at PREPARE: it stays, whatever USE follows.
    pub keyspace: Option<String>,
    pub prepared: Prepared,
    pub variables: ResultMetadata,
    pub columns: ResultMetadata,
}

impl Statement {
    /// Parses and plans a text. A QUERY needs no id: it would cost more than all else of a long text.
    pub fn new(schema: &Schema, text: &str, keyspace: Option<&str>) -> Result<Rc<Statement>, CqlError> {
        let parsed = cql::parse(text).map_err(|error| CqlError::syntax(error.to_string()))?;
        let prepared = plan::prepare(&parsed, schema, keyspace)?;
        Ok(Rc::new(Statement {
            ddl_text: prepared.is_ddl().then(|| text.to_owned()),
            keyspace: keyspace.map(str::to_owned),
            variables: metadata(&prepared.variables),
            columns: metadata(&prepared.columns),
            prepared,
        }))
    }

    fn is_of(&self, table: &Table) -> bool {
        self.prepared.table.as_ref().is_some_and(|of| of.id == table.id)
    }
}

fn metadata(columns: &[ColumnSpec]) -> ResultMetadata {
    ResultMetadata::new(columns.to_vec())
}

/// The statements that EXECUTE can name.
pub struct Statements {
    by_id: RefCell<HashMap<StatementId, Rc<Statement>>>,
    /// Ids in the order of their PREPARE.
    order: RefCell<VecDeque<StatementId>>,
    count_max: usize,
}

impl Statements {
    pub fn new(count_max: usize) -> Self {
        Statements { by_id: RefCell::new(HashMap::with_hasher(hasher())), order: RefCell::default(), count_max }
    }

    pub fn get(&self, id: &[u8]) -> Result<Rc<Statement>, CqlError> {
        let known = <&StatementId>::try_from(id).ok().and_then(|id| self.by_id.borrow().get(id).cloned());
        known.ok_or_else(|| CqlError::unprepared(id))
    }

    /// Prepares a text here, or finds it prepared.
    pub fn prepare(
        &self,
        schema: &Schema,
        text: &str,
        keyspace: Option<&str>,
    ) -> Result<(StatementId, Rc<Statement>), CqlError> {
        let known = |id: &StatementId| self.by_id.borrow().get(id).cloned();
        let id = statement_id(keyspace, text);
        if let Some(statement) = known(&id) {
            return Ok((id, statement));
        }
        // Hashed after that look-up: of a long text it costs more than all else.
        let id_of_text = statement_id(None, text);
        if let Some(statement) = known(&id_of_text).filter(|known| known.prepared.names_keyspaces) {
            return Ok((id_of_text, statement));
        }
        let statement = Statement::new(schema, text, keyspace)?;
        let id = if statement.prepared.names_keyspaces { id_of_text } else { id };
        self.keep(id, statement.clone());
        Ok((id, statement))
    }

    fn keep(&self, id: StatementId, statement: Rc<Statement>) {
        let mut by_id = self.by_id.borrow_mut();
        let mut order = self.order.borrow_mut();
        if by_id.insert(id, statement).is_none() {
            order.push_back(id);
        }
        while by_id.len() > self.count_max {
            let Some(oldest) = order.pop_front() else { break };
            by_id.remove(&oldest);
        }
    }

    /// Forgets the statements of tables whose columns have changed or that are gone, under whatever version.
    pub fn schema_changed(&self, schema: &Schema, ops: &[SchemaOp]) {
        let stale = |statement: &Statement| ops.iter().any(|op| is_stale(statement, schema, op));
        let mut by_id = self.by_id.borrow_mut();
        by_id.retain(|_, statement| !stale(statement));
        self.order.borrow_mut().retain(|id| by_id.contains_key(id));
    }
}

/// Whether statements on a table mean something else once it is altered, as Cassandra has it
/// (`TableMetadata.changeAffectsPreparedStatements`).
fn is_planned_anew(of: &Table, now: &Table) -> bool {
    of.columns != now.columns
        || of.options.default_time_to_live_s != now.options.default_time_to_live_s
        || of.options.gc_grace_seconds != now.options.gc_grace_seconds
}

fn is_stale(statement: &Statement, schema: &Schema, op: &SchemaOp) -> bool {
    let Some(of) = &statement.prepared.table else {
        // A batch of several tables goes with any of them.
        return statement.prepared.is_batch();
    };
    match op {
        SchemaOp::PutTable(table) => statement.is_of(table) && is_planned_anew(of, table),
        SchemaOp::DropTable { id, .. } => of.id == *id,
        SchemaOp::DropKeyspace { name } => of.keyspace == *name,
        SchemaOp::PutType(udt) => {
            let now = schema.table_by_id(of.id);
            of.keyspace == udt.keyspace && now.is_none_or(|now| now.columns != of.columns)
        }
        SchemaOp::PutKeyspace { .. } | SchemaOp::DropType { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]
    use super::*;
    use crate::plan::testing;

    /// As Cassandra has it: what an INSERT writes hangs on the TTL, what is purged on the grace; a comment on nothing.
    #[test]
    fn statements_go_with_what_they_hang_on() {
        let schema = testing::schema(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]);
        let table = schema.table("ks", "t").unwrap();
        let comment: fn(&mut Table) = |table| table.options.comment = "x".to_owned();
        let ttl: fn(&mut Table) = |table| table.options.default_time_to_live_s = 60;
        let grace: fn(&mut Table) = |table| table.options.gc_grace_seconds = 60;
        for (at, (alter, stays)) in [(comment, true), (ttl, false), (grace, false)].into_iter().enumerate() {
            let statements = Statements::new(10);
            let (id, _) = statements.prepare(&schema, "INSERT INTO t (k, v) VALUES (?, ?)", Some("ks")).unwrap();
            let mut altered = (**table).clone();
            alter(&mut altered);
            statements.schema_changed(&schema, &[SchemaOp::PutTable(Box::new(altered))]);
            assert_eq!(statements.get(&id).is_ok(), stays, "{at}");
        }
    }
}
