//! Applies a mutation's entries to one partition, with the rules of `mutation`: the same winner whatever arrives first.
//!
//! What loses, or is covered by a deletion that the partition already has, is not stored. What a new deletion of a row or
//! a collection covers is taken out; a partition's deletion that covers everything empties it at once, and one that does
//! not is left to the reader, as ranges are.
//!
//! The cells of a new row mostly come in order: they are gathered and made a tree at once.

use smallvec::SmallVec;

use crate::base::ids::{ColumnId, TimestampMicros};
use crate::memtable::arena::{Arena, Ref};
use crate::memtable::record::range::Range;
use crate::memtable::record::{Content, Place, cell, partition, row};
use crate::memtable::{ranges, tree};
use crate::mutation::cell::{Cell, DeletionTime, Liveness};
use crate::mutation::entry::Entry;
use crate::schema::ClusteringOrder;

/// Applies entries to the partition at `at`. How many rows are new.
pub fn apply<'m>(
    arena: &mut Arena,
    order: &ClusteringOrder,
    at: Ref,
    entries: impl Iterator<Item = Entry<'m>>,
) -> usize {
    let settled_bytes = arena.live_bytes();
    let mut target = Target {
        max_timestamp: arena.i64(at, partition::MAX_TIMESTAMP),
        partition_deletion: partition::deletion(arena, at),
        arena,
        order,
        partition: at,
        row: Ref::NULL,
        covering: DeletionTime::LIVE,
        run: Run { elements: [[0; 4]; tree::CAPACITY], len: 0, last_column: None, is_open: false },
        settled_bytes,
        rows_new: 0,
    };
    for entry in entries {
        target.entry(entry);
    }
    target.close_run();
    target.settle();
    let greatest = target.max_timestamp;
    target.arena.set(at, partition::MAX_TIMESTAMP, &greatest.to_le_bytes());
    target.rows_new
}

struct Target<'t> {
    arena: &'t mut Arena,
    order: &'t ClusteringOrder,
    partition: Ref,
    partition_deletion: DeletionTime,
    /// The greatest timestamp of what the partition holds, its own deletion aside.
    max_timestamp: TimestampMicros,
    /// The row that entries go to.
    row: Ref,
    /// The stronger of the row's deletion and the partition's.
    covering: DeletionTime,
    /// The arena's live bytes up to which the partition's count of its content goes.
    settled_bytes: usize,
    rows_new: usize,
    run: Run,
}

/// The cells of a new row so far, while they come in the order of their columns.
struct Run {
    elements: [[u8; 4]; tree::CAPACITY],
    len: usize,
    last_column: Option<ColumnId>,
    /// Whether the row has no cells but these.
    is_open: bool,
}

impl Run {
    fn takes(&self, cell: &Cell<'_>) -> bool {
        self.is_open && self.len < tree::CAPACITY && cell.path.is_none() && Some(cell.column) > self.last_column
    }
}

impl Target<'_> {
    fn entry(&mut self, entry: Entry<'_>) {
        match entry {
            Entry::Cell(cell) => self.cell(cell),
            Entry::Row { clustering } => {
                let (at, is_new) = self.find_or_create_row(clustering);
                self.begin(at, is_new);
            }
            Entry::StaticRow => {
                let (at, is_new) = self.find_or_create_static_row();
                self.begin(at, is_new);
            }
            Entry::Liveness(liveness) => self.liveness(liveness),
            Entry::RowDeletion(deletion) => self.row_deletion(deletion),
            Entry::ComplexDeletion(column, deletion) => self.complex_deletion(column, deletion),
            Entry::RangeTombstone { start, end, deletion } => self.range(&Range { start, end, deletion }),
            Entry::PartitionDeletion(deletion) => self.partition_deletion(deletion),
            Entry::Partition { .. } => unreachable!("a checked mutation has no partition entry"),
        }
    }

    /// Brings the partition's count of its content up to date. How many bytes it is now.
    fn settle(&mut self) -> usize {
        let live = self.arena.live_bytes();
        let counted = u64::from_le_bytes(*self.arena.array(self.partition, partition::CONTENT_BYTES)) as usize;
        let content = counted + live - self.settled_bytes;
        self.arena.set(self.partition, partition::CONTENT_BYTES, &(content as u64).to_le_bytes());
        self.settled_bytes = live;
        content
    }

    fn begin(&mut self, at: Ref, is_new: bool) {
        self.close_run();
        self.row = at;
        self.run.is_open = is_new;
        self.covering =
            if is_new { self.partition_deletion } else { row::deletion(self.arena, at).max(self.partition_deletion) };
    }

    /// Makes the gathered cells the row's.
    fn close_run(&mut self) {
        if self.run.len > 0 {
            let root = tree::from_sorted(self.arena, &self.run.elements[..self.run.len]);
            self.arena.set(self.row, row::CELLS, &root.to_bytes());
        }
        (self.run.len, self.run.last_column, self.run.is_open) = (0, None, false);
    }

    /// The row's place and whether it is new.
    fn find_or_create_row(&mut self, clustering: &[u8]) -> (Ref, bool) {
        let mut root = self.arena.get_ref(self.partition, partition::ROWS);
        let (arena, order) = (&*self.arena, self.order);
        let compare = |element| order.compare_rows(row::clustering(arena, element), clustering);
        let (path, found) = tree::locate(arena, root, compare);
        if found && let Some(element) = path.element(arena) {
            return (element, false);
        }
        let element = row::create(self.arena, clustering);
        path.insert(self.arena, &mut root, element);
        self.arena.set(self.partition, partition::ROWS, &root.to_bytes());
        self.rows_new += 1;
        (element, true)
    }

    fn find_or_create_static_row(&mut self) -> (Ref, bool) {
        let existing = self.arena.get_ref(self.partition, partition::STATIC_ROW);
        if !existing.is_null() {
            return (existing, false);
        }
        let element = row::create(self.arena, &[]);
        self.arena.set(self.partition, partition::STATIC_ROW, &element.to_bytes());
        (element, true)
    }

    /// Notes that the partition holds something of this timestamp.
    fn note(&mut self, timestamp: TimestampMicros) {
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }

    fn liveness(&mut self, liveness: Liveness) {
        let before = row::liveness(self.arena, self.row);
        if !self.covering.deletes(liveness.timestamp) && before.max(liveness) != before {
            self.note(liveness.timestamp);
            row::set_liveness(self.arena, self.row, liveness);
        }
    }

    fn cell(&mut self, cell: Cell<'_>) {
        if self.covering.deletes(cell.timestamp) {
            return;
        }
        if self.run.takes(&cell) {
            self.note(cell.timestamp);
            let element = cell::create(self.arena, &Content::Cell(cell));
            self.run.elements[self.run.len] = element.to_bytes();
            (self.run.len, self.run.last_column) = (self.run.len + 1, Some(cell.column));
            return;
        }
        self.close_run();
        let root = self.arena.get_ref(self.row, row::CELLS);
        if cell.path.is_some() && complex_deletion(self.arena, root, cell.column).deletes(cell.timestamp) {
            return;
        }
        self.put(&Content::Cell(cell), cell.timestamp);
    }

    /// Adds a cell or a collection's deletion, or lets it win over what stands in its place.
    fn put(&mut self, content: &Content<'_>, timestamp: TimestampMicros) {
        let place = cell::place(content);
        let mut root = self.arena.get_ref(self.row, row::CELLS);
        let arena = &*self.arena;
        let (path, found) = tree::locate(arena, root, |element| cell::compare(arena, element, &place));
        match path.element(arena).filter(|_| found) {
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
                self.arena.set(self.row, row::CELLS, &root.to_bytes());
            }
        }
        self.note(timestamp);
    }

    fn row_deletion(&mut self, deletion: DeletionTime) {
        self.close_run();
        if self.covering.max(deletion) == self.covering {
            return;
        }
        self.note(deletion.timestamp);
        row::set_deletion(self.arena, self.row, deletion);
        self.covering = deletion;
        if deletion.deletes(row::liveness(self.arena, self.row).timestamp) {
            row::set_liveness(self.arena, self.row, Liveness::NONE);
        }
        let covered = self.covered(None, deletion);
        self.take_out(&covered);
    }

    fn complex_deletion(&mut self, column: ColumnId, deletion: DeletionTime) {
        self.close_run();
        if self.covering.max(deletion) == self.covering {
            return;
        }
        let root = self.arena.get_ref(self.row, row::CELLS);
        let before = complex_deletion(self.arena, root, column);
        if before.max(deletion) == before {
            return;
        }
        let covered = self.covered(Some(column), deletion);
        self.take_out(&covered);
        self.put(&Content::ComplexDeletion(column, deletion), deletion.timestamp);
    }

    /// What `deletion` covers among the cells of the row, or of one collection of it.
    fn covered(&self, column: Option<ColumnId>, deletion: DeletionTime) -> SmallVec<[Ref; 8]> {
        let arena = &*self.arena;
        let root = arena.get_ref(self.row, row::CELLS);
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
        let mut root = self.arena.get_ref(self.row, row::CELLS);
        for &element in elements {
            let arena = &*self.arena;
            let content = cell::read(arena, element);
            let place = cell::place(&content);
            let (path, found) = tree::locate(arena, root, |other| cell::compare(arena, other, &place));
            debug_assert!(found);
            let size = cell::size(arena, element);
            path.remove(self.arena, &mut root);
            self.arena.note_dead(size);
        }
        self.arena.set(self.row, row::CELLS, &root.to_bytes());
    }

    fn range(&mut self, range: &Range<'_>) {
        if self.partition_deletion.max(range.deletion) == self.partition_deletion {
            return;
        }
        self.note(range.deletion.timestamp);
        let mut root = self.arena.get_ref(self.partition, partition::RANGES);
        ranges::insert(self.arena, self.order, &mut root, range);
        self.arena.set(self.partition, partition::RANGES, &root.to_bytes());
    }

    fn partition_deletion(&mut self, deletion: DeletionTime) {
        if self.partition_deletion.max(deletion) == self.partition_deletion {
            return;
        }
        self.close_run();
        self.partition_deletion = deletion;
        partition::set_deletion(self.arena, self.partition, deletion);
        // At its own timestamp it may meet a deletion within the partition that is stronger by its local time.
        if deletion.timestamp > self.max_timestamp {
            let content = self.settle();
            self.arena.note_dead(content);
            self.settle();
            for root in [partition::ROWS, partition::STATIC_ROW, partition::RANGES] {
                self.arena.set(self.partition, root, &Ref::NULL.to_bytes());
            }
        }
    }
}

fn complex_deletion(arena: &Arena, root: Ref, column: ColumnId) -> DeletionTime {
    let place = Place { column, is_cell: false, path: None };
    let (path, found) = tree::locate(arena, root, |element| cell::compare(arena, element, &place));
    match path.element(arena).filter(|_| found).map(|element| cell::read(arena, element)) {
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
