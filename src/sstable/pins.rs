//! Blocks held for the length of a read, so that rows can borrow from them while the cache lives its own life.

use std::cell::RefCell;
use std::rc::Rc;

use smallvec::SmallVec;

use crate::sstable::block::Block;

/// Holds blocks until it is cleared or dropped. Cursors borrow from it; it must outlive them, and does, by lifetime.
#[derive(Default)]
pub struct Pins {
    held: RefCell<SmallVec<[Rc<Block>; 8]>>,
}

impl Pins {
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds `block` and lends it for as long as `self` is borrowed.
    #[inline]
    pub fn pin(&self, block: Rc<Block>) -> &Block {
        let lent: *const Block = Rc::as_ptr(&block);
        self.held.borrow_mut().push(block);
        // SAFETY: the block stands on the heap behind an `Rc` that `held` now owns, so it neither moves (growing the
        // vector moves the `Rc`, not the block) nor is it freed before `held` lets go of it. `held` only grows through
        // `&self`; what removes from it (`clear`, drop) takes `&mut self` or `self`, which the borrow that this
        // reference carries excludes. Nobody gets `&mut Block`: all `Rc`s of it are shared and it has no interior
        // mutability.
        unsafe { &*lent }
    }

    /// Lets all go; keeps the room.
    pub fn clear(&mut self) {
        self.held.get_mut().clear();
    }

    pub fn len(&self) -> usize {
        self.held.borrow().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::sstable::block::BlockBuilder;

    fn block(offset_bytes: u64) -> Rc<Block> {
        let body = BlockBuilder::default().finish().to_vec();
        Rc::new(Block::parse(&Rc::from("f"), offset_bytes, body).unwrap())
    }

    #[test]
    fn a_pinned_block_outlives_its_other_owners() {
        let mut pins = Pins::new();
        {
            let lent: Vec<&Block> = (0..100).map(|offset| pins.pin(block(offset))).collect();
            assert!(lent.iter().enumerate().all(|(n, block)| block.offset_bytes() == n as u64));
        }
        assert_eq!(pins.len(), 100);
        pins.clear();
        assert!(pins.is_empty());
    }

    #[test]
    fn clearing_lets_go() {
        let mut pins = Pins::new();
        let owner = block(1);
        pins.pin(owner.clone());
        assert_eq!(Rc::strong_count(&owner), 2);
        pins.clear();
        assert_eq!(Rc::strong_count(&owner), 1);
    }
}
