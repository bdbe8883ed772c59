//! Instructions an operation, by valgrind's callgrind: two lengths of one run are compared, so that what start-up costs
//! falls out.

use std::process::{Command, Stdio};

use crate::inprocess::{Kind, WINDOW};

const SHORT: u64 = 50 * WINDOW;
const LONG: u64 = 150 * WINDOW;

/// Instructions of the node alone: those of the whole thread less those of the floor.
pub struct Instructions {
    pub whole: f64,
    pub floor: f64,
}

pub fn measure(kind: Kind) -> Result<Instructions, String> {
    let floor = format!("{}-floor", kind.name());
    Ok(Instructions { whole: per_operation(kind.name())?, floor: per_operation(&floor)? })
}

fn per_operation(name: &str) -> Result<f64, String> {
    let (short, long) = (collected(name, SHORT)?, collected(name, LONG)?);
    Ok(long.saturating_sub(short) as f64 / (LONG - SHORT) as f64)
}

/// All instructions of one run.
fn collected(name: &str, operations: u64) -> Result<u64, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(exe)
        .args(["inprocess", name, &operations.to_string()])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    parse(&text).filter(|_| output.status.success()).ok_or_else(|| format!("valgrind failed:\n{text}"))
}

/// The number behind `Collected :`.
fn parse(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_callgrind_is_read() {
        assert_eq!(parse("==1== Events    : Ir\n==1== Collected : 12345\n"), Some(12_345));
        assert_eq!(parse("valgrind: no such tool"), None);
    }
}
