//! The system calls of a process by thread, by strace.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Calls by thread's name and number, then by the call's name.
#[derive(Debug, Default, PartialEq)]
pub struct Calls(BTreeMap<(String, u32), BTreeMap<String, u64>>);

/// All calls of a process for so long. What strace writes goes through `file`.
pub fn calls(process_id: u32, length: Duration, file: &Path) -> Result<Calls, String> {
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-s", "0", "-o"])
        .arg(file)
        .args(["-p", &process_id.to_string()])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("strace cannot be run: {error} (Debian: apt-get install strace)"))?;
    std::thread::sleep(length);
    let early = strace.try_wait().map_err(|error| error.to_string())?;
    let id = i32::try_from(strace.id()).map_err(|_| "strace: no process id".to_owned())?;
    // SAFETY: kill takes no pointers; the child was not waited for, so the id is its own.
    unsafe { libc::kill(id, libc::SIGINT) };
    strace.wait().map_err(|error| format!("strace: {error}"))?;
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    std::fs::remove_file(file).map_err(|error| format!("{}: {error}", file.display()))?;
    if early.is_some() {
        return Err("strace ended early (may it trace another process?)".into());
    }
    Ok(Calls::parse(&text, |thread| name(process_id, thread)))
}

fn name(process_id: u32, thread: u32) -> String {
    let name = std::fs::read_to_string(format!("/proc/{process_id}/task/{thread}/comm"));
    name.map_or_else(|_| "ended".to_owned(), |name| name.trim_end().to_owned())
}

impl Calls {
    /// A line of strace's is a thread's number, a call's name and its arguments; one that was cut in two is counted where
    /// it begins.
    fn parse(text: &str, name: impl Fn(u32) -> String) -> Calls {
        let mut calls = Calls::default();
        let mut names: BTreeMap<u32, String> = BTreeMap::new();
        for line in text.lines() {
            let Some((thread, rest)) = line.split_once(' ') else { continue };
            let Ok(thread) = thread.parse() else { continue };
            let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
            if !call.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
                continue;
            }
            let name = names.entry(thread).or_insert_with(|| name(thread)).clone();
            *calls.0.entry((name, thread)).or_default().entry(call.to_owned()).or_default() += 1;
        }
        calls
    }

    /// How often the threads of shards made this call. Those alone enter a ring; threads that they made may have their name.
    pub fn of_shards(&self, call: &str) -> u64 {
        let shards = self.0.values().filter(|calls| calls.contains_key("io_uring_enter"));
        shards.filter_map(|calls| calls.get(call)).sum()
    }

    pub fn show(&self) {
        for ((name, thread), calls) in &self.0 {
            let all: Vec<String> = calls.iter().map(|(call, count)| format!("{call} {count}")).collect();
            println!("  {name} ({thread}): {}", all.join(", "));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_thread() {
        let text = "7  io_uring_enter(3, 1, 1, IORING_ENTER_GETEVENTS, NULL, 8 <unfinished ...>\n8     futex(0x7f, FUTEX_WAIT, 2, NULL) = 0\n\
                    7  <... io_uring_enter resumed>) = 1\n7 io_uring_enter(3, 0, 1) = 0\n9 --- SIGINT {si_signo=SIGINT} ---\n";
        let calls = Calls::parse(text, |thread| if thread == 7 { "shard-1".into() } else { "admin".into() });
        assert_eq!((calls.of_shards("io_uring_enter"), calls.of_shards("futex")), (2, 0));
        assert_eq!(calls.0[&("admin".to_owned(), 8)]["futex"], 1);
        assert_eq!(calls.0.len(), 2);
        let entered = Calls::parse("8 io_uring_enter(3, 0, 1) = 0\n8 futex(0x7f) = 0\n", |_| "shard-1".into());
        assert_eq!(entered.of_shards("futex"), 1);
    }
}
