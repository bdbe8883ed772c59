//! One shard of the engine in this process, over the real half of `io`: no server, no router, no sockets.

use std::path::PathBuf;
use std::rc::Rc;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use helenus::base::ids::StreamId;
use helenus::base::plants::Planted;
use helenus::commitlog::{LogConfig, ReplayOptions, SyncMode};
use helenus::io::{Io, Mesh, RealConfig, start_real};
use helenus::schema::partitioner::Sharding;
use helenus::schema::{Schema, SchemaOp, Table};
use helenus::shard::device::Device;
use helenus::shard::{LogStreams, READ_TURN_PLACES, Shard, ShardConfig, create_manifests};

/// How the shard is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Empty, and stays behind.
    pub data_dir: PathBuf,
    /// The core it is pinned to.
    pub core: Option<usize>,
    pub mode: SyncMode,
    pub memtable_bytes_max: u64,
    pub cache_bytes_max: usize,
}

/// A shard that serves.
pub struct Engine {
    pub io: Io,
    pub shard: Rc<Shard>,
    pub data_dir: PathBuf,
}

/// Starts a shard with these tables, does the work on it, and stops it.
pub fn run<T: Send + 'static>(
    options: Options,
    tables: fn() -> Vec<Rc<Table>>,
    work: impl AsyncFnOnce(&Engine) -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (tell, told) = channel();
    let core = options.core;
    let config = RealConfig { shards: 1, cpus: core.map(|core| vec![core]), pin: core.is_some(), mesh_capacity: 1 };
    let once = Arc::new(Mutex::new(Some((options, work, tell))));
    let running = start_real(config, move |io: Io, _: Mesh<()>| {
        let (options, work, tell) = once.lock().expect("not poisoned").take().expect("one shard");
        async move {
            let done = serve(io, options, tables, work).await;
            tell.send(done).expect("the caller waits for it");
        }
    });
    let running = running.map_err(|error| error.to_string())?;
    let done = told.recv().map_err(|_| "the shard ended early".to_owned());
    running.join().map_err(|error| error.to_string())?;
    done?
}

async fn serve<T>(
    io: Io,
    options: Options,
    tables: fn() -> Vec<Rc<Table>>,
    work: impl AsyncFnOnce(&Engine) -> Result<T, String>,
) -> Result<T, String> {
    let engine = open(io, options, tables()).await?;
    let done = work(&engine).await;
    engine.shard.close().await.map_err(|error| error.to_string())?;
    done
}

/// A shard in an empty directory, its log kept as the device likes it best.
async fn open(io: Io, options: Options, tables: Vec<Rc<Table>>) -> Result<Engine, String> {
    let Options { data_dir, mode, .. } = options.clone();
    let (logs, config) = (data_dir.join("commitlog"), config(options));
    let prepared = async {
        for dir in [&data_dir, &config.sstables_dir, &config.snapshots_dir, &logs] {
            io.create_dir_all(dir).await?;
        }
        io.sync_dir(&data_dir).await?;
        Device::measure(&io, &data_dir).await
    };
    let device = prepared.await.map_err(|error| error.to_string())?;
    let log = LogConfig { mode, method: device.sync_method(), ..LogConfig::default() };
    let opened = async {
        create_manifests(&io, &config).await?;
        let shard = Shard::open(io.clone(), config, StreamId(1)).await?;
        shard.open_tables(&schema(tables)).await?;
        let streams = LogStreams { dir: logs, own: StreamId(1), others: vec![], old: vec![] };
        let mut recovery = shard.replay(streams, ReplayOptions::default()).await?;
        shard.open_log(&mut recovery, log).await?;
        shard.finish_recovery(&mut recovery).await?;
        shard.start_tasks();
        Ok(shard)
    };
    let shard = opened.await.map_err(|error: helenus::shard::ShardError| error.to_string())?;
    Ok(Engine { io, shard, data_dir })
}

fn config(options: Options) -> ShardConfig {
    ShardConfig {
        sstables_dir: options.data_dir.join("sstables"),
        snapshots_dir: options.data_dir.join("snapshots"),
        data_dir: options.data_dir,
        sharding: Sharding::new(1),
        layout: 1,
        memtable_bytes_max: options.memtable_bytes_max,
        cache_bytes_max: options.cache_bytes_max,
        read_turn_places: READ_TURN_PLACES,
        disk_reserve_bytes: 0,
        mutation_bytes_max: LogConfig::default().record_bytes_max(),
        host_id: [7; 16],
        auto_snapshot: false,
        compact: true,
        planted: Planted::default(),
    }
}

fn schema(tables: Vec<Rc<Table>>) -> Schema {
    let mut schema = Schema::default();
    for table in tables {
        let name = table.keyspace.clone();
        schema.apply(&SchemaOp::PutKeyspace { name, durable_writes: true, replication: Default::default() });
        schema.apply(&SchemaOp::PutTable(Box::new((*table).clone())));
    }
    schema
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::micro::rows::flat_table;
    use crate::scratch::Scratch;

    #[test]
    fn a_shard_serves_and_what_fails_is_told() {
        let scratch = Scratch::new("engine-test").unwrap();
        let options = |name: &str| Options {
            data_dir: scratch.0.join(name),
            core: None,
            mode: SyncMode::Batch,
            memtable_bytes_max: 64 << 20,
            cache_bytes_max: 1 << 20,
        };
        let tables = || vec![flat_table(1)];
        let stored =
            run(options("one"), tables, async |engine: &Engine| Ok(engine.shard.store(flat_table(1).id).is_some()));
        assert_eq!(stored, Ok(true));
        let failed = run(options("two"), tables, async |_: &Engine| Err::<(), _>("no".to_owned()));
        assert_eq!(failed, Err("no".to_owned()));
    }
}
