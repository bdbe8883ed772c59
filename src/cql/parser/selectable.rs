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
        self.chain(Self::selectable_product, Self::additive_operator, operation)
    }

    fn selectable_product(&mut self) -> Parse<Selectable> {
        self.chain(Self::selectable_group, Self::multiplicative_operator, operation)
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

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, ident, int, statement, string};
    use super::*;
    use crate::cql::ast::{BindIndex, FunctionName, NativeType, Selection, Statement};

    fn selectable(text: &str) -> Selectable {
        let Statement::Select(select) = statement(&format!("SELECT {text} FROM t")) else {
            panic!("{text}");
        };
        match select.selection {
            Selection::Selectors(mut selectors) if selectors.len() == 1 => selectors.remove(0).selectable,
            other => panic!("{other:?}"),
        }
    }

    fn column(name: &str) -> Selectable {
        Selectable::Column(ident(name))
    }

    fn check(text: &str, expected: Selectable) {
        assert_eq!(selectable(text), expected, "{text}");
    }

    /// A selector with the structure of its operations shown by brackets.
    fn structure(selectable: &Selectable) -> String {
        match selectable {
            Selectable::Operation { left, operator, right } => {
                let (left, right) = (structure(left), structure(right));
                format!("<{left} {} {right}>", operator.symbol())
            }
            Selectable::Negation(operand) => format!("<-{}>", structure(operand)),
            other => other.to_string(),
        }
    }

    fn check_structure(text: &str, expected: &str) {
        assert_eq!(structure(&selectable(text)), expected, "{text}");
    }

    #[test]
    fn columns_and_terms() {
        check("k", column("k"));
        check("KEY", column("key"));
        check("\"K\"", column("K"));
        check("ttl", column("ttl"));
        check("count", column("count"));
        check("1", Selectable::Term(int("1")));
        check("'x'", Selectable::Term(string("x")));
        check("null", Selectable::Term(Term::Null));
        check("?", Selectable::Term(Term::Marker(BindIndex(0))));
    }

    #[test]
    fn functions() {
        let call = |keyspace: Option<&str>, name: &str, args| Selectable::Function {
            name: FunctionName { keyspace: keyspace.map(ident), name: ident(name) },
            args,
        };
        check("f()", call(None, "f", vec![]));
        check("ks.F(a, 1)", call(Some("ks"), "f", vec![column("a"), Selectable::Term(int("1"))]));
        check("token(k)", call(None, "token", vec![column("k")]));
        check("max(f(v))", call(None, "max", vec![call(None, "f", vec![column("v")])]));
        check("count(v)", call(None, "count", vec![column("v")]));
        check("count(*)", Selectable::CountRows);
        check("COUNT ( 1 )", Selectable::CountRows);
        check_error("SELECT f(*) FROM t", "line 1:9 no viable alternative at input '*'");
    }

    #[test]
    fn casts_and_hints() {
        check("CAST(a + 1 AS text)", Selectable::Cast { operand: Box::new(selectable("a + 1")), to: NativeType::TEXT });
        check_structure("(int) 1", "(int)1");
        check_structure("(ty) {a: 1}", "(ty){a: 1}");
        check_structure("(int) v + 1", "<(int)v + 1>");
        check_structure("(int) (bigint) v", "(int)(bigint)v");
        // A name in parentheses is a type only if an operand follows.
        check("(v)", Selectable::Parenthesized(vec![column("v")]));
        check_structure("(v) * 2", "<(v) * 2>");
        check_error("SELECT CAST(i AS nosuch) FROM t", "line 1:17 no viable alternative at input 'nosuch'");
    }

    #[test]
    fn metadata() {
        check(
            "WRITETIME(v)",
            Selectable::Metadata { kind: MetadataKind::WriteTime, column: ident("v"), selected: Box::new(column("v")) },
        );
        check(
            "ttl(m['x'].f)",
            Selectable::Metadata {
                kind: MetadataKind::Ttl,
                column: ident("m"),
                selected: Box::new(selectable("m['x'].f")),
            },
        );
        check_structure("maxwritetime(s)", "maxwritetime(s)");
        check_structure("writetime(v) + 1", "<writetime(v) + 1>");
        check_error("SELECT writetime(v + 1) FROM t", "line 1:19 mismatched input '+' expecting ')'");
    }

    #[test]
    fn fields_elements_and_slices() {
        check("u.\"A\"", Selectable::Field { of: Box::new(column("u")), field: ident("A") });
        check("m['k']", Selectable::Element { of: Box::new(column("m")), key: string("k") });
        let slice = |from: Option<&str>, to: Option<&str>| Selectable::Slice {
            of: Box::new(column("m")),
            from: from.map(int),
            to: to.map(int),
        };
        check("m[1..2]", slice(Some("1"), Some("2")));
        check("m[1 .. ]", slice(Some("1"), None));
        check("m[..2]", slice(None, Some("2")));
        check_structure("m['x'].a[1]", "m['x'].a[1]");
        check_structure("f(u).a", "f(u).a");
        check_error("SELECT m[..] FROM t", "line 1:11 no viable alternative at input ']'");
        check_error("SELECT m[k] FROM t", "line 1:10 no viable alternative at input ']'");
    }

    #[test]
    fn literals_of_selectors() {
        let pair = || vec![column("k"), Selectable::Term(int("1"))];
        check("[k, 1]", Selectable::List(pair()));
        check("{k, 1}", Selectable::Set(pair()));
        check("(k, 1)", Selectable::Parenthesized(pair()));
        check("{k: 1}", Selectable::Map(vec![(column("k"), Selectable::Term(int("1")))]));
        check("{}", Selectable::Set(vec![]));
        check("[]", Selectable::List(vec![]));
        check_structure("{1: 2, 3: 4}", "{1: 2, 3: 4}");
    }

    #[test]
    fn arithmetic() {
        check_structure("v + c * 2", "<v + <c * 2>>");
        check_structure("(v + c) * 2", "<(v + c) * 2>");
        check_structure("a - b - c", "<<a - b> - c>");
        check_structure("a / b % c", "<<a / b> % c>");
        check_structure("-v", "<-v>");
        check_structure("- - v", "<-<-v>>");
        check_structure("-v.f * 2", "<<-v.f> * 2>");
        check_structure("v - 1", "<v - 1>");
        check_error("SELECT v -1 FROM t", "line 1:9 mismatched input '-1' expecting K_FROM");
        check_error("SELECT v > 1 FROM t", "line 1:9 mismatched input '>' expecting K_FROM");
    }
}
