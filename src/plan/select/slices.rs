//! Which rows of a partition a SELECT reads: disjoint slices of the clustering order, ascending.

use crate::mutation::read::{OwnedPosition, Slice};
use crate::plan::select::bound_values::{Purpose, Receiver, Row};
use crate::plan::select::restriction::{Bound, Restriction, RestrictionKind};
use crate::plan::select::restrictions::Restrictions;
use crate::plan::term::Binding;
use crate::protocol::CqlError;
use crate::schema::{ClusteringOrder, ColumnKind, Position, Table, clustering};

/// How many rows or slices of a partition one SELECT may name by IN.
pub const SELECT_SLICES_MAX: usize = 65_536;

/// The slices that the restrictions choose; none where no row can match.
pub(super) fn bind(restrictions: &Restrictions, table: &Table, binding: &Binding<'_>) -> Result<Vec<Slice>, CqlError> {
    let order = table.clustering_order();
    let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
    let mut columns = 0;
    let mut range = None;
    for restriction in restrictions.clustering.iter().take(restrictions.sliced) {
        let rows = match &restriction.kind {
            RestrictionKind::Equal(tuple) => {
                let receiver = Receiver { table, restriction, purpose: Purpose::Choose };
                vec![receiver.equal(tuple, binding)?]
            }
            RestrictionKind::In(list) => {
                let receiver = Receiver { table, restriction, purpose: Purpose::Choose };
                receiver.one_of(list, binding)?
            }
            RestrictionKind::Slice { lower, upper } => {
                range = Some(Range::bind(table, restriction, lower.as_ref(), upper.as_ref(), binding)?);
                break;
            }
            RestrictionKind::Contains(_) => break,
        };
        prefixes = extended(prefixes, &rows, binding)?;
        columns += restriction.columns.len();
    }
    prefixes.sort_by(|a, b| order.compare(Position::row(a), Position::row(b)));
    prefixes.dedup_by(|later, kept| order.compare(Position::row(kept), Position::row(later)).is_eq());
    let is_full = columns > 0 && columns == order.len();
    let mut slices = Vec::with_capacity(prefixes.len());
    for prefix in prefixes {
        if slices.len() > SELECT_SLICES_MAX {
            return Err(too_many(slices.len()));
        }
        match &range {
            Some(range) => slices.extend(range.slices(&prefix, order, binding)?),
            None if is_full => {
                let row = OwnedPosition { prefix, weight: 0 };
                slices.push(Slice { start: row.clone(), end: row });
            }
            None => slices.push(Slice { start: before(&prefix), end: after(&prefix) }),
        }
    }
    Ok(slices)
}

/// Every prefix continued by every row.
fn extended(
    mut prefixes: Vec<Vec<u8>>,
    rows: &[Vec<Vec<u8>>],
    binding: &Binding<'_>,
) -> Result<Vec<Vec<u8>>, CqlError> {
    let product = prefixes.len().saturating_mul(rows.len());
    if product > SELECT_SLICES_MAX {
        return Err(too_many(product));
    }
    let bytes_of = |row: &[Vec<u8>]| row.iter().map(Vec::len).sum::<usize>();
    if let [row] = rows {
        for prefix in &mut prefixes {
            binding.claim(bytes_of(row))?;
            row.iter().for_each(|value| clustering::push_component(prefix, value));
        }
        return Ok(prefixes);
    }
    let mut out = Vec::with_capacity(product);
    for prefix in &prefixes {
        for row in rows {
            binding.claim(prefix.len() + bytes_of(row))?;
            let mut longer = prefix.clone();
            row.iter().for_each(|value| clustering::push_component(&mut longer, value));
            out.push(longer);
        }
    }
    Ok(out)
}

fn too_many(combinations: usize) -> CqlError {
    CqlError::invalid(format!(
        "The IN restrictions of the clustering columns make {combinations} combinations; a SELECT may name at most \
         {SELECT_SLICES_MAX}"
    ))
}

fn before(prefix: &[u8]) -> OwnedPosition {
    OwnedPosition { prefix: prefix.to_vec(), weight: -1 }
}

fn after(prefix: &[u8]) -> OwnedPosition {
    OwnedPosition { prefix: prefix.to_vec(), weight: 1 }
}

fn with(prefix: &[u8], value: &[u8]) -> Vec<u8> {
    let mut longer = prefix.to_vec();
    clustering::push_component(&mut longer, value);
    longer
}

/// The ends of a slice restriction, and the direction of each of its columns.
struct Range {
    lower: Option<(Row, bool)>,
    upper: Option<(Row, bool)>,
    descending: Vec<bool>,
}

impl Range {
    fn bind(
        table: &Table,
        restriction: &Restriction,
        lower: Option<&Bound>,
        upper: Option<&Bound>,
        binding: &Binding<'_>,
    ) -> Result<Range, CqlError> {
        let receiver = Receiver { table, restriction, purpose: Purpose::SliceEnd };
        let end = |bound: &Bound| Ok::<_, CqlError>((receiver.slice_end(&bound.values, binding)?, bound.is_inclusive));
        let is_descending = |at: &usize| {
            let kind = table.columns.get(*at).map(|column| column.kind);
            matches!(kind, Some(ColumnKind::Clustering { descending: true, .. }))
        };
        Ok(Range {
            lower: lower.map(end).transpose()?,
            upper: upper.map(end).transpose()?,
            descending: restriction.columns.iter().map(is_descending).collect(),
        })
    }

    /// The rows after `prefix` that lie between the ends.
    fn slices(&self, prefix: &[u8], order: &ClusteringOrder, binding: &Binding<'_>) -> Result<Vec<Slice>, CqlError> {
        let beyond = |end: &Option<(Row, bool)>, is_greater: bool| match end {
            Some((row, is_inclusive)) => self.beyond(prefix, row, *is_inclusive, is_greater, binding),
            None => Ok(vec![Slice { start: before(prefix), end: after(prefix) }]),
        };
        let (lower, upper) = (beyond(&self.lower, true)?, beyond(&self.upper, false)?);
        let (lower, upper) = (joined(lower, order), joined(upper, order));
        let mut out = Vec::new();
        let (mut lower, mut upper) = (lower.iter().peekable(), upper.iter().peekable());
        while let (Some(a), Some(b)) = (lower.peek(), upper.peek()) {
            let start = max(order, &a.start, &b.start);
            let end = min(order, &a.end, &b.end);
            if order.compare(start.borrow(), end.borrow()).is_lt() {
                out.push(Slice { start: start.clone(), end: end.clone() });
            }
            // What ends first overlaps nothing that follows.
            if order.compare(a.end.borrow(), b.end.borrow()).is_lt() {
                lower.next()
            } else {
                upper.next()
            };
        }
        Ok(out)
    }

    /// The rows whose values are greater (or less) than `row`, compared column by column: for each column those that
    /// equal it before and differ there. Where directions are mixed, they do not lie together.
    fn beyond(
        &self,
        prefix: &[u8],
        row: &Row,
        is_inclusive: bool,
        is_greater: bool,
        binding: &Binding<'_>,
    ) -> Result<Vec<Slice>, CqlError> {
        let mut slices = Vec::new();
        let mut equal = prefix.to_vec();
        for (value, descending) in row.iter().zip(&self.descending) {
            // A null stands before all values, whatever the direction.
            let is_behind = is_greater != *descending;
            let Some(value) = value else {
                if is_behind {
                    slices.push(Slice { start: before(&equal), end: after(&equal) });
                }
                return Ok(slices);
            };
            binding.claim(2 * (equal.len() + value.len()))?;
            let here = with(&equal, value);
            slices.push(if is_behind {
                Slice { start: after(&here), end: after(&equal) }
            } else {
                Slice { start: before(&equal), end: before(&here) }
            });
            equal = here;
        }
        if is_inclusive {
            slices.push(Slice { start: before(&equal), end: after(&equal) });
        }
        Ok(slices)
    }
}

fn max<'p>(order: &ClusteringOrder, a: &'p OwnedPosition, b: &'p OwnedPosition) -> &'p OwnedPosition {
    if order.compare(a.borrow(), b.borrow()).is_ge() { a } else { b }
}

fn min<'p>(order: &ClusteringOrder, a: &'p OwnedPosition, b: &'p OwnedPosition) -> &'p OwnedPosition {
    if order.compare(a.borrow(), b.borrow()).is_le() { a } else { b }
}

/// Disjoint slices in order, those that touch joined.
fn joined(mut slices: Vec<Slice>, order: &ClusteringOrder) -> Vec<Slice> {
    slices.sort_by(|a, b| order.compare(a.start.borrow(), b.start.borrow()));
    let mut out: Vec<Slice> = Vec::with_capacity(slices.len());
    for slice in slices {
        match out.last_mut() {
            Some(last) if order.compare(last.end.borrow(), slice.start.borrow()).is_ge() => last.end = slice.end,
            _ => out.push(slice),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use crate::plan::select::testing::Model;
    use crate::protocol::Value;

    /// Rows (a, b, c), each 0 or 1, of one partition, with these directions.
    fn model(order: &str) -> Model {
        let table = format!(
            "CREATE TABLE t (k int, a int, b int, c int, PRIMARY KEY (k, a, b, c)) \
             WITH CLUSTERING ORDER BY ({order})"
        );
        let mut model = Model::new(&[&table]);
        for row in 0..8 {
            let (a, b, c) = (row >> 2 & 1, row >> 1 & 1, row & 1);
            model.write(&format!("INSERT INTO t (k, a, b, c) VALUES (1, {a}, {b}, {c})"));
        }
        model
    }

    const ORDERS: [&str; 4] =
        ["a ASC, b ASC, c ASC", "a DESC, b DESC, c DESC", "a ASC, b DESC, c ASC", "a DESC, b ASC, c DESC"];

    /// The rows that a WHERE chooses, sorted, whatever the clustering order; the slices must be in that order.
    fn check(restrictions: &str, expected: &[&str]) {
        for order in ORDERS {
            let model = model(order);
            let cql = format!("SELECT a, b, c FROM t WHERE k = 1 AND {restrictions}");
            let plan = model.prepare(&cql).unwrap().0.bind(&[], &crate::plan::testing::options()).unwrap();
            let clustering = model.table.clustering_order();
            for pair in plan.command.slices.windows(2) {
                assert!(clustering.compare(pair[0].end.borrow(), pair[1].start.borrow()).is_lt(), "{order} {cql}");
            }
            let mut rows: Vec<String> =
                model.select(&cql, &[], None).unwrap().rows.iter().map(|row| row.concat()).collect();
            rows.sort();
            assert_eq!(rows, expected, "{order}: {restrictions}");
        }
    }

    #[test]
    fn tuples_compare_by_value_in_any_direction() {
        check("(a, b, c) > (0, 1, 0)", &["011", "100", "101", "110", "111"]);
        check("(a, b, c) >= (0, 1, 0)", &["010", "011", "100", "101", "110", "111"]);
        check("(a, b) < (1, 0)", &["000", "001", "010", "011"]);
        check("(a, b) <= (1, 0)", &["000", "001", "010", "011", "100", "101"]);
        check("(a, b, c) > (0, 0, 1) AND (a, b) < (1, 1)", &["010", "011", "100", "101"]);
        check("(a, b, c) > (0, 0, 1) AND (a) <= (0)", &["010", "011"]);
        check("(a, b) > (1, 1)", &[]);
        check("(a, b, c) > (1, 0, 0) AND (a, b, c) < (0, 1, 1)", &[]);
        check("a = 1 AND (b, c) > (0, 0)", &["101", "110", "111"]);
    }

    #[test]
    fn in_makes_every_combination_once() {
        check("a IN (1, 0, 1) AND b = 1 AND c IN (1)", &["011", "111"]);
        check("(a, b) IN ((1, 0), (0, 0), (1, 0)) AND c >= 1", &["001", "101"]);
        check("a IN () AND b = 1", &[]);
        check("a IN (0, 7) AND (b, c) IN ((1, 1), (0, 1))", &["001", "011"]);
    }

    #[test]
    fn slices_that_touch_are_joined() {
        for (order, slices) in [(ORDERS[0], 1), (ORDERS[1], 1), (ORDERS[2], 5)] {
            let cql = "SELECT a FROM t WHERE k = 1 AND (a, b, c) > (0, 0, 0) AND (a, b, c) < (1, 1, 1)";
            let plan = model(order).prepare(cql).unwrap().0.bind(&[], &crate::plan::testing::options()).unwrap();
            assert_eq!(plan.command.slices.len(), slices, "{order}");
        }
    }

    /// A null end of one column stands before all values in the clustering order.
    #[test]
    fn a_null_end_is_before_all_rows() {
        for (order, greater, less) in [(ORDERS[0], 8, 0), (ORDERS[1], 0, 8)] {
            let model = model(order);
            let count = |cql: &str| model.select(cql, &[], None).unwrap().rows.len();
            assert_eq!(count("SELECT a FROM t WHERE k = 1 AND a > null"), greater, "{order}");
            assert_eq!(count("SELECT a FROM t WHERE k = 1 AND a < null"), less, "{order}");
        }
    }

    #[test]
    fn bound_values_choose_rows_and_nulls_are_refused() {
        let model = model(ORDERS[0]);
        let (one, zero) = (1i32.to_be_bytes(), 0i32.to_be_bytes());
        let cql = "SELECT c FROM t WHERE k = 1 AND a = ? AND b > ?";
        let answer = model.select(cql, &[Value::Bytes(&one), Value::Bytes(&zero)], None).unwrap();
        assert_eq!(answer.rows, [["0"], ["1"]]);
        let error = |values: &[Value<'_>]| model.select(cql, values, None).unwrap_err().message().to_owned();
        assert_eq!(error(&[Value::Null, Value::Bytes(&one)]), "Invalid null value in condition for column a");
        assert_eq!(error(&[Value::Unset, Value::Bytes(&one)]), "Invalid unset value for column a");
        assert_eq!(error(&[Value::Bytes(&one), Value::Unset]), "Invalid unset value for column b");
    }

    #[test]
    fn too_many_combinations_are_refused() {
        let list = vec!["1"; 300].join(", ");
        let cql = format!("SELECT a FROM t WHERE k = 1 AND a IN ({list}) AND b IN ({list})");
        let error = model(ORDERS[0]).select(&cql, &[], None).unwrap_err();
        assert!(error.message().contains("90000 combinations"), "{error}");
    }

    #[test]
    fn partitions_times_rows_are_limited() {
        let list = (0..1_100).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        let cql = format!("SELECT a FROM t WHERE k IN ({list}) AND a IN ({list})");
        let error = model(ORDERS[0]).select(&cql, &[], None).unwrap_err();
        assert!(error.message().contains("make 1210000 combinations"), "{error}");
    }
}
