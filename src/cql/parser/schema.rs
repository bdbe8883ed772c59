//! CREATE, ALTER and DROP of everything but tables and roles.

use super::{Parse, Parser};
use crate::cql::ast::schema::{
    AlterKeyspace, AlterMaterializedView, AlterType, CreateAggregate, CreateFunction, CreateIndex, CreateKeyspace,
    CreateMaterializedView, CreateTrigger, CreateType, DropKeyspace, DropNamed, DropRoutine, DropTrigger, IndexPart,
    IndexTarget, Properties, TypeChange,
};
use crate::cql::ast::{DataType, QualifiedName, Statement};
use crate::cql::error::SyntaxError;
use crate::cql::keyword::Keyword;
use crate::cql::token::TokenKind;

impl Parser<'_> {
    pub(super) fn create(&mut self) -> Parse<Statement> {
        self.expect_keyword(Keyword::Create)?;
        let Some(keyword) = self.peek_keyword() else {
            return Err(self.no_viable());
        };
        if matches!(keyword, Keyword::User | Keyword::Role) {
            return Ok(Statement::Access(self.create_role()?));
        }
        if matches!(keyword, Keyword::Or | Keyword::Function | Keyword::Aggregate) {
            return self.create_routine();
        }
        if matches!(keyword, Keyword::Custom | Keyword::Index) {
            return Ok(Statement::CreateIndex(self.create_index()?));
        }
        self.bump();
        match keyword {
            Keyword::Keyspace => Ok(Statement::CreateKeyspace(self.create_keyspace()?)),
            Keyword::Table | Keyword::ColumnFamily => Ok(Statement::CreateTable(self.create_table()?)),
            Keyword::Type => Ok(Statement::CreateType(self.create_type()?)),
            Keyword::Materialized => Ok(Statement::CreateMaterializedView(self.create_view()?)),
            Keyword::Trigger => Ok(Statement::CreateTrigger(self.create_trigger()?)),
            _ => {
                self.at -= 1;
                Err(self.no_viable())
            }
        }
    }

    pub(super) fn alter(&mut self) -> Parse<Statement> {
        self.expect_keyword(Keyword::Alter)?;
        match self.peek_keyword() {
            Some(Keyword::Keyspace) => {
                self.bump();
                let if_exists = self.if_exists()?;
                Ok(Statement::AlterKeyspace(AlterKeyspace {
                    keyspace: self.keyspace_name()?,
                    if_exists,
                    properties: self.required_properties()?,
                }))
            }
            Some(Keyword::Table | Keyword::ColumnFamily) => {
                self.bump();
                Ok(Statement::AlterTable(self.alter_table()?))
            }
            Some(Keyword::Type) => {
                self.bump();
                Ok(Statement::AlterType(self.alter_type()?))
            }
            Some(Keyword::Materialized) => {
                self.bump();
                self.expect_keyword(Keyword::View)?;
                let if_exists = self.if_exists()?;
                Ok(Statement::AlterMaterializedView(AlterMaterializedView {
                    view: self.table_name()?,
                    if_exists,
                    properties: self.required_properties()?,
                }))
            }
            Some(Keyword::User | Keyword::Role) => Ok(Statement::Access(self.alter_role()?)),
            _ => Err(self.no_viable()),
        }
    }

    pub(super) fn drop(&mut self) -> Parse<Statement> {
        self.expect_keyword(Keyword::Drop)?;
        let Some(keyword) = self.peek_keyword() else {
            return Err(self.no_viable());
        };
        if matches!(keyword, Keyword::User | Keyword::Role | Keyword::Identity) {
            return Ok(Statement::Access(self.drop_role()?));
        }
        self.bump();
        match keyword {
            Keyword::Keyspace => {
                let if_exists = self.if_exists()?;
                let keyspace = self.keyspace_name()?;
                Ok(Statement::DropKeyspace(DropKeyspace { keyspace, if_exists }))
            }
            Keyword::Table | Keyword::ColumnFamily => Ok(Statement::DropTable(self.drop_named(Self::table_name)?)),
            Keyword::Type => Ok(Statement::DropType(self.drop_named(Self::user_type_name)?)),
            Keyword::Index => {
                let name = |parser: &mut Self| parser.qualified_name("index");
                Ok(Statement::DropIndex(self.drop_named(name)?))
            }
            Keyword::Materialized => {
                self.expect_keyword(Keyword::View)?;
                let drop = self.drop_named(Self::table_name)?;
                Ok(Statement::DropMaterializedView(drop))
            }
            Keyword::Function => Ok(Statement::DropFunction(self.drop_routine()?)),
            Keyword::Aggregate => Ok(Statement::DropAggregate(self.drop_routine()?)),
            Keyword::Trigger => Ok(Statement::DropTrigger(self.drop_trigger()?)),
            _ => {
                self.at -= 1;
                Err(self.no_viable())
            }
        }
    }

    fn drop_named(&mut self, name: impl FnOnce(&mut Self) -> Parse<QualifiedName>) -> Parse<DropNamed> {
        let if_exists = self.if_exists()?;
        let name = name(self)?;
        Ok(DropNamed { name, if_exists })
    }

    /// `WITH` and its properties.
    fn required_properties(&mut self) -> Parse<Properties> {
        self.expect_keyword(Keyword::With)?;
        self.properties()
    }

    fn create_keyspace(&mut self) -> Parse<CreateKeyspace> {
        let if_not_exists = self.if_not_exists()?;
        Ok(CreateKeyspace { keyspace: self.keyspace_name()?, if_not_exists, properties: self.required_properties()? })
    }

    fn create_type(&mut self) -> Parse<CreateType> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.user_type_name()?;
        self.expect(TokenKind::LeftParen)?;
        let field = |parser: &mut Self| Ok((parser.ident()?, parser.data_type()?));
        let mut fields = vec![field(self)?];
        while self.eat(TokenKind::Comma) {
            if self.peek().is_name() {
                fields.push(field(self)?);
            }
        }
        self.expect(TokenKind::RightParen)?;
        Ok(CreateType { name, if_not_exists, fields })
    }

    fn alter_type(&mut self) -> Parse<AlterType> {
        let if_exists = self.if_exists()?;
        let name = self.user_type_name()?;
        let change = if self.eat_keyword(Keyword::Alter) {
            let field = self.ident()?;
            self.expect_keyword(Keyword::Type)?;
            let data_type = self.data_type()?;
            TypeChange::AlterField { field, data_type }
        } else if self.eat_keyword(Keyword::Add) {
            TypeChange::Add { if_not_exists: self.if_not_exists()?, field: self.ident()?, data_type: self.data_type()? }
        } else if self.eat_keyword(Keyword::Rename) {
            TypeChange::Rename { if_exists: self.if_exists()?, renames: self.renames()? }
        } else {
            return Err(self.no_viable());
        };
        Ok(AlterType { name, if_exists, change })
    }

    fn create_index(&mut self) -> Parse<CreateIndex> {
        let is_custom = self.eat_keyword(Keyword::Custom);
        self.expect_keyword(Keyword::Index)?;
        let if_not_exists = self.if_not_exists()?;
        let mut name = None;
        if self.peek_keyword() != Some(Keyword::On) {
            name = Some(self.index_name()?);
        }
        self.expect_keyword(Keyword::On)?;
        let table = self.table_name()?;
        self.expect(TokenKind::LeftParen)?;
        let targets = self.separated_until(TokenKind::RightParen, Self::index_target)?;
        let mut class = None;
        if self.eat_keyword(Keyword::Using) {
            class = Some(self.string()?);
        }
        let mut properties = Properties::default();
        if self.eat_keyword(Keyword::With) {
            properties = self.properties()?;
        }
        Ok(CreateIndex { name, if_not_exists, is_custom, table, targets, class, properties })
    }

    fn index_target(&mut self) -> Parse<IndexTarget> {
        let part = match self.peek_keyword() {
            Some(Keyword::Values) => IndexPart::Values,
            Some(Keyword::Keys) => IndexPart::Keys,
            Some(Keyword::Entries) => IndexPart::Entries,
            Some(Keyword::Full) => IndexPart::Full,
            _ => IndexPart::Simple,
        };
        if part == IndexPart::Simple || self.peek_at(1) != TokenKind::LeftParen {
            let column = self.column()?;
            return Ok(IndexTarget { column, part: IndexPart::Simple });
        }
        self.bump();
        self.expect(TokenKind::LeftParen)?;
        let column = self.column()?;
        self.expect(TokenKind::RightParen)?;
        Ok(IndexTarget { column, part })
    }

    fn create_view(&mut self) -> Parse<CreateMaterializedView> {
        self.expect_keyword(Keyword::View)?;
        let if_not_exists = self.if_not_exists()?;
        let view = self.table_name()?;
        self.expect_keyword(Keyword::As)?;
        self.expect_keyword(Keyword::Select)?;
        let selection = self.selection()?;
        self.expect_keyword(Keyword::From)?;
        let base_table = self.table_name()?;
        let mut relations = Vec::new();
        if self.eat_keyword(Keyword::Where) {
            relations = self.relations()?;
        }
        self.expect_keyword(Keyword::Primary)?;
        self.expect_keyword(Keyword::Key)?;
        let mut create = CreateMaterializedView {
            view,
            if_not_exists,
            selection,
            base_table,
            relations,
            primary_key: self.primary_key()?,
            properties: Properties::default(),
            clustering_order: Vec::new(),
        };
        if self.eat_keyword(Keyword::With) {
            self.joined_by_and(|parser| parser.view_property(&mut create))?;
        }
        Ok(create)
    }

    fn view_property(&mut self, create: &mut CreateMaterializedView) -> Parse<()> {
        if self.eat_keywords(Keyword::Compact, Keyword::Storage) {
            return Err(SyntaxError::rule("COMPACT STORAGE tables are not allowed starting with version 4.0"));
        }
        if let Some(order) = self.clustering_order()? {
            create.clustering_order.extend(order);
            return Ok(());
        }
        self.property(&mut create.properties)
    }

    /// What follows CREATE for a function or an aggregate.
    fn create_routine(&mut self) -> Parse<Statement> {
        let or_replace = self.eat_keyword(Keyword::Or);
        if or_replace {
            self.expect_keyword(Keyword::Replace)?;
        }
        if self.eat_keyword(Keyword::Function) {
            return Ok(Statement::CreateFunction(self.create_function(or_replace)?));
        }
        if !self.eat_keyword(Keyword::Aggregate) {
            return Err(self.no_viable());
        }
        Ok(Statement::CreateAggregate(self.create_aggregate(or_replace)?))
    }

    fn create_function(&mut self, or_replace: bool) -> Parse<CreateFunction> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        self.expect(TokenKind::LeftParen)?;
        let args = self.separated_until(TokenKind::RightParen, |parser| Ok((parser.ident()?, parser.data_type()?)))?;
        let called_on_null_input = self.eat_keyword(Keyword::Called);
        if !called_on_null_input {
            self.expect_keyword(Keyword::Returns)?;
            self.expect_keyword(Keyword::Null)?;
        }
        self.expect_keyword(Keyword::On)?;
        self.expect_keyword(Keyword::Null)?;
        self.expect_keyword(Keyword::Input)?;
        self.expect_keyword(Keyword::Returns)?;
        let returns = self.data_type()?;
        self.expect_keyword(Keyword::Language)?;
        let language = self.expect(TokenKind::Ident)?;
        let language = self.source(language).to_ascii_lowercase();
        self.expect_keyword(Keyword::As)?;
        Ok(CreateFunction {
            name,
            or_replace,
            if_not_exists,
            args,
            called_on_null_input,
            returns,
            language,
            body: self.string()?,
        })
    }

    fn create_aggregate(&mut self, or_replace: bool) -> Parse<CreateAggregate> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.function_name()?;
        let arg_types = self.arg_types()?;
        self.expect_keyword(Keyword::SFunc)?;
        let state_function = self.bare_function_name()?;
        self.expect_keyword(Keyword::SType)?;
        let state_type = self.data_type()?;
        let mut final_function = None;
        if self.eat_keyword(Keyword::FinalFunc) {
            final_function = Some(self.bare_function_name()?);
        }
        let mut initial_condition = None;
        if self.eat_keyword(Keyword::InitCond) {
            initial_condition = Some(self.term()?);
        }
        Ok(CreateAggregate {
            name,
            or_replace,
            if_not_exists,
            arg_types,
            state_function,
            state_type,
            final_function,
            initial_condition,
        })
    }

    /// `(type, type)`, possibly empty.
    pub(super) fn arg_types(&mut self) -> Parse<Vec<DataType>> {
        self.expect(TokenKind::LeftParen)?;
        self.separated_until(TokenKind::RightParen, Self::data_type)
    }

    fn drop_routine(&mut self) -> Parse<DropRoutine> {
        let if_exists = self.if_exists()?;
        let name = self.function_name()?;
        let mut arg_types = None;
        if self.peek() == TokenKind::LeftParen {
            arg_types = Some(self.arg_types()?);
        }
        Ok(DropRoutine { name, if_exists, arg_types })
    }

    fn create_trigger(&mut self) -> Parse<CreateTrigger> {
        let if_not_exists = self.if_not_exists()?;
        let name = self.ident()?;
        self.expect_keyword(Keyword::On)?;
        let table = self.table_name()?;
        self.expect_keyword(Keyword::Using)?;
        Ok(CreateTrigger { name, if_not_exists, table, class: self.string()? })
    }

    fn drop_trigger(&mut self) -> Parse<DropTrigger> {
        let if_exists = self.if_exists()?;
        let name = self.ident()?;
        self.expect_keyword(Keyword::On)?;
        Ok(DropTrigger { name, if_exists, table: self.table_name()? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, ident, idents, int, named, qualified, statement, string};
    use super::*;
    use crate::cql::ast::schema::PrimaryKey;
    use crate::cql::ast::{FunctionName, NativeType, PropertyValue, Relation, Selection, SortOrder, Term};

    const INT: DataType = DataType::Native(NativeType::INT);

    fn function(keyspace: Option<&str>, name: &str) -> FunctionName {
        FunctionName { keyspace: keyspace.map(ident), name: ident(name) }
    }

    #[test]
    fn keyspaces() {
        let properties = Properties(vec![("durable_writes".to_owned(), PropertyValue::Text("true".to_owned()))]);
        assert_eq!(
            statement("CREATE KEYSPACE IF NOT EXISTS \"K\" WITH durable_writes = true"),
            Statement::CreateKeyspace(CreateKeyspace {
                keyspace: ident("K"),
                if_not_exists: true,
                properties: properties.clone(),
            })
        );
        assert_eq!(
            statement("ALTER KEYSPACE IF EXISTS K WITH durable_writes = true"),
            Statement::AlterKeyspace(AlterKeyspace { keyspace: ident("k"), if_exists: true, properties })
        );
        assert_eq!(
            statement("DROP KEYSPACE k"),
            Statement::DropKeyspace(DropKeyspace { keyspace: ident("k"), if_exists: false })
        );
        check_error("CREATE KEYSPACE k", "line 0:-1 mismatched input '<EOF>' expecting K_WITH");
    }

    #[test]
    fn drops() {
        let dropped = |name, if_exists| DropNamed { name, if_exists };
        for (cql, expected) in [
            ("DROP TABLE t", Statement::DropTable(dropped(named("t"), false))),
            ("DROP COLUMNFAMILY IF EXISTS ks.t", Statement::DropTable(dropped(qualified("ks", "t"), true))),
            ("DROP TYPE ks.key", Statement::DropType(dropped(qualified("ks", "key"), false))),
            ("DROP INDEX ks.i", Statement::DropIndex(dropped(qualified("ks", "i"), false))),
            ("DROP MATERIALIZED VIEW IF EXISTS v", Statement::DropMaterializedView(dropped(named("v"), true))),
        ] {
            assert_eq!(statement(cql), expected, "{cql}");
        }
        check_error("DROP TABLE IF NOT EXISTS t", "line 1:14 mismatched input 'NOT' expecting K_EXISTS");
    }

    #[test]
    fn types() {
        assert_eq!(
            statement("CREATE TYPE IF NOT EXISTS ks.ty (a int, \"B\" frozen<other>,)"),
            Statement::CreateType(CreateType {
                name: qualified("ks", "ty"),
                if_not_exists: true,
                fields: vec![
                    (ident("a"), INT),
                    (ident("B"), DataType::Frozen(Box::new(DataType::UserType(named("other")))),),
                ],
            })
        );
        check_error("CREATE TYPE bad ()", "line 1:17 no viable alternative at input ')'");
    }

    #[test]
    fn changes_of_types() {
        let check = |text: &str, change| {
            let expected = AlterType { name: named("ty"), if_exists: false, change };
            assert_eq!(statement(&format!("ALTER TYPE ty {text}")), Statement::AlterType(expected), "{text}");
        };
        let add = |if_not_exists| TypeChange::Add { if_not_exists, field: ident("a"), data_type: INT };
        check("ADD a int", add(false));
        check("ADD IF NOT EXISTS a int", add(true));
        check(
            "RENAME a TO b AND c TO d",
            TypeChange::Rename { if_exists: false, renames: vec![(ident("a"), ident("b")), (ident("c"), ident("d"))] },
        );
        check("ALTER a TYPE int", TypeChange::AlterField { field: ident("a"), data_type: INT });
        check_error("ALTER TYPE addr DROP road", "line 1:16 no viable alternative at input 'DROP'");
    }

    #[test]
    fn indexes() {
        let index = |cql: &str| match statement(cql) {
            Statement::CreateIndex(create) => create,
            other => panic!("{other:?}"),
        };
        let target = |column: &str, part| IndexTarget { column: ident(column), part };
        let plain = CreateIndex {
            name: None,
            if_not_exists: false,
            is_custom: false,
            table: named("t"),
            targets: vec![target("v", IndexPart::Simple)],
            class: None,
            properties: Properties::default(),
        };
        assert_eq!(index("CREATE INDEX ON t (v)"), plain);
        let custom = index(
            "CREATE CUSTOM INDEX IF NOT EXISTS \"I\" ON ks.t (KEYS(a), values(b), ENTRIES(c), FULL(d), keys) \
             USING 'sai' WITH OPTIONS = {'a': 'b'}",
        );
        assert_eq!(custom.name, Some(ident("I")));
        assert!(custom.is_custom && custom.if_not_exists);
        assert_eq!(
            custom.targets,
            [
                target("a", IndexPart::Keys),
                target("b", IndexPart::Values),
                target("c", IndexPart::Entries),
                target("d", IndexPart::Full),
                target("keys", IndexPart::Simple),
            ]
        );
        assert_eq!(custom.class.as_deref(), Some("sai"));
        assert!(custom.properties.get("options").is_some());
        assert_eq!(index("CREATE INDEX ON t ()").targets, []);
        check_error("CREATE INDEX ON t", "line 0:-1 mismatched input '<EOF>' expecting '('");
    }

    #[test]
    fn materialized_views() {
        let found = statement(
            "CREATE MATERIALIZED VIEW IF NOT EXISTS v AS SELECT * FROM ks.t \
             WHERE a IS NOT NULL AND b = 1 PRIMARY KEY ((a, b), c) \
             WITH CLUSTERING ORDER BY (c DESC) AND comment = 'x'",
        );
        let Statement::CreateMaterializedView(view) = found else {
            panic!("{found:?}");
        };
        assert_eq!((view.view, view.base_table), (named("v"), qualified("ks", "t")));
        assert!(view.if_not_exists);
        assert_eq!(view.selection, Selection::All);
        assert_eq!(view.relations[0], Relation::IsNotNull { column: ident("a") });
        assert_eq!(view.primary_key, PrimaryKey { partition: idents(["a", "b"]), clustering: idents(["c"]) });
        assert_eq!(view.clustering_order, [(ident("c"), SortOrder::Descending)]);
        assert!(view.properties.get("comment").is_some());
        check_error(
            "CREATE MATERIALIZED VIEW v AS SELECT a FROM t PRIMARY KEY (a) WITH COMPACT STORAGE",
            "COMPACT STORAGE tables are not allowed starting with version 4.0",
        );
        let found = statement("ALTER MATERIALIZED VIEW IF EXISTS v WITH comment = 'c'");
        assert!(matches!(found, Statement::AlterMaterializedView(alter) if alter.if_exists));
    }

    #[test]
    fn functions() {
        assert_eq!(
            statement(
                "CREATE OR REPLACE FUNCTION ks.F (a int, B ty) CALLED ON NULL INPUT \
                 RETURNS int LANGUAGE Java AS $$ return a; $$"
            ),
            Statement::CreateFunction(CreateFunction {
                name: function(Some("ks"), "f"),
                or_replace: true,
                if_not_exists: false,
                args: vec![(ident("a"), INT), (ident("b"), DataType::UserType(named("ty")))],
                called_on_null_input: true,
                returns: INT,
                language: "java".to_owned(),
                body: " return a; ".to_owned(),
            })
        );
        let found = statement(
            "CREATE FUNCTION IF NOT EXISTS f () RETURNS NULL ON NULL INPUT RETURNS int \
             LANGUAGE x AS ''",
        );
        assert!(matches!(
            found,
            Statement::CreateFunction(create)
                if create.if_not_exists && !create.called_on_null_input && create.args.is_empty()
        ));
        let dropped = |arg_types| DropRoutine { name: function(None, "f"), if_exists: true, arg_types };
        assert_eq!(statement("DROP FUNCTION IF EXISTS f"), Statement::DropFunction(dropped(None)));
        assert_eq!(statement("DROP FUNCTION IF EXISTS f()"), Statement::DropFunction(dropped(Some(vec![]))));
        assert_eq!(statement("DROP AGGREGATE IF EXISTS f (int)"), Statement::DropAggregate(dropped(Some(vec![INT]))));
    }

    #[test]
    fn aggregates() {
        assert_eq!(
            statement(
                "CREATE AGGREGATE IF NOT EXISTS a (int) SFUNC s STYPE tuple<int> \
                 FINALFUNC \"F\" INITCOND (0)"
            ),
            Statement::CreateAggregate(CreateAggregate {
                name: function(None, "a"),
                or_replace: false,
                if_not_exists: true,
                arg_types: vec![INT],
                state_function: ident("s"),
                state_type: DataType::Tuple(vec![INT]),
                final_function: Some(ident("F")),
                initial_condition: Some(Term::Tuple(vec![int("0")])),
            })
        );
        let found = statement("CREATE OR REPLACE AGGREGATE a () SFUNC s STYPE text INITCOND 'x'");
        assert!(matches!(
            found,
            Statement::CreateAggregate(create)
                if create.or_replace && create.initial_condition == Some(string("x"))
        ));
        check_error("CREATE OR REPLACE TABLE t (k int)", "line 1:18 no viable alternative at input 'TABLE'");
    }

    #[test]
    fn triggers() {
        assert_eq!(
            statement("CREATE TRIGGER IF NOT EXISTS tr ON ks.t USING 'c.C'"),
            Statement::CreateTrigger(CreateTrigger {
                name: ident("tr"),
                if_not_exists: true,
                table: qualified("ks", "t"),
                class: "c.C".to_owned(),
            })
        );
        assert_eq!(
            statement("DROP TRIGGER tr ON t"),
            Statement::DropTrigger(DropTrigger { name: ident("tr"), if_exists: false, table: named("t") })
        );
    }
}
