//! The parser: tokens to one statement, by recursive descent.
//!
//! Each file holds one part of the grammar as methods of [`Parser`]; this one holds the token cursor, the
//! errors, names, and the choice of the statement. The first error ends the parse. Where the grammar needs
//! more than a token or two to decide (a type in parentheses or a value in parentheses), the parser tries
//! the type and steps back; types hold no values, so no text is tried twice at each of its levels.

mod access;
mod data_type;
mod describe;
mod modification;
mod properties;
mod relation;
mod schema;
mod select;
mod selectable;
mod table;
mod term;

use super::ast::{BindIndex, FunctionName, Ident, Literal, LiteralKind, QualifiedName, Statement};
use super::error::{Position, SyntaxError};
use super::keyword::{Class, Keyword};
use super::lexer::tokenize;
use super::token::{Token, TokenKind};

/// How deep terms, selectors, types and parentheses may nest. Deeper text is refused, so that no statement
/// exhausts the stack of the parser or of those who walk its tree.
pub const NESTING_MAX: u32 = 128;

/// The most operators, fields and elements of one term or selector: a chain of them is a tree as deep as
/// the chain is long.
pub const OPERATORS_MAX: u32 = 256;

/// The most bind markers of a statement: the protocol counts them in 16 bits.
pub const BIND_MARKERS_MAX: usize = 65_535;

/// A parsed statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    pub statement: Statement,
    /// One entry for each bind marker in order of appearance: the name of `:name`, none for `?`. A name used
    /// twice has two entries.
    pub bind_markers: Vec<Option<String>>,
}

/// Parses one statement, which any number of semicolons may follow.
pub fn parse(text: &str) -> Result<Parsed, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let statement = parser.statement()?;
    while parser.eat(TokenKind::Semicolon) {}
    parser.expect(TokenKind::End)?;
    Ok(Parsed { statement, bind_markers: parser.bind_markers })
}

type Parse<T> = Result<T, SyntaxError>;

struct Parser<'a> {
    text: &'a str,
    /// Never empty; the last is [`TokenKind::End`].
    tokens: Vec<Token>,
    /// The index of the next token.
    at: usize,
    bind_markers: Vec<Option<String>>,
    /// How many nested constructs are open.
    nesting: u32,
    /// Operators and accessors seen in the outermost open construct.
    operators: u32,
}

impl<'a> Parser<'a> {
    fn new(text: &'a str) -> Parse<Parser<'a>> {
        Ok(Parser { text, tokens: tokenize(text)?, at: 0, bind_markers: Vec::new(), nesting: 0, operators: 0 })
    }

    fn statement(&mut self) -> Parse<Statement> {
        match self.peek_keyword() {
            Some(Keyword::Select) => Ok(Statement::Select(self.select()?)),
            Some(Keyword::Insert | Keyword::Update | Keyword::Delete) => Ok(self.modification()?.into()),
            Some(Keyword::Begin) => Ok(Statement::Batch(self.batch()?)),
            Some(Keyword::Use) => {
                self.bump();
                Ok(Statement::Use(self.keyspace_name()?))
            }
            Some(Keyword::Truncate) => {
                self.bump();
                self.eat_table_keyword();
                Ok(Statement::Truncate(self.table_name()?))
            }
            Some(Keyword::Describe | Keyword::Desc) => Ok(Statement::Describe(self.describe()?)),
            Some(Keyword::Create) => self.create(),
            Some(Keyword::Alter) => self.alter(),
            Some(Keyword::Drop) => self.drop(),
            Some(Keyword::Grant) => Ok(Statement::Access(self.grant()?)),
            Some(Keyword::Revoke) => Ok(Statement::Access(self.revoke()?)),
            Some(Keyword::List) => Ok(Statement::Access(self.list_access()?)),
            Some(Keyword::Add) => Ok(Statement::Access(self.add_identity()?)),
            _ => Err(self.no_viable()),
        }
    }
}

/// The token cursor.
impl Parser<'_> {
    fn token_at(&self, ahead: usize) -> Token {
        let last = self.tokens.len() - 1;
        self.tokens[(self.at + ahead).min(last)]
    }

    fn peek(&self) -> TokenKind {
        self.token_at(0).kind
    }

    fn peek_at(&self, ahead: usize) -> TokenKind {
        self.token_at(ahead).kind
    }

    fn peek_keyword(&self) -> Option<Keyword> {
        self.keyword_at(0)
    }

    fn keyword_at(&self, ahead: usize) -> Option<Keyword> {
        match self.peek_at(ahead) {
            TokenKind::Keyword(keyword) => Some(keyword),
            _ => None,
        }
    }

    fn bump(&mut self) -> Token {
        let token = self.token_at(0);
        self.at += 1;
        token
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek() == kind;
        if found {
            self.bump();
        }
        found
    }

    fn eat_keyword(&mut self, keyword: Keyword) -> bool {
        self.eat(TokenKind::Keyword(keyword))
    }

    /// Takes two keywords if both are next.
    fn eat_keywords(&mut self, first: Keyword, second: Keyword) -> bool {
        let found = self.peek_keyword() == Some(first) && self.keyword_at(1) == Some(second);
        if found {
            self.at += 2;
        }
        found
    }

    fn expect(&mut self, kind: TokenKind) -> Parse<Token> {
        if self.peek() == kind { Ok(self.bump()) } else { Err(self.mismatched(kind)) }
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Parse<()> {
        self.expect(TokenKind::Keyword(keyword)).map(|_| ())
    }

    /// The bytes of a token in the text.
    fn source(&self, token: Token) -> &str {
        self.text.get(token.start as usize..token.end as usize).unwrap_or_default()
    }

    /// What a string or quoted name says, without its quotes and escapes.
    fn unquoted(&self, token: Token) -> String {
        let source = self.source(token);
        let (length, escape) = match source.as_bytes().first() {
            Some(b'$') => (2, None),
            Some(b'\'') => (1, Some(("''", "'"))),
            _ => (1, Some(("\"\"", "\""))),
        };
        let body = source.get(length..source.len() - length).unwrap_or_default();
        match escape {
            Some((doubled, single)) => body.replace(doubled, single),
            None => body.to_owned(),
        }
    }

    /// One or more items with commas between them.
    fn separated<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(TokenKind::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Items with commas between them, up to and with the closing token; possibly none.
    fn separated_until<T>(&mut self, close: TokenKind, item: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        if self.eat(close) {
            return Ok(Vec::new());
        }
        let items = self.separated(item)?;
        self.expect(close)?;
        Ok(items)
    }

    /// Items of a clause with AND between them.
    fn joined_by_and<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat_keyword(Keyword::And) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// `( items )`, at least one.
    fn parenthesized<T>(&mut self, item: impl FnMut(&mut Self) -> Parse<T>) -> Parse<Vec<T>> {
        self.expect(TokenKind::LeftParen)?;
        let items = self.separated(item)?;
        self.expect(TokenKind::RightParen)?;
        Ok(items)
    }
}

/// Errors and bounds.
impl Parser<'_> {
    fn position(&self, token: Token) -> Position {
        match token.kind {
            TokenKind::End => Position::End,
            _ => Position::of(self.text, token.start as usize),
        }
    }

    fn input(&self, token: Token) -> String {
        match token.kind {
            TokenKind::End => "<EOF>".to_owned(),
            TokenKind::String => self.unquoted(token),
            _ => self.source(token).to_owned(),
        }
    }

    /// No alternative of the grammar starts with the next token.
    fn no_viable(&self) -> SyntaxError {
        let token = self.token_at(0);
        SyntaxError::at(self.position(token), format!("no viable alternative at input '{}'", self.input(token)))
    }

    /// The next token is not the only one that could stand there.
    fn mismatched(&self, expected: TokenKind) -> SyntaxError {
        let token = self.token_at(0);
        let (input, expected) = (self.input(token), expected.expected_name());
        SyntaxError::at(self.position(token), format!("mismatched input '{input}' expecting {expected}"))
    }

    /// A literal that Cassandra's own parser fails on with an exception.
    fn bad_number(&self, reason: &str) -> SyntaxError {
        SyntaxError::rule(format!("Failed parsing statement: [{}] reason: NumberFormatException {reason}", self.text))
    }

    /// Parses a construct that may hold others of its kind.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        if self.nesting == 0 {
            self.operators = 0;
        }
        if self.nesting == NESTING_MAX {
            let position = self.position(self.token_at(0));
            return Err(SyntaxError::at(position, format!("the statement nests deeper than {NESTING_MAX} levels")));
        }
        self.nesting += 1;
        let parsed = parse(self);
        self.nesting -= 1;
        parsed
    }

    /// Counts an operator or accessor, which makes the tree one level deeper.
    fn count_operator(&mut self) -> Parse<()> {
        self.operators += 1;
        if self.operators > OPERATORS_MAX {
            let position = self.position(self.token_at(0));
            return Err(SyntaxError::at(position, format!("the expression has more than {OPERATORS_MAX} operators")));
        }
        Ok(())
    }

    /// Tries to parse something; afterwards the parser stands where it stood if nothing was found.
    fn attempt<T>(&mut self, parse: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let (at, markers) = (self.at, self.bind_markers.len());
        let parsed = parse(self);
        if parsed.is_none() {
            self.at = at;
            self.bind_markers.truncate(markers);
        }
        parsed
    }
}

/// Names, constants and markers.
impl Parser<'_> {
    /// The identifier a token spells, if it can be one.
    fn name_of(&self, token: Token) -> Option<Ident> {
        match token.kind {
            TokenKind::QuotedName => Some(Ident::quoted(self.unquoted(token))),
            kind if kind.is_name() => Some(Ident::unquoted(self.source(token))),
            _ => None,
        }
    }

    fn ident(&mut self) -> Parse<Ident> {
        let name = self.name_of(self.token_at(0));
        let name = name.ok_or_else(|| self.no_viable())?;
        self.bump();
        Ok(name)
    }

    /// A column where the empty name `""` is allowed: anywhere but in DDL.
    fn column(&mut self) -> Parse<Ident> {
        if self.eat(TokenKind::EmptyQuotedName) {
            return Ok(Ident::quoted(""));
        }
        self.ident()
    }

    /// Whether a column may stand at this token.
    fn is_column_at(&self, ahead: usize) -> bool {
        let kind = self.peek_at(ahead);
        kind.is_name() || kind == TokenKind::EmptyQuotedName
    }

    fn keyspace_name(&mut self) -> Parse<Ident> {
        if self.peek() == TokenKind::Question {
            return Err(unbindable("keyspace"));
        }
        self.ident()
    }

    fn index_name(&mut self) -> Parse<Ident> {
        if self.peek() == TokenKind::Question {
            return Err(unbindable("index"));
        }
        self.ident()
    }

    fn table_name(&mut self) -> Parse<QualifiedName> {
        self.qualified_name("table")
    }

    /// `[keyspace.]name`; `what` names it in the error that no marker can stand for it.
    fn qualified_name(&mut self, what: &str) -> Parse<QualifiedName> {
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
    fn is_function_call(&self) -> bool {
        let starts_name =
            |ahead| is_function_name(self.peek_at(ahead)) && self.peek_at(ahead + 1) == TokenKind::LeftParen;
        starts_name(0) || (self.peek().is_name() && self.peek_at(1) == TokenKind::Dot && starts_name(2))
    }

    fn function_name(&mut self) -> Parse<FunctionName> {
        let mut keyspace = None;
        if self.peek().is_name() && self.peek_at(1) == TokenKind::Dot {
            keyspace = Some(self.ident()?);
            self.bump();
        }
        Ok(FunctionName { keyspace, name: self.bare_function_name()? })
    }

    fn bare_function_name(&mut self) -> Parse<Ident> {
        if !is_function_name(self.peek()) {
            return Err(self.no_viable());
        }
        let token = self.bump();
        match token.kind {
            TokenKind::QuotedName => Ok(Ident::quoted(self.unquoted(token))),
            _ => Ok(Ident::unquoted(self.source(token))),
        }
    }

    fn string(&mut self) -> Parse<String> {
        let token = self.expect(TokenKind::String)?;
        Ok(self.unquoted(token))
    }

    /// `?` or `:name`, if one is next.
    fn marker(&mut self) -> Parse<Option<BindIndex>> {
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

    /// A constant, if one is next.
    fn constant(&mut self) -> Parse<Option<Literal>> {
        let token = self.token_at(0);
        let source = || self.source(token).to_owned();
        let (kind, text) = match token.kind {
            TokenKind::String => (LiteralKind::String, self.unquoted(token)),
            TokenKind::Integer => (LiteralKind::Integer, source()),
            TokenKind::Float => {
                self.check_float(self.source(token))?;
                (LiteralKind::Float, source())
            }
            TokenKind::Boolean => (LiteralKind::Boolean, source()),
            TokenKind::Duration => (LiteralKind::Duration, source()),
            TokenKind::Uuid => (LiteralKind::Uuid, source()),
            TokenKind::Hex => (LiteralKind::Hex, source()),
            TokenKind::NegativeNan | TokenKind::Keyword(Keyword::NaN) => (LiteralKind::Float, "NaN".to_owned()),
            TokenKind::NegativeInfinity => (LiteralKind::Float, "-Infinity".to_owned()),
            TokenKind::Keyword(Keyword::Infinity) => (LiteralKind::Float, "Infinity".to_owned()),
            _ => return Ok(None),
        };
        self.bump();
        Ok(Some(Literal { kind, text }))
    }

    /// Refuses the floats that Cassandra cannot hold as a decimal with a finite double beside it.
    fn check_float(&self, text: &str) -> Parse<()> {
        if let Some((_, exponent)) = text.split_once(['e', 'E']) {
            let digits = exponent.trim_start_matches(['+', '-', '0']);
            if digits.len() > 10 {
                return Err(self.bad_number("Too many nonzero exponent digits."));
            }
            if exponent.parse::<i32>().is_err() {
                return Err(self.bad_number("Exponent overflow."));
            }
        }
        match text.parse::<f64>() {
            Ok(value) if value.is_finite() => Ok(()),
            _ => Err(self.bad_number(
                "Character I is neither a decimal digit number, decimal point, \
                 nor \"e\" notation exponential mark.",
            )),
        }
    }

    /// `IF NOT EXISTS`, if it is next.
    fn if_not_exists(&mut self) -> Parse<bool> {
        if !self.eat_keyword(Keyword::If) {
            return Ok(false);
        }
        self.expect_keyword(Keyword::Not)?;
        self.expect_keyword(Keyword::Exists)?;
        Ok(true)
    }

    /// `IF EXISTS`, if it is next.
    fn if_exists(&mut self) -> Parse<bool> {
        if !self.eat_keyword(Keyword::If) {
            return Ok(false);
        }
        self.expect_keyword(Keyword::Exists)?;
        Ok(true)
    }

    /// `TABLE` or `COLUMNFAMILY`, if it is next.
    fn eat_table_keyword(&mut self) -> bool {
        self.eat_keyword(Keyword::Table) || self.eat_keyword(Keyword::ColumnFamily)
    }
}

fn unbindable(what: &str) -> SyntaxError {
    SyntaxError::rule(format!("Bind variables cannot be used for {what} names"))
}

/// Whether a token can name a function.
fn is_function_name(kind: TokenKind) -> bool {
    match kind {
        TokenKind::Ident | TokenKind::QuotedName => true,
        TokenKind::Keyword(Keyword::Token | Keyword::Count) => true,
        TokenKind::Keyword(keyword) => {
            matches!(keyword.class(), Class::Unreserved | Class::NativeType(_))
        }
        _ => false,
    }
}
