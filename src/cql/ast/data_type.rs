//! Type names as written; user types are unresolved.

use super::name::QualifiedName;

/// A type as a statement spells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataType {
    Native(NativeType),
    List(Box<DataType>),
    Set(Box<DataType>),
    Map(Box<DataType>, Box<DataType>),
    Tuple(Vec<DataType>),
    /// Element type and dimensions; the grammar allows any 32-bit number, zero and less are refused later.
    Vector(Box<DataType>, i32),
    /// `frozen<…>` around a collection, tuple, vector or user type (the parser refuses others).
    Frozen(Box<DataType>),
    UserType(QualifiedName),
    /// A Java class name in quotes: `'org.apache.cassandra.db.marshal.Int32Type'`.
    Custom(String),
}

/// A type that has a keyword of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NativeType {
    Ascii,
    BigInt,
    Blob,
    Boolean,
    Counter,
    Date,
    Decimal,
    Double,
    Duration,
    Float,
    Inet,
    Int,
    SmallInt,
    Text,
    Time,
    Timestamp,
    TimeUuid,
    TinyInt,
    Uuid,
    /// The same type as `text`, another spelling.
    Varchar,
    VarInt,
}

impl NativeType {
    /// The keyword, in lower case.
    pub fn name(self) -> &'static str {
        match self {
            NativeType::Ascii => "ascii",
            NativeType::BigInt => "bigint",
            NativeType::Blob => "blob",
            NativeType::Boolean => "boolean",
            NativeType::Counter => "counter",
            NativeType::Date => "date",
            NativeType::Decimal => "decimal",
            NativeType::Double => "double",
            NativeType::Duration => "duration",
            NativeType::Float => "float",
            NativeType::Inet => "inet",
            NativeType::Int => "int",
            NativeType::SmallInt => "smallint",
            NativeType::Text => "text",
            NativeType::Time => "time",
            NativeType::Timestamp => "timestamp",
            NativeType::TimeUuid => "timeuuid",
            NativeType::TinyInt => "tinyint",
            NativeType::Uuid => "uuid",
            NativeType::Varchar => "varchar",
            NativeType::VarInt => "varint",
        }
    }
}
