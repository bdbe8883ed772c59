//! An INSERT or UPDATE of one row by its whole primary key, every value of which is a bind variable: what most writes are,
//! alone or many of them in a batch on one partition. It is encoded as it is bound, in one pass. What is out of the
//! ordinary, errors included, is left to `PreparedWrite`.

use crate::base::ids::ColumnId;
use crate::mutation::point::PointKey;
use crate::mutation::{MutationBuilder, Stamp};
use crate::plan::point::{PointColumns, Variable};
use crate::plan::write::operation::Operation;
use crate::plan::write::restrictions::{Restriction, Test, Values};
use crate::plan::write::{PreparedWrite, Verb};
use crate::protocol::Value;
use crate::schema::{Column, Table, system};

/// One that is known to be of this kind.
#[derive(Clone, Debug)]
pub struct PointWrite {
    columns: PointColumns,
    /// An INSERT makes its row live, whatever its cells are.
    is_insert: bool,
    cells: Vec<(ColumnId, Variable)>,
}

impl PointWrite {
    /// The same modification as a write of one row, where it is no more than that.
    pub(super) fn of(write: &PreparedWrite) -> Option<PointWrite> {
        let table = &write.table;
        let is_plain = write.verb != Verb::Delete
            && write.conditions.is_none()
            && write.json.is_none()
            && write.using.timestamp.is_none()
            && write.using.ttl.is_none()
            && table.options.default_time_to_live_s == 0
            && !table.is_counter
            && !system::is_system(&table.keyspace);
        let cell = |operation: &Operation| {
            let (column, term) = operation.whole_value().filter(|_| !operation.is_static)?;
            Some((column, Variable::of(table.column_by_id(column)?, term)?))
        };
        let cells = write.operations.iter().map(cell).collect::<Option<Vec<_>>>()?;
        // An UPDATE that sets nothing writes no row.
        if !is_plain || (write.verb == Verb::Update && cells.is_empty()) {
            return None;
        }
        let columns = point_columns(table, write)?;
        columns.is_whole(table).then_some(PointWrite { columns, is_insert: write.verb == Verb::Insert, cells })
    }

    /// Works out the row's place. False where a value is not what it should be.
    pub fn locate(&self, values: &[Value<'_>], at: &mut PointKey) -> bool {
        self.columns.locate(values, at)
    }

    /// Appends the row to a mutation of its partition, under the mutation's own timestamp. False where a value is null or
    /// not what it should be: the mutation is of no use then.
    pub fn put_row(&self, values: &[Value<'_>], at: &PointKey, mutation: &mut MutationBuilder<'_>) -> bool {
        mutation.row(&at.clustering);
        if self.is_insert {
            mutation.liveness(Stamp::Base(0), None);
        }
        for (column, variable) in &self.cells {
            match variable.value(values) {
                Some(Value::Bytes(value)) => {
                    mutation.plain_cell(*column, value);
                }
                Some(Value::Unset) => {}
                Some(Value::Null) | None => return false,
            }
        }
        true
    }
}

/// The variables that give the key.
fn point_columns(table: &Table, write: &PreparedWrite) -> Option<PointColumns> {
    let one = |column: &Column, values: &Values| match values {
        Values::One(term) => Variable::of(column, term),
        Values::Several(_) => None,
    };
    let is_one = |restriction: &Restriction| match &restriction.test {
        Test::Is(values) if restriction.count == 1 => one(table.clustering().nth(restriction.first)?, values),
        _ => None,
    };
    let partition_key = table.partition_key().zip(&write.which.key).map(|(column, values)| one(column, values));
    Some(PointColumns {
        partition_key: partition_key.collect::<Option<_>>()?,
        clustering: write.which.clustering.iter().map(is_one).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]
    use super::*;
    use crate::plan::testing::{options, schema};
    use crate::plan::{Plan, Prepared, prepare};
    use crate::schema::Schema;

    fn tables() -> Schema {
        schema(&[
            "CREATE TABLE t (k int, l text, c int, s int static, v int, w text, m map<int, int>, f frozen<set<int>>, PRIMARY KEY ((k, l), c))",
            "CREATE TABLE plain (k int PRIMARY KEY, v int)",
            "CREATE TABLE ttl (k int PRIMARY KEY, v int) WITH default_time_to_live = 60",
            "CREATE TABLE n (k int PRIMARY KEY, n counter)",
        ])
    }

    fn prepared(cql: &str) -> Prepared {
        prepare(&crate::cql::parse(cql).unwrap(), &tables(), Some("ks")).unwrap()
    }

    /// The mutation of one at once, and by the long way.
    fn both(cql: &str, values: &[Value<'_>]) -> (Option<Vec<u8>>, Result<Vec<u8>, String>) {
        let prepared = prepared(cql);
        let (point, table) = prepared.point_write().unwrap();
        let mut at = PointKey::default();
        let at_once = point.locate(values, &mut at).then(|| {
            let mut bytes = Vec::new();
            let mut builder = MutationBuilder::begin(&mut bytes, table.id, table.version, &at.key);
            point.put_row(values, &at, &mut builder).then_some(bytes)
        });
        let long = match prepared.bind(values, &tables(), &options()) {
            Ok(Plan::Write(mut write)) => Ok(write.mutations.remove(0).bytes),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.message().to_owned()),
        };
        (at_once.flatten(), long)
    }

    #[test]
    fn what_is_written_at_once_is_what_the_long_way_writes() {
        let (one, two) = (1i32.to_be_bytes(), 2i32.to_be_bytes());
        let (k, l, c) = (Value::Bytes(&one), Value::Bytes(b"l"), Value::Bytes(&two));
        for (cql, values) in [
            ("INSERT INTO t (k, l, c, v, w) VALUES (?, ?, ?, ?, ?)", vec![k, l, c, c, l]),
            ("INSERT INTO t (w, c, l, k) VALUES (?, ?, ?, ?)", vec![l, c, l, k]),
            ("INSERT INTO t (k, l, c) VALUES (?, ?, ?)", vec![k, l, c]),
            ("UPDATE t SET v = ?, w = ? WHERE c = ? AND l = ? AND k = ?", vec![c, l, c, l, k]),
            ("UPDATE t SET v = ?, w = ? WHERE c = ? AND l = ? AND k = ?", vec![Value::Unset, l, c, l, k]),
            ("UPDATE plain SET v = ? WHERE k = ?", vec![c, k]),
            ("UPDATE plain SET v = ? WHERE k = ?", vec![Value::Unset, k]),
        ] {
            let (at_once, long) = both(cql, &values);
            assert_eq!(at_once, Some(long.unwrap()), "{cql}");
        }
    }

    #[test]
    fn what_is_out_of_the_ordinary_is_left() {
        let (one, long) = (1i32.to_be_bytes(), vec![b'x'; 70_000]);
        let (k, wrong) = (Value::Bytes(&one), Value::Bytes(b"three"));
        let insert = "INSERT INTO t (k, l, c, v) VALUES (?, ?, ?, ?)";
        let l = Value::Bytes(b"l");
        for values in [
            [wrong, l, k, k],
            [Value::Null, l, k, k],
            [k, Value::Bytes(&long), k, k],
            [k, Value::Bytes(b"\xff"), k, k],
            [k, l, Value::Unset, k],
            [k, l, k, wrong],
        ] {
            let (at_once, long) = both(insert, &values);
            assert_eq!(at_once, None, "{values:?}");
            assert!(long.is_err(), "{values:?}");
        }
        let (at_once, long) = both(insert, &[k, l, k, Value::Null]);
        assert!(at_once.is_none() && long.is_ok(), "a null is a deletion");
        for cql in [
            "INSERT INTO t (k, l, c, v) VALUES (1, ?, ?, ?)",
            "INSERT INTO t (k, l, c, s) VALUES (?, ?, ?, ?)",
            "INSERT INTO t (k, l, c, m) VALUES (?, ?, ?, ?)",
            "INSERT INTO t (k, l, c, f) VALUES (?, ?, ?, ?)",
            "INSERT INTO t (k, l, c, v) VALUES (?, ?, ?, ?) USING TTL 5",
            "INSERT INTO t (k, l, c, v) VALUES (?, ?, ?, ?) USING TIMESTAMP ?",
            "INSERT INTO t (k, l, c, v) VALUES (?, ?, ?, ?) IF NOT EXISTS",
            "INSERT INTO t (k, l, s) VALUES (?, ?, ?)",
            "INSERT INTO ttl (k, v) VALUES (?, ?)",
            "INSERT INTO plain JSON ?",
            "UPDATE t SET m[?] = ? WHERE k = ? AND l = ? AND c = ?",
            "UPDATE t SET v = ? WHERE k = ? AND l = ? AND c IN ?",
            "UPDATE n SET n = n + ? WHERE k = ?",
            "DELETE FROM plain WHERE k = ?",
        ] {
            assert!(prepared(cql).point_write().is_none(), "{cql}");
        }
    }
}
