//! A table in memory that runs read commands, so that whole SELECTs can be tested: what a replica must answer, as
//! plainly as possible.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::base::ids::{ColumnId, Token};
use crate::cql::ast::{Insert, LiteralKind, Modification, Statement, Term as RawTerm};
use crate::cql::parse;
use crate::mutation::page::PageWriter;
use crate::mutation::read::{
    FilterColumn, FilterExpression, FilterOperator, PartitionKey, Partitions, ReadCommand, ReadPage, Resume,
};
use crate::mutation::{Cell, Liveness, NEVER_S, Row};
use crate::plan::markers::Markers;
use crate::plan::select::{Intake, PreparedSelect, ReadPlan};
use crate::plan::term::Uses;
use crate::plan::testing::{self, NOW_S};
use crate::plan::{Binding, ColumnSpec, RequestOptions, Scope, Term};
use crate::protocol::{CqlError, Value};
use crate::schema::{Column, ColumnKind, Position, Schema, Table, clustering, key, partitioner};
use crate::types::{CqlType, collection, compare, to_text, uuid};

#[derive(Clone, Debug)]
struct StoredCell {
    path: Option<Vec<u8>>,
    timestamp: i64,
    ttl_s: u32,
    value: Vec<u8>,
}

type Cells = BTreeMap<(ColumnId, Option<Vec<u8>>), StoredCell>;

#[derive(Debug, Default)]
struct Partition {
    statics: Cells,
    rows: Vec<(Vec<u8>, Cells)>,
}

/// One table with its rows.
#[derive(Debug)]
pub(super) struct Model {
    pub schema: Schema,
    pub table: Rc<Table>,
    partitions: BTreeMap<(Token, Vec<u8>), Partition>,
}

/// An answer as text: names and types of columns, rows, how many rows each page had, warnings.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Answer {
    pub columns: Vec<(String, CqlType)>,
    pub rows: Vec<Vec<String>>,
    pub pages: Vec<u32>,
    pub warnings: Vec<String>,
}

impl Model {
    /// The table that the last of these CREATE statements makes.
    pub fn new(statements: &[&str]) -> Model {
        let schema = testing::schema(statements);
        let last = statements.last().expect("a table");
        let Statement::CreateTable(create) = parse(last).expect(last).statement else { panic!("{last}") };
        let table = schema.table("ks", create.table.name.as_str()).expect(last).clone();
        Model { schema, table, partitions: BTreeMap::new() }
    }

    /// Runs INSERTs, in batches or alone.
    pub fn write(&mut self, cql: &str) {
        match parse(cql).expect(cql).statement {
            Statement::Insert(insert) => self.insert(&insert),
            Statement::Batch(batch) => {
                for modification in &batch.statements {
                    let Modification::Insert(insert) = modification else { panic!("{cql}") };
                    self.insert(insert);
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn insert(&mut self, insert: &Insert) {
        let table = self.table.clone();
        let mut values = BTreeMap::new();
        for (name, term) in insert.columns.iter().zip(&insert.values) {
            let column = table.column(name.as_str()).expect("a column of the table");
            if let Some(value) = self.value(term, column) {
                values.insert(column.id, value);
            }
        }
        let number = |term: &Option<RawTerm>| match term {
            Some(RawTerm::Literal(literal)) if literal.kind == LiteralKind::Integer => literal.text.parse::<i64>().ok(),
            _ => None,
        };
        let timestamp = number(&insert.using.timestamp).unwrap_or(1);
        let ttl_s = number(&insert.using.ttl).map_or(0, |ttl| u32::try_from(ttl).expect("a TTL"));
        let parts: Vec<Vec<u8>> = table.partition_key().map(|column| values[&column.id].clone()).collect();
        let key = key::join(parts.iter().map(Vec::as_slice));
        let partition = self.partitions.entry((partitioner::token_of(&key), key)).or_default();
        let mut clustering_key = Vec::new();
        let mut is_row = true;
        for column in table.clustering() {
            match values.get(&column.id) {
                Some(value) => clustering::push_component(&mut clustering_key, value),
                None => is_row = false,
            }
        }
        let cells = |kind: ColumnKind| {
            let columns = table.columns.iter().filter(move |column| column.kind == kind);
            let cells = columns.filter_map(|column| Some((column, values.get(&column.id)?)));
            cells.flat_map(|(column, value)| stored_cells(column, value, timestamp, ttl_s)).collect::<Cells>()
        };
        partition.statics.extend(cells(ColumnKind::Static));
        if is_row {
            let order = table.clustering_order();
            let at = partition.rows.partition_point(|(row, _)| order.compare_rows(row, &clustering_key).is_lt());
            let is_known =
                partition.rows.get(at).is_some_and(|(row, _)| order.compare_rows(row, &clustering_key).is_eq());
            if !is_known {
                partition.rows.insert(at, (clustering_key, Cells::new()));
            }
            partition.rows[at].1.extend(cells(ColumnKind::Regular));
        }
    }

    fn value(&self, term: &RawTerm, column: &Column) -> Option<Vec<u8>> {
        let mut markers = Markers::new(&[]);
        let mut scope = Scope::new(&self.schema, "ks", Some(&self.table), &mut markers);
        let spec = ColumnSpec::of_column(&self.table, column);
        let term = Term::prepare(term, &spec, &mut scope).expect("a value");
        let uses = Uses::default();
        let bound = term.bind(&Binding::new(&[], testing::context(), &uses)).expect("a value");
        bound.bytes().map(<[u8]>::to_vec)
    }

    pub fn prepare(&self, cql: &str) -> Result<(PreparedSelect, Vec<ColumnSpec>, Vec<u16>), CqlError> {
        let parsed = parse(cql).map_err(|error| CqlError::syntax(error.to_string()))?;
        let Statement::Select(select) = &parsed.statement else { panic!("{cql}") };
        let mut markers = Markers::new(&parsed.bind_markers);
        let prepared = PreparedSelect::prepare(select, &self.schema, Some("ks"), &mut markers)?;
        let (variables, key) = markers.finish(Some(&self.table))?;
        Ok((prepared, variables, key))
    }

    /// Runs a SELECT page after page, each with the paging state of the one before.
    pub fn select(&self, cql: &str, values: &[Value<'_>], page_size: Option<u32>) -> Result<Answer, CqlError> {
        let (prepared, ..) = self.prepare(cql)?;
        let mut answer = Answer::default();
        let mut state: Option<Vec<u8>> = None;
        loop {
            let options = RequestOptions { page_size, paging_state: state.as_deref(), ..testing::options() };
            let plan = prepared.bind(values, &options)?;
            let finished = self.run(&plan)?;
            answer.columns = finished.columns.iter().map(|spec| (spec.name.clone(), spec.ty.clone())).collect();
            answer.rows.extend(rows_as_text(&finished.bytes, &answer.columns));
            answer.pages.push(finished.rows);
            answer.warnings = plan.warnings;
            state = finished.paging_state;
            if state.is_none() {
                return Ok(answer);
            }
        }
    }

    pub fn run(&self, plan: &ReadPlan) -> Result<super::FinishedRows, CqlError> {
        let mut result = plan.result();
        loop {
            let page = self.read(result.command());
            let mut intake = Intake::of(&page);
            while result.take(&mut intake)? {}
            if !result.turn_page(&page)? {
                return result.finish();
            }
        }
    }

    /// The page that a replica answers with.
    pub fn read(&self, command: &ReadCommand) -> ReadPage {
        let mut page = ReadPage::default();
        let keys = self.chosen(command);
        for (at, key) in keys.iter().enumerate() {
            let Some(partition) = self.partitions.get(&(key.token, key.key.clone())) else { continue };
            let resume = command.resume.as_ref().filter(|resume| resume.partition == *key);
            if resume.is_some_and(|resume| resume.after.is_none()) {
                continue;
            }
            let end = self.read_partition(command, key, partition, resume, &mut page);
            if page.rows >= command.limits.rows || page.bytes.len() >= command.limits.page_bytes {
                let is_last = at + 1 == keys.len() && matches!(command.partitions, Partitions::Keys(_));
                page.resume = Some(end).filter(|end| !is_last || end.after.is_some());
                return page;
            }
        }
        page
    }

    /// The partitions in order, from the one to go on with.
    fn chosen(&self, command: &ReadCommand) -> Vec<PartitionKey> {
        let all: Vec<PartitionKey> = match &command.partitions {
            Partitions::Keys(keys) => keys.clone(),
            Partitions::Range(range) => self
                .partitions
                .keys()
                .filter(|(token, _)| range.start_exclusive.is_none_or(|start| *token > start))
                .filter(|(token, _)| range.end_inclusive.is_none_or(|end| *token <= end))
                .map(|(token, key)| PartitionKey { token: *token, key: key.clone() })
                .collect(),
        };
        let from = command.resume.as_ref().and_then(|resume| all.iter().position(|key| *key == resume.partition));
        all.into_iter().skip(from.unwrap_or_default()).collect()
    }

    fn read_partition(
        &self,
        command: &ReadCommand,
        key: &PartitionKey,
        partition: &Partition,
        resume: Option<&Resume>,
        page: &mut ReadPage,
    ) -> Resume {
        let order = self.table.clustering_order();
        let statics = row_of(&[], &partition.statics);
        let static_row = (!partition.statics.is_empty()).then_some(&statics);
        let place = |after, partition_rows| Resume { partition: key.clone(), after, partition_rows };
        let mut writer = PageWriter::new(&mut page.bytes);
        let mut taken = resume.map_or(0, |resume| resume.partition_rows);
        let mut is_headed = false;
        let mut head = |writer: &mut PageWriter<'_>| {
            if !std::mem::replace(&mut is_headed, true) {
                writer.partition(key.token, &key.key);
                if let Some(row) = static_row {
                    writer.static_row(row, Some(&command.columns));
                }
            }
        };
        let mut rows: Vec<&(Vec<u8>, Cells)> = partition.rows.iter().collect();
        if command.reversed {
            rows.reverse();
        }
        if command.distinct || rows.is_empty() {
            if (command.distinct || command.static_only_rows) && self.passes(command, key, static_row, None) {
                head(&mut writer);
                page.rows += 1;
            }
            return place(None, 0);
        }
        for (clustering_key, cells) in rows {
            let at = Position::row(clustering_key);
            let is_chosen = command.slices.iter().any(|slice| {
                order.compare(slice.start.borrow(), at).is_le() && order.compare(at, slice.end.borrow()).is_le()
            });
            let is_done = resume.and_then(|resume| resume.after.as_ref()).is_some_and(|after| {
                let order = order.compare(at, Position::row(after));
                if command.reversed { order.is_ge() } else { order.is_le() }
            });
            let row = row_of(clustering_key, cells);
            if is_done || !is_chosen || !self.passes(command, key, static_row, Some(&row)) {
                continue;
            }
            if taken >= command.limits.per_partition {
                break;
            }
            head(&mut writer);
            writer.row(&row, Some(&command.columns));
            taken += 1;
            page.rows += 1;
            if page.rows >= command.limits.rows || writer.len_bytes() >= command.limits.page_bytes {
                return place(Some(clustering_key.clone()), taken);
            }
        }
        place(None, 0)
    }

    fn passes<'a>(
        &self,
        command: &ReadCommand,
        key: &PartitionKey,
        static_row: Option<&Row<'a>>,
        row: Option<&Row<'a>>,
    ) -> bool {
        command.filter.iter().all(|expression| match expression.column {
            FilterColumn::PartitionKey(position) => {
                let parts: Vec<&[u8]> = match self.table.partition_key().count() {
                    1 => vec![&key.key],
                    _ => key::components(&key.key).collect(),
                };
                let at = usize::from(position);
                let column = self.table.partition_key().nth(at).expect("a key column");
                holds(expression, &column.ty, parts[at])
            }
            FilterColumn::Clustering(position) => {
                let at = usize::from(position);
                let column = self.table.clustering().nth(at).expect("a clustering column");
                let value = row.and_then(|row| clustering::components(row.clustering).nth(at));
                value.is_some_and(|value| holds(expression, &column.ty, value))
            }
            FilterColumn::Column(id) => {
                let column = self.table.column_by_id(id).expect("a column");
                let row = if column.kind == ColumnKind::Static { static_row } else { row };
                let cells: Vec<&Cell<'_>> =
                    row.into_iter().flat_map(|row| &row.cells).filter(|cell| cell.column == id).collect();
                if column.ty.is_multi_cell() {
                    cells.iter().any(|cell| cell_holds(expression, &column.ty, cell))
                } else {
                    cells.first().is_some_and(|cell| holds(expression, &column.ty, cell.value))
                }
            }
        })
    }
}

fn holds(expression: &FilterExpression, ty: &CqlType, value: &[u8]) -> bool {
    let order = compare(ty, value, &expression.value);
    let elements = || collection::elements(ty, value).expect("a collection").flatten();
    match expression.operator {
        FilterOperator::Equal => order == Ordering::Equal,
        FilterOperator::NotEqual => order != Ordering::Equal,
        FilterOperator::Less => order == Ordering::Less,
        FilterOperator::LessOrEqual => order != Ordering::Greater,
        FilterOperator::Greater => order == Ordering::Greater,
        FilterOperator::GreaterOrEqual => order != Ordering::Less,
        FilterOperator::In => collection::elements(&CqlType::list(ty.clone()), &expression.value)
            .expect("a list of values")
            .flatten()
            .any(|candidate| compare(ty, value, candidate).is_eq()),
        FilterOperator::Contains => elements().any(|element| element == expression.value),
        FilterOperator::ContainsKey | FilterOperator::Element => false,
    }
}

fn cell_holds(expression: &FilterExpression, ty: &CqlType, cell: &Cell<'_>) -> bool {
    let path = cell.path.unwrap_or_default();
    match (expression.operator, ty) {
        (FilterOperator::Contains, CqlType::Set(_)) | (FilterOperator::ContainsKey, _) => path == expression.value,
        (FilterOperator::Contains, _) => cell.value == expression.value,
        (FilterOperator::Element, _) => path == expression.element && cell.value == expression.value,
        _ => false,
    }
}

fn row_of<'a>(clustering_key: &'a [u8], cells: &'a Cells) -> Row<'a> {
    let mut row = Row::new(clustering_key);
    row.liveness = Liveness { timestamp: 1, ..Liveness::NONE };
    row.cells.extend(cells.iter().map(|((column, _), cell)| Cell {
        column: *column,
        path: cell.path.as_deref(),
        timestamp: cell.timestamp,
        ttl_s: cell.ttl_s,
        local_deletion_s: if cell.ttl_s == 0 { NEVER_S } else { NOW_S + i64::from(cell.ttl_s) },
        value: &cell.value,
    }));
    row
}

/// A cell's column and path.
type CellKey = (ColumnId, Option<Vec<u8>>);

/// The cells that a value is stored as.
fn stored_cells(column: &Column, value: &[u8], timestamp: i64, ttl_s: u32) -> Vec<(CellKey, StoredCell)> {
    let elements = || collection::elements(&column.ty, value).expect("a collection").enumerate();
    let parts: Vec<(Option<Vec<u8>>, Vec<u8>)> = match &column.ty {
        CqlType::List(_) => elements()
            .map(|(at, element)| (uuid::version1(at as i64, [0; 8]).to_vec(), element))
            .map(|(path, element)| (Some(path), element.expect("no null").to_vec()))
            .collect(),
        CqlType::Set(_) => {
            elements().map(|(_, element)| (Some(element.expect("no null").to_vec()), Vec::new())).collect()
        }
        CqlType::Map(..) => collection::map_entries(&column.ty, value)
            .expect("a map")
            .into_iter()
            .map(|(key, value)| (Some(key.to_vec()), value.to_vec()))
            .collect(),
        CqlType::Udt(_) => elements()
            .filter_map(|(at, field)| Some((Some((at as u16).to_be_bytes().to_vec()), field?.to_vec())))
            .collect(),
        _ => vec![(None, value.to_vec())],
    };
    let cell = |path: Option<Vec<u8>>, value| StoredCell { path, timestamp, ttl_s, value };
    parts.into_iter().map(|(path, value)| ((column.id, path.clone()), cell(path, value))).collect()
}

/// The values of rows in wire form, as CQL text.
pub(super) fn rows_as_text(mut bytes: &[u8], columns: &[(String, CqlType)]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    while !bytes.is_empty() {
        let mut row = Vec::new();
        for (_, ty) in columns {
            let (len, rest) = bytes.split_first_chunk::<4>().expect("a length");
            bytes = rest;
            match usize::try_from(i32::from_be_bytes(*len)) {
                Ok(len) => {
                    row.push(to_text(ty, &bytes[..len]));
                    bytes = &bytes[len..];
                }
                Err(_) => row.push("null".to_owned()),
            }
        }
        rows.push(row);
    }
    rows
}
