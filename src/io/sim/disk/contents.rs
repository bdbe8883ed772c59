//! One file's bytes: what is durable, and the changes that are not yet, oldest first. A reader sees both; a crash keeps
//! the durable ones and, of the others, any sectors.

use crate::io::sim::random::Random;

/// The unit in which a torn write reaches the disk.
pub(in crate::io::sim) const SECTOR_BYTES: usize = 512;

#[derive(Clone, Debug)]
enum Change {
    Write {
        offset: usize,
        data: Vec<u8>,
    },
    SetLen(usize),
    /// The length that a lost write had given: its bytes are gone, what it added to the length is zeros.
    Extend(usize),
}

impl Change {
    fn end(&self) -> usize {
        match self {
            Change::Write { offset, data } => offset + data.len(),
            Change::SetLen(len) | Change::Extend(len) => *len,
        }
    }
}

#[derive(Clone, Debug)]
struct Pending {
    /// Counts the file's changes: a sync covers those that stood before it began.
    seq: u64,
    change: Change,
}

/// What becomes of changes that were never synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::io::sim) enum Fate {
    Dropped,
    Kept,
    /// Each change by itself: dropped, kept, or any subset of its sectors.
    Mixed,
}

impl Fate {
    pub fn draw(random: &Random) -> Fate {
        match random.below(6) {
            0 => Fate::Dropped,
            1 => Fate::Kept,
            _ => Fate::Mixed,
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(in crate::io::sim) struct Contents {
    durable: Vec<u8>,
    pending: Vec<Pending>,
    next_seq: u64,
    /// The length as a reader sees it.
    len: usize,
}

impl Contents {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Reads what is visible at `offset`; the count is short at the file's end.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        let count = self.len.saturating_sub(offset).min(into.len());
        let into = &mut into[..count];
        let durable = self.durable.get(offset..).unwrap_or_default();
        let whole = durable.len().min(count);
        into[..whole].copy_from_slice(&durable[..whole]);
        into[whole..].fill(0);
        for pending in &self.pending {
            match &pending.change {
                Change::Write { offset: at, data } => overlay(into, offset, data, *at),
                Change::SetLen(len) => into[len.saturating_sub(offset).min(count)..].fill(0),
                Change::Extend(_) => {}
            }
        }
        count
    }

    /// A write that has completed and was not synced.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        self.push(Change::Write { offset, data: data.to_vec() });
    }

    /// A synced write: durable with its bytes and the length. Older pending changes under it become durable first, so
    /// that none of them can come over it later.
    pub fn write_durable(&mut self, offset: usize, data: &[u8]) {
        let end = offset + data.len();
        let overlapped = |pending: &Pending| match &pending.change {
            Change::Write { offset: at, data } => *at < end && offset < at + data.len(),
            Change::SetLen(_) | Change::Extend(_) => true,
        };
        if let Some(last) = self.pending.iter().rposition(overlapped) {
            let seq = self.pending[last].seq;
            self.sync(seq + 1);
        }
        apply_write(&mut self.durable, offset, data);
        self.len = self.len.max(end);
    }

    pub fn set_len(&mut self, len: usize) {
        if len != self.len {
            self.push(Change::SetLen(len));
        }
    }

    /// `len` zeros from the start, durable, as a new file is prepared. Never shortens.
    pub fn zero_durable(&mut self, len: usize) {
        if self.len <= len {
            // Nothing that stands or is pending stays: zeros from the system cost no copy.
            self.pending.clear();
            self.durable = vec![0; len];
        } else {
            self.sync(self.next_seq);
            self.durable[..len].fill(0);
        }
        self.len = self.durable.len();
    }

    /// Every change from here on has at least this number.
    pub fn mark(&self) -> u64 {
        self.next_seq
    }

    /// Makes the changes before `mark` durable.
    pub fn sync(&mut self, mark: u64) {
        let count = self.pending.partition_point(|pending| pending.seq < mark);
        for pending in self.pending.drain(..count) {
            apply(&mut self.durable, &pending.change);
        }
    }

    /// A sync of the changes before `mark` that failed: each of them is made durable whole or in part, stays pending, or
    /// is lost. No later sync brings back what is lost here; the length stays as readers saw it.
    pub fn fail_sync(&mut self, mark: u64, random: &Random) {
        let count = self.pending.partition_point(|pending| pending.seq < mark);
        for pending in &mut self.pending[..count] {
            let Change::Write { offset, data } = &pending.change else { continue };
            let end = offset + data.len();
            match random.below(3) {
                0 => {}
                1 => pending.change = Change::Extend(end),
                _ => {
                    // What was written under a newer pending change is hidden by it, as it must be.
                    apply_torn(&mut self.durable, *offset, data, random);
                    pending.change = Change::Extend(end);
                }
            }
        }
        debug_assert_eq!(self.len, self.visible_len());
    }

    /// The power is gone: `fate` decides over each pending change. What is left is durable.
    pub fn crash(&mut self, fate: Fate, random: &Random) {
        for pending in std::mem::take(&mut self.pending) {
            let choice = match fate {
                Fate::Dropped => 0,
                Fate::Kept => 1,
                Fate::Mixed => random.below(3),
            };
            match (choice, &pending.change) {
                (0, _) => {}
                (2, Change::Write { offset, data }) => {
                    apply_torn(&mut self.durable, *offset, data, random);
                    if random.coin() {
                        apply(&mut self.durable, &Change::Extend(offset + data.len()));
                    }
                }
                (_, change) => apply(&mut self.durable, change),
            }
        }
        self.len = self.durable.len();
    }

    /// Changes bytes behind everyone's back, as bad hardware does: durable, and visible at once.
    pub fn overwrite(&mut self, offset: usize, data: &[u8]) {
        self.sync(self.next_seq);
        apply_write(&mut self.durable, offset, data);
        self.len = self.durable.len();
    }

    /// All that is visible.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = vec![0; self.len];
        self.read(0, &mut all);
        all
    }

    fn push(&mut self, change: Change) {
        self.len = match change {
            Change::SetLen(len) => len,
            _ => self.len.max(change.end()),
        };
        self.pending.push(Pending { seq: self.next_seq, change });
        self.next_seq += 1;
    }

    fn visible_len(&self) -> usize {
        self.pending.iter().fold(self.durable.len(), |len, pending| match &pending.change {
            Change::SetLen(set) => *set,
            change => len.max(change.end()),
        })
    }
}

fn apply(durable: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Write { offset, data } => apply_write(durable, *offset, data),
        Change::SetLen(len) => durable.resize(*len, 0),
        Change::Extend(len) => durable.resize(durable.len().max(*len), 0),
    }
}

fn apply_write(durable: &mut Vec<u8>, offset: usize, data: &[u8]) {
    if offset == durable.len() {
        durable.extend_from_slice(data);
        return;
    }
    let end = offset + data.len();
    if durable.len() < end {
        durable.resize(end, 0);
    }
    durable[offset..end].copy_from_slice(data);
}

/// Applies any subset of the write's sectors.
fn apply_torn(durable: &mut Vec<u8>, offset: usize, data: &[u8], random: &Random) {
    let (mut at, mut coins, mut left) = (0, 0, 0);
    while at < data.len() {
        let sector_end = ((offset + at) / SECTOR_BYTES + 1) * SECTOR_BYTES - offset;
        let to = sector_end.min(data.len());
        if left == 0 {
            (coins, left) = (random.next(), 64);
        }
        if coins & 1 == 1 {
            apply_write(durable, offset + at, &data[at..to]);
        }
        (coins, left, at) = (coins >> 1, left - 1, to);
    }
}

/// Copies onto `into`, which begins at `offset` of the file, what of `data` (at `data_offset`) falls into it.
fn overlay(into: &mut [u8], offset: usize, data: &[u8], data_offset: usize) {
    let from = offset.max(data_offset);
    let to = (offset + into.len()).min(data_offset + data.len());
    if from < to {
        into[from - offset..to - offset].copy_from_slice(&data[from - data_offset..to - data_offset]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn pattern(byte: u8, sectors: usize) -> Vec<u8> {
        vec![byte; sectors * SECTOR_BYTES]
    }

    #[test]
    fn a_reader_sees_pending_writes_in_order() {
        let mut file = Contents::default();
        file.write(0, &pattern(1, 4));
        file.sync(file.mark());
        file.write(512, &pattern(2, 2));
        file.write(1024, &pattern(3, 1));
        let mut out = vec![9; 4096];
        assert_eq!(file.read(0, &mut out), 2048);
        assert_eq!([out[0], out[512], out[1024], out[1536]], [1, 2, 3, 1]);
        assert_eq!(file.read(1536, &mut out), 512);
        assert_eq!(file.read(2048, &mut out), 0);
        assert_eq!(file.read(1 << 20, &mut out), 0);
    }

    #[test]
    fn a_sync_covers_only_what_stood_before_it() {
        let mut file = Contents::default();
        file.write(0, &pattern(1, 1));
        let mark = file.mark();
        file.write(0, &pattern(2, 1));
        file.sync(mark);
        assert!(file.is_pending());
        file.crash(Fate::Dropped, &Random::new(0));
        assert_eq!(file.to_vec(), pattern(1, 1));
    }

    #[test]
    fn a_crash_tears_a_write_into_any_sectors_and_keeps_the_synced() {
        let mut seen = BTreeSet::new();
        for seed in 0..400 {
            let random = Random::new(seed);
            let mut file = Contents::default();
            file.write(0, &pattern(1, 3));
            file.sync(file.mark());
            file.write(0, &pattern(2, 3));
            file.crash(Fate::Mixed, &random);
            let bytes = file.to_vec();
            assert_eq!(bytes.len(), 3 * SECTOR_BYTES);
            for sector in bytes.chunks(SECTOR_BYTES) {
                assert!(sector.iter().all(|byte| *byte == sector[0]), "a sector is never torn");
            }
            seen.insert([bytes[0], bytes[512], bytes[1024]]);
        }
        assert_eq!(seen.len(), 8, "every subset is met: {seen:?}");
    }

    #[test]
    fn a_later_write_may_survive_an_earlier_one() {
        let survivor = |seed| {
            let mut file = Contents::default();
            file.zero_durable(2 * SECTOR_BYTES);
            file.write(0, &pattern(1, 1));
            file.write(512, &pattern(2, 1));
            file.crash(Fate::Mixed, &Random::new(seed));
            let bytes = file.to_vec();
            (bytes[0], bytes[512])
        };
        let seen: BTreeSet<_> = (0..200).map(survivor).collect();
        assert_eq!(seen, BTreeSet::from([(0, 0), (1, 0), (0, 2), (1, 2)]));
    }

    #[test]
    fn a_synced_write_survives_and_nothing_older_comes_over_it() {
        for seed in 0..200 {
            let mut file = Contents::default();
            file.zero_durable(4096);
            file.write(0, &pattern(1, 4));
            file.set_len(1024);
            file.write_durable(512, &pattern(7, 2));
            file.write(4096, &pattern(3, 1));
            file.crash(Fate::Mixed, &Random::new(seed));
            assert_eq!(file.to_vec()[512..1536], pattern(7, 2), "seed {seed}");
        }
    }

    #[test]
    fn a_failed_sync_loses_data_that_no_later_sync_brings_back() {
        let mut lost = 0;
        let mut kept = 0;
        for seed in 0..100 {
            let random = Random::new(seed);
            let mut file = Contents::default();
            file.write(0, &pattern(5, 2));
            file.fail_sync(file.mark(), &random);
            assert_eq!(file.len(), 1024, "the length stays as readers saw it");
            file.sync(file.mark());
            file.crash(Fate::Kept, &random);
            match file.to_vec() == pattern(5, 2) {
                true => kept += 1,
                false => lost += 1,
            }
        }
        assert!(lost > 20 && kept > 20, "lost {lost}, kept {kept}");
    }

    #[test]
    fn lengths_shrink_grow_and_read_as_zeros() {
        let mut file = Contents::default();
        file.write(0, &pattern(1, 2));
        file.set_len(100);
        file.set_len(700);
        assert_eq!(file.to_vec(), [vec![1; 100], vec![0; 600]].concat());
        file.sync(file.mark());
        assert_eq!(file.to_vec(), [vec![1; 100], vec![0; 600]].concat());
        file.zero_durable(200);
        assert_eq!(file.to_vec(), vec![0; 700]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(usize, Vec<u8>),
        Synced(usize, Vec<u8>),
        SetLen(usize),
        Sync,
        Zero(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let data = || proptest::collection::vec(any::<u8>(), 1..1500);
        prop_oneof![
            (0..3000usize, data()).prop_map(|(at, data)| Step::Write(at, data)),
            (0..3000usize, data()).prop_map(|(at, data)| Step::Synced(at, data)),
            (0..4000usize).prop_map(Step::SetLen),
            Just(Step::Sync),
            (0..3000usize).prop_map(Step::Zero),
        ]
    }

    proptest! {
        #[test]
        fn what_is_visible_equals_a_plain_vector(steps in proptest::collection::vec(step(), 0..20)) {
            let mut file = Contents::default();
            let mut model: Vec<u8> = Vec::new();
            for step in steps {
                match step {
                    Step::Write(at, data) => { file.write(at, &data); apply_write(&mut model, at, &data) }
                    Step::Synced(at, data) => { file.write_durable(at, &data); apply_write(&mut model, at, &data) }
                    Step::SetLen(len) => { file.set_len(len); model.resize(len, 0) }
                    Step::Sync => file.sync(file.mark()),
                    Step::Zero(len) => {
                        file.zero_durable(len);
                        let len_kept = model.len().max(len);
                        let len_zeroed = len.min(model.len());
                        model[..len_zeroed].fill(0);
                        model.resize(len_kept, 0);
                    }
                }
                prop_assert_eq!(&file.to_vec(), &model);
                prop_assert_eq!(file.len(), file.visible_len());
            }
            file.crash(Fate::Kept, &Random::new(1));
            prop_assert_eq!(file.to_vec(), model);
        }
    }
}
