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
