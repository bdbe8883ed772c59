//! ORDER BY: whether a partition is read backwards, and whether rows of several partitions are sorted afterwards.

use std::cmp::Ordering;

use crate::cql::ast::{OrderBy, OrderExpression, SortOrder};
use crate::plan::names;
use crate::plan::select::restrictions::Restrictions;
use crate::protocol::CqlError;
use crate::schema::{ClusteringOrder, ColumnKind, Position, Table, clustering};

/// What ORDER BY asks.
#[derive(Clone, Debug, Default)]
pub(super) struct RowOrder {
    /// Rows of a partition come against the clustering order.
    pub is_reversed: bool,
    /// Rows of all partitions are sorted together, by so many clustering columns.
    pub sorted_by: Option<usize>,
}

impl RowOrder {
    pub fn prepare(orders: &[OrderBy], table: &Table, restrictions: &Restrictions) -> Result<RowOrder, CqlError> {
        let mut columns = Vec::new();
        for order in orders {
            let OrderExpression::Column(name) = &order.expression else {
                return Err(CqlError::invalid("ANN ordering by vector requires the column to be indexed"));
            };
            let column = names::column(table, name)?;
            // Of a column named twice the last direction counts, at its first place.
            match columns.iter_mut().find(|(known, _)| *known == column) {
                Some((_, direction)) => *direction = order.order,
                None => columns.push((column, order.order)),
            }
        }
        if columns.is_empty() {
            return Ok(RowOrder::default());
        }
        if !restrictions.is_key_known {
            return Err(CqlError::invalid(
                "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.",
            ));
        }
        let mut next = 0;
        let mut directions = Vec::new();
        for (column, direction) in columns {
            let ColumnKind::Clustering { position, descending } = column.kind else {
                return Err(CqlError::invalid(format!(
                    "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got {}",
                    column.name
                )));
            };
            let position = usize::from(position);
            let first = table.partition_key().count();
            if position < next || (next..position).any(|at| !restrictions.is_equal(first + at)) {
                return Err(CqlError::invalid(
                    "Order by currently only supports the ordering of columns following their declared order in the \
                     PRIMARY KEY",
                ));
            }
            next = position + 1;
            directions.push((direction == SortOrder::Descending) != descending);
        }
        let is_reversed = directions.first().copied().unwrap_or_default();
        if directions.iter().any(|direction| *direction != is_reversed) {
            return Err(CqlError::invalid("Unsupported order by relation"));
        }
        Ok(RowOrder { is_reversed, sorted_by: restrictions.has_key_in().then_some(next) })
    }

    /// What a row is sorted by: the first components of its clustering, none of a row of statics only.
    pub fn sort_key(&self, clustering_key: &[u8]) -> Vec<u8> {
        let mut key = Vec::new();
        for value in clustering::components(clustering_key).take(self.sorted_by.unwrap_or_default()) {
            clustering::push_component(&mut key, value);
        }
        key
    }

    /// Orders two rows by their sort keys.
    pub fn compare(&self, order: &ClusteringOrder, a: &[u8], b: &[u8]) -> Ordering {
        let by_key = match (a.is_empty(), b.is_empty()) {
            (false, false) => order.compare(Position::row(a), Position::row(b)),
            (a_is_bare, b_is_bare) => b_is_bare.cmp(&a_is_bare),
        };
        if self.is_reversed { by_key.reverse() } else { by_key }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use crate::plan::select::testing::Model;

    fn model(order: &str) -> Model {
        let table = format!(
            "CREATE TABLE t (k int, a int, b int, v int, PRIMARY KEY (k, a, b)) WITH CLUSTERING ORDER BY ({order})"
        );
        let mut model = Model::new(&[&table]);
        for (k, a, b) in [(1, 1, 1), (1, 1, 2), (1, 2, 1), (2, 1, 1), (2, 3, 1)] {
            model.write(&format!("INSERT INTO t (k, a, b, v) VALUES ({k}, {a}, {b}, 0)"));
        }
        model
    }

    /// The rows (k, a, b), or the error.
    fn check_in(order: &str, rest: &str, expected: &str) {
        let answer = model(order).select(&format!("SELECT k, a, b FROM t WHERE {rest}"), &[], None);
        let got = match answer {
            Ok(answer) => answer.rows.iter().map(|row| row.concat()).collect::<Vec<_>>().join(" "),
            Err(error) => error.message().to_owned(),
        };
        assert_eq!(got, expected, "{order}: {rest}");
    }

    fn check(rest: &str, expected: &str) {
        check_in("a ASC, b ASC", rest, expected);
    }

    const NOT_DECLARED: &str =
        "Order by currently only supports the ordering of columns following their declared order in the PRIMARY KEY";

    #[test]
    fn a_partition_is_read_either_way() {
        check("k = 1 ORDER BY a", "111 112 121");
        check("k = 1 ORDER BY a DESC", "121 112 111");
        check("k = 1 ORDER BY a DESC, b DESC", "121 112 111");
        check("k = 1 AND a = 1 ORDER BY b DESC", "112 111");
        check("k = 1 ORDER BY a, a", "111 112 121");
        check("k = 1 AND a > 0 ORDER BY a DESC LIMIT 1", "121");
        check_in("a DESC, b ASC", "k = 1 ORDER BY a", "112 111 121");
        check_in("a DESC, b ASC", "k = 1 ORDER BY a DESC, b", "121 111 112");
        check_in("a DESC, b ASC", "k = 1 ORDER BY a, b", "Unsupported order by relation");
    }

    #[test]
    fn orders_that_the_table_does_not_have() {
        check("k = 1 ORDER BY a DESC, b ASC", "Unsupported order by relation");
        check("k = 1 ORDER BY b", NOT_DECLARED);
        check("k = 1 ORDER BY b, a", NOT_DECLARED);
        check("k = 1 AND a = 1 ORDER BY b, a", NOT_DECLARED);
        check("k = 1 AND a IN (1, 2) ORDER BY b DESC", NOT_DECLARED);
        let got = "Order by is currently only supported on the clustered columns of the PRIMARY KEY, got";
        check("k = 1 ORDER BY v", &format!("{got} v"));
        check("k = 1 ORDER BY k", &format!("{got} k"));
        check("k = 1 ORDER BY nosuch", "Undefined column name nosuch in table ks.t");
        let key = "ORDER BY is only supported when the partition key is restricted by an EQ or an IN.";
        check("token(k) > 0 ORDER BY a", key);
        check("k > 0 ORDER BY a ALLOW FILTERING", key);
    }

    #[test]
    fn partitions_are_sorted_together() {
        check("k IN (1, 2) ORDER BY a", "111 112 211 121 231");
        check("k IN (2, 1) ORDER BY a, b", "111 211 112 121 231");
        check("k IN (1, 2) ORDER BY a DESC, b DESC", "231 121 112 111 211");
        check("k IN (1, 2) ORDER BY a DESC LIMIT 2", "231 121");
        check("k IN (1) ORDER BY a DESC", "121 112 111");
        check_in("a DESC, b ASC", "k IN (1, 2) ORDER BY a, b DESC", "112 111 211 121 231");
    }

    #[test]
    fn what_is_sorted_together_has_no_pages() {
        let cql = "SELECT a FROM t WHERE k IN (1, 2) ORDER BY a";
        let error = model("a ASC, b ASC").select(cql, &[], Some(100)).unwrap_err();
        assert!(error.message().starts_with("Cannot page queries with both ORDER BY and a IN restriction"), "{error}");
        assert!(model("a ASC, b ASC").select("SELECT a FROM t WHERE k IN (1, 2)", &[], Some(2)).is_ok());
    }

    #[test]
    fn rows_of_statics_only_come_before_all() {
        let mut model = Model::new(&["CREATE TABLE t (k int, c int, s int static, PRIMARY KEY (k, c))"]);
        for insert in ["(k, s) VALUES (2, 7)", "(k, c) VALUES (1, 1)", "(k, c) VALUES (3, 0)"] {
            model.write(&format!("INSERT INTO t {insert}"));
        }
        let keys = |order: &str| {
            let cql = format!("SELECT k FROM t WHERE k IN (1, 2, 3) ORDER BY c {order}");
            model.select(&cql, &[], None).unwrap().rows.concat().concat()
        };
        assert_eq!((keys("ASC").as_str(), keys("DESC").as_str()), ("231", "132"));
    }
}
