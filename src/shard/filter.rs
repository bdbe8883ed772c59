//! Whether a row passes the conditions of ALLOW FILTERING. Pure.

use crate::mutation::condition::{equal_element, equal_key};
use crate::mutation::read::{FilterColumn, FilterExpression, FilterOperator};
use crate::mutation::{Cell, Row, counter};
use crate::schema::{Table, clustering};
use crate::types::CqlType;

/// The parts of one CQL row that a filter can name.
pub struct Candidate<'r, 'a> {
    pub table: &'r Table,
    pub partition_key: &'a [u8],
    pub static_row: Option<&'r Row<'a>>,
    /// `None` where the partition shows only its static row.
    pub row: Option<&'r Row<'a>>,
    pub now_s: i64,
}

/// Whether all of `filter` hold.
pub fn passes(filter: &[FilterExpression], candidate: &Candidate<'_, '_>) -> bool {
    filter.iter().all(|expression| holds(expression, candidate))
}

fn holds(expression: &FilterExpression, candidate: &Candidate<'_, '_>) -> bool {
    match expression.column {
        FilterColumn::PartitionKey(position) => {
            let Some(column) = candidate.table.partition_key().nth(usize::from(position)) else { return false };
            let Some(value) = partition_component(candidate, usize::from(position)) else { return false };
            expression.holds_for(&column.ty, value)
        }
        FilterColumn::Clustering(position) => {
            let Some(column) = candidate.table.clustering().nth(usize::from(position)) else { return false };
            let Some(row) = candidate.row else { return false };
            let Some(value) = clustering::components(row.clustering).nth(usize::from(position)) else { return false };
            expression.holds_for(&column.ty, value)
        }
        FilterColumn::Column(id) => {
            let Some(column) = candidate.table.column_by_id(id) else { return false };
            let from =
                if column.kind == crate::schema::ColumnKind::Static { candidate.static_row } else { candidate.row };
            let cells = from.map_or(&[][..], |row| &row.cells);
            let live = || cells.iter().filter(|cell| cell.column == id && cell.is_live(candidate.now_s));
            if column.ty.is_multi_cell() {
                multi_cell(expression, &column.ty, live())
            } else if column.ty.is_counter() {
                live()
                    .next()
                    .is_some_and(|cell| expression.holds_for(&column.ty, &counter::total(cell.value).to_be_bytes()))
            } else {
                live().next().is_some_and(|cell| expression.holds_for(&column.ty, cell.value))
            }
        }
    }
}

/// One component of the partition key: the whole key where it has one column.
fn partition_component<'a>(candidate: &Candidate<'_, 'a>, position: usize) -> Option<&'a [u8]> {
    if candidate.table.partition_key().count() == 1 {
        return Some(candidate.partition_key);
    }
    crate::schema::key::components(candidate.partition_key).nth(position)
}

/// The same over the cells of a collection that is stored element by element.
fn multi_cell<'c, 'a: 'c>(
    expression: &FilterExpression,
    ty: &CqlType,
    mut cells: impl Iterator<Item = &'c Cell<'a>>,
) -> bool {
    match expression.operator {
        FilterOperator::Contains => cells.any(|cell| match ty {
            // A set's elements are its paths.
            CqlType::Set(_) => cell.path.is_some_and(|path| equal_element(ty, path, &expression.value)),
            _ => equal_element(ty, cell.value, &expression.value),
        }),
        FilterOperator::ContainsKey => {
            cells.any(|cell| cell.path.is_some_and(|path| equal_key(ty, path, &expression.value)))
        }
        FilterOperator::Element => cells.any(|cell| {
            cell.path.is_some_and(|path| equal_key(ty, path, &expression.element))
                && equal_element(ty, cell.value, &expression.value)
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::ids::{ColumnId, TableId};
    use crate::mutation::NEVER_S;
    use crate::schema::{Column, ColumnKind, Columns, TableOptions};
    use crate::types::collection;

    fn table() -> Table {
        let column = |id, name: &str, ty, kind| Column { id: ColumnId(id), name: name.into(), ty, kind };
        let clustering = ColumnKind::Clustering { position: 0, descending: false };
        Table {
            id: TableId([1; 16]),
            keyspace: "ks".into(),
            name: "t".into(),
            version: 1,
            columns: Columns::new(vec![
                column(0, "a", CqlType::Int, ColumnKind::PartitionKey(0)),
                column(1, "b", CqlType::Int, ColumnKind::PartitionKey(1)),
                column(2, "c", CqlType::Int, clustering),
                column(3, "s", CqlType::Int, ColumnKind::Static),
                column(4, "v", CqlType::Int, ColumnKind::Regular),
                column(5, "l", CqlType::list(CqlType::Int).freeze(), ColumnKind::Regular),
            ]),
            dropped: Vec::new(),
            next_column_id: 6,
            options: TableOptions::default(),
            is_counter: false,
        }
    }

    fn int(value: i32) -> Vec<u8> {
        value.to_be_bytes().to_vec()
    }

    /// Row (a 1, b 2, c 3, s 4, v 5, l [6, 7]).
    fn check(column: FilterColumn, operator: FilterOperator, value: Vec<u8>, expected: bool) {
        let table = table();
        let key = crate::schema::key::join([int(1).as_slice(), &int(2)].into_iter());
        let mut clustering_key = Vec::new();
        clustering::push_component(&mut clustering_key, &int(3));
        let (s, v) = (int(4), int(5));
        let list = collection::pack_list([Some(int(6).as_slice()), Some(&int(7))]);
        let cell = |column, value| Cell {
            column: ColumnId(column),
            path: None,
            timestamp: 1,
            ttl_s: 0,
            local_deletion_s: NEVER_S,
            value,
        };
        let mut static_row = Row::new(&[]);
        static_row.cells.push(cell(3, s.as_slice()));
        let mut row = Row::new(&clustering_key);
        row.cells.push(cell(4, v.as_slice()));
        row.cells.push(cell(5, list.as_slice()));
        let candidate =
            Candidate { table: &table, partition_key: &key, static_row: Some(&static_row), row: Some(&row), now_s: 0 };
        let expression = FilterExpression { column, operator, element: Vec::new(), value };
        assert_eq!(passes(std::slice::from_ref(&expression), &candidate), expected, "{expression:?}");
    }

    #[test]
    fn every_part_of_a_row_can_be_asked() {
        use FilterColumn::{Clustering, PartitionKey};
        let column = |id| FilterColumn::Column(ColumnId(id));
        check(PartitionKey(1), FilterOperator::Equal, int(2), true);
        check(PartitionKey(0), FilterOperator::Equal, int(2), false);
        check(Clustering(0), FilterOperator::GreaterOrEqual, int(3), true);
        check(Clustering(0), FilterOperator::Greater, int(3), false);
        check(column(3), FilterOperator::LessOrEqual, int(4), true);
        check(column(4), FilterOperator::NotEqual, int(5), false);
        check(column(5), FilterOperator::Contains, int(7), true);
        check(column(5), FilterOperator::Contains, int(8), false);
        check(column(9), FilterOperator::Equal, int(5), false);
    }

    #[test]
    fn in_takes_any_of_a_list() {
        let list = collection::pack_list([Some(int(5).as_slice()), Some(&int(9))]);
        check(FilterColumn::Column(ColumnId(4)), FilterOperator::In, list.clone(), true);
        check(FilterColumn::Clustering(0), FilterOperator::In, list, false);
    }

    #[test]
    fn a_column_without_a_value_passes_nothing() {
        let table = table();
        let candidate =
            Candidate { table: &table, partition_key: b"", static_row: None, row: Some(&Row::new(&[])), now_s: 0 };
        for operator in [FilterOperator::Equal, FilterOperator::NotEqual, FilterOperator::Less] {
            let column = FilterColumn::Column(ColumnId(4));
            assert!(!passes(&[FilterExpression { column, operator, element: Vec::new(), value: int(1) }], &candidate));
        }
    }
}
