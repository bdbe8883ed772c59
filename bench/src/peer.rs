//! A server under load from helenus-stress: Helenus, or a real Cassandra by the script `bench/cassandra`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;

use crate::baseline::server::{Server, process_cpu};
use crate::scratch::programs;
use crate::steady::metrics::{Scrape, get};

/// Where Cassandra listens: not where a Helenus or another Cassandra would.
const CASSANDRA_HOST: &str = "127.0.0.3";
const CASSANDRA_JMX_PORT: &str = "7399";

pub enum Peer {
    Helenus { server: Server, data_dir: PathBuf, programs: PathBuf },
    Cassandra { pid: u32, dir: PathBuf },
}

impl Peer {
    /// The `helenus` beside this program, on these cores.
    pub fn helenus(cores: &str) -> Result<Peer, String> {
        let programs = programs()?;
        let data_dir = programs.join(format!("peer-{}", std::process::id()));
        let server = Server::start_with(&programs.join("helenus"), &data_dir, &["--cpuset", cores])?;
        Ok(Peer::Helenus { server, data_dir, programs })
    }

    /// A real Cassandra on these cores; its first start fetches it (Java 17 and Maven are needed).
    pub fn cassandra(cores: &str) -> Result<Peer, String> {
        let dir = programs()?.join(format!("cassandra-{}", std::process::id()));
        let output = script(&dir, "start", Some(cores))?;
        print!("{output}");
        let path = dir.join("pid");
        let pid = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let pid = pid.trim().parse().map_err(|_| format!("{}: `{pid}`", path.display()))?;
        Ok(Peer::Cassandra { pid, dir })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Peer::Helenus { .. } => "Helenus",
            Peer::Cassandra { .. } => "Cassandra",
        }
    }

    /// Whether it gets faster while it runs.
    pub fn warms_up(&self) -> bool {
        matches!(self, Peer::Cassandra { .. })
    }

    /// What it runs with, beside its defaults.
    pub fn settings(&self) -> &'static str {
        match self {
            Peer::Helenus { .. } => {
                "its defaults: commitlog_sync periodic (10 s), memtables 1024 MiB, block cache 512 MiB, size-tiered compaction, \
                 LZ4"
            }
            Peer::Cassandra { .. } => {
                "5.0.9 on Java 17, G1, heap 6 GB or CASSANDRA_HEAP, settings of cassandra_latest.yaml: commitlog_sync periodic \
                 (10 s), trie memtable off heap, BTI SSTables, unified compaction, LZ4, no key or row cache"
            }
        }
    }

    /// Where a Helenus answers its operator.
    pub fn admin_port(&self) -> Result<u16, String> {
        match self {
            Peer::Helenus { server, .. } => Ok(server.admin_port),
            Peer::Cassandra { .. } => Err("a Cassandra has no such endpoint".into()),
        }
    }

    pub fn process_id(&self) -> u32 {
        match self {
            Peer::Helenus { server, .. } => server.process_id(),
            Peer::Cassandra { pid, .. } => *pid,
        }
    }

    /// CPU used so far by all threads that it has or had.
    pub fn cpu(&self) -> Result<Duration, String> {
        match self {
            Peer::Helenus { server, .. } => server.cpu(),
            Peer::Cassandra { pid, .. } => process_cpu(*pid),
        }
    }

    /// Makes one SSTable of a keyspace's.
    pub fn compact(&self, keyspace: &str) -> Result<(), String> {
        match self {
            Peer::Helenus { server, programs, .. } => {
                let port = server.admin_port.to_string();
                run(Command::new(programs.join("nodetool")).args(["-p", &port, "compact", keyspace])).map(|_| ())
            }
            Peer::Cassandra { dir, .. } => {
                let words = ["nodetool".into(), dir.display().to_string(), "compact".into(), keyspace.to_owned()];
                run(Command::new(script_path()).args(words).env("CASSANDRA_JMX_PORT", CASSANDRA_JMX_PORT)).map(|_| ())
            }
        }
    }

    /// Runs helenus-stress with these words on the given cores: its summary.
    pub fn stress(&self, words: &str, cores: Option<&str>) -> Result<Summary, String> {
        let (host, port) = match self {
            Peer::Helenus { server, .. } => ("127.0.0.1", server.port),
            Peer::Cassandra { .. } => (CASSANDRA_HOST, 9042),
        };
        let stress = programs()?.join("helenus-stress");
        let mut command = match cores {
            Some(cores) => pinned(cores, &stress),
            None => Command::new(stress),
        };
        let port = format!("native={port}");
        let graph = programs()?.join(format!("stress-{}.html", std::process::id()));
        command.args(words.split(' ')).args(["-node", host, "-port", &port, "-graph"]);
        command.arg(format!("file={}", graph.display()));
        let (cpu_before, received_before) = (self.cpu()?, self.received()?);
        let text = run(&mut command)?;
        let (cpu, received) = (self.cpu()?.saturating_sub(cpu_before), self.received()?);
        let page = std::fs::read_to_string(&graph).map_err(|error| format!("{}: {error}", graph.display()))?;
        std::fs::remove_file(&graph).map_err(|error| format!("{}: {error}", graph.display()))?;
        let summary = Latencies::of(&page).and_then(|latencies| Summary::parse(&text, latencies, cpu));
        let summary = summary.ok_or_else(|| format!("no summary in:\n{text}"))?;
        let requests_per_receive = received
            .zip(received_before)
            .map(|(after, before)| (after.requests - before.requests) / (after.receives - before.receives).max(1.0));
        Ok(Summary { requests_per_receive, ..summary })
    }

    /// What came so far, where the server tells.
    fn received(&self) -> Result<Option<Received>, String> {
        let Peer::Helenus { server, .. } = self else { return Ok(None) };
        let scrape = Scrape::parse(&get(server.admin_port, "/metrics")?);
        let total = |metric| scrape.shards().iter().filter_map(|shard| scrape.sum(metric, *shard)).sum();
        Ok(Some(Received { requests: total("helenus_requests_total"), receives: total("helenus_receives_total") }))
    }
}

/// Requests that came, and receives that brought them.
struct Received {
    requests: f64,
    receives: f64,
}

impl Drop for Peer {
    fn drop(&mut self) {
        let dir = match self {
            Peer::Helenus { server, data_dir, .. } => {
                server.end();
                data_dir
            }
            Peer::Cassandra { dir, .. } => {
                if let Err(error) = script(dir, "stop", None) {
                    eprintln!("{error}");
                }
                dir
            }
        };
        if let Err(error) = std::fs::remove_dir_all(&*dir) {
            eprintln!("{} stays: {error}", dir.display());
        }
    }
}

/// What helenus-stress says at its end, and what the server used meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    pub operations_per_s: f64,
    pub rows_per_s: f64,
    pub median_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
    pub errors: f64,
    pub cpu_us: f64,
    /// Where the server tells.
    pub requests_per_receive: Option<f64>,
}

impl Summary {
    fn parse(text: &str, latencies: Latencies, cpu: Duration) -> Option<Summary> {
        let operations_per_s = figure(text, "Op rate")?;
        let seconds = time_s(text)?;
        let Latencies { median_us, p99_us, max_us } = latencies;
        Some(Summary {
            operations_per_s,
            rows_per_s: figure(text, "Row rate")?,
            median_ms: median_us / 1e3,
            p99_ms: p99_us / 1e3,
            max_ms: max_us / 1e3,
            errors: figure(text, "Total errors")?,
            cpu_us: cpu.as_secs_f64() * 1e6 / operations(text, operations_per_s * seconds),
            requests_per_receive: None,
        })
    }
}

/// The latencies inside a graph, finer than those of the summary.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
struct Latencies {
    median_us: f64,
    p99_us: f64,
    max_us: f64,
}

impl Latencies {
    fn of(page: &str) -> Option<Latencies> {
        let (_, rest) = page.split_once("\"latency\":")?;
        let (object, _) = rest.split_once('}')?;
        serde_json::from_str(&format!("{object}}}")).ok()
    }
}

/// Operations of a run: its partitions, where each operation has one; at least what rate and time say.
fn operations(text: &str, at_least: f64) -> f64 {
    let each_one = figure(text, "Op rate") == figure(text, "Partition rate");
    figure(text, "Total partitions").filter(|_| each_one).unwrap_or(at_least).max(1.0)
}

/// The first number of a line of the summary.
pub fn figure(text: &str, label: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with(label))?;
    line.split_once(':')?.1.split_whitespace().next()?.replace(',', "").parse().ok()
}

/// `Total operation time`, whole seconds.
fn time_s(text: &str) -> Option<f64> {
    let line = text.lines().find(|line| line.starts_with("Total operation time"))?;
    line.split_once(':')?.1.trim().split(':').try_fold(0.0, |sum, part| Some(sum * 60.0 + part.parse::<f64>().ok()?))
}

fn script_path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("cassandra")
}

fn script(dir: &Path, action: &str, cores: Option<&str>) -> Result<String, String> {
    let mut command = match cores {
        Some(cores) => pinned(cores, &script_path()),
        None => Command::new(script_path()),
    };
    command.arg(action).arg(dir);
    run(command.env("CASSANDRA_HOST", CASSANDRA_HOST).env("CASSANDRA_JMX_PORT", CASSANDRA_JMX_PORT))
}

fn pinned(cores: &str, program: &Path) -> Command {
    let mut command = Command::new("taskset");
    command.args(["-c", cores]).arg(program);
    command
}

/// Standard output of a program that succeeds.
fn run(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!("{name} failed ({}):\n{text}{}", output.status, String::from_utf8_lossy(&output.stderr))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_read() {
        let text = "Results:\nOp rate                   :   46,851 op/s  [WRITE: 46,851 op/s]\n\
                    Partition rate            :   46,851 pk/s  [W]\nRow rate : 468,510 row/s [W]\n\
                    Total partitions : 1,000 [W]\nTotal errors : 0\nTotal operation time : 00:01:10\n";
        let page = r#"{"runs":[{"latency":{"median_us":912,"p99_us":13800,"max_us":99100},"intervals":[]}]}"#;
        let latencies = Latencies::of(page).expect("whole");
        let summary = Summary::parse(text, latencies, Duration::from_millis(10)).expect("whole");
        assert_eq!((summary.operations_per_s, summary.rows_per_s, summary.p99_ms), (46_851.0, 468_510.0, 13.8));
        assert_eq!((summary.cpu_us, summary.median_ms, time_s(text)), (10.0, 0.912, Some(70.0)));
        assert_eq!(Summary::parse("Results:\n", latencies, Duration::ZERO), None);
        assert_eq!(Latencies::of("{}"), None);
    }
}
