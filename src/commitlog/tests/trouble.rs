//! Failed writes and syncs, a full disk.
use super::*;
