//! What an INSERT, UPDATE or DELETE does to one column, and how that is encoded.
//!
//! A whole value is one cell. In a list, set, map or user type that is not frozen each element is a cell of its own,
//! with a path: of a set the element, of a map the key, of a user type the field's number in two bytes, of a list
//! sixteen bytes that sort as the elements stand. Setting such a column deletes what was there one microsecond before.

use crate::base::ids::ColumnId;
use crate::cql::ast;
use crate::mutation::MutationBuilder;
use crate::mutation::draft::ElementChange;
use crate::plan::ColumnSpec;
use crate::plan::term::{Binding, Bound, Scope, Term, invalid};
use crate::protocol::CqlError;
use crate::schema::{Column, ColumnKind, Table};
use crate::types::{CqlType, collection, number};

use super::timing::Moment;

/// The longest path of a cell: an element of a set, a key of a map.
const PATH_BYTES_MAX: usize = 65_535;

/// One change of one column.
#[derive(Clone, Debug)]
pub(super) struct Operation {
    column: ColumnId,
    ty: CqlType,
    pub is_static: bool,
    action: Action,
}

#[derive(Clone, Debug)]
enum Action {
    Set(Term),
    /// `c = c + v`: elements go behind, or in.
    Add(Term),
    /// `l = v + l`
    Prepend(Term),
    /// `c = c - v`: of a set its elements, of a map its keys.
    Remove(Term),
    /// `m[k] = v`
    SetElement(Term, Term),
    SetField(u16, Term),
    Delete,
    /// `DELETE c[k]`
    DeleteElement(Term),
    DeleteField(u16),
    /// `n = n + v`, or `n = n - v` where the flag is set.
    Count(Term, bool),
    /// `l[i] = v`
    SetAtIndex(Term, Term),
    /// `DELETE l[i]`
    DeleteAtIndex(Term),
    /// `l = l - v`
    RemoveValues(Term),
    /// What must be read first, and is not done yet.
    NeedsRead(&'static str),
}

impl Operation {
    fn new(column: &Column, action: Action) -> Operation {
        let is_static = column.kind == ColumnKind::Static;
        Operation { column: column.id, ty: column.ty.clone(), is_static, action }
    }

    /// A column of an INSERT, or `SET c = v`.
    pub fn set(
        table: &Table,
        column: &Column,
        value: &ast::Term,
        scope: &mut Scope<'_>,
    ) -> Result<Operation, CqlError> {
        let term = Term::prepare(value, &ColumnSpec::of_column(table, column), scope)?;
        Operation::of_term(column, term)
    }

    /// The column is set to this term.
    pub fn of_term(column: &Column, term: Term) -> Result<Operation, CqlError> {
        if column.ty.is_counter() {
            return Err(invalid(format!(
                "Cannot set the value of counter column {} (counters can only be incremented/decremented, not set)",
                column.name
            )));
        }
        Ok(Operation::new(column, Action::Set(term)))
    }

    /// An assignment of an UPDATE. One that is conditional may reckon with a column's value.
    pub fn update(
        table: &Table,
        column: &Column,
        assignment: &ast::Assignment,
        is_conditional: bool,
        scope: &mut Scope<'_>,
    ) -> Result<Operation, CqlError> {
        let spec = ColumnSpec::of_column(table, column);
        let wrong =
            |what: &str| Err(invalid(format!("Invalid operation ({assignment}) for {what} column {}", column.name)));
        let is_frozen = column.ty.is_frozen();
        let action = match (&assignment.operation, column.ty.unfrozen()) {
            (ast::Operation::Set(value), _) => return Operation::set(table, column, value, scope),
            (ast::Operation::Add(_) | ast::Operation::Subtract(_), CqlType::Tuple(_) | CqlType::Udt(_)) => {
                return wrong("tuple");
            }
            (ast::Operation::Add(value) | ast::Operation::Subtract(value), ty) if !ty.is_collection() => {
                if !ty.is_counter() && !is_conditional {
                    return wrong("non counter");
                }
                let term = Term::prepare(value, &spec, scope)?;
                match &assignment.operation {
                    ast::Operation::Subtract(_) if ty.is_counter() => Action::Count(term, true),
                    _ if ty.is_counter() => Action::Count(term, false),
                    _ => Action::NeedsRead("Reckoning with a column's value"),
                }
            }
            (ast::Operation::Add(_) | ast::Operation::Subtract(_), _) if is_frozen => {
                return wrong("frozen collection");
            }
            (ast::Operation::Add(value), ty) => added(value, ty, &spec, scope)?,
            (ast::Operation::Subtract(value), ty) => subtracted(value, ty, &spec, scope)?,
            (ast::Operation::Prepend(value), ty) => {
                let term = Term::prepare(value, &spec, scope)?;
                match ty {
                    CqlType::List(_) if is_frozen => return wrong("frozen list"),
                    CqlType::List(_) => Action::Prepend(term),
                    _ => return wrong("non list"),
                }
            }
            (ast::Operation::SetElement { .. }, ty) if !ty.is_collection() => return wrong("non collection"),
            (ast::Operation::SetElement { .. }, _) if is_frozen => return wrong("frozen collection"),
            (ast::Operation::SetElement { key, value }, CqlType::Map(k, v)) => Action::SetElement(
                Term::prepare(key, &spec.key_spec(k), scope)?,
                Term::prepare(value, &spec.value_spec(v), scope)?,
            ),
            (ast::Operation::SetElement { key, value }, CqlType::List(element)) => {
                let index = Term::prepare(key, &spec.index_spec(), scope)?;
                Action::SetAtIndex(index, Term::prepare(value, &spec.value_spec(element), scope)?)
            }
            (ast::Operation::SetElement { .. }, _) => return wrong("set"),
            (ast::Operation::SetField { .. }, CqlType::Udt(_)) if is_frozen => return wrong("frozen UDT"),
            (ast::Operation::SetField { field, value }, CqlType::Udt(udt)) => {
                let (at, ty) = field_of(column, udt, field)?;
                let spec = spec.renamed(format!("{}.{field}", column.name), ty.clone());
                Action::SetField(at, Term::prepare(value, &spec, scope)?)
            }
            (ast::Operation::SetField { .. }, _) => return wrong("non-UDT"),
        };
        Ok(Operation::new(column, action))
    }

    /// A column, or a part of one, that a DELETE names.
    pub fn delete(
        table: &Table,
        column: &Column,
        target: &ast::Target,
        scope: &mut Scope<'_>,
    ) -> Result<Operation, CqlError> {
        let spec = ColumnSpec::of_column(table, column);
        let wrong = |what: &str| Err(invalid(format!("Invalid deletion operation for {what} column {}", column.name)));
        let action = match (target, column.ty.unfrozen()) {
            (ast::Target::Column, _) => Action::Delete,
            (ast::Target::Element(_), ty) if !ty.is_collection() => return wrong("non collection"),
            (ast::Target::Element(_), _) if column.ty.is_frozen() => return wrong("frozen collection"),
            (ast::Target::Element(key), CqlType::List(_)) => {
                Action::DeleteAtIndex(Term::prepare(key, &spec.index_spec(), scope)?)
            }
            (ast::Target::Element(key), CqlType::Set(element)) => {
                Action::DeleteElement(Term::prepare(key, &spec.value_spec(element), scope)?)
            }
            (ast::Target::Element(key), CqlType::Map(k, _)) => {
                Action::DeleteElement(Term::prepare(key, &spec.key_spec(k), scope)?)
            }
            (ast::Target::Element(_), _) => return wrong("non collection"),
            (ast::Target::Field(field), CqlType::Udt(udt)) => {
                if column.ty.is_frozen() {
                    return Err(invalid(format!("Frozen UDT column {} does not support field deletions", column.name)));
                }
                Action::DeleteField(field_of(column, udt, field)?.0)
            }
            (ast::Target::Field(_), _) => {
                let name = &column.name;
                return Err(invalid(format!("Invalid field deletion operation for non-UDT column {name}")));
            }
        };
        Ok(Operation::new(column, action))
    }
}

/// `c = c + value` of a collection that is not frozen.
fn added(value: &ast::Term, ty: &CqlType, spec: &ColumnSpec, scope: &mut Scope<'_>) -> Result<Action, CqlError> {
    let term = Term::prepare(value, spec, scope);
    Ok(Action::Add(match ty {
        CqlType::Map(..) => {
            term.map_err(|_| invalid(format!("Value for a map addition has to be a map, but was: '{value}'")))?
        }
        _ => term?,
    }))
}

/// `c = c - value` of a collection that is not frozen.
fn subtracted(value: &ast::Term, ty: &CqlType, spec: &ColumnSpec, scope: &mut Scope<'_>) -> Result<Action, CqlError> {
    match ty {
        CqlType::Map(key, _) => {
            let keys = spec.renamed(spec.name.clone(), CqlType::set((**key).clone()));
            let term = Term::prepare(value, &keys, scope);
            Ok(Action::Remove(
                term.map_err(|_| invalid(format!("Value for a map substraction has to be a set, but was: '{value}'")))?,
            ))
        }
        CqlType::List(_) => Ok(Action::RemoveValues(Term::prepare(value, spec, scope)?)),
        _ => Ok(Action::Remove(Term::prepare(value, spec, scope)?)),
    }
}

fn field_of<'u>(
    column: &Column,
    udt: &'u crate::types::UdtType,
    field: &ast::Ident,
) -> Result<(u16, &'u CqlType), CqlError> {
    let at = udt.field_index(field.as_str());
    let found = at.and_then(|at| Some((u16::try_from(at).ok()?, &udt.fields.get(at)?.1)));
    found.ok_or_else(|| invalid(format!("UDT column {} does not have a field named {field}", column.name)))
}

impl Operation {
    /// The column and its value, where it is a whole one.
    pub fn whole_value(&self) -> Option<(ColumnId, &Term)> {
        match &self.action {
            Action::Set(term) if !self.ty.is_multi_cell() => Some((self.column, term)),
            _ => None,
        }
    }
}

/// Encoding, within the row that the builder is in.
impl Operation {
    pub fn encode<'v>(
        &'v self,
        builder: &mut MutationBuilder<'_>,
        moment: &Moment,
        binding: &Binding<'v>,
    ) -> Result<(), CqlError> {
        let column = self.column;
        match &self.action {
            Action::Set(term) if self.ty.is_multi_cell() => {
                let value = term.bind(binding)?;
                if value.is_unset() {
                    return Ok(());
                }
                if let Some(before) = moment.before() {
                    builder.complex_deletion(column, before, moment.now_s);
                }
                self.add(value.bytes(), builder, moment, binding, Place::Behind)
            }
            Action::Set(term) => put(builder, column, None, moment, &term.bind(binding)?, binding),
            Action::Add(term) => self.add(term.bind(binding)?.bytes(), builder, moment, binding, Place::Behind),
            Action::Prepend(term) => self.add(term.bind(binding)?.bytes(), builder, moment, binding, Place::Before),
            Action::Remove(term) => {
                for element in parts(term.ty(), term.bind(binding)?.bytes())? {
                    claim(element.len(), binding)?;
                    builder.cell_tombstone(column, Some(element), moment.stamp, moment.now_s);
                }
                Ok(())
            }
            Action::SetElement(key, value) => {
                let (key, value) = (key.bind(binding)?, value.bind(binding)?);
                put(builder, column, Some(path_of(&key, "map key")?), moment, &value, binding)
            }
            Action::SetField(at, value) => {
                put(builder, column, Some(&at.to_be_bytes()), moment, &value.bind(binding)?, binding)
            }
            Action::Delete if self.ty.is_multi_cell() => {
                builder.complex_deletion(column, moment.stamp, moment.now_s);
                Ok(())
            }
            Action::Delete => {
                builder.cell_tombstone(column, None, moment.stamp, moment.now_s);
                if self.ty.is_counter() {
                    binding.claim_read()?;
                    builder.mark_draft();
                }
                Ok(())
            }
            Action::DeleteElement(key) => {
                let what = if matches!(self.ty, CqlType::Set(_)) { "set element" } else { "map key" };
                let key = key.bind(binding)?;
                claim(key.bytes().map_or(0, <[u8]>::len), binding)?;
                builder.cell_tombstone(column, Some(path_of(&key, what)?), moment.stamp, moment.now_s);
                Ok(())
            }
            Action::DeleteField(at) => {
                builder.cell_tombstone(column, Some(&at.to_be_bytes()), moment.stamp, moment.now_s);
                Ok(())
            }
            Action::Count(term, negate) => {
                if let Some(delta) = delta(&term.bind(binding)?, *negate)? {
                    binding.claim_read()?;
                    builder.counter_addition(column, delta);
                }
                Ok(())
            }
            Action::SetAtIndex(index, value) => {
                let Some(index) = list_index(&index.bind(binding)?)? else {
                    return Err(invalid("Invalid unset value for list index"));
                };
                let value = value.bind(binding)?;
                claim(value.bytes().map_or(0, <[u8]>::len), binding)?;
                let change = match &value {
                    Bound::Bytes(bytes) => ElementChange::Value(bytes, moment.expiry),
                    Bound::Null => ElementChange::Null,
                    Bound::Unset => ElementChange::Unset,
                };
                binding.claim_read()?;
                builder.list_element(column, index, &change, moment.stamp, moment.now_s);
                Ok(())
            }
            Action::DeleteAtIndex(index) => {
                if let Some(index) = list_index(&index.bind(binding)?)? {
                    binding.claim_read()?;
                    builder.list_element(column, index, &ElementChange::Delete, moment.stamp, moment.now_s);
                }
                Ok(())
            }
            Action::RemoveValues(values) => self.remove_values(values, builder, moment, binding),
            Action::NeedsRead(what) => Err(invalid(format!("{what} is not supported yet"))),
        }
    }

    /// `l = l - v`: every element that equals one of the values goes.
    fn remove_values(
        &self,
        values: &Term,
        builder: &mut MutationBuilder<'_>,
        moment: &Moment,
        binding: &Binding<'_>,
    ) -> Result<(), CqlError> {
        let values = values.bind(binding)?;
        let Some(bytes) = values.bytes() else { return Ok(()) };
        let elements = collection::elements(&self.ty, bytes).map_err(|error| invalid(error.to_string()))?;
        claim(bytes.len(), binding)?;
        binding.claim_read()?;
        // Nulls equal no element.
        builder.list_removal(self.column, elements.flatten(), moment.stamp, moment.now_s);
        Ok(())
    }

    /// The elements of a value, each as a cell.
    fn add(
        &self,
        value: Option<&[u8]>,
        builder: &mut MutationBuilder<'_>,
        moment: &Moment,
        binding: &Binding<'_>,
        place: Place,
    ) -> Result<(), CqlError> {
        let Some(value) = value else { return Ok(()) };
        let (stamp, expiry, column) = (moment.stamp, moment.expiry, self.column);
        match &self.ty {
            CqlType::Set(_) => {
                for element in parts(&self.ty, Some(value))? {
                    claim(element.len(), binding)?;
                    builder.cell(column, Some(checked_path(element, "Set elements")?), stamp, expiry, &[]);
                }
            }
            CqlType::Map(..) => {
                let entries = collection::map_entries(&self.ty, value).map_err(|error| invalid(error.to_string()))?;
                for (key, value) in entries {
                    claim(key.len() + value.len(), binding)?;
                    builder.cell(column, Some(checked_path(key, "Map keys")?), stamp, expiry, value);
                }
            }
            CqlType::Udt(_) => {
                let fields = collection::elements(&self.ty, value).map_err(|error| invalid(error.to_string()))?;
                for (at, field) in (0u16..).zip(fields) {
                    if let Some(field) = field {
                        claim(field.len(), binding)?;
                        builder.cell(column, Some(&at.to_be_bytes()), stamp, expiry, field);
                    }
                }
            }
            _ => {
                let elements: Vec<&[u8]> = parts(&self.ty, Some(value))?.collect();
                if elements.iter().any(|element| element.is_empty()) && empty_is_null(&self.ty) {
                    return Err(invalid("null is not supported inside collections"));
                }
                let paths = ListPaths::take(elements.len() as u64, binding, place);
                for (path, element) in paths.zip(elements) {
                    claim(path.len() + element.len(), binding)?;
                    builder.cell(column, Some(&path), stamp, expiry, element);
                }
            }
        }
        Ok(())
    }
}

/// What a counter is changed by; `None` where that is not set.
fn delta(value: &Bound<'_>, negate: bool) -> Result<Option<i64>, CqlError> {
    let delta = match value {
        Bound::Unset => return Ok(None),
        Bound::Null => return Err(invalid("Invalid null value for counter increment")),
        Bound::Bytes(bytes) => {
            number::int64(bytes).ok_or_else(|| invalid("Invalid empty value for counter increment"))?
        }
    };
    if !negate {
        return Ok(Some(delta));
    }
    let negated = delta.checked_neg().ok_or_else(|| {
        let what = "overflows supported counter precision (signed 8 bytes integer)";
        invalid(format!("The negation of {delta} {what}"))
    });
    negated.map(Some)
}

/// A place in a list; `None` where it is not set.
fn list_index(value: &Bound<'_>) -> Result<Option<i32>, CqlError> {
    match value {
        Bound::Unset => Ok(None),
        Bound::Null => Err(invalid("Invalid null value for list index")),
        Bound::Bytes(bytes) => {
            number::int32(bytes).map(Some).ok_or_else(|| invalid("Invalid empty value for list index"))
        }
    }
}

/// What each encoded cell is counted with besides its value.
const CELL_BYTES: usize = 16;

/// Counts a cell, or the cells of a value, before they are encoded.
fn claim(bytes: usize, binding: &Binding<'_>) -> Result<(), CqlError> {
    binding.claim(bytes + CELL_BYTES)
}

/// A cell with this value, or a tombstone where it is null; nothing where it is unset.
fn put(
    builder: &mut MutationBuilder<'_>,
    column: ColumnId,
    path: Option<&[u8]>,
    moment: &Moment,
    value: &Bound<'_>,
    binding: &Binding<'_>,
) -> Result<(), CqlError> {
    claim(path.map_or(0, <[u8]>::len) + value.bytes().map_or(0, <[u8]>::len), binding)?;
    match value {
        Bound::Bytes(bytes) => builder.cell(column, path, moment.stamp, moment.expiry, bytes),
        Bound::Null => builder.cell_tombstone(column, path, moment.stamp, moment.now_s),
        Bound::Unset => builder,
    };
    Ok(())
}

/// The elements of a list or set, none of them null.
fn parts<'a>(ty: &CqlType, value: Option<&'a [u8]>) -> Result<impl Iterator<Item = &'a [u8]> + use<'a>, CqlError> {
    let elements = value.map(|value| collection::elements(ty, value)).transpose();
    let elements = elements.map_err(|error| invalid(error.to_string()))?;
    if elements.clone().into_iter().flatten().any(|element| element.is_none()) {
        return Err(invalid("null is not supported inside collections"));
    }
    Ok(elements.into_iter().flatten().flatten())
}

/// Whether elements of no bytes mean null in a list of this type: Cassandra 5.0 fails on them, in lists alone.
fn empty_is_null(list: &CqlType) -> bool {
    let is_null = |ty: &CqlType| ty.is_empty_value_meaningless() && !matches!(ty, CqlType::Tuple(_) | CqlType::Udt(_));
    collection::element_type(list, 0).is_some_and(|element| is_null(element.unfrozen()))
}

fn path_of<'a>(key: &'a Bound<'_>, what: &str) -> Result<&'a [u8], CqlError> {
    match key {
        Bound::Bytes(bytes) => checked_path(bytes, "Map keys"),
        Bound::Null => Err(invalid(format!("Invalid null {what}"))),
        Bound::Unset => Err(invalid(format!("Invalid unset {what}"))),
    }
}

fn checked_path<'a>(path: &'a [u8], what: &str) -> Result<&'a [u8], CqlError> {
    if path.len() > PATH_BYTES_MAX {
        let got = path.len();
        return Err(invalid(format!("{what} are limited to {PATH_BYTES_MAX} bytes but {got} bytes were provided")));
    }
    Ok(path)
}

/// On which side of a list's elements new ones go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Behind,
    Before,
}

/// Microseconds since 1970 at 2010-01-01: what goes before others gets a time mirrored here, so that it is smaller
/// than the times of all that went behind (Cassandra's `Lists.Prepender`).
const MIRROR_US: i64 = 1_262_304_000_000_000;

/// Paths of new list elements: time in microseconds, a number within the request, random bits; all of them so that
/// paths sort as elements stand.
struct ListPaths {
    time_us: u64,
    number: u32,
    left: u64,
    random: u32,
}

impl ListPaths {
    fn take(count: u64, binding: &Binding<'_>, place: Place) -> ListPaths {
        let context = binding.context();
        let first = binding.take_numbers(count) as u32;
        let (time_us, number) = match place {
            Place::Behind => (context.now_us, first),
            // Later statements of the request go before earlier ones, but each keeps its own order.
            Place::Before => (2 * MIRROR_US - context.now_us, u32::MAX - first - (count as u32)),
        };
        // The sign bit flipped, so that times before 1970 sort first.
        let time_us = time_us.cast_unsigned() ^ (1 << 63);
        ListPaths { time_us, number, left: count, random: context.random[0] as u32 }
    }
}

impl Iterator for ListPaths {
    type Item = [u8; 16];

    fn next(&mut self) -> Option<[u8; 16]> {
        self.left = self.left.checked_sub(1)?;
        let mut path = [0; 16];
        path[..8].copy_from_slice(&self.time_us.to_be_bytes());
        path[8..12].copy_from_slice(&self.number.to_be_bytes());
        path[12..].copy_from_slice(&self.random.to_be_bytes());
        self.number = self.number.wrapping_add(1);
        Some(path)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::mutation::resolve::READS_MAX;
    use crate::mutation::{Entry, MutationView};
    use crate::plan::testing;
    use crate::plan::write::testing::{check, check_refused, words, write};
    use crate::protocol::Value;
    use crate::schema::Schema;
    use crate::types::collection::pack_list;

    fn schema() -> Schema {
        testing::schema(&[
            "CREATE TYPE ty (a int, b text)",
            "CREATE TABLE t (k int PRIMARY KEY, v int, s set<int>, m map<int, int>, l list<int>, u ty, n set<int>, \
             fl frozen<list<int>>, fm frozen<map<int, int>>, fu frozen<ty>, tu tuple<int, int>, lt list<text>)",
            "CREATE TABLE n (k int PRIMARY KEY, a counter, b counter)",
        ])
    }

    fn check_set(assignment: &str, expected: &str) {
        check(
            &schema(),
            &format!("UPDATE t SET {assignment} WHERE k = 1"),
            &[format!("t 1: row() {expected}").as_str()],
        );
    }

    fn check_wrong(assignment: &str, expected: &str) {
        check_refused(&schema(), &format!("UPDATE t SET {assignment} WHERE k = 1"), expected);
    }

    #[test]
    fn a_whole_collection_replaces_what_was_there() {
        check_set("s = {2, 1, 2}", "-s@before s[1]= s[2]=");
        check_set("s = {}", "-s@before");
        check_set("s = null", "-s@before");
        check_set("m = {2: 3, 1: 4}", "-m@before m[1]=4 m[2]=3");
        check_set("m = {}", "-m@before");
        check_set("u = {a: 7}", "-u@before u[0]=7");
        check_set("u = {b: 'A', a: null}", "-u@before u[1]=41");
    }

    #[test]
    fn parts_are_cells_of_their_own() {
        check_set("s = s + {1}", "s[1]=");
        check_set("s = s - {1, 2}", "-s[1] -s[2]");
        check(&schema(), "UPDATE t SET s += null WHERE k = 1", &["t 1: row()"]);
        check_set("m = m + {1: 2}", "m[1]=2");
        check_set("m = m - {1}", "-m[1]");
        check_set("m[1] = 2", "m[1]=2");
        check_set("m[1] = null", "-m[1]");
        check_set("u.b = 'A'", "u[1]=41");
        check_set("u.a = null", "-u[0]");
    }

    #[test]
    fn frozen_values_are_one_cell() {
        check_set("fl = [1]", "fl=10000000400000001");
        check_set("fl = null", "-fl");
        check_set("fu = {a: 1}", "fu=400000001ffffffff");
        check_set("tu = (1, null)", "tu=400000001ffffffff");
    }

    #[test]
    fn deletions_of_columns_and_parts() {
        let schema = schema();
        for (what, expected) in
            [("s", "-s"), ("v", "-v"), ("s[1]", "-s[1]"), ("m[1]", "-m[1]"), ("u.b", "-u[1]"), ("s, m", "-s -m")]
        {
            check(&schema, &format!("DELETE {what} FROM t WHERE k = 1"), &[format!("t 1: row() {expected}").as_str()]);
        }
        let frozen = "Invalid deletion operation for frozen collection column fm";
        check_refused(&schema, "DELETE fm[1] FROM t WHERE k = 1", frozen);
        let field = "Frozen UDT column fu does not support field deletions";
        check_refused(&schema, "DELETE fu.a FROM t WHERE k = 1", field);
        check_refused(
            &schema,
            "DELETE v[1] FROM t WHERE k = 1",
            "Invalid deletion operation for non collection column v",
        );
    }

    /// The values of a plan's list cells in the order of their paths, which is the list's.
    fn list(cql: &str) -> Vec<i32> {
        let plan = write(&schema(), cql, &[]).unwrap();
        let view = MutationView::parse(&plan.mutations[0].bytes).unwrap();
        let mut cells: Vec<(Vec<u8>, i32)> = view
            .entries()
            .filter_map(|entry| match entry {
                Entry::Cell(cell) => {
                    Some((cell.path.unwrap().to_vec(), i32::from_be_bytes(cell.value.try_into().unwrap())))
                }
                _ => None,
            })
            .collect();
        cells.sort();
        cells.into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn list_elements_keep_their_order() {
        assert_eq!(list("UPDATE t SET l = [3, 1, 2] WHERE k = 1"), [3, 1, 2]);
        assert_eq!(list("UPDATE t SET l = l + [3, 1] WHERE k = 1"), [3, 1]);
        assert_eq!(list("UPDATE t SET l = [3, 1] + l WHERE k = 1"), [3, 1]);
        let batch = |first: &str, second: &str| {
            list(&format!(
                "BEGIN BATCH UPDATE t SET l = {first} WHERE k = 1; UPDATE t SET l = {second} WHERE k = 1; APPLY BATCH"
            ))
        };
        assert_eq!(batch("l + [1, 2]", "l + [3, 4]"), [1, 2, 3, 4]);
        assert_eq!(batch("[3, 4] + l", "[1, 2] + l"), [1, 2, 3, 4]);
        assert_eq!(batch("l + [2]", "[1] + l"), [1, 2]);
    }

    #[test]
    fn operations_fit_their_columns() {
        for (assignment, expected) in [
            ("v = v + 1", "Invalid operation (v = v + 1) for non counter column v"),
            ("v[0] = 1", "Invalid operation (v[0] = 1) for non collection column v"),
            ("v.a = 1", "Invalid operation (v.a = 1) for non-UDT column v"),
            ("tu = tu + (1, 1)", "Invalid operation (tu = tu + (1, 1)) for tuple column tu"),
            ("fl = fl + [1]", "Invalid operation (fl = fl + [1]) for frozen collection column fl"),
            ("fm[1] = 2", "Invalid operation (fm[1] = 2) for frozen collection column fm"),
            ("fu.a = 1", "Invalid operation (fu.a = 1) for frozen UDT column fu"),
            ("s[1] = 2", "Invalid operation (s[1] = 2) for set column s"),
            ("s = {1} + s", "Invalid operation (s = {1} - s) for non list column s"),
            ("m = m + {1}", "Value for a map addition has to be a map, but was: '{1}'"),
            ("m = m - {1: 2}", "Value for a map substraction has to be a set, but was: '{1: 2}'"),
            ("u.x = 1", "UDT column u does not have a field named x"),
            ("m[null] = 1", "Invalid null map key"),
            ("l[null] = 1", "Invalid null value for list index"),
        ] {
            check_wrong(assignment, expected);
        }
    }

    #[test]
    fn bound_collections_are_sorted_and_hold_no_null() {
        let (one, two) = (1i32.to_be_bytes(), 2i32.to_be_bytes());
        let value = pack_list([Some(two.as_slice()), Some(&one), Some(&two)]);
        let cql = "UPDATE t SET s = ? WHERE k = 1";
        assert_eq!(words(&schema(), cql, &[Value::Bytes(&value)]).unwrap(), ["t 1: row() -s@before s[1]= s[2]="]);
        assert_eq!(words(&schema(), cql, &[Value::Unset]).unwrap(), ["t 1: row()"]);
        let holed = pack_list([None]);
        let error = words(&schema(), "UPDATE t SET l = ? WHERE k = 1", &[Value::Bytes(&holed)]).unwrap_err();
        assert_eq!(error, "null is not supported inside collections");
        let error = words(&schema(), "UPDATE t SET m[?] = 1 WHERE k = 1", &[Value::Unset]).unwrap_err();
        assert_eq!(error, "Invalid unset map key");
    }

    #[test]
    fn lists_hold_no_empty_numbers() {
        let empty = pack_list([Some(&[][..])]);
        let bind = |cql| words(&schema(), cql, &[Value::Bytes(&empty)]).map(|_| ());
        for cql in ["UPDATE t SET l = ? WHERE k = 1", "UPDATE t SET l = l + ? WHERE k = 1"] {
            assert_eq!(bind(cql), Err("null is not supported inside collections".to_owned()), "{cql}");
        }
        assert_eq!(bind("UPDATE t SET s = ? WHERE k = 1"), Ok(()));
        assert_eq!(bind("UPDATE t SET lt = ? WHERE k = 1"), Ok(()));
    }

    #[test]
    fn places_in_lists_are_found_by_the_owner() {
        let check = |cql: &str, expected: &str| check(&schema(), cql, &[expected]);
        check("UPDATE t SET l[2] = 5 WHERE k = 1", "?t 1: row() l#2=5");
        check("UPDATE t USING TTL 9 SET v = 1, l[-1] = 5 WHERE k = 1", "?t 1: row() v=1~9 l#-1=5~9");
        check("UPDATE t USING TIMESTAMP 7 SET l[0] = null WHERE k = 1", "?t 1: row() l#0=null@7");
        check("DELETE l[0], s[1] FROM t WHERE k = 1", "?t 1: row() l#0=deleted -s[1]");
        check("UPDATE t SET l = l - [1, 2] WHERE k = 1", "?t 1: row() l-=[1,2]");
        check("UPDATE t SET l -= [] WHERE k = 1", "?t 1: row() l-=[]");
        check("UPDATE t SET l = l - null WHERE k = 1", "t 1: row()");
    }

    #[test]
    fn indexes_and_values_of_lists_may_be_bound() {
        let one = 1i32.to_be_bytes();
        let cql = "UPDATE t SET l[?] = ? WHERE k = 1";
        let set = |index, value| words(&schema(), cql, &[index, value]).map(|words| words.concat());
        let index = Value::Bytes(&one);
        assert_eq!(set(index, index).unwrap(), "?t 1: row() l#1=1");
        assert_eq!(set(index, Value::Null).unwrap(), "?t 1: row() l#1=null");
        assert_eq!(set(index, Value::Unset).unwrap(), "?t 1: row() l#1=unset");
        for (wrong, expected) in [(Value::Null, "null"), (Value::Unset, "unset"), (Value::Bytes(&[]), "empty")] {
            assert_eq!(set(wrong, index).unwrap_err(), format!("Invalid {expected} value for list index"));
        }
        let delete = |index| words(&schema(), "DELETE l[?] FROM t WHERE k = 1", &[index]).map(|words| words.concat());
        assert_eq!(delete(Value::Unset).unwrap(), "t 1: row()");
        assert_eq!(delete(Value::Null).unwrap_err(), "Invalid null value for list index");
        let holed = pack_list([None, Some(one.as_slice())]);
        let cql = "UPDATE t SET l = l - ? WHERE k = 1";
        assert_eq!(words(&schema(), cql, &[Value::Bytes(&holed)]).unwrap(), ["?t 1: row() l-=[1]"]);
        assert_eq!(words(&schema(), cql, &[Value::Unset]).unwrap(), ["t 1: row()"]);
    }

    #[test]
    fn counters_are_added_to() {
        let check = |cql: &str, expected: &str| check(&schema(), cql, &[expected]);
        check("UPDATE n SET a = a + 5, b = b - 3 WHERE k = 1", "?n 1: row() a+=5 b+=-3");
        check("UPDATE n SET a += 1, a -= -2 WHERE k = 1", "?n 1: row() a+=1 a+=2");
        check("DELETE a FROM n WHERE k = 1", "?n 1: row() -a");
        check("DELETE FROM n WHERE k = 1", "n 1: -all");
        let error =
            "The negation of -9223372036854775808 overflows supported counter precision (signed 8 bytes integer)";
        check_refused(&schema(), "UPDATE n SET a = a - -9223372036854775808 WHERE k = 1", error);
        for (assignment, expected) in [
            (
                "a = 5",
                "Cannot set the value of counter column a (counters can only be incremented/decremented, not set)",
            ),
            ("a = a + null", "Invalid null value for counter increment/decrement"),
            ("a = 1 + a", "Invalid operation (a = 1 - a) for non list column a"),
            ("a[0] = 1", "Invalid operation (a[0] = 1) for non collection column a"),
        ] {
            check_refused(&schema(), &format!("UPDATE n SET {assignment} WHERE k = 1"), expected);
        }
        check_refused(
            &schema(),
            "DELETE a.b FROM n WHERE k = 1",
            "Invalid field deletion operation for non-UDT column a",
        );
        let add = |value| words(&schema(), "UPDATE n SET a = a - ? WHERE k = 1", &[value]).map(|words| words.concat());
        let seven = 7i64.to_be_bytes();
        assert_eq!(add(Value::Bytes(&seven)).unwrap(), "?n 1: row() a+=-7");
        assert_eq!(add(Value::Unset).unwrap(), "n 1: row()");
        assert_eq!(add(Value::Null).unwrap_err(), "Invalid null value for counter increment");
        assert_eq!(add(Value::Bytes(&[])).unwrap_err(), "Invalid empty value for counter increment");
    }

    #[test]
    fn what_must_be_read_has_a_limit() {
        let cql = |times: usize| format!("UPDATE n SET {} WHERE k = 1", vec!["a = a + 1"; times].join(", "));
        assert!(words(&schema(), &cql(READS_MAX), &[]).is_ok());
        let error = words(&schema(), &cql(READS_MAX + 1), &[]).unwrap_err();
        assert!(error.ends_with("at most 4096 times"), "{error}");
    }
}
