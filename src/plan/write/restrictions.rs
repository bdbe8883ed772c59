//! The WHERE clause of a modification: which partitions, and which rows of them. The rules, the order in which they
//! are checked, and the words of errors are Cassandra's.

use crate::cql::ast::{self, Ident, InValues, Operator, Relation};
use crate::plan::ColumnSpec;
use crate::plan::names;
use crate::plan::term::{Scope, Term, invalid};
use crate::protocol::CqlError;
use crate::schema::{Column, ColumnKind, Table};
use crate::types::CqlType;

use super::Verb;

/// The right side of IN.
#[derive(Clone, Debug)]
pub(super) enum InList {
    Terms(Vec<Term>),
    /// One marker for the whole list; the term's type is the list's.
    Marker(Term),
}

/// The values that one key column may take.
#[derive(Clone, Debug)]
pub(super) enum Values {
    One(Term),
    Several(InList),
}

/// A tuple of values for several columns.
#[derive(Clone, Debug)]
pub(super) enum TupleTerm {
    Parts(Vec<Term>),
    /// A marker for the whole; the term's type is the tuple's.
    Marker(Term),
}

/// The right side of a multi-column IN.
#[derive(Clone, Debug)]
pub(super) enum TupleList {
    Tuples(Vec<TupleTerm>),
    Marker(Term),
}

/// One end of a range.
#[derive(Clone, Debug)]
pub(super) struct Edge {
    pub value: TupleTerm,
    pub inclusive: bool,
}

/// What is asked of one clustering column, or of several by a tuple.
#[derive(Clone, Debug)]
pub(super) struct Restriction {
    /// The position of the first column.
    pub first: usize,
    /// How many columns.
    pub count: usize,
    /// Written with a tuple on the left.
    is_tuple: bool,
    pub test: Test,
}

#[derive(Clone, Debug)]
pub(super) enum Test {
    Is(Values),
    TupleIs(TupleTerm),
    TupleIn(TupleList),
    Range { start: Option<Edge>, end: Option<Edge> },
}

/// A WHERE clause ready for binding.
#[derive(Clone, Debug)]
pub(super) struct Where {
    /// For each column of the partition key, in order.
    pub key: Vec<Values>,
    /// By position.
    pub clustering: Vec<Restriction>,
}

impl Where {
    /// `only_static`: the statement changes static columns only.
    pub fn prepare(
        table: &Table,
        verb: Verb,
        relations: &[Relation],
        only_static: bool,
        scope: &mut Scope<'_>,
    ) -> Result<Where, CqlError> {
        let mut collected = Collected { key: table.partition_key().map(|_| None).collect(), ..Collected::default() };
        for relation in relations {
            collected.relation(table, relation, scope)?;
        }
        collected.finish(table, verb, only_static)
    }

    /// The relations `column = value` of an INSERT's key columns.
    pub fn of_insert(table: &Table, values: Vec<(&Column, Term)>, only_static: bool) -> Result<Where, CqlError> {
        let mut collected = Collected { key: table.partition_key().map(|_| None).collect(), ..Collected::default() };
        for (column, term) in values {
            match column.kind {
                ColumnKind::PartitionKey(at) => collected.set_key(column, at, KeyTest::Is(Values::One(term)))?,
                ColumnKind::Clustering { position, .. } => {
                    collected.add_clustering(table, Restriction::single(position, Test::Is(Values::One(term))))?
                }
                ColumnKind::Static | ColumnKind::Regular => {}
            }
        }
        collected.finish(table, Verb::Insert, only_static)
    }

    /// Whether whole rows are named: each clustering column by `=` or IN.
    pub fn names_rows(&self, table: &Table) -> bool {
        let columns: usize = self.clustering.iter().map(|restriction| restriction.count).sum();
        columns == table.clustering().count() && !self.clustering.iter().any(Restriction::is_range)
    }
}

impl Restriction {
    fn single(position: u16, test: Test) -> Restriction {
        Restriction { first: usize::from(position), count: 1, is_tuple: false, test }
    }

    pub fn is_range(&self) -> bool {
        matches!(self.test, Test::Range { .. })
    }

    fn last(&self) -> usize {
        self.first + self.count - 1
    }
}

/// What is asked of one column of the partition key.
#[derive(Debug)]
enum KeyTest {
    Is(Values),
    Range,
}

#[derive(Debug, Default)]
struct Collected<'t> {
    key: Vec<Option<KeyTest>>,
    clustering: Vec<Restriction>,
    has_token: bool,
    /// Names of other columns.
    others: Vec<&'t str>,
}

impl<'t> Collected<'t> {
    fn relation(&mut self, table: &'t Table, relation: &Relation, scope: &mut Scope<'_>) -> Result<(), CqlError> {
        match relation {
            Relation::Column { column, operator, value } => {
                let column = names::column(table, column)?;
                if *operator == Operator::Ne {
                    return Err(invalid(format!("Unsupported \"!=\" relation: {relation}")));
                }
                let term = Term::prepare(value, &ColumnSpec::of_column(table, column), scope)?;
                self.compare(table, column, *operator, term)
            }
            Relation::ColumnIn { column, values } => {
                let column = names::column(table, column)?;
                let list = in_list(values, &ColumnSpec::of_column(table, column), scope)?;
                self.is(table, column, Values::Several(list))
            }
            Relation::Token { columns, operator: _, value } => {
                for column in columns {
                    names::column(table, column)?;
                }
                let spec = ColumnSpec {
                    keyspace: table.keyspace.clone(),
                    table: table.name.clone(),
                    name: "partition key token".to_owned(),
                    ty: CqlType::BigInt,
                };
                Term::prepare(value, &spec, scope)?;
                self.has_token = true;
                Ok(())
            }
            Relation::Tuple { columns, operator, value } => {
                let columns = tuple_columns(table, columns, relation)?;
                if *operator == Operator::Ne {
                    return Err(invalid(format!("Unsupported \"!=\" relation: {relation}")));
                }
                let value = tuple_term(table, &columns, value, scope)?;
                let test = match operator {
                    Operator::Eq | Operator::Ne => Test::TupleIs(value),
                    other => range(*other, value),
                };
                self.add_tuple(table, &columns, test)
            }
            Relation::TupleIn { columns, values } => {
                let columns = tuple_columns(table, columns, relation)?;
                let list = tuple_list(table, &columns, values, scope)?;
                self.add_tuple(table, &columns, Test::TupleIn(list))
            }
            Relation::Contains { column, value } => self.contains(table, relation, column, value, false, scope),
            Relation::ContainsKey { column, value } => self.contains(table, relation, column, value, true, scope),
            Relation::Element { column, key, value, .. } => self.element(table, relation, column, [key, value], scope),
            Relation::Like { column, value } => {
                let column = names::column(table, column)?;
                Term::prepare(value, &ColumnSpec::of_column(table, column), scope)?;
                Err(invalid(format!(
                    "LIKE restriction is only supported on properly indexed columns. {relation} is not valid."
                )))
            }
            Relation::IsNotNull { .. } => Err(invalid(format!("Unsupported restriction: {relation}"))),
            Relation::CustomIndex { .. } => {
                Err(invalid("Custom index expressions cannot be used in WHERE clauses for UPDATE or DELETE statements"))
            }
        }
    }

    fn compare(
        &mut self,
        table: &'t Table,
        column: &'t Column,
        operator: Operator,
        term: Term,
    ) -> Result<(), CqlError> {
        if operator == Operator::Eq {
            return self.is(table, column, Values::One(term));
        }
        match column.kind {
            ColumnKind::PartitionKey(at) => self.set_key(column, at, KeyTest::Range),
            ColumnKind::Clustering { position, .. } => {
                self.add_clustering(table, Restriction::single(position, range(operator, TupleTerm::Parts(vec![term]))))
            }
            ColumnKind::Static | ColumnKind::Regular => {
                self.others.push(&column.name);
                Ok(())
            }
        }
    }

    fn is(&mut self, table: &'t Table, column: &'t Column, values: Values) -> Result<(), CqlError> {
        match column.kind {
            ColumnKind::PartitionKey(at) => self.set_key(column, at, KeyTest::Is(values)),
            ColumnKind::Clustering { position, .. } => {
                self.add_clustering(table, Restriction::single(position, Test::Is(values)))
            }
            ColumnKind::Static | ColumnKind::Regular => {
                self.others.push(&column.name);
                Ok(())
            }
        }
    }

    fn contains(
        &mut self,
        table: &'t Table,
        relation: &Relation,
        column: &Ident,
        value: &ast::Term,
        of_key: bool,
        scope: &mut Scope<'_>,
    ) -> Result<(), CqlError> {
        let column = names::column(table, column)?;
        let spec = ColumnSpec::of_column(table, column);
        let spec = match (column.ty.unfrozen(), of_key) {
            (CqlType::Map(key, _), true) => spec.key_spec(key),
            (CqlType::Map(_, value), false) => spec.value_spec(value),
            (CqlType::List(element) | CqlType::Set(element), false) => spec.value_spec(element),
            (_, true) => return Err(invalid(format!("Cannot use CONTAINS KEY on non-map column {}", column.name))),
            (_, false) => {
                return Err(invalid(format!("Cannot use CONTAINS on non-collection column {}", column.name)));
            }
        };
        Term::prepare(value, &spec, scope)?;
        self.other(column, relation)
    }

    fn element(
        &mut self,
        table: &'t Table,
        relation: &Relation,
        column: &Ident,
        [key, value]: [&ast::Term; 2],
        scope: &mut Scope<'_>,
    ) -> Result<(), CqlError> {
        let column = names::column(table, column)?;
        let spec = ColumnSpec::of_column(table, column);
        let CqlType::Map(k, v) = column.ty.unfrozen() else {
            return Err(invalid(format!("Column {} cannot be used as a map", column.name)));
        };
        Term::prepare(key, &spec.key_spec(k), scope)?;
        Term::prepare(value, &spec.value_spec(v), scope)?;
        self.other(column, relation)
    }

    fn other(&mut self, column: &'t Column, relation: &Relation) -> Result<(), CqlError> {
        match column.kind {
            ColumnKind::Static | ColumnKind::Regular => {
                self.others.push(&column.name);
                Ok(())
            }
            ColumnKind::PartitionKey(_) | ColumnKind::Clustering { .. } => {
                Err(invalid(format!("Unsupported restriction: {relation}")))
            }
        }
    }

    fn set_key(&mut self, column: &Column, at: u16, test: KeyTest) -> Result<(), CqlError> {
        let Some(place) = self.key.get_mut(usize::from(at)) else { return Ok(()) };
        match (&place, &test) {
            (None, _) => *place = Some(test),
            (Some(KeyTest::Is(values)), _) => return Err(twice(&column.name, values)),
            (Some(KeyTest::Range), KeyTest::Range) => {}
            (Some(KeyTest::Range), KeyTest::Is(_)) => return Err(range_and_more(&column.name)),
        }
        Ok(())
    }

    fn add_tuple(&mut self, table: &Table, columns: &[&Column], test: Test) -> Result<(), CqlError> {
        let first = columns.first().map_or(0, |column| position_of(column));
        self.add_clustering(table, Restriction { first, count: columns.len(), is_tuple: true, test })
    }

    /// Adds a restriction, or merges a range with what it bounds on the other side.
    fn add_clustering(&mut self, table: &Table, new: Restriction) -> Result<(), CqlError> {
        let name = |position: usize| table.clustering().nth(position).map_or("", |column| column.name.as_str());
        if let Some(last) = self.clustering.last() {
            if last.is_range() && new.first > last.first {
                return Err(invalid(format!(
                    "Clustering column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ \
                     relation)",
                    name(new.first),
                    name(last.first)
                )));
            }
            if new.is_range() && new.first < last.first {
                return Err(invalid(format!(
                    "PRIMARY KEY column \"{}\" cannot be restricted (preceding column \"{}\" is restricted by a non-EQ \
                     relation)",
                    name(new.last() + 1),
                    name(new.first)
                )));
            }
        }
        let overlaps = |old: &Restriction| old.first <= new.last() && new.first <= old.last();
        if let Some(old) = self.clustering.iter_mut().find(|old| overlaps(old)) {
            let (from, to) = (old.first.max(new.first), old.last().min(new.last()));
            let common: Vec<&str> = (from..=to).map(name).collect();
            return old.merge(new, &common.join(", "));
        }
        let at = self.clustering.partition_point(|old| old.first < new.first);
        self.clustering.insert(at, new);
        Ok(())
    }

    fn finish(self, table: &Table, verb: Verb, only_static: bool) -> Result<Where, CqlError> {
        let key = self.finish_key(table, verb)?;
        self.check_clustering(table, verb, only_static)?;
        if !self.others.is_empty() {
            let names = self.others.join(", ");
            return Err(invalid(format!("Non PRIMARY KEY columns found in where clause: {names} ")));
        }
        Ok(Where { key, clustering: self.clustering })
    }

    fn finish_key(&self, table: &Table, verb: Verb) -> Result<Vec<Values>, CqlError> {
        if self.has_token {
            return Err(invalid(format!("The token function cannot be used in WHERE clauses for {verb} statements")));
        }
        let missing: Vec<&str> = table
            .partition_key()
            .zip(&self.key)
            .filter(|(_, test)| test.is_none())
            .map(|(column, _)| column.name.as_str())
            .collect();
        if !missing.is_empty() {
            return Err(invalid(format!("Some partition key parts are missing: {}", missing.join(", "))));
        }
        let values = self.key.iter().map(|test| match test {
            Some(KeyTest::Is(values)) => Some(values.clone()),
            _ => None,
        });
        values.collect::<Option<_>>().ok_or_else(|| {
            invalid(format!(
                "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for \
                 {verb} statements"
            ))
        })
    }

    fn check_clustering(&self, table: &Table, verb: Verb, only_static: bool) -> Result<(), CqlError> {
        if only_static && !self.clustering.is_empty() && verb != Verb::Insert {
            return Err(invalid(format!(
                "Invalid restrictions on clustering columns since the {verb} statement modifies only static columns"
            )));
        }
        let is_restricted =
            |position| self.clustering.iter().any(|test| (test.first..=test.last()).contains(&position));
        if verb != Verb::Delete {
            if self.clustering.iter().any(Restriction::is_range) {
                return Err(invalid(format!(
                    "Slice restrictions are not supported on the clustering columns in {verb} statements"
                )));
            }
            let missing: Vec<&str> = table
                .clustering()
                .enumerate()
                .filter(|(position, _)| !is_restricted(*position))
                .map(|(_, column)| column.name.as_str())
                .collect();
            if !missing.is_empty() && !only_static {
                return Err(invalid(format!("Some clustering keys are missing: {}", missing.join(", "))));
            }
            return Ok(());
        }
        // The restricted columns must be the first ones.
        let restricted: Vec<usize> = (0..table.clustering().count()).filter(|at| is_restricted(*at)).collect();
        let names: Vec<&str> = table.clustering().map(|column| column.name.as_str()).collect();
        for (want, got) in restricted.iter().enumerate() {
            if want != *got {
                let name = |at: usize| names.get(at).copied().unwrap_or_default();
                return Err(invalid(format!(
                    "PRIMARY KEY column \"{}\" cannot be restricted as preceding column \"{}\" is not restricted",
                    name(*got),
                    name(want)
                )));
            }
        }
        Ok(())
    }
}

impl Restriction {
    /// Both hold. Only two halves of a range can.
    fn merge(&mut self, new: Restriction, columns: &str) -> Result<(), CqlError> {
        let is_tuple = self.is_tuple;
        match (&mut self.test, new.test) {
            (Test::Is(values), _) => Err(twice(columns, values)),
            (Test::TupleIs(_), _) => Err(invalid(format!(
                "{columns} cannot be restricted by more than one relation if it includes an Equal"
            ))),
            (Test::TupleIn(_), _) => {
                Err(invalid(format!("{columns} cannot be restricted by more than one relation if it includes a IN")))
            }
            (Test::Range { start, end }, Test::Range { start: new_start, end: new_end }) => {
                if is_tuple != new.is_tuple {
                    return Err(invalid(format!(
                        "Column \"{columns}\" cannot be restricted by both a tuple notation inequality and a single \
                         column inequality"
                    )));
                }
                for (which, old, new) in [("start", &mut *start, new_start), ("end", &mut *end, new_end)] {
                    if old.is_some() && new.is_some() {
                        return Err(invalid(format!(
                            "More than one restriction was found for the {which} bound on {columns}"
                        )));
                    }
                    if new.is_some() {
                        *old = new;
                    }
                }
                self.count = self.count.max(new.count);
                Ok(())
            }
            (Test::Range { .. }, _) => Err(range_and_more(columns)),
        }
    }
}

fn twice(column: &str, values: &Values) -> CqlError {
    let what = if matches!(values, Values::One(_)) { "an Equal" } else { "a IN" };
    invalid(format!("{column} cannot be restricted by more than one relation if it includes {what}"))
}

fn range_and_more(column: &str) -> CqlError {
    invalid(format!("Column \"{column}\" cannot be restricted by both an inequality relation and another relation"))
}

fn position_of(column: &Column) -> usize {
    match column.kind {
        ColumnKind::Clustering { position, .. } => usize::from(position),
        _ => 0,
    }
}

fn range(operator: Operator, value: TupleTerm) -> Test {
    let inclusive = matches!(operator, Operator::Ge | Operator::Le);
    let edge = Some(Edge { value, inclusive });
    match operator {
        Operator::Gt | Operator::Ge => Test::Range { start: edge, end: None },
        _ => Test::Range { start: None, end: edge },
    }
}

fn in_list(values: &InValues, spec: &ColumnSpec, scope: &mut Scope<'_>) -> Result<InList, CqlError> {
    Ok(match values {
        InValues::Marker(marker) => InList::Marker(Term::marker(*marker, &spec.in_spec(), scope)),
        InValues::List(terms) => {
            InList::Terms(terms.iter().map(|term| Term::prepare(term, spec, scope)).collect::<Result<_, _>>()?)
        }
    })
}

/// The columns of a multi-column relation: clustering columns next to each other.
fn tuple_columns<'t>(table: &'t Table, names: &[Ident], relation: &Relation) -> Result<Vec<&'t Column>, CqlError> {
    let mut columns: Vec<&Column> = Vec::with_capacity(names.len());
    for name in names {
        let column = names::column(table, name)?;
        if !matches!(column.kind, ColumnKind::Clustering { .. }) {
            return Err(invalid(format!(
                "Multi-column relations can only be applied to clustering columns but was applied to: {}",
                column.name
            )));
        }
        if columns.iter().any(|other| other.name == column.name) {
            return Err(invalid(format!("Column \"{}\" appeared twice in a relation: {relation}", column.name)));
        }
        if columns.last().is_some_and(|last| position_of(last) + 1 != position_of(column)) {
            return Err(invalid(format!(
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: {relation}"
            )));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// What a marker for the whole tuple goes into: `(a,b)`.
fn tuple_spec(table: &Table, columns: &[&Column]) -> ColumnSpec {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    ColumnSpec {
        keyspace: table.keyspace.clone(),
        table: table.name.clone(),
        name: format!("({})", names.join(",")),
        ty: CqlType::tuple(columns.iter().map(|column| column.ty.clone())),
    }
}

fn tuple_term(
    table: &Table,
    columns: &[&Column],
    value: &ast::Term,
    scope: &mut Scope<'_>,
) -> Result<TupleTerm, CqlError> {
    match value {
        ast::Term::Tuple(items) => {
            if items.len() != columns.len() {
                return Err(invalid(format!(
                    "Expected {} elements in value tuple, but got {}: {value}",
                    columns.len(),
                    items.len()
                )));
            }
            let parts = columns
                .iter()
                .zip(items)
                .map(|(column, item)| Term::prepare(item, &ColumnSpec::of_column(table, column), scope));
            Ok(TupleTerm::Parts(parts.collect::<Result<_, _>>()?))
        }
        other => Ok(TupleTerm::Marker(Term::prepare(other, &tuple_spec(table, columns), scope)?)),
    }
}

fn tuple_list(
    table: &Table,
    columns: &[&Column],
    values: &InValues,
    scope: &mut Scope<'_>,
) -> Result<TupleList, CqlError> {
    Ok(match values {
        InValues::Marker(marker) => {
            let spec = tuple_spec(table, columns).in_spec();
            TupleList::Marker(Term::marker(*marker, &spec, scope))
        }
        InValues::List(terms) => TupleList::Tuples(
            terms.iter().map(|term| tuple_term(table, columns, term, scope)).collect::<Result<_, _>>()?,
        ),
    })
}

#[cfg(test)]
mod tests {
    use crate::plan::testing;
    use crate::plan::write::testing::check_refused;

    fn check(cql: &str, expected: &str) {
        let schema = testing::schema(&[
            "CREATE TABLE t (k int, c int, d int, e int, v int, l list<int>, PRIMARY KEY (k, c, d, e))",
        ]);
        check_refused(&schema, cql, expected);
    }

    #[test]
    fn the_partition_key_is_named_whole_by_equality() {
        check("DELETE FROM t WHERE c = 1", "Some partition key parts are missing: k");
        check(
            "DELETE FROM t WHERE k > 1",
            "Only EQ and IN relation are supported on the partition key (unless you use the token() function) for \
             DELETE statements",
        );
        let token = "The token function cannot be used in WHERE clauses for UPDATE statements";
        check("UPDATE t SET v = 1 WHERE token(k) = 1", token);
        check(
            "DELETE FROM t WHERE k = 1 AND k = 2",
            "k cannot be restricted by more than one relation if it includes an Equal",
        );
        check(
            "DELETE FROM t WHERE k IN (1) AND k = 2",
            "k cannot be restricted by more than one relation if it includes a IN",
        );
    }

    #[test]
    fn clustering_columns_are_named_from_the_first_on() {
        check("UPDATE t SET v = 1 WHERE k = 1 AND c = 1", "Some clustering keys are missing: d, e");
        check(
            "UPDATE t SET v = 1 WHERE k = 1 AND c = 1 AND d > 1",
            "Slice restrictions are not supported on the clustering columns in UPDATE statements",
        );
        check(
            "DELETE FROM t WHERE k = 1 AND d = 1",
            "PRIMARY KEY column \"d\" cannot be restricted as preceding column \"c\" is not restricted",
        );
        check(
            "DELETE FROM t WHERE k = 1 AND c > 1 AND d = 1",
            "Clustering column \"d\" cannot be restricted (preceding column \"c\" is restricted by a non-EQ relation)",
        );
        check(
            "DELETE FROM t WHERE k = 1 AND d = 1 AND c > 1",
            "PRIMARY KEY column \"d\" cannot be restricted (preceding column \"c\" is restricted by a non-EQ relation)",
        );
    }

    #[test]
    fn only_two_halves_of_a_range_go_together() {
        for (relations, expected) in [
            ("c > 1 AND c > 2", "More than one restriction was found for the start bound on c"),
            ("c < 1 AND c <= 2", "More than one restriction was found for the end bound on c"),
            ("c = 1 AND c > 2", "c cannot be restricted by more than one relation if it includes an Equal"),
            ("(c, d) = (1, 2) AND d = 2", "d cannot be restricted by more than one relation if it includes an Equal"),
            (
                "(c, d) > (1, 2) AND c < 2",
                "Column \"c\" cannot be restricted by both a tuple notation inequality and a single column inequality",
            ),
            (
                "c > 1 AND c = 2",
                "Column \"c\" cannot be restricted by both an inequality relation and another relation",
            ),
        ] {
            check(&format!("DELETE FROM t WHERE k = 1 AND {relations}"), expected);
        }
    }

    #[test]
    fn tuples_are_of_clustering_columns_in_order() {
        for (relations, expected) in [
            ("(k) = (1)", "Multi-column relations can only be applied to clustering columns but was applied to: k"),
            ("(c, c) = (1, 1)", "Column \"c\" appeared twice in a relation: (c, c) = (1, 1)"),
            (
                "(c, e) = (1, 1)",
                "Clustering columns must appear in the PRIMARY KEY order in multi-column relations: (c, e) = (1, 1)",
            ),
            ("(c, d) = (1)", "Expected 2 elements in value tuple, but got 1: (1)"),
        ] {
            check(&format!("DELETE FROM t WHERE {relations} AND k = 1"), expected);
        }
    }

    #[test]
    fn other_relations_are_refused() {
        let others = "Non PRIMARY KEY columns found in where clause: v ";
        check("DELETE FROM t WHERE k = 1 AND v = 1", others);
        check("DELETE FROM t WHERE k = 1 AND l CONTAINS 1", "Non PRIMARY KEY columns found in where clause: l ");
        check("DELETE FROM t WHERE k = 1 AND c != 1", "Unsupported \"!=\" relation: c != 1");
        check("DELETE FROM t WHERE k = 1 AND c IS NOT NULL", "Unsupported restriction: c IS NOT NULL");
        check("DELETE FROM t WHERE k = 1 AND v CONTAINS 1", "Cannot use CONTAINS on non-collection column v");
        check("DELETE FROM t WHERE k = 1 AND x = 1", "Undefined column name x in table ks.t");
    }
}
