//! DDL: from a statement and the schema to the ordered changes that carry it out.
//!
//! Rules and texts are Cassandra 5.0's. Ids and times are fixed within the changes, so that every shard, and every replay
//! of the log, makes the same schema of them.

mod access;
mod alter;
mod column_type;
mod compaction;
mod compression;
mod keyspace;
mod options;
mod properties;
mod refused;
pub mod replication;
mod retry;
mod table;
#[cfg(test)]
pub(crate) mod testing;
mod user_type;

use crate::cql::Parsed;
use crate::cql::ast::Statement;
use crate::plan::Context;
use crate::protocol::{CqlError, SchemaChange};
use crate::schema::{Schema, SchemaOp};

/// What a DDL statement does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DdlPlan {
    /// In order; applied together.
    pub ops: Vec<SchemaOp>,
    /// What the client and all who registered are told; `None`: nothing changes, the answer is VOID.
    pub change: Option<SchemaChange>,
    pub warnings: Vec<String>,
}

impl DdlPlan {
    /// Nothing to do: `IF [NOT] EXISTS` says so, or the statement asks for what is.
    fn nothing() -> DdlPlan {
        DdlPlan::default()
    }

    fn change(ops: Vec<SchemaOp>, change: SchemaChange) -> DdlPlan {
        DdlPlan { ops, change: Some(change), warnings: Vec::new() }
    }
}

/// Plans a statement that changes the schema.
pub fn plan(parsed: &Parsed, schema: &Schema, keyspace: Option<&str>, context: &Context) -> Result<DdlPlan, CqlError> {
    match &parsed.statement {
        Statement::CreateKeyspace(create) => keyspace::create(create, schema),
        Statement::AlterKeyspace(alter) => keyspace::alter(alter, schema),
        Statement::DropKeyspace(drop) => keyspace::drop(drop, schema),
        Statement::CreateTable(create) => table::create(create, schema, keyspace, context),
        Statement::AlterTable(alter) => alter::alter(alter, schema, keyspace, context),
        Statement::DropTable(drop) => table::drop(drop, schema, keyspace),
        Statement::CreateType(create) => user_type::create(create, schema, keyspace),
        Statement::AlterType(alter) => user_type::alter(alter, schema, keyspace),
        Statement::DropType(drop) => user_type::drop(drop, schema, keyspace),
        other => refused::plan(other, keyspace),
    }
}
