//! A server process under test: started on free ports, waited for, stopped or killed.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// How long a server may take until its READY line. Replay of a full log on a busy machine is the slow case.
const READY_WITHIN: Duration = Duration::from_secs(60);
/// How long a clean stop may take before it counts as hung.
const STOP_WITHIN: Duration = Duration::from_secs(60);

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("cannot start {binary}: {source}")]
    Spawn { binary: PathBuf, source: std::io::Error },
    #[error("the server ended before it was ready ({status}); its log {log} ends:\n{tail}")]
    Ended { status: ExitStatus, log: PathBuf, tail: String },
    #[error("no READY line within {within_s} s; the server's log {log} ends:\n{tail}")]
    NotReady { within_s: u64, log: PathBuf, tail: String },
    #[error("the server's line `{line}` is not `READY cql=HOST:PORT shard_aware=… admin=… shards=N pid=N`")]
    BadReady { line: String },
    #[error("the server did not end within {within_s} s of SIGTERM; its log is {log}")]
    StopHangs { within_s: u64, log: PathBuf },
    #[error("waiting for the server: {0}")]
    Wait(#[from] std::io::Error),
}

/// What to start.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// The `helenus` executable.
    pub binary: PathBuf,
    /// Its data directory; created by the server.
    pub data_dir: PathBuf,
    /// Where its standard error goes, appended.
    pub log: PathBuf,
    /// `--shards`, where given.
    pub shards: Option<u16>,
    /// `--set KEY=VALUE`, in order.
    pub set: Vec<String>,
}

impl ServerOptions {
    /// The server beside this program, with data and log below `dir`.
    pub fn below(dir: &Path) -> ServerOptions {
        ServerOptions {
            binary: default_binary(),
            data_dir: dir.join("data"),
            log: dir.join("server.log"),
            shards: None,
            set: Vec::new(),
        }
    }

    /// The arguments for a test: nothing pinned, three free ports, a directory of its own.
    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> =
            ["--overprovisioned", "--port", "0", "--shard-aware-port", "0", "--admin-port", "0", "--data-dir"]
                .map(str::to_owned)
                .to_vec();
        arguments.push(self.data_dir.display().to_string());
        if let Some(shards) = self.shards {
            arguments.extend(["--shards".to_owned(), shards.to_string()]);
        }
        for setting in &self.set {
            arguments.extend(["--set".to_owned(), setting.clone()]);
        }
        arguments
    }
}

/// `helenus` beside this program: cargo builds both into one directory (a test's binary lies one below).
pub fn default_binary() -> PathBuf {
    let exe = std::env::current_exe().unwrap_or_default();
    exe.ancestors()
        .skip(1)
        .take(2)
        .map(|dir| dir.join("helenus"))
        .find(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from("helenus"))
}

/// The line a server prints when a CQL query can be answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    pub cql: SocketAddr,
    pub shard_aware: SocketAddr,
    pub admin: SocketAddr,
    pub shards: u16,
    pub pid: u32,
}

impl Ready {
    fn parse(line: &str) -> Option<Ready> {
        let mut words = line.strip_prefix("READY ")?.split_whitespace();
        let mut field = |name: &str| words.next()?.strip_prefix(name)?.strip_prefix('=');
        Some(Ready {
            cql: field("cql")?.parse().ok()?,
            shard_aware: field("shard_aware")?.parse().ok()?,
            admin: field("admin")?.parse().ok()?,
            shards: field("shards")?.parse().ok()?,
            pid: field("pid")?.parse().ok()?,
        })
    }
}

/// A running server; killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    ready: Ready,
    log: PathBuf,
}

impl Server {
    /// Starts it and waits for READY.
    pub fn start(options: &ServerOptions) -> Result<Server, ServerError> {
        let mut child = spawn(options, Stdio::piped())?;
        let line = child.stdout.take().map(first_line);
        let line = line.map_or(Err(RecvTimeoutError::Disconnected), |lines| lines.recv_timeout(READY_WITHIN));
        match line {
            Ok(line) => match Ready::parse(&line) {
                Some(ready) => Ok(Server { child, ready, log: options.log.clone() }),
                None => {
                    reap(&mut child);
                    Err(ServerError::BadReady { line })
                }
            },
            Err(RecvTimeoutError::Timeout) => {
                reap(&mut child);
                let within_s = READY_WITHIN.as_secs();
                Err(ServerError::NotReady { within_s, log: options.log.clone(), tail: tail(&options.log) })
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = child.wait()?;
                Err(ServerError::Ended { status, log: options.log.clone(), tail: tail(&options.log) })
            }
        }
    }

    /// Starts it and kills it with signal 9 after `after`, wherever it is by then. Gives the status with which it
    /// had ended by itself before.
    pub fn start_and_kill(options: &ServerOptions, after: Duration) -> Result<Option<ExitStatus>, ServerError> {
        let mut child = spawn(options, Stdio::null())?;
        std::thread::sleep(after);
        let ended = child.try_wait()?;
        reap(&mut child);
        Ok(ended)
    }

    /// Its addresses, shards and process id.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// The last lines of its log.
    pub fn log_tail(&self) -> String {
        tail(&self.log)
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills it with signal 9, in the middle of whatever it does, and waits until it is gone.
    pub fn kill9(mut self) -> Result<ExitStatus, ServerError> {
        self.child.kill()?;
        Ok(self.child.wait()?)
    }

    /// Stops it with SIGTERM and waits for its exit status.
    pub fn stop(mut self) -> Result<ExitStatus, ServerError> {
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        terminate(&self.child);
        let until = Instant::now() + STOP_WITHIN;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Err(ServerError::StopHangs { within_s: STOP_WITHIN.as_secs(), log: self.log.clone() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        reap(&mut self.child);
    }
}

fn terminate(child: &Child) {
    let Ok(pid) = libc::pid_t::try_from(child.id()) else { return };
    // SAFETY: `kill` takes two integers and touches no memory of ours. The process is our child and has not been
    // waited for (`try_wait` said so), so its id cannot have been given to another.
    unsafe {
        libc::kill(pid, libc::SIGTERM);
    }
}

/// Starts the server's process, its log appended to the file of the options.
fn spawn(options: &ServerOptions, stdout: Stdio) -> Result<Child, ServerError> {
    let failed = |source| ServerError::Spawn { binary: options.binary.clone(), source };
    let log = File::options().create(true).append(true).open(&options.log).map_err(failed)?;
    let mut command = Command::new(&options.binary);
    command.args(options.arguments()).stdin(Stdio::null()).stdout(stdout).stderr(log).spawn().map_err(failed)
}

fn reap(child: &mut Child) {
    // Both fail only where it has ended and been waited for, which is what is wanted.
    let _killed = child.kill();
    let _waited = child.wait();
}

/// Sends on the first line of `output`, then reads the rest away, so that the server never blocks on a full pipe.
fn first_line(output: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = String::new();
        if output.read_line(&mut line).is_ok_and(|read| read > 0) {
            // Nobody waits any more after a time-out.
            let _sent = sender.send(line.trim_end().to_owned());
        }
        drop(sender);
        let _read = std::io::copy(&mut output, &mut std::io::sink());
    });
    receiver
}

/// The last 20 lines of a file; what cannot be read is said instead.
fn tail(path: &Path) -> String {
    match std::fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8_lossy(&bytes);
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(20)..].join("\n")
        }
        Err(error) => format!("({}: {error})", path.display()),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::scratch::Scratch;

    const READY: &str = "READY cql=127.0.0.1:9042 shard_aware=127.0.0.1:19042 admin=127.0.0.1:9180 shards=2 pid=17";

    /// A shell script in the server's place.
    fn pretender(scratch: &Scratch, script: &str) -> ServerOptions {
        let binary = scratch.path().join("helenus");
        std::fs::write(&binary, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
        ServerOptions { binary, ..ServerOptions::below(scratch.path()) }
    }

    #[test]
    fn the_ready_line_is_read_field_by_field() {
        let ready = Ready::parse(READY).unwrap();
        assert_eq!(ready.cql, "127.0.0.1:9042".parse().unwrap());
        assert_eq!((ready.shards, ready.pid), (2, 17));
        for wrong in ["", "READY", "READY cql=127.0.0.1:9042", &READY.replace("shards=2", "shards=x")] {
            assert_eq!(Ready::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_server_that_is_ready_gets_sigterm_and_its_status_is_seen() {
        let scratch = Scratch::new("server-stop").unwrap();
        let script = format!("trap 'exit 5' TERM; echo '{READY}'; while :; do sleep 0.01; done");
        let mut server = Server::start(&pretender(&scratch, &script)).unwrap();
        assert_eq!(server.ready().shards, 2);
        assert!(server.is_running());
        assert_eq!(server.stop().unwrap().code(), Some(5));
    }

    #[test]
    fn a_server_that_ends_early_is_told_with_the_end_of_its_log() {
        let scratch = Scratch::new("server-ends").unwrap();
        let error = Server::start(&pretender(&scratch, "echo 'no io_uring here' >&2; exit 1")).unwrap_err();
        assert!(matches!(&error, ServerError::Ended { status, .. } if status.code() == Some(1)), "{error}");
        assert!(error.to_string().contains("no io_uring here"), "{error}");
    }

    #[test]
    fn another_first_line_is_refused() {
        let scratch = Scratch::new("server-words").unwrap();
        let error = Server::start(&pretender(&scratch, "echo hello; sleep 60")).unwrap_err();
        assert!(matches!(&error, ServerError::BadReady { line } if line == "hello"), "{error}");
    }

    #[test]
    fn kill9_ends_what_ignores_sigterm() {
        let scratch = Scratch::new("server-kill").unwrap();
        let script = format!("trap '' TERM; echo '{READY}'; while :; do sleep 0.01; done");
        let server = Server::start(&pretender(&scratch, &script)).unwrap();
        assert_eq!(server.kill9().unwrap().code(), None);
    }

    #[test]
    fn a_start_is_killed_midway_and_an_end_before_that_is_told() {
        let scratch = Scratch::new("server-midway").unwrap();
        let starting = pretender(&scratch, "sleep 60");
        assert_eq!(Server::start_and_kill(&starting, Duration::from_millis(10)).unwrap(), None);
        let failing = pretender(&scratch, "exit 3");
        let ended = Server::start_and_kill(&failing, Duration::from_secs(1)).unwrap();
        assert_eq!(ended.and_then(|status| status.code()), Some(3));
    }

    #[test]
    fn arguments_name_free_ports_and_settings_in_order() {
        let mut options = ServerOptions::below(Path::new("/x"));
        options.shards = Some(4);
        options.set = vec!["commitlog_sync=batch".to_owned()];
        let arguments = options.arguments().join(" ");
        assert_eq!(
            arguments,
            "--overprovisioned --port 0 --shard-aware-port 0 --admin-port 0 --data-dir /x/data --shards 4 \
             --set commitlog_sync=batch"
        );
    }
}
