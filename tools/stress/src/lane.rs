//! A connection with what is in flight on it.

use helenus::protocol::Opcode;
use helenus::protocol::client::{Response, ResultBody};

use crate::connection::{Connection, ConnectionError};
use crate::phase::Phase;
use crate::profile::Buffers;
use crate::tally::Tally;
use crate::workload::{Operation, Outcome};

/// Requests of a connection are told apart by 15 bits.
pub const STREAMS_MAX: usize = 32_767;

pub struct Lane {
    pub connection: Connection,
    /// By stream.
    in_flight: Vec<Option<Asked>>,
    /// Streams that were used and are free again.
    free: Vec<i16>,
    /// Requests in flight at most.
    pub window: usize,
}

/// What a stream waits for.
#[derive(Clone, Copy)]
struct Asked {
    operation: Operation,
    /// Its statement, which the server had forgotten, rather than itself.
    prepares: bool,
}

/// What an answer asks for: the operation once more, its next page, or its statement.
struct Again {
    stream: i16,
    asked: Asked,
    state: Option<Vec<u8>>,
}

/// An answer on a stream on which nothing was asked.
#[derive(Debug)]
pub struct Stray(pub i16);

impl Lane {
    pub fn new(connection: Connection) -> Lane {
        Lane { connection, in_flight: Vec::new(), free: Vec::new(), window: 0 }
    }

    /// How many requests are in flight.
    #[inline]
    pub fn busy(&self) -> usize {
        self.in_flight.len() - self.free.len()
    }

    #[inline]
    pub fn has_room(&self) -> bool {
        self.busy() < self.window
    }

    /// Adds a request to what is to be sent; there is room for it.
    #[inline]
    pub fn ask(&mut self, operation: Operation, opcode: Opcode, body: &[u8]) {
        let stream = self.free.pop().unwrap_or_else(|| {
            self.in_flight.push(None);
            i16::try_from(self.in_flight.len() - 1).expect("no more than streams")
        });
        self.connection.request(stream, opcode, body);
        self.in_flight[usize::from(stream.unsigned_abs())] = Some(Asked { operation, prepares: false });
    }

    /// Takes the answers of one receive, and says how many operations those ended.
    pub fn receive(
        &mut self,
        phase: &Phase<'_>,
        tally: &mut Tally,
        buffers: &mut Buffers,
    ) -> Result<(usize, Option<Stray>), ConnectionError> {
        let Lane { connection, in_flight, free, .. } = self;
        let (mut again, mut stray, mut ended) = (Vec::new(), None, 0);
        let mut now_ns = None;
        connection.receive(|stream, answer| {
            let slot = usize::try_from(stream).ok().and_then(|stream| in_flight.get_mut(stream));
            let Some(Asked { operation, prepares }) = slot.and_then(Option::take) else {
                stray = Some(Stray(stream));
                return;
            };
            let kind = operation.kind as usize;
            let mut ask = |operation, prepares, state| {
                again.push(Again { stream, asked: Asked { operation, prepares }, state });
            };
            let tries_on = operation.attempts < phase.retries;
            let next_attempt = Operation { attempts: operation.attempts + 1, ..operation };
            if prepares && matches!(answer, Response::Result(ResultBody::Prepared(_))) {
                return ask(operation, false, None);
            }
            match phase.workload.check(&operation, &answer, &mut buffers.body) {
                Outcome::Good { partitions, rows } => {
                    // One time for all answers of a receive: they came together.
                    let now_ns = *now_ns.get_or_insert_with(|| phase.now_ns());
                    tally.succeeded(kind, now_ns.saturating_sub(operation.since_ns) / 1_000, partitions, rows);
                }
                Outcome::More { rows, state } => return ask(Operation { rows, ..operation }, false, Some(state)),
                Outcome::Refused(_) if tries_on => return ask(next_attempt, prepares, None),
                Outcome::Forgotten if tries_on => return ask(next_attempt, true, None),
                Outcome::Forgotten => {
                    tally.failed(kind);
                    phase.failed(&operation, "the server forgets its statement again and again");
                }
                Outcome::Refused(why) | Outcome::Wrong(why) => {
                    tally.failed(kind);
                    phase.failed(&operation, &why);
                }
            }
            free.push(stream);
            ended += 1;
        })?;
        for Again { stream, mut asked, state } in again {
            let opcode = if asked.prepares {
                phase.workload.put_prepare(&asked.operation, buffers)
            } else {
                phase.workload.put(&mut asked.operation, state.as_deref(), buffers)
            };
            self.connection.request(stream, opcode, &buffers.body);
            self.in_flight[usize::from(stream.unsigned_abs())] = Some(asked);
        }
        Ok((ended, stray))
    }
}
