//! CREATE, ALTER and DROP KEYSPACE.

use crate::cql::ast::schema::{AlterKeyspace, CreateKeyspace, DropKeyspace};
use crate::plan::ddl::replication::{self, Options};
use crate::plan::ddl::{DdlPlan, access, properties};
use crate::protocol::{Change, CqlError, SchemaChange};
use crate::schema::{Schema, SchemaOp, system};

const NAME_CHARS_MAX: usize = 48;
const PROPERTIES: [&str; 2] = ["durable_writes", "replication"];

pub fn create(create: &CreateKeyspace, schema: &Schema) -> Result<DdlPlan, CqlError> {
    let name = create.keyspace.as_str();
    if system::is_local(name) {
        return Err(CqlError::invalid(format!("System keyspace '{name}' is not user-modifiable")));
    }
    properties::check_known(&create.properties, &PROPERTIES)?;
    let durable_writes = properties::boolean(&create.properties, "durable_writes")?.unwrap_or(true);
    let Some(given) = properties::map(&create.properties, "replication")? else {
        return Err(CqlError::invalid("Missing mandatory option 'replication'"));
    };
    if schema.keyspace(name).is_some() {
        return if create.if_not_exists { Ok(DdlPlan::nothing()) } else { Err(CqlError::keyspace_exists(name)) };
    }
    check_name(name)?;
    let replication = replication::resolve(name, given, &Options::new())?;
    let warnings = replication::warnings(name, &replication);
    let op = SchemaOp::PutKeyspace { name: name.to_owned(), durable_writes, replication };
    let plan = DdlPlan::change(vec![op], SchemaChange::keyspace(Change::Created, name));
    Ok(DdlPlan { warnings, ..plan })
}

pub fn alter(alter: &AlterKeyspace, schema: &Schema) -> Result<DdlPlan, CqlError> {
    let name = alter.keyspace.as_str();
    access::check_not_local(name)?;
    properties::check_known(&alter.properties, &PROPERTIES)?;
    let durable_writes = properties::boolean(&alter.properties, "durable_writes")?;
    let given = properties::map(&alter.properties, "replication")?;
    let Some(keyspace) = schema.keyspace(name) else {
        return if alter.if_exists { Ok(DdlPlan::nothing()) } else { Err(missing(name)) };
    };
    let replication = match given {
        Some(given) => replication::resolve(name, given, &keyspace.replication)?,
        None => keyspace.replication.clone(),
    };
    let warnings = if given.is_some() { replication::warnings(name, &replication) } else { Vec::new() };
    let durable_writes = durable_writes.unwrap_or(keyspace.durable_writes);
    if durable_writes == keyspace.durable_writes && replication == keyspace.replication {
        return Ok(DdlPlan { warnings, ..DdlPlan::nothing() });
    }
    let op = SchemaOp::PutKeyspace { name: name.to_owned(), durable_writes, replication };
    let plan = DdlPlan::change(vec![op], SchemaChange::keyspace(Change::Updated, name));
    Ok(DdlPlan { warnings, ..plan })
}

pub fn drop(drop: &DropKeyspace, schema: &Schema) -> Result<DdlPlan, CqlError> {
    let name = drop.keyspace.as_str();
    access::check_not_local(name)?;
    if system::is_replicated(name) {
        return Err(CqlError::unauthorized(format!("Cannot DROP <keyspace {name}>")));
    }
    if schema.keyspace(name).is_none() {
        return if drop.if_exists { Ok(DdlPlan::nothing()) } else { Err(missing(name)) };
    }
    let op = SchemaOp::DropKeyspace { name: name.to_owned() };
    Ok(DdlPlan::change(vec![op], SchemaChange::keyspace(Change::Dropped, name)))
}

pub fn missing(keyspace: &str) -> CqlError {
    CqlError::invalid(format!("Keyspace '{keyspace}' doesn't exist"))
}

fn check_name(name: &str) -> Result<(), CqlError> {
    let chars = name.chars().count();
    if chars > NAME_CHARS_MAX {
        return Err(CqlError::invalid(format!(
            "Keyspace name must not be more than {NAME_CHARS_MAX} characters long (got {chars} characters for \"{name}\")"
        )));
    }
    if !is_word(name) {
        return Err(CqlError::invalid(format!(
            "Keyspace name must not be empty and must contain alphanumeric or underscore characters only (got \"{name}\")"
        )));
    }
    Ok(())
}

/// Letters, digits and underscores only, and not empty: what may name a directory.
pub fn is_word(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use crate::plan::ddl::testing::{Node, SIMPLE};

    #[test]
    fn a_keyspace_is_created_altered_and_dropped() {
        let mut node = Node::new();
        node.check(&format!("CREATE KEYSPACE ks2 WITH {SIMPLE}"), "CREATED KEYSPACE ks2");
        node.check(&format!("CREATE KEYSPACE ks2 WITH {SIMPLE}"), "0x2400 Cannot add existing keyspace \"ks2\"");
        node.check(&format!("CREATE KEYSPACE IF NOT EXISTS ks2 WITH {SIMPLE}"), "VOID");
        node.check("ALTER KEYSPACE ks2 WITH durable_writes = false", "UPDATED KEYSPACE ks2");
        node.check("ALTER KEYSPACE ks2 WITH durable_writes = 'no'", "VOID");
        assert!(!node.schema.keyspace("ks2").is_some_and(|keyspace| keyspace.durable_writes));
        node.check("DROP KEYSPACE ks2", "DROPPED KEYSPACE ks2");
        node.check("DROP KEYSPACE ks2", "0x2200 Keyspace 'ks2' doesn't exist");
        node.check("DROP KEYSPACE IF EXISTS ks2", "VOID");
        node.check("ALTER KEYSPACE IF EXISTS nosuch WITH durable_writes = true", "VOID");
        node.check("ALTER KEYSPACE nosuch WITH durable_writes = true", "0x2200 Keyspace 'nosuch' doesn't exist");
        node.check(&format!("CREATE KEYSPACE \"Ks3\" WITH {SIMPLE}"), "CREATED KEYSPACE Ks3");
        node.check("DROP KEYSPACE Ks3", "0x2200 Keyspace 'ks3' doesn't exist");
    }

    #[test]
    fn wrong_properties_are_refused() {
        let mut node = Node::new();
        node.check("CREATE KEYSPACE a WITH durable_writes = true", "0x2200 Missing mandatory option 'replication'");
        node.check("CREATE KEYSPACE a WITH replication = {}", "0x2300 Missing replication strategy class");
        node.check(
            "CREATE KEYSPACE a WITH replication = 'SimpleStrategy'",
            "0x2000 Invalid value for property 'replication'. It should be a map.",
        );
        node.check("ALTER KEYSPACE ks WITH nosuch = 1", "0x2000 Unknown property 'nosuch'");
        node.check(
            &format!("CREATE KEYSPACE a WITH {SIMPLE} AND durable_writes = {{'a': 'b'}}"),
            "0x2000 Invalid value for property 'durable_writes'. It should be a string",
        );
        let name = "a".repeat(49);
        node.check(
            &format!("CREATE KEYSPACE {name} WITH {SIMPLE}"),
            &format!(
                "0x2200 Keyspace name must not be more than 48 characters long (got 49 characters for \"{name}\")"
            ),
        );
        node.check(
            &format!("CREATE KEYSPACE \"bad-name\" WITH {SIMPLE}"),
            "0x2200 Keyspace name must not be empty and must contain alphanumeric or underscore characters only \
             (got \"bad-name\")",
        );
    }

    #[test]
    fn system_keyspaces_stay_as_they_are() {
        let mut node = Node::new();
        let create = |name: &str| format!("CREATE KEYSPACE {name} WITH {SIMPLE}");
        node.check(&create("system"), "0x2200 System keyspace 'system' is not user-modifiable");
        node.check(
            &create("IF NOT EXISTS system_views"),
            "0x2200 System keyspace 'system_views' is not user-modifiable",
        );
        node.check(&create("system_auth"), "0x2400 Cannot add existing keyspace \"system_auth\"");
        node.check("DROP KEYSPACE system", "0x2100 system keyspace is not user-modifiable.");
        node.check("DROP KEYSPACE system_auth", "0x2100 Cannot DROP <keyspace system_auth>");
        node.check(
            "ALTER KEYSPACE system WITH durable_writes = false",
            "0x2100 system keyspace is not user-modifiable.",
        );
        node.check("ALTER KEYSPACE system_traces WITH durable_writes = false", "UPDATED KEYSPACE system_traces");
    }

    #[test]
    fn warnings_come_with_the_change() {
        let mut node = Node::new();
        let network = "replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 3}";
        let plan = node.plan(&format!("CREATE KEYSPACE k WITH {network}"));
        assert_eq!(plan.map(|plan| plan.warnings.len()), Ok(1));
    }
}
