//! The limits of connections, each with what happens at it.

use std::time::Duration;

use crate::plan::BatchLimits;

#[derive(Clone, Debug)]
pub struct Limits {
    /// A larger frame body is refused with an error on its stream.
    pub frame_bytes_max: usize,
    /// Connections of all shards together: beyond it one is closed as soon as it is accepted.
    pub connections_max: u64,
    /// Requests in flight on one connection: beyond it nothing more is received from it.
    pub in_flight_max: usize,
    /// Bytes of requests in flight on one shard, unfinished frames among them, which may take half of it: a request beyond
    /// it is answered OVERLOADED.
    pub in_flight_bytes_max: usize,
    /// Answers not sent yet: beyond it nothing more is received from that client, and none of its requests starts.
    pub unsent_bytes_max: usize,
    /// Bytes of answers of one connection, from their first row until they are sent: a read beyond it is answered
    /// OVERLOADED. Half of it, as far as it can be foreseen, and nothing more is received.
    pub answer_bytes_max: usize,
    /// The same for one shard, over all its connections.
    pub shard_answer_bytes_max: usize,
    /// A client that does not take one send (at most `SEND_BYTES_MAX`) in so long is closed.
    pub send_patience: Duration,
    /// So is one that leaves an answer untaken for so long, however steadily it takes others: what it holds of the
    /// answers' bytes it holds no longer.
    pub answer_patience: Duration,
    /// A client that has begun a frame and neither finishes it nor sends `FRAME_PROGRESS_BYTES` more in so long is closed.
    pub frame_patience: Duration,
    /// Events that wait for one registered client: one for which there are more cannot be told what has changed, and is
    /// closed, so that it connects again and looks.
    pub events_waiting_max: usize,
    /// Bytes of receive buffers on one shard beyond `RECEIVE_BYTES_MIN` a connection: without room they stay small.
    pub receive_bytes_max: usize,
    /// A client that has not sent STARTUP by then is closed.
    pub startup_patience: Duration,
    /// Prepared statements a shard keeps: the one prepared longest ago goes first.
    pub prepared_statements_max: usize,
    /// The sizes of batches that are answered with a warning, and that are refused.
    pub batch: BatchLimits,
}

/// Frames that one connection serves, and answers it encodes, before others get their turn.
pub const FRAMES_A_TURN: usize = 64;

/// How long one connection's requests may run before others get their turn.
pub const TURN_NS: u64 = 100_000;

/// The clock is looked at after so many frames that were served at once, or so many bytes of them.
pub const FRAMES_A_LOOK: usize = 8;
pub const LOOK_BYTES: usize = 8 << 10;

/// Room for one receive of a client that fills it.
pub const RECEIVE_BYTES: usize = 64 * 1024;

/// Room for a receive of any other, and of one that has not sent STARTUP. An unfinished frame is not counted up to here.
pub const RECEIVE_BYTES_MIN: usize = 4 * 1024;

/// So much of an unfinished frame is progress.
pub const FRAME_PROGRESS_BYTES: usize = 64 * 1024;

/// The most that one send is given.
pub const SEND_BYTES_MAX: usize = 1 << 20;

/// A send's buffer is kept for another one up to this size, two of them a connection.
pub const SPARE_BYTES_MAX: usize = 32 << 10;

/// A buffer larger than this is given back once it is empty.
pub const KEPT_BYTES_MAX: usize = 256 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            frame_bytes_max: 16 << 20,
            connections_max: 32_768,
            in_flight_max: 32_768,
            in_flight_bytes_max: 128 << 20,
            unsent_bytes_max: 256 << 10,
            answer_bytes_max: 128 << 20,
            shard_answer_bytes_max: 512 << 20,
            send_patience: Duration::from_secs(30),
            answer_patience: Duration::from_secs(120),
            frame_patience: Duration::from_secs(30),
            events_waiting_max: 1024,
            receive_bytes_max: 64 << 20,
            startup_patience: Duration::from_secs(30),
            prepared_statements_max: 10_000,
            batch: BatchLimits::default(),
        }
    }
}
