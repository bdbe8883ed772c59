//! `bench baseline`: the plain figures of the README, each below the command that gives it.

pub mod server;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::arguments::Takes;
use crate::inprocess::{Kind, Shape, To, WINDOW, cost};
use crate::peer::figure;
use crate::scratch::{Scratch, programs};
use server::Server;

/// Starts of which the median is told.
const STARTS: usize = 5;
/// When a server that nobody has asked anything counts as idle.
const IDLE_AFTER: Duration = Duration::from_secs(3);
/// Operations over which allocations are counted.
const COUNTED: u64 = 1_000 * WINDOW;

/// How much is done.
struct Size {
    rows: u64,
    seconds: u64,
    in_flight: u64,
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    let size = parse(arguments)?;
    let _factor = crate::calibration::shown();
    let programs = programs()?;
    let scratch = Scratch::new("baseline")?;
    starts(&programs, &scratch.0)?;
    workload(&programs, &scratch.0.join("w1"), &size)?;
    in_process()
}

fn parse(arguments: &[String]) -> Result<Size, String> {
    const TAKES: Takes = Takes { command: "baseline", options: &["--rows", "--seconds", "--in-flight"], flags: &[] };
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    Ok(Size {
        rows: given.number("--rows", 1_000_000)?,
        seconds: given.number("--seconds", 30)?,
        in_flight: given.number("--in-flight", 64)?,
    })
}

fn starts(programs: &Path, scratch: &Path) -> Result<(), String> {
    println!("$ helenus --data-dir EMPTY");
    let mut times = Vec::new();
    let mut resident_kib = 0;
    for at in 0..STARTS {
        let server = Server::start(&programs.join("helenus"), &scratch.join(format!("start{at}")))?;
        times.push(server.started_in.as_secs_f64() * 1e3);
        if at + 1 == STARTS {
            std::thread::sleep(IDLE_AFTER);
            resident_kib = server.resident_kib()?;
        }
    }
    times.sort_by(f64::total_cmp);
    println!("  start to READY: {:.0} ms (median of {STARTS}; {:.0} to {:.0})", times[STARTS / 2], times[0], times[4]);
    println!("  resident memory, idle: {:.1} MiB\n", resident_kib as f64 / 1024.0);
    Ok(())
}

/// W1: write every row, then mixed.
fn workload(programs: &Path, data_dir: &Path, size: &Size) -> Result<(), String> {
    let server = Server::start(&programs.join("helenus"), data_dir)?;
    let rows = size.rows;
    let population = format!("dist=gaussian(1..{rows})");
    let mixed = format!("mixed ratio(write=10,read=90) duration={}s cl=ONE -pop {population}", size.seconds);
    for load in [format!("write n={rows} cl=ONE no-warmup"), mixed] {
        let load = format!("{load} -rate threads={} -node 127.0.0.1 -port native={}", size.in_flight, server.port);
        let before = server.cpu()?;
        let output = Command::new(programs.join("helenus-stress")).args(load.split(' ')).output();
        let output = output.map_err(|error| format!("helenus-stress: {error}"))?;
        let cpu = server.cpu()?.saturating_sub(before);
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            return Err(format!("$ helenus-stress {load}\n{text}{}", String::from_utf8_lossy(&output.stderr)));
        }
        let figure = |label: &str| figure(&text, label).ok_or_else(|| format!("no {label} in:\n{text}"));
        let operations = figure("Total partitions")?;
        println!("$ helenus-stress {load}");
        println!(
            "  {:.0} op/s, {:.1} us of server CPU an operation",
            figure("Op rate")?,
            cpu.as_secs_f64() * 1e6 / operations
        );
        println!(
            "  latency: median {:.1} ms, 99 % {:.1} ms\n",
            figure("Latency median")?,
            figure("Latency 99th percentile")?
        );
    }
    Ok(())
}

fn in_process() -> Result<(), String> {
    for kind in [Kind::Read, Kind::Write] {
        let shape = Shape { kind, shards: 1, to: To::Owner, floor: false, operations: COUNTED };
        println!("$ bench inprocess {}   ({WINDOW} in flight)", kind.name());
        match cost(&shape, false, None)?.spent {
            Ok(spent) => {
                println!("  allocations an operation: {:.2}", spent.node_allocations());
                println!("  instructions an operation: {:.0}\n", spent.node_instructions());
            }
            Err(reason) => println!("  not counted ({reason})\n"),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_given_by_name() {
        let parse = |words: &[&str]| parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let size = parse(&["--rows", "10", "--in-flight", "3"]).expect("valid");
        assert_eq!((size.rows, size.seconds, size.in_flight), (10, 30, 3));
        assert!(parse(&["--rows", "0"]).is_err() && parse(&["--row", "1"]).is_err());
    }
}
