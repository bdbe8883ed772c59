//! What goes wrong in a simulation, and how often. Rates are per million of what they count.

use super::random::Random;

/// Rates of faults. All zero is a machine that never fails (tasks still run in any order, and I/O takes any time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// Of each sync of a file or a directory: EIO. Of the data it should have saved, some is lost, whatever later
    /// syncs say.
    pub sync_error_ppm: u32,
    /// Of each read: EIO. The data is whole; a later read may succeed.
    pub read_error_ppm: u32,
    /// Of each write, and of each change of a name: EIO. Any beginning of the write may have been written, and the
    /// name may have changed.
    pub write_error_ppm: u32,
    /// Of each disk operation: it takes up to half a second.
    pub slow_io_ppm: u32,
    /// Of each scheduler step: the wall clock jumps by up to an hour, back or forward.
    pub wall_jump_ppm: u32,
    /// Of each scheduler step while a node runs: the power goes (`Simulation::crash`).
    pub crash_ppm: u32,
    /// Of each send on a socket: the connection is reset instead.
    pub reset_ppm: u32,
    /// The disk's size. What would grow beyond it gets ENOSPC.
    pub disk_capacity_bytes: u64,
}

impl Faults {
    pub const NONE: Faults = Faults {
        sync_error_ppm: 0,
        read_error_ppm: 0,
        write_error_ppm: 0,
        slow_io_ppm: 0,
        wall_jump_ppm: 0,
        crash_ppm: 0,
        reset_ppm: 0,
        disk_capacity_bytes: u64::MAX,
    };

    /// A mix of faults chosen by seed: each kind is off in most seeds, so that each is also met alone. The disk's size
    /// stays unlimited; crashes at a random step come in every second seed.
    pub fn seeded(seed: u64) -> Faults {
        let random = Random::stream(seed, 0xFA);
        let sometimes = |one_in: u64, high_ppm: u64| {
            if random.below(one_in) == 0 { random.between(1, high_ppm) as u32 } else { 0 }
        };
        Faults {
            sync_error_ppm: sometimes(6, 20_000),
            read_error_ppm: sometimes(6, 10_000),
            write_error_ppm: sometimes(6, 10_000),
            slow_io_ppm: sometimes(3, 50_000),
            wall_jump_ppm: sometimes(4, 500),
            crash_ppm: sometimes(2, 500),
            reset_ppm: sometimes(6, 5_000),
            disk_capacity_bytes: u64::MAX,
        }
    }
}

impl Default for Faults {
    fn default() -> Self {
        Faults::NONE
    }
}

/// A kind of disk operation, for a fault that is planned rather than drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskOp {
    Read,
    Write,
    /// Of a file's data.
    Sync,
    /// Of a directory.
    SyncDir,
    /// Create, rename, link or remove a name.
    Name,
}

/// One planned fault: the operation of this kind, number `after` from now (0 = the next) on a path that contains
/// `path_contains`, fails with `errno`.
#[derive(Clone, Debug)]
pub struct Planned {
    pub op: DiskOp,
    pub path_contains: String,
    pub after: u32,
    pub errno: i32,
}

/// The planned faults that have not happened yet.
#[derive(Debug, Default)]
pub(super) struct Plan {
    waiting: Vec<Planned>,
}

impl Plan {
    pub fn add(&mut self, planned: Planned) {
        self.waiting.push(planned);
    }

    /// The errno for this operation, where one was planned; counts it otherwise.
    pub fn take(&mut self, op: DiskOp, path: &std::path::Path) -> Option<i32> {
        if self.waiting.is_empty() {
            return None;
        }
        let path = path.to_string_lossy();
        let mut due = None;
        for (at, planned) in self.waiting.iter_mut().enumerate() {
            if planned.op != op || !path.contains(&planned.path_contains) {
                continue;
            }
            if planned.after > 0 {
                planned.after -= 1;
            } else if due.is_none() {
                due = Some(at);
            }
        }
        due.map(|at| self.waiting.remove(at).errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn seeded_faults_are_a_function_of_the_seed_and_vary() {
        assert_eq!(Faults::seeded(4), Faults::seeded(4));
        let all: Vec<Faults> = (0..200).map(Faults::seeded).collect();
        assert!(all.iter().any(|f| f.sync_error_ppm > 0));
        assert!(all.iter().any(|f| f.sync_error_ppm == 0 && f.crash_ppm > 0));
        assert!(all.contains(&Faults::NONE), "some seeds meet no fault at all");
    }

    #[test]
    fn a_planned_fault_hits_the_nth_matching_operation_once() {
        let mut plan = Plan::default();
        let planned = Planned { op: DiskOp::Sync, path_contains: "log".into(), after: 1, errno: libc::EIO };
        plan.add(planned);
        let log = Path::new("/data/log-1");
        assert_eq!(plan.take(DiskOp::Write, log), None);
        assert_eq!(plan.take(DiskOp::Sync, Path::new("/data/table")), None);
        assert_eq!(plan.take(DiskOp::Sync, log), None);
        assert_eq!(plan.take(DiskOp::Sync, log), Some(libc::EIO));
        assert_eq!(plan.take(DiskOp::Sync, log), None);
    }
}
