//! The tables of the `system` keyspace: what a node knows of itself and of its peers.

use super::definition::{Compaction, Definition, TABLE};

/// What all tables here are.
const LOCAL: Definition = Definition { gc_grace_s: 0, memtable_flush_period_ms: 3_600_000, ..TABLE };

pub const TABLES: &[Definition] = &[
    Definition {
        name: "IndexInfo",
        comment: "built column indexes",
        partition_key: "table_name text",
        clustering: "index_name text",
        regulars: "value blob",
        ..LOCAL
    },
    Definition {
        name: "available_ranges",
        comment: "available keyspace/ranges during bootstrap/replace that are ready to be served",
        partition_key: "keyspace_name text",
        regulars: "ranges set<blob>",
        ..LOCAL
    },
    Definition {
        name: "available_ranges_v2",
        comment: "available keyspace/ranges during bootstrap/replace that are ready to be served",
        partition_key: "keyspace_name text",
        regulars: "full_ranges set<blob>, transient_ranges set<blob>",
        ..LOCAL
    },
    Definition {
        name: "batches",
        comment: "batches awaiting replay",
        partition_key: "id timeuuid",
        regulars: "mutations list<blob>, version int",
        compaction: Compaction::SizeTieredFromTwo,
        ..LOCAL
    },
    Definition {
        name: "built_views",
        comment: "built views",
        partition_key: "keyspace_name text",
        clustering: "view_name text",
        regulars: "status_replicated boolean",
        ..LOCAL
    },
    Definition {
        name: "compaction_history",
        comment: "week-long compaction history",
        partition_key: "id timeuuid",
        regulars: "bytes_in bigint, bytes_out bigint, columnfamily_name text, compacted_at timestamp, \
                   compaction_properties frozen<map<text, text>>, keyspace_name text, rows_merged map<int, bigint>",
        default_time_to_live_s: 604_800,
        ..LOCAL
    },
    Definition {
        name: "local",
        comment: "information about the local node",
        partition_key: "key text",
        regulars: "bootstrapped text, broadcast_address inet, broadcast_port int, cluster_name text, cql_version text, \
                   data_center text, gossip_generation int, host_id uuid, listen_address inet, listen_port int, \
                   native_protocol_version text, partitioner text, rack text, release_version text, rpc_address inet, \
                   rpc_port int, schema_version uuid, tokens set<text>, truncated_at map<uuid, blob>",
        ..LOCAL
    },
    Definition {
        name: "paxos",
        comment: "in-progress paxos proposals",
        partition_key: "row_key blob",
        clustering: "cf_id uuid",
        regulars: "in_progress_ballot timeuuid, in_progress_read_ballot timeuuid, most_recent_commit blob, \
                   most_recent_commit_at timeuuid, most_recent_commit_version int, proposal blob, \
                   proposal_ballot timeuuid, proposal_version int",
        compaction: Compaction::Leveled,
        ..LOCAL
    },
    Definition {
        name: "paxos_repair_history",
        comment: "paxos repair history",
        partition_key: "keyspace_name text",
        clustering: "table_name text",
        regulars: "points frozen<list<frozen<tuple<blob, timeuuid>>>>",
        ..LOCAL
    },
    Definition {
        name: "peer_events",
        comment: "events related to peers",
        partition_key: "peer inet",
        regulars: "hints_dropped map<timeuuid, int>",
        ..LOCAL
    },
    Definition {
        name: "peer_events_v2",
        comment: "events related to peers",
        partition_key: "peer inet",
        clustering: "peer_port int",
        regulars: "hints_dropped map<timeuuid, int>",
        ..LOCAL
    },
    Definition {
        name: "peers",
        comment: "information about known peers in the cluster",
        partition_key: "peer inet",
        regulars: "data_center text, host_id uuid, preferred_ip inet, rack text, release_version text, \
                   rpc_address inet, schema_version uuid, tokens set<text>",
        ..LOCAL
    },
    Definition {
        name: "peers_v2",
        comment: "information about known peers in the cluster",
        partition_key: "peer inet",
        clustering: "peer_port int",
        regulars: "data_center text, host_id uuid, native_address inet, native_port int, preferred_ip inet, \
                   preferred_port int, rack text, release_version text, schema_version uuid, tokens set<text>",
        ..LOCAL
    },
    Definition {
        name: "prepared_statements",
        comment: "prepared statements",
        partition_key: "prepared_id blob",
        regulars: "logged_keyspace text, query_string text",
        ..LOCAL
    },
    Definition {
        name: "repairs",
        comment: "repairs",
        partition_key: "parent_id timeuuid",
        regulars: "cfids set<uuid>, coordinator inet, coordinator_port int, last_update timestamp, \
                   participants set<inet>, participants_wp set<text>, ranges set<blob>, repaired_at timestamp, \
                   started_at timestamp, state int",
        ..LOCAL
    },
    Definition {
        name: "size_estimates",
        comment: "per-table primary range size estimates, table is deprecated in favor of table_estimates",
        partition_key: "keyspace_name text",
        clustering: "table_name text, range_start text, range_end text",
        regulars: "mean_partition_size bigint, partitions_count bigint",
        ..LOCAL
    },
    Definition {
        name: "sstable_activity",
        comment: "historic sstable read rates",
        partition_key: "keyspace_name text, columnfamily_name text, generation int",
        regulars: "rate_120m double, rate_15m double",
        ..LOCAL
    },
    Definition {
        name: "sstable_activity_v2",
        comment: "historic sstable read rates",
        partition_key: "keyspace_name text, table_name text, id text",
        regulars: "rate_120m double, rate_15m double",
        ..LOCAL
    },
    Definition {
        name: "table_estimates",
        comment: "per-table range size estimates",
        partition_key: "keyspace_name text",
        clustering: "table_name text, range_type text, range_start text, range_end text",
        regulars: "mean_partition_size bigint, partitions_count bigint",
        ..LOCAL
    },
    Definition {
        name: "top_partitions",
        comment: "Stores the top partitions",
        partition_key: "keyspace_name text",
        clustering: "table_name text, top_type text",
        regulars: "last_update timestamp, top frozen<list<frozen<tuple<text, bigint>>>>",
        ..LOCAL
    },
    Definition {
        name: "transferred_ranges",
        comment: "record of transferred ranges for streaming operation",
        partition_key: "operation text, keyspace_name text",
        clustering: "peer inet",
        regulars: "ranges set<blob>",
        ..LOCAL
    },
    Definition {
        name: "transferred_ranges_v2",
        comment: "record of transferred ranges for streaming operation",
        partition_key: "operation text, keyspace_name text",
        clustering: "peer inet, peer_port int",
        regulars: "ranges set<blob>",
        ..LOCAL
    },
    Definition {
        name: "view_builds_in_progress",
        comment: "views builds current progress",
        partition_key: "keyspace_name text",
        clustering: "view_name text, start_token text, end_token text",
        regulars: "keys_built bigint, last_token text",
        ..LOCAL
    },
];
