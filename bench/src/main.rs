//! Benchmarks of Helenus's parts, each against a floor measured in the same run.

mod alloc;
mod ring;

const USAGE: &str = "usage: bench ring [--rounds N] [--messages N]

  ring   echo of 128 B over loopback: Helenus's io against a raw io_uring";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((name, rest)) if name == "ring" => ring::run(rest),
        _ => Err(USAGE.to_owned()),
    };
    if let Err(message) = outcome {
        eprintln!("{message}");
        std::process::exit(2);
    }
}
