//! What the real half's tests share.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{RealConfig, start_real};
use crate::io::{Io, Mesh};

/// How long a test may take before its process ends with a word, rather than hang.
const LIMIT: Duration = Duration::from_secs(60);

pub(super) fn config(shards: u16) -> RealConfig {
    RealConfig { shards, cpus: None, pin: false, mesh_capacity: 128 }
}

/// Runs `entry` on each of `shards` shards.
pub(super) fn on_shards<M, F, Fut>(shards: u16, entry: F)
where
    F: Fn(Io, Mesh<M>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
    M: Send + 'static,
{
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let (finished, waits) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if waits.recv_timeout(LIMIT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            eprintln!("{test}: a shard still waits after {LIMIT:?}");
            std::process::abort();
        }
    });
    start_real(config(shards), entry).expect("shards start").join().expect("shards end well");
    drop(finished);
}

/// Runs `entry` on one shard.
pub(super) fn on_one_shard<F>(entry: F)
where
    F: AsyncFnOnce(Io) + Send + 'static,
{
    let once = std::sync::Arc::new(std::sync::Mutex::new(Some(entry)));
    on_shards(1, move |io: Io, _: Mesh<()>| {
        let entry = once.lock().expect("not poisoned").take().expect("one shard");
        async move { entry(io).await }
    });
}

/// Runs `entry` on one shard that can send to itself.
pub(super) fn on_one_shard_with_mesh<F, Fut>(entry: F)
where
    F: Fn(Io, Mesh<u64>) -> Fut + Clone + Send + 'static,
    Fut: Future<Output = ()> + 'static,
{
    on_shards(1, entry);
}

/// A new directory, removed when the value is dropped.
pub(super) struct Scratch(PathBuf);

impl std::ops::Deref for Scratch {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // what is left is the system's to clean
    }
}

pub(super) fn scratch(name: &str) -> Scratch {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("helenus-io-{name}-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a scratch directory");
    Scratch(dir)
}
