//! INSERT, UPDATE, DELETE and BATCH.

use super::{Parse, Parser};
use crate::base::collections::HashSet;
use crate::cql::ast::{
    Assignment, Batch, BatchKind, Condition, ConditionTarget, ConditionTest, Delete, Deletion, DeletionTarget, Ident,
    Insert, InsertJson, JsonDefault, JsonSource, Literal, LiteralKind, Modification, Operation, QualifiedName,
    Statement, Term, Update, UpdateCondition, Using,
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
        let column = self.column()?;
        let target = if self.eat(TokenKind::LeftBracket) {
            let key = self.term()?;
            self.expect(TokenKind::RightBracket)?;
            DeletionTarget::Element(key)
        } else if self.eat(TokenKind::Dot) {
            DeletionTarget::Field(self.ident()?)
        } else {
            DeletionTarget::Column
        };
        Ok(Deletion { column, target })
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
        let target = if self.eat(TokenKind::LeftBracket) {
            let key = self.term()?;
            self.expect(TokenKind::RightBracket)?;
            ConditionTarget::Element(key)
        } else if self.eat(TokenKind::Dot) {
            ConditionTarget::Field(self.ident()?)
        } else {
            ConditionTarget::Column
        };
        let test = if self.eat_keyword(Keyword::In) {
            ConditionTest::In(self.in_values()?)
        } else if target == ConditionTarget::Column && self.eat_keyword(Keyword::Contains) {
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
