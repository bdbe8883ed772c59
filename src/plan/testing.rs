//! Schemas for the planner's tests, made from CREATE statements without the rules that DDL has for them.

use std::rc::Rc;

use crate::base::ids::{ColumnId, TableId};
use crate::cql::ast::{PropertyValue, SortOrder, Statement, schema as ast};
use crate::plan::{ColumnSpec, Context, RequestOptions, data_type};
use crate::protocol::Consistency;
use crate::schema::{Column, ColumnKind, Columns, Schema, SchemaOp, Table, TableOptions};
use crate::types::{CqlType, UdtType};

/// 2026-01-01 00:00:00 UTC.
pub const NOW_S: i64 = 1_767_225_600;

/// A schema of keyspace `ks` and what these CREATE TABLE and CREATE TYPE statements add.
pub fn schema(statements: &[&str]) -> Schema {
    let mut schema = Schema::default();
    let keyspace = |name: &str| SchemaOp::PutKeyspace {
        name: name.to_owned(),
        durable_writes: true,
        replication: std::collections::BTreeMap::new(),
    };
    schema.apply(&keyspace("ks"));
    for (at, cql) in statements.iter().enumerate() {
        apply(&mut schema, cql, at as u8);
    }
    schema
}

/// Adds what a CREATE TABLE or CREATE TYPE statement makes; `id` becomes the table's.
pub fn apply(schema: &mut Schema, cql: &str, id: u8) {
    let op = match crate::cql::parse(cql).expect(cql).statement {
        Statement::CreateTable(create) => SchemaOp::PutTable(Box::new(table_of(&create, id, schema))),
        Statement::CreateType(create) => SchemaOp::PutType(UdtType {
            keyspace: "ks".to_owned(),
            name: create.name.name.to_string(),
            fields: create
                .fields
                .iter()
                .map(|(name, ty)| (name.to_string(), data_type::resolve(ty, schema, "ks").expect(cql)))
                .collect(),
        }),
        other => panic!("{other:?}"),
    };
    schema.apply(&op);
}

/// Table `ks.<name>` of these columns, as they stand between the parentheses of CREATE TABLE.
pub fn table(name: &str, columns: &str) -> Rc<Table> {
    let schema = schema(&[&format!("CREATE TABLE ks.{name} ({columns})")]);
    schema.table("ks", name).expect("it was just made").clone()
}

fn table_of(create: &ast::CreateTable, id: u8, schema: &Schema) -> Table {
    let key = create.primary_keys.first().expect("a table has a primary key");
    let place = |names: &[crate::cql::ast::Ident], name| names.iter().position(|n| n == name).map(|at| at as u16);
    let mut columns: Vec<Column> = create
        .columns
        .iter()
        .map(|column| {
            let descending = create
                .clustering_order
                .iter()
                .any(|(name, order)| *name == column.name && *order == SortOrder::Descending);
            let kind = match (place(&key.partition, &column.name), place(&key.clustering, &column.name)) {
                (Some(at), _) => ColumnKind::PartitionKey(at),
                (_, Some(position)) => ColumnKind::Clustering { position, descending },
                _ if column.is_static => ColumnKind::Static,
                _ => ColumnKind::Regular,
            };
            let ty = data_type::resolve(&column.data_type, schema, "ks").expect("a known type");
            Column { id: ColumnId(0), name: column.name.to_string(), ty, kind }
        })
        .collect();
    columns.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    for (at, column) in columns.iter_mut().enumerate() {
        column.id = ColumnId(at as u16);
    }
    let mut options = TableOptions::default();
    if let Some(PropertyValue::Text(ttl)) = create.properties.get("default_time_to_live") {
        options.default_time_to_live_s = ttl.parse().expect("a number of seconds");
    }
    Table {
        id: TableId([id; 16]),
        keyspace: "ks".to_owned(),
        name: create.table.name.to_string(),
        version: 1,
        next_column_id: columns.len() as u16,
        is_counter: columns.iter().any(|column| column.ty == CqlType::Counter),
        columns: Columns::new(columns),
        dropped: Vec::new(),
        options,
    }
}

/// A receiver of table `ks.t`.
pub fn spec(name: &str, ty: CqlType) -> ColumnSpec {
    ColumnSpec { keyspace: "ks".to_owned(), table: "t".to_owned(), name: name.to_owned(), ty }
}

pub fn context() -> Context {
    Context { now_us: NOW_S * 1_000_000, random: [1, 2] }
}

pub fn options() -> RequestOptions<'static> {
    RequestOptions {
        consistency: Consistency::One,
        serial_consistency: None,
        page_size: None,
        paging_state: None,
        timestamp: None,
        now_in_seconds: None,
        context: context(),
    }
}
