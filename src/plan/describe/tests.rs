#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::base::ids::Token;
use crate::cql::ast::Statement;
use crate::plan::ddl::testing::Node;
use crate::plan::system_rows::Addresses;

fn info() -> LocalInfo {
    LocalInfo {
        cluster_name: "Test".into(),
        data_center: "datacenter1".into(),
        rack: "rack1".into(),
        host_id: [7; 16],
        tokens: vec![Token(5), Token(-3)],
        generation: 1,
        addresses: Addresses::one([127, 0, 0, 1].into(), 9042),
    }
}

/// Rows as texts; the last column of those with statements is the statement.
fn answer(node: &Node, text: &str, current: Option<&str>) -> Result<Vec<String>, String> {
    let Statement::Describe(statement) = crate::cql::parse(text).unwrap().statement else { panic!("{text}") };
    let rows = describe(&statement, &node.schema, current, &info()).map_err(|error| error.message().to_owned())?;
    let cell = |cell: &Option<Vec<u8>>| String::from_utf8(cell.clone().unwrap()).unwrap();
    Ok(rows.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join("|")).collect())
}

#[track_caller]
fn check(node: &Node, text: &str, expected: &[&str]) {
    assert_eq!(answer(node, text, Some("ks")).unwrap(), expected, "{text}");
}

#[track_caller]
fn check_error(node: &Node, text: &str, current: Option<&str>, expected: &str) {
    assert_eq!(answer(node, text, current).unwrap_err(), expected, "{text}");
}

const OPTIONS: &str = "additional_write_policy = '99p'
    AND allow_auto_snapshot = true
    AND bloom_filter_fp_chance = 0.01
    AND caching = {'keys': 'ALL', 'rows_per_partition': 'NONE'}
    AND cdc = false
    AND comment = ''
    AND compaction = {'class': 'org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy', 'max_threshold': '32', 'min_threshold': '4'}
    AND compression = {'chunk_length_in_kb': '16', 'class': 'org.apache.cassandra.io.compress.LZ4Compressor'}
    AND memtable = 'default'
    AND crc_check_chance = 1.0
    AND default_time_to_live = 0
    AND extensions = {}
    AND gc_grace_seconds = 864000
    AND incremental_backups = true
    AND max_index_interval = 2048
    AND memtable_flush_period_in_ms = 0
    AND min_index_interval = 128
    AND read_repair = 'BLOCKING'
    AND speculative_retry = '99p';";

const KEYSPACE: &str = "ks|keyspace|ks|CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', \
                        'replication_factor': '1'}  AND durable_writes = true;";

#[test]
fn tables_print_as_cassandra_prints_them() {
    let mut node = Node::new();
    node.check(
        "CREATE TABLE t (k int, c text, s set<int> static, v frozen<map<int, text>>, PRIMARY KEY (k, c)) \
         WITH CLUSTERING ORDER BY (c DESC) AND comment = 'it''s'",
        "CREATED TABLE t",
    );
    let options = OPTIONS.replace("comment = ''", "comment = 'it''s'");
    let expected = format!(
        "ks|table|t|CREATE TABLE ks.t (\n    k int,\n    c text,\n    s set<int> static,\n    \
         v frozen<map<int, text>>,\n    PRIMARY KEY (k, c)\n) WITH CLUSTERING ORDER BY (c DESC)\n    AND {options}"
    );
    check(&node, "DESCRIBE TABLE t", &[&expected]);
    check(&node, "DESC ks.t", &[&expected]);
    check(&node, "DESCRIBE t", &[&expected]);
    check(&node, "DESCRIBE KEYSPACE ks", &[KEYSPACE, &expected]);
    check(&node, "DESCRIBE ks", &[KEYSPACE, &expected]);
    check(&node, "DESCRIBE SCHEMA", &[KEYSPACE, &expected]);
    check(&node, "DESCRIBE ONLY KEYSPACE ks", &[KEYSPACE]);
}

#[test]
fn names_are_quoted_and_keys_written_in_full() {
    let mut node = Node::new();
    node.check(
        "CREATE TABLE \"Select\" (\"K k\" int, \"from\" int, c int, v text, PRIMARY KEY ((\"K k\", \"from\"), c))",
        "CREATED TABLE Select",
    );
    node.check("CREATE TABLE one (k int PRIMARY KEY, l list<int>, a int)", "CREATED TABLE one");
    let select = format!(
        "ks|table|\"Select\"|CREATE TABLE ks.\"Select\" (\n    \"K k\" int,\n    \"from\" int,\n    c int,\n    v text,\n    \
         PRIMARY KEY ((\"K k\", \"from\"), c)\n) WITH CLUSTERING ORDER BY (c ASC)\n    AND {OPTIONS}"
    );
    let one = format!(
        "ks|table|one|CREATE TABLE ks.one (\n    k int PRIMARY KEY,\n    a int,\n    l list<int>\n) WITH {OPTIONS}"
    );
    check(&node, "DESCRIBE TABLE \"Select\"", &[&select]);
    check(&node, "DESCRIBE TABLE one", &[&one]);
    check(&node, "DESCRIBE TABLES", &["ks|table|one", "ks|table|\"Select\""]);
}

#[test]
fn internals_restore_ids_and_dropped_columns() {
    let mut node = Node::new();
    let id = "123e4567-e89b-12d3-a456-426614174000";
    node.check(&format!("CREATE TABLE t (k int PRIMARY KEY, v text, z int) WITH id = {id}"), "CREATED TABLE t");
    node.check("ALTER TABLE t DROP v USING TIMESTAMP 20000", "UPDATED TABLE t");
    let with = |more: &str| {
        format!(
            "ks|table|t|CREATE TABLE ks.t (\n    k int PRIMARY KEY,\n    v text,\n    z int\n) WITH ID = {id}\n    \
             AND {OPTIONS}\nALTER TABLE ks.t DROP v USING TIMESTAMP 20000;{more}"
        )
    };
    check(&node, "DESCRIBE TABLE t WITH INTERNALS", &[&with("")]);
    node.check("ALTER TABLE t ADD v text", "UPDATED TABLE t");
    check(&node, "DESCRIBE TABLE t WITH INTERNALS", &[&with("\nALTER TABLE ks.t ADD v text;")]);
}

#[test]
fn types_follow_those_they_are_made_of() {
    let mut node = Node::new();
    node.check("CREATE TYPE z (a int, b frozen<list<text>>)", "CREATED TYPE z");
    node.check("CREATE TYPE a (z frozen<z>)", "CREATED TYPE a");
    let z = "ks|type|z|CREATE TYPE ks.z (\n    a int,\n    b frozen<list<text>>\n);";
    check(&node, "DESCRIBE TYPE z", &[z]);
    check(&node, "DESCRIBE TYPES", &["ks|type|a", "ks|type|z"]);
    check(&node, "DESCRIBE KEYSPACE", &[KEYSPACE, z, "ks|type|a|CREATE TYPE ks.a (\n    z frozen<z>\n);"]);
}

#[test]
fn system_keyspaces_are_listed_and_virtual_ones_say_so() {
    let node = Node::new();
    let keyspaces = answer(&node, "DESCRIBE KEYSPACES", None).unwrap();
    assert_eq!(keyspaces[0], "ks|keyspace|ks");
    assert_eq!(keyspaces.len(), 8);
    let tables = answer(&node, "DESCRIBE TABLES", None).unwrap();
    assert!(tables.contains(&"system|table|\"IndexInfo\"".to_owned()));
    assert!(!tables.iter().any(|table| table.contains("helenus")));
    let full = answer(&node, "DESCRIBE FULL SCHEMA", None).unwrap();
    assert!(
        full.len() > 90
            && full[1].starts_with(
                "system|keyspace|system|CREATE KEYSPACE system WITH replication = \
                                                    {'class': 'LocalStrategy'}  AND durable_writes = true;"
            )
    );
    check(
        &node,
        "DESCRIBE TABLE system_virtual_schema.tables",
        &["system_virtual_schema|table|tables|/*\nWarning: Table system_virtual_schema.tables is a virtual table and \
           cannot be recreated with CQL.\nStructure, for reference:\nVIRTUAL TABLE system_virtual_schema.tables (\n    \
           keyspace_name text,\n    table_name text,\n    comment text,\n    PRIMARY KEY (keyspace_name, table_name)\n) \
           WITH CLUSTERING ORDER BY (table_name ASC)\n    AND comment = 'virtual table definitions';\n*/"],
    );
    check(
        &node,
        "DESCRIBE ONLY KEYSPACE system_views",
        &["system_views|keyspace|system_views|/*\nWarning: Keyspace system_views is a virtual keyspace and cannot be \
           recreated with CQL.\nStructure, for reference:\nVIRTUAL KEYSPACE system_views;\n*/"],
    );
}

#[test]
fn what_is_not_there_is_named() {
    let node = Node::new();
    let ks = Some("ks");
    check_error(&node, "DESCRIBE TABLE nosuch", ks, "Table 'nosuch' not found in keyspace 'ks'");
    check_error(&node, "DESCRIBE KEYSPACE nosuch", ks, "'nosuch' not found in keyspaces");
    check_error(&node, "DESCRIBE nosuch", None, "'nosuch' not found in keyspaces");
    check_error(&node, "DESCRIBE nosuch", ks, "'nosuch' not found in keyspace 'ks'");
    check_error(&node, "DESCRIBE nosuch.nosuch", None, "'nosuch' not found in keyspaces");
    check_error(&node, "DESCRIBE ks.nosuch", None, "'nosuch' not found in keyspace 'ks'");
    check_error(&node, "DESCRIBE TYPE nosuch", ks, "User defined type 'nosuch' not found in 'ks'");
    check_error(&node, "DESCRIBE INDEX ks.nosuch", None, "Table for existing index 'nosuch' not found in 'ks'");
    check_error(&node, "DESCRIBE MATERIALIZED VIEW nosuch", ks, "Materialized view 'nosuch' not found in 'ks'");
    check_error(&node, "DESCRIBE FUNCTION nosuch", ks, "User defined function 'nosuch' not found in 'ks'");
    check_error(&node, "DESCRIBE AGGREGATE nosuch", ks, "User defined aggregate 'nosuch' not found in 'ks'");
    let none = "No keyspace specified and no current keyspace";
    check_error(&node, "DESCRIBE TABLE nosuch", None, none);
    check_error(&node, "DESCRIBE KEYSPACE", None, none);
    check_error(
        &node,
        "DESCRIBE TABLE system.helenus_schema",
        None,
        "Table 'helenus_schema' not found in keyspace 'system'",
    );
}

#[test]
fn the_cluster_shows_ranges_with_a_keyspace_in_use() {
    let node = Node::new();
    assert_eq!(answer(&node, "DESCRIBE CLUSTER", None).unwrap(), ["Test|Murmur3Partitioner|DynamicEndpointSnitch"]);
    let Statement::Describe(statement) = crate::cql::parse("DESCRIBE CLUSTER").unwrap().statement else { panic!() };
    let rows = describe(&statement, &node.schema, Some("ks"), &info()).unwrap();
    assert_eq!(rows.columns[3].name, "range_ownership");
    let shown = crate::types::to_text(&rows.columns[3].ty, rows.rows[0][3].as_deref().unwrap());
    assert_eq!(shown, "{'-3': ['/127.0.0.1:7000'], '5': ['/127.0.0.1:7000']}");
    assert!(answer(&node, "DESCRIBE FUNCTIONS", None).unwrap().is_empty());
}
