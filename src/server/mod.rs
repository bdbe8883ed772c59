//! Arguments, configuration, boot, listen, drain, shutdown.
//!
//! `node` is one process's life on the main thread, from the lock on the `directory` and the `ports` to the exit status;
//! `boot` brings the shards up together, in either half of `io`, so that a simulation starts as a server does.

pub mod arguments;
pub mod boot;
mod directory;
pub mod node;
mod ports;
pub mod settings;
pub mod units;
