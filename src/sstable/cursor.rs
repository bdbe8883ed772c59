//! A partition of one file, walked in either direction through the blocks that hold it.
//!
//! Each change of the range deletion is stored with what holds before and after it, and a block that begins within a
//! partition with the deletion open there, so a walk can start at any entry and go either way.

use std::ops::Range;

use crate::base::ids::Token;
use crate::mutation::read::Slice;
use crate::mutation::{DeletionTime, Fragment, PartitionCursor, PartitionStart, RangeChange, ReadStop};
use crate::schema::Position;
use crate::sstable::block::Block;
use crate::sstable::entry::{self, EntryKind, Head, HeadKey};
use crate::sstable::index::{Place, Within};
use crate::sstable::reader::{IndexPlace, Reader, View};

/// The part of the partition that one block holds.
#[derive(Clone, Copy)]
struct Part<'a> {
    block: &'a Block,
    place: IndexPlace,
    /// Its entries, from the first after the head.
    low: usize,
    high: usize,
    /// It goes on in the block before.
    continued: bool,
    /// The range deletion open at its start.
    open: DeletionTime,
}

/// Walks one partition of an SSTable.
pub struct SSTableCursor<'a> {
    reader: &'a Reader,
    view: View<'a>,
    head: Head<'a>,
    /// The block of `head`, which its static row decodes with.
    head_block: &'a Block,
    slices: &'a [Slice],
    reversed: bool,
    /// How many slices are done.
    slices_done: usize,
    part: Part<'a>,
    /// Forward: the entry to look at next. Reversed: the one after it.
    at: usize,
    /// Whether `part` and `at` stand in the current slice.
    placed: bool,
    /// The range deletion that what follows is under, as told to the caller.
    open: DeletionTime,
}

impl<'a> SSTableCursor<'a> {
    pub(crate) fn open(
        reader: &'a Reader,
        view: View<'a>,
        token: Token,
        key: &[u8],
        slices: &'a [Slice],
        reversed: bool,
    ) -> Result<Option<Self>, ReadStop> {
        // Static rows stand with the partition's start alone; without any, the walk can begin where its slice does.
        let first = if reversed { slices.last().map(end_of) } else { slices.first().map(start_of) };
        let within = match first {
            Some(position) if reader.statistics().static_rows == 0 => Within::At(position),
            _ => Within::Head,
        };
        let Some(found) = reader.find(view, &Place { token, key, within })? else { return Ok(None) };
        let block = reader.data_block(view, found)?;
        let n = block.head_at_or_after(HeadKey { token, key })?;
        if n == block.heads() || block.head_key(n)? != (HeadKey { token, key }) {
            return Ok(None);
        }
        Self::at_head(reader, view, (found.place, block, n), slices, reversed).map(Some)
    }

    /// At the n-th head of a block.
    pub(crate) fn at_head(
        reader: &'a Reader,
        view: View<'a>,
        (place, block, n): (IndexPlace, &'a Block, usize),
        slices: &'a [Slice],
        reversed: bool,
    ) -> Result<Self, ReadStop> {
        let head = block.head(n)?;
        let part = part_of(place, block, n, &head);
        Ok(SSTableCursor {
            reader,
            view,
            head,
            head_block: block,
            slices,
            reversed,
            slices_done: 0,
            part,
            at: part.low,
            placed: false,
            open: DeletionTime::LIVE,
        })
    }

    fn slice(&self) -> Option<&'a Slice> {
        let n = if self.reversed { self.slices.len().checked_sub(self.slices_done + 1)? } else { self.slices_done };
        self.slices.get(n)
    }

    /// Goes to where the slice begins in the walk's direction. The change to give first, where a deletion is open there.
    fn place(&mut self, slice: &'a Slice) -> Result<Option<RangeChange<'a>>, ReadStop> {
        let edge = if self.reversed { end_of(slice) } else { start_of(slice) };
        self.go_to(edge)?;
        let (block, order) = (self.part.block, self.reader.order());
        // The first entry at or after the edge (reversed: after it).
        let after = |n: usize| -> Result<bool, ReadStop> {
            let compared = order.compare(position(block, n)?, edge);
            Ok(if self.reversed { compared.is_gt() } else { compared.is_ge() })
        };
        let mut at = first_where(self.part.low..self.part.high, after)?;
        let deletion = if self.reversed {
            let last = at.checked_sub(1).filter(|last| *last >= self.part.low);
            match last.map(|last| self.change_at(last, edge)).transpose()?.flatten() {
                Some(change) => {
                    at -= 1;
                    change.before
                }
                None => open_before(&self.part, at)?,
            }
        } else if at < self.part.high
            && let Some(change) = self.change_at(at, edge)?
        {
            at += 1;
            change.after
        } else {
            open_before(&self.part, at)?
        };
        self.at = at;
        self.placed = true;
        self.open = deletion;
        Ok((!deletion.is_live()).then_some(RangeChange { position: edge, deletion }))
    }

    /// The change that stands exactly at `edge`, if entry `n` is one.
    fn change_at(&self, n: usize, edge: Position<'a>) -> Result<Option<entry::Change<'a>>, ReadStop> {
        let block = self.part.block;
        if block.kind(n)? != EntryKind::Change {
            return Ok(None);
        }
        let change = block.change(n)?;
        Ok(self.reader.order().compare(change.position, edge).is_eq().then_some(change))
    }

    /// Makes `part` the one that holds `edge`.
    fn go_to(&mut self, edge: Position<'a>) -> Result<(), ReadStop> {
        let ends_here = self.part.high < self.part.block.entries();
        if !self.part.continued && ends_here {
            return Ok(());
        }
        let place = Place { token: self.head.token, key: self.head.key, within: Within::At(edge) };
        let found = self.reader.find(self.view, &place)?;
        match found {
            Some(found) if found.place == self.part.place => Ok(()),
            Some(found) => {
                let block = self.reader.data_block(self.view, found)?;
                self.enter(found.place, block)
            }
            None => Err(self.part.block.damage("the index has lost the block of a partition")),
        }
    }

    /// Makes `part` the partition's entries in this block.
    fn enter(&mut self, place: IndexPlace, block: &'a Block) -> Result<(), ReadStop> {
        let key = HeadKey { token: self.head.token, key: self.head.key };
        let n = block.head_at_or_after(key)?;
        if n == block.heads() || block.head_key(n)? != key {
            return Err(block.damage("a block without the partition that the index says it holds"));
        }
        self.part = part_of(place, block, n, &block.head(n)?);
        Ok(())
    }

    /// Goes to the neighbouring block, if the partition goes on there.
    fn go_on(&mut self) -> Result<bool, ReadStop> {
        if self.reversed {
            if !self.part.continued {
                return Ok(false);
            }
            let Some(place) = self.reader.previous_place(self.view, self.part.place)? else {
                return Err(self.part.block.damage("a partition that goes on from no block"));
            };
            let block = self.reader.data_block_ahead(self.view, place, true)?;
            self.enter(place, block)?;
            self.at = self.part.high;
            return Ok(true);
        }
        if self.part.high < self.part.block.entries() {
            return Ok(false);
        }
        let Some(place) = self.reader.next_place(self.view, self.part.place)? else { return Ok(false) };
        let first = self.reader.index_entry(self.view, place)?.first;
        if first.token != self.head.token || first.key != self.head.key {
            return Ok(false);
        }
        let block = self.reader.data_block_ahead(self.view, place, false)?;
        self.enter(place, block)?;
        self.at = self.part.low;
        Ok(true)
    }

    /// The next fragment of the slice; `None` at its end.
    fn step(&mut self, slice: &'a Slice) -> Result<Option<Fragment<'a>>, ReadStop> {
        loop {
            let n = if self.reversed { self.at.checked_sub(1).filter(|n| *n >= self.part.low) } else { Some(self.at) };
            let Some(n) = n.filter(|n| *n < self.part.high) else {
                if self.go_on()? {
                    continue;
                }
                return Ok(None);
            };
            let block = self.part.block;
            let (far, kind) = (if self.reversed { start_of(slice) } else { end_of(slice) }, block.kind(n)?);
            let mut beyond = self.reader.order().compare(position(block, n)?, far);
            beyond = if self.reversed { beyond.reverse() } else { beyond };
            if beyond.is_gt() || (beyond.is_eq() && kind == EntryKind::Change) {
                return Ok(None);
            }
            let fragment = match kind {
                EntryKind::Row => {
                    let row = entry::row(block.entry(n), block.base()).ok_or_else(|| block.damage("a row"))?;
                    Fragment::Row(row)
                }
                EntryKind::Change => {
                    let change = block.change(n)?;
                    let deletion = if self.reversed { change.before } else { change.after };
                    self.open = deletion;
                    Fragment::Change(RangeChange { position: change.position, deletion })
                }
                EntryKind::Head => return Err(block.damage("a head within a partition")),
            };
            self.at = if self.reversed { n } else { n + 1 };
            return Ok(Some(fragment));
        }
    }
}

impl<'a> PartitionCursor<'a> for SSTableCursor<'a> {
    fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop> {
        let static_row = entry::static_row(&self.head, self.head_block.base())
            .ok_or_else(|| self.head_block.damage("a static row"))?;
        Ok(PartitionStart { token: self.head.token, key: self.head.key, deletion: self.head.deletion, static_row })
    }

    fn next(&mut self) -> Result<Option<Fragment<'a>>, ReadStop> {
        while let Some(slice) = self.slice() {
            if !self.placed
                && let Some(change) = self.place(slice)?
            {
                return Ok(Some(Fragment::Change(change)));
            }
            if let Some(fragment) = self.step(slice)? {
                return Ok(Some(fragment));
            }
            self.placed = false;
            self.slices_done += 1;
            if !self.open.is_live() {
                self.open = DeletionTime::LIVE;
                let end = if self.reversed { start_of(slice) } else { end_of(slice) };
                return Ok(Some(Fragment::Change(RangeChange { position: end, deletion: DeletionTime::LIVE })));
            }
        }
        Ok(None)
    }
}

fn part_of<'a>(place: IndexPlace, block: &'a Block, n: usize, head: &Head<'a>) -> Part<'a> {
    let Range { start: low, end: high } = block.partition_entries(n);
    Part { block, place, low, high, continued: head.continued, open: head.open }
}

/// Where a slice starts: between rows, so that a change there never shares a row's place.
fn start_of(slice: &Slice) -> Position<'_> {
    let Position { prefix, weight } = slice.start.borrow();
    Position { prefix, weight: if weight == 0 { -1 } else { weight } }
}

/// Where a slice ends, likewise.
fn end_of(slice: &Slice) -> Position<'_> {
    let Position { prefix, weight } = slice.end.borrow();
    Position { prefix, weight: if weight == 0 { 1 } else { weight } }
}

pub(super) fn position(block: &Block, n: usize) -> Result<Position<'_>, ReadStop> {
    entry::position_of(block.entry(n)).ok_or_else(|| block.damage("an entry's position"))
}

/// The range deletion that holds just before entry `n`.
fn open_before(part: &Part<'_>, n: usize) -> Result<DeletionTime, ReadStop> {
    if !part.block.has_ranges() {
        return Ok(DeletionTime::LIVE);
    }
    for earlier in (part.low..n).rev() {
        if part.block.kind(earlier)? == EntryKind::Change {
            return Ok(part.block.change(earlier)?.after);
        }
    }
    Ok(part.open)
}

/// The first of `range` for which `holds`, which is false and then true along it.
fn first_where(range: Range<usize>, holds: impl Fn(usize) -> Result<bool, ReadStop>) -> Result<usize, ReadStop> {
    let Range { start: mut low, end: mut high } = range;
    while low < high {
        let middle = (low + high) / 2;
        if holds(middle)? {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}
