//! The limits of connections, each with what happens at it.

use std::time::Duration;

use crate::plan::BatchLimits;

#[derive(Clone, Debug)]
pub struct Limits {
    /// A larger frame body is refused with an error on its stream.
    pub frame_bytes_max: usize,
    /// Beyond it a connection is closed as soon as it is accepted.
    pub connections_max: u64,
    /// Requests in flight on one connection: beyond it nothing more is received from it.
    pub in_flight_max: usize,
    /// Bytes of requests in flight on one shard: a request beyond it is answered OVERLOADED.
    pub in_flight_bytes_max: usize,
    /// Answers not sent yet: beyond it nothing more is received from that client.
    pub unsent_bytes_max: usize,
    /// A client that takes no byte of its answers for so long is closed.
    pub send_patience: Duration,
    /// A client that has not sent STARTUP by then is closed.
    pub startup_patience: Duration,
    /// Prepared statements a shard keeps: the one prepared longest ago goes first.
    pub prepared_statements_max: usize,
    /// The sizes of batches that are answered with a warning, and that are refused.
    pub batch: BatchLimits,
}

/// Frames that one connection serves before others get their turn.
pub const FRAMES_A_TURN: usize = 64;

/// Room for one receive.
pub const RECEIVE_BYTES: usize = 64 * 1024;

impl Default for Limits {
    fn default() -> Self {
        Limits {
            frame_bytes_max: 16 << 20,
            connections_max: 32_768,
            in_flight_max: 32_768,
            in_flight_bytes_max: 128 << 20,
            unsent_bytes_max: 256 << 10,
            send_patience: Duration::from_secs(60),
            startup_patience: Duration::from_secs(30),
            prepared_statements_max: 10_000,
            batch: BatchLimits::default(),
        }
    }
}
