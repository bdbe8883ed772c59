//! Open files of a simulation. An operation takes effect when its virtual delay ends, so those under way at once complete
//! in any order.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::disk::{Contents, Disk, NodeId};
use super::events::{Event, EventKey, WriteInFlight};
use super::faults::DiskOp;
use super::scheduler::Owner;
use super::trace::Kind;
use super::world::World;
use crate::io::{ALIGN_BYTES, AlignedBuf, IoError};

/// How long operations take, in microseconds.
const READ_US: (u64, u64) = (20, 150);
const WRITE_US: (u64, u64) = (20, 300);
pub(super) const SYNC_US: (u64, u64) = (50, 2_000);
pub(super) const NAME_US: (u64, u64) = (5, 100);

/// An open file, shared by its handles and its writes under way. It closes with the last of them.
pub(super) struct OpenFile {
    world: Rc<World>,
    node: NodeId,
    path: PathBuf,
    writable: bool,
}

impl OpenFile {
    /// Takes over an open of the disk, which it closes.
    pub fn new(world: Rc<World>, node: NodeId, path: &Path, writable: bool) -> Rc<Self> {
        Rc::new(OpenFile { world, node, path: path.to_path_buf(), writable })
    }

    pub fn node(&self) -> NodeId {
        self.node
    }

    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.world.disk.borrow_mut().close(self.node);
    }
}

#[derive(Clone)]
pub struct File {
    open: Rc<OpenFile>,
    owner: Owner,
}

impl File {
    pub(super) fn new(open: Rc<OpenFile>, owner: Owner) -> Self {
        File { open, owner }
    }

    pub fn path(&self) -> &Path {
        &self.open.path
    }

    /// As `crate::io::File::read_at`.
    pub async fn read_at(&self, mut buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<usize, IoError>) {
        assert_aligned(buf.len(), offset_bytes);
        let result = self.read(&mut buf, offset_bytes).await;
        (buf, result)
    }

    pub async fn write_at(&self, buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<(), IoError>) {
        assert_aligned(buf.len(), offset_bytes);
        self.write(buf, offset_bytes, false).await
    }

    pub async fn write_at_synced(&self, buf: AlignedBuf, offset_bytes: u64) -> (AlignedBuf, Result<(), IoError>) {
        assert_aligned(buf.len(), offset_bytes);
        self.write(buf, offset_bytes, true).await
    }

    /// A sync covers the writes that had completed when it began. Those that complete while it runs it covers or not.
    pub async fn sync_data(&self) -> Result<(), IoError> {
        let (world, node) = (self.world(), self.open.node);
        let began = self.mark();
        self.delay(SYNC_US).await;
        let mark = if world.disk_random.coin() { began } else { self.mark() };
        world.note(Kind::Sync, u64::from(node), mark);
        if let Some(errno) = world.disk_fault(DiskOp::Sync, &self.open.path) {
            self.with_contents("sync", |file| file.fail_sync(mark, &world.disk_random))?;
            return Err(self.error("sync", errno));
        }
        self.with_contents("sync", |file| file.sync(mark))
    }

    /// Durable when it returns; a crash before that leaves any part of the length, or nothing.
    pub async fn allocate_zeroed(&self, len_bytes: u64) -> Result<(), IoError> {
        self.check_writable("allocate")?;
        let world = self.world();
        self.delay(WRITE_US).await;
        self.fault("allocate", DiskOp::Write)?;
        let old_bytes = self.with_contents("allocate", |file| file.len() as u64)?;
        let room = world.disk.borrow().free_bytes();
        if len_bytes > old_bytes && room >= len_bytes - old_bytes {
            let reached = old_bytes + world.disk_random.below(len_bytes - old_bytes + 1);
            self.apply("allocate", |disk, node| disk.set_len(node, reached))?;
        }
        self.delay(SYNC_US).await;
        self.fault("allocate", DiskOp::Sync)?;
        world.note(Kind::Resize, u64::from(self.open.node), len_bytes);
        self.apply("allocate", |disk, node| disk.allocate_zeroed(node, len_bytes))
    }

    pub async fn set_len(&self, len_bytes: u64) -> Result<(), IoError> {
        self.check_writable("set_len")?;
        self.delay(NAME_US).await;
        self.fault("set_len", DiskOp::Write)?;
        self.world().note(Kind::Resize, u64::from(self.open.node), len_bytes);
        self.apply("set_len", |disk, node| disk.set_len(node, len_bytes))
    }

    #[expect(clippy::len_without_is_empty, reason = "a length that is asked of the system")]
    pub async fn len(&self) -> Result<u64, IoError> {
        self.delay(NAME_US).await;
        self.with_contents("len", |file| file.len() as u64)
    }

    pub(super) async fn read(&self, into: &mut [u8], offset_bytes: u64) -> Result<usize, IoError> {
        self.delay(READ_US).await;
        self.fault("read", DiskOp::Read)?;
        let offset = usize::try_from(offset_bytes).map_err(|_| self.error("read", libc::EINVAL))?;
        let count = self.with_contents("read", |file| file.read(offset, into))?;
        let sum = u64::from(crc32c::crc32c(&into[..count]));
        self.world().note(Kind::Read, u64::from(self.open.node) << 40 ^ offset_bytes, sum);
        Ok(count)
    }

    pub(super) async fn write(
        &self,
        buf: AlignedBuf,
        offset_bytes: u64,
        synced: bool,
    ) -> (AlignedBuf, Result<(), IoError>) {
        if let Err(error) = self.check_writable("write") {
            return (buf, Err(error));
        }
        let world = self.world();
        world.note(Kind::WriteStart, u64::from(self.open.node) << 40 ^ offset_bytes, buf.len() as u64);
        let state = if world.is_alive(self.owner) {
            let (low, high) = if synced { (WRITE_US.0 + SYNC_US.0, WRITE_US.1 + SYNC_US.1) } else { WRITE_US };
            let at_ns = world.now_ns() + world.disk_delay_ns((low, high));
            let (owner, file) = (self.owner, self.open.clone());
            let write = WriteInFlight { owner, file, offset_bytes, buf, synced, waker: None, detached: false };
            WriteState::Started(world.events.borrow_mut().add(at_ns, Event::Write(write)))
        } else {
            WriteState::Never { _buf: buf }
        };
        let (buf, result) = Write { world: world.clone(), state }.await;
        (buf, result.map_err(|errno| self.error("write", errno)))
    }

    fn world(&self) -> &Rc<World> {
        &self.open.world
    }

    fn mark(&self) -> u64 {
        self.world().disk.borrow().file(self.open.node).map_or(0, |file| file.mark())
    }

    async fn delay(&self, range_us: (u64, u64)) {
        let world = self.world();
        world.sleep(self.owner, world.disk_delay_ns(range_us)).await;
    }

    fn fault(&self, verb: &'static str, op: DiskOp) -> Result<(), IoError> {
        self.world().disk_fault(op, &self.open.path).map_or(Ok(()), |errno| Err(self.error(verb, errno)))
    }

    fn apply<T>(
        &self,
        verb: &'static str,
        change: impl FnOnce(&mut Disk, NodeId) -> Result<T, i32>,
    ) -> Result<T, IoError> {
        let result = change(&mut self.world().disk.borrow_mut(), self.open.node);
        result.map_err(|errno| self.error(verb, errno))
    }

    pub(super) fn with_contents<T>(
        &self,
        verb: &'static str,
        with: impl FnOnce(&mut Contents) -> T,
    ) -> Result<T, IoError> {
        self.apply(verb, |disk, node| disk.file_mut(node).map(with))
    }

    fn check_writable(&self, verb: &'static str) -> Result<(), IoError> {
        if self.open.writable { Ok(()) } else { Err(self.error(verb, libc::EBADF)) }
    }

    fn error(&self, verb: &'static str, errno: i32) -> IoError {
        IoError::os(verb, Some(&self.open.path), errno)
    }
}

fn assert_aligned(len_bytes: usize, offset_bytes: u64) {
    assert!(len_bytes.is_multiple_of(ALIGN_BYTES), "direct I/O of {len_bytes} bytes");
    assert!(offset_bytes.is_multiple_of(ALIGN_BYTES as u64), "direct I/O at {offset_bytes}");
}

enum WriteState {
    Started(EventKey),
    /// The node was down already: it never starts.
    Never {
        _buf: AlignedBuf,
    },
    Ended,
}

/// A write under way. Dropped, it still completes.
struct Write {
    world: Rc<World>,
    state: WriteState,
}

impl Future for Write {
    type Output = (AlignedBuf, Result<(), i32>);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let WriteState::Started(key) = self.state else { return Poll::Pending };
        let mut events = self.world.events.borrow_mut();
        match events.get_mut(key) {
            Some(Event::Write(write)) => {
                write.waker = Some(context.waker().clone());
                Poll::Pending
            }
            _ => match events.remove(key) {
                Some(Event::Written(buf, result)) => {
                    drop(events);
                    self.state = WriteState::Ended;
                    Poll::Ready((buf, result))
                }
                _ => Poll::Pending,
            },
        }
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        let WriteState::Started(key) = self.state else { return };
        let mut events = self.world.events.borrow_mut();
        match events.get_mut(key) {
            Some(Event::Write(write)) => (write.detached, write.waker) = (true, None),
            _ => drop(events.remove(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DiskOp, Faults, Halted, Planned, Simulation};
    use crate::io::{AlignedBuf, File, Io, IoClass, IoError, OpenHow, TaskClass};
    use std::collections::BTreeSet;
    use std::future::Future;
    use std::io::ErrorKind;
    use std::path::Path;
    use std::time::Duration;

    const LOG: &str = "/log";

    fn p(path: &str) -> &Path {
        Path::new(path)
    }

    fn block(byte: u8) -> AlignedBuf {
        let mut buf = AlignedBuf::new(4096);
        buf.fill(byte);
        buf
    }

    async fn new_file(io: &Io, path: &str) -> File {
        let file = io.open(p(path), OpenHow::CreateNew, IoClass::Log).await.expect("made");
        io.sync_dir(p("/")).await.expect("synced");
        file
    }

    fn on_node<F, Fut>(sim: &Simulation, task: F) -> Fut::Output
    where
        F: FnOnce(Io) -> Fut,
        Fut: Future + 'static,
    {
        sim.run_on_node(task).expect("runs to its end")
    }

    #[test]
    fn what_is_written_is_read_back_and_ends_where_the_file_ends() {
        let sim = Simulation::new(1, Faults::NONE);
        let read = on_node(&sim, |io| async move {
            let file = new_file(&io, LOG).await;
            file.write_at(block(1), 0).await.1.expect("written");
            file.write_at(block(2), 4096).await.1.expect("written");
            let (buf, count) = file.read_at(io.buffer(16384), 0).await;
            let past = file.read_at(io.buffer(4096), 8192).await.1;
            (count, buf[0], buf[8191], file.len().await, past, file.path() == p(LOG))
        });
        assert_eq!(read, (Ok(8192), 1, 2, Ok(8192), Ok(0), true));
    }

    #[test]
    fn a_file_opened_to_read_is_not_written() {
        let sim = Simulation::new(0, Faults::NONE);
        let errors = on_node(&sim, |io| async move {
            new_file(&io, LOG).await;
            let file = io.open(p(LOG), OpenHow::Read, IoClass::Read).await.expect("there");
            (file.write_at(block(0), 0).await.1.err(), file.set_len(0).await.err())
        });
        let errno = |error: Option<IoError>| error.and_then(|error| error.raw_os);
        assert_eq!((errno(errors.0), errno(errors.1)), (Some(libc::EBADF), Some(libc::EBADF)));
    }

    #[test]
    fn writes_under_way_complete_in_any_order() {
        let first_done = |seed| {
            let sim = Simulation::new(seed, Faults::NONE);
            on_node(&sim, |io| async move {
                let file = new_file(&io, LOG).await;
                let (a, b) = (file.write_at(block(1), 0), file.write_at(block(2), 0));
                let (mut a, mut b) = (Box::pin(a), Box::pin(b));
                let mut done = None;
                std::future::poll_fn(|context| {
                    let (a, b) = (a.as_mut().poll(context).is_ready(), b.as_mut().poll(context).is_ready());
                    done = if a {
                        Some(1)
                    } else if b {
                        Some(2)
                    } else {
                        None
                    };
                    if done.is_some() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
                })
                .await;
                done
            })
        };
        assert_eq!((0..20).map(first_done).collect::<BTreeSet<_>>(), BTreeSet::from([Some(1), Some(2)]));
    }

    #[test]
    fn a_write_whose_future_was_dropped_still_lands() {
        let sim = Simulation::new(0, Faults::NONE);
        let byte = on_node(&sim, |io| async move {
            let file = new_file(&io, LOG).await;
            let mut write = Box::pin(file.write_at(block(9), 0));
            std::future::poll_fn(|context| {
                assert!(write.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
            drop(write);
            io.sleep(Duration::from_secs(1)).await;
            file.read_at(io.buffer(4096), 0).await.0[0]
        });
        assert_eq!(byte, 9);
    }

    /// What one block holds after a crash, by sector: the synced 1, or the 2 that was written after it.
    fn after_crash(seed: u64, sync: bool) -> Vec<u8> {
        let sim = Simulation::new(seed, Faults::NONE);
        on_node(&sim, move |io| async move {
            let file = new_file(&io, LOG).await;
            file.write_at_synced(block(1), 0).await.1.expect("written");
            file.write_at(block(2), 0).await.1.expect("written");
            if sync {
                file.sync_data().await.expect("synced");
            }
        });
        sim.crash();
        let bytes = sim.disk().read(p(LOG)).expect("its name was synced");
        bytes.chunks(512).map(|sector| sector[0]).collect()
    }

    #[test]
    fn a_crash_keeps_the_synced_and_tears_the_rest() {
        let seen: BTreeSet<Vec<u8>> = (0..100).map(|seed| after_crash(seed, false)).collect();
        assert!(seen.contains(&vec![1; 8]) && seen.contains(&vec![2; 8]), "dropped, kept");
        assert!(seen.len() > 10, "and torn in many ways: {}", seen.len());
        assert!((0..100).all(|seed| after_crash(seed, true) == [2; 8]));
    }

    #[test]
    fn a_killed_process_loses_nothing_that_had_completed() {
        let mut vanished = 0;
        for seed in 0..50 {
            let sim = Simulation::new(seed, Faults::NONE);
            on_node(&sim, |io| async move {
                let file = io.open(p(LOG), OpenHow::CreateNew, IoClass::Log).await.expect("made");
                file.write_at(block(5), 0).await.1.expect("written");
            });
            sim.kill();
            assert_eq!(sim.disk().read(p(LOG)), Some(vec![5; 4096]));
            sim.crash();
            vanished += u32::from(sim.disk().read(p(LOG)).is_none());
        }
        assert!((5..45).contains(&vanished), "its name was still pending when the power went: {vanished}");
    }

    #[test]
    fn a_crash_in_the_middle_of_a_write_leaves_any_part_of_it() {
        let mut seen = BTreeSet::new();
        for seed in 0..200 {
            let sim = Simulation::new(seed, Faults::NONE);
            on_node(&sim, |io| async move {
                let file = new_file(&io, LOG).await;
                file.allocate_zeroed(8192).await.expect("allocated");
                io.spawn(TaskClass::Foreground, async move {
                    file.write_at_synced(block(3), 0).await.1.expect("written");
                });
                io.yield_now().await;
            });
            sim.crash();
            let bytes = sim.disk().read(p(LOG)).expect("there");
            assert_eq!(bytes.len(), 8192, "allocated is durable");
            seen.insert(bytes.chunks(512).map(|sector| sector[0] == 3).collect::<Vec<_>>());
        }
        assert!(seen.contains(&vec![false; 16]));
        assert!(seen.len() > 10, "{}", seen.len());
    }

    #[test]
    fn a_crash_in_the_middle_of_an_allocation_leaves_any_length() {
        let lengths: BTreeSet<usize> = (0..60)
            .map(|seed| {
                let sim = Simulation::new(seed, Faults::NONE);
                on_node(&sim, |io| async move {
                    let file = new_file(&io, LOG).await;
                    io.spawn(TaskClass::Foreground, async move {
                        file.allocate_zeroed(1 << 20).await.expect("allocated");
                    });
                });
                sim.run_for(Duration::from_micros(400)).expect("runs");
                sim.crash();
                sim.disk().read(p(LOG)).expect("there").len()
            })
            .collect();
        assert!(lengths.contains(&0) && lengths.len() > 5, "{lengths:?}");
    }

    #[test]
    fn a_failed_sync_is_final_for_some_of_the_data() {
        let lost = (0..60).filter(|seed| {
            let sim = Simulation::new(*seed, Faults::NONE);
            sim.plan_fault(Planned { op: DiskOp::Sync, path_contains: "log".into(), after: 0, errno: libc::EIO });
            on_node(&sim, |io| async move {
                let file = new_file(&io, LOG).await;
                file.write_at(block(4), 0).await.1.expect("written");
                let failed = file.sync_data().await.expect_err("planned");
                assert_eq!((failed.op, failed.raw_os), ("sync", Some(libc::EIO)));
                file.sync_data().await.expect("says that all is well");
            });
            sim.crash();
            sim.disk().read(p(LOG)) != Some(vec![4; 4096])
        });
        assert!((10..55).contains(&lost.count()));
    }

    #[test]
    fn faults_come_at_their_rates() {
        let faults = Faults { read_error_ppm: 300_000, write_error_ppm: 300_000, ..Faults::NONE };
        let sim = Simulation::new(8, Faults::NONE);
        let file = on_node(&sim, |io| async move { new_file(&io, LOG).await });
        sim.set_faults(faults);
        let failed = on_node(&sim, |io| async move {
            let (mut reads, mut writes) = (0, 0);
            for _ in 0..200 {
                writes += u32::from(file.write_at(block(1), 0).await.1.is_err());
                reads += u32::from(file.read_at(io.buffer(4096), 0).await.1.is_err());
            }
            (reads, writes)
        });
        assert!((30..100).contains(&failed.0) && (30..100).contains(&failed.1), "{failed:?}");
    }

    #[test]
    fn a_full_disk_says_so_and_goes_on_when_there_is_room() {
        let sim = Simulation::new(0, Faults { disk_capacity_bytes: 8192, ..Faults::NONE });
        let (file, error, free) = on_node(&sim, |io| async move {
            let file = new_file(&io, LOG).await;
            file.write_at(block(1), 0).await.1.expect("fits");
            let free = io.free_bytes(p("/")).await.expect("known");
            let (_, big) = file.write_at(io.buffer(16384), 4096).await;
            assert!(file.allocate_zeroed(1 << 20).await.is_err_and(|error| error.is_no_space()));
            (file, big.expect_err("does not fit"), free)
        });
        assert_eq!((error.kind, free), (ErrorKind::StorageFull, 4096));
        assert_eq!(error.to_string(), "write of /log: No space left on device (os error 28)");
        sim.disk().set_capacity_bytes(1 << 20);
        assert_eq!(on_node(&sim, |io| async move { file.write_at(io.buffer(16384), 4096).await.1 }), Ok(()));
    }

    #[test]
    fn no_operation_outlives_a_node_that_stopped_itself() {
        let sim = Simulation::new(0, Faults::NONE);
        let stopped = sim.run_on_node(|io| async move {
            let file = new_file(&io, LOG).await;
            io.fail_stop("for this test");
            file.write_at(block(1), 0).await
        });
        assert!(matches!(stopped, Err(Halted::FailStop { .. })));
        sim.run_for(Duration::from_secs(1)).expect("runs");
        assert_eq!(sim.disk().len_bytes(p(LOG)), Some(0));
    }

    /// Its files may be used for something else at the next start.
    #[test]
    fn no_write_that_was_under_way_lands_after_a_node_stopped_itself() {
        let mut landed = BTreeSet::new();
        for seed in 0..40 {
            let sim = Simulation::new(seed, Faults::NONE);
            let stopped = sim.run_on_node(|io| async move {
                let file = new_file(&io, LOG).await;
                let (writer, stopper) = (io.clone(), io.clone());
                io.spawn(TaskClass::Foreground, async move { drop(file.write_at(writer.buffer(4096), 0).await) });
                stopper.yield_now().await;
                stopper.fail_stop("for this test");
                stopper.sleep(Duration::from_secs(1)).await;
            });
            assert!(matches!(stopped, Err(Halted::FailStop { .. })));
            let at_stop = sim.disk().len_bytes(p(LOG));
            sim.run_for(Duration::from_secs(1)).expect("runs");
            assert_eq!(sim.disk().len_bytes(p(LOG)), at_stop, "seed {seed}");
            landed.insert(at_stop);
        }
        assert_eq!(landed, BTreeSet::from([Some(0), Some(4096)]), "it had landed, or it never does");
    }
}
