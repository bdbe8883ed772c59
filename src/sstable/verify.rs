//! Reading a whole file and checking everything that its parts say about each other.

use std::cmp::Ordering;

use crate::io::{File, Io, IoClass, OpenHow};
use crate::mutation::DeletionTime;
use crate::schema::Position;
use crate::sstable::block::Block;
use crate::sstable::entry::{self, EntryKind};
use crate::sstable::error::SSTableError;
use crate::sstable::frame::FrameKind;
use crate::sstable::index::{IndexEntry, Place, Within, index_entry};
use crate::sstable::misses::read_frame;
use crate::sstable::reader::Reader;
use crate::sstable::scanner::{Scanner, to_error};

/// What was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub blocks: u64,
    pub partitions: u64,
    pub static_rows: u64,
    pub rows: u64,
    pub cells: u64,
}

/// Where the walk is, to check what comes next against.
struct Walk<'a> {
    reader: &'a Reader,
    counts: Verified,
    key: Option<(i64, Vec<u8>)>,
    position: Option<(Vec<u8>, i8)>,
    open: DeletionTime,
}

/// Reads every block of the reader's file and checks: checksums, the order of partitions and rows, range deletions that
/// join, the index against the data, the filter against the keys, the statistics against the counts.
pub async fn verify(io: &Io, reader: &Reader) -> Result<Verified, SSTableError> {
    let file = io.open(reader.path(), OpenHow::Read, IoClass::Compaction).await?;
    let mut scanner = Scanner::open(io, reader).await?;
    let mut walk = Walk { reader, counts: Verified::default(), key: None, position: None, open: DeletionTime::LIVE };
    for n in 0..reader.root().entries() {
        let leaf = load_leaf(reader, &file, n).await?;
        for n in 0..leaf.entries() {
            let entry = index_entry(&leaf, n).map_err(to_error)?;
            let Some(block) = scanner.next_block().await? else {
                return Err(leaf.damage_error("an index entry for a block beyond the data"));
            };
            walk.index(&entry, &block)?;
            walk.block(&block)?;
        }
    }
    if let Some(block) = scanner.next_block().await? {
        return Err(block.damage_error("a block that the index does not name"));
    }
    walk.totals()
}

async fn load_leaf(reader: &Reader, file: &File, n: usize) -> Result<Block, SSTableError> {
    let in_root = index_entry(reader.root(), n).map_err(to_error)?;
    reader.check_inside(in_root.handle).map_err(to_error)?;
    let body = read_frame(file, reader.name(), FrameKind::Leaf, in_root.handle).await?;
    let leaf = Block::parse(reader.name(), in_root.handle.offset_bytes, body)?;
    if leaf.entries() == 0 || index_entry(&leaf, 0).map_err(to_error)?.first != in_root.first {
        return Err(leaf.damage_error("a leaf that begins elsewhere than the root says"));
    }
    Ok(leaf)
}

impl Walk<'_> {
    /// The index entry names this block and where it begins.
    fn index(&self, entry: &IndexEntry<'_>, block: &Block) -> Result<(), SSTableError> {
        let head = block.head(0).map_err(to_error)?;
        let within = if head.continued {
            let second = (block.entries() > 1).then(|| entry::position_of(block.entry(1))).flatten();
            Within::At(second.ok_or_else(|| block.damage_error("a repeated head and nothing after it"))?)
        } else {
            Within::Head
        };
        let first = Place { token: head.token, key: head.key, within };
        if entry.first != first || entry.handle.offset_bytes != block.offset_bytes() {
            return Err(block.damage_error("a block that begins elsewhere than the index says"));
        }
        Ok(())
    }

    fn block(&mut self, block: &Block) -> Result<(), SSTableError> {
        self.counts.blocks += 1;
        let mut next_head = 0;
        for n in 0..block.entries() {
            let kind = block.kind(n).map_err(to_error)?;
            let is_head = next_head < block.heads() && block.head_entry(next_head) == n;
            if is_head != (kind == EntryKind::Head) {
                return Err(block.damage_error("heads and their directory differ"));
            }
            match kind {
                EntryKind::Head => {
                    self.head(block, next_head)?;
                    next_head += 1;
                }
                EntryKind::Row => {
                    let row = entry::row(block.entry(n), block.base()).ok_or_else(|| block.damage_error("a row"))?;
                    self.ascends(block, Position::row(row.clustering))?;
                    self.counts.rows += 1;
                    self.counts.cells += row.cells.len() as u64;
                }
                EntryKind::Change => {
                    let change = block.change(n).map_err(to_error)?;
                    self.ascends(block, change.position)?;
                    if change.before != self.open {
                        return Err(block.damage_error("range deletions that do not join"));
                    }
                    self.open = change.after;
                }
            }
        }
        Ok(())
    }

    fn head(&mut self, block: &Block, n: usize) -> Result<(), SSTableError> {
        let head = block.head(n).map_err(to_error)?;
        let here = self.key.as_ref().map(|(token, key)| (head.token.0, head.key).cmp(&(*token, key.as_slice())));
        if head.continued {
            let same = n == 0 && here == Some(Ordering::Equal) && head.open == self.open;
            return if same { Ok(()) } else { Err(block.damage_error("a partition that goes on from no block")) };
        }
        if here.is_some_and(Ordering::is_le) || !self.open.is_live() {
            return Err(block.damage_error("partitions out of order, or a range deletion left open"));
        }
        if !self.reader.filter().may_contain(head.token) {
            return Err(block.damage_error("a partition that the filter hides"));
        }
        let row = entry::static_row(&head, block.base()).ok_or_else(|| block.damage_error("a static row"))?;
        self.counts.static_rows += u64::from(row.is_some());
        self.counts.cells += row.map_or(0, |row| row.cells.len() as u64);
        self.counts.partitions += 1;
        self.key = Some((head.token.0, head.key.to_vec()));
        self.position = None;
        Ok(())
    }

    fn ascends(&mut self, block: &Block, position: Position<'_>) -> Result<(), SSTableError> {
        let before = self.position.as_ref().map(|(prefix, weight)| Position { prefix, weight: *weight });
        if before.is_some_and(|before| self.reader.order().compare(before, position).is_ge()) {
            return Err(block.damage_error("rows out of order"));
        }
        self.position = Some((position.prefix.to_vec(), position.weight));
        Ok(())
    }

    fn totals(self) -> Result<Verified, SSTableError> {
        let (counts, statistics) = (self.counts, self.reader.statistics());
        let same = counts.partitions == statistics.partitions
            && counts.static_rows == statistics.static_rows
            && counts.rows == statistics.rows
            && counts.cells == statistics.cells
            && self.open.is_live();
        if !same {
            let offset = self.reader.footer().statistics.offset_bytes;
            return Err(SSTableError::corrupt(self.reader.name(), offset, "statistics that count otherwise"));
        }
        Ok(counts)
    }
}
