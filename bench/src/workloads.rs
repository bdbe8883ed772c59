//! `bench w1` and `bench w2`: the workloads as published, by helenus-stress, with the published table beside them; with
//! `--cassandra` against a real Cassandra too, in the same run, on the same cores, one after the other. `bench peers` has
//! both at once, in alternating rounds.
//!
//! With `--cassandra` each load runs as fast as it goes, and then, open-loop, at half of what Cassandra can do: there both
//! serve the same rate, and their CPU time an operation and their latencies can be compared.

use crate::arguments::{Given, Takes};
use crate::calibration::{self, median};
use crate::flame::{Recorded, Recording};
use crate::loopback::cores;
use crate::peer::{Peer, Summary};
use crate::report::{Report, short};

const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/w2-batch-profile.yaml");

const W1_PUBLISHED: &str = "\
published (CASSANDRA-19429), Cassandra before and after a lock of the key cache was removed, mixed 10/90:
  r8g.24xlarge                168 k → 496 k op/s
  r7i.24xlarge                153 k → 304 k op/s
  without compaction          167 k → 435 k op/s, read p99 2.3 → 0.4 ms, max up to 1,058 ms
";
const W2_PUBLISHED: &str = "\
published (CASSANDRA-21141), batches of 10 rows of one partition, 300 threads, 16 vCPU, log and compaction off:
  215,372 → 230,568 batches/s (2.15 → 2.31 M rows/s), p99 7.9 → 6.5 ms, max 275 to 329 ms
";

/// cassandra-stress's connections to a host.
const CONNECTIONS: u64 = 8;
/// A table is filled with so many in flight on each connection.
const FILL_IN_FLIGHT: u64 = 64;

/// Cassandra is warm when so many intervals of 10 s in a row agree within a tenth, and at the latest after five minutes.
const WARM_INTERVALS: usize = 3;
const WARM_SPREAD: f64 = 0.10;
const WARM_INTERVALS_MAX: usize = 30;
const WARM_INTERVAL: &str = "duration=10s";

/// What is owed with 64 in flight on a connection: so many times Cassandra's operations a CPU second, and so small a part
/// of its p99.
const OWED_CPU: f64 = 10.0;
const OWED_P99: f64 = 5.0;

/// A kind of load.
#[derive(Clone)]
struct Load {
    name: &'static str,
    /// The command with its own words, and the groups but for rate and connections.
    command: String,
    population: String,
}

impl Load {
    /// The words of a run; `rate` is that of an open loop.
    fn run(&self, length: &str, in_flight: u64, rate: Option<f64>) -> String {
        let threads = CONNECTIONS * in_flight;
        let fixed = rate.map_or(String::new(), |rate| format!(" fixed={:.0}/s", rate.max(1.0)));
        let Load { command, population, .. } = self;
        format!(
            "{command} {length} cl=ONE no-warmup{population} -rate threads={threads}{fixed} -mode \
             connectionsPerHost={CONNECTIONS}"
        )
    }
}

/// A workload: what fills the tables, and loads on them in order.
struct Workload {
    command: &'static str,
    published: &'static str,
    fill: Option<String>,
    loads: Vec<Load>,
    /// Merged into one SSTable before the last load.
    compacted: Option<&'static str>,
}

/// W1 over so many rows.
fn w1_of(rows: u64) -> Workload {
    let write = Load { name: "write", command: "write".into(), population: format!(" -pop dist=uniform(1..{rows})") };
    let mixed = Load {
        name: "mixed 10/90",
        command: "mixed ratio(write=10,read=90)".into(),
        population: format!(" -pop dist=gaussian(1..{rows})"),
    };
    Workload {
        command: "w1",
        published: W1_PUBLISHED,
        fill: Some(format!("write n={rows} cl=ONE no-warmup -rate threads={}", CONNECTIONS * FILL_IN_FLIGHT)),
        loads: vec![write, mixed],
        compacted: Some("keyspace1"),
    }
}

fn w2_all() -> Workload {
    let command = format!("user profile={PROFILE} ops(insert=1)");
    let batches = Load { name: "batches of 10", command, population: String::new() };
    Workload { command: "w2", published: W2_PUBLISHED, fill: None, loads: vec![batches], compacted: None }
}

pub fn w1(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes =
        Takes { command: "w1", options: &["--rows", "--seconds", "--in-flight", "--json"], flags: &["--cassandra"] };
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    run(&w1_of(given.number("--rows", 1_000_000)?), &given)
}

pub fn w2(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes =
        Takes { command: "w2", options: &["--seconds", "--in-flight", "--json"], flags: &["--cassandra"] };
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    run(&w2_all(), &given)
}

/// What a load came to on one server.
struct Measured {
    load: &'static str,
    in_flight: u64,
    /// As fast as it goes, and at a rate that another server can do too.
    most: Summary,
    fixed: Option<(f64, Summary)>,
}

fn run(workload: &Workload, given: &Given) -> Result<(), String> {
    let (seconds, flights) = (given.number("--seconds", 30)?, given.numbers("--in-flight", &[1, 64])?);
    let mut report = Report::new(workload.command, calibration::shown());
    let set = CpuSet::of_this_machine();
    println!("{}\n{}", workload.published, set.shown());
    if !given.flag("--cassandra") {
        let ours = Peer::helenus(&set.server)?;
        measure(&ours, workload, seconds, &flights, &set, &|_, _| None, &mut report)?;
        return report.save(given.text("--json"));
    }
    let theirs = {
        let peer = Peer::cassandra(&set.server)?;
        let half = |_: usize, most: &Summary| Some(most.operations_per_s / 2.0);
        measure(&peer, workload, seconds, &flights, &set, &half, &mut report)?
    };
    let peer = Peer::helenus(&set.server)?;
    let same = |at: usize, _: &Summary| theirs.get(at).and_then(|measured| measured.fixed).map(|(rate, _)| rate);
    let ours = measure(&peer, workload, seconds, &flights, &set, &same, &mut report)?;
    println!("\nHelenus beside Cassandra, both on core {}:", set.server);
    for (ours, theirs) in ours.iter().zip(&theirs) {
        compare(ours, theirs, &mut report);
    }
    report.save(given.text("--json"))
}

/// The cores of server and client.
struct CpuSet {
    server: String,
    load: Option<String>,
}

impl CpuSet {
    fn of_this_machine() -> CpuSet {
        let (server, load) = cores();
        CpuSet {
            server: server.map_or("0".to_owned(), |core| core.to_string()),
            load: load.map(|core| core.to_string()),
        }
    }

    fn shown(&self) -> String {
        format!(
            "servers on core {}, helenus-stress on core {}, {CONNECTIONS} connections",
            self.server,
            self.load.as_deref().unwrap_or("0")
        )
    }
}

/// Every load at each number in flight; `rate` says at what rate it runs again, given its number and how it went.
fn measure(
    peer: &Peer,
    workload: &Workload,
    seconds: u64,
    flights: &[u64],
    set: &CpuSet,
    rate: &dyn Fn(usize, &Summary) -> Option<f64>,
    report: &mut Report,
) -> Result<Vec<Measured>, String> {
    println!("\n{}: {}", peer.name(), peer.settings());
    let load = set.load.as_deref();
    let length = format!("duration={seconds}s");
    fill(peer, workload, load)?;
    let mut all = Vec::new();
    for (at, one) in workload.loads.iter().enumerate() {
        if at > 0 && at + 1 == workload.loads.len() {
            compact(peer, workload)?;
        }
        for in_flight in flights {
            warm_up(peer, &one.run(WARM_INTERVAL, *in_flight, None), load)?;
            let words = one.run(&length, *in_flight, None);
            let most = peer.stress(&words, load)?;
            let name = format!("{}, {}, {in_flight} in flight", peer.name(), one.name);
            show(&name, &words, &most, report);
            let fixed = match rate(all.len(), &most) {
                None => None,
                Some(rate) => {
                    let words = one.run(&length, *in_flight, Some(rate));
                    let summary = peer.stress(&words, load)?;
                    show(&format!("{name}, half of Cassandra's rate"), &words, &summary, report);
                    Some((rate, summary))
                }
            };
            all.push(Measured { load: one.name, in_flight: *in_flight, most, fixed });
        }
    }
    Ok(all)
}

fn fill(peer: &Peer, workload: &Workload, load: Option<&str>) -> Result<(), String> {
    let Some(words) = &workload.fill else { return Ok(()) };
    let filled = peer.stress(words, load)?;
    println!("$ helenus-stress {words}\n  {} op/s; {} errors", short(filled.operations_per_s), filled.errors);
    Ok(())
}

fn compact(peer: &Peer, workload: &Workload) -> Result<(), String> {
    workload.compacted.map_or(Ok(()), |keyspace| peer.compact(keyspace))
}

/// Loads until the rate stays as it is, where the server gets faster while it runs, and tells how far it still moved.
fn warm_up(peer: &Peer, interval: &str, load_cores: Option<&str>) -> Result<(), String> {
    if !peer.warms_up() {
        return Ok(());
    }
    let mut rates: Vec<f64> = Vec::new();
    while rates.len() < WARM_INTERVALS_MAX {
        rates.push(peer.stress(interval, load_cores)?.operations_per_s);
        if rates.len() >= WARM_INTERVALS && spread(&rates) <= WARM_SPREAD {
            break;
        }
    }
    let last = &rates[rates.len().saturating_sub(WARM_INTERVALS)..];
    let shown: Vec<String> = last.iter().map(|rate| short(*rate)).collect();
    println!(
        "  warmed for {} intervals of 10 s; the last at {} op/s, a spread of {:.0} %",
        rates.len(),
        shown.join(", "),
        spread(&rates) * 100.0
    );
    Ok(())
}

/// The distance of the last intervals' rates, as a share of the least.
fn spread(rates: &[f64]) -> f64 {
    let last = &rates[rates.len().saturating_sub(WARM_INTERVALS)..];
    let (least, most) = last.iter().fold((f64::MAX, 0.0f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
    most / least - 1.0
}

fn show(name: &str, words: &str, summary: &Summary, report: &mut Report) {
    let Summary { operations_per_s, rows_per_s, median_ms, p99_ms, max_ms, errors, cpu_us, requests_per_receive } =
        *summary;
    println!("$ helenus-stress {words}");
    println!(
        "  {} op/s, {} row/s, {cpu_us:.2} µs of server CPU an operation; median {} ms, 99 % {} ms, max {} ms; {errors} \
         errors{}",
        short(operations_per_s),
        short(rows_per_s),
        short(median_ms),
        short(p99_ms),
        short(max_ms),
        requests_per_receive.map_or(String::new(), |each| format!("; {each:.1} requests a receive"))
    );
    report.add(format!("{name}: rate"), operations_per_s, "op/s").rising = true;
    report.add(format!("{name}: server CPU"), cpu_us, "µs/op");
    report.add(format!("{name}: p99"), p99_ms, "ms");
    report.add(format!("{name}: max"), max_ms, "ms");
    if let Some(each) = requests_per_receive {
        report.add(format!("{name}: requests a receive"), each, "requests").rising = true;
    }
}

/// One load on both: what is owed is owed with 64 in flight.
fn compare(ours: &Measured, theirs: &Measured, report: &mut Report) {
    let name = format!("{}, {} in flight", ours.load, ours.in_flight);
    let owes = ours.in_flight >= 64;
    let mut tell = |what: &str, times: f64, owed: f64| {
        let verdict = match (owes, times >= owed) {
            (false, _) => String::new(),
            (true, true) => format!(" (owed {owed:.0}: there)"),
            (true, false) => format!(" (owed {owed:.0}: NOT THERE)"),
        };
        println!("  {name}: {what} × {times:.2}{verdict}");
        let figure = report.add(format!("{name}: {what}"), times, "×");
        (figure.rising, figure.good) = (true, owes.then_some(owed));
    };
    println!("  {name}: {} op/s to {}", short(ours.most.operations_per_s), short(theirs.most.operations_per_s));
    tell("operations a CPU second, at each one's most", theirs.most.cpu_us / ours.most.cpu_us, OWED_CPU);
    if let (Some((_, ours)), Some((rate, theirs))) = (&ours.fixed, &theirs.fixed) {
        let at = format!("at {} op/s", short(*rate));
        tell(&format!("operations a CPU second, {at}"), theirs.cpu_us / ours.cpu_us, OWED_CPU);
        tell(&format!("shorter p99, {at}"), theirs.p99_ms / ours.p99_ms, OWED_P99);
    }
}

/// A load whose flame graph is drawn.
pub enum Flame {
    Mixed { rows: u64 },
    Batches,
}

/// Runs one load on Helenus while it is recorded.
pub fn flame(load: Flame, seconds: u64, recording: Recording<'_>) -> Result<Recorded, String> {
    let workload = match load {
        Flame::Mixed { rows } => w1_of(rows),
        Flame::Batches => w2_all(),
    };
    let set = CpuSet::of_this_machine();
    let peer = Peer::helenus(&set.server)?;
    fill(&peer, &workload, set.load.as_deref())?;
    compact(&peer, &workload)?;
    let last = workload.loads.last().ok_or("a workload has a load")?;
    let words = last.run(&format!("duration={seconds}s"), FILL_IN_FLIGHT, None);
    let perf = recording(peer.process_id())?;
    let summary = peer.stress(&words, set.load.as_deref())?;
    println!(
        "$ helenus-stress {words}\n  {} op/s, {:.2} µs of server CPU",
        short(summary.operations_per_s),
        summary.cpu_us
    );
    perf.end()
}

/// W1 and W2 on Helenus and a real Cassandra, both up, in alternating rounds: medians and spread.
pub fn rounds(rows: u64, seconds: u64, in_flight: u64, rounds: u64, report: &mut Report) -> Result<(), String> {
    let set = CpuSet::of_this_machine();
    println!("servers: {}, {in_flight} in flight on each; {rounds} rounds of {seconds} s in turns", set.shown());
    let peers = [Peer::helenus(&set.server)?, Peer::cassandra(&set.server)?];
    peers.iter().for_each(|peer| println!("{}: {}", peer.name(), peer.settings()));
    let length = format!("duration={seconds}s");
    let load = set.load.as_deref();
    for workload in [w1_of(rows), w2_all()] {
        println!("\n{}", workload.published);
        peers.iter().try_for_each(|peer| fill(peer, &workload, load))?;
        for (at, one) in workload.loads.iter().enumerate() {
            if at > 0 && at + 1 == workload.loads.len() {
                peers.iter().try_for_each(|peer| compact(peer, &workload))?;
            }
            let words = one.run(&length, in_flight, None);
            peers.iter().try_for_each(|peer| warm_up(peer, &one.run(WARM_INTERVAL, in_flight, None), load))?;
            println!("$ helenus-stress {words}");
            let mut all: [Vec<Summary>; 2] = [Vec::new(), Vec::new()];
            for _ in 0..rounds {
                for (peer, summaries) in peers.iter().zip(&mut all) {
                    summaries.push(peer.stress(&words, load)?);
                }
            }
            for (peer, summaries) in peers.iter().zip(&all) {
                show_rounds(&format!("{}, {}", peer.name(), one.name), summaries, report);
            }
        }
    }
    Ok(())
}

fn show_rounds(name: &str, summaries: &[Summary], report: &mut Report) {
    type Figure = (&'static str, &'static str, fn(&Summary) -> f64);
    let figures: [Figure; 3] = [
        ("rate", "op/s", |summary| summary.operations_per_s),
        ("server CPU", "µs/op", |summary| summary.cpu_us),
        ("p99", "ms", |summary| summary.p99_ms),
    ];
    let mut line = format!("  {name:<28}");
    for (what, unit, figure) in figures {
        let values: Vec<f64> = summaries.iter().map(figure).collect();
        let (least, most) = crate::peers::ends(&values);
        let middle = median(values.into_iter());
        line += &format!(" {} {unit} ({} to {})", short(middle), short(least), short(most));
        report.add(format!("{name}: {what}"), middle, unit).rising = what == "rate";
    }
    println!("{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_the_last_intervals() {
        assert!(spread(&[1.0, 100.0, 105.0, 110.0]) <= WARM_SPREAD + 1e-9);
        assert!(spread(&[100.0, 100.0, 120.0]) > WARM_SPREAD);
    }

    #[test]
    fn loads_say_length_rate_and_connections() {
        let workload = w1_of(1_000);
        let words = workload.loads[1].run("duration=5s", 64, Some(1234.4));
        assert_eq!(
            words,
            "mixed ratio(write=10,read=90) duration=5s cl=ONE no-warmup -pop dist=gaussian(1..1000) -rate threads=512 \
             fixed=1234/s -mode connectionsPerHost=8"
        );
        assert!(w2_all().loads[0].run("duration=5s", 1, None).ends_with("-rate threads=8 -mode connectionsPerHost=8"));
    }
}
