//! What may be read: the state after every acknowledged operation, with any of those whose outcome is not known.

use std::collections::{BTreeMap, BTreeSet};

/// The rows of one worker's partitions: (partition, clustering) to value.
pub type State = BTreeMap<(i32, i32), i32>;

/// One operation of a worker. Each but TRUNCATE is atomic, a logged batch over several partitions too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Rows of one or several partitions, all or none.
    Put(Vec<((i32, i32), i32)>),
    DeleteRow(i32, i32),
    /// Clustering keys from the first to the second, both included.
    DeleteRange(i32, i32, i32),
    DeletePartition(i32),
    /// Everything of the table, on each shard by itself.
    Truncate,
}

impl Op {
    pub fn apply(&self, state: &mut State) {
        match self {
            Op::Put(rows) => state.extend(rows.iter().copied()),
            Op::DeleteRow(k, c) => drop(state.remove(&(*k, *c))),
            Op::DeleteRange(k, from, to) => state.retain(|(key, c), _| key != k || c < from || c > to),
            Op::DeletePartition(k) => state.retain(|(key, _), _| key != k),
            Op::Truncate => state.clear(),
        }
    }

    /// The states that it may have led to where it was cut short: all of it, or for TRUNCATE, which every shard does for
    /// itself before it is answered, the clearing of any of the partitions.
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
    seen: BTreeMap<(i32, i32), BTreeSet<Option<i32>>>,
}

/// With more possible states than this a worker rests until a restart has told which it is.
const POSSIBLE_MAX: usize = 64;

impl Default for Model {
    fn default() -> Self {
        Model { possible: vec![State::new()], seen: BTreeMap::new() }
    }
}

impl Model {
    /// The operation was acknowledged: it is in every state.
    pub fn acknowledged(&mut self, op: &Op) {
        self.possible.iter_mut().for_each(|state| op.apply(state));
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
    pub fn allows(&self, read: &State) -> bool {
        self.possible.binary_search(read).is_ok()
    }

    /// Whether `read` may be what is left where each shard may have lost the last that it acknowledged: `periodic`,
    /// and the power went. Each row is as it was at some time since the last settled state.
    pub fn allows_after_loss(&self, read: &State) -> bool {
        let known = |key: &(i32, i32), value| self.seen.get(key).is_some_and(|values| values.contains(&value));
        read.iter().all(|(key, value)| known(key, Some(*value)))
            && self.seen.iter().all(|(key, values)| read.contains_key(key) || values.contains(&None))
    }

    /// The same for one partition.
    pub fn allows_partition(&self, k: i32, read: &State) -> bool {
        self.possible.iter().any(|state| partition(state, k).eq(read.iter()))
    }

    /// What was read after a restart is what is there from now on.
    pub fn settle(&mut self, read: State) {
        self.seen = read.iter().map(|(key, value)| (*key, BTreeSet::from([Some(*value)]))).collect();
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
        let Some(nearest) = self.possible.iter().min_by_key(distance) else { return String::new() };
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

fn partition(state: &State, k: i32) -> impl Iterator<Item = (&(i32, i32), &i32)> {
    state.range((k, i32::MIN)..=(k, i32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(k: i32, c: i32, v: i32) -> Op {
        Op::Put(vec![((k, c), v)])
    }

    #[test]
    fn a_doubtful_operation_may_or_may_not_be_there() {
        let mut model = Model::default();
        model.acknowledged(&put(1, 1, 1));
        model.doubtful(&put(1, 2, 2));
        assert!(model.allows(&State::from([((1, 1), 1)])));
        assert!(model.allows(&State::from([((1, 1), 1), ((1, 2), 2)])));
        assert!(!model.allows(&State::new()), "what was acknowledged is there");
        model.acknowledged(&Op::DeletePartition(1));
        assert!(model.allows(&State::new()));
        assert!(!model.allows(&State::from([((1, 2), 2)])), "what was deleted is not");
    }

    #[test]
    fn a_batch_is_whole_or_not_at_all() {
        let mut model = Model::default();
        model.doubtful(&Op::Put(vec![((1, 0), 5), ((2, 0), 5)]));
        assert!(!model.allows(&State::from([((1, 0), 5)])));
        assert!(model.allows_partition(1, &State::from([((1, 0), 5)])));
        model.settle(State::new());
        assert!(!model.allows(&State::from([((1, 0), 5), ((2, 0), 5)])));
    }

    #[test]
    fn a_truncate_that_was_cut_short_cleared_any_partitions_and_an_answered_one_all() {
        let mut model = Model::default();
        model.acknowledged(&Op::Put(vec![((1, 0), 5), ((1, 1), 5), ((2, 0), 5)]));
        model.doubtful(&Op::Truncate);
        assert!(model.allows(&State::from([((2, 0), 5)])));
        assert!(model.allows(&State::from([((1, 0), 5), ((1, 1), 5)])));
        assert!(!model.allows(&State::from([((1, 0), 5), ((2, 0), 5)])), "a partition is cleared whole");
        model.acknowledged(&Op::Truncate);
        assert!(model.allows(&State::new()));
        assert!(!model.allows(&State::from([((2, 0), 5)])));
    }

    #[test]
    fn a_loss_goes_back_no_further_than_what_was_settled() {
        let mut model = Model::default();
        model.acknowledged(&put(1, 1, 1));
        model.settle(State::from([((1, 1), 1)]));
        model.acknowledged(&put(1, 1, 2));
        model.acknowledged(&put(1, 2, 3));
        model.acknowledged(&Op::DeleteRow(1, 2));
        assert!(model.allows_after_loss(&State::from([((1, 1), 1), ((1, 2), 3)])));
        assert!(model.allows_after_loss(&State::from([((1, 1), 2)])));
        assert!(!model.allows_after_loss(&State::new()), "the settled row was never deleted");
        assert!(!model.allows_after_loss(&State::from([((1, 1), 3)])), "never its value");
        assert!(!model.allows_after_loss(&State::from([((1, 1), 1), ((1, 9), 0)])), "never written");
    }

    #[test]
    fn ranges_include_both_ends() {
        let mut state = State::from([((1, 1), 0), ((1, 2), 0), ((1, 3), 0), ((2, 2), 0)]);
        Op::DeleteRange(1, 2, 3).apply(&mut state);
        assert_eq!(state.keys().copied().collect::<Vec<_>>(), [(1, 1), (2, 2)]);
    }
}
