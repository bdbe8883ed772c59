//! Which segments a log still needs. A segment goes when it is synced, everything in it is flushed and nothing pins
//! it; oldest first, so that a log never has a hole. Pure: it decides, others rename and remove.

use std::collections::VecDeque;
use std::path::PathBuf;

use super::intervals::IntervalSet;
use crate::base::collections::{HashMap, hasher};
use crate::base::ids::{LogPosition, SegmentId, TableId};
use crate::base::plants::{Plant, Planted};

/// The offsets of a table's first and last unflushed record in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirtySpan {
    pub first_bytes: u32,
    pub last_bytes: u32,
}

/// A segment's file and which tables still need it.
#[derive(Clone, Debug)]
pub struct LiveSegment {
    pub id: SegmentId,
    pub path: PathBuf,
    pub len_bytes: u64,
    /// Part of it could not be read: it is set aside instead of used again.
    pub damaged: bool,
    pub dirty: HashMap<TableId, DirtySpan>,
    pins: u32,
}

impl LiveSegment {
    pub fn new(id: SegmentId, path: PathBuf, len_bytes: u64) -> LiveSegment {
        LiveSegment { id, path, len_bytes, damaged: false, dirty: HashMap::with_hasher(hasher()), pins: 0 }
    }

    /// A record of `table` stands at `offset_bytes`. Offsets come in order.
    pub fn touch(&mut self, table: TableId, offset_bytes: u32) {
        self.dirty
            .entry(table)
            .and_modify(|span| span.last_bytes = offset_bytes)
            .or_insert(DirtySpan { first_bytes: offset_bytes, last_bytes: offset_bytes });
    }

    fn at(&self, offset_bytes: u32) -> LogPosition {
        LogPosition { segment: self.id, offset_bytes }
    }
}

/// All segments of a log, oldest first; the last is the one that is written.
#[derive(Debug, Default)]
pub struct LiveSegments {
    segments: VecDeque<LiveSegment>,
    /// The table that a record was last appended of, and where: what the newest segment knows of it may be older.
    last_touched: Option<(TableId, u32)>,
    flushed: std::collections::BTreeMap<TableId, IntervalSet>,
    planted: Planted,
}

impl LiveSegments {
    pub fn new(planted: Planted) -> LiveSegments {
        LiveSegments { planted, ..LiveSegments::default() }
    }

    /// Adds a segment newer than all others.
    pub fn push(&mut self, segment: LiveSegment) {
        assert!(self.segments.back().is_none_or(|last| last.id < segment.id), "segments come in order");
        self.settle_touched();
        self.segments.push_back(segment);
    }

    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len_bytes).sum()
    }

    /// Where the oldest segment starts.
    pub fn start(&self) -> Option<LogPosition> {
        self.segments.front().map(|segment| segment.at(0))
    }

    /// A record of `table` was appended to the newest segment.
    #[inline]
    pub fn touch(&mut self, table: TableId, offset_bytes: u32) {
        match &mut self.last_touched {
            Some((last, last_bytes)) if *last == table => *last_bytes = offset_bytes,
            _ => self.touch_another(table, offset_bytes),
        }
    }

    fn touch_another(&mut self, table: TableId, offset_bytes: u32) {
        self.settle_touched();
        let active = self.segments.back_mut().expect("a log that is appended to has a segment");
        active.touch(table, offset_bytes);
        self.last_touched = Some((table, offset_bytes));
    }

    /// Tells the newest segment how far the last touched table goes in it.
    fn settle_touched(&mut self) {
        if let (Some((table, last_bytes)), Some(active)) = (self.last_touched.take(), self.segments.back_mut()) {
            active.touch(table, last_bytes);
        }
    }

    /// What `[from, to)` holds of `table` is durable elsewhere. Intervals may come in any order and repeat: a segment
    /// is clean of a table only once all of the table's records in it are covered, also where a flush in between
    /// failed.
    pub fn mark_flushed(&mut self, table: TableId, from: LogPosition, to: LogPosition) {
        self.settle_touched();
        let set = self.flushed.entry(table).or_default();
        set.add(from, to);
        for segment in self.segments.iter_mut().filter(|segment| segment.id <= to.segment) {
            let Some(span) = segment.dirty.get(&table).copied() else { continue };
            if set.covers(segment.at(span.first_bytes), segment.at(span.last_bytes + 1)) {
                segment.dirty.remove(&table);
            }
        }
        if let Some(start) = self.segments.front().map(|segment| segment.at(0)) {
            set.remove_before(start);
        }
    }

    /// Nothing of `table` is needed any more: it was dropped.
    pub fn forget_table(&mut self, table: TableId) {
        self.settle_touched();
        self.flushed.remove(&table);
        for segment in &mut self.segments {
            segment.dirty.remove(&table);
        }
    }

    /// Holds the segment of `position` until `unpin`. False where it is gone already.
    pub fn pin(&mut self, position: LogPosition) -> bool {
        self.find(position.segment).map(|segment| segment.pins += 1).is_some()
    }

    pub fn unpin(&mut self, position: LogPosition) {
        let segment = self.find(position.segment).expect("a pinned segment is live");
        assert!(segment.pins > 0, "each pin is given back once");
        segment.pins -= 1;
    }

    fn find(&mut self, id: SegmentId) -> Option<&mut LiveSegment> {
        let at = self.segments.binary_search_by_key(&id, |segment| segment.id).ok()?;
        self.segments.get_mut(at)
    }

    /// The tables that the oldest segment still waits for, each with its first unflushed record there.
    pub fn oldest_dirty(&self) -> Vec<(TableId, LogPosition)> {
        let Some(oldest) = self.segments.iter().find(|segment| !segment.dirty.is_empty()) else { return Vec::new() };
        let mut tables: Vec<_> =
            oldest.dirty.iter().map(|(table, span)| (*table, oldest.at(span.first_bytes))).collect();
        tables.sort_unstable_by_key(|(_, position)| *position);
        tables
    }

    /// The oldest segment, taken out, where nothing needs it: all before `synced` is durable.
    pub fn take_released(&mut self, synced: LogPosition) -> Option<LiveSegment> {
        let oldest = self.segments.front()?;
        let flushed = oldest.dirty.is_empty() || self.planted.is(Plant::ReleaseBeforeFlush);
        let done = self.segments.len() > 1 && oldest.id < synced.segment;
        if done && flushed && oldest.pins == 0 { self.segments.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const A: TableId = TableId([1; 16]);
    const B: TableId = TableId([2; 16]);

    fn at(segment: u64, offset_bytes: u32) -> LogPosition {
        LogPosition { segment: SegmentId(segment), offset_bytes }
    }

    /// Segments 1 to 3; A has records in all at 64 and 200, B one in the first.
    fn three() -> LiveSegments {
        let mut live = LiveSegments::new(Planted::default());
        for id in 1..=3 {
            live.push(LiveSegment::new(SegmentId(id), PathBuf::from(format!("/{id}")), 1000));
            live.touch(A, 64);
            live.touch(A, 200);
            if id == 1 {
                live.touch(B, 100);
            }
        }
        live
    }

    fn released(live: &mut LiveSegments) -> Vec<u64> {
        std::iter::from_fn(|| live.take_released(at(3, 0))).map(|segment| segment.id.0).collect()
    }

    #[test]
    fn a_segment_goes_when_every_table_in_it_is_flushed() {
        let mut live = three();
        live.mark_flushed(A, at(1, 0), at(3, 300));
        assert_eq!(released(&mut live), [] as [u64; 0], "B pins the first, and segments go in order");
        assert_eq!(live.oldest_dirty(), [(B, at(1, 100))]);
        live.mark_flushed(B, at(1, 100), at(1, 101));
        assert_eq!(released(&mut live), [1, 2], "never the one that is written");
        assert_eq!((live.bytes(), live.start()), (1000, Some(at(3, 0))));
        assert!(live.oldest_dirty().is_empty());
    }

    #[test]
    fn a_flush_that_finished_before_an_older_one_releases_nothing() {
        let mut live = three();
        live.forget_table(B);
        live.mark_flushed(A, at(1, 150), at(2, 100));
        assert_eq!(live.oldest_dirty(), [(A, at(1, 64))]);
        assert_eq!(released(&mut live), [] as [u64; 0]);
        live.mark_flushed(A, at(1, 0), at(1, 150));
        assert_eq!(released(&mut live), [1]);
        assert_eq!(live.oldest_dirty(), [(A, at(2, 64))], "its second record is not flushed");
    }

    #[test]
    fn what_is_written_after_a_flush_makes_a_segment_dirty_again() {
        let mut live = three();
        live.mark_flushed(A, at(1, 0), at(3, 201));
        live.touch(A, 400);
        assert_eq!(live.segments.back().unwrap().dirty[&A], DirtySpan { first_bytes: 400, last_bytes: 400 });
    }

    #[test]
    fn a_pin_and_an_unsynced_segment_stay() {
        let mut live = three();
        assert!(live.pin(at(1, 77)));
        live.forget_table(A);
        live.forget_table(B);
        assert_eq!(released(&mut live), [] as [u64; 0]);
        live.unpin(at(1, 77));
        assert!(live.take_released(at(1, 900)).is_none());
        assert_eq!(released(&mut live), [1, 2]);
        assert!(!live.pin(at(1, 77)), "it is gone");
    }

    #[test]
    fn the_plant_releases_what_is_not_flushed() {
        let mut live = three();
        live.planted = Planted(Some(Plant::ReleaseBeforeFlush));
        assert_eq!(released(&mut live).is_empty(), !cfg!(feature = "plants"));
    }
}
