//! Applies a mutation's entries to one partition, with the rules of `mutation`: the same winner whatever arrives first.
//!
//! What loses, or is covered by a deletion that the partition already has, is not stored. What a new deletion of a row or
//! a collection covers is taken out; a partition's deletion that covers everything empties it at once, and one that does
//! not is left to the reader, as ranges are.
//!
//! The cells of a new row mostly come in order, and so do the rows of a new partition: they are gathered and made a tree
//! at once.

use std::cmp::Ordering;

use smallvec::SmallVec;

use crate::base::ids::{ColumnId, TimestampMicros};
use crate::memtable::arena::{Arena, Ref};
use crate::memtable::record::cell::{Met, Plain};
use crate::memtable::record::range::Range;
use crate::memtable::record::{Content, Place, cell, partition, row};
use crate::memtable::{ranges, tree};
use crate::mutation::cell::{Cell, DeletionTime, Liveness};
use crate::mutation::entry::Entry;
use crate::mutation::view::Entries;
use crate::schema::ClusteringOrder;

/// What entries were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// How many rows are new.
    pub rows_new: u64,
    /// The least and the greatest timestamp of all entries, whether they are kept or not; greatest < least where none has
    /// one.
    pub timestamp_min: TimestampMicros,
    pub timestamp_max: TimestampMicros,
}

/// Applies a mutation's entries to the partition at `at`, which may have been made for it, as its mutation of this number.
pub fn apply_mutation(
    arena: &mut Arena,
    order: &ClusteringOrder,
    (at, is_new): (Ref, bool),
    number: u64,
    mut entries: Entries<'_>,
) -> Applied {
    let mut target = Target::new(arena, order, at, is_new);
    loop {
        target.plain_cells(&mut entries);
        match entries.next() {
            Some(entry) => target.entry(entry),
            None => break,
        }
    }
    target.end(Some(number))
}

/// Applies entries to the partition at `at` that are no mutation's.
pub fn apply<'m>(
    arena: &mut Arena,
    order: &ClusteringOrder,
    at: Ref,
    entries: impl Iterator<Item = Entry<'m>>,
) -> Applied {
    let mut target = Target::new(arena, order, at, false);
    entries.for_each(|entry| target.entry(entry));
    target.end(None)
}

struct Target<'t> {
    arena: &'t mut Arena,
    order: &'t ClusteringOrder,
    partition: Ref,
    partition_deletion: DeletionTime,
    /// What the partition's record is to say in the end.
    content: partition::Content,
    /// The row that entries go to.
    row: Ref,
    /// The root of its cells.
    cells: Ref,
    /// Its cells, where they are one run, as they were when these were last looked up; open: they are so still.
    old_cells: Run,
    /// Before this one, its cells are of columns before those to come, if columns come in order.
    next_cell: usize,
    /// The stronger of the row's deletion and the partition's.
    covering: DeletionTime,
    /// The arena's live bytes up to which the partition's count of its content goes.
    settled_bytes: usize,
    applied: Applied,
    /// The rows of a new partition so far, while they come in order.
    new_rows: Run,
    /// The cells of a new row so far, while they come in the order of their columns.
    new_cells: Run,
    /// The column of the last of these.
    last_column: Option<ColumnId>,
}

/// Elements in order: those of a tree, or those that will be one.
struct Run {
    elements: SmallVec<[[u8; 4]; tree::CAPACITY]>,
    /// Whether the tree has no elements but these.
    is_open: bool,
}

impl Run {
    #[inline]
    fn new(is_open: bool) -> Self {
        Run { elements: SmallVec::new(), is_open }
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.is_open && self.elements.len() < tree::CAPACITY
    }

    #[inline]
    fn last(&self) -> Option<Ref> {
        self.elements.last().map(|element| Ref::from_bytes(*element))
    }

    #[inline]
    fn get(&self, at: usize) -> Option<Ref> {
        self.elements.get(at).map(|element| Ref::from_bytes(*element))
    }

    #[inline]
    fn push(&mut self, element: Ref) {
        self.elements.push(element.to_bytes());
    }

    /// Takes over these elements, all of their tree.
    #[inline]
    fn set(&mut self, elements: &[[u8; 4]]) {
        self.elements.clear();
        self.elements.extend_from_slice(elements);
        self.is_open = true;
    }

    /// The root of the tree, where there is any element; the run is over.
    #[inline]
    fn close(&mut self, arena: &mut Arena) -> Option<Ref> {
        self.is_open = false;
        if self.elements.is_empty() {
            return None;
        }
        let root = tree::from_sorted(arena, &self.elements);
        self.elements.clear();
        Some(root)
    }
}

impl<'t> Target<'t> {
    #[inline]
    fn new(arena: &'t mut Arena, order: &'t ClusteringOrder, at: Ref, is_new: bool) -> Self {
        let settled_bytes = arena.live_bytes();
        let (partition_deletion, content) = if is_new {
            (DeletionTime::LIVE, partition::Content::NONE)
        } else {
            let head = partition::read(arena, at);
            (head.deletion(), head.content())
        };
        Target {
            partition_deletion,
            content,
            arena,
            order,
            partition: at,
            row: Ref::NULL,
            cells: Ref::NULL,
            old_cells: Run::new(false),
            next_cell: 0,
            covering: DeletionTime::LIVE,
            new_rows: Run::new(content.rows.is_null()),
            new_cells: Run::new(false),
            last_column: None,
            settled_bytes,
            applied: Applied { rows_new: 0, timestamp_min: TimestampMicros::MAX, timestamp_max: TimestampMicros::MIN },
        }
    }

    /// All entries were given: says in the partition's record what came of them.
    #[inline]
    fn end(&mut self, number: Option<u64>) -> Applied {
        self.close_cells();
        self.close_rows();
        self.settle();
        self.content.last_mutation = number.unwrap_or(self.content.last_mutation);
        partition::set_content(self.arena, self.partition, &self.content);
        self.applied
    }

    /// Applies the plain cells that come next.
    #[inline]
    fn plain_cells(&mut self, entries: &mut Entries<'_>) {
        let timestamp = entries.base_timestamp();
        // One of its own, which need not stand in memory.
        let mut left = entries.clone();
        let Some(mut next) = left.next_plain_cell() else { return };
        self.see(timestamp);
        loop {
            let (column, value) = next;
            if !self.covering.deletes(timestamp) {
                self.plain_cell(&Plain { column, timestamp, value });
            }
            match left.next_plain_cell() {
                Some(cell) => next = cell,
                None => break,
            }
        }
        *entries = left;
    }

    #[inline]
    fn entry(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::Cell(cell) => {
                self.see(cell.timestamp);
                self.cell(&cell);
            }
            Entry::Row { clustering } => {
                let (at, is_new) = self.find_or_create_row(clustering);
                self.begin(at, is_new);
            }
            Entry::StaticRow => {
                let (at, is_new) = self.find_or_create_static_row();
                self.begin(at, is_new);
            }
            Entry::Liveness(liveness) => {
                self.see(liveness.timestamp);
                self.liveness(liveness);
            }
            Entry::RowDeletion(deletion) => {
                self.see(deletion.timestamp);
                self.row_deletion(deletion);
            }
            Entry::ComplexDeletion(column, deletion) => {
                self.see(deletion.timestamp);
                self.complex_deletion(column, deletion);
            }
            Entry::RangeTombstone { start, end, deletion } => {
                self.see(deletion.timestamp);
                self.range(&Range { start, end, deletion });
            }
            Entry::PartitionDeletion(deletion) => {
                self.see(deletion.timestamp);
                self.partition_deletion(deletion);
            }
            Entry::Partition { .. } => unreachable!("a checked mutation has no partition entry"),
        }
    }

    /// Notes that an entry has this timestamp.
    #[inline]
    fn see(&mut self, timestamp: TimestampMicros) {
        self.applied.timestamp_min = self.applied.timestamp_min.min(timestamp);
        self.applied.timestamp_max = self.applied.timestamp_max.max(timestamp);
    }

    /// Notes that the partition holds something of this timestamp.
    #[inline]
    fn note(&mut self, timestamp: TimestampMicros) {
        self.content.max_timestamp = self.content.max_timestamp.max(timestamp);
    }

    /// Brings the partition's count of its content up to date.
    fn settle(&mut self) {
        let live = self.arena.live_bytes();
        self.content.bytes = self.content.bytes + live as u64 - self.settled_bytes as u64;
        self.settled_bytes = live;
    }

    fn begin(&mut self, at: Ref, is_new: bool) {
        self.close_cells();
        self.row = at;
        self.next_cell = 0;
        if is_new {
            (self.cells, self.covering) = (Ref::NULL, self.partition_deletion);
            (self.new_cells.is_open, self.last_column) = (true, None);
            self.old_cells.set(&[]);
        } else {
            let head = row::head(self.arena, at);
            (self.cells, self.covering) = (head.cells(), head.deletion().max(self.partition_deletion));
            self.look_up_cells();
        }
    }

    #[inline]
    fn look_up_cells(&mut self) {
        self.old_cells.set(tree::run(self.arena, self.cells).unwrap_or_default());
    }

    /// Makes the gathered cells the row's.
    #[inline]
    fn close_cells(&mut self) {
        if let Some(root) = self.new_cells.close(self.arena) {
            self.set_cells(root);
        }
    }

    /// Makes the gathered rows the partition's.
    #[inline]
    fn close_rows(&mut self) {
        if let Some(root) = self.new_rows.close(self.arena) {
            self.content.rows = root;
        }
    }

    fn set_cells(&mut self, root: Ref) {
        if root != self.cells {
            self.cells = root;
            row::set_cells(self.arena, self.row, root);
        }
    }

    /// The row's place and whether it is new.
    #[inline]
    fn find_or_create_row(&mut self, clustering: &[u8]) -> (Ref, bool) {
        if self.new_rows.has_room() {
            let compare = |last| self.order.compare_rows(row::clustering(self.arena, last), clustering);
            match self.new_rows.last().map(|last| (last, compare(last))) {
                Some((last, Ordering::Equal)) => return (last, false),
                Some((_, Ordering::Greater)) => {}
                Some((_, Ordering::Less)) | None => {
                    let element = row::create(self.arena, clustering);
                    self.new_rows.push(element);
                    self.applied.rows_new += 1;
                    return (element, true);
                }
            }
        }
        self.other_row(clustering)
    }

    fn other_row(&mut self, clustering: &[u8]) -> (Ref, bool) {
        self.close_rows();
        let (arena, order) = (&*self.arena, self.order);
        // Without clustering columns there is no other row.
        if clustering.is_empty()
            && let Some([only]) = tree::run(arena, self.content.rows)
        {
            return (Ref::from_bytes(*only), false);
        }
        let compare = |element| order.compare_rows(row::clustering(arena, element), clustering);
        let (path, found) = tree::locate(arena, self.content.rows, compare);
        if let Some(element) = found {
            return (element, false);
        }
        let element = row::create(self.arena, clustering);
        path.insert(self.arena, &mut self.content.rows, element);
        self.applied.rows_new += 1;
        (element, true)
    }

    fn find_or_create_static_row(&mut self) -> (Ref, bool) {
        if !self.content.static_row.is_null() {
            return (self.content.static_row, false);
        }
        self.content.static_row = row::create(self.arena, &[]);
        (self.content.static_row, true)
    }

    fn liveness(&mut self, liveness: Liveness) {
        let before = row::head(self.arena, self.row).liveness();
        if !self.covering.deletes(liveness.timestamp) && before.max(liveness) != before {
            self.note(liveness.timestamp);
            row::set_liveness(self.arena, self.row, liveness);
        }
    }

    fn cell(&mut self, cell: &Cell<'_>) {
        if self.covering.deletes(cell.timestamp) {
            return;
        }
        if let Some(plain) = Plain::of(cell) {
            self.plain_cell(&plain);
        } else if cell.path.is_none() && self.is_next(cell.column) {
            let element = cell::create(self.arena, &Content::Cell(*cell));
            self.push_new(element, cell.column, cell.timestamp);
        } else {
            self.other_cell(cell);
        }
    }

    #[inline]
    fn plain_cell(&mut self, plain: &Plain<'_>) {
        if self.is_next(plain.column) {
            let element = cell::create_plain(self.arena, plain);
            self.push_new(element, plain.column, plain.timestamp);
        } else if !self.meets_next(plain) {
            self.other_cell(&plain.cell());
        }
    }

    /// Whether a cell of this column is the next of the new row's that are gathered.
    #[inline]
    fn is_next(&self, column: ColumnId) -> bool {
        self.new_cells.has_room() && Some(column) > self.last_column
    }

    #[inline]
    fn push_new(&mut self, element: Ref, column: ColumnId, timestamp: TimestampMicros) {
        self.note(timestamp);
        self.new_cells.push(element);
        self.last_column = Some(column);
    }

    /// Lets a cell meet the row's, from the next one on, as when a statement sets again what it has set. Whether it has met
    /// its like.
    #[inline]
    fn meets_next(&mut self, plain: &Plain<'_>) -> bool {
        if !self.old_cells.is_open {
            self.look_up_cells();
        }
        while let Some(element) = self.old_cells.get(self.next_cell) {
            match cell::meet_plain(self.arena, element, plain) {
                Met::Won => self.note(plain.timestamp),
                Met::Lost => {}
                Met::Later => {
                    self.next_cell += 1;
                    continue;
                }
                Met::Other => return false,
            }
            self.next_cell += 1;
            return true;
        }
        false
    }

    fn other_cell(&mut self, cell: &Cell<'_>) {
        self.close_cells();
        if cell.path.is_some() && complex_deletion(self.arena, self.cells, cell.column).deletes(cell.timestamp) {
            return;
        }
        self.put(&Content::Cell(*cell), cell.timestamp);
    }

    /// Adds a cell or a collection's deletion, or lets it win over what stands in its place.
    fn put(&mut self, content: &Content<'_>, timestamp: TimestampMicros) {
        self.old_cells.is_open = false;
        let place = cell::place(content);
        let mut root = self.cells;
        let arena = &*self.arena;
        let (path, found) = tree::locate(arena, root, |element| cell::compare(arena, element, &place));
        match found {
            Some(element) => {
                if !wins(content, &cell::read(arena, element)) {
                    return;
                }
                if !cell::overwrite(self.arena, element, content) {
                    let dead = cell::size(self.arena, element);
                    let new = cell::create(self.arena, content);
                    path.replace(self.arena, new);
                    self.arena.note_dead(dead);
                }
            }
            None => {
                let element = cell::create(self.arena, content);
                path.insert(self.arena, &mut root, element);
                self.set_cells(root);
            }
        }
        self.note(timestamp);
    }

    fn row_deletion(&mut self, deletion: DeletionTime) {
        self.close_cells();
        if self.covering.max(deletion) == self.covering {
            return;
        }
        self.note(deletion.timestamp);
        row::set_deletion(self.arena, self.row, deletion);
        self.covering = deletion;
        if deletion.deletes(row::head(self.arena, self.row).liveness().timestamp) {
            row::set_liveness(self.arena, self.row, Liveness::NONE);
        }
        let covered = self.covered(None, deletion);
        self.take_out(&covered);
    }

    fn complex_deletion(&mut self, column: ColumnId, deletion: DeletionTime) {
        self.close_cells();
        if self.covering.max(deletion) == self.covering {
            return;
        }
        let before = complex_deletion(self.arena, self.cells, column);
        if before.max(deletion) == before {
            return;
        }
        let covered = self.covered(Some(column), deletion);
        self.take_out(&covered);
        self.put(&Content::ComplexDeletion(column, deletion), deletion.timestamp);
    }

    /// What `deletion` covers among the cells of the row, or of one collection of it.
    fn covered(&self, column: Option<ColumnId>, deletion: DeletionTime) -> SmallVec<[Ref; 8]> {
        let (arena, root) = (&*self.arena, self.cells);
        let first = Place { column: column.unwrap_or(ColumnId(0)), is_cell: column.is_some(), path: None };
        let mut path = tree::seek(arena, root, |element| cell::compare(arena, element, &first).is_lt());
        let mut covered = SmallVec::new();
        while let Some(element) = path.element(arena) {
            let (of, is_covered) = match cell::read(arena, element) {
                Content::Cell(cell) => (cell.column, deletion.deletes(cell.timestamp)),
                Content::ComplexDeletion(of, other) => (of, deletion.max(other) == deletion),
            };
            if column.is_some_and(|column| column != of) {
                break;
            }
            if is_covered {
                covered.push(element);
            }
            path.step(arena);
        }
        covered
    }

    fn take_out(&mut self, elements: &[Ref]) {
        self.old_cells.is_open = false;
        let mut root = self.cells;
        for &element in elements {
            let arena = &*self.arena;
            let content = cell::read(arena, element);
            let place = cell::place(&content);
            let (path, found) = tree::locate(arena, root, |other| cell::compare(arena, other, &place));
            debug_assert_eq!(found, Some(element));
            let size = cell::size(arena, element);
            path.remove(self.arena, &mut root);
            self.arena.note_dead(size);
        }
        self.set_cells(root);
    }

    fn range(&mut self, range: &Range<'_>) {
        if self.partition_deletion.max(range.deletion) == self.partition_deletion {
            return;
        }
        self.note(range.deletion.timestamp);
        ranges::insert(self.arena, self.order, &mut self.content.ranges, range);
    }

    fn partition_deletion(&mut self, deletion: DeletionTime) {
        if self.partition_deletion.max(deletion) == self.partition_deletion {
            return;
        }
        self.close_cells();
        self.partition_deletion = deletion;
        partition::set_deletion(self.arena, self.partition, deletion);
        // At its own timestamp it may meet a deletion within the partition that is stronger by its local time.
        if deletion.timestamp > self.content.max_timestamp {
            self.settle();
            self.arena.note_dead(self.content.bytes as usize);
            self.settle();
            self.new_rows = Run::new(true);
            let emptied = partition::Content::NONE;
            let content = &mut self.content;
            (content.rows, content.static_row, content.ranges) = (emptied.rows, emptied.static_row, emptied.ranges);
        }
    }
}

fn complex_deletion(arena: &Arena, root: Ref, column: ColumnId) -> DeletionTime {
    let place = Place { column, is_cell: false, path: None };
    let found = tree::find(arena, root, |element| cell::compare(arena, element, &place));
    match found.map(|element| cell::read(arena, element)) {
        Some(Content::ComplexDeletion(_, deletion)) => deletion,
        _ => DeletionTime::LIVE,
    }
}

/// Whether `new` wins over `old` at the same place.
fn wins(new: &Content<'_>, old: &Content<'_>) -> bool {
    match (new, old) {
        (Content::Cell(new), Content::Cell(old)) => new.reconcile(old).is_gt(),
        (Content::ComplexDeletion(_, new), Content::ComplexDeletion(_, old)) => old.max(*new) != *old,
        _ => unreachable!("cells and deletions stand at different places"),
    }
}
