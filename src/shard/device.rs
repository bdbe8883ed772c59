//! What the device under a data directory does best. It is measured once a directory, after the first start serves, and
//! kept in a file of its own; every later start goes by it. Which way of syncing is faster differs from one device to the
//! next, and both are right: a measurement that is lost or damaged costs nothing but time.

use std::path::Path;

use super::envelope::{self, BodyReader, BodyWriter, FileKind, FrameError};
use crate::base::plants::Planted;
use crate::commitlog::SyncMethod;
use crate::io::{ALIGN_BYTES, Io, IoClass, IoError, OpenHow};

/// The measurement's file.
pub const DEVICE_FILE: &str = "DEVICE";
/// What is written to while the device is measured; removed afterwards, and by the next start where that was cut short.
pub const PROBE_FILE: &str = "DEVICE.probe";

const KIND: FileKind = FileKind { magic: *b"HLNSDEVC", version: 1, noun: "Helenus device measurement" };
/// Writes by each method, in turn: the median of so many stands against a neighbour's burst.
const ROUNDS: usize = 33;

/// The median times of one durable 4 KiB write into a file that was written before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// A write, then a sync of the file's data.
    pub write_then_sync_us: u32,
    /// One write that is synced itself.
    pub synced_write_us: u32,
}

impl Device {
    /// The faster method; the one write where they are equal, since it is one system call.
    pub fn sync_method(&self) -> SyncMethod {
        if self.write_then_sync_us < self.synced_write_us { SyncMethod::WriteThenSync } else { SyncMethod::SyncedWrite }
    }

    /// What was measured in this directory. `None` where nothing was, or it cannot be read: then it is measured again.
    pub async fn load(io: &Io, dir: &Path) -> Option<Device> {
        let bytes = io.read_file(&dir.join(DEVICE_FILE)).await.ok()?;
        match Self::decode(&bytes) {
            Ok(device) => Some(device),
            Err(error) => {
                tracing::warn!(file = %dir.join(DEVICE_FILE).display(), %error, "the device is measured again");
                None
            }
        }
    }

    /// Measures, and keeps it for the next start.
    pub async fn measure(io: &Io, dir: &Path) -> Result<Device, IoError> {
        let probe = dir.join(PROBE_FILE);
        let measured = Self::probe(io, &probe).await;
        let removed = io.remove_file(&probe).await;
        let device = measured?;
        removed?;
        envelope::replace(io, dir, DEVICE_FILE, &device.encode(), Planted::default()).await?;
        Ok(device)
    }

    async fn probe(io: &Io, path: &Path) -> Result<Device, IoError> {
        let file = io.open(path, OpenHow::CreateOrTruncate, IoClass::Compaction).await?;
        file.allocate_zeroed((2 * ROUNDS * ALIGN_BYTES) as u64).await?;
        let mut buf = io.buffer(ALIGN_BYTES);
        let (mut write_then_sync, mut synced_write) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            let offset_bytes = (2 * round * ALIGN_BYTES) as u64;
            let began_ns = io.now_ns();
            let (back, written) = file.write_at(buf, offset_bytes).await;
            written?;
            file.sync_data().await?;
            let between_ns = io.now_ns();
            let (back, written) = file.write_at_synced(back, offset_bytes + ALIGN_BYTES as u64).await;
            written?;
            buf = back;
            write_then_sync.push(between_ns - began_ns);
            synced_write.push(io.now_ns() - between_ns);
        }
        Ok(Device { write_then_sync_us: median_us(write_then_sync), synced_write_us: median_us(synced_write) })
    }

    fn encode(&self) -> Vec<u8> {
        let mut body = BodyWriter::default();
        body.u32(self.write_then_sync_us);
        body.u32(self.synced_write_us);
        envelope::frame(KIND, &body.0)
    }

    fn decode(bytes: &[u8]) -> Result<Device, FrameError> {
        let mut body: BodyReader<'_> = envelope::unframe(KIND, bytes)?;
        let device = Device {
            write_then_sync_us: body.u32("write then sync, us")?,
            synced_write_us: body.u32("synced write, us")?,
        };
        body.finish()?;
        Ok(device)
    }
}

fn median_us(mut times_ns: Vec<u64>) -> u32 {
    times_ns.sort_unstable();
    u32::try_from(times_ns[times_ns.len() / 2] / 1000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::io::sim::{DiskOp, Faults, Planned, Simulation};

    const DIR: &str = "/data";

    async fn fresh(io: &Io) -> &'static Path {
        io.create_dir_all(Path::new(DIR)).await.unwrap();
        Path::new(DIR)
    }

    #[test]
    fn a_measurement_is_kept_and_leaves_nothing_else() {
        let sim = Simulation::new(1, Faults::NONE);
        sim.run_on_node(|io| async move {
            let dir = fresh(&io).await;
            assert_eq!(Device::load(&io, dir).await, None);
            let device = Device::measure(&io, dir).await.unwrap();
            assert!(device.write_then_sync_us > 0 && device.synced_write_us > 0, "{device:?}");
            assert_eq!(Device::load(&io, dir).await, Some(device));
        })
        .unwrap();
        assert_eq!(sim.disk().files(), [Path::new("/data/DEVICE")]);
    }

    #[test]
    fn the_faster_method_is_taken() {
        let method = |write_then_sync_us, synced_write_us| Device { write_then_sync_us, synced_write_us }.sync_method();
        assert_eq!(method(64, 62), SyncMethod::SyncedWrite);
        assert_eq!(method(62, 64), SyncMethod::WriteThenSync);
        assert_eq!(method(64, 64), SyncMethod::SyncedWrite);
    }

    #[test]
    fn any_damage_is_as_if_nothing_was_measured() {
        let whole = Device { write_then_sync_us: 5, synced_write_us: 7 }.encode();
        let sim = Simulation::new(1, Faults::NONE);
        sim.run_on_node(|io| async move {
            let dir = fresh(&io).await;
            for at in 0..whole.len() {
                let mut bytes = whole.clone();
                bytes[at] ^= 1;
                io.write_file_synced(&dir.join(DEVICE_FILE), &bytes).await.unwrap();
                assert_eq!(Device::load(&io, dir).await, None, "byte {at}");
                io.write_file_synced(&dir.join(DEVICE_FILE), &whole[..at]).await.unwrap();
                assert_eq!(Device::load(&io, dir).await, None, "cut at {at}");
            }
        })
        .unwrap();
    }

    #[test]
    fn a_device_that_fails_gives_an_error_and_keeps_nothing() {
        let sim = Simulation::new(1, Faults::NONE);
        sim.plan_fault(Planned { op: DiskOp::Sync, path_contains: PROBE_FILE.into(), after: 3, errno: 5 });
        let failed = sim.run_on_node(|io| async move { Device::measure(&io, fresh(&io).await).await }).unwrap();
        assert_eq!(failed.unwrap_err().raw_os, Some(5));
        assert!(sim.disk().files().is_empty());
    }
}
