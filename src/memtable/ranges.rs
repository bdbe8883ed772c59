//! The deleted ranges of a partition: disjoint, in order, the strongest deletion at every place.

use smallvec::SmallVec;

use crate::memtable::arena::{Arena, Ref};
use crate::memtable::record::range::{self, Range};
use crate::memtable::tree;
use crate::mutation::cell::DeletionTime;
use crate::mutation::read::OwnedPosition;
use crate::schema::{ClusteringOrder, Position};

/// A part of the new order of ranges.
struct Piece {
    start: OwnedPosition,
    end: OwnedPosition,
    deletion: DeletionTime,
}

impl Piece {
    fn range(&self) -> Range<'_> {
        Range { start: self.start.borrow(), end: self.end.borrow(), deletion: self.deletion }
    }
}

/// Adds a range. Where it is stronger it takes over; where it is not, nothing changes.
pub fn insert(arena: &mut Arena, order: &ClusteringOrder, root: &mut Ref, new: &Range<'_>) {
    if order.compare(new.start, new.end).is_ge() {
        return;
    }
    let overlapped = touching(arena, order, *root, new);
    let pieces = pieces(arena, order, &overlapped, new);
    let same = |(at, piece): &(&Ref, &Piece)| piece.range() == range::read(arena, **at);
    let head = overlapped.iter().zip(&pieces).take_while(same).count();
    let (overlapped, pieces) = (&overlapped[head..], &pieces[head..]);
    let tail = overlapped.iter().rev().zip(pieces.iter().rev()).take_while(same).count();
    let (overlapped, pieces) = (&overlapped[..overlapped.len() - tail], &pieces[..pieces.len() - tail]);
    for &at in overlapped {
        let old = range::read(arena, at);
        let start = old.start;
        let (path, found) =
            tree::locate(arena, *root, |element| order.compare(range::read(arena, element).start, start));
        debug_assert_eq!(found, Some(at));
        let size = range::size(&old);
        path.remove(arena, root);
        arena.note_dead(size);
    }
    for piece in pieces {
        let start = piece.start.borrow();
        let (path, _) = tree::locate(arena, *root, |element| order.compare(range::read(arena, element).start, start));
        let element = range::create(arena, &piece.range());
        path.insert(arena, root, element);
    }
}

/// The path to the first range that ends after `position`.
pub fn seek(arena: &Arena, order: &ClusteringOrder, root: Ref, position: Position<'_>) -> tree::Path {
    tree::seek(arena, root, |element| order.compare(range::read(arena, element).end, position).is_le())
}

/// The ranges that overlap `new` or meet it at an end.
fn touching(arena: &Arena, order: &ClusteringOrder, root: Ref, new: &Range<'_>) -> SmallVec<[Ref; 8]> {
    let mut found = SmallVec::new();
    let mut path = tree::seek(arena, root, |element| order.compare(range::read(arena, element).end, new.start).is_lt());
    while let Some(element) = path.element(arena) {
        if order.compare(range::read(arena, element).start, new.end).is_gt() {
            break;
        }
        found.push(element);
        path.step(arena);
    }
    found
}

/// What stands in the place of `touching` and `new`.
fn pieces(arena: &Arena, order: &ClusteringOrder, touching: &[Ref], new: &Range<'_>) -> SmallVec<[Piece; 4]> {
    let mut pieces: SmallVec<[Piece; 4]> = SmallVec::new();
    let mut push = |start: Position<'_>, end: Position<'_>, deletion: DeletionTime| {
        if order.compare(start, end).is_ge() {
            return;
        }
        match pieces.last_mut() {
            Some(last) if last.deletion == deletion && order.compare(last.end.borrow(), start).is_eq() => {
                last.end = OwnedPosition::of(end);
            }
            _ => pieces.push(Piece { start: OwnedPosition::of(start), end: OwnedPosition::of(end), deletion }),
        }
    };
    let mut at = new.start;
    for &element in touching {
        let old = range::read(arena, element);
        push(old.start, new.start, old.deletion);
        push(at, old.start, new.deletion);
        let from = if order.compare(old.start, new.start).is_gt() { old.start } else { new.start };
        let to = if order.compare(old.end, new.end).is_lt() { old.end } else { new.end };
        push(from, to, old.deletion.max(new.deletion));
        push(new.end, old.end, old.deletion);
        at = to;
    }
    push(at, new.end, new.deletion);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memtable::arena::SlabPool;
    use crate::mutation::testing::{Bound, any_bound, order, prefix};
    use proptest::prelude::*;

    type Owned = (Vec<u8>, i8, Vec<u8>, i8, DeletionTime);

    fn read_all(arena: &Arena, root: Ref) -> Vec<Owned> {
        let mut path = tree::seek(arena, root, |_| false);
        let mut ranges = Vec::new();
        while let Some(element) = path.element(arena) {
            let Range { start, end, deletion } = range::read(arena, element);
            ranges.push((start.prefix.to_vec(), start.weight, end.prefix.to_vec(), end.weight, deletion));
            path.step(arena);
        }
        ranges
    }

    fn add(arena: &mut Arena, root: &mut Ref, (start, end, timestamp): &(Bound, Bound, i64)) {
        let (a, b) = (prefix(&start.0), prefix(&end.0));
        let (start, end) = (Position { prefix: &a, weight: start.1 }, Position { prefix: &b, weight: end.1 });
        let deletion = DeletionTime { timestamp: *timestamp, local_deletion_s: 1 };
        insert(arena, &order(), root, &Range { start, end, deletion });
    }

    proptest! {
        /// Disjoint, ascending, never two that could be one; and adding the same again changes and allocates nothing.
        #[test]
        fn ranges_stay_disjoint(ranges in prop::collection::vec((any_bound(), any_bound(), 1i64..5), 1..40)) {
            let (mut arena, mut root, order) = (Arena::new(SlabPool::new()), Ref::NULL, order());
            for range in &ranges {
                add(&mut arena, &mut root, range);
            }
            let all = read_all(&arena, root);
            for (a, b, c, d, _) in &all {
                let (start, end) = (Position { prefix: a, weight: *b }, Position { prefix: c, weight: *d });
                prop_assert!(order.compare(start, end).is_lt());
            }
            for pair in all.windows(2) {
                let end = Position { prefix: &pair[0].2, weight: pair[0].3 };
                let start = Position { prefix: &pair[1].0, weight: pair[1].1 };
                let step = order.compare(end, start);
                prop_assert!(step.is_lt() || step.is_eq() && pair[0].4 != pair[1].4);
            }
            let used = arena.used_bytes();
            for range in &ranges {
                add(&mut arena, &mut root, range);
            }
            prop_assert_eq!(arena.used_bytes(), used);
            prop_assert_eq!(read_all(&arena, root), all);
        }
    }

    /// What a queue's consumer does: one growing range stays one range.
    #[test]
    fn a_growing_range_stays_one() {
        let (mut arena, mut root) = (Arena::new(SlabPool::new()), Ref::NULL);
        for n in 0..1_000 {
            add(&mut arena, &mut root, &((vec![], -1), (vec![n], 1), i64::from(n) + 1));
        }
        assert_eq!(read_all(&arena, root).len(), 1);
    }
}
