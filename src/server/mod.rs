//! Arguments, configuration, boot, listen, drain, shutdown.

pub mod arguments;
pub mod boot;
pub mod node;
pub mod settings;
pub mod units;
