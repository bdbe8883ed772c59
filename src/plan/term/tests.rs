//! Tests of terms: what they mean for a receiver, as text, or why they mean nothing.

#![allow(clippy::unwrap_used)]

use crate::cql::ast::Statement;
use crate::plan::markers::Markers;
use crate::plan::testing;
use crate::protocol::Value;
use crate::schema::Schema;
use crate::types::{self, collection};

use super::{Binding, Bound, Scope, Term, Uses};

fn schema() -> Schema {
    testing::schema(&[
        "CREATE TYPE ty (a int, b frozen<list<int>>)",
        "CREATE TABLE t (k int, j text, PRIMARY KEY ((k, j)))",
    ])
}

/// The value of a term for a receiver `v` of this type, as CQL writes it.
fn value(ty: &str, term: &str, values: &[Value<'_>]) -> Result<String, String> {
    let schema = schema();
    let find = |name: &str| schema.keyspace("ks")?.types.get(name).cloned();
    let ty = types::parse_cql_type(ty, &find).unwrap();
    let parsed = crate::cql::parse(&format!("INSERT INTO t (v) VALUES ({term})")).expect(term);
    let Statement::Insert(insert) = parsed.statement else { panic!("{term}") };
    let mut markers = Markers::new(&parsed.bind_markers);
    let table = schema.table("ks", "t").map(|table| &**table);
    let mut scope = Scope::new(&schema, "ks", table, &mut markers);
    let text = |error: crate::protocol::CqlError| error.message().to_owned();
    let term = Term::prepare(&insert.values[0], &testing::spec("v", ty.clone()), &mut scope).map_err(text)?;
    let uses = Uses::default();
    let binding = Binding::new(values, testing::context(), &uses);
    Ok(match term.bind(&binding).map_err(text)? {
        Bound::Null => "null".to_owned(),
        Bound::Unset => "unset".to_owned(),
        Bound::Bytes(bytes) => types::to_text(&ty, &bytes),
    })
}

fn check(ty: &str, term: &str, expected: &str) {
    assert_eq!(value(ty, term, &[]), Ok(expected.to_owned()), "{term}");
}

fn check_refused(ty: &str, term: &str, expected: &str) {
    assert_eq!(value(ty, term, &[]), Err(expected.to_owned()), "{term}");
}

#[test]
fn constants_mean_what_their_receiver_makes_of_them() {
    check("int", "12", "12");
    check("double", "12", "12.0");
    check("int", "null", "null");
    check("timestamp", "'now'", "'2026-01-01T00:00:00.000Z'");
    check_refused("int", "'x'", "Invalid STRING constant (x) for \"v\" of type int");
    check_refused("int", "2147483648", "Unable to make int from '2147483648'");
    check_refused("counter", "null", "Invalid null value for counter increment/decrement");
}

#[test]
fn collection_literals() {
    check("list<int>", "[2, 1]", "[2, 1]");
    check("set<int>", "{2, 1, 2}", "{1, 2}");
    check("map<int, text>", "{2: 'b', 1: 'a'}", "{1: 'a', 2: 'b'}");
    check("map<int, text>", "{}", "{}");
    check("vector<float, 2>", "[1, 2.5]", "[1.0, 2.5]");
    check("list<int>", "[(int) 1, 2 + 3]", "[1, 5]");
    for (ty, term, expected) in [
        ("list<int>", "[1, 'a']", "Invalid list literal for v: value 'a' is not of type int"),
        ("list<int>", "{1}", "Invalid set literal for v of type list<int>"),
        ("list<int>", "[1, null]", "null is not supported inside collections"),
        ("list<int>", "[?]", "Invalid list literal for v: bind variables are not supported inside collection literals"),
        ("set<text>", "['a']", "Unexpected receiver type 'set<text>'; only list and vector are expected"),
        ("set<text>", "{'a': 'b'}", "Invalid map literal for v of type set<text>"),
        ("map<int, int>", "{'a': 1}", "Invalid map literal for v: key 'a' is not of type int"),
        ("map<int, int>", "{1: 'a'}", "Invalid map literal for v: value 'a' is not of type int"),
        (
            "vector<float, 2>",
            "[1]",
            "Invalid vector literal for v of type vector<float, 2>; expected 2 elements, but given 1",
        ),
        ("vector<float, 2>", "[1, null]", "null is not supported inside vectors"),
    ] {
        check_refused(ty, term, expected);
    }
}

#[test]
fn tuples_and_user_types() {
    check("tuple<int, text>", "(1, null)", "(1, null)");
    check("frozen<ty>", "{b: [1], a: 2}", "{a: 2, b: [1]}");
    check("frozen<ty>", "{a: 2}", "{a: 2, b: null}");
    for (ty, term, expected) in [
        (
            "tuple<int, int>",
            "(1, 2, 3)",
            "Invalid tuple literal for v: too many elements. Type frozen<tuple<int, int>> expects 2 but got 3",
        ),
        ("tuple<int, int>", "('a', 1)", "Invalid tuple literal for v: component 0 is not of type int"),
        ("int", "(1, 2)", "Invalid tuple type literal for v of type int"),
        ("frozen<ty>", "{c: 1}", "Unknown field 'c' in value of user defined type ty"),
        ("frozen<ty>", "{a: 'x'}", "Invalid user type literal for v: field a is not of type int"),
    ] {
        check_refused(ty, term, expected);
    }
}

#[test]
fn hints_calls_and_operations() {
    check("int", "(int) 5", "5");
    check("bigint", "(bigint) 1 + 2", "3");
    check("int", "- (int) 5", "-5");
    check("int", "blob_as_int(int_as_blob(7))", "7");
    check("text", "CAST(5 AS text)", "'5'");
    check_refused("int", "(bigint) 1", "Cannot assign value (bigint)1 to v of type int");
    check_refused("int", "(text) 1", "Cannot cast value 1 to type text");
    check_refused("int", "nosuch(1)", "Unknown function nosuch called");
    check_refused(
        "int",
        "uuid()",
        "Type error: cannot assign result of function system.uuid (type uuid) to v (type int)",
    );
    check_refused("int", "max(1)", "Aggregation function are not supported in the where clause");
}

#[test]
fn token_takes_the_tables_key() {
    let one = value("bigint", "token(1, 'a')", &[]).unwrap();
    assert_eq!(value("bigint", "system.token(1, 'a')", &[]).unwrap(), one);
    check("bigint", "token(null, 'a')", "null");
    let count = "Invalid number of arguments in call to function system.token: 2 required but 1 provided";
    check_refused("bigint", "token(1)", count);
}

#[test]
fn each_call_has_random_bits_of_its_own() {
    let pair = value("tuple<uuid, uuid>", "(uuid(), uuid())", &[]).unwrap();
    let (first, second) = pair.trim_matches(['(', ')']).split_once(", ").unwrap();
    assert_ne!(first, second);
}

#[test]
fn bound_values_are_checked_and_sorted() {
    let int = |value: i32| value.to_be_bytes();
    assert_eq!(value("int", "?", &[Value::Bytes(&int(5))]), Ok("5".to_owned()));
    assert_eq!(value("int", "?", &[Value::Unset]), Ok("unset".to_owned()));
    assert_eq!(value("int", "?", &[Value::Null]), Ok("null".to_owned()));
    assert_eq!(value("int", "?", &[Value::Bytes(b"abc")]), Err("Expected 4 or 0 byte int (3)".to_owned()));
    let set = collection::pack_list([Some(int(2).as_slice()), Some(&int(1)), Some(&int(2))]);
    assert_eq!(value("set<int>", "?", &[Value::Bytes(&set)]), Ok("{1, 2}".to_owned()));
    assert_eq!(value("tuple<int, int>", "(1, ?)", &[Value::Bytes(&int(2))]), Ok("(1, 2)".to_owned()));
    let unset = Err("Invalid unset value for tuple field number 1".to_owned());
    assert_eq!(value("tuple<int, int>", "(1, ?)", &[Value::Unset]), unset);
}

/// Each part's types are found once: asked anew for each candidate of what stands around it, this takes longer than anyone
/// waits.
#[test]
fn long_and_deep_expressions_are_prepared_at_once() {
    check("int", &["1"; 120].join(" + "), "120");
    check("bigint", &format!("{}1{}", "(1 + ".repeat(60), ")".repeat(60)), "61");
    check("int", &format!("{}1{}", "abs(".repeat(60), ")".repeat(60)), "1");
    check("double", &["1"; 60].join(" * "), "1.0");
}
