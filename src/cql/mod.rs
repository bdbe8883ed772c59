//! CQL as Cassandra 5.0 accepts it: lexer, parser and syntax tree. Pure: text in, tree or error out.

pub mod ast;
pub mod keyword;
