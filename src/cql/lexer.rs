//! The lexer: text to tokens.
//!
//! At each place the longest token wins, and where two are equally long the earlier rule of Cassandra's
//! grammar: keywords, then booleans, then durations (`P1Y`), then identifiers. Two habits of its generated
//! lexer are kept because they decide what is valid: a minus directly before digits belongs to the number
//! (so `v -1` is two tokens, and no subtraction), and digits running into hexadecimal letters (`1a`) are
//! the start of a UUID that fails. A line comment must end in a line break.

use super::error::{Position, SyntaxError};
use super::keyword::Keyword;
use super::scan;
use super::token::{Token, TokenKind};

/// The longest statement in bytes; a larger one is refused. Frames are bounded lower than this.
pub const TEXT_BYTES_MAX: usize = 256 << 20;

/// The most tokens of a statement; one with more is refused before it is parsed, so that a frame of
/// brackets cannot take a hundred times its size.
pub const TOKENS_MAX: usize = 1 << 20;

const UUID_BYTES: usize = 36;

/// Splits a text into tokens; the last is always [`TokenKind::End`].
pub fn tokenize(text: &str) -> Result<Vec<Token>, SyntaxError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(SyntaxError::rule(format!(
            "The statement has {} bytes, the most are {TEXT_BYTES_MAX}",
            text.len()
        )));
    }
    let mut lexer = Lexer { text, at: 0 };
    let mut tokens = Vec::new();
    loop {
        let token = lexer.next_token()?;
        tokens.push(token);
        if token.kind == TokenKind::End {
            return Ok(tokens);
        }
        if tokens.len() > TOKENS_MAX {
            return Err(SyntaxError::at(
                Position::of(text, lexer.at),
                format!("the statement has more than {TOKENS_MAX} tokens"),
            ));
        }
    }
}

struct Lexer<'a> {
    text: &'a str,
    /// Byte offset of the next character.
    at: usize,
}

impl Lexer<'_> {
    fn bytes(&self) -> &[u8] {
        self.text.as_bytes()
    }

    /// The byte at an offset from here; 0, which starts no token, past the end.
    fn byte(&self, ahead: usize) -> u8 {
        self.bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        self.bytes().get(self.at..).unwrap_or_default()
    }

    fn next_token(&mut self) -> Result<Token, SyntaxError> {
        self.skip_blanks()?;
        let start = self.at;
        let kind = match self.byte(0) {
            0 if start >= self.text.len() => TokenKind::End,
            b'\'' => self.string()?,
            b'$' if self.byte(1) == b'$' => self.dollar_string()?,
            b'"' => self.quoted_name()?,
            b'0'..=b'9' => self.number(0)?,
            b'a'..=b'z' | b'A'..=b'Z' => self.word()?,
            b'-' => self.minus()?,
            _ => self.symbol()?,
        };
        Ok(Token { kind, start: offset(start), end: offset(self.at) })
    }

    fn skip_blanks(&mut self) -> Result<(), SyntaxError> {
        loop {
            match (self.byte(0), self.byte(1)) {
                (b' ' | b'\t' | b'\n' | b'\r', next) if !is_blank(next) => self.at += 1,
                (b' ' | b'\t' | b'\n' | b'\r', _) => {
                    let rest = self.rest();
                    self.at += scan::find(rest, |byte| !is_blank(byte)).unwrap_or(rest.len());
                }
                (b'-', b'-') | (b'/', b'/') => {
                    let line_end = |byte| (byte == b'\n') | (byte == b'\r');
                    match scan::find(self.rest(), line_end) {
                        Some(length) => self.at += length + 1,
                        None => return Err(self.unclosed("set null")),
                    }
                }
                (b'/', b'*') => match scan::find_pair(self.rest().get(2..).unwrap_or_default(), *b"*/") {
                    Some(length) => self.at += length + 4,
                    None => return Err(self.unclosed("'*'")),
                },
                _ => return Ok(()),
            }
        }
    }

    /// The text ends inside a token.
    fn unclosed(&self, expecting: &str) -> SyntaxError {
        SyntaxError::at(
            Position::of(self.text, self.text.len()),
            format!("mismatched character '<EOF>' expecting {expecting}"),
        )
    }

    /// The character at a byte offset continues no token.
    fn mismatched(&self, at: usize, expecting: &str) -> SyntaxError {
        match self.text.get(at..).and_then(|rest| rest.chars().next()) {
            Some(c) => SyntaxError::at(
                Position::of(self.text, at),
                format!("mismatched character '{c}' expecting {expecting}"),
            ),
            None => self.unclosed(expecting),
        }
    }

    /// `'text'`, with `''` for a quote.
    fn string(&mut self) -> Result<TokenKind, SyntaxError> {
        self.at = self.closing_quote(b'\'').ok_or_else(|| self.unclosed("'''"))?;
        Ok(TokenKind::String)
    }

    fn quoted_name(&mut self) -> Result<TokenKind, SyntaxError> {
        let start = self.at;
        self.at = self.closing_quote(b'"').ok_or_else(|| self.unclosed("'\"'"))?;
        if self.at == start + 2 { Ok(TokenKind::EmptyQuotedName) } else { Ok(TokenKind::QuotedName) }
    }

    /// The offset behind the quote that closes the one here.
    fn closing_quote(&self, quote: u8) -> Option<usize> {
        let mut at = self.at + 1;
        loop {
            at += scan::find(self.bytes().get(at..)?, |byte| byte == quote)? + 1;
            if self.bytes().get(at) != Some(&quote) {
                return Some(at);
            }
            at += 1;
        }
    }

    /// `$$text$$`
    fn dollar_string(&mut self) -> Result<TokenKind, SyntaxError> {
        match scan::find_pair(self.rest().get(2..).unwrap_or_default(), *b"$$") {
            Some(length) => self.at += length + 4,
            None => return Err(self.unclosed("'$'")),
        }
        Ok(TokenKind::String)
    }

    /// What starts with a minus: a number, a duration, a negative constant or the operator.
    fn minus(&mut self) -> Result<TokenKind, SyntaxError> {
        if self.byte(1).is_ascii_digit() {
            return self.number(1);
        }
        let rest = self.rest();
        if let Some(end) = iso_duration(rest, 1) {
            self.at += end;
            return Ok(TokenKind::Duration);
        }
        let word = word_length(rest, 1);
        let text = rest.get(1..1 + word).unwrap_or_default();
        if text.eq_ignore_ascii_case(b"nan") {
            self.at += 1 + word;
            Ok(TokenKind::NegativeNan)
        } else if text.eq_ignore_ascii_case(b"infinity") {
            self.at += 1 + word;
            Ok(TokenKind::NegativeInfinity)
        } else if self.byte(1) == b'=' {
            self.at += 2;
            Ok(TokenKind::MinusEq)
        } else {
            self.at += 1;
            Ok(TokenKind::Minus)
        }
    }

    /// What starts with a digit, `sign` bytes from here: a number, a duration, a blob or a UUID.
    fn number(&mut self, sign: usize) -> Result<TokenKind, SyntaxError> {
        let rest = self.rest();
        let unsigned = sign == 0;
        if unsigned && self.uuid_here()? {
            self.at += UUID_BYTES;
            return Ok(TokenKind::Uuid);
        }
        if unsigned && rest.first() == Some(&b'0') && matches!(rest.get(1), Some(b'x' | b'X')) {
            self.at += 2 + run_length(rest, 2, u8::is_ascii_hexdigit);
            return Ok(TokenKind::Hex);
        }
        let digits = sign + run_length(rest, sign, u8::is_ascii_digit);
        if let Some(end) = unit_duration(rest, sign) {
            self.at += end;
            return Ok(TokenKind::Duration);
        }
        let end = float_end(rest, digits);
        if end > digits {
            self.at += end;
            return Ok(TokenKind::Float);
        }
        let hex = run_length(rest, digits, u8::is_ascii_hexdigit);
        if unsigned && hex > 0 {
            return Err(self.mismatched(self.at + digits + hex, "set null"));
        }
        self.at += digits;
        Ok(TokenKind::Integer)
    }

    /// What starts with a letter: a keyword, a boolean, a duration, a UUID or an identifier.
    fn word(&mut self) -> Result<TokenKind, SyntaxError> {
        if self.uuid_here()? {
            self.at += UUID_BYTES;
            return Ok(TokenKind::Uuid);
        }
        let rest = self.rest();
        let length = word_length(rest, 0);
        if let Some(end) = iso_duration(rest, 0).filter(|&end| end >= length) {
            self.at += end;
            return Ok(TokenKind::Duration);
        }
        let start = self.at;
        self.at += length;
        let text = self.text.get(start..self.at).unwrap_or_default();
        if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
            return Ok(TokenKind::Boolean);
        }
        Ok(Keyword::parse(text).map_or(TokenKind::Ident, TokenKind::Keyword))
    }

    /// Whether a UUID stands here. Once two of its dashes are there, anything else is an error.
    fn uuid_here(&self) -> Result<bool, SyntaxError> {
        const DASHES: [usize; 4] = [8, 13, 18, 23];
        let rest = self.rest();
        for index in 0..UUID_BYTES {
            let fits = rest.get(index).is_some_and(|byte| match byte {
                b'-' => DASHES.contains(&index),
                hex => hex.is_ascii_hexdigit() && !DASHES.contains(&index),
            });
            if !fits && index > DASHES[1] {
                return Err(self.mismatched(self.at + index, "set null"));
            }
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn symbol(&mut self) -> Result<TokenKind, SyntaxError> {
        let (kind, length) = match (self.byte(0), self.byte(1)) {
            (b'<', b'=') => (TokenKind::Le, 2),
            (b'>', b'=') => (TokenKind::Ge, 2),
            (b'!', b'=') => (TokenKind::Ne, 2),
            (b'+', b'=') => (TokenKind::PlusEq, 2),
            (b'.', b'.') => (TokenKind::Range, 2),
            (b'!', _) => return Err(self.mismatched(self.at + 1, "'='")),
            (b'(', _) => (TokenKind::LeftParen, 1),
            (b')', _) => (TokenKind::RightParen, 1),
            (b'[', _) => (TokenKind::LeftBracket, 1),
            (b']', _) => (TokenKind::RightBracket, 1),
            (b'{', _) => (TokenKind::LeftBrace, 1),
            (b'}', _) => (TokenKind::RightBrace, 1),
            (b',', _) => (TokenKind::Comma, 1),
            (b';', _) => (TokenKind::Semicolon, 1),
            (b':', _) => (TokenKind::Colon, 1),
            (b'.', _) => (TokenKind::Dot, 1),
            (b'?', _) => (TokenKind::Question, 1),
            (b'*', _) => (TokenKind::Star, 1),
            (b'/', _) => (TokenKind::Slash, 1),
            (b'%', _) => (TokenKind::Percent, 1),
            (b'+', _) => (TokenKind::Plus, 1),
            (b'=', _) => (TokenKind::Eq, 1),
            (b'<', _) => (TokenKind::Lt, 1),
            (b'>', _) => (TokenKind::Gt, 1),
            _ => {
                let c = self.text.get(self.at..).and_then(|rest| rest.chars().next());
                return Err(SyntaxError::at(
                    Position::of(self.text, self.at),
                    format!("no viable alternative at character '{}'", c.unwrap_or_default()),
                ));
            }
        };
        self.at += length;
        Ok(kind)
    }
}

/// Without branches, so that many bytes are tested at once.
fn is_blank(byte: u8) -> bool {
    (byte == b' ') | (byte == b'\t') | (byte == b'\n') | (byte == b'\r')
}

/// An offset as tokens keep it.
fn offset(at: usize) -> u32 {
    u32::try_from(at).expect("tokenize refuses texts longer than TEXT_BYTES_MAX")
}

/// How many bytes from `at` on satisfy the test.
fn run_length(bytes: &[u8], at: usize, test: fn(&u8) -> bool) -> usize {
    bytes.get(at..).unwrap_or_default().iter().take_while(|byte| test(byte)).count()
}

/// The length of the identifier at `at`, whose first byte must be a letter.
fn word_length(bytes: &[u8], at: usize) -> usize {
    if bytes.get(at).is_some_and(u8::is_ascii_alphabetic) {
        run_length(bytes, at, |byte| byte.is_ascii_alphanumeric() || *byte == b'_')
    } else {
        0
    }
}

/// The end of a float whose digits end at `digits`; `digits` itself if it is an integer. The dots of a
/// range are not the number's: `1..2` is an integer and a range, `1...2` the float `1.` and a range.
fn float_end(bytes: &[u8], digits: usize) -> usize {
    let dots = run_length(bytes, digits, |byte| *byte == b'.');
    let mantissa = match dots {
        1 => digits + 1 + run_length(bytes, digits + 1, u8::is_ascii_digit),
        0 => digits,
        2 => return digits,
        _ => return digits + 1,
    };
    if !matches!(bytes.get(mantissa), Some(b'e' | b'E')) {
        return mantissa;
    }
    let sign = usize::from(matches!(bytes.get(mantissa + 1), Some(b'+' | b'-')));
    let exponent = run_length(bytes, mantissa + 1 + sign, u8::is_ascii_digit);
    if exponent > 0 { mantissa + 1 + sign + exponent } else { mantissa }
}

/// The end of a duration such as `1y2mo3d` that starts at `at`.
fn unit_duration(bytes: &[u8], at: usize) -> Option<usize> {
    const UNITS: [&[u8]; 11] = [b"mo", b"ms", b"us", b"\xc2\xb5s", b"ns", b"y", b"w", b"d", b"h", b"m", b"s"];
    let mut end = None;
    let mut at = at;
    loop {
        let digits = run_length(bytes, at, u8::is_ascii_digit);
        let unit_at = at + digits;
        let unit = UNITS
            .iter()
            .find(|unit| bytes.get(unit_at..unit_at + unit.len()).is_some_and(|text| text.eq_ignore_ascii_case(unit)));
        match unit {
            Some(unit) if digits > 0 => at = unit_at + unit.len(),
            _ => return end,
        }
        end = Some(at);
    }
}

/// The end of an ISO 8601 duration whose `P` stands at `at`: `P1Y2M3DT4H5M6S`, `P3W` or
/// `P0001-02-03T04:05:06`.
fn iso_duration(bytes: &[u8], at: usize) -> Option<usize> {
    if bytes.get(at) != Some(&b'P') {
        return None;
    }
    let body = at + 1;
    if let Some(end) = digit_pattern(bytes, body, b"####-##-##T##:##:##") {
        return Some(end);
    }
    if let Some(end) = designators(bytes, body, b"W") {
        return Some(end);
    }
    let period = designators(bytes, body, b"YMD");
    let time_at = period.unwrap_or(body);
    let time = if bytes.get(time_at) == Some(&b'T') { designators(bytes, time_at + 1, b"HMS") } else { None };
    time.or(period)
}

/// The end of digits, each run closed by a letter of `letters`, in their order; at least one.
fn designators(bytes: &[u8], at: usize, letters: &[u8]) -> Option<usize> {
    let mut end = None;
    let mut at = at;
    for letter in letters {
        let digits = run_length(bytes, at, u8::is_ascii_digit);
        if digits > 0 && bytes.get(at + digits) == Some(letter) {
            at += digits + 1;
            end = Some(at);
        }
    }
    end
}

/// The end of a text in which `#` stands for a digit and anything else for itself.
fn digit_pattern(bytes: &[u8], at: usize, pattern: &[u8]) -> Option<usize> {
    let text = bytes.get(at..at + pattern.len())?;
    let fits = text.iter().zip(pattern).all(|(byte, expected)| match expected {
        b'#' => byte.is_ascii_digit(),
        other => byte == other,
    });
    fits.then_some(at + pattern.len())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::TokenKind::*;
    use super::*;
    use proptest::prelude::*;

    /// The kinds and texts of all tokens but the last.
    fn lex(text: &str) -> Vec<(TokenKind, &str)> {
        let mut tokens: Vec<_> = tokenize(text)
            .unwrap()
            .iter()
            .map(|token| {
                let range = token.start as usize..token.end as usize;
                (token.kind, &text[range])
            })
            .collect();
        assert_eq!(tokens.pop(), Some((End, "")));
        tokens
    }

    fn check_one(text: &str, kind: TokenKind) {
        assert_eq!(lex(text), [(kind, text)], "{text}");
    }

    fn check_kinds(text: &str, kinds: &[TokenKind]) {
        let found: Vec<_> = lex(text).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(found, kinds, "{text}");
    }

    fn check_error(text: &str, message: &str) {
        assert_eq!(tokenize(text).unwrap_err().to_string(), message, "{text}");
    }

    #[test]
    fn words() {
        check_one("select", Keyword(crate::cql::keyword::Keyword::Select));
        check_one("SeLeCt", Keyword(crate::cql::keyword::Keyword::Select));
        check_one("selected", Ident);
        check_one("a_1", Ident);
        check_one("TRUE", Boolean);
        check_one("truex", Ident);
        check_one("nan", Keyword(crate::cql::keyword::Keyword::NaN));
        check_one("deadbeef", Ident);
    }

    #[test]
    fn quotes() {
        check_one("''", String);
        check_one("'it''s'", String);
        check_one("''''", String);
        check_one("'two\nlines'", String);
        check_one("$$it's $5$$", String);
        check_one("$$$$", String);
        check_one("\"a\"\"b\"", QuotedName);
        check_one("\"\"\"\"", QuotedName);
        check_one("\"\"", EmptyQuotedName);
        check_kinds("'a''b' 'c'", &[String, String]);
    }

    #[test]
    fn numbers() {
        for text in ["0", "007", "-1", "340282366920938463463374607431768211456"] {
            check_one(text, Integer);
        }
        for text in ["1.0", "5.", "-0.0", "1e3", "1E-3", "-12.50e+2", "1.e5"] {
            check_one(text, Float);
        }
        for text in ["0x", "0xAbCd", "0XFF", "0x1"] {
            check_one(text, Hex);
        }
        check_one("-NaN", NegativeNan);
        check_one("-infinity", NegativeInfinity);
        check_kinds("- 1", &[Minus, Integer]);
        check_kinds("v-1", &[Ident, Integer]);
        check_kinds("-v", &[Minus, Ident]);
        check_kinds("-nanx", &[Minus, Ident]);
        check_kinds(".5", &[Dot, Integer]);
        check_kinds("0xgg", &[Hex, Ident]);
        check_kinds("1or", &[Integer, Keyword(crate::cql::keyword::Keyword::Or)]);
    }

    #[test]
    fn ranges_take_their_dots_from_numbers() {
        check_kinds("3..5", &[Integer, Range, Integer]);
        check_kinds("3...5", &[Float, Range, Integer]);
        check_kinds("..4", &[Range, Integer]);
        check_kinds("1.5..2", &[Float, Range, Integer]);
    }

    #[test]
    fn durations() {
        for text in [
            "1y2mo3w4d5h6m7s8ms9us10ns",
            "-1d",
            "1µs",
            "1D2H",
            "P1Y2M3DT4H5M6S",
            "-P1Y",
            "P3W",
            "P0001-02-03T04:05:06",
            "PT0S",
            "P1Y3D",
            "PT1H2S",
        ] {
            check_one(text, Duration);
        }
        check_kinds("1d-1h", &[Duration, Duration]);
        check_kinds("PT1.5S", &[Ident, Dot, Duration]);
        check_kinds("P", &[Ident]);
        check_kinds("P1Yx", &[Ident]);
        check_kinds("1d2", &[Duration, Integer]);
    }

    #[test]
    fn uuids() {
        check_one("123e4567-e89b-12d3-a456-426614174000", Uuid);
        check_one("ABCDEF12-e89b-12d3-a456-426614174000", Uuid);
        check_kinds("123e4567", &[Float]);
        check_kinds("abcdef12-v", &[Ident, Minus, Ident]);
        check_error("123e4567-e89b-42d3-a456-42661417400)", "line 1:35 mismatched character ')' expecting set null");
        check_error("CREATE TABLE 1a (", "line 1:15 mismatched character ' ' expecting set null");
    }

    #[test]
    fn blanks_and_comments() {
        check_kinds("a -- x\nb // y\rc /* ; -- */ d\t\r\n", &[Ident; 4]);
        check_kinds("k=1--1\n;", &[Ident, Eq, Integer, Semicolon]);
        check_kinds("", &[]);
        check_error("a -- no line break", "line 1:18 mismatched character '<EOF>' expecting set null");
        check_error("/* open", "line 1:7 mismatched character '<EOF>' expecting '*'");
    }

    #[test]
    fn symbols() {
        check_kinds(
            "()[]{},;:.?*/%+ +=- -==!=<<=>>=",
            &[
                LeftParen,
                RightParen,
                LeftBracket,
                RightBracket,
                LeftBrace,
                RightBrace,
                Comma,
                Semicolon,
                Colon,
                Dot,
                Question,
                Star,
                Slash,
                Percent,
                Plus,
                PlusEq,
                Minus,
                MinusEq,
                Eq,
                Ne,
                Lt,
                Le,
                Gt,
                Ge,
            ],
        );
    }

    #[test]
    fn errors_name_their_place() {
        check_error("SELECT 'unclosed", "line 1:16 mismatched character '<EOF>' expecting '''");
        check_error("SELECT\n \"unclosed", "line 2:10 mismatched character '<EOF>' expecting '\"'");
        check_error("CREATE TABLE _a", "line 1:13 no viable alternative at character '_'");
        check_error("CREATE TABLE é", "line 1:13 no viable alternative at character 'é'");
        check_error("a \0", "line 1:2 no viable alternative at character '\0'");
        check_error("a ! b", "line 1:3 mismatched character ' ' expecting '='");
        check_error("$$a", "line 1:3 mismatched character '<EOF>' expecting '$'");
    }

    #[test]
    fn runs_of_blanks_end_where_they_end() {
        for length in 0..200 {
            let blanks = " \t\r\n".repeat(length);
            check_kinds(&format!("{blanks}a{blanks}/*{blanks}*/{blanks}b--{blanks}\n{blanks}"), &[Ident, Ident]);
        }
    }

    #[test]
    fn a_flood_of_tokens_is_refused() {
        let error = tokenize(&"(".repeat(TOKENS_MAX + 1)).unwrap_err();
        assert!(error.message.contains("more than 1048576 tokens"));
    }

    proptest! {
        #[test]
        fn any_text_lexes_or_is_refused(text in "\\PC*") {
            let _ = tokenize(&text);
        }

        /// Tokens lie in order inside the text, on character boundaries, with only blanks between them.
        #[test]
        fn tokens_cover_the_text(text in "[-a-zA-Z0-9µ .'\"$/*(){}<>=!;:?+%\n]{0,40}") {
            if let Ok(tokens) = tokenize(&text) {
                let mut at = 0;
                for token in tokens {
                    let (start, end) = (token.start as usize, token.end as usize);
                    prop_assert!(at <= start && start <= end);
                    prop_assert!(text.get(start..end).is_some());
                    at = end;
                }
                prop_assert_eq!(at, text.len());
            }
        }
    }
}
