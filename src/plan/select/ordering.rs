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
