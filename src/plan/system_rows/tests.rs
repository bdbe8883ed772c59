#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use super::*;
use crate::base::ids::Token;
use crate::mutation::{DeletionTime, Item, MutationView, set_timestamp};
use crate::plan::ddl::testing::{Node, SIMPLE};
use crate::schema::{Schema, Table, clustering, system};
use crate::types::to_text;

const CONTEXT: Context = Context { now_us: 5_000_000, random: [1, 2] };

/// What mutations write, as lines: `table/key/clustering column=value` and `table/key/prefix deleted`.
fn written(schema: &Schema, mutations: &[PlannedMutation]) -> Vec<String> {
    let mut lines = Vec::new();
    for mutation in mutations {
        let mut bytes = mutation.bytes.clone();
        set_timestamp(&mut bytes, 100);
        let view = MutationView::parse(&bytes).unwrap();
        let table = schema.table_by_id(mutation.table.id).unwrap();
        let place = format!("{}/{}", table.name, String::from_utf8_lossy(view.key()));
        for item in view.items() {
            match item {
                Item::PartitionDeletion(deletion) => {
                    check_deletion(deletion);
                    lines.push(format!("{place} deleted"));
                }
                Item::RangeTombstone { start, deletion, .. } => {
                    check_deletion(deletion);
                    lines.push(format!("{place}/{} deleted", shown(start.prefix)));
                }
                Item::Row(row) => {
                    assert_eq!(row.liveness.timestamp, 100);
                    let place = format!("{place}/{}", shown(row.clustering));
                    lines.extend(row.cells.iter().map(|cell| format!("{place} {}", shown_cell(table, cell))));
                }
                Item::Static(_) => panic!("no system table written here has static columns"),
            }
        }
    }
    lines
}

/// What was there before goes, what is written with the change stays.
fn check_deletion(deletion: DeletionTime) {
    assert_eq!(deletion, DeletionTime { timestamp: 99, local_deletion_s: 5 });
}

fn shown(prefix: &[u8]) -> String {
    clustering::components(prefix).map(|part| String::from_utf8_lossy(part).into_owned()).collect::<Vec<_>>().join(".")
}

fn shown_cell(table: &Table, cell: &crate::mutation::Cell<'_>) -> String {
    let column = table.column_by_id(cell.column).unwrap();
    match cell.path {
        Some(path) => format!("{}+={}", column.name, String::from_utf8_lossy(path)),
        None => {
            crate::types::validate(&column.ty, cell.value).unwrap();
            format!("{}={}", column.name, to_text(&column.ty, cell.value))
        }
    }
}

/// What one statement writes.
fn of_statement(node: &mut Node, text: &str) -> Vec<String> {
    let before = node.schema.clone();
    let plan = node.plan(text).unwrap();
    written(&node.schema, &of_change(&before, &node.schema, &plan.ops, &CONTEXT))
}

#[track_caller]
fn check_has(lines: &[String], expected: &[&str]) {
    for line in expected {
        assert!(lines.iter().any(|found| found == line), "{line} is not in\n{}", lines.join("\n"));
    }
}

#[test]
fn a_keyspace_comes_and_goes_with_all_it_holds() {
    let mut node = Node::new();
    let lines = of_statement(&mut node, &format!("CREATE KEYSPACE k WITH {SIMPLE}"));
    check_has(
        &lines,
        &[
            "keyspaces/k/ durable_writes=true",
            "keyspaces/k/ replication={'class': 'org.apache.cassandra.locator.SimpleStrategy', 'replication_factor': '1'}",
        ],
    );
    assert!(lines.iter().any(|line| line.starts_with("helenus_schema/keyspace/k definition=0x")));
    assert!(lines.iter().any(|line| line.starts_with("local/local/ schema_version=")));
    node.plan("CREATE TABLE k.t (k int PRIMARY KEY)").unwrap();
    let lines = of_statement(&mut node, "DROP KEYSPACE k");
    check_has(
        &lines,
        &[
            "keyspaces/k deleted",
            "tables/k deleted",
            "columns/k deleted",
            "types/k deleted",
            "helenus_schema/keyspace/k deleted",
            "helenus_schema/table/k.t deleted",
        ],
    );
}

#[test]
fn a_table_is_shown_with_columns_and_options() {
    let mut node = Node::new();
    let text = "CREATE TABLE t (k int, c text, s set<int> static, v frozen<list<int>>, PRIMARY KEY (k, c)) \
                WITH CLUSTERING ORDER BY (c DESC) AND id = 123e4567-e89b-12d3-a456-426614174000";
    let lines = of_statement(&mut node, text);
    check_has(
        &lines,
        &[
            "tables/ks/t deleted",
            "columns/ks/t deleted",
            "tables/ks/t id=123e4567-e89b-12d3-a456-426614174000",
            "tables/ks/t flags={'compound'}",
            "tables/ks/t extensions={}",
            "tables/ks/t bloom_filter_fp_chance=0.01",
            "tables/ks/t caching={'keys': 'ALL', 'rows_per_partition': 'NONE'}",
            "columns/ks/t.k kind='partition_key'",
            "columns/ks/t.k position=0",
            "columns/ks/t.c clustering_order='desc'",
            "columns/ks/t.c column_name_bytes=0x63",
            "columns/ks/t.s kind='static'",
            "columns/ks/t.s position=-1",
            "columns/ks/t.v type='frozen<list<int>>'",
        ],
    );
    let absent = |name: &str| !lines.iter().any(|line| line.contains(&format!(" {name}=")));
    assert!(absent("cdc") && absent("memtable") && absent("incremental_backups") && absent("allow_auto_snapshot"));
}

#[test]
fn options_off_their_default_and_counters_are_shown() {
    let mut node = Node::new();
    let text = "CREATE TABLE t (k int PRIMARY KEY, n counter) \
                WITH cdc = true AND incremental_backups = false AND allow_auto_snapshot = false";
    check_has(
        &of_statement(&mut node, text),
        &[
            "tables/ks/t cdc=true",
            "tables/ks/t incremental_backups=false",
            "tables/ks/t allow_auto_snapshot=false",
            "tables/ks/t flags={'compound', 'counter'}",
        ],
    );
}

#[test]
fn dropped_columns_are_remembered_once() {
    let mut node = Node::new();
    node.plan("CREATE TYPE ty (a int)").unwrap();
    node.plan("CREATE TABLE t (k int PRIMARY KEY, v frozen<ty>, w int)").unwrap();
    let lines = of_statement(&mut node, "ALTER TABLE t DROP v USING TIMESTAMP 5000000");
    check_has(
        &lines,
        &[
            "dropped_columns/ks/t deleted",
            "dropped_columns/ks/t.v type='frozen<tuple<int>>'",
            "dropped_columns/ks/t.v kind='regular'",
            "dropped_columns/ks/t.v dropped_time='1970-01-01T00:00:05.000Z'",
        ],
    );
    node.plan("ALTER TABLE t ADD v frozen<ty>").unwrap();
    let lines = of_statement(&mut node, "ALTER TABLE t DROP v USING TIMESTAMP 9000000");
    assert_eq!(lines.iter().filter(|line| line.starts_with("dropped_columns/ks/t.v kind")).count(), 1);
    check_has(&lines, &["dropped_columns/ks/t.v dropped_time='1970-01-01T00:00:09.000Z'"]);
    check_has(&of_statement(&mut node, "DROP TABLE t"), &["tables/ks/t deleted", "helenus_schema/table/ks.t deleted"]);
}

#[test]
fn types_are_shown_and_their_users_written_anew() {
    let mut node = Node::new();
    check_has(
        &of_statement(&mut node, "CREATE TYPE ty (a int, b frozen<list<text>>)"),
        &["types/ks/ty field_names=['a', 'b']", "types/ks/ty field_types=['int', 'frozen<list<text>>']"],
    );
    node.plan("CREATE TABLE t (k int PRIMARY KEY, v frozen<ty>)").unwrap();
    let lines = of_statement(&mut node, "ALTER TYPE ty RENAME a TO aa");
    check_has(&lines, &["types/ks/ty field_names=['aa', 'b']", "columns/ks/t.v type='frozen<ty>'"]);
    assert!(lines.iter().any(|line| line.starts_with("helenus_schema/table/ks.t definition=")));
    node.plan("DROP TABLE t").unwrap();
    check_has(&of_statement(&mut node, "DROP TYPE ty"), &["types/ks/ty deleted", "helenus_schema/type/ks.ty deleted"]);
}

#[test]
fn a_partition_has_one_mutation() {
    let mut node = Node::new();
    let before = node.schema.clone();
    let plan = node.plan("CREATE TABLE t (k int PRIMARY KEY, v int)").unwrap();
    let mutations = of_change(&before, &node.schema, &plan.ops, &CONTEXT);
    let mut places = BTreeMap::new();
    for mutation in &mutations {
        let view = MutationView::parse(&mutation.bytes).unwrap();
        *places.entry((mutation.table.id, view.key().to_vec())).or_insert(0) += 1;
        assert_eq!(mutation.token, crate::schema::partitioner::token_of(view.key()));
    }
    assert!(places.values().all(|count| *count == 1));
}

#[test]
fn what_is_stored_makes_the_same_schema() {
    let mut node = Node::new();
    let mut stored: BTreeMap<(&str, String), Vec<u8>> = BTreeMap::new();
    for text in [
        "CREATE TYPE z (a int)",
        "CREATE TYPE y (z frozen<z>)",
        "CREATE TABLE t (k int, c int, y frozen<y>, n int, PRIMARY KEY (k, c))",
        "CREATE TABLE gone (k int PRIMARY KEY)",
        "ALTER TYPE z ADD b text",
        "ALTER TABLE t DROP n",
        "DROP TABLE gone",
        "ALTER KEYSPACE ks WITH durable_writes = false",
    ] {
        let before = node.schema.clone();
        let plan = node.plan(text).unwrap();
        for row in stored::rows_of(&before, &plan.ops) {
            match row.definition {
                Some(definition) => stored.insert((row.kind, row.name), definition),
                None => stored.remove(&(row.kind, row.name)),
            };
        }
    }
    let mut again = system::schema();
    stored::ops_of(stored.values().map(Vec::as_slice)).unwrap().iter().for_each(|op| again.apply(op));
    assert_eq!(schema_version(&again), schema_version(&node.schema));
}

#[test]
fn the_version_is_that_of_the_content() {
    let mut node = Node::new();
    let first = schema_version(&node.schema);
    assert_eq!(crate::types::uuid::version(&first), 3);
    node.plan("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
    assert_ne!(schema_version(&node.schema), first);
    node.plan("DROP TABLE t").unwrap();
    assert_eq!(schema_version(&node.schema), first);
}

fn info() -> LocalInfo {
    LocalInfo {
        cluster_name: "Test".into(),
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        host_id: [7; 16],
        tokens: vec![Token(5), Token(-3)],
        generation: 3,
        addresses: Addresses { rpc: [127, 0, 0, 2].into(), ..Addresses::one([127, 0, 0, 1].into(), 9042) },
    }
}

#[test]
fn a_node_shows_itself_and_everything_at_boot() {
    let mut node = Node::new();
    node.plan("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
    let lines = written(&node.schema, &of_boot(&node.schema, None, &info(), &CONTEXT));
    check_has(
        &lines,
        &[
            "local/local/ bootstrapped='COMPLETED'",
            "local/local/ cql_version='3.4.7'",
            "local/local/ release_version='5.0.9'",
            "local/local/ rpc_address='127.0.0.2'",
            "local/local/ rpc_port=9042",
            "local/local/ host_id=07070707-0707-0707-0707-070707070707",
            "local/local/ tokens+=-3",
            "local/local/ tokens+=5",
            "columns/ks deleted",
            "columns/ks/t.k type='int'",
            "columns/system_schema/keyspaces.replication type='frozen<map<text, text>>'",
            "tables/system_virtual_schema/tables comment='virtual table definitions'",
            "columns/system_views/clients.port kind='clustering'",
        ],
    );
    assert!(lines.iter().any(|line| line.starts_with("local/local/ schema_version=")));
    let is_mark = |line: &String| line.starts_with("helenus_schema/rows/");
    assert!(!lines.iter().any(|line| line.contains("helenus") && !is_mark(line)), "the private table is shown nowhere");
    assert!(lines.last().is_some_and(is_mark), "the mark comes behind what it says is written");
    assert!(!lines.iter().any(|line| line.starts_with("keyspaces/system_views/ durable")));
}

#[test]
fn rows_that_are_marked_as_written_are_not_written_again() {
    let mut node = Node::new();
    node.plan("CREATE TABLE t (k int PRIMARY KEY)").unwrap();
    let mark = definitions::system_rows_mark(&node.schema);
    assert_eq!(mark, definitions::system_rows_mark(&system::schema()), "a user's tables do not change it");
    let again = written(&node.schema, &of_boot(&node.schema, Some(&mark), &info(), &CONTEXT));
    check_has(&again, &["local/local/ bootstrapped='COMPLETED'", "columns/ks/t.k type='int'"]);
    assert!(!again.iter().any(|line| line.starts_with("columns/system_schema")));
    let other = written(&node.schema, &of_boot(&node.schema, Some(&[0; 16]), &info(), &CONTEXT));
    check_has(&other, &["columns/system_schema/keyspaces.replication type='frozen<map<text, text>>'"]);
}

/// Where this fails and the change of the rows is meant, raise `ROWS_VERSION` and take the new digest here: a directory
/// that an earlier build wrote is then brought up to date.
#[test]
fn the_rows_of_the_system_s_keyspaces_are_those_of_their_version() {
    use md5::{Digest, Md5};
    let schema = system::schema();
    let lines = written(&schema, &of_boot(&schema, None, &info(), &CONTEXT));
    let shown = lines.iter().filter(|line| !line.starts_with("local/"));
    let digest: [u8; 16] = Md5::digest(shown.cloned().collect::<Vec<_>>().join("\n")).into();
    assert_eq!(
        (definitions::ROWS_VERSION, u128::from_be_bytes(digest)),
        (1, 294_996_778_492_057_950_722_255_806_112_320_815_622)
    );
}

#[test]
fn settings_are_rows_by_name() {
    let schema = system::schema();
    let lines = written(&schema, &settings(&schema, [("cluster_name", "Test")], &CONTEXT));
    assert_eq!(lines, ["settings/cluster_name/ value='Test'"]);
}
