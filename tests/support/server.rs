//! The server as it is built, as a process.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server on free ports with a directory of its own; killed and removed when dropped.
pub struct Server {
    child: Child,
    directory: PathBuf,
    pub cql: SocketAddr,
    pub admin: SocketAddr,
}

impl Server {
    /// Starts a server of two shards with these arguments besides, and waits until it is ready.
    pub fn start(name: &str, arguments: &[&str]) -> Server {
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _absent = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        let log = std::fs::File::create(directory.join("server.log")).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_helenus"))
            .args(["--overprovisioned", "--shards", "2", "--port", "0", "--shard-aware-port", "0"])
            .args(["--set", "write_request_timeout=60s", "--set", "read_request_timeout=60s"])
            .args(["--admin-port", "0", "--data-dir"])
            .arg(directory.join("data"))
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = |name: &str| {
            let found = line.split_whitespace().find_map(|word| word.strip_prefix(name)).map(|text| text.parse());
            found.and_then(Result::ok).unwrap_or_else(|| {
                panic!("not ready: {line:?}\n{}", std::fs::read_to_string(directory.join("server.log")).unwrap())
            })
        };
        let (cql, admin) = (address("cql="), address("admin="));
        Server { child, directory, cql, admin }
    }

    /// What `nodetool` does: a request to the admin endpoint. The body of its answer.
    pub fn operate(&self, method: &str, path: &str) -> String {
        let (status, body) = self.ask_admin(method, path, "");
        assert_eq!(status, 200, "{method} {path}: {body}");
        body
    }

    /// A request to the admin endpoint with what follows its lines of Host and Connection: headers, an empty line, a body.
    /// The status and the body of its answer.
    pub fn ask_admin(&self, method: &str, path: &str, rest: &str) -> (u16, String) {
        let (admin, rest) = (self.admin, if rest.is_empty() { "\r\n" } else { rest });
        self.send_admin(&format!("{method} {path} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n{rest}"))
    }

    /// These bytes to the admin endpoint. The status and the body of its answer.
    pub fn send_admin(&self, request: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer:?}"));
        let status = head.strip_prefix("HTTP/1.1 ").and_then(|head| head.get(..3)).and_then(|code| code.parse().ok());
        (status.unwrap_or_else(|| panic!("no status: {head}")), body.to_owned())
    }

    pub fn data_dir(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The sum over all shards of a metric.
    pub fn metric(&self, name: &str) -> u64 {
        let text = self.operate("GET", "/metrics");
        let samples = text.lines().filter(|line| line.split('{').next() == Some(name));
        samples.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    /// Resident memory.
    pub fn resident_bytes(&self) -> u64 {
        let statm = std::fs::read_to_string(format!("/proc/{}/statm", self.child.id())).unwrap();
        statm.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _killed = self.child.kill();
        let _waited = self.child.wait();
        if !std::thread::panicking() {
            let _removed = std::fs::remove_dir_all(&self.directory);
        }
    }
}
