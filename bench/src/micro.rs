//! `bench micro`: each layer alone, on one core: token, decode, mutation, memtable, SSTable, mesh.
//!
//! Times are CPU time of the thread, the median of several rounds, so that a neighbour on the core costs little; the
//! mesh's are elapsed time too.

mod growth;
mod hop;
mod memtable;
pub mod rows;
mod sstable;

use std::hint::black_box;

use helenus::protocol::frame::BODY_BYTES_MAX;
use helenus::protocol::request::Request;
use helenus::protocol::{FrameDecoder, FrameEncoder};
use helenus::schema::partitioner::token_of;

use crate::arguments::Takes;
use crate::calibration::{self, median};
use crate::counters::clock_ns;
use crate::inprocess::{Kind, VERSION};
use crate::report::{Report, short};

pub use growth::{Grown, grow_map, grow_partition};
pub use hop::{Hop, hop};
pub use memtable::{apply_batches, apply_clustered, apply_flat, apply_sustained};
pub use sstable::flush;

pub const ROUNDS: usize = 5;

pub fn run(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes = Takes { command: "micro", options: &["--json"], flags: &[] };
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    let mut report = Report::new("micro", calibration::shown());
    println!("{:<56} {:>12}", "layer", "measured");
    let mut tell = |name: &str, value: f64, unit: &str| {
        println!("{name:<56} {:>12} {unit}", short(value));
        let rising = unit.ends_with("/s");
        report.add(name, value, unit).rising = rising;
    };
    tell("token of a key of 10 B", token_ns(10), "ns");
    tell("token of a key of 15 B", token_ns(15), "ns");
    for kind in [Kind::Read, Kind::Write, Kind::Batch] {
        tell(&format!("decode of a frame: {}", kind.name()), decode_ns(kind, DECODES)?, "ns");
    }
    memtable::all(&mut tell);
    sstable::all(&mut tell)?;
    for in_flight in [1, 32, 256] {
        let Hop { round_trip_ns, one_way_ns, cpu_ns } = hop(in_flight)?;
        tell(&format!("mesh, {in_flight} in flight: there and back"), round_trip_ns, "ns");
        tell(&format!("mesh, {in_flight} in flight: elapsed a message, one way"), one_way_ns, "ns");
        tell(&format!("mesh, {in_flight} in flight: CPU of both cores a message"), cpu_ns, "ns");
    }
    report.save(given.text("--json"))
}

/// CPU nanoseconds of one of `count`, all done by one call of `work`; the median of some rounds.
pub fn ns_each(count: u64, mut work: impl FnMut()) -> f64 {
    median((0..ROUNDS).map(|_| {
        let before = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        work();
        (clock_ns(libc::CLOCK_THREAD_CPUTIME_ID) - before) as f64 / count as f64
    }))
}

fn token_ns(key_bytes: usize) -> f64 {
    const KEYS: u64 = 1_000_000;
    let mut key = vec![b'k'; key_bytes];
    ns_each(KEYS, || {
        for at in 0..KEYS {
            key[key_bytes - 1] = at as u8;
            black_box(token_of(black_box(&key)));
        }
    })
}

/// Buffers of 64 frames that are decoded in a round.
pub const DECODES: usize = 2_000;

/// A frame, and the request in it, from a buffer of 64, decoded so many times.
pub fn decode_ns(kind: Kind, times: usize) -> Result<f64, String> {
    const FRAMES: usize = 64;
    let mut received = Vec::new();
    let mut encoder = FrameEncoder::requests(VERSION);
    for number in 0..FRAMES as u64 {
        kind.put_request(&mut encoder, number, &[7; 16], &kind.key(number), &mut received);
    }
    let mut decoded = 0;
    let each = ns_each((FRAMES * times) as u64, || {
        for _ in 0..times {
            let mut decoder = FrameDecoder::requests(BODY_BYTES_MAX);
            let mut at = 0;
            while let Ok(step) = decoder.next(black_box(&received[at..])) {
                at += step.consumed;
                let Some(frame) = step.frame else { break };
                let request = Request::decode(frame.version, frame.opcode, frame.body, false);
                decoded += usize::from(black_box(request).is_ok());
            }
        }
    });
    let wanted = FRAMES * times * ROUNDS;
    (decoded == wanted).then_some(each).ok_or_else(|| format!("{}: {decoded} of {wanted} decoded", kind.name()))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn frames_are_decoded_whole() {
        assert!(decode_ns(Kind::Batch, 1).unwrap() > 0.0);
    }
}
