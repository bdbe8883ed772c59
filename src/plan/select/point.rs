//! A SELECT of one row by its whole primary key, every value of which is a bind variable: what most reads are. Its bytes
//! go from the variables to the key, and from the row to the answer, with nothing in between. What is out of the ordinary,
//! errors included, is left to `PreparedSelect::bind`.

use crate::base::ids::ColumnId;
use crate::mutation::point::{PointKey, PointRow};
use crate::plan::point::{PointColumns, Variable};
use crate::plan::select::expression::Expression;
use crate::plan::select::restriction::{Restriction, RestrictionKind, Tuple};
use crate::plan::select::restrictions::Restrictions;
use crate::plan::select::row::Leaf;
use crate::plan::select::shape::Shape;
use crate::protocol::Value;
use crate::protocol::wire::put_bytes;
use crate::schema::{Table, clustering, key, system};

/// One that is known to be of this kind.
#[derive(Debug)]
pub struct PointSelect {
    columns: PointColumns,
    outputs: Vec<Output>,
}

/// A column of the answer.
#[derive(Debug)]
enum Output {
    /// The whole key, where it has one column.
    PartitionKey,
    PartitionKeyPart(usize),
    Clustering(usize),
    Cell(ColumnId),
}

impl PointSelect {
    /// The same SELECT as a read of one row, where it is no more than that. LIMIT and DISTINCT are asked above.
    pub(super) fn of(table: &Table, shape: &Shape, restrictions: &Restrictions) -> Option<PointSelect> {
        let is_plain = !shape.is_grouped()
            && !shape.selection.is_json
            && shape.order.sorted_by.is_none()
            && restrictions.token.is_none()
            && restrictions.others.is_empty()
            && !table.has_statics()
            && !table.is_counter
            && table.dropped.is_empty()
            && !system::is_system(&table.keyspace);
        if !is_plain {
            return None;
        }
        let variables = |of: &[Restriction]| of.iter().map(|one| variable(table, one)).collect::<Option<_>>();
        let partition_key = variables(&restrictions.partition_key)?;
        let columns = PointColumns { partition_key, clustering: variables(&restrictions.clustering)? };
        let outputs = shape.selection.outputs.iter().map(|output| match &output.expression {
            Expression::Leaf(at) => shape.selection.leaves.get(*at).and_then(output_of),
            _ => None,
        });
        let outputs = outputs.collect::<Option<_>>()?;
        columns.is_whole(table).then_some(PointSelect { columns, outputs })
    }

    /// Works out the row's place. False where a value is not what it should be.
    pub fn locate(&self, values: &[Value<'_>], at: &mut PointKey) -> bool {
        self.columns.locate(values, at)
    }

    /// Appends the row's values in the order of the answer's columns, where they have at most `bytes_max`; whether they do.
    pub fn put_row(&self, key: &[u8], row: &PointRow<'_>, bytes_max: usize, out: &mut Vec<u8>) -> bool {
        let begin = out.len();
        self.outputs.iter().all(|output| {
            let value = match output {
                Output::PartitionKey => Some(key),
                Output::PartitionKeyPart(position) => key::components(key).nth(*position),
                Output::Clustering(position) => clustering::components(row.clustering).nth(*position),
                Output::Cell(column) => {
                    let found = row.cells.iter().find(|(other, _)| other >= column);
                    found.filter(|(other, _)| other == column).map(|(_, value)| *value)
                }
            };
            let fits = out.len() - begin + value.map_or(0, <[u8]>::len) <= bytes_max;
            if fits {
                put_bytes(out, value);
            }
            fits
        })
    }
}

/// The variable that a restriction makes a column equal to.
fn variable(table: &Table, restriction: &Restriction) -> Option<Variable> {
    let RestrictionKind::Equal(Tuple::Columns(terms)) = &restriction.kind else { return None };
    let ([term], [at]) = (terms.as_slice(), restriction.columns.as_slice()) else { return None };
    Variable::of(table.columns.get(*at)?, term)
}

fn output_of(leaf: &Leaf) -> Option<Output> {
    match leaf {
        Leaf::PartitionKey { is_whole: true, .. } => Some(Output::PartitionKey),
        Leaf::PartitionKey { position, .. } => Some(Output::PartitionKeyPart(*position)),
        Leaf::Clustering(position) => Some(Output::Clustering(*position)),
        Leaf::Cells(column) if !column.ty.is_multi_cell() => Some(Output::Cell(column.id)),
        Leaf::Cells(_) | Leaf::Metadata { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "test code")]
    use smallvec::SmallVec;

    use super::*;
    use crate::mutation::read::Partitions;
    use crate::plan::select::testing::Model;
    use crate::plan::testing::options;

    const TABLES: [&str; 4] = [
        "CREATE TABLE t (k int, l text, c int, d text, v int, m map<int, int>, f frozen<set<int>>, PRIMARY KEY ((k, l), c, d))",
        "CREATE TABLE one (k blob PRIMARY KEY, v int)",
        "CREATE TABLE statics (k int, c int, s int static, PRIMARY KEY (k, c))",
        "CREATE TABLE sets (k frozen<set<int>> PRIMARY KEY, v int)",
    ];

    fn is_point(cql: &str) -> bool {
        Model::new(&TABLES).prepare(cql).unwrap().0.point.is_some()
    }

    #[test]
    fn only_reads_of_one_row_by_variables_are_points() {
        for cql in [
            "SELECT v, c, l FROM t WHERE k = ? AND l = ? AND c = ? AND d = ?",
            "SELECT v AS x, f FROM t WHERE d = ? AND c = ? AND l = ? AND k = ?",
            "SELECT * FROM one WHERE k = ?",
        ] {
            assert!(is_point(cql), "{cql}");
        }
        for cql in [
            "SELECT * FROM t WHERE k = ? AND l = ? AND c = ? AND d = ?",
            "SELECT v FROM t WHERE k = ? AND l = ? AND c = ?",
            "SELECT v FROM t WHERE k = ? AND l = ? AND c = ? AND d > ?",
            "SELECT v FROM t WHERE k = ? AND l = ? AND c IN ? AND d = ?",
            "SELECT v FROM t WHERE k = ? AND l = ? AND (c, d) = (?, ?)",
            "SELECT v FROM t WHERE k = ? AND l = ? AND c = ? AND d = ? AND v = 1 ALLOW FILTERING",
            "SELECT v FROM t WHERE k = 1 AND l = ? AND c = ? AND d = ?",
            "SELECT JSON v FROM one WHERE k = ?",
            "SELECT v FROM one WHERE k = ? LIMIT 1",
            "SELECT v FROM one WHERE k = ? PER PARTITION LIMIT 1",
            "SELECT DISTINCT k FROM one WHERE k = ?",
            "SELECT count(*) FROM one WHERE k = ?",
            "SELECT writetime(v) FROM one WHERE k = ?",
            "SELECT v FROM one WHERE token(k) = ?",
            "SELECT v FROM one WHERE k IN ?",
            "SELECT c FROM statics WHERE k = ? AND c = ?",
            "SELECT v FROM sets WHERE k = ?",
        ] {
            assert!(!is_point(cql), "{cql}");
        }
    }

    /// The place is the one that the long way names, and the values are refused that it refuses.
    #[test]
    fn a_place_is_that_of_the_long_way() {
        let (prepared, ..) =
            Model::new(&TABLES).prepare("SELECT v FROM t WHERE k = ? AND d = ? AND l = ? AND c = ?").unwrap();
        let point = prepared.point.as_ref().unwrap();
        let (k, c, long) = (7i32.to_be_bytes(), 9i32.to_be_bytes(), vec![b'x'; 70_000]);
        let values = |l: &'static str| [&k[..], b"d", l.as_bytes(), &c].map(Value::Bytes);
        let mut at = PointKey::default();
        for l in ["", "ll"] {
            assert!(point.locate(&values(l), &mut at));
            let command = prepared.bind(&values(l), &options()).unwrap().command;
            let Partitions::Keys(keys) = &command.partitions else { panic!("keys") };
            assert_eq!((keys[0].token, &keys[0].key), (at.token, &at.key));
            assert_eq!(command.slices[0].start.prefix, at.clustering);
        }
        let wrong: [(usize, Value<'_>); 6] = [
            (0, Value::Null),
            (1, Value::Unset),
            (0, Value::Bytes(b"three")),
            (2, Value::Bytes(b"\xff")),
            (1, Value::Bytes(&long)),
            (3, Value::Null),
        ];
        for (position, value) in wrong {
            let mut values = values("l");
            values[position] = value;
            assert!(!point.locate(&values, &mut at), "{position}: {value:?}");
            assert!(prepared.bind(&values, &options()).is_err(), "{position}: {value:?}");
        }
        let (prepared, ..) = Model::new(&TABLES).prepare("SELECT v FROM one WHERE k = ?").unwrap();
        assert!(!prepared.point.as_ref().unwrap().locate(&[Value::Bytes(b"")], &mut at), "a key is not empty");
    }

    #[test]
    fn values_go_out_in_the_order_asked_for() {
        let model = Model::new(&TABLES);
        let (prepared, ..) =
            model.prepare("SELECT d, v, l, c, f, k FROM t WHERE k = ? AND d = ? AND l = ? AND c = ?").unwrap();
        let mut at = PointKey::default();
        let (one, two) = (1i32.to_be_bytes(), 2i32.to_be_bytes());
        let point = prepared.point.unwrap();
        assert!(point.locate(&[&one[..], b"d", b"l", &two].map(Value::Bytes), &mut at));
        let v = model.schema.keyspace("ks").unwrap().tables["t"].column("v").unwrap().id;
        let row = PointRow { clustering: &at.clustering, cells: SmallVec::from_iter([(v, &b"vvvv"[..])]) };
        let mut out = Vec::new();
        assert!(!point.put_row(&at.key, &row, 30, &mut out), "more than it may have");
        out.clear();
        assert!(point.put_row(&at.key, &row, 100, &mut out));
        let mut want = Vec::new();
        for value in [Some(&b"d"[..]), Some(b"vvvv"), Some(b"l"), Some(&two), None, Some(&one)] {
            put_bytes(&mut want, value);
        }
        assert_eq!(out, want);
    }
}
