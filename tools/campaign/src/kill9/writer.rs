//! One write: which partitions, which changes, the statement or batch, and what its answer says of them.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use super::load::Load;
use super::model::{Cells, Change, Column};
use super::tables::{CLUSTERINGS, PARTITIONS, Spec};
use super::world::{Table, Tracked, XColumn};
use crate::cql::{Connection, CqlFailure};
use crate::dice::Dice;

/// Long values come alone: a batch stays well below the size that is refused.
const TEXT_LONG_BYTES: u64 = 12_000;
const TEXT_BYTES: u64 = 600;

/// What goes into one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Single,
    /// Over one partition: unlogged half of the time.
    Whole {
        logged: bool,
    },
    /// Over several partitions, logged.
    Spread,
}

/// Makes one write.
pub fn write(load: &Load<'_>, connection: &mut Connection, dice: &mut Dice) -> Result<(), CqlFailure> {
    let form = match dice.below(20) {
        0..=2 => Form::Spread,
        3..=5 => Form::Whole { logged: dice.one_in(2) },
        _ => Form::Single,
    };
    let places = places(form, &load.world.tables, dice);
    let tables: BTreeSet<usize> = places.iter().map(|(table, _)| *table).collect();
    // Locks are taken in one order everywhere: writes, the column, partitions, each ascending.
    let tables: Vec<&Table> = tables.into_iter().map(|at| &load.world.tables[at]).collect();
    let _writing: Vec<_> = tables.iter().map(|table| table.writing()).collect();
    let x_wanted = dice.one_in(4);
    let x_held: Vec<_> = if x_wanted { tables.iter().map(|table| table.x()).collect() } else { Vec::new() };
    let x_of = |table: &Table| -> Option<XColumn> {
        let at = tables.iter().position(|held| std::ptr::eq(*held, table))?;
        x_held.get(at).map(|held| **held).filter(|x| x.present && !x.in_doubt)
    };

    let mut parts: Vec<Part<'_>> = Vec::with_capacity(places.len());
    for (at, pk) in places {
        let table = &load.world.tables[at];
        let tracked = table.partition(pk);
        if tracked.is_frozen() {
            return Ok(());
        }
        let x = x_of(table);
        let changes = changes(table.spec, form, x.is_some(), dice);
        parts.push(Part { spec: table.spec, pk, tracked, changes, x_life: x.map_or(0, |x| x.life) });
    }
    let outcome = connection.run(&request(&parts, form, || load.world.timestamp()));
    let batch = (form == Form::Spread).then(|| load.world.batch());
    for part in &mut parts {
        match outcome {
            Ok(_) => part.tracked.acknowledge(&part.changes, part.x_life),
            Err(_) => part.tracked.doubt(&part.changes, part.x_life, batch),
        }
    }
    let written: usize = parts.iter().map(|part| part.changes.len()).sum();
    let counter = if outcome.is_ok() { &load.acknowledged } else { &load.in_doubt };
    counter.fetch_add(written as u64, Ordering::Relaxed);
    outcome.map(|_| ())
}

/// The changes to one partition, which is locked for them.
struct Part<'a> {
    spec: &'static Spec,
    pk: i32,
    tracked: std::sync::MutexGuard<'a, Tracked>,
    changes: Vec<Change>,
    x_life: u32,
}

/// Table and partition key of each part, ascending, none twice. Counters stand in no logged batch.
fn places(form: Form, tables: &[Table], dice: &mut Dice) -> BTreeSet<(usize, i32)> {
    let count = if form == Form::Spread { 2 + dice.index(3) } else { 1 };
    let mut places = BTreeSet::new();
    while places.len() < count {
        let table = dice.index(tables.len());
        if form != Form::Spread || !tables[table].spec.counts {
            places.insert((table, dice.small(PARTITIONS)));
        }
    }
    places
}

fn request(parts: &[Part<'_>], form: Form, timestamp: impl Fn() -> i64) -> String {
    let mut statements = Vec::new();
    for part in parts {
        let timestamp = part.spec.timestamped.then(&timestamp);
        statements.extend(part.changes.iter().map(|change| part.spec.statement(part.pk, change, timestamp)));
    }
    let counts = parts.iter().any(|part| part.spec.counts);
    let begin = match form {
        Form::Single => return statements.concat(),
        Form::Whole { logged: true } if counts => "BEGIN COUNTER BATCH",
        Form::Whole { logged: false } => "BEGIN UNLOGGED BATCH",
        Form::Whole { logged: true } | Form::Spread => "BEGIN BATCH",
    };
    format!("{begin} {}; APPLY BATCH", statements.join("; "))
}

/// What to do to one partition. Changes of one batch have one timestamp, so no two of them touch the same cell.
fn changes(spec: &Spec, form: Form, with_x: bool, dice: &mut Dice) -> Vec<Change> {
    if form == Form::Single {
        return vec![change(spec, with_x, TEXT_LONG_BYTES, dice)];
    }
    if dice.one_in(8) {
        return vec![wide_delete(spec, dice)];
    }
    let wanted = if spec.clustered { 1 + dice.index(4) } else { 1 };
    let mut rows = BTreeSet::new();
    while rows.len() < wanted {
        rows.insert(clustering(spec, dice));
    }
    let mut changes: Vec<Change> = rows.into_iter().map(|ck| row_change(spec, ck, with_x, TEXT_BYTES, dice)).collect();
    if spec.clustered && !spec.counts && dice.one_in(3) {
        changes.push(Change::SetStatic(dice.small(i32::MAX)));
    }
    changes
}

fn change(spec: &Spec, with_x: bool, long_bytes: u64, dice: &mut Dice) -> Change {
    match dice.below(24) {
        0 => wide_delete(spec, dice),
        1 if spec.clustered && !spec.counts => Change::SetStatic(dice.small(i32::MAX)),
        _ => row_change(spec, clustering(spec, dice), with_x, long_bytes, dice),
    }
}

fn clustering(spec: &Spec, dice: &mut Dice) -> i32 {
    if spec.clustered { dice.small(CLUSTERINGS) } else { 0 }
}

/// Deletes a range of rows, or the partition.
fn wide_delete(spec: &Spec, dice: &mut Dice) -> Change {
    if !spec.clustered || dice.one_in(3) {
        return Change::DeletePartition;
    }
    let from = dice.small(CLUSTERINGS);
    Change::DeleteRange { from, to: from + 1 + dice.small(CLUSTERINGS / 2) }
}

fn row_change(spec: &Spec, ck: i32, with_x: bool, long_bytes: u64, dice: &mut Dice) -> Change {
    match dice.below(12) {
        0 => Change::DeleteRow { ck },
        _ if spec.counts => Change::Count { ck, delta: dice.small(100) - 30 },
        1 => Change::DeleteCell { ck, column: *dice.pick(&[Column::V, Column::W]) },
        2..=6 => Change::Update { ck, cells: cells(with_x, long_bytes, dice) },
        _ => Change::Insert { ck, cells: cells(with_x, long_bytes, dice) },
    }
}

/// One to three values.
fn cells(with_x: bool, long_bytes: u64, dice: &mut Dice) -> Cells {
    let w = (!dice.one_in(3)).then(|| text(if dice.one_in(16) { long_bytes } else { TEXT_BYTES }, dice));
    let x = (with_x && !dice.one_in(3)).then(|| dice.small(i32::MAX));
    let v = (w.is_none() && x.is_none() || dice.one_in(2)).then(|| dice.small(i32::MAX));
    Cells { v, w, x, expiring: dice.one_in(8) }
}

/// Text that compresses a little, of up to `bytes_max` bytes.
fn text(bytes_max: u64, dice: &mut Dice) -> String {
    let length = dice.index(usize::try_from(bytes_max).unwrap_or(usize::MAX));
    let mut text = String::with_capacity(length + 16);
    while text.len() < length {
        text.push_str(&format!("{:x}.", dice.next() >> (dice.below(4) * 16)));
    }
    text.truncate(length);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kill9::tables::SPECS;
    use crate::kill9::world::World;

    #[test]
    fn changes_of_a_batch_touch_no_cell_twice() {
        let mut dice = Dice::new(3);
        for _ in 0..2000 {
            let form = Form::Whole { logged: true };
            let changes = changes(dice.pick(&SPECS), form, true, &mut dice);
            let wide = |change: &Change| matches!(change, Change::DeleteRange { .. } | Change::DeletePartition);
            if changes.iter().any(wide) {
                assert_eq!(changes.len(), 1);
            }
            let mut rows = BTreeSet::new();
            for change in &changes {
                match change {
                    Change::Insert { ck, .. }
                    | Change::Update { ck, .. }
                    | Change::Count { ck, .. }
                    | Change::DeleteCell { ck, .. }
                    | Change::DeleteRow { ck } => assert!(rows.insert(*ck), "{changes:?}"),
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_write_sets_something() {
        let mut dice = Dice::new(4);
        for _ in 0..2000 {
            let with_x = dice.one_in(2);
            let cells = cells(with_x, TEXT_LONG_BYTES, &mut dice);
            assert!(cells.v.is_some() || cells.w.is_some() || cells.x.is_some());
            assert!(with_x || cells.x.is_none());
            assert!(cells.w.is_none_or(|w| !w.contains('\'') && w.len() < 12_000));
        }
    }

    #[test]
    fn a_batch_is_told_by_its_form_and_only_some_tables_carry_timestamps() {
        let world = World::new();
        let part = |at: usize| Part {
            spec: world.tables[at].spec,
            pk: 1,
            tracked: world.tables[at].partition(1),
            changes: vec![Change::DeletePartition],
            x_life: 0,
        };
        let counted = Part { changes: vec![Change::Count { ck: 2, delta: 5 }], ..part(4) };
        let expected = "BEGIN COUNTER BATCH UPDATE kill9.counts SET v = v + 5 WHERE pk = 1 AND ck = 2; APPLY BATCH";
        assert_eq!(request(&[counted], Form::Whole { logged: true }, || 5), expected);
        let parts = [part(0), part(3)];
        let expected = "BEGIN BATCH DELETE FROM kill9.wide WHERE pk = 1; \
                        DELETE FROM kill9.stamped USING TIMESTAMP 5 WHERE pk = 1; APPLY BATCH";
        assert_eq!(request(&parts, Form::Spread, || 5), expected);
        assert_eq!(request(&parts[..1], Form::Single, || 5), "DELETE FROM kill9.wide WHERE pk = 1");
        let unlogged = request(&parts[..1], Form::Whole { logged: false }, || 5);
        assert!(unlogged.starts_with("BEGIN UNLOGGED BATCH "), "{unlogged}");
    }

    #[test]
    fn only_a_spread_batch_has_several_places() {
        let mut dice = Dice::new(5);
        let tables = World::new().tables;
        for _ in 0..200 {
            assert_eq!(places(Form::Single, &tables, &mut dice).len(), 1);
            let spread = places(Form::Spread, &tables, &mut dice);
            assert!((2..=4).contains(&spread.len()) && spread.iter().all(|(table, _)| *table != 4));
        }
    }
}
