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

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, ident, named, qualified, statement};
    use super::*;
    use crate::cql::ast::{FunctionName, Statement};

    fn check(text: &str, target: DescribeTarget) {
        for (suffix, with_internals) in [("", false), (" WITH INTERNALS", true), (" ;", false)] {
            let cql = format!("DESCRIBE {text}{suffix}");
            let target = target.clone();
            let expected = Statement::Describe(Describe { target, with_internals });
            assert_eq!(statement(&cql), expected, "{cql}");
        }
    }

    #[test]
    fn what_has_no_name() {
        check("CLUSTER", DescribeTarget::Cluster);
        check("SCHEMA", DescribeTarget::Schema { full: false });
        check("FULL SCHEMA", DescribeTarget::Schema { full: true });
        check("keyspaces", DescribeTarget::Keyspaces);
        check("TABLES", DescribeTarget::Tables);
        check("COLUMNFAMILIES", DescribeTarget::Tables);
        check("TYPES", DescribeTarget::Types);
        check("FUNCTIONS", DescribeTarget::Functions);
        check("AGGREGATES", DescribeTarget::Aggregates);
    }

    #[test]
    fn keyspaces() {
        let keyspace = |name: Option<&str>, only| DescribeTarget::Keyspace { name: name.map(ident), only };
        check("KEYSPACE", keyspace(None, false));
        check("KEYSPACE \"Ks\"", keyspace(Some("Ks"), false));
        check("ONLY KEYSPACE ks", keyspace(Some("ks"), true));
        check("ONLY KEYSPACE", keyspace(None, true));
    }

    #[test]
    fn what_has_a_kind_and_a_name() {
        let function = |name: &str| FunctionName { keyspace: None, name: ident(name) };
        check("TABLE T", DescribeTarget::Table(named("t")));
        check("COLUMNFAMILY ks.t", DescribeTarget::Table(qualified("ks", "t")));
        check("INDEX i", DescribeTarget::Index(named("i")));
        check("MATERIALIZED VIEW ks.v", DescribeTarget::MaterializedView(qualified("ks", "v")));
        check("TYPE ks.ty", DescribeTarget::Type(qualified("ks", "ty")));
        check("FUNCTION f", DescribeTarget::Function(function("f")));
        check("AGGREGATE a", DescribeTarget::Aggregate(function("a")));
    }

    #[test]
    fn what_has_only_a_name() {
        check("t", DescribeTarget::Named(named("t")));
        check("ks.\"T\"", DescribeTarget::Named(qualified("ks", "T")));
        check("type", DescribeTarget::Named(named("type")));
        check("only", DescribeTarget::Named(named("only")));
        check("users", DescribeTarget::Named(named("users")));
    }

    #[test]
    fn desc_is_short_for_describe() {
        assert_eq!(statement("DESC TABLES"), statement("describe tables"));
    }

    #[test]
    fn what_describes_nothing() {
        check_error("DESCRIBE", "line 0:-1 no viable alternative at input '<EOF>'");
        check_error("DESCRIBE TABLE", "line 0:-1 no viable alternative at input '<EOF>'");
        check_error("DESCRIBE FULL", "line 0:-1 mismatched input '<EOF>' expecting K_SCHEMA");
        check_error("DESCRIBE t WITH x", "line 1:16 mismatched input 'x' expecting K_INTERNALS");
    }
}
