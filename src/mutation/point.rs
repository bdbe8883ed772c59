//! One row by its whole primary key: where it stands, and what is live of it.

use smallvec::SmallVec;

use crate::base::ids::{ColumnId, Token};

/// A row's place, in memory that is used again for the next.
#[derive(Debug)]
pub struct PointKey {
    pub token: Token,
    pub key: Vec<u8>,
    /// Encoded (`schema::clustering`); empty where the table has no clustering columns.
    pub clustering: Vec<u8>,
}

/// A live row.
#[derive(Debug, PartialEq, Eq)]
pub struct PointRow<'a> {
    pub clustering: &'a [u8],
    /// The live cells that have no path, ascending by column.
    pub cells: SmallVec<[(ColumnId, &'a [u8]); 16]>,
}

impl Default for PointKey {
    fn default() -> Self {
        PointKey { token: Token(0), key: Vec::new(), clustering: Vec::new() }
    }
}

impl PointKey {
    /// Takes over the partition of another place.
    pub fn clone_partition(&mut self, other: &PointKey) {
        self.token = other.token;
        self.key.clone_from(&other.key);
    }

    /// Forgets the place and keeps the memory.
    pub fn clear(&mut self) {
        self.key.clear();
        self.clustering.clear();
    }
}
