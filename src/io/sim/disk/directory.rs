//! One directory's names: those that are durable, those that are visible, and the journal of changes between the two.

use std::collections::BTreeMap;

use super::NodeId;
use super::contents::Fate;
use crate::io::sim::random::Random;

pub(super) type Names = BTreeMap<Box<str>, NodeId>;

#[derive(Clone, Debug)]
enum NameChange {
    /// A file or directory was created here, linked here, or renamed into this directory.
    Link { name: Box<str>, node: NodeId },
    /// Removed, or renamed out of this directory.
    Unlink { name: Box<str> },
    /// Renamed within this directory: both names change together, or neither.
    Move { from: Box<str>, to: Box<str>, node: NodeId },
}

#[derive(Clone, Debug, Default)]
pub(super) struct Directory {
    durable: Names,
    visible: Names,
    journal: Vec<NameChange>,
}

impl Directory {
    pub fn get(&self, name: &str) -> Option<NodeId> {
        self.visible.get(name).copied()
    }

    pub fn visible(&self) -> &Names {
        &self.visible
    }

    pub fn is_pending(&self) -> bool {
        !self.journal.is_empty()
    }

    pub fn link(&mut self, name: &str, node: NodeId) {
        self.change(NameChange::Link { name: name.into(), node });
    }

    pub fn unlink(&mut self, name: &str) {
        self.change(NameChange::Unlink { name: name.into() });
    }

    pub fn rename(&mut self, from: &str, to: &str, node: NodeId) {
        self.change(NameChange::Move { from: from.into(), to: to.into(), node });
    }

    pub fn sync(&mut self) {
        for change in self.journal.drain(..) {
            apply(&mut self.durable, &change);
        }
        debug_assert_eq!(self.durable, self.visible);
    }

    /// A sync that failed: the names stay as readers see them; any of them may have become durable.
    pub fn fail_sync(&mut self, random: &Random) {
        let mut reached = random.below(self.journal.len() as u64 + 1);
        self.journal.retain(|change| {
            if reached == 0 {
                return true;
            }
            reached -= 1;
            apply(&mut self.durable, change);
            false
        });
    }

    /// The power is gone. Of the journal a beginning is kept, as a journalling file system keeps it, or (half of the
    /// time where `fate` is mixed) any subset in order, as POSIX allows.
    pub fn crash(&mut self, fate: Fate, random: &Random) {
        let journal = std::mem::take(&mut self.journal);
        if !journal.is_empty() {
            let prefix = match fate {
                Fate::Dropped => 0,
                Fate::Kept => journal.len(),
                Fate::Mixed => random.index(journal.len() + 1),
            };
            let any_subset = fate == Fate::Mixed && random.coin();
            for (at, change) in journal.iter().enumerate() {
                if if any_subset { random.coin() } else { at < prefix } {
                    apply(&mut self.durable, change);
                }
            }
        }
        self.visible.clone_from(&self.durable);
    }

    /// Every node that a name leads to, or may lead to after a crash.
    pub fn referenced(&self) -> impl Iterator<Item = NodeId> + '_ {
        let pending = self.journal.iter().filter_map(|change| match change {
            NameChange::Link { node, .. } | NameChange::Move { node, .. } => Some(*node),
            NameChange::Unlink { .. } => None,
        });
        self.durable.values().chain(self.visible.values()).copied().chain(pending)
    }

    fn change(&mut self, change: NameChange) {
        apply(&mut self.visible, &change);
        self.journal.push(change);
    }
}

fn apply(names: &mut Names, change: &NameChange) {
    match change {
        NameChange::Link { name, node } => {
            names.insert(name.clone(), *node);
        }
        NameChange::Unlink { name } => {
            names.remove(name);
        }
        NameChange::Move { from, to, node } => {
            names.remove(from);
            names.insert(to.clone(), *node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn names(directory: &Directory) -> Vec<(String, NodeId)> {
        directory.visible().iter().map(|(name, node)| (name.to_string(), *node)).collect()
    }

    fn crashed(directory: &Directory, fate: Fate, seed: u64) -> Vec<(String, NodeId)> {
        let mut after = directory.clone();
        after.crash(fate, &Random::new(seed));
        assert!(!after.is_pending());
        names(&after)
    }

    #[test]
    fn a_name_never_synced_may_vanish_and_a_synced_one_stays() {
        let mut directory = Directory::default();
        directory.link("kept", 1);
        directory.sync();
        directory.link("new", 2);
        assert_eq!(directory.get("new"), Some(2));
        assert_eq!(crashed(&directory, Fate::Dropped, 0), [("kept".to_string(), 1)]);
        let seen: BTreeSet<usize> = (0..100).map(|seed| crashed(&directory, Fate::Mixed, seed).len()).collect();
        assert_eq!(seen, BTreeSet::from([1, 2]));
    }

    #[test]
    fn a_rename_is_done_or_undone_never_half() {
        let mut directory = Directory::default();
        directory.link("current", 1);
        directory.link("tmp", 2);
        directory.sync();
        directory.rename("tmp", "current", 2);
        let undone = vec![("current".to_string(), 1), ("tmp".to_string(), 2)];
        let done = vec![("current".to_string(), 2)];
        let seen: BTreeSet<_> = (0..100).map(|seed| crashed(&directory, Fate::Mixed, seed)).collect();
        assert_eq!(seen, BTreeSet::from([undone, done.clone()]));
        directory.sync();
        assert_eq!(crashed(&directory, Fate::Dropped, 1), done);
    }

    #[test]
    fn later_names_may_survive_earlier_ones_but_never_out_of_order() {
        let mut directory = Directory::default();
        directory.link("a", 1);
        directory.link("b", 2);
        directory.unlink("b");
        directory.link("b", 3);
        let seen: BTreeSet<_> = (0..500).map(|seed| crashed(&directory, Fate::Mixed, seed)).collect();
        assert!(seen.contains(&vec![("b".to_string(), 3)]), "b without a: {seen:?}");
        assert!(seen.contains(&vec![]));
        assert!(seen.contains(&vec![("a".to_string(), 1), ("b".to_string(), 2)]));
        assert!(seen.len() == 6, "a or not, times none, 2 or 3 for b: {seen:?}");
    }

    #[test]
    fn a_failed_sync_keeps_what_is_visible() {
        let mut partly = BTreeSet::new();
        for seed in 0..50 {
            let mut directory = Directory::default();
            directory.link("a", 1);
            directory.link("b", 2);
            directory.fail_sync(&Random::new(seed));
            assert_eq!(directory.visible().len(), 2);
            partly.insert(crashed(&directory, Fate::Dropped, 0).len());
        }
        assert_eq!(partly, BTreeSet::from([0, 1, 2]));
    }

    #[test]
    fn what_a_crash_can_bring_back_is_referenced() {
        let mut directory = Directory::default();
        directory.link("a", 1);
        directory.unlink("a");
        assert_eq!(directory.referenced().collect::<Vec<_>>(), [1]);
        directory.sync();
        assert_eq!(directory.referenced().count(), 0);
    }
}
