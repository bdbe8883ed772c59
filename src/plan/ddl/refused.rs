//! What is not there yet: indexes, views, functions, aggregates and triggers. Creating one is refused by name; dropping one
//! finds that it does not exist, which is true.

use crate::cql::ast::schema::{DropNamed, DropRoutine, DropTrigger};
use crate::cql::ast::{QualifiedName, Statement};
use crate::plan::ddl::{DdlPlan, access};
use crate::plan::names;
use crate::protocol::CqlError;

/// The answer to a statement about something that cannot be there.
pub fn plan(statement: &Statement, current: Option<&str>) -> Result<DdlPlan, CqlError> {
    match statement {
        Statement::CreateIndex(_) => not_supported("CREATE INDEX"),
        Statement::CreateMaterializedView(_) => not_supported("CREATE MATERIALIZED VIEW"),
        Statement::CreateFunction(_) => not_supported("CREATE FUNCTION"),
        Statement::CreateAggregate(_) => not_supported("CREATE AGGREGATE"),
        Statement::CreateTrigger(_) => not_supported("CREATE TRIGGER"),
        Statement::DropIndex(drop) => drop_named("Index", drop, "doesn't exist'", current),
        Statement::DropMaterializedView(drop) => drop_named("Materialized view", drop, "doesn't exist", current),
        Statement::AlterMaterializedView(alter) => {
            missing("Materialized view", &alter.view, "doesn't exist", alter.if_exists, current)
        }
        Statement::DropFunction(drop) => drop_routine("Function", drop, current),
        Statement::DropAggregate(drop) => drop_routine("Aggregate", drop, current),
        Statement::DropTrigger(drop) => drop_trigger(drop, current),
        Statement::Access(_) => not_supported("Managing roles, identities and permissions"),
        _ => Err(CqlError::invalid("This statement does not change the schema")),
    }
}

fn not_supported(what: &str) -> Result<DdlPlan, CqlError> {
    Err(CqlError::invalid(format!("{what} is not supported")))
}

fn drop_named(what: &str, drop: &DropNamed, is_missing: &str, current: Option<&str>) -> Result<DdlPlan, CqlError> {
    missing(what, &drop.name, is_missing, drop.if_exists, current)
}

fn drop_routine(what: &str, drop: &DropRoutine, current: Option<&str>) -> Result<DdlPlan, CqlError> {
    let name = QualifiedName { keyspace: drop.name.keyspace.clone(), name: drop.name.name.clone() };
    missing(what, &name, "doesn't exist", drop.if_exists, current)
}

fn missing(
    what: &str,
    name: &QualifiedName,
    is_missing: &str,
    if_exists: bool,
    current: Option<&str>,
) -> Result<DdlPlan, CqlError> {
    let keyspace = names::keyspace_of(name, current)?;
    access::check_not_local(keyspace)?;
    if if_exists {
        return Ok(DdlPlan::nothing());
    }
    Err(CqlError::invalid(format!("{what} '{keyspace}.{}' {is_missing}", name.name)))
}

fn drop_trigger(drop: &DropTrigger, current: Option<&str>) -> Result<DdlPlan, CqlError> {
    let keyspace = names::keyspace_of(&drop.table, current)?;
    access::check_not_local(keyspace)?;
    if drop.if_exists {
        return Ok(DdlPlan::nothing());
    }
    let (name, table) = (&drop.name, &drop.table.name);
    Err(CqlError::invalid(format!("Trigger '{name}' on '{keyspace}.{table}' doesn't exist")))
}

#[cfg(test)]
mod tests {
    use crate::plan::ddl::testing::Node;

    #[test]
    fn creating_is_refused_by_name() {
        let mut node = Node::new();
        node.check("CREATE TABLE t (k int PRIMARY KEY, v int)", "CREATED TABLE t");
        node.check("CREATE INDEX i ON t (v)", "0x2200 CREATE INDEX is not supported");
        node.check(
            "CREATE MATERIALIZED VIEW m AS SELECT * FROM t WHERE k IS NOT NULL PRIMARY KEY (k)",
            "0x2200 CREATE MATERIALIZED VIEW is not supported",
        );
        node.check("CREATE TRIGGER x ON t USING 'c'", "0x2200 CREATE TRIGGER is not supported");
        node.check("CREATE ROLE r", "0x2200 Managing roles, identities and permissions is not supported");
        node.check("SELECT * FROM t", "0x2200 This statement does not change the schema");
    }

    #[test]
    fn dropping_finds_nothing() {
        let mut node = Node::new();
        node.check("DROP INDEX nosuch", "0x2200 Index 'ks.nosuch' doesn't exist'");
        node.check("DROP INDEX IF EXISTS nosuch", "VOID");
        node.check("DROP FUNCTION nosuch", "0x2200 Function 'ks.nosuch' doesn't exist");
        node.check("DROP AGGREGATE IF EXISTS nosuch", "VOID");
        node.check("DROP MATERIALIZED VIEW nosuch", "0x2200 Materialized view 'ks.nosuch' doesn't exist");
        node.check(
            "ALTER MATERIALIZED VIEW nosuch WITH comment = 'x'",
            "0x2200 Materialized view 'ks.nosuch' doesn't exist",
        );
        node.check("DROP TRIGGER nosuch ON t", "0x2200 Trigger 'nosuch' on 'ks.t' doesn't exist");
        node.check("DROP TRIGGER IF EXISTS nosuch ON t", "VOID");
    }
}
