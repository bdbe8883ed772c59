//! What a seed does beyond rows, deletions and logged batches. It is drawn from streams of its own, so that a seed's other
//! choices stay what they are.

use std::cell::{Cell, RefCell};

use helenus::commitlog::SyncMode;
use helenus::shard::READ_TURN_PLACES;

use super::model::{ListChange, Op, STATIC};
use super::stream;
use crate::dice::Dice;

/// The part of a seed that its features are drawn from.
const PART: u64 = 0xfea7;
/// Operations between two jumps of the clock.
const OPERATIONS_A_JUMP: u64 = 60;
/// Clustering keys of a partition where memory is small.
const NARROW_CLUSTERINGS: i32 = 2;

/// What the table under test holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    #[default]
    Rows,
    /// Each row is a counter.
    Counters,
    /// Each partition is a list, element by element.
    Lists,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub kind: Kind,
    /// Rows of a partition share a static column.
    pub statics: bool,
    /// Half of the writes expire, and the clock jumps in seconds.
    pub ttls: bool,
    /// Half of the batches over several partitions are not logged.
    pub unlogged: bool,
    /// Memory for memtables that a seed's rows fill; each row has a longer value beside its number.
    pub memtable_bytes: Option<u64>,
    /// Reads give way to other work after every few rows of a partition.
    pub short_turns: bool,
}

impl Features {
    pub fn of(seed: u64) -> Features {
        let mut dice = stream(seed).part(PART);
        let [statics, ttls, unlogged] = [(); 3].map(|()| dice.one_in(2));
        let memtable_bytes = dice.one_in(4).then(|| *dice.pick(&[1 << 20, 3 << 20, 6 << 20]));
        let short_turns = dice.one_in(2);
        let kind = match dice.below(6) {
            0 => Kind::Counters,
            1 => Kind::Lists,
            _ => Kind::Rows,
        };
        Features { kind, statics, ttls, unlogged, memtable_bytes, short_turns }.fitting()
    }

    /// Without what the table's kind does not have.
    fn fitting(self) -> Features {
        match self.kind {
            Kind::Rows => self,
            Kind::Counters => Features { ttls: false, unlogged: true, memtable_bytes: None, ..self },
            Kind::Lists => Features { statics: false, ttls: false, unlogged: false, memtable_bytes: None, ..self },
        }
    }

    /// The log's mode where `drawn` was. Where `periodic` loses the last changes of a list, and then redoes a batch that
    /// came after them, the list is one that never was: lists are not kept so.
    pub fn mode(&self, drawn: SyncMode) -> SyncMode {
        match drawn {
            SyncMode::Periodic { .. } if self.kind == Kind::Lists => SyncMode::Batch,
            drawn => drawn,
        }
    }

    /// What `op` becomes. `now_s` is when it is made.
    pub fn alter(&self, op: Op, now_s: i64, dice: &mut Dice) -> Op {
        match self.kind {
            Kind::Rows => self.alter_rows(op, now_s, dice),
            Kind::Counters => match self.alter_rows(op, now_s, dice) {
                Op::Put(rows) | Op::Unlogged(rows) => {
                    Op::Count(rows.into_iter().map(|(key, value)| (key, value.v % 11 - 3)).collect())
                }
                // A counter of its own that was deleted takes no additions for as long as its tombstone is there.
                Op::DeleteRow(k, STATIC) => Op::DeletePartition(k),
                other => other,
            },
            Kind::Lists => list_op(&op, dice),
        }
    }

    fn alter_rows(&self, op: Op, now_s: i64, dice: &mut Dice) -> Op {
        match op {
            Op::Put(mut rows) => {
                rows.iter_mut().for_each(|((_, c), _)| *c = self.narrow(*c));
                rows.dedup();
                if self.statics && dice.one_in(4) {
                    let ((k, _), value) = rows[0];
                    if rows.len() == 1 && dice.one_in(2) {
                        rows.clear();
                    }
                    rows.insert(0, ((k, STATIC), value));
                }
                if self.ttls && dice.one_in(2) {
                    let expires_s = now_s + *dice.pick(&[1, 2, 4, 600, 3_000]);
                    rows.iter_mut().for_each(|(_, value)| value.expires_s = Some(expires_s));
                }
                let is_one = rows.iter().all(|((k, _), _)| *k == rows[0].0.0);
                if self.unlogged && !is_one && dice.one_in(2) { Op::Unlogged(rows) } else { Op::Put(rows) }
            }
            Op::DeleteRow(k, _) if self.statics && dice.one_in(3) => Op::DeleteRow(k, STATIC),
            Op::DeleteRow(k, c) => Op::DeleteRow(k, self.narrow(c)),
            other => other,
        }
    }

    /// Few rows, written again and again, are what an evacuation is for.
    fn narrow(&self, c: i32) -> i32 {
        if self.memtable_bytes.is_some() { c % NARROW_CLUSTERINGS } else { c }
    }

    /// Rows of a partition that a read takes in a turn.
    pub fn read_turn_places(&self) -> usize {
        if self.short_turns { 2 } else { READ_TURN_PLACES }
    }

    /// How many times as long the operator waits: what is to fill memory must not be flushed before.
    pub fn operator_patience(&self) -> u64 {
        if self.memtable_bytes.is_some() { 20 } else { 1 }
    }
}

/// Lists are longer than this hardly ever.
const LIST_LENGTH: u64 = 8;

/// The changes of lists that stand for changes of rows.
fn list_op(op: &Op, dice: &mut Dice) -> Op {
    match op {
        Op::Put(rows) | Op::Unlogged(rows) => {
            let mut changes: Vec<(i32, ListChange)> =
                rows.iter().map(|((k, _), value)| (*k, list_change(value.v, dice))).collect();
            changes.dedup_by_key(|(k, _)| *k);
            Op::List(changes)
        }
        Op::DeleteRow(k, _) | Op::DeleteRange(k, ..) => Op::List(vec![(*k, shorter(dice))]),
        other => other.clone(),
    }
}

/// A change that brings elements which no other brings: four belong to each `v`.
fn list_change(v: i32, dice: &mut Dice) -> ListChange {
    let first = v * 4;
    match dice.below(10) {
        0 => ListChange::Whole(vec![first, first + 1, first + 2]),
        1..=4 => ListChange::Append(first),
        5 | 6 => ListChange::Prepend(first),
        7 => shorter(dice),
        8 => ListChange::Remove(first - 4 * i32::try_from(dice.below(40)).expect("small")),
        _ => ListChange::Set(dice.below(LIST_LENGTH), first),
    }
}

fn shorter(dice: &mut Dice) -> ListChange {
    ListChange::Delete(dice.below(LIST_LENGTH))
}

/// When the wall clock jumps by seconds, mostly forward.
pub struct Jumps {
    dice: RefCell<Dice>,
    next_at: Cell<u64>,
}

impl Jumps {
    /// None where nothing expires: other seeds have the jumps that their faults draw.
    pub fn new(features: Features, mut dice: Dice, operations: u64) -> Option<Jumps> {
        let next_at = Cell::new(operations + dice.below(OPERATIONS_A_JUMP));
        features.ttls.then_some(Jumps { dice: RefCell::new(dice), next_at })
    }

    /// By how much the clock jumps now, in microseconds.
    pub fn due(&self, operations: u64) -> Option<i64> {
        if operations < self.next_at.get() {
            return None;
        }
        let mut dice = self.dice.borrow_mut();
        self.next_at.set(operations + 1 + dice.below(OPERATIONS_A_JUMP));
        Some(*dice.pick(&[700_000, 1_500_000, 3_000_000, 900_000_000, -400_000, -2_000_000]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_have_every_feature_and_some_have_none() {
        let all: Vec<Features> = (0..200).map(Features::of).collect();
        assert_eq!(all, (0..200).map(Features::of).collect::<Vec<_>>());
        assert!(all.contains(&Features::default()));
        assert!(
            all.iter().any(|features| features.statics && features.ttls && features.unlogged && features.short_turns)
        );
        assert!(all.iter().filter(|features| features.memtable_bytes.is_some()).count() > 20);
        for kind in [Kind::Counters, Kind::Lists] {
            assert!(all.iter().filter(|features| features.kind == kind).count() > 20);
        }
    }
}
