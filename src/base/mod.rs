//! What every layer shares and nothing else explains: ids, variable-length integers, seeded collections,
//! single-threaded synchronisation. Imports nothing of the crate.

pub mod collections;
pub mod ids;
pub mod local;
pub mod plants;
pub mod repeated;
pub mod vint;
