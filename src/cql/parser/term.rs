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
        let operator = |parser: &Self| match parser.additive_operator() {
            Some(ArithmeticOperator::Add) if kind == Sum::BeforeColumn && parser.column_follows() => None,
            operator => operator,
        };
        self.chain(Self::product, operator, operation)
    }

    /// Whether the token after the next is a column and not a function call.
    fn column_follows(&self) -> bool {
        self.is_column_at(1) && !matches!(self.peek_at(2), TokenKind::LeftParen | TokenKind::Dot)
    }

    fn product(&mut self) -> Parse<Term> {
        self.chain(Self::signed, Self::multiplicative_operator, operation)
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

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, ident, int, statement, string};
    use super::*;
    use crate::cql::ast::{BindIndex, FunctionName, LiteralKind, NativeType, Statement};

    /// The term that a text stands for.
    fn term(text: &str) -> Term {
        match statement(&format!("INSERT INTO t (k) VALUES ({text})")) {
            Statement::Insert(mut insert) if insert.values.len() == 1 => insert.values.remove(0),
            other => panic!("{other:?}"),
        }
    }

    /// A term with the structure of its operations shown by brackets.
    fn structure(term: &Term) -> String {
        match term {
            Term::Operation { left, operator, right } => {
                let (left, right) = (structure(left), structure(right));
                format!("<{left} {} {right}>", operator.symbol())
            }
            Term::Negation(operand) => format!("<-{}>", structure(operand)),
            other => other.to_string(),
        }
    }

    fn check_structure(text: &str, expected: &str) {
        assert_eq!(structure(&term(text)), expected, "{text}");
    }

    fn check_term_error(text: &str, message: &str) {
        check_error(&format!("INSERT INTO t (k) VALUES ({text})"), message);
    }

    #[test]
    fn collections() {
        assert_eq!(term("[]"), Term::List(vec![]));
        assert_eq!(term("[1, [2]]"), Term::List(vec![int("1"), Term::List(vec![int("2")])]));
        assert_eq!(term("{}"), Term::Set(vec![]));
        assert_eq!(term("{1, 2}"), Term::Set(vec![int("1"), int("2")]));
        assert_eq!(
            term("{1: 'a', 2: ?}"),
            Term::Map(vec![(int("1"), string("a")), (int("2"), Term::Marker(BindIndex(0)))])
        );
        assert_eq!(term("{:k : 1}"), Term::Map(vec![(Term::Marker(BindIndex(0)), int("1"))]));
        assert_eq!(term("(1)"), Term::Tuple(vec![int("1")]));
        assert_eq!(term("(1, null)"), Term::Tuple(vec![int("1"), Term::Null]));
    }

    #[test]
    fn user_types() {
        assert_eq!(
            term("{a: 1, \"C\": 'x', key: {}}"),
            Term::UserType(vec![(ident("a"), int("1")), (ident("C"), string("x")), (ident("key"), Term::Set(vec![])),])
        );
        // The last value of a field counts, at the place of the first.
        assert_eq!(term("{a: 1, b: 2, A: 3}"), Term::UserType(vec![(ident("a"), int("3")), (ident("b"), int("2"))]));
    }

    #[test]
    fn functions() {
        let call = |keyspace: Option<&str>, name: &str, args| Term::Function {
            name: FunctionName { keyspace: keyspace.map(ident), name: ident(name) },
            args,
        };
        assert_eq!(term("now()"), call(None, "now", vec![]));
        assert_eq!(term("intAsBlob(1)"), call(None, "intasblob", vec![int("1")]));
        assert_eq!(term("\"F\"(1)"), call(None, "F", vec![int("1")]));
        assert_eq!(term("ks.f(1, g())"), { call(Some("ks"), "f", vec![int("1"), call(None, "g", vec![])]) });
        assert_eq!(term("token(1)"), call(None, "token", vec![int("1")]));
        assert_eq!(term("int(1)"), call(None, "int", vec![int("1")]));
        // These words name columns, but no functions.
        check_term_error("key(1)", "line 1:29 no viable alternative at input '('");
    }

    #[test]
    fn hints_and_casts() {
        assert_eq!(
            term("(int) 5"),
            Term::TypeHint { data_type: DataType::Native(NativeType::INT), term: Box::new(int("5")) }
        );
        assert_eq!(term("(list<int>) []").to_string(), "(list<int>)[]");
        assert_eq!(term("(ks.ty) {a: 1}").to_string(), "(ks.ty){a: 1}");
        assert_eq!(term("(int) (bigint) ?").to_string(), "(int)(bigint)?");
        assert_eq!(term("CAST(1 AS text)"), Term::Cast { term: Box::new(int("1")), to: NativeType::TEXT });
        assert_eq!(term("CAST(('x') AS text)").to_string(), "cast(('x') as text)");
        check_term_error("CAST(1 AS ks.t)", "line 1:36 no viable alternative at input 'ks'");
    }

    #[test]
    fn products_bind_before_sums_and_both_to_the_left() {
        check_structure("1 + 2 * 3", "<1 + <2 * 3>>");
        check_structure("1 * 2 + 3", "<<1 * 2> + 3>");
        check_structure("1 - 2 - 3", "<<1 - 2> - 3>");
        check_structure("1 / 2 % 3 * 4", "<<<1 / 2> % 3> * 4>");
        check_structure("(1 + 2) * 3", "<(1 + 2) * 3>");
        check_structure("- 1 + 2", "<<-1> + 2>");
        check_structure("2 * - 1", "<2 * <-1>>");
        check_structure("(int) 1 + 2", "<(int)1 + 2>");
        check_structure("'a' + 'b'", "<'a' + 'b'>");
    }

    #[test]
    fn a_minus_before_digits_is_the_numbers() {
        check_structure("-1", "-1");
        assert_eq!(term("-1"), int("-1"));
        check_structure("1 - -1", "<1 - -1>");
        check_term_error("1 -1", "line 1:28 mismatched input '-1' expecting ')'");
    }

    #[test]
    fn what_is_no_term() {
        check_term_error("+1", "line 1:26 no viable alternative at input '+'");
        check_term_error(".5", "line 1:26 no viable alternative at input '.'");
        check_term_error("yes", "line 1:29 no viable alternative at input ')'");
        check_term_error("\"double\"", "line 1:34 no viable alternative at input ')'");
        check_term_error("l + [1]", "line 1:28 no viable alternative at input '+'");
        check_term_error("[1,]", "line 1:29 no viable alternative at input ']'");
        check_term_error("{1: 'a', }", "line 1:35 no viable alternative at input '}'");
        check_term_error("()", "line 1:27 no viable alternative at input ')'");
        check_term_error("{1: 2, 3}", "line 1:34 mismatched input '}' expecting ':'");
        check_term_error("", "line 1:26 no viable alternative at input ')'");
        check_term_error("- - 1", "line 1:28 no viable alternative at input '-'");
    }

    #[test]
    fn limits_take_integers_and_markers() {
        let limit = |text: &str| match statement(&format!("SELECT * FROM t LIMIT {text}")) {
            Statement::Select(select) => select.limit,
            other => panic!("{other:?}"),
        };
        assert_eq!(limit("5"), Some(int("5")));
        assert_eq!(limit("-1"), Some(int("-1")));
        assert_eq!(limit(":n"), Some(Term::Marker(BindIndex(0))));
        assert!(matches!(limit("5"), Some(Term::Literal(l)) if l.kind == LiteralKind::Integer));
        for (text, input) in [("'x'", "x"), ("null", "null"), ("1.5", "1.5"), ("(int) 1", "(")] {
            check_error(
                &format!("SELECT * FROM t LIMIT {text}"),
                &format!("line 1:22 no viable alternative at input '{input}'"),
            );
        }
    }

    /// Each tuple is first tried as a type hint. Were the place of that dropped error looked up, a list of them would
    /// take longer than anyone waits.
    #[test]
    fn long_lists_of_tuples_parse_at_once() {
        let tuples = |tuple: &str| vec![tuple; 100_000].join(",\n");
        for tuple in ["(1,2)", "(null,2)", "(f(1),2)"] {
            let list = format!("INSERT INTO t (l) VALUES ([{}])", tuples(tuple));
            let Statement::Insert(insert) = statement(&list) else { panic!("{tuple}") };
            let Term::List(items) = &insert.values[0] else { panic!("{tuple}") };
            assert_eq!(items.len(), 100_000, "{tuple}");
        }
    }
}
