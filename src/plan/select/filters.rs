//! The conditions of ALLOW FILTERING that neither partitions nor slices say already.

use crate::mutation::read::{FilterColumn, FilterExpression, FilterOperator};
use crate::plan::select::bound_values::{Purpose, Receiver, bind_term};
use crate::plan::select::restriction::{Bound, Contents, Restriction, RestrictionKind};
use crate::plan::select::restrictions::Restrictions;
use crate::plan::term::{Binding, Term};
use crate::protocol::CqlError;
use crate::schema::{Column, ColumnKind, Table};
use crate::types::collection;

/// The conditions of a read with these restrictions.
pub(super) fn bind(
    restrictions: &Restrictions,
    table: &Table,
    binding: &Binding<'_>,
) -> Result<Vec<FilterExpression>, CqlError> {
    let key = restrictions.partition_key.iter().filter(|_| restrictions.filters_partition_key(table));
    let clustering = restrictions.clustering.iter().skip(restrictions.sliced);
    let mut filter = Filter { table, binding, expressions: Vec::new() };
    for restriction in key.chain(clustering).chain(&restrictions.others) {
        filter.add(restriction)?;
    }
    Ok(filter.expressions)
}

struct Filter<'a> {
    table: &'a Table,
    binding: &'a Binding<'a>,
    expressions: Vec<FilterExpression>,
}

impl Filter<'_> {
    fn add(&mut self, restriction: &Restriction) -> Result<(), CqlError> {
        let receiver = Receiver { table: self.table, restriction, purpose: Purpose::Filter };
        let binding = self.binding;
        match &restriction.kind {
            RestrictionKind::Equal(tuple) => {
                let values = receiver.equal(tuple, binding)?;
                for (column, value) in restriction.columns(self.table).zip(values) {
                    self.push(column, FilterOperator::Equal, value);
                }
            }
            RestrictionKind::In(_) if restriction.is_multi => {
                return Err(CqlError::invalid("Multicolumn IN filters are not supported"));
            }
            RestrictionKind::In(list) => {
                let rows = receiver.one_of(list, binding)?;
                let values = rows.iter().flatten().map(|value| Some(value.as_slice()));
                let list = collection::pack_list(values);
                restriction.columns(self.table).for_each(|column| {
                    self.push(column, FilterOperator::In, list.clone());
                });
            }
            RestrictionKind::Slice { .. } if restriction.is_multi => {
                return Err(CqlError::invalid("Multi-column slice restrictions cannot be used for filtering."));
            }
            RestrictionKind::Slice { lower, upper } => {
                let (over, from) = (FilterOperator::Greater, FilterOperator::GreaterOrEqual);
                let (under, to) = (FilterOperator::Less, FilterOperator::LessOrEqual);
                self.end(&receiver, lower.as_ref(), over, from)?;
                self.end(&receiver, upper.as_ref(), under, to)?;
            }
            RestrictionKind::Contains(contents) => self.contents(restriction, contents)?,
        }
        Ok(())
    }

    fn end(
        &mut self,
        receiver: &Receiver<'_>,
        bound: Option<&Bound>,
        exclusive: FilterOperator,
        inclusive: FilterOperator,
    ) -> Result<(), CqlError> {
        let Some(bound) = bound else { return Ok(()) };
        let operator = if bound.is_inclusive { inclusive } else { exclusive };
        let values = receiver.slice_end(&bound.values, self.binding)?;
        for (column, value) in receiver.restriction.columns(self.table).zip(values.into_iter().flatten()) {
            self.push(column, operator, value);
        }
        Ok(())
    }

    fn contents(&mut self, restriction: &Restriction, contents: &Contents) -> Result<(), CqlError> {
        for column in restriction.columns(self.table) {
            for term in &contents.values {
                let value = self.part(column, term)?;
                self.push(column, FilterOperator::Contains, value);
            }
            for term in &contents.keys {
                let value = self.part(column, term)?;
                self.push(column, FilterOperator::ContainsKey, value);
            }
            for (key, value) in &contents.entries {
                let (element, value) = (self.part(column, key)?, self.part(column, value)?);
                let operator = FilterOperator::Element;
                self.expressions.push(FilterExpression { column: filter_column(column), operator, element, value });
            }
        }
        Ok(())
    }

    fn part(&self, column: &Column, term: &Term) -> Result<Vec<u8>, CqlError> {
        let name = &column.name;
        let value = bind_term(term, self.binding, || format!("Unsupported unset value for column {name}"))?;
        value.ok_or_else(|| CqlError::invalid(format!("Unsupported null value for column {name}")))
    }

    fn push(&mut self, column: &Column, operator: FilterOperator, value: Vec<u8>) {
        let column = filter_column(column);
        self.expressions.push(FilterExpression { column, operator, element: Vec::new(), value });
    }
}

fn filter_column(column: &Column) -> FilterColumn {
    match column.kind {
        ColumnKind::PartitionKey(position) => FilterColumn::PartitionKey(position),
        ColumnKind::Clustering { position, .. } => FilterColumn::Clustering(position),
        ColumnKind::Static | ColumnKind::Regular => FilterColumn::Column(column.id),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use crate::plan::select::testing::Model;
    use crate::protocol::Value;

    fn model() -> Model {
        let mut model = Model::new(&["CREATE TABLE t (k int, c int, d int, v int, s int static, l list<int>, \
             m map<text, int>, f frozen<set<int>>, PRIMARY KEY (k, c, d))"]);
        for row in [
            "INSERT INTO t (k, c, d, v, s, l, m, f) VALUES (1, 1, 1, 1, 10, [1, 2], {'x': 1}, {1, 2})",
            "INSERT INTO t (k, c, d, v, l, m) VALUES (1, 2, 2, 2, [2], {'y': 2})",
            "INSERT INTO t (k, c, d, s) VALUES (2, 1, 1, 20)",
            "INSERT INTO t (k, s) VALUES (3, 30)",
        ] {
            model.write(row);
        }
        model
    }

    /// `k/c` of the rows that pass, sorted.
    fn check(restrictions: &str, expected: &[&str]) {
        let cql = format!("SELECT k, c FROM t WHERE {restrictions} ALLOW FILTERING");
        let mut rows: Vec<String> =
            model().select(&cql, &[], None).unwrap().rows.iter().map(|row| row.join("/")).collect();
        rows.sort();
        assert_eq!(rows, expected, "{restrictions}");
    }

    #[test]
    fn any_kind_of_column_can_filter() {
        check("k > 1", &["2/1", "3/null"]);
        check("d = 1", &["1/1", "2/1"]);
        check("k = 1 AND c > 1 AND d = 2", &["1/2"]);
        check("s >= 20", &["2/1", "3/null"]);
        check("v > 0 AND v < 2", &["1/1"]);
        check("v >= 1 AND v <= 2 AND s = 10", &["1/1", "1/2"]);
        check("v IN (2, 7)", &["1/2"]);
        check("l CONTAINS 2 AND l CONTAINS 1", &["1/1"]);
        check("m CONTAINS 2", &["1/2"]);
        check("m CONTAINS KEY 'x'", &["1/1"]);
        check("m['y'] = 2", &["1/2"]);
        check("f = {2, 1}", &["1/1"]);
        check("f CONTAINS 2", &["1/1"]);
        check("(c, d) > (1, 1)", &["1/2"]);
    }

    fn check_error(restrictions: &str, values: &[Value<'_>], expected: &str) {
        let cql = format!("SELECT k FROM t WHERE {restrictions} ALLOW FILTERING");
        let error = model().select(&cql, values, None).unwrap_err();
        assert_eq!(error.message(), expected, "{restrictions}");
    }

    #[test]
    fn nulls_filter_nothing() {
        check_error("v = null", &[], "Unsupported null value for column v");
        check_error("v > null", &[], "Unsupported null value for column v");
        check_error("v IN (1, null)", &[], "Unsupported null value for column v");
        check_error("v = ?", &[Value::Unset], "Unsupported unset value for column v");
        check_error("v IN ?", &[Value::Null], "Unsupported null value for column v");
        check_error("l CONTAINS null", &[], "Unsupported null value for column l");
        check_error("m['x'] = ?", &[Value::Null], "Unsupported null value for column m");
    }

    #[test]
    fn tuples_filter_only_where_they_choose_rows_too() {
        let table = "CREATE TABLE t (k int, c int, d int, e int, PRIMARY KEY (k, c, d, e))";
        let model = Model::new(&[table]);
        let error = |relation: &str| {
            let cql = format!("SELECT k FROM t WHERE k = 1 AND {relation} ALLOW FILTERING");
            model.select(&cql, &[], None).map(|answer| answer.rows.len()).map_err(|error| error.message().to_owned())
        };
        let refused = |text: &str| Err(text.to_owned());
        assert_eq!(error("(d, e) = (1, 1)"), Ok(0));
        assert_eq!(error("(d, e) IN ((1, 1), (2, 2))"), refused("Multicolumn IN filters are not supported"));
        assert_eq!(error("(d, e) > (1, 1)"), refused("Multi-column slice restrictions cannot be used for filtering."));
    }
}
