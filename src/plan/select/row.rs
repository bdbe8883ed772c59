//! The CQL rows of a page, and the values that a selection takes from one.

use std::borrow::Cow;

use crate::base::ids::{ColumnId, Token};
use crate::cql::ast::MetadataKind;
use crate::mutation::entry::EntryError;
use crate::mutation::page::{PageItem, PageView};
use crate::mutation::read::{PartitionKey, Resume};
use crate::mutation::{Cell, Row, counter};
use crate::schema::{Column, ColumnKind, Table, clustering, key};
use crate::types::{CqlType, collection, compare};

/// A value that a row holds, before any function is applied.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Leaf {
    /// A component of the partition key; whole where the key has one column.
    PartitionKey {
        position: usize,
        is_whole: bool,
    },
    Clustering(usize),
    Cells(StoredColumn),
    /// `writetime`, `maxwritetime` or `ttl` of a column or of one part of it.
    Metadata {
        kind: MetadataKind,
        column: StoredColumn,
        part: CellPart,
    },
}

/// A static or regular column.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StoredColumn {
    pub id: ColumnId,
    pub ty: CqlType,
    pub is_static: bool,
}

/// Which cells of a column a metadata function looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum CellPart {
    Whole,
    /// The element whose key this constant is.
    Element(usize),
    /// From this constant to that one, both included.
    Slice {
        from: Option<usize>,
        to: Option<usize>,
    },
    Field(u16),
}

impl Leaf {
    /// The value of a column.
    pub fn of(table: &Table, column: &Column) -> Leaf {
        match column.kind {
            ColumnKind::PartitionKey(position) => {
                Leaf::PartitionKey { position: usize::from(position), is_whole: table.partition_key().count() == 1 }
            }
            ColumnKind::Clustering { position, .. } => Leaf::Clustering(usize::from(position)),
            ColumnKind::Static | ColumnKind::Regular => Leaf::Cells(StoredColumn::of(column)),
        }
    }

    /// The column whose cells it needs; none of the key's.
    pub fn stored_column(&self) -> Option<ColumnId> {
        match self {
            Leaf::Cells(column) | Leaf::Metadata { column, .. } => Some(column.id),
            Leaf::PartitionKey { .. } | Leaf::Clustering(_) => None,
        }
    }
}

impl StoredColumn {
    pub fn of(column: &Column) -> StoredColumn {
        StoredColumn { id: column.id, ty: column.ty.clone(), is_static: column.kind == ColumnKind::Static }
    }
}

/// One CQL row: what stands in the page for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowView<'r, 'a> {
    pub token: Token,
    pub key: &'a [u8],
    pub static_row: Option<&'r Row<'a>>,
    /// `None` where the partition is answered for its static row, or once (DISTINCT).
    pub row: Option<&'r Row<'a>>,
}

impl<'a> RowView<'_, 'a> {
    /// The encoded clustering, empty where there is none.
    pub fn clustering(&self) -> &'a [u8] {
        self.row.map_or(&[], |row| row.clustering)
    }

    /// The place just after this row.
    pub fn place(&self, partition_rows: u64) -> Resume {
        Resume {
            partition: PartitionKey { token: self.token, key: self.key.to_vec() },
            after: self.row.map(|row| row.clustering.to_vec()),
            partition_rows,
        }
    }

    /// What the row holds at `leaf`.
    pub fn value(&self, leaf: &Leaf, constants: &[Option<Vec<u8>>], now_s: i64) -> Option<Cow<'a, [u8]>> {
        match leaf {
            Leaf::PartitionKey { is_whole: true, .. } => Some(Cow::Borrowed(self.key)),
            Leaf::PartitionKey { position, .. } => key::components(self.key).nth(*position).map(Cow::Borrowed),
            Leaf::Clustering(position) => {
                self.row.and_then(|row| clustering::components(row.clustering).nth(*position)).map(Cow::Borrowed)
            }
            Leaf::Cells(column) => {
                let cells = self.cells(column);
                match &column.ty {
                    ty if ty.is_multi_cell() => assemble(ty, cells).map(Cow::Owned),
                    CqlType::Counter => {
                        cells.first().map(|cell| Cow::Owned(counter::total(cell.value).to_be_bytes().to_vec()))
                    }
                    _ => cells.first().map(|cell| Cow::Borrowed(cell.value)),
                }
            }
            Leaf::Metadata { kind, column, part } => {
                self.metadata(*kind, column, *part, constants, now_s).map(Cow::Owned)
            }
        }
    }

    /// The live cells of a column: rows of a page hold no others.
    fn cells(&self, column: &StoredColumn) -> &[Cell<'a>] {
        let row = if column.is_static { self.static_row } else { self.row };
        let cells = row.map_or(&[][..], |row| &row.cells);
        let from = cells.partition_point(|cell| cell.column < column.id);
        let rest = cells.get(from..).unwrap_or_default();
        rest.get(..rest.partition_point(|cell| cell.column == column.id)).unwrap_or_default()
    }

    fn metadata(
        &self,
        kind: MetadataKind,
        column: &StoredColumn,
        part: CellPart,
        constants: &[Option<Vec<u8>>],
        now_s: i64,
    ) -> Option<Vec<u8>> {
        let of_cell = |cell: &Cell<'_>| cell_metadata(kind, cell, now_s);
        let cells = self.cells(column);
        if !column.ty.is_multi_cell() {
            return cells.first().and_then(of_cell);
        }
        let parts = select_cells(&column.ty, cells, part, constants);
        if kind == MetadataKind::MaxWriteTime {
            let latest = parts.iter().flatten().map(|cell| cell.timestamp).max();
            return latest.map(|timestamp| timestamp.to_be_bytes().to_vec());
        }
        if matches!(part, CellPart::Element(_) | CellPart::Field(_)) {
            return parts.first().copied().flatten().and_then(of_cell);
        }
        if parts.iter().all(Option::is_none) {
            return None;
        }
        let values: Vec<Option<Vec<u8>>> = parts.into_iter().map(|cell| cell.and_then(of_cell)).collect();
        Some(collection::pack_list(values.iter().map(Option::as_deref)))
    }
}

fn cell_metadata(kind: MetadataKind, cell: &Cell<'_>, now_s: i64) -> Option<Vec<u8>> {
    match kind {
        MetadataKind::WriteTime | MetadataKind::MaxWriteTime => Some(cell.timestamp.to_be_bytes().to_vec()),
        MetadataKind::Ttl => {
            let left_s = cell.is_expiring().then(|| cell.local_deletion_s.saturating_sub(now_s))?;
            Some(i32::try_from(left_s).unwrap_or(i32::MAX).to_be_bytes().to_vec())
        }
    }
}

/// The cells of one part of a multi-cell value, in the order of its elements; `None` for an absent field.
fn select_cells<'c, 'a>(
    ty: &CqlType,
    cells: &'c [Cell<'a>],
    part: CellPart,
    constants: &[Option<Vec<u8>>],
) -> Vec<Option<&'c Cell<'a>>> {
    if let CqlType::Udt(udt) = ty {
        if let CellPart::Field(at) = part {
            return vec![cells.iter().find(|cell| field_number(cell) == Some(usize::from(at)))];
        }
        let mut fields = vec![None; udt.fields.len()];
        for cell in cells {
            if let Some(field) = field_number(cell).and_then(|at| fields.get_mut(at)) {
                field.get_or_insert(cell);
            }
        }
        return fields;
    }
    let constant = |at: usize| constants.get(at).and_then(Option::as_deref);
    let key_type = path_type(ty);
    let key = |cell: &Cell<'a>| cell.path.unwrap_or_default();
    let mut chosen: Vec<&Cell<'a>> = match part {
        CellPart::Element(at) => {
            let wanted = constant(at);
            cells.iter().filter(|cell| wanted.is_some_and(|want| compare(key_type, key(cell), want).is_eq())).collect()
        }
        CellPart::Slice { from, to } => {
            let (from, to) = (from.and_then(constant), to.and_then(constant));
            let is_after = |cell: &Cell<'a>| from.is_none_or(|from| compare(key_type, key(cell), from).is_ge());
            let is_before = |cell: &Cell<'a>| to.is_none_or(|to| compare(key_type, key(cell), to).is_le());
            cells.iter().filter(|cell| is_after(cell) && is_before(cell)).collect()
        }
        CellPart::Whole | CellPart::Field(_) => cells.iter().collect(),
    };
    chosen.sort_by(|a, b| compare(key_type, key(a), key(b)));
    chosen.into_iter().map(Some).collect()
}

/// The type of a collection's cell paths: a list's are bytes that sort as its elements stand (`plan::write`).
fn path_type(ty: &CqlType) -> &CqlType {
    match ty {
        CqlType::Set(element) => element,
        CqlType::Map(key, _) => key,
        _ => &CqlType::Blob,
    }
}

/// A user type's cells have the field's number for their path, as two bytes.
fn field_number(cell: &Cell<'_>) -> Option<usize> {
    let path = cell.path.and_then(|path| path.first_chunk::<2>())?;
    Some(usize::from(u16::from_be_bytes(*path)))
}

/// The serialised value of the cells of a collection or user type; null where it has none.
fn assemble(ty: &CqlType, cells: &[Cell<'_>]) -> Option<Vec<u8>> {
    if cells.is_empty() {
        return None;
    }
    let ordered = select_cells(ty, cells, CellPart::Whole, &[]);
    let values = ordered.iter().map(|cell| cell.map(|cell| cell.value));
    Some(match ty {
        CqlType::Set(element) => {
            collection::pack_set(element, ordered.iter().flatten().map(|cell| cell.path.unwrap_or_default()))
        }
        CqlType::Map(key, _) => {
            let entries = ordered.iter().flatten().map(|cell| (cell.path.unwrap_or_default(), cell.value));
            collection::pack_map(key, entries)
        }
        CqlType::Udt(_) => collection::pack_tuple(values),
        _ => collection::pack_list(values),
    })
}

/// Walks the CQL rows of a page.
#[derive(Debug)]
pub(super) struct PageRows<'a> {
    view: PageView<'a>,
    /// The partition that follows the current row, already read.
    pending: Option<(Token, &'a [u8])>,
    token: Token,
    key: &'a [u8],
    static_row: Option<Row<'a>>,
    row: Option<Row<'a>>,
    /// A partition began and none of its rows came yet.
    is_fresh: bool,
}

impl<'a> PageRows<'a> {
    pub fn new(bytes: &'a [u8]) -> PageRows<'a> {
        PageRows {
            view: PageView::new(bytes),
            pending: None,
            token: Token(i64::MIN),
            key: &[],
            static_row: None,
            row: None,
            is_fresh: false,
        }
    }

    /// Goes to the next row; whether there is one. A partition without rows is one row.
    pub fn advance(&mut self) -> Result<bool, EntryError> {
        if let Some((token, key)) = self.pending.take() {
            self.begin(token, key);
        }
        loop {
            match self.view.next_item()? {
                None => return Ok(self.take_bare_partition()),
                Some(PageItem::Partition { token, key }) => {
                    if self.take_bare_partition() {
                        self.pending = Some((token, key));
                        return Ok(true);
                    }
                    self.begin(token, key);
                }
                Some(PageItem::Static(row)) => self.static_row = Some(row),
                Some(PageItem::Row(row)) => {
                    self.row = Some(row);
                    self.is_fresh = false;
                    return Ok(true);
                }
            }
        }
    }

    fn begin(&mut self, token: Token, key: &'a [u8]) {
        (self.token, self.key) = (token, key);
        (self.static_row, self.row) = (None, None);
        self.is_fresh = true;
    }

    fn take_bare_partition(&mut self) -> bool {
        self.row = None;
        std::mem::take(&mut self.is_fresh)
    }

    /// The current row.
    pub fn current(&self) -> RowView<'_, 'a> {
        RowView { token: self.token, key: self.key, static_row: self.static_row.as_ref(), row: self.row.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::mutation::page::PageWriter;
    use crate::mutation::{Liveness, NEVER_S};
    use crate::types::{UdtType, to_text};

    fn cell<'a>(column: u16, path: Option<&'a [u8]>, timestamp: i64, value: &'a [u8]) -> Cell<'a> {
        Cell { column: ColumnId(column), path, timestamp, ttl_s: 0, local_deletion_s: NEVER_S, value }
    }

    fn row<'a>(clustering: &'a [u8], cells: &[Cell<'a>]) -> Row<'a> {
        let mut row = Row::new(clustering);
        row.liveness = Liveness { timestamp: 1, ..Liveness::NONE };
        row.cells.extend(cells.iter().copied());
        row
    }

    fn view<'r, 'a>(row: &'r Row<'a>) -> RowView<'r, 'a> {
        RowView { token: Token(0), key: b"k", static_row: None, row: Some(row) }
    }

    fn stored(ty: CqlType) -> StoredColumn {
        StoredColumn { id: ColumnId(5), ty, is_static: false }
    }

    fn check_value(ty: CqlType, cells: &[Cell<'_>], expected: &str) {
        let row = row(b"", cells);
        let value = view(&row).value(&Leaf::Cells(stored(ty.clone())), &[], 0);
        assert_eq!(value.map_or("null".to_owned(), |value| to_text(&ty, &value)), expected);
    }

    fn udt() -> CqlType {
        let fields = vec![("a".into(), CqlType::Int), ("b".into(), CqlType::Text), ("c".into(), CqlType::Int)];
        CqlType::Udt(Box::new(UdtType { keyspace: "ks".into(), name: "ty".into(), fields }))
    }

    #[test]
    fn collections_are_put_together_in_the_order_of_their_type() {
        let (one, two, minus) = (1i32.to_be_bytes(), 2i32.to_be_bytes(), (-1i32).to_be_bytes());
        let set = [cell(5, Some(&one), 1, b""), cell(5, Some(&two), 1, b""), cell(5, Some(&minus), 1, b"")];
        check_value(CqlType::set(CqlType::Int), &set, "{-1, 1, 2}");
        let map = [cell(4, None, 1, b"other"), cell(5, Some(&two), 1, b"b"), cell(5, Some(&minus), 1, b"a")];
        check_value(CqlType::map(CqlType::Int, CqlType::Text), &map, "{-1: 'a', 2: 'b'}");
        // The paths of a list sort by bytes, whatever a timeuuid would make of them.
        let (early, late) = (0xffff_ffff_u128 << 64, 1_u128 << 96);
        let (early, late) = (early.to_be_bytes(), late.to_be_bytes());
        let list = [cell(5, Some(&late), 1, &two), cell(5, Some(&early), 1, &one)];
        check_value(CqlType::list(CqlType::Int), &list, "[1, 2]");
        check_value(udt(), &[cell(5, Some(&[0, 1]), 1, b"x")], "{a: null, b: 'x', c: null}");
        check_value(CqlType::list(CqlType::Int), &[cell(6, None, 1, b"x")], "null");
    }

    #[test]
    fn a_counter_is_the_sum_of_its_shares() {
        let (mut one, mut both) = (Vec::new(), Vec::new());
        counter::add(&[], [1; 16], 7, 1, &mut one);
        counter::add(&one, [2; 16], -3, 1, &mut both);
        check_value(CqlType::Counter, &[cell(5, None, 1, &both)], "4");
        check_value(CqlType::Counter, &[], "null");
    }

    fn check_metadata(
        kind: MetadataKind,
        ty: CqlType,
        part: CellPart,
        cells: &[Cell<'_>],
        result: CqlType,
        want: &str,
    ) {
        let row = row(b"", cells);
        let constants = [Some(2i32.to_be_bytes().to_vec())];
        let leaf = Leaf::Metadata { kind, column: stored(ty), part };
        let value = view(&row).value(&leaf, &constants, 100);
        assert_eq!(value.map_or("null".to_owned(), |value| to_text(&result, &value)), want);
    }

    #[test]
    fn times_of_cells() {
        use MetadataKind::{MaxWriteTime, Ttl, WriteTime};
        let list = CqlType::list(CqlType::BigInt);
        let simple = [Cell { ttl_s: 50, local_deletion_s: 130, ..cell(5, None, 7, b"v") }];
        check_metadata(WriteTime, CqlType::Text, CellPart::Whole, &simple, CqlType::BigInt, "7");
        check_metadata(Ttl, CqlType::Text, CellPart::Whole, &simple, CqlType::Int, "30");
        check_metadata(Ttl, CqlType::Text, CellPart::Whole, &[cell(5, None, 7, b"v")], CqlType::Int, "null");
        let (one, two) = (1i32.to_be_bytes(), 2i32.to_be_bytes());
        let map = || CqlType::map(CqlType::Int, CqlType::Text);
        let cells = [cell(5, Some(&one), 7, b"a"), cell(5, Some(&two), 9, b"b")];
        check_metadata(WriteTime, map(), CellPart::Whole, &cells, list.clone(), "[7, 9]");
        check_metadata(MaxWriteTime, map(), CellPart::Whole, &cells, CqlType::BigInt, "9");
        check_metadata(WriteTime, map(), CellPart::Element(0), &cells, CqlType::BigInt, "9");
        let slice = CellPart::Slice { from: Some(0), to: None };
        check_metadata(WriteTime, map(), slice, &cells, list.clone(), "[9]");
        let fields = [cell(5, Some(&[0, 0]), 11, &one), cell(5, Some(&[0, 1]), 10, b"x")];
        check_metadata(WriteTime, udt(), CellPart::Whole, &fields, list, "[11, 10, null]");
        check_metadata(WriteTime, udt(), CellPart::Field(1), &fields, CqlType::BigInt, "10");
        check_metadata(WriteTime, udt(), CellPart::Field(2), &fields, CqlType::BigInt, "null");
    }

    fn clustering_key(value: &str) -> Vec<u8> {
        let mut key = Vec::new();
        clustering::push_component(&mut key, value.as_bytes());
        key
    }

    /// (partition, clustering or `-` for none, whether it has a static row) of each row.
    fn walk(page: &[u8]) -> Vec<String> {
        let mut rows = PageRows::new(page);
        let mut out = Vec::new();
        while rows.advance().unwrap() {
            let row = rows.current();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let first = clustering::components(row.clustering()).next();
            let clustering = first.map_or("-".to_owned(), text);
            out.push(format!("{} {clustering} {}", text(row.key), row.static_row.is_some()));
        }
        out
    }

    #[test]
    fn a_partition_without_rows_is_one_row() {
        let keys = ["1", "2", "3"].map(clustering_key);
        let mut page = Vec::new();
        let mut writer = PageWriter::new(&mut page);
        writer.partition(Token(1), b"a");
        writer.static_row(&row(b"", &[]), None);
        writer.partition(Token(2), b"b");
        writer.row(&row(&keys[0], &[]), None);
        writer.row(&row(&keys[1], &[]), None);
        writer.partition(Token(3), b"c");
        writer.partition(Token(4), b"d");
        writer.static_row(&row(b"", &[]), None);
        writer.row(&row(&keys[2], &[]), None);
        writer.partition(Token(5), b"e");
        assert_eq!(walk(&page), ["a - true", "b 1 false", "b 2 false", "c - false", "d 3 true", "e - false"]);
        assert!(walk(&[]).is_empty());
    }

    #[test]
    fn the_place_after_a_row_names_it() {
        let key = clustering_key("1");
        let row = row(&key, &[]);
        let place = view(&row).place(3);
        assert_eq!((place.after, place.partition_rows, place.partition.key), (Some(key.clone()), 3, b"k".to_vec()));
        let bare = RowView { row: None, ..view(&row) };
        assert_eq!(bare.place(0).after, None);
        assert!(bare.clustering().is_empty());
    }
}
