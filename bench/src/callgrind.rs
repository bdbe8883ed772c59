//! Instructions by valgrind's callgrind, counted in user space, each put down to the module that had it executed.
//!
//! Every instruction's address is resolved to its inlined source places; the innermost of this repository decides. What
//! stands in none (the standard library's and libc's functions, as far as they are not inlined) goes to its callers, in
//! the proportion of what they spent there. So the simulator (`src/io/sim`) and the client (`bench`) are taken off by
//! name, and the rest is the node's.

mod owners;
mod parse;

use std::path::Path;
use std::process::{Command, Stdio};

pub use owners::Spent;

/// Modules that are no part of a node: the simulated half of `io`, and this program.
pub const OUTSIDE: [&str; 2] = ["simulator", "client"];

/// Runs this program with these arguments under callgrind, which collects inside the function whose mangled name holds
/// `within`. The raw profile is left in `file`, for `callgrind_annotate`.
pub fn profile(arguments: &[String], within: &str, file: &Path) -> Result<Spent, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--demangle=no"])
        .args(["--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--toggle-collect=*{within}*"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(&exe)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("valgrind cannot be run: {error} (Debian: apt-get install valgrind)"))?;
    if !output.status.success() {
        return Err(format!("valgrind failed:\n{}", String::from_utf8_lossy(&output.stderr)));
    }
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let profile = parse::parse(&text)?;
    owners::attribute(&profile, &exe)
}
