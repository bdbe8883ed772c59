//! DESCRIBE.

use super::{Parse, Parser};
use crate::cql::ast::{Describe, DescribeTarget};
use crate::cql::keyword::Keyword;
use crate::cql::token::TokenKind;

impl Parser<'_> {
    pub(super) fn describe(&mut self) -> Parse<Describe> {
        self.bump();
        let target = self.describe_target()?;
        let with_internals = self.eat_keyword(Keyword::With);
        if with_internals {
            self.expect_keyword(Keyword::Internals)?;
        }
        Ok(Describe { target, with_internals })
    }

    fn describe_target(&mut self) -> Parse<DescribeTarget> {
        let Some(keyword) = self.peek_keyword() else {
            return Ok(DescribeTarget::Named(self.table_name()?));
        };
        if let Some(target) = described_whole(keyword) {
            self.bump();
            return Ok(target);
        }
        // TYPE, FUNCTION, AGGREGATE and ONLY may also name what is described.
        let names_follow = self.peek_at(1).is_name();
        match keyword {
            Keyword::Full => {
                self.bump();
                self.expect_keyword(Keyword::Schema)?;
                Ok(DescribeTarget::Schema { full: true })
            }
            Keyword::Only if self.keyword_at(1) == Some(Keyword::Keyspace) => {
                self.bump();
                self.describe_keyspace(true)
            }
            Keyword::Keyspace => self.describe_keyspace(false),
            Keyword::Table | Keyword::ColumnFamily => {
                self.bump();
                Ok(DescribeTarget::Table(self.table_name()?))
            }
            Keyword::Index => {
                self.bump();
                Ok(DescribeTarget::Index(self.table_name()?))
            }
            Keyword::Materialized => {
                self.bump();
                self.expect_keyword(Keyword::View)?;
                Ok(DescribeTarget::MaterializedView(self.table_name()?))
            }
            Keyword::Type if names_follow => {
                self.bump();
                Ok(DescribeTarget::Type(self.user_type_name()?))
            }
            Keyword::Function if names_follow => {
                self.bump();
                Ok(DescribeTarget::Function(self.function_name()?))
            }
            Keyword::Aggregate if names_follow => {
                self.bump();
                Ok(DescribeTarget::Aggregate(self.function_name()?))
            }
            _ => Ok(DescribeTarget::Named(self.table_name()?)),
        }
    }

    fn describe_keyspace(&mut self, only: bool) -> Parse<DescribeTarget> {
        self.expect_keyword(Keyword::Keyspace)?;
        let mut name = None;
        if self.peek().is_name() || self.peek() == TokenKind::Question {
            name = Some(self.keyspace_name()?);
        }
        Ok(DescribeTarget::Keyspace { name, only })
    }
}

/// What one keyword describes, with no name after it.
fn described_whole(keyword: Keyword) -> Option<DescribeTarget> {
    match keyword {
        Keyword::Cluster => Some(DescribeTarget::Cluster),
        Keyword::Schema => Some(DescribeTarget::Schema { full: false }),
        Keyword::Keyspaces => Some(DescribeTarget::Keyspaces),
        Keyword::Tables | Keyword::ColumnFamilies => Some(DescribeTarget::Tables),
        Keyword::Types => Some(DescribeTarget::Types),
        Keyword::Functions => Some(DescribeTarget::Functions),
        Keyword::Aggregates => Some(DescribeTarget::Aggregates),
        _ => None,
    }
}
