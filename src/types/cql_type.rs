//! The types of CQL: their structure, the questions that planning asks of them, and their CQL spelling.

use std::fmt;

/// The type of a CQL value.
///
/// Tuples and vectors are always frozen, so neither stands inside `Frozen`, and the collections within them do;
/// `CqlType::tuple`, `CqlType::vector` and `freeze` keep that form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CqlType {
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
    Varint,
    /// Holds no bytes: the value column of compact tables.
    Empty,
    List(Box<CqlType>),
    Set(Box<CqlType>),
    Map(Box<CqlType>, Box<CqlType>),
    Tuple(Vec<CqlType>),
    Udt(Box<UdtType>),
    /// Element type and number of dimensions (at least 1).
    Vector(Box<CqlType>, u16),
    /// A list, set, map or user-defined type stored as one value.
    Frozen(Box<CqlType>),
    /// A type known by its Java class only; its bytes are opaque.
    Custom(String),
}

/// A user-defined type, its fields in declaration order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UdtType {
    pub keyspace: String,
    pub name: String,
    pub fields: Vec<(String, CqlType)>,
}

impl UdtType {
    /// The place of the field called `name`.
    pub fn field_index(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| field == name)
    }
}

impl CqlType {
    /// Takes one from `left` for each type that this one is made of, itself included; whether there were as many.
    pub fn take_parts(&self, left: &mut usize) -> bool {
        let Some(rest) = left.checked_sub(1) else { return false };
        *left = rest;
        match self {
            CqlType::List(inner) | CqlType::Set(inner) | CqlType::Vector(inner, _) | CqlType::Frozen(inner) => {
                inner.take_parts(left)
            }
            CqlType::Map(key, value) => key.take_parts(left) && value.take_parts(left),
            CqlType::Tuple(elements) => elements.iter().all(|element| element.take_parts(left)),
            CqlType::Udt(udt) => udt.fields.iter().all(|(_, ty)| ty.take_parts(left)),
            _ => true,
        }
    }

    /// The scalar types that have a CQL name.
    pub const NATIVE: [CqlType; 20] = [
        CqlType::Ascii,
        CqlType::BigInt,
        CqlType::Blob,
        CqlType::Boolean,
        CqlType::Counter,
        CqlType::Date,
        CqlType::Decimal,
        CqlType::Double,
        CqlType::Duration,
        CqlType::Float,
        CqlType::Inet,
        CqlType::Int,
        CqlType::SmallInt,
        CqlType::Text,
        CqlType::Time,
        CqlType::Timestamp,
        CqlType::TimeUuid,
        CqlType::TinyInt,
        CqlType::Uuid,
        CqlType::Varint,
    ];

    /// The scalar type of this CQL name (lower case; `varchar` is `text`).
    pub fn native(name: &str) -> Option<CqlType> {
        if name == "varchar" {
            return Some(CqlType::Text);
        }
        CqlType::NATIVE.iter().find(|ty| ty.native_name() == Some(name)).cloned()
    }

    /// The CQL name of a scalar type.
    pub fn native_name(&self) -> Option<&'static str> {
        Some(match self {
            CqlType::Ascii => "ascii",
            CqlType::BigInt => "bigint",
            CqlType::Blob => "blob",
            CqlType::Boolean => "boolean",
            CqlType::Counter => "counter",
            CqlType::Date => "date",
            CqlType::Decimal => "decimal",
            CqlType::Double => "double",
            CqlType::Duration => "duration",
            CqlType::Float => "float",
            CqlType::Inet => "inet",
            CqlType::Int => "int",
            CqlType::SmallInt => "smallint",
            CqlType::Text => "text",
            CqlType::Time => "time",
            CqlType::Timestamp => "timestamp",
            CqlType::TimeUuid => "timeuuid",
            CqlType::TinyInt => "tinyint",
            CqlType::Uuid => "uuid",
            CqlType::Varint => "varint",
            CqlType::Empty => "empty",
            _ => return None,
        })
    }

    pub fn list(element: CqlType) -> CqlType {
        CqlType::List(Box::new(element))
    }

    pub fn set(element: CqlType) -> CqlType {
        CqlType::Set(Box::new(element))
    }

    pub fn map(key: CqlType, value: CqlType) -> CqlType {
        CqlType::Map(Box::new(key), Box::new(value))
    }

    /// A tuple; what it holds is frozen.
    pub fn tuple(elements: impl IntoIterator<Item = CqlType>) -> CqlType {
        CqlType::Tuple(elements.into_iter().map(CqlType::freeze).collect())
    }

    /// A vector; what it holds is frozen.
    pub fn vector(element: CqlType, dimensions: u16) -> CqlType {
        CqlType::Vector(Box::new(element.freeze()), dimensions)
    }

    /// The type stored as one value, and all that it holds too: `list<list<int>>` becomes
    /// `frozen<list<frozen<list<int>>>>`. Scalars and frozen types stay as they are.
    pub fn freeze(self) -> CqlType {
        match self {
            CqlType::List(element) => CqlType::Frozen(Box::new(CqlType::list(element.freeze()))),
            CqlType::Set(element) => CqlType::Frozen(Box::new(CqlType::set(element.freeze()))),
            CqlType::Map(key, value) => CqlType::Frozen(Box::new(CqlType::map(key.freeze(), value.freeze()))),
            CqlType::Udt(_) => CqlType::Frozen(Box::new(self)),
            CqlType::Tuple(elements) => CqlType::tuple(elements),
            CqlType::Vector(element, dimensions) => CqlType::vector(*element, dimensions),
            CqlType::Frozen(inner) => inner.freeze(),
            scalar => scalar,
        }
    }

    /// The type without its `frozen<…>`.
    pub fn unfrozen(&self) -> &CqlType {
        match self {
            CqlType::Frozen(inner) => inner.unfrozen(),
            other => other,
        }
    }

    /// Whether each element is a cell of its own: a list, set, map or user-defined type that is not frozen.
    pub fn is_multi_cell(&self) -> bool {
        matches!(self, CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..) | CqlType::Udt(_))
    }

    /// Whether the whole value is one cell, as it is for all but non-frozen collections and user-defined types.
    pub fn is_frozen(&self) -> bool {
        !self.is_multi_cell()
    }

    /// A list, set or map, frozen or not.
    pub fn is_collection(&self) -> bool {
        matches!(self.unfrozen(), CqlType::List(_) | CqlType::Set(_) | CqlType::Map(..))
    }

    /// A user-defined type, frozen or not.
    pub fn as_udt(&self) -> Option<&UdtType> {
        match self.unfrozen() {
            CqlType::Udt(udt) => Some(udt),
            _ => None,
        }
    }

    pub fn is_counter(&self) -> bool {
        matches!(self, CqlType::Counter)
    }

    /// Whether a value holds a duration anywhere: such values have no order.
    pub fn contains_duration(&self) -> bool {
        self.any(&|ty| matches!(ty, CqlType::Duration))
    }

    /// Whether the type is, or holds, this user-defined type.
    pub fn references_udt(&self, keyspace: &str, name: &str) -> bool {
        self.any(&|ty| matches!(ty, CqlType::Udt(udt) if udt.keyspace == keyspace && udt.name == name))
    }

    /// Whether `test` holds of the type or of one that it is made of.
    pub fn any(&self, test: &dyn Fn(&CqlType) -> bool) -> bool {
        test(self)
            || match self {
                CqlType::List(inner) | CqlType::Set(inner) | CqlType::Vector(inner, _) | CqlType::Frozen(inner) => {
                    inner.any(test)
                }
                CqlType::Map(key, value) => key.any(test) || value.any(test),
                CqlType::Tuple(elements) => elements.iter().any(|ty| ty.any(test)),
                CqlType::Udt(udt) => udt.fields.iter().any(|(_, ty)| ty.any(test)),
                _ => false,
            }
    }

    /// The bytes of every non-empty value where they are the same number. As in Cassandra 5.0 this says how a vector
    /// stores its elements, and so does not hold of tinyint, smallint, date and time.
    pub fn fixed_len(&self) -> Option<usize> {
        match self {
            CqlType::Empty => Some(0),
            CqlType::Boolean => Some(1),
            CqlType::Float | CqlType::Int => Some(4),
            CqlType::BigInt | CqlType::Double | CqlType::Timestamp => Some(8),
            CqlType::TimeUuid | CqlType::Uuid => Some(16),
            CqlType::Vector(element, dimensions) => element.fixed_len().map(|len| len * usize::from(*dimensions)),
            _ => None,
        }
    }

    /// See `fixed_len`.
    pub fn value_is_fixed_len(&self) -> bool {
        self.fixed_len().is_some()
    }

    /// Whether zero bytes are a value of the type.
    pub fn allows_empty(&self) -> bool {
        !matches!(
            self.unfrozen(),
            CqlType::SmallInt
                | CqlType::TinyInt
                | CqlType::Date
                | CqlType::Time
                | CqlType::Duration
                | CqlType::List(_)
                | CqlType::Set(_)
                | CqlType::Map(..)
                | CqlType::Vector(..)
        )
    }

    /// Whether zero bytes, though a value, mean nothing: they are not text of length zero but an absent number.
    /// Functions answer null to them.
    pub fn is_empty_value_meaningless(&self) -> bool {
        !matches!(self.unfrozen(), CqlType::Ascii | CqlType::Text | CqlType::Blob | CqlType::Empty | CqlType::Custom(_))
    }

    /// A type of numbers.
    pub fn is_numeric(&self) -> bool {
        matches!(
            self,
            CqlType::TinyInt
                | CqlType::SmallInt
                | CqlType::Int
                | CqlType::BigInt
                | CqlType::Counter
                | CqlType::Varint
                | CqlType::Float
                | CqlType::Double
                | CqlType::Decimal
        )
    }

    /// Whether bytes of type `other` can be read as this type: Cassandra's `isValueCompatibleWith`, which decides
    /// what may be assigned to a column.
    pub fn is_value_compatible_with(&self, other: &CqlType) -> bool {
        let (this, other) = (self.unfrozen(), other.unfrozen());
        match (this, other) {
            _ if this == other => true,
            (CqlType::Blob, _) => true,
            (CqlType::Text, CqlType::Ascii)
            | (CqlType::Uuid, CqlType::TimeUuid)
            | (CqlType::Varint, CqlType::Int | CqlType::BigInt)
            | (CqlType::BigInt, CqlType::Timestamp)
            | (CqlType::Timestamp, CqlType::BigInt) => true,
            (CqlType::List(a), CqlType::List(b)) | (CqlType::Set(a), CqlType::Set(b)) => a.is_value_compatible_with(b),
            (CqlType::Map(ak, av), CqlType::Map(bk, bv)) => {
                ak.is_value_compatible_with(bk) && av.is_value_compatible_with(bv)
            }
            (CqlType::Tuple(a), CqlType::Tuple(b)) => {
                a.len() >= b.len() && a.iter().zip(b).all(|(a, b)| a.is_value_compatible_with(b))
            }
            (CqlType::Vector(a, n), CqlType::Vector(b, m)) => n == m && a.is_value_compatible_with(b),
            (CqlType::Udt(a), CqlType::Udt(b)) => {
                a.keyspace == b.keyspace
                    && a.name == b.name
                    && a.fields.len() >= b.fields.len()
                    && a.fields.iter().zip(&b.fields).all(|((_, a), (_, b))| a.is_value_compatible_with(b))
            }
            _ => false,
        }
    }
}

/// A name as CQL spells it: in double quotes unless it is a lower-case identifier.
pub fn quote_name(name: &str) -> String {
    let mut chars = name.chars();
    let plain = chars.next().is_some_and(|c| c.is_ascii_lowercase())
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

impl fmt::Display for CqlType {
    /// The spelling in the system tables and in error texts. A tuple is written `frozen<tuple<…>>`; a user-defined
    /// type by its name alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CqlType::List(element) => write!(f, "list<{element}>"),
            CqlType::Set(element) => write!(f, "set<{element}>"),
            CqlType::Map(key, value) => write!(f, "map<{key}, {value}>"),
            CqlType::Tuple(elements) => {
                f.write_str("frozen<tuple<")?;
                for (at, element) in elements.iter().enumerate() {
                    let separator = if at == 0 { "" } else { ", " };
                    write!(f, "{separator}{element}")?;
                }
                f.write_str(">>")
            }
            CqlType::Udt(udt) => f.write_str(&quote_name(&udt.name)),
            CqlType::Vector(element, dimensions) => write!(f, "vector<{}, {dimensions}>", element.unfrozen()),
            CqlType::Frozen(inner) => write!(f, "frozen<{inner}>"),
            CqlType::Custom(class) => write!(f, "'{class}'"),
            native => f.write_str(native.native_name().unwrap_or("empty")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udt(fields: Vec<(String, CqlType)>) -> CqlType {
        CqlType::Udt(Box::new(UdtType { keyspace: "ks".into(), name: "Ty".into(), fields }))
    }

    #[test]
    fn spellings() {
        let nested = CqlType::map(CqlType::Text, CqlType::list(CqlType::Int).freeze());
        assert_eq!(nested.to_string(), "map<text, frozen<list<int>>>");
        assert_eq!(CqlType::tuple([CqlType::list(CqlType::Int)]).to_string(), "frozen<tuple<frozen<list<int>>>>");
        assert_eq!(CqlType::vector(CqlType::Float, 3).to_string(), "vector<float, 3>");
        assert_eq!(udt(vec![]).freeze().to_string(), "frozen<\"Ty\">");
        assert_eq!(quote_name("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_name("a_1"), "a_1");
        assert_eq!(quote_name(""), "\"\"");
        for ty in CqlType::NATIVE {
            assert_eq!(CqlType::native(&ty.to_string()), Some(ty));
        }
    }

    #[test]
    fn freezing_goes_all_the_way_down_and_is_done_once() {
        let list = CqlType::list(CqlType::list(CqlType::Int));
        let frozen = list.clone().freeze();
        assert_eq!(frozen.to_string(), "frozen<list<frozen<list<int>>>>");
        assert_eq!(frozen.clone().freeze(), frozen);
        assert!(list.is_multi_cell() && !frozen.is_multi_cell() && frozen.is_collection());
        assert!(CqlType::tuple([CqlType::Int]).is_frozen());
        assert_eq!(frozen.unfrozen(), &CqlType::list(CqlType::list(CqlType::Int).freeze()));
    }

    #[test]
    fn what_types_hold() {
        let deep = CqlType::map(CqlType::Int, CqlType::tuple([CqlType::Duration]));
        assert!(deep.contains_duration());
        assert!(!CqlType::map(CqlType::Int, CqlType::Text).contains_duration());
        let held = CqlType::list(udt(vec![]).freeze());
        assert!(held.references_udt("ks", "Ty") && !held.references_udt("ks", "ty"));
        assert_eq!(udt(vec![("a".into(), CqlType::Int)]).as_udt().and_then(|udt| udt.field_index("a")), Some(0));
    }

    #[test]
    fn lengths_in_vectors() {
        assert_eq!(CqlType::vector(CqlType::vector(CqlType::Int, 2), 3).fixed_len(), Some(24));
        for ty in [CqlType::TinyInt, CqlType::SmallInt, CqlType::Date, CqlType::Time, CqlType::Text, CqlType::Counter] {
            assert_eq!(ty.fixed_len(), None);
        }
    }

    #[test]
    fn what_may_be_read_as_what() {
        let compatible = |a: &CqlType, b: &CqlType| a.is_value_compatible_with(b);
        assert!(compatible(&CqlType::Text, &CqlType::Ascii) && !compatible(&CqlType::Ascii, &CqlType::Text));
        assert!(compatible(&CqlType::Varint, &CqlType::Int) && !compatible(&CqlType::BigInt, &CqlType::Int));
        assert!(compatible(&CqlType::Uuid, &CqlType::TimeUuid) && !compatible(&CqlType::TimeUuid, &CqlType::Uuid));
        assert!(compatible(&CqlType::list(CqlType::Text).freeze(), &CqlType::list(CqlType::Ascii)));
        assert!(compatible(&CqlType::tuple([CqlType::Int, CqlType::Int]), &CqlType::tuple([CqlType::Int])));
        assert!(!compatible(&CqlType::tuple([CqlType::Int]), &CqlType::tuple([CqlType::Int, CqlType::Int])));
        assert!(!compatible(&CqlType::vector(CqlType::Float, 2), &CqlType::vector(CqlType::Float, 3)));
    }
}
