//! The check after a start: everything is read, by scans and by key, and compared with what must be there.

use std::collections::BTreeMap;

use super::model::{Difference, Partition, Seen};
use super::world::{Table, Tracked, World};
use crate::cql::{Connection, CqlFailure};
use crate::dice::Dice;

/// What a check has found.
#[derive(Debug, Default)]
pub struct Verdict {
    pub rows: u64,
    pub lost: u64,
    pub back: u64,
    pub wrong: u64,
    pub failures: Vec<String>,
}

impl Verdict {
    fn add(&mut self, place: &str, difference: &Difference) {
        self.lost += difference.lost.len() as u64;
        self.back += difference.back.len() as u64;
        self.wrong += difference.wrong.len() as u64;
        if !difference.is_none() {
            self.failures.push(format!("{place}: {difference}"));
        }
    }

    fn wrong(&mut self, what: String) {
        self.wrong += 1;
        self.failures.push(what);
    }
}

/// What became of the batches in doubt: in how many partitions each is missing, and in how many it is there.
type Batches = BTreeMap<u64, (u32, u32)>;

/// Reads everything. Writes in doubt are settled by what is seen.
pub fn check(world: &World, connection: &mut Connection, dice: &mut Dice) -> Result<Verdict, CqlFailure> {
    let mut verdict = Verdict::default();
    let mut batches = Batches::new();
    for table in &world.tables {
        settle_column(table, connection, &mut verdict)?;
        scan(table, connection, 1 + dice.small(400), &mut verdict, &mut batches)?;
        by_key(table, connection, dice, &mut verdict)?;
    }
    for (batch, (without, with)) in batches {
        if without > 0 && with > 0 {
            verdict.wrong(format!("logged batch {batch} is there in {with} partitions and missing in {without}"));
        }
    }
    Ok(verdict)
}

/// Whether the column `x` is there, where that was in doubt.
fn settle_column(table: &Table, connection: &mut Connection, verdict: &mut Verdict) -> Result<(), CqlFailure> {
    let mut x = table.altering();
    let present = !connection.run(&table.spec.asks_for_x())?.rows.is_empty();
    if present != x.present {
        if !x.in_doubt {
            let (name, shows) = (table.spec.name, if present { "shows" } else { "lacks" });
            verdict.wrong(format!("the schema of {name} {shows} column x, against the last ALTER that was answered"));
        }
        *x = x.altered();
    }
    x.in_doubt = false;
    Ok(())
}

/// The whole table, page by page.
fn scan(
    table: &Table,
    connection: &mut Connection,
    page_size: i32,
    verdict: &mut Verdict,
    batches: &mut Batches,
) -> Result<(), CqlFailure> {
    let x = *table.x();
    let text = table.spec.select(x.present);
    let mut found: BTreeMap<i32, Vec<Seen>> = BTreeMap::new();
    let mut last = None;
    for row in connection.rows(&text, page_size)? {
        verdict.rows += 1;
        let (pk, seen) = table.spec.seen(&row);
        let Some(pk) = pk else {
            verdict.wrong(format!("{text}: a row without a partition key: {seen:?}"));
            continue;
        };
        if last != Some(pk) && found.contains_key(&pk) {
            verdict.wrong(format!("{text}, {page_size} rows a page: partition {pk} comes twice"));
        }
        last = Some(pk);
        found.entry(pk).or_default().push(seen);
    }
    for (pk, mut tracked) in table.partitions() {
        let got = found.remove(&pk).unwrap_or_default();
        let show = |state: &Partition| state.seen(x.current(), table.spec.descending);
        let place = format!("{} partition {pk}, scanned {page_size} rows a page", table.spec.name);
        settle(&mut tracked, &place, &got, show, verdict, batches);
    }
    for (pk, rows) in found {
        verdict.add(&format!("{} partition {pk}", table.spec.name), &Difference::of(&[], &rows));
    }
    Ok(())
}

/// One partition against the states it may be in.
fn settle(
    tracked: &mut Tracked,
    place: &str,
    got: &[Seen],
    show: impl Fn(&Partition) -> Vec<Seen>,
    verdict: &mut Verdict,
    batches: &mut Batches,
) {
    let holds: Vec<bool> = tracked.states().iter().map(|state| show(state) == got).collect();
    if let (Some(batch), &[without, with]) = (tracked.batch(), holds.as_slice())
        && without != with
    {
        let count = batches.entry(batch).or_default();
        count.0 += u32::from(without);
        count.1 += u32::from(with);
    }
    if holds.contains(&true) {
        tracked.settle(|state| show(state) == got);
        return;
    }
    let differences = tracked.states().iter().map(|state| Difference::of(&show(state), got));
    if let Some(nearest) = differences.min_by_key(Difference::count) {
        let doubts = tracked.states().len() - 1;
        verdict.add(&format!("{place} ({doubts} states in doubt)"), &nearest);
    }
}

/// Every partition by its key, both ways.
fn by_key(
    table: &Table,
    connection: &mut Connection,
    dice: &mut Dice,
    verdict: &mut Verdict,
) -> Result<(), CqlFailure> {
    let x = *table.x();
    for (pk, tracked) in table.partitions() {
        let mut texts = vec![(table.spec.select_partition(x.present, pk), false)];
        if table.spec.clustered {
            texts.push((table.spec.select_reversed(x.present, pk), true));
        }
        for (text, reversed) in texts {
            let page_size = 1 + dice.small(50);
            let rows = connection.rows(&text, page_size)?;
            verdict.rows += rows.len() as u64;
            let got: Vec<Seen> = rows.iter().map(|row| table.spec.seen(row).1).collect();
            let show = |state: &Partition| state.seen(x.current(), table.spec.descending != reversed);
            let differences = tracked.states().iter().map(|state| Difference::of(&show(state), &got));
            if let Some(nearest) = differences.min_by_key(Difference::count) {
                verdict.add(&format!("{text}, {page_size} rows a page"), &nearest);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kill9::model::{Cells, Change};

    fn insert(ck: i32) -> Change {
        Change::Insert { ck, cells: Cells { v: Some(ck), ..Cells::default() } }
    }

    fn seen(ck: i32) -> Seen {
        Seen { ck: Some(ck), s: None, v: Some(ck), w: None, x: None }
    }

    fn settled(world: &World, pk: i32, got: &[Seen], batches: &mut Batches) -> Verdict {
        let mut verdict = Verdict::default();
        let mut tracked = world.tables[0].partition(pk);
        settle(&mut tracked, "a partition", got, |state| state.seen(None, false), &mut verdict, batches);
        verdict
    }

    #[test]
    fn a_row_that_was_acknowledged_and_is_not_there_is_lost() {
        let world = World::new();
        world.tables[0].partition(1).acknowledge(&[insert(1), insert(2)], 0);
        let verdict = settled(&world, 1, &[seen(2)], &mut Batches::new());
        assert_eq!((verdict.lost, verdict.back, verdict.wrong), (1, 0, 0), "{verdict:?}");
    }

    #[test]
    fn a_row_that_was_deleted_and_is_there_is_back() {
        let world = World::new();
        world.tables[0].partition(1).acknowledge(&[insert(1), Change::DeleteRow { ck: 1 }], 0);
        let verdict = settled(&world, 1, &[seen(1)], &mut Batches::new());
        assert_eq!((verdict.lost, verdict.back, verdict.wrong), (0, 1, 0), "{verdict:?}");
    }

    #[test]
    fn a_write_in_doubt_may_be_there_or_not_but_not_in_part() {
        for (got, failures) in [(vec![], 0), (vec![seen(1), seen(2)], 0), (vec![seen(1)], 1)] {
            let world = World::new();
            world.tables[0].partition(1).doubt(&[insert(1), insert(2)], 0, None);
            let verdict = settled(&world, 1, &got, &mut Batches::new());
            assert_eq!(verdict.failures.len(), failures, "{got:?}: {verdict:?}");
        }
    }

    #[test]
    fn a_batch_in_doubt_counts_where_it_is_and_where_not() {
        let world = World::new();
        let mut batches = Batches::new();
        for pk in [1, 2, 3] {
            world.tables[0].partition(pk).doubt(&[insert(1)], 0, Some(9));
        }
        // A partition that shows the same either way says nothing.
        world.tables[0].partition(4).doubt(&[Change::DeletePartition], 0, Some(9));
        settled(&world, 1, &[], &mut batches);
        settled(&world, 2, &[seen(1)], &mut batches);
        settled(&world, 3, &[seen(1)], &mut batches);
        settled(&world, 4, &[], &mut batches);
        assert_eq!(batches, Batches::from([(9, (1, 2))]));
    }
}
