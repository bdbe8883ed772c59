//! Which blocks a walk wanted and did not find, and fetching them.

use std::cell::RefCell;
use std::rc::Rc;

use crate::base::local::Permit;
use crate::io::{ALIGN_BYTES, AlignedBuf, File};
use crate::sstable::SSTableId;
use crate::sstable::block::Block;
use crate::sstable::cache::BlockCache;
use crate::sstable::error::SSTableError;
use crate::sstable::frame::{self, FrameKind};
use crate::sstable::in_flight::InFlight;
use crate::sstable::index::Handle;

/// So much a block counts for at least: it expands.
const LOAD_BYTES_MIN: usize = 64 << 10;

/// A block that was not in memory.
#[derive(Clone)]
struct Wanted {
    sstable: SSTableId,
    file: File,
    name: Rc<str>,
    kind: FrameKind,
    handle: Handle,
}

impl Wanted {
    fn room_bytes(&self) -> u64 {
        (self.handle.len_bytes as usize).max(LOAD_BYTES_MIN) as u64
    }
}

/// Collects what one read misses, and holds what was loaded for it until it is released, so that the cache cannot evict
/// it before the read starts again.
#[derive(Default)]
pub struct Misses {
    wanted: RefCell<Vec<Wanted>>,
    held: Vec<(Wanted, Rc<Block>)>,
    /// What they are counted for.
    room: Vec<Permit>,
}

impl Misses {
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn note(&self, sstable: SSTableId, file: &File, name: &Rc<str>, kind: FrameKind, handle: Handle) {
        let mut wanted = self.wanted.borrow_mut();
        if !wanted.iter().any(|other| other.sstable == sstable && other.handle == handle) {
            wanted.push(Wanted { sstable, file: file.clone(), name: name.clone(), kind, handle });
        }
    }

    pub fn is_empty(&self) -> bool {
        self.wanted.borrow().is_empty()
    }

    pub fn len(&self) -> usize {
        self.wanted.borrow().len()
    }

    /// Fetches all that is wanted, at once, checks it, and puts it into the cache; before that, waits until there is room
    /// for it.
    pub async fn load(&mut self, cache: &BlockCache) -> Result<(), SSTableError> {
        let wanted = self.make_room(cache).await;
        let mut reads = InFlight::default();
        let mut read = Vec::with_capacity(wanted.len());
        for block in wanted {
            // Another read may have loaded it meanwhile.
            if let Some(found) = cache.peek(block.sstable, block.handle.offset_bytes) {
                self.held.push((block, found));
                continue;
            }
            let Wanted { file, name, kind, handle, .. } = block.clone();
            reads.start(async move { read_frame(&file, &name, kind, handle).await }).await;
            read.push(block);
        }
        let mut failed = None;
        for block in read {
            let Some(body) = reads.next().await else { break };
            match body.and_then(|body| Block::parse(&block.name, block.handle.offset_bytes, body)) {
                Ok(read) => {
                    let read = cache.insert(block.sstable, Rc::new(read));
                    self.held.push((block, read));
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Takes what is wanted, with room for it. Where that has to be waited for, what is held is let go and wanted again:
    /// reads that hold some and wait for more would wait for each other.
    async fn make_room(&mut self, cache: &BlockCache) -> Vec<Wanted> {
        let mut wanted = std::mem::take(self.wanted.get_mut());
        let room_bytes = |wanted: &[Wanted]| wanted.iter().map(Wanted::room_bytes).sum();
        let room = match cache.loads().try_acquire(room_bytes(&wanted)) {
            Some(room) => room,
            None => {
                wanted.extend(self.held.drain(..).map(|(block, _)| block));
                self.room.clear();
                cache.loads().acquire(room_bytes(&wanted)).await
            }
        };
        self.room.push(room);
        wanted
    }

    /// What is held is not counted any more, since the read waits for others, and those may wait for room.
    pub fn give_up_room(&mut self) {
        self.room.clear();
    }

    /// Lets go of what was loaded: the read went past it.
    pub fn release(&mut self) {
        self.held.clear();
        self.room.clear();
    }
}

/// Reads one frame with whole aligned pages around it, checks and expands it.
pub(crate) async fn read_frame(
    file: &File,
    name: &str,
    kind: FrameKind,
    handle: Handle,
) -> Result<Vec<u8>, SSTableError> {
    let align = ALIGN_BYTES as u64;
    let start = handle.offset_bytes / align * align;
    let within = usize::try_from(handle.offset_bytes - start).expect("less than a page");
    let len = handle.len_bytes as usize;
    let buf = AlignedBuf::new((within + len).next_multiple_of(ALIGN_BYTES));
    let (buf, read) = file.read_at(buf, start).await;
    let read = read?;
    let Some(bytes) = buf[..read.min(buf.len())].get(within..within + len) else {
        return Err(SSTableError::corrupt(name, handle.offset_bytes, "the file ends within a block"));
    };
    frame::open(kind, bytes, handle.offset_bytes)
        .map_err(|damage| SSTableError::corrupt(name, handle.offset_bytes, damage.to_string()))
}
