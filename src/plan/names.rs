//! From names in a statement to keyspaces, tables and columns, with Cassandra's words where they do not exist.

use std::rc::Rc;

use crate::cql::ast::{Ident, QualifiedName};
use crate::protocol::CqlError;
use crate::schema::{Column, Schema, Table};

/// The keyspace that a name is in: its own, or the current one.
pub fn keyspace_of<'a>(name: &'a QualifiedName, current: Option<&'a str>) -> Result<&'a str, CqlError> {
    name.keyspace.as_ref().map(Ident::as_str).or(current).ok_or_else(|| {
        CqlError::invalid("No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename")
    })
}

/// The table of this name.
pub fn table<'s>(schema: &'s Schema, name: &QualifiedName, current: Option<&str>) -> Result<&'s Rc<Table>, CqlError> {
    let keyspace = keyspace_of(name, current)?;
    if schema.keyspace(keyspace).is_none() {
        return Err(CqlError::invalid(format!("keyspace {keyspace} does not exist")));
    }
    schema
        .table(keyspace, name.name.as_str())
        .ok_or_else(|| CqlError::invalid(format!("table {} does not exist", name.name)))
}

/// The column of this name.
pub fn column<'t>(table: &'t Table, name: &Ident) -> Result<&'t Column, CqlError> {
    place(table, name).map(|at| &table.columns[at])
}

/// The place of this name's column among the table's.
pub fn place(table: &Table, name: &Ident) -> Result<usize, CqlError> {
    table.columns.place(name.as_str()).ok_or_else(|| {
        CqlError::invalid(format!("Undefined column name {} in table {}", name.to_cql(), full_name(table)))
    })
}

/// `keyspace.table`, quoted where CQL needs it.
pub fn full_name(table: &Table) -> String {
    let quoted = |name: &str| Ident::quoted(name).to_cql();
    format!("{}.{}", quoted(&table.keyspace), quoted(&table.name))
}

/// Keyspaces whose rows the server itself writes; clients may only read them.
pub fn is_server_owned(keyspace: &str) -> bool {
    matches!(keyspace, "system" | "system_schema" | "system_virtual_schema" | "system_views")
}

/// Refuses changes of rows that the server itself writes.
pub fn check_writable(table: &Table) -> Result<(), CqlError> {
    if is_server_owned(&table.keyspace) {
        return Err(CqlError::unauthorized(format!("{} keyspace is not user-modifiable.", table.keyspace)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::plan::testing;

    fn name(text: &str) -> QualifiedName {
        match text.split_once('.') {
            Some((keyspace, name)) => {
                QualifiedName { keyspace: Some(Ident::quoted(keyspace)), name: Ident::quoted(name) }
            }
            None => QualifiedName { keyspace: None, name: Ident::quoted(text) },
        }
    }

    fn check(text: &str, current: Option<&str>, expected: Result<&str, &str>) {
        let schema = testing::schema(&["CREATE TABLE t (k int PRIMARY KEY)"]);
        let got = table(&schema, &name(text), current);
        let got = got.map(|table| full_name(table)).map_err(|error| error.message().to_owned());
        assert_eq!(got, expected.map(str::to_owned).map_err(str::to_owned), "{text}");
    }

    #[test]
    fn tables_are_found_or_named_as_missing() {
        check("ks.t", None, Ok("ks.t"));
        check("t", Some("ks"), Ok("ks.t"));
        check("u", Some("ks"), Err("table u does not exist"));
        check("other.t", Some("ks"), Err("keyspace other does not exist"));
        let none = "No keyspace has been specified. USE a keyspace, or explicitly specify keyspace.tablename";
        check("t", None, Err(none));
    }

    #[test]
    fn columns_are_found_or_named_as_missing() {
        let table = testing::table("t", "k int PRIMARY KEY, \"V\" int");
        assert_eq!(column(&table, &Ident::quoted("V")).unwrap().name, "V");
        let error = column(&table, &Ident::unquoted("V")).unwrap_err();
        assert_eq!(error.message(), "Undefined column name v in table ks.t");
    }
}
