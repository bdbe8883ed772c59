//! The load that is cut off: writers, readers that check while writes go on, and an operator who flushes, compacts,
//! truncates and alters.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use helenus::protocol::ErrorCode;

use super::model::Difference;
use super::tables::{KEYSPACE, PARTITIONS};
use super::world::{Table, World};
use super::writer;
use crate::admin;
use crate::cql::{Connection, CqlFailure};
use crate::dice::Dice;
use crate::server::Ready;

/// How many of each run.
#[derive(Debug, Clone, Copy)]
pub struct Crew {
    pub writers: u32,
    pub readers: u32,
}

/// A server under load, seen by every thread.
#[derive(Debug)]
pub struct Load<'a> {
    pub world: &'a World,
    ready: &'a Ready,
    /// The server is about to end: errors and closed connections are no news.
    ending: AtomicBool,
    pub acknowledged: AtomicU64,
    pub in_doubt: AtomicU64,
    pub rows_checked: AtomicU64,
    failures: Mutex<Vec<String>>,
}

impl<'a> Load<'a> {
    /// Nothing runs yet.
    pub fn new(world: &'a World, ready: &'a Ready) -> Load<'a> {
        Load {
            world,
            ready,
            ending: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            in_doubt: AtomicU64::new(0),
            rows_checked: AtomicU64::new(0),
            failures: Mutex::new(Vec::new()),
        }
    }

    /// Runs the crew for `time`, then calls `end`, which ends the server, and waits for all of them.
    pub fn run<T>(&self, crew: Crew, dice: &Dice, time: Duration, end: impl FnOnce() -> T) -> T {
        std::thread::scope(|scope| {
            for number in 0..crew.writers {
                let dice = dice.part(u64::from(number));
                scope.spawn(move || self.attend("a writer", dice, writer::write));
            }
            for number in 0..crew.readers {
                let dice = dice.part(1 << 32 | u64::from(number));
                scope.spawn(move || self.attend("a reader", dice, read));
            }
            let operator = dice.part(2 << 32);
            scope.spawn(move || self.attend("the operator", operator, operate));
            std::thread::sleep(time);
            self.ending.store(true, Ordering::SeqCst);
            end()
        })
    }

    /// What went wrong.
    pub fn failures(&self) -> Vec<String> {
        std::mem::take(&mut self.failures.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Does one thing after the other on a connection of its own until the server is gone.
    fn attend(
        &self,
        who: &str,
        mut dice: Dice,
        act: impl Fn(&Load<'_>, &mut Connection, &mut Dice) -> Result<(), CqlFailure>,
    ) {
        let outcome = Connection::open(self.ready.cql).and_then(|mut connection| {
            loop {
                match act(self, &mut connection, &mut dice) {
                    Ok(()) => {}
                    Err(CqlFailure::Refused { code, message }) => self.judge(who, code, &message),
                    Err(end) => return Err(end),
                }
            }
        });
        match outcome {
            Ok(()) => {}
            Err(CqlFailure::Gone(_)) if self.is_ending() => {}
            Err(failure) => self.fail(format!("{who}: {failure}")),
        }
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::SeqCst)
    }

    /// An overloaded server may say so; any other error has no reason here.
    fn judge(&self, who: &str, code: ErrorCode, message: &str) {
        let busy = matches!(code, ErrorCode::Overloaded | ErrorCode::WriteTimeout | ErrorCode::ReadTimeout);
        if !busy && !self.is_ending() {
            self.fail(format!("{who}: {code:?}: {message}"));
        }
    }

    fn fail(&self, what: String) {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner).push(what);
    }
}

/// Reads one partition while no write to it is under way, or scans a table among all writes.
fn read(load: &Load<'_>, connection: &mut Connection, dice: &mut Dice) -> Result<(), CqlFailure> {
    let table = dice.pick(&load.world.tables);
    if dice.one_in(20) {
        return scan(load, connection, dice, table);
    }
    let pk = dice.small(PARTITIONS);
    let _no_truncate = table.writing();
    let x = table.x();
    let tracked = table.partition(pk);
    let [state] = tracked.states() else { return Ok(()) };
    if tracked.is_frozen() || x.in_doubt {
        return Ok(());
    }
    let reversed = table.spec.clustered && dice.one_in(3);
    let text =
        if reversed { table.spec.select_reversed(x.present, pk) } else { table.spec.select_partition(x.present, pk) };
    let page_size = 1 + dice.small(40);
    let rows = connection.rows(&text, page_size)?;
    let got: Vec<_> = rows.iter().map(|row| table.spec.seen(row).1).collect();
    let want = state.seen(x.current(), table.spec.descending != reversed);
    load.rows_checked.fetch_add(got.len() as u64, Ordering::Relaxed);
    let difference = Difference::of(&want, &got);
    if !difference.is_none() {
        load.fail(format!("while it ran: {text}, {page_size} rows a page: {difference}"));
    }
    Ok(())
}

/// Among all writes the rows cannot be known, but each key comes at most once.
fn scan(load: &Load<'_>, connection: &mut Connection, dice: &mut Dice, table: &Table) -> Result<(), CqlFailure> {
    let text = table.spec.select(false);
    let page_size = 1 + dice.small(200);
    let rows = connection.rows(&text, page_size)?;
    let mut keys = std::collections::BTreeSet::new();
    for row in &rows {
        let (pk, seen) = table.spec.seen(row);
        // A static row alone and the partition's first row may follow one another over two pages.
        if seen.ck.is_some() && !keys.insert((pk, seen.ck)) {
            load.fail(format!("while it ran: {text}, {page_size} rows a page: {pk:?}, {:?} comes twice", seen.ck));
        }
    }
    Ok(())
}

fn operate(load: &Load<'_>, connection: &mut Connection, dice: &mut Dice) -> Result<(), CqlFailure> {
    std::thread::sleep(Duration::from_millis(dice.below(60)));
    let table = dice.pick(&load.world.tables);
    match dice.below(20) {
        0..=8 => post(load, "flush", dice, table),
        9..=13 => post(load, "compact", dice, table),
        // A counter's column that was dropped cannot be added again.
        14..=17 if table.spec.counts => Ok(()),
        14..=17 => alter(connection, table),
        _ => truncate(connection, table),
    }
}

fn post(load: &Load<'_>, what: &str, dice: &mut Dice, table: &Table) -> Result<(), CqlFailure> {
    let path = match dice.below(3) {
        0 => format!("/{what}"),
        1 => format!("/{what}?keyspace={KEYSPACE}"),
        _ => format!("/{what}?keyspace={KEYSPACE}&table={}", table.spec.name),
    };
    match admin::post(load.ready.admin, &path) {
        Ok((200, _)) => Ok(()),
        Ok((status, body)) => {
            if !load.is_ending() {
                load.fail(format!("POST {path}: {status} {body}"));
            }
            Ok(())
        }
        Err(error) => Err(CqlFailure::from(error)),
    }
}

/// Drops the column where it is there, adds it again where it is not.
fn alter(connection: &mut Connection, table: &Table) -> Result<(), CqlFailure> {
    let mut x = table.altering();
    if x.in_doubt {
        return Ok(());
    }
    let outcome = connection.run(&table.spec.alter(!x.present));
    match outcome {
        Ok(_) => *x = x.altered(),
        Err(_) => x.in_doubt = true,
    }
    outcome.map(|_| ())
}

fn truncate(connection: &mut Connection, table: &Table) -> Result<(), CqlFailure> {
    let _alone = table.truncating();
    if table.partitions().any(|(_, tracked)| tracked.is_frozen()) {
        return Ok(());
    }
    let outcome = connection.run(&table.spec.truncate());
    for (_, mut tracked) in table.partitions() {
        match outcome {
            Ok(_) => tracked.truncate(),
            Err(_) => tracked.doubt_truncate(),
        }
    }
    outcome.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready() -> Ready {
        let address = "127.0.0.1:1".parse().expect("an address");
        Ready { cql: address, shard_aware: address, admin: address, shards: 1, pid: 1 }
    }

    #[test]
    fn a_server_that_is_not_there_is_a_failure_until_it_was_ended() {
        let (world, ready) = (World::new(), ready());
        let load = Load::new(&world, &ready);
        load.attend("a writer", Dice::new(1), writer::write);
        assert_eq!(load.failures().len(), 1);
        load.run(Crew { writers: 0, readers: 0 }, &Dice::new(1), Duration::ZERO, || ());
        load.failures();
        load.attend("a writer", Dice::new(1), writer::write);
        assert!(load.failures().is_empty());
    }

    #[test]
    fn overload_is_tolerated_and_other_errors_are_until_the_end() {
        let (world, ready) = (World::new(), ready());
        let load = Load::new(&world, &ready);
        load.judge("a writer", ErrorCode::Overloaded, "busy");
        assert!(load.failures().is_empty());
        load.judge("a writer", ErrorCode::ServerError, "stopping");
        assert_eq!(load.failures(), ["a writer: ServerError: stopping"]);
        load.ending.store(true, Ordering::SeqCst);
        load.judge("a writer", ErrorCode::ServerError, "stopping");
        assert!(load.failures().is_empty());
    }
}
