//! What was found out about the parts of a statement while their types are inferred. Which function an expression means
//! depends on the types that its parts may have, and theirs on those of their parts: asked anew each time, the work grows
//! by a factor of twenty with every operator.

use std::cell::RefCell;

use crate::base::collections::{HashMap, hasher};
use crate::cql::ast::{Selectable, Term};
use crate::types::CqlType;
use crate::types::literal::Assignment;

/// Of one statement: parts are told apart by where they stand in its syntax tree, which must stay where it is.
#[derive(Debug)]
pub struct Memo {
    assignments: RefCell<HashMap<(usize, CqlType), Assignment>>,
    types: RefCell<HashMap<usize, Option<CqlType>>>,
    selector_types: RefCell<HashMap<usize, Option<CqlType>>>,
}

impl Default for Memo {
    fn default() -> Self {
        Memo {
            assignments: RefCell::new(HashMap::with_hasher(hasher())),
            types: RefCell::new(HashMap::with_hasher(hasher())),
            selector_types: RefCell::new(HashMap::with_hasher(hasher())),
        }
    }
}

impl Memo {
    /// How well a term fits `receiver`: as found before, or now.
    pub fn assignment(&self, term: &Term, receiver: &CqlType, find: impl FnOnce() -> Assignment) -> Assignment {
        let key = (address(term), receiver.clone());
        if let Some(known) = self.assignments.borrow().get(&key) {
            return *known;
        }
        let found = find();
        self.assignments.borrow_mut().insert(key, found);
        found
    }

    /// The type that a term has whatever receives it: as found before, or now.
    pub fn ty(&self, term: &Term, find: impl FnOnce() -> Option<CqlType>) -> Option<CqlType> {
        if let Some(known) = self.types.borrow().get(&address(term)) {
            return known.clone();
        }
        let found = find();
        self.types.borrow_mut().insert(address(term), found.clone());
        found
    }

    /// The same of a selector. An error is found again, to be seen.
    pub fn selector_type<E>(
        &self,
        selector: &Selectable,
        find: impl FnOnce() -> Result<Option<CqlType>, E>,
    ) -> Result<Option<CqlType>, E> {
        if let Some(known) = self.selector_types.borrow().get(&address(selector)) {
            return Ok(known.clone());
        }
        let found = find()?;
        self.selector_types.borrow_mut().insert(address(selector), found.clone());
        Ok(found)
    }
}

fn address<T>(part: &T) -> usize {
    std::ptr::from_ref(part).addr()
}
