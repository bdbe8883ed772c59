//! A `helenus` process, and what `/proc` tells of it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct Server {
    child: Child,
    pub port: u16,
    pub admin_port: u16,
    pub started_in: Duration,
}

impl Server {
    /// Starts the binary on free ports in a directory of its own, and waits for READY.
    pub fn start(binary: &Path, data_dir: &Path) -> Result<Server, String> {
        Server::start_with(binary, data_dir, &[])
    }

    /// The same with further arguments.
    pub fn start_with(binary: &Path, data_dir: &Path, arguments: &[&str]) -> Result<Server, String> {
        let started = Instant::now();
        let mut child = Command::new(binary)
            .args(["--port", "0", "--shard-aware-port", "0", "--admin-port", "0", "--data-dir"])
            .arg(data_dir)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error} (cargo build --release builds it)", binary.display()))?;
        let mut line = String::new();
        let read = child.stdout.take().map(|out| BufReader::new(out).read_line(&mut line));
        let started_in = started.elapsed();
        match (read, port_of(&line, "cql"), port_of(&line, "admin")) {
            (Some(Ok(_)), Some(port), Some(admin_port)) => Ok(Server { child, port, admin_port, started_in }),
            _ => {
                end(&mut child);
                Err(format!("the server said `{}` instead of READY", line.trim_end()))
            }
        }
    }

    pub fn process_id(&self) -> u32 {
        self.child.id()
    }

    /// CPU used so far by all its threads, the kernel's work for them included.
    pub fn cpu(&self) -> Result<Duration, String> {
        process_cpu(self.child.id())
    }

    /// The same in nanoseconds, of the threads that are there, those that the kernel made for it included.
    pub fn cpu_ns(&self) -> Result<u64, String> {
        let path = format!("/proc/{}/task", self.child.id());
        let threads = std::fs::read_dir(&path).map_err(|error| format!("{path}: {error}"))?;
        let ids = threads.flatten().filter_map(|thread| thread.file_name().to_str()?.parse().ok());
        ids.map(|id| thread_cpu_ns(self.child.id(), id)).sum()
    }

    /// Kills it.
    pub fn end(&mut self) {
        end(&mut self.child);
    }

    /// Resident memory.
    pub fn resident_kib(&self) -> Result<u64, String> {
        let status = self.read("status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| "/proc: no VmRSS".into())
    }

    fn read(&self, name: &str) -> Result<String, String> {
        let path = format!("/proc/{}/{name}", self.child.id());
        std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    // Both fail only where it has ended already, which is what is wanted.
    let _killed = child.kill();
    let _waited = child.wait();
}

/// CPU used so far by all threads of a process, the kernel's work for them included.
pub fn process_cpu(process_id: u32) -> Result<Duration, String> {
    let path = format!("/proc/{process_id}/stat");
    let stat = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    // SAFETY: sysconf takes an integer and touches no memory of ours.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    let ticks = cpu_ticks(&stat).ok_or_else(|| format!("/proc: `{stat}`"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / per_second as f64))
}

/// CPU time of one thread of a process.
pub fn thread_cpu_ns(process_id: u32, thread_id: i32) -> Result<u64, String> {
    let path = format!("/proc/{process_id}/task/{thread_id}/schedstat");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    text.split(' ').next().and_then(|first| first.parse().ok()).ok_or_else(|| format!("{path}: `{text}`"))
}

/// A port of a READY line.
fn port_of(line: &str, name: &str) -> Option<u16> {
    let mut words = line.strip_prefix("READY ")?.split_whitespace();
    let address = words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))?;
    address.rsplit(':').next()?.parse().ok()
}

/// User and system ticks of a line of `/proc/PID/stat`: fields 14 and 15, counted behind the name in parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ready_line_has_ports() {
        let line = "READY cql=127.0.0.1:9042 shard_aware=127.0.0.1:19042 admin=127.0.0.1:9180 shards=2";
        assert_eq!((port_of(line, "cql"), port_of(line, "admin")), (Some(9042), Some(9180)));
        assert_eq!(port_of("READY cql=127.0.0.1", "cql"), None);
        assert_eq!(port_of("", "cql"), None);
    }

    #[test]
    fn ticks_are_counted_behind_the_name() {
        assert_eq!(cpu_ticks("7 (a ) b) S 1 1 1 0 -1 4194560 100 0 0 0 250 50 0 0 20 0"), Some(300));
        assert_eq!(cpu_ticks("7 a S 1"), None);
    }

    #[test]
    fn a_binary_that_is_not_there_is_named() {
        let Err(error) = Server::start(Path::new("/nonexistent/helenus"), Path::new("/tmp")) else { panic!("started") };
        assert!(error.contains("/nonexistent/helenus"), "{error}");
    }
}
