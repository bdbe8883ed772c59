#![doc = include_str!("FORMAT.md")]
#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation)]

pub mod client;
pub mod compression;
pub mod consistency;
pub mod decoder;
pub mod digest;
pub mod encoder;
pub mod error;
pub mod event;
pub mod frame;
pub mod option;
pub mod params;
pub mod request;
pub mod response;
pub mod result;
pub mod segment;
#[cfg(test)]
mod testing;
pub mod version;
pub mod wire;

pub use compression::Compression;
pub use consistency::Consistency;
pub use decoder::{FrameDecoder, Step};
pub use digest::statement_id;
pub use encoder::{Extras, FrameEncoder, OpenFrame};
pub use error::{CqlError, ErrorCode, ErrorFields, WriteType};
pub use event::{Change, Event, EventKind, SchemaChange, SchemaTarget, StatusChange, TopologyChange};
pub use frame::{Frame, FrameError, Framing};
pub use params::{QueryParameters, Value, Values};
pub use request::{
    Batch, BatchIter, BatchKind, BatchStatement, Execute, Opcode, Prepare, Query, Request, Startup, StatementRef,
};
pub use result::{ColumnSpec, MetadataMode, PreparedAnswer, ResultMetadata, RowsWriter};
pub use version::ProtocolVersion;
