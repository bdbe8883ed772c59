//! WHERE clauses.

use super::{Parse, Parser};
use crate::cql::ast::{InValues, Operator, Relation, Term};
use crate::cql::keyword::Keyword;
use crate::cql::token::TokenKind;

impl Parser<'_> {
    /// The relations after WHERE.
    pub(super) fn relations(&mut self) -> Parse<Vec<Relation>> {
        self.joined_by_and(|parser| {
            if parser.is_custom_index_expression() { parser.custom_index_expression() } else { parser.relation() }
        })
    }

    /// `expr(` in lower case and without a blank is a token of its own in Cassandra.
    fn is_custom_index_expression(&self) -> bool {
        let (name, paren) = (self.token_at(0), self.token_at(1));
        name.kind == TokenKind::Ident
            && self.source(name) == "expr"
            && paren.kind == TokenKind::LeftParen
            && name.end == paren.start
    }

    fn custom_index_expression(&mut self) -> Parse<Relation> {
        self.bump();
        self.bump();
        let index = self.index_name()?;
        self.expect(TokenKind::Comma)?;
        let value = self.term()?;
        self.expect(TokenKind::RightParen)?;
        Ok(Relation::CustomIndex { index, value })
    }

    fn relation(&mut self) -> Parse<Relation> {
        self.nested(|parser| match parser.peek() {
            TokenKind::LeftParen => parser.tuple_relation(),
            TokenKind::Keyword(Keyword::Token) => parser.token_relation(),
            _ => parser.column_relation(),
        })
    }

    /// `(a, b) > (1, 2)`, or a relation in parentheses.
    fn tuple_relation(&mut self) -> Parse<Relation> {
        let is_tuple = self.is_column_at(1) && matches!(self.peek_at(2), TokenKind::Comma | TokenKind::RightParen);
        if !is_tuple {
            self.bump();
            let relation = self.relation()?;
            self.expect(TokenKind::RightParen)?;
            return Ok(relation);
        }
        let columns = self.parenthesized(Self::column)?;
        if self.eat_keyword(Keyword::In) {
            let values = self.tuple_in_values()?;
            return Ok(Relation::TupleIn { columns, values });
        }
        Ok(Relation::Tuple { columns, operator: self.operator()?, value: self.tuple_or_marker()? })
    }

    fn tuple_in_values(&mut self) -> Parse<InValues> {
        if let Some(marker) = self.marker()? {
            return Ok(InValues::Marker(marker));
        }
        self.expect(TokenKind::LeftParen)?;
        // All tuples or all markers: the grammar knows no mixture.
        let of_markers = matches!(self.peek(), TokenKind::Question | TokenKind::Colon);
        let values = self.separated_until(TokenKind::RightParen, |parser| match parser.peek() {
            TokenKind::Question | TokenKind::Colon if of_markers => parser.tuple_or_marker(),
            TokenKind::LeftParen if !of_markers => parser.tuple(),
            _ => Err(parser.no_viable()),
        })?;
        Ok(InValues::List(values))
    }

    fn tuple_or_marker(&mut self) -> Parse<Term> {
        if let Some(marker) = self.marker()? {
            return Ok(Term::Marker(marker));
        }
        if self.peek() != TokenKind::LeftParen {
            return Err(self.no_viable());
        }
        self.tuple()
    }

    /// `token(a, b) > v`
    fn token_relation(&mut self) -> Parse<Relation> {
        self.bump();
        Ok(Relation::Token {
            columns: self.parenthesized(Self::column)?,
            operator: self.operator()?,
            value: self.term()?,
        })
    }

    fn column_relation(&mut self) -> Parse<Relation> {
        let column = self.column()?;
        match self.peek() {
            TokenKind::Keyword(Keyword::In) => {
                self.bump();
                let values = self.in_values()?;
                Ok(Relation::ColumnIn { column, values })
            }
            TokenKind::Keyword(Keyword::Contains) => {
                self.bump();
                if self.eat_keyword(Keyword::Key) {
                    let value = self.term()?;
                    return Ok(Relation::ContainsKey { column, value });
                }
                let value = self.term()?;
                Ok(Relation::Contains { column, value })
            }
            TokenKind::Keyword(Keyword::Like) => {
                self.bump();
                let value = self.term()?;
                Ok(Relation::Like { column, value })
            }
            TokenKind::Keyword(Keyword::Is) => {
                self.bump();
                self.expect_keyword(Keyword::Not)?;
                self.expect_keyword(Keyword::Null)?;
                Ok(Relation::IsNotNull { column })
            }
            TokenKind::LeftBracket => {
                self.bump();
                let key = self.term()?;
                self.expect(TokenKind::RightBracket)?;
                Ok(Relation::Element { column, key, operator: self.operator()?, value: self.term()? })
            }
            _ => Ok(Relation::Column { column, operator: self.operator()?, value: self.term()? }),
        }
    }

    /// What follows IN for one column.
    pub(super) fn in_values(&mut self) -> Parse<InValues> {
        if let Some(marker) = self.marker()? {
            return Ok(InValues::Marker(marker));
        }
        self.expect(TokenKind::LeftParen)?;
        let values = self.separated_until(TokenKind::RightParen, Self::term)?;
        Ok(InValues::List(values))
    }

    pub(super) fn operator(&mut self) -> Parse<Operator> {
        let operator = match self.peek() {
            TokenKind::Eq => Operator::Eq,
            TokenKind::Lt => Operator::Lt,
            TokenKind::Le => Operator::Le,
            TokenKind::Gt => Operator::Gt,
            TokenKind::Ge => Operator::Ge,
            TokenKind::Ne => Operator::Ne,
            _ => return Err(self.no_viable()),
        };
        self.bump();
        Ok(operator)
    }
}
