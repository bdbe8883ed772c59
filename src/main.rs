//! The server's process: arguments, log, and what the exit status says.
//!
//! 0: stopped as asked. 1: failed. 2: wrong usage or configuration. 3: the data directory was refused.

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use helenus::server::arguments::Arguments;
use helenus::server::node::{self, NodeError};
use tracing_subscriber::EnvFilter;

/// Under the feature `count`, what each shard allocates stands in `/metrics`.
#[cfg(feature = "count")]
#[global_allocator]
static ALLOCATOR: helenus::io::CountingAllocator = helenus::io::CountingAllocator;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
    let (settings, warnings) = match arguments.settings() {
        Ok(read) => read,
        Err(error) => {
            eprintln!("helenus: {error}");
            return ExitCode::from(2);
        }
    };
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    match node::run(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error @ NodeError::Directory(_)) => {
            eprintln!("helenus: {error}");
            ExitCode::from(3)
        }
        Err(error @ NodeError::Failed(_)) => {
            eprintln!("helenus: {error}");
            ExitCode::FAILURE
        }
    }
}
