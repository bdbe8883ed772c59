#![doc = include_str!("FORMAT.md")]
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::cast_possible_truncation))]

pub mod consistency;
pub mod error;
pub mod event;
pub mod params;
pub mod request;
pub mod version;
pub mod wire;

pub use consistency::Consistency;
pub use error::{CqlError, ErrorCode, ErrorFields, WriteType};
pub use event::{Change, Event, EventKind, SchemaChange, SchemaTarget, StatusChange, TopologyChange};
pub use params::{QueryParameters, Value, Values};
pub use request::{
    Batch, BatchIter, BatchKind, BatchStatement, Execute, Opcode, Prepare, Query, Request, Startup, StatementRef,
};
pub use version::ProtocolVersion;
