//! From the spelling of a type to the type: user types are looked up, aliases unified.

use crate::cql::ast::DataType;
use crate::protocol::CqlError;
use crate::schema::Schema;
use crate::types::{CqlType, marshal};

/// The most types that one may be made of, those of its user types' fields included. A type holds what it is made of, so
/// that types of types would grow without bound.
pub const TYPE_PARTS_MAX: usize = 2048;

/// The type that a statement spells, user types taken from `keyspace` where they name none. Whether a column may have
/// the type is for the DDL to say.
pub fn resolve(ty: &DataType, schema: &Schema, keyspace: &str) -> Result<CqlType, CqlError> {
    let mut parts_left = TYPE_PARTS_MAX;
    within(ty, schema, keyspace, &mut parts_left)
}

/// Why a type with more parts is refused.
pub fn too_many_parts() -> CqlError {
    CqlError::invalid(format!("A type can be made of at most {TYPE_PARTS_MAX} types"))
}

/// The same of at most so many parts, which are taken from `left`.
fn within(ty: &DataType, schema: &Schema, keyspace: &str, left: &mut usize) -> Result<CqlType, CqlError> {
    *left = left.checked_sub(1).ok_or_else(too_many_parts)?;
    let mut inner = |ty: &DataType| within(ty, schema, keyspace, left);
    Ok(match ty {
        DataType::Native(ty) => ty.cql_type(),
        DataType::List(element) => CqlType::list(inner(element)?),
        DataType::Set(element) => CqlType::set(inner(element)?),
        DataType::Map(key, value) => CqlType::map(inner(key)?, inner(value)?),
        DataType::Tuple(elements) => CqlType::tuple(elements.iter().map(inner).collect::<Result<Vec<_>, _>>()?),
        DataType::Vector(element, dimensions) => {
            let wrong = if *dimensions <= 0 { "positive dimensions" } else { "up to 65535 dimensions" };
            let count = u16::try_from(*dimensions).ok().filter(|count| *count > 0);
            let count =
                count.ok_or_else(|| CqlError::invalid(format!("vectors may only have {wrong}; given {dimensions}")))?;
            CqlType::vector(inner(element)?, count)
        }
        DataType::Frozen(ty) => inner(ty)?.freeze(),
        DataType::UserType(name) => {
            let keyspace = name.keyspace.as_ref().map_or(keyspace, |keyspace| keyspace.as_str());
            let found = schema.keyspace(keyspace).and_then(|keyspace| keyspace.types.get(name.name.as_str()));
            let found = found.ok_or_else(|| CqlError::invalid(format!("Unknown type {keyspace}.{}", name.name)))?;
            if !found.fields.iter().all(|(_, ty)| ty.take_parts(left)) {
                return Err(too_many_parts());
            }
            CqlType::Udt(Box::new(found.clone()))
        }
        DataType::Custom(class) => marshal::parse_marshal_name(class).map_err(|_| {
            CqlError::syntax(format!("Error setting type {class}: Unable to find abstract-type class '{class}'"))
        })?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::cql::ast::Statement;
    use crate::plan::testing;

    fn check(spelling: &str, expected: &str) {
        let schema = testing::schema(&["CREATE TYPE ks.address (street text, zip int)"]);
        let parsed = crate::cql::parse(&format!("CREATE TABLE t (k int PRIMARY KEY, v {spelling})")).unwrap();
        let Statement::CreateTable(create) = parsed.statement else { panic!("{spelling}") };
        let column = create.columns.iter().find(|column| column.name.as_str() == "v").unwrap();
        let got = match resolve(&column.data_type, &schema, "ks") {
            Ok(ty) => ty.to_string(),
            Err(error) => error.message().to_owned(),
        };
        assert_eq!(got, expected, "{spelling}");
    }

    #[test]
    fn spellings_mean_types() {
        check("varchar", "text");
        check("list<frozen<map<int, text>>>", "list<frozen<map<int, text>>>");
        check("tuple<int, list<int>>", "frozen<tuple<int, frozen<list<int>>>>");
        check("frozen<address>", "frozen<address>");
        check("set<ks.address>", "set<address>");
        check("vector<float, 3>", "vector<float, 3>");
        check("'org.apache.cassandra.db.marshal.Int32Type'", "int");
    }

    #[test]
    fn what_is_no_type_is_refused() {
        check("nosuch", "Unknown type ks.nosuch");
        check("other.address", "Unknown type other.address");
        check("vector<float, 0>", "vectors may only have positive dimensions; given 0");
        check("vector<float, 70000>", "vectors may only have up to 65535 dimensions; given 70000");
    }
}
