//! INSERT, UPDATE, DELETE and BATCH.

use super::{Parse, Parser};
use crate::base::collections::HashSet;
use crate::cql::ast::{
    Assignment, Batch, BatchKind, Condition, ConditionTest, Delete, Deletion, Ident, Insert, InsertJson, JsonDefault,
    JsonSource, Literal, LiteralKind, Modification, Operation, QualifiedName, Statement, Target, Term, Update,
    UpdateCondition, Using,
};
use crate::cql::error::SyntaxError;
use crate::cql::keyword::Keyword;
use crate::cql::token::TokenKind;

impl From<Modification> for Statement {
    fn from(modification: Modification) -> Statement {
        match modification {
            Modification::Insert(insert) => Statement::Insert(insert),
            Modification::InsertJson(insert) => Statement::InsertJson(insert),
            Modification::Update(update) => Statement::Update(update),
            Modification::Delete(delete) => Statement::Delete(delete),
        }
    }
}

impl Parser<'_> {
    pub(super) fn modification(&mut self) -> Parse<Modification> {
        match self.peek_keyword() {
            Some(Keyword::Insert) => self.insert(),
            Some(Keyword::Update) => Ok(Modification::Update(self.update()?)),
            Some(Keyword::Delete) => Ok(Modification::Delete(self.delete()?)),
            _ => Err(self.no_viable()),
        }
    }

    pub(super) fn batch(&mut self) -> Parse<Batch> {
        self.expect_keyword(Keyword::Begin)?;
        let kind = if self.eat_keyword(Keyword::Unlogged) {
            BatchKind::Unlogged
        } else if self.eat_keyword(Keyword::Counter) {
            BatchKind::Counter
        } else {
            BatchKind::Logged
        };
        self.expect_keyword(Keyword::Batch)?;
        let using = self.using()?;
        let mut statements = Vec::new();
        while let Some(Keyword::Insert | Keyword::Update | Keyword::Delete) = self.peek_keyword() {
            statements.push(self.modification()?);
            self.eat(TokenKind::Semicolon);
        }
        self.expect_keyword(Keyword::Apply)?;
        self.expect_keyword(Keyword::Batch)?;
        Ok(Batch { kind, using, statements })
    }

    fn insert(&mut self) -> Parse<Modification> {
        self.expect_keyword(Keyword::Insert)?;
        self.expect_keyword(Keyword::Into)?;
        let table = self.table_name()?;
        if self.eat_keyword(Keyword::Json) {
            return Ok(Modification::InsertJson(self.insert_json(table)?));
        }
        if self.peek() != TokenKind::LeftParen {
            return Err(self.no_viable());
        }
        let columns = self.parenthesized(Self::column)?;
        self.expect_keyword(Keyword::Values)?;
        let values = self.parenthesized(Self::term)?;
        let if_not_exists = self.if_not_exists()?;
        let using = self.using()?;
        Ok(Modification::Insert(Insert { table, columns, values, if_not_exists, using }))
    }

    fn insert_json(&mut self, table: QualifiedName) -> Parse<InsertJson> {
        let source = if let Some(marker) = self.marker()? {
            JsonSource::Marker(marker)
        } else if self.peek() == TokenKind::String {
            JsonSource::Literal(self.string()?)
        } else {
            return Err(self.no_viable());
        };
        let mut default = JsonDefault::Null;
        if self.eat_keyword(Keyword::Default) && !self.eat_keyword(Keyword::Null) {
            self.expect_keyword(Keyword::Unset)?;
            default = JsonDefault::Unset;
        }
        let if_not_exists = self.if_not_exists()?;
        let using = self.using()?;
        Ok(InsertJson { table, source, default, if_not_exists, using })
    }

    /// `USING TIMESTAMP … AND TTL …`, if it is next; the last of each counts.
    fn using(&mut self) -> Parse<Using> {
        let mut using = Using::default();
        if !self.eat_keyword(Keyword::Using) {
            return Ok(using);
        }
        loop {
            if self.eat_keyword(Keyword::Timestamp) {
                using.timestamp = Some(self.integer_or_marker()?);
            } else if self.eat_keyword(Keyword::Ttl) {
                using.ttl = Some(self.integer_or_marker()?);
            } else {
                return Err(self.no_viable());
            }
            if !self.eat_keyword(Keyword::And) {
                return Ok(using);
            }
        }
    }

    fn update(&mut self) -> Parse<Update> {
        self.expect_keyword(Keyword::Update)?;
        let table = self.table_name()?;
        let using = self.using()?;
        self.expect_keyword(Keyword::Set)?;
        let mut assigned = Assigned::default();
        let assignments = self.separated(|parser| {
            let assignment = parser.assignment()?;
            assigned.add(&assignment)?;
            Ok(assignment)
        })?;
        self.expect_keyword(Keyword::Where)?;
        Ok(Update { table, using, assignments, relations: self.relations()?, condition: self.update_condition()? })
    }

    fn assignment(&mut self) -> Parse<Assignment> {
        let column = self.column()?;
        let operation = match self.peek() {
            TokenKind::Eq => {
                self.bump();
                self.assigned(&column)?
            }
            TokenKind::PlusEq => {
                self.bump();
                Operation::Add(self.term()?)
            }
            TokenKind::MinusEq => {
                self.bump();
                Operation::Subtract(self.term()?)
            }
            TokenKind::LeftBracket => {
                self.bump();
                let key = self.term()?;
                self.expect(TokenKind::RightBracket)?;
                self.expect(TokenKind::Eq)?;
                let value = self.term()?;
                Operation::SetElement { key, value }
            }
            TokenKind::Dot => {
                self.bump();
                let field = self.ident()?;
                self.expect(TokenKind::Eq)?;
                let value = self.term()?;
                Operation::SetField { field, value }
            }
            _ => return Err(self.no_viable()),
        };
        Ok(Assignment { column, operation })
    }

    /// What follows `column =`: a term, `term + column`, `column + term`, `column - term`, or `column -3`,
    /// where the lexer has taken the minus for the number's.
    fn assigned(&mut self, column: &Ident) -> Parse<Operation> {
        let is_call = self.is_function_call()
            || (self.peek_keyword() == Some(Keyword::Cast) && self.peek_at(1) == TokenKind::LeftParen);
        if self.is_column_at(0) && !is_call {
            return self.added_to_column(column);
        }
        let value = self.term_before_column()?;
        if !self.eat(TokenKind::Plus) {
            return Ok(Operation::Set(value));
        }
        if self.column()? != *column {
            return Err(SyntaxError::rule("Only expressions of the form X = <value> + X are supported."));
        }
        Ok(Operation::Prepend(value))
    }

    fn added_to_column(&mut self, column: &Ident) -> Parse<Operation> {
        let same = self.column()? == *column;
        let sign = self.peek();
        let operation = match sign {
            TokenKind::Plus => {
                self.bump();
                Operation::Add(self.term()?)
            }
            TokenKind::Minus => {
                self.bump();
                Operation::Subtract(self.term()?)
            }
            TokenKind::Integer => {
                let token = self.bump();
                let text = self.source(token).to_owned();
                Operation::Add(Term::Literal(Literal { kind: LiteralKind::Integer, text }))
            }
            _ => return Err(self.no_viable()),
        };
        if same {
            return Ok(operation);
        }
        let form = match (sign, &operation) {
            (TokenKind::Plus, _) => "X = X +<value>",
            (TokenKind::Minus, _) => "X = X -<value>",
            (_, Operation::Add(Term::Literal(number))) if number.text.starts_with('-') => "X = X - <value>",
            _ => "X = X + <value>",
        };
        Err(SyntaxError::rule(format!("Only expressions of the form {form} are supported.")))
    }

    fn delete(&mut self) -> Parse<Delete> {
        self.expect_keyword(Keyword::Delete)?;
        let mut deletions = Vec::new();
        if self.is_column_at(0) {
            deletions = self.separated(Self::deletion)?;
        }
        self.expect_keyword(Keyword::From)?;
        let table = self.table_name()?;
        let mut using = Using::default();
        if self.eat_keyword(Keyword::Using) {
            self.expect_keyword(Keyword::Timestamp)?;
            using.timestamp = Some(self.integer_or_marker()?);
        }
        self.expect_keyword(Keyword::Where)?;
        Ok(Delete { table, deletions, using, relations: self.relations()?, condition: self.update_condition()? })
    }

    fn deletion(&mut self) -> Parse<Deletion> {
        Ok(Deletion { column: self.column()?, target: self.target()? })
    }

    /// What follows a column's name: `[key]`, `.field` or nothing.
    fn target(&mut self) -> Parse<Target> {
        if self.eat(TokenKind::LeftBracket) {
            let key = self.term()?;
            self.expect(TokenKind::RightBracket)?;
            Ok(Target::Element(key))
        } else if self.eat(TokenKind::Dot) {
            Ok(Target::Field(self.ident()?))
        } else {
            Ok(Target::Column)
        }
    }

    /// `IF EXISTS` or `IF conditions`, if it is next. EXISTS may also be the column of a condition.
    fn update_condition(&mut self) -> Parse<UpdateCondition> {
        if !self.eat_keyword(Keyword::If) {
            return Ok(UpdateCondition::None);
        }
        let is_exists = self.peek_keyword() == Some(Keyword::Exists);
        if is_exists && !self.is_condition_test_at(1) {
            self.bump();
            return Ok(UpdateCondition::IfExists);
        }
        Ok(UpdateCondition::If(self.joined_by_and(Self::condition)?))
    }

    fn is_condition_test_at(&self, ahead: usize) -> bool {
        matches!(
            self.peek_at(ahead),
            TokenKind::Eq
                | TokenKind::Ne
                | TokenKind::Lt
                | TokenKind::Le
                | TokenKind::Gt
                | TokenKind::Ge
                | TokenKind::LeftBracket
                | TokenKind::Dot
                | TokenKind::Keyword(Keyword::In | Keyword::Contains)
        )
    }

    fn condition(&mut self) -> Parse<Condition> {
        let column = self.column()?;
        let target = self.target()?;
        let test = if self.eat_keyword(Keyword::In) {
            ConditionTest::In(self.in_values()?)
        } else if target == Target::Column && self.eat_keyword(Keyword::Contains) {
            if self.eat_keyword(Keyword::Key) {
                ConditionTest::ContainsKey(self.term()?)
            } else {
                ConditionTest::Contains(self.term()?)
            }
        } else {
            ConditionTest::Compare(self.operator()?, self.term()?)
        };
        Ok(Condition { column, target, test })
    }
}

/// What the assignments so far have set.
#[derive(Default)]
struct Assigned {
    whole: HashSet<Ident>,
    parts: HashSet<Ident>,
    fields: HashSet<(Ident, Ident)>,
}

impl Assigned {
    /// Refuses to set a column whole beside any other assignment to it, and to set a field twice.
    fn add(&mut self, assignment: &Assignment) -> Parse<()> {
        let column = &assignment.column;
        let is_new = match &assignment.operation {
            Operation::Set(_) => !self.parts.contains(column) && self.whole.insert(column.clone()),
            Operation::SetField { field, .. } => {
                self.parts.insert(column.clone());
                !self.whole.contains(column) && self.fields.insert((column.clone(), field.clone()))
            }
            _ => {
                self.parts.insert(column.clone());
                !self.whole.contains(column)
            }
        };
        if is_new {
            return Ok(());
        }
        Err(SyntaxError::rule(format!("Multiple incompatible setting of column {column}")))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_error, ident, idents, int, named, qualified, statement, string};
    use super::*;
    use crate::cql::ast::{BindIndex, InValues, Operator, Relation};

    fn update(cql: &str) -> Update {
        match statement(cql) {
            Statement::Update(update) => update,
            other => panic!("{other:?}"),
        }
    }

    fn delete(cql: &str) -> Delete {
        match statement(cql) {
            Statement::Delete(delete) => delete,
            other => panic!("{other:?}"),
        }
    }

    fn batch(cql: &str) -> Batch {
        match statement(cql) {
            Statement::Batch(batch) => batch,
            other => panic!("{other:?}"),
        }
    }

    fn check_set(text: &str, column: &str, operation: Operation) {
        let found = update(&format!("UPDATE t SET {text} WHERE k = 1")).assignments;
        let column = ident(column);
        assert_eq!(found, [Assignment { column, operation }], "{text}");
    }

    fn check_set_error(text: &str, message: &str) {
        check_error(&format!("UPDATE t SET {text} WHERE k = 1"), message);
    }

    fn check_if(text: &str, target: Target, test: ConditionTest) {
        let found = update(&format!("UPDATE t SET v = 1 WHERE k = 1 IF {text}")).condition;
        let column = ident("c");
        let expected = UpdateCondition::If(vec![Condition { column, target, test }]);
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn inserts() {
        let found = statement("INSERT INTO ks.t (k, \"V\") VALUES (1, ?) IF NOT EXISTS USING TTL 5 AND TIMESTAMP :ts");
        let expected = Insert {
            table: qualified("ks", "t"),
            columns: idents(["k", "V"]),
            values: vec![int("1"), Term::Marker(BindIndex(0))],
            if_not_exists: true,
            using: Using { timestamp: Some(Term::Marker(BindIndex(1))), ttl: Some(int("5")) },
        };
        assert_eq!(found, Statement::Insert(expected));
        // How many values there must be is no matter of syntax.
        statement("INSERT INTO t (k) VALUES (1, 2)");
        statement("INSERT INTO t (\"\") VALUES (1)");
    }

    #[test]
    fn what_is_no_insert() {
        for (cql, message) in [
            ("INSERT t (k) VALUES (1)", "line 1:7 mismatched input 't' expecting K_INTO"),
            ("INSERT INTO t VALUES (1)", "line 1:14 no viable alternative at input 'VALUES'"),
            ("INSERT INTO t () VALUES ()", "line 1:15 no viable alternative at input ')'"),
            ("INSERT INTO t (k) VALUES (1) IF EXISTS", "line 1:32 mismatched input 'EXISTS' expecting K_NOT"),
            ("INSERT INTO t (k) VALUES (1) USING TTL 5 IF NOT EXISTS", "line 1:41 mismatched input 'IF' expecting EOF"),
            ("INSERT INTO t (k) VALUES (1) USING TTL 1.5", "line 1:39 no viable alternative at input '1.5'"),
            ("INSERT INTO t JSON 5", "line 1:19 no viable alternative at input '5'"),
        ] {
            check_error(cql, message);
        }
    }

    #[test]
    fn inserts_of_json() {
        let json = |cql: &str| match statement(cql) {
            Statement::InsertJson(insert) => insert,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            json("INSERT INTO t JSON '{\"k\": ''x''}'"),
            InsertJson {
                table: named("t"),
                source: JsonSource::Literal("{\"k\": 'x'}".to_owned()),
                default: JsonDefault::Null,
                if_not_exists: false,
                using: Using::default(),
            }
        );
        let found = json("INSERT INTO t JSON ? DEFAULT UNSET IF NOT EXISTS USING TIMESTAMP 5");
        assert_eq!(found.source, JsonSource::Marker(BindIndex(0)));
        assert_eq!(found.default, JsonDefault::Unset);
        assert!(found.if_not_exists);
        assert_eq!(found.using.timestamp, Some(int("5")));
        assert_eq!(json("INSERT INTO t JSON '' DEFAULT NULL").default, JsonDefault::Null);
    }

    #[test]
    fn assignments() {
        let list = || Term::List(vec![int("1")]);
        check_set("v = 1", "v", Operation::Set(int("1")));
        check_set("\"V\" = null", "V", Operation::Set(Term::Null));
        check_set("l = l + [1]", "l", Operation::Add(list()));
        check_set("l = l - [1]", "l", Operation::Subtract(list()));
        check_set("l = [1] + l", "l", Operation::Prepend(list()));
        check_set("l += [1]", "l", Operation::Add(list()));
        check_set("l -= [1]", "l", Operation::Subtract(list()));
        check_set("n = n + ?", "n", Operation::Add(Term::Marker(BindIndex(0))));
        check_set("n = n + -2", "n", Operation::Add(int("-2")));
        check_set("m['a'] = 1", "m", Operation::SetElement { key: string("a"), value: int("1") });
        check_set("u.f = 1", "u", Operation::SetField { field: ident("f"), value: int("1") });
    }

    #[test]
    fn a_minus_before_digits_still_subtracts() {
        check_set("n = n -3", "n", Operation::Add(int("-3")));
        check_set("n = n - 3", "n", Operation::Subtract(int("3")));
    }

    #[test]
    fn functions_and_sums_are_values() {
        let value = |text: &str| {
            let found = update(&format!("UPDATE t SET v = {text} WHERE k = 1")).assignments;
            match &found[..] {
                [Assignment { operation: Operation::Set(term), .. }] => term.to_string(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(value("now()"), "now()");
        assert_eq!(value("ks.f(1)"), "ks.f(1)");
        assert_eq!(value("1 + f()"), "1 + f()");
        assert_eq!(value("1 + ks.f()"), "1 + ks.f()");
        assert_eq!(value("CAST(1 AS int)"), "cast(1 as int)");
    }

    #[test]
    fn only_the_column_itself_can_be_added_to() {
        let form = |form| format!("Only expressions of the form {form} are supported.");
        check_set_error("n = m + 1", &form("X = X +<value>"));
        check_set_error("n = m - 1", &form("X = X -<value>"));
        check_set_error("n = m -1", &form("X = X - <value>"));
        check_set_error("l = [1] + m", &form("X = <value> + X"));
        check_set_error("v = c", "line 1:19 no viable alternative at input 'WHERE'");
        check_set_error("n = n * 2", "line 1:19 no viable alternative at input '*'");
        check_set_error("l = l + l", "line 1:23 no viable alternative at input 'WHERE'");
    }

    #[test]
    fn a_column_is_set_whole_or_in_parts() {
        for text in ["v = 1, v = 2", "v = 1, v[0] = 2", "v.a = 1, v = 2", "u.a = 1, u.a = 2"] {
            let column = &text[..1];
            let message = format!("Multiple incompatible setting of column {column}");
            check_set_error(text, &message);
        }
        for text in ["l[0] = 1, l[1] = 2", "l += [1], l += [2]", "u.a = 1, u.b = 2", "v = 1, w = 1"] {
            update(&format!("UPDATE t SET {text} WHERE k = 1"));
        }
    }

    #[test]
    fn updates() {
        let found = update("UPDATE ks.t USING TTL ? SET v = 1 WHERE k = 1 IF EXISTS");
        assert_eq!(found.table, qualified("ks", "t"));
        assert_eq!(found.using, Using { timestamp: None, ttl: Some(Term::Marker(BindIndex(0))) });
        assert!(matches!(&found.relations[..], [Relation::Column { .. }]));
        assert_eq!(found.condition, UpdateCondition::IfExists);
        check_error("UPDATE t WHERE k = 1", "line 1:9 mismatched input 'WHERE' expecting K_SET");
        check_error("UPDATE t SET v = 1", "line 0:-1 mismatched input '<EOF>' expecting K_WHERE");
    }

    #[test]
    fn conditions() {
        use Target::{Column, Element, Field};
        check_if("c = 1", Column, ConditionTest::Compare(Operator::Eq, int("1")));
        check_if("c != null", Column, ConditionTest::Compare(Operator::Ne, Term::Null));
        check_if("c IN (1)", Column, ConditionTest::In(InValues::List(vec![int("1")])));
        check_if("c IN ?", Column, ConditionTest::In(InValues::Marker(BindIndex(0))));
        check_if("c CONTAINS 1", Column, ConditionTest::Contains(int("1")));
        check_if("c CONTAINS KEY 1", Column, ConditionTest::ContainsKey(int("1")));
        let less = || ConditionTest::Compare(Operator::Lt, int("2"));
        check_if("c['x'] < 2", Element(string("x")), less());
        check_if("c.f < 2", Field(ident("f")), less());
        let members = ConditionTest::In(InValues::List(vec![]));
        check_if("c.f IN ()", Field(ident("f")), members);
    }

    #[test]
    fn several_conditions_and_a_column_called_exists() {
        let condition = |text: &str| update(&format!("UPDATE t SET v = 1 WHERE k = 1 IF {text}")).condition;
        let UpdateCondition::If(conditions) = condition("a = 1 AND b = 2 AND a = 3") else {
            panic!("conditions");
        };
        assert_eq!(conditions.len(), 3);
        assert!(matches!(condition("exists = true"), UpdateCondition::If(_)));
        assert_eq!(condition("EXISTS"), UpdateCondition::IfExists);
    }

    #[test]
    fn what_is_no_condition() {
        for (text, message) in [
            ("", "line 0:-1 no viable alternative at input '<EOF>'"),
            ("NOT EXISTS", "line 1:34 no viable alternative at input 'NOT'"),
            ("a = 1 OR a = 2", "line 1:40 mismatched input 'OR' expecting EOF"),
            ("a LIKE 'x'", "line 1:36 no viable alternative at input 'LIKE'"),
            ("a IS NOT NULL", "line 1:36 no viable alternative at input 'IS'"),
            ("m[1] CONTAINS 1", "line 1:39 no viable alternative at input 'CONTAINS'"),
        ] {
            check_error(&format!("UPDATE t SET a = 1 WHERE k = 1 IF {text}"), message);
        }
    }

    #[test]
    fn deletes() {
        let found = delete("DELETE a, m['x'], u.f FROM t USING TIMESTAMP 5 WHERE k = 1 IF a = 1");
        let deletion = |column, target| Deletion { column: ident(column), target };
        assert_eq!(
            found.deletions,
            [
                deletion("a", Target::Column),
                deletion("m", Target::Element(string("x"))),
                deletion("u", Target::Field(ident("f"))),
            ]
        );
        assert_eq!(found.using.timestamp, Some(int("5")));
        assert!(matches!(found.condition, UpdateCondition::If(_)));
        let whole = delete("DELETE FROM t WHERE k = 1");
        assert!(whole.deletions.is_empty());
        assert_eq!(whole.condition, UpdateCondition::None);
    }

    #[test]
    fn what_is_no_delete() {
        for (cql, message) in [
            ("DELETE FROM t", "line 0:-1 mismatched input '<EOF>' expecting K_WHERE"),
            ("DELETE * FROM t WHERE k = 1", "line 1:7 mismatched input '*' expecting K_FROM"),
            ("DELETE FROM t USING TTL 5 WHERE k = 1", "line 1:20 mismatched input 'TTL' expecting K_TIMESTAMP"),
            (
                "DELETE v FROM t USING TIMESTAMP 5 AND TTL 5 WHERE k = 1",
                "line 1:34 mismatched input 'AND' expecting K_WHERE",
            ),
            ("DELETE FROM t WHERE k = 1 ALLOW FILTERING", "line 1:26 mismatched input 'ALLOW' expecting EOF"),
        ] {
            check_error(cql, message);
        }
    }

    #[test]
    fn batches() {
        let found = batch(
            "BEGIN UNLOGGED BATCH USING TIMESTAMP ? INSERT INTO t (k) VALUES (?) \
             UPDATE u SET v = 1 WHERE k = ?; DELETE FROM t WHERE k = 1; \
             INSERT INTO j JSON '{}'; APPLY BATCH;",
        );
        assert_eq!(found.kind, BatchKind::Unlogged);
        assert_eq!(found.using.timestamp, Some(Term::Marker(BindIndex(0))));
        let tables: Vec<_> = found.statements.iter().map(|modification| modification.table().name.as_str()).collect();
        assert_eq!(tables, ["t", "u", "t", "j"]);
        assert_eq!(batch("BEGIN BATCH APPLY BATCH").kind, BatchKind::Logged);
        assert_eq!(batch("BEGIN COUNTER BATCH APPLY BATCH").kind, BatchKind::Counter);
    }

    #[test]
    fn what_is_no_batch() {
        for (cql, message) in [
            ("BEGIN BATCH", "line 0:-1 mismatched input '<EOF>' expecting K_APPLY"),
            ("BEGIN LOGGED BATCH APPLY BATCH", "line 1:6 mismatched input 'LOGGED' expecting K_BATCH"),
            ("BEGIN BATCH SELECT * FROM t; APPLY BATCH", "line 1:12 mismatched input 'SELECT' expecting K_APPLY"),
            ("BEGIN BATCH TRUNCATE t; APPLY BATCH", "line 1:12 mismatched input 'TRUNCATE' expecting K_APPLY"),
        ] {
            check_error(cql, message);
        }
    }
}
