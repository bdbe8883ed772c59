//! Terms as parsed, asked how well they fit: Cassandra's `testAssignment` and `getCompatibleTypeIfKnown`.

use std::fmt;

use crate::base::collections::{HashMap, HashSet, hasher};
use crate::cql::ast;
use crate::plan::data_type;
use crate::plan::functions::{self, Argument, Function, type_assignment};
use crate::protocol::CqlError;
use crate::schema::{Schema, Table};
use crate::types::literal::{self, Assignment};
use crate::types::{CqlType, UdtType};

use super::invalid;
use super::memo::Memo;
use super::prepare::{self, Resolved};

/// A parsed term with what its names mean: an argument of a call.
#[derive(Clone, Copy, Debug)]
pub struct RawTerm<'a> {
    pub term: &'a ast::Term,
    pub schema: &'a Schema,
    pub keyspace: &'a str,
    pub table: Option<&'a Table>,
    pub memo: &'a Memo,
}

impl fmt::Display for RawTerm<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.term.fmt(f)
    }
}

impl Argument for RawTerm<'_> {
    fn assignment(&self, parameter: &CqlType) -> Assignment {
        assignment(*self, parameter).unwrap_or(Assignment::No)
    }

    fn compatible_type(&self) -> Option<CqlType> {
        compatible_type(*self)
    }

    fn is_marker(&self) -> bool {
        matches!(self.term, ast::Term::Marker(_))
    }

    fn list_literal_len(&self) -> Option<usize> {
        match self.term {
            ast::Term::List(items) => Some(items.len()),
            _ => None,
        }
    }
}

impl<'a> RawTerm<'a> {
    /// Another term that stands in the same surroundings.
    pub fn with(self, term: &'a ast::Term) -> RawTerm<'a> {
        RawTerm { term, ..self }
    }
}

/// A parsed constant as the types know it.
pub(super) fn literal(constant: &ast::Literal) -> literal::Literal<'_> {
    literal::Literal::new(constant.kind, &constant.text)
}

/// How well a term fits a receiver. The error is of a list where none can stand, which Cassandra throws out of its
/// test.
pub fn assignment(raw: RawTerm<'_>, receiver: &CqlType) -> Result<Assignment, CqlError> {
    let all = |items: &mut dyn Iterator<Item = (&ast::Term, &CqlType)>| {
        let mut worst = None;
        for (item, ty) in items {
            let fit = assignment(raw.with(item), ty)?;
            if fit == Assignment::No {
                return Ok(fit);
            }
            worst = Some(worst.unwrap_or(fit).min(fit));
        }
        Ok(worst.unwrap_or(Assignment::Weak))
    };
    match (raw.term, receiver.unfrozen()) {
        (ast::Term::Literal(constant), _) => Ok(literal(constant).assignable_to(receiver)),
        (ast::Term::Null, CqlType::Counter) => Ok(Assignment::No),
        (ast::Term::Null | ast::Term::Marker(_), _) => Ok(Assignment::Weak),
        (ast::Term::List(items), CqlType::List(element)) => all(&mut items.iter().map(|item| (item, &**element))),
        (ast::Term::List(items), CqlType::Vector(element, dimensions)) => {
            if items.len() != usize::from(*dimensions) {
                return Ok(Assignment::No);
            }
            all(&mut items.iter().map(|item| (item, &**element)))
        }
        (ast::Term::List(_), _) => Err(not_a_list(receiver)),
        (ast::Term::Set(items), CqlType::Set(element)) => all(&mut items.iter().map(|item| (item, &**element))),
        (ast::Term::Set(items), CqlType::Map(..)) if items.is_empty() => Ok(Assignment::Weak),
        (ast::Term::Map(entries), CqlType::Map(key, value)) => {
            let keys = entries.iter().flat_map(|(k, v)| [(k, &**key), (v, &**value)]);
            all(&mut keys.into_iter())
        }
        (ast::Term::UserType(fields), CqlType::Udt(udt)) => user_type_assignment(raw, fields, udt),
        (ast::Term::Tuple(items), CqlType::Tuple(types)) => {
            if items.len() > types.len() {
                return Ok(Assignment::No);
            }
            Ok(all(&mut items.iter().zip(types))?.min(Assignment::Weak))
        }
        (ast::Term::Tuple(items), _) => match items.as_slice() {
            [inner] => assignment(raw.with(inner), receiver),
            _ => Ok(Assignment::No),
        },
        (ast::Term::TypeHint { data_type, .. }, _) => {
            let ty = data_type::resolve(data_type, raw.schema, raw.keyspace)?;
            Ok(type_assignment(&ty, receiver))
        }
        (
            ast::Term::Function { .. } | ast::Term::Operation { .. } | ast::Term::Negation(_) | ast::Term::Cast { .. },
            _,
        ) => Ok(raw.memo.assignment(raw.term, receiver, || match prepare::resolve(raw, Some(receiver)) {
            // A call that cannot be made fits for now, so that its own error is the one that is seen.
            Ok(Resolved::Call(function, _)) => type_assignment(function.result_type(), receiver),
            Ok(Resolved::Token(_)) => type_assignment(&CqlType::BigInt, receiver),
            Err(_) => Assignment::Weak,
        })),
        _ => Ok(Assignment::No),
    }
}

pub(super) fn not_a_list(receiver: &CqlType) -> CqlError {
    invalid(format!("Unexpected receiver type '{receiver}'; only list and vector are expected"))
}

fn user_type_assignment(
    raw: RawTerm<'_>,
    fields: &[(ast::Ident, ast::Term)],
    udt: &UdtType,
) -> Result<Assignment, CqlError> {
    let written = by_name(fields);
    for (name, ty) in &udt.fields {
        if let Some(term) = written.get(name.as_str())
            && assignment(raw.with(term), ty)? == Assignment::No
        {
            return Ok(Assignment::No);
        }
    }
    Ok(Assignment::Weak)
}

/// The values of a user type's literal; of a field named twice the last one.
pub(super) fn by_name(fields: &[(ast::Ident, ast::Term)]) -> HashMap<&str, &ast::Term> {
    let mut values: HashMap<&str, &ast::Term> = HashMap::with_hasher(hasher());
    values.extend(fields.iter().map(|(name, term)| (name.as_str(), term)));
    values
}

/// How many different types the elements of a literal may have for one of them to be looked for that takes all.
const COMPARED_TYPES_MAX: usize = 64;

/// The first of these types that takes the values of all of them.
fn common(types: impl Iterator<Item = Option<CqlType>>) -> Option<CqlType> {
    let mut different: Vec<CqlType> = Vec::new();
    let mut seen: HashSet<CqlType> = HashSet::with_hasher(hasher());
    for ty in types {
        let ty = ty?;
        if different.last() != Some(&ty) && seen.insert(ty.clone()) {
            different.push(ty);
        }
    }
    if different.len() > COMPARED_TYPES_MAX {
        return None;
    }
    different.iter().find(|ty| different.iter().all(|other| ty.is_value_compatible_with(other))).cloned()
}

/// The type that a term has, or that its constants prefer; `None` where only a receiver can tell.
pub fn compatible_type(raw: RawTerm<'_>) -> Option<CqlType> {
    let common =
        |items: &mut dyn Iterator<Item = &ast::Term>| common(items.map(|item| compatible_type(raw.with(item))));
    match raw.term {
        ast::Term::Literal(constant) => Some(literal(constant).preferred_type()),
        ast::Term::Null | ast::Term::Marker(_) | ast::Term::UserType(_) => None,
        ast::Term::List(items) => Some(CqlType::list(common(&mut items.iter())?.freeze())),
        ast::Term::Set(items) => Some(CqlType::set(common(&mut items.iter())?.freeze())),
        ast::Term::Map(entries) => {
            let key = common(&mut entries.iter().map(|(key, _)| key))?;
            Some(CqlType::map(key.freeze(), common(&mut entries.iter().map(|(_, value)| value))?.freeze()))
        }
        ast::Term::Tuple(items) => {
            let types: Option<Vec<CqlType>> = items.iter().map(|item| compatible_type(raw.with(item))).collect();
            Some(CqlType::tuple(types?))
        }
        ast::Term::TypeHint { data_type, .. } => data_type::resolve(data_type, raw.schema, raw.keyspace).ok(),
        ast::Term::Function { .. } | ast::Term::Operation { .. } | ast::Term::Negation(_) | ast::Term::Cast { .. } => {
            raw.memo.ty(raw.term, || match prepare::resolve(raw, None).ok()? {
                Resolved::Call(function, _) => Some(function.result_type().clone()),
                Resolved::Token(_) => Some(CqlType::BigInt),
            })
        }
    }
}

/// The function that a name and arguments mean.
pub(super) fn resolve_named(
    name: &ast::FunctionName,
    arguments: &[RawTerm<'_>],
    receiver: Option<&CqlType>,
) -> Result<Option<Function>, functions::FunctionError> {
    if name.keyspace.as_ref().is_some_and(|keyspace| keyspace.as_str() != "system") {
        return Ok(None);
    }
    let arguments: Vec<&dyn Argument> = arguments.iter().map(|argument| argument as &dyn Argument).collect();
    functions::resolve(&name.to_string(), &arguments, receiver)
}
