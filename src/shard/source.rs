//! What a read draws from: the memtables and SSTables of one table at one moment.

use std::cell::Ref;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::base::ids::Token;
use crate::memtable::{Memtable, MemtableCursor, PartitionBound, Version};
use crate::mutation::merge::Merge;
use crate::mutation::point::{PointKey, PointMerge};
use crate::mutation::read::Slice;
use crate::mutation::{Fragment, PartitionCursor, PartitionStart, ReadStop, Row};
use crate::schema::ClusteringOrder;
use crate::shard::tables::{SstableSet, TableStore};
use crate::sstable::{Reader, SSTableCursor, SSTableScan, View};

/// The sources of a table, held while a page is tried. Memtables cannot change meanwhile.
pub struct Sources<'s> {
    active: Ref<'s, Memtable>,
    flushing: SmallVec<[Rc<Memtable>; 2]>,
    sstables: SstableSet,
}

/// One source's cursor.
pub enum SourceCursor<'a> {
    Memtable(MemtableCursor<'a>),
    Sstable(SSTableCursor<'a>),
}

impl<'a> PartitionCursor<'a> for SourceCursor<'a> {
    fn start(&mut self) -> Result<PartitionStart<'a>, ReadStop> {
        match self {
            SourceCursor::Memtable(cursor) => cursor.start(),
            SourceCursor::Sstable(cursor) => cursor.start(),
        }
    }

    fn next(&mut self) -> Result<Option<Fragment<'a>>, ReadStop> {
        match self {
            SourceCursor::Memtable(cursor) => cursor.next(),
            SourceCursor::Sstable(cursor) => cursor.next(),
        }
    }
}

/// What of a partition is in memory: equal as long as nothing is written to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// The memtable that takes writes: another one after each flush, so that a write is seen though it is in no memtable
    /// any more.
    active: u64,
    held: SmallVec<[Version; 2]>,
}

/// The cursors of one partition.
pub type Cursors<'a> = SmallVec<[SourceCursor<'a>; 4]>;

impl<'s> Sources<'s> {
    pub fn of(store: &'s TableStore, sstables: SstableSet) -> Self {
        let flushing = store.flushing.borrow().iter().map(|frozen| frozen.memtable.clone()).collect();
        Sources { active: store.active(), flushing, sstables }
    }

    fn memtables(&self) -> impl Iterator<Item = &Memtable> {
        std::iter::once(&*self.active).chain(self.flushing.iter().map(|memtable| &**memtable))
    }

    pub fn versions(&self, token: Token, key: &[u8]) -> Versions {
        let held = self.memtables().filter_map(|memtable| memtable.version(token, key)).collect();
        Versions { active: self.active.number(), held }
    }

    /// Asks each SSTable, until one says false. One that misses a block does not end it: the others are asked too, so that
    /// all that is missing is loaded at once.
    fn ask_sstables<'a>(&'a self, mut ask: impl FnMut(&'a Reader) -> Result<bool, ReadStop>) -> Result<bool, ReadStop> {
        let mut missed = false;
        for reader in self.sstables.iter() {
            match ask(reader) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(ReadStop::Miss) => missed = true,
                Err(stop) => return Err(stop),
            }
        }
        if missed { Err(ReadStop::Miss) } else { Ok(true) }
    }

    /// One partition's cursors, from every source that has it.
    pub fn partition<'a>(
        &'a self,
        view: View<'a>,
        token: Token,
        key: &[u8],
        slices: &'a [Slice],
        reversed: bool,
    ) -> Result<Cursors<'a>, ReadStop> {
        let mut cursors = Cursors::new();
        for memtable in self.memtables() {
            cursors.extend(memtable.partition(token, key, slices, reversed).map(SourceCursor::Memtable));
        }
        self.ask_sstables(|reader| {
            let cursor = reader.partition(view, token, key, slices, reversed)?;
            cursors.extend(cursor.map(SourceCursor::Sstable));
            Ok(true)
        })?;
        Ok(cursors)
    }

    /// One row, out of all sources that have it. False, and the merge of no use, where one of them leaves it to `row`.
    pub fn add_point<'a>(
        &'a self,
        view: View<'a>,
        at: &PointKey,
        merge: &mut PointMerge<'a>,
    ) -> Result<bool, ReadStop> {
        for memtable in self.memtables() {
            if !memtable.add_point(at, merge) {
                return Ok(false);
            }
        }
        self.ask_sstables(|reader| reader.add_point(view, at, merge))
    }

    /// One row by the slice that holds it, or the static row where there are no slices: deletions applied, tombstones of
    /// cells and what has expired left in.
    pub fn row<'a>(
        &'a self,
        view: View<'a>,
        token: Token,
        key: &[u8],
        slices: &'a [Slice],
        order: &'a ClusteringOrder,
    ) -> Result<Option<Row<'a>>, ReadStop> {
        let cursors = self.partition(view, token, key, slices, false)?;
        if cursors.is_empty() {
            return Ok(None);
        }
        let mut merge = Merge::new(order, false, cursors);
        let start = merge.start()?;
        if slices.is_empty() {
            return Ok(start.static_row);
        }
        loop {
            match merge.next()? {
                Some(Fragment::Row(row)) => return Ok(Some(row)),
                Some(Fragment::Change(_)) => {}
                None => return Ok(None),
            }
        }
    }

    /// A walk over all partitions from (`token`, `key`) on, or behind it.
    pub fn scan<'a>(&'a self, view: View<'a>, token: Token, key: &'a [u8], behind: bool) -> Scan<'a, 's> {
        let sstables = self
            .sstables
            .iter()
            .map(|reader| if behind { reader.scan_after(view, token, key) } else { reader.scan(view, token, key) });
        Scan { sources: self, sstables: sstables.collect(), at: (token, key), behind }
    }
}

/// A walk over the partitions of all sources, in token and key order.
pub struct Scan<'a, 's> {
    sources: &'a Sources<'s>,
    sstables: SmallVec<[SSTableScan<'a>; 4]>,
    /// Memtables are asked for the first partition from here, or behind it.
    at: (Token, &'a [u8]),
    behind: bool,
}

impl<'a> Scan<'a, '_> {
    /// The next partition, `None` at the end.
    pub fn peek(&mut self) -> Result<Option<(Token, &'a [u8])>, ReadStop> {
        let mut least: Option<(Token, &'a [u8])> = None;
        let mut missed = false;
        for memtable in self.sources.memtables() {
            let (token, key) = self.at;
            let bound = if self.behind { PartitionBound::After(token, key) } else { PartitionBound::At(token, key) };
            least = earlier(least, memtable.first_partition(bound).map(|next| (next.token(), next.key())));
        }
        for scan in &mut self.sstables {
            match scan.peek() {
                Ok(next) => least = earlier(least, next),
                Err(ReadStop::Miss) => missed = true,
                Err(stop) => return Err(stop),
            }
        }
        if missed { Err(ReadStop::Miss) } else { Ok(least) }
    }

    /// The cursors of the partition that `peek` gave.
    pub fn partition(
        &mut self,
        token: Token,
        key: &'a [u8],
        slices: &'a [Slice],
        reversed: bool,
    ) -> Result<Cursors<'a>, ReadStop> {
        let mut cursors = Cursors::new();
        for memtable in self.sources.memtables() {
            cursors.extend(memtable.partition(token, key, slices, reversed).map(SourceCursor::Memtable));
        }
        let mut missed = false;
        for scan in &mut self.sstables {
            let here = match scan.peek() {
                Ok(next) => next == Some((token, key)),
                Err(ReadStop::Miss) => {
                    missed = true;
                    continue;
                }
                Err(stop) => return Err(stop),
            };
            if here {
                match scan.partition(slices, reversed) {
                    Ok(cursor) => cursors.extend(cursor.map(SourceCursor::Sstable)),
                    Err(ReadStop::Miss) => missed = true,
                    Err(stop) => return Err(stop),
                }
            }
        }
        if missed { Err(ReadStop::Miss) } else { Ok(cursors) }
    }

    /// Goes past the partition that `peek` gave.
    pub fn advance(&mut self, token: Token, key: &'a [u8]) -> Result<(), ReadStop> {
        for scan in &mut self.sstables {
            if scan.peek()? == Some((token, key)) {
                scan.advance()?;
            }
        }
        self.at = (token, key);
        self.behind = true;
        Ok(())
    }
}

fn earlier<'a>(a: Option<(Token, &'a [u8])>, b: Option<(Token, &'a [u8])>) -> Option<(Token, &'a [u8])> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
