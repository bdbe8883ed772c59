//! DESCRIBE.

use super::name::{FunctionName, Ident, QualifiedName};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Describe {
    pub target: DescribeTarget,
    /// `WITH INTERNALS`
    pub with_internals: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DescribeTarget {
    Cluster,
    /// `SCHEMA`, or `FULL SCHEMA` with the system keyspaces.
    Schema {
        full: bool,
    },
    Keyspaces,
    /// `[ONLY] KEYSPACE [name]`; without a name the current keyspace.
    Keyspace {
        name: Option<Ident>,
        only: bool,
    },
    Tables,
    Table(QualifiedName),
    Types,
    Type(QualifiedName),
    Functions,
    Function(FunctionName),
    Aggregates,
    Aggregate(FunctionName),
    Index(QualifiedName),
    MaterializedView(QualifiedName),
    /// `DESCRIBE [ks.]name`: a keyspace, table, index, view, type, … of that name.
    Named(QualifiedName),
}
