//! The values of restrictions once the bind variables are known, with Cassandra's rules for null and unset.

use crate::plan::select::restriction::{InList, Restriction, Tuple};
use crate::plan::term::{Binding, Bound, Term};
use crate::protocol::CqlError;
use crate::schema::{Column, Table, key};
use crate::types::{CqlType, collection};

/// One value for each column of a restriction; `None` is null.
pub(super) type Row = Vec<Option<Vec<u8>>>;

/// What a restriction's values are for: it decides how nulls are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To choose partitions or rows.
    Choose,
    /// To filter.
    Filter,
    /// An end of a slice: a null of a single column is let through.
    SliceEnd,
}

fn invalid<T>(message: String) -> Result<T, CqlError> {
    Err(CqlError::invalid(message))
}

/// The bytes of a term; null is `None`.
pub(super) fn bind_term(
    term: &Term,
    binding: &Binding<'_>,
    unset: impl FnOnce() -> String,
) -> Result<Option<Vec<u8>>, CqlError> {
    match term.bind(binding)? {
        Bound::Null => Ok(None),
        Bound::Unset => invalid(unset()),
        Bound::Bytes(bytes) => {
            binding.claim(bytes.len())?;
            Ok(Some(bytes.into_owned()))
        }
    }
}

/// The columns of one restriction and how its values are used.
pub(super) struct Receiver<'a> {
    pub table: &'a Table,
    pub restriction: &'a Restriction,
    pub purpose: Purpose,
}

impl Receiver<'_> {
    fn columns(&self) -> impl Iterator<Item = &Column> {
        self.restriction.columns(self.table)
    }

    fn name(&self, at: usize) -> &str {
        self.columns().nth(at).map_or("", |column| &column.name)
    }

    fn unset_text(&self, at: usize) -> String {
        match self.purpose {
            Purpose::Filter => format!("Unsupported unset value for column {}", self.name(at)),
            _ => format!("Invalid unset value for column {}", self.name(at)),
        }
    }

    /// The values of a tuple, as many as there are columns.
    pub fn row(&self, tuple: &Tuple, binding: &Binding<'_>) -> Result<Row, CqlError> {
        match tuple {
            Tuple::Columns(terms) => {
                terms.iter().enumerate().map(|(at, term)| bind_term(term, binding, || self.unset_text(at))).collect()
            }
            Tuple::Whole(term) => {
                let bytes = bind_term(term, binding, || self.unset_text(0))?;
                let Some(bytes) = bytes else {
                    return invalid(format!("Invalid null value for {}", self.name(0)));
                };
                Ok(split_tuple(term.ty(), &bytes, self.columns().count()))
            }
        }
    }

    /// The values of an equality, none of them null.
    pub fn equal(&self, tuple: &Tuple, binding: &Binding<'_>) -> Result<Vec<Vec<u8>>, CqlError> {
        let row = self.row(tuple, binding)?;
        self.without_nulls(
            row,
            if self.restriction.is_multi { "value for column" } else { "value in condition for column" },
        )
    }

    fn without_nulls(&self, row: Row, what: &str) -> Result<Vec<Vec<u8>>, CqlError> {
        let mut values = Vec::with_capacity(row.len());
        for (at, value) in row.into_iter().enumerate() {
            let Some(value) = value else {
                let name = self.name(at);
                return invalid(match self.purpose {
                    Purpose::Filter => format!("Unsupported null value for column {name}"),
                    _ => format!("Invalid null {what} {name}"),
                });
            };
            check_length(&value, self.purpose)?;
            values.push(value);
        }
        Ok(values)
    }

    /// The rows of an IN, none of them with a null.
    pub fn one_of(&self, list: &InList, binding: &Binding<'_>) -> Result<Vec<Vec<Vec<u8>>>, CqlError> {
        let rows = match list {
            InList::Tuples(tuples) => {
                tuples.iter().map(|tuple| self.row(tuple, binding)).collect::<Result<Vec<_>, _>>()?
            }
            InList::Whole(term) => {
                let Some(bytes) = bind_term(term, binding, || self.unset_text(0))? else {
                    return invalid(match (self.restriction.is_multi, self.purpose) {
                        (true, _) => "Invalid null value for IN restriction".to_owned(),
                        (false, Purpose::Filter) => format!("Unsupported null value for column {}", self.name(0)),
                        (false, _) => format!("Invalid null value for column {}", self.name(0)),
                    });
                };
                self.rows_of(term.ty(), &bytes)
            }
        };
        if self.restriction.is_multi && rows.iter().flatten().any(Option::is_none) {
            let names: Vec<&str> = self.columns().map(|column| column.name.as_str()).collect();
            return invalid(format!("Invalid null value in condition for columns: [{}]", names.join(", ")));
        }
        rows.into_iter().map(|row| self.without_nulls(row, "value in condition for column")).collect()
    }

    fn rows_of(&self, list: &CqlType, bytes: &[u8]) -> Vec<Row> {
        let elements = collection::elements(list, bytes).into_iter().flatten();
        let split = |element: Option<&[u8]>| match (element, list.unfrozen()) {
            (Some(element), CqlType::List(tuple)) if self.restriction.is_multi => {
                split_tuple(tuple, element, self.columns().count())
            }
            (element, _) => vec![element.map(<[u8]>::to_vec)],
        };
        elements.map(split).collect()
    }

    /// The values of a slice's end. A null of one column alone is let through; in a tuple it is refused.
    pub fn slice_end(&self, tuple: &Tuple, binding: &Binding<'_>) -> Result<Row, CqlError> {
        let row = self.row(tuple, binding)?;
        if row.len() == 1 && self.purpose == Purpose::SliceEnd && !self.restriction.is_multi {
            if let Some(value) = row.iter().flatten().next() {
                check_length(value, self.purpose)?;
            }
            return Ok(row);
        }
        let values = self.without_nulls(row, "value in condition for column")?;
        Ok(values.into_iter().map(Some).collect())
    }
}

fn check_length(value: &[u8], purpose: Purpose) -> Result<(), CqlError> {
    if purpose != Purpose::Filter && value.len() > key::PARTITION_KEY_BYTES_MAX {
        return invalid(format!(
            "Key length of {} is longer than maximum of {}",
            value.len(),
            key::PARTITION_KEY_BYTES_MAX
        ));
    }
    Ok(())
}

/// The fields of a tuple; those that it leaves out are null.
fn split_tuple(ty: &CqlType, bytes: &[u8], fields: usize) -> Row {
    let elements = collection::elements(ty, bytes).into_iter().flatten();
    let mut row: Row = elements.map(|element| element.map(<[u8]>::to_vec)).collect();
    row.resize(fields, None);
    row
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::cql::ast::Statement;
    use crate::plan::markers::Markers;
    use crate::plan::select::relation::{RelationBuilder, Restricted};
    use crate::plan::select::restriction::RestrictionKind;
    use crate::plan::term::{Scope, Uses};
    use crate::plan::testing;
    use crate::protocol::Value;

    /// What the first relation of a WHERE binds to: its rows, values in hex, or the error.
    fn bind(relation: &str, values: &[Value<'_>], purpose: Purpose) -> String {
        let schema =
            testing::schema(&["CREATE TABLE t (k int, a tinyint, b tinyint, v tinyint, PRIMARY KEY (k, a, b))"]);
        let table = schema.table("ks", "t").unwrap();
        let parsed = crate::cql::parse(&format!("SELECT k FROM t WHERE {relation}")).unwrap();
        let Statement::Select(select) = &parsed.statement else { panic!("{relation}") };
        let mut markers = Markers::new(&parsed.bind_markers);
        let mut scope = Scope::new(&schema, "ks", Some(table), &mut markers);
        let mut builder = RelationBuilder { scope: &mut scope, table };
        let Restricted::Columns(restriction) = builder.restriction(&select.relations[0]).unwrap() else { panic!() };
        let uses = Uses::default();
        let binding = Binding::new(values, testing::context(), &uses);
        let receiver = Receiver { table, restriction: &restriction, purpose };
        let rows: Result<Vec<Row>, CqlError> = match &restriction.kind {
            RestrictionKind::Equal(tuple) => {
                receiver.equal(tuple, &binding).map(|row| vec![row.into_iter().map(Some).collect()])
            }
            RestrictionKind::In(list) => receiver
                .one_of(list, &binding)
                .map(|rows| rows.into_iter().map(|row| row.into_iter().map(Some).collect()).collect()),
            RestrictionKind::Slice { lower, .. } => {
                receiver.slice_end(&lower.as_ref().unwrap().values, &binding).map(|row| vec![row])
            }
            RestrictionKind::Contains(_) => panic!("{relation}"),
        };
        match rows {
            Ok(rows) => format!("{rows:?}"),
            Err(error) => error.message().to_owned(),
        }
    }

    #[test]
    fn values_come_one_by_one_or_in_tuples() {
        let choose = Purpose::Choose;
        assert_eq!(bind("a = 1", &[], choose), "[[Some([1])]]");
        assert_eq!(bind("(a, b) = (1, 2)", &[], choose), "[[Some([1]), Some([2])]]");
        let pair = collection::pack_tuple([Some(&[1u8][..]), Some(&[2])]);
        assert_eq!(bind("(a, b) = ?", &[Value::Bytes(&pair)], choose), "[[Some([1]), Some([2])]]");
        let list = collection::pack_list([Some(pair.as_slice())]);
        assert_eq!(bind("(a, b) IN ?", &[Value::Bytes(&list)], choose), "[[Some([1]), Some([2])]]");
        assert_eq!(bind("a IN (1, 2)", &[], choose), "[[Some([1])], [Some([2])]]");
        assert_eq!(bind("a IN ()", &[], choose), "[]");
        assert_eq!(bind("a > null", &[], Purpose::SliceEnd), "[[None]]");
    }

    #[test]
    fn nulls_are_refused_in_the_words_of_their_place() {
        let (choose, filter, end) = (Purpose::Choose, Purpose::Filter, Purpose::SliceEnd);
        assert_eq!(bind("a = null", &[], choose), "Invalid null value in condition for column a");
        assert_eq!(bind("(a, b) = (1, null)", &[], choose), "Invalid null value for column b");
        let short = collection::pack_tuple([Some(&[1u8][..])]);
        assert_eq!(bind("(a, b) = ?", &[Value::Bytes(&short)], choose), "Invalid null value for column b");
        assert_eq!(bind("(a, b) > (1, null)", &[], end), "Invalid null value in condition for column b");
        assert_eq!(
            bind("(a, b) IN ((1, null), (1, 1))", &[], choose),
            "Invalid null value in condition for columns: [a, b]"
        );
        assert_eq!(bind("(a, b) IN ?", &[Value::Null], choose), "Invalid null value for IN restriction");
        assert_eq!(bind("a IN ?", &[Value::Null], choose), "Invalid null value for column a");
        assert_eq!(bind("v = null", &[], filter), "Unsupported null value for column v");
        assert_eq!(bind("v > null", &[], filter), "Unsupported null value for column v");
    }

    #[test]
    fn unset_values_are_refused() {
        assert_eq!(bind("a = ?", &[Value::Unset], Purpose::Choose), "Invalid unset value for column a");
        assert_eq!(bind("a > ?", &[Value::Unset], Purpose::SliceEnd), "Invalid unset value for column a");
        assert_eq!(bind("v = ?", &[Value::Unset], Purpose::Filter), "Unsupported unset value for column v");
    }
}
