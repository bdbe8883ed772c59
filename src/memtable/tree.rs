//! An ordered set of places in the arena: the rows of a partition, the cells of a row, the deleted ranges.
//!
//! Up to 31 elements are one sorted run, which about doubles as it grows; beyond that, a B+tree whose leaves are such runs. The
//! tree knows nothing of its elements: the caller compares. An element's memory stays when it is removed, so one may go on
//! as a separator: all elements under child i are at or after separator i and before separator i + 1.
//!
//! Nodes that become empty leave the tree; others are not joined. A run that only grows at its end fills its nodes.
//!
//! Node: kind (0 leaf, 1 inner), length, capacity, 0; then the places, four bytes each. An inner node has the separators
//! after its full capacity of children; the first is not used.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::memtable::arena::{Arena, Ref};

/// The most elements of one node.
pub const CAPACITY: usize = 31;
const HEAD_BYTES: usize = 4;
/// Where the length is within the head.
const LEN_AT: usize = 1;
const REF_BYTES: usize = 4;
const SEPARATORS_AT: usize = HEAD_BYTES + CAPACITY * REF_BYTES;
const INNER_BYTES: usize = SEPARATORS_AT + CAPACITY * REF_BYTES;
const LEAF: u8 = 0;
const INNER: u8 = 1;

/// A node and a position in it.
#[derive(Clone, Copy, Debug)]
struct Step {
    node: Ref,
    at: usize,
}

/// A place in a tree: from the root to a position in a leaf, which may be the leaf's end. Valid until the tree changes.
#[derive(Clone, Debug, Default)]
pub struct Path {
    steps: SmallVec<[Step; 6]>,
}

/// Finds where an element stands or would stand; `compare` orders the element it is given against the sought one. The
/// element itself where it is there.
#[inline]
pub fn locate(arena: &Arena, root: Ref, compare: impl FnMut(Ref) -> Ordering) -> (Path, Option<Ref>) {
    descend(arena, root, compare)
}

/// The element, where it is there.
#[inline]
pub fn find(arena: &Arena, root: Ref, mut compare: impl FnMut(Ref) -> Ordering) -> Option<Ref> {
    if root.is_null() {
        return None;
    }
    let mut node = root;
    loop {
        let (kind, places) = places(arena, node);
        if kind == LEAF {
            return search(places, &mut compare).1;
        }
        node = Ref::from_bytes(places[child_of(separators(arena, node, places.len()), &mut compare)]);
    }
}

/// Finds the first element for which `before` does not hold. It holds for a run of elements at the start of the order.
pub fn seek(arena: &Arena, root: Ref, mut before: impl FnMut(Ref) -> bool) -> Path {
    let compare = |element| if before(element) { Ordering::Less } else { Ordering::Greater };
    let (mut path, _) = descend(arena, root, compare);
    if path.element(arena).is_none() {
        path.next_leaf(arena);
    }
    path
}

/// Finds the first element.
fn seek_first(arena: &Arena, root: Ref) -> Path {
    let mut path = Path::default();
    if !root.is_null() {
        path.steps.push(Step { node: root, at: 0 });
        path.down_to_first(arena);
    }
    path
}

/// Finds the last element.
pub fn seek_last(arena: &Arena, root: Ref) -> Path {
    let (mut path, _) = descend(arena, root, |_| Ordering::Less);
    path.step_back(arena);
    path
}

/// All elements in order.
#[inline]
pub fn elements(arena: &Arena, root: Ref) -> Elements<'_> {
    match run(arena, root) {
        Some(run) => Elements { arena, leaf: run.iter(), path: Path::default() },
        None => elements_from(arena, seek_first(arena, root)),
    }
}

/// The elements from `path` on.
pub fn elements_from(arena: &Arena, path: Path) -> Elements<'_> {
    Elements { arena, leaf: path.rest_of_leaf(arena).iter(), path }
}

/// All elements, where they are one run.
#[inline]
pub fn run(arena: &Arena, root: Ref) -> Option<&[[u8; REF_BYTES]]> {
    if root.is_null() {
        return Some(&[]);
    }
    let (kind, places) = places(arena, root);
    (kind == LEAF).then_some(places)
}

/// Down to the leaf where the sought element stands or would stand, by separators that are at or before it.
#[inline]
fn descend(arena: &Arena, root: Ref, mut compare: impl FnMut(Ref) -> Ordering) -> (Path, Option<Ref>) {
    let mut path = Path::default();
    if root.is_null() {
        return (path, None);
    }
    let mut node = root;
    loop {
        let (kind, places) = places(arena, node);
        if kind == LEAF {
            let (at, found) = search(places, &mut compare);
            path.steps.push(Step { node, at });
            return (path, found);
        }
        let at = child_of(separators(arena, node, places.len()), &mut compare);
        path.steps.push(Step { node, at });
        node = Ref::from_bytes(places[at]);
    }
}

/// Where the sought element stands or would stand in a leaf, and the element where it is there.
#[inline]
fn search(elements: &[[u8; REF_BYTES]], compare: &mut impl FnMut(Ref) -> Ordering) -> (usize, Option<Ref>) {
    let (mut low, mut high) = (0, elements.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        let element = Ref::from_bytes(elements[middle]);
        match compare(element) {
            Ordering::Less => low = middle + 1,
            Ordering::Greater => high = middle,
            Ordering::Equal => return (middle, Some(element)),
        }
    }
    (low, None)
}

/// The child under which the sought element stands or would stand.
#[inline]
fn child_of(separators: &[[u8; REF_BYTES]], compare: &mut impl FnMut(Ref) -> Ordering) -> usize {
    separators.partition_point(|element| compare(Ref::from_bytes(*element)).is_le())
}

/// A node's kind and its places: elements of a leaf, children of an inner node.
#[inline]
fn places(arena: &Arena, node: Ref) -> (u8, &[[u8; REF_BYTES]]) {
    let (&[kind, len, ..], rest) = arena.record::<HEAD_BYTES>(node);
    (kind, rest[..usize::from(len) * REF_BYTES].as_chunks().0)
}

/// The separators of an inner node's `len` children, the unused first one too.
#[inline]
fn all_separators(arena: &Arena, node: Ref, len: usize) -> &[[u8; REF_BYTES]] {
    arena.tail(node)[SEPARATORS_AT..][..len * REF_BYTES].as_chunks().0
}

/// What divides them: one less than there are children.
#[inline]
fn separators(arena: &Arena, node: Ref, len: usize) -> &[[u8; REF_BYTES]] {
    &all_separators(arena, node, len)[1..]
}

#[inline]
fn head(arena: &Arena, node: Ref) -> (u8, usize) {
    let (&[kind, len, ..], _) = arena.record::<HEAD_BYTES>(node);
    (kind, usize::from(len))
}

#[inline]
fn child(arena: &Arena, node: Ref, at: usize) -> Ref {
    Ref::from_bytes(places(arena, node).1[at])
}

/// The places that begin at `offset` within a node's bytes.
fn places_mut(node: &mut [u8], offset: usize) -> &mut [[u8; REF_BYTES]] {
    node[offset..].as_chunks_mut().0
}

fn leaf_bytes(capacity: usize) -> usize {
    HEAD_BYTES + capacity * REF_BYTES
}

/// Shifts the places from `at` to `len` one up and writes `value` at `at`; there is room.
#[inline]
fn shift_in(places: &mut [[u8; REF_BYTES]], len: usize, at: usize, value: Ref) {
    places.copy_within(at..len, at + 1);
    places[at] = value.to_bytes();
}

/// Takes the place at `at` of `len` out.
fn shift_out(places: &mut [[u8; REF_BYTES]], len: usize, at: usize) {
    places.copy_within(at + 1..len, at);
}

fn new_leaf(arena: &mut Arena, capacity: usize, elements: &[[u8; REF_BYTES]]) -> Ref {
    debug_assert!(elements.len() <= capacity && capacity <= CAPACITY);
    let (at, node) = arena.alloc(leaf_bytes(capacity));
    let (head, rest) = node.split_first_chunk_mut::<HEAD_BYTES>().expect("it was made so long");
    *head = [LEAF, elements.len() as u8, capacity as u8, 0];
    rest[..elements.len() * REF_BYTES].copy_from_slice(elements.as_flattened());
    at
}

/// A tree of at most `CAPACITY` elements (as bytes), ascending, at least one.
pub fn from_sorted(arena: &mut Arena, elements: &[[u8; REF_BYTES]]) -> Ref {
    debug_assert!(!elements.is_empty() && elements.len() <= CAPACITY);
    // An odd number and the head fill whole granules; one element is rarely the last.
    new_leaf(arena, (elements.len() | 1).max(3), elements)
}

fn new_inner(arena: &mut Arena, children: &[[u8; REF_BYTES]], separators: &[[u8; REF_BYTES]]) -> Ref {
    debug_assert_eq!(children.len(), separators.len());
    let (at, node) = arena.alloc(INNER_BYTES);
    node[..HEAD_BYTES].copy_from_slice(&[INNER, children.len() as u8, CAPACITY as u8, 0]);
    places_mut(node, HEAD_BYTES)[..children.len()].copy_from_slice(children);
    places_mut(node, SEPARATORS_AT)[..separators.len()].copy_from_slice(separators);
    at
}

/// A node's places with one more at `at`: as many as there are, and one, up to one more than a node holds.
fn overfull(places: &[[u8; REF_BYTES]], at: usize, value: Ref) -> [[u8; REF_BYTES]; CAPACITY + 1] {
    let mut all = [[0; REF_BYTES]; CAPACITY + 1];
    all[..at].copy_from_slice(&places[..at]);
    all[at] = value.to_bytes();
    all[at + 1..=places.len()].copy_from_slice(&places[at..]);
    all
}

/// See `elements`.
#[derive(Clone, Debug)]
pub struct Elements<'a> {
    arena: &'a Arena,
    /// What is left of this leaf.
    leaf: std::slice::Iter<'a, [u8; REF_BYTES]>,
    /// To this leaf; of no steps where there is no other.
    path: Path,
}

impl Elements<'_> {
    #[cold]
    fn next_leaf(&mut self) -> Option<Ref> {
        self.path.next_leaf(self.arena);
        self.leaf = self.path.rest_of_leaf(self.arena).iter();
        self.leaf.next().map(|element| Ref::from_bytes(*element))
    }
}

impl Iterator for Elements<'_> {
    type Item = Ref;

    #[inline]
    fn next(&mut self) -> Option<Ref> {
        match self.leaf.next() {
            Some(element) => Some(Ref::from_bytes(*element)),
            None if self.path.steps.is_empty() => None,
            None => self.next_leaf(),
        }
    }
}

impl Path {
    /// The element here; `None` at the end.
    #[inline]
    pub fn element(&self, arena: &Arena) -> Option<Ref> {
        let step = self.steps.last()?;
        places(arena, step.node).1.get(step.at).map(|element| Ref::from_bytes(*element))
    }

    /// The elements from here to the end of the leaf.
    fn rest_of_leaf<'a>(&self, arena: &'a Arena) -> &'a [[u8; REF_BYTES]] {
        self.steps.last().map_or(&[], |step| &places(arena, step.node).1[step.at..])
    }

    /// To the next element, or the end.
    #[inline]
    pub fn step(&mut self, arena: &Arena) {
        let Some(step) = self.steps.last_mut() else { return };
        step.at += 1;
        if step.at >= head(arena, step.node).1 {
            self.next_leaf(arena);
        }
    }

    /// To the element before this place, or the end where there is none.
    pub fn step_back(&mut self, arena: &Arena) {
        while let Some(step) = self.steps.last_mut() {
            if step.at > 0 {
                step.at -= 1;
                break;
            }
            self.steps.pop();
        }
        while let Some(&Step { node, at }) = self.steps.last() {
            if head(arena, node).0 == LEAF {
                return;
            }
            let node = child(arena, node, at);
            let (_, len) = head(arena, node);
            self.steps.push(Step { node, at: len - 1 });
        }
    }

    /// To the first element of the next leaf, or the end.
    fn next_leaf(&mut self, arena: &Arena) {
        self.steps.pop();
        while let Some(step) = self.steps.last_mut() {
            step.at += 1;
            if step.at < head(arena, step.node).1 {
                break;
            }
            self.steps.pop();
        }
        self.down_to_first(arena);
    }

    /// From a node, down to the first element under its child here.
    fn down_to_first(&mut self, arena: &Arena) {
        while let Some(&Step { node, at }) = self.steps.last() {
            if head(arena, node).0 == LEAF {
                return;
            }
            self.steps.push(Step { node: child(arena, node, at), at: 0 });
        }
    }

    /// Whether this is the end of the whole tree.
    fn is_at_the_very_end(&self, arena: &Arena) -> bool {
        self.steps.iter().all(|step| {
            let (kind, len) = head(arena, step.node);
            step.at + usize::from(kind == INNER) == len
        })
    }

    /// Puts `element` here, where `locate` has not found it. `root` may become another node.
    pub fn insert(self, arena: &mut Arena, root: &mut Ref, element: Ref) {
        let Some(&Step { node, at }) = self.steps.last() else {
            *root = from_sorted(arena, &[element.to_bytes()]);
            return;
        };
        let (head, rest) = arena.record_mut::<HEAD_BYTES>(node);
        let [_, len, capacity, _] = head;
        if *len < *capacity {
            shift_in(places_mut(rest, 0), usize::from(*len), at, element);
            *len += 1;
        } else {
            let capacity = usize::from(*capacity);
            self.insert_into_full(arena, root, element, capacity);
        }
    }

    /// The same where the leaf here is full.
    fn insert_into_full(mut self, arena: &mut Arena, root: &mut Ref, element: Ref, capacity: usize) {
        let Step { node, at } = *self.steps.last().expect("there is a leaf here");
        let all = overfull(places(arena, node).1, at, element);
        if capacity < CAPACITY {
            debug_assert_eq!(self.steps.len(), 1, "only a root is smaller than a full leaf");
            *root = new_leaf(arena, (2 * capacity + 1).min(CAPACITY), &all[..capacity + 1]);
            arena.note_dead(leaf_bytes(capacity));
        } else {
            let keep = if self.is_at_the_very_end(arena) { CAPACITY } else { CAPACITY.div_ceil(2) };
            let right = new_leaf(arena, CAPACITY, &all[keep..]);
            keep_first(arena, node, HEAD_BYTES, &all[..keep]);
            self.steps.pop();
            self.insert_child(arena, root, node, right, Ref::from_bytes(all[keep]), keep == CAPACITY);
        }
    }

    /// Puts `element` in the place of the equal one here.
    pub fn replace(&self, arena: &mut Arena, element: Ref) {
        let step = self.steps.last().expect("there is an element here");
        places_mut(arena.tail_mut(step.node), HEAD_BYTES)[step.at] = element.to_bytes();
    }

    /// Puts `right` after `left`, the child that this path stands at, splitting inner nodes upwards.
    fn insert_child(
        mut self,
        arena: &mut Arena,
        root: &mut Ref,
        mut left: Ref,
        mut right: Ref,
        mut separator: Ref,
        at_the_end: bool,
    ) {
        while let Some(Step { node, at }) = self.steps.pop() {
            let (_, len) = head(arena, node);
            let at = at + 1;
            if len < CAPACITY {
                let bytes = arena.tail_mut(node);
                shift_in(places_mut(bytes, HEAD_BYTES), len, at, right);
                shift_in(places_mut(bytes, SEPARATORS_AT), len, at, separator);
                bytes[LEN_AT] += 1;
                return;
            }
            let keep = if at_the_end { CAPACITY } else { CAPACITY.div_ceil(2) };
            let children = overfull(places(arena, node).1, at, right);
            let separators = overfull(all_separators(arena, node, len), at, separator);
            right = new_inner(arena, &children[keep..], &separators[keep..]);
            keep_first(arena, node, HEAD_BYTES, &children[..keep]);
            keep_first(arena, node, SEPARATORS_AT, &separators[..keep]);
            separator = Ref::from_bytes(separators[keep]);
            left = node;
        }
        debug_assert_eq!(*root, left);
        let separators = [Ref::NULL.to_bytes(), separator.to_bytes()];
        *root = new_inner(arena, &[left.to_bytes(), right.to_bytes()], &separators);
    }

    /// Takes the element here out of the tree. Its own memory stays.
    pub fn remove(mut self, arena: &mut Arena, root: &mut Ref) {
        debug_assert!(self.element(arena).is_some());
        while let Some(Step { node, at }) = self.steps.pop() {
            let (head, rest) = arena.record_mut::<HEAD_BYTES>(node);
            let [kind, len, capacity, _] = head;
            let (count, is_inner) = (usize::from(*len), *kind == INNER);
            if count > 1 {
                *len -= 1;
                shift_out(places_mut(rest, 0), count, at);
                if is_inner {
                    shift_out(places_mut(rest, SEPARATORS_AT - HEAD_BYTES), count, at);
                }
                return;
            }
            let bytes = if is_inner { INNER_BYTES } else { leaf_bytes(usize::from(*capacity)) };
            arena.note_dead(bytes);
        }
        *root = Ref::NULL;
    }
}

/// Leaves a node these places, at `offset`, as many as it has then.
fn keep_first(arena: &mut Arena, node: Ref, offset: usize, places: &[[u8; REF_BYTES]]) {
    let bytes = arena.tail_mut(node);
    places_mut(bytes, offset)[..places.len()].copy_from_slice(places);
    bytes[LEN_AT] = places.len() as u8;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::memtable::arena::SlabPool;
    use proptest::prelude::*;

    /// A tree of u32 values.
    struct Set {
        arena: Arena,
        root: Ref,
    }

    impl Set {
        fn new() -> Self {
            Set { arena: Arena::new(SlabPool::new()), root: Ref::NULL }
        }

        fn element(&mut self, value: u32) -> Ref {
            let (at, bytes) = self.arena.alloc(4);
            bytes.copy_from_slice(&value.to_le_bytes());
            at
        }

        fn value(&self, element: Ref) -> u32 {
            u32::from_le_bytes(*self.arena.record(element).0)
        }

        fn insert(&mut self, value: u32) -> bool {
            let (path, found) = locate(&self.arena, self.root, |element| self.value(element).cmp(&value));
            if found.is_none() {
                let element = self.element(value);
                path.insert(&mut self.arena, &mut self.root, element);
            }
            found.is_none()
        }

        fn remove(&mut self, value: u32) -> bool {
            let (path, found) = locate(&self.arena, self.root, |element| self.value(element).cmp(&value));
            if found.is_some() {
                path.remove(&mut self.arena, &mut self.root);
            }
            found.is_some()
        }

        fn from(&self, value: u32) -> Vec<u32> {
            let mut path = seek(&self.arena, self.root, |element| self.value(element) < value);
            let mut values = Vec::new();
            while let Some(element) = path.element(&self.arena) {
                values.push(self.value(element));
                path.step(&self.arena);
            }
            values
        }

        fn down_from(&self, value: u32) -> Vec<u32> {
            let mut path = seek(&self.arena, self.root, |element| self.value(element) <= value);
            match path.element(&self.arena) {
                Some(_) => path.step_back(&self.arena),
                None => path = seek_last(&self.arena, self.root),
            }
            let mut values = Vec::new();
            while let Some(element) = path.element(&self.arena) {
                values.push(self.value(element));
                path.step_back(&self.arena);
            }
            values
        }
    }

    proptest! {
        /// Any inserts and removes, against a `BTreeSet`, walked from anywhere in both directions.
        #[test]
        fn a_tree_is_an_ordered_set(
            ops in prop::collection::vec((0u32..400, prop::bool::weighted(0.65)), 1..1500),
            from in 0u32..420,
        ) {
            let (mut set, mut model) = (Set::new(), BTreeSet::new());
            for (value, inserts) in ops {
                if inserts {
                    prop_assert_eq!(set.insert(value), model.insert(value));
                } else {
                    prop_assert_eq!(set.remove(value), model.remove(&value));
                }
            }
            prop_assert_eq!(set.from(0), model.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(set.from(from), model.range(from..).copied().collect::<Vec<_>>());
            prop_assert_eq!(set.down_from(from), model.range(..=from).rev().copied().collect::<Vec<_>>());
            let all: Vec<u32> = elements(&set.arena, set.root).map(|element| set.value(element)).collect();
            prop_assert_eq!(run(&set.arena, set.root).is_some_and(|run| run.len() != all.len()), false);
            prop_assert_eq!(all, model.iter().copied().collect::<Vec<_>>());
            let found = find(&set.arena, set.root, |element| set.value(element).cmp(&from));
            prop_assert_eq!(found.map(|element| set.value(element)), model.get(&from).copied());
        }
    }

    #[test]
    fn a_tree_made_of_a_sorted_run_goes_on_growing() {
        for len in 1..=CAPACITY as u32 {
            let mut set = Set::new();
            let mut elements = Vec::new();
            for value in 0..len {
                elements.push(set.element(value * 10).to_bytes());
            }
            set.root = from_sorted(&mut set.arena, &elements);
            (0..1_000).for_each(|value| assert_eq!(set.insert(value), value % 10 != 0 || value >= len * 10));
            assert_eq!(set.from(0), (0..1_000).collect::<Vec<_>>());
        }
    }

    fn depth(set: &Set) -> usize {
        let (path, _) = descend(&set.arena, set.root, |_| Ordering::Less);
        path.steps.len()
    }

    #[test]
    fn growing_at_the_end_fills_the_nodes() {
        let mut set = Set::new();
        (0..31 * 31 * 31).for_each(|value| assert!(set.insert(value)));
        assert_eq!(depth(&set), 3);
        assert_eq!(set.from(0).len(), 31 * 31 * 31);
        let nodes = set.arena.used_bytes() - 31 * 31 * 31 * 8 - set.arena.dead_bytes();
        assert!(nodes < 31 * 31 * 31 * 5, "{nodes} bytes of nodes");
    }

    #[test]
    fn scattered_inserts_and_full_removal_leave_nothing() {
        let mut set = Set::new();
        let scattered = |at: u32| (u64::from(at) * 2_654_435_761 % 100_003) as u32;
        (0..100_003).for_each(|at| assert!(set.insert(scattered(at))));
        assert!(depth(&set) <= 5, "{}", depth(&set));
        (0..100_003).for_each(|at| assert!(set.remove(scattered(at))));
        assert!(set.root.is_null());
        assert!(set.insert(5));
        assert_eq!(set.from(0), [5]);
    }

    /// The pattern of a queue: new elements at the end, old ones removed at the start.
    #[test]
    fn a_queue_keeps_no_empty_nodes() {
        let mut set = Set::new();
        for value in 0..50_000 {
            set.insert(value);
            if value >= 100 {
                set.remove(value - 100);
            }
        }
        assert_eq!(set.from(0).len(), 100);
        let nodes = set.arena.used_bytes() - 50_000 * 8 - set.arena.dead_bytes();
        assert!(nodes < 4_000, "{nodes} bytes of nodes live");
    }
}
