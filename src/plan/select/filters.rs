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
