//! INSERT, UPDATE, DELETE and BATCH: from a statement to encoded mutations, one for each table and partition.
//!
//! `prepare` checks all that does not depend on values; `bind` finds the partitions and encodes. What must read
//! before it writes (IF, counters, list elements by index) is prepared, so that clients learn its variables, and
//! refused when it is bound.

mod batch;
mod conditions;
mod encode;
mod json;
mod operation;
mod restrictions;
mod rows;
mod timing;

use std::fmt;
use std::rc::Rc;

use crate::cql::ast;
use crate::plan::markers::Markers;
use crate::plan::term::{Scope, Term, invalid};
use crate::plan::{ColumnSpec, names};
use crate::protocol::CqlError;
use crate::schema::{Column, ColumnKind, Schema, Table};

pub use batch::{BatchLimits, PreparedBatch, bind_batch};
pub use rows::COMBINATIONS_MAX;
pub use timing::{EXPIRES_S_MAX, TTL_S_MAX};

use conditions::Conditions;
use json::JsonInsert;
use operation::Operation;
use restrictions::Where;
use timing::Using;

/// The kinds of modification, by the names that errors have for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Insert,
    Update,
    Delete,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verb::Insert => "INSERT",
            Verb::Update => "UPDATE",
            Verb::Delete => "DELETE",
        })
    }
}

/// A modification ready for binding.
#[derive(Clone, Debug)]
pub struct PreparedWrite {
    table: Rc<Table>,
    verb: Verb,
    which: Where,
    operations: Vec<Operation>,
    using: Using,
    conditions: Conditions,
    /// INSERT JSON: the text gives the values of the columns, which stand as markers in the rest.
    json: Option<JsonInsert>,
}

/// Where a modification is prepared: the schema, the current keyspace, the markers of the whole statement.
pub(super) struct Surroundings<'s> {
    pub schema: &'s Schema,
    pub keyspace: Option<&'s str>,
    pub markers: &'s mut Markers,
}

impl PreparedWrite {
    /// Makes a modification ready.
    pub(super) fn prepare(
        statement: &ast::Modification,
        around: &mut Surroundings<'_>,
    ) -> Result<PreparedWrite, CqlError> {
        let table = names::table(around.schema, statement.table(), around.keyspace)?.clone();
        names::check_writable(&table)?;
        let mut scope = Scope {
            schema: around.schema,
            keyspace: &table.keyspace,
            table: Some(&table),
            markers: &mut *around.markers,
        };
        let write = match statement {
            ast::Modification::Insert(insert) => prepare_insert(&table, insert, &mut scope),
            ast::Modification::InsertJson(insert) => json::prepare(&table, insert, &mut scope),
            ast::Modification::Update(update) => prepare_update(&table, update, &mut scope),
            ast::Modification::Delete(delete) => prepare_delete(&table, delete, &mut scope),
        }?;
        write.check()?;
        Ok(write)
    }

    pub fn table(&self) -> &Rc<Table> {
        &self.table
    }

    fn is_conditional(&self) -> bool {
        !self.conditions.is_none()
    }

    /// The rules between the clauses.
    fn check(&self) -> Result<(), CqlError> {
        let (timestamp, ttl) = (self.using.timestamp.is_some(), self.using.ttl.is_some());
        if self.is_conditional() && self.table.is_counter {
            return Err(invalid("Conditional updates are not supported on counter tables"));
        }
        if self.is_conditional() && timestamp {
            return Err(invalid("Cannot provide custom timestamp for conditional updates"));
        }
        if self.table.is_counter && timestamp {
            return Err(invalid("Cannot provide custom timestamp for counter updates"));
        }
        if self.table.is_counter && ttl {
            return Err(invalid("Cannot provide custom TTL for counter updates"));
        }
        Ok(())
    }
}

fn only_static(operations: &[Operation], conditions: &Conditions) -> bool {
    let no_regular = operations.iter().all(|operation| operation.is_static) && !conditions.has_regular();
    no_regular && (!operations.is_empty() || conditions.has_static())
}

fn prepare_insert(table: &Rc<Table>, insert: &ast::Insert, scope: &mut Scope<'_>) -> Result<PreparedWrite, CqlError> {
    let using = Using::prepare(&insert.using, table, scope)?;
    if table.is_counter {
        return Err(invalid("INSERT statements are not allowed on counter tables, use UPDATE instead"));
    }
    if insert.columns.is_empty() {
        return Err(invalid("No columns provided to INSERT"));
    }
    if insert.columns.len() != insert.values.len() {
        return Err(invalid("Unmatched column names/values"));
    }
    if (1..insert.columns.len()).any(|at| insert.columns[..at].contains(&insert.columns[at])) {
        return Err(invalid("The column names contains duplicates"));
    }
    let mut keys = Vec::new();
    let mut operations = Vec::new();
    for (name, value) in insert.columns.iter().zip(&insert.values) {
        let column = names::column(table, name)?;
        match column.kind {
            ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. } => keys.push((column, value)),
            ColumnKind::Static | ColumnKind::Regular => {
                operations.push(Operation::set(table, column, value, scope)?);
            }
        }
    }
    let mut terms = Vec::with_capacity(keys.len());
    for (column, value) in keys {
        terms.push((column, Term::prepare(value, &ColumnSpec::of_column(table, column), scope)?));
    }
    insert_of_terms(table, terms, operations, using, Conditions::if_not_exists(insert.if_not_exists))
}

/// An INSERT of these values into the key columns, and of these operations on others.
fn insert_of_terms(
    table: &Rc<Table>,
    keys: Vec<(&Column, Term)>,
    operations: Vec<Operation>,
    using: Using,
    conditions: Conditions,
) -> Result<PreparedWrite, CqlError> {
    let has_clustering = keys.iter().any(|(column, _)| matches!(column.kind, ColumnKind::Clustering { .. }));
    let only_static = !has_clustering && only_static(&operations, &conditions);
    let which = Where::of_insert(table, keys, only_static)?;
    Ok(PreparedWrite { table: table.clone(), verb: Verb::Insert, which, operations, using, conditions, json: None })
}

fn prepare_update(table: &Rc<Table>, update: &ast::Update, scope: &mut Scope<'_>) -> Result<PreparedWrite, CqlError> {
    let using = Using::prepare(&update.using, table, scope)?;
    let conditions = Conditions::prepare(table, &update.condition, scope)?;
    let mut operations = Vec::with_capacity(update.assignments.len());
    for assignment in &update.assignments {
        let column = names::column(table, &assignment.column)?;
        if matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. }) {
            return Err(invalid(format!("PRIMARY KEY part {} found in SET part", column.name)));
        }
        operations.push(Operation::update(table, column, assignment, !conditions.is_none(), scope)?);
    }
    let only_static = only_static(&operations, &conditions);
    let which = Where::prepare(table, Verb::Update, &update.relations, only_static, scope)?;
    Ok(PreparedWrite { table: table.clone(), verb: Verb::Update, which, operations, using, conditions, json: None })
}

fn prepare_delete(table: &Rc<Table>, delete: &ast::Delete, scope: &mut Scope<'_>) -> Result<PreparedWrite, CqlError> {
    let using = Using::prepare(&delete.using, table, scope)?;
    let conditions = Conditions::prepare(table, &delete.condition, scope)?;
    let mut operations = Vec::with_capacity(delete.deletions.len());
    for deletion in &delete.deletions {
        let column = names::column(table, &deletion.column)?;
        if matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. }) {
            let name = &column.name;
            return Err(invalid(format!("Invalid identifier {name} for deletion (should not be a PRIMARY KEY part)")));
        }
        operations.push(Operation::delete(table, column, &deletion.target, scope)?);
    }
    let only_static = !operations.is_empty() && only_static(&operations, &conditions);
    let which = Where::prepare(table, Verb::Delete, &delete.relations, only_static, scope)?;
    let changes_rows = operations.is_empty() || operations.iter().any(|operation| !operation.is_static);
    if !conditions.is_none() && changes_rows && !which.names_rows(table) {
        return Err(invalid(
            "DELETE statements must restrict all PRIMARY KEY columns with equality relations in order to delete non \
             static columns",
        ));
    }
    Ok(PreparedWrite { table: table.clone(), verb: Verb::Delete, which, operations, using, conditions, json: None })
}
