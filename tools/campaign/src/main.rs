//! `helenus-campaign`: what is done to a server again and again until it is believed.
//!
//! Each subcommand is one campaign. It exits 0 where nothing was wrong and 1 otherwise; the last line it prints is
//! one JSON object with its figures, and each failure comes with the command that replays it.

mod admin;
mod clients;
mod cql;
mod dice;
mod flip;
mod kill9;
mod outcome;
mod scratch;
mod server;
mod sim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Parser)]
#[command(name = "helenus-campaign", about = "Campaigns against a Helenus server", version)]
struct Arguments {
    #[command(subcommand)]
    campaign: Campaign,
}

#[derive(Subcommand)]
enum Campaign {
    /// Stock clients, unmodified and of pinned versions, each against a fresh server.
    Clients(clients::Arguments),
    /// The engine in one thread under faults by seed: crashes, torn sectors, failed syncs, full disks, clock jumps.
    Sim(sim::Arguments),
    /// Kill -9 under load, over sync modes and shard counts: nothing acknowledged is lost, nothing deleted is back.
    Kill9(kill9::Arguments),
    /// One byte of a data directory flipped: the right answer, or an error that names file and offset.
    Flip(flip::Arguments),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().campaign {
        Campaign::Clients(arguments) => clients::run(&arguments),
        Campaign::Sim(arguments) => sim::run(&arguments),
        Campaign::Kill9(arguments) => kill9::run(&arguments),
        Campaign::Flip(arguments) => flip::run(&arguments),
    };
    outcome.finish()
}
