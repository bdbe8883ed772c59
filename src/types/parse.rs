//! Reads the CQL spelling of a type, as the system tables store it: `frozen<map<text, list<int>>>`.

use super::cql_type::{CqlType, UdtType};
use super::error::ValueError;
use super::marshal;

/// How deep types may nest before they are refused.
pub const TYPE_DEPTH_MAX: usize = 64;

/// Reads a type; `udt` finds the user-defined types of the keyspace by (unquoted) name.
pub fn parse_cql_type(text: &str, udt: &dyn Fn(&str) -> Option<UdtType>) -> Result<CqlType, ValueError> {
    let mut parser = Parser { text, rest: text, udt };
    let ty = parser.ty(0)?;
    parser.skip_space();
    if parser.rest.is_empty() { Ok(ty) } else { Err(parser.error()) }
}

struct Parser<'a> {
    text: &'a str,
    rest: &'a str,
    udt: &'a dyn Fn(&str) -> Option<UdtType>,
}

impl<'a> Parser<'a> {
    fn ty(&mut self, depth: usize) -> Result<CqlType, ValueError> {
        if depth > TYPE_DEPTH_MAX {
            return Err(self.error());
        }
        self.skip_space();
        if self.rest.starts_with('\'') {
            let class = self.quoted('\'')?;
            return marshal::parse_marshal_name(&class).or(Ok(CqlType::Custom(class)));
        }
        if self.rest.starts_with('"') {
            let name = self.quoted('"')?;
            return self.user_type(&name);
        }
        let word = self.word()?.to_owned();
        let lower = word.to_ascii_lowercase();
        if self.eat('<') {
            return self.parameterised(&lower, depth);
        }
        match CqlType::native(&lower) {
            Some(native) => Ok(native),
            None if lower == "empty" => Ok(CqlType::Empty),
            None => self.user_type(&lower),
        }
    }

    fn parameterised(&mut self, word: &str, depth: usize) -> Result<CqlType, ValueError> {
        let ty = match word {
            "list" => CqlType::list(self.ty(depth + 1)?),
            "set" => CqlType::set(self.ty(depth + 1)?),
            "frozen" => self.ty(depth + 1)?.freeze(),
            "map" => {
                let key = self.ty(depth + 1)?;
                self.expect(',')?;
                CqlType::map(key, self.ty(depth + 1)?)
            }
            "tuple" => {
                let mut elements = vec![self.ty(depth + 1)?];
                while self.eat(',') {
                    elements.push(self.ty(depth + 1)?);
                }
                CqlType::tuple(elements)
            }
            "vector" => {
                let element = self.ty(depth + 1)?;
                self.expect(',')?;
                self.skip_space();
                let dimensions = self.word()?.parse().map_err(|_| self.error())?;
                if dimensions == 0 {
                    return Err(self.error());
                }
                CqlType::vector(element, dimensions)
            }
            _ => return Err(self.error()),
        };
        self.expect('>')?;
        Ok(ty)
    }

    fn user_type(&self, name: &str) -> Result<CqlType, ValueError> {
        match (self.udt)(name) {
            Some(udt) => Ok(CqlType::Udt(Box::new(udt))),
            None => Err(ValueError::UnknownType(format!("Unknown type {name}"))),
        }
    }

    fn word(&mut self) -> Result<&'a str, ValueError> {
        let end = self.rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        if word.is_empty() {
            return Err(self.error());
        }
        self.rest = rest;
        Ok(word)
    }

    /// Text between two `quote`s; a doubled quote stands for one.
    fn quoted(&mut self, quote: char) -> Result<String, ValueError> {
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1).peekable();
        while let Some((at, c)) = chars.next() {
            if c != quote {
                out.push(c);
            } else if chars.peek().is_some_and(|&(_, next)| next == quote) {
                out.push(quote);
                chars.next();
            } else {
                self.rest = self.rest.get(at + quote.len_utf8()..).unwrap_or_default();
                return Ok(out);
            }
        }
        Err(self.error())
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn eat(&mut self, want: char) -> bool {
        self.skip_space();
        match self.rest.strip_prefix(want) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, want: char) -> Result<(), ValueError> {
        if self.eat(want) { Ok(()) } else { Err(self.error()) }
    }

    fn error(&self) -> ValueError {
        ValueError::UnknownType(format!("Invalid type '{}'", self.text))
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use proptest::prelude::*;

    fn udts(name: &str) -> Option<UdtType> {
        ["addr", "Odd \"name"].contains(&name).then(|| UdtType {
            keyspace: "ks".into(),
            name: name.into(),
            fields: vec![("a".into(), CqlType::Int), ("l".into(), CqlType::list(CqlType::Text))],
        })
    }

    #[test]
    fn stored_spellings_come_back() {
        for text in [
            "int",
            "text",
            "frozen<list<int>>",
            "frozen<list<frozen<set<int>>>>",
            "list<frozen<tuple<int, text>>>",
            "frozen<tuple<frozen<list<int>>>>",
            "map<text, frozen<addr>>",
            "addr",
            "\"Odd \"\"name\"",
            "vector<float, 3>",
            "map<duration, vector<list<int>, 2>>",
            "'org.example.Unknown'",
            "empty",
        ] {
            assert_eq!(parse_cql_type(text, &udts).unwrap().to_string(), text);
        }
    }

    #[test]
    fn spellings_are_normalised() {
        for (text, expected) in [
            ("varchar", "text"),
            ("  LIST < Int >", "list<int>"),
            ("tuple<list<int>>", "frozen<tuple<frozen<list<int>>>>"),
            ("frozen<list<list<int>>>", "frozen<list<frozen<list<int>>>>"),
            ("frozen<frozen<set<int>>>", "frozen<set<int>>"),
            ("frozen<vector<int,2>>", "vector<int, 2>"),
            ("'org.apache.cassandra.db.marshal.Int32Type'", "int"),
        ] {
            assert_eq!(parse_cql_type(text, &udts).unwrap().to_string(), expected);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let deep = format!("{}int{}", "list<".repeat(100), ">".repeat(100));
        for text in [
            "",
            "nosuch",
            "list<",
            "list<>",
            "list<int",
            "map<int>",
            "vector<int>",
            "vector<int, 0>",
            "int int",
            "'x",
            &deep,
        ] {
            assert!(parse_cql_type(text, &udts).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_a_type_or_an_error(text in "[a-z<>,'\" 0-9é]{0,40}") {
            let _ = parse_cql_type(&text, &udts);
        }
    }
}
