//! SELECT.

use super::term::starts_term;
use super::{Parse, Parser};
use crate::cql::ast::{OrderBy, OrderExpression, Select, Selection, Selector, SortOrder, Term};
use crate::cql::keyword::Keyword;
use crate::cql::token::TokenKind;

impl Parser<'_> {
    pub(super) fn select(&mut self) -> Parse<Select> {
        self.expect_keyword(Keyword::Select)?;
        let json = self.eat_modifier(Keyword::Json);
        let distinct = self.eat_modifier(Keyword::Distinct);
        let selection = self.selection()?;
        self.expect_keyword(Keyword::From)?;
        let table = self.table_name()?;
        let mut relations = Vec::new();
        if self.eat_keyword(Keyword::Where) {
            relations = self.relations()?;
        }
        let mut group_by = Vec::new();
        if self.eat_keyword(Keyword::Group) {
            self.expect_keyword(Keyword::By)?;
            group_by = self.separated(Self::selectable)?;
        }
        let mut order_by = Vec::new();
        if self.eat_keyword(Keyword::Order) {
            self.expect_keyword(Keyword::By)?;
            order_by = self.separated(Self::order_by)?;
        }
        let per_partition_limit = self.per_partition_limit()?;
        let mut limit = None;
        if self.eat_keyword(Keyword::Limit) {
            limit = Some(self.integer_or_marker()?);
        }
        let allow_filtering = self.eat_keyword(Keyword::Allow);
        if allow_filtering {
            self.expect_keyword(Keyword::Filtering)?;
        }
        Ok(Select {
            json,
            distinct,
            selection,
            table,
            relations,
            group_by,
            order_by,
            per_partition_limit,
            limit,
            allow_filtering,
        })
    }

    /// JSON or DISTINCT before selectors. Both may name columns too: then no selector can follow them.
    fn eat_modifier(&mut self, keyword: Keyword) -> bool {
        let next = self.peek_at(1);
        let selects = matches!(next, TokenKind::Star | TokenKind::Minus) || starts_term(next);
        selects && self.eat_keyword(keyword)
    }

    pub(super) fn selection(&mut self) -> Parse<Selection> {
        if self.eat(TokenKind::Star) {
            return Ok(Selection::All);
        }
        let selectors = self.separated(|parser| {
            let selectable = parser.selectable()?;
            let mut alias = None;
            if parser.eat_keyword(Keyword::As) {
                alias = Some(parser.ident()?);
            }
            Ok(Selector { selectable, alias })
        })?;
        Ok(Selection::Selectors(selectors))
    }

    fn order_by(&mut self) -> Parse<OrderBy> {
        let column = self.column()?;
        let expression = if self.eat_keyword(Keyword::Ann) {
            self.expect_keyword(Keyword::Of)?;
            let vector = self.term()?;
            OrderExpression::AnnOf { column, vector }
        } else {
            OrderExpression::Column(column)
        };
        let order = self.sort_order().unwrap_or(SortOrder::Ascending);
        Ok(OrderBy { expression, order })
    }

    /// ASC or DESC, if one is next.
    pub(super) fn sort_order(&mut self) -> Option<SortOrder> {
        if self.eat_keyword(Keyword::Asc) {
            Some(SortOrder::Ascending)
        } else if self.eat_keyword(Keyword::Desc) {
            Some(SortOrder::Descending)
        } else {
            None
        }
    }

    fn per_partition_limit(&mut self) -> Parse<Option<Term>> {
        if !self.eat_keyword(Keyword::Per) {
            return Ok(None);
        }
        self.expect_keyword(Keyword::Partition)?;
        self.expect_keyword(Keyword::Limit)?;
        Ok(Some(self.integer_or_marker()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, ident, int, named, qualified, statement};
    use super::*;
    use crate::cql::ast::{BindIndex, Relation, Selectable, Statement};

    fn select(cql: &str) -> Select {
        match statement(cql) {
            Statement::Select(select) => select,
            other => panic!("{other:?}"),
        }
    }

    fn column(name: &str) -> Selectable {
        Selectable::Column(ident(name))
    }

    fn selector(name: &str, alias: Option<&str>) -> Selector {
        Selector { selectable: column(name), alias: alias.map(ident) }
    }

    #[test]
    fn a_bare_select() {
        assert_eq!(
            select("SELECT * FROM ks.t"),
            Select {
                json: false,
                distinct: false,
                selection: Selection::All,
                table: qualified("ks", "t"),
                relations: vec![],
                group_by: vec![],
                order_by: vec![],
                per_partition_limit: None,
                limit: None,
                allow_filtering: false,
            }
        );
    }

    #[test]
    fn every_clause() {
        let found = select(
            "SELECT JSON DISTINCT a AS \"A\", b FROM t WHERE k = 1 GROUP BY k, f(c) \
             ORDER BY c DESC, d, e ASC PER PARTITION LIMIT ? LIMIT 2 ALLOW FILTERING",
        );
        assert!(found.json && found.distinct && found.allow_filtering);
        assert_eq!(found.selection, Selection::Selectors(vec![selector("a", Some("A")), selector("b", None)]));
        assert_eq!(found.table, named("t"));
        assert!(matches!(&found.relations[..], [Relation::Column { .. }]));
        assert_eq!(found.group_by.len(), 2);
        assert_eq!(found.group_by[0], column("k"));
        let orders: Vec<_> = found.order_by.iter().map(|by| by.order).collect();
        use SortOrder::{Ascending, Descending};
        assert_eq!(orders, [Descending, Ascending, Ascending]);
        assert_eq!(found.per_partition_limit, Some(Term::Marker(BindIndex(0))));
        assert_eq!(found.limit, Some(int("2")));
    }

    #[test]
    fn nearest_neighbours() {
        let found = select("SELECT * FROM t ORDER BY v ANN OF [1, 2] LIMIT 3");
        assert_eq!(
            found.order_by,
            [OrderBy {
                expression: OrderExpression::AnnOf { column: ident("v"), vector: Term::List(vec![int("1"), int("2")]) },
                order: SortOrder::Ascending,
            }]
        );
    }

    #[test]
    fn json_and_distinct_may_be_columns() {
        for (cql, json, distinct) in [
            ("SELECT json FROM t", false, false),
            ("SELECT json, distinct FROM t", false, false),
            ("SELECT json AS j FROM t", false, false),
            ("SELECT distinct FROM t", false, false),
            ("SELECT distinct.f FROM t", false, false),
            ("SELECT JSON json FROM t", true, false),
            ("SELECT JSON * FROM t", true, false),
            ("SELECT DISTINCT distinct FROM t", false, true),
            ("SELECT DISTINCT * FROM t", false, true),
            ("SELECT distinct - distinct FROM t", false, true),
            ("SELECT JSON DISTINCT (int) 1 FROM t", true, true),
        ] {
            let found = select(cql);
            assert_eq!((found.json, found.distinct), (json, distinct), "{cql}");
        }
    }

    #[test]
    fn aliases() {
        let found = select("SELECT k as K, (v) AS x, c AS ttl FROM t");
        let Selection::Selectors(selectors) = found.selection else {
            panic!("selectors");
        };
        let aliases: Vec<_> = selectors.into_iter().map(|selector| selector.alias).collect();
        assert_eq!(aliases, [Some(ident("k")), Some(ident("x")), Some(ident("ttl"))]);
    }

    #[test]
    fn clauses_have_an_order() {
        check_error("SELECT * FORM t", "line 1:9 mismatched input 'FORM' expecting K_FROM");
        check_error("SELECT FROM t", "line 1:7 no viable alternative at input 'FROM'");
        check_error("SELECT *, k FROM t", "line 1:8 mismatched input ',' expecting K_FROM");
        check_error("SELECT k, * FROM t", "line 1:10 no viable alternative at input '*'");
        check_error("SELECT k FROM t AS x", "line 1:16 mismatched input 'AS' expecting EOF");
        check_error("SELECT * FROM t LIMIT", "line 0:-1 no viable alternative at input '<EOF>'");
        check_error("SELECT * FROM t LIMIT 3 PER PARTITION LIMIT 2", "line 1:24 mismatched input 'PER' expecting EOF");
        check_error(
            "SELECT a FROM t WHERE k = 1 LIMIT 1 ORDER BY a",
            "line 1:36 mismatched input 'ORDER' expecting EOF",
        );
        check_error("SELECT * FROM t ALLOW", "line 0:-1 mismatched input '<EOF>' expecting K_FILTERING");
        check_error("SELECT DISTINCT JSON k FROM t", "line 1:21 mismatched input 'k' expecting K_FROM");
    }
}
