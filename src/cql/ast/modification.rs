//! INSERT, UPDATE, DELETE and BATCH.

use super::name::{Ident, QualifiedName};
use super::relation::{InValues, Operator, Relation};
use super::term::{BindIndex, Term};

/// `USING TIMESTAMP … AND TTL …`; each an integer literal or a marker.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Using {
    pub timestamp: Option<Term>,
    pub ttl: Option<Term>,
}

/// `INSERT INTO t (columns) VALUES (values)`; the two lists may differ in length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insert {
    pub table: QualifiedName,
    pub columns: Vec<Ident>,
    pub values: Vec<Term>,
    pub if_not_exists: bool,
    pub using: Using,
}

/// `INSERT INTO t JSON '…'`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InsertJson {
    pub table: QualifiedName,
    pub source: JsonSource,
    pub default: JsonDefault,
    pub if_not_exists: bool,
    pub using: Using,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonSource {
    Literal(String),
    Marker(BindIndex),
}

/// What becomes of columns that the JSON text does not name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonDefault {
    Null,
    Unset,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update {
    pub table: QualifiedName,
    pub using: Using,
    pub assignments: Vec<Assignment>,
    pub relations: Vec<Relation>,
    pub condition: UpdateCondition,
}

/// One assignment of an UPDATE's SET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub column: Ident,
    pub operation: Operation,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// `c = v`
    Set(Term),
    /// `c = c + v`, `c += v`; also `c = c -3`, where the number has the sign.
    Add(Term),
    /// `c = c - v`, `c -= v`
    Subtract(Term),
    /// `c = v + c`
    Prepend(Term),
    /// `c[key] = v`
    SetElement { key: Term, value: Term },
    /// `c.field = v`
    SetField { field: Ident, value: Term },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete {
    pub table: QualifiedName,
    /// Empty: whole rows.
    pub deletions: Vec<Deletion>,
    /// Only a timestamp can stand here.
    pub using: Using,
    pub relations: Vec<Relation>,
    pub condition: UpdateCondition,
}

/// One column, or part of one, that a DELETE names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    pub column: Ident,
    pub target: Target,
}

/// What of a column a DELETE or a condition names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Column,
    /// `c[key]`
    Element(Term),
    /// `c.field`
    Field(Ident),
}

/// The IF of an UPDATE or DELETE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UpdateCondition {
    None,
    IfExists,
    /// All of them; at least one.
    If(Vec<Condition>),
}

/// One condition of an IF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    pub column: Ident,
    pub target: Target,
    pub test: ConditionTest,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConditionTest {
    Compare(Operator, Term),
    In(InValues),
    Contains(Term),
    ContainsKey(Term),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    pub kind: BatchKind,
    /// The grammar allows a TTL here; no batch can have one.
    pub using: Using,
    pub statements: Vec<Modification>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}

/// A statement that may stand in a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modification {
    Insert(Insert),
    InsertJson(InsertJson),
    Update(Update),
    Delete(Delete),
}

impl Modification {
    pub fn table(&self) -> &QualifiedName {
        match self {
            Modification::Insert(insert) => &insert.table,
            Modification::InsertJson(insert) => &insert.table,
            Modification::Update(update) => &update.table,
            Modification::Delete(delete) => &delete.table,
        }
    }
}
