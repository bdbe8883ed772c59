//! The tables of the `system_distributed` keyspace: repairs, views, denied partitions.

use super::definition::{Compaction, Definition, TABLE};

pub const TABLES: &[Definition] = &[
    Definition {
        name: "parent_repair_history",
        comment: "Repair history",
        partition_key: "parent_id timeuuid",
        regulars: "columnfamily_names set<text>, exception_message text, exception_stacktrace text, \
                   finished_at timestamp, keyspace_name text, options map<text, text>, requested_ranges set<text>, \
                   started_at timestamp, successful_ranges set<text>",
        compaction: Compaction::DailyWindows,
        default_time_to_live_s: 2_592_000,
        ..TABLE
    },
    Definition {
        name: "partition_denylist",
        comment: "Partition keys which have been denied access",
        partition_key: "ks_name text, table_name text",
        clustering: "key blob",
        ..TABLE
    },
    Definition {
        name: "repair_history",
        comment: "Repair history",
        partition_key: "keyspace_name text, columnfamily_name text",
        clustering: "id timeuuid",
        regulars: "coordinator inet, coordinator_port int, exception_message text, exception_stacktrace text, \
                   finished_at timestamp, parent_id timeuuid, participants set<inet>, participants_v2 set<text>, \
                   range_begin text, range_end text, started_at timestamp, status text",
        compaction: Compaction::DailyWindows,
        default_time_to_live_s: 2_592_000,
        ..TABLE
    },
    Definition {
        name: "view_build_status",
        comment: "Materialized View build status",
        partition_key: "keyspace_name text, view_name text",
        clustering: "host_id uuid",
        regulars: "status text",
        ..TABLE
    },
];
