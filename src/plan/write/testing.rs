//! Modifications planned and printed, for the tests of this module.

use crate::base::ids::ColumnId;
use crate::mutation::draft::{Draft, ElementChange, Piece, is_draft};
use crate::mutation::{Entry, MutationView, NEVER_S, set_timestamp};
use crate::plan::testing::{self, NOW_S};
use crate::plan::{Plan, PlannedMutation, RequestOptions, WritePlan, prepare};
use crate::protocol::Value;
use crate::schema::{Position, Schema, clustering};
use crate::types::literal::encode_hex;

/// What the owner fills in as the time of writing.
pub const BASE: i64 = 1000;

/// The plan of a statement, or its error's text.
pub fn plan_with(
    schema: &Schema,
    cql: &str,
    values: &[Value<'_>],
    options: &RequestOptions<'_>,
) -> Result<Plan, String> {
    let parsed = crate::cql::parse(cql).expect(cql);
    let prepared = prepare(&parsed, schema, Some("ks")).map_err(|error| error.message().to_owned())?;
    prepared.bind(values, schema, options).map_err(|error| error.message().to_owned())
}

/// The write that a statement plans; an empty one where it does nothing.
pub fn write(schema: &Schema, cql: &str, values: &[Value<'_>]) -> Result<WritePlan, String> {
    match plan_with(schema, cql, values, &testing::options())? {
        Plan::Write(write) => Ok(write),
        Plan::Void => Ok(WritePlan::default()),
        other => Err(format!("{other:?}")),
    }
}

/// The mutations of a statement in words, in the order of the plan.
pub fn words(schema: &Schema, cql: &str, values: &[Value<'_>]) -> Result<Vec<String>, String> {
    Ok(write(schema, cql, values)?.mutations.into_iter().map(print).collect())
}

/// A statement without values does this; each mutation is a string.
pub fn check(schema: &Schema, cql: &str, expected: &[&str]) {
    assert_eq!(words(schema, cql, &[]).as_deref(), Ok(expected.map_strings().as_slice()), "{cql}");
}

/// A statement without values is refused.
pub fn check_refused(schema: &Schema, cql: &str, expected: &str) {
    assert_eq!(words(schema, cql, &[]), Err(expected.to_owned()), "{cql}");
}

trait MapStrings {
    fn map_strings(&self) -> Vec<String>;
}

impl MapStrings for &[&str] {
    fn map_strings(&self) -> Vec<String> {
        self.iter().map(|text| (*text).to_owned()).collect()
    }
}

/// A mutation as words: table, key, and each entry. Columns go by name, times by their distance from `BASE` (`USING
/// TIMESTAMP 5` is `@5`) and from `NOW_S`, bytes in hexadecimal digits without leading zeros.
pub fn print(mut mutation: PlannedMutation) -> String {
    set_timestamp(&mut mutation.bytes, BASE);
    if is_draft(&mutation.bytes) {
        return print_draft(&mutation);
    }
    let view = MutationView::parse(&mutation.bytes).expect("the planner encodes valid mutations");
    assert_eq!(view.token(), mutation.token);
    let mut out = format!("{} {}:", mutation.table.name, hex(view.key()));
    for entry in view.entries() {
        out.push(' ');
        out.push_str(&print_entry(&mutation, &entry));
    }
    out
}

/// The same of a draft, which begins with a `?`.
fn print_draft(mutation: &PlannedMutation) -> String {
    let draft = Draft::parse(&mutation.bytes).expect("the planner encodes valid drafts");
    let name = |id: ColumnId| mutation.table.column_by_id(id).map_or("", |column| column.name.as_str());
    let pieces = draft.pieces(BASE).map(|piece| match piece {
        Piece::Entry(entry, _) => print_entry(mutation, &entry),
        Piece::CounterAddition { column, delta } => format!("{}+={delta}", name(column)),
        Piece::ListElement { column, index, change, stamp, now_s } => {
            assert_eq!(now_s, NOW_S);
            let change = match change {
                ElementChange::Delete => "deleted".to_owned(),
                ElementChange::Null => "null".to_owned(),
                ElementChange::Unset => "unset".to_owned(),
                ElementChange::Value(value, expires) => {
                    let (ttl_s, expires_s) = expires.unwrap_or((0, NEVER_S));
                    format!("{}{}", hex(value), expiry(ttl_s, expires_s))
                }
            };
            format!("{}#{index}={change}{}", name(column), at(stamp.resolve(BASE)))
        }
        Piece::ListRemoval { column, values, stamp, now_s } => {
            assert_eq!(now_s, NOW_S);
            let values: Vec<String> = values.map(hex).collect();
            format!("{}-=[{}]{}", name(column), values.join(","), at(stamp.resolve(BASE)))
        }
    });
    let pieces: Vec<String> = pieces.collect();
    format!("?{} {}: {}", mutation.table.name, hex(draft.key()), pieces.join(" "))
}

fn print_entry(mutation: &PlannedMutation, entry: &Entry<'_>) -> String {
    let name = |id: ColumnId| mutation.table.column_by_id(id).map_or("?", |column| column.name.as_str());
    match entry {
        Entry::PartitionDeletion(deletion) => format!("-all{}", at(deletion.timestamp)),
        Entry::StaticRow => "static".to_owned(),
        Entry::Row { clustering } => format!("row{}", place(clustering)),
        Entry::RangeTombstone { start, end, deletion } => {
            format!("-{}..{}{}", edge(*start), edge(*end), at(deletion.timestamp))
        }
        Entry::Liveness(liveness) => {
            format!("live{}{}", at(liveness.timestamp), expiry(liveness.ttl_s, liveness.expires_s))
        }
        Entry::RowDeletion(deletion) => format!("-row{}", at(deletion.timestamp)),
        Entry::ComplexDeletion(column, deletion) => format!("-{}{}", name(*column), at(deletion.timestamp)),
        Entry::Cell(cell) => {
            let path = cell.path.map_or(String::new(), |path| format!("[{}]", hex(path)));
            let (column, time) = (name(cell.column), at(cell.timestamp));
            if cell.is_tombstone() {
                assert_eq!(cell.local_deletion_s, NOW_S);
                return format!("-{column}{path}{time}");
            }
            let expiry = expiry(cell.ttl_s, cell.local_deletion_s);
            format!("{column}{path}={}{time}{expiry}", hex(cell.value))
        }
        Entry::Partition { .. } => "partition".to_owned(),
    }
}

fn at(timestamp: i64) -> String {
    match timestamp {
        BASE => String::new(),
        timestamp if timestamp == BASE - 1 => "@before".to_owned(),
        timestamp => format!("@{timestamp}"),
    }
}

fn expiry(ttl_s: u32, expires_s: i64) -> String {
    if ttl_s == 0 {
        assert_eq!(expires_s, NEVER_S);
        return String::new();
    }
    assert_eq!(expires_s, NOW_S + i64::from(ttl_s));
    format!("~{ttl_s}")
}

fn place(prefix: &[u8]) -> String {
    format!("({})", clustering::components(prefix).map(hex).collect::<Vec<_>>().join(","))
}

/// `<(1)` is just before all that starts with 1, `>(1)` just after.
fn edge(position: Position<'_>) -> String {
    let side = match position.weight {
        -1 => "<",
        1 => ">",
        _ => "=",
    };
    format!("{side}{}", place(position.prefix))
}

fn hex(bytes: &[u8]) -> String {
    let digits = encode_hex(bytes);
    let short = digits.trim_start_matches('0');
    if short.is_empty() && !bytes.is_empty() { "0".to_owned() } else { short.to_owned() }
}
