//! The tables of the `system_traces` keyspace: traced requests.

use super::definition::{Definition, TABLE};

/// What all tables here are.
const TRACES: Definition = Definition { gc_grace_s: 0, ..TABLE };

pub const TABLES: &[Definition] = &[
    Definition {
        name: "events",
        comment: "tracing events",
        partition_key: "session_id uuid",
        clustering: "event_id timeuuid",
        regulars: "activity text, source inet, source_elapsed int, source_port int, thread text",
        ..TRACES
    },
    Definition {
        name: "sessions",
        comment: "tracing sessions",
        partition_key: "session_id uuid",
        regulars: "client inet, command text, coordinator inet, coordinator_port int, duration int, \
                   parameters map<text, text>, request text, started_at timestamp",
        ..TRACES
    },
];
