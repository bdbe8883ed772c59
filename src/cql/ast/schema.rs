//! Statements that change the schema.

use super::data_type::DataType;
use super::name::{FunctionName, Ident, QualifiedName};
use super::relation::Relation;
use super::select::{Selection, SortOrder};
use super::term::Term;

/// `a = 1 AND b = {…}` after WITH, in order of writing. No name occurs twice (the parser refuses that).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Properties(pub Vec<(String, PropertyValue)>);

impl Properties {
    pub fn get(&self, name: &str) -> Option<&PropertyValue> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PropertyValue {
    /// The raw text of a constant (strings without quotes) or an unreserved word.
    Text(String),
    /// A map of constants by their raw texts; no key occurs twice.
    Map(Vec<(String, String)>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateKeyspace {
    pub keyspace: Ident,
    pub if_not_exists: bool,
    pub properties: Properties,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterKeyspace {
    pub keyspace: Ident,
    pub if_exists: bool,
    pub properties: Properties,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropKeyspace {
    pub keyspace: Ident,
    pub if_exists: bool,
}

/// DROP of a table, type, index or materialized view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropNamed {
    pub name: QualifiedName,
    pub if_exists: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTable {
    pub table: QualifiedName,
    pub if_not_exists: bool,
    /// In order of writing; a name may occur twice.
    pub columns: Vec<ColumnDefinition>,
    /// Every PRIMARY KEY written, at a column or as a clause: a valid table has exactly one.
    pub primary_keys: Vec<PrimaryKey>,
    pub properties: Properties,
    /// `CLUSTERING ORDER BY (a DESC)`; a column may occur twice.
    pub clustering_order: Vec<(Ident, SortOrder)>,
    pub compact_storage: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDefinition {
    pub name: Ident,
    pub data_type: DataType,
    pub is_static: bool,
    pub mask: Option<ColumnMask>,
}

/// `MASKED WITH f(args)` or `MASKED WITH DEFAULT`
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ColumnMask {
    Default,
    Function { name: FunctionName, args: Vec<Term> },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrimaryKey {
    pub partition: Vec<Ident>,
    pub clustering: Vec<Ident>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterTable {
    pub table: QualifiedName,
    pub if_exists: bool,
    pub change: TableChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TableChange {
    /// `ADD [IF NOT EXISTS] c int` or `ADD (c int, d int)`
    Add { if_not_exists: bool, columns: Vec<ColumnDefinition> },
    /// `DROP [IF EXISTS] c [USING TIMESTAMP n]` or `DROP (c, d)`
    Drop { if_exists: bool, columns: Vec<Ident>, timestamp_us: Option<i64> },
    /// `RENAME [IF EXISTS] a TO b AND c TO d`
    Rename { if_exists: bool, renames: Vec<(Ident, Ident)> },
    /// `ALTER c TYPE t`
    AlterType { column: Ident, data_type: DataType },
    /// `ALTER [IF EXISTS] c MASKED WITH …`, or `DROP MASKED` as none.
    Mask { if_exists: bool, column: Ident, mask: Option<ColumnMask> },
    /// `WITH …`
    Properties(Properties),
    /// `DROP COMPACT STORAGE`
    DropCompactStorage,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateType {
    pub name: QualifiedName,
    pub if_not_exists: bool,
    /// In order of writing; a name may occur twice.
    pub fields: Vec<(Ident, DataType)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterType {
    pub name: QualifiedName,
    pub if_exists: bool,
    pub change: TypeChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeChange {
    /// `ADD [IF NOT EXISTS] f int`
    Add { if_not_exists: bool, field: Ident, data_type: DataType },
    /// `RENAME [IF EXISTS] a TO b AND c TO d`
    Rename { if_exists: bool, renames: Vec<(Ident, Ident)> },
    /// `ALTER f TYPE t`
    AlterField { field: Ident, data_type: DataType },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateIndex {
    /// The index's name; it never has a keyspace here.
    pub name: Option<Ident>,
    pub if_not_exists: bool,
    pub is_custom: bool,
    pub table: QualifiedName,
    /// Possibly none, possibly several.
    pub targets: Vec<IndexTarget>,
    /// `USING '…'`
    pub class: Option<String>,
    pub properties: Properties,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexTarget {
    pub column: Ident,
    pub part: IndexPart,
}

/// The part of a column that an index covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum IndexPart {
    /// `(c)`: values of a collection, otherwise the whole.
    Simple,
    /// `(VALUES(c))`
    Values,
    /// `(KEYS(c))`
    Keys,
    /// `(ENTRIES(c))`
    Entries,
    /// `(FULL(c))`
    Full,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateMaterializedView {
    pub view: QualifiedName,
    pub if_not_exists: bool,
    pub selection: Selection,
    pub base_table: QualifiedName,
    pub relations: Vec<Relation>,
    pub primary_key: PrimaryKey,
    pub properties: Properties,
    pub clustering_order: Vec<(Ident, SortOrder)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AlterMaterializedView {
    pub view: QualifiedName,
    pub if_exists: bool,
    pub properties: Properties,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateFunction {
    pub name: FunctionName,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub args: Vec<(Ident, DataType)>,
    pub called_on_null_input: bool,
    pub returns: DataType,
    /// In lower case.
    pub language: String,
    pub body: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateAggregate {
    pub name: FunctionName,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub arg_types: Vec<DataType>,
    pub state_function: Ident,
    pub state_type: DataType,
    pub final_function: Option<Ident>,
    pub initial_condition: Option<Term>,
}

/// DROP FUNCTION or DROP AGGREGATE.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropRoutine {
    pub name: FunctionName,
    pub if_exists: bool,
    /// None: no parentheses were written.
    pub arg_types: Option<Vec<DataType>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateTrigger {
    pub name: Ident,
    pub if_not_exists: bool,
    pub table: QualifiedName,
    pub class: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropTrigger {
    pub name: Ident,
    pub if_exists: bool,
    pub table: QualifiedName,
}
