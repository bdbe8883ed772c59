//! `bench peers`: Helenus beside others, in alternating rounds of one run: its engine beside fjall and RocksDB behind the
//! same calls, and the server beside a real Cassandra under the same client.
//!
//! The engines each run in a process of their own on one core, with their background work on it too, and are told their
//! sizes alike: memtables that hold all that is written, 256 MiB of block cache, LZ4, and a log that is written before a
//! write counts as done and not synced for it.

#[cfg(feature = "peers")]
mod fjall;
mod ours;
#[cfg(feature = "peers")]
mod rocksdb;
mod workload;

use std::path::Path;
use std::process::Command;

use crate::arguments::{Given, Takes};
use crate::calibration::{self, median};
use crate::loopback::cores;
use crate::report::{Report, short};
use crate::scratch::Scratch;
use crate::workloads;

use workload::Cost;

/// Block cache of each engine.
const CACHE_BYTES: usize = 256 << 20;
/// Memory for what is written of each row, so that none is flushed before it is asked.
const MEMTABLE_BYTES_PER_ROW: u64 = 2 << 10;

#[cfg(feature = "peers")]
const ENGINES: &[&str] = &["Helenus", "fjall", "RocksDB"];
#[cfg(not(feature = "peers"))]
const ENGINES: &[&str] = &["Helenus"];

/// What is measured and how often.
struct Size {
    rows: u64,
    rounds: u64,
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes = Takes {
        command: "peers",
        options: &["--rows", "--rounds", "--seconds", "--in-flight", "--engine", "--json"],
        flags: &[],
    };
    let given = TAKES.parse(arguments)?;
    let size = Size { rows: given.number("--rows", 200_000)?, rounds: given.number("--rounds", 3)? };
    if let Some(engine) = given.text("--engine") {
        return one(engine, size.rows);
    }
    let words: Vec<&str> = given.words.iter().map(String::as_str).collect();
    let (engines, servers) = match words[..] {
        [] => (true, true),
        ["engines"] => (true, false),
        ["servers"] => (false, true),
        _ => return Err(format!("bench peers: engines or servers, not `{}`", words.join(" "))),
    };
    let mut report = Report::new("peers", calibration::shown());
    if engines {
        beside_engines(&size, &mut report)?;
    }
    if servers {
        beside_cassandra(&given, &size, &mut report)?;
    }
    report.save(given.text("--json"))
}

/// The servers: W1's and W2's loads, in turns.
fn beside_cassandra(given: &Given, size: &Size, report: &mut Report) -> Result<(), String> {
    let seconds = given.number("--seconds", 10)?;
    let in_flight = given.number("--in-flight", 64)?;
    workloads::rounds(size.rows, seconds, in_flight, size.rounds, report)
}

/// The engines: each round all of them, one after the other.
fn beside_engines(size: &Size, report: &mut Report) -> Result<(), String> {
    let core = cores().0.map_or("any core".to_owned(), |core| format!("core {core}"));
    println!(
        "engines on {core}, a process each: {} rows of five values of 34 B, memtables that hold all of them, {} MiB of block \
         cache, LZ4, log written and not synced for each write; Helenus over the real half of io",
        size.rows,
        CACHE_BYTES >> 20
    );
    if cfg!(not(feature = "peers")) {
        println!("this program was built without its feature `peers`: fjall and RocksDB are left out");
    }
    let mut all: Vec<Vec<Vec<Cost>>> = vec![Vec::new(); ENGINES.len()];
    for round in 1..=size.rounds {
        for (engine, rounds) in ENGINES.iter().zip(&mut all) {
            eprintln!("round {round} of {}: {engine}", size.rounds);
            rounds.push(in_a_process(engine, size.rows)?);
        }
    }
    show(&all, report);
    Ok(())
}

/// A line for each call and engine: medians, and between what they lie.
fn show(all: &[Vec<Vec<Cost>>], report: &mut Report) {
    println!("{:<44} {:<10} {:>10} {:>17} {:>10} {:>17}", "", "", "ns", "least to most", "CPU ns", "least to most");
    let names = all.first().and_then(|rounds| rounds.first()).into_iter().flatten().map(|cost| cost.name.clone());
    for (at, name) in names.enumerate() {
        for (engine, rounds) in ENGINES.iter().zip(all) {
            let mut line = format!("{name:<44} {engine:<10}");
            for (what, figure) in
                [("elapsed", (|cost| cost.elapsed_ns) as fn(&Cost) -> f64), ("CPU", |cost| cost.cpu_ns)]
            {
                let values: Vec<f64> = rounds.iter().filter_map(|round| round.get(at)).map(figure).collect();
                let middle = median(values.iter().copied());
                let (least, most) = ends(&values);
                line += &format!(" {:>10} {:>17}", short(middle), format!("{} to {}", short(least), short(most)));
                report.add(format!("{name}, {engine}: {what}"), middle, "ns");
            }
            println!("{line}");
        }
    }
    println!();
}

/// The least and the most.
pub fn ends(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(*value), most.max(*value)))
}

/// One round of one engine, by this program run anew.
fn in_a_process(engine: &str, rows: u64) -> Result<Vec<Cost>, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let rows = rows.to_string();
    let output = Command::new(&exe).args(["peers", "--engine", engine, "--rows", &rows]).output();
    let output = output.map_err(|error| format!("{}: {error}", exe.display()))?;
    if !output.status.success() {
        return Err(format!("{engine}: {}", String::from_utf8_lossy(&output.stderr)));
    }
    String::from_utf8_lossy(&output.stdout).lines().map(Cost::parse).collect()
}

/// The same in this process, which is pinned before anything of the engine starts.
fn one(engine: &str, rows: u64) -> Result<(), String> {
    let core = cores().0;
    if let Some(id) = core {
        core_affinity::set_for_current(core_affinity::CoreId { id });
    }
    let scratch = Scratch::new("engine")?;
    for cost in costs(engine, rows, core, &scratch.0)? {
        println!("{}", cost.line());
    }
    Ok(())
}

fn costs(engine: &str, rows: u64, core: Option<usize>, dir: &Path) -> Result<Vec<Cost>, String> {
    let memtable_bytes = (rows * MEMTABLE_BYTES_PER_ROW).max(64 << 20);
    match engine {
        "Helenus" => ours::costs(rows, core, dir, memtable_bytes),
        #[cfg(feature = "peers")]
        "fjall" => workload::at_once(workload::costs(&mut fjall::Fjall::open(dir, memtable_bytes)?, rows)),
        #[cfg(feature = "peers")]
        "RocksDB" => workload::at_once(workload::costs(&mut rocksdb::RocksDb::open(dir, memtable_bytes)?, rows)),
        _ => Err(format!("bench peers: the engines are {}, not `{engine}`", ENGINES.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn every_engine_does_all_of_it() {
        for engine in ENGINES {
            let scratch = Scratch::new(&format!("peers-test-{engine}")).unwrap();
            let costs = costs(engine, 2_000, None, &scratch.0).unwrap();
            assert!(costs.len() >= 8 && costs.iter().all(|cost| cost.elapsed_ns > 0.0), "{engine}: {costs:?}");
            assert_eq!(Cost::parse(&costs[0].line()).unwrap().name, costs[0].name);
        }
    }

    #[test]
    fn what_is_no_engine_or_word_is_told() {
        let run = |words: &[&str]| run(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert!(run(&["--engine", "LevelDB"]).unwrap_err().contains("`LevelDB`"));
        assert!(run(&["clients"]).unwrap_err().contains("`clients`"));
    }
}
