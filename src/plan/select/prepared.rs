//! A SELECT that has been checked against the schema, ready for many executions.

use std::rc::Rc;

use crate::cql::ast;
use crate::mutation::read::{Limits, Partitions, ReadCommand, Slice};
use crate::plan::markers::Markers;
use crate::plan::paging::PagingState;
use crate::plan::select::grouping::Grouping;
use crate::plan::select::ordering::RowOrder;
use crate::plan::select::plan::ReadPlan;
use crate::plan::select::point::PointSelect;
use crate::plan::select::restriction::Restriction;
use crate::plan::select::restrictions::Restrictions;
use crate::plan::select::selection::Selection;
use crate::plan::select::shape::Shape;
use crate::plan::select::{filters, partitions, slices};
use crate::plan::term::{Binding, Bound, Scope, Term, Uses};
use crate::plan::{ColumnSpec, RequestOptions, names};
use crate::protocol::{Consistency, CqlError, Value};
use crate::schema::{ColumnKind, Schema, Table};
use crate::types::{CqlType, number};

/// How much one page of a read may hold on its way to the coordinator, which asks for as many as it needs.
pub const READ_PAGE_BYTES: usize = 1 << 20;

/// How many combinations of partitions and their rows or slices one SELECT may name by IN.
pub const SELECT_PRODUCT_MAX: usize = 1 << 20;

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
    /// What it is as well, where it is no more than a read of one row.
    pub point: Option<PointSelect>,
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
        let mut scope = Scope::new(schema, &table.keyspace, Some(&table), markers);
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
        let is_cut = select.distinct || limit.is_some() || per_partition_limit.is_some();
        let point = if is_cut { None } else { PointSelect::of(&table, &shape, &restrictions) };
        Ok(PreparedSelect {
            point,
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
        let uses = Uses::default();
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
            uses: uses.numbers(),
            shown: Vec::new(),
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
        if let Partitions::Keys(keys) = &partitions
            && keys.len().saturating_mul(slices.len()) > SELECT_PRODUCT_MAX
        {
            return Err(CqlError::invalid(format!(
                "The IN restrictions of partition key and clustering columns make {} combinations; a SELECT may name \
                 at most {SELECT_PRODUCT_MAX}",
                keys.len() * slices.len()
            )));
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

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::plan::select::testing::Model;
    use crate::plan::testing::options;
    use crate::protocol::ErrorCode;

    fn model() -> Model {
        let mut model = Model::new(&["CREATE TABLE t (k int, c int, s int static, v int, PRIMARY KEY (k, c))"]);
        for (k, c) in [(1, 1), (1, 2), (1, 3), (2, 1), (2, 2)] {
            model.write(&format!("INSERT INTO t (k, c) VALUES ({k}, {c})"));
        }
        model
    }

    fn error(cql: &str, values: &[Value<'_>]) -> String {
        model().select(cql, values, None).unwrap_err().message().to_owned()
    }

    #[test]
    fn limits_are_positive() {
        for limit in ["LIMIT 0", "LIMIT -1", "PER PARTITION LIMIT 0"] {
            assert_eq!(error(&format!("SELECT * FROM t {limit}"), &[]), "LIMIT must be strictly positive");
        }
        assert_eq!(error("SELECT * FROM t LIMIT 2147483648", &[]), "Unable to make int from '2147483648'");
        let cql = "SELECT * FROM t PER PARTITION LIMIT ? LIMIT ?";
        let two = 2i32.to_be_bytes();
        assert_eq!(error(cql, &[Value::Null, Value::Bytes(&two)]), "Invalid null value of limit");
        let rows = |values: &[Value<'_>]| model().select(cql, values, None).unwrap().rows.len();
        assert_eq!(rows(&[Value::Unset, Value::Unset]), 5);
        assert_eq!(rows(&[Value::Bytes(&two), Value::Unset]), 4);
        let (_, variables, _) = model().prepare(cql).unwrap();
        assert_eq!((variables[0].name.as_str(), variables[1].name.as_str()), ("[per_partition_limit]", "[limit]"));
    }

    #[test]
    fn distinct_is_of_partitions() {
        let only = "SELECT DISTINCT queries must only request partition key columns and/or static columns (not c)";
        assert_eq!(error("SELECT DISTINCT k, c FROM t", &[]), only);
        assert_eq!(error("SELECT DISTINCT * FROM t", &[]), only);
        let all = "SELECT DISTINCT queries must request all the partition key columns (missing k)";
        assert_eq!(error("SELECT DISTINCT s FROM t", &[]), all);
        let keys =
            "SELECT DISTINCT with WHERE clause only supports restriction by partition key and/or static columns.";
        assert_eq!(error("SELECT DISTINCT k FROM t WHERE c = 1", &[]), keys);
        assert_eq!(error("SELECT DISTINCT k FROM t WHERE v = 1 ALLOW FILTERING", &[]), keys);
        let limit = "PER PARTITION LIMIT is not allowed with SELECT DISTINCT queries";
        assert_eq!(error("SELECT DISTINCT k FROM t PER PARTITION LIMIT 1", &[]), limit);
        let limit = "PER PARTITION LIMIT is not allowed with aggregate queries.";
        assert_eq!(error("SELECT max(c) FROM t PER PARTITION LIMIT 1", &[]), limit);
        assert_eq!(model().select("SELECT DISTINCT k FROM t", &[], None).unwrap().rows, [["1"], ["2"]]);
        assert!(model().select("SELECT DISTINCT s FROM t WHERE k = 1", &[], None).is_ok());
    }

    #[test]
    fn statements_without_a_table_are_refused() {
        let prepare = |cql: &str, keyspace: Option<&str>| {
            let parsed = crate::cql::parse(cql).unwrap();
            let ast::Statement::Select(select) = &parsed.statement else { panic!("{cql}") };
            let result = PreparedSelect::prepare(select, &model().schema, keyspace, &mut Markers::new(&[]));
            result.unwrap_err().message().to_owned()
        };
        assert_eq!(prepare("SELECT * FROM u", Some("ks")), "table u does not exist");
        assert_eq!(prepare("SELECT * FROM other.t", None), "keyspace other does not exist");
        assert!(prepare("SELECT * FROM t", None).starts_with("No keyspace has been specified"));
    }

    /// What a replica is asked: columns, limits and rows of statics only.
    #[test]
    fn commands_ask_for_what_the_answer_needs() {
        let command = |cql: &str, page_size| {
            let options = RequestOptions { page_size, ..options() };
            model().prepare(cql).unwrap().0.bind(&[], &options).unwrap().command
        };
        let table = model().table;
        let read = command("SELECT k, v FROM t LIMIT 10", Some(7));
        assert_eq!(read.columns, [table.column("v").unwrap().id]);
        assert_eq!((read.limits.rows, read.limits.per_partition), (7, u64::MAX));
        assert!(read.static_only_rows && !read.distinct && !read.reversed);
        assert_eq!(command("SELECT v FROM t LIMIT 3", Some(7)).limits.rows, 3);
        assert_eq!(command("SELECT count(*) FROM t LIMIT 3", Some(7)).limits.rows, u64::MAX);
        assert!(command("SELECT count(*) FROM t", None).columns.is_empty());
        assert!(!command("SELECT v FROM t WHERE k = 1 AND c > 1", None).static_only_rows);
        assert!(!command("SELECT v FROM t WHERE v = 1 ALLOW FILTERING", None).static_only_rows);
        assert!(command("SELECT DISTINCT k FROM t", None).distinct);
        assert!(command("SELECT v FROM t WHERE k = 1 ORDER BY c DESC", None).reversed);
        let row = command("SELECT v FROM t WHERE k = 1 AND c = 1", None);
        assert_eq!((row.slices.len(), row.slices[0].start.weight, row.slices[0].end.weight), (1, 0, 0));
    }

    #[test]
    fn a_paging_state_of_something_else_is_a_protocol_error() {
        let (prepared, ..) = model().prepare("SELECT * FROM t").unwrap();
        let bind = |state: &[u8]| {
            let options = RequestOptions { page_size: Some(2), paging_state: Some(state), ..options() };
            prepared.bind(&[], &options).map(|plan| plan.command.resume)
        };
        assert_eq!(bind(b"").unwrap(), None);
        assert_eq!(bind(b"nonsense").unwrap_err().code(), ErrorCode::ProtocolError);
    }

    #[test]
    fn a_read_has_no_consistency_any() {
        let (prepared, ..) = model().prepare("SELECT * FROM t").unwrap();
        let error = prepared.bind(&[], &RequestOptions { consistency: Consistency::Any, ..options() }).unwrap_err();
        assert_eq!(error.message(), "ANY ConsistencyLevel is only supported for writes");
    }
}
