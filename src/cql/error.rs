//! The one error of this layer: text that is not CQL.

use std::fmt;

/// Text that is not a CQL statement. `Display` gives the whole message a client sees (code 0x2000).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct SyntaxError {
    /// Where; none for rules that the grammar cannot state, whose message stands alone as in Cassandra.
    pub position: Option<Position>,
    pub message: String,
}

/// A place in the text, printed as ANTLR prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// Line from 1; column from 0, in UTF-16 units.
    At { line: usize, column: usize },
    /// The end of the text, `0:-1`.
    End,
    /// A byte offset whose line nobody has asked for yet: the parser tries alternatives, and an error that it drops must
    /// not cost a walk over the text. `parse` gives none of these.
    Offset(usize),
}

impl Position {
    /// The position of a byte offset (a character boundary) in text.
    pub fn of(text: &str, offset: usize) -> Position {
        let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
        let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let (lines, column) = before.split_at(line_start);
        let line = 1 + lines.iter().filter(|byte| **byte == b'\n').count();
        // A character's first byte counts one, that of four bytes (two UTF-16 units) one more.
        let starts = column.iter().filter(|byte| **byte & 0xc0 != 0x80).count();
        let pairs = column.iter().filter(|byte| **byte >= 0xf0).count();
        Position::At { line, column: starts + pairs }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Position::At { line, column } => write!(f, "{line}:{column}"),
            Position::End => f.write_str("0:-1"),
            Position::Offset(offset) => write!(f, "byte {offset}"),
        }
    }
}

impl SyntaxError {
    /// An error at a place in the text.
    pub fn at(position: Position, message: impl Into<String>) -> SyntaxError {
        SyntaxError { position: Some(position), message: message.into() }
    }

    /// The same with its line and column looked up in the text it is of.
    pub(super) fn located(mut self, text: &str) -> SyntaxError {
        if let Some(Position::Offset(offset)) = self.position {
            self.position = Some(Position::of(text, offset));
        }
        self
    }

    /// An error whose message needs no place.
    pub fn rule(message: impl Into<String>) -> SyntaxError {
        SyntaxError { position: None, message: message.into() }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(position) = self.position {
            write!(f, "line {position} ")?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_count_lines_from_one_and_utf16_columns_from_zero() {
        let text = "ab\ncé😀x";
        assert_eq!(Position::of(text, 0).to_string(), "1:0");
        assert_eq!(Position::of(text, 2).to_string(), "1:2");
        assert_eq!(Position::of(text, 3).to_string(), "2:0");
        assert_eq!(Position::of(text, text.len()).to_string(), "2:5");
        assert_eq!(Position::End.to_string(), "0:-1");
    }

    #[test]
    fn messages_carry_their_place_when_they_have_one() {
        let placed = SyntaxError::at(Position::End, "no viable alternative at input '<EOF>'");
        assert_eq!(placed.to_string(), "line 0:-1 no viable alternative at input '<EOF>'");
        assert_eq!(SyntaxError::rule("plain").to_string(), "plain");
    }
}
