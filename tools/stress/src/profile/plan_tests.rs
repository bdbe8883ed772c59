#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
use std::path::Path;

use helenus::protocol::client::requests::put_execute;
use helenus::protocol::{BatchKind, ColumnSpec as Variable, Consistency, Opcode, ProtocolVersion, Request, Value};

use super::super::{Insert, Query};
use super::*;
use crate::arguments::{Inserts, Order};
use crate::distribution::{Distribution, Ratio};
use crate::request::{How, Statement, Template, Terms};

const BATCH: &str = "
keyspace: ks
table: t
columnspec:
  - {name: pk, size: fixed(15), population: seq(1..2000000)}
  - {name: ck, size: fixed(10), cluster: fixed(10), population: seq(1..1000)}
  - {name: c0, size: fixed(10), population: seq(1..1000)}
insert: {partitions: fixed(1), batchtype: UNLOGGED, select: fixed(1)/1}
queries:
  one: {cql: select * from t where pk = ? and ck = ?, fields: samerow}
  any: {cql: select * from t where pk = ? and ck > ? and c0 = ?}
  cas: {cql: UPDATE t SET c0 = ? WHERE pk = ? AND ck = ? IF c0 = ?}
";

fn profile(text: &str) -> Profile {
    Profile::parse(Path::new("p.yaml"), text).unwrap()
}

fn drafts(columns: &[(&str, &str, i32, &str)]) -> Vec<Draft> {
    let draft = |(name, kind, position, ty): &(&str, &str, i32, &str)| Draft {
        name: (*name).into(),
        kind: (*kind).into(),
        position: *position,
        ty: (*ty).into(),
    };
    columns.iter().map(draft).collect()
}

const COLUMNS: [(&str, &str, i32, &str); 3] =
    [("c0", "regular", -1, "text"), ("ck", "clustering", 0, "text"), ("pk", "partition_key", 0, "text")];

fn insert(text: &str, columns: &[(&str, &str, i32, &str)], inserts: &Inserts) -> Result<Insert, PlanError> {
    let profile = profile(text);
    let table = Arc::new(Table::of(&profile, drafts(columns))?);
    Insert::new(&profile, table, inserts, Order::Arbitrary)
}

fn template(values: usize) -> Template {
    let how = How::Prepared(Statement { id: vec![1; 16], result_metadata_id: Vec::new() });
    Template::new(ProtocolVersion::V4, &how, values, Terms::of(Consistency::One, None))
}

fn cells(values: helenus::protocol::Values<'_>) -> Vec<Vec<u8>> {
    values.iter().map(|(_, value)| value.bytes().unwrap_or_default().to_vec()).collect()
}

#[test]
fn ten_rows_of_one_partition_are_a_batch() {
    let insert = insert(BATCH, &COLUMNS, &Inserts::default()).unwrap();
    assert_eq!(insert.statement(), "UPDATE ks.t SET c0 = ? WHERE pk = ? AND ck = ?");
    let mut buffers = Buffers::default();
    let (opcode, rows) = insert.put(&template(3), 5, [6].into_iter(), &mut buffers);
    assert_eq!((opcode, rows), (Opcode::Batch, 10));
    let Ok(Request::Batch(batch)) = Request::decode(ProtocolVersion::V4, opcode, &buffers.body, false) else {
        panic!("no batch")
    };
    assert_eq!(batch.kind, BatchKind::Unlogged);
    let rows: Vec<Vec<Vec<u8>>> = batch.statements().map(|entry| cells(entry.values)).collect();
    let mut keys: Vec<&Vec<u8>> = rows.iter().map(|row| &row[2]).collect();
    keys.sort();
    keys.dedup();
    assert_eq!((rows.len(), keys.len()), (10, 10));
    assert!(rows.iter().all(|row| row.len() == 3 && row[1] == rows[0][1] && row[1].len() == 15 && row[0].len() == 10));
    assert_eq!(buffers.routing_key, rows[0][1]);
}

#[test]
fn a_query_names_a_row_that_was_inserted() {
    let profile = profile(BATCH);
    let table = Arc::new(Table::of(&profile, drafts(&COLUMNS)).unwrap());
    let variable = |name: &str| Variable {
        keyspace: "ks".into(),
        table: "t".into(),
        name: name.into(),
        ty: helenus::types::CqlType::Text,
    };
    let query = |name: &str, variables: &[Variable]| {
        Query::new(&profile, Arc::clone(&table), name, &profile.queries[name], variables)
    };
    let insert = Insert::new(&profile, Arc::clone(&table), &Inserts::default(), Order::Arbitrary).unwrap();
    let mut written = Buffers::default();
    insert.put(&template(3), 1, [9].into_iter(), &mut written);
    for (name, variables) in [("one", vec!["pk", "ck"]), ("any", vec!["pk", "ck", "c0"])] {
        let variables: Vec<Variable> = variables.into_iter().map(variable).collect();
        let query = query(name, &variables).unwrap();
        for place in 0..20 {
            let mut buffers = Buffers::default();
            query.put_values(place, 9, &mut buffers);
            let (pk, rest) = buffers.body.split_at(19);
            let key = [pk, &rest[..14]].concat();
            assert!(written.body.windows(33).any(|window| window == key), "{name} {place}");
            assert_eq!(buffers.routing_key, pk[4..]);
        }
    }
    let limit = query("one", &[variable("pk"), variable("[limit]")]).unwrap_err().to_string();
    assert!(limit.contains("query `one`") && limit.contains("`[limit]`"), "{limit}");
    let cas = query("cas", &[]).unwrap_err().to_string();
    assert!(cas.contains("query `cas`") && cas.ends_with("is not there yet"), "{cas}");
}

#[test]
fn one_row_is_a_plain_request() {
    let columns = [("pk", "partition_key", 0, "int"), ("n", "regular", -1, "counter")];
    let text = "{keyspace: ks, table: T, columnspec: [{name: n, population: fixed(1)}], insert: {select: fixed(0)/1}}";
    let insert = insert(text, &columns, &Inserts::default()).unwrap();
    assert_eq!(insert.statement(), "UPDATE ks.\"T\" SET n = n + ? WHERE pk = ?");
    let (mut buffers, mut expected) = (Buffers::default(), Vec::new());
    let (opcode, rows) = insert.put(&template(2), 5, [6].into_iter(), &mut buffers);
    assert_eq!((opcode, rows), (Opcode::Execute, 1));
    let one = 1i64.to_be_bytes();
    let values = [Value::Bytes(&one), Value::Bytes(&buffers.routing_key)];
    let parameters = helenus::protocol::client::Parameters {
        consistency: Consistency::One,
        values: &values,
        skip_metadata: true,
        ..Default::default()
    };
    put_execute(ProtocolVersion::V4, &[1; 16], &[], &parameters, &mut expected);
    assert_eq!(buffers.body, expected);
}

#[test]
fn statements_fit_their_tables() {
    let columns = [
        ("b", "partition_key", 1, "int"),
        ("a", "partition_key", 0, "text"),
        ("l", "regular", -1, "list<int>"),
        ("f", "regular", -1, "frozen<set<int>>"),
        ("S", "static", -1, "int"),
        ("ck", "clustering", 0, "timeuuid"),
    ];
    let text = "{keyspace: ks, table: t, insert: {condition: IF f = NULL}}";
    let insert = insert(text, &columns, &Inserts::default()).unwrap();
    assert_eq!(
        insert.statement(),
        "UPDATE ks.t SET \"S\" = ?, f = ?, l = l + ? WHERE a = ? AND b = ? AND ck = ? IF f = NULL"
    );
    let mut buffers = Buffers::default();
    insert.put(&template(6), 1, [1].into_iter(), &mut buffers);
    let key = &buffers.routing_key;
    let len = usize::from(u16::from_be_bytes([key[0], key[1]]));
    assert_eq!((key[2 + len], &key[3 + len..5 + len], key.len()), (0, &[0, 4][..], 2 + len + 1 + 2 + 4 + 1));
    let keys_only = self::insert("{keyspace: k, table: t}", &COLUMNS[1..], &Inserts::default()).unwrap();
    assert_eq!(keys_only.statement(), "INSERT INTO k.t (pk, ck) VALUES (?, ?)");
}

#[test]
fn the_command_line_comes_before_the_profile() {
    let inserts = Inserts {
        partitions: Some(Distribution::fixed(3)),
        select: Some(Ratio::parse("fixed(1)/2").unwrap()),
        batch_type: Some("LOGGED".into()),
        row_population: None,
    };
    let insert = insert(BATCH, &COLUMNS, &inserts).unwrap();
    let mut first = Buffers::default();
    insert.put(&template(3), 0, 0..3, &mut first);
    assert_eq!((insert.partitions(1), first.body[0]), (3, 0), "three partitions, logged");
    let rows: u32 =
        (0..100).map(|place| insert.put(&template(3), place, place..place + 3, &mut Buffers::default()).1).sum();
    assert!((1_350..1_650).contains(&rows), "half of 30 a batch: {rows}");
}

#[test]
fn what_does_not_fit_is_said() {
    let refused = |text: &str, columns: &[(&str, &str, i32, &str)]| {
        let error = insert(text, columns, &Inserts::default()).unwrap_err().to_string();
        assert!(error.starts_with("ks.t: "), "{error}");
        error
    };
    assert!(refused("{keyspace: ks, table: t}", &[]).contains("no table ks.t"));
    let spec = "{keyspace: ks, table: t, columnspec: [{name: zz}]}";
    assert!(refused(spec, &COLUMNS).contains("columnspec `zz`"));
    let large = "{keyspace: ks, table: t, columnspec: [{name: ck, cluster: fixed(70000)}]}";
    assert!(refused(large, &COLUMNS).contains("up to 70000 rows"));
    let none = "{keyspace: ks, table: t, insert: {partitions: fixed(0)}}";
    assert!(refused(none, &COLUMNS).contains("partitions"));
    let custom = [("pk", "partition_key", 0, "int"), ("v", "regular", -1, "my_type")];
    assert!(refused("{keyspace: ks, table: t}", &custom).contains("`my_type`"));
    let tuple = [("pk", "partition_key", 0, "int"), ("v", "regular", -1, "tuple<int>")];
    assert!(refused("{keyspace: ks, table: t}", &tuple).contains("column `v`"));
}
