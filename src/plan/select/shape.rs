//! What a SELECT's answers look like, whatever is bound: shared by all its executions.

use std::borrow::Cow;
use std::rc::Rc;

use crate::plan::ColumnSpec;
use crate::plan::functions::Accumulator;
use crate::plan::select::grouping::Grouping;
use crate::plan::select::ordering::RowOrder;
use crate::plan::select::row::RowView;
use crate::plan::select::selection::Selection;
use crate::schema::{ClusteringOrder, Table};

#[derive(Debug)]
pub(super) struct Shape {
    pub selection: Selection,
    pub columns: Rc<[ColumnSpec]>,
    /// The key of each value in a row's JSON; empty where rows are not JSON.
    pub json_keys: Vec<String>,
    pub grouping: Option<Grouping>,
    pub order: RowOrder,
    pub clustering_order: ClusteringOrder,
    /// How many values and expressions are evaluated for a row.
    pub work_a_row: usize,
}

impl Shape {
    pub fn new(selection: Selection, grouping: Option<Grouping>, order: RowOrder, table: &Table) -> Shape {
        let json_keys = if selection.is_json { selection.json_keys() } else { Vec::new() };
        Shape {
            columns: selection.columns(table).into(),
            json_keys,
            work_a_row: selection.size(),
            selection,
            grouping,
            order,
            clustering_order: table.clustering_order().clone(),
        }
    }

    /// Whether a row of the answer stands for a group of rows.
    pub fn is_grouped(&self) -> bool {
        self.grouping.is_some() || self.selection.is_aggregate()
    }

    pub fn accumulators(&self) -> Vec<Accumulator> {
        self.selection.aggregates.iter().map(|call| call.function.accumulator()).collect()
    }

    /// The values that the selection takes from a row.
    pub fn leaves<'v, 'a: 'v>(
        &'v self,
        row: &'v RowView<'_, 'a>,
        constants: &'v [Option<Vec<u8>>],
        now_s: i64,
    ) -> impl Iterator<Item = Option<Cow<'a, [u8]>>> + 'v {
        self.selection.leaves.iter().map(move |leaf| row.value(leaf, constants, now_s))
    }
}
