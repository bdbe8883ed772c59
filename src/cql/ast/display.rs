//! The text of terms, types, selectors, relations and assignments, as Cassandra prints them in column names
//! and error messages.
//!
//! Column names are literal: `system.max(v)`, `cast(i as text)`, `v + 1`, `(int)1`, `m['k']`. They print
//! functions and user types with the keyspace they resolve to, which only the planner knows: it hands in a
//! [`NameResolver`]. `Display` prints names as written.

use std::fmt;

use super::data_type::DataType;
use super::modification::{Assignment, Operation};
use super::name::{FunctionName, Ident, QualifiedName};
use super::relation::{InValues, Relation};
use super::select::Selectable;
use super::term::{Literal, LiteralKind, Term};

/// Gives the names that functions and user types are printed with.
pub trait NameResolver {
    /// Such as `system.max` for `max`.
    fn function(&self, name: &FunctionName) -> String;
    /// Such as `ks.address` for `address`.
    fn user_type(&self, name: &QualifiedName) -> String;
}

/// Names as the statement spells them.
struct AsWritten;

impl NameResolver for AsWritten {
    fn function(&self, name: &FunctionName) -> String {
        name.to_string()
    }

    fn user_type(&self, name: &QualifiedName) -> String {
        name.to_string()
    }
}

impl Selectable {
    /// The name of the result column that this selects, unless an alias replaces it.
    pub fn column_name(&self, names: &dyn NameResolver) -> String {
        Named { node: self, names }.to_string()
    }
}

/// A node to print with resolved names.
struct Named<'a, T> {
    node: &'a T,
    names: &'a dyn NameResolver,
}

impl<'a, T> Named<'a, T> {
    fn with<U>(&self, node: &'a U) -> Named<'a, U> {
        Named { node, names: self.names }
    }
}

macro_rules! display_as_written {
    ($($node:ty),*) => {$(
        impl fmt::Display for $node {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                Named { node: self, names: &AsWritten }.fmt(f)
            }
        }
    )*};
}

display_as_written!(Selectable, Term, DataType);

fn write_separated<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    open: &str,
    items: impl Iterator<Item = T>,
    close: &str,
) -> fmt::Result {
    f.write_str(open)?;
    for (index, item) in items.enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        item.fmt(f)?;
    }
    f.write_str(close)
}

/// A map entry, printed `key: value`.
struct Entry<K, V>(K, V);

impl<K: fmt::Display, V: fmt::Display> fmt::Display for Entry<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0, self.1)
    }
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            LiteralKind::String => write!(f, "'{}'", self.text),
            _ => f.write_str(&self.text),
        }
    }
}

impl fmt::Display for Named<'_, Selectable> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Selectable::Column(name) => name.fmt(f),
            Selectable::Term(term) => self.with(term).fmt(f),
            Selectable::CountRows => f.write_str("count"),
            Selectable::Function { name, args } => {
                f.write_str(&self.names.function(name))?;
                write_separated(f, "(", args.iter().map(|arg| self.with(arg)), ")")
            }
            Selectable::Cast { operand, to } => {
                write!(f, "cast({} as {})", self.with(&**operand), to.name())
            }
            Selectable::Metadata { kind, selected, .. } => {
                write!(f, "{}({})", kind.name(), self.with(&**selected))
            }
            Selectable::Operation { left, operator, right } => {
                let (left, right) = (self.with(&**left), self.with(&**right));
                write!(f, "{left} {} {right}", operator.symbol())
            }
            Selectable::Negation(operand) => write!(f, "-{}", self.with(&**operand)),
            Selectable::Field { of, field } => write!(f, "{}.{field}", self.with(&**of)),
            Selectable::Element { of, key } => {
                write!(f, "{}[{}]", self.with(&**of), self.with(key))
            }
            Selectable::Slice { of, from, to } => {
                write!(f, "{}[", self.with(&**of))?;
                if let Some(from) = from {
                    self.with(from).fmt(f)?;
                }
                f.write_str("..")?;
                if let Some(to) = to {
                    self.with(to).fmt(f)?;
                }
                f.write_str("]")
            }
            Selectable::TypeHint { data_type, operand } => {
                write!(f, "({}){}", self.with(data_type), self.with(&**operand))
            }
            Selectable::Parenthesized(items) => write_separated(f, "(", items.iter().map(|item| self.with(item)), ")"),
            Selectable::List(items) => write_separated(f, "[", items.iter().map(|item| self.with(item)), "]"),
            Selectable::Set(items) => write_separated(f, "{", items.iter().map(|item| self.with(item)), "}"),
            Selectable::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| Entry(self.with(key), self.with(value)));
                write_separated(f, "{", entries, "}")
            }
        }
    }
}

impl fmt::Display for Named<'_, Term> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            Term::Literal(literal) => literal.fmt(f),
            Term::Null => f.write_str("NULL"),
            Term::Marker(_) => f.write_str("?"),
            Term::List(items) => write_separated(f, "[", items.iter().map(|item| self.with(item)), "]"),
            Term::Set(items) => write_separated(f, "{", items.iter().map(|item| self.with(item)), "}"),
            Term::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| Entry(self.with(key), self.with(value)));
                write_separated(f, "{", entries, "}")
            }
            Term::UserType(fields) => {
                let fields = fields.iter().map(|(field, value)| Entry(field, self.with(value)));
                write_separated(f, "{", fields, "}")
            }
            Term::Tuple(items) => write_separated(f, "(", items.iter().map(|item| self.with(item)), ")"),
            Term::Function { name, args } => {
                f.write_str(&self.names.function(name))?;
                write_separated(f, "(", args.iter().map(|arg| self.with(arg)), ")")
            }
            Term::Operation { left, operator, right } => {
                let (left, right) = (self.with(&**left), self.with(&**right));
                write!(f, "{left} {} {right}", operator.symbol())
            }
            Term::Negation(operand) => write!(f, "-{}", self.with(&**operand)),
            Term::TypeHint { data_type, term } => {
                write!(f, "({}){}", self.with(data_type), self.with(&**term))
            }
            Term::Cast { term, to } => {
                write!(f, "cast({} as {})", self.with(&**term), to.name())
            }
        }
    }
}

impl fmt::Display for Named<'_, DataType> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.node {
            DataType::Native(native) => f.write_str(native.name()),
            DataType::List(element) => write!(f, "list<{}>", self.with(&**element)),
            DataType::Set(element) => write!(f, "set<{}>", self.with(&**element)),
            DataType::Map(key, value) => {
                write!(f, "map<{}, {}>", self.with(&**key), self.with(&**value))
            }
            DataType::Tuple(elements) => {
                let elements = elements.iter().map(|element| self.with(element));
                write_separated(f, "tuple<", elements, ">")
            }
            DataType::Vector(element, dimensions) => {
                write!(f, "vector<{}, {dimensions}>", self.with(&**element))
            }
            DataType::Frozen(inner) => write!(f, "frozen<{}>", self.with(&**inner)),
            DataType::UserType(name) => f.write_str(&self.names.user_type(name)),
            DataType::Custom(class) => write!(f, "'{class}'"),
        }
    }
}

impl fmt::Display for InValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InValues::Marker(_) => f.write_str("?"),
            InValues::List(values) => write_separated(f, "(", values.iter(), ")"),
        }
    }
}

/// Column names as CQL must spell them: a relation's text is stored with a view and parsed again.
fn write_columns(f: &mut fmt::Formatter<'_>, columns: &[Ident]) -> fmt::Result {
    write_separated(f, "(", columns.iter().map(Ident::to_cql), ")")
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Relation::Column { column, operator, value } => {
                write!(f, "{} {} {value}", column.to_cql(), operator.symbol())
            }
            Relation::ColumnIn { column, values } => {
                write!(f, "{} IN {values}", column.to_cql())
            }
            Relation::Contains { column, value } => {
                write!(f, "{} CONTAINS {value}", column.to_cql())
            }
            Relation::ContainsKey { column, value } => {
                write!(f, "{} CONTAINS KEY {value}", column.to_cql())
            }
            Relation::Like { column, value } => write!(f, "{} LIKE {value}", column.to_cql()),
            Relation::IsNotNull { column } => write!(f, "{} IS NOT NULL", column.to_cql()),
            Relation::Element { column, key, operator, value } => {
                write!(f, "{}[{key}] {} {value}", column.to_cql(), operator.symbol())
            }
            Relation::Token { columns, operator, value } => {
                f.write_str("token")?;
                write_columns(f, columns)?;
                write!(f, " {} {value}", operator.symbol())
            }
            Relation::Tuple { columns, operator, value } => {
                write_columns(f, columns)?;
                write!(f, " {} {value}", operator.symbol())
            }
            Relation::TupleIn { columns, values } => {
                write_columns(f, columns)?;
                write!(f, " IN {values}")
            }
            Relation::CustomIndex { index, value } => write!(f, "expr({}, {value})", index.to_cql()),
        }
    }
}

impl fmt::Display for Assignment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let column = &self.column;
        match &self.operation {
            Operation::Set(value) => write!(f, "{column} = {value}"),
            Operation::Add(value) => write!(f, "{column} = {column} + {value}"),
            Operation::Subtract(value) => write!(f, "{column} = {column} - {value}"),
            // The minus is Cassandra's own slip, kept because clients see this text in errors.
            Operation::Prepend(value) => write!(f, "{column} = {value} - {column}"),
            Operation::SetElement { key, value } => write!(f, "{column}[{key}] = {value}"),
            Operation::SetField { field, value } => write!(f, "{column}.{field} = {value}"),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::cql::ast::{Selection, Statement};
    use crate::cql::parse;

    /// Resolves as a server would with the current keyspace `ks` and no functions of its own.
    struct InKeyspace;

    impl NameResolver for InKeyspace {
        fn function(&self, name: &FunctionName) -> String {
            match &name.keyspace {
                Some(keyspace) => format!("{keyspace}.{}", name.name),
                None => format!("system.{}", name.name),
            }
        }

        fn user_type(&self, name: &QualifiedName) -> String {
            format!("ks.{}", name.name)
        }
    }

    fn selectable(text: &str) -> Selectable {
        match parse(&format!("SELECT {text} FROM t")).unwrap().statement {
            Statement::Select(select) => match select.selection {
                Selection::Selectors(mut selectors) => selectors.remove(0).selectable,
                Selection::All => panic!("{text}"),
            },
            other => panic!("{other:?}"),
        }
    }

    /// The name of the column that a selector makes.
    fn check(text: &str, expected: &str) {
        assert_eq!(selectable(text).column_name(&InKeyspace), expected, "{text}");
    }

    fn check_assignment(text: &str, expected: &str) {
        let update = format!("UPDATE t SET {text} WHERE k = 1");
        match parse(&update).unwrap().statement {
            Statement::Update(update) => assert_eq!(update.assignments[0].to_string(), expected),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn columns_are_named_as_cassandra_names_them() {
        check("V", "v");
        check("\"qu\"\"ote\"", "qu\"ote");
        check("count(*)", "count");
        check("count(1)", "count");
        check("MAX(v)", "system.max(v)");
        check("intAsBlob(v)", "system.intasblob(v)");
        check("ks.f(v, 1)", "ks.f(v, 1)");
        check("token(null)", "system.token(NULL)");
        check("collection_min(map_values(m))", "system.collection_min(system.map_values(m))");
        check("CAST(i AS text)", "cast(i as text)");
        check("WRITETIME(u.a)", "writetime(u.a)");
        check("ttl(v) / 100000", "ttl(v) / 100000");
        check("u.\"C\"", "u.C");
        check("m['x'].a", "m['x'].a");
        check("s['c'..'d']", "s['c'..'d']");
        check("m[..4]", "m[..4]");
        check("s['d'..]", "s['d'..]");
        check("m[:key]", "m[?]");
    }

    #[test]
    fn expressions_keep_their_parentheses() {
        check("v+1", "v + 1");
        check("-v", "-v");
        check("(v + c) * 2", "(v + c) * 2");
        check("sum(i + 1)", "system.sum(i + 1)");
        check("(int) 1", "(int)1");
        check("(text) 'x'", "(text)'x'");
        check("(int) null", "(int)NULL");
        check("(list<int>) [1, 2]", "(list<int>)[1, 2]");
        check("(map<int, int>) {1: 2}", "(map<int, int>){1: 2}");
        check("(ty) {a: 1, b: 'z'}", "(ks.ty){a: 1, b: 'z'}");
        check("f(0xAB, 1.50, True, 1h)", "system.f(0xAB, 1.50, True, 1h)");
    }

    #[test]
    fn without_a_resolver_names_stand_as_written() {
        assert_eq!(selectable("max(v)").to_string(), "max(v)");
        assert_eq!(selectable("(Ty) {a: 1}").to_string(), "(ty){a: 1}");
        assert_eq!(selectable("m[f({1, 2})]").to_string(), "m[f({1, 2})]");
    }

    #[test]
    fn assignments_print_as_cassandra_prints_them() {
        check_assignment("v = 1", "v = 1");
        check_assignment("v = v + 1", "v = v + 1");
        check_assignment("v += 1", "v = v + 1");
        check_assignment("v -= [1]", "v = v - [1]");
        check_assignment("s = {'x'} + s", "s = {'x'} - s");
        check_assignment("v[0] = 'a'", "v[0] = 'a'");
        check_assignment("v.a = (1, 2)", "v.a = (1, 2)");
    }
}
