//! Which function a call means: by its name, how well its arguments fit, and what receives the result.
//!
//! Of several functions of a name, the first whose argument types match exactly wins; failing that, the only one that
//! the arguments can be assigned to. Some functions have no fixed types and take theirs from the arguments.

use std::fmt;

use super::aggregate::{Accumulator, AggregateKind};
use super::arithmetic::{NUMERIC, function_name, numeric_result};
use super::math::Math;
use super::vector::Similarity;
use super::{Body, Function, FunctionError, cast};
use crate::cql::ast::ArithmeticOperator as Operator;
use crate::types::literal::Assignment;
use crate::types::{CqlType, marshal};

/// An argument of a call, as far as the choice of the function asks. Its `Display` is its text in the statement.
pub trait Argument: fmt::Display {
    /// How well it fits a parameter.
    fn assignment(&self, parameter: &CqlType) -> Assignment;

    /// The type that it has, or that its constant prefers; `None` where only the parameter can tell.
    fn compatible_type(&self) -> Option<CqlType>;

    /// A bind marker.
    fn is_marker(&self) -> bool {
        false
    }

    /// The number of elements of a list literal.
    fn list_literal_len(&self) -> Option<usize> {
        None
    }
}

/// An argument of a known type: a column, a cast, another call.
#[derive(Clone, Copy, Debug)]
pub struct TypedArgument<'a> {
    pub text: &'a str,
    pub ty: &'a CqlType,
}

impl fmt::Display for TypedArgument<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)
    }
}

impl Argument for TypedArgument<'_> {
    fn assignment(&self, parameter: &CqlType) -> Assignment {
        type_assignment(self.ty, parameter)
    }

    fn compatible_type(&self) -> Option<CqlType> {
        Some(self.ty.clone())
    }
}

/// How well a value of one type fits a receiver of another; frozen or not makes no difference.
pub fn type_assignment(from: &CqlType, receiver: &CqlType) -> Assignment {
    if from.clone().freeze() == receiver.clone().freeze() {
        Assignment::Exact
    } else if receiver.is_value_compatible_with(from) {
        Assignment::Weak
    } else {
        Assignment::No
    }
}

fn invalid<T>(text: String) -> Result<T, FunctionError> {
    Err(FunctionError::Invalid(text))
}

/// The function that a call of `called` (in lower case, with or without `system.`) means; `None` where there is none
/// of that name. `receiver` is the type of what gets the result, where that is known.
pub fn resolve(
    called: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<Option<Function>, FunctionError> {
    let name = called.strip_prefix("system.").unwrap_or(called);
    if let Some(function) = generic(name, arguments, receiver)? {
        return Ok(Some(function));
    }
    let candidates = candidates(name);
    if candidates.is_empty() {
        return Ok(None);
    }
    choose(called, candidates, arguments, receiver).map(Some)
}

/// The function behind `left operator right`.
pub fn resolve_operator(
    operator: Operator,
    left: &dyn Argument,
    right: &dyn Argument,
    receiver: Option<&CqlType>,
) -> Result<Function, FunctionError> {
    let name = function_name(operator);
    choose(&format!("system.{name}"), operator_candidates(operator), &[left, right], receiver)
}

/// The function behind `-argument`.
pub fn resolve_negation(argument: &dyn Argument, receiver: Option<&CqlType>) -> Result<Function, FunctionError> {
    let candidates = NUMERIC.iter().map(|ty| function("_negate", vec![ty.clone()], ty.clone(), Body::Negate)).collect();
    choose("system._negate", candidates, &[argument], receiver)
}

/// The function behind `CAST(argument AS to)` for an argument of type `from`.
pub fn resolve_cast(from: &CqlType, to: &CqlType) -> Result<Function, FunctionError> {
    let name = format!("cast_as_{to}");
    if cast::is_castable(from, to) {
        return Ok(function(&name, vec![from.clone()], to.clone(), Body::Cast));
    }
    let known: Vec<String> = CqlType::NATIVE
        .iter()
        .filter(|from| *from != to && cast::is_castable(from, to))
        .map(|from| function(&name, vec![from.clone()], to.clone(), Body::Cast).signature())
        .collect();
    invalid(no_match(&format!("system.{name}"), &known.join(", ")))
}

/// An aggregate as a call has chosen it.
#[derive(Clone, PartialEq, Debug)]
pub struct AggregateFunction {
    pub kind: AggregateKind,
    /// The type of its argument; `None` for a count of rows.
    pub argument: Option<CqlType>,
    /// The type of its result. Of `min` and `max` of a timeuuid it is the class that Cassandra 5.0 names there.
    pub result: CqlType,
}

impl AggregateFunction {
    pub fn accumulator(&self) -> Accumulator {
        Accumulator::new(self.kind, self.argument.as_ref().unwrap_or(&CqlType::BigInt))
    }
}

/// The aggregate that a call means; `None` where the name is of none. `count(*)` and `count(1)` come without
/// arguments.
pub fn resolve_aggregate(
    called: &str,
    arguments: &[&dyn Argument],
) -> Result<Option<AggregateFunction>, FunctionError> {
    let name = called.strip_prefix("system.").unwrap_or(called);
    let Some(kind) = AggregateKind::named(name) else {
        return Ok(None);
    };
    let argument = match (kind, arguments) {
        (AggregateKind::CountRows | AggregateKind::Count, []) => None,
        (AggregateKind::CountRows, _) => return wrong_count(name, 0, arguments.len()),
        (_, [argument]) => Some(*argument),
        _ => return invalid(format!("Invalid number of arguments for function system.{name}(any)")),
    };
    let Some(argument) = argument else {
        let kind = AggregateKind::CountRows;
        return Ok(Some(AggregateFunction { kind, argument: None, result: CqlType::BigInt }));
    };
    if matches!(kind, AggregateKind::Sum | AggregateKind::Avg) {
        let candidates = NUMERIC.iter().map(|ty| function(name, vec![ty.clone()], ty.clone(), Body::Negate)).collect();
        let chosen = choose(called, candidates, &[argument], None)?;
        return Ok(Some(AggregateFunction { kind, argument: Some(chosen.result.clone()), result: chosen.result }));
    }
    let ty = inferred(name, argument, None)?;
    let result = match (kind, &ty) {
        (AggregateKind::Count, _) => CqlType::BigInt,
        (_, CqlType::TimeUuid) => CqlType::Custom(marshal::LEGACY_TIMEUUID.to_owned()),
        (_, ty) => ty.clone(),
    };
    Ok(Some(AggregateFunction { kind, argument: Some(ty), result }))
}

fn wrong_count<T>(name: &str, required: usize, provided: usize) -> Result<T, FunctionError> {
    invalid(format!(
        "Invalid number of arguments in call to function system.{name}: {required} required but {provided} provided"
    ))
}

fn no_match(called: &str, known: &str) -> String {
    format!("Invalid call to function {called}, none of its type signatures match (known type signatures: {known})")
}

impl Function {
    /// `system.name : (type, type) -> type`.
    fn signature(&self) -> String {
        let arguments: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
        format!("{} : ({}) -> {}", self.full_name(), arguments.join(", "), self.result)
    }
}

fn function(name: &str, arguments: Vec<CqlType>, result: CqlType, body: Body) -> Function {
    Function { name: name.to_owned(), arguments, result, body }
}

/// Chooses among functions of one name.
fn choose(
    called: &str,
    candidates: Vec<Function>,
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<Function, FunctionError> {
    if let [only] = candidates.as_slice() {
        check_types(only, arguments)?;
        return Ok(only.clone());
    }
    let mut compatible = Vec::new();
    for candidate in &candidates {
        let fits = receiver.is_none_or(|ty| type_assignment(&candidate.result, ty) != Assignment::No);
        match fit(candidate, arguments) {
            _ if !fits => {}
            Assignment::Exact => return Ok(candidate.clone()),
            Assignment::Weak => compatible.push(candidate),
            Assignment::No => {}
        }
    }
    match compatible.as_slice() {
        [] => invalid(mismatch(called, &candidates, arguments)),
        [only] => Ok((*only).clone()),
        several => ambiguous(called, several, arguments, receiver),
    }
}

/// How well all arguments fit: as well as the worst.
fn fit(candidate: &Function, arguments: &[&dyn Argument]) -> Assignment {
    if candidate.arguments.len() != arguments.len() {
        return Assignment::No;
    }
    let fits = candidate.arguments.iter().zip(arguments).map(|(ty, argument)| argument.assignment(ty));
    fits.min().unwrap_or(Assignment::Exact)
}

fn check_types(only: &Function, arguments: &[&dyn Argument]) -> Result<(), FunctionError> {
    if only.arguments.len() != arguments.len() {
        return wrong_count(&only.name, only.arguments.len(), arguments.len());
    }
    for (at, (ty, argument)) in only.arguments.iter().zip(arguments).enumerate() {
        if argument.assignment(ty) == Assignment::No {
            return invalid(format!(
                "Type error: {argument} cannot be passed as argument {at} of function {} of type {ty}",
                only.full_name()
            ));
        }
    }
    Ok(())
}

fn operator_of(candidate: &Function) -> Option<Operator> {
    match candidate.body {
        Body::Operator(operator) => Some(operator),
        _ => None,
    }
}

fn mismatch(called: &str, candidates: &[Function], arguments: &[&dyn Argument]) -> String {
    match (candidates.first().and_then(operator_of), arguments) {
        (Some(operator), [left, right]) => {
            format!("the '{}' operation is not supported between {left} and {right}", operator.symbol())
        }
        _ => no_match(called, &signatures(candidates.iter())),
    }
}

fn signatures<'a>(functions: impl Iterator<Item = &'a Function>) -> String {
    functions.map(Function::signature).collect::<Vec<_>>().join(", ")
}

fn ambiguous(
    called: &str,
    several: &[&Function],
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<Function, FunctionError> {
    const HINT: &str = "use type hint to disambiguate, example '(int) ?'";
    let operator = several.first().and_then(|candidate| operator_of(candidate));
    if let (Some(operator), [left, right]) = (operator, arguments) {
        let has_marker = left.is_marker() || right.is_marker();
        let like_receiver = several.iter().find(|candidate| candidate.arguments.iter().all(|ty| Some(ty) == receiver));
        return match like_receiver.filter(|_| !has_marker) {
            Some(candidate) => Ok((*candidate).clone()),
            None => {
                invalid(format!("Ambiguous '{}' operation with args {left} and {right}: {HINT}", operator.symbol()))
            }
        };
    }
    if called == "system._negate" {
        return invalid(format!("Ambiguous negation: {HINT}"));
    }
    invalid(format!(
        "Ambiguous call to function {called} (can be matched by following signatures: {}): {HINT}",
        signatures(several.iter().copied())
    ))
}

/// All functions of fixed types that have this name.
fn candidates(name: &str) -> Vec<Function> {
    if let Some(math) = Math::named(name) {
        return NUMERIC.iter().map(|ty| function(name, vec![ty.clone()], ty.clone(), Body::Math(math))).collect();
    }
    if let Some(conversion) = blob_conversion(name) {
        return vec![conversion];
    }
    let one = |arguments: &[CqlType], result, body| vec![function(name, arguments.to_vec(), result, body)];
    let from_each = |arguments: &[CqlType], result: CqlType, body| {
        arguments.iter().map(|ty| function(name, vec![ty.clone()], result.clone(), body)).collect()
    };
    use CqlType::{BigInt, Date, Time, TimeUuid, Timestamp, Uuid};
    match name {
        "uuid" => one(&[], Uuid, Body::Uuid),
        "now" | "current_timeuuid" | "currenttimeuuid" => one(&[], TimeUuid, Body::Current),
        "current_timestamp" | "currenttimestamp" => one(&[], Timestamp, Body::Current),
        "current_date" | "currentdate" => one(&[], Date, Body::Current),
        "current_time" | "currenttime" => one(&[], Time, Body::Current),
        "min_timeuuid" | "mintimeuuid" => one(&[Timestamp], TimeUuid, Body::MinTimeuuid),
        "max_timeuuid" | "maxtimeuuid" => one(&[Timestamp], TimeUuid, Body::MaxTimeuuid),
        "to_date" | "todate" => from_each(&[TimeUuid, Timestamp], Date, Body::ToDate),
        "to_timestamp" | "totimestamp" => from_each(&[TimeUuid, Date], Timestamp, Body::ToTimestamp),
        "to_unix_timestamp" | "tounixtimestamp" => {
            from_each(&[TimeUuid, Timestamp, Date], BigInt, Body::ToUnixTimestamp)
        }
        "floor" => floor_candidates(name),
        _ => Vec::new(),
    }
}

fn floor_candidates(name: &str) -> Vec<Function> {
    use CqlType::{Date, Duration, Time, TimeUuid, Timestamp};
    [
        (vec![TimeUuid, Duration], Timestamp),
        (vec![TimeUuid, Duration, Timestamp], Timestamp),
        (vec![Timestamp, Duration], Timestamp),
        (vec![Timestamp, Duration, Timestamp], Timestamp),
        (vec![Date, Duration], Date),
        (vec![Date, Duration, Date], Date),
        (vec![Time, Duration], Time),
    ]
    .into_iter()
    .map(|(arguments, result)| function(name, arguments, result, Body::Floor))
    .collect()
}

/// `int_as_blob`, `intasblob`, `blob_as_int`, `blobasint`, and so for each scalar type but blob.
fn blob_conversion(name: &str) -> Option<Function> {
    let scalar = |name: &str| CqlType::native(name).filter(|ty| *ty != CqlType::Blob);
    if let Some(to) = name.strip_prefix("blob_as_").or_else(|| name.strip_prefix("blobas")).and_then(scalar) {
        return Some(function(name, vec![CqlType::Blob], to, Body::FromBlob));
    }
    let from = name.strip_suffix("_as_blob").or_else(|| name.strip_suffix("asblob")).and_then(scalar)?;
    Some(function(name, vec![from], CqlType::Blob, Body::ToBlob))
}

fn operator_candidates(operator: Operator) -> Vec<Function> {
    let name = function_name(operator);
    let with = |left: &CqlType, right: &CqlType, result: CqlType| {
        function(name, vec![left.clone(), right.clone()], result, Body::Operator(operator))
    };
    let mut out = Vec::with_capacity(NUMERIC.len() * NUMERIC.len());
    for left in &NUMERIC {
        out.extend(NUMERIC.iter().map(|right| with(left, right, numeric_result(left, right))));
    }
    if matches!(operator, Operator::Add | Operator::Subtract) {
        for temporal in [CqlType::Timestamp, CqlType::Date] {
            out.push(with(&temporal, &CqlType::Duration, temporal.clone()));
        }
    }
    if operator == Operator::Add {
        let (text, ascii) = (CqlType::Text, CqlType::Ascii);
        out.push(with(&text, &text, text.clone()));
        out.push(with(&ascii, &ascii, ascii.clone()));
        out.push(with(&text, &ascii, text.clone()));
        out.push(with(&ascii, &text, text.clone()));
    }
    out
}

fn inferred(name: &str, argument: &dyn Argument, receiver: Option<&CqlType>) -> Result<CqlType, FunctionError> {
    match argument.compatible_type().or_else(|| receiver.cloned()) {
        Some(ty) => Ok(ty),
        None => invalid(format!(
            "Cannot infer type of argument {argument} in call to function system.{name}: use type casts to disambiguate"
        )),
    }
}

/// A function whose types come from its arguments.
fn generic(
    name: &str,
    arguments: &[&dyn Argument],
    receiver: Option<&CqlType>,
) -> Result<Option<Function>, FunctionError> {
    if let Some(similarity) = Similarity::named(name) {
        return similarity_of(name, similarity, arguments).map(Some);
    }
    let (parameter, body) = match name {
        "map_keys" => ("map", Body::MapKeys),
        "map_values" => ("map", Body::MapValues),
        "collection_count" => ("collection", Body::CollectionCount),
        "collection_min" => ("set or list", Body::CollectionAggregate(AggregateKind::Min)),
        "collection_max" => ("set or list", Body::CollectionAggregate(AggregateKind::Max)),
        "collection_sum" => ("numeric set/list", Body::CollectionAggregate(AggregateKind::Sum)),
        "collection_avg" => ("numeric set/list", Body::CollectionAggregate(AggregateKind::Avg)),
        "length" => ("text", Body::Length),
        "octet_length" => ("any", Body::OctetLength),
        "to_json" | "tojson" => ("any", Body::ToJson),
        "from_json" | "fromjson" => ("text", Body::FromJson),
        _ => return Ok(None),
    };
    let [argument] = arguments else {
        return invalid(format!("Invalid number of arguments for function system.{name}({parameter})"));
    };
    if body == Body::FromJson {
        return from_json(*argument, receiver).map(Some);
    }
    let ty = inferred(name, *argument, (body == Body::Length).then_some(&CqlType::Text))?;
    let element = match ty.unfrozen() {
        CqlType::List(element) | CqlType::Set(element) => Some(&**element),
        _ => None,
    };
    let result = match (body, ty.unfrozen(), element) {
        (Body::MapKeys, CqlType::Map(key, _), _) => CqlType::set((**key).clone().freeze()),
        (Body::MapValues, CqlType::Map(_, value), _) => CqlType::list((**value).clone().freeze()),
        (Body::CollectionCount, CqlType::Map(..), _) | (Body::CollectionCount, _, Some(_)) => CqlType::Int,
        (Body::CollectionAggregate(AggregateKind::Sum | AggregateKind::Avg), _, Some(element))
            if !element.is_numeric() =>
        {
            return wrong_parameter(name, parameter, *argument, &ty);
        }
        (Body::CollectionAggregate(_), _, Some(element)) => element.clone(),
        (Body::Length, CqlType::Text | CqlType::Ascii, _) => CqlType::Int,
        (Body::OctetLength, ..) => CqlType::Int,
        (Body::ToJson, ..) => CqlType::Text,
        _ => return wrong_parameter(name, parameter, *argument, &ty),
    };
    Ok(Some(function(name, vec![ty], result, body)))
}

fn wrong_parameter<T>(name: &str, parameter: &str, argument: &dyn Argument, ty: &CqlType) -> Result<T, FunctionError> {
    let wanted = match parameter {
        "text" => "an argument of type [text|varchar|ascii]".to_owned(),
        other => format!("a {other} argument"),
    };
    invalid(format!("Function system.{name} requires {wanted}, but found argument {argument} of type {ty}"))
}

/// The result has the type of what receives it, so there must be such.
fn from_json(argument: &dyn Argument, receiver: Option<&CqlType>) -> Result<Function, FunctionError> {
    let Some(receiver) = receiver else {
        let text = "from_json() cannot be used in the selection clause of a SELECT statement";
        return invalid(text.to_owned());
    };
    let out = function("from_json", vec![CqlType::Text], receiver.clone(), Body::FromJson);
    check_types(&out, &[argument])?;
    Ok(out)
}

/// Both arguments are float vectors of one length; a list literal is one where it stands, a marker is like the other.
fn similarity_of(name: &str, similarity: Similarity, arguments: &[&dyn Argument]) -> Result<Function, FunctionError> {
    let [left, right] = arguments else {
        return invalid(format!(
            "Invalid number of arguments for function system.{name}(vector<float, n>, vector<float, n>)"
        ));
    };
    let vector_type = |argument: &dyn Argument| {
        let literal = argument.list_literal_len().and_then(|len| u16::try_from(len).ok()).filter(|len| *len > 0);
        literal.map(|len| CqlType::vector(CqlType::Float, len)).or_else(|| argument.compatible_type())
    };
    let (left_type, right_type) = match (vector_type(*left), vector_type(*right)) {
        (Some(left), Some(right)) => (left, right),
        (Some(one), None) | (None, Some(one)) => (one.clone(), one),
        (None, None) => (inferred(name, *left, None)?, inferred(name, *right, None)?),
    };
    for (argument, ty) in [(*left, &left_type), (*right, &right_type)] {
        if !matches!(ty, CqlType::Vector(element, _) if **element == CqlType::Float) {
            return invalid(format!(
                "Function system.{name} requires a float vector argument, but found argument {argument} of type {ty}"
            ));
        }
    }
    if left_type != right_type {
        return invalid("All arguments must have the same vector dimensions".to_owned());
    }
    Ok(function(name, vec![left_type, right_type], CqlType::Float, Body::Similarity(similarity)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::plan::Context;
    use crate::types::literal::{Literal, LiteralKind, from_text};
    use crate::types::to_text;

    /// A constant, or with an empty text a bind marker.
    struct Constant(LiteralKind, &'static str);

    impl fmt::Display for Constant {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(if self.1.is_empty() { "?" } else { self.1 })
        }
    }

    impl Argument for Constant {
        fn assignment(&self, parameter: &CqlType) -> Assignment {
            if self.is_marker() { Assignment::Weak } else { Literal::new(self.0, self.1).assignable_to(parameter) }
        }

        fn compatible_type(&self) -> Option<CqlType> {
            (!self.is_marker()).then(|| Literal::new(self.0, self.1).preferred_type())
        }

        fn is_marker(&self) -> bool {
            self.1.is_empty()
        }
    }

    struct ListLiteral(usize);

    impl fmt::Display for ListLiteral {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("[…]")
        }
    }

    impl Argument for ListLiteral {
        fn assignment(&self, parameter: &CqlType) -> Assignment {
            if matches!(parameter, CqlType::Vector(..)) { Assignment::Weak } else { Assignment::No }
        }

        fn compatible_type(&self) -> Option<CqlType> {
            None
        }

        fn list_literal_len(&self) -> Option<usize> {
            Some(self.0)
        }
    }

    fn column<'a>(text: &'a str, ty: &'a CqlType) -> TypedArgument<'a> {
        TypedArgument { text, ty }
    }

    fn message<T: fmt::Debug>(result: Result<T, FunctionError>) -> String {
        result.unwrap_err().to_string()
    }

    const CONTEXT: Context = Context { now_us: 0, random: [1, 2] };
    const MARKER: Constant = Constant(LiteralKind::Integer, "");
    const ONE: Constant = Constant(LiteralKind::Integer, "1");

    #[test]
    fn calls_of_one_signature() {
        let (int, text) = (CqlType::Int, CqlType::Text);
        let (v, w) = (column("v", &int), column("w", &text));
        let function = resolve("int_as_blob", &[&v], None).unwrap().unwrap();
        assert_eq!((function.full_name().as_str(), function.result_type()), ("system.int_as_blob", &CqlType::Blob));
        assert_eq!(resolve("system.intasblob", &[&v], None).unwrap().unwrap().name(), "intasblob");
        assert_eq!(
            message(resolve("int_as_blob", &[&v, &v], None)),
            "Invalid number of arguments in call to function system.int_as_blob: 1 required but 2 provided"
        );
        assert_eq!(
            message(resolve("int_as_blob", &[&w], None)),
            "Type error: w cannot be passed as argument 0 of function system.int_as_blob of type int"
        );
        for unknown in ["nosuch", "blob_as_blob", "dateof", "mapkeys", "sqrt", "intas_blob"] {
            assert_eq!(resolve(unknown, &[&v], None), Ok(None), "{unknown}");
        }
    }

    #[test]
    fn calls_of_several_signatures() {
        let uuid = CqlType::Uuid;
        let text = message(resolve("to_timestamp", &[&column("v", &uuid)], None));
        assert!(text.starts_with("Invalid call to function to_timestamp, none of its type signatures match"), "{text}");
        assert!(text.contains("system.to_timestamp : (timeuuid) -> timestamp"));
        let log = resolve("log10", &[&Constant(LiteralKind::Integer, "1000")], None).unwrap().unwrap();
        assert_eq!(log.result_type(), &CqlType::Int);
        assert_eq!(
            message(resolve_cast(&CqlType::Text, &CqlType::Int)).split(" (").next().unwrap(),
            "Invalid call to function system.cast_as_int, none of its type signatures match"
        );
    }

    #[test]
    fn operators() {
        let (int, text, varint) = (CqlType::Int, CqlType::Text, CqlType::BigInt);
        let (v, w) = (column("v", &int), column("w", &text));
        let add = |left: &dyn Argument, right: &dyn Argument, receiver| {
            resolve_operator(Operator::Add, left, right, receiver)
        };
        assert_eq!(add(&v, &Constant(LiteralKind::Float, "1.5"), None).unwrap().result_type(), &CqlType::Double);
        assert_eq!(add(&ONE, &ONE, Some(&varint)).unwrap().argument_types(), [CqlType::BigInt, CqlType::BigInt]);
        assert_eq!(message(add(&v, &w, None)), "the '+' operation is not supported between v and w");
        assert_eq!(
            message(add(&v, &MARKER, None)),
            "Ambiguous '+' operation with args v and ?: use type hint to disambiguate, example '(int) ?'"
        );
        assert!(add(&MARKER, &MARKER, Some(&int)).is_err());
        let words = Constant(LiteralKind::String, "a");
        assert_eq!(add(&words, &words, Some(&text)).unwrap().result_type(), &CqlType::Ascii);
        let error = resolve_operator(Operator::Divide, &v, &v, None).unwrap();
        let zero = 0i32.to_be_bytes();
        assert_eq!(
            error.call(&[Some(&zero), Some(&zero)], &CONTEXT),
            Err(FunctionError::Failed {
                function: "_divide".into(),
                arguments: vec!["int".into(), "int".into()],
                message: "the operation 'int / int' failed: / by zero".into(),
            })
        );
        assert!(message(resolve_negation(&w, None)).starts_with("Invalid call to function system._negate, none"));
        assert_eq!(resolve_negation(&v, None).unwrap().result_type(), &int);
    }

    #[test]
    fn functions_of_collections_and_vectors() {
        let map = CqlType::map(CqlType::Int, CqlType::Text);
        let set = CqlType::set(CqlType::Text);
        let keys = resolve("map_keys", &[&column("m", &map)], None).unwrap().unwrap();
        assert_eq!(keys.result_type().to_string(), "set<int>");
        let bytes = crate::types::collection::pack_map(&CqlType::Int, [([0, 0, 0, 7].as_slice(), b"x".as_slice())]);
        let value = keys.call(&[Some(&bytes)], &CONTEXT).unwrap().unwrap();
        assert_eq!(to_text(keys.result_type(), &value), "{7}");
        assert_eq!(
            message(resolve("map_keys", &[&column("s", &set)], None)),
            "Function system.map_keys requires a map argument, but found argument s of type set<text>"
        );
        assert_eq!(
            message(resolve("collection_sum", &[&column("s", &set)], None)),
            "Function system.collection_sum requires a numeric set/list argument, but found argument s of type set<text>"
        );
        let max = resolve("collection_max", &[&column("s", &set)], None).unwrap().unwrap();
        let bytes = crate::types::collection::pack_set(&CqlType::Text, [b"a".as_slice(), b"b"]);
        assert_eq!(max.call(&[Some(&bytes)], &CONTEXT), Ok(Some(b"b".to_vec())));
        let (two, three) = (ListLiteral(2), ListLiteral(3));
        let vector = CqlType::vector(CqlType::Float, 3);
        assert!(resolve("similarity_cosine", &[&column("v", &vector), &three], None).unwrap().is_some());
        assert!(resolve("similarity_cosine", &[&column("v", &vector), &MARKER], None).unwrap().is_some());
        assert_eq!(
            message(resolve("similarity_cosine", &[&two, &three], None)),
            "All arguments must have the same vector dimensions"
        );
    }

    #[test]
    fn aggregates() {
        let (int, timeuuid, text) = (CqlType::Int, CqlType::TimeUuid, CqlType::Text);
        let of = |name: &str, ty| resolve_aggregate(name, &[&column("v", ty)]).map(Option::unwrap);
        assert_eq!(of("sum", &int).unwrap().result, CqlType::Int);
        assert_eq!(of("count", &text).unwrap().result, CqlType::BigInt);
        assert_eq!(of("system.min", &timeuuid).unwrap().result, CqlType::Custom(marshal::LEGACY_TIMEUUID.into()));
        assert!(
            message(of("sum", &text)).starts_with("Invalid call to function sum, none of its type signatures match")
        );
        assert_eq!(resolve_aggregate("count", &[]).unwrap().unwrap().kind, AggregateKind::CountRows);
        assert_eq!(resolve_aggregate("abs", &[&column("v", &int)]), Ok(None));
        let mut accumulator = of("max", &timeuuid).unwrap().accumulator();
        accumulator.add(Some(&crate::types::uuid::min_timeuuid(0))).unwrap();
        assert!(accumulator.finish().is_some());
    }

    #[test]
    fn conversions_fail_with_cassandras_words() {
        let blob = CqlType::Blob;
        let function = resolve("blobasint", &[&column("b", &blob)], None).unwrap().unwrap();
        assert_eq!(
            message(function.call(&[Some(&[0, 0, 0, 0, 0, 0, 0, 1])], &CONTEXT)),
            "In call to function system.blobasint, value 0x0000000000000001 is not a valid binary representation for \
             type int"
        );
        assert_eq!(function.call(&[Some(&[])], &CONTEXT), Ok(Some(vec![])));
        assert_eq!(function.call(&[None], &CONTEXT), Ok(None));
        let list = CqlType::list(CqlType::Int);
        let string = Constant(LiteralKind::String, "x");
        let function = resolve("fromjson", &[&string], Some(&list)).unwrap().unwrap();
        assert!(
            message(function.call(&[Some(b"x")], &CONTEXT))
                .starts_with("execution of 'system.from_json[text]' failed: Could not decode JSON string 'x'")
        );
        assert_eq!(function.call(&[Some(b"[]")], &CONTEXT), Ok(Some(vec![0; 4])));
        assert!(resolve("from_json", &[&string], None).is_err());
    }

    #[test]
    fn ids_and_json() {
        let now = resolve("now", &[], None).unwrap().unwrap();
        assert!(!now.is_deterministic());
        assert_eq!(now.call(&[], &CONTEXT).unwrap().unwrap().len(), 16);
        assert_eq!(resolve("uuid", &[], None).unwrap().unwrap().call(&[], &CONTEXT).unwrap().unwrap().len(), 16);
        let int = CqlType::Int;
        let to_json = resolve("to_json", &[&column("v", &int)], None).unwrap().unwrap();
        assert_eq!(to_json.call(&[Some(&[0, 0, 0, 5])], &CONTEXT), Ok(Some(b"5".to_vec())));
        assert_eq!(to_json.call(&[None], &CONTEXT), Ok(Some(b"null".to_vec())));
        let length = resolve("length", &[&Constant(LiteralKind::String, "é")], None).unwrap().unwrap();
        assert_eq!(length.call(&[Some("é😀".as_bytes())], &CONTEXT), Ok(Some(3i32.to_be_bytes().to_vec())));
    }

    #[test]
    fn floor_and_time() {
        let (timestamp, duration) = (CqlType::Timestamp, CqlType::Duration);
        let arguments: [&dyn Argument; 2] = [&column("t", &timestamp), &column("d", &duration)];
        let floor = resolve("floor", &arguments, None).unwrap().unwrap();
        let value = from_text(&timestamp, "2020-02-03 04:05:06+0000", 0).unwrap();
        let month = from_text(&duration, "1mo", 0).unwrap();
        let got = floor.call(&[Some(&value), Some(&month)], &CONTEXT).unwrap().unwrap();
        assert_eq!(to_text(&timestamp, &got), "'2020-02-01T00:00:00.000Z'");
        let negative = from_text(&duration, "-1mo", 0).unwrap();
        assert!(matches!(floor.call(&[Some(&value), Some(&negative)], &CONTEXT), Err(FunctionError::Failed { .. })));
    }
}
