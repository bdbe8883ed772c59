//! The WHERE clause as a whole: which restrictions choose partitions, which choose rows within them, and which only
//! filter. Rules and words are those of Cassandra's StatementRestrictions.

use std::collections::BTreeMap;

use crate::cql::ast::Relation;
use crate::plan::select::relation::{RelationBuilder, Restricted};
use crate::plan::select::restriction::Restriction;
use crate::plan::term::Scope;
use crate::protocol::CqlError;
use crate::schema::{ColumnKind, Table};

pub(super) const FILTERING_REFUSED: &str = "Cannot execute this query as it might involve data filtering and thus \
     may have unpredictable performance. If you want to execute this query despite the performance unpredictability, \
     use ALLOW FILTERING";

/// The restrictions of a statement, each list in the order of its columns.
#[derive(Debug, Default)]
pub(super) struct Restrictions {
    pub partition_key: Vec<Restriction>,
    pub token: Option<Restriction>,
    pub clustering: Vec<Restriction>,
    pub others: Vec<Restriction>,
    /// How many of `clustering` make slices; the rest filter.
    pub sliced: usize,
    /// Whether the partition key is fully known, up to IN.
    pub is_key_known: bool,
}

impl Restrictions {
    pub fn prepare(
        relations: &[Relation],
        scope: &mut Scope<'_>,
        table: &Table,
        allow_filtering: bool,
    ) -> Result<Restrictions, CqlError> {
        let mut restrictions = Restrictions::default();
        let mut others: BTreeMap<usize, Restriction> = BTreeMap::new();
        for relation in relations {
            match (RelationBuilder { scope, table }).restriction(relation)? {
                Restricted::Token(token) => {
                    restrictions.token = Some(match restrictions.token.take() {
                        Some(before) => before.merge(token, table)?,
                        None => token,
                    });
                }
                Restricted::Columns(new) if new.is_of_key(table) => restrictions.add(new, table, allow_filtering)?,
                Restricted::Columns(new) => {
                    let column = new.first();
                    let merged = match others.remove(&column) {
                        Some(held) => held.merge(new, table)?,
                        None => new,
                    };
                    others.insert(column, merged);
                }
            }
        }
        restrictions.others = others.into_values().collect();
        restrictions.sliced = restrictions.count_sliced(table);
        restrictions.is_key_known = !restrictions.filters_partition_key(table)
            && restrictions.partition_key.len() == table.partition_key().count();
        Ok(restrictions)
    }

    /// Takes in a restriction of the primary key.
    fn add(&mut self, new: Restriction, table: &Table, allow_filtering: bool) -> Result<(), CqlError> {
        if table.columns.get(new.first()).is_some_and(|column| matches!(column.kind, ColumnKind::PartitionKey(_))) {
            return insert(&mut self.partition_key, new, table);
        }
        let (first, is_slice) = (new.first(), new.is_slice());
        let last = self.clustering.last().map(|last| (last.first(), last.is_slice()));
        insert(&mut self.clustering, new, table)?;
        match last {
            Some(last) if !allow_filtering => check_after_slice(table, last, (first, is_slice)),
            _ => Ok(()),
        }
    }

    /// How many clustering restrictions follow one another from the first column on, up to a slice.
    fn count_sliced(&self, table: &Table) -> usize {
        let mut next = table.partition_key().count();
        let mut count = 0;
        for restriction in &self.clustering {
            if restriction.is_contains() || restriction.first() != next {
                break;
            }
            count += 1;
            if restriction.is_slice() {
                break;
            }
            next = restriction.last() + 1;
        }
        count
    }

    /// Whether the restrictions of the partition key do not name partitions.
    pub fn filters_partition_key(&self, table: &Table) -> bool {
        !self.partition_key.is_empty()
            && (self.partition_key.len() < table.partition_key().count()
                || self.partition_key.iter().any(|one| one.is_slice() || one.is_contains()))
    }

    fn filters_clustering(&self) -> bool {
        self.sliced < self.clustering.len()
    }

    /// Whether any partition key column is restricted, or the token.
    pub fn restricts_partition_key(&self) -> bool {
        !self.partition_key.is_empty() || self.token.is_some()
    }

    /// Whether all partitions must be looked at, or those of a token range.
    pub fn is_key_range(&self) -> bool {
        !self.is_key_known
    }

    pub fn has_key_in(&self) -> bool {
        self.partition_key.iter().any(Restriction::is_in)
    }

    /// Whether this column has one known value.
    pub fn is_equal(&self, column: usize) -> bool {
        let of = |list: &[Restriction]| {
            let at = list.partition_point(|held| held.last() < column);
            list.get(at).is_some_and(|held| held.is_equal() && held.first() <= column)
        };
        of(&self.partition_key) || of(&self.clustering)
    }

    /// What Cassandra checks while it takes the restrictions in.
    pub fn check(&self, table: &Table, allow_filtering: bool, selects_statics_only: bool) -> Result<(), CqlError> {
        let refused = || Err(CqlError::invalid(FILTERING_REFUSED));
        if self.filters_partition_key(table) && !allow_filtering {
            return refused();
        }
        if selects_statics_only && !self.clustering.is_empty() {
            return Err(CqlError::invalid("Cannot restrict clustering columns when selecting only static columns"));
        }
        if self.clustering.iter().any(Restriction::is_contains) && !allow_filtering {
            return Err(CqlError::invalid(
                "Clustering columns can only be restricted with CONTAINS with a secondary index or filtering",
            ));
        }
        if self.filters_clustering() && !allow_filtering {
            self.check_no_gap(table)?;
        }
        if !self.others.is_empty() && !allow_filtering {
            return refused();
        }
        Ok(())
    }

    fn check_no_gap(&self, table: &Table) -> Result<(), CqlError> {
        let mut restricted = self.clustering.iter().flat_map(|restriction| restriction.columns.iter().copied());
        for (at, column) in table.columns.iter().enumerate() {
            if !matches!(column.kind, ColumnKind::Clustering { .. }) {
                continue;
            }
            match restricted.next() {
                Some(next) if next != at => {
                    let name = table.columns.get(next).map_or("", |column| &column.name);
                    return Err(CqlError::invalid(format!(
                        "PRIMARY KEY column \"{name}\" cannot be restricted as preceding column \"{}\" is not restricted",
                        column.name
                    )));
                }
                Some(_) => {}
                None => break,
            }
        }
        Ok(())
    }

    /// What Cassandra checks last: whether rows would be read only to be dropped.
    pub fn check_filtering(&self, allow_filtering: bool) -> Result<(), CqlError> {
        if self.is_key_range() && !self.clustering.is_empty() && !allow_filtering {
            return Err(CqlError::invalid(FILTERING_REFUSED));
        }
        Ok(())
    }
}

/// Puts a restriction among those of its kind, merged with the ones it shares a column with.
fn insert(list: &mut Vec<Restriction>, new: Restriction, table: &Table) -> Result<(), CqlError> {
    // The columns of each are neighbours.
    let at = list.partition_point(|held| held.last() < new.first());
    let shares = list.get(at).is_some_and(|held| held.first() <= new.last());
    let merged = if shares { list.remove(at).merge(new, table)? } else { new };
    let at = list.partition_point(|held| held.first() < merged.first());
    list.insert(at, merged);
    Ok(())
}

/// Without filtering, nothing may be restricted behind a slice. (first column, whether a slice) of the restriction
/// that was the last one and of the new one.
fn check_after_slice(table: &Table, last: (usize, bool), new: (usize, bool)) -> Result<(), CqlError> {
    let name = |at: usize| table.columns.get(at).map_or("", |column| &column.name);
    if last.1 && new.0 > last.0 {
        return Err(CqlError::invalid(format!(
            "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
            name(new.0),
            name(last.0)
        )));
    }
    if new.1 && new.0 < last.0 {
        return Err(CqlError::invalid(format!(
            "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ relation)",
            name(last.0),
            name(new.0)
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]

    use super::*;
    use crate::plan::select::testing::Model;

    fn model() -> Model {
        Model::new(&["CREATE TABLE t (a int, b int, c int, d int, e int, v int, s int static, l list<int>, \
             m map<text, int>, fm frozen<map<text, int>>, PRIMARY KEY ((a, b), c, d, e))"])
    }

    /// Without filtering and with it: the error, or nothing.
    fn check(restrictions: &str, plain: Option<&str>, filtering: Option<&str>) {
        for (suffix, expected) in [("", plain), (" ALLOW FILTERING", filtering)] {
            let cql = format!("SELECT v FROM t WHERE {restrictions}{suffix}");
            let error = model().prepare(&cql).err().map(|error| error.message().to_owned());
            assert_eq!(error.as_deref(), expected, "{cql}");
        }
    }

    fn check_both(restrictions: &str, expected: &str) {
        check(restrictions, Some(expected), Some(expected));
    }

    #[test]
    fn what_keys_say_needs_no_filtering() {
        check("a = 1 AND b = 1", None, None);
        check("a IN (1, 2) AND b IN (1, 2)", None, None);
        check("token(a, b) > 0", None, None);
        check("a = 1 AND b = 1 AND c = 1 AND d IN (1, 2) AND e > 1", None, None);
        check("a = 1 AND b = 1 AND (c, d) = (1, 1) AND e > 1", None, None);
    }

    #[test]
    fn what_they_do_not_say_needs_filtering() {
        for restrictions in [
            "a = 1",
            "a > 1 AND b = 1",
            "c = 1",
            "(c, d) > (1, 1)",
            "v = 1",
            "a = 1 AND b = 1 AND v = 1",
            "a = 1 AND b = 1 AND l CONTAINS 1",
            "s = 1",
            "token(a, b) > 0 AND c = 1",
        ] {
            check(restrictions, Some(FILTERING_REFUSED), None);
        }
    }

    #[test]
    fn clustering_columns_have_no_gaps() {
        check(
            "a = 1 AND b = 1 AND d = 1",
            Some("PRIMARY KEY column \"d\" cannot be restricted as preceding column \"c\" is not restricted"),
            None,
        );
        check(
            "a = 1 AND b = 1 AND c = 1 AND e = 1",
            Some("PRIMARY KEY column \"e\" cannot be restricted as preceding column \"d\" is not restricted"),
            None,
        );
        check(
            "a = 1 AND b = 1 AND c > 1 AND d = 1",
            Some(
                "Clustering column \"d\" cannot be restricted (preceding column \"c\" is restricted by a non-EQ relation)",
            ),
            None,
        );
        check(
            "a = 1 AND b = 1 AND d = 1 AND c > 1",
            Some(
                "PRIMARY KEY column \"d\" cannot be restricted (preceding column \"c\" is restricted by a non-EQ relation)",
            ),
            None,
        );
    }

    #[test]
    fn one_column_has_one_restriction() {
        let twice = "c cannot be restricted by more than one relation if it includes an Equal";
        check_both("c = 1 AND c = 1", twice);
        check_both("c = 1 AND c > 0", twice);
        check_both("c IN (1, 2) AND c = 1", "c cannot be restricted by more than one relation if it includes a IN");
        check_both("c > 1 AND c >= 2", "More than one restriction was found for the start bound on c");
        check_both("c < 1 AND c <= 2", "More than one restriction was found for the end bound on c");
        check_both("(c, d) > (1, 1) AND c > 2", "More than one restriction was found for the start bound on c");
        check_both(
            "c > 1 AND c = 1",
            "Column \"c\" cannot be restricted by both an equality and an inequality relation",
        );
        check_both(
            "(c, d) > (1, 1) AND (d) < (1)",
            "Column \"d\" cannot be restricted by two inequalities not starting with the same column",
        );
        check_both(
            "fm CONTAINS 1 AND fm = {'x': 1}",
            "Collection column fm can only be restricted by CONTAINS, CONTAINS KEY, or map-entry equality",
        );
        check_both(
            "token(a, b) = 1 AND token(a, b) = 2",
            "a, b cannot be restricted by more than one relation if it includes an Equal",
        );
        check("a = 1 AND b = 1 AND c > 1 AND (c, d) < (5, 5)", None, None);
    }

    #[test]
    fn relations_that_no_column_takes() {
        check_both("c != 1", "Unsupported \"!=\" relation: c != 1");
        check_both("(c, d) != (1, 1)", "Unsupported \"!=\" relation: (c, d) != (1, 1)");
        check_both("c IS NOT NULL", "Unsupported restriction: c IS NOT NULL");
        check_both("c CONTAINS 1", "Cannot use CONTAINS on non-collection column c");
        check_both("l CONTAINS KEY 1", "Cannot use CONTAINS KEY on non-map column l");
        check_both("l = [1]", "Collection column 'l' (list<int>) cannot be restricted by a '=' relation");
        check_both("l IN ([1])", "Collection column 'l' (list<int>) cannot be restricted by a 'IN' relation");
        check_both("l[0] = 1", "Indexes on list entries (l[index] = value) are not currently supported.");
        check_both("m['x'] > 1", "Only EQ relations are supported on map entries");
        check_both("fm['x'] = 1", "Map-entry equality predicates on frozen map column fm are not supported");
        check_both("v['x'] = 1", "Column v cannot be used as a map");
        check_both("nosuch = 1", "Undefined column name nosuch in table ks.t");
        check_both("v LIKE 'a%'", "Invalid STRING constant (a%) for \"v\" of type int");
        let text = Model::new(&["CREATE TABLE t (k int PRIMARY KEY, w text)"]);
        let error = text.prepare("SELECT k FROM t WHERE w LIKE 'h%'").unwrap_err();
        assert_eq!(
            error.message(),
            "LIKE restriction is only supported on properly indexed columns. w LIKE 'h%' is not valid."
        );
    }

    #[test]
    fn tuples_and_tokens_name_neighbours_in_order() {
        let order = "Clustering columns must appear in the PRIMARY KEY order in multi-column relations";
        check_both("(c, e) = (0, 0)", &format!("{order}: (c, e) = (0, 0)"));
        check_both("(d, c) = (0, 0)", &format!("{order}: (d, c) = (0, 0)"));
        check_both("(c, c) = (0, 0)", "Column \"c\" appeared twice in a relation: (c, c) = (0, 0)");
        check_both("(c, d) = (0)", "Expected 2 elements in value tuple, but got 1: (0)");
        check_both(
            "(a, c) = (0, 0)",
            "Multi-column relations can only be applied to clustering columns but was applied to: a",
        );
        check_both(
            "token(a) > 0",
            "The token() function must be applied to all partition key components or none of them",
        );
        check_both("token(b, a) > 0", "The token function arguments must be in the partition key order: a, b");
        check_both("token(a, b, c) > 0", "The token() function must contains only partition key components");
        check_both("token(a, b, a) > 0", "The token() function contains duplicate partition key components");
    }

    #[test]
    fn durations_have_no_order() {
        let model = Model::new(&["CREATE TABLE t (k int PRIMARY KEY, v duration, w frozen<list<duration>>)"]);
        for (relation, what) in [("v > 1d", "duration columns"), ("w > [1d]", "collections containing durations")] {
            let error = model.prepare(&format!("SELECT k FROM t WHERE {relation} ALLOW FILTERING")).unwrap_err();
            assert_eq!(error.message(), format!("Slice restrictions are not supported on {what}"));
        }
    }

    #[test]
    fn statics_alone_have_no_rows_to_choose() {
        let error = model().prepare("SELECT s FROM t WHERE a = 1 AND b = 1 AND c = 1").unwrap_err();
        assert_eq!(error.message(), "Cannot restrict clustering columns when selecting only static columns");
        assert!(model().prepare("SELECT s, v FROM t WHERE a = 1 AND b = 1 AND c = 1").is_ok());
    }

    #[test]
    fn markers_are_named_after_what_they_are_for() {
        let names = |restrictions: &str| {
            let (_, variables, key) = model().prepare(&format!("SELECT v FROM t WHERE {restrictions}")).unwrap();
            let names: Vec<String> = variables.into_iter().map(|spec| format!("{} {}", spec.name, spec.ty)).collect();
            (names.join(", "), key)
        };
        assert_eq!(names("b = ? AND a = ?"), ("b int, a int".to_owned(), vec![1, 0]));
        assert_eq!(names("a = 1 AND b IN ?").0, "in(b) list<int>");
        assert_eq!(names("a = 1 AND b = 1 AND (c, d) > ?").0, "(c,d) frozen<tuple<int, int>>");
        assert_eq!(names("a = 1 AND b = 1 AND (c, d) IN ?").0, "in(c,d) list<frozen<tuple<int, int>>>");
        assert_eq!(names("token(a, b) > ?").0, "partition key token bigint");
        assert_eq!(names("token(a, b) > token(?, 1)").0, "arg0(system.token) int");
        let filtering = "m CONTAINS ? AND m CONTAINS KEY ? AND m[?] = ? ALLOW FILTERING";
        assert_eq!(names(filtering).0, "value(m) int, key(m) text, key(m) text, value(m) int");
    }
}
