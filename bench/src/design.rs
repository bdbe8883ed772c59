//! `bench design`: the table of numbers that the design asks for, each beside what is good and what is aimed at. Lines in
//! time are judged by the machine's calibration in the same run.

use crate::arguments::Takes;
use crate::calibration;
use crate::commit::{self, Commits};
use crate::inprocess::{self, Cost, Kind, Shape, To, WINDOW};
use crate::loopback::{self, Helenus};
use crate::micro;
use crate::report::{Figure, Report, short};

/// Operations in-process, for allocations and CPU time.
const OPERATIONS: u64 = 500 * WINDOW;
/// Shards over which instructions are to stay as they are.
const SHARDS: [u16; 5] = [1, 2, 4, 8, 16];

/// What is good and what is aimed at.
#[derive(Clone, Copy)]
struct Goal {
    good: f64,
    aim: f64,
}

/// One of design.md's lines where both are the same.
fn only(value: f64) -> Goal {
    Goal { good: value, aim: value }
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes = Takes { command: "design", options: &["--json"], flags: &["--no-loopback"] };
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    let factor = calibration::shown();
    let mut table = Table { report: Report::new("design", factor), factor };
    println!("{:<62} {:>9} {:>9} {:>9}  {:<22}", "", "measured", "good", "aim", "");
    let read = requests(&mut table)?;
    engine(&mut table)?;
    shards(&mut table)?;
    hops(&mut table)?;
    commits(&mut table)?;
    if !given.flag("--no-loopback") {
        over_loopback(&mut table, read.cpu_ns)?;
    }
    table.report.save(given.text("--json"))
}

struct Table {
    report: Report,
    factor: f64,
}

impl Table {
    /// A count, which does not depend on the machine.
    fn count(&mut self, name: &str, value: f64, unit: &str, goal: Goal) {
        self.line(name, value, unit, goal, false);
    }

    /// A time: its goals grow with the machine's slowness.
    fn time(&mut self, name: &str, value: f64, unit: &str, goal: Goal) {
        let factor = self.factor;
        self.line(name, value, unit, Goal { good: goal.good * factor, aim: goal.aim * factor }, false);
    }

    /// A rate: its goals shrink with the machine's slowness.
    fn rate(&mut self, name: &str, value: f64, unit: &str, goal: Goal) {
        let factor = self.factor;
        self.line(name, value, unit, Goal { good: goal.good / factor, aim: goal.aim / factor }, true);
    }

    fn line(&mut self, name: &str, value: f64, unit: &str, goal: Goal, rising: bool) {
        let figure = self.report.add(name, value, unit);
        (figure.rising, figure.good, figure.aim) = (rising, Some(goal.good), Some(goal.aim));
        let [value, good, aim] = [value, goal.good, goal.aim].map(short);
        println!("{name:<62} {value:>9} {good:>9} {aim:>9}  {unit}: {}", verdict(figure));
    }

    fn not_counted(&mut self, name: &str, reason: &str) {
        println!("{name:<62} {:>9}  {}", "–", reason.lines().next().unwrap_or(reason));
    }
}

/// How far a figure is from what is aimed at.
fn verdict(figure: &Figure) -> String {
    let (Some(good), Some(aim)) = (figure.good, figure.aim) else { return String::new() };
    let reaches = |goal: f64| if figure.rising { figure.value >= goal } else { figure.value <= goal };
    let word = match (reaches(aim), reaches(good)) {
        (true, _) => return "at the aim".into(),
        (false, true) => "good",
        (false, false) => "NOT GOOD",
    };
    let times = if figure.rising { aim / figure.value } else { figure.value / aim };
    match aim {
        0.0 => format!("{word}, {} from the aim", short(figure.value)),
        _ => format!("{word}, × {times:.2} from the aim"),
    }
}

/// The lines of single requests, in-process at one shard. Gives what a read costs.
fn requests(table: &mut Table) -> Result<Cost, String> {
    let cost = |kind| inprocess::cost(&shape(kind, 1, To::Owner), false, None);
    let read = cost(Kind::Read)?;
    let instructions = Goal { good: 3_000.0, aim: 1_500.0 };
    request_lines(table, "point read", &read, instructions, Goal { good: 2.0, aim: 4.0 });
    for (kind, name, most) in [
        (Kind::ReadSSTable, "point read, one cached SSTable", 6_000.0),
        (Kind::ReadFour, "point read, four cached SSTables", 15_000.0),
    ] {
        match inprocess::spent(&shape(kind, 1, To::Owner), None) {
            Ok(spent) => table.count(name, spent.node_instructions(), "instructions", only(most)),
            Err(reason) => table.not_counted(name, &reason),
        }
    }
    let write = cost(Kind::Write)?;
    let instructions = Goal { good: 4_000.0, aim: 2_500.0 };
    request_lines(table, "write, periodic log", &write, instructions, Goal { good: 1.0, aim: 2.0 });
    Ok(read)
}

fn request_lines(table: &mut Table, name: &str, cost: &Cost, instructions: Goal, rate: Goal) {
    let mut allocations = cost.allocations;
    match &cost.spent {
        Ok(spent) => {
            allocations = spent.node_allocations();
            table.count(name, spent.node_instructions(), "instructions", instructions);
        }
        Err(reason) => table.not_counted(name, reason),
    }
    table.count(&format!("{name}: allocations"), allocations, "allocations", only(0.0));
    table.rate(&format!("{name}: rate of one core"), 1e3 / cost.cpu_ns, "M/s", rate);
}

/// The lines of what stands below the router.
fn engine(table: &mut Table) -> Result<(), String> {
    let batches = micro::apply_batches();
    let rows = 1e3 / batches.ns_per_row;
    table.rate("batch of 10 rows, one partition, log off, apply only", rows, "M rows/s", Goal { good: 3.0, aim: 5.0 });
    let allocations = batches.allocations_per_mutation;
    table.count("batch of 10 rows, apply only: allocations", allocations, "allocations", only(0.0));
    let sustained = micro::apply_sustained()? / 1e6;
    table.rate("the same, sustained with flushes", sustained, "M rows/s", Goal { good: 1.5, aim: 3.0 });
    let flat = micro::apply_flat().ns_per_row;
    table.time("memtable apply, flat", flat, "ns a row", Goal { good: 60.0, aim: 25.0 });
    let clustered = micro::apply_clustered().ns_per_row;
    let goal = Goal { good: 120.0, aim: 60.0 };
    table.time("memtable apply, clustering and reconciliation", clustered, "ns a row", goal);
    let flush = micro::flush()?.gb_per_s;
    table.rate("flush: order, encode, snappy, CRC32C", flush, "GB/s", Goal { good: 0.45, aim: 1.0 });
    Ok(())
}

/// Instructions at more shards than one, beside those at one.
fn shards(table: &mut Table) -> Result<(), String> {
    for kind in [Kind::Read, Kind::Write] {
        let mut owner = Vec::new();
        for shards in SHARDS {
            match inprocess::spent(&shape(kind, shards, To::Owner), None) {
                Ok(spent) => owner.push(spent.node_instructions()),
                Err(reason) => {
                    table.not_counted(&format!("{}, 1 to 16 shards", kind.name()), &reason);
                    return Ok(());
                }
            }
        }
        let (first, rest) = (owner[0], &owner[1..]);
        let spread = rest.iter().map(|one| (one / first - 1.0).abs() * 100.0).fold(0.0, f64::max);
        let name = format!("{}, sent to the owner, 1 to 16 shards: change", kind.name());
        table.count(&name, spread, "% of instructions", only(5.0));
        let any = inprocess::spent(&shape(kind, 16, To::Any), None)?.node_instructions();
        // One in sixteen is the asked shard's own.
        let hop = (any - owner[SHARDS.len() - 1]) * 16.0 / 15.0;
        println!("{:<62} {:>9}", format!("{}, sent anywhere: a hop there and back adds", kind.name()), short(hop));
        table.report.add(format!("{}, sent anywhere: hop", kind.name()), hop, "instructions");
    }
    Ok(())
}

fn hops(table: &mut Table) -> Result<(), String> {
    let loaded = micro::hop(64)?.cpu_ns;
    let goal = Goal { good: 300.0, aim: 150.0 };
    table.time("cross-core hop, 64 in flight, amortised", loaded, "ns of CPU, both cores", goal);
    let unloaded = micro::hop(1)?.round_trip_ns / 2e3;
    table.time("cross-core hop, unloaded", unloaded, "µs", only(10.0));
    Ok(())
}

/// A commit in batch mode, in syncs of the device under it.
fn commits(table: &mut Table) -> Result<(), String> {
    for Commits { clients, p50_us, sync_us, syncs } in commit::measure(&[1, 64], commit::COMMITS)? {
        let name = format!("batch-mode commit, p50, {clients} client{}", if clients == 1 { "" } else { "s" });
        table.count(&name, syncs, "device syncs", Goal { good: 3.0, aim: 1.5 });
        println!("{:<62} {:>9} µs, a device sync {} µs", "", short(p50_us), short(sync_us));
    }
    Ok(())
}

/// Helenus beside the echo, in turns.
fn over_loopback(table: &mut Table, in_process_ns: f64) -> Result<(), String> {
    let server = Helenus::start(Kind::Read)?;
    for (connections, in_flight, operations) in [(1, 64, 200_000), (16, 64, 200_000), (1, 1, 20_000), (16, 1, 40_000)] {
        let shape = loopback::Shape { connections, in_flight, operations };
        let (cql, echo) = loopback::beside_echo(&server, shape)?;
        let name = format!("CQL over loopback, {connections} × {in_flight} in flight");
        if in_flight == 1 {
            let share = cql.operations_per_s / echo.operations_per_s * 100.0;
            table.line(&name, share, "% of the echo's rate", Goal { good: 70.0, aim: 85.0 }, true);
        } else {
            let goal = |times: f64| echo.server_cpu_ns + times * in_process_ns;
            let goal = Goal { good: goal(1.5), aim: goal(1.1) };
            table.line(&name, cql.server_cpu_ns, "ns of server CPU", goal, false);
        }
    }
    Ok(())
}

fn shape(kind: Kind, shards: u16, to: To) -> Shape {
    Shape { kind, shards, to, floor: false, operations: OPERATIONS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_direction() {
        let figure = |value, rising| Figure {
            name: String::new(),
            value,
            unit: String::new(),
            rising,
            good: Some(if rising { 2.0 } else { 4.0 }),
            aim: Some(if rising { 4.0 } else { 2.0 }),
        };
        assert_eq!(verdict(&figure(2.0, false)), "at the aim");
        assert_eq!(verdict(&figure(3.0, false)), "good, × 1.50 from the aim");
        assert_eq!(verdict(&figure(8.0, false)), "NOT GOOD, × 4.00 from the aim");
        assert_eq!(verdict(&figure(3.0, true)), "good, × 1.33 from the aim");
        assert_eq!(verdict(&figure(1.0, true)), "NOT GOOD, × 4.00 from the aim");
    }

    #[test]
    fn goals_in_time_grow_with_the_machine() {
        let mut table = Table { report: Report::new("design", 2.0), factor: 2.0 };
        table.time("a", 100.0, "ns", Goal { good: 60.0, aim: 25.0 });
        table.rate("b", 1.0, "M/s", Goal { good: 2.0, aim: 4.0 });
        let goals: Vec<_> = table.report.figures.iter().map(|figure| (figure.good, figure.aim)).collect();
        assert_eq!(goals, [(Some(120.0), Some(50.0)), (Some(1.0), Some(2.0))]);
    }
}
