//! One process's life: probe, lock, start the shards, say READY, wait for a signal, drain, stop.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::admin;
use crate::base::ids::ShardId;
use crate::base::plants::Planted;
use crate::commitlog::{DamagePolicy, LogConfig, SyncMode};
use crate::io::{self, Io, Mesh, Outside, RealConfig, Running, TaskClass};
use crate::net::{Limits, Net, Ports, listen};
use crate::plan::BatchLimits;
use crate::plan::system_rows::Addresses;
use crate::protocol::CqlError;
use crate::router::Timeouts;
use crate::router::message::{Message, Reply, Request};
use crate::server::boot::{BootError, NodeConfig, boot};
use crate::server::directory::take_directory;
use crate::server::ports::reserve_ports;
use crate::server::settings::{CommitFailurePolicy, CommitlogSync, Settings};
use crate::shard::READ_TURN_PLACES;
use crate::shard::device::Device;

/// How long connections may take to be answered once the process is told to stop.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);
/// The device is measured so long after the first start serves: the log's whole segments are zeroed meanwhile.
const MEASURE_AFTER: Duration = Duration::from_secs(10);
/// Messages each ordered pair of shards may have under way.
const MESH_CAPACITY: usize = 1024;

/// Why the process ended otherwise than asked.
#[derive(Debug)]
pub enum NodeError {
    /// The data directory is refused: exit status 3.
    Directory(String),
    /// Anything else: exit status 1.
    Failed(String),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeError::Directory(reason) | NodeError::Failed(reason) => f.write_str(reason),
        }
    }
}

impl From<BootError> for NodeError {
    fn from(error: BootError) -> Self {
        match error {
            BootError::Directory(error) => NodeError::Directory(error.to_string()),
            error => NodeError::Failed(error.to_string()),
        }
    }
}

/// What a shard tells the main thread while it starts.
enum Said {
    /// Shard 0 listens here.
    Listening(Ports),
    /// A shard that serves.
    Serving,
    Failed(NodeError),
}

/// Runs the server until a signal ends it.
pub fn run(settings: &Settings) -> Result<(), NodeError> {
    let _lock = take_directory(&settings.data_dir)?;
    let mut settings = settings.clone();
    let reserved = reserve_ports(&mut settings)?;
    let settings = &settings;
    let report = io::probe(&settings.data_dir).map_err(|error| NodeError::Failed(error.to_string()))?;
    for warning in report.warnings() {
        tracing::warn!("{warning}");
    }
    let shards = shard_count(settings);
    let (say, said) = channel();
    let running = start_shards(settings, shards, say)?;
    let ports = wait_until_serving(&said, shards)?;
    let admin = admin::start(settings.admin_port, running.outside(), admin_info(settings, shards, ports))
        .map_err(|error| NodeError::Failed(format!("the admin endpoint cannot listen: {error}")))?;
    drop(reserved);
    println!(
        "READY cql={} shard_aware={} admin={admin} shards={shards} pid={}",
        ports.cql,
        ports.shard_aware,
        std::process::id()
    );
    let signal = io::wait_for_signal();
    tracing::info!(?signal, "stopping");
    stop(running, shards)
}

/// One shard per allowed core, unless told otherwise.
fn shard_count(settings: &Settings) -> u16 {
    if settings.shards > 0 {
        return settings.shards;
    }
    let cores = settings.cpuset.as_ref().map_or_else(|| io::allowed_cores().len(), Vec::len);
    u16::try_from(cores).unwrap_or(crate::shard::root::SHARDS_MAX).clamp(1, crate::shard::root::SHARDS_MAX)
}

fn start_shards(settings: &Settings, shards: u16, say: Sender<Said>) -> Result<Running<Message>, NodeError> {
    let config = RealConfig {
        shards,
        cpus: settings.cpuset.clone(),
        pin: !settings.overprovisioned,
        mesh_capacity: MESH_CAPACITY,
    };
    let settings = settings.clone();
    io::start_real(config, move |io, mesh| {
        let (settings, say) = (settings.clone(), say.clone());
        async move { serve(io, mesh, settings, say).await }
    })
    .map_err(|error| NodeError::Failed(format!("the shards cannot start: {error}")))
}

/// One shard's life.
async fn serve(io: Io, mesh: Mesh<Message>, settings: Settings, say: Sender<Said>) {
    // The main thread outlives the shards; a send fails only where it has given up already.
    let tell = move |said| drop(say.send(said));
    let mut config = node_config(&settings);
    let device = if settings.overprovisioned { None } else { Device::load(&io, &settings.data_dir).await };
    config.log.method = device.map_or(config.log.method, |device| device.sync_method());
    let booted = match boot(io.clone(), mesh, &config).await {
        Ok(booted) => booted,
        Err(error) => return tell(Said::Failed(error.into())),
    };
    let net = Net::new(io.clone(), booted.router.clone(), limits(&settings), booted.local);
    if settings.scylla_shard_info {
        net.announce_shards(settings.shard_aware_port);
    }
    if settings.rpc_address.is_unspecified() {
        net.show_connected_address();
    }
    io.spawn(TaskClass::Foreground, booted.router.clone().run(booted.early));
    if io.shard_id() == ShardId(0) {
        let ports = listen(&net, settings.rpc_address, settings.native_transport_port, settings.shard_aware_port).await;
        match ports {
            Ok(ports) => tell(Said::Listening(ports)),
            Err(error) => {
                let address = settings.rpc_address;
                tell(Said::Failed(NodeError::Failed(format!("cannot listen on {address}: {error}"))));
            }
        }
    }
    tell(Said::Serving);
    if io.shard_id() == ShardId(0) && device.is_none() && !settings.overprovisioned {
        io.spawn(TaskClass::Compaction, measure_device(io.clone(), settings.data_dir.clone()));
    }
    booted.router.closed().await;
}

/// Measures the device of a directory in which that was not done yet. The next start goes by it.
async fn measure_device(io: Io, dir: PathBuf) {
    io.sleep(MEASURE_AFTER).await;
    match Device::measure(&io, &dir).await {
        Ok(device) => tracing::info!(
            write_then_sync_us = device.write_then_sync_us,
            synced_write_us = device.synced_write_us,
            next_start = ?device.sync_method(),
            "the device is measured"
        ),
        Err(error) => tracing::warn!(%error, "the device could not be measured; the next start tries again"),
    }
}

/// Waits until every shard serves and shard 0 listens.
fn wait_until_serving(said: &Receiver<Said>, shards: u16) -> Result<Ports, NodeError> {
    let mut ports = None;
    let mut serving = 0;
    let mut failed: Option<NodeError> = None;
    loop {
        match said.recv() {
            Ok(Said::Listening(at)) => ports = Some(at),
            Ok(Said::Serving) => serving += 1,
            // The first reason is often another shard's; one that names the directory says more.
            Ok(Said::Failed(error)) => match (&failed, &error) {
                (None, _) | (_, NodeError::Directory(_)) => failed = Some(error),
                _ => {}
            },
            Err(_) => return Err(failed.unwrap_or_else(|| NodeError::Failed("the shards ended while starting".into()))),
        }
        if let (Some(ports), true) = (ports, serving == shards) {
            return Ok(ports);
        }
        if failed.is_some() {
            // Reasons of other shards are on their way; a moment is enough for those that matter.
            while let Ok(Said::Failed(error)) = said.recv_timeout(Duration::from_millis(200)) {
                if matches!(error, NodeError::Directory(_)) {
                    failed = Some(error);
                }
            }
            return Err(failed.expect("just looked at"));
        }
    }
}

/// Answers what is in flight, syncs, and ends.
fn stop(running: Running<Message>, shards: u16) -> Result<(), NodeError> {
    let outside = running.outside();
    let deadline = Instant::now() + DRAIN_PATIENCE;
    for shard in (0..shards).map(ShardId) {
        ask(&outside, shard, Request::Shutdown).map_err(failed)?;
    }
    while open_connections(&outside, shards)? > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(10));
    }
    for shard in (0..shards).map(ShardId) {
        ask(&outside, shard, Request::Close).map_err(failed)?;
    }
    running.join().map_err(|error| NodeError::Failed(error.to_string()))?;
    tracing::info!("stopped");
    Ok(())
}

fn failed(error: CqlError) -> NodeError {
    NodeError::Failed(error.message().to_owned())
}

fn open_connections(outside: &Outside<Message>, shards: u16) -> Result<u64, NodeError> {
    let mut open = 0;
    for shard in (0..shards).map(ShardId) {
        if let Reply::Report(reports) = ask(outside, shard, Request::Report).map_err(failed)? {
            open += reports.iter().map(|report| report.connections).sum::<u64>();
        }
    }
    Ok(open)
}

/// Asks a shard from this thread and waits for its answer.
fn ask(outside: &Outside<Message>, shard: ShardId, request: Request) -> Result<Reply, CqlError> {
    let (sender, receiver) = channel();
    let answer = Box::new(move |reply| drop(sender.send(reply)));
    outside.send(shard, Message::Outside { request, answer });
    receiver.recv().unwrap_or_else(|_| Err(CqlError::server_error("the shard has ended")))
}

fn node_config(settings: &Settings) -> NodeConfig {
    let mode = match settings.commitlog_sync {
        CommitlogSync::Periodic => SyncMode::Periodic { period: settings.commitlog_sync_period },
        CommitlogSync::Batch => SyncMode::Batch,
        CommitlogSync::Group => SyncMode::Group { window: settings.commitlog_sync_group_window },
    };
    let segment_bytes = u32::try_from(settings.commitlog_segment_bytes).unwrap_or(u32::MAX) & !4095;
    NodeConfig {
        data_dir: settings.data_dir.clone(),
        cluster_name: settings.cluster_name.clone(),
        log: LogConfig { segment_bytes, total_bytes: settings.commitlog_total_bytes, mode, ..LogConfig::default() },
        damage: match settings.commit_failure_policy {
            CommitFailurePolicy::Stop => DamagePolicy::Refuse,
            CommitFailurePolicy::Quarantine => DamagePolicy::Quarantine,
        },
        memtable_bytes: settings.memtable_bytes,
        cache_bytes: settings.file_cache_bytes,
        read_turn_places: READ_TURN_PLACES,
        disk_reserve_bytes: settings.disk_reserve_bytes,
        auto_snapshot: settings.auto_snapshot,
        compact: true,
        timeouts: Timeouts {
            read: settings.read_request_timeout,
            range: settings.range_request_timeout,
            write: settings.write_request_timeout,
            truncate: settings.truncate_request_timeout,
            operation: Duration::from_secs(3600),
        },
        addresses: Addresses::one(shown(settings.rpc_address), settings.native_transport_port),
        num_tokens: settings.num_tokens,
        planted: Planted::default(),
    }
}

/// The address that the node's row in `system.local` holds: never the unspecified one. A node that listens on every
/// address shows each client the one it connected to instead.
fn shown(address: IpAddr) -> IpAddr {
    if address.is_unspecified() { IpAddr::from([127, 0, 0, 1]) } else { address }
}

fn limits(settings: &Settings) -> Limits {
    let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    Limits {
        frame_bytes_max: size(settings.native_transport_max_frame_bytes),
        connections_max: settings.native_transport_max_concurrent_connections,
        in_flight_max: size(settings.native_transport_max_requests_in_flight),
        batch: BatchLimits {
            warn_bytes: size(settings.batch_size_warn_bytes),
            fail_bytes: size(settings.batch_size_fail_bytes),
            ..BatchLimits::default()
        },
        ..Limits::default()
    }
}

fn admin_info(settings: &Settings, shards: u16, ports: Ports) -> admin::Info {
    admin::Info {
        cluster_name: settings.cluster_name.clone(),
        data_dir: settings.data_dir.clone(),
        cql: ports.cql,
        shard_aware: ports.shard_aware,
        shards,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_never_told_the_unspecified_address() {
        assert_eq!(shown(IpAddr::from([0, 0, 0, 0])), IpAddr::from([127, 0, 0, 1]));
        assert_eq!(shown(IpAddr::from([10, 0, 0, 1])), IpAddr::from([10, 0, 0, 1]));
    }
}
