//! Selectors as arguments of calls: their types, as far as these are known before what receives them is.

use std::fmt;

use crate::cql::ast::{self, Selectable};
use crate::plan::functions::{self, Argument, resolve_aggregate, type_assignment};
use crate::plan::select::parts::field_index;
use crate::plan::select::row::CellPart;
use crate::plan::select::selection::{metadata_type, native_name};
use crate::plan::term::{self, Memo, RawTerm};
use crate::plan::{data_type, names};
use crate::protocol::CqlError;
use crate::schema::{Schema, Table};
use crate::types::CqlType;
use crate::types::literal::Assignment;

/// A selector with what its names mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct RawSelectable<'a> {
    pub selectable: &'a Selectable,
    pub table: &'a Table,
    pub schema: &'a Schema,
    pub keyspace: &'a str,
    pub memo: &'a Memo,
}

/// That nothing says which type a term has.
pub(super) fn unknown_type(selectable: &Selectable) -> CqlError {
    CqlError::invalid(format!(
        "Cannot infer type for term {selectable} in selection clause (try using a cast to force a type)"
    ))
}

impl fmt::Display for RawSelectable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.selectable.fmt(f)
    }
}

impl<'a> RawSelectable<'a> {
    fn with(self, selectable: &'a Selectable) -> RawSelectable<'a> {
        RawSelectable { selectable, ..self }
    }

    fn term(self, term: &'a ast::Term) -> RawTerm<'a> {
        let RawSelectable { table, schema, keyspace, memo, .. } = self;
        RawTerm { term, schema, keyspace, table: Some(table), memo }
    }

    /// The type, where the selector has one whatever receives it. Names that mean nothing are errors.
    pub fn exact_type(self) -> Result<Option<CqlType>, CqlError> {
        self.memo.selector_type(self.selectable, || self.find_type())
    }

    fn find_type(self) -> Result<Option<CqlType>, CqlError> {
        let of = |selectable| self.with(selectable).exact_type();
        Ok(match self.selectable {
            Selectable::Column(name) => Some(names::column(self.table, name)?.ty.clone()),
            Selectable::Term(_) | Selectable::Map(_) => None,
            Selectable::CountRows => Some(CqlType::BigInt),
            Selectable::Function { name, args } => self.function_type(name, args)?,
            Selectable::Cast { to, .. } => Some(to.cql_type()),
            Selectable::Metadata { kind, column: name, selected } => {
                let column = names::column(self.table, name)?;
                let part = match **selected {
                    Selectable::Element { .. } => CellPart::Element(0),
                    Selectable::Field { .. } => CellPart::Field(0),
                    _ => CellPart::Whole,
                };
                Some(metadata_type(*kind, column, part))
            }
            Selectable::Operation { left, operator, right } => {
                let (left, right) = (self.with(left), self.with(right));
                let function = functions::resolve_operator(*operator, &left, &right, None)?;
                Some(function.result_type().clone())
            }
            Selectable::Negation(operand) => {
                Some(functions::resolve_negation(&self.with(operand), None)?.result_type().clone())
            }
            Selectable::Field { of: udt, field } => match of(udt)? {
                Some(ty) => {
                    let at = field_index(&udt.to_string(), &ty, field)?;
                    ty.as_udt().and_then(|udt| udt.fields.get(at)).map(|(_, ty)| ty.clone())
                }
                None => None,
            },
            Selectable::Element { of: collection, .. } => of(collection)?.and_then(|ty| match ty.unfrozen() {
                CqlType::Map(_, value) => Some((**value).clone()),
                CqlType::Set(element) => Some((**element).clone()),
                _ => None,
            }),
            Selectable::Slice { of: collection, .. } => of(collection)?,
            Selectable::TypeHint { data_type, .. } => Some(data_type::resolve(data_type, self.schema, self.keyspace)?),
            Selectable::Parenthesized(items) => match items.as_slice() {
                [inner] => of(inner)?,
                _ => {
                    let types = items.iter().map(of).collect::<Result<Option<Vec<_>>, _>>()?;
                    types.map(CqlType::tuple)
                }
            },
            Selectable::List(items) => self.first_exact(items)?.map(CqlType::list),
            Selectable::Set(items) => self.first_exact(items)?.map(CqlType::set),
        })
    }

    fn first_exact(self, items: &'a [Selectable]) -> Result<Option<CqlType>, CqlError> {
        for item in items {
            if let Some(ty) = self.with(item).exact_type()? {
                return Ok(Some(ty.freeze()));
            }
        }
        Ok(None)
    }

    fn function_type(self, name: &ast::FunctionName, args: &'a [Selectable]) -> Result<Option<CqlType>, CqlError> {
        let unknown = || CqlError::invalid(format!("Unknown function '{name}'"));
        let native = native_name(name).ok_or_else(unknown)?;
        if native == "token" {
            return Ok(Some(CqlType::BigInt));
        }
        let arguments: Vec<RawSelectable<'_>> = args.iter().map(|argument| self.with(argument)).collect();
        let arguments: Vec<&dyn Argument> = arguments.iter().map(|argument| argument as &dyn Argument).collect();
        if let Some(aggregate) = resolve_aggregate(&name.to_string(), &arguments)? {
            return Ok(Some(aggregate.result));
        }
        let function = functions::resolve(&name.to_string(), &arguments, None)?;
        Ok(Some(function.ok_or_else(unknown)?.result_type().clone()))
    }

    /// Whether each of these fits its type: the worst fit.
    fn all(self, items: impl IntoIterator<Item = (&'a Selectable, &'a CqlType)>) -> Assignment {
        let fits = items.into_iter().map(|(item, ty)| self.with(item).assignment(ty));
        fits.min().unwrap_or(Assignment::Weak)
    }
}

impl Argument for RawSelectable<'_> {
    fn assignment(&self, parameter: &CqlType) -> Assignment {
        // The parts of a literal, each against the parameter's.
        let each = |items: &[Selectable], ty: &CqlType| {
            items.iter().map(|item| self.with(item).assignment(ty)).min().unwrap_or(Assignment::Weak)
        };
        match (self.selectable, parameter.unfrozen()) {
            (Selectable::Term(term), _) => term::assignment(self.term(term), parameter).unwrap_or(Assignment::No),
            (Selectable::Parenthesized(items), CqlType::Tuple(types)) if items.len() <= types.len() => {
                let fits = items.iter().zip(types).map(|(item, ty)| self.with(item).assignment(ty));
                fits.min().unwrap_or(Assignment::Weak).min(Assignment::Weak)
            }
            (Selectable::Parenthesized(items), _) => match items.as_slice() {
                [inner] => self.with(inner).assignment(parameter),
                _ => Assignment::No,
            },
            (Selectable::List(items), CqlType::List(element)) | (Selectable::Set(items), CqlType::Set(element)) => {
                each(items, element)
            }
            (Selectable::List(items), CqlType::Vector(element, dimensions)) => {
                if items.len() == usize::from(*dimensions) { each(items, element) } else { Assignment::No }
            }
            (Selectable::Set(items), CqlType::Map(..)) if items.is_empty() => Assignment::Weak,
            (Selectable::Map(entries), CqlType::Map(key, value)) => {
                self.all(entries.iter().flat_map(|(k, v)| [(k, &**key), (v, &**value)]))
            }
            (Selectable::Map(_), CqlType::Udt(_)) => Assignment::Weak,
            (Selectable::List(_) | Selectable::Set(_) | Selectable::Map(_), _) => Assignment::No,
            _ => match self.exact_type() {
                Ok(Some(ty)) => type_assignment(&ty, parameter),
                // Its own error is the one to be seen.
                Ok(None) | Err(_) => Assignment::Weak,
            },
        }
    }

    fn compatible_type(&self) -> Option<CqlType> {
        match self.selectable {
            Selectable::Term(term) => term::compatible_type(self.term(term)),
            Selectable::Parenthesized(items) => match items.as_slice() {
                [inner] => self.with(inner).compatible_type(),
                _ => {
                    let types: Option<Vec<_>> = items.iter().map(|item| self.with(item).compatible_type()).collect();
                    types.map(CqlType::tuple)
                }
            },
            Selectable::List(items) => {
                items.iter().find_map(|item| self.with(item).compatible_type()).map(|ty| CqlType::list(ty.freeze()))
            }
            Selectable::Set(items) => {
                items.iter().find_map(|item| self.with(item).compatible_type()).map(|ty| CqlType::set(ty.freeze()))
            }
            _ => self.exact_type().ok().flatten(),
        }
    }

    fn is_marker(&self) -> bool {
        matches!(self.selectable, Selectable::Term(ast::Term::Marker(_)))
    }

    fn list_literal_len(&self) -> Option<usize> {
        match self.selectable {
            Selectable::List(items) => Some(items.len()),
            Selectable::Term(ast::Term::List(items)) => Some(items.len()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::cql::ast::{Selection, Statement};
    use crate::plan::testing;

    fn with_selectable<T>(text: &str, test: impl FnOnce(RawSelectable<'_>) -> T) -> T {
        let schema = testing::schema(&[
            "CREATE TYPE ks.ty (a int, b text)",
            "CREATE TABLE t (k int PRIMARY KEY, v bigint, w text, m map<text, int>, u ty)",
        ]);
        let statement = crate::cql::parse(&format!("SELECT {text} FROM t")).unwrap().statement;
        let Statement::Select(select) = &statement else { panic!("{text}") };
        let Selection::Selectors(selectors) = &select.selection else { panic!("{text}") };
        let table = schema.table("ks", "t").unwrap();
        let memo = Memo::default();
        test(RawSelectable {
            selectable: &selectors[0].selectable,
            table,
            schema: &schema,
            keyspace: "ks",
            memo: &memo,
        })
    }

    fn check_type(text: &str, exact: Option<&str>, compatible: Option<&str>) {
        with_selectable(text, |raw| {
            let name = |ty: Option<CqlType>| ty.map(|ty| ty.to_string());
            assert_eq!(name(raw.exact_type().unwrap()).as_deref(), exact, "{text}");
            assert_eq!(name(raw.compatible_type()).as_deref(), compatible, "{text}");
        });
    }

    #[test]
    fn types_that_selectors_have() {
        check_type("v", Some("bigint"), Some("bigint"));
        check_type("1", None, Some("int"));
        check_type("null", None, None);
        check_type("?", None, None);
        check_type("(text) ?", Some("text"), Some("text"));
        check_type("[1, 2]", None, Some("list<int>"));
        check_type("[k, 1]", Some("list<int>"), Some("list<int>"));
        check_type("(k, w)", Some("frozen<tuple<int, text>>"), Some("frozen<tuple<int, text>>"));
        check_type("(k, 1)", None, Some("frozen<tuple<int, int>>"));
        check_type("m['x']", Some("int"), Some("int"));
        check_type("m['a'..'b']", Some("map<text, int>"), Some("map<text, int>"));
        check_type("u.b", Some("text"), Some("text"));
        check_type("k + v", Some("bigint"), Some("bigint"));
        check_type("-v", Some("bigint"), Some("bigint"));
        check_type("CAST(k AS text)", Some("text"), Some("text"));
        check_type("count(*)", Some("bigint"), Some("bigint"));
        check_type("max(w)", Some("text"), Some("text"));
        check_type("token(k)", Some("bigint"), Some("bigint"));
        check_type("int_as_blob(k)", Some("blob"), Some("blob"));
        check_type("writetime(m)", Some("list<bigint>"), Some("list<bigint>"));
        check_type("ttl(m['x'])", Some("int"), Some("int"));
    }

    fn check_fit(text: &str, ty: CqlType, expected: Assignment) {
        with_selectable(text, |raw| assert_eq!(raw.assignment(&ty), expected, "{text} as {ty}"));
    }

    #[test]
    fn selectors_fit_what_receives_them() {
        check_fit("k", CqlType::Int, Assignment::Exact);
        check_fit("k", CqlType::Varint, Assignment::Weak);
        check_fit("w", CqlType::Int, Assignment::No);
        check_fit("null", CqlType::Int, Assignment::Weak);
        check_fit("'x'", CqlType::Int, Assignment::No);
        check_fit("[k, w]", CqlType::list(CqlType::Int), Assignment::No);
        check_fit("[k, 1]", CqlType::vector(CqlType::Int, 3), Assignment::No);
        check_fit("(k, w)", CqlType::tuple([CqlType::Int, CqlType::Text]), Assignment::Weak);
        check_fit("(k, w)", CqlType::Int, Assignment::No);
        check_fit("(k)", CqlType::Int, Assignment::Exact);
        check_fit("{}", CqlType::map(CqlType::Int, CqlType::Int), Assignment::Weak);
        check_fit("{w: k}", CqlType::map(CqlType::Text, CqlType::Int), Assignment::Exact);
        check_fit("{k: w}", CqlType::map(CqlType::Text, CqlType::Int), Assignment::No);
    }

    #[test]
    fn markers_and_lists_tell_what_they_are() {
        assert!(with_selectable("?", |raw| raw.is_marker()));
        assert!(!with_selectable("1", |raw| raw.is_marker()));
        assert_eq!(with_selectable("[1, 2, 3]", |raw| raw.list_literal_len()), Some(3));
        assert_eq!(with_selectable("k", |raw| raw.list_literal_len()), None);
    }
}
