//! SELECT: from the statement to a read (`PreparedSelect`, `ReadPlan`), and from its pages to rows (`ResultSet`).
//!
//! `restrictions` decides what WHERE means as Cassandra's StatementRestrictions does; `partitions`, `slices` and
//! `filters` turn it into a `ReadCommand` once the bind variables are known. `selection` makes expressions of the
//! selectors, which `result` computes for each row or group.

mod argument;
mod bound_values;
mod expression;
mod filters;
mod grouping;
mod ordering;
mod partitions;
mod parts;
mod plan;
mod point;
mod prepared;
mod relation;
mod restriction;
mod restrictions;
mod result;
mod row;
mod selection;
mod shape;
mod slices;

pub use partitions::SELECT_PARTITIONS_MAX;
pub use plan::ReadPlan;
pub use point::PointSelect;
pub use prepared::{PreparedSelect, READ_PAGE_BYTES, SELECT_PRODUCT_MAX};
pub use result::{FinishedRows, Intake, RESULT_PAGE_BYTES, RESULT_ROW_BYTES_MAX, ResultSet, UNPAGED_RESULT_BYTES_MAX};
pub use slices::SELECT_SLICES_MAX;

#[cfg(test)]
mod testing;
