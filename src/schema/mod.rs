//! Keyspaces, tables, columns, types and their versions; the partitioner. Plain values: a schema is changed by applying
//! `SchemaOp`s to it in order, on every shard alike.

pub mod clustering;
pub mod codec;
pub mod columns;
pub mod key;
pub mod partitioner;
pub mod stored;
pub mod system;
pub mod table;

pub use clustering::{ClusteringOrder, Position};
pub use columns::{Column, ColumnKind, Columns};
pub use table::{DroppedColumn, Keyspace, Schema, SchemaOp, Table, TableOptions};
