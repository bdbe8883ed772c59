//! Names, and the markers that stand for values.

use super::{BIND_MARKERS_MAX, Parse, Parser};
use crate::cql::ast::{BindIndex, FunctionName, Ident, QualifiedName};
use crate::cql::error::SyntaxError;
use crate::cql::keyword::{Class, Keyword};
use crate::cql::token::{Token, TokenKind};

impl Parser<'_> {
    /// The identifier a token spells, if it can be one.
    pub(super) fn name_of(&self, token: Token) -> Option<Ident> {
        match token.kind {
            TokenKind::QuotedName => Some(Ident::quoted(self.unquoted(token))),
            kind if kind.is_name() => Some(Ident::unquoted(self.source(token))),
            _ => None,
        }
    }

    pub(super) fn ident(&mut self) -> Parse<Ident> {
        let name = self.name_of(self.token_at(0));
        let name = name.ok_or_else(|| self.no_viable())?;
        self.bump();
        Ok(name)
    }

    /// A column where the empty name `""` is allowed: anywhere but in DDL.
    pub(super) fn column(&mut self) -> Parse<Ident> {
        if self.eat(TokenKind::EmptyQuotedName) {
            return Ok(Ident::quoted(""));
        }
        self.ident()
    }

    /// Whether a column may stand at this token.
    pub(super) fn is_column_at(&self, ahead: usize) -> bool {
        let kind = self.peek_at(ahead);
        kind.is_name() || kind == TokenKind::EmptyQuotedName
    }

    pub(super) fn keyspace_name(&mut self) -> Parse<Ident> {
        if self.peek() == TokenKind::Question {
            return Err(unbindable("keyspace"));
        }
        self.ident()
    }

    pub(super) fn index_name(&mut self) -> Parse<Ident> {
        if self.peek() == TokenKind::Question {
            return Err(unbindable("index"));
        }
        self.ident()
    }

    pub(super) fn table_name(&mut self) -> Parse<QualifiedName> {
        self.qualified_name("table")
    }

    /// `[keyspace.]name`; `what` names it in the error that no marker can stand for it.
    pub(super) fn qualified_name(&mut self, what: &str) -> Parse<QualifiedName> {
        if self.peek() == TokenKind::Question {
            let qualified = self.peek_at(1) == TokenKind::Dot;
            return Err(unbindable(if qualified { "keyspace" } else { what }));
        }
        let name = self.ident()?;
        if !self.eat(TokenKind::Dot) {
            return Ok(QualifiedName { keyspace: None, name });
        }
        if self.peek() == TokenKind::Question {
            return Err(unbindable(what));
        }
        Ok(QualifiedName { keyspace: Some(name), name: self.ident()? })
    }

    /// Whether a function call starts here: `name(` or `keyspace.name(`.
    pub(super) fn is_function_call(&self) -> bool {
        let starts_name =
            |ahead| is_function_name(self.peek_at(ahead)) && self.peek_at(ahead + 1) == TokenKind::LeftParen;
        starts_name(0) || (self.peek().is_name() && self.peek_at(1) == TokenKind::Dot && starts_name(2))
    }

    pub(super) fn function_name(&mut self) -> Parse<FunctionName> {
        let mut keyspace = None;
        if self.peek().is_name() && self.peek_at(1) == TokenKind::Dot {
            keyspace = Some(self.ident()?);
            self.bump();
        }
        Ok(FunctionName { keyspace, name: self.bare_function_name()? })
    }

    pub(super) fn bare_function_name(&mut self) -> Parse<Ident> {
        if !is_function_name(self.peek()) {
            return Err(self.no_viable());
        }
        let token = self.bump();
        match token.kind {
            TokenKind::QuotedName => Ok(Ident::quoted(self.unquoted(token))),
            _ => Ok(Ident::unquoted(self.source(token))),
        }
    }

    pub(super) fn string(&mut self) -> Parse<String> {
        let token = self.expect(TokenKind::String)?;
        Ok(self.unquoted(token))
    }

    /// `?` or `:name`, if one is next.
    pub(super) fn marker(&mut self) -> Parse<Option<BindIndex>> {
        let name = match self.peek() {
            TokenKind::Question => {
                self.bump();
                None
            }
            TokenKind::Colon => {
                self.bump();
                Some(self.ident()?.into_string())
            }
            _ => return Ok(None),
        };
        let index = self.bind_markers.len();
        if index == BIND_MARKERS_MAX {
            return Err(SyntaxError::rule(format!("Too many markers(?): the most are {BIND_MARKERS_MAX}")));
        }
        self.bind_markers.push(name);
        let index = u32::try_from(index).expect("BIND_MARKERS_MAX fits in 32 bits");
        Ok(Some(BindIndex(index)))
    }
}

pub(super) fn unbindable(what: &str) -> SyntaxError {
    SyntaxError::rule(format!("Bind variables cannot be used for {what} names"))
}

/// Whether a token can name a function.
fn is_function_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Ident | TokenKind::QuotedName => true,
        TokenKind::Keyword(Keyword::Token | Keyword::Count) => true,
        TokenKind::Keyword(keyword) => {
            matches!(keyword.class(), Class::Unreserved | Class::NativeType)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, error, ident, parsed, statement};
    use super::*;
    use crate::cql::ast::Statement;

    fn markers(cql: &str) -> Vec<Option<String>> {
        parsed(cql).bind_markers
    }

    #[test]
    fn names_fold_unless_quoted_and_unreserved_words_are_names() {
        for (cql, name) in [
            ("USE MyKs", "myks"),
            ("USE \"MyKs\"", "MyKs"),
            ("USE \"qu\"\"ote\"", "qu\"ote"),
            ("USE Key", "key"),
            ("USE TIMESTAMP", "timestamp"),
            ("USE distinct", "distinct"),
            ("USE between", "between"),
        ] {
            assert_eq!(statement(cql), Statement::Use(ident(name)), "{cql}");
        }
        for reserved in ["select", "token", "index", "order", "schema", "nan", "set"] {
            check_error(&format!("USE {reserved}"), &format!("line 1:4 no viable alternative at input '{reserved}'"));
        }
        check_error("USE \"\"", "line 1:4 no viable alternative at input '\"\"'");
        check_error("USE 'ks'", "line 1:4 no viable alternative at input 'ks'");
    }

    #[test]
    fn markers_are_numbered_in_order_of_appearance() {
        assert_eq!(markers("SELECT * FROM t"), []);
        assert_eq!(
            markers("SELECT ? FROM t WHERE k = :Key AND c IN :\"Quoted Name\" LIMIT ?"),
            [None, Some("key".to_owned()), Some("Quoted Name".to_owned()), None]
        );
        assert_eq!(markers("INSERT INTO t (a, b) VALUES (:x, :x)"), [Some("x".to_owned()), Some("x".to_owned())]);
        // A step back after a failed attempt forgets no marker and counts none twice.
        assert_eq!(markers("SELECT * FROM t WHERE a = (?) AND b = (int) ?").len(), 2);
        check_error("SELECT * FROM t WHERE k = :1", "line 1:27 no viable alternative at input '1'");
    }

    #[test]
    fn markers_cannot_stand_for_names() {
        check_error("SELECT * FROM ?", "Bind variables cannot be used for table names");
        check_error("SELECT * FROM ?.t", "Bind variables cannot be used for keyspace names");
        check_error("SELECT * FROM ks.?", "Bind variables cannot be used for table names");
        check_error("USE ?", "Bind variables cannot be used for keyspace names");
        check_error("DROP INDEX ?", "Bind variables cannot be used for index names");
        check_error("DROP ROLE ?", "Bind variables cannot be used for role names");
    }

    #[test]
    fn markers_are_bounded() {
        let cql = |count| format!("SELECT * FROM t WHERE k IN ({})", vec!["?"; count].join(","));
        assert_eq!(markers(&cql(BIND_MARKERS_MAX)).len(), BIND_MARKERS_MAX);
        assert_eq!(error(&cql(BIND_MARKERS_MAX + 1)), "Too many markers(?): the most are 65535");
    }
}
