//! Arguments, configuration, boot, listen, drain, shutdown.

pub mod settings;
pub mod units;
