//! From the pages of a read to the rows of an answer: selection, groups, limits, sorting, and where the next page of
//! the client starts.

use std::borrow::Cow;
use std::rc::Rc;

use crate::base::ids::ColumnId;
use crate::mutation::read::{Partitions, ReadCommand, ReadPage, Resume};
use crate::plan::functions::Accumulator;
use crate::plan::paging::PagingState;
use crate::plan::select::expression::Values;
use crate::plan::select::grouping::GroupKey;
use crate::plan::select::plan::ReadPlan;
use crate::plan::select::row::{Leaf, PageRows, RowView};
use crate::plan::select::shape::Shape;
use crate::plan::term::{Binding, Uses};
use crate::plan::{ColumnSpec, Context};
use crate::protocol::CqlError;
use crate::types::json;

/// The most that an answer without paging may hold.
pub const UNPAGED_RESULT_BYTES_MAX: usize = 64 << 20;
/// A page of an answer ends early once it holds so much.
pub const RESULT_PAGE_BYTES: usize = 16 << 20;

/// The most that one row of an answer may hold: a value may be named many times over.
pub const RESULT_ROW_BYTES_MAX: usize = UNPAGED_RESULT_BYTES_MAX;

/// Values and expressions that are evaluated before others have their turn: less than a millisecond's.
const WORK_A_TURN: usize = 8192;

/// A page on its way into an answer.
#[derive(Debug)]
pub struct Intake<'p> {
    bytes: &'p [u8],
    rows: PageRows<'p>,
    /// Rows taken in.
    taken: usize,
}

impl<'p> Intake<'p> {
    pub fn of(page: &'p ReadPage) -> Intake<'p> {
        Intake { bytes: &page.bytes, rows: PageRows::new(&page.bytes), taken: 0 }
    }
}

/// The rows of an answer as the protocol wants them.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedRows {
    pub columns: Rc<[ColumnSpec]>,
    pub rows: u32,
    /// The values of row after row, each a 4-byte length (-1 is null) and its bytes.
    pub bytes: Vec<u8>,
    /// What the client sends to get the next page; `None` where nothing follows.
    pub paging_state: Option<Vec<u8>>,
}

/// An answer as far as it has been read.
#[derive(Debug)]
pub struct ResultSet {
    shape: Rc<Shape>,
    constants: Rc<[Option<Vec<u8>>]>,
    group_constants: Rc<[Option<Vec<u8>>]>,
    context: Context,
    uses: Uses,
    /// Values to show instead of those that rows hold.
    shown: Vec<(ColumnId, Vec<u8>)>,
    /// The last command; the next one goes on from its end.
    command: ReadCommand,
    page_rows: Option<u64>,
    /// What LIMIT leaves.
    rows_left: Option<u64>,
    /// PER PARTITION LIMIT, where it counts groups.
    groups_per_partition: u64,
    out: Vec<u8>,
    rows: u32,
    group: Option<Group>,
    /// Groups that the current partition has given.
    partition_groups: u64,
    /// Rows to be sorted: sort key, and where the row begins in `out`.
    sorted: Vec<(Vec<u8>, usize)>,
    next_page: Option<Resume>,
    is_complete: bool,
}

/// The rows of one group as far as they have come.
#[derive(Debug)]
struct Group {
    key: GroupKey,
    partition: Vec<u8>,
    /// The values of its first row.
    leaves: Vec<Option<Cow<'static, [u8]>>>,
    sort_key: Vec<u8>,
    accumulators: Vec<Accumulator>,
    /// The place just after its last row.
    end: Resume,
}

impl ResultSet {
    pub(super) fn new(plan: &ReadPlan) -> ResultSet {
        ResultSet {
            shape: plan.shape.clone(),
            constants: plan.constants.clone(),
            group_constants: plan.group_constants.clone(),
            context: plan.context,
            uses: Uses::of_numbers(plan.uses),
            shown: plan.shown.clone(),
            command: plan.command.clone(),
            page_rows: plan.page_size.map(u64::from),
            rows_left: plan.rows_left,
            groups_per_partition: plan.groups_per_partition,
            out: Vec::new(),
            rows: 0,
            group: None,
            partition_groups: plan.command.resume.as_ref().map_or(0, |resume| resume.partition_rows),
            sorted: Vec::new(),
            next_page: None,
            is_complete: false,
        }
    }

    /// The page to read next.
    pub fn command(&self) -> &ReadCommand {
        &self.command
    }

    /// Takes some rows of a page in, so that others may have their turn after it. Whether the page has more.
    pub fn take(&mut self, intake: &mut Intake<'_>) -> Result<bool, CqlError> {
        let mut work = 0;
        while !self.is_complete && work < WORK_A_TURN {
            if !intake.rows.advance().map_err(|error| broken(&error))? {
                return Ok(false);
            }
            if !self.shape.is_grouped() && self.page_rows.is_some() && self.out.len() >= RESULT_PAGE_BYTES {
                let end = self.place_behind(intake)?;
                self.complete(Some(end));
                return Ok(false);
            }
            self.row(&intake.rows.current())?;
            if self.page_rows.is_none() && self.out.len() > UNPAGED_RESULT_BYTES_MAX {
                return Err(CqlError::invalid(format!(
                    "The answer is larger than {UNPAGED_RESULT_BYTES_MAX} bytes: ask for it in pages"
                )));
            }
            intake.taken += 1;
            work += 1 + self.shape.work_a_row;
        }
        Ok(!self.is_complete)
    }

    /// Ends a page that was taken in. Whether another is to be read: `command` is that one's.
    pub fn turn_page(&mut self, page: &ReadPage) -> Result<bool, CqlError> {
        if self.is_complete {
            return Ok(false);
        }
        let resume = page.resume.clone().filter(|resume| !self.is_end(resume));
        let Some(resume) = resume else {
            self.end()?;
            return Ok(false);
        };
        if !self.shape.is_grouped() && self.page_is_full() {
            self.complete(Some(resume));
            return Ok(false);
        }
        self.command.resume = Some(resume);
        if !self.shape.is_grouped() {
            self.command.limits.rows = self.rows_wanted();
        }
        Ok(true)
    }

    /// The place just after the last row taken in.
    fn place_behind(&self, intake: &Intake<'_>) -> Result<Resume, CqlError> {
        let mut rows = PageRows::new(intake.bytes);
        let mut place: Option<Resume> = None;
        for _ in 0..intake.taken {
            rows.advance().map_err(|error| broken(&error))?;
            let row = rows.current();
            let before = match (&place, &self.command.resume) {
                (Some(place), _) if place.partition.key == row.key => place.partition_rows,
                (None, Some(begin)) if begin.after.is_some() && begin.partition.key == row.key => begin.partition_rows,
                _ => 0,
            };
            place = Some(row.place(before + 1));
        }
        place.ok_or_else(|| CqlError::server_error("an answer is full before its first row"))
    }

    /// Bytes of rows gathered so far.
    pub fn len_bytes(&self) -> usize {
        self.out.len()
    }

    /// The rows, and where the next page starts.
    pub fn finish(mut self) -> Result<FinishedRows, CqlError> {
        if !self.is_complete {
            return Err(CqlError::server_error("the answer was not read to its end"));
        }
        self.sort();
        let paging_state = self
            .next_page
            .take()
            .map(|resume| PagingState { table: self.command.table, resume, rows_left: self.rows_left }.encode());
        Ok(FinishedRows { columns: self.shape.columns.clone(), rows: self.rows, bytes: self.out, paging_state })
    }

    /// How many rows the page still takes: what the next command may give.
    fn rows_wanted(&self) -> u64 {
        let of_page = self.page_rows.map_or(u64::MAX, |page| page.saturating_sub(u64::from(self.rows)));
        if self.shape.order.sorted_by.is_some() { of_page } else { of_page.min(self.rows_left.unwrap_or(u64::MAX)) }
    }

    fn page_is_full(&self) -> bool {
        self.page_rows.is_some_and(|page| u64::from(self.rows) >= page || self.out.len() >= RESULT_PAGE_BYTES)
    }

    /// Whether nothing can follow this place: the last of the partitions asked for is done. One without clustering
    /// columns is done with its row.
    fn is_end(&self, resume: &Resume) -> bool {
        let Partitions::Keys(keys) = &self.command.partitions else { return false };
        let is_done = resume.after.as_ref().is_none_or(Vec::is_empty);
        is_done && keys.last().is_none_or(|last| *last == resume.partition)
    }

    fn row(&mut self, row: &RowView<'_, '_>) -> Result<(), CqlError> {
        if self.shape.is_grouped() {
            return self.grouped_row(row);
        }
        let leaves = self.leaves(row);
        let sort_key = self.shape.order.sort_key(row.clustering());
        self.write(&leaves, &[], sort_key)?;
        if self.shape.order.sorted_by.is_none() && self.rows_left == Some(0) {
            self.complete(None);
        }
        Ok(())
    }

    /// The values that the selection takes from a row.
    fn leaves<'a>(&self, row: &RowView<'_, 'a>) -> Vec<Option<Cow<'a, [u8]>>> {
        let mut leaves: Vec<_> = self.shape.leaves(row, &self.constants, self.command.now_s).collect();
        for (column, shown) in &self.shown {
            for (leaf, value) in self.shape.selection.leaves.iter().zip(&mut leaves) {
                if let (Leaf::Cells(stored), Some(value)) = (leaf, value)
                    && stored.id == *column
                {
                    *value = Cow::Owned(shown.clone());
                }
            }
        }
        leaves
    }

    /// Appends one row of the answer.
    fn write(
        &mut self,
        leaves: &[Option<Cow<'_, [u8]>>],
        aggregates: &[Option<Vec<u8>>],
        sort_key: Vec<u8>,
    ) -> Result<(), CqlError> {
        let begin = self.out.len();
        {
            let binding = Binding::new(&[], self.context, &self.uses);
            let values = Values { leaves, constants: &self.constants, aggregates, binding: &binding };
            write_row(&self.shape, &values, &mut self.out)?;
        }
        if self.shape.order.sorted_by.is_some() {
            self.sorted.push((sort_key, begin));
        } else {
            self.rows_left = self.rows_left.map(|left| left.saturating_sub(1));
        }
        self.rows += 1;
        Ok(())
    }

    fn grouped_row(&mut self, row: &RowView<'_, '_>) -> Result<(), CqlError> {
        let shape = self.shape.clone();
        let key = match &shape.grouping {
            Some(grouping) => {
                let binding = Binding::new(&[], self.context, &self.uses);
                grouping.key(row, &self.group_constants, &binding)?
            }
            None => GroupKey::default(),
        };
        let is_same = |group: &Group| shape.grouping.is_none() || (group.key == key && group.partition == row.key);
        if !self.group.as_ref().is_some_and(is_same) {
            self.close_group(Some(row))?;
            if self.is_complete {
                return Ok(());
            }
            self.open_group(key, row);
        }
        self.add_to_group(row)
    }

    fn open_group(&mut self, key: GroupKey, row: &RowView<'_, '_>) {
        let leaves = self.leaves(row).into_iter();
        self.group = Some(Group {
            key,
            partition: row.key.to_vec(),
            leaves: leaves.map(|leaf| leaf.map(|value| Cow::Owned(value.into_owned()))).collect(),
            sort_key: self.shape.order.sort_key(row.clustering()),
            accumulators: self.shape.accumulators(),
            end: row.place(0),
        });
    }

    fn add_to_group(&mut self, row: &RowView<'_, '_>) -> Result<(), CqlError> {
        let shape = self.shape.clone();
        let leaves = self.leaves(row);
        let binding = Binding::new(&[], self.context, &self.uses);
        let values = Values { leaves: &leaves, constants: &self.constants, aggregates: &[], binding: &binding };
        let Some(group) = &mut self.group else { return Ok(()) };
        for (call, accumulator) in shape.selection.aggregates.iter().zip(&mut group.accumulators) {
            let argument = call.argument.as_ref().map(|argument| argument.evaluate(&values)).transpose()?;
            accumulator.add(argument.flatten().as_deref()).map_err(CqlError::invalid)?;
        }
        match (row.row, &mut group.end.after) {
            (Some(row), Some(after)) => {
                after.clear();
                after.extend_from_slice(row.clustering);
            }
            (row, after) => *after = row.map(|row| row.clustering.to_vec()),
        }
        Ok(())
    }

    /// Writes the group that was being gathered, if its partition may give one more. `next` is the row behind it.
    fn close_group(&mut self, next: Option<&RowView<'_, '_>>) -> Result<(), CqlError> {
        let Some(group) = self.group.take() else { return Ok(()) };
        if self.partition_groups < self.groups_per_partition {
            let aggregates: Vec<_> = group.accumulators.iter().map(Accumulator::finish).collect();
            self.write(&group.leaves, &aggregates, group.sort_key)?;
            self.partition_groups += 1;
        }
        let goes_on = next.is_some_and(|next| next.key == group.partition);
        let groups = self.partition_groups;
        if !goes_on {
            self.partition_groups = 0;
        }
        let is_last = next.is_none() && self.is_end(&group.end);
        if self.shape.order.sorted_by.is_none() && self.rows_left == Some(0) {
            self.complete(None);
        } else if self.shape.grouping.is_some() && self.page_is_full() && !is_last {
            // Where the partition has no other group, the next page starts behind it.
            let end = if goes_on { Resume { partition_rows: groups, ..group.end } } else { behind(group.end) };
            self.complete(Some(end));
        }
        Ok(())
    }

    /// All has been read.
    fn end(&mut self) -> Result<(), CqlError> {
        if self.shape.is_grouped() {
            if self.shape.grouping.is_none() && self.group.is_none() {
                self.write_empty_group()?;
            }
            self.close_group(None)?;
        }
        if !self.is_complete {
            self.complete(None);
        }
        Ok(())
    }

    /// The one row of aggregates over nothing.
    fn write_empty_group(&mut self) -> Result<(), CqlError> {
        let aggregates: Vec<_> = self.shape.accumulators().iter().map(Accumulator::finish).collect();
        let leaves = vec![None; self.shape.selection.leaves.len()];
        self.write(&leaves, &aggregates, Vec::new())
    }

    fn complete(&mut self, next_page: Option<Resume>) {
        self.is_complete = true;
        self.next_page = next_page.filter(|_| self.page_rows.is_some());
    }

    /// Sorts the rows of all partitions, then cuts them to LIMIT.
    fn sort(&mut self) {
        if self.shape.order.sorted_by.is_none() {
            return;
        }
        let ends = self.sorted.iter().skip(1).map(|(_, begin)| *begin).chain([self.out.len()]);
        let mut rows: Vec<(&[u8], &[u8])> = self
            .sorted
            .iter()
            .zip(ends)
            .map(|((key, begin), end)| (key.as_slice(), self.out.get(*begin..end).unwrap_or_default()))
            .collect();
        rows.sort_by(|a, b| self.shape.order.compare(&self.shape.clustering_order, a.0, b.0));
        rows.truncate(self.rows_left.map_or(usize::MAX, |left| usize::try_from(left).unwrap_or(usize::MAX)));
        let bytes: Vec<u8> = rows.iter().flat_map(|(_, row)| row.iter().copied()).collect();
        self.rows = u32::try_from(rows.len()).unwrap_or(u32::MAX);
        self.out = bytes;
    }
}

fn behind(place: Resume) -> Resume {
    Resume { after: None, partition_rows: 0, ..place }
}

fn broken(error: &crate::mutation::entry::EntryError) -> CqlError {
    CqlError::server_error(format!("a page of rows cannot be read: {error}"))
}

fn write_row(shape: &Shape, values: &Values<'_>, out: &mut Vec<u8>) -> Result<(), CqlError> {
    let begin = out.len();
    let check = |row_bytes: usize| match row_bytes {
        0..=RESULT_ROW_BYTES_MAX => Ok(()),
        _ => Err(CqlError::invalid(format!("A row of the answer is larger than {RESULT_ROW_BYTES_MAX} bytes"))),
    };
    if !shape.selection.is_json {
        for output in &shape.selection.outputs {
            put_value(out, output.expression.evaluate(values)?.as_deref());
            check(out.len() - begin)?;
        }
        return Ok(());
    }
    let mut text = String::from("{");
    for (at, (output, key)) in shape.selection.outputs.iter().zip(&shape.json_keys).enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let value = output.expression.evaluate(values)?;
        let value = value.map_or_else(|| "null".to_owned(), |value| json::to_json(&output.spec.ty, &value));
        text.push_str(&format!("{separator}{key}: {value}"));
        check(text.len())?;
    }
    text.push('}');
    put_value(out, Some(text.as_bytes()));
    Ok(())
}

fn put_value(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        Some(bytes) => {
            let len = i32::try_from(bytes.len()).expect("values are far shorter than a frame");
            out.extend_from_slice(&len.to_be_bytes());
            out.extend_from_slice(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use proptest::prelude::*;

    use super::*;
    use crate::plan::RequestOptions;
    use crate::plan::select::testing::Model;
    use crate::plan::testing::options;

    /// Partitions with and without rows, statics and both.
    fn model() -> Model {
        let mut model = Model::new(&["CREATE TABLE t (k int, c int, s int static, v int, PRIMARY KEY (k, c))"]);
        model.write("INSERT INTO t (k, c, s, v) VALUES (1, 1, 10, 0)");
        for (k, c, v) in [(1, 2, 1), (1, 3, 0), (1, 4, 1), (1, 5, 0), (3, 1, 1), (3, 2, 0), (4, 1, 0), (6, 9, 1)] {
            model.write(&format!("INSERT INTO t (k, c, v) VALUES ({k}, {c}, {v})"));
        }
        for k in [2, 5] {
            model.write(&format!("INSERT INTO t (k, s) VALUES ({k}, {k}0)"));
        }
        model
    }

    /// How many rows each page has; together they are the rows of the answer in one page.
    fn check(cql: &str, page_size: u32, expected: &[u32]) {
        let (whole, paged) =
            (model().select(cql, &[], None).unwrap(), model().select(cql, &[], Some(page_size)).unwrap());
        assert_eq!(paged.pages, expected, "{cql} in pages of {page_size}");
        assert_eq!(paged.rows, whole.rows, "{cql} in pages of {page_size}");
        assert_eq!(whole.pages.len(), 1);
    }

    /// A page that is filled at the end of the data is followed by an empty one, unless LIMIT was reached or the last
    /// partition can have no other row.
    #[test]
    fn full_pages_at_the_end() {
        check("SELECT * FROM t", 3, &[3, 3, 3, 2]);
        check("SELECT * FROM t WHERE k = 1", 5, &[5, 0]);
        check("SELECT * FROM t WHERE k = 1 LIMIT 5", 5, &[5]);
        check("SELECT * FROM t LIMIT 7", 7, &[7]);
        check("SELECT * FROM t LIMIT 5", 2, &[2, 2, 1]);
        check("SELECT * FROM t WHERE k = 2", 1, &[1]);
        check("SELECT * FROM t WHERE k = 99", 1, &[0]);
        check("SELECT * FROM t WHERE k IN (1, 3)", 1, &[1, 1, 1, 1, 1, 1, 1, 0]);
        check("SELECT DISTINCT k, s FROM t", 2, &[2, 2, 2, 0]);
        check("SELECT * FROM t PER PARTITION LIMIT 2", 2, &[2, 2, 2, 2, 0]);
        check("SELECT * FROM t PER PARTITION LIMIT 3 LIMIT 4", 2, &[2, 2]);
        check("SELECT * FROM t WHERE k = 1 AND c > 1 ORDER BY c DESC", 2, &[2, 2, 0]);
        check("SELECT * FROM t WHERE v = 0 ALLOW FILTERING", 2, &[2, 2, 1]);
    }

    #[test]
    fn pages_of_groups() {
        check("SELECT k, max(c) FROM t GROUP BY k", 2, &[2, 2, 2, 0]);
        check("SELECT k, c, count(*) FROM t GROUP BY k, c", 2, &[2, 2, 2, 2, 2, 1]);
        check("SELECT k, count(*) FROM t GROUP BY k LIMIT 3", 2, &[2, 1]);
        check("SELECT count(*) FROM t", 1, &[1]);
        check("SELECT k, count(*) FROM t WHERE k = 2 GROUP BY k", 1, &[1]);
    }

    /// A table without clustering columns has one row a partition: nothing can follow it.
    #[test]
    fn one_row_of_one_partition_is_the_last() {
        let mut model = Model::new(&["CREATE TABLE t (k int PRIMARY KEY, v int)"]);
        model.write("INSERT INTO t (k, v) VALUES (1, 1)");
        assert_eq!(model.select("SELECT v FROM t WHERE k = 1", &[], Some(1)).unwrap().pages, [1]);
        assert_eq!(model.select("SELECT v FROM t", &[], Some(1)).unwrap().pages, [1, 0]);
    }

    /// What is shown instead goes where the column's value goes, functions and groups included; a null stays one.
    #[test]
    fn a_column_can_be_shown_otherwise_than_it_is_stored() {
        let model = model();
        let shown = |cql: &str| {
            let (prepared, columns, _) = model.prepare(cql).unwrap();
            let mut plan = prepared.bind(&[], &options()).unwrap();
            assert!(columns.is_empty());
            plan.show(model.table.column("v").unwrap().id, 77_i32.to_be_bytes().to_vec());
            let finished = model.run(&plan).unwrap();
            (finished.rows, finished.bytes)
        };
        let ints = |rows: u32, values: &[Option<i32>]| {
            let value = |value: &Option<i32>| match value {
                Some(value) => [4_i32.to_be_bytes(), value.to_be_bytes()].concat(),
                None => (-1_i32).to_be_bytes().to_vec(),
            };
            (rows, values.iter().flat_map(value).collect::<Vec<u8>>())
        };
        assert_eq!(shown("SELECT c, v FROM t WHERE k = 3"), ints(2, &[Some(1), Some(77), Some(2), Some(77)]));
        assert_eq!(shown("SELECT s, v FROM t WHERE k = 2"), ints(1, &[Some(20), None]));
        assert_eq!(shown("SELECT min(v), max(c), v FROM t WHERE k = 3"), ints(1, &[Some(77), Some(2), Some(77)]));
        // A filter sees what is shown.
        assert_eq!(shown("SELECT c FROM t WHERE k = 6 AND v = 1 ALLOW FILTERING"), ints(0, &[]));
        assert_eq!(shown("SELECT c, v FROM t WHERE k = 6 AND v = 77 ALLOW FILTERING"), ints(1, &[Some(9), Some(77)]));
        assert_eq!(shown("SELECT v FROM t WHERE k = 6 AND v > 76 AND c = 9 ALLOW FILTERING"), ints(1, &[Some(77)]));
    }

    #[test]
    fn aggregates_warn_of_what_they_read() {
        let warnings = |cql: &str| model().select(cql, &[], None).unwrap().warnings;
        assert_eq!(warnings("SELECT count(*) FROM t"), ["Aggregation query used without partition key"]);
        let many = ["Aggregation query used on multiple partition keys (IN restriction)"];
        assert_eq!(warnings("SELECT k, sum(v) FROM t WHERE k IN (1, 2) GROUP BY k"), many);
        assert!(warnings("SELECT sum(v) FROM t WHERE k = 1").is_empty());
        assert!(warnings("SELECT sum(v) FROM t WHERE token(k) > 0").is_empty());
        assert!(warnings("SELECT v FROM t").is_empty());
    }

    /// Pages that end early on their way here are asked for until the answer is whole.
    #[test]
    fn short_pages_of_a_replica_are_not_seen() {
        let model = model();
        for (cql, page_size) in [
            ("SELECT * FROM t", None),
            ("SELECT * FROM t LIMIT 7", Some(4)),
            ("SELECT k, sum(v) FROM t GROUP BY k", None),
            ("SELECT * FROM t PER PARTITION LIMIT 2", Some(3)),
        ] {
            let (prepared, ..) = model.prepare(cql).unwrap();
            let whole = prepared.bind(&[], &RequestOptions { page_size, ..options() }).unwrap();
            let mut short = whole.clone();
            short.command.limits.page_bytes = 1;
            let (want, got) = (model.run(&whole).unwrap(), model.run(&short).unwrap());
            assert_eq!((got.rows, got.bytes), (want.rows, want.bytes), "{cql}");
        }
    }

    #[test]
    fn an_answer_that_was_not_read_to_its_end_is_an_error() {
        let plan = model().prepare("SELECT * FROM t").unwrap().0.bind(&[], &options()).unwrap();
        assert!(plan.result().finish().is_err());
        let broken = ReadPage { bytes: vec![0xff; 8], rows: 1, resume: None };
        assert!(plan.result().take(&mut Intake::of(&broken)).is_err());
    }

    #[test]
    fn an_answer_without_pages_has_a_limit() {
        let mut model = Model::new(&["CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))"]);
        let text = "x".repeat(UNPAGED_RESULT_BYTES_MAX / 2);
        for c in 0..4 {
            model.write(&format!("INSERT INTO t (k, c, v) VALUES (1, {c}, '{text}')"));
        }
        let error = model.select("SELECT v FROM t", &[], None).unwrap_err();
        assert!(error.message().contains("ask for it in pages"), "{error}");
        // Pages end early instead.
        assert_eq!(model.select("SELECT v FROM t", &[], Some(100)).unwrap().pages, [1, 1, 1, 1, 0]);
        assert_eq!(model.select("SELECT count(v) FROM t", &[], None).unwrap().rows, [["4"]]);
    }

    /// A page of the replica, however small, may make a large answer: that ends a page of it as soon, within a page and
    /// a partition of the replica's, and is refused as soon where it has no pages.
    #[test]
    fn values_named_many_times_over_fill_pages_too() {
        let mut model = Model::new(&["CREATE TABLE t (k int, c int, v text, PRIMARY KEY (k, c))"]);
        let text = "x".repeat(8192);
        for c in 0..20 {
            model.write(&format!("INSERT INTO t (k, c, v) VALUES (1, {c}, '{text}')"));
        }
        let selectors = |count: usize| vec!["v"; count].join(", ");
        let cql = format!("SELECT c, {} FROM t PER PARTITION LIMIT 18", selectors(300));
        let answer = model.select(&cql, &[], Some(1000)).unwrap();
        assert_eq!(answer.pages, [7, 7, 4]);
        let rows: Vec<&str> = answer.rows.iter().map(|row| row[0].as_str()).collect();
        assert_eq!(rows, (0..18).map(|c| c.to_string()).collect::<Vec<_>>());
        let plan = model.prepare(&format!("SELECT {} FROM t", selectors(600))).unwrap().0;
        let plan = plan.bind(&[], &options()).unwrap();
        let (mut result, page) = (plan.result(), model.read(&plan.command));
        let mut intake = Intake::of(&page);
        let error = std::iter::from_fn(|| Some(result.take(&mut intake))).find_map(Result::err).unwrap();
        assert!(error.message().contains("ask for it in pages"), "{error}");
        assert!(result.len_bytes() < UNPAGED_RESULT_BYTES_MAX + 600 * 8200);
        let error = model.select(&format!("SELECT {} FROM t", selectors(8300)), &[], Some(1)).unwrap_err();
        assert!(error.message().contains("A row of the answer is larger than"), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever the sizes of the client's pages and of the replica's, the rows are the same.
        #[test]
        fn pages_of_any_size_make_the_same_rows(
            rows in prop::collection::btree_set((0i32..4, 0i32..5), 0..14),
            page_size in 1u32..7,
            statement in 0usize..6,
        ) {
            let mut model = Model::new(&["CREATE TABLE t (k int, c int, s int static, PRIMARY KEY (k, c))"]);
            for (k, c) in rows {
                let columns = if c == 0 { "(k, s)" } else { "(k, c)" };
                model.write(&format!("INSERT INTO t {columns} VALUES ({k}, {c})"));
            }
            let cql = [
                "SELECT * FROM t",
                "SELECT * FROM t PER PARTITION LIMIT 2 LIMIT 5",
                "SELECT k, count(*), max(c) FROM t GROUP BY k",
                "SELECT k, c FROM t GROUP BY k, c PER PARTITION LIMIT 2",
                "SELECT c FROM t WHERE k IN (0, 2, 3)",
                "SELECT c, s FROM t WHERE k = 1 ORDER BY c DESC",
            ][statement];
            let whole = model.select(cql, &[], None).unwrap();
            let paged = model.select(cql, &[], Some(page_size)).unwrap();
            prop_assert_eq!(paged.rows, whole.rows);
            let (last, before) = paged.pages.split_last().unwrap();
            prop_assert!(before.iter().all(|rows| *rows == page_size));
            prop_assert!(*last <= page_size);
        }
    }
}
