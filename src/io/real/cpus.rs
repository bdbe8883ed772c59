//! The cores that this process may use, and the affinity of threads that belong to no shard.

use std::sync::OnceLock;

/// The cores that the process was given before any thread of it was pinned.
static PROCESS: OnceLock<Affinity> = OnceLock::new();

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Affinity {
    cores: Vec<usize>,
}

impl Affinity {
    /// What this process may use (`taskset` and cpusets included). First asked by the thread that starts the shards.
    pub(super) fn of_the_process() -> &'static Affinity {
        PROCESS.get_or_init(|| Affinity {
            cores: core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|core| core.id).collect(),
        })
    }

    pub(super) fn cores(&self) -> &[usize] {
        &self.cores
    }

    /// Lets the calling thread run on all of these cores. Best effort: where it fails the thread stays where it is.
    pub(super) fn apply(&self) {
        if self.cores.is_empty() {
            return;
        }
        // SAFETY: a cpu_set_t is plain bits, for which zero means the empty set.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for core in &self.cores {
            // SAFETY: CPU_SET checks the number against the set's size.
            unsafe { libc::CPU_SET(*core, &mut set) };
        }
        // SAFETY: `set` is a whole cpu_set_t for the length of the call.
        let result = unsafe { libc::sched_setaffinity(0, std::mem::size_of_val(&set), &raw const set) };
        if result != 0 {
            let error = std::io::Error::last_os_error();
            tracing::debug!(%error, "a helper thread stays on its shard's core");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_pinned_to_one_core_gets_the_others_back() {
        let all = Affinity::of_the_process();
        assert!(!all.cores().is_empty());
        let pinned = std::thread::spawn(|| {
            let one = Affinity { cores: vec![Affinity::of_the_process().cores()[0]] };
            one.apply();
            let while_pinned = core_affinity::get_core_ids().unwrap_or_default().len();
            Affinity::of_the_process().apply();
            (while_pinned, core_affinity::get_core_ids().unwrap_or_default().len())
        });
        assert_eq!(pinned.join().expect("no panic"), (1, all.cores().len()));
    }
}
