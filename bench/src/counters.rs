//! What a thread has used so far.

use helenus::io::allocated;

/// Counters of the calling thread at one moment, or what lies between two.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counters {
    pub allocations: u64,
    /// Pages that were not there when they were touched, and came without I/O.
    pub page_faults: u64,
    pub cpu_ns: u64,
}

impl Counters {
    pub fn now() -> Counters {
        Counters {
            allocations: allocated().allocations,
            page_faults: page_faults(),
            cpu_ns: clock_ns(libc::CLOCK_THREAD_CPUTIME_ID),
        }
    }

    pub fn since(self, before: Counters) -> Counters {
        Counters {
            allocations: self.allocations - before.allocations,
            page_faults: self.page_faults - before.page_faults,
            cpu_ns: self.cpu_ns - before.cpu_ns,
        }
    }
}

pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is whole for the length of the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut now) };
    assert_eq!(result, 0, "a clock that every Linux has");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn page_faults() -> u64 {
    // SAFETY: rusage is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is whole for the length of the call.
    let result = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    assert_eq!(result, 0, "a thread has its usage");
    usage.ru_minflt as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_rise_with_what_is_done() {
        let before = Counters::now();
        let pages = std::hint::black_box(vec![1u8; 8 << 20]);
        let used = Counters::now().since(before);
        assert!(used.allocations >= 1 && used.page_faults > 1 && used.cpu_ns > 0, "{used:?}, {}", pages.len());
    }
}
