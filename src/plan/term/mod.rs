//! Terms made ready: what a value of a statement means for what receives it (`prepare`), and what it is once the bind
//! variables are known (`bind`).
//!
//! Every term has a receiver: a column, an element of one, an argument of a function. The receiver's type decides
//! what a constant means, and its name stands in errors and names the bind variable that takes its place.

mod bind;
mod memo;
mod prepare;
mod raw;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use std::borrow::Cow;
use std::cell::Cell;

use crate::mutation::resolve::READS_MAX;
use crate::plan::functions::Function;
use crate::plan::markers::Markers;
use crate::plan::{ColumnSpec, Context};
use crate::protocol::{CqlError, Value};
use crate::schema::{Column, Schema, Table};
use crate::types::CqlType;

pub use memo::Memo;
pub use raw::{RawTerm, assignment, compatible_type};

/// What surrounds the terms of a statement while it is prepared.
#[derive(Debug)]
pub struct Scope<'s> {
    pub schema: &'s Schema,
    /// Where user types of type hints are looked up.
    pub keyspace: &'s str,
    /// The statement's table, whose partition key `token()` takes.
    pub table: Option<&'s Table>,
    pub markers: &'s mut Markers,
    memo: Rc<Memo>,
}

impl<'s> Scope<'s> {
    /// The surroundings of a statement of which nothing is known yet.
    pub fn new(schema: &'s Schema, keyspace: &'s str, table: Option<&'s Table>, markers: &'s mut Markers) -> Scope<'s> {
        Scope { schema, keyspace, table, markers, memo: Rc::default() }
    }

    /// What was found out about the statement's parts so far.
    pub fn memo(&self) -> &Memo {
        &self.memo
    }
}

/// A term ready for binding.
#[derive(Clone, Debug)]
pub struct Term {
    pub(super) ty: CqlType,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Null,
    Constant(Vec<u8>),
    /// A constant whose text means another value at each moment (`'now'`), with the receiver's name.
    Moment {
        text: String,
    },
    Marker(usize),
    List(Vec<Term>),
    Set(Vec<Term>),
    /// Sorted and made unique when bound.
    Map(Vec<(Term, Term)>),
    Tuple(Vec<Term>),
    /// A user type: each field, named for errors; `None` where the literal leaves it out.
    UserType(Vec<Option<Term>>),
    Vector(Vec<Term>),
    /// The token of a partition key of these parts.
    Token(Vec<Term>),
    Call(Box<Call>),
}

impl Term {
    /// The variable that gives it, where it is one and nothing else.
    pub fn variable(&self) -> Option<usize> {
        match self.kind {
            Kind::Marker(at) => Some(at),
            _ => None,
        }
    }
}

/// A call of a function on terms.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub function: Function,
    pub arguments: Vec<Term>,
}

/// A term's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound<'a> {
    Null,
    Unset,
    Bytes(Cow<'a, [u8]>),
}

impl<'a> Bound<'a> {
    /// The bytes, where it is neither null nor unset.
    pub fn bytes(&self) -> Option<&[u8]> {
        match self {
            Bound::Bytes(bytes) => Some(bytes),
            Bound::Null | Bound::Unset => None,
        }
    }

    pub fn is_unset(&self) -> bool {
        matches!(self, Bound::Unset)
    }

    fn owned(bytes: Vec<u8>) -> Bound<'a> {
        Bound::Bytes(Cow::Owned(bytes))
    }
}

/// The most bytes that one request's values come to, each counted as often as it is copied: far above what a log takes,
/// so that no more is ever held to be refused.
pub const COPIED_BYTES_MAX: usize = 128 << 20;

/// What the statements of one request have used so far.
#[derive(Debug, Default)]
pub struct Uses {
    numbers: Cell<u64>,
    copied_bytes: Cell<usize>,
    reads: Cell<usize>,
}

impl Uses {
    /// Those of a request of which this many numbers are taken.
    pub fn of_numbers(taken: u64) -> Uses {
        Uses { numbers: Cell::new(taken), ..Uses::default() }
    }

    pub fn numbers(&self) -> u64 {
        self.numbers.get()
    }
}

/// What terms are bound with: the values of the bind variables, and the moment and randomness of the request. Each
/// use of randomness gets bits of its own.
#[derive(Debug)]
pub struct Binding<'v> {
    /// The columns of an INSERT JSON, whose markers come before the statement's own.
    columns: &'v [Value<'v>],
    values: &'v [Value<'v>],
    context: Context,
    uses: &'v Uses,
}

impl<'v> Binding<'v> {
    /// `uses` counts on over all statements of a request.
    pub fn new(values: &'v [Value<'v>], context: Context, uses: &'v Uses) -> Binding<'v> {
        Binding { columns: &[], values, context, uses }
    }

    /// The same with the columns of an INSERT JSON before the values.
    pub fn with_columns(self, columns: &'v [Value<'v>]) -> Binding<'v> {
        Binding { columns, ..self }
    }

    /// The value of a marker.
    fn value(&self, marker: usize) -> Option<&'v Value<'v>> {
        match marker.checked_sub(self.columns.len()) {
            Some(at) => self.values.get(at),
            None => self.columns.get(marker),
        }
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Takes `count` numbers that nothing else of this request gets: the first of them.
    pub fn take_numbers(&self, count: u64) -> u64 {
        let first = self.uses.numbers.get();
        self.uses.numbers.set(first + count);
        first
    }

    /// Counts what is about to be copied out of the request's values: one value may stand wherever its name does, and so
    /// be copied far more often than it was sent.
    pub fn claim(&self, bytes: usize) -> Result<(), CqlError> {
        let copied_bytes = self.uses.copied_bytes.get().saturating_add(bytes);
        if copied_bytes > COPIED_BYTES_MAX {
            return Err(invalid(format!("The values of one request come to more than {COPIED_BYTES_MAX} bytes")));
        }
        self.uses.copied_bytes.set(copied_bytes);
        Ok(())
    }

    /// Counts a change that the owner must read for.
    pub fn claim_read(&self) -> Result<(), CqlError> {
        let reads = self.uses.reads.get() + 1;
        if reads > READS_MAX {
            return Err(invalid(format!(
                "One request may change counters, and elements of lists by index or value, at most {READS_MAX} times"
            )));
        }
        self.uses.reads.set(reads);
        Ok(())
    }

    /// A context whose random bits no other call has.
    pub fn fresh_context(&self) -> Context {
        let number = self.take_numbers(1);
        let random = self.context.random.map(|word| mixed(word.wrapping_add(number.wrapping_mul(GOLDEN))));
        Context { random, ..self.context }
    }
}

/// 2^64 divided by the golden ratio: steps of it visit all words evenly (Steele, Lea, Flood: SplitMix).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function.
fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl ColumnSpec {
    /// A column of a table as the receiver of a value.
    pub fn of_column(table: &Table, column: &Column) -> ColumnSpec {
        ColumnSpec {
            keyspace: table.keyspace.clone(),
            table: table.name.clone(),
            name: column.name.clone(),
            ty: column.ty.clone(),
        }
    }

    /// The same place under another name and type, such as `value(l)`.
    pub fn renamed(&self, name: impl Into<String>, ty: CqlType) -> ColumnSpec {
        ColumnSpec { keyspace: self.keyspace.clone(), table: self.table.clone(), name: name.into(), ty }
    }

    /// What an element of this list, set or vector, or a value of this map, goes into.
    pub fn value_spec(&self, ty: &CqlType) -> ColumnSpec {
        self.renamed(format!("value({})", self.name), ty.clone())
    }

    /// What a key of this map goes into.
    pub fn key_spec(&self, ty: &CqlType) -> ColumnSpec {
        self.renamed(format!("key({})", self.name), ty.clone())
    }

    /// What an index into this list goes into.
    pub fn index_spec(&self) -> ColumnSpec {
        self.renamed(format!("idx({})", self.name), CqlType::Int)
    }

    /// What the whole list of an `IN ?` goes into: `in(a)`, and `in(a,b)` of a tuple of columns, whose name is `(a,b)`.
    pub fn in_spec(&self) -> ColumnSpec {
        let name = self.name.strip_prefix('(').and_then(|name| name.strip_suffix(')')).unwrap_or(&self.name);
        self.renamed(format!("in({name})"), CqlType::list(self.ty.clone()))
    }
}

impl Term {
    /// The type of the receiver, which the bytes of the value have.
    pub fn ty(&self) -> &CqlType {
        &self.ty
    }

    /// Whether the value is written in the statement: no variable, no function of the moment.
    pub fn is_constant(&self) -> bool {
        matches!(self.kind, Kind::Null | Kind::Constant(_))
    }

    /// The value at this place of a binding's values, which need not be a variable of the statement.
    pub(super) fn of_marker(ty: &CqlType, at: usize) -> Term {
        Term::new(ty, Kind::Marker(at))
    }

    /// The same term where `count` other values stand before the statement's own.
    pub(super) fn with_markers_after(self, count: usize) -> Term {
        match self.kind {
            Kind::Marker(at) => Term { kind: Kind::Marker(at + count), ..self },
            kind => Term { kind, ..self },
        }
    }

    fn new(ty: &CqlType, kind: Kind) -> Term {
        Term { ty: ty.clone(), kind }
    }
}

pub(super) fn invalid(message: impl Into<String>) -> CqlError {
    CqlError::invalid(message)
}
