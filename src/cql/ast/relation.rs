//! The relations of a WHERE clause, joined by AND.

use super::name::Ident;
use super::term::{BindIndex, Term};

/// One relation of a WHERE clause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Relation {
    /// `c = v`
    Column { column: Ident, operator: Operator, value: Term },
    /// `c IN (…)`, `c IN ?`
    ColumnIn { column: Ident, values: InValues },
    /// `c CONTAINS v`
    Contains { column: Ident, value: Term },
    /// `c CONTAINS KEY v`
    ContainsKey { column: Ident, value: Term },
    /// `c LIKE v`
    Like { column: Ident, value: Term },
    /// `c IS NOT NULL`
    IsNotNull { column: Ident },
    /// `m[k] = v`
    Element { column: Ident, key: Term, operator: Operator, value: Term },
    /// `token(a, b) > v`
    Token { columns: Vec<Ident>, operator: Operator, value: Term },
    /// `(a, b) > (1, 2)`; the value is [`Term::Tuple`] or [`Term::Marker`].
    Tuple { columns: Vec<Ident>, operator: Operator, value: Term },
    /// `(a, b) IN ((1, 2), (3, 4))`; each value is [`Term::Tuple`] or [`Term::Marker`].
    TupleIn { columns: Vec<Ident>, values: InValues },
    /// `expr(index, v)`
    CustomIndex { index: Ident, value: Term },
}

/// The right side of IN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InValues {
    /// `IN ?`: one marker for the whole list.
    Marker(BindIndex),
    /// `IN (a, b)`, possibly empty.
    List(Vec<Term>),
}

/// The comparison of a relation or condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    Eq,
    Lt,
    Le,
    Gt,
    Ge,
    Ne,
}

impl Operator {
    /// The operator as written.
    pub fn symbol(self) -> &'static str {
        match self {
            Operator::Eq => "=",
            Operator::Lt => "<",
            Operator::Le => "<=",
            Operator::Gt => ">",
            Operator::Ge => ">=",
            Operator::Ne => "!=",
        }
    }
}
