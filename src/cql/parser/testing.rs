//! What the parser's tests share.

use super::{Parsed, parse};
use crate::cql::ast::{Ident, Literal, LiteralKind, QualifiedName, Statement, Term};

/// The parsed statement; fails the test if the text is refused.
pub fn parsed(cql: &str) -> Parsed {
    parse(cql).unwrap_or_else(|error| panic!("{cql}: {error}"))
}

pub fn statement(cql: &str) -> Statement {
    parsed(cql).statement
}

/// The whole message of a text that is refused.
pub fn error(cql: &str) -> String {
    match parse(cql) {
        Ok(parsed) => panic!("{cql}: accepted as {:?}", parsed.statement),
        Err(error) => error.to_string(),
    }
}

pub fn check_error(cql: &str, message: &str) {
    assert_eq!(error(cql), message, "{cql}");
}

pub fn ident(text: &str) -> Ident {
    Ident::quoted(text)
}

pub fn idents<const N: usize>(texts: [&str; N]) -> Vec<Ident> {
    texts.into_iter().map(ident).collect()
}

/// A name without keyspace.
pub fn named(name: &str) -> QualifiedName {
    QualifiedName { keyspace: None, name: ident(name) }
}

/// A name with keyspace.
pub fn qualified(keyspace: &str, name: &str) -> QualifiedName {
    QualifiedName { keyspace: Some(ident(keyspace)), name: ident(name) }
}

pub fn literal(kind: LiteralKind, text: &str) -> Term {
    Term::Literal(Literal { kind, text: text.to_owned() })
}

pub fn int(text: &str) -> Term {
    literal(LiteralKind::Integer, text)
}

pub fn string(text: &str) -> Term {
    literal(LiteralKind::String, text)
}
