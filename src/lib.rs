//! Helenus: a wide-column database server that speaks the CQL native protocol.
//!
//! Modules stand in layers; each may import only what stands below it in this list
//! (read from the bottom up). `tests/tidy.rs` proves it.

pub mod server;

pub mod admin;

pub mod net;

pub mod router;

pub mod shard;

pub mod compaction;

pub mod memtable;

pub mod commitlog;

pub mod sstable;

pub mod plan;

pub mod cql;

pub mod protocol;

pub mod mutation;

pub mod schema;

pub mod types;

pub mod io;

pub mod base;
