//! The whole primary key of one row, every value of which is a bind variable: what most reads and writes name.

use smallvec::SmallVec;

use crate::mutation::point::PointKey;
use crate::plan::term::Term;
use crate::protocol::Value;
use crate::schema::{Column, Table, clustering, key, partitioner};
use crate::types::{CqlType, validate};

/// A column and the variable that gives it.
#[derive(Clone, Debug)]
pub(super) struct Variable {
    at: usize,
    /// `None`: any bytes are right.
    ty: Option<CqlType>,
}

/// The variables of the primary key, by its columns in order.
#[derive(Clone, Debug)]
pub(super) struct PointColumns {
    pub partition_key: SmallVec<[Variable; 2]>,
    pub clustering: SmallVec<[Variable; 2]>,
}

impl Variable {
    /// `None` where the term is something else. Sets and maps may have to be put in order first, wherever they stand.
    pub fn of(column: &Column, term: &Term) -> Option<Variable> {
        let is_ordered = column.ty.any(&|ty| matches!(ty, CqlType::Set(_) | CqlType::Map(..)));
        let ty = (column.ty != CqlType::Blob).then(|| column.ty.clone());
        term.variable().filter(|_| !is_ordered).map(|at| Variable { at, ty })
    }

    /// What is given for it.
    #[inline]
    pub fn value<'v>(&self, values: &[Value<'v>]) -> Option<Value<'v>> {
        let value = *values.get(self.at)?;
        match (value, &self.ty) {
            (Value::Bytes(bytes), Some(ty)) => validate(ty, bytes).is_ok().then_some(value),
            _ => Some(value),
        }
    }

    #[inline]
    fn component<'v>(&self, values: &[Value<'v>]) -> Option<&'v [u8]> {
        self.value(values)?.bytes().filter(|bytes| bytes.len() <= key::PARTITION_KEY_BYTES_MAX)
    }
}

impl PointColumns {
    /// Whether every column of the table's key is there.
    pub fn is_whole(&self, table: &Table) -> bool {
        self.partition_key.len() == table.partition_key().count()
            && self.clustering.len() == table.clustering_order().len()
    }

    /// Works out the row's place. False where a value is not what it should be.
    pub fn locate(&self, values: &[Value<'_>], at: &mut PointKey) -> bool {
        at.clear();
        let is_single = self.partition_key.len() == 1;
        for column in &self.partition_key {
            match column.component(values) {
                Some([]) if is_single => return false,
                Some(value) => key::push(&mut at.key, is_single, value),
                None => return false,
            }
        }
        for column in &self.clustering {
            let Some(value) = column.component(values) else { return false };
            clustering::push_component(&mut at.clustering, value);
        }
        at.token = partitioner::token_of(&at.key);
        at.key.len() <= key::PARTITION_KEY_BYTES_MAX && at.clustering.len() <= key::PARTITION_KEY_BYTES_MAX
    }
}
