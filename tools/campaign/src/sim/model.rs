//! What may be read: the state after every acknowledged operation, with any of those whose outcome is not known.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A partition and a clustering key.
pub type Key = (i32, i32);

/// In the place of a clustering key: the partition's static row. It sorts before the others.
pub const STATIC: i32 = -1;

/// What a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value {
    pub v: i32,
    /// When it expires, in seconds; `None`: never.
    pub expires_s: Option<i64>,
}

/// The clocks that decide what has expired, in seconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// As the read has it.
    pub now_s: i64,
    /// The latest that the node's clock has shown, before it was set back perhaps: what had expired by then may have been
    /// purged.
    pub latest_s: i64,
}

impl Value {
    fn may_show(&self, times: Times) -> bool {
        self.expires_s.is_none_or(|expires_s| times.now_s < expires_s)
    }

    fn may_hide(&self, times: Times) -> bool {
        self.expires_s.is_some_and(|expires_s| expires_s <= times.latest_s.max(times.now_s))
    }
}

/// The rows of one worker's partitions, those that have expired too.
pub type State = BTreeMap<Key, Value>;

/// One operation of a worker. Each but TRUNCATE and unlogged batches is atomic, a logged batch over several partitions too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Rows of one or several partitions, all or none.
    Put(Vec<(Key, Value)>),
    /// Rows of several partitions, those of one all or none.
    Unlogged(Vec<(Key, Value)>),
    DeleteRow(i32, i32),
    /// Clustering keys from the first to the second, both included.
    DeleteRange(i32, i32, i32),
    DeletePartition(i32),
    /// Everything of the table, on each shard by itself.
    Truncate,
    /// Adds to counters of several partitions, those of one all or none.
    Count(Vec<(Key, i32)>),
    /// Changes lists, all or none. The elements of a partition's list stand at the clustering keys 0, 1, 2 and so on.
    List(Vec<(i32, ListChange)>),
}

/// What becomes of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListChange {
    Whole(Vec<i32>),
    Append(i32),
    Prepend(i32),
    /// `l[i] = v`
    Set(u64, i32),
    /// `DELETE l[i]`
    Delete(u64),
    /// `l = l - [v]`
    Remove(i32),
}

impl ListChange {
    /// Whether it can be made: the element that it names by its index is there.
    fn fits(&self, length: usize) -> bool {
        match self {
            ListChange::Set(index, _) | ListChange::Delete(index) => *index < length as u64,
            _ => true,
        }
    }

    fn apply(&self, list: &mut Vec<i32>) {
        match self {
            ListChange::Whole(values) => list.clone_from(values),
            ListChange::Append(value) => list.push(*value),
            ListChange::Prepend(value) => list.insert(0, *value),
            ListChange::Remove(value) => list.retain(|other| other != value),
            ListChange::Set(index, value) => {
                if let Some(element) = usize::try_from(*index).ok().and_then(|index| list.get_mut(index)) {
                    *element = *value;
                }
            }
            ListChange::Delete(index) => {
                if *index < list.len() as u64 {
                    list.remove(usize::try_from(*index).expect("less than the length"));
                }
            }
        }
    }
}

impl Op {
    pub fn apply(&self, state: &mut State) {
        match self {
            Op::Put(rows) | Op::Unlogged(rows) => state.extend(rows.iter().copied()),
            Op::DeleteRow(k, c) => drop(state.remove(&(*k, *c))),
            Op::DeleteRange(k, from, to) => state.retain(|(key, c), _| key != k || c < from || c > to),
            Op::DeletePartition(k) => state.retain(|(key, _), _| key != k),
            Op::Truncate => state.clear(),
            Op::Count(additions) => add(state, additions.iter()),
            Op::List(changes) => changes.iter().for_each(|(k, change)| {
                let mut list: Vec<i32> = partition(state, *k).map(|(_, value)| value.v).collect();
                change.apply(&mut list);
                state.retain(|(key, _), _| key != k);
                let elements = (0..).zip(list).map(|(at, v)| ((*k, at), Value { v, expires_s: None }));
                state.extend(elements);
            }),
        }
    }

    /// Whether the operation can be made in this state.
    fn fits(&self, state: &State) -> bool {
        match self {
            Op::List(changes) => changes.iter().all(|(k, change)| change.fits(partition(state, *k).count())),
            _ => true,
        }
    }

    /// Whether what stood there before is covered.
    fn covers(&self, key: &Key) -> bool {
        match self {
            Op::Put(rows) | Op::Unlogged(rows) => rows.iter().any(|(row, _)| row == key),
            Op::DeleteRow(k, c) => *key == (*k, *c),
            Op::DeleteRange(k, from, to) => key.0 == *k && (from..=to).contains(&&key.1),
            Op::DeletePartition(k) => key.0 == *k,
            Op::Truncate => true,
            // Where these are, nothing expires.
            Op::Count(_) | Op::List(_) => false,
        }
    }

    /// The states that it may have led to where it was cut short: all of it; for an unlogged batch and additions to counters,
    /// any of its partitions; for TRUNCATE, which every shard does for itself before it is answered, the clearing of any of the partitions.
    fn outcomes(&self, state: &State) -> Vec<State> {
        let mut after = vec![state.clone()];
        match self {
            Op::Truncate => {
                let partitions: BTreeSet<i32> = state.keys().map(|(k, _)| *k).collect();
                for k in partitions {
                    let without = after.iter().map(|state| {
                        let mut state = state.clone();
                        Op::DeletePartition(k).apply(&mut state);
                        state
                    });
                    after.extend(without.collect::<Vec<_>>());
                }
            }
            Op::Unlogged(rows) => {
                let partitions: BTreeSet<i32> = rows.iter().map(|((k, _), _)| *k).collect();
                for k in partitions {
                    let part = rows.iter().filter(|((row, _), _)| *row == k);
                    let with = after.iter().map(|state| {
                        let mut state = state.clone();
                        state.extend(part.clone().copied());
                        state
                    });
                    after.extend(with.collect::<Vec<_>>());
                }
            }
            Op::Count(additions) => {
                let partitions: BTreeSet<i32> = additions.iter().map(|((k, _), _)| *k).collect();
                for k in partitions {
                    let with = after.iter().map(|state| {
                        let mut state = state.clone();
                        add(&mut state, additions.iter().filter(|((row, _), _)| *row == k));
                        state
                    });
                    after.extend(with.collect::<Vec<_>>());
                }
            }
            _ => self.apply(&mut after[0]),
        }
        after
    }
}

/// Every state that a worker's partitions may be in.
#[derive(Clone, Debug)]
pub struct Model {
    possible: Vec<State>,
    /// Every value that a row may have had since the last settled state, `None` where it may have been away.
    seen: BTreeMap<Key, BTreeSet<Option<Value>>>,
    /// What had expired when the state was settled: a clock that is set back may show it again.
    ghosts: BTreeMap<Key, BTreeSet<Value>>,
}

/// With more possible states than this a worker rests until a restart has told which it is.
const POSSIBLE_MAX: usize = 64;

impl Default for Model {
    fn default() -> Self {
        Model { possible: vec![State::new()], seen: BTreeMap::new(), ghosts: BTreeMap::new() }
    }
}

impl Model {
    /// The operation was acknowledged: it is in every state, and the state was one in which it could be made.
    pub fn acknowledged(&mut self, op: &Op) {
        self.possible.retain(|state| op.fits(state));
        self.possible.iter_mut().for_each(|state| op.apply(state));
        self.ghosts.retain(|key, _| !op.covers(key));
        self.unite();
    }

    /// What the operation names was not there, and nothing was done.
    pub fn refused(&mut self, op: &Op) {
        self.possible.retain(|state| !op.fits(state));
        self.unite();
    }

    /// The operation was issued and its outcome is not known.
    pub fn doubtful(&mut self, op: &Op) {
        let with: Vec<State> = self.possible.iter().flat_map(|state| op.outcomes(state)).collect();
        self.possible.extend(with);
        self.unite();
    }

    fn unite(&mut self) {
        self.possible.sort_unstable();
        self.possible.dedup();
        for state in &self.possible {
            for (key, value) in state {
                // A row that was never seen before was away.
                self.seen.entry(*key).or_insert_with(|| BTreeSet::from([None])).insert(Some(*value));
            }
            for (key, values) in &mut self.seen {
                if !state.contains_key(key) {
                    values.insert(None);
                }
            }
        }
    }

    pub fn is_too_doubtful(&self) -> bool {
        self.possible.len() > POSSIBLE_MAX
    }

    /// Whether `read` may be what is there.
    pub fn allows(&self, read: &State, times: Times) -> bool {
        self.possible.iter().any(|state| self.explains(state.iter(), state, read, times))
    }

    /// The same for one partition.
    pub fn allows_partition(&self, k: i32, read: &State, times: Times) -> bool {
        self.possible.iter().any(|state| self.explains(partition(state, k), state, read, times))
    }

    /// Whether `read` is what of `state` is seen at these times; `part` is what of it was read.
    fn explains<'s>(
        &self,
        mut part: impl Iterator<Item = (&'s Key, &'s Value)>,
        state: &State,
        read: &State,
        times: Times,
    ) -> bool {
        let is_there = |(key, value): (&Key, &Value)| match state.get(key) {
            Some(held) => held == value,
            None => self.ghosts.get(key).is_some_and(|ghosts| ghosts.contains(value)),
        };
        read.iter().all(|row| row.1.may_show(times) && is_there(row))
            && part.all(|(key, value)| read.contains_key(key) || value.may_hide(times))
    }

    /// Whether `read` may be what is left where each shard may have lost the last that it acknowledged: `periodic`,
    /// and the power went. Each row is as it was at some time since the last settled state.
    pub fn allows_after_loss(&self, read: &State, times: Times) -> bool {
        let known = |key: &Key, value| self.seen.get(key).is_some_and(|values| values.contains(&Some(value)));
        let hides = |value: &Option<Value>| value.is_none_or(|value| value.may_hide(times));
        read.iter().all(|(key, value)| value.may_show(times) && known(key, *value))
            && self.seen.iter().all(|(key, values)| read.contains_key(key) || values.iter().any(hides))
    }

    /// What was read after a restart is what is there from now on, with what had expired.
    pub fn settle(&mut self, read: State, times: Times, is_after_loss: bool) {
        let mut ghosts = std::mem::take(&mut self.ghosts);
        let mut haunt = |key: &Key, value: &Value| {
            if value.may_hide(times) {
                ghosts.entry(*key).or_default().insert(*value);
            }
        };
        if is_after_loss {
            for (key, values) in &self.seen {
                values.iter().flatten().for_each(|value| haunt(key, value));
            }
        } else {
            self.possible.iter().flatten().for_each(|(key, value)| haunt(key, value));
        }
        ghosts.retain(|key, _| !read.contains_key(key));
        self.seen = read.iter().map(|(key, value)| (*key, BTreeSet::from([Some(*value)]))).collect();
        for (key, values) in &ghosts {
            self.seen.insert(*key, values.iter().copied().map(Some).chain([None]).collect());
        }
        self.ghosts = ghosts;
        self.possible = vec![read];
    }

    /// The same as `nearest` for one partition.
    pub fn nearest_partition(&self, k: i32, read: &State) -> String {
        let possible = self.possible.iter().map(|state| partition(state, k).map(|(key, v)| (*key, *v)).collect());
        Model { possible: possible.collect(), ..Model::default() }.nearest(read)
    }

    /// The state that differs least from `read`, for the report of a violation.
    pub fn nearest(&self, read: &State) -> String {
        let distance = |state: &&State| {
            let missing = state.iter().filter(|(key, value)| read.get(key) != Some(value)).count();
            missing + read.keys().filter(|key| !state.contains_key(key)).count()
        };
        let Some(nearest) = self.possible.iter().min_by_key(distance) else {
            return format!("there is {read:?}, and an earlier answer was wrong in every state");
        };
        let mut said = Vec::new();
        for (key, value) in nearest {
            match read.get(key) {
                None => said.push(format!("{key:?} = {value} is lost")),
                Some(other) if other != value => said.push(format!("{key:?} is {other}, not {value}")),
                Some(_) => {}
            }
        }
        said.extend(
            read.iter()
                .filter(|(key, _)| !nearest.contains_key(key))
                .map(|(key, value)| format!("{key:?} = {value} is back or was never written")),
        );
        said.truncate(5);
        format!("{} ({} states were possible)", said.join("; "), self.possible.len())
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.expires_s {
            None => write!(f, "{}", self.v),
            Some(expires_s) => write!(f, "{} until {expires_s}", self.v),
        }
    }
}

fn add<'o>(state: &mut State, additions: impl Iterator<Item = &'o (Key, i32)>) {
    for (key, delta) in additions {
        state.entry(*key).or_insert(Value { v: 0, expires_s: None }).v += delta;
    }
}

fn partition(state: &State, k: i32) -> impl Iterator<Item = (&Key, &Value)> {
    state.range((k, i32::MIN)..=(k, i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMES: Times = Times { now_s: 100, latest_s: 100 };

    fn value(v: i32) -> Value {
        Value { v, expires_s: None }
    }

    fn rows<const N: usize>(rows: [(Key, i32); N]) -> Vec<(Key, Value)> {
        rows.map(|(key, v)| (key, value(v))).to_vec()
    }

    fn state<const N: usize>(all: [(Key, i32); N]) -> State {
        rows(all).into_iter().collect()
    }

    fn put(k: i32, c: i32, v: i32) -> Op {
        Op::Put(rows([((k, c), v)]))
    }

    #[test]
    fn a_doubtful_operation_may_or_may_not_be_there() {
        let mut model = Model::default();
        model.acknowledged(&put(1, 1, 1));
        model.doubtful(&put(1, 2, 2));
        assert!(model.allows(&state([((1, 1), 1)]), TIMES));
        assert!(model.allows(&state([((1, 1), 1), ((1, 2), 2)]), TIMES));
        assert!(!model.allows(&State::new(), TIMES), "what was acknowledged is there");
        model.acknowledged(&Op::DeletePartition(1));
        assert!(model.allows(&State::new(), TIMES));
        assert!(!model.allows(&state([((1, 2), 2)]), TIMES), "what was deleted is not");
    }

    #[test]
    fn a_batch_is_whole_or_not_at_all() {
        let mut model = Model::default();
        model.doubtful(&Op::Put(rows([((1, 0), 5), ((2, 0), 5)])));
        assert!(!model.allows(&state([((1, 0), 5)]), TIMES));
        assert!(model.allows_partition(1, &state([((1, 0), 5)]), TIMES));
        model.settle(State::new(), TIMES, false);
        assert!(!model.allows(&state([((1, 0), 5), ((2, 0), 5)]), TIMES));
    }

    #[test]
    fn a_truncate_that_was_cut_short_cleared_any_partitions_and_an_answered_one_all() {
        let mut model = Model::default();
        model.acknowledged(&Op::Put(rows([((1, 0), 5), ((1, 1), 5), ((2, 0), 5)])));
        model.doubtful(&Op::Truncate);
        assert!(model.allows(&state([((2, 0), 5)]), TIMES));
        assert!(model.allows(&state([((1, 0), 5), ((1, 1), 5)]), TIMES));
        assert!(!model.allows(&state([((1, 0), 5), ((2, 0), 5)]), TIMES), "a partition is cleared whole");
        model.acknowledged(&Op::Truncate);
        assert!(model.allows(&State::new(), TIMES));
        assert!(!model.allows(&state([((2, 0), 5)]), TIMES));
    }

    #[test]
    fn a_loss_goes_back_no_further_than_what_was_settled() {
        let mut model = Model::default();
        model.acknowledged(&put(1, 1, 1));
        model.settle(state([((1, 1), 1)]), TIMES, false);
        model.acknowledged(&put(1, 1, 2));
        model.acknowledged(&put(1, 2, 3));
        model.acknowledged(&Op::DeleteRow(1, 2));
        assert!(model.allows_after_loss(&state([((1, 1), 1), ((1, 2), 3)]), TIMES));
        assert!(model.allows_after_loss(&state([((1, 1), 2)]), TIMES));
        assert!(!model.allows_after_loss(&State::new(), TIMES), "the settled row was never deleted");
        assert!(!model.allows_after_loss(&state([((1, 1), 3)]), TIMES), "never its value");
        assert!(!model.allows_after_loss(&state([((1, 1), 1), ((1, 9), 0)]), TIMES), "never written");
    }

    #[test]
    fn ranges_include_both_ends() {
        let mut left = state([((1, 1), 0), ((1, 2), 0), ((1, 3), 0), ((2, 2), 0)]);
        Op::DeleteRange(1, 2, 3).apply(&mut left);
        assert_eq!(left.keys().copied().collect::<Vec<_>>(), [(1, 1), (2, 2)]);
    }

    #[test]
    fn an_unlogged_batch_is_whole_in_each_partition() {
        let mut model = Model::default();
        model.doubtful(&Op::Unlogged(rows([((1, 0), 5), ((1, 1), 5), ((2, 0), 5)])));
        assert!(model.allows(&state([((2, 0), 5)]), TIMES));
        assert!(model.allows(&state([((1, 0), 5), ((1, 1), 5)]), TIMES));
        assert!(!model.allows(&state([((1, 0), 5), ((2, 0), 5)]), TIMES));
        model.acknowledged(&Op::Unlogged(rows([((1, 0), 6), ((2, 0), 6)])));
        assert!(!model.allows(&state([((2, 0), 6)]), TIMES));
    }

    #[test]
    fn an_addition_in_doubt_counts_once_or_not_at_all() {
        let mut model = Model::default();
        model.acknowledged(&Op::Count(vec![((1, 0), 5), ((1, 0), 2)]));
        model.doubtful(&Op::Count(vec![((1, 0), -3), ((2, 0), 1)]));
        for (one, other) in [(7, None), (4, None), (7, Some(1)), (4, Some(1))] {
            let others = other.map(|count| ((2, 0), value(count)));
            let read = State::from([((1, 0), value(one))]).into_iter().chain(others).collect();
            assert!(model.allows(&read, TIMES), "{one} {other:?}");
        }
        assert!(!model.allows(&state([((1, 0), 1)]), TIMES));
        model.acknowledged(&Op::DeleteRow(1, 0));
        model.acknowledged(&Op::Count(vec![((1, 0), 1)]));
        assert!(model.allows(&state([((1, 0), 1)]), TIMES));
    }

    #[test]
    fn lists_are_known_element_by_element() {
        let mut model = Model::default();
        let list = |change: ListChange| Op::List(vec![(1, change)]);
        let check = |model: &Model, values: &[i32]| {
            let read = (0..).zip(values).map(|(at, v)| ((1, at), value(*v))).collect();
            assert!(model.allows(&read, TIMES), "{}", model.nearest(&read));
        };
        model.acknowledged(&list(ListChange::Whole(vec![1, 2, 3])));
        model.acknowledged(&list(ListChange::Append(4)));
        model.acknowledged(&list(ListChange::Prepend(0)));
        model.acknowledged(&list(ListChange::Set(1, 9)));
        model.acknowledged(&list(ListChange::Delete(4)));
        model.acknowledged(&list(ListChange::Remove(2)));
        check(&model, &[0, 9, 3]);
        model.refused(&list(ListChange::Set(3, 1)));
        model.doubtful(&list(ListChange::Append(5)));
        check(&model, &[0, 9, 3]);
        model.acknowledged(&list(ListChange::Delete(3)));
        check(&model, &[0, 9, 3]);
        model.refused(&list(ListChange::Delete(0)));
        assert!(!model.allows(&state([((1, 0), 0), ((1, 1), 9), ((1, 2), 3)]), TIMES), "it was there");
    }

    #[test]
    fn a_static_row_goes_with_its_partition_alone() {
        let mut model = Model::default();
        model.acknowledged(&put(1, STATIC, 5));
        model.acknowledged(&Op::DeleteRange(1, 0, 100));
        assert!(!model.allows_partition(1, &State::new(), TIMES));
        model.acknowledged(&Op::DeletePartition(1));
        assert!(model.allows(&State::new(), TIMES));
    }

    /// It expires at its second, may be purged from then on though the clock is set back, and never shows what it hid.
    #[test]
    fn what_expires_is_there_before_its_time_and_gone_from_then_on() {
        let mut model = Model::default();
        let expiring = Value { v: 2, expires_s: Some(110) };
        let shown = State::from([((1, 1), expiring)]);
        let at = |now_s, latest_s| Times { now_s, latest_s };
        model.acknowledged(&put(1, 1, 1));
        model.acknowledged(&Op::Put(vec![((1, 1), expiring)]));
        let check = |model: &Model| {
            assert!(!model.allows(&State::new(), at(109, 109)));
            assert!(!model.allows(&shown, at(110, 110)));
            assert!(model.allows(&State::new(), at(110, 110)));
            assert!(model.allows(&State::new(), at(109, 110)) && model.allows(&shown, at(109, 110)));
            assert!(!model.allows(&state([((1, 1), 1)]), at(110, 110)));
        };
        check(&model);
        for is_after_loss in [false, true] {
            let mut model = model.clone();
            model.settle(State::new(), at(110, 110), is_after_loss);
            assert!(model.allows(&shown, at(109, 110)) && model.allows_after_loss(&shown, at(109, 110)));
            assert!(!model.allows(&shown, at(111, 111)));
            model.acknowledged(&Op::DeleteRow(1, 1));
            assert!(!model.allows(&shown, at(109, 111)));
        }
        model.settle(shown.clone(), at(109, 109), false);
        check(&model);
    }
}
