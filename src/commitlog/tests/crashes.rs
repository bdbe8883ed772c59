//! Lives that end in a power cut or a kill, one after the other on the same disk, with flushes that release segments.
//! After each: what was promised is there, what is there was issued, in order and without a hole; and what a recovery
//! dropped never comes back.

use super::*;
use crate::base::plants::{Plant, Planted};
use crate::io::sim::Random;

/// A record's number, in its body.
fn number(body: &[u8]) -> u64 {
    u64::from_le_bytes(body[..8].try_into().unwrap())
}

/// What the records of all lives should be. Numbers are never reused, so that a record that comes back is seen.
#[derive(Default)]
struct Model {
    next_number: u64,
    /// Numbers of this log's records, in order, since the last recovery's view of it.
    issued: Vec<u64>,
    /// The last number that a power cut may not lose, and the last that a kill may not lose.
    synced: Option<u64>,
    acknowledged: Option<u64>,
    /// The last number that a flush made durable elsewhere.
    flushed: Option<u64>,
}

impl Model {
    /// Checks what came back against what may, and goes on from it.
    fn check(&mut self, got: &[u64], power_cut: bool) -> Result<(), String> {
        let promised = if power_cut { self.synced } else { self.acknowledged };
        let start = match got.first() {
            Some(first) => self.issued.iter().position(|n| n == first).ok_or(format!("{first} is none of this log"))?,
            None => self.issued.len(),
        };
        let end = start + got.len();
        if self.issued.get(start..end) != Some(got) {
            return Err(format!("{got:?} is no run of {:?}", self.issued));
        }
        let missing_before = self.issued[..start].iter().find(|n| self.flushed.is_none_or(|flushed| **n > flushed));
        let kept = |n: &&u64| promised.is_some_and(|promised| **n <= promised);
        match missing_before.filter(kept) {
            Some(n) => return Err(format!("{n} is gone from the front, flushed is {:?}", self.flushed)),
            None if missing_before.is_some() && end > start => {
                return Err(format!("a hole before {got:?} in {:?}", self.issued));
            }
            None => {}
        }
        if let Some(n) = self.issued[end..].iter().find(|n| kept(n) && self.flushed.is_none_or(|flushed| **n > flushed))
        {
            return Err(format!("{n} was promised (power cut: {power_cut}) and is gone; {got:?} came back"));
        }
        self.issued.truncate(end);
        self.issued.drain(..start.min(end));
        Ok(())
    }
}

/// One life: appends from two tasks of which each waits for its acknowledgement now and then, syncs, flushes.
async fn live(io: Io, config: LogConfig, inherited: Inherited, model: Rc<RefCell<Model>>, random: Rc<Random>) {
    let Ok(log) = open(io.clone(), config, inherited).await else { return };
    {
        // What was recovered is durable now, whatever it was before.
        let mut model = model.borrow_mut();
        let last = model.issued.last().copied();
        (model.synced, model.acknowledged) = (last, last);
    }
    let mut flush_from = LogPosition::ZERO;
    for _ in 0..random.between(1, 120) {
        let mut last = None;
        for _ in 0..random.between(1, 8) {
            let size = if random.below(10) == 0 { random.between(8, 8000) } else { random.between(8, 400) };
            let number = model.borrow().next_number;
            let mut body = number.to_le_bytes().to_vec();
            body.resize(size as usize, number as u8);
            let Ok(ticket) = append(&log, &body).await else { return };
            let mut model = model.borrow_mut();
            model.next_number += 1;
            model.issued.push(number);
            last = Some((number, ticket));
        }
        let Some((number, ticket)) = last else { continue };
        if random.below(3) > 0 {
            let (log, model) = (log.clone(), model.clone());
            io.spawn(crate::io::TaskClass::Foreground, async move {
                if log.wait_acknowledged(ticket.end).await.is_ok() {
                    let mut model = model.borrow_mut();
                    model.acknowledged = model.acknowledged.max(Some(number));
                    if !matches!(log.config().mode, SyncMode::Periodic { .. }) {
                        model.synced = model.synced.max(Some(number));
                    }
                }
            });
        }
        match random.below(12) {
            0 => {
                if log.sync().await.is_err() {
                    return;
                }
                let mut model = model.borrow_mut();
                model.synced = model.synced.max(Some(number));
                model.acknowledged = model.acknowledged.max(Some(number));
            }
            1 => {
                // The test is the SSTable: from here on the log need not have them.
                let (to, mut model) = (log.position(), model.borrow_mut());
                model.flushed = model.issued.last().copied();
                drop(model);
                log.mark_flushed(TABLE, flush_from, to);
                flush_from = to;
            }
            2 => io.sleep(Duration::from_micros(random.between(1, 3000))).await,
            _ => io.yield_now().await,
        }
    }
    if random.below(4) == 0 {
        let _ = log.close().await;
    }
    std::future::pending::<()>().await;
}

/// Some lives on one disk. The first broken rule is the error.
fn lives(seed: u64, planted: Planted) -> Result<(), String> {
    let sim = Simulation::new(seed, Faults::NONE);
    let random = Rc::new(Random::stream(seed, 77));
    let model = Rc::new(RefCell::new(Model::default()));
    let mode = match seed % 3 {
        0 => SyncMode::Periodic { period: Duration::from_millis(2) },
        1 => SyncMode::Batch,
        _ => SyncMode::Group { window: Duration::from_millis(1) },
    };
    let method = if seed.is_multiple_of(2) { SyncMethod::SyncedWrite } else { SyncMethod::WriteThenSync };
    let mut power_cut = false;
    for life in 0..4 {
        let config = LogConfig { method, planted, ..config(mode) };
        let options = ReplayOptions { planted, ..ReplayOptions::default() };
        let first = recovered(&sim, options).map_err(|error| format!("life {life}: {error}"))?;
        let back = recovered(&sim, options).map_err(|error| format!("life {life}, again: {error}"))?;
        if back.mutations != first.mutations {
            return Err(format!("life {life}: recovering twice gave something else"));
        }
        let numbers: Vec<u64> = back.mutations.iter().map(|(_, body)| number(body)).collect();
        model.borrow_mut().check(&numbers, power_cut).map_err(|broken| format!("life {life}: {broken}"))?;
        let task = {
            let (model, random) = (model.clone(), random.clone());
            let inherited = back.replayed.inherited;
            move |io: Io, _| {
                let inherited =
                    Inherited { segments: inherited.segments.clone(), dropped: inherited.dropped.clone(), ..inherited };
                live(io, config.clone(), inherited, model.clone(), random.clone())
            }
        };
        sim.kill();
        let _: crate::io::Outside<()> = sim.start(1, task);
        sim.run_for(Duration::from_micros(random.between(100, 60_000))).map_err(|halted| halted.to_string())?;
        power_cut = random.coin();
        if power_cut { sim.crash() } else { sim.kill() }
    }
    Ok(())
}

#[test]
fn promises_hold_over_lives_that_end_in_power_cuts() {
    for seed in 0..150 {
        lives(seed, Planted::default()).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
    }
}

#[cfg(feature = "plants")]
#[test]
fn every_planted_fault_is_caught() {
    for plant in [
        Plant::AcknowledgeBeforeSync,
        Plant::AcknowledgeOutOfOrder,
        Plant::AcceptStaleRecords,
        Plant::ReleaseBeforeFlush,
        Plant::SkipDirectorySync,
    ] {
        let caught = (0..400).find(|seed| lives(*seed, Planted(Some(plant))).is_err());
        assert!(caught.is_some(), "{plant:?} passes for sound");
    }
}

#[cfg(not(feature = "plants"))]
#[test]
fn a_plant_without_the_feature_changes_nothing() {
    for seed in 0..10 {
        assert_eq!(lives(seed, Planted(Some(Plant::ReleaseBeforeFlush))), Ok(()));
    }
}
