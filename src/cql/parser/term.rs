//! Terms.

use super::{Parse, Parser};
use crate::base::collections::HashMap;
use crate::cql::ast::{ArithmeticOperator, DataType, Ident, Term};
use crate::cql::keyword::Keyword;
use crate::cql::token::TokenKind;

/// What follows the operand of a sum.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sum {
    /// Operands are terms.
    OfTerms,
    /// The sum ends before a plus with a column behind it, as in `l = [1] + l`.
    BeforeColumn,
}

impl Parser<'_> {
    pub(super) fn term(&mut self) -> Parse<Term> {
        self.nested(|parser| parser.sum(Sum::OfTerms))
    }

    /// A term that ends before `+ column`.
    pub(super) fn term_before_column(&mut self) -> Parse<Term> {
        self.nested(|parser| parser.sum(Sum::BeforeColumn))
    }

    /// An integer or a marker, as LIMIT, TTL and TIMESTAMP take them.
    pub(super) fn integer_or_marker(&mut self) -> Parse<Term> {
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        if self.peek() != TokenKind::Integer {
            return Err(self.no_viable());
        }
        let literal = self.constant()?.ok_or_else(|| self.no_viable())?;
        Ok(Term::Literal(literal))
    }

    fn sum(&mut self, kind: Sum) -> Parse<Term> {
        let mut left = self.product()?;
        loop {
            let operator = match self.peek() {
                TokenKind::Plus if kind == Sum::BeforeColumn && self.column_follows() => {
                    return Ok(left);
                }
                TokenKind::Plus => ArithmeticOperator::Add,
                TokenKind::Minus => ArithmeticOperator::Subtract,
                _ => return Ok(left),
            };
            self.bump();
            self.count_operator()?;
            left = operation(left, operator, self.product()?);
        }
    }

    /// Whether the token after the next is a column and not a function call.
    fn column_follows(&self) -> bool {
        self.is_column_at(1) && !matches!(self.peek_at(2), TokenKind::LeftParen | TokenKind::Dot)
    }

    fn product(&mut self) -> Parse<Term> {
        let mut left = self.signed()?;
        loop {
            let operator = match self.peek() {
                TokenKind::Star => ArithmeticOperator::Multiply,
                TokenKind::Slash => ArithmeticOperator::Divide,
                TokenKind::Percent => ArithmeticOperator::Modulo,
                _ => return Ok(left),
            };
            self.bump();
            self.count_operator()?;
            left = operation(left, operator, self.signed()?);
        }
    }

    fn signed(&mut self) -> Parse<Term> {
        if self.eat(TokenKind::Minus) {
            return Ok(Term::Negation(Box::new(self.simple_term()?)));
        }
        self.simple_term()
    }

    fn simple_term(&mut self) -> Parse<Term> {
        self.nested(Self::simple_term_here)
    }

    fn simple_term_here(&mut self) -> Parse<Term> {
        if let Some(literal) = self.constant()? {
            return Ok(Term::Literal(literal));
        }
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        match self.peek() {
            TokenKind::Keyword(Keyword::Null) => {
                self.bump();
                Ok(Term::Null)
            }
            TokenKind::LeftBracket => {
                self.bump();
                let items = self.separated_until(TokenKind::RightBracket, Self::term)?;
                Ok(Term::List(items))
            }
            TokenKind::LeftBrace => self.braces(),
            TokenKind::LeftParen => match self.type_hint(starts_term) {
                Some(data_type) => Ok(Term::TypeHint { data_type, term: Box::new(self.simple_term()?) }),
                None => self.tuple(),
            },
            TokenKind::Keyword(Keyword::Cast) => self.cast(),
            _ if self.is_function_call() => {
                let name = self.function_name()?;
                self.expect(TokenKind::LeftParen)?;
                let args = self.separated_until(TokenKind::RightParen, Self::term)?;
                Ok(Term::Function { name, args })
            }
            _ => Err(self.no_viable_call()),
        }
    }

    /// A name that is no function call is wrong at the token that shows it.
    fn no_viable_call(&mut self) -> crate::cql::error::SyntaxError {
        if self.peek().is_name() {
            self.bump();
        }
        self.no_viable()
    }

    /// `CAST(term AS type)`
    fn cast(&mut self) -> Parse<Term> {
        self.bump();
        self.expect(TokenKind::LeftParen)?;
        let term = Box::new(self.simple_term()?);
        self.expect_keyword(Keyword::As)?;
        let to = self.expect_native_type()?;
        self.expect(TokenKind::RightParen)?;
        Ok(Term::Cast { term, to })
    }

    /// `(a, b)`
    pub(super) fn tuple(&mut self) -> Parse<Term> {
        Ok(Term::Tuple(self.parenthesized(Self::term)?))
    }

    /// A set, a map or a user type.
    fn braces(&mut self) -> Parse<Term> {
        self.expect(TokenKind::LeftBrace)?;
        if self.eat(TokenKind::RightBrace) {
            return Ok(Term::Set(Vec::new()));
        }
        if self.peek().is_name() && self.peek_at(1) == TokenKind::Colon {
            return self.user_type_fields();
        }
        let first = self.term()?;
        if self.peek() != TokenKind::Colon {
            let mut items = vec![first];
            while self.eat(TokenKind::Comma) {
                items.push(self.term()?);
            }
            self.expect(TokenKind::RightBrace)?;
            return Ok(Term::Set(items));
        }
        self.bump();
        let mut entries = vec![(first, self.term()?)];
        while self.eat(TokenKind::Comma) {
            entries.push(self.map_entry()?);
        }
        self.expect(TokenKind::RightBrace)?;
        Ok(Term::Map(entries))
    }

    /// `key: value`
    pub(super) fn map_entry(&mut self) -> Parse<(Term, Term)> {
        let key = self.term()?;
        self.expect(TokenKind::Colon)?;
        Ok((key, self.term()?))
    }

    fn user_type_fields(&mut self) -> Parse<Term> {
        let mut fields: Vec<(Ident, Term)> = Vec::new();
        let mut places = HashMap::default();
        loop {
            let field = self.ident()?;
            self.expect(TokenKind::Colon)?;
            let value = self.term()?;
            let place = *places.entry(field.clone()).or_insert(fields.len());
            match fields.get_mut(place) {
                Some((_, earlier)) => *earlier = value,
                None => fields.push((field, value)),
            }
            if !self.eat(TokenKind::Comma) {
                break;
            }
        }
        self.expect(TokenKind::RightBrace)?;
        Ok(Term::UserType(fields))
    }

    /// `(type)` before what the type is for, if that is next: otherwise parentheses hold values.
    pub(super) fn type_hint(&mut self, starts_operand: fn(TokenKind) -> bool) -> Option<DataType> {
        self.attempt(|parser| {
            parser.expect(TokenKind::LeftParen).ok()?;
            let data_type = parser.data_type().ok()?;
            parser.expect(TokenKind::RightParen).ok()?;
            starts_operand(parser.peek()).then_some(data_type)
        })
    }
}

fn operation(left: Term, operator: ArithmeticOperator, right: Term) -> Term {
    Term::Operation { left: Box::new(left), operator, right: Box::new(right) }
}

/// Whether a token can start a term or selector that a type stands before. AS cannot, though it may be a
/// name: in `CAST((a) AS int)` it ends the operand.
pub(super) fn starts_term(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Keyword(Keyword::As) => false,
        TokenKind::Keyword(Keyword::Null | Keyword::Token)
        | TokenKind::Question
        | TokenKind::Colon
        | TokenKind::LeftParen
        | TokenKind::LeftBracket
        | TokenKind::LeftBrace => true,
        kind => kind.is_constant() || kind.is_name(),
    }
}
