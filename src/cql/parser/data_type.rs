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
        let native = NativeType::of(self.peek_keyword()?)?;
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

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, error, named, qualified, statement};
    use super::*;
    use crate::cql::ast::Statement;

    /// The type of a column written so.
    fn data_type(text: &str) -> DataType {
        match statement(&format!("CREATE TABLE t (k {text} PRIMARY KEY)")) {
            Statement::CreateTable(create) => create.columns[0].data_type.clone(),
            other => panic!("{other:?}"),
        }
    }

    /// A type's text parses to a type that prints as expected.
    fn check(text: &str, expected: &str) {
        assert_eq!(data_type(text).to_string(), expected);
    }

    fn check_type_error(text: &str, message: &str) {
        let found = error(&format!("CREATE TABLE t (k {text})"));
        assert_eq!(found, message, "{text}");
    }

    #[test]
    fn native_types() {
        assert_eq!(data_type("INT"), DataType::Native(NativeType::INT));
        for name in [
            "ascii",
            "bigint",
            "blob",
            "boolean",
            "counter",
            "date",
            "decimal",
            "double",
            "duration",
            "float",
            "inet",
            "int",
            "smallint",
            "text",
            "time",
            "timestamp",
            "timeuuid",
            "tinyint",
            "uuid",
            "varchar",
            "varint",
        ] {
            assert!(matches!(data_type(name), DataType::Native(_)), "{name}");
            check(name, name);
        }
    }

    #[test]
    fn types_with_parameters() {
        let text = || Box::new(DataType::Native(NativeType::TEXT));
        assert_eq!(data_type("list<text>"), DataType::List(text()));
        assert_eq!(data_type("SET < text >"), DataType::Set(text()));
        assert_eq!(data_type("map<text,text>"), DataType::Map(text(), text()));
        assert_eq!(data_type("tuple<text>"), DataType::Tuple(vec![*text()]));
        assert_eq!(data_type("vector<text, 3>"), DataType::Vector(text(), 3));
        assert_eq!(data_type("vector<text, -1>"), DataType::Vector(text(), -1));
        check(
            "frozen<map<int,frozen<list<frozen<set<tuple<int,text>>>>>>>",
            "frozen<map<int, frozen<list<frozen<set<tuple<int, text>>>>>>>",
        );
        check("vector<frozen<list<int>>,2>", "vector<frozen<list<int>>, 2>");
    }

    #[test]
    fn user_types_and_java_classes() {
        assert_eq!(data_type("Addr"), DataType::UserType(named("addr")));
        assert_eq!(data_type("\"A\".\"B c\""), DataType::UserType(qualified("A", "B c")));
        assert_eq!(data_type("int.key"), DataType::UserType(qualified("int", "key")));
        // Without parameters the words of collections are names.
        assert_eq!(data_type("list"), DataType::UserType(named("list")));
        assert_eq!(data_type("frozen"), DataType::UserType(named("frozen")));
        let class = "org.apache.cassandra.db.marshal.Int32Type";
        assert_eq!(data_type(&format!("'{class}'")), DataType::Custom(class.to_owned()));
    }

    #[test]
    fn what_is_no_type() {
        check_type_error("list<>", "line 1:23 no viable alternative at input '>'");
        check_type_error("map<int>", "line 1:25 mismatched input '>' expecting ','");
        check_type_error("vector<float>", "line 1:30 mismatched input '>' expecting ','");
        check_type_error("tuple<>", "line 1:24 no viable alternative at input '>'");
        check_type_error("ks.int", "line 1:21 no viable alternative at input 'int'");
        check_type_error("set", "line 1:18 no viable alternative at input 'set'");
        check_type_error("list<int", "line 1:26 mismatched input ')' expecting '>'");
        check_type_error("byte", "Invalid (reserved) user type name byte");
        check_error("CREATE TYPE int (a int)", "line 1:12 no viable alternative at input 'int'");
        let cql = "CREATE TABLE t (k vector<int, 99999999999>)";
        check_error(
            cql,
            &format!(
                "Failed parsing statement: [{cql}] reason: NumberFormatException \
                 For input string: \"99999999999\""
            ),
        );
    }

    #[test]
    fn only_types_with_parts_freeze() {
        let message =
            |inner| format!("frozen<> is only allowed on collections, tuples, and user-defined types (got {inner})");
        check_type_error("frozen<int>", &message("int"));
        check_type_error("frozen<'x.Y'>", &message("'x.Y'"));
        check("frozen<addr>", "frozen<addr>");
        check("frozen<frozen<list<int>>>", "frozen<frozen<list<int>>>");
    }
}
