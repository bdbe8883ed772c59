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

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, ident, idents, int, statement, string};
    use super::*;
    use crate::cql::ast::{BindIndex, Statement};

    fn relations(text: &str) -> Vec<Relation> {
        match statement(&format!("SELECT * FROM t WHERE {text}")) {
            Statement::Select(select) => select.relations,
            other => panic!("{other:?}"),
        }
    }

    fn check(text: &str, expected: Relation) {
        assert_eq!(relations(text), [expected], "{text}");
    }

    /// Relations print as they would be written.
    fn check_text(text: &str, expected: &str) {
        let texts: Vec<_> = relations(text).iter().map(Relation::to_string).collect();
        assert_eq!(texts.join(" AND "), expected);
    }

    fn check_where_error(text: &str, message: &str) {
        check_error(&format!("SELECT * FROM t WHERE {text}"), message);
    }

    #[test]
    fn comparisons() {
        for (text, operator) in [
            ("=", Operator::Eq),
            ("<", Operator::Lt),
            ("<=", Operator::Le),
            (">", Operator::Gt),
            (">=", Operator::Ge),
            ("!=", Operator::Ne),
        ] {
            check(&format!("c {text} 1"), Relation::Column { column: ident("c"), operator, value: int("1") });
            assert_eq!(operator.symbol(), text);
        }
        check_text("K=1 and \"K\">'x'", "k = 1 AND \"K\" > 'x'");
        check_text("\"\" = 1", "\"\" = 1");
    }

    #[test]
    fn membership() {
        check(
            "c IN (1, ?)",
            Relation::ColumnIn {
                column: ident("c"),
                values: InValues::List(vec![int("1"), Term::Marker(BindIndex(0))]),
            },
        );
        check("c IN ()", Relation::ColumnIn { column: ident("c"), values: InValues::List(vec![]) });
        check("c IN :list", Relation::ColumnIn { column: ident("c"), values: InValues::Marker(BindIndex(0)) });
        check_text("c in(1,2)", "c IN (1, 2)");
    }

    #[test]
    fn collections_and_patterns() {
        let column = || ident("c");
        check("c CONTAINS 1", Relation::Contains { column: column(), value: int("1") });
        check("c CONTAINS KEY 1", Relation::ContainsKey { column: column(), value: int("1") });
        check("c LIKE 'a%'", Relation::Like { column: column(), value: string("a%") });
        check("c IS NOT NULL", Relation::IsNotNull { column: column() });
        check(
            "c['x'] > 2",
            Relation::Element { column: column(), key: string("x"), operator: Operator::Gt, value: int("2") },
        );
        check_text(
            "contains CONTAINS KEY 1 AND like LIKE 'x' AND m[1] = 2",
            "contains CONTAINS KEY 1 AND like LIKE 'x' AND m[1] = 2",
        );
    }

    #[test]
    fn tokens() {
        check(
            "token(a, b) >= token(1, 2)",
            Relation::Token {
                columns: idents(["a", "b"]),
                operator: Operator::Ge,
                value: Term::Function {
                    name: crate::cql::ast::FunctionName { keyspace: None, name: ident("token") },
                    args: vec![int("1"), int("2")],
                },
            },
        );
        check_text("TOKEN(k) < -9223372036854775808", "token(k) < -9223372036854775808");
        check_where_error("token(k) IN (1)", "line 1:31 no viable alternative at input 'IN'");
    }

    #[test]
    fn tuples() {
        let pair = |a, b| Term::Tuple(vec![int(a), int(b)]);
        check(
            "(a, b) > (1, 2)",
            Relation::Tuple { columns: idents(["a", "b"]), operator: Operator::Gt, value: pair("1", "2") },
        );
        check(
            "(a) = ?",
            Relation::Tuple { columns: idents(["a"]), operator: Operator::Eq, value: Term::Marker(BindIndex(0)) },
        );
        check(
            "(a, b) IN ((1, 2), (3, 4))",
            Relation::TupleIn {
                columns: idents(["a", "b"]),
                values: InValues::List(vec![pair("1", "2"), pair("3", "4")]),
            },
        );
        check_text("(a, b) IN ()", "(a, b) IN ()");
        check_text("(a, b) IN ?", "(a, b) IN ?");
        check_text("(a, b) IN (?, :x)", "(a, b) IN (?, ?)");
        check_where_error("(a, b) = 0", "line 1:31 no viable alternative at input '0'");
        check_where_error("(a, b) IN (1)", "line 1:33 no viable alternative at input '1'");
        check_where_error("(a, b) IN ((1, 2), ?)", "line 1:41 no viable alternative at input '?'");
    }

    #[test]
    fn parentheses_and_custom_indexes() {
        check_text("(a = 1)", "a = 1");
        check_text("((a, b) = (1, 2)) AND ((c > 1))", "(a, b) = (1, 2) AND c > 1");
        check("expr(idx, 'q')", Relation::CustomIndex { index: ident("idx"), value: string("q") });
        // Any other spelling is a column.
        check_text("expr = 1", "expr = 1");
        check_where_error("EXPR(i, 1)", "line 1:26 no viable alternative at input '('");
    }

    #[test]
    fn what_is_no_relation() {
        check_where_error("", "line 0:-1 no viable alternative at input '<EOF>'");
        check_where_error("k == 1", "line 1:25 no viable alternative at input '='");
        check_where_error("NOT k = 1", "line 1:22 no viable alternative at input 'NOT'");
        check_where_error("k = 1 OR k = 2", "line 1:28 mismatched input 'OR' expecting EOF");
        check_where_error("c BETWEEN 1 AND 2", "line 1:24 no viable alternative at input 'BETWEEN'");
        check_where_error("c NOT IN (1)", "line 1:24 no viable alternative at input 'NOT'");
        check_where_error("u.a = 2", "line 1:23 no viable alternative at input '.'");
        check_where_error("c IS NULL", "line 1:27 mismatched input 'NULL' expecting K_NOT");
        check_where_error("1 = c", "line 1:22 no viable alternative at input '1'");
    }
}
