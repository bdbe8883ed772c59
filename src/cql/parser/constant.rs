//! Constants.

use super::{Parse, Parser};
use crate::cql::ast::{Literal, LiteralKind};
use crate::cql::keyword::Keyword;
use crate::cql::token::TokenKind;

impl Parser<'_> {
    /// A constant, if one is next.
    pub(super) fn constant(&mut self) -> Parse<Option<Literal>> {
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
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, literal, parsed, statement};
    use super::*;
    use crate::cql::ast::{Statement, Term};

    fn check(text: &str, kind: LiteralKind, value: &str) {
        let Statement::Insert(insert) = statement(&format!("INSERT INTO t (k) VALUES ({text})")) else {
            panic!("{text}");
        };
        assert_eq!(insert.values, [literal(kind, value)], "{text}");
    }

    #[test]
    fn constants_keep_their_text() {
        check("'it''s'", LiteralKind::String, "it's");
        check("''", LiteralKind::String, "");
        check("$$it's $5$$", LiteralKind::String, "it's $5");
        check("$$a''b$$", LiteralKind::String, "a''b");
        check("007", LiteralKind::Integer, "007");
        check("-5", LiteralKind::Integer, "-5");
        check("1.50", LiteralKind::Float, "1.50");
        check("5.", LiteralKind::Float, "5.");
        check("True", LiteralKind::Boolean, "True");
        check("0xAbCd", LiteralKind::Hex, "0xAbCd");
        check("1h30m", LiteralKind::Duration, "1h30m");
        check("-P1Y", LiteralKind::Duration, "-P1Y");
        let uuid = "123e4567-e89b-12d3-a456-426614174000";
        check(uuid, LiteralKind::Uuid, uuid);
    }

    #[test]
    fn floats_that_are_no_numbers_have_one_spelling() {
        check("nan", LiteralKind::Float, "NaN");
        check("-NAN", LiteralKind::Float, "NaN");
        check("INFINITY", LiteralKind::Float, "Infinity");
        check("-infinity", LiteralKind::Float, "-Infinity");
        check_error("INSERT INTO t (k) VALUES (+Infinity)", "line 1:26 no viable alternative at input '+'");
    }

    #[test]
    fn null_is_no_constant() {
        let Statement::Insert(insert) = statement("INSERT INTO t (k) VALUES (NULL)") else {
            panic!("an INSERT");
        };
        assert_eq!(insert.values, [Term::Null]);
    }

    #[test]
    fn floats_need_a_finite_double_and_a_small_exponent() {
        for (number, reason) in [
            (
                "1e400",
                "Character I is neither a decimal digit number, decimal point, nor \"e\" notation exponential mark.",
            ),
            ("1e2147483648", "Exponent overflow."),
            ("1e12345678901", "Too many nonzero exponent digits."),
        ] {
            let cql = format!("INSERT INTO t (k) VALUES ({number})");
            check_error(&cql, &format!("Failed parsing statement: [{cql}] reason: NumberFormatException {reason}"));
        }
        for number in ["1e-400", "1e+2", "5.", "-0.0", "1e00000000000000002"] {
            parsed(&format!("INSERT INTO t (k) VALUES ({number})"));
        }
    }
}
