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
    let key_of = |values: Vec<&[u8]>| {
        binding.claim(values.iter().map(|value| value.len()).sum())?;
        partition_key(&values)
    };
    chosen.into_iter().map(key_of).collect()
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
    let Tuple::Columns(terms) = tuple else { return Err(null()) };
    let term = terms.first().ok_or_else(null)?;
    let bytes = bind_term(term, binding, || "Invalid unset token value".to_owned())?.ok_or_else(null)?;
    number::int64(&bytes).ok_or_else(null)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::plan::select::testing::Model;
    use crate::plan::testing::options;
    use crate::protocol::{ErrorCode, Value};

    fn model() -> Model {
        Model::new(&["CREATE TABLE t (a int, b text, v int, PRIMARY KEY ((a, b)))"])
    }

    fn bind(model: &Model, cql: &str, values: &[Value<'_>]) -> Result<Partitions, CqlError> {
        Ok(model.prepare(cql)?.0.bind(values, &options())?.command.partitions)
    }

    /// The keys as `a/b`, in the order they are read.
    fn check_keys(restrictions: &str, expected: &[&str]) {
        let cql = format!("SELECT v FROM t WHERE {restrictions}");
        let Partitions::Keys(keys) = bind(&model(), &cql, &[]).unwrap() else { panic!("{restrictions}") };
        let text = |key: &PartitionKey| {
            let parts: Vec<&[u8]> = key::components(&key.key).collect();
            assert_eq!(key.token, partitioner::token_of(&key.key));
            format!("{}/{}", number::int32(parts[0]).unwrap(), String::from_utf8_lossy(parts[1]))
        };
        assert_eq!(keys.iter().map(text).collect::<Vec<_>>(), expected, "{restrictions}");
    }

    #[test]
    fn keys_come_by_value_and_once() {
        check_keys("a = 1 AND b = 'x'", &["1/x"]);
        check_keys("a IN (3, -1, 3) AND b IN ('y', '')", &["-1/", "-1/y", "3/", "3/y"]);
        check_keys("a IN () AND b = 'x'", &[]);
        check_keys("b = 'x' AND a = 2", &["2/x"]);
    }

    #[test]
    fn tokens_narrow_the_keys() {
        check_keys("a IN (1, 2) AND b = 'x' AND token(a, b) > 9223372036854775806", &[]);
        check_keys("a = 1 AND b = 'x' AND token(a, b) >= token(1, 'x')", &["1/x"]);
    }

    fn check_error(cql: &str, values: &[Value<'_>], expected: &str) {
        let error = bind(&model(), cql, values).unwrap_err();
        assert_eq!((error.code(), error.message()), (ErrorCode::Invalid, expected), "{cql}");
    }

    #[test]
    fn nulls_and_unset_values_are_refused() {
        check_error("SELECT v FROM t WHERE a = null AND b = 'x'", &[], "Invalid null value in condition for column a");
        check_error(
            "SELECT v FROM t WHERE a IN (1, null) AND b = 'x'",
            &[],
            "Invalid null value in condition for column a",
        );
        let cql = "SELECT v FROM t WHERE a IN ? AND b = 'x'";
        check_error(cql, &[Value::Null], "Invalid null value for column a");
        check_error(cql, &[Value::Unset], "Invalid unset value for column a");
        check_error("SELECT v FROM t WHERE token(a, b) > ?", &[Value::Null], "Invalid null token value");
    }

    #[test]
    fn a_list_may_be_bound_whole() {
        let list = crate::types::collection::pack_list([Some(&2i32.to_be_bytes()[..]), Some(&1i32.to_be_bytes())]);
        let cql = "SELECT v FROM t WHERE a IN ? AND b = 'x'";
        let Partitions::Keys(keys) = bind(&model(), cql, &[Value::Bytes(&list)]).unwrap() else { panic!() };
        assert_eq!(keys.len(), 2);
        assert!(keys[0].key < keys[1].key);
    }

    #[test]
    fn the_number_and_length_of_keys_are_limited() {
        let list = (0..300).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let text = (0..300).map(|n| format!("'{n}'")).collect::<Vec<_>>().join(", ");
        let cql = format!("SELECT v FROM t WHERE a IN ({list}) AND b IN ({text})");
        let error = bind(&model(), &cql, &[]).unwrap_err();
        assert!(error.message().contains("make 90000 keys"), "{error}");
        let long = vec![b'x'; 65_530];
        let cql = "SELECT v FROM t WHERE a = 1 AND b = ?";
        check_error(cql, &[Value::Bytes(&long)], "Key length of 65540 is longer than maximum of 65535");
        let single = Model::new(&["CREATE TABLE t (k text PRIMARY KEY)"]);
        let error = bind(&single, "SELECT k FROM t WHERE k = ''", &[]).unwrap_err();
        assert_eq!(error.message(), "Key may not be empty");
    }

    /// (start exclusive, end inclusive), `-` for the end of the ring; "none" where no token is within.
    fn check_range(restrictions: &str, expected: &str) {
        let cql = format!("SELECT v FROM t WHERE {restrictions}");
        let end = |token: Option<Token>| token.map_or("-".to_owned(), |token| token.0.to_string());
        let got = match bind(&model(), &cql, &[]).unwrap() {
            Partitions::Range(range) => format!("{} {}", end(range.start_exclusive), end(range.end_inclusive)),
            Partitions::Keys(keys) => {
                assert!(keys.is_empty());
                "none".to_owned()
            }
        };
        assert_eq!(got, expected, "{restrictions}");
    }

    #[test]
    fn token_ranges_end_at_the_minimum() {
        check_range("token(a, b) > 5", "5 -");
        check_range("token(a, b) >= 5", "4 -");
        check_range("token(a, b) < 5", "- 4");
        check_range("token(a, b) <= 5", "- 5");
        check_range("token(a, b) = 5", "4 5");
        check_range("token(a, b) > 5 AND token(a, b) <= 9", "5 9");
        check_range("token(a, b) > 5 AND token(a, b) < 5", "none");
        check_range("token(a, b) > 9 AND token(a, b) < 5", "none");
        check_range("token(a, b) < -9223372036854775808", "- -");
        check_range("token(a, b) >= -9223372036854775808", "- -");
        check_range(
            "token(a, b) > 9223372036854775807 AND token(a, b) <= -9223372036854775808",
            "9223372036854775807 -",
        );
    }
}
