//! The syntax tree of one CQL statement, as Cassandra 5.0's grammar shapes it.
//!
//! Nothing here knows a schema: names are folded (unquoted names are lower case) but unresolved, literals
//! keep the text they were written with, and a statement that no table could run still has a tree. What the
//! planner refuses by name (roles, functions, triggers) is parsed like everything else.

pub mod access;
pub mod data_type;
pub mod describe;
mod display;
pub mod modification;
pub mod name;
pub mod relation;
pub mod schema;
pub mod select;
pub mod term;

pub use access::AccessStatement;
pub use data_type::{DataType, NativeType};
pub use describe::{Describe, DescribeTarget};
pub use display::NameResolver;
pub use modification::{
    Assignment, Batch, BatchKind, Condition, ConditionTest, Delete, Deletion, Insert, InsertJson, JsonDefault,
    JsonSource, Modification, Operation, Target, Update, UpdateCondition, Using,
};
pub use name::{FunctionName, Ident, QualifiedName};
pub use relation::{InValues, Operator, Relation};
pub use schema::{Properties, PropertyValue};
pub use select::{MetadataKind, OrderBy, OrderExpression, Select, Selectable, Selection, Selector, SortOrder};
pub use term::{ArithmeticOperator, BindIndex, Literal, LiteralKind, Term};

/// One CQL statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    Select(Select),
    Insert(Insert),
    InsertJson(InsertJson),
    Update(Update),
    Delete(Delete),
    Batch(Batch),
    /// `USE keyspace`
    Use(Ident),
    /// `TRUNCATE [TABLE] name`
    Truncate(QualifiedName),
    Describe(Describe),

    CreateKeyspace(schema::CreateKeyspace),
    AlterKeyspace(schema::AlterKeyspace),
    DropKeyspace(schema::DropKeyspace),
    CreateTable(schema::CreateTable),
    AlterTable(schema::AlterTable),
    DropTable(schema::DropNamed),
    CreateType(schema::CreateType),
    AlterType(schema::AlterType),
    DropType(schema::DropNamed),
    CreateIndex(schema::CreateIndex),
    DropIndex(schema::DropNamed),
    CreateMaterializedView(schema::CreateMaterializedView),
    AlterMaterializedView(schema::AlterMaterializedView),
    DropMaterializedView(schema::DropNamed),
    CreateFunction(schema::CreateFunction),
    DropFunction(schema::DropRoutine),
    CreateAggregate(schema::CreateAggregate),
    DropAggregate(schema::DropRoutine),
    CreateTrigger(schema::CreateTrigger),
    DropTrigger(schema::DropTrigger),

    /// Roles, users, identities and permissions.
    Access(AccessStatement),
}
