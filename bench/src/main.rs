//! Benchmarks of Helenus's parts, each against a floor measured in the same run.

mod alloc;
mod baseline;
mod inprocess;
mod ring;

const USAGE: &str = "\
usage: bench ring [--rounds N] [--messages N]
       bench baseline [--rows N] [--seconds N] [--in-flight N]
       bench inprocess read|write|read-floor|write-floor OPERATIONS

  ring        echo of 128 B over loopback: Helenus's io against a raw io_uring
  baseline    start time, memory, W1, instructions and allocations: the figures of the README
              (runs the helenus and helenus-stress beside it: cargo build --release --workspace)
  inprocess   requests through the server in this thread, over the simulated half of io, for a profiler;
              the floors answer with as many bytes and do nothing else";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((name, rest)) if name == "ring" => ring::run(rest),
        Some((name, rest)) if name == "baseline" => baseline::run(rest),
        Some((name, rest)) if name == "inprocess" => inprocess::run(rest),
        _ => Err(USAGE.to_owned()),
    };
    if let Err(message) = outcome {
        eprintln!("{message}");
        std::process::exit(2);
    }
}
