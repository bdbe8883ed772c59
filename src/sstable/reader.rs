//! An open file: its footer, statistics, filter and index root in memory, the rest through the block cache.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::base::ids::Token;
use crate::io::{ALIGN_BYTES, AlignedBuf, File, Io, IoClass, OpenHow};
use crate::mutation::ReadStop;
use crate::mutation::read::{Slice, TokenRange};
use crate::schema::{ClusteringOrder, Table};
use crate::sstable::SSTableId;
use crate::sstable::block::Block;
use crate::sstable::cache::BlockCache;
use crate::sstable::cursor::SSTableCursor;
use crate::sstable::error::{SSTableError, damaged};
use crate::sstable::filter::Filter;
use crate::sstable::footer::{FOOTER_BYTES, Footer, check_header};
use crate::sstable::frame::FrameKind;
use crate::sstable::index::{Handle, IndexEntry, Place, index_entry, last_at_or_before};
use crate::sstable::misses::{Misses, read_frame};
use crate::sstable::pins::Pins;
use crate::sstable::scan::SSTableScan;
use crate::sstable::statistics::Statistics;
use crate::sstable::writer::SSTableInfo;

/// Blocks that a walk asks for beyond the one it misses.
const BLOCKS_AHEAD: usize = 3;

/// What a read sees blocks through. All of it outlives the read's cursors.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub cache: &'a BlockCache,
    /// Holds the blocks that rows are borrowed from.
    pub pins: &'a Pins,
    /// Collects the blocks that are not in the cache.
    pub misses: &'a Misses,
}

/// Where a data block stands in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexPlace {
    /// The root's entry.
    pub leaf: usize,
    /// The leaf's entry.
    pub entry: usize,
}

/// A data block that a search of the index gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub place: IndexPlace,
    handle: Handle,
}

/// An open SSTable.
pub struct Reader {
    info: SSTableInfo,
    file: File,
    name: Rc<str>,
    order: ClusteringOrder,
    footer: Footer,
    filter: Filter,
    root: Block,
    owned: Option<Vec<TokenRange>>,
}

impl Reader {
    /// Opens a file of `table` and checks all that is not a data or leaf block; those are checked when they are loaded.
    pub async fn open(io: &Io, id: SSTableId, path: &Path, table: &Table) -> Result<Self, SSTableError> {
        let name: Rc<str> = path.to_string_lossy().into();
        let file = io.open(path, OpenHow::Read, IoClass::Read).await?;
        let file_bytes = file.len().await?;
        let (buf, read) = file.read_at(AlignedBuf::new(ALIGN_BYTES), 0).await;
        check_header(&name, table.id, &buf[..read?])?;
        let footer = read_footer(&file, &name, file_bytes).await?;
        let corrupt = |offset: u64, what: &str| SSTableError::corrupt(&name, offset, what);
        let root = read_frame(&file, &name, FrameKind::Root, footer.root).await?;
        let root = Block::parse(&name, footer.root.offset_bytes, root)?;
        let filter = read_frame(&file, &name, FrameKind::Filter, footer.filter).await?;
        let filter = Filter::decode(&filter).ok_or_else(|| corrupt(footer.filter.offset_bytes, "the filter"))?;
        let statistics = read_frame(&file, &name, FrameKind::Statistics, footer.statistics).await?;
        let statistics =
            Statistics::decode(&statistics).ok_or_else(|| corrupt(footer.statistics.offset_bytes, "the statistics"))?;
        let info = SSTableInfo { id, path: path.to_owned(), file_bytes, statistics: Rc::new(statistics) };
        Ok(Reader { info, file, name, order: table.clustering_order().clone(), footer, filter, root, owned: None })
    }

    /// Limits the reader to partitions in `owned`: the file is shared with other shards, which own the rest. The ranges
    /// are ascending and disjoint.
    pub fn restrict(&mut self, owned: Vec<TokenRange>) {
        self.owned = Some(owned);
    }

    pub fn id(&self) -> SSTableId {
        self.info.id
    }

    pub fn info(&self) -> &SSTableInfo {
        &self.info
    }

    pub fn path(&self) -> &PathBuf {
        &self.info.path
    }

    pub fn statistics(&self) -> &Rc<Statistics> {
        &self.info.statistics
    }

    pub fn order(&self) -> &ClusteringOrder {
        &self.order
    }

    /// The ranges it is limited to; `None` where the whole file is ours.
    pub fn owned(&self) -> Option<&[TokenRange]> {
        self.owned.as_deref()
    }

    /// What the reader keeps in memory beside cached blocks.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Reader>() + self.filter.memory_bytes() + self.root.memory_bytes()
    }

    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    pub(crate) fn footer(&self) -> &Footer {
        &self.footer
    }

    pub(crate) fn root(&self) -> &Block {
        &self.root
    }

    pub(crate) fn name(&self) -> &Rc<str> {
        &self.name
    }

    /// Whether the partition may be in the file, as far as ownership, bounds and filter know: never a false no. The
    /// least timestamp in the file then bounds what is hidden in it.
    pub fn may_contain(&self, token: Token) -> bool {
        let statistics = &self.info.statistics;
        self.owns(token) && token >= statistics.first.0 && token <= statistics.last.0 && self.filter.may_contain(token)
    }

    pub fn owns(&self, token: Token) -> bool {
        self.owned.as_ref().is_none_or(|owned| owned_from(owned, token) == Some(token))
    }

    /// The least token at or after `token` that is ours.
    pub(crate) fn next_owned(&self, token: Token) -> Option<Token> {
        match &self.owned {
            None => Some(token),
            Some(owned) => owned_from(owned, token),
        }
    }

    /// A partition's rows in `slices` (ascending and disjoint, also where `reversed`); `None` where it is not here.
    pub fn partition<'a>(
        &'a self,
        view: View<'a>,
        token: Token,
        key: &[u8],
        slices: &'a [Slice],
        reversed: bool,
    ) -> Result<Option<SSTableCursor<'a>>, ReadStop> {
        if !self.may_contain(token) {
            return Ok(None);
        }
        SSTableCursor::open(self, view, token, key, slices, reversed)
    }

    /// A walk over partitions in token and key order, from the first at or after (`token`, `key`); an empty key is
    /// before all keys.
    pub fn scan<'a>(&'a self, view: View<'a>, token: Token, key: &'a [u8]) -> SSTableScan<'a> {
        SSTableScan::at_or_after(self, view, token, key)
    }

    /// The same from the first partition after this one.
    pub fn scan_after<'a>(&'a self, view: View<'a>, token: Token, key: &'a [u8]) -> SSTableScan<'a> {
        SSTableScan::after(self, view, token, key)
    }

    /// The data block that `find` gave.
    pub(crate) fn data_block<'a>(&'a self, view: View<'a>, found: Found) -> Result<&'a Block, ReadStop> {
        self.block(view, FrameKind::Data, found.handle)
    }

    /// The data block at a place of the index, for a walk that goes on to the blocks after (`reversed`: before) it: where
    /// this one is missing, the next few are asked for with it.
    pub(crate) fn data_block_ahead<'a>(
        &'a self,
        view: View<'a>,
        at: IndexPlace,
        reversed: bool,
    ) -> Result<&'a Block, ReadStop> {
        let leaf = self.leaf(view, at.leaf)?;
        let found = self.block(view, FrameKind::Data, index_entry(leaf, at.entry)?.handle);
        if matches!(found, Err(ReadStop::Miss)) {
            let next = |n| if reversed { at.entry.checked_sub(n) } else { Some(at.entry + n) };
            for entry in (1..=BLOCKS_AHEAD).filter_map(next).filter(|entry| *entry < leaf.entries()) {
                let handle = index_entry(leaf, entry)?.handle;
                if !view.cache.contains(self.info.id, handle.offset_bytes) && self.check_inside(handle).is_ok() {
                    view.misses.note(self.info.id, &self.file, &self.name, FrameKind::Data, handle);
                }
            }
        }
        found
    }

    pub(crate) fn index_entry<'a>(&'a self, view: View<'a>, at: IndexPlace) -> Result<IndexEntry<'a>, ReadStop> {
        index_entry(self.leaf(view, at.leaf)?, at.entry)
    }

    /// The last data block that begins at or before `place`.
    pub(crate) fn find<'a>(&'a self, view: View<'a>, place: &Place<'_>) -> Result<Option<Found>, ReadStop> {
        let Some(leaf) = last_at_or_before(&self.root, place, &self.order)? else { return Ok(None) };
        let block = self.leaf(view, leaf)?;
        match last_at_or_before(block, place, &self.order)? {
            Some(entry) => {
                let handle = index_entry(block, entry)?.handle;
                Ok(Some(Found { place: IndexPlace { leaf, entry }, handle }))
            }
            None => Err(block.damage("a leaf begins after what the root says")),
        }
    }

    pub(crate) fn first_place(&self) -> Option<IndexPlace> {
        (self.root.entries() > 0).then_some(IndexPlace { leaf: 0, entry: 0 })
    }

    pub(crate) fn next_place(&self, view: View<'_>, at: IndexPlace) -> Result<Option<IndexPlace>, ReadStop> {
        if at.entry + 1 < self.leaf(view, at.leaf)?.entries() {
            return Ok(Some(IndexPlace { entry: at.entry + 1, ..at }));
        }
        Ok((at.leaf + 1 < self.root.entries()).then_some(IndexPlace { leaf: at.leaf + 1, entry: 0 }))
    }

    pub(crate) fn previous_place(&self, view: View<'_>, at: IndexPlace) -> Result<Option<IndexPlace>, ReadStop> {
        if at.entry > 0 {
            return Ok(Some(IndexPlace { entry: at.entry - 1, ..at }));
        }
        let Some(leaf) = at.leaf.checked_sub(1) else { return Ok(None) };
        let entries = self.leaf(view, leaf)?.entries();
        Ok(entries.checked_sub(1).map(|entry| IndexPlace { leaf, entry }))
    }

    /// An index entry points into the data or the leaves: nothing is allocated for a length that cannot be.
    pub(crate) fn check_inside(&self, handle: Handle) -> Result<(), ReadStop> {
        let end = handle.offset_bytes.checked_add(u64::from(handle.len_bytes));
        if end.is_some_and(|end| end <= self.footer.root.offset_bytes) {
            return Ok(());
        }
        Err(damaged(&self.name, handle.offset_bytes, "an index entry that points outside the blocks"))
    }

    fn leaf<'a>(&'a self, view: View<'a>, n: usize) -> Result<&'a Block, ReadStop> {
        let block = self.block(view, FrameKind::Leaf, index_entry(&self.root, n)?.handle)?;
        if block.entries() == 0 {
            return Err(block.damage("a leaf without entries"));
        }
        Ok(block)
    }

    fn block<'a>(&'a self, view: View<'a>, kind: FrameKind, handle: Handle) -> Result<&'a Block, ReadStop> {
        match view.cache.get(self.info.id, handle.offset_bytes) {
            Some(block) => Ok(view.pins.pin(block)),
            None => {
                self.check_inside(handle)?;
                view.misses.note(self.info.id, &self.file, &self.name, kind, handle);
                Err(ReadStop::Miss)
            }
        }
    }
}

async fn read_footer(file: &File, name: &str, file_bytes: u64) -> Result<Footer, SSTableError> {
    let align = ALIGN_BYTES as u64;
    let Some(last_page) = file_bytes.checked_sub(align).filter(|page| page.is_multiple_of(align)) else {
        return Err(SSTableError::corrupt(name, file_bytes, "the file does not end on a page: it was cut short"));
    };
    let (buf, read) = file.read_at(AlignedBuf::new(ALIGN_BYTES), last_page).await;
    let read = read?;
    if read < FOOTER_BYTES {
        return Err(SSTableError::corrupt(name, last_page, "the file ends within its footer"));
    }
    Footer::decode(name, &buf[..read], file_bytes)
}

/// The least token at or after `token` in any of the ranges.
fn owned_from(owned: &[TokenRange], token: Token) -> Option<Token> {
    let at = owned.partition_point(|range| range.end_inclusive.is_some_and(|end| end < token));
    let range = owned.get(at)?;
    match range.start_exclusive {
        Some(start) if start >= token => start.0.checked_add(1).map(Token),
        _ => Some(token),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: Option<i64>, end: Option<i64>) -> TokenRange {
        TokenRange { start_exclusive: start.map(Token), end_inclusive: end.map(Token) }
    }

    #[test]
    fn the_next_owned_token_is_in_a_range() {
        let owned = [range(None, Some(-10)), range(Some(0), Some(5)), range(Some(100), None)];
        let next = |token| owned_from(&owned, Token(token)).map(|token| token.0);
        assert_eq!(next(i64::MIN), Some(i64::MIN));
        assert_eq!(next(-10), Some(-10));
        assert_eq!(next(-9), Some(1));
        assert_eq!(next(0), Some(1));
        assert_eq!(next(5), Some(5));
        assert_eq!(next(6), Some(101));
        assert_eq!(next(i64::MAX), Some(i64::MAX));
        assert_eq!(owned_from(&owned[..2], Token(6)), None);
        assert_eq!(owned_from(&[], Token(6)), None);
    }
}
