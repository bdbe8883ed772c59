//! CREATE TABLE, ALTER TABLE and what materialized views share with them.

use super::{Parse, Parser};
use crate::cql::ast::schema::{AlterTable, ColumnDefinition, ColumnMask, CreateTable, PrimaryKey, TableChange};
use crate::cql::ast::{Ident, SortOrder};
use crate::cql::keyword::Keyword;
use crate::cql::token::TokenKind;

impl Parser<'_> {
    /// What follows CREATE TABLE.
    pub(super) fn create_table(&mut self) -> Parse<CreateTable> {
        let if_not_exists = self.if_not_exists()?;
        let mut create = CreateTable {
            table: self.table_name()?,
            if_not_exists,
            columns: Vec::new(),
            primary_keys: Vec::new(),
            properties: Default::default(),
            clustering_order: Vec::new(),
            compact_storage: false,
        };
        self.expect(TokenKind::LeftParen)?;
        self.table_element(&mut create)?;
        while self.eat(TokenKind::Comma) {
            let is_element = self.peek().is_name() || self.peek_keyword() == Some(Keyword::Primary);
            if is_element {
                self.table_element(&mut create)?;
            }
        }
        self.expect(TokenKind::RightParen)?;
        if self.eat_keyword(Keyword::With) {
            self.joined_by_and(|parser| parser.table_property(&mut create))?;
        }
        Ok(create)
    }

    /// A column or the PRIMARY KEY clause.
    fn table_element(&mut self, create: &mut CreateTable) -> Parse<()> {
        if self.eat_keyword(Keyword::Primary) {
            self.expect_keyword(Keyword::Key)?;
            let primary_key = self.primary_key()?;
            create.primary_keys.push(primary_key);
            return Ok(());
        }
        let column = self.column_definition()?;
        if self.eat_keyword(Keyword::Primary) {
            self.expect_keyword(Keyword::Key)?;
            create.primary_keys.push(PrimaryKey { partition: vec![column.name.clone()], clustering: Vec::new() });
        }
        create.columns.push(column);
        Ok(())
    }

    /// `name type [STATIC] [MASKED WITH …]`
    fn column_definition(&mut self) -> Parse<ColumnDefinition> {
        let name = self.ident()?;
        let data_type = self.data_type()?;
        let is_static = self.eat_keyword(Keyword::Static);
        let mut mask = None;
        if self.peek_keyword() == Some(Keyword::Masked) {
            mask = Some(self.column_mask()?);
        }
        Ok(ColumnDefinition { name, data_type, is_static, mask })
    }

    fn column_mask(&mut self) -> Parse<ColumnMask> {
        self.expect_keyword(Keyword::Masked)?;
        self.expect_keyword(Keyword::With)?;
        let is_function = self.peek_at(1) == TokenKind::LeftParen;
        if !is_function && self.eat_keyword(Keyword::Default) {
            return Ok(ColumnMask::Default);
        }
        let name = self.function_name()?;
        self.expect(TokenKind::LeftParen)?;
        let args = self.separated_until(TokenKind::RightParen, Self::term)?;
        Ok(ColumnMask::Function { name, args })
    }

    /// `(k, c)` or `((k, l), c, d)`
    pub(super) fn primary_key(&mut self) -> Parse<PrimaryKey> {
        self.expect(TokenKind::LeftParen)?;
        let partition =
            if self.peek() == TokenKind::LeftParen { self.parenthesized(Self::ident)? } else { vec![self.ident()?] };
        let mut clustering = Vec::new();
        while self.eat(TokenKind::Comma) {
            clustering.push(self.ident()?);
        }
        self.expect(TokenKind::RightParen)?;
        Ok(PrimaryKey { partition, clustering })
    }

    fn table_property(&mut self, create: &mut CreateTable) -> Parse<()> {
        if self.eat_keywords(Keyword::Compact, Keyword::Storage) {
            create.compact_storage = true;
            return Ok(());
        }
        if let Some(order) = self.clustering_order()? {
            create.clustering_order.extend(order);
            return Ok(());
        }
        self.property(&mut create.properties)
    }

    /// `CLUSTERING ORDER BY (a DESC, b ASC)`, if it is next.
    pub(super) fn clustering_order(&mut self) -> Parse<Option<Vec<(Ident, SortOrder)>>> {
        if !self.eat_keywords(Keyword::Clustering, Keyword::Order) {
            return Ok(None);
        }
        self.expect_keyword(Keyword::By)?;
        let order = self.parenthesized(|parser| {
            let column = parser.ident()?;
            let order = parser.sort_order().ok_or_else(|| parser.no_viable())?;
            Ok((column, order))
        })?;
        Ok(Some(order))
    }

    /// What follows ALTER TABLE.
    pub(super) fn alter_table(&mut self) -> Parse<AlterTable> {
        let if_exists = self.if_exists()?;
        let table = self.table_name()?;
        let change = match self.peek_keyword() {
            Some(Keyword::Add) => self.add_columns()?,
            Some(Keyword::Drop) => self.drop_columns()?,
            Some(Keyword::Alter) => self.alter_column()?,
            Some(Keyword::Rename) => {
                self.bump();
                TableChange::Rename { if_exists: self.if_exists()?, renames: self.renames()? }
            }
            Some(Keyword::With) => {
                self.bump();
                TableChange::Properties(self.properties()?)
            }
            _ => return Err(self.no_viable()),
        };
        Ok(AlterTable { table, if_exists, change })
    }

    fn add_columns(&mut self) -> Parse<TableChange> {
        self.expect_keyword(Keyword::Add)?;
        let if_not_exists = self.if_not_exists()?;
        let columns = if self.peek() == TokenKind::LeftParen {
            self.parenthesized(Self::column_definition)?
        } else {
            vec![self.column_definition()?]
        };
        Ok(TableChange::Add { if_not_exists, columns })
    }

    fn drop_columns(&mut self) -> Parse<TableChange> {
        self.expect_keyword(Keyword::Drop)?;
        if self.eat_keywords(Keyword::Compact, Keyword::Storage) {
            return Ok(TableChange::DropCompactStorage);
        }
        let if_exists = self.if_exists()?;
        let columns =
            if self.peek() == TokenKind::LeftParen { self.parenthesized(Self::ident)? } else { vec![self.ident()?] };
        let mut timestamp_us = None;
        if self.eat_keyword(Keyword::Using) {
            self.expect_keyword(Keyword::Timestamp)?;
            let token = self.expect(TokenKind::Integer)?;
            let text = self.source(token);
            let timestamp = text.parse().map_err(|_| self.bad_number(&format!("For input string: \"{text}\"")))?;
            timestamp_us = Some(timestamp);
        }
        Ok(TableChange::Drop { if_exists, columns, timestamp_us })
    }

    /// `ALTER c TYPE t` or `ALTER [IF EXISTS] c MASKED WITH … | DROP MASKED`
    fn alter_column(&mut self) -> Parse<TableChange> {
        self.expect_keyword(Keyword::Alter)?;
        let if_exists = self.if_exists()?;
        let column = self.column()?;
        if !if_exists && self.eat_keyword(Keyword::Type) {
            let data_type = self.data_type()?;
            return Ok(TableChange::AlterType { column, data_type });
        }
        let mask = if self.eat_keywords(Keyword::Drop, Keyword::Masked) {
            None
        } else if self.peek_keyword() == Some(Keyword::Masked) {
            Some(self.column_mask()?)
        } else {
            return Err(self.no_viable());
        };
        Ok(TableChange::Mask { if_exists, column, mask })
    }

    /// `a TO b AND c TO d`
    pub(super) fn renames(&mut self) -> Parse<Vec<(Ident, Ident)>> {
        self.joined_by_and(|parser| {
            let from = parser.ident()?;
            parser.expect_keyword(Keyword::To)?;
            Ok((from, parser.ident()?))
        })
    }
}
