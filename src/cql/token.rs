//! Tokens of CQL.

use super::keyword::{Class, Keyword};

/// One token: its kind and the bytes of the text it spans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    pub kind: TokenKind,
    pub start: u32,
    pub end: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenKind {
    Keyword(Keyword),
    Ident,
    /// `"name"`
    QuotedName,
    /// `""`, which only DML accepts as a column.
    EmptyQuotedName,
    /// `'text'` or `$$text$$`
    String,
    /// With its minus, if one stands directly before it.
    Integer,
    /// With its minus, if one stands directly before it.
    Float,
    Boolean,
    Duration,
    Uuid,
    Hex,
    /// `-NaN`; without minus it is a keyword.
    NegativeNan,
    /// `-Infinity`; without minus it is a keyword.
    NegativeInfinity,
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
    /// `..`
    Range,
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
    /// The end of the text.
    End,
}

impl TokenKind {
    /// Whether it can name a table or column: an identifier, quoted or not, or an unreserved keyword.
    pub fn is_name(self) -> bool {
        match self {
            TokenKind::Ident | TokenKind::QuotedName => true,
            TokenKind::Keyword(keyword) => keyword.class() != Class::Reserved,
            _ => false,
        }
    }

    /// Whether it is a constant by itself.
    pub fn is_constant(self) -> bool {
        matches!(
            self,
            TokenKind::String
                | TokenKind::Integer
                | TokenKind::Float
                | TokenKind::Boolean
                | TokenKind::Duration
                | TokenKind::Uuid
                | TokenKind::Hex
                | TokenKind::NegativeNan
                | TokenKind::NegativeInfinity
                | TokenKind::Keyword(Keyword::NaN | Keyword::Infinity)
        )
    }

    /// The name that error messages give to an expected token.
    pub fn expected_name(self) -> String {
        let symbol = match self {
            TokenKind::Keyword(Keyword::Table) => return "K_COLUMNFAMILY".to_owned(),
            TokenKind::Keyword(keyword) => {
                return format!("K_{}", keyword.text().to_ascii_uppercase());
            }
            TokenKind::Ident => return "IDENT".to_owned(),
            TokenKind::QuotedName | TokenKind::EmptyQuotedName => return "QUOTED_NAME".to_owned(),
            TokenKind::String => return "STRING_LITERAL".to_owned(),
            TokenKind::Integer => return "INTEGER".to_owned(),
            TokenKind::Float => return "FLOAT".to_owned(),
            TokenKind::Boolean => return "BOOLEAN".to_owned(),
            TokenKind::Duration => return "DURATION".to_owned(),
            TokenKind::Uuid => return "UUID".to_owned(),
            TokenKind::Hex => return "HEXNUMBER".to_owned(),
            TokenKind::NegativeNan => return "K_NEGATIVE_NAN".to_owned(),
            TokenKind::NegativeInfinity => return "K_NEGATIVE_INFINITY".to_owned(),
            TokenKind::Range => return "RANGE".to_owned(),
            TokenKind::Question => return "QMARK".to_owned(),
            TokenKind::End => return "EOF".to_owned(),
            TokenKind::LeftParen => "(",
            TokenKind::RightParen => ")",
            TokenKind::LeftBracket => "[",
            TokenKind::RightBracket => "]",
            TokenKind::LeftBrace => "{",
            TokenKind::RightBrace => "}",
            TokenKind::Comma => ",",
            TokenKind::Semicolon => ";",
            TokenKind::Colon => ":",
            TokenKind::Dot => ".",
            TokenKind::Star => "*",
            TokenKind::Slash => "/",
            TokenKind::Percent => "%",
            TokenKind::Plus => "+",
            TokenKind::PlusEq => "+=",
            TokenKind::Minus => "-",
            TokenKind::MinusEq => "-=",
            TokenKind::Eq => "=",
            TokenKind::Ne => "!=",
            TokenKind::Lt => "<",
            TokenKind::Le => "<=",
            TokenKind::Gt => ">",
            TokenKind::Ge => ">=",
        };
        format!("'{symbol}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_name_something() {
        assert!(TokenKind::Ident.is_name());
        assert!(TokenKind::Keyword(Keyword::Key).is_name());
        assert!(TokenKind::Keyword(Keyword::Int).is_name());
        assert!(!TokenKind::Keyword(Keyword::Select).is_name());
        assert!(!TokenKind::EmptyQuotedName.is_name());
        assert!(!TokenKind::String.is_name());
    }

    #[test]
    fn expected_tokens_are_named_as_antlr_names_them() {
        assert_eq!(TokenKind::Keyword(Keyword::From).expected_name(), "K_FROM");
        assert_eq!(TokenKind::Keyword(Keyword::Table).expected_name(), "K_COLUMNFAMILY");
        assert_eq!(TokenKind::RightParen.expected_name(), "')'");
        assert_eq!(TokenKind::End.expected_name(), "EOF");
    }
}
