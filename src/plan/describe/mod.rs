//! DESCRIBE: what there is, and the statements that would make it again, as cqlsh and drivers show them.
//!
//! The whole answer stands in memory at once, as in Cassandra; it is bounded by the schema.

mod create;

use crate::cql::ast::{Describe, DescribeTarget, Ident, QualifiedName};
use crate::plan::ColumnSpec;
use crate::plan::system_rows::LocalInfo;
use crate::protocol::CqlError;
use crate::schema::stored::in_dependency_order;
use crate::schema::{Keyspace, Schema, Table, system};
use crate::types::collection::{pack_list, pack_map};
use crate::types::{CqlType, UdtType};

/// What DESCRIBE CLUSTER calls the way nodes are found.
const SNITCH: &str = "DynamicEndpointSnitch";
const PARTITIONER: &str = "Murmur3Partitioner";

/// An answer that needs no data: columns, and rows of values in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyRows {
    pub columns: Vec<ColumnSpec>,
    pub rows: Vec<Vec<Option<Vec<u8>>>>,
}

/// Answers a DESCRIBE; `current` is the keyspace in use.
pub fn describe(
    statement: &Describe,
    schema: &Schema,
    current: Option<&str>,
    info: &LocalInfo,
) -> Result<ReadyRows, CqlError> {
    let view = View { schema, current, internals: statement.with_internals };
    match &statement.target {
        DescribeTarget::Cluster => Ok(cluster(info, current.is_some())),
        DescribeTarget::Keyspaces => Ok(listing(schema.keyspaces.values().map(Element::keyspace))),
        DescribeTarget::Tables => view.list(|keyspace| tables(keyspace).into_iter().map(Element::table).collect()),
        DescribeTarget::Types => view.list(|keyspace| types(keyspace).into_iter().map(Element::udt).collect()),
        DescribeTarget::Functions | DescribeTarget::Aggregates => view.list(|_| Vec::new()),
        DescribeTarget::Schema { full } => {
            let shown = schema.keyspaces.values().filter(|keyspace| *full || !system::is_system(&keyspace.name));
            Ok(statements(shown.flat_map(|keyspace| view.whole(keyspace)).collect()))
        }
        DescribeTarget::Keyspace { name, only } => {
            let keyspace = view.keyspace(name.as_ref())?;
            Ok(statements(if *only { vec![view.create_keyspace(keyspace)] } else { view.whole(keyspace) }))
        }
        DescribeTarget::Table(name) => {
            let keyspace = view.keyspace(name.keyspace.as_ref())?;
            let found = visible_table(keyspace, name.name.as_str());
            let missing = || format!("Table '{}' not found in keyspace '{}'", name.name, keyspace.name);
            one(found.map(|table| view.create_table(table)), missing)
        }
        DescribeTarget::Type(name) => {
            let keyspace = view.keyspace(name.keyspace.as_ref())?;
            let found = keyspace.types.get(name.name.as_str()).map(|udt| view.create_type(udt));
            one(found, || format!("User defined type '{}' not found in '{}'", name.name, keyspace.name))
        }
        DescribeTarget::Function(name) => view.missing(name.keyspace.as_ref(), "User defined function", &name.name),
        DescribeTarget::Aggregate(name) => view.missing(name.keyspace.as_ref(), "User defined aggregate", &name.name),
        DescribeTarget::Index(name) => view.missing(name.keyspace.as_ref(), "Table for existing index", &name.name),
        DescribeTarget::MaterializedView(name) => view.missing(name.keyspace.as_ref(), "Materialized view", &name.name),
        DescribeTarget::Named(name) => view.named(name),
    }
}

/// One thing of the schema: where it is, what it is, its name and maybe the statement that makes it.
struct Element {
    keyspace: String,
    kind: &'static str,
    name: String,
    statement: String,
}

impl Element {
    fn keyspace(keyspace: &Keyspace) -> Element {
        Element::new(&keyspace.name, "keyspace", &keyspace.name)
    }

    fn table(table: &Table) -> Element {
        Element::new(&table.keyspace, "table", &table.name)
    }

    fn udt(udt: &UdtType) -> Element {
        Element::new(&udt.keyspace, "type", &udt.name)
    }

    fn new(keyspace: &str, kind: &'static str, name: &str) -> Element {
        Element { keyspace: quoted(keyspace), kind, name: quoted(name), statement: String::new() }
    }

    fn with(self, statement: String) -> Element {
        Element { statement, ..self }
    }
}

struct View<'a> {
    schema: &'a Schema,
    current: Option<&'a str>,
    internals: bool,
}

impl<'a> View<'a> {
    /// The keyspace of this name, or the current one.
    fn keyspace(&self, name: Option<&Ident>) -> Result<&'a Keyspace, CqlError> {
        let none = || CqlError::invalid("No keyspace specified and no current keyspace");
        let name = match name {
            Some(name) => name.as_str(),
            None => self.current.ok_or_else(none)?,
        };
        self.schema.keyspace(name).ok_or_else(|| CqlError::invalid(format!("'{name}' not found in keyspaces")))
    }

    /// Elements of the current keyspace, or of all of them where there is none.
    fn list(&self, of: impl Fn(&'a Keyspace) -> Vec<Element>) -> Result<ReadyRows, CqlError> {
        let keyspaces: Vec<&Keyspace> = match self.current {
            Some(_) => vec![self.keyspace(None)?],
            None => self.schema.keyspaces.values().collect(),
        };
        Ok(listing(keyspaces.into_iter().flat_map(of)))
    }

    /// A kind of thing of which there is none.
    fn missing(&self, keyspace: Option<&Ident>, what: &str, name: &Ident) -> Result<ReadyRows, CqlError> {
        let keyspace = self.keyspace(keyspace)?;
        Err(CqlError::invalid(format!("{what} '{name}' not found in '{}'", keyspace.name)))
    }

    /// A keyspace, table or type, whichever has the name.
    fn named(&self, name: &QualifiedName) -> Result<ReadyRows, CqlError> {
        let element = name.name.as_str();
        if name.keyspace.is_none() {
            if let Some(keyspace) = self.schema.keyspace(element) {
                return Ok(statements(self.whole(keyspace)));
            }
            if self.current.is_none() {
                return Err(CqlError::invalid(format!("'{element}' not found in keyspaces")));
            }
        }
        let keyspace = self.keyspace(name.keyspace.as_ref())?;
        let table = visible_table(keyspace, element).map(|table| self.create_table(table));
        let found = table.or_else(|| keyspace.types.get(element).map(|udt| self.create_type(udt)));
        one(found, || format!("'{element}' not found in keyspace '{}'", keyspace.name))
    }

    /// A keyspace with its types, each after those it is made of, and its tables.
    fn whole(&self, keyspace: &Keyspace) -> Vec<Element> {
        let mut all = vec![self.create_keyspace(keyspace)];
        let types = in_dependency_order(types(keyspace).into_iter().cloned().collect());
        all.extend(types.iter().map(|udt| self.create_type(udt)));
        all.extend(tables(keyspace).into_iter().map(|table| self.create_table(table)));
        all
    }

    fn create_keyspace(&self, keyspace: &Keyspace) -> Element {
        Element::keyspace(keyspace).with(create::keyspace(keyspace))
    }

    fn create_type(&self, udt: &UdtType) -> Element {
        Element::udt(udt).with(create::user_type(udt))
    }

    fn create_table(&self, table: &Table) -> Element {
        Element::table(table).with(create::table(table, self.internals))
    }
}

/// In the order of names, whatever their case.
fn tables(keyspace: &Keyspace) -> Vec<&Table> {
    let mut tables: Vec<&Table> = keyspace.tables.values().map(|table| &**table).collect();
    tables.retain(|table| !system::is_private(&table.keyspace, &table.name));
    tables.sort_by_key(|table| table.name.to_lowercase());
    tables
}

fn types(keyspace: &Keyspace) -> Vec<&UdtType> {
    let mut types: Vec<&UdtType> = keyspace.types.values().collect();
    types.sort_by_key(|udt| udt.name.to_lowercase());
    types
}

fn visible_table<'k>(keyspace: &'k Keyspace, name: &str) -> Option<&'k Table> {
    keyspace.tables.get(name).filter(|_| !system::is_private(&keyspace.name, name)).map(|table| &**table)
}

/// A name as CQL must spell it.
fn quoted(name: &str) -> String {
    Ident::quoted(name).to_cql()
}

fn column(name: &str, ty: CqlType) -> ColumnSpec {
    ColumnSpec { keyspace: "system".to_owned(), table: "describe".to_owned(), name: name.to_owned(), ty }
}

fn text(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

/// Names without statements.
fn listing(elements: impl Iterator<Item = Element>) -> ReadyRows {
    ReadyRows {
        columns: ["keyspace_name", "type", "name"].map(|name| column(name, CqlType::Text)).to_vec(),
        rows: elements.map(|e| vec![text(&e.keyspace), text(e.kind), text(&e.name)]).collect(),
    }
}

fn statements(elements: Vec<Element>) -> ReadyRows {
    let row = |e: Element| vec![text(&e.keyspace), text(e.kind), text(&e.name), text(&e.statement)];
    ReadyRows {
        columns: ["keyspace_name", "type", "name", "create_statement"].map(|name| column(name, CqlType::Text)).to_vec(),
        rows: elements.into_iter().map(row).collect(),
    }
}

fn one(found: Option<Element>, missing: impl FnOnce() -> String) -> Result<ReadyRows, CqlError> {
    found.map(|element| statements(vec![element])).ok_or_else(|| CqlError::invalid(missing()))
}

/// The cluster; with a keyspace in use, also who owns which token's range.
fn cluster(info: &LocalInfo, with_ranges: bool) -> ReadyRows {
    let mut columns = ["cluster", "partitioner", "snitch"].map(|name| column(name, CqlType::Text)).to_vec();
    let mut row = vec![text(&info.cluster_name), text(PARTITIONER), text(SNITCH)];
    if with_ranges {
        columns.push(column("range_ownership", CqlType::map(CqlType::Text, CqlType::list(CqlType::Text))));
        let owner = match info.addresses.broadcast {
            std::net::IpAddr::V4(ip) => format!("/{ip}:{}", info.addresses.storage_port),
            std::net::IpAddr::V6(ip) => format!("/[{ip}]:{}", info.addresses.storage_port),
        };
        let owners = pack_list([Some(owner.as_bytes())]);
        let tokens: Vec<String> = info.tokens.iter().map(|token| token.0.to_string()).collect();
        let entries = tokens.iter().map(|token| (token.as_bytes(), owners.as_slice()));
        row.push(Some(pack_map(&CqlType::Text, entries)));
    }
    ReadyRows { columns, rows: vec![row] }
}

#[cfg(test)]
mod tests;
