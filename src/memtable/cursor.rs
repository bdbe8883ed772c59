//! Walks one partition of a memtable, slice by slice, in clustering order or its reverse.

use std::cmp::Ordering;

use crate::memtable::arena::{Arena, Ref};
use crate::memtable::record::range::{self, Range};
use crate::memtable::record::{partition, row};
use crate::memtable::{ranges, tree};
use crate::mutation::cell::DeletionTime;
use crate::mutation::cursor::{Fragment, PartitionCursor, PartitionStart, RangeChange, ReadStop};
use crate::mutation::read::Slice;
use crate::schema::{ClusteringOrder, Position};

/// One partition, as it is while the memtable is borrowed.
#[derive(Debug)]
pub struct MemtableCursor<'a> {
    partition: Partition<'a>,
    /// Those not yet begun, ascending.
    slices: &'a [Slice],
    walk: Option<Walk<'a>>,
}

/// What is walked, and which way.
#[derive(Clone, Copy, Debug)]
struct Partition<'a> {
    arena: &'a Arena,
    order: &'a ClusteringOrder,
    head: partition::Head<'a>,
    reversed: bool,
}

/// Where the walk of one slice stands.
#[derive(Debug)]
enum Walk<'a> {
    /// Forward, in a partition without deleted ranges.
    Rows {
        rows: tree::Elements<'a>,
        last: Position<'a>,
    },
    Slice(SliceWalk<'a>),
}

/// Where the walk of one slice stands, in either direction and with what is deleted in it.
#[derive(Debug)]
struct SliceWalk<'a> {
    /// Where it ends in the direction of the walk.
    last: Position<'a>,
    rows: tree::Path,
    ranges: tree::Path,
    /// The next range's part within the slice: what opens where.
    next_open: Option<RangeChange<'a>>,
    /// Where the range that the walk is in closes.
    close: Option<Position<'a>>,
}

impl<'a> MemtableCursor<'a> {
    pub(super) fn new(
        arena: &'a Arena,
        order: &'a ClusteringOrder,
        at: Ref,
        slices: &'a [Slice],
        reversed: bool,
    ) -> Self {
        let partition = Partition { arena, order, head: partition::read(arena, at), reversed };
        MemtableCursor { partition, slices, walk: None }
    }

    /// Begins the next slice, if there is one.
    fn begin_slice(&mut self) -> Option<Walk<'a>> {
        let slices = self.slices;
        let (slice, rest) = if self.partition.reversed { slices.split_last()? } else { slices.split_first()? };
        self.slices = rest;
        Some(self.partition.begin(slice))
    }
}

impl<'a> Partition<'a> {
    fn begin(&self, slice: &'a Slice) -> Walk<'a> {
        let (first, last) = if self.reversed { (&slice.end, &slice.start) } else { (&slice.start, &slice.end) };
        let (first, last) = (first.borrow(), last.borrow());
        if !self.reversed && self.head.ranges().is_null() {
            let rows = if first == Position::START {
                tree::elements(self.arena, self.head.rows())
            } else {
                tree::elements_from(self.arena, self.first_row(first))
            };
            return Walk::Rows { rows, last };
        }
        let mut walk = SliceWalk {
            last,
            rows: self.first_row(first),
            ranges: self.first_range(first),
            next_open: None,
            close: None,
        };
        self.prepare_range(&mut walk, first);
        Walk::Slice(walk)
    }

    /// The slice's next row or change.
    fn next(&self, walk: &mut Walk<'a>) -> Option<Fragment<'a>> {
        match walk {
            Walk::Rows { rows, last } => {
                let element = rows.next()?;
                if *last != Position::END {
                    let position = Position::row(row::clustering(self.arena, element));
                    self.order.compare(position, *last).is_le().then_some(())?;
                }
                Some(Fragment::Row(row::read(self.arena, element)))
            }
            Walk::Slice(walk) => self.next_in_slice(walk),
        }
    }

    /// In the direction of the walk.
    fn compare(&self, a: Position<'_>, b: Position<'_>) -> Ordering {
        let order = self.order.compare(a, b);
        if self.reversed { order.reverse() } else { order }
    }

    fn first_row(&self, first: Position<'_>) -> tree::Path {
        let (arena, order, root) = (self.arena, self.order, self.head.rows());
        let against = |element| order.compare(Position::row(row::clustering(arena, element)), first);
        if self.reversed {
            self.before(root, tree::seek(arena, root, |element| against(element).is_le()))
        } else {
            tree::seek(arena, root, |element| against(element).is_lt())
        }
    }

    fn first_range(&self, first: Position<'_>) -> tree::Path {
        let (arena, order, root) = (self.arena, self.order, self.head.ranges());
        let first = RangeChange::opening(first, self.reversed);
        if self.reversed {
            let starts_before = |element| order.compare(range::read(arena, element).start, first).is_lt();
            self.before(root, tree::seek(arena, root, starts_before))
        } else {
            ranges::seek(arena, order, root, first)
        }
    }

    /// The element before `path`, which may be the tree's end.
    fn before(&self, root: Ref, mut path: tree::Path) -> tree::Path {
        if path.element(self.arena).is_none() {
            return tree::seek_last(self.arena, root);
        }
        path.step_back(self.arena);
        path
    }

    fn step(&self, path: &mut tree::Path) {
        if self.reversed { path.step_back(self.arena) } else { path.step(self.arena) }
    }

    /// A range's ends in the direction of the walk.
    fn ends(&self, range: &Range<'a>) -> (Position<'a>, Position<'a>) {
        if self.reversed { (range.end, range.start) } else { (range.start, range.end) }
    }

    /// Looks at the range where `walk.ranges` stands: it opens at its start or at `first`, whichever is later.
    fn prepare_range(&self, walk: &mut SliceWalk<'a>, first: Position<'a>) {
        walk.next_open = None;
        let Some(element) = walk.ranges.element(self.arena) else { return };
        let range = range::read(self.arena, element);
        let (start, _) = self.ends(&range);
        let first = RangeChange::opening(first, self.reversed);
        let position = if self.compare(start, first).is_lt() { first } else { start };
        if self.compare(position, RangeChange::closing(walk.last, self.reversed)).is_lt() {
            walk.next_open = Some(RangeChange { position, deletion: range.deletion });
        }
    }

    /// Opens the range where `walk.ranges` stands and looks at the next.
    fn open_range(&self, walk: &mut SliceWalk<'a>, change: RangeChange<'a>) -> RangeChange<'a> {
        let element = walk.ranges.element(self.arena).expect("the change was made of it");
        let (_, end) = self.ends(&range::read(self.arena, element));
        let last = RangeChange::closing(walk.last, self.reversed);
        walk.close = Some(if self.compare(end, last).is_lt() { end } else { last });
        self.step(&mut walk.ranges);
        self.prepare_range(walk, change.position);
        change
    }

    /// The next change of the slice and whether it closes a range; where one closes as the next opens, it is one change.
    fn next_change(&self, walk: &SliceWalk<'a>) -> Option<(RangeChange<'a>, bool)> {
        match (walk.close, walk.next_open) {
            (Some(close), Some(open)) if self.compare(open.position, close).is_le() => Some((open, false)),
            (Some(position), _) => Some((RangeChange { position, deletion: DeletionTime::LIVE }, true)),
            (None, Some(open)) => Some((open, false)),
            (None, None) => None,
        }
    }

    /// The slice's next row or change.
    fn next_in_slice(&self, walk: &mut SliceWalk<'a>) -> Option<Fragment<'a>> {
        let next_row = walk
            .rows
            .element(self.arena)
            .filter(|&element| self.compare(Position::row(row::clustering(self.arena, element)), walk.last).is_le());
        let change = self.next_change(walk);
        let row_first = |element: Ref, change: RangeChange<'a>| {
            self.compare(Position::row(row::clustering(self.arena, element)), change.position).is_lt()
        };
        match (next_row, change) {
            (Some(element), change) if change.is_none_or(|(change, _)| row_first(element, change)) => {
                self.step(&mut walk.rows);
                Some(Fragment::Row(row::read(self.arena, element)))
            }
            (_, Some((change, true))) => {
                walk.close = None;
                Some(Fragment::Change(change))
            }
            (_, Some((change, false))) => Some(Fragment::Change(self.open_range(walk, change))),
            (_, None) => None,
        }
    }
}

impl<'a> PartitionCursor<'a> for MemtableCursor<'a> {
    fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop> {
        let Partition { arena, head, .. } = self.partition;
        let static_row = head.static_row();
        Ok(PartitionStart {
            token: head.token(),
            key: head.key(),
            deletion: head.deletion(),
            static_row: (!static_row.is_null()).then(|| row::read(arena, static_row)),
        })
    }

    fn next(&mut self) -> Result<Option<Fragment<'a>>, ReadStop> {
        loop {
            if self.walk.is_none() {
                self.walk = self.begin_slice();
            }
            let Some(walk) = &mut self.walk else { return Ok(None) };
            if let Some(fragment) = self.partition.next(walk) {
                return Ok(Some(fragment));
            }
            self.walk = None;
        }
    }
}
