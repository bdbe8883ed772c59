//! A SELECT of one row by its whole primary key, every value of which is a bind variable: what most reads are. Its bytes
//! go from the variables to the key, and from the row to the answer, with nothing in between. What is out of the ordinary,
//! errors included, is left to `PreparedSelect::bind`.

use smallvec::SmallVec;

use crate::base::ids::ColumnId;
use crate::mutation::point::{PointKey, PointRow};
use crate::plan::select::expression::Expression;
use crate::plan::select::restriction::{Restriction, RestrictionKind, Tuple};
use crate::plan::select::restrictions::Restrictions;
use crate::plan::select::row::Leaf;
use crate::plan::select::shape::Shape;
use crate::plan::term::Term;
use crate::protocol::Value;
use crate::protocol::wire::put_bytes;
use crate::schema::{Table, clustering, key, partitioner, system};
use crate::types::{CqlType, validate};

/// One that is known to be of this kind.
#[derive(Debug)]
pub struct PointSelect {
    partition_key: SmallVec<[KeyColumn; 2]>,
    clustering: SmallVec<[KeyColumn; 2]>,
    outputs: Vec<Output>,
}

/// A column of the primary key and the variable that gives it.
#[derive(Debug)]
struct KeyColumn {
    variable: usize,
    ty: CqlType,
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
        let is_whole = restrictions.partition_key.len() == table.partition_key().count()
            && restrictions.clustering.len() == table.clustering_order().len();
        if !is_plain || !is_whole {
            return None;
        }
        let columns = |of: &[Restriction]| of.iter().map(|one| key_column(table, one)).collect::<Option<_>>();
        let outputs = shape.selection.outputs.iter().map(|output| match &output.expression {
            Expression::Leaf(at) => shape.selection.leaves.get(*at).and_then(output_of),
            _ => None,
        });
        Some(PointSelect {
            partition_key: columns(&restrictions.partition_key)?,
            clustering: columns(&restrictions.clustering)?,
            outputs: outputs.collect::<Option<_>>()?,
        })
    }

    /// Works out the row's place. False where a value is not what it should be.
    pub fn locate(&self, values: &[Value<'_>], at: &mut PointKey) -> bool {
        at.clear();
        let is_single = self.partition_key.len() == 1;
        for column in &self.partition_key {
            match column.value(values) {
                Some([]) if is_single => return false,
                Some(value) => key::push(&mut at.key, is_single, value),
                None => return false,
            }
        }
        if at.key.len() > key::PARTITION_KEY_BYTES_MAX {
            return false;
        }
        for column in &self.clustering {
            let Some(value) = column.value(values) else { return false };
            clustering::push_component(&mut at.clustering, value);
        }
        at.token = partitioner::token_of(&at.key);
        true
    }

    /// Appends the row's values in the order of the answer's columns.
    pub fn put_row(&self, key: &[u8], row: &PointRow<'_>, out: &mut Vec<u8>) {
        for output in &self.outputs {
            put_bytes(
                out,
                match output {
                    Output::PartitionKey => Some(key),
                    Output::PartitionKeyPart(position) => key::components(key).nth(*position),
                    Output::Clustering(position) => clustering::components(row.clustering).nth(*position),
                    Output::Cell(column) => {
                        let found = row.cells.iter().find(|(other, _)| other >= column);
                        found.filter(|(other, _)| other == column).map(|(_, value)| *value)
                    }
                },
            );
        }
    }
}

impl KeyColumn {
    fn value<'v>(&self, values: &[Value<'v>]) -> Option<&'v [u8]> {
        let value = values.get(self.variable)?.bytes()?;
        (value.len() <= key::PARTITION_KEY_BYTES_MAX && validate(&self.ty, value).is_ok()).then_some(value)
    }
}

/// The column that a restriction makes equal to a variable. Sets and maps may have to be put in order first.
fn key_column(table: &Table, restriction: &Restriction) -> Option<KeyColumn> {
    let RestrictionKind::Equal(Tuple::Columns(terms)) = &restriction.kind else { return None };
    let ([term], [at]) = (terms.as_slice(), restriction.columns.as_slice()) else { return None };
    let ty = &table.columns.get(*at)?.ty;
    let is_ordered = ty.any(&|ty| matches!(ty, CqlType::Set(_) | CqlType::Map(..)));
    let variable = Term::variable(term).filter(|_| !is_ordered)?;
    Some(KeyColumn { variable, ty: ty.clone() })
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
        point.put_row(&at.key, &row, &mut out);
        let mut want = Vec::new();
        for value in [Some(&b"d"[..]), Some(b"vvvv"), Some(b"l"), Some(&two), None, Some(&one)] {
            put_bytes(&mut want, value);
        }
        assert_eq!(out, want);
    }
}
