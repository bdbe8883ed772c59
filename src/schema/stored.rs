//! The canonical schema as rows of `system.helenus_schema (kind, name, definition)`: one for each keyspace, type and
//! table that a statement ever changed.

use crate::schema::codec::{SchemaCodecError, decode_op, encode_op};
use crate::schema::table::{Schema, SchemaOp, Table};
use crate::types::{CqlType, UdtType};

/// One row to write, or to delete where it has no definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRow {
    pub kind: &'static str,
    pub name: String,
    pub definition: Option<Vec<u8>>,
}

const KEYSPACE: &str = "keyspace";
const TYPE: &str = "type";
const TABLE: &str = "table";

/// A partition beside the definitions: which rows of `system_schema` are written, and need not be at the next start.
pub const ROWS_KIND: &str = "rows";

/// What these changes write. A dropped keyspace takes its types and tables, as they were `before`, along.
pub fn rows_of(before: &Schema, ops: &[SchemaOp]) -> Vec<StoredRow> {
    let mut rows: Vec<StoredRow> = Vec::new();
    for op in ops {
        match op {
            SchemaOp::PutKeyspace { name, .. } => put(&mut rows, KEYSPACE, name.clone(), Some(encode_op(op))),
            SchemaOp::PutType(udt) => put(&mut rows, TYPE, qualified(&udt.keyspace, &udt.name), Some(encode_op(op))),
            SchemaOp::PutTable(table) => {
                put(&mut rows, TABLE, qualified(&table.keyspace, &table.name), Some(encode_op(op)));
            }
            SchemaOp::DropType { keyspace, name } => put(&mut rows, TYPE, qualified(keyspace, name), None),
            SchemaOp::DropTable { keyspace, name, .. } => put(&mut rows, TABLE, qualified(keyspace, name), None),
            SchemaOp::DropKeyspace { name } => {
                put(&mut rows, KEYSPACE, name.clone(), None);
                let Some(keyspace) = before.keyspace(name) else { continue };
                keyspace.types.keys().for_each(|udt| put(&mut rows, TYPE, qualified(name, udt), None));
                keyspace.tables.keys().for_each(|table| put(&mut rows, TABLE, qualified(name, table), None));
            }
        }
    }
    rows
}

/// The last change of a name is the one that stands.
fn put(rows: &mut Vec<StoredRow>, kind: &'static str, name: String, definition: Option<Vec<u8>>) {
    match rows.iter_mut().find(|row| row.kind == kind && row.name == name) {
        Some(row) => row.definition = definition,
        None => rows.push(StoredRow { kind, name, definition }),
    }
}

/// Keyspace names hold no dot, so that no two tables share a name.
fn qualified(keyspace: &str, name: &str) -> String {
    format!("{keyspace}.{name}")
}

/// The changes that the definitions of all rows stand for, in an order in which they can be applied: keyspaces, types
/// (each after those it is made of), tables.
pub fn ops_of<'a>(definitions: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<SchemaOp>, SchemaCodecError> {
    let (mut keyspaces, mut types, mut tables) = (Vec::new(), Vec::new(), Vec::new());
    for definition in definitions {
        let op = decode_op(definition)?;
        match op {
            SchemaOp::PutKeyspace { .. } => keyspaces.push(op),
            SchemaOp::PutType(udt) => types.push(udt),
            SchemaOp::PutTable(table) => tables.push(table),
            _ => return Err(SchemaCodecError::Malformed("stored definition")),
        }
    }
    keyspaces.extend(in_dependency_order(types).into_iter().map(SchemaOp::PutType));
    keyspaces.extend(tables.into_iter().map(SchemaOp::PutTable));
    Ok(keyspaces)
}

/// Types so that each follows those that it is made of; otherwise in the order given.
pub fn in_dependency_order(mut types: Vec<UdtType>) -> Vec<UdtType> {
    let mut ordered = Vec::with_capacity(types.len());
    while !types.is_empty() {
        let ready = types.iter().position(|udt| !types.iter().any(|other| other != udt && uses(udt, other)));
        // Types cannot be circular; should stored ones be, any order serves.
        ordered.push(types.remove(ready.unwrap_or(0)));
    }
    ordered
}

fn uses(udt: &UdtType, other: &UdtType) -> bool {
    udt.fields.iter().any(|(_, ty)| ty.references_udt(&other.keyspace, &other.name))
}

/// `ty` with the type of this name replaced by `udt` wherever it stands.
pub fn with_udt(ty: &CqlType, udt: &UdtType) -> CqlType {
    let again = |inner: &CqlType| Box::new(with_udt(inner, udt));
    match ty {
        CqlType::List(inner) => CqlType::List(again(inner)),
        CqlType::Set(inner) => CqlType::Set(again(inner)),
        CqlType::Map(key, value) => CqlType::Map(again(key), again(value)),
        CqlType::Tuple(elements) => CqlType::Tuple(elements.iter().map(|inner| with_udt(inner, udt)).collect()),
        CqlType::Vector(inner, dimensions) => CqlType::Vector(again(inner), *dimensions),
        CqlType::Frozen(inner) => CqlType::Frozen(again(inner)),
        CqlType::Udt(old) if old.keyspace == udt.keyspace && old.name == udt.name => {
            CqlType::Udt(Box::new(udt.clone()))
        }
        CqlType::Udt(other) => CqlType::Udt(Box::new(udt_with_udt(other, udt))),
        scalar => scalar.clone(),
    }
}

/// `of` with its fields' uses of `udt` replaced.
pub fn udt_with_udt(of: &UdtType, udt: &UdtType) -> UdtType {
    let fields = of.fields.iter().map(|(name, ty)| (name.clone(), with_udt(ty, udt))).collect();
    UdtType { keyspace: of.keyspace.clone(), name: of.name.clone(), fields }
}

/// `table` with `udt` replaced in its columns, those dropped too; `None` where it does not use it.
pub fn table_with_udt(table: &Table, udt: &UdtType) -> Option<Table> {
    let uses = |ty: &CqlType| ty.references_udt(&udt.keyspace, &udt.name);
    let live = table.columns.iter().any(|column| uses(&column.ty));
    if !live && !table.dropped.iter().any(|column| uses(&column.ty)) {
        return None;
    }
    let mut table = table.clone();
    table.columns.change(|list| list.iter_mut().for_each(|column| column.ty = with_udt(&column.ty, udt)));
    table.dropped.iter_mut().for_each(|column| column.ty = with_udt(&column.ty, udt));
    table.version += 1;
    Some(table)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::schema::system;

    fn udt(name: &str, fields: &[(&str, CqlType)]) -> UdtType {
        let fields = fields.iter().map(|(name, ty)| ((*name).to_owned(), ty.clone())).collect();
        UdtType { keyspace: "ks".into(), name: name.into(), fields }
    }

    fn frozen(udt: &UdtType) -> CqlType {
        CqlType::Udt(Box::new(udt.clone())).freeze()
    }

    fn keyspace(name: &str) -> SchemaOp {
        SchemaOp::PutKeyspace { name: name.into(), durable_writes: true, replication: Default::default() }
    }

    #[test]
    fn what_is_stored_comes_back_in_order() {
        let inner = udt("z_inner", &[("a", CqlType::Int)]);
        let outer = udt("a_outer", &[("i", frozen(&inner))]);
        let mut table = (**system::schema().table("system", "local").unwrap()).clone();
        table.keyspace = "ks".into();
        let ops = [
            keyspace("ks"),
            SchemaOp::PutType(outer.clone()),
            SchemaOp::PutType(inner.clone()),
            SchemaOp::PutTable(Box::new(table.clone())),
        ];
        let mut rows = rows_of(&Schema::default(), &ops);
        rows.sort_by(|a, b| b.kind.cmp(a.kind).then(a.name.cmp(&b.name)));
        let back = ops_of(rows.iter().filter_map(|row| row.definition.as_deref())).unwrap();
        let expected =
            [keyspace("ks"), SchemaOp::PutType(inner), SchemaOp::PutType(outer), SchemaOp::PutTable(Box::new(table))];
        assert_eq!(back, expected);
    }

    #[test]
    fn drops_delete_and_a_keyspace_takes_what_it_held() {
        let mut schema = Schema::default();
        let ty = udt("ty", &[("a", CqlType::Int)]);
        [keyspace("ks"), SchemaOp::PutType(ty)].iter().for_each(|op| schema.apply(op));
        let check = |ops: &[SchemaOp], expected: &[(&str, &str)]| {
            let rows = rows_of(&schema, ops);
            assert!(rows.iter().all(|row| row.definition.is_none()));
            let names: Vec<_> = rows.iter().map(|row| (row.kind, row.name.as_str())).collect();
            assert_eq!(names, expected);
        };
        check(&[SchemaOp::DropKeyspace { name: "ks".into() }], &[("keyspace", "ks"), ("type", "ks.ty")]);
        check(&[SchemaOp::DropType { keyspace: "ks".into(), name: "ty".into() }], &[("type", "ks.ty")]);
    }

    #[test]
    fn a_damaged_or_misplaced_definition_is_an_error() {
        assert!(ops_of([[9u8].as_slice()]).is_err());
        let drop = encode_op(&SchemaOp::DropKeyspace { name: "ks".into() });
        assert_eq!(ops_of([drop.as_slice()]), Err(SchemaCodecError::Malformed("stored definition")));
    }

    #[test]
    fn a_changed_type_changes_whatever_is_made_of_it() {
        let old = udt("ty", &[("a", CqlType::Int)]);
        let new = udt("ty", &[("a", CqlType::Int), ("b", CqlType::Text)]);
        let holder = udt("holder", &[("t", frozen(&old))]);
        let check = |ty: CqlType, expected: CqlType| assert_eq!(with_udt(&ty, &new), expected);
        check(CqlType::Int, CqlType::Int);
        check(frozen(&old), frozen(&new));
        check(CqlType::list(frozen(&old)), CqlType::list(frozen(&new)));
        check(
            CqlType::tuple([CqlType::map(CqlType::Int, frozen(&old))]),
            CqlType::tuple([CqlType::map(CqlType::Int, frozen(&new))]),
        );
        check(frozen(&holder), frozen(&udt("holder", &[("t", frozen(&new))])));
        let mut table = (**system::schema().table("system", "local").unwrap()).clone();
        assert_eq!(table_with_udt(&table, &new), None);
        table.columns.change(|list| list[1].ty = frozen(&old));
        let changed = table_with_udt(&table, &new).unwrap();
        assert_eq!((changed.version, &changed.columns[1].ty), (table.version + 1, &frozen(&new)));
    }
}
