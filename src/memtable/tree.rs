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

/// Finds where an element stands or would stand; `compare` orders the element it is given against the sought one. Whether
/// it is there.
pub fn locate(arena: &Arena, root: Ref, compare: impl FnMut(Ref) -> Ordering) -> (Path, bool) {
    descend(arena, root, compare)
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

/// Finds the last element.
pub fn seek_last(arena: &Arena, root: Ref) -> Path {
    let (mut path, _) = descend(arena, root, |_| Ordering::Less);
    path.step_back(arena);
    path
}

/// Down to the leaf where the sought element stands or would stand, by separators that are at or before it.
fn descend(arena: &Arena, root: Ref, mut compare: impl FnMut(Ref) -> Ordering) -> (Path, bool) {
    let mut path = Path::default();
    if root.is_null() {
        return (path, false);
    }
    let mut node = root;
    loop {
        let (kind, len) = head(arena, node);
        if kind == LEAF {
            let elements = refs(arena, node, HEAD_BYTES, len);
            let (mut low, mut high, mut found) = (0, len, false);
            while low < high {
                let middle = usize::midpoint(low, high);
                match compare(Ref::from_bytes(elements[middle])) {
                    Ordering::Less => low = middle + 1,
                    order => (high, found) = (middle, order.is_eq()),
                }
                if found {
                    low = middle;
                    break;
                }
            }
            path.steps.push(Step { node, at: low });
            return (path, found);
        }
        let separators = refs(arena, node, SEPARATORS_AT + REF_BYTES, len - 1);
        let at = separators.partition_point(|element| compare(Ref::from_bytes(*element)).is_le());
        path.steps.push(Step { node, at });
        node = child(arena, node, at);
    }
}

fn head(arena: &Arena, node: Ref) -> (u8, usize) {
    let [kind, len, ..] = *arena.array::<HEAD_BYTES>(node, 0);
    (kind, usize::from(len))
}

fn capacity(arena: &Arena, node: Ref) -> usize {
    let [_, _, capacity, _] = *arena.array::<HEAD_BYTES>(node, 0);
    usize::from(capacity)
}

fn set_len(arena: &mut Arena, node: Ref, len: usize) {
    debug_assert!(len <= CAPACITY);
    arena.set(node, 1, &[len as u8]);
}

fn refs(arena: &Arena, node: Ref, offset: usize, len: usize) -> &[[u8; REF_BYTES]] {
    arena.bytes(node, offset, len * REF_BYTES).as_chunks().0
}

fn child(arena: &Arena, node: Ref, at: usize) -> Ref {
    arena.get_ref(node, HEAD_BYTES + at * REF_BYTES)
}

fn set_ref(arena: &mut Arena, node: Ref, offset: usize, at: usize, value: Ref) {
    arena.set(node, offset + at * REF_BYTES, &value.to_bytes());
}

fn leaf_bytes(capacity: usize) -> usize {
    HEAD_BYTES + capacity * REF_BYTES
}

/// Shifts the places from `at` to `len` one up and writes `value` at `at`; there is room.
fn shift_in(arena: &mut Arena, node: Ref, offset: usize, len: usize, at: usize, value: Ref) {
    let places = arena.bytes_mut(node, offset + at * REF_BYTES, (len - at + 1) * REF_BYTES);
    places.copy_within(..(len - at) * REF_BYTES, REF_BYTES);
    places[..REF_BYTES].copy_from_slice(&value.to_bytes());
}

/// Takes the place at `at` of `len` out.
fn shift_out(arena: &mut Arena, node: Ref, offset: usize, len: usize, at: usize) {
    let places = arena.bytes_mut(node, offset + at * REF_BYTES, (len - at) * REF_BYTES);
    places.copy_within(REF_BYTES.., 0);
}

fn new_leaf(arena: &mut Arena, capacity: usize, elements: &[[u8; REF_BYTES]]) -> Ref {
    let node = arena.alloc(leaf_bytes(capacity));
    arena.set(node, 0, &[LEAF, elements.len() as u8, capacity as u8, 0]);
    arena.set(node, HEAD_BYTES, elements.as_flattened());
    node
}

/// A tree of at most `CAPACITY` elements (as bytes), ascending, at least one.
pub fn from_sorted(arena: &mut Arena, elements: &[[u8; REF_BYTES]]) -> Ref {
    debug_assert!(!elements.is_empty() && elements.len() <= CAPACITY);
    // An odd number and the head fill whole granules; one element is rarely the last.
    new_leaf(arena, (elements.len() | 1).max(3), elements)
}

fn new_inner(arena: &mut Arena, children: &[[u8; REF_BYTES]], separators: &[[u8; REF_BYTES]]) -> Ref {
    debug_assert_eq!(children.len(), separators.len());
    let node = arena.alloc(INNER_BYTES);
    arena.set(node, 0, &[INNER, children.len() as u8, CAPACITY as u8, 0]);
    arena.set(node, HEAD_BYTES, children.as_flattened());
    arena.set(node, SEPARATORS_AT, separators.as_flattened());
    node
}

/// The node's places with one more at `at`: one more than a node holds.
fn overfull(places: &[[u8; REF_BYTES]], at: usize, value: Ref) -> [[u8; REF_BYTES]; CAPACITY + 1] {
    let mut all = [[0; REF_BYTES]; CAPACITY + 1];
    all[..at].copy_from_slice(&places[..at]);
    all[at] = value.to_bytes();
    all[at + 1..].copy_from_slice(&places[at..]);
    all
}

impl Path {
    /// The element here; `None` at the end.
    pub fn element(&self, arena: &Arena) -> Option<Ref> {
        let step = self.steps.last()?;
        let (_, len) = head(arena, step.node);
        (step.at < len).then(|| child(arena, step.node, step.at))
    }

    /// To the next element, or the end.
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
    pub fn insert(mut self, arena: &mut Arena, root: &mut Ref, element: Ref) {
        let Some(&Step { node, at }) = self.steps.last() else {
            *root = from_sorted(arena, &[element.to_bytes()]);
            return;
        };
        let (_, len) = head(arena, node);
        let capacity = capacity(arena, node);
        if len < capacity {
            shift_in(arena, node, HEAD_BYTES, len, at, element);
            set_len(arena, node, len + 1);
        } else if capacity < CAPACITY {
            debug_assert_eq!(self.steps.len(), 1, "only a root is smaller than a full leaf");
            let mut elements = [[0; REF_BYTES]; CAPACITY];
            elements[..len].copy_from_slice(refs(arena, node, HEAD_BYTES, len));
            let grown = new_leaf(arena, (2 * capacity + 1).min(CAPACITY), &elements[..len]);
            arena.note_dead(leaf_bytes(capacity));
            shift_in(arena, grown, HEAD_BYTES, len, at, element);
            set_len(arena, grown, len + 1);
            *root = grown;
        } else {
            let keep = if self.is_at_the_very_end(arena) { CAPACITY } else { CAPACITY.div_ceil(2) };
            let all = overfull(refs(arena, node, HEAD_BYTES, len), at, element);
            let right = new_leaf(arena, CAPACITY, &all[keep..]);
            arena.set(node, HEAD_BYTES, all[..keep].as_flattened());
            set_len(arena, node, keep);
            self.steps.pop();
            self.insert_child(arena, root, node, right, Ref::from_bytes(all[keep]), keep == CAPACITY);
        }
    }

    /// Puts `element` in the place of the equal one here.
    pub fn replace(&self, arena: &mut Arena, element: Ref) {
        let step = self.steps.last().expect("there is an element here");
        set_ref(arena, step.node, HEAD_BYTES, step.at, element);
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
                shift_in(arena, node, HEAD_BYTES, len, at, right);
                shift_in(arena, node, SEPARATORS_AT, len, at, separator);
                set_len(arena, node, len + 1);
                return;
            }
            let keep = if at_the_end { CAPACITY } else { CAPACITY.div_ceil(2) };
            let children = overfull(refs(arena, node, HEAD_BYTES, len), at, right);
            let separators = overfull(refs(arena, node, SEPARATORS_AT, len), at, separator);
            right = new_inner(arena, &children[keep..], &separators[keep..]);
            arena.set(node, HEAD_BYTES, children[..keep].as_flattened());
            arena.set(node, SEPARATORS_AT, separators[..keep].as_flattened());
            set_len(arena, node, keep);
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
            let (kind, len) = head(arena, node);
            if len > 1 {
                shift_out(arena, node, HEAD_BYTES, len, at);
                if kind == INNER {
                    shift_out(arena, node, SEPARATORS_AT, len, at);
                }
                set_len(arena, node, len - 1);
                return;
            }
            arena.note_dead(if kind == INNER { INNER_BYTES } else { leaf_bytes(capacity(arena, node)) });
        }
        *root = Ref::NULL;
    }
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

        fn insert(&mut self, value: u32) -> bool {
            let (path, found) = locate(&self.arena, self.root, |element| self.arena.u32(element, 0).cmp(&value));
            if !found {
                let element = self.arena.alloc(4);
                self.arena.set(element, 0, &value.to_le_bytes());
                path.insert(&mut self.arena, &mut self.root, element);
            }
            !found
        }

        fn remove(&mut self, value: u32) -> bool {
            let (path, found) = locate(&self.arena, self.root, |element| self.arena.u32(element, 0).cmp(&value));
            if found {
                path.remove(&mut self.arena, &mut self.root);
            }
            found
        }

        fn from(&self, value: u32) -> Vec<u32> {
            let mut path = seek(&self.arena, self.root, |element| self.arena.u32(element, 0) < value);
            let mut values = Vec::new();
            while let Some(element) = path.element(&self.arena) {
                values.push(self.arena.u32(element, 0));
                path.step(&self.arena);
            }
            values
        }

        fn down_from(&self, value: u32) -> Vec<u32> {
            let mut path = seek(&self.arena, self.root, |element| self.arena.u32(element, 0) <= value);
            match path.element(&self.arena) {
                Some(_) => path.step_back(&self.arena),
                None => path = seek_last(&self.arena, self.root),
            }
            let mut values = Vec::new();
            while let Some(element) = path.element(&self.arena) {
                values.push(self.arena.u32(element, 0));
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
        }
    }

    #[test]
    fn a_tree_made_of_a_sorted_run_goes_on_growing() {
        for len in 1..=CAPACITY as u32 {
            let mut set = Set::new();
            let mut elements = Vec::new();
            for value in 0..len {
                let element = set.arena.alloc(4);
                set.arena.set(element, 0, &(value * 10).to_le_bytes());
                elements.push(element.to_bytes());
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
