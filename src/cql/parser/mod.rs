//! The parser: tokens to one statement, by recursive descent.
//!
//! Each file holds one part of the grammar as methods of [`Parser`]; this one holds the token cursor, the
//! errors, the bounds and the choice of the statement. The first error ends the parse. Where the grammar needs
//! more than a token or two to decide (a type in parentheses or a value in parentheses), the parser tries
//! the type and steps back; types hold no values, so no text is tried twice at each of its levels.

#[cfg(test)]
mod accepted;
mod access;
mod constant;
mod data_type;
mod describe;
mod modification;
mod name;
mod properties;
mod relation;
mod schema;
mod select;
mod selectable;
mod table;
mod term;
#[cfg(test)]
mod testing;

use super::ast::{ArithmeticOperator, Statement};
use super::error::{Position, SyntaxError};
use super::keyword::Keyword;
use super::lexer::tokenize;
use super::token::{Token, TokenKind};

/// How deep terms, selectors, types and parentheses may nest; a bracket of a term or selector counts twice,
/// for the expression in it and for its operand. Deeper text is refused, so that no statement exhausts the
/// stack of the parser or of those who walk its tree.
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
    let statement = parser.whole_statement().map_err(|error| error.located(text))?;
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

    fn whole_statement(&mut self) -> Parse<Statement> {
        let statement = self.statement()?;
        while self.eat(TokenKind::Semicolon) {}
        self.expect(TokenKind::End)?;
        Ok(statement)
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
            _ => Position::Offset(token.start as usize),
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

    /// Operands with operators of one level between them, grouped from the left. `operator` is the next token's, where
    /// the chain goes on.
    fn chain<T>(
        &mut self,
        operand: fn(&mut Self) -> Parse<T>,
        operator: impl Fn(&Self) -> Option<ArithmeticOperator>,
        operation: fn(T, ArithmeticOperator, T) -> T,
    ) -> Parse<T> {
        let mut left = operand(self)?;
        while let Some(operator) = operator(self) {
            self.bump();
            self.count_operator()?;
            left = operation(left, operator, operand(self)?);
        }
        Ok(left)
    }

    fn additive_operator(&self) -> Option<ArithmeticOperator> {
        match self.peek() {
            TokenKind::Plus => Some(ArithmeticOperator::Add),
            TokenKind::Minus => Some(ArithmeticOperator::Subtract),
            _ => None,
        }
    }

    fn multiplicative_operator(&self) -> Option<ArithmeticOperator> {
        match self.peek() {
            TokenKind::Star => Some(ArithmeticOperator::Multiply),
            TokenKind::Slash => Some(ArithmeticOperator::Divide),
            TokenKind::Percent => Some(ArithmeticOperator::Modulo),
            _ => None,
        }
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

/// Clauses that many statements share.
impl Parser<'_> {
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

#[cfg(test)]
mod tests {
    use super::testing::{check_error, error, ident, named, parsed, qualified, statement};
    use super::*;
    use crate::cql::ast::Selection;
    use proptest::prelude::*;

    #[test]
    fn semicolons_and_comments_may_follow() {
        for cql in ["USE ks", "USE ks;", "use KS;;", "/* a */ USE -- b\n ks // c\n ; ;"] {
            assert_eq!(statement(cql), Statement::Use(ident("ks")), "{cql}");
        }
    }

    #[test]
    fn text_without_a_statement_is_refused() {
        for cql in ["", " \n", "/* only a comment */ ", "-- only a comment\n"] {
            check_error(cql, "line 0:-1 no viable alternative at input '<EOF>'");
        }
        check_error(";", "line 1:0 no viable alternative at input ';'");
        check_error("SELECT * FROM t; SELECT * FROM t", "line 1:17 mismatched input 'SELECT' expecting EOF");
    }

    #[test]
    fn the_first_word_decides() {
        check_error("SELEC * FROM t", "line 1:0 no viable alternative at input 'SELEC'");
        check_error("EXPLAIN SELECT * FROM t", "line 1:0 no viable alternative at input 'EXPLAIN'");
        check_error("CREATE TABEL t (k int)", "line 1:7 no viable alternative at input 'TABEL'");
        check_error("CREATE SCHEMA s WITH a = 1", "line 1:7 no viable alternative at input 'SCHEMA'");
        check_error("ALTER INDEX i", "line 1:6 no viable alternative at input 'INDEX'");
        check_error("DROP VIEW v", "line 1:5 no viable alternative at input 'VIEW'");
        check_error("CREATE TABLE", "line 0:-1 no viable alternative at input '<EOF>'");
    }

    #[test]
    fn truncate_takes_the_word_table_or_not() {
        assert_eq!(statement("TRUNCATE t"), Statement::Truncate(named("t")));
        assert_eq!(statement("TRUNCATE TABLE ks.t"), Statement::Truncate(qualified("ks", "t")));
        assert_eq!(statement("TRUNCATE COLUMNFAMILY \"T\""), Statement::Truncate(named("T")));
    }

    /// Statements nested as deep as each kind of nesting allows, and far deeper.
    fn nested(open: &str, core: &str, close: &str, depth: usize) -> String {
        format!("{}{core}{}", open.repeat(depth), close.repeat(depth))
    }

    #[test]
    fn nesting_is_bounded_everywhere() {
        const KINDS: [(&str, &str, &str, &str, &str); 14] = [
            ("INSERT INTO t (k) VALUES (", "[", "1", "]", ")"),
            ("INSERT INTO t (k) VALUES (", "{", "1", "}", ")"),
            ("INSERT INTO t (k) VALUES (", "{a: ", "1", "}", ")"),
            ("INSERT INTO t (k) VALUES (", "(", "1", ")", ")"),
            ("INSERT INTO t (k) VALUES (", "(int) ", "1", "", ")"),
            ("INSERT INTO t (k) VALUES (", "f(", "1", ")", ")"),
            ("INSERT INTO t (k) VALUES (", "CAST(", "1", " AS int)", ")"),
            ("SELECT ", "(", "a", ")", " FROM t"),
            ("SELECT ", "- ", "a", "", " FROM t"),
            ("SELECT ", "(int) ", "a", "", " FROM t"),
            ("SELECT ", "f(", "a", ")", " FROM t"),
            ("SELECT ", "m[f(", "1", ")]", " FROM t"),
            ("SELECT * FROM t WHERE ", "(", "a = 1", ")", ""),
            ("CREATE TABLE t (k ", "frozen<", "list<int>", ">", " PRIMARY KEY)"),
        ];
        for (before, open, core, close, after) in KINDS {
            let cql = |depth| format!("{before}{}{after}", nested(open, core, close, depth));
            if open != "m[f(" {
                parsed(&cql(20));
            }
            for depth in [NESTING_MAX as usize + 1, 50_000] {
                let message = error(&cql(depth));
                let expected = ["nests deeper than 128 levels", "mismatched", "no viable"];
                assert!(expected.iter().any(|text| message.contains(text)), "{open}: {message}");
            }
        }
    }

    #[test]
    fn chains_of_operators_are_bounded() {
        for (before, link, after) in [
            ("SELECT a", " + a", " FROM t"),
            ("SELECT a", " * a", " FROM t"),
            ("SELECT a", ".a", " FROM t"),
            ("SELECT a", "[1]", " FROM t"),
            ("INSERT INTO t (k) VALUES (1", " - 1.0", ")"),
            ("INSERT INTO t (k) VALUES (1", " / 1", ")"),
        ] {
            let cql = |links| format!("{before}{}{after}", link.repeat(links));
            parsed(&cql(OPERATORS_MAX as usize));
            let message = error(&cql(OPERATORS_MAX as usize + 1));
            assert!(message.contains("more than 256 operators"), "{message}");
        }
        // Each term has a count of its own.
        let terms = vec!["1 + 1"; 1_000].join(", ");
        parsed(&format!("INSERT INTO t (k) VALUES ([1], {terms})"));
    }

    #[test]
    fn the_deepest_statement_fits_a_small_stack() {
        let deep = nested("(f([{", "1", "}]))", NESTING_MAX as usize / 8 - 1);
        let chain = " + 1".repeat(OPERATORS_MAX as usize);
        let cql = format!("SELECT a FROM t WHERE a = {deep}{chain}");
        let parse_and_print = move || {
            let select = statement(&cql);
            assert!(format!("{select:?}").len() > 1_000);
        };
        let thread = std::thread::Builder::new().stack_size(1 << 20).spawn(parse_and_print);
        thread.expect("the thread starts").join().expect("the statement parses");
    }

    const VALID: [&str; 24] = [
        "SELECT JSON DISTINCT a, b.c, m[1..2], count(*) AS n FROM ks.t WHERE k IN (1, ?) AND (a, b) > (1, :x) GROUP BY k ORDER BY c DESC PER PARTITION LIMIT 2 LIMIT 3 ALLOW FILTERING",
        "SELECT (int) 1, CAST(a AS text), writetime(v), -v * (c + 2) % 3, {k: v}, [1], (1, 2) FROM t",
        "SELECT * FROM t WHERE token(k) >= token(?) AND m['x'] = 1 AND l CONTAINS KEY 2 AND c LIKE 'a%' AND d IS NOT NULL",
        "SELECT k FROM t ORDER BY v ANN OF [1.5, -2.0] LIMIT 10",
        "INSERT INTO t (k, c, v) VALUES (1, 'it''s', {1: 'a', 2: $$b$$}) IF NOT EXISTS USING TTL 5 AND TIMESTAMP ?",
        "INSERT INTO t JSON '{\"k\": 1}' DEFAULT UNSET",
        "UPDATE t USING TIMESTAMP 5 SET v = v + 1, l[0] = ?, u.f = null, s -= {'x'}, p = [1] + p WHERE k = 1 IF v = 5 AND m[1] IN (1, 2)",
        "DELETE a, b[1], c.d FROM t USING TIMESTAMP 5 WHERE k = 1 AND c > 0x00ff IF EXISTS",
        "BEGIN UNLOGGED BATCH USING TIMESTAMP 9 INSERT INTO t (k) VALUES (1); DELETE FROM t WHERE k = 1; APPLY BATCH",
        "CREATE KEYSPACE IF NOT EXISTS k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1} AND durable_writes = false",
        "CREATE TABLE t (a int, b frozen<map<text, list<int>>>, s text static, PRIMARY KEY ((a, b), c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'x'",
        "ALTER TABLE t ADD IF NOT EXISTS (a int, b vector<float, 3>)",
        "ALTER TABLE t DROP (a, b) USING TIMESTAMP 12",
        "ALTER TABLE t RENAME a TO b AND c TO d",
        "CREATE TYPE ks.ty (a int, b tuple<int, text>)",
        "ALTER TYPE ty ADD f frozen<ks.other>",
        "CREATE CUSTOM INDEX i ON t (ENTRIES(m)) USING 'sai' WITH OPTIONS = {'a': 'b'}",
        "CREATE MATERIALIZED VIEW v AS SELECT * FROM t WHERE a IS NOT NULL PRIMARY KEY (a, b)",
        "CREATE OR REPLACE FUNCTION ks.f (a int) RETURNS NULL ON NULL INPUT RETURNS int LANGUAGE java AS $$return a;$$",
        "CREATE AGGREGATE a (int) SFUNC f STYPE tuple<int, int> FINALFUNC g INITCOND (0, 0)",
        "CREATE ROLE r WITH PASSWORD = 'x' AND LOGIN = true AND OPTIONS = {'a': 'b'}",
        "GRANT SELECT PERMISSION, MODIFY ON KEYSPACE k TO r",
        "DESCRIBE FULL SCHEMA WITH INTERNALS",
        "INSERT INTO t (k, d, u) VALUES (-1.5e3, P1Y2M3DT4H, 123e4567-e89b-12d3-a456-426614174000)",
    ];

    #[test]
    fn representative_statements_parse() {
        for cql in VALID {
            parsed(cql);
        }
    }

    /// Every statement cut off at any place is an error or a statement, never a panic; likewise with any
    /// one of its tokens gone.
    #[test]
    fn cut_statements_do_no_harm() {
        for cql in VALID {
            for (at, _) in cql.char_indices() {
                let _ = parse(&cql[..at]);
                let _ = parse(&cql[at..]);
            }
            let words: Vec<_> = cql.split(' ').collect();
            for gone in 0..words.len() {
                let mut rest = words.clone();
                rest.remove(gone);
                let _ = parse(&rest.join(" "));
            }
        }
    }

    #[test]
    fn selectors_survive_their_own_text() {
        for cql in &VALID[..4] {
            let Statement::Select(select) = statement(cql) else {
                panic!("{cql}");
            };
            let Selection::Selectors(selectors) = select.selection else {
                continue;
            };
            for selector in selectors {
                let text = selector.selectable.to_string().replace("count", "count(*)");
                let again = statement(&format!("SELECT {text} FROM t"));
                let Statement::Select(again) = again else {
                    panic!("{text}");
                };
                let Selection::Selectors(again) = again.selection else {
                    panic!("{text}");
                };
                assert_eq!(again[0].selectable, selector.selectable, "{text}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_text_parses_or_is_refused(text in "\\PC*") {
            let _ = parse(&text);
        }

        #[test]
        fn any_words_parse_or_are_refused(
            words in prop::collection::vec(
                prop::sample::select(VALID.iter().flat_map(|cql| cql.split(' ')).collect::<Vec<_>>()),
                0..30,
            ),
            start in prop::sample::select(&VALID[..]),
            keep in 0_usize..12,
        ) {
            let start: Vec<_> = start.split(' ').take(keep).collect();
            let _ = parse(&[start, words].concat().join(" "));
        }

        #[test]
        fn mutated_statements_do_no_harm(
            cql in prop::sample::select(&VALID[..]),
            at in any::<prop::sample::Index>(),
            length in 0_usize..4,
            new in "[-a-z0-9 (){}<>,;:.?*+=!'\"$\\[\\]]{0,4}",
        ) {
            let at = at.index(cql.len());
            let end = (at + length).min(cql.len());
            if let (Some(before), Some(after)) = (cql.get(..at), cql.get(end..)) {
                let _ = parse(&format!("{before}{new}{after}"));
            }
        }
    }
}
