//! `helenus-stress`: a load generator with cassandra-stress's command line, tables, profiles, rows of progress and
//! summary.
//!
//! Unlike the original it keeps many requests in flight on each of a few connections, all of them driven from one
//! pinned core or a few, and with `fixed=` it is open-loop: latency counts from the moment a request was due, whether
//! or not it could be sent then.

mod arguments;
mod choice;
mod connect;
mod connection;
mod distribution;
mod driver;
#[cfg(test)]
mod end_to_end;
mod graph;
mod lane;
mod numbers;
mod output;
mod pace;
mod phase;
mod poll;
mod population;
mod profile;
mod progress;
mod random;
mod request;
mod row;
mod run;
mod schema;
mod summary;
mod tally;
#[cfg(test)]
mod testing;
mod workload;

use std::process::ExitCode;

use arguments::{Arguments, Parsed};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let arguments = match Arguments::parse(&words) {
        Ok(Parsed::Run(arguments)) => arguments,
        Ok(Parsed::Help) => {
            println!("{}", arguments::USAGE);
            return ExitCode::SUCCESS;
        }
        Ok(Parsed::Version) => {
            println!("Version: {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("helenus-stress: {error}\n(`helenus-stress help` lists what there is)");
            return ExitCode::from(2);
        }
    };
    match run::run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("helenus-stress: {error}");
            ExitCode::FAILURE
        }
    }
}
