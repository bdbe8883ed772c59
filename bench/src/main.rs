//! Benchmarks of Helenus's parts, each against a floor measured in the same run.

mod alloc;
mod arguments;
mod baseline;
mod calibration;
mod callgrind;
mod commit;
mod counters;
mod design;
mod engine;
mod flame;
mod inprocess;
mod ladder;
mod loopback;
mod micro;
mod peer;
mod peers;
mod plot;
mod report;
mod ring;
mod scratch;
mod steady;
mod stress;
mod w4;
mod workloads;

const USAGE: &str = "\
usage: bench design [--no-loopback] [--json FILE]
       bench ladder [KIND]... [--connections N] [--json FILE]
       bench micro [--json FILE]
       bench w1 [--rows N] [--seconds N] [--in-flight 1,64,...] [--cassandra] [--json FILE]
       bench w2 [--seconds N] [--in-flight 1,64,...] [--cassandra] [--json FILE]
       bench w4 [--quick] [--json FILE]
       bench peers [engines|servers] [--rows N] [--rounds N] [--seconds N] [--in-flight N] [--json FILE]
       bench stress [--seconds N] [--in-flight 1,64,...] [--json FILE]
       bench flame w1|w2|w4|read|write [--seconds N] [--top N] [--svg FILE] [--call-graph fp|dwarf] [--json FILE]
       bench inprocess [KIND]... [--shards 1,2,...] [--to owner|any|one] [--quick] [--top N] [--profile FILE] [--json FILE]
       bench steady [--shards N] [--seconds N] [--rows N] [--in-flight N] [--json FILE]
       bench ring [--rounds N] [--messages N]
       bench baseline [--rows N] [--seconds N] [--in-flight N]
       bench compare A.json B.json
       bench plot RESULTS.json OUT.svg

  design      the table of numbers that the design asks for, each beside what is good and what is aimed at (runs the
              helenus beside it, built with it: cargo build --release --workspace)
  ladder      memcpy, decode only, in-process, a raw echo over loopback, CQL over loopback: what each step adds
  micro       each layer alone: token, decode, mutation, memtable, flush, SSTable, mesh
  w1          W1 by helenus-stress: every row written; writes; compacted; 10 % writes and 90 % reads
  w2          W2 by helenus-stress: batches of 10 rows of one partition. Both run the helenus, helenus-stress and nodetool
              beside it, with so many requests in flight on each of 8 connections; --cassandra runs a real one too, on the
              same core, and both at half of what that can do (Java 17, Maven, bench/cassandra)
  peers       others in alternating rounds: the engine beside fjall and RocksDB (built with --features peers), the server
              beside a real Cassandra under W1's and W2's loads
  w4          updates of one partition: maps and partitions that grow, memory an element, writers on other cores
  stress      what helenus-stress costs, against an echo that speaks CQL and stores nothing
  flame       a flame graph of the server on one core under a workload, and its three largest costs (perf)
  inprocess   instructions, allocations, CPU time, page faults and system calls an operation: whole requests through
              the server in one thread, over the simulated half of io. KIND is read, read-sstable, read-4-sstables, write, batch (10 rows), slice (10
              rows), collection (an element of a map), counter, row or
              add-to-10, add-to-1000, add-to-100000 (of W4); none: all but W4's. --quick leaves out valgrind and strace;
              --top shows the modules and the first N functions; --profile keeps callgrind's file, for callgrind_annotate
  steady      allocations and minor page faults of each shard an operation, flushes included, and the system calls of its
              threads, under load from helenus-stress (the helenus beside it must count: --features count)
  ring        echo of 128 B over loopback: Helenus's io against a raw io_uring
  baseline    start time, memory, W1, instructions and allocations: the figures of the README
              (runs the helenus and helenus-stress beside it: cargo build --release --workspace)
  compare     the figures of two files written with --json
  plot        such a file as bars";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first().map(|(name, rest)| (name.as_str(), rest)) {
        Some(("w1", rest)) => workloads::w1(rest),
        Some(("w2", rest)) => workloads::w2(rest),
        Some(("w4", rest)) => w4::run(rest),
        Some(("peers", rest)) => peers::run(rest),
        Some(("stress", rest)) => stress::run(rest),
        Some(("flame", rest)) => flame::run(rest),
        Some(("inprocess", rest)) => inprocess::run(rest),
        Some(("design", rest)) => design::run(rest),
        Some(("ladder", rest)) => ladder::run(rest),
        Some(("micro", rest)) => micro::run(rest),
        Some(("ring", rest)) => ring::run(rest),
        Some(("steady", rest)) => steady::run(rest),
        Some(("baseline", rest)) => baseline::run(rest),
        Some(("plot", rest)) => plot::run(rest),
        Some(("compare", rest)) => report::compare(rest),
        Some((name, _)) => Err(format!("bench: `{name}` is no command\n\n{USAGE}")),
        None => Err(USAGE.to_owned()),
    };
    if let Err(message) = outcome {
        eprintln!("{message}");
        std::process::exit(2);
    }
}
