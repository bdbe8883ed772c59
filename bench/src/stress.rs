//! `bench stress`: what helenus-stress itself costs, on one core, against an echo on another that answers everything at
//! once and stores nothing. A load generator that is slower than the server measures itself.

use std::process::Command;
use std::time::Duration;

use crate::arguments::Takes;
use crate::calibration::{self, median};
use crate::loopback::{self, cores};
use crate::peer::figure;
use crate::report::{Report, short};
use crate::scratch::programs;

const CONNECTIONS: u64 = 8;
/// Owed of one core.
const GOOD_PER_S: f64 = 1e6;
/// The same loads in turns.
const ROUNDS: usize = 3;

const LOADS: [(&str, &str); 3] =
    [("write", "write"), ("read", "read"), ("mixed 10/90", "mixed ratio(write=10,read=90)")];

pub fn run(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes = Takes { command: "stress", options: &["--seconds", "--in-flight", "--json"], flags: &[] };
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    let (seconds, flights) = (given.number("--seconds", 3)?, given.numbers("--in-flight", &[1, 16, 64])?);
    let mut report = Report::new("stress", calibration::shown());
    show(seconds, &flights, &mut report)?;
    report.save(given.text("--json"))
}

/// The table of it.
pub fn show(seconds: u64, flights: &[u64], report: &mut Report) -> Result<(), String> {
    let (server, client) = cores();
    let on = |core: Option<usize>| core.map_or("any core".into(), |core| format!("core {core}"));
    println!("helenus-stress on {}, an echo that speaks CQL on {}, {CONNECTIONS} connections", on(client), on(server));
    println!("{:<14} {:>10} {:>12} {:>18}", "", "in flight", "op/s", "CPU ns, client's");
    let echo = loopback::start_cql_echo(server)?;
    for in_flight in flights {
        let mut all = vec![Vec::new(); LOADS.len()];
        for _ in 0..ROUNDS {
            for ((_, words), rounds) in LOADS.iter().zip(&mut all) {
                rounds.push(once(words, *in_flight, seconds, echo.address.port(), client)?);
            }
        }
        for ((name, _), rounds) in LOADS.iter().zip(&all) {
            let rate = median(rounds.iter().map(|one| one.operations_per_s));
            let cpu = median(rounds.iter().map(|one| one.cpu_ns));
            println!(
                "{name:<14} {:>10} {:>12} {:>18}",
                format!("{CONNECTIONS} × {in_flight}"),
                short(rate),
                short(cpu)
            );
            let label = format!("helenus-stress, {name}, {in_flight} in flight");
            let figure = report.add(format!("{label}: rate"), rate, "op/s");
            (figure.rising, figure.good) = (true, (*in_flight >= 64).then_some(GOOD_PER_S));
            report.add(format!("{label}: CPU"), cpu, "ns/op");
        }
    }
    Ok(())
}

#[derive(Clone)]
struct Once {
    operations_per_s: f64,
    cpu_ns: f64,
}

fn once(words: &str, in_flight: u64, seconds: u64, port: u16, core: Option<usize>) -> Result<Once, String> {
    let threads = CONNECTIONS * in_flight;
    let words = format!(
        "{words} duration={seconds}s cl=ONE no-warmup -rate threads={threads} -mode connectionsPerHost={CONNECTIONS} -node \
         127.0.0.1 -port native={port}"
    );
    let mut command = Command::new(programs()?.join("helenus-stress"));
    command.args(words.split(' '));
    if let Some(core) = core {
        command.args(["-cores", &core.to_string()]);
    }
    let before = children_cpu();
    let output = command.output().map_err(|error| format!("helenus-stress: {error}"))?;
    let cpu = children_cpu().saturating_sub(before);
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("$ helenus-stress {words}\n{text}{}", String::from_utf8_lossy(&output.stderr)));
    }
    let partitions = figure(&text, "Total partitions").ok_or_else(|| format!("no summary in:\n{text}"))?;
    let rate = figure(&text, "Op rate").unwrap_or(0.0);
    Ok(Once { operations_per_s: rate, cpu_ns: cpu.as_secs_f64() * 1e9 / partitions.max(1.0) })
}

/// CPU of all children that have ended.
fn children_cpu() -> Duration {
    // SAFETY: rusage is plain numbers, for which zeros are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: `usage` is whole for the length of the call.
    let result = unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage) };
    assert_eq!(result, 0, "a process has its children's usage");
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1_000);
    time(usage.ru_utime) + time(usage.ru_stime)
}
