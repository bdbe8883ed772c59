//! What several test programs share; each uses a part of it.

#![allow(dead_code, reason = "not every program needs all of it")]

pub mod server;
pub mod wire;
