//! SELECT, and the selectors of its result columns.

use super::data_type::{DataType, NativeType};
use super::name::{FunctionName, Ident, QualifiedName};
use super::relation::Relation;
use super::term::{ArithmeticOperator, Term};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Select {
    pub json: bool,
    pub distinct: bool,
    pub selection: Selection,
    pub table: QualifiedName,
    pub relations: Vec<Relation>,
    pub group_by: Vec<Selectable>,
    pub order_by: Vec<OrderBy>,
    /// An integer literal or a marker.
    pub per_partition_limit: Option<Term>,
    /// An integer literal or a marker.
    pub limit: Option<Term>,
    pub allow_filtering: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// `*`
    All,
    Selectors(Vec<Selector>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    pub selectable: Selectable,
    pub alias: Option<Ident>,
}

/// What one result column is made from. `Display` prints Cassandra's name for it, with function and type
/// names as written; [`Selectable::column_name`] prints it with those resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selectable {
    Column(Ident),
    /// A literal, NULL or a marker: no other [`Term`] stands here.
    Term(Term),
    /// `count(*)`
    CountRows,
    Function {
        name: FunctionName,
        args: Vec<Selectable>,
    },
    /// `CAST(x AS type)`
    Cast {
        operand: Box<Selectable>,
        to: NativeType,
    },
    /// `writetime(c)`, `maxwritetime(c)`, `ttl(c)`; `selected` is the column or an element or field of it.
    Metadata {
        kind: MetadataKind,
        column: Ident,
        selected: Box<Selectable>,
    },
    Operation {
        left: Box<Selectable>,
        operator: ArithmeticOperator,
        right: Box<Selectable>,
    },
    Negation(Box<Selectable>),
    /// `x.field`
    Field {
        of: Box<Selectable>,
        field: Ident,
    },
    /// `x[key]`
    Element {
        of: Box<Selectable>,
        key: Term,
    },
    /// `x[from..to]`; at least one bound is there.
    Slice {
        of: Box<Selectable>,
        from: Option<Term>,
        to: Option<Term>,
    },
    /// `(type) x`
    TypeHint {
        data_type: DataType,
        operand: Box<Selectable>,
    },
    /// `(x)` is x in parentheses, `(x, y)` a tuple.
    Parenthesized(Vec<Selectable>),
    /// `[x, y]`
    List(Vec<Selectable>),
    /// `{x, y}` or `{}`
    Set(Vec<Selectable>),
    /// `{x: y}`: a map, or a user type whose field names stand as [`Selectable::Column`].
    Map(Vec<(Selectable, Selectable)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetadataKind {
    WriteTime,
    MaxWriteTime,
    Ttl,
}

impl MetadataKind {
    /// The function's name.
    pub fn name(self) -> &'static str {
        match self {
            MetadataKind::WriteTime => "writetime",
            MetadataKind::MaxWriteTime => "maxwritetime",
            MetadataKind::Ttl => "ttl",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OrderBy {
    pub expression: OrderExpression,
    pub order: SortOrder,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderExpression {
    Column(Ident),
    /// `column ANN OF vector`
    AnnOf {
        column: Ident,
        vector: Term,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SortOrder {
    Ascending,
    Descending,
}
