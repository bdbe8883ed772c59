//! A SELECT that has been checked against the schema, ready for many executions.

use std::cell::Cell;
use std::rc::Rc;

use crate::cql::ast;
use crate::mutation::read::{Limits, Partitions, ReadCommand, Slice};
use crate::plan::markers::Markers;
use crate::plan::paging::PagingState;
use crate::plan::select::grouping::Grouping;
use crate::plan::select::ordering::RowOrder;
use crate::plan::select::plan::ReadPlan;
use crate::plan::select::restriction::Restriction;
use crate::plan::select::restrictions::Restrictions;
use crate::plan::select::selection::Selection;
use crate::plan::select::shape::Shape;
use crate::plan::select::{filters, partitions, slices};
use crate::plan::term::{Binding, Bound, Scope, Term};
use crate::plan::{ColumnSpec, RequestOptions, names};
use crate::protocol::{Consistency, CqlError, Value};
use crate::schema::{ColumnKind, Schema, Table};
use crate::types::{CqlType, number};

/// How much one page of a read may hold on its way to the coordinator, which asks for as many as it needs.
pub const READ_PAGE_BYTES: usize = 1 << 20;

/// A SELECT ready for binding.
#[derive(Debug)]
pub struct PreparedSelect {
    pub table: Rc<Table>,
    /// The columns of its result.
    pub columns: Rc<[ColumnSpec]>,
    shape: Rc<Shape>,
    restrictions: Restrictions,
    is_distinct: bool,
    limit: Option<Term>,
    per_partition_limit: Option<Term>,
}

impl PreparedSelect {
    /// Checks the statement against the schema. `keyspace` is the current one; the bind markers are entered in
    /// `markers`.
    pub fn prepare(
        select: &ast::Select,
        schema: &Schema,
        keyspace: Option<&str>,
        markers: &mut Markers,
    ) -> Result<PreparedSelect, CqlError> {
        let table = names::table(schema, &select.table, keyspace)?.clone();
        let mut scope = Scope { schema, keyspace: &table.keyspace, table: Some(&table), markers };
        let selection = Selection::prepare(&select.selection, select.json, &mut scope, &table)?;
        let allow_filtering = select.allow_filtering;
        let restrictions = Restrictions::prepare(&select.relations, &mut scope, &table, allow_filtering)?;
        let is_all = matches!(select.selection, ast::Selection::All);
        restrictions.check(&table, allow_filtering, !is_all && selection.is_of_statics_only(&table))?;
        if select.distinct {
            check_distinct(select, &selection, &restrictions, &table)?;
        }
        let grouping = Grouping::prepare(&select.group_by, &mut scope, &table, &restrictions, select.distinct)?;
        if grouping.is_none() && selection.is_aggregate() && select.per_partition_limit.is_some() {
            return Err(CqlError::invalid("PER PARTITION LIMIT is not allowed with aggregate queries."));
        }
        let order = RowOrder::prepare(&select.order_by, &table, &restrictions)?;
        restrictions.check_filtering(allow_filtering)?;
        let mut limit = |name: &str, term: &Option<ast::Term>| {
            let spec = ColumnSpec {
                keyspace: table.keyspace.clone(),
                table: table.name.clone(),
                name: name.to_owned(),
                ty: CqlType::Int,
            };
            term.as_ref().map(|term| Term::prepare(term, &spec, &mut scope)).transpose()
        };
        let per_partition_limit = limit("[per_partition_limit]", &select.per_partition_limit)?;
        let limit = limit("[limit]", &select.limit)?;
        let shape = Rc::new(Shape::new(selection, grouping, order, &table));
        Ok(PreparedSelect {
            columns: shape.columns.clone(),
            shape,
            restrictions,
            is_distinct: select.distinct,
            limit,
            per_partition_limit,
            table,
        })
    }

    /// The read that this execution asks for. `values` are in the order of the bind markers.
    pub fn bind(&self, values: &[Value<'_>], options: &RequestOptions<'_>) -> Result<ReadPlan, CqlError> {
        if options.consistency == Consistency::Any {
            return Err(CqlError::invalid("ANY ConsistencyLevel is only supported for writes"));
        }
        let uses = Cell::new(0);
        let binding = Binding::new(values, options.context, &uses);
        let limit = bind_limit(self.limit.as_ref(), &binding)?;
        let per_partition = bind_limit(self.per_partition_limit.as_ref(), &binding)?;
        let page_size = options.page_size.filter(|size| *size > 0);
        if self.shape.order.sorted_by.is_some() && page_size.is_some() {
            return Err(CqlError::invalid(
                "Cannot page queries with both ORDER BY and a IN restriction on the partition key; you must either \
                 remove the ORDER BY or the IN and sort client side, or disable paging for this query",
            ));
        }
        let state = match options.paging_state {
            Some(bytes) => PagingState::decode(bytes, self.table.id)?,
            None => None,
        };
        let rows_left = state.as_ref().map_or(limit, |state| state.rows_left.or(limit));
        let constants = self.shape.selection.constants.iter().map(|constant| constant.bind(&binding));
        let constants = constants.collect::<Result<Vec<_>, _>>()?;
        let group_constants = match &self.shape.grouping {
            Some(grouping) => grouping.bind(&binding)?,
            None => Vec::new(),
        };
        let limits = self.limits(page_size, rows_left, per_partition);
        let mut command = self.command(&binding, options.now_s(), limits)?;
        command.resume = state.map(|state| state.resume);
        Ok(ReadPlan {
            table: self.table.clone(),
            command,
            page_size,
            warnings: self.warnings(),
            shape: self.shape.clone(),
            constants: constants.into(),
            group_constants: group_constants.into(),
            rows_left,
            groups_per_partition: per_partition.unwrap_or(u64::MAX),
            context: options.context,
            uses: uses.get(),
        })
    }

    /// What the first page may hold. Under GROUP BY and for aggregates the limits count groups, not rows; rows that
    /// are sorted are limited afterwards.
    fn limits(&self, page_size: Option<u32>, rows_left: Option<u64>, per_partition: Option<u64>) -> Limits {
        let no_limit = Limits { rows: u64::MAX, per_partition: u64::MAX, page_bytes: READ_PAGE_BYTES };
        if self.shape.is_grouped() {
            return no_limit;
        }
        let per_partition = per_partition.unwrap_or(u64::MAX);
        if self.shape.order.sorted_by.is_some() {
            return Limits { per_partition, ..no_limit };
        }
        let rows = rows_left.unwrap_or(u64::MAX).min(page_size.map_or(u64::MAX, u64::from));
        Limits { rows, per_partition, ..no_limit }
    }

    fn command(&self, binding: &Binding<'_>, now_s: i64, limits: Limits) -> Result<ReadCommand, CqlError> {
        let (restrictions, table) = (&self.restrictions, &*self.table);
        let mut partitions = partitions::bind(restrictions, table, binding)?;
        let slices = slices::bind(restrictions, table, binding)?;
        if slices.is_empty() {
            partitions = Partitions::Keys(Vec::new());
        }
        let filters_regulars = restrictions
            .others
            .iter()
            .any(|restriction| restriction.columns(table).any(|column| column.kind == ColumnKind::Regular));
        Ok(ReadCommand {
            table: table.id,
            now_s,
            partitions,
            slices: if self.is_distinct { vec![Slice::all()] } else { slices },
            reversed: self.shape.order.is_reversed,
            columns: self.shape.selection.stored_columns(),
            filter: filters::bind(restrictions, table, binding)?,
            distinct: self.is_distinct,
            static_only_rows: table.has_statics() && restrictions.clustering.is_empty() && !filters_regulars,
            limits,
            resume: None,
        })
    }

    fn warnings(&self) -> Vec<String> {
        let text = if !self.shape.is_grouped() {
            None
        } else if !self.restrictions.restricts_partition_key() {
            Some("Aggregation query used without partition key")
        } else if self.restrictions.has_key_in() {
            Some("Aggregation query used on multiple partition keys (IN restriction)")
        } else {
            None
        };
        text.map(str::to_owned).into_iter().collect()
    }
}

fn bind_limit(term: Option<&Term>, binding: &Binding<'_>) -> Result<Option<u64>, CqlError> {
    let Some(term) = term else { return Ok(None) };
    let bound = term.bind(binding)?;
    let value = match &bound {
        Bound::Unset => return Ok(None),
        Bound::Null => return Err(CqlError::invalid("Invalid null value of limit")),
        Bound::Bytes(bytes) => number::int32(bytes).ok_or_else(|| CqlError::invalid("Invalid limit value"))?,
    };
    match u64::try_from(value) {
        Ok(limit) if limit > 0 => Ok(Some(limit)),
        _ => Err(CqlError::invalid("LIMIT must be strictly positive")),
    }
}

fn check_distinct(
    select: &ast::Select,
    selection: &Selection,
    restrictions: &Restrictions,
    table: &Table,
) -> Result<(), CqlError> {
    if select.per_partition_limit.is_some() {
        return Err(CqlError::invalid("PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries"));
    }
    let is_static =
        |restriction: &Restriction| restriction.columns(table).all(|column| column.kind == ColumnKind::Static);
    if !restrictions.clustering.is_empty() || !restrictions.others.iter().all(is_static) {
        return Err(CqlError::invalid(
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.",
        ));
    }
    for column in selection.used.iter().filter_map(|id| table.column_by_id(*id)) {
        if !matches!(column.kind, ColumnKind::PartitionKey(_) | ColumnKind::Static) {
            return Err(CqlError::invalid(format!(
                "SELECT DISTINCT queries must only request partition key columns and/or static columns (not {})",
                column.name
            )));
        }
    }
    let missing = table.partition_key().find(|column| !selection.used.contains(&column.id));
    match missing {
        Some(column) if restrictions.is_key_range() => Err(CqlError::invalid(format!(
            "SELECT DISTINCT queries must request all the partition key columns (missing {})",
            column.name
        ))),
        _ => Ok(()),
    }
}
