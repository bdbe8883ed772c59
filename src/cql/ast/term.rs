//! Terms: the values of a statement, which never name a column.

use super::data_type::{DataType, NativeType};
use super::name::{FunctionName, Ident};
pub use crate::types::LiteralKind;

/// A value, written out or bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Term {
    Literal(Literal),
    Null,
    /// `?` or `:name`
    Marker(BindIndex),
    /// `[a, b]`: a list or a vector.
    List(Vec<Term>),
    /// `{a, b}`. The empty `{}` is here too, though it may mean an empty map.
    Set(Vec<Term>),
    /// `{k: v}`
    Map(Vec<(Term, Term)>),
    /// `{field: v}`. A field named twice keeps its last value, as in Cassandra.
    UserType(Vec<(Ident, Term)>),
    /// `(a, b)`; one element too.
    Tuple(Vec<Term>),
    Function {
        name: FunctionName,
        args: Vec<Term>,
    },
    Operation {
        left: Box<Term>,
        operator: ArithmeticOperator,
        right: Box<Term>,
    },
    Negation(Box<Term>),
    /// `(type) term`: gives the term a type; converts nothing.
    TypeHint {
        data_type: DataType,
        term: Box<Term>,
    },
    /// `CAST(term AS type)`
    Cast {
        term: Box<Term>,
        to: NativeType,
    },
}

/// A constant with the text it was written with; what it means depends on the receiving type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Literal {
    pub kind: LiteralKind,
    /// Strings without quotes and escapes; blobs with their `0x`; `NaN`, `Infinity` and `-Infinity` in this
    /// spelling whatever the statement's; anything else as written, with its sign.
    pub text: String,
}

/// The position of a bind marker among the markers of its statement, from 0 in order of appearance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BindIndex(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ArithmeticOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}

impl ArithmeticOperator {
    pub fn symbol(self) -> char {
        match self {
            ArithmeticOperator::Add => '+',
            ArithmeticOperator::Subtract => '-',
            ArithmeticOperator::Multiply => '*',
            ArithmeticOperator::Divide => '/',
            ArithmeticOperator::Modulo => '%',
        }
    }
}
