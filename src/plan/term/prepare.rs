//! From a parsed term to a `Term`, for one receiver. The rules and the words of errors are Cassandra's.

use crate::base::collections::{HashSet, hasher};
use crate::cql::ast::{self, Ident};
use crate::plan::functions::{self, Argument, Function, FunctionError};
use crate::plan::{ColumnSpec, Context, data_type};
use crate::protocol::CqlError;
use crate::types::literal::Assignment;
use crate::types::{CqlType, UdtType};

use super::raw::{self, RawTerm, assignment, not_a_list};
use super::{Binding, Bound, Call, Kind, Scope, Term, Uses, invalid};

/// What a call means.
pub(super) enum Resolved<'a> {
    Call(Function, Vec<RawTerm<'a>>),
    /// `token()` of the statement's table.
    Token(Vec<RawTerm<'a>>),
}

impl From<FunctionError> for CqlError {
    fn from(error: FunctionError) -> CqlError {
        match error {
            FunctionError::Invalid(message) => CqlError::invalid(message),
            FunctionError::Failed { function, arguments, message } => {
                CqlError::function_failure(message, "system", &function, arguments)
            }
        }
    }
}

impl Term {
    /// The term for a receiver. Bind markers in it are entered in the scope.
    pub fn prepare(term: &ast::Term, receiver: &ColumnSpec, scope: &mut Scope<'_>) -> Result<Term, CqlError> {
        let ty = &receiver.ty;
        match term {
            ast::Term::Literal(constant) => literal(constant, receiver),
            ast::Term::Null if *ty == CqlType::Counter => {
                Err(invalid("Invalid null value for counter increment/decrement"))
            }
            ast::Term::Null => Ok(Term::new(ty, Kind::Null)),
            ast::Term::Marker(marker) => {
                scope.markers.assign(*marker, receiver);
                Ok(Term::new(ty, Kind::Marker(marker.0 as usize)))
            }
            ast::Term::List(items) => match ty.unfrozen() {
                CqlType::List(element) => sequence("list", items, element, receiver, scope, Kind::List),
                CqlType::Vector(element, dimensions) => vector(items, element, *dimensions, receiver, scope),
                _ => Err(not_a_list(ty)),
            },
            ast::Term::Set(items) => match ty.unfrozen() {
                CqlType::Set(element) => sequence("set", items, element, receiver, scope, Kind::Set),
                CqlType::Map(..) if items.is_empty() => Ok(Term::new(ty, Kind::Map(Vec::new())).folded()?),
                _ => Err(invalid(format!("Invalid set literal for {} of type {ty}", receiver.name))),
            },
            ast::Term::Map(entries) => match ty.unfrozen() {
                CqlType::Map(key, value) => map(entries, key, value, receiver, scope),
                _ => Err(invalid(format!("Invalid map literal for {} of type {ty}", receiver.name))),
            },
            ast::Term::UserType(fields) => match ty.unfrozen() {
                CqlType::Udt(udt) => user_type(fields, udt, receiver, scope),
                _ => Err(invalid(format!("Invalid user type literal for {} of type {ty}", receiver.name))),
            },
            ast::Term::Tuple(items) => match items.as_slice() {
                // Where no tuple is wanted, a term in parentheses is that term.
                [inner] if !matches!(ty.unfrozen(), CqlType::Tuple(_)) => Term::prepare(inner, receiver, scope),
                _ => tuple(items, receiver, scope),
            },
            ast::Term::TypeHint { data_type, term: inner } => hinted(term, data_type, inner, receiver, scope),
            ast::Term::Function { .. }
            | ast::Term::Operation { .. }
            | ast::Term::Negation(_)
            | ast::Term::Cast { .. } => call(term, receiver, scope),
        }
    }

    /// A bind marker for this receiver.
    pub fn marker(marker: ast::BindIndex, receiver: &ColumnSpec, scope: &mut Scope<'_>) -> Term {
        scope.markers.assign(marker, receiver);
        Term::new(&receiver.ty, Kind::Marker(marker.0 as usize))
    }

    /// The term as a constant, where all that it is made of is constant.
    fn folded(self) -> Result<Term, CqlError> {
        let (uses, context) = (Uses::default(), Context { now_us: 0, random: [0; 2] });
        let kind = match self.bind(&Binding::new(&[], context, &uses))? {
            Bound::Bytes(bytes) => Kind::Constant(bytes.into_owned()),
            Bound::Null | Bound::Unset => Kind::Null,
        };
        Ok(Term { ty: self.ty, kind })
    }
}

impl<'s> Scope<'s> {
    fn raw<'a>(&'a self, term: &'a ast::Term) -> RawTerm<'a> {
        RawTerm { term, schema: self.schema, keyspace: self.keyspace, table: self.table, memo: &self.memo }
    }

    fn fits(&self, term: &ast::Term, ty: &CqlType) -> Result<bool, CqlError> {
        Ok(assignment(self.raw(term), ty)? != Assignment::No)
    }
}

fn literal(constant: &ast::Literal, receiver: &ColumnSpec) -> Result<Term, CqlError> {
    let ty = &receiver.ty;
    let bytes = raw::literal(constant).to_bytes(ty, &receiver.name, 0).map_err(|error| invalid(error.to_string()))?;
    let is_moment = *ty == CqlType::Timestamp && constant.text.eq_ignore_ascii_case("now");
    let kind = if is_moment { Kind::Moment { text: constant.text.clone() } } else { Kind::Constant(bytes) };
    Ok(Term::new(ty, kind))
}

/// The elements of a list or set literal.
fn sequence(
    what: &str,
    items: &[ast::Term],
    element: &CqlType,
    receiver: &ColumnSpec,
    scope: &mut Scope<'_>,
    kind: impl Fn(Vec<Term>) -> Kind,
) -> Result<Term, CqlError> {
    for item in items {
        if !scope.fits(item, element)? {
            let name = &receiver.name;
            return Err(invalid(format!("Invalid {what} literal for {name}: value {item} is not of type {element}")));
        }
    }
    let spec = receiver.value_spec(element);
    let terms =
        items.iter().map(|item| element_of(what, item, &spec, receiver, scope)).collect::<Result<Vec<_>, _>>()?;
    composed(&receiver.ty, terms, kind)
}

/// A constant where all parts are, else the parts.
fn composed(ty: &CqlType, terms: Vec<Term>, kind: impl Fn(Vec<Term>) -> Kind) -> Result<Term, CqlError> {
    let constant = terms.iter().all(Term::is_constant);
    let term = Term::new(ty, kind(terms));
    if constant { term.folded() } else { Ok(term) }
}

/// One part of a collection literal, which may hold no bind marker.
fn element_of(
    what: &str,
    item: &ast::Term,
    spec: &ColumnSpec,
    receiver: &ColumnSpec,
    scope: &mut Scope<'_>,
) -> Result<Term, CqlError> {
    if has_marker(item) {
        return Err(invalid(format!(
            "Invalid {what} literal for {}: bind variables are not supported inside collection literals",
            receiver.name
        )));
    }
    Term::prepare(item, spec, scope)
}

fn has_marker(term: &ast::Term) -> bool {
    match term {
        ast::Term::Marker(_) => true,
        ast::Term::Literal(_) | ast::Term::Null => false,
        ast::Term::List(items) | ast::Term::Set(items) | ast::Term::Tuple(items) => items.iter().any(has_marker),
        ast::Term::Map(entries) => entries.iter().any(|(key, value)| has_marker(key) || has_marker(value)),
        ast::Term::UserType(fields) => fields.iter().any(|(_, value)| has_marker(value)),
        ast::Term::Function { args, .. } => args.iter().any(has_marker),
        ast::Term::Operation { left, right, .. } => has_marker(left) || has_marker(right),
        ast::Term::Negation(term) | ast::Term::TypeHint { term, .. } | ast::Term::Cast { term, .. } => has_marker(term),
    }
}

fn vector(
    items: &[ast::Term],
    element: &CqlType,
    dimensions: u16,
    receiver: &ColumnSpec,
    scope: &mut Scope<'_>,
) -> Result<Term, CqlError> {
    let (name, ty) = (&receiver.name, &receiver.ty);
    if items.len() != usize::from(dimensions) {
        return Err(invalid(format!(
            "Invalid vector literal for {name} of type {ty}; expected {dimensions} elements, but given {}",
            items.len()
        )));
    }
    for item in items {
        if !scope.fits(item, element)? {
            return Err(invalid(format!("Invalid vector literal for {name}: value {item} is not of type {element}")));
        }
    }
    let spec = receiver.value_spec(element);
    let terms = items.iter().map(|item| Term::prepare(item, &spec, scope)).collect::<Result<Vec<_>, _>>()?;
    composed(ty, terms, Kind::Vector)
}

fn map(
    entries: &[(ast::Term, ast::Term)],
    key: &CqlType,
    value: &CqlType,
    receiver: &ColumnSpec,
    scope: &mut Scope<'_>,
) -> Result<Term, CqlError> {
    for (k, v) in entries {
        for (what, term, ty) in [("key", k, key), ("value", v, value)] {
            if !scope.fits(term, ty)? {
                let name = &receiver.name;
                return Err(invalid(format!("Invalid map literal for {name}: {what} {term} is not of type {ty}")));
            }
        }
    }
    let (key_spec, value_spec) = (receiver.key_spec(key), receiver.value_spec(value));
    let mut terms = Vec::with_capacity(entries.len());
    for (k, v) in entries {
        let key = element_of("map", k, &key_spec, receiver, scope)?;
        terms.push((key, element_of("map", v, &value_spec, receiver, scope)?));
    }
    let constant = terms.iter().all(|(key, value)| key.is_constant() && value.is_constant());
    let term = Term::new(&receiver.ty, Kind::Map(terms));
    if constant { term.folded() } else { Ok(term) }
}

fn user_type(
    fields: &[(Ident, ast::Term)],
    udt: &UdtType,
    receiver: &ColumnSpec,
    scope: &mut Scope<'_>,
) -> Result<Term, CqlError> {
    let values = raw::by_name(fields);
    let written = |name: &str| values.get(name).copied();
    for (name, ty) in &udt.fields {
        if let Some(term) = written(name)
            && !scope.fits(term, ty)?
        {
            return Err(invalid(format!(
                "Invalid user type literal for {}: field {name} is not of type {ty}",
                receiver.name
            )));
        }
    }
    let mut known: HashSet<&str> = HashSet::with_hasher(hasher());
    known.extend(udt.fields.iter().map(|(name, _)| name.as_str()));
    if let Some((unknown, _)) = fields.iter().find(|(name, _)| !known.contains(name.as_str())) {
        return Err(invalid(format!("Unknown field '{unknown}' in value of user defined type {}", udt.name)));
    }
    let mut terms = Vec::with_capacity(udt.fields.len());
    for (name, ty) in &udt.fields {
        let spec = receiver.renamed(format!("{}.{name}", receiver.name), ty.clone());
        terms.push(written(name).map(|term| Term::prepare(term, &spec, scope)).transpose()?);
    }
    let constant = terms.iter().flatten().all(Term::is_constant);
    let term = Term::new(&receiver.ty, Kind::UserType(terms));
    if constant { term.folded() } else { Ok(term) }
}

fn tuple(items: &[ast::Term], receiver: &ColumnSpec, scope: &mut Scope<'_>) -> Result<Term, CqlError> {
    let (name, ty) = (&receiver.name, &receiver.ty);
    let CqlType::Tuple(types) = ty.unfrozen() else {
        return Err(invalid(format!("Invalid tuple type literal for {name} of type {ty}")));
    };
    for (at, item) in items.iter().enumerate() {
        let Some(element) = types.get(at) else {
            return Err(invalid(format!(
                "Invalid tuple literal for {name}: too many elements. Type {ty} expects {} but got {}",
                types.len(),
                items.len()
            )));
        };
        if !scope.fits(item, element)? {
            return Err(invalid(format!("Invalid tuple literal for {name}: component {at} is not of type {element}")));
        }
    }
    let mut terms = Vec::with_capacity(items.len());
    for (at, (item, element)) in items.iter().zip(types).enumerate() {
        terms.push(Term::prepare(item, &receiver.renamed(format!("{name}[{at}]"), element.clone()), scope)?);
    }
    composed(ty, terms, Kind::Tuple)
}

/// `(type) term`: both the receiver and the term must fit the type; the value stays as it is.
fn hinted(
    whole: &ast::Term,
    hint: &ast::DataType,
    inner: &ast::Term,
    receiver: &ColumnSpec,
    scope: &mut Scope<'_>,
) -> Result<Term, CqlError> {
    let ty = data_type::resolve(hint, scope.schema, scope.keyspace)?;
    if !scope.fits(inner, &ty)? {
        return Err(invalid(format!("Cannot cast value {inner} to type {ty}")));
    }
    if !scope.fits(whole, &receiver.ty)? {
        return Err(invalid(format!("Cannot assign value {whole} to {} of type {}", receiver.name, receiver.ty)));
    }
    Term::prepare(inner, receiver, scope)
}

/// What a call, an operation or a cast means.
pub(super) fn resolve<'a>(raw: RawTerm<'a>, receiver: Option<&CqlType>) -> Result<Resolved<'a>, CqlError> {
    let (function, arguments) = match raw.term {
        ast::Term::Function { name, args } => {
            let arguments: Vec<RawTerm<'_>> = args.iter().map(|argument| raw.with(argument)).collect();
            if name.name.as_str() == "token" && raw.table.is_some() && names_system(name) {
                return Ok(Resolved::Token(arguments));
            }
            let function = raw::resolve_named(name, &arguments, receiver)?;
            let unknown = || {
                let is_aggregate = functions::AggregateKind::named(name.name.as_str()).is_some() && names_system(name);
                invalid(if is_aggregate {
                    "Aggregation function are not supported in the where clause".to_owned()
                } else {
                    format!("Unknown function {name} called")
                })
            };
            (function.ok_or_else(unknown)?, arguments)
        }
        ast::Term::Operation { left, operator, right } => {
            let (left, right) = (raw.with(left), raw.with(right));
            (functions::resolve_operator(*operator, &left, &right, receiver)?, vec![left, right])
        }
        ast::Term::Negation(term) => {
            let argument = raw.with(term);
            (functions::resolve_negation(&argument, receiver)?, vec![argument])
        }
        ast::Term::Cast { term, to } => {
            let argument = raw.with(term);
            let from = argument.compatible_type().ok_or_else(|| {
                invalid(format!("Cannot infer type for term {term} (try using a cast to force a type)"))
            })?;
            (functions::resolve_cast(&from, &to.cql_type())?, vec![argument])
        }
        other => return Err(invalid(format!("{other} is not a call"))),
    };
    Ok(Resolved::Call(function, arguments))
}

fn names_system(name: &ast::FunctionName) -> bool {
    name.keyspace.as_ref().is_none_or(|keyspace| keyspace.as_str() == "system")
}

fn call(term: &ast::Term, receiver: &ColumnSpec, scope: &mut Scope<'_>) -> Result<Term, CqlError> {
    let memo = scope.memo.clone();
    let raw = RawTerm { term, schema: scope.schema, keyspace: scope.keyspace, table: scope.table, memo: &memo };
    let (function, arguments) = match resolve(raw, Some(&receiver.ty))? {
        Resolved::Call(function, arguments) => (function, arguments),
        Resolved::Token(arguments) => return token(&arguments, receiver, scope),
    };
    if functions::type_assignment(function.result_type(), &receiver.ty) == Assignment::No {
        let what = match term {
            ast::Term::Operation { .. } | ast::Term::Negation(_) => format!("operation {term}"),
            _ => format!("function {}", function.full_name()),
        };
        return Err(invalid(format!(
            "Type error: cannot assign result of {what} (type {}) to {} (type {})",
            function.result_type(),
            receiver.name,
            receiver.ty
        )));
    }
    let name = function.full_name();
    let mut terms = Vec::with_capacity(arguments.len());
    for (at, (argument, ty)) in arguments.iter().zip(function.argument_types()).enumerate() {
        let spec = receiver.renamed(format!("arg{at}({name})"), ty.clone());
        terms.push(Term::prepare(argument.term, &spec, scope)?);
    }
    let once = function.is_deterministic() && terms.iter().all(Term::is_constant);
    let term = Term::new(&receiver.ty, Kind::Call(Box::new(Call { function, arguments: terms })));
    if once { term.folded() } else { Ok(term) }
}

fn token(arguments: &[RawTerm<'_>], receiver: &ColumnSpec, scope: &mut Scope<'_>) -> Result<Term, CqlError> {
    let columns: Vec<(String, CqlType)> = scope.table.map_or(Vec::new(), |table| {
        table.partition_key().map(|column| (column.name.clone(), column.ty.clone())).collect()
    });
    if columns.len() != arguments.len() {
        return Err(invalid(format!(
            "Invalid number of arguments in call to function system.token: {} required but {} provided",
            columns.len(),
            arguments.len()
        )));
    }
    if functions::type_assignment(&CqlType::BigInt, &receiver.ty) == Assignment::No {
        return Err(invalid(format!(
            "Type error: cannot assign result of function system.token (type bigint) to {} (type {})",
            receiver.name, receiver.ty
        )));
    }
    let mut terms = Vec::with_capacity(columns.len());
    for (at, (argument, (_, ty))) in arguments.iter().zip(columns).enumerate() {
        if !scope.fits(argument.term, &ty)? {
            return Err(invalid(format!(
                "Type error: {argument} cannot be passed as argument {at} of function system.token of type {ty}"
            )));
        }
        terms.push(Term::prepare(argument.term, &receiver.renamed(format!("arg{at}(system.token)"), ty), scope)?);
    }
    Ok(Term::new(&receiver.ty, Kind::Token(terms)))
}
