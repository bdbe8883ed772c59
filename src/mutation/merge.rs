//! One partition out of several sources: rows reconciled, deletions applied.
//!
//! The walk takes the foremost head of all sources. Rows at one place become one row; a change of a source's open range
//! deletion is taken into account and shows in the output only where the strongest open deletion changes. What the
//! partition's deletion or an open range covers is left out, and so are deletions that a stronger one covers, so the
//! output is the smallest that says the same.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::mutation::cell::DeletionTime;
use crate::mutation::cursor::{Fragment, PartitionCursor, PartitionStart, RangeChange, ReadStop};
use crate::mutation::row::Row;
use crate::schema::{ClusteringOrder, Position};

/// The merge of one partition's sources, itself a source.
#[derive(Debug)]
pub struct Merge<'a, 'o, C> {
    order: &'o ClusteringOrder,
    reversed: bool,
    sources: SmallVec<[Source<'a, C>; 4]>,
    /// The partition's deletion, the strongest of the sources'.
    partition: DeletionTime,
    /// The range deletion that the output is under.
    emitted: DeletionTime,
    head: Option<PartitionStart<'a>>,
    /// Where the foremost head stood that was taken last.
    place: Option<Position<'a>>,
    /// Heads that may still be taken in this turn.
    turn_left: usize,
}

#[derive(Debug)]
struct Source<'a, C> {
    cursor: C,
    head: Option<Fragment<'a>>,
    /// The range deletion that this source is under.
    open: DeletionTime,
}

impl<'a, C: PartitionCursor<'a>> Source<'a, C> {
    /// Reads the next head. A change that a source gives at a row, where its slice starts or ends, is put beside it.
    fn advance(&mut self, reversed: bool) -> Result<(), ReadStop> {
        self.head = self.cursor.next()?;
        if let Some(Fragment::Change(change)) = &mut self.head
            && change.position.weight == 0
        {
            let beside = if change.deletion.is_live() { RangeChange::closing } else { RangeChange::opening };
            change.position = beside(change.position, reversed);
        }
        Ok(())
    }
}

impl<'a, 'o, C: PartitionCursor<'a>> Merge<'a, 'o, C> {
    /// Over cursors of the same partition, opened with the same slices in the same direction.
    ///
    /// # Panics
    /// Where there is no cursor.
    pub fn new(order: &'o ClusteringOrder, reversed: bool, cursors: impl IntoIterator<Item = C>) -> Self {
        let sources: SmallVec<[_; 4]> =
            cursors.into_iter().map(|cursor| Source { cursor, head: None, open: DeletionTime::LIVE }).collect();
        assert!(!sources.is_empty(), "a merge has sources");
        Merge {
            order,
            reversed,
            sources,
            partition: DeletionTime::LIVE,
            emitted: DeletionTime::LIVE,
            head: None,
            place: None,
            turn_left: usize::MAX,
        }
    }

    /// The same, which stops with `ReadStop::Turn` after so many places, whether or not anything is given out for them.
    #[must_use]
    pub fn with_turn(mut self, places: usize) -> Self {
        self.turn_left = places;
        self
    }

    /// How many places are left of the turn.
    pub fn turn_left(&self) -> usize {
        self.turn_left
    }

    /// Where a walk that stopped (whatever the reason) goes on: all before it, in the walk's direction, has been given
    /// out or left out, and nothing of what stands there. `None`: at its start.
    pub fn place(&self) -> Option<Position<'a>> {
        self.place
    }

    /// Reads every source's head and first fragment, once.
    fn open(&mut self) -> Result<&PartitionStart<'a>, ReadStop> {
        if self.head.is_none() {
            let mut merged: Option<PartitionStart<'a>> = None;
            for source in &mut self.sources {
                let start = source.cursor.start()?;
                source.advance(self.reversed)?;
                match &mut merged {
                    None => merged = Some(start),
                    Some(merged) => merge_starts(merged, start),
                }
            }
            let mut start = merged.expect("new has seen that there are sources");
            self.partition = start.deletion;
            if let Some(row) = &mut start.static_row {
                row.shadow(start.deletion);
            }
            start.static_row = start.static_row.filter(|row| !row.is_empty());
            self.head = Some(start);
        }
        Ok(self.head.as_ref().expect("set above"))
    }

    /// The foremost source; where several stand at one place, the first of them.
    fn foremost(&self) -> Option<usize> {
        let mut best: Option<(usize, &Fragment<'a>)> = None;
        for (at, source) in self.sources.iter().enumerate() {
            let Some(head) = &source.head else { continue };
            if best.is_none_or(|(_, other)| self.compare(head, other).is_lt()) {
                best = Some((at, head));
            }
        }
        best.map(|(at, _)| at)
    }

    fn compare(&self, a: &Fragment<'a>, b: &Fragment<'a>) -> Ordering {
        let order = self.order.compare(a.position(), b.position());
        if self.reversed { order.reverse() } else { order }
    }

    /// Takes the head of `at` and reads its next.
    fn take(&mut self, at: usize) -> Result<Fragment<'a>, ReadStop> {
        let source = &mut self.sources[at];
        let head = source.head.take().expect("only sources with a head are taken");
        source.advance(self.reversed)?;
        Ok(head)
    }

    /// Reconciles into `row` the same row of the sources after `first`.
    fn gather(&mut self, first: usize, row: &mut Row<'a>) -> Result<(), ReadStop> {
        for at in first + 1..self.sources.len() {
            let same = match &self.sources[at].head {
                Some(Fragment::Row(other)) => self.order.compare_rows(row.clustering, other.clustering).is_eq(),
                _ => false,
            };
            if same && let Fragment::Row(other) = self.take(at)? {
                row.reconcile(&other);
            }
        }
        Ok(())
    }

    /// The strongest open range deletion that the partition's deletion does not cover.
    fn strongest_open(&self) -> DeletionTime {
        let open = self.sources.iter().fold(DeletionTime::LIVE, |open, source| open.max(source.open));
        if self.partition.max(open) == self.partition { DeletionTime::LIVE } else { open }
    }

    /// Takes the change of `first` and every change at the same position.
    fn change(&mut self, first: usize, change: RangeChange<'a>) -> Result<Option<Fragment<'a>>, ReadStop> {
        self.sources[first].open = change.deletion;
        for at in 0..self.sources.len() {
            while let Some(Fragment::Change(other)) = self.sources[at].head
                && self.order.compare(other.position, change.position).is_eq()
            {
                self.sources[at].open = other.deletion;
                self.take(at)?;
            }
        }
        let deletion = self.strongest_open();
        if deletion == self.emitted {
            return Ok(None);
        }
        self.emitted = deletion;
        Ok(Some(Fragment::Change(RangeChange { position: change.position, deletion })))
    }
}

fn merge_starts<'a>(merged: &mut PartitionStart<'a>, start: PartitionStart<'a>) {
    debug_assert_eq!(merged.key, start.key, "the sources of a merge are of one partition");
    merged.deletion = merged.deletion.max(start.deletion);
    match (&mut merged.static_row, start.static_row) {
        (Some(row), Some(other)) => row.reconcile(&other),
        (None, other) => merged.static_row = other,
        (Some(_), None) => {}
    }
}

impl<'a, C: PartitionCursor<'a>> PartitionCursor<'a> for Merge<'a, '_, C> {
    fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop> {
        self.open().cloned()
    }

    fn next(&mut self) -> Result<Option<Fragment<'a>>, ReadStop> {
        self.open()?;
        while let Some(at) = self.foremost() {
            self.place = self.sources[at].head.as_ref().map(Fragment::position);
            self.turn_left = self.turn_left.checked_sub(1).ok_or(ReadStop::Turn)?;
            match self.take(at)? {
                Fragment::Row(mut row) => {
                    self.gather(at, &mut row)?;
                    row.shadow(self.partition.max(self.emitted));
                    if !row.is_empty() {
                        return Ok(Some(Fragment::Row(row)));
                    }
                }
                Fragment::Change(change) => {
                    if let Some(change) = self.change(at, change)? {
                        return Ok(Some(change));
                    }
                }
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::base::ids::{ColumnId, Token};
    use crate::mutation::cell::{Cell, NEVER_S};
    use crate::mutation::owned::{OwnedFragment, OwnedPartition, OwnedRow};
    use crate::mutation::read::{OwnedPosition, Slice};
    use crate::mutation::testing::{Found, KEY, Op, Part, any_op, collect, encode, expect, order, prefix};
    use crate::mutation::view::{Item, MutationView};
    use proptest::prelude::*;

    /// A source with one write, each of its rows and ranges as it stands.
    fn source(op: &Op, order: &ClusteringOrder, reversed: bool) -> OwnedPartition {
        let bytes = encode(std::slice::from_ref(op));
        let mut partition = OwnedPartition {
            token: Token(1),
            key: KEY.to_vec(),
            deletion: DeletionTime::LIVE,
            static_row: None,
            fragments: Vec::new(),
        };
        for item in MutationView::parse(&bytes).unwrap().items() {
            match item {
                Item::PartitionDeletion(deletion) => partition.deletion = deletion,
                Item::Static(row) => partition.static_row = Some(OwnedRow::copy(&row)),
                Item::Row(row) => partition.fragments.push(OwnedFragment::Row(OwnedRow::copy(&row))),
                Item::RangeTombstone { start, end, deletion } if order.compare(start, end).is_lt() => {
                    let mut change = |position: crate::schema::Position<'_>, deletion| {
                        let position = OwnedPosition::of(position);
                        partition.fragments.push(OwnedFragment::Change { position, deletion });
                    };
                    let (first, last) = if reversed { (end, start) } else { (start, end) };
                    change(first, deletion);
                    change(last, DeletionTime::LIVE);
                }
                Item::RangeTombstone { .. } => {}
            }
        }
        partition
    }

    fn merged(ops: &[Op], reversed: bool) -> Found {
        let order = order();
        let sources: Vec<_> = ops.iter().map(|op| source(op, &order, reversed)).collect();
        let merge = Merge::new(&order, reversed, sources.iter().map(OwnedPartition::cursor));
        collect(merge, &[Slice::all()], reversed)
    }

    proptest! {
        /// One source a write: the merge finds what the list of writes says, in either direction.
        #[test]
        fn a_merge_is_what_its_writes_say(ops in prop::collection::vec(any_op(), 1..14)) {
            let want = expect(&ops, &[Slice::all()]);
            prop_assert_eq!(&merged(&ops, false), &want);
            prop_assert_eq!(&merged(&ops, true), &want);
        }

        /// Merging merges gives the same as merging all at once.
        #[test]
        fn merging_is_associative(ops in prop::collection::vec(any_op(), 2..12), cut: prop::sample::Index) {
            let order = order();
            let cut = 1 + cut.index(ops.len() - 1);
            let sources: Vec<_> = ops.iter().map(|op| source(op, &order, false)).collect();
            let half = |of: &[OwnedPartition]| {
                OwnedPartition::read(Merge::new(&order, false, of.iter().map(OwnedPartition::cursor))).unwrap()
            };
            let halves = [half(&sources[..cut]), half(&sources[cut..])];
            let again = Merge::new(&order, false, halves.iter().map(OwnedPartition::cursor));
            prop_assert_eq!(collect(again, &[Slice::all()], false), expect(&ops, &[Slice::all()]));
        }
    }

    fn deletion(timestamp: i64) -> DeletionTime {
        DeletionTime { timestamp, local_deletion_s: 1 }
    }

    /// Setting a whole collection deletes at one microsecond less, so two of them at one timestamp are united.
    #[test]
    fn two_collections_set_at_one_timestamp_are_united() {
        let column = ColumnId(3);
        let cell =
            |path| Cell { column, path: Some(path), timestamp: 5, ttl_s: 0, local_deletion_s: NEVER_S, value: &[] };
        let mut rows = [&b"a"[..], b"b"].map(|path| {
            let mut row = Row::new(b"");
            row.add_complex_deletion(column, deletion(4));
            row.cells.push(cell(path));
            row
        });
        let [first, second] = &mut rows;
        first.reconcile(second);
        first.shadow(DeletionTime::LIVE);
        assert_eq!(first.cells.len(), 2);
        assert_eq!(first.complex_deletion(column), deletion(4));
    }

    /// A source may give a change at the very row where its slice starts or ends; the row is within all the same.
    #[test]
    fn changes_at_a_slices_own_row_stand_beside_it() {
        let (order, key) = (order(), prefix(&[1, 1]));
        let row = Op::Row { key: Some((1, 1)), parts: vec![Part::Liveness(3, None)] };
        for reversed in [false, true] {
            let change = |deletion| OwnedFragment::Change {
                position: OwnedPosition { prefix: key.clone(), weight: 0 },
                deletion,
            };
            let mut covering = source(&row, &order, reversed);
            covering.fragments = vec![change(deletion(5)), change(DeletionTime::LIVE)];
            for sources in
                [[source(&row, &order, reversed), covering.clone()], [covering, source(&row, &order, reversed)]]
            {
                let mut merge = Merge::new(&order, reversed, sources.iter().map(OwnedPartition::cursor));
                let mut weights = Vec::new();
                while let Some(fragment) = merge.next().unwrap() {
                    weights.push(fragment.position().weight);
                }
                assert_eq!(weights, if reversed { [1, -1] } else { [-1, 1] });
            }
        }
    }

    #[test]
    fn a_deletion_within_a_stronger_one_is_not_shown() {
        let range = |start: &[i32], end: &[i32], timestamp| Op::Range {
            start: (start.to_vec(), -1),
            end: (end.to_vec(), 1),
            deletion: (timestamp, 1),
        };
        let ops = [range(&[0], &[3], 5), range(&[1], &[2], 4)];
        let order = order();
        let sources: Vec<_> = ops.iter().map(|op| source(op, &order, false)).collect();
        let mut merge = Merge::new(&order, false, sources.iter().map(OwnedPartition::cursor));
        let mut shown = Vec::new();
        while let Some(fragment) = merge.next().unwrap() {
            shown.push((fragment.position().prefix.to_vec(), fragment.position().weight));
        }
        assert_eq!(shown, [(prefix(&[0]), -1), (prefix(&[3]), 1)]);
    }
}
