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

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, ident, idents, int, named, qualified, statement};
    use super::*;
    use crate::cql::ast::{DataType, FunctionName, NativeType, PropertyValue, Statement};

    fn create(cql: &str) -> CreateTable {
        match statement(cql) {
            Statement::CreateTable(create) => create,
            other => panic!("{other:?}"),
        }
    }

    fn alter(cql: &str) -> AlterTable {
        match statement(cql) {
            Statement::AlterTable(alter) => alter,
            other => panic!("{other:?}"),
        }
    }

    fn check_change(text: &str, expected: TableChange) {
        let found = alter(&format!("ALTER TABLE t {text}"));
        assert_eq!((found.change, found.if_exists), (expected, false), "{text}");
    }

    fn int_column(name: &str, is_static: bool) -> ColumnDefinition {
        ColumnDefinition { name: ident(name), data_type: DataType::Native(NativeType::INT), is_static, mask: None }
    }

    fn key(partition: &[&str], clustering: &[&str]) -> PrimaryKey {
        let idents = |names: &[&str]| names.iter().map(|name| ident(name)).collect();
        PrimaryKey { partition: idents(partition), clustering: idents(clustering) }
    }

    #[test]
    fn a_table_with_everything() {
        let found = create(
            "CREATE TABLE IF NOT EXISTS ks.t (a int, \"B\" int, c int, s int STATIC, \
             PRIMARY KEY ((a, \"B\"), c)) WITH comment = 'x' AND CLUSTERING ORDER BY (c DESC) \
             AND COMPACT STORAGE AND gc_grace_seconds = 5",
        );
        assert_eq!(found.table, qualified("ks", "t"));
        assert!(found.if_not_exists && found.compact_storage);
        assert_eq!(
            found.columns,
            [int_column("a", false), int_column("B", false), int_column("c", false), int_column("s", true),]
        );
        assert_eq!(found.primary_keys, [key(&["a", "B"], &["c"])]);
        assert_eq!(found.clustering_order, [(ident("c"), SortOrder::Descending)]);
        let names: Vec<_> = found.properties.0.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["comment", "gc_grace_seconds"]);
    }

    #[test]
    fn primary_keys_in_every_place() {
        let keys = |columns: &str| create(&format!("CREATE TABLE t ({columns})")).primary_keys;
        assert_eq!(keys("k int PRIMARY KEY"), [key(&["k"], &[])]);
        assert_eq!(keys("k int PRIMARY KEY,"), [key(&["k"], &[])]);
        assert_eq!(keys("k int, PRIMARY KEY (k)"), [key(&["k"], &[])]);
        assert_eq!(keys("PRIMARY KEY (k, c, d), k int"), [key(&["k"], &["c", "d"])]);
        assert_eq!(keys("PRIMARY KEY ((k))"), [key(&["k"], &[])]);
        assert_eq!(keys("k int"), []);
        assert_eq!(keys("k int PRIMARY KEY, PRIMARY KEY (k)").len(), 2);
    }

    #[test]
    fn unreserved_words_name_columns() {
        let found = create(
            "CREATE TABLE t (key int PRIMARY KEY, type int, ttl int, timestamp timestamp, \
             json int, list int, compact int, clustering int, static int static, masked int)",
        );
        assert_eq!(found.columns.len(), 10);
        assert!(found.columns[8].is_static && found.columns[9].mask.is_none());
        // Words of the options may be properties too.
        let found = create("CREATE TABLE t (k int PRIMARY KEY) WITH compact = 1 AND clustering = 2");
        assert_eq!(found.properties.0.len(), 2);
    }

    #[test]
    fn masks() {
        let masks: Vec<_> = create(
            "CREATE TABLE t (a int MASKED WITH DEFAULT PRIMARY KEY, \
             b int STATIC MASKED WITH ks.f(1, 2), c int MASKED WITH default())",
        )
        .columns
        .into_iter()
        .map(|column| column.mask)
        .collect();
        let function = |keyspace: Option<&str>, name, args| {
            let name = FunctionName { keyspace: keyspace.map(ident), name: ident(name) };
            Some(ColumnMask::Function { name, args })
        };
        assert_eq!(
            masks,
            [
                Some(ColumnMask::Default),
                function(Some("ks"), "f", vec![int("1"), int("2")]),
                function(None, "default", vec![]),
            ]
        );
    }

    #[test]
    fn what_is_no_table() {
        for (cql, message) in [
            ("CREATE TABLE t ()", "line 1:16 no viable alternative at input ')'"),
            ("CREATE TABLE t", "line 0:-1 mismatched input '<EOF>' expecting '('"),
            ("CREATE TABLE t (k int, PRIMARY KEY ())", "line 1:36 no viable alternative at input ')'"),
            ("CREATE TABLE t (select int PRIMARY KEY)", "line 1:16 no viable alternative at input 'select'"),
            ("CREATE TABLE t (k int PRIMARY KEY, table int)", "line 1:35 mismatched input 'table' expecting ')'"),
            ("CREATE TABLE \"\" (k int)", "line 1:13 no viable alternative at input '\"\"'"),
            ("CREATE TABLE t (\"\" int)", "line 1:16 no viable alternative at input '\"\"'"),
            ("CREATE TABLE t (k int) WITH CLUSTERING ORDER BY (k)", "line 1:50 no viable alternative at input ')'"),
        ] {
            check_error(cql, message);
        }
    }

    #[test]
    fn added_columns() {
        let add = |if_not_exists, columns| TableChange::Add { if_not_exists, columns };
        check_change("ADD a int", add(false, vec![int_column("a", false)]));
        check_change("ADD IF NOT EXISTS a int static", add(true, vec![int_column("a", true)]));
        check_change("ADD (a int, b int)", add(false, vec![int_column("a", false), int_column("b", false)]));
        check_error("ALTER TABLE t ADD a int, b int", "line 1:23 mismatched input ',' expecting EOF");
    }

    #[test]
    fn dropped_columns() {
        let dropped = |if_exists, columns, timestamp_us| TableChange::Drop { if_exists, columns, timestamp_us };
        check_change("DROP a", dropped(false, idents(["a"]), None));
        check_change("DROP IF EXISTS (a, b)", dropped(true, idents(["a", "b"]), None));
        check_change("DROP a USING TIMESTAMP -5", dropped(false, idents(["a"]), Some(-5)));
        check_change("DROP compact", dropped(false, idents(["compact"]), None));
        check_change("DROP COMPACT STORAGE", TableChange::DropCompactStorage);
        let cql = "ALTER TABLE t DROP a USING TIMESTAMP 9223372036854775808";
        check_error(
            cql,
            &format!(
                "Failed parsing statement: [{cql}] reason: NumberFormatException \
                 For input string: \"9223372036854775808\""
            ),
        );
    }

    #[test]
    fn other_changes() {
        check_change(
            "RENAME IF EXISTS a TO b AND c TO d",
            TableChange::Rename { if_exists: true, renames: vec![(ident("a"), ident("b")), (ident("c"), ident("d"))] },
        );
        check_change(
            "ALTER v TYPE int",
            TableChange::AlterType { column: ident("v"), data_type: DataType::Native(NativeType::INT) },
        );
        let mask = |if_exists, mask| TableChange::Mask { if_exists, column: ident("v"), mask };
        check_change("ALTER IF EXISTS v MASKED WITH DEFAULT", mask(true, Some(ColumnMask::Default)));
        check_change("ALTER v DROP MASKED", mask(false, None));
        let TableChange::Properties(properties) = alter("ALTER TABLE t WITH cdc = true").change else {
            panic!("properties");
        };
        assert_eq!(properties.get("cdc"), Some(&PropertyValue::Text("true".to_owned())));
        let found = alter("ALTER COLUMNFAMILY IF EXISTS t ADD a int");
        assert_eq!((found.table, found.if_exists), (named("t"), true));
    }

    #[test]
    fn what_is_no_change() {
        for (text, message) in [
            ("", "line 0:-1 no viable alternative at input '<EOF>'"),
            ("WITH", "line 0:-1 no viable alternative at input '<EOF>'"),
            ("WITH COMPACT STORAGE", "line 1:27 mismatched input 'STORAGE' expecting '='"),
            ("ALTER v", "line 0:-1 no viable alternative at input '<EOF>'"),
            ("ALTER IF EXISTS v TYPE int", "line 1:32 no viable alternative at input 'TYPE'"),
            ("RENAME a b", "line 1:23 mismatched input 'b' expecting K_TO"),
            ("DROP a, b", "line 1:20 mismatched input ',' expecting EOF"),
        ] {
            check_error(&format!("ALTER TABLE t {text}"), message);
        }
    }
}
