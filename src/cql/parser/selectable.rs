//! Selectors: what result columns are made from.

use super::term::starts_term;
use super::{Parse, Parser};
use crate::cql::ast::{ArithmeticOperator, Ident, LiteralKind, MetadataKind, Selectable, Term};
use crate::cql::keyword::Keyword;
use crate::cql::token::TokenKind;

impl Parser<'_> {
    pub(super) fn selectable(&mut self) -> Parse<Selectable> {
        self.nested(Self::selectable_sum)
    }

    fn selectable_sum(&mut self) -> Parse<Selectable> {
        let mut left = self.selectable_product()?;
        loop {
            let operator = match self.peek() {
                TokenKind::Plus => ArithmeticOperator::Add,
                TokenKind::Minus => ArithmeticOperator::Subtract,
                _ => return Ok(left),
            };
            self.bump();
            self.count_operator()?;
            left = operation(left, operator, self.selectable_product()?);
        }
    }

    fn selectable_product(&mut self) -> Parse<Selectable> {
        let mut left = self.selectable_group()?;
        loop {
            let operator = match self.peek() {
                TokenKind::Star => ArithmeticOperator::Multiply,
                TokenKind::Slash => ArithmeticOperator::Divide,
                TokenKind::Percent => ArithmeticOperator::Modulo,
                _ => return Ok(left),
            };
            self.bump();
            self.count_operator()?;
            left = operation(left, operator, self.selectable_group()?);
        }
    }

    fn selectable_group(&mut self) -> Parse<Selectable> {
        self.nested(|parser| {
            if parser.eat(TokenKind::Minus) {
                return Ok(Selectable::Negation(Box::new(parser.selectable_group()?)));
            }
            let base = parser.selectable_base()?;
            parser.selectable_parts(base)
        })
    }

    /// The fields, elements and slices taken of a selector.
    fn selectable_parts(&mut self, base: Selectable) -> Parse<Selectable> {
        let mut selected = base;
        loop {
            let of = match self.peek() {
                TokenKind::Dot | TokenKind::LeftBracket => Box::new(selected),
                _ => return Ok(selected),
            };
            self.count_operator()?;
            selected = if self.eat(TokenKind::Dot) {
                Selectable::Field { of, field: self.ident()? }
            } else {
                self.bump();
                let part = self.element_or_slice(of)?;
                self.expect(TokenKind::RightBracket)?;
                part
            };
        }
    }

    /// `key`, `from..to`, `from..` or `..to`
    fn element_or_slice(&mut self, of: Box<Selectable>) -> Parse<Selectable> {
        if self.eat(TokenKind::Range) {
            return Ok(Selectable::Slice { of, from: None, to: Some(self.term()?) });
        }
        let first = self.term()?;
        if !self.eat(TokenKind::Range) {
            return Ok(Selectable::Element { of, key: first });
        }
        let to = if self.peek() == TokenKind::RightBracket { None } else { Some(self.term()?) };
        Ok(Selectable::Slice { of, from: Some(first), to })
    }

    fn selectable_base(&mut self) -> Parse<Selectable> {
        if let Some(literal) = self.constant()? {
            return Ok(Selectable::Term(Term::Literal(literal)));
        }
        if let Some(marker) = self.marker()? {
            return Ok(Selectable::Term(Term::Marker(marker)));
        }
        match self.peek() {
            TokenKind::Keyword(Keyword::Null) => {
                self.bump();
                Ok(Selectable::Term(Term::Null))
            }
            TokenKind::LeftBracket => {
                self.bump();
                let items = self.separated_until(TokenKind::RightBracket, Self::selectable)?;
                Ok(Selectable::List(items))
            }
            TokenKind::LeftBrace => self.selectable_braces(),
            TokenKind::LeftParen => match self.type_hint(starts_term) {
                Some(data_type) => {
                    Ok(Selectable::TypeHint { data_type, operand: Box::new(self.nested(Self::selectable_base)?) })
                }
                None => {
                    let items = self.parenthesized(Self::selectable)?;
                    Ok(Selectable::Parenthesized(items))
                }
            },
            _ => self.call_or_column(),
        }
    }

    fn selectable_braces(&mut self) -> Parse<Selectable> {
        self.expect(TokenKind::LeftBrace)?;
        if self.eat(TokenKind::RightBrace) {
            return Ok(Selectable::Set(Vec::new()));
        }
        let first = self.selectable()?;
        if self.eat(TokenKind::Colon) {
            let mut entries = vec![(first, self.selectable()?)];
            while self.eat(TokenKind::Comma) {
                let key = self.selectable()?;
                self.expect(TokenKind::Colon)?;
                entries.push((key, self.selectable()?));
            }
            self.expect(TokenKind::RightBrace)?;
            return Ok(Selectable::Map(entries));
        }
        let mut items = vec![first];
        while self.eat(TokenKind::Comma) {
            items.push(self.selectable()?);
        }
        self.expect(TokenKind::RightBrace)?;
        Ok(Selectable::Set(items))
    }

    fn call_or_column(&mut self) -> Parse<Selectable> {
        if self.peek_at(1) == TokenKind::LeftParen {
            match self.peek_keyword() {
                Some(Keyword::Count) if self.peek_at(2) == TokenKind::Star => {
                    self.at += 3;
                    self.expect(TokenKind::RightParen)?;
                    return Ok(Selectable::CountRows);
                }
                Some(Keyword::WriteTime) => return self.metadata(MetadataKind::WriteTime),
                Some(Keyword::MaxWriteTime) => return self.metadata(MetadataKind::MaxWriteTime),
                Some(Keyword::Ttl) => return self.metadata(MetadataKind::Ttl),
                Some(Keyword::Cast) => return self.selectable_cast(),
                _ => {}
            }
        }
        if self.is_function_call() {
            return self.selectable_function();
        }
        Ok(Selectable::Column(self.ident()?))
    }

    fn selectable_function(&mut self) -> Parse<Selectable> {
        let name = self.function_name()?;
        self.expect(TokenKind::LeftParen)?;
        let args = self.separated_until(TokenKind::RightParen, Self::selectable)?;
        let counts = name.keyspace.is_none() && name.name == Ident::unquoted("count");
        if counts && is_constant(&args) {
            return Ok(Selectable::CountRows);
        }
        Ok(Selectable::Function { name, args })
    }

    /// `writetime(column)`, with an element or field of the column.
    fn metadata(&mut self, kind: MetadataKind) -> Parse<Selectable> {
        self.bump();
        self.expect(TokenKind::LeftParen)?;
        let column = self.ident()?;
        let selected = self.selectable_parts(Selectable::Column(column.clone()))?;
        self.expect(TokenKind::RightParen)?;
        Ok(Selectable::Metadata { kind, column, selected: Box::new(selected) })
    }

    /// `CAST(x AS type)`
    fn selectable_cast(&mut self) -> Parse<Selectable> {
        self.bump();
        self.expect(TokenKind::LeftParen)?;
        let operand = Box::new(self.selectable()?);
        self.expect_keyword(Keyword::As)?;
        let to = self.expect_native_type()?;
        self.expect(TokenKind::RightParen)?;
        Ok(Selectable::Cast { operand, to })
    }
}

/// Whether arguments are one constant: `count(1)` counts rows like `count(*)`.
fn is_constant(args: &[Selectable]) -> bool {
    match args {
        [Selectable::Term(Term::Literal(literal))] => literal.kind == LiteralKind::Integer,
        _ => false,
    }
}

fn operation(left: Selectable, operator: ArithmeticOperator, right: Selectable) -> Selectable {
    Selectable::Operation { left: Box::new(left), operator, right: Box::new(right) }
}
