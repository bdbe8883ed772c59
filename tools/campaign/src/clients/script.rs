//! Running one client's script and reading what it reports.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::roster::Client;

/// What a script works on.
#[derive(Debug, Clone)]
pub struct Target {
    pub address: SocketAddr,
    pub rows: u32,
    pub seed: u64,
    /// A directory for files of its own.
    pub scratch: PathBuf,
}

/// What a script reported.
#[derive(Debug, PartialEq, Eq)]
pub struct Report {
    /// Names of the checks that held, in their order.
    pub passed: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("cannot run {command}: {source}")]
    Spawn { command: String, source: std::io::Error },
    #[error("the script still ran after {within_s} s; it had reported {passed:?}")]
    TimedOut { within_s: u64, passed: Vec<String> },
    #[error("the script ended with {status} after {passed:?}:\n{output}")]
    Failed { status: ExitStatus, passed: Vec<String>, output: String },
    #[error("the script ended well without reporting {missing:?}")]
    Missing { missing: Vec<String> },
    #[error("the script reported {unknown:?}, which the roster does not name")]
    Unknown { unknown: Vec<String> },
    #[error("waiting for the script: {0}")]
    Wait(#[from] std::io::Error),
}

/// Runs a client's script to its end.
pub fn run(client: &Client, target: &Target, within: Duration) -> Result<Report, ScriptError> {
    let mut command = client.kind.command();
    command
        .args(["--host", &target.address.ip().to_string()])
        .args(["--port", &target.address.port().to_string()])
        .args(["--rows", &target.rows.to_string()])
        .args(["--seed", &target.seed.to_string()])
        .args(client.arguments)
        .current_dir(&target.scratch);
    let lines = watch(&mut command, client.name, within)?;
    expect(client.checks, lines)
}

/// Each check reported, and nothing else.
fn expect(checks: &[&str], passed: Vec<String>) -> Result<Report, ScriptError> {
    let missing: Vec<String> =
        checks.iter().filter(|check| !passed.iter().any(|p| p == *check)).map(|&check| check.to_owned()).collect();
    if !missing.is_empty() {
        return Err(ScriptError::Missing { missing });
    }
    let unknown: Vec<String> = passed.iter().filter(|p| !checks.contains(&p.as_str())).cloned().collect();
    if !unknown.is_empty() {
        return Err(ScriptError::Unknown { unknown });
    }
    Ok(Report { passed })
}

/// Runs the command with its lines printed as they come, and gives the names after `ok `.
fn watch(command: &mut Command, name: &'static str, within: Duration) -> Result<Vec<String>, ScriptError> {
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = spawned.map_err(|source| ScriptError::Spawn { command: format!("{command:?}"), source })?;
    let out = child.stdout.take().map(|stream| print_lines(stream, name));
    let err = child.stderr.take().map(|stream| print_lines(stream, name));
    let until = Instant::now() + within;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if Instant::now() >= until {
            // Fails only where it ended just now.
            let _killed = child.kill();
            child.wait()?;
            break None;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let out = out.map_or(Vec::new(), joined);
    let err = err.map_or(Vec::new(), joined);
    let passed: Vec<String> = out.iter().filter_map(|line| line.strip_prefix("ok ")).map(str::to_owned).collect();
    match status {
        None => Err(ScriptError::TimedOut { within_s: within.as_secs(), passed }),
        Some(status) if status.success() => Ok(passed),
        Some(status) => {
            let words = out.into_iter().filter(|line| !line.starts_with("ok ")).chain(err);
            let words: Vec<String> = words.collect();
            let output = words[words.len().saturating_sub(40)..].join("\n");
            Err(ScriptError::Failed { status, passed, output })
        }
    }
}

fn joined(lines: JoinHandle<Vec<String>>) -> Vec<String> {
    lines.join().unwrap_or_else(|_| vec!["(its output could not be read)".to_owned()])
}

fn print_lines(stream: impl Read + Send + 'static, name: &'static str) -> JoinHandle<Vec<String>> {
    std::thread::spawn(move || {
        let mut lines = Vec::new();
        for line in BufReader::new(stream).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            println!("[{name}] {line}");
            lines.push(line);
        }
        lines
    })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    fn shell(script: &str) -> Result<Vec<String>, ScriptError> {
        watch(Command::new("sh").args(["-c", script]), "test", Duration::from_millis(1500))
    }

    #[test]
    fn ok_lines_are_the_checks_that_held() {
        let passed = shell("echo ok connect; echo looking around; echo ok paging").unwrap();
        assert_eq!(passed, ["connect", "paging"]);
    }

    #[test]
    fn a_failing_script_is_told_with_what_it_said_and_what_had_held() {
        let error = shell("echo ok connect; echo 'expected 5 rows, got 4' >&2; exit 1").unwrap_err();
        let ScriptError::Failed { status, passed, output } = error else { panic!("{error}") };
        assert_eq!(status.code(), Some(1));
        assert_eq!(passed, ["connect"]);
        assert_eq!(output, "expected 5 rows, got 4");
    }

    #[test]
    fn a_script_that_hangs_is_ended() {
        let error = shell("echo ok connect; exec sleep 60").unwrap_err();
        assert!(matches!(&error, ScriptError::TimedOut { passed, .. } if passed == &["connect"]), "{error}");
    }

    #[test]
    fn a_check_that_was_not_reported_fails_and_so_does_an_unknown_one() {
        let names = |list: &[&str]| list.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(expect(&["a", "b"], names(&["b", "a"])).is_ok());
        let error = expect(&["a", "b"], names(&["a"])).unwrap_err();
        assert!(matches!(&error, ScriptError::Missing { missing } if missing == &["b"]), "{error}");
        let error = expect(&["a"], names(&["a", "c"])).unwrap_err();
        assert!(matches!(&error, ScriptError::Unknown { unknown } if unknown == &["c"]), "{error}");
    }
}
