//! `bench w4`: updates of one partition (CASSANDRA-15511): what adding costs as a map or a partition grows, the memory
//! of an element, and what writers on other cores add to it.
//!
//! Cassandra's published figures are those of the patch: for collections about 25 times the throughput and over 99 %
//! less memory than before; for the rest 25 % faster uncontended, up to 3 times contended, half the allocation.

use crate::arguments::Takes;
use crate::calibration;
use crate::inprocess::{self, Cost, Kind, MapSize, Shape, To, WINDOW};
use crate::micro::{Grown, grow_map, grow_partition};
use crate::report::{Report, short};

const OPERATIONS: u64 = 250 * WINDOW;
const SIZES: [MapSize; 3] = [MapSize::Ten, MapSize::Thousand, MapSize::HundredThousand];
/// Each on a shard of its own; the partition is one shard's.
const WRITERS: [u16; 3] = [1, 4, 16];

pub fn run(arguments: &[String]) -> Result<(), String> {
    const TAKES: Takes = Takes { command: "w4", options: &["--json"], flags: &["--quick"] };
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    let quick = given.flag("--quick");
    let mut report = Report::new("w4", calibration::shown());
    println!("one more element or row, where so many are there: in the memtable alone, and its memory");
    println!("{:<36} {:>10} {:>12} {:>16} {:>16}", "", "apply ns", "allocations", "live B, each", "taken B, each");
    for size in SIZES {
        let count = size.elements() as u64;
        show_grown(&format!("map of {count}"), grow_map(count), &mut report);
    }
    for size in SIZES {
        let count = size.elements() as u64;
        show_grown(&format!("partition of {count} rows"), grow_partition(count), &mut report);
    }
    println!("\nthe whole request, in-process; writers share one partition, each on a shard of its own");
    println!("{:<36} {:>10} {:>12} {:>12}", "", "CPU ns", "allocations", "instructions");
    for size in SIZES {
        let cost = cost(Kind::Add(size), 1, To::Owner, quick)?;
        show(&format!("add to a map of {}", size.elements()), &cost, &mut report);
    }
    for (kind, what) in [(Kind::Row, "new rows"), (Kind::Add(MapSize::Thousand), "new elements")] {
        for writers in WRITERS {
            let cost = cost(kind, writers, To::One, quick)?;
            show(&format!("{what}, {writers} writer{}", if writers == 1 { "" } else { "s" }), &cost, &mut report);
        }
    }
    report.save(given.text("--json"))
}

fn cost(kind: Kind, shards: u16, to: To, quick: bool) -> Result<Cost, String> {
    inprocess::cost(&Shape { kind, shards, to, floor: false, operations: OPERATIONS }, quick, None)
}

fn show_grown(name: &str, grown: Grown, report: &mut Report) {
    let Grown { apply_ns, allocations, live_bytes, taken_bytes } = grown;
    let [ns, count, live, taken] = [apply_ns, allocations, live_bytes, taken_bytes].map(short);
    println!("{name:<36} {ns:>10} {count:>12} {live:>16} {taken:>16}");
    report.add(format!("{name}: apply"), apply_ns, "ns");
    report.add(format!("{name}: allocations"), allocations, "allocations");
    report.add(format!("{name}: memory, live"), live_bytes, "B each");
    report.add(format!("{name}: memory, taken"), taken_bytes, "B each");
}

fn show(name: &str, cost: &Cost, report: &mut Report) {
    let spent = cost.spent.as_ref().ok();
    let instructions = spent.map(crate::callgrind::Spent::node_instructions);
    let allocations = spent.map_or(cost.allocations, crate::callgrind::Spent::node_allocations);
    let shown = instructions.map_or("–".into(), short);
    println!("{name:<36} {:>10} {:>12} {shown:>12}", short(cost.cpu_ns), short(allocations));
    report.add(format!("{name}: CPU"), cost.cpu_ns, "ns/op");
    report.add(format!("{name}: allocations"), allocations, "allocations/op");
    if let Some(instructions) = instructions {
        report.add(format!("{name}: instructions"), instructions, "instructions/op");
    } else if let Err(reason) = &cost.spent
        && reason != "left out"
    {
        println!("  not counted: {reason}");
    }
}
