//! The types that columns and fields may have: what may stand within what, and be frozen or not.

use crate::cql::ast::DataType;
use crate::plan::data_type;
use crate::protocol::CqlError;
use crate::schema::Schema;
use crate::types::{CqlType, UdtType};

/// The type that a statement on `keyspace` spells, where it may be the type of a column.
pub fn resolve(ty: &DataType, schema: &Schema, keyspace: &str) -> Result<CqlType, CqlError> {
    check(ty, ty, keyspace, false)?;
    let ty = data_type::resolve(ty, schema, keyspace)?;
    match &ty {
        CqlType::Udt(udt) if has_multi_cell_field(udt) => {
            Err(CqlError::invalid("Non-frozen UDTs with nested non-frozen collections are not supported"))
        }
        _ => Ok(ty),
    }
}

fn has_multi_cell_field(udt: &UdtType) -> bool {
    udt.fields.iter().any(|(_, ty)| ty.is_multi_cell())
}

/// The type of a user type's field.
pub fn resolve_field(ty: &DataType, schema: &Schema, keyspace: &str) -> Result<CqlType, CqlError> {
    match ty {
        _ if is_counter(ty) => Err(CqlError::invalid("A user type cannot contain counters")),
        DataType::UserType(_) => Err(CqlError::invalid("A user type cannot contain non-frozen UDTs")),
        _ => resolve(ty, schema, keyspace),
    }
}

/// `shown` is `ty` with its `frozen<…>`, for the message.
fn check(ty: &DataType, shown: &DataType, keyspace: &str, frozen: bool) -> Result<(), CqlError> {
    match ty {
        DataType::Frozen(inner) => check(inner, shown, keyspace, true),
        DataType::List(element) => check_element(element, shown, keyspace, frozen),
        DataType::Set(element) => {
            if is_duration(element) {
                return Err(CqlError::invalid(format!("Durations are not allowed inside sets: {shown}")));
            }
            check_element(element, shown, keyspace, frozen)
        }
        DataType::Map(key, value) => {
            if is_duration(key) {
                return Err(CqlError::invalid(format!("Durations are not allowed as map keys: {shown}")));
            }
            check_element(key, shown, keyspace, frozen)?;
            check_element(value, shown, keyspace, frozen)
        }
        DataType::Tuple(elements) => elements.iter().try_for_each(|element| {
            if is_counter(element) {
                return Err(CqlError::invalid("Counters are not allowed inside tuples"));
            }
            check(element, element, keyspace, true)
        }),
        DataType::Vector(element, _) if is_counter(element) => {
            Err(CqlError::invalid("Counters are not allowed inside vectors"))
        }
        DataType::Vector(element, _) => check(element, element, keyspace, true),
        DataType::UserType(name) => match &name.keyspace {
            Some(other) if other.as_str() != keyspace => Err(CqlError::invalid(format!(
                "Statement on keyspace {keyspace} cannot refer to a user type in keyspace {other}; \
                 user types can only be used in the keyspace they are defined in"
            ))),
            _ => Ok(()),
        },
        DataType::Native(_) | DataType::Custom(_) => Ok(()),
    }
}

fn check_element(element: &DataType, shown: &DataType, keyspace: &str, frozen: bool) -> Result<(), CqlError> {
    let wrong = match element {
        _ if is_counter(element) => "Counters",
        DataType::List(_) | DataType::Set(_) | DataType::Map(..) if !frozen => "Non-frozen collections",
        DataType::UserType(_) if !frozen => "Non-frozen UDTs",
        _ => return check(element, element, keyspace, frozen),
    };
    Err(CqlError::invalid(format!("{wrong} are not allowed inside collections: {shown}")))
}

fn is_counter(ty: &DataType) -> bool {
    matches!(ty, DataType::Native(native) if native.cql_type() == CqlType::Counter)
}

fn is_duration(ty: &DataType) -> bool {
    matches!(ty, DataType::Native(native) if native.cql_type() == CqlType::Duration)
}

/// Whether a column of this type may be part of the primary key.
pub fn check_key(ty: &CqlType, column: &str) -> Result<(), CqlError> {
    let what = match ty {
        CqlType::Udt(udt) => {
            let name = format!("{}.{}", udt.keyspace, udt.name);
            return Err(CqlError::invalid(format!(
                "Invalid non-frozen user-defined type \"{name}\" for PRIMARY KEY column '{column}'"
            )));
        }
        _ if ty.is_multi_cell() => {
            return Err(CqlError::invalid(format!(
                "Invalid non-frozen collection type {ty} for PRIMARY KEY column '{column}'"
            )));
        }
        CqlType::Counter => "counter",
        _ if ty.contains_duration() => "duration",
        _ => return Ok(()),
    };
    Err(CqlError::invalid(format!("{what} type is not supported for PRIMARY KEY column '{column}'")))
}

#[cfg(test)]
mod tests {
    use crate::plan::ddl::testing::Node;

    fn node() -> Node {
        let mut node = Node::new();
        node.check("CREATE TYPE addr (street text, zip int)", "CREATED TYPE addr");
        node.check("CREATE TYPE nestl (l list<int>)", "CREATED TYPE nestl");
        node
    }

    #[test]
    fn what_columns_may_hold() {
        let mut node = node();
        for (at, ty) in [
            "list<frozen<addr>>",
            "addr",
            "frozen<nestl>",
            "tuple<addr, list<int>>",
            "frozen<list<list<int>>>",
            "map<int, duration>",
            "vector<list<int>, 3>",
            "'org.apache.cassandra.db.marshal.Int32Type'",
        ]
        .into_iter()
        .enumerate()
        {
            node.check(&format!("CREATE TABLE t{at} (k int PRIMARY KEY, v {ty})"), &format!("CREATED TABLE t{at}"));
        }
    }

    #[test]
    fn what_columns_may_not_hold() {
        let mut node = node();
        let mut check = |ty: &str, expected: &str| {
            node.check(&format!("CREATE TABLE t (k int PRIMARY KEY, v {ty})"), expected);
        };
        check("list<list<int>>", "0x2200 Non-frozen collections are not allowed inside collections: list<list<int>>");
        check(
            "map<list<int>, int>",
            "0x2200 Non-frozen collections are not allowed inside collections: map<list<int>, int>",
        );
        check("list<addr>", "0x2200 Non-frozen UDTs are not allowed inside collections: list<addr>");
        check("list<nosuch>", "0x2200 Non-frozen UDTs are not allowed inside collections: list<nosuch>");
        check("set<counter>", "0x2200 Counters are not allowed inside collections: set<counter>");
        check("set<duration>", "0x2200 Durations are not allowed inside sets: set<duration>");
        check("map<duration, int>", "0x2200 Durations are not allowed as map keys: map<duration, int>");
        check(
            "list<frozen<map<duration, int>>>",
            "0x2200 Durations are not allowed as map keys: frozen<map<duration, int>>",
        );
        check("nestl", "0x2200 Non-frozen UDTs with nested non-frozen collections are not supported");
        check("nosuch", "0x2200 Unknown type ks.nosuch");
        check(
            "system.addr",
            "0x2200 Statement on keyspace ks cannot refer to a user type in keyspace system; \
             user types can only be used in the keyspace they are defined in",
        );
        check("vector<int, 0>", "0x2200 vectors may only have positive dimensions; given 0");
    }

    #[test]
    fn what_a_key_may_not_be() {
        let mut node = node();
        let mut check = |ty: &str, expected: &str| {
            node.check(&format!("CREATE TABLE t (k {ty} PRIMARY KEY)"), expected);
        };
        check("list<int>", "0x2200 Invalid non-frozen collection type list<int> for PRIMARY KEY column 'k'");
        check("addr", "0x2200 Invalid non-frozen user-defined type \"ks.addr\" for PRIMARY KEY column 'k'");
        check("duration", "0x2200 duration type is not supported for PRIMARY KEY column 'k'");
        check("tuple<int, duration>", "0x2200 duration type is not supported for PRIMARY KEY column 'k'");
        check("counter", "0x2200 counter type is not supported for PRIMARY KEY column 'k'");
        check("frozen<addr>", "CREATED TABLE t");
    }
}
