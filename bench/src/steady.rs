//! `bench steady`: what a shard of the real server takes from the system while it serves: heap allocations and minor page
//! faults an operation, flushes included, and its system calls by kind. The `helenus` beside this program must count:
//! `cargo build --release --features count`.

pub mod metrics;
mod trace;

use std::path::PathBuf;
use std::time::Duration;

use crate::arguments::Takes;
use crate::calibration;
use crate::loopback::cores;
use crate::peer::Peer;
use crate::report::{Report, short};
use metrics::{Scrape, get, post};

const TAKES: Takes =
    Takes { command: "steady", options: &["--shards", "--seconds", "--rows", "--in-flight", "--json"], flags: &[] };

const KEYSPACE: &str = "keyspace1";
/// From the start of a load until it is measured: connections are made, statements prepared, every key written once.
const SETTLES_IN: Duration = Duration::from_secs(3);
/// More allocations or faults than this an operation are no steady state.
const MOST: f64 = 0.001;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    let seconds = Duration::from_secs(given.number("--seconds", 10)?);
    let (shards, rows) = (given.number("--shards", 1)?, given.number("--rows", 100_000)?);
    let in_flight = given.number("--in-flight", 64)?;
    let mut report = Report::new("steady", calibration::shown());
    let (server_core, load_core) = cores();
    let first = server_core.unwrap_or(0) as u64;
    let server_cores = (first..first + shards).map(|core| core.to_string()).collect::<Vec<_>>().join(",");
    let load_core = load_core.map(|core| core.to_string());
    let peer = Peer::helenus(&server_cores)?;
    let length = format!("duration={}s cl=ONE no-warmup", (seconds + 2 * SETTLES_IN).as_secs());
    let load = format!("-pop dist=uniform(1..{rows}) -rate threads={in_flight}");
    peer.stress(&format!("write n={rows} cl=ONE no-warmup -rate threads={in_flight}"), load_core.as_deref())?;
    println!(
        "{rows} rows written; then known ones, {in_flight} in flight, {} s each, with two flushes:",
        seconds.as_secs()
    );
    let mut most: f64 = 0.0;
    for (name, words) in [("write", "write"), ("read", "read"), ("mixed 50/50", "mixed ratio(write=1,read=1)")]
        .map(|(name, kind)| (name, format!("{kind} {length} {load}")))
    {
        let (before, after) = loaded(&peer, &words, load_core.as_deref(), || window(&peer, seconds))?;
        most = most.max(show(name, &before, &after, &mut report)?);
    }
    let words = format!("mixed ratio(write=1,read=1) {length} {load}");
    let calls = loaded(&peer, &words, load_core.as_deref(), || trace::calls(peer.process_id(), seconds, &log_file()))?;
    println!("\nsystem calls by thread, mixed, in {} s under strace (which slows them):", seconds.as_secs());
    calls.show();
    let futexes = calls.of_shards("futex");
    report.add("futex calls of shard threads", futexes as f64, "calls");
    report.save(given.text("--json"))?;
    match most <= MOST && futexes == 0 {
        true => Ok(()),
        false => Err(format!("no steady state: {most:.4} an operation at most, {futexes} futex calls")),
    }
}

fn log_file() -> PathBuf {
    std::env::temp_dir().join(format!("bench-steady-{}.strace", std::process::id()))
}

/// Does something while helenus-stress runs, once that has settled in.
fn loaded<T: Send>(
    peer: &Peer,
    words: &str,
    load_core: Option<&str>,
    measure: impl FnOnce() -> Result<T, String>,
) -> Result<T, String> {
    std::thread::scope(|scope| {
        let load = scope.spawn(|| peer.stress(words, load_core));
        std::thread::sleep(SETTLES_IN);
        let measured = measure();
        let summary = load.join().map_err(|_| "the load panicked".to_owned())??;
        if summary.errors > 0.0 {
            return Err(format!("{} errors of `helenus-stress {words}`", summary.errors));
        }
        measured
    })
}

/// The metrics at both ends of so long, with a flush at a third and two thirds of it.
fn window(peer: &Peer, seconds: Duration) -> Result<(Scrape, Scrape), String> {
    let port = peer.admin_port()?;
    let before = Scrape::parse(&get(port, "/metrics")?);
    for _ in 0..2 {
        std::thread::sleep(seconds / 3);
        post(port, &format!("/flush?keyspace={KEYSPACE}"))?;
    }
    std::thread::sleep(seconds - seconds / 3 * 2);
    Ok((before, Scrape::parse(&get(port, "/metrics")?)))
}

/// A line for each shard; the most that any of them took an operation.
fn show(name: &str, before: &Scrape, after: &Scrape, report: &mut Report) -> Result<f64, String> {
    let mut most: f64 = 0.0;
    for shard in after.shards() {
        let grown = |metric: &str| -> Result<f64, String> {
            let value = |scrape: &Scrape| {
                scrape.sum(metric, shard).ok_or_else(|| {
                    format!(
                        "no {metric} in /metrics (cargo build --release --features count builds a server that counts)"
                    )
                })
            };
            Ok(value(after)? - value(before)?)
        };
        let allocations = grown("helenus_allocations_total")?;
        let bytes = grown("helenus_allocated_bytes_total")?;
        let faults = grown("helenus_minor_faults_total")?;
        let operations = grown("helenus_table_reads_total")? + grown("helenus_table_writes_total")?;
        let flushes = grown("helenus_table_flushes_total")?;
        println!(
            "  {name:<12} shard {shard}: {operations:>9} operations, {flushes} flushes; an operation: \
             {:>8} allocations ({} B), {:>8} minor faults   ({allocations} and {faults} in all)",
            short(allocations / operations),
            short(bytes / operations),
            short(faults / operations),
        );
        report.add(format!("{name}, shard {shard}: allocations"), allocations / operations, "allocations/op");
        report.add(format!("{name}, shard {shard}: minor faults"), faults / operations, "faults/op");
        most = most.max(allocations / operations).max(faults / operations);
    }
    Ok(most)
}
