//! The value of a term, once the bind variables are known.

use std::borrow::Cow;

use crate::protocol::{CqlError, Value};
use crate::schema::{key, partitioner};
use crate::types::{CqlType, collection, literal, validate};

use super::{Binding, Bound, Call, Kind, Term, invalid};

impl Term {
    /// The value. Bytes that a client sent have been checked against the type; sets and maps are sorted.
    pub fn bind<'a>(&'a self, binding: &Binding<'a>) -> Result<Bound<'a>, CqlError> {
        match &self.kind {
            Kind::Null => Ok(Bound::Null),
            Kind::Constant(bytes) => Ok(Bound::Bytes(Cow::Borrowed(bytes))),
            Kind::Moment { text } => {
                let now_ms = binding.context().now_us.div_euclid(1000);
                let bytes = literal::from_text(&self.ty, text, now_ms).map_err(|error| invalid(error.to_string()))?;
                Ok(Bound::owned(bytes))
            }
            Kind::Marker(at) => marker(&self.ty, binding.value(*at)),
            Kind::List(items) => elements(items, binding, "collections")
                .map(|items| sequence(items, |items| collection::pack_list(items.iter().map(|item| Some(&**item))))),
            Kind::Set(items) => {
                let element = collection::element_type(&self.ty, 0).unwrap_or(&CqlType::Blob);
                elements(items, binding, "collections").map(|items| {
                    sequence(items, |items| collection::pack_set(element, items.iter().map(|item| &**item)))
                })
            }
            Kind::Vector(items) => {
                let element = collection::element_type(&self.ty, 0).unwrap_or(&CqlType::Blob);
                elements(items, binding, "vectors").map(|items| {
                    sequence(items, |items| collection::pack_vector(element, items.iter().map(|item| &**item)))
                })
            }
            Kind::Map(entries) => self.map(entries, binding),
            Kind::Tuple(items) => fields(items.iter().map(Some), binding, &|at| {
                format!("Invalid unset value for tuple field number {at}")
            }),
            Kind::UserType(items) => fields(items.iter().map(Option::as_ref), binding, &|at| self.unset_field(at)),
            Kind::Token(parts) => token(parts, binding),
            Kind::Call(call) => call.bind(binding),
        }
    }

    fn map<'a>(&'a self, entries: &'a [(Term, Term)], binding: &Binding<'a>) -> Result<Bound<'a>, CqlError> {
        let mut flat = Vec::with_capacity(2 * entries.len());
        for (key, value) in entries {
            for part in [key, value] {
                match part.bind(binding)? {
                    Bound::Null => return Err(invalid("null is not supported inside collections")),
                    Bound::Unset => return Ok(Bound::Unset),
                    Bound::Bytes(bytes) => flat.push(claimed(bytes, binding)?),
                }
            }
        }
        let key_type = collection::element_type(&self.ty, 0).unwrap_or(&CqlType::Blob);
        let pairs = flat.as_chunks::<2>().0.iter().map(|[key, value]| (&**key, &**value));
        Ok(Bound::owned(collection::pack_map(key_type, pairs)))
    }

    fn unset_field(&self, at: usize) -> String {
        let (field, name) = self
            .ty
            .as_udt()
            .map_or(("", ""), |udt| (udt.fields.get(at).map_or("", |(field, _)| field.as_str()), udt.name.as_str()));
        format!("Invalid unset value for field '{field}' of user defined type {name}")
    }
}

/// A part of a value, counted before the next is bound and all are put together, with its length.
fn claimed<'a>(part: Cow<'a, [u8]>, binding: &Binding<'_>) -> Result<Cow<'a, [u8]>, CqlError> {
    binding.claim(part.len() + size_of::<u32>())?;
    Ok(part)
}

/// The parts of a list, set or vector; `None` where one of them is unset.
fn elements<'a>(
    items: &'a [Term],
    binding: &Binding<'a>,
    within: &str,
) -> Result<Option<Vec<Cow<'a, [u8]>>>, CqlError> {
    let mut out = Vec::with_capacity(items.len());
    for item in items {
        match item.bind(binding)? {
            Bound::Bytes(bytes) => out.push(claimed(bytes, binding)?),
            Bound::Null => return Err(invalid(format!("null is not supported inside {within}"))),
            Bound::Unset => return Ok(None),
        }
    }
    Ok(Some(out))
}

fn sequence<'a>(items: Option<Vec<Cow<'a, [u8]>>>, pack: impl Fn(&[Cow<'a, [u8]>]) -> Vec<u8>) -> Bound<'a> {
    items.map_or(Bound::Unset, |items| Bound::owned(pack(&items)))
}

fn fields<'a>(
    items: impl Iterator<Item = Option<&'a Term>>,
    binding: &Binding<'a>,
    unset: &dyn Fn(usize) -> String,
) -> Result<Bound<'a>, CqlError> {
    let mut out: Vec<Option<Cow<'a, [u8]>>> = Vec::new();
    for (at, item) in items.enumerate() {
        out.push(match item.map(|item| item.bind(binding)).transpose()? {
            Some(Bound::Bytes(bytes)) => Some(claimed(bytes, binding)?),
            Some(Bound::Null) | None => None,
            Some(Bound::Unset) => return Err(invalid(unset(at))),
        });
    }
    Ok(Bound::owned(collection::pack_tuple(out.iter().map(Option::as_deref))))
}

fn marker<'a>(ty: &CqlType, value: Option<&Value<'a>>) -> Result<Bound<'a>, CqlError> {
    let bytes = match value {
        Some(Value::Bytes(bytes)) => *bytes,
        Some(Value::Null) => return Ok(Bound::Null),
        Some(Value::Unset) => return Ok(Bound::Unset),
        None => return Err(invalid("Invalid amount of bind variables")),
    };
    validate(ty, bytes).map_err(|error| invalid(error.to_string()))?;
    Ok(Bound::Bytes(collection::normalise(ty, bytes)))
}

fn token<'a>(parts: &'a [Term], binding: &Binding<'a>) -> Result<Bound<'a>, CqlError> {
    let mut values = Vec::with_capacity(parts.len());
    for part in parts {
        match part.bind(binding)? {
            Bound::Bytes(bytes) if bytes.len() <= key::PARTITION_KEY_BYTES_MAX => {
                values.push(claimed(bytes, binding)?);
            }
            Bound::Bytes(bytes) => {
                return Err(invalid(format!(
                    "Key length of {} is longer than maximum of {}",
                    bytes.len(),
                    key::PARTITION_KEY_BYTES_MAX
                )));
            }
            Bound::Null => return Ok(Bound::Null),
            Bound::Unset => return Err(invalid("Invalid unset value for argument in call to function token")),
        }
    }
    let key = key::join(values.iter().map(|value| &**value));
    Ok(Bound::owned(partitioner::token_of(&key).0.to_be_bytes().to_vec()))
}

impl Call {
    fn bind<'a>(&'a self, binding: &Binding<'a>) -> Result<Bound<'a>, CqlError> {
        let mut arguments = Vec::with_capacity(self.arguments.len());
        for argument in &self.arguments {
            arguments.push(match argument.bind(binding)? {
                Bound::Bytes(bytes) => Some(claimed(bytes, binding)?),
                Bound::Null => None,
                Bound::Unset => {
                    let name = self.function.full_name();
                    return Err(invalid(format!("Invalid unset value for argument in call to function {name}")));
                }
            });
        }
        let slices: Vec<Option<&[u8]>> = arguments.iter().map(Option::as_deref).collect();
        let result = self.function.call(&slices, &binding.fresh_context())?;
        Ok(result.map_or(Bound::Null, Bound::owned))
    }
}
