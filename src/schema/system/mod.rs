//! The keyspaces that every node has, with exactly the columns that Cassandra 5.0 gives their tables, and one private
//! table in which the schema itself is kept.

mod auth;
mod definition;
mod distributed;
mod local;
mod schema_tables;
mod traces;
mod views;
mod virtual_schema;

use std::collections::BTreeMap;

use crate::schema::table::{Schema, SchemaOp};
use definition::{Definition, TABLE};

pub use definition::{name_uuid, table_id};

/// Where the canonical schema stands: changes by `schema::codec`, in a table that `system_schema` does not show.
pub const STORED_SCHEMA: &str = "helenus_schema";

const PRIVATE: Definition = Definition {
    name: STORED_SCHEMA,
    comment: "the schema as it is stored",
    partition_key: "kind text",
    clustering: "name text",
    regulars: "definition blob",
    gc_grace_s: 0,
    ..TABLE
};

/// A keyspace of the system and its tables.
struct SystemKeyspace {
    name: &'static str,
    tables: &'static [Definition],
    /// Class and factor; `None`: the node's own.
    replication: Option<(&'static str, &'static str)>,
}

const LOCAL_STRATEGY: &str = "org.apache.cassandra.locator.LocalStrategy";
const SIMPLE_STRATEGY: &str = "org.apache.cassandra.locator.SimpleStrategy";

const KEYSPACES: [SystemKeyspace; 7] = [
    SystemKeyspace { name: "system", tables: local::TABLES, replication: None },
    SystemKeyspace { name: "system_schema", tables: schema_tables::TABLES, replication: None },
    SystemKeyspace { name: "system_auth", tables: auth::TABLES, replication: Some((SIMPLE_STRATEGY, "1")) },
    SystemKeyspace {
        name: "system_distributed",
        tables: distributed::TABLES,
        replication: Some((SIMPLE_STRATEGY, "3")),
    },
    SystemKeyspace { name: "system_traces", tables: traces::TABLES, replication: Some((SIMPLE_STRATEGY, "2")) },
    SystemKeyspace { name: "system_virtual_schema", tables: virtual_schema::TABLES, replication: None },
    SystemKeyspace { name: "system_views", tables: views::TABLES, replication: None },
];

/// The changes that make the system's schema out of an empty one.
pub fn tables() -> Vec<SchemaOp> {
    let mut ops = Vec::new();
    for keyspace in &KEYSPACES {
        ops.push(SchemaOp::PutKeyspace {
            name: keyspace.name.to_owned(),
            durable_writes: true,
            replication: replication(keyspace.replication),
        });
        for definition in keyspace.tables {
            ops.push(SchemaOp::PutTable(Box::new(definition.table(keyspace.name))));
        }
    }
    ops.push(SchemaOp::PutTable(Box::new(PRIVATE.table("system"))));
    ops
}

/// The schema of a node on which nothing is defined yet.
pub fn schema() -> Schema {
    let mut schema = Schema::default();
    tables().iter().for_each(|op| schema.apply(op));
    schema
}

fn replication(of: Option<(&str, &str)>) -> BTreeMap<String, String> {
    let class = of.map_or(LOCAL_STRATEGY, |(class, _)| class);
    let factor = of.map(|(_, factor)| ("replication_factor".to_owned(), factor.to_owned()));
    [("class".to_owned(), class.to_owned())].into_iter().chain(factor).collect()
}

/// Any keyspace of this module.
pub fn is_system(keyspace: &str) -> bool {
    KEYSPACES.iter().any(|known| known.name == keyspace)
}

/// A keyspace that holds what this node knows: nobody may change its definition.
pub fn is_local(keyspace: &str) -> bool {
    matches!(keyspace, "system" | "system_schema") || is_virtual(keyspace)
}

/// A keyspace that Cassandra computes rather than stores. `system_virtual_schema` lists it, `system_schema` does not.
pub fn is_virtual(keyspace: &str) -> bool {
    matches!(keyspace, "system_virtual_schema" | "system_views")
}

/// A keyspace whose replication may be altered, and nothing else of it.
pub fn is_replicated(keyspace: &str) -> bool {
    is_system(keyspace) && !is_local(keyspace)
}

/// A table that no list of tables shows.
pub fn is_private(keyspace: &str, table: &str) -> bool {
    keyspace == "system" && table == STORED_SCHEMA
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::CqlType;

    #[test]
    fn every_definition_reads() {
        let schema = schema();
        assert_eq!(schema.keyspaces.len(), KEYSPACES.len());
        for keyspace in &KEYSPACES {
            let expected = keyspace.tables.len() + usize::from(keyspace.name == "system");
            assert_eq!(schema.keyspace(keyspace.name).map(|k| k.tables.len()), Some(expected), "{}", keyspace.name);
        }
        for table in schema.keyspaces.values().flat_map(|keyspace| keyspace.tables.values()) {
            assert!(table.partition_key().next().is_some(), "{}.{}", table.keyspace, table.name);
            assert!(!table.columns.iter().any(|column| matches!(column.ty, CqlType::Custom(_))), "{}", table.name);
            assert_eq!(schema.table_by_id(table.id).map(|found| &found.name), Some(&table.name));
        }
    }

    #[test]
    fn the_columns_that_drivers_read_are_there() {
        let schema = schema();
        let names = |keyspace: &str, table: &str| -> Vec<String> {
            schema.table(keyspace, table).map_or_else(Vec::new, |table| {
                table.columns.iter().map(|column| format!("{} {}", column.name, column.ty)).collect()
            })
        };
        assert_eq!(
            names("system", "peers_v2"),
            [
                "peer inet",
                "peer_port int",
                "data_center text",
                "host_id uuid",
                "native_address inet",
                "native_port int",
                "preferred_ip inet",
                "preferred_port int",
                "rack text",
                "release_version text",
                "schema_version uuid",
                "tokens set<text>",
            ]
        );
        assert_eq!(names("system", "local").len(), 20);
        assert_eq!(names("system_virtual_schema", "keyspaces"), ["keyspace_name text"]);
        assert!(names("system_schema", "tables").contains(&"compaction frozen<map<text, text>>".to_owned()));
        assert!(names("system", "prepared_statements").contains(&"prepared_id blob".to_owned()));
    }

    #[test]
    fn keyspaces_know_who_may_change_them() {
        let check = |keyspace, system, local, is_virtual_one| {
            assert_eq!(
                (is_system(keyspace), is_local(keyspace), is_virtual(keyspace)),
                (system, local, is_virtual_one)
            );
            assert_eq!(is_replicated(keyspace), system && !local, "{keyspace}");
        };
        check("system", true, true, false);
        check("system_schema", true, true, false);
        check("system_auth", true, false, false);
        check("system_traces", true, false, false);
        check("system_views", true, true, true);
        check("ks", false, false, false);
        check("system_x", false, false, false);
        assert!(is_private("system", "helenus_schema") && !is_private("ks", "helenus_schema"));
    }

    #[test]
    fn replication_is_fully_qualified() {
        let schema = schema();
        let class = |keyspace: &str| schema.keyspace(keyspace).and_then(|k| k.replication.get("class").cloned());
        assert_eq!(class("system").as_deref(), Some(LOCAL_STRATEGY));
        assert_eq!(class("system_auth").as_deref(), Some(SIMPLE_STRATEGY));
    }
}
