//! CQL as Cassandra 5.0 accepts it: lexer, parser and syntax tree. Pure: text in, tree or error out.

pub mod ast;
mod error;
pub mod keyword;
mod lexer;
mod parser;
mod scan;
mod token;

pub use error::{Position, SyntaxError};
pub use lexer::{TEXT_BYTES_MAX, TOKENS_MAX};
pub use parser::{BIND_MARKERS_MAX, NESTING_MAX, OPERATORS_MAX, Parsed, parse};
