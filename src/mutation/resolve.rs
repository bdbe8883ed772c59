//! Makes a mutation of a draft, given what its owner has read. Pure.
//!
//! A counter's addition becomes the new total, its timestamp above that of the total before, so that of a counter's
//! records the latest wins by the ordinary rules. A deleted counter takes no additions until its tombstone is purged
//! (CASSANDRA-7346): a tombstone gets at least the timestamp of what it deletes, and an addition that meets one is left
//! out. A change of a list by index or value becomes cells at the elements' own paths. As in Cassandra it sees what was
//! there before the request, and what its own statement has done to the row so far.

use std::collections::{BTreeMap, BTreeSet};

use crate::base::collections::{HashSet, hasher};
use crate::base::ids::{ColumnId, TimestampMicros};
use crate::mutation::cell::{Cell, NEVER_S};
use crate::mutation::counter;
use crate::mutation::draft::{Draft, ElementChange, Piece, Values, write_cell, write_cell_tombstone};
use crate::mutation::encode::{FLAG_DRAFT, FLAGS_AT};
use crate::mutation::entry::{Entry, Stamp};
use crate::mutation::row::Row;

/// The most changes of one request that need a read: counters' additions and deletions, elements by index, removals.
pub const READS_MAX: usize = 4_096;

/// The most elements that are looked at for the lists of one mutation, a list as often as it is named; a larger list
/// alone is.
pub const ELEMENTS_MAX: usize = 1 << 22;

/// A row of the partition: by its clustering, or the static one (`None`).
pub type Place<'d> = Option<&'d [u8]>;

/// Why a change of a list cannot be made. The texts are Cassandra's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmet {
    #[error("Attempted to set an element on a list which is null")]
    SetOnNull,
    #[error("Attempted to delete an element from a list which is null")]
    DeleteFromNull,
    #[error("List index {index} out of bound, list has size {size}")]
    Index { index: i32, size: usize },
    #[error("The lists that one request changes by index or value have more than {ELEMENTS_MAX} elements")]
    TooManyElements,
}

/// Who resolves, and when.
#[derive(Clone, Copy, Debug)]
pub struct Resolver {
    pub host: [u8; 16],
    /// The wall clock, for the clocks of counters' shares.
    pub now_us: i64,
    /// The base timestamp that the mutation will have.
    pub timestamp: TimestampMicros,
    /// Whether the table has counters.
    pub is_counter: bool,
}

/// The rows that must be read, each once, in the order in which they are first needed.
pub fn places<'d>(draft: &Draft<'d>, is_counter: bool) -> Vec<Place<'d>> {
    let mut seen: HashSet<Place<'d>> = HashSet::with_hasher(hasher());
    let mut places = Vec::new();
    let mut place = None;
    for piece in draft.pieces(0) {
        let needs_read = match piece {
            Piece::Entry(Entry::Row { clustering }, _) => {
                place = Some(clustering);
                false
            }
            Piece::Entry(Entry::StaticRow, _) => {
                place = None;
                false
            }
            Piece::Entry(Entry::Cell(_), _) => is_counter,
            Piece::Entry(..) => false,
            _ => true,
        };
        if needs_read && seen.insert(place) {
            places.push(place);
        }
    }
    places
}

impl Resolver {
    /// The mutation. `rows`: for each of `places`, what is there, deletions applied and tombstones of cells left in.
    pub fn resolve<'a>(&self, draft: &Draft<'a>, rows: &BTreeMap<Place<'a>, Row<'a>>) -> Result<Vec<u8>, Unmet> {
        let mut out = draft.head_bytes().to_vec();
        if let Some(flags) = out.get_mut(FLAGS_AT) {
            *flags &= !FLAG_DRAFT;
        }
        if self.is_counter {
            self.counters(draft, rows, &mut out);
        } else {
            self.lists(draft, rows, &mut out)?;
        }
        Ok(out)
    }

    fn counters<'a>(&self, draft: &Draft<'a>, rows: &BTreeMap<Place<'a>, Row<'a>>, out: &mut Vec<u8>) {
        let mut sums: BTreeMap<(Place<'a>, ColumnId), i64> = BTreeMap::new();
        let mut deleted: BTreeSet<(Place<'a>, ColumnId)> = BTreeSet::new();
        let mut place = None;
        for piece in draft.pieces(self.timestamp) {
            match piece {
                Piece::Entry(Entry::Row { clustering }, _) => place = Some(clustering),
                Piece::Entry(Entry::StaticRow, _) => place = None,
                Piece::Entry(Entry::Cell(cell), _) => drop(deleted.insert((place, cell.column))),
                Piece::CounterAddition { column, delta } => {
                    let sum = sums.entry((place, column)).or_default();
                    *sum = sum.wrapping_add(delta);
                }
                _ => {}
            }
        }
        sums.retain(|counter, _| !deleted.contains(counter));
        let current = |place: &Place<'a>, column| rows.get(place).and_then(|row| counter_cell(row, column));
        for piece in draft.pieces(self.timestamp) {
            match piece {
                Piece::Entry(Entry::Cell(cell), _) => {
                    let found = current(&place, cell.column);
                    let stamp = self.stamp_from(found.map_or(i64::MIN, |found| found.timestamp));
                    write_cell_tombstone(out, cell.column, None, stamp, cell.local_deletion_s);
                }
                Piece::Entry(entry, bytes) => {
                    match entry {
                        Entry::Row { clustering } => place = Some(clustering),
                        Entry::StaticRow => place = None,
                        _ => {}
                    }
                    out.extend_from_slice(bytes);
                }
                // All additions to one counter are made where the first of them stands.
                Piece::CounterAddition { column, .. } => {
                    if let Some(sum) = sums.remove(&(place, column)) {
                        self.add(column, current(&place, column), sum, out);
                    }
                }
                Piece::ListElement { .. } | Piece::ListRemoval { .. } => {}
            }
        }
    }

    fn add(&self, column: ColumnId, current: Option<&Cell<'_>>, delta: i64, out: &mut Vec<u8>) {
        if current.is_some_and(Cell::is_tombstone) {
            return;
        }
        let (before, after) = current.map_or((&[][..], i64::MIN), |cell| (cell.value, cell.timestamp));
        let mut value = Vec::with_capacity(before.len().max(counter::SHARE_BYTES));
        counter::add(before, self.host, delta, self.now_us, &mut value);
        write_cell(out, column, None, self.stamp_from(after.saturating_add(1)), None, &value);
    }

    /// The base, or `least` where that is later.
    fn stamp_from(&self, least: TimestampMicros) -> Stamp {
        Stamp::Base(least.saturating_sub(self.timestamp).max(0))
    }

    fn lists<'a>(
        &self,
        draft: &Draft<'a>,
        rows: &BTreeMap<Place<'a>, Row<'a>>,
        out: &mut Vec<u8>,
    ) -> Result<(), Unmet> {
        let mut lists =
            Lists { timestamp: self.timestamp, before: None, done: Row::new(&[]), elements_left: Some(ELEMENTS_MAX) };
        for piece in draft.pieces(self.timestamp) {
            match piece {
                Piece::Entry(entry, bytes) => {
                    out.extend_from_slice(bytes);
                    match entry {
                        Entry::Row { clustering } => lists.begin(rows.get(&Some(clustering))),
                        Entry::StaticRow => lists.begin(rows.get(&None)),
                        Entry::Cell(cell) => lists.done.cells.push(cell),
                        Entry::ComplexDeletion(column, deletion) => lists.done.add_complex_deletion(column, deletion),
                        _ => {}
                    }
                }
                Piece::ListElement { column, index, change, stamp, now_s } => {
                    lists.change_element((column, index), change, stamp, now_s, out)?;
                }
                Piece::ListRemoval { column, values, stamp, now_s } => {
                    lists.remove(column, values, stamp, now_s, out)?;
                }
                Piece::CounterAddition { .. } => {}
            }
        }
        Ok(())
    }
}

fn counter_cell<'r, 'a>(row: &'r Row<'a>, column: ColumnId) -> Option<&'r Cell<'a>> {
    let at = row.cells.binary_search_by_key(&column, |cell| cell.column).ok()?;
    row.cells.get(at)
}

/// The lists of the row that a statement is at.
struct Lists<'r, 'a> {
    timestamp: TimestampMicros,
    /// What was there before the request.
    before: Option<&'r Row<'a>>,
    /// What the statement has done to the row so far.
    done: Row<'a>,
    /// How many elements may still be looked at; `None`: no list any more.
    elements_left: Option<usize>,
}

impl<'r, 'a> Lists<'r, 'a> {
    fn begin(&mut self, before: Option<&'r Row<'a>>) {
        self.before = before;
        self.done = Row::new(&[]);
    }

    /// The elements of a list as the statement sees them, in order.
    fn elements(&mut self, column: ColumnId, now_s: i64) -> Result<Vec<Cell<'a>>, Unmet> {
        let before = self.before.map_or(&[][..], |row| of_column(row, column));
        let looked_at = before.len() + self.done.cells.len();
        self.elements_left = self.elements_left.ok_or(Unmet::TooManyElements)?.checked_sub(looked_at);
        let is_untouched = self.done.complex.iter().all(|(of, _)| *of != column)
            && self.done.cells.iter().all(|cell| cell.column != column);
        if is_untouched {
            return Ok(before.iter().filter(|cell| cell.is_live(now_s)).copied().collect());
        }
        let mut row = Row::new(&[]);
        row.cells.extend(self.done.cells.iter().filter(|cell| cell.column == column).copied());
        row.order_cells();
        let mut old = Row::new(&[]);
        old.cells.extend_from_slice(before);
        row.reconcile(&old);
        if let Some(deletion) = self.done.complex.iter().find(|(of, _)| *of == column) {
            row.add_complex_deletion(column, deletion.1);
        }
        row.shadow(crate::mutation::DeletionTime::LIVE);
        row.retain_live(now_s);
        Ok(row.cells.into_vec())
    }

    fn change_element(
        &mut self,
        (column, index): (ColumnId, i32),
        change: ElementChange<'a>,
        stamp: Stamp,
        now_s: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), Unmet> {
        let elements = self.elements(column, now_s)?;
        let size = elements.len();
        if size == 0 {
            return Err(if change == ElementChange::Delete { Unmet::DeleteFromNull } else { Unmet::SetOnNull });
        }
        let element = usize::try_from(index).ok().and_then(|index| elements.get(index));
        let path = element.ok_or(Unmet::Index { index, size })?.path;
        match change {
            ElementChange::Unset => {}
            ElementChange::Delete | ElementChange::Null => self.tombstone(column, path, stamp, now_s, out),
            ElementChange::Value(value, expiry) => {
                write_cell(out, column, path, stamp, expiry, value);
                let (ttl_s, local_deletion_s) = expiry.unwrap_or((0, NEVER_S));
                let timestamp = stamp.resolve(self.timestamp);
                self.done.cells.push(Cell { column, path, timestamp, ttl_s, local_deletion_s, value });
            }
        }
        Ok(())
    }

    fn remove(
        &mut self,
        column: ColumnId,
        values: Values<'a>,
        stamp: Stamp,
        now_s: i64,
        out: &mut Vec<u8>,
    ) -> Result<(), Unmet> {
        let mut gone: HashSet<&[u8]> = HashSet::with_hasher(hasher());
        gone.extend(values);
        if gone.is_empty() {
            return Ok(());
        }
        for element in self.elements(column, now_s)? {
            if gone.contains(element.value) {
                self.tombstone(column, element.path, stamp, now_s, out);
            }
        }
        Ok(())
    }

    fn tombstone(&mut self, column: ColumnId, path: Option<&'a [u8]>, stamp: Stamp, now_s: i64, out: &mut Vec<u8>) {
        write_cell_tombstone(out, column, path, stamp, now_s);
        let timestamp = stamp.resolve(self.timestamp);
        self.done.cells.push(Cell { column, path, timestamp, ttl_s: 0, local_deletion_s: now_s.max(0), value: &[] });
    }
}

fn of_column<'r, 'a>(row: &'r Row<'a>, column: ColumnId) -> &'r [Cell<'a>] {
    let start = row.cells.partition_point(|cell| cell.column < column);
    let end = row.cells.partition_point(|cell| cell.column <= column);
    row.cells.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]
    use super::*;
    use crate::base::ids::TableId;
    use crate::mutation::{MutationBuilder, MutationView};

    const HOST: [u8; 16] = [5; 16];
    const NOW_US: i64 = 1_000_000;
    const NOW_S: i64 = 1;
    const COLUMN: ColumnId = ColumnId(4);
    const BASE: Stamp = Stamp::Base(0);

    /// A cell that came of a draft: (path, value, whether it is a tombstone, timestamp).
    type Written = (Vec<u8>, Vec<u8>, bool, i64);

    /// What a draft comes to at `timestamp` where row `()` holds these cells.
    fn resolve(
        is_counter: bool,
        timestamp: i64,
        before: &[Cell<'_>],
        write: impl FnOnce(&mut MutationBuilder<'_>),
    ) -> Result<Vec<Written>, Unmet> {
        let mut bytes = Vec::new();
        let mut builder = MutationBuilder::begin(&mut bytes, TableId([1; 16]), 1, b"k");
        write(builder.row(&[]));
        let draft = Draft::parse(&bytes).unwrap();
        let mut row = Row::new(&[]);
        row.cells.extend_from_slice(before);
        let rows = places(&draft, is_counter).into_iter().map(|place| (place, row.clone())).collect();
        let mut resolved = Resolver { host: HOST, now_us: NOW_US, timestamp, is_counter }.resolve(&draft, &rows)?;
        crate::mutation::set_timestamp(&mut resolved, timestamp);
        let view = MutationView::parse(&resolved).unwrap();
        let cells = view.entries().filter_map(|entry| match entry {
            Entry::Cell(cell) => {
                let path = cell.path.unwrap_or_default().to_vec();
                Some((path, cell.value.to_vec(), cell.is_tombstone(), cell.timestamp))
            }
            _ => None,
        });
        Ok(cells.collect())
    }

    fn cell<'a>(path: Option<&'a [u8]>, timestamp: i64, value: &'a [u8]) -> Cell<'a> {
        Cell { column: COLUMN, path, timestamp, ttl_s: 0, local_deletion_s: NEVER_S, value }
    }

    /// The counters that a draft writes, as (total, clock, timestamp).
    fn count(
        timestamp: i64,
        before: &[Cell<'_>],
        write: impl FnOnce(&mut MutationBuilder<'_>),
    ) -> Vec<(i64, i64, i64)> {
        let cells = resolve(true, timestamp, before, write).unwrap();
        let counters = cells.into_iter().map(|(_, value, is_tombstone, timestamp)| {
            assert!(!is_tombstone);
            (counter::total(&value), counter::shares(&value).next().unwrap().clock, timestamp)
        });
        counters.collect()
    }

    fn total(count: i64, clock: i64) -> Vec<u8> {
        let mut value = Vec::new();
        counter::add(&[], HOST, count, clock, &mut value);
        value
    }

    #[test]
    fn additions_become_totals_above_what_was_there() {
        let add = |builder: &mut MutationBuilder<'_>| {
            builder.counter_addition(COLUMN, 5);
        };
        assert_eq!(count(10, &[], add), [(5, NOW_US, 10)]);
        assert_eq!(count(10, &[cell(None, 7, &total(3, 2))], add), [(8, NOW_US, 10)]);
        assert_eq!(count(10, &[cell(None, 10, &total(3, NOW_US))], add), [(8, NOW_US + 1, 11)]);
        assert_eq!(
            count(10, &[cell(None, 70, &total(i64::MAX, NOW_US * 2))], add),
            [(i64::MIN + 4, NOW_US * 2 + 1, 71)]
        );
    }

    #[test]
    fn additions_of_one_request_are_one() {
        let written = count(10, &[cell(None, 7, &total(3, 2))], |builder| {
            builder.counter_addition(COLUMN, 5).counter_addition(ColumnId(9), 1).row(&[]).counter_addition(COLUMN, -2);
        });
        assert_eq!(written, [(6, NOW_US, 10), (1, NOW_US, 10)]);
    }

    #[test]
    fn a_deleted_counter_takes_no_additions() {
        let dead = Cell { local_deletion_s: 3, ..cell(None, 7, &[]) };
        let add = |builder: &mut MutationBuilder<'_>| {
            builder.counter_addition(COLUMN, 5);
        };
        assert_eq!(count(10, &[dead], add), []);
        let both = |builder: &mut MutationBuilder<'_>| {
            builder.counter_addition(COLUMN, 5).cell_tombstone(COLUMN, None, BASE, NOW_S).mark_draft();
        };
        let value = total(3, 2);
        for (at, wanted) in [(7, 10), (70, 70)] {
            let cells = resolve(true, 10, &[cell(None, at, &value)], both).unwrap();
            assert_eq!(cells, [(vec![], vec![], true, wanted)], "the counter was written at {at}");
        }
    }

    /// The list `a b c`, written at 5.
    fn change_list(write: impl FnOnce(&mut MutationBuilder<'_>)) -> Result<Vec<Written>, Unmet> {
        let list = [cell(Some(b"1"), 5, b"a"), cell(Some(b"2"), 5, b"b"), cell(Some(b"3"), 5, b"a")];
        resolve(false, 10, &list, write)
    }

    fn set(builder: &mut MutationBuilder<'_>, index: i32, value: &[u8]) {
        builder.list_element(COLUMN, index, &ElementChange::Value(value, None), BASE, NOW_S);
    }

    fn live(path: &[u8], value: &[u8]) -> Written {
        (path.to_vec(), value.to_vec(), false, 10)
    }

    fn gone(path: &[u8]) -> Written {
        (path.to_vec(), vec![], true, 10)
    }

    #[test]
    fn elements_are_changed_at_their_own_paths() {
        assert_eq!(change_list(|builder| set(builder, 1, b"x")), Ok(vec![live(b"2", b"x")]));
        let delete = |builder: &mut MutationBuilder<'_>| {
            builder.list_element(COLUMN, 2, &ElementChange::Delete, BASE, NOW_S);
        };
        assert_eq!(change_list(delete), Ok(vec![gone(b"3")]));
        let unset = |builder: &mut MutationBuilder<'_>| {
            builder.list_element(COLUMN, 2, &ElementChange::Unset, BASE, NOW_S);
        };
        assert_eq!(change_list(unset), Ok(vec![]));
        let removal = |builder: &mut MutationBuilder<'_>| {
            builder.list_removal(COLUMN, [&b"a"[..], b"z"].into_iter(), BASE, NOW_S);
        };
        assert_eq!(change_list(removal), Ok(vec![gone(b"1"), gone(b"3")]));
    }

    #[test]
    fn a_statement_sees_what_it_has_done_and_not_what_others_of_its_request_have() {
        let one_statement = change_list(|builder| {
            builder.cell(COLUMN, Some(b"0"), BASE, None, b"first");
            set(builder, 0, b"x");
            builder.list_element(COLUMN, 1, &ElementChange::Delete, BASE, NOW_S);
            set(builder, 1, b"y");
        });
        assert_eq!(one_statement, Ok(vec![live(b"0", b"first"), live(b"0", b"x"), gone(b"1"), live(b"2", b"y")]));
        let several = change_list(|builder| {
            builder.list_element(COLUMN, 0, &ElementChange::Delete, BASE, NOW_S).row(&[]);
            set(builder, 0, b"y");
        });
        assert_eq!(several, Ok(vec![gone(b"1"), live(b"1", b"y")]));
    }

    #[test]
    fn what_is_not_there_is_told() {
        assert_eq!(change_list(|builder| set(builder, 3, b"x")), Err(Unmet::Index { index: 3, size: 3 }));
        assert_eq!(change_list(|builder| set(builder, -1, b"x")), Err(Unmet::Index { index: -1, size: 3 }));
        let expired = Cell { ttl_s: 1, local_deletion_s: NOW_S, ..cell(Some(b"1"), 5, b"a") };
        let run = |change| {
            resolve(false, 10, &[expired], |builder| {
                builder.list_element(COLUMN, 0, &change, BASE, NOW_S);
            })
        };
        assert_eq!(run(ElementChange::Null), Err(Unmet::SetOnNull));
        assert_eq!(run(ElementChange::Delete), Err(Unmet::DeleteFromNull));
    }

    #[test]
    fn long_lists_are_not_looked_at_without_end() {
        let paths: Vec<[u8; 4]> = (0..ELEMENTS_MAX as u32 / 4 + 1).map(u32::to_be_bytes).collect();
        let list: Vec<Cell<'_>> = paths.iter().map(|path| cell(Some(path), 5, b"a")).collect();
        let times = |times: i32| {
            resolve(false, 10, &list, |builder| {
                for index in 0..times {
                    set(builder.row(&[]), index, b"x");
                }
            })
        };
        assert_eq!(times(4).map(|cells| cells.len()), Ok(4));
        assert_eq!(times(5), Err(Unmet::TooManyElements));
    }
}
