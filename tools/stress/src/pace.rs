//! When the next operation is due: at once, or at even distances (`throttle=`, `fixed=`).

/// The pace of one driver of several.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Nanoseconds between two operations of this driver; `None`: as fast as they are answered.
    interval_ns: Option<f64>,
    /// Where this driver's operations fall between those of the others.
    offset_ns: f64,
    taken: u64,
}

impl Pace {
    /// The pace of driver `driver` of `drivers` that together do `rate` operations a second.
    pub fn new(rate: Option<f64>, driver: usize, drivers: usize) -> Pace {
        let between = rate.map(|rate| 1e9 / rate);
        let interval_ns = between.map(|between| between * drivers as f64);
        Pace { interval_ns, offset_ns: between.unwrap_or(0.0) * driver as f64, taken: 0 }
    }

    /// When the next operation is due, in nanoseconds since the start.
    #[inline]
    pub fn due_ns(&self) -> u64 {
        match self.interval_ns {
            None => 0,
            Some(interval_ns) => (self.offset_ns + self.taken as f64 * interval_ns) as u64,
        }
    }

    /// Whether operations wait for their time.
    pub fn is_paced(&self) -> bool {
        self.interval_ns.is_some()
    }

    /// The next operation was taken; one on several partitions counts as many times.
    #[inline]
    pub fn advance(&mut self, partitions: u32) {
        self.taken += u64::from(partitions);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_share_a_rate_evenly() {
        let mut due = Vec::new();
        for driver in 0..2 {
            let mut pace = Pace::new(Some(1000.0), driver, 2);
            assert!(pace.is_paced());
            for _ in 0..3 {
                due.push(pace.due_ns() / 1000);
                pace.advance(1);
            }
        }
        due.sort_unstable();
        assert_eq!(due, [0, 1000, 2000, 3000, 4000, 5000]);
    }

    #[test]
    fn without_a_rate_everything_is_due() {
        let mut pace = Pace::new(None, 1, 2);
        pace.advance(1);
        assert_eq!((pace.due_ns(), pace.is_paced()), (0, false));
    }

    #[test]
    fn a_long_run_does_not_drift() {
        let mut pace = Pace::new(Some(300_000.0), 0, 1);
        (0..1_000_000).for_each(|_| pace.advance(3));
        assert_eq!(pace.due_ns(), 10_000_000_000);
    }
}
