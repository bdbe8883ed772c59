//! The partitions of one file in token and key order.

use crate::base::ids::Token;
use crate::mutation::ReadStop;
use crate::mutation::read::Slice;
use crate::sstable::block::Block;
use crate::sstable::cursor::SSTableCursor;
use crate::sstable::entry::HeadKey;
use crate::sstable::index::{Place, Within};
use crate::sstable::reader::{IndexPlace, Reader, View};

#[derive(Clone, Copy)]
enum State<'a> {
    /// The next partition is the first at or after this place (which is a head's or a partition's end).
    Seek(Place<'a>),
    At {
        place: IndexPlace,
        block: &'a Block,
        head: usize,
    },
    Done,
}

/// A walk over partitions. After a miss it can be asked again, once the block is loaded.
pub struct SSTableScan<'a> {
    reader: &'a Reader,
    view: View<'a>,
    state: State<'a>,
}

impl<'a> SSTableScan<'a> {
    pub(crate) fn at_or_after(reader: &'a Reader, view: View<'a>, token: Token, key: &'a [u8]) -> Self {
        SSTableScan { reader, view, state: State::Seek(Place { token, key, within: Within::Head }) }
    }

    pub(crate) fn after(reader: &'a Reader, view: View<'a>, token: Token, key: &'a [u8]) -> Self {
        SSTableScan { reader, view, state: State::Seek(Place { token, key, within: Within::End }) }
    }

    /// The partition that the walk stands at; `None` at the end.
    pub fn peek(&mut self) -> Result<Option<(Token, &'a [u8])>, ReadStop> {
        loop {
            match self.state {
                State::Done => return Ok(None),
                State::Seek(place) => self.state = self.seek(place)?,
                State::At { block, head, .. } => {
                    let HeadKey { token, key } = block.head_key(head)?;
                    if self.reader.owns(token) {
                        return Ok(Some((token, key)));
                    }
                    self.state = match self.reader.next_owned(token) {
                        Some(token) => State::Seek(Place { token, key: &[], within: Within::Head }),
                        None => State::Done,
                    };
                }
            }
        }
    }

    /// Goes past the partition that `peek` gave.
    pub fn advance(&mut self) -> Result<(), ReadStop> {
        if let State::At { place, block, head } = self.state {
            let here = block.head_key(head)?;
            self.state = if head + 1 < block.heads() {
                ahead_of(here, block, head + 1)?;
                State::At { place, block, head: head + 1 }
            } else {
                State::Seek(Place { token: here.token, key: here.key, within: Within::End })
            };
        }
        Ok(())
    }

    /// The rows of the partition that `peek` gave; `None` at the end.
    pub fn partition(&mut self, slices: &'a [Slice], reversed: bool) -> Result<Option<SSTableCursor<'a>>, ReadStop> {
        if self.peek()?.is_none() {
            return Ok(None);
        }
        match self.state {
            State::At { place, block, head } => {
                SSTableCursor::at_head(self.reader, self.view, (place, block, head), slices, reversed).map(Some)
            }
            _ => Ok(None),
        }
    }

    fn seek(&self, wanted: Place<'a>) -> Result<State<'a>, ReadStop> {
        let Some(found) = self.reader.find(self.view, &wanted)? else {
            return match self.reader.first_place() {
                Some(place) => self.at_first_head(place, &wanted),
                None => Ok(State::Done),
            };
        };
        let (place, block) = (found.place, self.reader.data_block(self.view, found)?);
        let key = HeadKey { token: wanted.token, key: wanted.key };
        let mut head = block.head_at_or_after(key)?;
        let past = wanted.within == Within::End;
        if past && head < block.heads() && block.head_key(head)? == key {
            head += 1;
            if head < block.heads() {
                ahead_of(key, block, head)?;
            }
        }
        if head < block.heads() {
            return Ok(State::At { place, block, head });
        }
        match self.reader.next_place(self.view, place)? {
            Some(place) => self.at_first_head(place, &wanted),
            None => Ok(State::Done),
        }
    }

    /// A block in which the walk goes on.
    fn at_first_head(&self, place: IndexPlace, wanted: &Place<'_>) -> Result<State<'a>, ReadStop> {
        let block = self.reader.data_block_ahead(self.view, place, false)?;
        if block.heads() == 0 {
            return Err(block.damage("a block without a partition"));
        }
        ahead_of(HeadKey { token: wanted.token, key: wanted.key }, block, 0)?;
        Ok(State::At { place, block, head: 0 })
    }
}

/// Each partition of a walk lies ahead of the one before, or damage could send it in a circle.
fn ahead_of(before: HeadKey<'_>, block: &Block, head: usize) -> Result<(), ReadStop> {
    if block.head_key(head)? > before { Ok(()) } else { Err(block.damage("partitions out of order")) }
}
