//! The functions of CQL, on values: which function a call means (`resolve`), and what it gives (`Function::call`).
//! Pure: the moment and random bits come in with the `Context`. `token`, `writetime` and `ttl` are not here, for they
//! need more than values.

pub mod aggregate;
mod arithmetic;
mod cast;
mod decimal_math;
mod math;
mod number;
mod resolve;
mod time;
mod vector;

use crate::cql::ast::ArithmeticOperator as Operator;
use crate::plan::Context;
use crate::types::{CqlType, ValueError, collection, json, literal, number as numbers, uuid, validate};

pub use aggregate::{Accumulator, AggregateKind};
pub use resolve::{
    AggregateFunction, Argument, TypedArgument, resolve, resolve_aggregate, resolve_cast, resolve_negation,
    resolve_operator, type_assignment,
};

/// Why a call cannot be made, or failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum FunctionError {
    /// The statement is wrong: error INVALID.
    #[error("{0}")]
    Invalid(String),
    /// The function failed on its values: error FUNCTION_FAILURE (0x1400) of keyspace `system`.
    #[error("{message}")]
    Failed { function: String, arguments: Vec<String>, message: String },
}

/// A function as a call has chosen it: name, types, and what it does.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    name: String,
    arguments: Vec<CqlType>,
    result: CqlType,
    body: Body,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Body {
    ToBlob,
    FromBlob,
    Uuid,
    Current,
    MinTimeuuid,
    MaxTimeuuid,
    ToDate,
    ToTimestamp,
    ToUnixTimestamp,
    Floor,
    Operator(Operator),
    Negate,
    Cast,
    Math(math::Math),
    MapKeys,
    MapValues,
    CollectionCount,
    CollectionAggregate(AggregateKind),
    Similarity(vector::Similarity),
    Length,
    OctetLength,
    ToJson,
    FromJson,
}

impl Function {
    /// The name without keyspace, as the call spelled it (in lower case): `int_as_blob`, `intasblob`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name in error texts and column names: `system.int_as_blob`.
    pub fn full_name(&self) -> String {
        format!("system.{}", self.name)
    }

    pub fn argument_types(&self) -> &[CqlType] {
        &self.arguments
    }

    pub fn result_type(&self) -> &CqlType {
        &self.result
    }

    /// Whether equal arguments always give equal results, so that a call on constants can be made once.
    pub fn is_deterministic(&self) -> bool {
        !matches!(self.body, Body::Uuid | Body::Current)
    }

    /// Calls the function. Each call needs its own random bits in the context.
    pub fn call(&self, arguments: &[Option<&[u8]>], context: &Context) -> Result<Option<Vec<u8>>, FunctionError> {
        match self.body {
            Body::Uuid => return Ok(Some(time::new_uuid(context).to_vec())),
            Body::Current => return Ok(Some(time::current(&self.result, context))),
            Body::ToJson => {
                let ty = self.arguments.first().unwrap_or(&CqlType::Blob);
                let json = arguments.first().copied().flatten().map(|bytes| json::to_json(ty, bytes));
                return Ok(Some(json.unwrap_or_else(|| "null".to_owned()).into_bytes()));
            }
            _ => {}
        }
        // Of all others, a null argument makes a null result.
        let Some(values) = arguments.iter().copied().collect::<Option<Vec<&[u8]>>>() else {
            return Ok(None);
        };
        match (values.as_slice(), self.arguments.as_slice()) {
            ([value], [ty]) => self.call_one(ty, value, context),
            ([left, right], [left_type, right_type]) => self.call_two([left_type, right_type], left, right),
            ([value, duration, start], [ty, ..]) => {
                time::floor(ty, value, duration, Some(start)).map_err(|why| self.failed(&why))
            }
            _ => Err(FunctionError::Invalid(format!(
                "Invalid number of arguments in call to function {}: {} required but {} provided",
                self.full_name(),
                self.arguments.len(),
                arguments.len()
            ))),
        }
    }

    fn call_one(&self, ty: &CqlType, value: &[u8], context: &Context) -> Result<Option<Vec<u8>>, FunctionError> {
        Ok(match self.body {
            Body::ToBlob => Some(value.to_vec()),
            Body::FromBlob => return self.checked_blob(value).map(Some),
            Body::MinTimeuuid => numbers::int64(value).map(|unix_ms| uuid::min_timeuuid(unix_ms).to_vec()),
            Body::MaxTimeuuid => numbers::int64(value).map(|unix_ms| uuid::max_timeuuid(unix_ms).to_vec()),
            Body::ToDate => time::to_date(ty, value),
            Body::ToTimestamp | Body::ToUnixTimestamp => {
                time::unix_ms(ty, value).map(|unix_ms| unix_ms.to_be_bytes().to_vec())
            }
            Body::Negate => arithmetic::negate(ty, value),
            Body::Cast => cast::apply(ty, &self.result, value).map_err(|why| self.failed(&why))?,
            Body::Math(math) => math::apply(math, ty, value).map_err(|why| self.failed(&why))?,
            Body::MapKeys | Body::MapValues => self.half_of_map(ty, value).map_err(|error| self.failed_on(&error))?,
            Body::CollectionCount => {
                let count = i32::try_from(collection::count(value)).unwrap_or(i32::MAX);
                Some(count.to_be_bytes().to_vec())
            }
            Body::CollectionAggregate(kind) => self.over_elements(kind, ty, value)?,
            Body::Length => {
                let chars = String::from_utf8_lossy(value).encode_utf16().count();
                Some(i32::try_from(chars).unwrap_or(i32::MAX).to_be_bytes().to_vec())
            }
            Body::OctetLength => Some(i32::try_from(value.len()).unwrap_or(i32::MAX).to_be_bytes().to_vec()),
            Body::FromJson => return self.parsed_json(value, context),
            _ => None,
        })
    }

    fn call_two(&self, types: [&CqlType; 2], left: &[u8], right: &[u8]) -> Result<Option<Vec<u8>>, FunctionError> {
        let [left_type, right_type] = types;
        match self.body {
            Body::Operator(operator) => arithmetic::apply(operator, types, &self.result, left, right).map_err(|why| {
                self.failed_with(format!(
                    "the operation '{left_type} {} {right_type}' failed: {why}",
                    operator.symbol()
                ))
            }),
            Body::Floor => time::floor(left_type, left, right, None).map_err(|why| self.failed(&why)),
            Body::Similarity(similarity) => {
                vector::apply(similarity, left_type, left, right).map_err(FunctionError::Invalid)
            }
            _ => Ok(None),
        }
    }

    fn checked_blob(&self, value: &[u8]) -> Result<Vec<u8>, FunctionError> {
        match validate(&self.result, value) {
            Ok(()) => Ok(value.to_vec()),
            Err(_) => Err(FunctionError::Invalid(format!(
                "In call to function {}, value 0x{} is not a valid binary representation for type {}",
                self.full_name(),
                literal::encode_hex(value),
                self.result
            ))),
        }
    }

    fn half_of_map(&self, ty: &CqlType, value: &[u8]) -> Result<Option<Vec<u8>>, ValueError> {
        let entries = collection::map_entries(ty, value)?;
        Ok(Some(match self.body {
            // A map holds its keys in the order that their set has.
            Body::MapKeys => collection::pack_list(entries.iter().map(|(key, _)| Some(*key))),
            _ => collection::pack_list(entries.iter().map(|(_, value)| Some(*value))),
        }))
    }

    fn over_elements(&self, kind: AggregateKind, ty: &CqlType, value: &[u8]) -> Result<Option<Vec<u8>>, FunctionError> {
        let mut accumulator = Accumulator::new(kind, &self.result);
        let elements = collection::elements(ty, value).map_err(|error| self.failed_on(&error))?;
        for element in elements {
            accumulator.add(element).map_err(|why| self.failed(&why))?;
        }
        Ok(accumulator.finish())
    }

    fn parsed_json(&self, value: &[u8], context: &Context) -> Result<Option<Vec<u8>>, FunctionError> {
        let text = String::from_utf8_lossy(value);
        let parsed = json::parse(&text)
            .map_err(|error| self.failed(&format!("Could not decode JSON string '{text}': {error}")))?;
        json::from_json(&self.result, &parsed, time::now_ms(context)).map_err(|error| self.failed_on(&error))
    }

    fn failed(&self, why: &str) -> FunctionError {
        let types: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
        self.failed_with(format!("execution of '{}[{}]' failed: {why}", self.full_name(), types.join(", ")))
    }

    fn failed_on(&self, error: &ValueError) -> FunctionError {
        self.failed(&error.to_string())
    }

    fn failed_with(&self, message: String) -> FunctionError {
        FunctionError::Failed {
            function: self.name.clone(),
            arguments: self.arguments.iter().map(ToString::to_string).collect(),
            message,
        }
    }
}
