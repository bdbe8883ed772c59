//! The tables of the `system_virtual_schema` keyspace: what is defined in virtual keyspaces.

use super::definition::{Definition, TABLE};

pub const TABLES: &[Definition] = &[
    Definition {
        name: "columns",
        comment: "virtual column definitions",
        partition_key: "keyspace_name text",
        clustering: "table_name text, column_name text",
        regulars: "clustering_order text, column_name_bytes blob, kind text, position int, type text",
        ..TABLE
    },
    Definition {
        name: "keyspaces",
        comment: "virtual keyspace definitions",
        partition_key: "keyspace_name text",
        ..TABLE
    },
    Definition {
        name: "tables",
        comment: "virtual table definitions",
        partition_key: "keyspace_name text",
        clustering: "table_name text",
        regulars: "comment text",
        ..TABLE
    },
];
