//! What a result column is computed from, once types and functions are known.

use std::borrow::Cow;

use crate::plan::functions::Function;
use crate::plan::term::Binding;
use crate::protocol::CqlError;
use crate::schema::{key, partitioner::token_of};
use crate::types::{CqlType, collection, compare};

/// An expression over the values of one row, or of one group of rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Expression {
    /// A value of the row; of a group: of its first row.
    Leaf(usize),
    /// A term, bound with the statement.
    Constant(usize),
    /// The result of an aggregate over the group.
    Aggregate(usize),
    Call {
        function: Box<Function>,
        arguments: Vec<Expression>,
    },
    /// The token of a partition key.
    Token(Vec<Expression>),
    /// A field of a user type.
    Field {
        of: Box<Expression>,
        ty: CqlType,
        at: usize,
    },
    /// An element of a set or map; the key is a constant.
    Element {
        of: Box<Expression>,
        ty: CqlType,
        key: usize,
    },
    /// Part of a set or map, both ends (constants) included.
    Slice {
        of: Box<Expression>,
        ty: CqlType,
        from: Option<usize>,
        to: Option<usize>,
    },
    /// A collection, tuple, user type or vector of its parts; a map of keys and values by turns.
    Pack {
        ty: CqlType,
        parts: Vec<Expression>,
    },
}

/// What expressions are computed with.
#[derive(Debug)]
pub(super) struct Values<'s> {
    pub leaves: &'s [Option<Cow<'s, [u8]>>],
    pub constants: &'s [Option<Vec<u8>>],
    pub aggregates: &'s [Option<Vec<u8>>],
    /// The request's clock and random bits.
    pub binding: &'s Binding<'s>,
}

impl Expression {
    /// Of how many expressions it is made, itself among them: the work of evaluating it.
    pub fn size(&self) -> usize {
        let all = |parts: &[Expression]| parts.iter().map(Expression::size).sum::<usize>();
        1 + match self {
            Expression::Leaf(_) | Expression::Constant(_) | Expression::Aggregate(_) => 0,
            Expression::Call { arguments, .. } => all(arguments),
            Expression::Token(parts) | Expression::Pack { parts, .. } => all(parts),
            Expression::Field { of, .. } | Expression::Element { of, .. } | Expression::Slice { of, .. } => of.size(),
        }
    }

    pub fn evaluate<'s>(&self, values: &Values<'s>) -> Result<Option<Cow<'s, [u8]>>, CqlError> {
        Ok(match self {
            Expression::Leaf(at) => values.leaves.get(*at).and_then(Option::as_deref).map(Cow::Borrowed),
            Expression::Constant(at) => constant(values, *at).map(Cow::Borrowed),
            Expression::Aggregate(at) => values.aggregates.get(*at).and_then(Option::as_deref).map(Cow::Borrowed),
            Expression::Call { function, arguments } => {
                let arguments = evaluate_all(arguments, values)?;
                let arguments: Vec<Option<&[u8]>> = arguments.iter().map(Option::as_deref).collect();
                function.call(&arguments, &values.binding.fresh_context())?.map(Cow::Owned)
            }
            Expression::Token(parts) => {
                let parts = evaluate_all(parts, values)?;
                token(&parts)?.map(|token| Cow::Owned(token.to_be_bytes().to_vec()))
            }
            Expression::Field { of, ty, at } => of.evaluate(values)?.and_then(|value| nth_element(value, ty, *at)),
            Expression::Element { of, ty, key } => {
                let Some(key) = constant(values, *key) else { return Ok(None) };
                of.evaluate(values)?.and_then(|value| element(&value, ty, key)).map(Cow::Owned)
            }
            Expression::Slice { of, ty, from, to } => {
                let (from, to) = (from.and_then(|at| constant(values, at)), to.and_then(|at| constant(values, at)));
                of.evaluate(values)?.map(|value| Cow::Owned(slice(&value, ty, from, to)))
            }
            Expression::Pack { ty, parts } => {
                let parts = evaluate_all(parts, values)?;
                pack(ty, &parts)?.map(Cow::Owned)
            }
        })
    }
}

fn constant<'s>(values: &Values<'s>, at: usize) -> Option<&'s [u8]> {
    values.constants.get(at).and_then(Option::as_deref)
}

fn evaluate_all<'s>(parts: &[Expression], values: &Values<'s>) -> Result<Vec<Option<Cow<'s, [u8]>>>, CqlError> {
    parts.iter().map(|part| part.evaluate(values)).collect()
}

/// The token of a key of these values; null where one is.
fn token(parts: &[Option<Cow<'_, [u8]>>]) -> Result<Option<i64>, CqlError> {
    let Some(parts) = parts.iter().map(Option::as_deref).collect::<Option<Vec<&[u8]>>>() else { return Ok(None) };
    if parts.len() > 1 && parts.iter().any(|part| part.len() > key::PARTITION_KEY_BYTES_MAX) {
        return Err(CqlError::invalid("a partition key of more than 65535 bytes has no token"));
    }
    Ok(Some(token_of(&key::join(parts.into_iter())).0))
}

fn nth_element<'s>(value: Cow<'s, [u8]>, ty: &CqlType, at: usize) -> Option<Cow<'s, [u8]>> {
    match value {
        Cow::Borrowed(bytes) => collection::elements(ty, bytes).ok()?.nth(at).flatten().map(Cow::Borrowed),
        Cow::Owned(bytes) => {
            collection::elements(ty, &bytes).ok()?.nth(at).flatten().map(|field| Cow::Owned(field.to_vec()))
        }
    }
}

/// The value at a key of a map, or the key itself where a set holds it.
fn element(value: &[u8], ty: &CqlType, key: &[u8]) -> Option<Vec<u8>> {
    match ty.unfrozen() {
        CqlType::Map(key_type, _) => {
            let entries = collection::map_entries(ty, value).ok()?;
            entries.into_iter().find(|(at, _)| compare(key_type, at, key).is_eq()).map(|(_, value)| value.to_vec())
        }
        CqlType::Set(element_type) => {
            let mut elements = collection::elements(ty, value).ok()?.flatten();
            elements.find(|element| compare(element_type, element, key).is_eq()).map(<[u8]>::to_vec)
        }
        _ => None,
    }
}

fn slice(value: &[u8], ty: &CqlType, from: Option<&[u8]>, to: Option<&[u8]>) -> Vec<u8> {
    let within = |key_type: &CqlType, key: &[u8]| {
        from.is_none_or(|from| compare(key_type, key, from).is_ge())
            && to.is_none_or(|to| compare(key_type, key, to).is_le())
    };
    match ty.unfrozen() {
        CqlType::Map(key_type, _) => {
            let entries = collection::map_entries(ty, value).unwrap_or_default();
            collection::pack_map(key_type, entries.into_iter().filter(|(key, _)| within(key_type, key)))
        }
        CqlType::Set(element_type) => {
            let elements = collection::elements(ty, value).into_iter().flatten().flatten();
            collection::pack_set(element_type, elements.filter(|element| within(element_type, element)))
        }
        _ => value.to_vec(),
    }
}

/// One value of its parts. A collection with a null in it is refused; a tuple may have them.
fn pack(ty: &CqlType, parts: &[Option<Cow<'_, [u8]>>]) -> Result<Option<Vec<u8>>, CqlError> {
    let values = || parts.iter().map(Option::as_deref);
    if matches!(ty.unfrozen(), CqlType::Tuple(_) | CqlType::Udt(_)) {
        return Ok(Some(collection::pack_tuple(values())));
    }
    let Some(elements) = values().collect::<Option<Vec<&[u8]>>>() else {
        return Err(CqlError::invalid("null is not supported inside collections"));
    };
    Ok(Some(match ty.unfrozen() {
        CqlType::Set(element) => collection::pack_set(element, elements),
        CqlType::Map(key_type, _) => {
            let (entries, _) = elements.as_chunks::<2>();
            collection::pack_map(key_type, entries.iter().map(|[key, value]| (*key, *value)))
        }
        CqlType::Vector(element, _) => collection::pack_vector(element, elements),
        _ => collection::pack_list(elements.into_iter().map(Some)),
    }))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use crate::plan::term::Uses;

    use super::*;
    use crate::cql::ast::ArithmeticOperator;
    use crate::plan::Context;
    use crate::plan::functions::{TypedArgument, resolve, resolve_operator};
    use crate::protocol::ErrorCode;
    use crate::types::to_text;

    fn int(value: i32) -> Option<Vec<u8>> {
        Some(value.to_be_bytes().to_vec())
    }

    fn evaluate(expression: &Expression, constants: &[Option<Vec<u8>>]) -> Result<Option<Vec<u8>>, CqlError> {
        let uses = Uses::default();
        let binding = Binding::new(&[], Context { now_us: 1_000_000, random: [1, 2] }, &uses);
        let values = Values { leaves: &[None], constants, aggregates: &[], binding: &binding };
        Ok(expression.evaluate(&values)?.map(Cow::into_owned))
    }

    fn check(expression: &Expression, constants: &[Option<Vec<u8>>], ty: &CqlType, expected: &str) {
        let value = evaluate(expression, constants).unwrap();
        assert_eq!(value.map_or("null".to_owned(), |value| to_text(ty, &value)), expected);
    }

    fn divide() -> Expression {
        let argument = TypedArgument { text: "v", ty: &CqlType::Int };
        let function = resolve_operator(ArithmeticOperator::Divide, &argument, &argument, None).unwrap();
        Expression::Call {
            function: Box::new(function),
            arguments: vec![Expression::Constant(0), Expression::Constant(1)],
        }
    }

    #[test]
    fn calls_take_their_arguments() {
        check(&divide(), &[int(7), int(2)], &CqlType::Int, "3");
        check(&divide(), &[int(7), None], &CqlType::Int, "null");
        let error = evaluate(&divide(), &[int(7), int(0)]).unwrap_err();
        assert_eq!(error.code(), ErrorCode::FunctionFailure);
        assert_eq!(error.message(), "the operation 'int / int' failed: / by zero");
    }

    #[test]
    fn calls_of_one_request_get_bits_of_their_own() {
        let function = Box::new(resolve("uuid", &[], None).unwrap().unwrap());
        let call = Expression::Call { function, arguments: Vec::new() };
        let pair =
            Expression::Pack { ty: CqlType::tuple([CqlType::Uuid, CqlType::Uuid]), parts: vec![call.clone(), call] };
        let value = evaluate(&pair, &[]).unwrap().unwrap();
        assert_ne!(value[4..20], value[24..40]);
    }

    #[test]
    fn tokens_are_of_the_joined_key() {
        let two = Expression::Token(vec![Expression::Constant(0), Expression::Constant(0)]);
        check(&two, &[int(1)], &CqlType::BigInt, "5765203080415074583");
        let one = Expression::Token(vec![Expression::Constant(0)]);
        check(&one, &[int(1)], &CqlType::BigInt, "-4069959284402364209");
        check(&one, &[None], &CqlType::BigInt, "null");
    }

    #[test]
    fn parts_of_collections() {
        let ty = CqlType::map(CqlType::Int, CqlType::Int).freeze();
        let map = || {
            let parts = [0, 1, 2, 3, 0, 1].map(Expression::Constant).to_vec();
            Box::new(Expression::Pack { ty: ty.clone(), parts })
        };
        let constants = [int(4), int(1), int(5), int(2)];
        check(&map(), &constants, &ty, "{4: 1, 5: 2}");
        let element = |key| Expression::Element { of: map(), ty: ty.clone(), key };
        check(&element(2), &constants, &CqlType::Int, "2");
        check(&element(1), &constants, &CqlType::Int, "null");
        let slice = |from, to| Expression::Slice { of: map(), ty: ty.clone(), from, to };
        check(&slice(Some(2), None), &constants, &ty, "{5: 2}");
        check(&slice(None, Some(0)), &constants, &ty, "{4: 1}");
        let set = CqlType::set(CqlType::Int).freeze();
        let of = || Box::new(Expression::Pack { ty: set.clone(), parts: [0, 1, 0].map(Expression::Constant).to_vec() });
        check(&of(), &constants, &set, "{1, 4}");
        check(&Expression::Element { of: of(), ty: set.clone(), key: 1 }, &constants, &CqlType::Int, "1");
        check(&Expression::Element { of: of(), ty: set.clone(), key: 2 }, &constants, &CqlType::Int, "null");
    }

    #[test]
    fn nulls_stand_in_tuples_and_not_in_collections() {
        let pair = CqlType::tuple([CqlType::Int, CqlType::Int]);
        let parts = vec![Expression::Constant(0), Expression::Leaf(0)];
        check(&Expression::Pack { ty: pair.clone(), parts: parts.clone() }, &[int(1)], &pair, "(1, null)");
        let list = Expression::Pack { ty: CqlType::list(CqlType::Int), parts };
        assert_eq!(evaluate(&list, &[int(1)]).unwrap_err().code(), ErrorCode::Invalid);
        let field = |at| Expression::Field {
            of: Box::new(Expression::Pack {
                ty: pair.clone(),
                parts: vec![Expression::Constant(0), Expression::Leaf(0)],
            }),
            ty: pair.clone(),
            at,
        };
        check(&field(0), &[int(9)], &CqlType::Int, "9");
        check(&field(1), &[int(9)], &CqlType::Int, "null");
    }
}
