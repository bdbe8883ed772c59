//! `helenus-stress`: a load generator with cassandra-stress's command line, tables, rows of progress and summary.
//!
//! Unlike the original it keeps many requests in flight on each of a few connections, and with `fixed=` it is
//! open-loop: latency counts from the moment a request was due, whether or not it could be sent then.

mod arguments;
mod connection;
mod driver;
mod numbers;
mod output;
mod pace;
mod poll;
mod population;
mod progress;
mod row;
mod run;
mod schema;
mod summary;
mod tally;

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
        Err(error) => {
            eprintln!("helenus-stress: {error}\n\n{}", arguments::USAGE);
            return ExitCode::from(2);
        }
    };
    match run::run(&arguments) {
        Ok(errors) if errors == 0 || arguments.ignore_errors => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("helenus-stress: {error}");
            ExitCode::FAILURE
        }
    }
}
