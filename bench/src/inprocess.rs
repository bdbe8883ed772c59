//! `bench inprocess`: requests through the whole server in one thread, over the simulated half of `io`: frames are
//! decoded, planned, executed and answered, with no kernel on the way.
//!
//! Instructions and allocations are the node's own: what the simulator and the client have executed is taken off by
//! name (`callgrind`). CPU time, page faults and system calls, which have no names, are those of the whole thread less
//! those of a floor: a node that answers with as many bytes and does nothing else.

mod client;
mod node;
mod run;
mod system_calls;
mod workload;

use std::path::PathBuf;

use crate::arguments::{Given, Takes};
use crate::callgrind::{self, Spent};
use crate::counters::Counters;
use crate::report::{Report, short};

pub use run::{Shape, To};
pub use workload::{KEYSPACE, KINDS, Kind, MapSize, VERSION, WINDOW};

const TAKES: Takes = Takes {
    command: "inprocess",
    options: &["--shards", "--to", "--operations", "--top", "--profile", "--json"],
    flags: &["--quick", "--floor"],
};

/// Operations under callgrind, and on the bare machine.
const PROFILED: u64 = 64 * WINDOW;
const TIMED: u64 = 500 * WINDOW;

/// What one operation costs.
pub struct Cost {
    /// By the node alone; absent where valgrind is.
    pub spent: Result<Spent, String>,
    /// Of the whole thread less those of the floor, as the rest.
    pub allocations: f64,
    pub page_faults: f64,
    pub cpu_ns: f64,
    pub system_calls: Result<f64, String>,
}

/// `inprocess [KIND]… [--shards 1,2,…] [--to owner|any] [--quick] [--top N]`.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let given = TAKES.parse(arguments)?;
    let kinds = kinds(&given)?;
    let shards = given.numbers("--shards", &[1])?;
    let to = match given.text("--to") {
        None => To::Owner,
        Some(name) => {
            To::named(name).ok_or_else(|| format!("bench inprocess: --to takes owner, any or one, not `{name}`"))?
        }
    };
    if given.text("--operations").is_some() {
        let operations = given.number("--operations", TIMED)?;
        return run_once(&given, &kinds, &shards, to, operations);
    }
    let top = given.text("--top").map_or(Ok(0), |_| given.number("--top", 1))?;
    let mut report = Report::new("inprocess", crate::calibration::shown());
    heading();
    for kind in kinds {
        for shards in &shards {
            let shards =
                u16::try_from(*shards).map_err(|_| format!("bench inprocess: {shards} shards are too many"))?;
            let shape = Shape { kind, shards, to, floor: false, operations: TIMED };
            match cost(&shape, given.flag("--quick"), given.text("--profile")) {
                Ok(cost) => show(&shape, &cost, top, &mut report),
                Err(refused) => println!("{:<22} {refused}", label(&shape)),
            }
        }
    }
    report.save(given.text("--json"))
}

fn kinds(given: &Given) -> Result<Vec<Kind>, String> {
    if given.words.is_empty() {
        return Ok(KINDS.to_vec());
    }
    given.words.iter().map(|name| Kind::named(name).map_err(|error| format!("bench inprocess: {error}"))).collect()
}

/// So many operations and nothing else, as a process of its own for a profiler.
fn run_once(given: &Given, kinds: &[Kind], shards: &[u64], to: To, operations: u64) -> Result<(), String> {
    let (&[kind], &[shards]) = (kinds, shards) else {
        return Err("bench inprocess: --operations is for one kind and one number of shards".into());
    };
    let shards = u16::try_from(shards).map_err(|_| format!("bench inprocess: {shards} shards are too many"))?;
    let shape = Shape { kind, shards, to, floor: given.flag("--floor"), operations };
    let used = run::run(&shape)?;
    println!("{:.3} allocations an operation", used.allocations as f64 / shape.operations() as f64);
    Ok(())
}

/// What an operation of this shape costs. `quick` leaves valgrind and strace out.
pub fn cost(shape: &Shape, quick: bool, profile: Option<&str>) -> Result<Cost, String> {
    let floor = Shape { floor: true, ..*shape };
    let (whole, bare) = (run::run(shape)?, run::run(&floor)?);
    let operations = shape.operations() as f64;
    let less = |of: fn(&Counters) -> u64| (of(&whole) as f64 - of(&bare) as f64) / operations;
    let left_out = || "left out".to_owned();
    Ok(Cost {
        spent: if quick { Err(left_out()) } else { spent(shape, profile) },
        allocations: less(|used| used.allocations),
        page_faults: less(|used| used.page_faults).max(0.0),
        cpu_ns: less(|used| used.cpu_ns),
        system_calls: if quick { Err(left_out()) } else { system_calls::per_operation(shape) },
    })
}

/// Instructions and allocations of one operation by module, under callgrind.
pub fn spent(shape: &Shape, profile: Option<&str>) -> Result<Spent, String> {
    let shape = Shape { operations: PROFILED, ..*shape };
    let kept = profile.map(PathBuf::from);
    let file =
        kept.clone().unwrap_or_else(|| std::env::temp_dir().join(format!("bench-{}.callgrind", std::process::id())));
    let spent = callgrind::profile(&arguments(&shape), "in_process_measured", &file);
    if kept.is_none() && file.exists() {
        std::fs::remove_file(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    let mut spent = spent?;
    let operations = shape.operations() as f64;
    let all = spent.instructions.values_mut().chain(spent.allocations.values_mut());
    let functions = spent.functions.iter_mut().chain(&mut spent.allocating).map(|(_, one)| one);
    all.chain(functions).for_each(|one| *one /= operations);
    Ok(spent)
}

/// The words that make this program run a shape once.
fn arguments(shape: &Shape) -> Vec<String> {
    let Shape { kind, shards, to, floor, operations } = shape;
    let to = to.name();
    let (shards, operations) = (shards.to_string(), operations.to_string());
    let mut words = vec!["inprocess", kind.name(), "--shards", &shards, "--to", to, "--operations", &operations];
    if *floor {
        words.push("--floor");
    }
    words.into_iter().map(str::to_owned).collect()
}

fn label(shape: &Shape) -> String {
    let Shape { kind, shards, to, .. } = shape;
    let to = if *to == To::Owner { String::new() } else { format!(", {}", to.name()) };
    format!("{}, {shards} shard{}{to}", kind.name(), if *shards == 1 { "" } else { "s" })
}

fn heading() {
    println!("each operation, {WINDOW} in flight on a connection, one connection a shard:");
    println!(
        "{:<22} {:>12} {:>12} {:>12} {:>12} {:>12}",
        "", "instructions", "allocations", "CPU ns", "page faults", "system calls"
    );
}

fn show(shape: &Shape, cost: &Cost, top: u64, report: &mut Report) {
    let label = label(shape);
    let (instructions, allocations) = match &cost.spent {
        Ok(spent) => (Some(spent.node_instructions()), spent.node_allocations()),
        Err(_) => (None, cost.allocations),
    };
    println!(
        "{label:<22} {:>12} {:>12} {:>12} {:>12} {:>12}",
        instructions.map_or("–".into(), short),
        short(allocations),
        short(cost.cpu_ns),
        short(cost.page_faults),
        cost.system_calls.as_ref().map_or("–".into(), |calls| short(*calls)),
    );
    if let Some(instructions) = instructions {
        report.add(format!("{label}: instructions"), instructions, "instructions/op");
    }
    report.add(format!("{label}: allocations"), allocations, "allocations/op");
    report.add(format!("{label}: CPU"), cost.cpu_ns, "ns/op");
    report.add(format!("{label}: page faults"), cost.page_faults, "faults/op");
    if let Ok(calls) = cost.system_calls {
        report.add(format!("{label}: system calls"), calls, "calls/op");
    }
    let reasons = [cost.spent.as_ref().err(), cost.system_calls.as_ref().err()];
    for reason in reasons.into_iter().flatten().filter(|reason| *reason != "left out") {
        println!("  not counted: {reason}");
    }
    if let Ok(spent) = &cost.spent
        && top > 0
    {
        show_modules(spent);
        spent.functions.iter().zip(0..top).for_each(|((name, one), _)| println!("  {:>10}  {name}", short(*one)));
        let allocating = spent.allocating.iter().zip(0..top);
        allocating.for_each(|((name, one), _)| println!("  {:>10}  allocations: {name}", short(*one)));
    }
}

fn show_modules(spent: &Spent) {
    let mut modules: Vec<(&String, &f64)> = spent.instructions.iter().collect();
    modules.sort_by(|a, b| b.1.total_cmp(a.1));
    for (module, instructions) in modules {
        let allocations = spent.allocations.get(module).copied().unwrap_or(0.0);
        let outside = if callgrind::OUTSIDE.contains(&module.as_str()) { " (taken off)" } else { "" };
        println!("  {:>10}  {module}{outside}, {} allocations", short(*instructions), short(allocations));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_run_is_told() {
        let run = |words: &[&str]| run(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        let error = |words: &[&str]| run(words).expect_err("refused");
        assert!(error(&["scan"]).contains("`scan` is not one of read, read-sstable"));
        assert!(error(&["--operations", "64"]).contains("one kind"));
        assert!(error(&["read", "--to", "nobody"]).contains("`nobody`"));
        assert!(error(&["read", "--shards", "0"]).contains("`0`"));
    }
}
