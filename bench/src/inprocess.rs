//! `bench inprocess`: requests through the whole server in one thread, over the simulated half of `io`: frames are
//! decoded, planned, executed and answered, with no kernel on the way. What the simulator and the client cost is
//! measured by a floor: a node that answers with as many bytes and does nothing else.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use helenus::commitlog::{LogConfig, SyncMode};
use helenus::io::sim::{Faults, Simulation};
use helenus::io::{Io, Mesh, Stream, TaskClass};
use helenus::net::{Limits, Net, listen};
use helenus::protocol::client::requests::{put_execute, put_prepare, put_query, put_startup};
use helenus::protocol::client::{Answer, Parameters, Response, ResultBody};
use helenus::protocol::frame::BODY_BYTES_MAX;
use helenus::protocol::{FrameDecoder, FrameEncoder, Opcode, ProtocolVersion, Value};
use helenus::router::message::Message;
use helenus::server::boot::{NodeConfig, boot};

use crate::alloc::allocations;

/// Requests in flight: so many go out with each send.
pub const WINDOW: u64 = 64;
/// Rows in the table, whole windows.
const ROWS: u64 = 16 * WINDOW;
const VERSION: ProtocolVersion = ProtocolVersion::V4;
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9042);

/// What is asked again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
        }
    }
}

/// `inprocess read|write|read-floor|write-floor OPERATIONS`, as a process of its own for a profiler.
pub fn run(arguments: &[String]) -> Result<(), String> {
    let [name, operations] = arguments else { return Err("bench inprocess: KIND OPERATIONS are needed".into()) };
    let (kind, floor) = match name.as_str() {
        "read" => (Kind::Read, false),
        "write" => (Kind::Write, false),
        "read-floor" => (Kind::Read, true),
        "write-floor" => (Kind::Write, true),
        _ => return Err(format!("bench inprocess: {name} is not read, write, read-floor or write-floor")),
    };
    let operations = operations.parse::<u64>().ok().filter(|count| *count > 0 && count % WINDOW == 0);
    let operations = operations.ok_or(format!("bench inprocess: OPERATIONS is a multiple of {WINDOW}"))?;
    println!("{:.3} allocations an operation", allocations_of(kind, floor, operations)? as f64 / operations as f64);
    Ok(())
}

/// Heap allocations of so many operations, by the node, the simulator and the client together.
pub fn allocations_of(kind: Kind, floor: bool, operations: u64) -> Result<u64, String> {
    let sim = Simulation::new(1, Faults::NONE);
    sim.set_steps_max(u64::MAX);
    let client = sim.client();
    let ready = start(&sim);
    sim.run_until(|| ready.get()).map_err(|halted| halted.to_string())?;
    let prepared = sim.run_client({
        let client = client.clone();
        async move {
            let stream = client.connect(ADDRESS).map_err(|error| error.to_string())?;
            Client::new(stream).prepare(kind).await
        }
    });
    let Prepared { mut client_half, windows, answer_bytes } = prepared.map_err(|halted| halted.to_string())??;
    if floor {
        let request_bytes = windows[0].len() / WINDOW as usize;
        drop(client_half);
        let null = Simulation::new(1, Faults::NONE);
        null.set_steps_max(u64::MAX);
        let _outside = null.start::<(), _, _>(1, move |io, _mesh| answer_only(io, request_bytes, answer_bytes));
        // One turn of the clock, so that it listens.
        null.run_for(Duration::from_millis(1)).map_err(|halted| halted.to_string())?;
        let stream = null.client().connect(ADDRESS).map_err(|error| error.to_string())?;
        let measured = null.run_client(exchange(Client::new(stream), windows, answer_bytes, operations));
        return measured.map_err(|halted| halted.to_string())?;
    }
    client_half.received.clear();
    let measured = sim.run_client(exchange(client_half, windows, answer_bytes, operations));
    measured.map_err(|halted| halted.to_string())?
}

/// Starts a node of one shard; the cell turns true when it listens.
fn start(sim: &Simulation) -> Rc<Cell<bool>> {
    let ready = Rc::new(Cell::new(false));
    let tell = ready.clone();
    let _outside = sim.start::<Message, _, _>(1, move |io, mesh| serve(io, mesh, tell.clone()));
    ready
}

async fn serve(io: Io, mesh: Mesh<Message>, ready: Rc<Cell<bool>>) {
    let booted = boot(io.clone(), mesh, &config()).await.expect("an empty directory boots");
    let net = Net::new(io.clone(), booted.router.clone(), Limits::default(), booted.local);
    io.spawn(TaskClass::Foreground, booted.router.clone().run(booted.early));
    listen(&net, ADDRESS.ip(), ADDRESS.port(), 19042).await.expect("the simulated port is free");
    ready.set(true);
    booted.router.closed().await;
}

fn config() -> NodeConfig {
    let log = LogConfig {
        segment_bytes: 4 << 20,
        total_bytes: 1 << 30,
        mode: SyncMode::Periodic { period: Duration::from_secs(10) },
        ..LogConfig::default()
    };
    NodeConfig::simulated(log, Duration::from_secs(30))
}

/// The floor's node: so many bytes back for so many received, and nothing else.
async fn answer_only(io: Io, request_bytes: usize, answer_bytes: usize) {
    let listener = io.listen(ADDRESS).await.expect("the simulated port is free");
    let accepted = listener.accept().await.expect("a client connects");
    let stream = io.adopt(accepted).expect("it is still there");
    let (mut received, mut out) = (Vec::with_capacity(64 << 10), Vec::new());
    loop {
        let (buffer, outcome) = stream.recv(received).await;
        received = buffer;
        if !matches!(outcome, Ok(1..)) {
            return;
        }
        let requests = received.len() / request_bytes;
        let left = received.len() % request_bytes;
        received.truncate(left);
        out.clear();
        out.resize(requests * answer_bytes, 0);
        let (buffer, outcome) = stream.send_all(out).await;
        out = buffer;
        if outcome.is_err() {
            return;
        }
    }
}

/// Sends window after window, each when the one before is answered, and counts allocations.
async fn exchange(
    client: Client,
    mut windows: Vec<Vec<u8>>,
    answer_bytes: usize,
    operations: u64,
) -> Result<u64, String> {
    let Client { stream, mut received, .. } = client;
    received.reserve(256 << 10);
    let before = allocations();
    for round in 0..operations / WINDOW {
        let at = (round % windows.len() as u64) as usize;
        let (buffer, outcome) = stream.send_all(std::mem::take(&mut windows[at])).await;
        windows[at] = buffer;
        outcome.map_err(|error| error.to_string())?;
        let mut missing = answer_bytes * WINDOW as usize;
        while missing > 0 {
            received.clear();
            let (buffer, outcome) = stream.recv(received).await;
            received = buffer;
            let got = outcome.map_err(|error| error.to_string())?;
            missing = missing.checked_sub(got).filter(|_| got > 0).ok_or("an answer of another size")?;
        }
    }
    Ok(allocations() - before)
}

/// The client's end of a connection.
struct Client {
    stream: Stream,
    encoder: FrameEncoder,
    decoder: FrameDecoder,
    received: Vec<u8>,
}

/// A client that has filled the table, with the windows to send and the size of each answer.
struct Prepared {
    client_half: Client,
    windows: Vec<Vec<u8>>,
    answer_bytes: usize,
}

/// The statements of W1 (see the helenus-stress tool): a 10-byte key and five 34-byte columns.
const SETUP: [&str; 2] = [
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
    "CREATE TABLE k.t (key blob PRIMARY KEY, c0 blob, c1 blob, c2 blob, c3 blob, c4 blob)",
];
const WRITE: &str = "UPDATE k.t SET c0 = ?, c1 = ?, c2 = ?, c3 = ?, c4 = ? WHERE key = ?";
const READ: &str = "SELECT c0, c1, c2, c3, c4 FROM k.t WHERE key = ?";

impl Client {
    fn new(stream: Stream) -> Self {
        Client {
            stream,
            encoder: FrameEncoder::requests(VERSION),
            decoder: FrameDecoder::responses(BODY_BYTES_MAX),
            received: Vec::with_capacity(64 << 10),
        }
    }

    /// Makes and fills the table.
    async fn prepare(mut self, kind: Kind) -> Result<Prepared, String> {
        self.ask(Opcode::Startup, |out| put_startup(&[("CQL_VERSION", "3.0.0")], out)).await?;
        for text in SETUP {
            self.ask(Opcode::Query, |out| put_query(VERSION, text, &Parameters::default(), out)).await?;
        }
        let write = self.ask(Opcode::Prepare, |out| put_prepare(VERSION, WRITE, None, out)).await?.id;
        let read = self.ask(Opcode::Prepare, |out| put_prepare(VERSION, READ, None, out)).await?.id;
        let mut writes = self.windows(&write, Kind::Write);
        let mut answer_bytes = 0;
        for window in &mut writes {
            answer_bytes = self.send_window(window).await?;
        }
        let windows = match kind {
            Kind::Write => writes,
            Kind::Read => {
                let mut reads = self.windows(&read, Kind::Read);
                answer_bytes = self.send_window(&mut reads[0]).await?;
                reads
            }
        };
        Ok(Prepared { client_half: self, windows, answer_bytes })
    }

    /// Every row's request, a window a buffer.
    fn windows(&mut self, id: &[u8], kind: Kind) -> Vec<Vec<u8>> {
        (0..ROWS / WINDOW)
            .map(|window| {
                let mut out = Vec::new();
                for at in 0..WINDOW {
                    let key = format!("{:010X}", window * WINDOW + at);
                    let column = [at as u8; 34];
                    let write = [Value::Bytes(&column); 5].into_iter().chain([Value::Bytes(key.as_bytes())]);
                    let values: Vec<Value<'_>> = match kind {
                        Kind::Write => write.collect(),
                        Kind::Read => vec![Value::Bytes(key.as_bytes())],
                    };
                    let parameters = Parameters { values: &values, skip_metadata: true, ..Parameters::default() };
                    let frame = self.encoder.begin(&mut out, at as i16, Opcode::Execute);
                    put_execute(VERSION, id, &[], &parameters, &mut out);
                    self.encoder.finish(&mut out, frame);
                }
                out
            })
            .collect()
    }

    /// Sends a window and takes its answers, which are good and all of one size: that size.
    async fn send_window(&mut self, window: &mut Vec<u8>) -> Result<usize, String> {
        let (buffer, outcome) = self.stream.send_all(std::mem::take(window)).await;
        *window = buffer;
        outcome.map_err(|error| error.to_string())?;
        let mut size = None;
        for _ in 0..WINDOW {
            let (_, bytes) = self.answer().await?;
            if *size.get_or_insert(bytes) != bytes {
                return Err("answers of two sizes".into());
            }
        }
        size.ok_or_else(|| "a window without requests".into())
    }

    async fn ask(&mut self, opcode: Opcode, put: impl FnOnce(&mut Vec<u8>)) -> Result<Asked, String> {
        let mut out = Vec::new();
        let frame = self.encoder.begin(&mut out, 0, opcode);
        put(&mut out);
        self.encoder.finish(&mut out, frame);
        let (_, outcome) = self.stream.send_all(out).await;
        outcome.map_err(|error| error.to_string())?;
        self.answer().await.map(|(asked, _)| asked)
    }

    /// The next answer and its size on the wire. An error where it is one.
    async fn answer(&mut self) -> Result<(Asked, usize), String> {
        loop {
            let step = self.decoder.next(&self.received).map_err(|error| error.error.message().to_owned())?;
            let consumed = step.consumed;
            if let Some(frame) = step.frame {
                let size = helenus::protocol::frame::HEADER_BYTES + frame.body.len();
                let asked = match Answer::decode(&frame).map_err(|error| error.to_string())?.response {
                    Response::Error(error) => return Err(error.message().to_owned()),
                    Response::Result(ResultBody::Prepared(prepared)) => Asked { id: prepared.id },
                    Response::Result(ResultBody::Rows(rows)) if rows.row_count != 1 => {
                        return Err(format!("{} rows instead of one", rows.row_count));
                    }
                    _ => Asked { id: Vec::new() },
                };
                self.received.drain(..consumed);
                return Ok((asked, size));
            }
            self.received.drain(..consumed);
            self.received.reserve(64 << 10);
            let (buffer, outcome) = self.stream.recv(std::mem::take(&mut self.received)).await;
            self.received = buffer;
            if outcome.map_err(|error| error.to_string())? == 0 {
                return Err("the node closed the connection".into());
            }
        }
    }
}

/// What an answer says that is of use later.
struct Asked {
    /// Of a prepared statement; else empty.
    id: Vec<u8>,
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn reads_and_writes_go_through_and_cost_more_than_the_floor() {
        for kind in [Kind::Read, Kind::Write] {
            let operations = 4 * WINDOW;
            let node = allocations_of(kind, false, operations).unwrap();
            let floor = allocations_of(kind, true, operations).unwrap();
            assert!(node >= floor, "{}: {node} allocations, {floor} of them the floor's", kind.name());
        }
    }

    #[test]
    fn what_is_not_a_run_is_told() {
        let run = |words: &[&str]| run(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
        assert!(run(&[]).unwrap_err().contains("needed"));
        assert!(run(&["scan", "64"]).unwrap_err().contains("scan"));
        assert!(run(&["read", "65"]).unwrap_err().contains("multiple"));
    }
}
