//! The tables of the `system_views` keyspace: the running server shown as tables.

use super::definition::{Definition, TABLE};

/// What all tables of latencies are.
const LATENCY: Definition = Definition {
    partition_key: "keyspace_name text, table_name text",
    regulars: "count bigint, max_ms double, p50th_ms double, p99th_ms double, per_second double",
    ..TABLE
};

pub const TABLES: &[Definition] = &[
    Definition {
        name: "batch_metrics",
        comment: "Metrics specific to batch statements",
        partition_key: "name text",
        regulars: "max bigint, p50th double, p999th double, p99th double",
        ..TABLE
    },
    Definition {
        name: "caches",
        comment: "system caches",
        partition_key: "name text",
        regulars: "capacity_bytes bigint, entry_count int, hit_count bigint, hit_ratio double, \
                   recent_hit_rate_per_second bigint, recent_request_rate_per_second bigint, request_count bigint, \
                   size_bytes bigint",
        ..TABLE
    },
    Definition {
        name: "cidr_filtering_metrics_counts",
        comment: "Count metrics specific to CIDR filtering",
        partition_key: "name text",
        regulars: "value bigint",
        ..TABLE
    },
    Definition {
        name: "cidr_filtering_metrics_latencies",
        comment: "Latency metrics specific to CIDR filtering",
        partition_key: "name text",
        regulars: "max double, p50th double, p95th double, p999th double, p99th double",
        ..TABLE
    },
    Definition {
        name: "clients",
        comment: "currently connected clients",
        partition_key: "address inet",
        clustering: "port int",
        regulars: "client_options frozen<map<text, text>>, connection_stage text, driver_name text, \
                   driver_version text, hostname text, keyspace_name text, protocol_version int, request_count bigint, \
                   ssl_cipher_suite text, ssl_enabled boolean, ssl_protocol text, username text",
        ..TABLE
    },
    Definition { name: "coordinator_read_latency", ..LATENCY },
    Definition { name: "coordinator_scan_latency", ..LATENCY },
    Definition { name: "coordinator_write_latency", ..LATENCY },
    Definition {
        name: "cql_metrics",
        comment: "Metrics specific to CQL prepared statement caching",
        partition_key: "name text",
        regulars: "value double",
        ..TABLE
    },
    Definition {
        name: "credentials_cache_keys",
        comment: "keys in the credentials cache",
        partition_key: "role text",
        ..TABLE
    },
    Definition {
        name: "disk_usage",
        partition_key: "keyspace_name text, table_name text",
        regulars: "mebibytes bigint",
        ..TABLE
    },
    Definition {
        name: "gossip_info",
        comment: "lists the gossip information for the cluster",
        partition_key: "address inet",
        clustering: "port int",
        regulars: "dc text, dc_version int, disk_usage text, disk_usage_version int, generation int, heartbeat int, \
                   host_id text, host_id_version int, hostname text, index_status text, index_status_version int, \
                   internal_address_and_port text, internal_address_and_port_version int, internal_ip text, \
                   internal_ip_version int, load text, load_version int, native_address_and_port text, \
                   native_address_and_port_version int, net_version text, net_version_version int, rack text, \
                   rack_version int, release_version text, release_version_version int, removal_coordinator text, \
                   removal_coordinator_version int, rpc_address text, rpc_address_version int, rpc_ready text, \
                   rpc_ready_version int, schema text, schema_version int, severity text, severity_version int, \
                   sstable_versions text, sstable_versions_version int, status text, status_version int, \
                   status_with_port text, status_with_port_version int, tokens_version int, x1 text, x10 text, \
                   x10_version int, x1_version int, x2 text, x2_version int, x3 text, x3_version int, x4 text, \
                   x4_version int, x5 text, x5_version int, x6 text, x6_version int, x7 text, x7_version int, x8 text, \
                   x8_version int, x9 text, x9_version int, x_11_padding text, x_11_padding_version int",
        ..TABLE
    },
    Definition {
        name: "internode_inbound",
        partition_key: "address inet, port int",
        clustering: "dc text, rack text",
        regulars: "corrupt_frames_recovered bigint, corrupt_frames_unrecovered bigint, error_bytes bigint, \
                   error_count bigint, expired_bytes bigint, expired_count bigint, processed_bytes bigint, \
                   processed_count bigint, received_bytes bigint, received_count bigint, scheduled_bytes bigint, \
                   scheduled_count bigint, throttled_count bigint, throttled_nanos bigint, using_bytes bigint, \
                   using_reserve_bytes bigint",
        ..TABLE
    },
    Definition {
        name: "internode_outbound",
        partition_key: "address inet, port int",
        clustering: "dc text, rack text",
        regulars: "active_connections bigint, connection_attempts bigint, error_bytes bigint, error_count bigint, \
                   expired_bytes bigint, expired_count bigint, overload_bytes bigint, overload_count bigint, \
                   pending_bytes bigint, pending_count bigint, sent_bytes bigint, sent_count bigint, \
                   successful_connection_attempts bigint, using_bytes bigint, using_reserve_bytes bigint",
        ..TABLE
    },
    Definition {
        name: "jmx_permissions_cache_keys",
        comment: "keys in the JMX permissions cache",
        partition_key: "role text",
        ..TABLE
    },
    Definition { name: "local_read_latency", ..LATENCY },
    Definition { name: "local_scan_latency", ..LATENCY },
    Definition { name: "local_write_latency", ..LATENCY },
    Definition {
        name: "max_partition_size",
        partition_key: "keyspace_name text, table_name text",
        regulars: "mebibytes bigint",
        ..TABLE
    },
    Definition {
        name: "max_sstable_duration",
        partition_key: "keyspace_name text, table_name text",
        regulars: "max_sstable_duration bigint",
        ..TABLE
    },
    Definition {
        name: "max_sstable_size",
        partition_key: "keyspace_name text, table_name text",
        regulars: "mebibytes bigint",
        ..TABLE
    },
    Definition {
        name: "network_permissions_cache_keys",
        comment: "keys in the network permissions cache",
        partition_key: "role text",
        ..TABLE
    },
    Definition {
        name: "pending_hints",
        comment: "Pending hints that this node has for other nodes",
        partition_key: "host_id uuid",
        regulars: "address inet, dc text, files int, newest timestamp, oldest timestamp, port int, rack text, \
                   status text",
        ..TABLE
    },
    Definition {
        name: "permissions_cache_keys",
        comment: "keys in the permissions cache",
        partition_key: "role text, resource text",
        ..TABLE
    },
    Definition {
        name: "queries",
        comment: "Lists currently running queries",
        partition_key: "thread_id text",
        regulars: "queued_micros bigint, running_micros bigint, task text",
        ..TABLE
    },
    Definition {
        name: "repair_jobs",
        comment: "Repair job",
        partition_key: "id uuid",
        regulars: "completed boolean, duration_millis bigint, failure_cause text, keyspace_name text, \
                   last_updated_at timestamp, participants frozen<list<text>>, ranges frozen<list<text>>, \
                   repair_id timeuuid, session_id timeuuid, state_failure_timestamp timestamp, \
                   state_init_timestamp timestamp, state_skipped_timestamp timestamp, \
                   state_snapshot_complete_timestamp timestamp, state_snapshot_start_timestamp timestamp, \
                   state_start_timestamp timestamp, state_stream_start_timestamp timestamp, \
                   state_success_timestamp timestamp, state_validation_complete_timestamp timestamp, \
                   state_validation_start_timestamp timestamp, status text, success_message text, table_name text",
        ..TABLE
    },
    Definition {
        name: "repair_participates",
        comment: "Repair participate summary",
        partition_key: "id timeuuid",
        regulars: "completed boolean, duration_millis bigint, failure_cause text, global boolean, incremental boolean, \
                   initiator text, last_updated_at timestamp, preview_kind text, ranges frozen<list<text>>, \
                   repaired_at timestamp, state_failure_timestamp timestamp, state_init_timestamp timestamp, \
                   state_skipped_timestamp timestamp, state_success_timestamp timestamp, success_message text, \
                   tables frozen<set<text>>, validations frozen<set<uuid>>",
        ..TABLE
    },
    Definition {
        name: "repair_sessions",
        comment: "Repair session",
        partition_key: "id timeuuid",
        regulars: "completed boolean, duration_millis bigint, failure_cause text, jobs frozen<set<uuid>>, \
                   keyspace_name text, last_updated_at timestamp, participants frozen<list<text>>, \
                   ranges frozen<list<text>>, repair_id timeuuid, state_failure_timestamp timestamp, \
                   state_init_timestamp timestamp, state_jobs_start_timestamp timestamp, \
                   state_skipped_timestamp timestamp, state_start_timestamp timestamp, \
                   state_success_timestamp timestamp, status text, success_message text, \
                   table_names frozen<list<text>>",
        ..TABLE
    },
    Definition {
        name: "repair_validations",
        comment: "Repair validation",
        partition_key: "id uuid",
        regulars: "bytes_read bigint, completed boolean, duration_millis bigint, estimated_partitions bigint, \
                   estimated_total_bytes bigint, failure_cause text, initiator text, keyspace_name text, \
                   last_updated_at timestamp, partitions_processed bigint, progress_percentage float, \
                   ranges frozen<list<text>>, repair_id timeuuid, session_id timeuuid, \
                   state_accept_timestamp timestamp, state_failure_timestamp timestamp, \
                   state_init_timestamp timestamp, state_sending_trees_timestamp timestamp, \
                   state_skipped_timestamp timestamp, state_start_timestamp timestamp, \
                   state_success_timestamp timestamp, status text, success_message text, table_name text",
        ..TABLE
    },
    Definition {
        name: "repairs",
        comment: "Repair summary",
        partition_key: "id timeuuid",
        regulars: "command_id int, completed boolean, duration_millis bigint, failure_cause text, keyspace_name text, \
                   last_updated_at timestamp, options_column_families frozen<set<text>>, \
                   options_data_centers frozen<set<text>>, options_force_repair boolean, \
                   options_hosts frozen<set<text>>, options_ignore_unreplicated_keyspaces boolean, \
                   options_incremental boolean, options_job_threads int, options_optimise_streams boolean, \
                   options_parallelism text, options_preview_kind text, options_primary_range boolean, \
                   options_pull_repair boolean, options_ranges frozen<set<text>>, options_subrange_repair boolean, \
                   options_trace boolean, participants frozen<list<text>>, ranges frozen<list<frozen<list<text>>>>, \
                   sessions frozen<set<timeuuid>>, state_failure_timestamp timestamp, state_init_timestamp timestamp, \
                   state_prepare_complete_timestamp timestamp, state_prepare_start_timestamp timestamp, \
                   state_repair_complete_timestamp timestamp, state_repair_start_timestamp timestamp, \
                   state_setup_timestamp timestamp, state_skipped_timestamp timestamp, \
                   state_start_timestamp timestamp, state_success_timestamp timestamp, status text, \
                   success_message text, table_names frozen<list<text>>, type text, \
                   unfiltered_ranges frozen<list<frozen<list<text>>>>",
        ..TABLE
    },
    Definition { name: "roles_cache_keys", comment: "keys in the roles cache", partition_key: "role text", ..TABLE },
    Definition {
        name: "rows_per_read",
        partition_key: "keyspace_name text, table_name text",
        regulars: "count bigint, max double, p50th double, p99th double",
        ..TABLE
    },
    Definition {
        name: "sai_column_indexes",
        comment: "Storage-attached column index metadata",
        partition_key: "keyspace_name text",
        clustering: "index_name text",
        regulars: "analyzer text, column_name text, is_building boolean, is_queryable boolean, is_string boolean, \
                   table_name text",
        ..TABLE
    },
    Definition {
        name: "sai_sstable_index_segments",
        comment: "SSTable index segment metadata",
        partition_key: "keyspace_name text",
        clustering: "index_name text, sstable_name text, segment_row_id_offset bigint",
        regulars: "cell_count bigint, column_name text, component_metadata frozen<map<text, frozen<map<text, text>>>>, \
                   end_token text, max_sstable_row_id bigint, max_term text, min_sstable_row_id bigint, min_term text, \
                   start_token text, table_name text",
        ..TABLE
    },
    Definition {
        name: "sai_sstable_indexes",
        comment: "SSTable index metadata",
        partition_key: "keyspace_name text",
        clustering: "index_name text, sstable_name text",
        regulars: "cell_count bigint, column_name text, end_token text, format_version text, max_row_id bigint, \
                   min_row_id bigint, per_column_disk_size bigint, per_table_disk_size bigint, start_token text, \
                   table_name text",
        ..TABLE
    },
    Definition {
        name: "settings",
        comment: "current settings",
        partition_key: "name text",
        regulars: "value text",
        ..TABLE
    },
    Definition {
        name: "snapshots",
        comment: "available snapshots",
        partition_key: "name text",
        clustering: "keyspace_name text, table_name text",
        regulars: "created_at timestamp, ephemeral boolean, expires_at timestamp, size_on_disk bigint, \
                   true_size bigint",
        ..TABLE
    },
    Definition {
        name: "sstable_tasks",
        comment: "current sstable tasks",
        partition_key: "keyspace_name text",
        clustering: "table_name text, task_id timeuuid",
        regulars: "completion_ratio double, kind text, progress bigint, sstables int, target_directory text, \
                   total bigint, total_compressed bigint, unit text",
        ..TABLE
    },
    Definition {
        name: "streaming",
        partition_key: "id timeuuid",
        regulars: "bytes_received bigint, bytes_sent bigint, bytes_to_receive bigint, bytes_to_send bigint, \
                   duration_millis bigint, failure_cause text, files_received bigint, files_sent bigint, \
                   files_to_receive bigint, files_to_send bigint, follower boolean, last_updated_at timestamp, \
                   operation text, peers frozen<list<text>>, progress_percentage float, status text, \
                   status_failure_timestamp timestamp, status_init_timestamp timestamp, \
                   status_start_timestamp timestamp, status_success_timestamp timestamp, success_message text",
        ..TABLE
    },
    Definition {
        name: "system_logs",
        comment: "Cassandra logs",
        partition_key: "timestamp timestamp",
        clustering: "order_in_millisecond int",
        regulars: "level text, logger text, message text",
        ..TABLE
    },
    Definition {
        name: "system_properties",
        comment: "Cassandra relevant system properties",
        partition_key: "name text",
        regulars: "value text",
        ..TABLE
    },
    Definition {
        name: "thread_pools",
        partition_key: "name text",
        regulars: "active_tasks int, active_tasks_limit int, blocked_tasks bigint, blocked_tasks_all_time bigint, \
                   completed_tasks bigint, pending_tasks int",
        ..TABLE
    },
    Definition {
        name: "tombstones_per_read",
        partition_key: "keyspace_name text, table_name text",
        regulars: "count bigint, max double, p50th double, p99th double",
        ..TABLE
    },
];
