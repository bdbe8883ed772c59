//! CREATE, ALTER and DROP TYPE. Types hold the types that they are made of, so a change of one is a change of all that
//! are made of it, and of the tables that use them.

use crate::base::collections::{HashSet, hasher};
use crate::cql::ast::schema::{AlterType, CreateType, DropNamed, TypeChange};
use crate::cql::ast::{DataType, Ident};
use crate::plan::data_type::{TYPE_PARTS_MAX, too_many_parts};
use crate::plan::ddl::{DdlPlan, access, column_type, keyspace, table};
use crate::plan::names;
use crate::protocol::{Change, CqlError, SchemaChange};
use crate::schema::stored::{table_with_udt, udt_with_udt};
use crate::schema::{Keyspace, Schema, SchemaOp};
use crate::types::{CqlType, UdtType};

pub fn create(create: &CreateType, schema: &Schema, current: Option<&str>) -> Result<DdlPlan, CqlError> {
    let keyspace_name = names::keyspace_of(&create.name, current)?;
    let name = create.name.name.as_str();
    access::check_create(keyspace_name)?;
    let Some(keyspace) = schema.keyspace(keyspace_name) else { return Err(keyspace::missing(keyspace_name)) };
    if keyspace.types.contains_key(name) {
        if create.if_not_exists {
            return Ok(DdlPlan::nothing());
        }
        return Err(CqlError::invalid(format!("A user type with name '{name}' already exists")));
    }
    let mut fields: Vec<(String, CqlType)> = Vec::with_capacity(create.fields.len());
    let mut names: HashSet<&str> = HashSet::with_hasher(hasher());
    let mut parts_left = TYPE_PARTS_MAX - 1;
    for (field, ty) in &create.fields {
        if !names.insert(field.as_str()) {
            return Err(CqlError::invalid(format!("Duplicate field name '{field}' in type '{name}'")));
        }
        let ty = column_type::resolve_field(ty, schema, keyspace_name)?;
        if !ty.take_parts(&mut parts_left) {
            return Err(too_many_parts());
        }
        fields.push((field.as_str().to_owned(), ty));
    }
    let udt = UdtType { keyspace: keyspace_name.to_owned(), name: name.to_owned(), fields };
    let change = SchemaChange::user_type(Change::Created, keyspace_name, name);
    Ok(DdlPlan::change(vec![SchemaOp::PutType(udt)], change))
}

pub fn alter(alter: &AlterType, schema: &Schema, current: Option<&str>) -> Result<DdlPlan, CqlError> {
    let keyspace_name = names::keyspace_of(&alter.name, current)?;
    let name = alter.name.name.as_str();
    access::check_modify("ALTER", keyspace_name, name)?;
    let found = schema.keyspace(keyspace_name).and_then(|keyspace| Some((keyspace, keyspace.types.get(name)?)));
    let Some((keyspace, udt)) = found else {
        if alter.if_exists {
            return Ok(DdlPlan::nothing());
        }
        return Err(CqlError::invalid(format!("Type {keyspace_name}.{name} doesn't exist")));
    };
    let mut altered = udt.clone();
    match &alter.change {
        TypeChange::Add { if_not_exists, field, data_type } => {
            let ty = column_type::resolve_field(data_type, schema, keyspace_name)?;
            if altered.field_index(field.as_str()).is_some() && *if_not_exists {
                return Ok(DdlPlan::nothing());
            }
            add_field(&mut altered, field, data_type, ty, keyspace)?;
        }
        TypeChange::Rename { if_exists, renames } => rename_fields(&mut altered, renames, *if_exists)?,
        TypeChange::AlterField { .. } => {
            return Err(CqlError::invalid("Altering field types is no longer supported"));
        }
    }
    if altered == *udt {
        return Ok(DdlPlan::nothing());
    }
    let change = SchemaChange::user_type(Change::Updated, keyspace_name, name);
    let ops = with_users(altered, keyspace);
    check_parts(&ops)?;
    Ok(DdlPlan::change(ops, change))
}

fn add_field(
    udt: &mut UdtType,
    field: &Ident,
    spelled: &DataType,
    ty: CqlType,
    keyspace: &Keyspace,
) -> Result<(), CqlError> {
    let shown = format!("{}.{}", udt.keyspace, udt.name);
    if udt.field_index(field.as_str()).is_some() {
        return Err(CqlError::invalid(format!(
            "Cannot add field {field} to type {shown}: a field with name {field} already exists"
        )));
    }
    let spelled = with_keyspace(spelled, &ty);
    if ty.references_udt(&udt.keyspace, &udt.name) {
        return Err(CqlError::invalid(format!(
            "Cannot add new field {field} of type {spelled} to user type {shown} as it would create a circular reference"
        )));
    }
    let by_key: Vec<String> = keyspace
        .tables
        .values()
        .filter(|table| table.partition_key().any(|column| column.ty.references_udt(&udt.keyspace, &udt.name)))
        .map(|table| format!("{}.{}", table.keyspace, table.name))
        .collect();
    if !by_key.is_empty() {
        return Err(CqlError::invalid(format!(
            "Cannot add new field {field} of type {spelled} to user type {shown} as the type is being used in \
             partition key by the following tables: {}",
            by_key.join(", ")
        )));
    }
    udt.fields.push((field.as_str().to_owned(), ty));
    Ok(())
}

/// A type as written, a user type with the keyspace it was found in.
fn with_keyspace(spelled: &DataType, ty: &CqlType) -> String {
    match (spelled, ty.as_udt()) {
        (DataType::Frozen(_), Some(udt)) => format!("frozen<{}.{}>", udt.keyspace, udt.name),
        _ => spelled.to_string(),
    }
}

fn rename_fields(udt: &mut UdtType, renames: &[(Ident, Ident)], if_exists: bool) -> Result<(), CqlError> {
    let shown = format!("{}.{}", udt.keyspace, udt.name);
    for (from, to) in renames {
        match udt.fields.iter_mut().find(|(name, _)| name == from.as_str()) {
            Some((name, _)) => to.as_str().clone_into(name),
            None if if_exists => {}
            None => return Err(CqlError::invalid(format!("Unkown field {from} in user type {shown}"))),
        }
    }
    let mut names: HashSet<&str> = HashSet::with_hasher(hasher());
    for (name, _) in &udt.fields {
        if !names.insert(name.as_str()) {
            // Cassandra names the keyspace here.
            return Err(CqlError::invalid(format!("Duplicate field name {name} in type {}", udt.keyspace)));
        }
    }
    Ok(())
}

/// The changed type with all that is made of it.
fn with_users(udt: UdtType, keyspace: &Keyspace) -> Vec<SchemaOp> {
    let uses = |other: &UdtType| other.fields.iter().any(|(_, ty)| ty.references_udt(&udt.keyspace, &udt.name));
    let types = keyspace.types.values().filter(|other| uses(other)).map(|other| udt_with_udt(other, &udt));
    let tables = keyspace.tables.values().filter_map(|table| table_with_udt(table, &udt));
    let types = types.map(SchemaOp::PutType);
    let tables = tables.map(|table| SchemaOp::PutTable(Box::new(table)));
    let users: Vec<SchemaOp> = types.chain(tables).collect();
    [SchemaOp::PutType(udt)].into_iter().chain(users).collect()
}

/// Refuses what a changed type makes too large.
fn check_parts(ops: &[SchemaOp]) -> Result<(), CqlError> {
    for op in ops {
        let mut left = TYPE_PARTS_MAX - 1;
        let fits = match op {
            SchemaOp::PutType(udt) => udt.fields.iter().all(|(_, ty)| ty.take_parts(&mut left)),
            SchemaOp::PutTable(table) => {
                table::parts_left(&table.columns)?;
                table.columns.iter().all(|column| column.ty.take_parts(&mut { TYPE_PARTS_MAX }))
            }
            _ => true,
        };
        if !fits {
            return Err(too_many_parts());
        }
    }
    Ok(())
}

pub fn drop(drop: &DropNamed, schema: &Schema, current: Option<&str>) -> Result<DdlPlan, CqlError> {
    let keyspace_name = names::keyspace_of(&drop.name, current)?;
    let name = drop.name.name.as_str();
    access::check_modify("DROP", keyspace_name, name)?;
    let keyspace = schema.keyspace(keyspace_name).filter(|keyspace| keyspace.types.contains_key(name));
    let Some(keyspace) = keyspace else {
        if drop.if_exists {
            return Ok(DdlPlan::nothing());
        }
        return Err(CqlError::invalid(format!("Type '{keyspace_name}.{name}' doesn't exist")));
    };
    let uses = |ty: &CqlType| ty.references_udt(keyspace_name, name);
    let types = keyspace.types.values().filter(|udt| udt.fields.iter().any(|(_, ty)| uses(ty)));
    check_unused(keyspace_name, name, "user types", types.map(|udt| udt.name.as_str()))?;
    let tables = keyspace.tables.values().filter(|table| table.columns.iter().any(|column| uses(&column.ty)));
    check_unused(keyspace_name, name, "tables", tables.map(|table| table.name.as_str()))?;
    let op = SchemaOp::DropType { keyspace: keyspace_name.to_owned(), name: name.to_owned() };
    Ok(DdlPlan::change(vec![op], SchemaChange::user_type(Change::Dropped, keyspace_name, name)))
}

fn check_unused<'a>(
    keyspace: &str,
    name: &str,
    by: &str,
    users: impl Iterator<Item = &'a str>,
) -> Result<(), CqlError> {
    let users: Vec<&str> = users.collect();
    if users.is_empty() {
        return Ok(());
    }
    let users = users.join(", ");
    Err(CqlError::invalid(format!("Cannot drop user type '{keyspace}.{name}' as it is still used by {by} {users}")))
}

#[cfg(test)]
mod tests {
    use crate::plan::ddl::testing::Node;

    fn node() -> Node {
        let mut node = Node::new();
        node.check("CREATE TYPE addr (street text, zip int)", "CREATED TYPE addr");
        node
    }

    #[test]
    fn types_are_created_once() {
        let mut node = node();
        node.check("CREATE TYPE addr (street text)", "0x2200 A user type with name 'addr' already exists");
        node.check("CREATE TYPE IF NOT EXISTS addr (x int)", "VOID");
        node.check("CREATE TYPE nest (a frozen<addr>, fl frozen<list<int>>)", "CREATED TYPE nest");
        node.check("CREATE TYPE ks.other (a int)", "CREATED TYPE other");
        node.check("CREATE TYPE bad (a int, a int)", "0x2200 Duplicate field name 'a' in type 'bad'");
        node.check("CREATE TYPE bad (a counter)", "0x2200 A user type cannot contain counters");
        node.check("CREATE TYPE bad (a nosuch)", "0x2200 A user type cannot contain non-frozen UDTs");
        node.check("CREATE TYPE bad (a addr)", "0x2200 A user type cannot contain non-frozen UDTs");
        node.check(
            "CREATE TYPE bad (a list<addr>)",
            "0x2200 Non-frozen UDTs are not allowed inside collections: list<addr>",
        );
        node.check("CREATE TYPE nosuchks.other (a int)", "0x2200 Keyspace 'nosuchks' doesn't exist");
        node.check("CREATE TYPE system.x (a int)", "0x2100 system keyspace is not user-modifiable.");
    }

    #[test]
    fn a_change_reaches_what_is_made_of_the_type() {
        let mut node = node();
        node.check("CREATE TYPE nest (a frozen<addr>)", "CREATED TYPE nest");
        node.check("CREATE TABLE t (k int PRIMARY KEY, n frozen<nest>, l list<frozen<addr>>)", "CREATED TABLE t");
        let before = node.schema.table("ks", "t").map(|table| table.version);
        node.check("ALTER TYPE addr ADD country text", "UPDATED TYPE addr");
        let table = node.schema.table("ks", "t");
        let fields = |name: &str| {
            let column = table.and_then(|table| table.column(name)).map(|column| format!("{:?}", column.ty));
            column.is_some_and(|ty| ty.contains("country"))
        };
        assert!(fields("n") && fields("l"));
        assert_ne!(table.map(|table| table.version), before);
        let nest = node.schema.keyspace("ks").and_then(|ks| ks.types.get("nest")).map(|ty| format!("{ty:?}"));
        assert!(nest.is_some_and(|nest| nest.contains("country")));
    }

    #[test]
    fn what_an_alter_refuses() {
        let mut node = node();
        node.check("CREATE TABLE t (k frozen<addr> PRIMARY KEY)", "CREATED TABLE t");
        node.check(
            "ALTER TYPE addr ADD zip text",
            "0x2200 Cannot add field zip to type ks.addr: a field with name zip already exists",
        );
        node.check("ALTER TYPE addr ADD IF NOT EXISTS zip text", "VOID");
        node.check(
            "ALTER TYPE addr ADD self frozen<addr>",
            "0x2200 Cannot add new field self of type frozen<ks.addr> to user type ks.addr as it would create a \
             circular reference",
        );
        node.check(
            "ALTER TYPE addr ADD planet text",
            "0x2200 Cannot add new field planet of type text to user type ks.addr as the type is being used in \
             partition key by the following tables: ks.t",
        );
        node.check("ALTER TYPE addr ALTER zip TYPE blob", "0x2200 Altering field types is no longer supported");
        node.check("ALTER TYPE nosuch ADD a int", "0x2200 Type ks.nosuch doesn't exist");
        node.check("ALTER TYPE IF EXISTS nosuch ADD a int", "VOID");
    }

    #[test]
    fn fields_are_renamed() {
        let mut node = node();
        node.check("ALTER TYPE addr RENAME zip TO postcode AND street TO road", "UPDATED TYPE addr");
        node.check("ALTER TYPE addr RENAME nosuch TO b", "0x2200 Unkown field nosuch in user type ks.addr");
        node.check("ALTER TYPE addr RENAME IF EXISTS nosuch TO b", "VOID");
        node.check("ALTER TYPE addr RENAME road TO postcode", "0x2200 Duplicate field name postcode in type ks");
    }

    #[test]
    fn types_in_use_stay() {
        let mut node = node();
        node.check("CREATE TYPE nest (a frozen<addr>)", "CREATED TYPE nest");
        node.check("CREATE TABLE t (k int PRIMARY KEY, n frozen<nest>)", "CREATED TABLE t");
        node.check("DROP TYPE addr", "0x2200 Cannot drop user type 'ks.addr' as it is still used by user types nest");
        node.check("DROP TYPE nest", "0x2200 Cannot drop user type 'ks.nest' as it is still used by tables t");
        node.check("DROP TABLE t", "DROPPED TABLE t");
        node.check("DROP TYPE nest", "DROPPED TYPE nest");
        node.check("DROP TYPE addr", "DROPPED TYPE addr");
        node.check("DROP TYPE addr", "0x2200 Type 'ks.addr' doesn't exist");
        node.check("DROP TYPE IF EXISTS addr", "VOID");
    }

    /// Types of types would double with each statement.
    #[test]
    fn types_have_a_size() {
        let mut node = Node::new();
        let too_large = "0x2200 A type can be made of at most 2048 types";
        node.check("CREATE TYPE t0 (a int, b int)", "CREATED TYPE t0");
        for at in 1..9 {
            let of = format!("frozen<t{}>", at - 1);
            node.check(&format!("CREATE TYPE t{at} (a {of}, b {of})"), &format!("CREATED TYPE t{at}"));
        }
        node.check("CREATE TYPE t9 (a frozen<t8>, b frozen<t8>)", too_large);
        node.check("CREATE TABLE t (k int PRIMARY KEY, v tuple<t8, t8>)", too_large);
        node.check("CREATE TABLE t (k int PRIMARY KEY, v t8)", "CREATED TABLE t");
        node.check("ALTER TYPE t0 ADD c int", "UPDATED TYPE t0");
        node.check("ALTER TYPE t0 ADD d int", "UPDATED TYPE t0");
        node.check("ALTER TYPE t0 ADD e int", too_large);
        let fields = (0..2048).map(|at| format!("f{at} int")).collect::<Vec<_>>().join(", ");
        node.check(&format!("CREATE TYPE wide ({fields})"), too_large);
        let columns = (0..40).map(|at| format!("c{at} t8")).collect::<Vec<_>>().join(", ");
        node.check(
            &format!("CREATE TABLE u (k int PRIMARY KEY, {columns})"),
            "0x2200 The columns of a table can be made of at most 65536 types together",
        );
    }
}
