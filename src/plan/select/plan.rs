//! A bound SELECT: what is read first, and what becomes of it.

use std::rc::Rc;

use crate::base::ids::ColumnId;
use crate::mutation::read::{FilterColumn, FilterExpression, Partitions, ReadCommand};
use crate::plan::Context;
use crate::plan::select::result::ResultSet;
use crate::plan::select::shape::Shape;
use crate::schema::Table;

/// A read with the way from its pages to rows.
#[derive(Clone, Debug)]
pub struct ReadPlan {
    pub table: Rc<Table>,
    /// The first page to read.
    pub command: ReadCommand,
    /// Rows a page; `None`: all at once.
    pub page_size: Option<u32>,
    pub warnings: Vec<String>,
    pub(super) shape: Rc<Shape>,
    pub(super) constants: Rc<[Option<Vec<u8>>]>,
    pub(super) group_constants: Rc<[Option<Vec<u8>>]>,
    pub(super) rows_left: Option<u64>,
    pub(super) groups_per_partition: u64,
    pub(super) context: Context,
    /// How many random numbers the binding took.
    pub(super) uses: u64,
    /// Values to show instead of those that rows hold.
    pub(super) shown: Vec<(ColumnId, Vec<u8>)>,
}

impl ReadPlan {
    /// Shows `value` in this column of every row that has one. What filters ask of the column, every row is taken to have
    /// it.
    pub fn show(&mut self, column: ColumnId, value: Vec<u8>) {
        let of_column = |filter: &FilterExpression| filter.column == FilterColumn::Column(column);
        let (asked, others) = std::mem::take(&mut self.command.filter).into_iter().partition::<Vec<_>, _>(of_column);
        self.command.filter = others;
        let ty = self.table.column_by_id(column).map(|column| &column.ty);
        if !asked.iter().all(|filter| ty.is_some_and(|ty| filter.holds_for(ty, &value))) {
            self.command.partitions = Partitions::Keys(Vec::new());
        }
        self.shown.push((column, value));
    }

    /// An empty answer, to which the pages are pushed in turn.
    pub fn result(&self) -> ResultSet {
        ResultSet::new(self)
    }
}
