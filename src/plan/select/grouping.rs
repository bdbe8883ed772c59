//! GROUP BY: which rows are one group.

use crate::cql::ast::{self, Selectable};
use crate::plan::names;
use crate::plan::select::expression::{Expression, Values};
use crate::plan::select::restrictions::Restrictions;
use crate::plan::select::row::{Leaf, RowView};
use crate::plan::select::selection::{Constant, Selection};
use crate::plan::term::{Binding, Scope};
use crate::protocol::CqlError;
use crate::schema::{Column, ColumnKind, Table, clustering};

/// Rows of a partition that agree in these are one group.
#[derive(Debug, Default)]
pub(super) struct Grouping {
    /// So many of the first clustering columns.
    columns: usize,
    /// And the value of a function of the next one.
    function: Option<GroupFunction>,
}

#[derive(Debug)]
struct GroupFunction {
    expression: Expression,
    leaves: Vec<Leaf>,
    constants: Vec<Constant>,
}

/// What the rows of one group have in common, beside their partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupKey {
    prefix: Vec<u8>,
    value: Option<Vec<u8>>,
}

impl Grouping {
    pub fn prepare(
        groups: &[Selectable],
        scope: &mut Scope<'_>,
        table: &Table,
        restrictions: &Restrictions,
        is_distinct: bool,
    ) -> Result<Option<Grouping>, CqlError> {
        if groups.is_empty() {
            return Ok(None);
        }
        let mut function = None;
        let mut next = 0;
        for group in groups {
            let column = match group {
                Selectable::Column(_) if function.is_some() => {
                    return Err(CqlError::invalid(
                        "Functions are only supported on the last element of the GROUP BY clause",
                    ));
                }
                Selectable::Column(name) => names::column(table, name)?,
                call => {
                    let (column, prepared) = group_function(call, scope, table)?;
                    function = Some(prepared);
                    column
                }
            };
            if !matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. }) {
                return Err(CqlError::invalid(format!(
                    "Group by is currently only supported on the columns of the PRIMARY KEY, got {}",
                    column.name
                )));
            }
            let at = table.columns.place(&column.name).unwrap_or_default();
            if at < next || (next..at).any(|skipped| !restrictions.is_equal(skipped)) {
                return Err(CqlError::invalid(
                    "Group by currently only support groups of columns following their declared order in the PRIMARY KEY",
                ));
            }
            next = at + 1;
        }
        let key_columns = table.partition_key().count();
        if next < key_columns {
            return Err(CqlError::invalid("Group by is not supported on only a part of the partition key"));
        }
        if next > key_columns && is_distinct {
            return Err(CqlError::invalid("Grouping on clustering columns is not allowed for SELECT DISTINCT queries"));
        }
        let columns = next - key_columns - usize::from(function.is_some());
        Ok(Some(Grouping { columns, function }))
    }

    /// The values of the function's terms.
    pub fn bind(&self, binding: &Binding<'_>) -> Result<Vec<Option<Vec<u8>>>, CqlError> {
        match &self.function {
            Some(function) => function.constants.iter().map(|constant| constant.bind(binding)).collect(),
            None => Ok(Vec::new()),
        }
    }

    /// The group of a row. `constants` come from `bind`.
    pub fn key(
        &self,
        row: &RowView<'_, '_>,
        constants: &[Option<Vec<u8>>],
        binding: &Binding<'_>,
    ) -> Result<GroupKey, CqlError> {
        let mut prefix = Vec::new();
        for value in clustering::components(row.clustering()).take(self.columns) {
            clustering::push_component(&mut prefix, value);
        }
        let mut value = None;
        if let Some(function) = &self.function {
            let leaves: Vec<_> = function.leaves.iter().map(|leaf| row.value(leaf, constants, 0)).collect();
            let values = Values { leaves: &leaves, constants, aggregates: &[], binding };
            value = function.expression.evaluate(&values)?.map(std::borrow::Cow::into_owned);
        }
        Ok(GroupKey { prefix, value })
    }
}

/// A function in GROUP BY, of one clustering column.
fn group_function<'t>(
    call: &Selectable,
    scope: &mut Scope<'_>,
    table: &'t Table,
) -> Result<(&'t Column, GroupFunction), CqlError> {
    if !matches!(call, Selectable::Function { .. }) {
        return Err(CqlError::syntax(format!("GROUP BY takes columns and functions of them, not {call}")));
    }
    let selector = ast::Selector { selectable: call.clone(), alias: None };
    let mut selection = Selection::prepare(&ast::Selection::Selectors(vec![selector]), false, scope, table)?;
    if selection.is_aggregate() {
        return Err(CqlError::invalid("Aggregate functions are not supported within the GROUP BY clause"));
    }
    let columns: Vec<&Column> = selection.used.iter().filter_map(|id| table.column_by_id(*id)).collect();
    let column = match columns.as_slice() {
        [column] => *column,
        [] => {
            return Err(CqlError::invalid("GROUP BY functions must have one clustering column name as parameter"));
        }
        several => {
            let names: Vec<&str> = several.iter().map(|column| column.name.as_str()).collect();
            return Err(CqlError::invalid(format!(
                "GROUP BY functions accept only one clustering column as parameter, got: {}",
                names.join(",")
            )));
        }
    };
    if !matches!(column.kind, ColumnKind::Clustering { .. }) {
        return Err(CqlError::invalid(format!(
            "Group by functions are only supported on clustering columns, got {}",
            column.name
        )));
    }
    let output = selection.outputs.pop().ok_or_else(|| CqlError::invalid("GROUP BY needs a function"))?;
    let function =
        GroupFunction { expression: output.expression, leaves: selection.leaves, constants: selection.constants };
    Ok((column, function))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use crate::plan::select::testing::Model;

    fn model() -> Model {
        let mut model =
            Model::new(&["CREATE TABLE t (k int, a int, b int, v int, s int static, PRIMARY KEY (k, a, b))"]);
        for (k, a, b, v) in [(1, 1, 1, 1), (1, 1, 2, 2), (1, 2, 1, 3), (2, 1, 1, 10), (4, 1, 1, 5)] {
            model.write(&format!("INSERT INTO t (k, a, b, v) VALUES ({k}, {a}, {b}, {v})"));
        }
        model.write("INSERT INTO t (k, a, b) VALUES (2, 3, 1)");
        model.write("INSERT INTO t (k, s) VALUES (3, 7)");
        model
    }

    /// The rows, or the error, whole and in pages of any size.
    fn check(cql: &str, expected: &str) {
        for page_size in [None, Some(1), Some(2), Some(5)] {
            let got = match model().select(cql, &[], page_size) {
                Ok(answer) => answer.rows.iter().map(|row| row.join(",")).collect::<Vec<_>>().join(" "),
                Err(error) => error.message().to_owned(),
            };
            assert_eq!(got, expected, "{cql} in pages of {page_size:?}");
        }
    }

    #[test]
    fn groups_are_of_key_prefixes() {
        check("SELECT k, sum(v), count(v), count(*) FROM t GROUP BY k", "1,6,3,3 2,10,1,2 4,5,1,1 3,0,0,1");
        check(
            "SELECT k, a, sum(v), max(b) FROM t GROUP BY k, a",
            "1,1,3,2 1,2,3,1 2,1,10,1 2,3,0,1 4,1,5,1 3,null,0,null",
        );
        check("SELECT a, count(*) FROM t WHERE k = 1 GROUP BY a", "1,2 2,1");
        check("SELECT b, count(*) FROM t WHERE k = 1 AND a = 1 GROUP BY b", "1,1 2,1");
        check("SELECT a, max(v) FROM t WHERE k = 1 GROUP BY a ORDER BY a DESC", "2,3 1,2");
        check("SELECT sum(v) FROM t WHERE k = 99 GROUP BY k", "");
    }

    /// Columns beside aggregates have the values of the group's first row.
    #[test]
    fn the_first_row_stands_for_its_group() {
        check("SELECT k, a, v FROM t GROUP BY k, a", "1,1,1 1,2,3 2,1,10 2,3,null 4,1,5 3,null,null");
        check("SELECT * FROM t GROUP BY k", "1,1,1,null,1 2,1,1,null,10 4,1,1,null,5 3,null,null,7,null");
        check("SELECT k, v + 1, sum(v) + v FROM t GROUP BY k", "1,2,7 2,11,20 4,6,10 3,null,null");
    }

    #[test]
    fn limits_count_groups() {
        check("SELECT k, sum(v) FROM t GROUP BY k LIMIT 2", "1,6 2,10");
        check("SELECT k, a, sum(v) FROM t GROUP BY k, a PER PARTITION LIMIT 1", "1,1,3 2,1,10 4,1,5 3,null,0");
        check("SELECT k, a, sum(v) FROM t GROUP BY k, a PER PARTITION LIMIT 1 LIMIT 2", "1,1,3 2,1,10");
    }

    #[test]
    fn a_function_of_the_last_column_can_group() {
        let mut model = Model::new(&["CREATE TABLE t (k int, at timestamp, v int, PRIMARY KEY (k, at))"]);
        for (time, v) in [("00:00", 1), ("00:40", 2), ("01:10", 4), ("03:00", 8)] {
            model.write(&format!("INSERT INTO t (k, at, v) VALUES (1, '2020-01-01 {time}:00+0000', {v})"));
        }
        for page_size in [None, Some(1), Some(2)] {
            let cql = "SELECT sum(v) FROM t WHERE k = 1 GROUP BY k, floor(at, 1h)";
            let rows = model.select(cql, &[], page_size).unwrap().rows;
            assert_eq!(rows, [["3"], ["4"], ["8"]], "{page_size:?}");
        }
        let error = model.prepare("SELECT sum(v) FROM t GROUP BY k, abs(v)").unwrap_err();
        assert_eq!(error.message(), "Group by functions are only supported on clustering columns, got v");
    }

    #[test]
    fn groups_that_the_key_does_not_have() {
        let order =
            "Group by currently only support groups of columns following their declared order in the PRIMARY KEY";
        check("SELECT k FROM t GROUP BY a", order);
        check("SELECT k FROM t GROUP BY k, b", order);
        check("SELECT k FROM t GROUP BY k, k", order);
        let got = "Group by is currently only supported on the columns of the PRIMARY KEY, got";
        check("SELECT k FROM t GROUP BY v", &format!("{got} v"));
        check("SELECT k FROM t GROUP BY k, a, b, s", &format!("{got} s"));
        check("SELECT k FROM t GROUP BY nosuch", "Undefined column name nosuch in table ks.t");
        check(
            "SELECT DISTINCT k, count(*) FROM t GROUP BY k, a",
            "Grouping on clustering columns is not allowed for SELECT DISTINCT queries",
        );
        let two = Model::new(&["CREATE TABLE u (a int, b int, PRIMARY KEY ((a, b)))"]);
        let error = two.prepare("SELECT a FROM u GROUP BY a").unwrap_err();
        assert_eq!(error.message(), "Group by is not supported on only a part of the partition key");
    }
}
