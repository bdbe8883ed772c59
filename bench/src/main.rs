//! Benchmarks of Helenus's parts, each against a floor measured in the same run.

mod alloc;
mod arguments;
mod baseline;
mod calibration;
mod callgrind;
mod counters;
mod inprocess;
mod report;
mod ring;

const USAGE: &str = "\
usage: bench inprocess [KIND]... [--shards 1,2,...] [--to owner|any] [--quick] [--top N] [--profile FILE] [--json FILE]
       bench ring [--rounds N] [--messages N]
       bench baseline [--rows N] [--seconds N] [--in-flight N]
       bench compare A.json B.json

  inprocess   instructions, allocations, CPU time, page faults and system calls an operation: whole requests through
              the server in one thread, over the simulated half of io. KIND is read, write, batch (10 rows), slice (10
              rows), collection (an element of a map) or counter; none: all. --quick leaves out valgrind and strace;
              --top shows the modules and the first N functions; --profile keeps callgrind's file, for callgrind_annotate
  ring        echo of 128 B over loopback: Helenus's io against a raw io_uring
  baseline    start time, memory, W1, instructions and allocations: the figures of the README
              (runs the helenus and helenus-stress beside it: cargo build --release --workspace)
  compare     the figures of two files written with --json";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first().map(|(name, rest)| (name.as_str(), rest)) {
        Some(("inprocess", rest)) => inprocess::run(rest),
        Some(("ring", rest)) => ring::run(rest),
        Some(("baseline", rest)) => baseline::run(rest),
        Some(("compare", rest)) => report::compare(rest),
        Some((name, _)) => Err(format!("bench: `{name}` is no command\n\n{USAGE}")),
        None => Err(USAGE.to_owned()),
    };
    if let Err(message) = outcome {
        eprintln!("{message}");
        std::process::exit(2);
    }
}
