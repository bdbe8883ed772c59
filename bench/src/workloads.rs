//! `bench w1` and `bench w2`: the workloads as published, by helenus-stress, with the published table beside them; with
//! `--cassandra` against a real Cassandra too, in the same run, on the same cores, one after the other.

use crate::arguments::{Given, Takes};
use crate::calibration;
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

/// Cassandra is warm when so many intervals of 10 s in a row agree within a tenth, and at the latest after five minutes.
const WARM_INTERVALS: usize = 3;
const WARM_SPREAD: f64 = 0.10;
const WARM_INTERVALS_MAX: usize = 30;

/// One run of helenus-stress.
struct Step {
    name: &'static str,
    words: String,
    /// The same load for 10 s.
    interval: String,
    /// The keyspace to compact before it.
    compact: Option<&'static str>,
}

pub fn w1(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes =
        Takes { command: "w1", options: &["--rows", "--seconds", "--in-flight", "--json"], flags: &["--cassandra"] };
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    let (rows, seconds) = (given.number("--rows", 1_000_000)?, given.number("--seconds", 60)?);
    let flights = given.numbers("--in-flight", &[64])?;
    let mut steps = Vec::new();
    for threads in flights {
        let write = format!("write n={rows} cl=ONE no-warmup -rate threads={threads}");
        let mixed = format!(
            "mixed ratio(write=10,read=90) duration={seconds}s cl=ONE no-warmup -pop dist=gaussian(1..{rows}) \
             -rate threads={threads}"
        );
        let interval =
            format!("write duration=10s cl=ONE no-warmup -pop dist=uniform(1..{rows}) -rate threads={threads}");
        steps.push(Step { name: "write", words: write, interval, compact: None });
        let interval = mixed.replace(&format!("duration={seconds}s"), "duration=10s");
        steps.push(Step { name: "mixed 10/90", words: mixed, interval, compact: Some("keyspace1") });
    }
    run("w1", &given, &steps, W1_PUBLISHED)
}

pub fn w2(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes =
        Takes { command: "w2", options: &["--batches", "--in-flight", "--json"], flags: &["--cassandra"] };
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    let batches = given.number("--batches", 200_000)?;
    let flights = given.numbers("--in-flight", &[64])?;
    let step = |threads: u64| {
        let words = |length: &str| {
            format!("user profile={PROFILE} ops(insert=1) {length} cl=ONE no-warmup -rate threads={threads}")
        };
        let (measured, interval) = (words(&format!("n={batches}")), words("duration=10s"));
        Step { name: "batches of 10", words: measured, interval, compact: None }
    };
    run("w2", &given, &flights.into_iter().map(step).collect::<Vec<_>>(), W2_PUBLISHED)
}

fn run(command: &'static str, given: &Given, steps: &[Step], published: &str) -> Result<(), String> {
    let mut report = Report::new(command, calibration::shown());
    let (server_core, load_core) = cores();
    let server_cores = server_core.map_or("0".to_owned(), |core| core.to_string());
    let load_cores = load_core.map(|core| core.to_string());
    println!("{published}\nserver on core {server_cores}, load on core {}", load_cores.as_deref().unwrap_or("0"));
    let ours = measure(&Peer::helenus(&server_cores)?, steps, load_cores.as_deref(), &mut report)?;
    if given.flag("--cassandra") {
        let theirs = measure(&Peer::cassandra(&server_cores)?, steps, load_cores.as_deref(), &mut report)?;
        println!("\nHelenus beside Cassandra:");
        for ((step, ours), theirs) in steps.iter().zip(&ours).zip(&theirs) {
            let (cpu, p99) = (theirs.cpu_us / ours.cpu_us, theirs.p99_ms / ours.p99_ms);
            let rate = ours.operations_per_s / theirs.operations_per_s;
            println!("  {}: × {rate:.2} op/s, × {cpu:.2} operations a CPU second, p99 ÷ {p99:.2}", step.words);
            report.add(format!("{}: operations a CPU second over Cassandra's", step.words), cpu, "×").rising = true;
        }
    }
    report.save(given.text("--json"))
}

fn measure(peer: &Peer, steps: &[Step], load_cores: Option<&str>, report: &mut Report) -> Result<Vec<Summary>, String> {
    println!("\n{}: {}", peer.name(), peer.settings());
    let mut all = Vec::new();
    for step in steps {
        if let Some(keyspace) = step.compact {
            peer.compact(keyspace)?;
        }
        if peer.warms_up() {
            warm_up(peer, step, load_cores)?;
        }
        let summary = peer.stress(&step.words, load_cores)?;
        show(peer, step, &summary, report);
        all.push(summary);
    }
    Ok(all)
}

/// Loads until the rate stays as it is, and tells how far it still moved.
fn warm_up(peer: &Peer, step: &Step, load_cores: Option<&str>) -> Result<(), String> {
    let mut rates: Vec<f64> = Vec::new();
    while rates.len() < WARM_INTERVALS_MAX {
        rates.push(peer.stress(&step.interval, load_cores)?.operations_per_s);
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

fn show(peer: &Peer, step: &Step, summary: &Summary, report: &mut Report) {
    let Summary { operations_per_s, rows_per_s, median_ms, p99_ms, max_ms, errors, cpu_us } = *summary;
    println!("$ helenus-stress {}", step.words);
    println!(
        "  {} op/s, {} row/s, {cpu_us:.2} µs of server CPU an operation; median {median_ms} ms, 99 % {p99_ms} ms, \
         max {max_ms} ms; {errors} errors",
        short(operations_per_s),
        short(rows_per_s)
    );
    let threads = step.words.rsplit_once("threads=").map_or("", |(_, threads)| threads);
    let name = format!("{}, {}, {threads} in flight", peer.name(), step.name);
    report.add(format!("{name}: rate"), operations_per_s, "op/s").rising = true;
    report.add(format!("{name}: server CPU"), cpu_us, "µs/op");
    report.add(format!("{name}: p99"), p99_ms, "ms");
    report.add(format!("{name}: max"), max_ms, "ms");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_is_that_of_the_last_intervals() {
        assert!(spread(&[1.0, 100.0, 105.0, 110.0]) <= WARM_SPREAD + 1e-9);
        assert!(spread(&[100.0, 100.0, 120.0]) > WARM_SPREAD);
    }
}
