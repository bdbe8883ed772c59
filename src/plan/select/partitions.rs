//! Which partitions a SELECT reads: keys in the order of their values, or a range of tokens.

use std::cmp::Ordering;

use crate::base::ids::Token;
use crate::mutation::read::{PartitionKey, Partitions, TokenRange};
use crate::plan::select::bound_values::{Purpose, Receiver, bind_term};
use crate::plan::select::restriction::{Bound, Restriction, RestrictionKind, Tuple};
use crate::plan::select::restrictions::Restrictions;
use crate::plan::term::Binding;
use crate::protocol::CqlError;
use crate::schema::{Table, key, partitioner};
use crate::types::{compare, number};

/// How many partitions one SELECT may name by IN.
pub const SELECT_PARTITIONS_MAX: usize = 65_536;

/// The partitions that the restrictions choose.
pub(super) fn bind(restrictions: &Restrictions, table: &Table, binding: &Binding<'_>) -> Result<Partitions, CqlError> {
    let range = match &restrictions.token {
        Some(token) => match token_range(token, binding)? {
            Some(range) => Some(range),
            None => return Ok(Partitions::Keys(Vec::new())),
        },
        None => None,
    };
    if !restrictions.is_key_known {
        let all = TokenRange { start_exclusive: None, end_inclusive: None };
        return Ok(Partitions::Range(range.unwrap_or(all)));
    }
    let mut keys = keys(restrictions, table, binding)?;
    if let Some(range) = range {
        keys.retain(|key| contains(range, key.token));
    }
    Ok(Partitions::Keys(keys))
}

fn contains(range: TokenRange, token: Token) -> bool {
    range.start_exclusive.is_none_or(|start| token > start) && range.end_inclusive.is_none_or(|end| token <= end)
}

/// All combinations of the key columns' values, ordered by value, each once.
fn keys(restrictions: &Restrictions, table: &Table, binding: &Binding<'_>) -> Result<Vec<PartitionKey>, CqlError> {
    let mut columns: Vec<Vec<Vec<u8>>> = Vec::with_capacity(restrictions.partition_key.len());
    let mut product = 1usize;
    for restriction in &restrictions.partition_key {
        let values = column_values(restriction, table, binding)?;
        product = product.saturating_mul(values.len());
        columns.push(values);
    }
    if product > SELECT_PARTITIONS_MAX {
        return Err(CqlError::invalid(format!(
            "The IN restrictions of the partition key make {product} keys; a SELECT may name at most \
             {SELECT_PARTITIONS_MAX}"
        )));
    }
    let mut chosen: Vec<Vec<&[u8]>> = vec![Vec::new()];
    for values in &columns {
        chosen = chosen
            .iter()
            .flat_map(|before| values.iter().map(|value| before.iter().copied().chain([value.as_slice()]).collect()))
            .collect();
    }
    chosen.into_iter().map(|values| partition_key(&values)).collect()
}

fn partition_key(values: &[&[u8]]) -> Result<PartitionKey, CqlError> {
    if let [value] = values
        && value.is_empty()
    {
        return Err(CqlError::invalid("Key may not be empty"));
    }
    let key = key::join(values.iter().copied());
    if key.len() > key::PARTITION_KEY_BYTES_MAX {
        return Err(CqlError::invalid(format!(
            "Key length of {} is longer than maximum of {}",
            key.len(),
            key::PARTITION_KEY_BYTES_MAX
        )));
    }
    Ok(PartitionKey { token: partitioner::token_of(&key), key })
}

/// The values of one key column, in its order, each once. Values that compare equal but differ in their bytes are
/// different keys.
fn column_values(restriction: &Restriction, table: &Table, binding: &Binding<'_>) -> Result<Vec<Vec<u8>>, CqlError> {
    let receiver = Receiver { table, restriction, purpose: Purpose::Choose };
    let rows = match &restriction.kind {
        RestrictionKind::Equal(tuple) => vec![receiver.equal(tuple, binding)?],
        RestrictionKind::In(list) => receiver.one_of(list, binding)?,
        RestrictionKind::Slice { .. } | RestrictionKind::Contains(_) => Vec::new(),
    };
    let mut values: Vec<Vec<u8>> = rows.into_iter().flatten().collect();
    if let Some(column) = table.columns.get(restriction.first()) {
        values.sort_by(|a, b| compare(&column.ty, a, b).then_with(|| a.cmp(b)));
    }
    values.dedup();
    Ok(values)
}

/// The range of tokens; `None` where it holds none. The minimum token stands for the end of the ring.
fn token_range(restriction: &Restriction, binding: &Binding<'_>) -> Result<Option<TokenRange>, CqlError> {
    let value = |tuple: &Tuple| token_value(tuple, binding);
    let end = |bound: &Option<Bound>| {
        bound.as_ref().map(|bound| Ok::<_, CqlError>((value(&bound.values)?, bound.is_inclusive))).transpose()
    };
    let (lower, upper) = match &restriction.kind {
        RestrictionKind::Equal(tuple) => {
            let token = value(tuple)?;
            (Some((token, true)), Some((token, true)))
        }
        RestrictionKind::Slice { lower, upper } => (end(lower)?, end(upper)?),
        RestrictionKind::In(_) | RestrictionKind::Contains(_) => (None, None),
    };
    let lower = lower.filter(|(token, _)| *token != i64::MIN);
    let upper = upper.filter(|(token, _)| *token != i64::MIN);
    if let (Some((start, start_inclusive)), Some((end, end_inclusive))) = (lower, upper) {
        match start.cmp(&end) {
            Ordering::Greater => return Ok(None),
            Ordering::Equal if !start_inclusive || !end_inclusive => return Ok(None),
            Ordering::Equal | Ordering::Less => {}
        }
    }
    // Neither is the minimum, so there is a token before each.
    let before = |token: i64, is_before: bool| Token(if is_before { token - 1 } else { token });
    Ok(Some(TokenRange {
        start_exclusive: lower.map(|(token, inclusive)| before(token, inclusive)),
        end_inclusive: upper.map(|(token, inclusive)| before(token, !inclusive)),
    }))
}

fn token_value(tuple: &Tuple, binding: &Binding<'_>) -> Result<i64, CqlError> {
    let null = || CqlError::invalid("Invalid null token value");
    let (Tuple::Columns(terms), unset) = (tuple, "Invalid unset token value") else { return Err(null()) };
    let term = terms.first().ok_or_else(null)?;
    let bytes = bind_term(term, binding, || unset.to_owned())?.ok_or_else(null)?;
    number::int64(&bytes).ok_or_else(null)
}
