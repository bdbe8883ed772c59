//! One restriction of a WHERE clause: what the relations on a column, or on some clustering columns at once, come to.

use crate::plan::term::Term;
use crate::protocol::CqlError;
use crate::schema::{Column, ColumnKind, Table};

/// A restriction of `columns`, which are more than one only where they are neighbours in the clustering.
#[derive(Debug)]
pub(super) struct Restriction {
    /// Their places in `Table::columns`.
    pub columns: Vec<usize>,
    /// Whether a relation of the form `(a, b) = …` made it.
    pub is_multi: bool,
    pub kind: RestrictionKind,
}

#[derive(Debug)]
pub(super) enum RestrictionKind {
    Equal(Tuple),
    In(InList),
    Slice { lower: Option<Bound>, upper: Option<Bound> },
    Contains(Contents),
}

/// One value for each column.
#[derive(Debug)]
pub(super) enum Tuple {
    Columns(Vec<Term>),
    /// A marker for the whole tuple.
    Whole(Term),
}

#[derive(Debug)]
pub(super) enum InList {
    Tuples(Vec<Tuple>),
    /// A marker for the whole list.
    Whole(Term),
}

#[derive(Debug)]
pub(super) struct Bound {
    pub values: Tuple,
    pub is_inclusive: bool,
}

/// What a collection must hold.
#[derive(Debug, Default)]
pub(super) struct Contents {
    pub values: Vec<Term>,
    pub keys: Vec<Term>,
    pub entries: Vec<(Term, Term)>,
}

impl Restriction {
    pub fn is_slice(&self) -> bool {
        matches!(self.kind, RestrictionKind::Slice { .. })
    }

    pub fn is_contains(&self) -> bool {
        matches!(self.kind, RestrictionKind::Contains(_))
    }

    pub fn is_equal(&self) -> bool {
        matches!(self.kind, RestrictionKind::Equal(_))
    }

    pub fn is_in(&self) -> bool {
        matches!(self.kind, RestrictionKind::In(_))
    }

    /// Whether it restricts columns of the primary key.
    pub fn is_of_key(&self, table: &Table) -> bool {
        let kind = table.columns.get(self.first()).map(|column| column.kind);
        matches!(kind, Some(ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. }))
    }

    /// The place in `Table::columns` of the first column.
    pub fn first(&self) -> usize {
        self.columns.first().copied().unwrap_or_default()
    }

    pub fn last(&self) -> usize {
        self.columns.last().copied().unwrap_or_default()
    }

    pub fn columns<'t>(&'t self, table: &'t Table) -> impl Iterator<Item = &'t Column> {
        self.columns.iter().filter_map(|at| table.columns.get(*at))
    }

    fn names(&self, table: &Table, other: &Restriction) -> String {
        let common = self.columns.iter().filter(|at| other.columns.contains(at));
        let names: Vec<&str> =
            common.filter_map(|at| table.columns.get(*at)).map(|column| column.name.as_str()).collect();
        names.join(", ")
    }

    /// Both restrictions in one, where that is possible.
    pub fn merge(self, other: Restriction, table: &Table) -> Result<Restriction, CqlError> {
        let names = self.names(table, &other);
        let refuse = |text: String| Err(CqlError::invalid(text));
        match (self.kind, other.kind) {
            (RestrictionKind::Equal(_), _) => {
                refuse(format!("{names} cannot be restricted by more than one relation if it includes an Equal"))
            }
            (RestrictionKind::In(_), _) => {
                refuse(format!("{names} cannot be restricted by more than one relation if it includes a IN"))
            }
            (RestrictionKind::Slice { lower, upper }, RestrictionKind::Slice { lower: start, upper: end }) => {
                if self.columns.first() != other.columns.first() {
                    return refuse(format!(
                        "Column \"{names}\" cannot be restricted by two inequalities not starting with the same column"
                    ));
                }
                if lower.is_some() && start.is_some() {
                    return refuse(format!("More than one restriction was found for the start bound on {names}"));
                }
                if upper.is_some() && end.is_some() {
                    return refuse(format!("More than one restriction was found for the end bound on {names}"));
                }
                let kind = RestrictionKind::Slice { lower: lower.or(start), upper: upper.or(end) };
                let columns = if self.columns.len() >= other.columns.len() { self.columns } else { other.columns };
                Ok(Restriction { columns, is_multi: self.is_multi || other.is_multi, kind })
            }
            (RestrictionKind::Slice { .. }, _) => refuse(format!(
                "Column \"{names}\" cannot be restricted by both an equality and an inequality relation"
            )),
            (RestrictionKind::Contains(mut held), RestrictionKind::Contains(more)) => {
                held.values.extend(more.values);
                held.keys.extend(more.keys);
                held.entries.extend(more.entries);
                Ok(Restriction { columns: self.columns, is_multi: false, kind: RestrictionKind::Contains(held) })
            }
            (RestrictionKind::Contains(_), _) => refuse(format!(
                "Collection column {names} can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::plan::testing;

    fn slice(columns: &[usize], lower: bool, upper: bool) -> Restriction {
        let bound = |wanted: bool| wanted.then(|| Bound { values: Tuple::Columns(Vec::new()), is_inclusive: false });
        let kind = RestrictionKind::Slice { lower: bound(lower), upper: bound(upper) };
        Restriction { columns: columns.to_vec(), is_multi: columns.len() > 1, kind }
    }

    fn equal(column: usize) -> Restriction {
        let kind = RestrictionKind::Equal(Tuple::Columns(Vec::new()));
        Restriction { columns: vec![column], is_multi: false, kind }
    }

    fn table() -> std::rc::Rc<Table> {
        testing::table("t", "k int, a int, b int, v int, PRIMARY KEY (k, a, b)")
    }

    #[test]
    fn the_two_ends_of_a_slice_are_one_restriction() {
        let merged = slice(&[1], true, false).merge(slice(&[1, 2], false, true), &table()).unwrap();
        assert_eq!((merged.columns.as_slice(), merged.is_multi), (&[1, 2][..], true));
        assert!(matches!(merged.kind, RestrictionKind::Slice { lower: Some(_), upper: Some(_) }));
        assert_eq!((merged.first(), merged.last()), (1, 2));
    }

    fn check_refused(first: Restriction, second: Restriction, expected: &str) {
        assert_eq!(first.merge(second, &table()).unwrap_err().message(), expected);
    }

    #[test]
    fn what_cannot_be_one_names_the_columns_in_common() {
        let start = "More than one restriction was found for the start bound on a, b";
        check_refused(slice(&[1, 2], true, false), slice(&[1, 2], true, false), start);
        let end = "More than one restriction was found for the end bound on a";
        check_refused(slice(&[1, 2], true, true), slice(&[1], false, true), end);
        let twice = "v cannot be restricted by more than one relation if it includes an Equal";
        check_refused(equal(3), slice(&[3], true, false), twice);
        let both = "Column \"v\" cannot be restricted by both an equality and an inequality relation";
        check_refused(slice(&[3], true, false), equal(3), both);
    }
}
