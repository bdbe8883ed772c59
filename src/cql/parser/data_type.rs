//! Type names.

use super::{Parse, Parser};
use crate::cql::ast::{DataType, Ident, NativeType, QualifiedName};
use crate::cql::error::SyntaxError;
use crate::cql::keyword::{Class, Keyword};
use crate::cql::token::TokenKind;

/// Words kept free for types to come; in any other case they may name a user type.
const RESERVED_TYPE_NAMES: [&str; 6] = ["byte", "complex", "enum", "interval", "macaddr", "bitstring"];

impl Parser<'_> {
    pub(super) fn data_type(&mut self) -> Parse<DataType> {
        self.nested(Self::data_type_here)
    }

    fn data_type_here(&mut self) -> Parse<DataType> {
        if self.peek() == TokenKind::String {
            return Ok(DataType::Custom(self.string()?));
        }
        if self.peek_at(1) == TokenKind::Lt
            && let Some(keyword) = self.peek_keyword()
            && let Some(data_type) = self.parameterized(keyword)?
        {
            return Ok(data_type);
        }
        if self.peek_at(1) != TokenKind::Dot
            && let Some(native) = self.native_type()
        {
            return Ok(DataType::Native(native));
        }
        Ok(DataType::UserType(self.user_type_name()?))
    }

    /// A type with parameters in angle brackets, if the keyword makes one.
    fn parameterized(&mut self, keyword: Keyword) -> Parse<Option<DataType>> {
        let makes_type = matches!(
            keyword,
            Keyword::List | Keyword::Set | Keyword::Map | Keyword::Tuple | Keyword::Vector | Keyword::Frozen
        );
        if !makes_type {
            return Ok(None);
        }
        self.bump();
        self.expect(TokenKind::Lt)?;
        let element = self.data_type()?;
        let data_type = match keyword {
            Keyword::List => DataType::List(Box::new(element)),
            Keyword::Set => DataType::Set(Box::new(element)),
            Keyword::Map => {
                self.expect(TokenKind::Comma)?;
                DataType::Map(Box::new(element), Box::new(self.data_type()?))
            }
            Keyword::Vector => {
                self.expect(TokenKind::Comma)?;
                DataType::Vector(Box::new(element), self.dimensions()?)
            }
            Keyword::Tuple => {
                let mut elements = vec![element];
                while self.eat(TokenKind::Comma) {
                    elements.push(self.data_type()?);
                }
                DataType::Tuple(elements)
            }
            _ => freeze(element)?,
        };
        self.expect(TokenKind::Gt)?;
        Ok(Some(data_type))
    }

    fn dimensions(&mut self) -> Parse<i32> {
        let token = self.expect(TokenKind::Integer)?;
        let text = self.source(token);
        text.parse().map_err(|_| self.bad_number(&format!("For input string: \"{text}\"")))
    }

    /// A type with a keyword of its own, if one is next.
    pub(super) fn native_type(&mut self) -> Option<NativeType> {
        let Class::NativeType(native) = self.peek_keyword()?.class() else {
            return None;
        };
        self.bump();
        Some(native)
    }

    /// The target of a CAST.
    pub(super) fn expect_native_type(&mut self) -> Parse<NativeType> {
        self.native_type().ok_or_else(|| self.no_viable())
    }

    /// `[keyspace.]name` of a user type; keywords that name native types cannot name one.
    pub(super) fn user_type_name(&mut self) -> Parse<QualifiedName> {
        let mut keyspace = None;
        if self.peek().is_name() && self.peek_at(1) == TokenKind::Dot {
            keyspace = Some(self.ident()?);
            self.bump();
        }
        Ok(QualifiedName { keyspace, name: self.bare_user_type_name()? })
    }

    fn bare_user_type_name(&mut self) -> Parse<Ident> {
        let token = self.token_at(0);
        match token.kind {
            TokenKind::Ident if RESERVED_TYPE_NAMES.contains(&self.source(token)) => {
                Err(SyntaxError::rule(format!("Invalid (reserved) user type name {}", self.source(token))))
            }
            TokenKind::Ident | TokenKind::QuotedName => self.ident(),
            TokenKind::Keyword(keyword) if keyword == Keyword::Key || keyword.class() == Class::Unreserved => {
                self.ident()
            }
            _ => Err(self.no_viable()),
        }
    }
}

fn freeze(data_type: DataType) -> Parse<DataType> {
    match data_type {
        DataType::Native(_) | DataType::Custom(_) => Err(SyntaxError::rule(format!(
            "frozen<> is only allowed on collections, tuples, and user-defined types (got {data_type})"
        ))),
        _ => Ok(DataType::Frozen(Box::new(data_type))),
    }
}
