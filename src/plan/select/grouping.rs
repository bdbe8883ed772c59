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
            let at = table.columns.iter().position(|other| other.id == column.id).unwrap_or_default();
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
