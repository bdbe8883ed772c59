//! CQL values, without I/O or state: types, their wire bytes, and what can be asked of those bytes (are they valid,
//! which comes first, how are they written in CQL and JSON, what does a literal mean).
//!
//! A value is the bytes that the native protocol carries: big-endian numbers, collections with 4-byte counts and
//! lengths, tuples and user-defined types with null as length -1, vectors of bare or vint-prefixed elements.
//! `None` is null; a value of no bytes is not null (`CqlType::allows_empty`).
#![deny(clippy::indexing_slicing, clippy::cast_possible_truncation, clippy::cast_sign_loss)]

pub mod collection;
mod compare;
mod cql_type;
pub mod duration;
mod error;
pub mod inet;
pub mod json;
pub mod literal;
pub mod marshal;
pub mod number;
mod parse;
pub mod temporal;
mod text;
pub mod uuid;
mod validate;
pub mod vint;

pub use compare::compare;
pub use cql_type::{CqlType, UdtType, quote_name};
pub use duration::Duration;
pub use error::ValueError;
pub use literal::{Assignment, Literal, LiteralKind};
pub use number::Decimal;
pub use parse::parse_cql_type;
pub use text::{to_plain_text, to_text};
pub use validate::validate;
