//! System calls of a run, by strace: two lengths of it are compared, so that what start-up makes falls out.

use std::process::{Command, Stdio};

use super::run::Shape;
use super::workload::WINDOW;

const SHORT: u64 = 100 * WINDOW;
const LONG: u64 = 300 * WINDOW;

/// Those of the node and the simulator together, an operation.
pub fn per_operation(shape: &Shape) -> Result<f64, String> {
    let of = |operations| {
        let shape = Shape { operations, ..*shape };
        Ok::<_, String>((counted(&shape)? as f64, shape.operations() as f64))
    };
    let ((few, short), (many, long)) = (of(SHORT)?, of(LONG)?);
    Ok((many - few).max(0.0) / (long - short))
}

fn counted(shape: &Shape) -> Result<u64, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("strace")
        .args(["-f", "-c"])
        .arg(exe)
        .args(super::arguments(shape))
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("strace cannot be run: {error} (Debian: apt-get install strace)"))?;
    let text = String::from_utf8_lossy(&output.stderr);
    total(&text).filter(|_| output.status.success()).ok_or_else(|| format!("strace failed:\n{text}"))
}

/// The calls of the summary's last line.
fn total(text: &str) -> Option<u64> {
    let line = text.lines().rev().find(|line| line.trim_end().ends_with(" total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_of_the_summary_is_read() {
        let text = "% time seconds usecs/call calls errors syscall\n 60.0 0.1 3 12 brk\n100.00 0.2 3 57 1 total\n";
        assert_eq!(total(text), Some(57));
        assert_eq!(total("strace: no such file"), None);
    }
}
