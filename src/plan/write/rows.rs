//! A WHERE clause with its values: the partition keys, and the rows or ranges of rows, as a mutation names them.

use std::borrow::Cow;

use crate::plan::term::{Binding, Bound, Term, invalid};
use crate::protocol::CqlError;
use crate::schema::clustering::push_component;
use crate::schema::key::{self, PARTITION_KEY_BYTES_MAX};
use crate::schema::{Column, ColumnKind, Position, Table};
use crate::types::{self, CqlType, collection};

use super::restrictions::{Edge, InList, Restriction, Test, TupleList, TupleTerm, Values, Where};

/// The most partitions, and the most rows of one, that the INs of a statement may name.
pub const COMBINATIONS_MAX: usize = 65_535;

/// The most bytes of a row's clustering values together.
const CLUSTERING_BYTES_MAX: usize = 65_535;

type Bytes<'a> = Cow<'a, [u8]>;

/// Which part of a partition a statement changes.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rows {
    /// All of it.
    Partition,
    /// The rows with these encoded clustering keys.
    Keys(Vec<Vec<u8>>),
    Ranges(Vec<Range>),
}

/// From one position between rows to another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Range {
    start: (Vec<u8>, i8),
    end: (Vec<u8>, i8),
}

impl Range {
    pub fn start(&self) -> Position<'_> {
        Position { prefix: &self.start.0, weight: self.start.1 }
    }

    pub fn end(&self) -> Position<'_> {
        Position { prefix: &self.end.0, weight: self.end.1 }
    }
}

impl Where {
    /// The serialised partition keys, each once, by key value.
    pub fn keys(&self, table: &Table, binding: &Binding<'_>) -> Result<Vec<Vec<u8>>, CqlError> {
        let mut combinations: Vec<Vec<Bytes<'_>>> = vec![Vec::new()];
        for (column, values) in table.partition_key().zip(&self.key) {
            let choices = values.bind(column, binding)?;
            combinations = times(combinations, choices.into_iter().map(|choice| vec![choice]), binding)?;
        }
        combinations.iter().map(|parts| serialised_key(parts, binding)).collect()
    }

    /// The rows or ranges.
    pub fn rows(&self, table: &Table, binding: &Binding<'_>) -> Result<Rows, CqlError> {
        if self.clustering.is_empty() && table.clustering().next().is_some() {
            return Ok(Rows::Partition);
        }
        let columns: Vec<&Column> = table.clustering().collect();
        let mut prefixes: Vec<Vec<Bytes<'_>>> = vec![Vec::new()];
        for restriction in &self.clustering {
            let of = columns.get(restriction.first..restriction.first + restriction.count).unwrap_or_default();
            let choices = match &restriction.test {
                Test::Range { start, end } => return ranges(&prefixes, restriction, [start, end], of, table, binding),
                Test::Is(values) => match of.first() {
                    Some(column) => values.bind(column, binding)?.into_iter().map(|value| vec![value]).collect(),
                    None => Vec::new(),
                },
                Test::TupleIs(value) => vec![value.bind(of, binding, NULL_OF_COLUMN)?],
                Test::TupleIn(list) => list.bind(of, binding)?,
            };
            prefixes = times(prefixes, choices.into_iter(), binding)?;
        }
        let encoded = prefixes.iter().map(|prefix| encode(prefix, binding)).collect::<Result<Vec<_>, _>>()?;
        let restricted: usize = self.clustering.iter().map(|restriction| restriction.count).sum();
        if restricted == columns.len() {
            return Ok(Rows::Keys(encoded));
        }
        let whole = |prefix: Vec<u8>| Range { start: (prefix.clone(), -1), end: (prefix, 1) };
        Ok(Rows::Ranges(encoded.into_iter().map(whole).collect()))
    }
}

/// Each combination with each choice.
fn times<'a>(
    mut combinations: Vec<Vec<Bytes<'a>>>,
    choices: impl Iterator<Item = Vec<Bytes<'a>>>,
    binding: &Binding<'_>,
) -> Result<Vec<Vec<Bytes<'a>>>, CqlError> {
    let choices: Vec<Vec<Bytes<'a>>> = choices.collect();
    if let ([_], [_]) = (combinations.as_slice(), choices.as_slice()) {
        return Ok(vec![combinations.into_iter().chain(choices).flatten().collect()]);
    }
    if combinations.len().saturating_mul(choices.len()) > COMBINATIONS_MAX {
        return Err(invalid(format!("The IN restrictions of a statement may name at most {COMBINATIONS_MAX} keys")));
    }
    if let [choice] = choices.as_slice() {
        for combination in &mut combinations {
            binding.claim(held_bytes(choice))?;
            combination.extend_from_slice(choice);
        }
        return Ok(combinations);
    }
    let mut out = Vec::with_capacity(combinations.len() * choices.len());
    let choices_bytes: usize = choices.iter().map(|choice| held_bytes(choice)).sum();
    for combination in &combinations {
        binding.claim(choices_bytes + choices.len() * held_bytes(combination))?;
        out.extend(choices.iter().map(|choice| [combination.as_slice(), choice.as_slice()].concat()));
    }
    Ok(out)
}

/// What a copy of these values takes: those of the statement and of the request are borrowed.
fn held_bytes(values: &[Bytes<'_>]) -> usize {
    let owned = values.iter().filter_map(|value| match value {
        Cow::Owned(bytes) => Some(bytes.len()),
        Cow::Borrowed(_) => None,
    });
    size_of_val(values) + owned.sum::<usize>()
}

fn serialised_key(parts: &[Bytes<'_>], binding: &Binding<'_>) -> Result<Vec<u8>, CqlError> {
    let long =
        |bytes: usize| invalid(format!("Key length of {bytes} is longer than maximum of {PARTITION_KEY_BYTES_MAX}"));
    if let Some(part) = parts.iter().find(|part| part.len() > PARTITION_KEY_BYTES_MAX) {
        return Err(long(part.len()));
    }
    binding.claim(parts.iter().map(|part| part.len()).sum())?;
    let key = key::join(parts.iter().map(|part| &**part));
    match key.len() {
        0 => Err(invalid("Key may not be empty")),
        bytes if bytes > PARTITION_KEY_BYTES_MAX => Err(long(bytes)),
        _ => Ok(key),
    }
}

fn encode(prefix: &[Bytes<'_>], binding: &Binding<'_>) -> Result<Vec<u8>, CqlError> {
    let bytes: usize = prefix.iter().map(|value| value.len()).sum();
    if bytes > CLUSTERING_BYTES_MAX {
        return Err(invalid(format!(
            "The sum of all clustering columns is too long ({bytes} > {CLUSTERING_BYTES_MAX})"
        )));
    }
    binding.claim(bytes)?;
    let mut out = Vec::with_capacity(bytes + 2 * prefix.len());
    prefix.iter().for_each(|value| push_component(&mut out, value));
    Ok(out)
}

/// How a null in a tuple is refused: in a comparison for equality, and in a range.
const NULL_OF_COLUMN: &str = "Invalid null value for column";
const NULL_IN_CONDITION: &str = "Invalid null value in condition for column";

fn present<'a>(value: Bound<'a>, column: &Column, null: &str) -> Result<Bytes<'a>, CqlError> {
    match value {
        Bound::Bytes(bytes) => Ok(bytes),
        Bound::Null => Err(invalid(format!("{null} {}", column.name))),
        Bound::Unset => Err(invalid(format!("Invalid unset value for column {}", column.name))),
    }
}

impl Values {
    /// The values, sorted and each once.
    fn bind<'a>(&'a self, column: &Column, binding: &Binding<'a>) -> Result<Vec<Bytes<'a>>, CqlError> {
        let mut values = match self {
            Values::One(term) => return Ok(vec![present(term.bind(binding)?, column, NULL_IN_CONDITION)?]),
            Values::Several(InList::Terms(terms)) => terms
                .iter()
                .map(|term| present(term.bind(binding)?, column, NULL_IN_CONDITION))
                .collect::<Result<Vec<_>, _>>()?,
            Values::Several(InList::Marker(list)) => list_elements(list, binding, &column.name)?
                .into_iter()
                .map(|value| present(value, column, NULL_IN_CONDITION))
                .collect::<Result<_, _>>()?,
        };
        values.sort_by(|a, b| types::compare(&column.ty, a, b).then_with(|| a.cmp(b)));
        values.dedup();
        Ok(values)
    }
}

/// The elements of the list that a marker stands for.
fn list_elements<'a>(list: &'a Term, binding: &Binding<'a>, name: &str) -> Result<Vec<Bound<'a>>, CqlError> {
    let bytes = match list.bind(binding)? {
        Bound::Bytes(bytes) => bytes,
        Bound::Null => return Err(invalid("Invalid null value for IN restriction")),
        Bound::Unset => return Err(invalid(format!("Invalid unset value for column {name}"))),
    };
    binding.claim(bytes.len())?;
    let elements = collection::elements(list.ty(), &bytes).map_err(|error| invalid(error.to_string()))?;
    let owned = |element: Option<&[u8]>| element.map_or(Bound::Null, |bytes| Bound::Bytes(Cow::Owned(bytes.to_vec())));
    Ok(elements.map(owned).collect())
}

impl TupleTerm {
    fn bind<'a>(&'a self, columns: &[&Column], binding: &Binding<'a>, null: &str) -> Result<Vec<Bytes<'a>>, CqlError> {
        match self {
            TupleTerm::Parts(parts) => {
                let parts = parts.iter().zip(columns);
                parts.map(|(part, column)| present(part.bind(binding)?, column, null)).collect()
            }
            TupleTerm::Marker(term) => match term.bind(binding)? {
                Bound::Bytes(bytes) => {
                    binding.claim(bytes.len())?;
                    tuple_parts(term.ty(), &bytes, columns, null)
                }
                Bound::Null => Err(invalid(format!("Invalid null value for {}", list_of(columns)))),
                Bound::Unset => Err(invalid(format!("Invalid unset value for {}", list_of(columns)))),
            },
        }
    }
}

fn list_of(columns: &[&Column]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    format!("({})", names.join(","))
}

fn tuple_parts<'a>(ty: &CqlType, bytes: &[u8], columns: &[&Column], null: &str) -> Result<Vec<Bytes<'a>>, CqlError> {
    let mut elements = collection::elements(ty, bytes).map_err(|error| invalid(error.to_string()))?;
    let parts = columns.iter().map(|column| match elements.next().flatten() {
        Some(part) => Ok(Cow::Owned(part.to_vec())),
        None => Err(invalid(format!("{null} {}", column.name))),
    });
    parts.collect()
}

impl TupleList {
    /// The tuples, each once, in the order of their columns' values.
    fn bind<'a>(&'a self, columns: &[&Column], binding: &Binding<'a>) -> Result<Vec<Vec<Bytes<'a>>>, CqlError> {
        let mut tuples = match self {
            TupleList::Tuples(tuples) => {
                let tuples = tuples.iter().map(|tuple| tuple.bind(columns, binding, NULL_OF_COLUMN));
                tuples.collect::<Result<Vec<_>, _>>()?
            }
            TupleList::Marker(list) => {
                let ty = collection::element_type(list.ty(), 0).unwrap_or(&CqlType::Blob);
                let tuples = list_elements(list, binding, &list_of(columns))?;
                let parts = tuples.iter().map(|tuple| match tuple.bytes() {
                    Some(bytes) => tuple_parts(ty, bytes, columns, NULL_OF_COLUMN),
                    None => Err(invalid("Invalid null value for IN restriction")),
                });
                parts.collect::<Result<_, _>>()?
            }
        };
        tuples.sort_by(|a, b| {
            let parts = a.iter().zip(b).zip(columns);
            parts.fold(std::cmp::Ordering::Equal, |order, ((a, b), column)| {
                order.then_with(|| types::compare(&column.ty, a, b)).then_with(|| a.cmp(b))
            })
        });
        tuples.dedup();
        Ok(tuples)
    }
}

/// One end of a range, bound.
struct BoundEdge<'a> {
    values: Vec<Bytes<'a>>,
    inclusive: bool,
}

fn ranges(
    prefixes: &[Vec<Bytes<'_>>],
    restriction: &Restriction,
    edges: [&Option<Edge>; 2],
    columns: &[&Column],
    table: &Table,
    binding: &Binding<'_>,
) -> Result<Rows, CqlError> {
    let [start, end] = edges;
    let edge = |edge: &Option<Edge>| -> Result<Option<BoundEdge<'_>>, CqlError> {
        let Some(edge) = edge else { return Ok(None) };
        let values = edge.value.bind(columns, binding, NULL_IN_CONDITION)?;
        binding.claim(values.iter().map(|value| value.len()).sum())?;
        Ok(Some(BoundEdge {
            values: values.into_iter().map(|v| Cow::Owned(v.into_owned())).collect(),
            inclusive: edge.inclusive,
        }))
    };
    let (start, end) = (edge(start)?, edge(end)?);
    let descending: Vec<bool> = columns.iter().map(|column| is_descending(column)).collect();
    let mut out = Vec::new();
    for prefix in prefixes {
        if descending.iter().all(|each| *each == descending[0]) {
            out.push(range(prefix, [start.as_ref(), end.as_ref()], descending[0], binding)?);
        } else {
            mixed(prefix, [start.as_ref(), end.as_ref()], columns, binding, &mut out)?;
        }
    }
    debug_assert!(restriction.is_range());
    // A range whose end is not after its start holds no row.
    let order = table.clustering_order();
    out.retain(|range| order.compare(range.start(), range.end()).is_lt());
    Ok(Rows::Ranges(out))
}

fn is_descending(column: &Column) -> bool {
    matches!(column.kind, ColumnKind::Clustering { descending: true, .. })
}

/// The range under `prefix` between two edges in the order of values, whose columns all go the same way.
fn range(
    prefix: &[Bytes<'_>],
    [low, high]: [Option<&BoundEdge<'_>>; 2],
    descending: bool,
    binding: &Binding<'_>,
) -> Result<Range, CqlError> {
    let (first, last) = if descending { (high, low) } else { (low, high) };
    let edge = |edge: Option<&BoundEdge<'_>>, outer: i8| -> Result<(Vec<u8>, i8), CqlError> {
        let values = edge.map_or(&[] as &[_], |edge| &edge.values);
        let encoded = encode(&[prefix, values].concat(), binding)?;
        Ok((encoded, if edge.is_none_or(|edge| edge.inclusive) { outer } else { -outer }))
    };
    Ok(Range { start: edge(first, -1)?, end: edge(last, 1)? })
}

/// The ranges under `prefix` between two edges over columns of different directions: `(a, b) > (x, y)` is `a > x`, and
/// `a = x` with `b > y`, each of which is one range.
fn mixed(
    prefix: &[Bytes<'_>],
    [low, high]: [Option<&BoundEdge<'_>>; 2],
    columns: &[&Column],
    binding: &Binding<'_>,
    out: &mut Vec<Range>,
) -> Result<(), CqlError> {
    let values = |edge: Option<&BoundEdge<'_>>| edge.map_or(0, |edge| edge.values.len());
    let same = |at: usize| match (low, high) {
        (Some(low), Some(high)) => {
            matches!((low.values.get(at), high.values.get(at)), (Some(a), Some(b)) if a == b)
        }
        _ => false,
    };
    // The values that both edges begin with hold of every row between them.
    let shared = (0..columns.len()).take_while(|at| same(*at)).count();
    let Some(first) = columns.get(shared) else {
        let both = low.is_none_or(|edge| edge.inclusive) && high.is_none_or(|edge| edge.inclusive);
        if let (true, Some(low)) = (both, low) {
            out.push(range(&[prefix, low.values.as_slice()].concat(), [None, None], false, binding)?);
        }
        return Ok(());
    };
    let part = |edge: &BoundEdge<'_>, at: usize, last: bool| BoundEdge {
        values: edge.values.get(at).into_iter().map(|value| Cow::Owned(value.to_vec())).collect(),
        inclusive: last && edge.inclusive,
    };
    let ends_at = |edge: Option<&BoundEdge<'_>>, at: usize| at + 1 == values(edge);
    // At the first column where the edges differ: strictly between them, or up to an edge that ends there.
    let at_first = |edge: Option<&BoundEdge<'_>>| {
        edge.filter(|edge| shared < edge.values.len()).map(|one| part(one, shared, ends_at(edge, shared)))
    };
    let common = |edge: &BoundEdge<'_>, count: usize| -> Vec<Vec<u8>> {
        edge.values.iter().take(count).map(|value| value.to_vec()).collect()
    };
    let base = |leading: Vec<Vec<u8>>| -> Vec<Bytes<'_>> {
        prefix.iter().map(|value| Cow::Owned(value.to_vec())).chain(leading.into_iter().map(Cow::Owned)).collect()
    };
    // An edge that ended before the difference excludes or includes all that begins with it.
    let excluded =
        |edge: Option<&BoundEdge<'_>>| edge.is_some_and(|edge| edge.values.len() <= shared && !edge.inclusive);
    if excluded(low) || excluded(high) {
        return Ok(());
    }
    let leading = low.or(high).map_or(Vec::new(), |edge| common(edge, shared));
    let (from, to) = (at_first(low), at_first(high));
    out.push(range(&base(leading), [from.as_ref(), to.as_ref()], is_descending(first), binding)?);
    for at in shared + 1..columns.len() {
        let descending = columns.get(at).is_some_and(|column| is_descending(column));
        for (edge, is_low) in [(low, true), (high, false)] {
            let Some(one) = edge.filter(|edge| at < edge.values.len()) else { continue };
            let limit = part(one, at, ends_at(edge, at));
            let limits = if is_low { [Some(&limit), None] } else { [None, Some(&limit)] };
            out.push(range(&base(common(one, at)), limits, descending, binding)?);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::plan::testing;
    use crate::plan::write::testing::{check, check_refused, words};
    use crate::protocol::Value;
    use crate::schema::Schema;
    use crate::types::collection::{pack_list, pack_tuple};

    fn schema() -> Schema {
        testing::schema(&[
            "CREATE TABLE t (k int, c int, d int, v int, PRIMARY KEY (k, c, d))",
            "CREATE TABLE down (k int, c int, PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC)",
            "CREATE TABLE mixed (k int, a int, b int, PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY (a ASC, b DESC)",
        ])
    }

    #[test]
    fn a_delete_takes_a_row_a_range_or_all() {
        let schema = schema();
        for (cql, expected) in [
            ("DELETE FROM t WHERE k = 1", "t 1: -all"),
            ("DELETE FROM t WHERE k = 1 AND c = 2 AND d = 3", "t 1: row(2,3) -row"),
            ("DELETE FROM t WHERE k = 1 AND c = 2", "t 1: -<(2)..>(2)"),
            ("DELETE FROM t WHERE k = 1 AND c = 2 AND d > 3", "t 1: ->(2,3)..>(2)"),
            ("DELETE FROM t WHERE k = 1 AND c = 2 AND d >= 3 AND d < 5", "t 1: -<(2,3)..<(2,5)"),
            ("DELETE FROM t WHERE k = 1 AND c <= 4", "t 1: -<()..>(4)"),
            ("DELETE FROM t WHERE k = 1 AND c IN (2, 1) AND d > 3", "t 1: ->(1,3)..>(1) ->(2,3)..>(2)"),
            ("DELETE FROM t WHERE k = 1 AND (c, d) > (3, 2)", "t 1: ->(3,2)..>()"),
            ("DELETE FROM t WHERE k = 1 AND (c, d) >= (2, 1) AND (c) < (3)", "t 1: -<(2,1)..<(3)"),
            ("DELETE FROM t WHERE k = 1 AND (c, d) IN ((3, 1), (2, 9))", "t 1: row(2,9) -row row(3,1) -row"),
            ("DELETE v FROM t WHERE k = 1 AND (c, d) = (3, 1)", "t 1: row(3,1) -v"),
        ] {
            check(&schema, cql, &[expected]);
        }
    }

    #[test]
    fn a_range_without_rows_is_none() {
        check(&schema(), "DELETE FROM t WHERE k = 1 AND c > 5 AND c < 1", &[]);
        check(&schema(), "DELETE FROM t WHERE k = 1 AND c > 5 AND c <= 5", &[]);
        check(&schema(), "DELETE FROM t WHERE k = 1 AND c IN () AND d > 1", &[]);
    }

    #[test]
    fn a_descending_column_turns_its_range_round() {
        check(&schema(), "DELETE FROM down WHERE k = 1 AND c > 5", &["down 1: -<()..<(5)"]);
        check(&schema(), "DELETE FROM down WHERE k = 1 AND c >= 5 AND c < 9", &["down 1: ->(9)..>(5)"]);
    }

    /// `(a, b) > (1, 5)` with b descending: b above 5 stands first under a = 1, and all of a > 1 follows.
    #[test]
    fn columns_of_both_directions_make_several_ranges() {
        let schema = schema();
        for (cql, expected) in [
            ("(a, b) > (1, 5)", "mixed 1: ->(1)..>() -<(1)..<(1,5)"),
            ("(a, b) <= (1, 5)", "mixed 1: -<()..<(1) -<(1,5)..>(1)"),
            ("(a, b) >= (1, 5) AND (a, b) < (1, 9)", "mixed 1: ->(1,9)..>(1,5)"),
            ("(a, b) > (1, 5) AND (a, b) < (3, 7)", "mixed 1: ->(1)..<(3) -<(1)..<(1,5) ->(3,7)..>(3)"),
            ("(a, b) > (1, 5) AND (a) <= (1)", "mixed 1: -<(1)..<(1,5)"),
        ] {
            check(&schema, &format!("DELETE FROM mixed WHERE k = 1 AND {cql}"), &[expected]);
        }
        check(&schema, "DELETE FROM mixed WHERE k = 1 AND (a, b) > (1, 5) AND (a) < (1)", &[]);
    }

    #[test]
    fn lists_and_tuples_may_be_bound() {
        let schema = schema();
        let int = |value: i32| value.to_be_bytes();
        let list = pack_list([Some(int(2).as_slice()), Some(int(1).as_slice())]);
        let cql = "DELETE FROM t WHERE k IN ?";
        assert_eq!(words(&schema, cql, &[Value::Bytes(&list)]).unwrap(), ["t 1: -all", "t 2: -all"]);
        let holed = pack_list([Some(int(2).as_slice()), None]);
        let error = words(&schema, cql, &[Value::Bytes(&holed)]).unwrap_err();
        assert_eq!(error, "Invalid null value in condition for column k");
        assert_eq!(words(&schema, cql, &[Value::Null]).unwrap_err(), "Invalid null value for IN restriction");
        let tuple = pack_tuple([Some(int(3).as_slice()), Some(int(4).as_slice())]);
        let cql = "DELETE FROM t WHERE k = 1 AND (c, d) = ?";
        assert_eq!(words(&schema, cql, &[Value::Bytes(&tuple)]).unwrap(), ["t 1: row(3,4) -row"]);
        let holed = pack_tuple([Some(int(3).as_slice()), None]);
        assert_eq!(words(&schema, cql, &[Value::Bytes(&holed)]).unwrap_err(), "Invalid null value for column d");
        let tuples = pack_list([Some(tuple.as_slice())]);
        let cql = "DELETE FROM t WHERE k = 1 AND (c, d) IN ?";
        assert_eq!(words(&schema, cql, &[Value::Bytes(&tuples)]).unwrap(), ["t 1: row(3,4) -row"]);
    }

    #[test]
    fn columns_want_whole_rows() {
        let ranges = "Range deletions are not supported for specific columns";
        check_refused(&schema(), "DELETE v FROM t WHERE k = 1", ranges);
        check_refused(&schema(), "DELETE v FROM t WHERE k = 1 AND c = 1", ranges);
        check_refused(&schema(), "DELETE v FROM t WHERE k = 1 AND c > 1", ranges);
        check_refused(
            &schema(),
            "DELETE FROM t WHERE k = 1 AND c > null",
            "Invalid null value in condition for column c",
        );
    }
}
