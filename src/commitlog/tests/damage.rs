//! Damage to the files of a log, place by place.
use super::*;
