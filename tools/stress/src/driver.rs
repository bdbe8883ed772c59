//! A driver: one thread, on a core of its own, that keeps many requests in flight on its connections.

use std::sync::mpsc::Sender;
use std::time::Duration;

use helenus::protocol::Opcode;
use helenus::schema::partitioner::{Sharding, token_of};

use crate::arguments::Rate;
use crate::choice::Choice;
use crate::connection::{Connection, ConnectionError};
use crate::lane::{Lane, STREAMS_MAX, Stray};
use crate::pace::Pace;
use crate::phase::{Next, Phase};
use crate::poll::Poll;
use crate::profile::Buffers;
use crate::tally::Tally;
use crate::workload::Operation;

/// How often a driver hands over what it counted.
const HAND_OVER_EVERY_NS: u64 = 20_000_000;
/// How long a request may stay unanswered before the run is given up.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("waiting for answers: {0}")]
    Wait(#[from] std::io::Error),
    #[error("{in_flight} requests have had no answer for {} s", ANSWER_WITHIN.as_secs())]
    Silent { in_flight: usize },
    #[error("an answer came on stream {stream}, on which nothing was asked")]
    Stream { stream: i16 },
}

/// One thread's part of the load.
pub struct Driver {
    /// Where its thread stays; `None` where it may not be told.
    core: Option<usize>,
    lanes: Vec<Lane>,
    poll: Poll,
    /// How tokens are divided among shards, and the lanes of each; none where that is not known.
    sharding: Option<(Sharding, Vec<Vec<usize>>)>,
    /// Requests in flight on a lane at most.
    pending: usize,
    /// Where the search for a lane begins.
    next_lane: usize,
    buffers: Buffers,
    /// Made, but without room on its connection.
    held: Option<(Operation, Opcode)>,
}

/// What a driver counted, up to a moment; no tally where that is nothing.
pub struct Counted {
    pub tally: Option<Tally>,
    pub until: Duration,
}

/// Where a driver stands among those that work.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub at: usize,
    pub of: usize,
}

impl Driver {
    /// A driver without connections, each of which will have at most `pending` requests in flight.
    pub fn new(core: Option<usize>, pending: Option<usize>) -> Self {
        Driver {
            core,
            lanes: Vec::new(),
            poll: Poll::default(),
            sharding: None,
            pending: pending.unwrap_or(STREAMS_MAX).min(STREAMS_MAX),
            next_lane: 0,
            buffers: Buffers::default(),
            held: None,
        }
    }

    /// Takes a started connection on which all statements are prepared.
    pub fn add(&mut self, mut connection: Connection) -> Result<(), ConnectionError> {
        connection.set_nonblocking()?;
        self.poll.add(connection.socket());
        if let Some(shards) = connection.shards() {
            let lanes = vec![Vec::new(); usize::from(shards.sharding.shards)];
            let (sharding, lanes) = self.sharding.get_or_insert((shards.sharding, lanes));
            if *sharding == shards.sharding {
                lanes[usize::from(shards.mine)].push(self.lanes.len());
            }
        }
        self.lanes.push(Lane::new(connection));
        Ok(())
    }

    /// How many requests it can have in flight.
    pub fn capacity(&self) -> usize {
        self.lanes.len() * self.pending
    }

    /// Tokens are sent wherever there is room: nodes differ in their shards, or have none.
    pub fn forget_shards(&mut self) {
        self.sharding = None;
    }

    /// Does this driver's part of a phase, and hands over what it counts.
    pub fn run(
        &mut self,
        phase: &Phase<'_>,
        place: Place,
        choice: &mut Choice,
        counted: &Sender<Counted>,
    ) -> Result<(), DriverError> {
        self.settle();
        let rate = match phase.rate {
            Rate::Unlimited => None,
            Rate::Throttle(rate) | Rate::Fixed(rate) => Some(rate),
        };
        let mut pace = Pace::new(rate, place.at, place.of);
        let budget = phase.threads / place.of + usize::from(place.at < phase.threads % place.of);
        self.set_windows(budget);
        let mut tally = Tally::new(phase.workload.kinds.len());
        let (mut hand_over_at, mut answered_at, mut in_flight) = (HAND_OVER_EVERY_NS, 0, 0);
        loop {
            let now = phase.now_ns();
            let more = self.fill(phase, now, budget, &mut in_flight, &mut pace, choice);
            self.send()?;
            if in_flight == 0 && !more {
                break;
            }
            if in_flight == 0 {
                answered_at = now;
            } else if now.saturating_sub(answered_at) > ANSWER_WITHIN.as_nanos() as u64 {
                return Err(DriverError::Silent { in_flight });
            }
            let mut wake_at = hand_over_at;
            if more && pace.is_paced() && in_flight < budget && self.held.is_none() {
                wake_at = wake_at.min(pace.due_ns());
            }
            self.poll.wait(Duration::from_nanos(wake_at.saturating_sub(phase.now_ns())))?;
            let ended = self.receive(phase, &mut tally)?;
            let now = phase.now_ns();
            if let Some(ended) = ended {
                in_flight -= ended;
                answered_at = now;
            }
            if now >= hand_over_at {
                hand_over_at = now + HAND_OVER_EVERY_NS;
                hand_over(&mut tally, now, counted);
            }
        }
        hand_over(&mut tally, phase.now_ns(), counted);
        Ok(())
    }

    /// Keeps the thread on its core, and lets its waits end when they should.
    fn settle(&self) {
        if let Some(id) = self.core {
            // A core that is gone meanwhile costs evenness, not rightness.
            let _pinned = core_affinity::set_for_current(core_affinity::CoreId { id });
        }
        crate::poll::be_punctual();
    }

    /// Shares what may be in flight among the lanes; where tokens choose the lane, each may have all of it.
    fn set_windows(&mut self, budget: usize) {
        let share = if self.sharding.is_some() { budget } else { budget.div_ceil(self.lanes.len().max(1)) };
        let window = share.min(self.pending);
        self.lanes.iter_mut().for_each(|lane| lane.window = window);
    }

    /// Makes operations while they are due and there is room for them. Whether more may follow.
    fn fill(
        &mut self,
        phase: &Phase<'_>,
        now_ns: u64,
        budget: usize,
        in_flight: &mut usize,
        pace: &mut Pace,
        choice: &mut Choice,
    ) -> bool {
        while *in_flight < budget {
            let (operation, opcode) = match self.held.take() {
                Some(held) => held,
                None => match phase.next(now_ns, pace, choice) {
                    Next::Operation(mut operation) => {
                        let opcode = phase.workload.put(&mut operation, None, &mut self.buffers);
                        (operation, opcode)
                    }
                    other => return other == Next::NotYet,
                },
            };
            let Some(at) = self.lane_for() else {
                self.held = Some((operation, opcode));
                return true;
            };
            self.lanes[at].ask(operation, opcode, &self.buffers.body);
            *in_flight += 1;
        }
        true
    }

    /// The lane for the request in `buffers`: the next one with room, of those of its shard where that is known.
    #[inline]
    fn lane_for(&mut self) -> Option<usize> {
        let start = self.next_lane;
        self.next_lane = start.wrapping_add(1);
        if let Some((sharding, lanes)) = &self.sharding
            && !self.buffers.routing_key.is_empty()
        {
            let shard = sharding.shard_of(token_of(&self.buffers.routing_key));
            let own = &lanes[usize::from(shard.0)];
            if !own.is_empty() {
                let order = (0..own.len()).map(|step| own[(start.wrapping_add(step)) % own.len()]);
                return order.into_iter().find(|at| self.lanes[*at].has_room());
            }
        }
        let count = self.lanes.len();
        (0..count).map(|step| start.wrapping_add(step) % count).find(|at| self.lanes[*at].has_room())
    }

    fn send(&mut self) -> Result<(), DriverError> {
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            let all_sent = lane.connection.send()?;
            self.poll.wants_to_send(at, !all_sent);
        }
        Ok(())
    }

    /// Takes the answers that have come, and says how many operations they ended; `None` where none came.
    fn receive(&mut self, phase: &Phase<'_>, tally: &mut Tally) -> Result<Option<usize>, DriverError> {
        // An operation that is held keeps its request.
        let mut spare = Buffers::default();
        let buffers = if self.held.is_some() { &mut spare } else { &mut self.buffers };
        let mut all = None;
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            if self.poll.is_ready(at) {
                let (ended, stray) = lane.receive(phase, tally, buffers)?;
                if let Some(Stray(stream)) = stray {
                    return Err(DriverError::Stream { stream });
                }
                *all.get_or_insert(0) += ended;
            }
        }
        Ok(all)
    }
}

/// Sends away what was counted and starts anew.
fn hand_over(tally: &mut Tally, now_ns: u64, counted: &Sender<Counted>) {
    let tally = (!tally.is_empty()).then(|| tally.take());
    // Nobody listens any more where the run has failed elsewhere.
    let _sent = counted.send(Counted { tally, until: Duration::from_nanos(now_ns) });
}
