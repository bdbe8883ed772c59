//! The tables of the `system_schema` keyspace: what is defined.

use super::definition::{Definition, TABLE};

/// What all tables here are.
const SCHEMA: Definition = Definition { gc_grace_s: 604_800, memtable_flush_period_ms: 3_600_000, ..TABLE };

pub const TABLES: &[Definition] = &[
    Definition {
        name: "aggregates",
        comment: "user defined aggregate definitions",
        partition_key: "keyspace_name text",
        clustering: "aggregate_name text, argument_types frozen<list<text>>",
        regulars: "final_func text, initcond text, return_type text, state_func text, state_type text",
        ..SCHEMA
    },
    Definition {
        name: "column_masks",
        comment: "column dynamic data masks",
        partition_key: "keyspace_name text",
        clustering: "table_name text, column_name text",
        regulars: "function_argument_nulls frozen<list<boolean>>, function_argument_types frozen<list<text>>, \
                   function_argument_values frozen<list<text>>, function_keyspace text, function_name text",
        ..SCHEMA
    },
    Definition {
        name: "columns",
        comment: "column definitions",
        partition_key: "keyspace_name text",
        clustering: "table_name text, column_name text",
        regulars: "clustering_order text, column_name_bytes blob, kind text, position int, type text",
        ..SCHEMA
    },
    Definition {
        name: "dropped_columns",
        comment: "dropped column registry",
        partition_key: "keyspace_name text",
        clustering: "table_name text, column_name text",
        regulars: "dropped_time timestamp, kind text, type text",
        ..SCHEMA
    },
    Definition {
        name: "functions",
        comment: "user defined function definitions",
        partition_key: "keyspace_name text",
        clustering: "function_name text, argument_types frozen<list<text>>",
        regulars: "argument_names frozen<list<text>>, body text, called_on_null_input boolean, language text, \
                   return_type text",
        ..SCHEMA
    },
    Definition {
        name: "indexes",
        comment: "secondary index definitions",
        partition_key: "keyspace_name text",
        clustering: "table_name text, index_name text",
        regulars: "kind text, options frozen<map<text, text>>",
        ..SCHEMA
    },
    Definition {
        name: "keyspaces",
        comment: "keyspace definitions",
        partition_key: "keyspace_name text",
        regulars: "durable_writes boolean, replication frozen<map<text, text>>",
        ..SCHEMA
    },
    Definition {
        name: "tables",
        comment: "table definitions",
        partition_key: "keyspace_name text",
        clustering: "table_name text",
        regulars: "additional_write_policy text, allow_auto_snapshot boolean, bloom_filter_fp_chance double, \
                   caching frozen<map<text, text>>, cdc boolean, comment text, compaction frozen<map<text, text>>, \
                   compression frozen<map<text, text>>, crc_check_chance double, dclocal_read_repair_chance double, \
                   default_time_to_live int, extensions frozen<map<text, blob>>, flags frozen<set<text>>, \
                   gc_grace_seconds int, id uuid, incremental_backups boolean, max_index_interval int, memtable text, \
                   memtable_flush_period_in_ms int, min_index_interval int, read_repair text, \
                   read_repair_chance double, speculative_retry text",
        ..SCHEMA
    },
    Definition {
        name: "triggers",
        comment: "trigger definitions",
        partition_key: "keyspace_name text",
        clustering: "table_name text, trigger_name text",
        regulars: "options frozen<map<text, text>>",
        ..SCHEMA
    },
    Definition {
        name: "types",
        comment: "user defined type definitions",
        partition_key: "keyspace_name text",
        clustering: "type_name text",
        regulars: "field_names frozen<list<text>>, field_types frozen<list<text>>",
        ..SCHEMA
    },
    Definition {
        name: "views",
        comment: "view definitions",
        partition_key: "keyspace_name text",
        clustering: "view_name text",
        regulars: "additional_write_policy text, allow_auto_snapshot boolean, base_table_id uuid, \
                   base_table_name text, bloom_filter_fp_chance double, caching frozen<map<text, text>>, cdc boolean, \
                   comment text, compaction frozen<map<text, text>>, compression frozen<map<text, text>>, \
                   crc_check_chance double, dclocal_read_repair_chance double, default_time_to_live int, \
                   extensions frozen<map<text, blob>>, gc_grace_seconds int, id uuid, include_all_columns boolean, \
                   incremental_backups boolean, max_index_interval int, memtable text, \
                   memtable_flush_period_in_ms int, min_index_interval int, read_repair text, \
                   read_repair_chance double, speculative_retry text, where_clause text",
        ..SCHEMA
    },
];
