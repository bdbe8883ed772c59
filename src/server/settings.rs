//! The configuration: cassandra.yaml's names and units wherever Cassandra has the setting, a default for everything.
//!
//! A value comes from the file, then `--set KEY=VALUE`, then a flag; the later wins. An unknown key, a wrong unit or an
//! impossible value is an error that names file and line. A key that Cassandra has and this server does not use is
//! accepted with a warning.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_yaml_ng::Value;

use crate::io;
use crate::server::units;
use crate::shard::root::SHARDS_MAX;

/// How the commit log acknowledges (see `commitlog`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitlogSync {
    Periodic,
    Batch,
    Group,
}

/// What a damaged commit log segment does to a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitFailurePolicy {
    /// Refuse to start and name the damage.
    Stop,
    /// Set the segment aside, say so, and start.
    Quarantine,
}

/// Every setting, with its default.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub cluster_name: String,
    pub data_dir: PathBuf,
    pub rpc_address: IpAddr,
    pub native_transport_port: u16,
    pub shard_aware_port: u16,
    pub admin_port: u16,
    /// 0: one per allowed core.
    pub shards: u16,
    pub cpuset: Option<Vec<usize>>,
    pub overprovisioned: bool,
    pub scylla_shard_info: bool,
    pub num_tokens: u32,
    pub native_transport_max_frame_bytes: u64,
    pub native_transport_max_concurrent_connections: u64,
    pub native_transport_max_requests_in_flight: u64,
    pub commitlog_sync: CommitlogSync,
    pub commitlog_sync_period: Duration,
    pub commitlog_sync_group_window: Duration,
    pub commitlog_segment_bytes: u64,
    pub commitlog_total_bytes: u64,
    pub commit_failure_policy: CommitFailurePolicy,
    /// For all shards together.
    pub memtable_bytes: u64,
    /// For all shards together.
    pub file_cache_bytes: u64,
    pub disk_reserve_bytes: u64,
    /// Whether TRUNCATE and DROP snapshot a table first.
    pub auto_snapshot: bool,
    pub read_request_timeout: Duration,
    pub range_request_timeout: Duration,
    pub write_request_timeout: Duration,
    pub truncate_request_timeout: Duration,
    pub batch_size_warn_bytes: u64,
    pub batch_size_fail_bytes: u64,
}

impl Default for Settings {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Settings {
            cluster_name: "Helenus".into(),
            data_dir: PathBuf::from("./helenus-data"),
            rpc_address: IpAddr::from([127, 0, 0, 1]),
            native_transport_port: 9042,
            shard_aware_port: 19042,
            admin_port: 9180,
            shards: 0,
            cpuset: None,
            overprovisioned: false,
            scylla_shard_info: false,
            num_tokens: 16,
            native_transport_max_frame_bytes: 16 * MIB,
            native_transport_max_concurrent_connections: 32_768,
            native_transport_max_requests_in_flight: 32_768,
            commitlog_sync: CommitlogSync::Periodic,
            commitlog_sync_period: Duration::from_secs(10),
            commitlog_sync_group_window: Duration::from_millis(10),
            commitlog_segment_bytes: 32 * MIB,
            commitlog_total_bytes: 8192 * MIB,
            commit_failure_policy: CommitFailurePolicy::Stop,
            memtable_bytes: 1024 * MIB,
            file_cache_bytes: 512 * MIB,
            disk_reserve_bytes: 256 * MIB,
            auto_snapshot: true,
            read_request_timeout: Duration::from_secs(5),
            range_request_timeout: Duration::from_secs(10),
            write_request_timeout: Duration::from_secs(2),
            truncate_request_timeout: Duration::from_secs(60),
            batch_size_warn_bytes: 5 * 1024,
            batch_size_fail_bytes: 50 * 1024,
        }
    }
}

/// What is wrong with the configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("{path}: {reason}")]
    Unreadable { path: String, reason: String },
    #[error("{place}: unknown setting `{key}`{hint}")]
    UnknownKey { place: String, key: String, hint: String },
    #[error("{place}: `{key}`: {reason}")]
    BadValue { place: String, key: String, reason: String },
}

/// Why a value that asks for protection is refused: who believes that it is there must not be served without.
fn unmet(key: &str, value: &Value) -> Option<String> {
    match key {
        "authenticator" | "authorizer" => {
            let class = value.get("class_name").unwrap_or(value).as_str()?;
            let is_open = class.rsplit('.').next().is_some_and(|class| class.starts_with("AllowAll"));
            (!is_open).then(|| format!("`{class}` is not here yet: every connection may do everything"))
        }
        "client_encryption_options" => {
            let is_on = value.get("enabled").and_then(Value::as_bool).unwrap_or(false);
            is_on.then(|| "TLS is not here yet: connections are not encrypted".to_owned())
        }
        _ => None,
    }
}

/// Cassandra's settings that nothing here uses.
const IGNORED: &[&str] = &[
    "allocate_tokens_for_keyspace",
    "allocate_tokens_for_local_replication_factor",
    "audit_logging_options",
    "auth_read_consistency_level",
    "auth_write_consistency_level",
    "authenticator",
    "authorizer",
    "auto_hints_cleanup_enabled",
    "auto_snapshot_ttl",
    "back_pressure_enabled",
    "batchlog_replay_throttle",
    "broadcast_rpc_address",
    "cas_contention_timeout",
    "cdc_enabled",
    "cdc_raw_directory",
    "client_encryption_options",
    "column_index_size",
    "column_index_cache_size",
    "commitlog_compression",
    "commitlog_directory",
    "commitlog_disk_access_mode",
    "compaction_throughput",
    "concurrent_compactors",
    "concurrent_counter_writes",
    "concurrent_materialized_view_writes",
    "concurrent_reads",
    "concurrent_writes",
    "counter_cache_save_period",
    "counter_cache_size",
    "counter_write_request_timeout",
    "credentials_validity",
    "cross_node_timeout",
    "default_compaction",
    "diagnostic_events_enabled",
    "disk_failure_policy",
    "disk_optimization_strategy",
    "dynamic_snitch",
    "dynamic_snitch_badness_threshold",
    "dynamic_snitch_reset_interval",
    "dynamic_snitch_update_interval",
    "endpoint_snitch",
    "full_query_logging_options",
    "hinted_handoff_enabled",
    "hinted_handoff_throttle",
    "hints_compression",
    "hints_directory",
    "hints_flush_period",
    "ideal_consistency_level",
    "incremental_backups",
    "index_summary_capacity",
    "index_summary_resize_interval",
    "initial_token",
    "inter_dc_tcp_nodelay",
    "internode_compression",
    "key_cache_save_period",
    "key_cache_size",
    "listen_address",
    "listen_interface",
    "materialized_views_enabled",
    "max_hint_window",
    "max_hints_delivery_threads",
    "max_hints_file_size",
    "memtable",
    "memtable_allocation_type",
    "memtable_flush_writers",
    "native_transport_allow_older_protocols",
    "network_authorizer",
    "partitioner",
    "permissions_validity",
    "prepared_statements_cache_size",
    "repaired_data_tracking_for_partition_reads_enabled",
    "repaired_data_tracking_for_range_reads_enabled",
    "report_unconfirmed_repaired_data_mismatches",
    "request_timeout",
    "role_manager",
    "roles_validity",
    "row_cache_save_period",
    "row_cache_size",
    "rpc_keepalive",
    "sasi_indexes_enabled",
    "saved_caches_directory",
    "seed_provider",
    "server_encryption_options",
    "slow_query_log_timeout",
    "snapshot_before_compaction",
    "snapshot_links_per_second",
    "ssl_storage_port",
    "sstable",
    "sstable_preemptive_open_interval",
    "start_native_transport",
    "storage_compatibility_mode",
    "storage_port",
    "stream_entire_sstables",
    "stream_throughput_outbound",
    "tombstone_failure_threshold",
    "tombstone_warn_threshold",
    "traverse_auth_from_root",
    "transparent_data_encryption_options",
    "transient_replication_enabled",
    "trickle_fsync",
    "trickle_fsync_interval",
    "user_defined_functions_enabled",
    "user_defined_functions_threads_enabled",
];

/// The settings this server has.
pub const KEYS: &[&str] = &[
    "admin_port",
    "auto_snapshot",
    "batch_size_fail_threshold",
    "batch_size_warn_threshold",
    "cluster_name",
    "commit_failure_policy",
    "commitlog_segment_size",
    "commitlog_sync",
    "commitlog_sync_group_window",
    "commitlog_sync_period",
    "commitlog_total_space",
    "cpuset",
    "data_file_directories",
    "disk_reserve",
    "file_cache_size",
    "memtable_offheap_space",
    "native_transport_max_concurrent_connections",
    "native_transport_max_concurrent_requests",
    "native_transport_max_frame_size",
    "native_transport_port",
    "num_tokens",
    "overprovisioned",
    "range_request_timeout",
    "read_request_timeout",
    "rpc_address",
    "scylla_shard_info",
    "shard_aware_port",
    "shards",
    "truncate_request_timeout",
    "write_request_timeout",
];

impl Settings {
    /// Reads the text of a YAML file into these settings. Gives the warnings.
    pub fn read_yaml(&mut self, path: &Path, text: &str) -> Result<Vec<String>, SettingsError> {
        let file = path.display().to_string();
        let document: Value = serde_yaml_ng::from_str(text)
            .map_err(|error| SettingsError::Unreadable { path: file.clone(), reason: error.to_string() })?;
        let mapping = match document {
            Value::Null => return Ok(Vec::new()),
            Value::Mapping(mapping) => mapping,
            _ => {
                let reason = "expected settings as `key: value`, one a line".to_owned();
                return Err(SettingsError::Unreadable { path: file, reason });
            }
        };
        let mut warnings = Vec::new();
        for (key, value) in &mapping {
            let key = key.as_str().unwrap_or_default();
            let place = format!("{file}:{}", line_of(text, key));
            warnings.extend(self.set(&place, key, value)?);
        }
        Ok(warnings)
    }

    /// One `--set KEY=VALUE`.
    pub fn set_argument(&mut self, argument: &str) -> Result<Vec<String>, SettingsError> {
        let place = format!("--set {argument}");
        let Some((key, value)) = argument.split_once('=') else {
            let reason = "expected KEY=VALUE".to_owned();
            return Err(SettingsError::BadValue { place, key: argument.to_owned(), reason });
        };
        let value: Value = serde_yaml_ng::from_str(value).map_err(|error| SettingsError::BadValue {
            place: place.clone(),
            key: key.to_owned(),
            reason: error.to_string(),
        })?;
        Ok(self.set(&place, key, &value)?.into_iter().collect())
    }

    /// Refuses values that are possible one by one and not together.
    pub(super) fn check(&self) -> Result<(), SettingsError> {
        let clash = |key: &str, other: &str, port: u16| SettingsError::BadValue {
            place: "configuration".into(),
            key: key.into(),
            reason: format!("{port} is `{other}` already"),
        };
        let meets_admin = self.rpc_address.is_unspecified() || self.rpc_address == IpAddr::from([127, 0, 0, 1]);
        let (cql, shard_aware) = (self.native_transport_port, self.shard_aware_port);
        if cql != 0 && cql == shard_aware {
            return Err(clash("shard_aware_port", "native_transport_port", cql));
        }
        for (name, port) in [("native_transport_port", cql), ("shard_aware_port", shard_aware)] {
            if meets_admin && port != 0 && port == self.admin_port {
                return Err(clash("admin_port", name, port));
            }
        }
        Ok(())
    }

    /// Sets one key. `Some` is a warning: the key is Cassandra's and has no effect here.
    pub(super) fn set(&mut self, place: &str, key: &str, value: &Value) -> Result<Option<String>, SettingsError> {
        if let Some(reason) = unmet(key, value) {
            return Err(SettingsError::BadValue { place: place.to_owned(), key: key.to_owned(), reason });
        }
        if IGNORED.contains(&key) {
            return Ok(Some(format!("{place}: `{key}` has no effect in Helenus and is ignored")));
        }
        if !KEYS.contains(&key) {
            let near = KEYS.iter().find(|known| near(known, key));
            let hint = near.map_or(String::new(), |known| format!(" (did you mean `{known}`?)"));
            return Err(SettingsError::UnknownKey { place: place.to_owned(), key: key.to_owned(), hint });
        }
        self.assign(key, value).map(|()| None).map_err(|reason| SettingsError::BadValue {
            place: place.to_owned(),
            key: key.to_owned(),
            reason,
        })
    }

    fn assign(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match key {
            "admin_port" => self.admin_port = number(value, 0, 65_535)?,
            "auto_snapshot" => self.auto_snapshot = boolean(value)?,
            "batch_size_fail_threshold" => self.batch_size_fail_bytes = units::bytes(&text(value)?)?,
            "batch_size_warn_threshold" => self.batch_size_warn_bytes = units::bytes(&text(value)?)?,
            "cluster_name" => self.cluster_name = text(value)?,
            "commit_failure_policy" => {
                self.commit_failure_policy = match text(value)?.as_str() {
                    "stop" | "die" | "stop_commit" => CommitFailurePolicy::Stop,
                    "ignore" => CommitFailurePolicy::Quarantine,
                    other => return Err(format!("`{other}` is not one of stop, die, stop_commit, ignore")),
                }
            }
            "commitlog_segment_size" => {
                self.commitlog_segment_bytes = within(units::bytes(&text(value)?)?, 1 << 20, 1 << 30)?;
            }
            "commitlog_sync" => {
                self.commitlog_sync = match text(value)?.as_str() {
                    "periodic" => CommitlogSync::Periodic,
                    "batch" => CommitlogSync::Batch,
                    "group" => CommitlogSync::Group,
                    other => return Err(format!("`{other}` is not one of periodic, batch, group")),
                }
            }
            "commitlog_sync_group_window" => self.commitlog_sync_group_window = duration(value)?,
            "commitlog_sync_period" => self.commitlog_sync_period = duration(value)?,
            "commitlog_total_space" => self.commitlog_total_bytes = units::bytes(&text(value)?)?,
            "cpuset" => self.cpuset = Some(allowed_cpus(&text(value)?)?),
            "data_file_directories" => self.data_dir = one_directory(value)?,
            "disk_reserve" => self.disk_reserve_bytes = units::bytes(&text(value)?)?,
            "file_cache_size" => self.file_cache_bytes = within(units::bytes(&text(value)?)?, 0, memory_bytes())?,
            "memtable_offheap_space" => {
                self.memtable_bytes = within(units::bytes(&text(value)?)?, 4 << 20, memory_bytes())?;
            }
            _ => return self.assign_network(key, value),
        }
        Ok(())
    }

    fn assign_network(&mut self, key: &str, value: &Value) -> Result<(), String> {
        match key {
            "native_transport_max_concurrent_connections" => {
                self.native_transport_max_concurrent_connections = unlimited(value)?;
            }
            "native_transport_max_concurrent_requests" => {
                self.native_transport_max_requests_in_flight = number(value, 1, 32_768)?;
            }
            "native_transport_max_frame_size" => {
                let bytes = units::bytes(&text(value)?)?;
                self.native_transport_max_frame_bytes = within(bytes, 64 << 10, 256 << 20)?;
            }
            "native_transport_port" => self.native_transport_port = number(value, 0, 65_535)?,
            "num_tokens" => self.num_tokens = number(value, 1, 256)?,
            "overprovisioned" => self.overprovisioned = boolean(value)?,
            "range_request_timeout" => self.range_request_timeout = duration(value)?,
            "read_request_timeout" => self.read_request_timeout = duration(value)?,
            "rpc_address" => self.rpc_address = address(&text(value)?)?,
            "scylla_shard_info" => self.scylla_shard_info = boolean(value)?,
            "shard_aware_port" => self.shard_aware_port = number(value, 0, 65_535)?,
            "shards" => self.shards = number(value, 0, u64::from(SHARDS_MAX))?,
            "truncate_request_timeout" => self.truncate_request_timeout = duration(value)?,
            "write_request_timeout" => self.write_request_timeout = duration(value)?,
            _ => return Err("has no effect yet".into()),
        }
        Ok(())
    }
}

/// The line of `key` in the file, from 1.
fn line_of(text: &str, key: &str) -> usize {
    let starts = |line: &str| {
        let line = line.trim_start().trim_start_matches(['"', '\'']);
        line.strip_prefix(key).is_some_and(|rest| rest.trim_start_matches(['"', '\'']).trim_start().starts_with(':'))
    };
    text.lines().position(starts).map_or(1, |at| at + 1)
}

/// Whether two names differ by little enough that one was meant.
fn near(known: &str, given: &str) -> bool {
    let plain = |name: &str| name.replace(['-', '_'], "").to_lowercase();
    let (known, given) = (plain(known), plain(given));
    given.len() >= 4 && (known == given || known.starts_with(&given) || given.starts_with(&known))
}

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        _ => Err("expected one value".into()),
    }
}

fn boolean(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "expected true or false".into())
}

fn number<T: TryFrom<u64>>(value: &Value, low: u64, high: u64) -> Result<T, String> {
    let wrong = || format!("expected a whole number from {low} to {high}");
    let number = value.as_u64().filter(|number| (low..=high).contains(number)).ok_or_else(wrong)?;
    T::try_from(number).map_err(|_| wrong())
}

/// A count where -1, as in cassandra.yaml, means no limit.
fn unlimited(value: &Value) -> Result<u64, String> {
    if value.as_i64() == Some(-1) { Ok(u64::MAX) } else { number(value, 1, u64::MAX) }
}

fn within(value: u64, low: u64, high: u64) -> Result<u64, String> {
    if (low..=high).contains(&value) { Ok(value) } else { Err(format!("must be from {low} to {high} bytes")) }
}

fn duration(value: &Value) -> Result<Duration, String> {
    let duration = units::duration(&text(value)?)?;
    if duration.is_zero() { Err("must be longer than 0".into()) } else { Ok(duration) }
}

/// CPUs that this process may use.
fn allowed_cpus(list: &str) -> Result<Vec<usize>, String> {
    let (cpus, allowed) = (units::cpu_list(list)?, io::allowed_cores());
    match cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        Some(cpu) if !allowed.is_empty() => {
            Err(format!("CPU {cpu} is not among those that this process may use: {}", units::show_cpu_list(&allowed)))
        }
        _ => Ok(cpus),
    }
}

/// What the machine has; where it does not say, no bound.
fn memory_bytes() -> u64 {
    let read = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = read.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    total.map_or(u64::MAX, |kib: u64| kib.saturating_mul(1024))
}

fn address(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::from([127, 0, 0, 1]));
    }
    text.parse().map_err(|_| format!("`{text}` is not an IP address"))
}

fn one_directory(value: &Value) -> Result<PathBuf, String> {
    match value {
        Value::String(path) if !path.is_empty() => Ok(PathBuf::from(path)),
        Value::Sequence(paths) => match paths.as_slice() {
            [Value::String(path)] if !path.is_empty() => Ok(PathBuf::from(path)),
            _ => Err("expected exactly one directory: Helenus keeps its data in one".into()),
        },
        _ => Err("expected a directory".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Settings, Vec<String>), String> {
        let mut settings = Settings::default();
        let warnings = settings.read_yaml(Path::new("h.yaml"), text).map_err(|error| error.to_string())?;
        Ok((settings, warnings))
    }

    #[test]
    fn cassandras_names_and_units_are_read() {
        let (settings, warnings) = read(concat!(
            "cluster_name: Troy\ncommitlog_sync: batch\ncommitlog_segment_size: 8MiB\n",
            "read_request_timeout: 1500ms\ndata_file_directories: [/var/lib/helenus]\n",
            "native_transport_max_concurrent_connections: -1\nkey_cache_size: 0MiB\nauto_snapshot: false\n",
        ))
        .expect("valid");
        assert_eq!(settings.cluster_name, "Troy");
        assert_eq!(settings.commitlog_sync, CommitlogSync::Batch);
        assert_eq!(settings.commitlog_segment_bytes, 8 << 20);
        assert_eq!(settings.read_request_timeout, Duration::from_millis(1500));
        assert_eq!(settings.data_dir, Path::new("/var/lib/helenus"));
        assert_eq!(settings.native_transport_max_concurrent_connections, u64::MAX);
        assert!(!settings.auto_snapshot && Settings::default().auto_snapshot);
        assert_eq!(warnings, ["h.yaml:7: `key_cache_size` has no effect in Helenus and is ignored"]);
    }

    #[test]
    fn an_empty_file_changes_nothing() {
        assert_eq!(read("# nothing\n").expect("valid"), (Settings::default(), vec![]));
    }

    #[test]
    fn what_is_wrong_is_said_with_file_and_line() {
        let check = |text: &str, expected: &str| assert_eq!(read(text).expect_err(text), expected);
        check("a: 1\n", "h.yaml:1: unknown setting `a`");
        check(
            "cluster_name: x\nshard_aware-port: 1\n",
            "h.yaml:2: unknown setting `shard_aware-port` (did you mean `shard_aware_port`?)",
        );
        check(
            "\nnative_transport_port: 70000\n",
            "h.yaml:2: `native_transport_port`: expected a whole number from 0 to 65535",
        );
        check("commitlog_sync: fast\n", "h.yaml:1: `commitlog_sync`: `fast` is not one of periodic, batch, group");
        check("rpc_address: here\n", "h.yaml:1: `rpc_address`: `here` is not an IP address");
        check(
            "data_file_directories: [/a, /b]\n",
            "h.yaml:1: `data_file_directories`: expected exactly one directory: Helenus keeps its data in one",
        );
        assert!(read("- a\n").expect_err("a list").contains("expected settings"));
        assert!(read("a: [").expect_err("not YAML").contains("line"));
    }

    #[test]
    fn an_argument_is_read_as_a_line_of_the_file() {
        let mut settings = Settings::default();
        settings.set_argument("shards=3").expect("valid");
        assert_eq!(settings.shards, 3);
        let error = settings.set_argument("shards=many").expect_err("not a number").to_string();
        assert_eq!(error, "--set shards=many: `shards`: expected a whole number from 0 to 1024");
        assert!(settings.set_argument("shards").is_err());
    }

    #[test]
    fn what_this_machine_does_not_have_is_refused() {
        let set = |argument: &str| Settings::default().set_argument(argument).map_err(|error| error.to_string());
        let refused = set("cpuset=4095").expect_err("no such CPU");
        let allowed = units::show_cpu_list(&io::allowed_cores());
        let says = format!("`cpuset`: CPU 4095 is not among those that this process may use: {allowed}");
        assert!(refused.contains(&says), "{refused}");
        assert!(set(&format!("cpuset={allowed}")).is_ok());
        for argument in [
            "memtable_offheap_space=1000000GiB",
            "file_cache_size=1000000GiB",
            "shards=1025",
            "shards=-1",
            "commitlog_sync_period=0ms",
            "read_request_timeout=0s",
            "data_file_directories=\"\"",
            "disk_reserve=-1MiB",
        ] {
            assert!(set(argument).is_err(), "{argument}");
        }
    }

    #[test]
    fn ports_differ_from_one_another() {
        let check = |ports: [u16; 3], address: &str| {
            let [native_transport_port, shard_aware_port, admin_port] = ports;
            let rpc_address = address.parse().expect("an address");
            let settings =
                Settings { native_transport_port, shard_aware_port, admin_port, rpc_address, ..Settings::default() };
            settings.check().map_err(|error| error.to_string())
        };
        assert_eq!(check([0, 0, 0], "127.0.0.1"), Ok(()));
        assert_eq!(check([7, 8, 7], "127.0.0.2"), Ok(()));
        let clash = Err("configuration: `shard_aware_port`: 7 is `native_transport_port` already".to_owned());
        assert_eq!(check([7, 7, 9], "127.0.0.2"), clash);
        assert!(check([7, 8, 7], "127.0.0.1").is_err());
        assert!(check([7, 8, 8], "0.0.0.0").is_err());
    }

    #[test]
    fn every_key_can_be_assigned() {
        for key in KEYS {
            let cpu = io::allowed_cores()[0].to_string();
            let samples = ["1", &cpu, "true", "16MiB", "10ms", "127.0.0.1", "/tmp", "periodic", "stop"];
            let mut settings = Settings::default();
            let accepted = samples.iter().any(|sample| settings.set_argument(&format!("{key}={sample}")).is_ok());
            assert!(accepted, "no sample fits {key}");
        }
    }

    #[test]
    fn protection_that_is_not_here_is_refused() {
        let set = |argument: &str| Settings::default().set_argument(argument).map_err(|error| error.to_string());
        for open in ["authenticator=AllowAllAuthenticator", "client_encryption_options={enabled: false}"] {
            assert_eq!(set(open).map(|warnings| warnings.len()), Ok(1), "{open}");
        }
        for (asked, says) in [
            ("authenticator=PasswordAuthenticator", "PasswordAuthenticator"),
            ("authorizer={class_name: org.apache.cassandra.auth.CassandraAuthorizer}", "may do everything"),
            ("client_encryption_options={enabled: true}", "TLS"),
        ] {
            assert!(set(asked).is_err_and(|error| error.contains(says)), "{asked}");
        }
    }
}
