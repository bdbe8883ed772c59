//! Which parts of a log are covered: sorted, disjoint, half-open intervals of positions within one stream.
//! Two intervals that touch become one. A flush adds the interval that it made durable elsewhere; replay asks whether
//! a record's position is covered.

use crate::base::ids::LogPosition;

/// A half-open interval of one stream: `from` is covered, `to` is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub from: LogPosition,
    pub to: LogPosition,
}

/// Sorted, disjoint intervals that never touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IntervalSet {
    intervals: Vec<Interval>,
}

impl IntervalSet {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The intervals, in order.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Adds `[from, to)`, merged with all that it overlaps or touches. An empty interval adds nothing.
    pub fn add(&mut self, from: LogPosition, to: LogPosition) {
        if from >= to {
            return;
        }
        let first = self.intervals.partition_point(|interval| interval.to < from);
        let last = self.intervals.partition_point(|interval| interval.from <= to);
        let mut merged = Interval { from, to };
        for interval in self.intervals.drain(first..last) {
            merged.from = merged.from.min(interval.from);
            merged.to = merged.to.max(interval.to);
        }
        self.intervals.insert(first, merged);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &IntervalSet) {
        for interval in &other.intervals {
            self.add(interval.from, interval.to);
        }
    }

    /// Whether `position` is covered.
    pub fn contains(&self, position: LogPosition) -> bool {
        self.around(position).is_some()
    }

    /// Whether all of `[from, to)` is covered; true for an empty one.
    pub fn covers(&self, from: LogPosition, to: LogPosition) -> bool {
        from >= to || self.around(from).is_some_and(|interval| to <= interval.to)
    }

    /// Forgets everything before `position`.
    pub fn remove_before(&mut self, position: LogPosition) {
        self.intervals.retain_mut(|interval| {
            interval.from = interval.from.max(position);
            interval.from < interval.to
        });
    }

    fn around(&self, position: LogPosition) -> Option<&Interval> {
        let at = self.intervals.partition_point(|interval| interval.to <= position);
        self.intervals.get(at).filter(|interval| interval.from <= position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::SegmentId;
    use proptest::prelude::*;

    /// Eight offsets a segment, so that a small number is a position.
    fn at(number: u32) -> LogPosition {
        LogPosition { segment: SegmentId(u64::from(number / 8)), offset_bytes: number % 8 }
    }

    #[test]
    fn touching_intervals_become_one_and_others_stay_apart() {
        let mut set = IntervalSet::new();
        set.add(at(10), at(12));
        set.add(at(3), at(5));
        set.add(at(7), at(7));
        assert_eq!(set.intervals().len(), 2);
        set.add(at(5), at(10));
        assert_eq!(set.intervals(), [Interval { from: at(3), to: at(12) }]);
        assert!(set.covers(at(3), at(12)) && set.covers(at(50), at(50)));
        assert!(!set.covers(at(2), at(4)) && !set.covers(at(11), at(13)));
    }

    #[test]
    fn what_lies_before_a_position_is_forgotten() {
        let mut set = IntervalSet::new();
        set.add(at(1), at(4));
        set.add(at(6), at(9));
        set.remove_before(at(7));
        assert_eq!(set.intervals(), [Interval { from: at(7), to: at(9) }]);
        set.remove_before(at(9));
        assert!(set.is_empty());
    }

    proptest! {
        #[test]
        fn a_set_answers_as_a_bitmap_does(adds in prop::collection::vec((0u32..64, 0u32..64), 0..20), cut in 0u32..64) {
            let mut set = IntervalSet::new();
            let mut model = [false; 64];
            for (from, to) in adds {
                set.add(at(from), at(to));
                (from..to).for_each(|n| model[n as usize] = true);
            }
            let mut doubled = set.clone();
            doubled.merge(&set);
            prop_assert_eq!(&doubled, &set);
            set.remove_before(at(cut));
            model[..cut as usize].fill(false);
            for n in 0..64 {
                prop_assert_eq!(set.contains(at(n)), model[n as usize]);
                for to in n..64 {
                    let covered = (n..to).all(|i| model[i as usize]);
                    prop_assert_eq!(set.covers(at(n), at(to)), covered);
                }
            }
            let apart = set.intervals().windows(2).all(|pair| pair[0].to < pair[1].from);
            prop_assert!(apart);
        }
    }
}
