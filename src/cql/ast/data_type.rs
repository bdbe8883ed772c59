//! Type names as written; user types are unresolved.

use super::name::QualifiedName;
use crate::cql::keyword::{Class, Keyword};
use crate::types::CqlType;

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

/// A type that has a keyword of its own, spelled by it: `varchar` is `text` under another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeType(Keyword);

impl NativeType {
    #[cfg(test)]
    pub const INT: NativeType = NativeType(Keyword::Int);
    #[cfg(test)]
    pub const TEXT: NativeType = NativeType(Keyword::Text);

    /// The type that a keyword spells, if it spells one.
    pub fn of(keyword: Keyword) -> Option<NativeType> {
        (keyword.class() == Class::NativeType).then_some(NativeType(keyword))
    }

    /// The keyword, in lower case.
    pub fn name(self) -> &'static str {
        self.0.text()
    }

    pub fn cql_type(self) -> CqlType {
        CqlType::native(self.name()).expect("the tests ask it of every keyword that spells a type")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_native_type_has_its_keyword_and_every_such_keyword_its_type() {
        let spelled: Vec<CqlType> =
            Keyword::ALL.iter().filter_map(|keyword| NativeType::of(*keyword)).map(NativeType::cql_type).collect();
        let expected = CqlType::NATIVE.len() + 1;
        assert_eq!(spelled.len(), expected, "varchar is the one other spelling");
        assert!(CqlType::NATIVE.iter().all(|ty| spelled.contains(ty)));
        assert_eq!(NativeType::of(Keyword::List), None);
    }
}
