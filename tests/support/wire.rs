//! A client that speaks in frames, over the simulated network, to a whole node there.

use std::cell::Cell;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use futures_util::future::{Either, select};
use helenus::base::ids::ShardId;
use helenus::commitlog::{LogConfig, SyncMode};
use helenus::io::sim::{Faults, Simulation};
use helenus::io::{Io, Mesh, Outside, Stream, TaskClass};
use helenus::net::{Limits, Net, listen};
use helenus::protocol::client::requests::{put_query, put_startup};
use helenus::protocol::client::{Answer, Parameters, Response, ResultBody};
use helenus::protocol::frame::BODY_BYTES_MAX;
use helenus::protocol::{CqlError, ErrorCode, FrameDecoder, FrameEncoder, Framing, Opcode, ProtocolVersion, Value};
use helenus::router::message::{Message, Operation, Reply, Request};
use helenus::router::{ShardReport, Timeouts};
use helenus::server::boot::{NodeConfig, boot};

const PORT: u16 = 9042;
const SHARD_AWARE_PORT: u16 = 19042;

/// A node in the simulation.
pub struct Node {
    pub sim: Simulation,
    outside: Outside<Message>,
    shards: u16,
}

impl Node {
    /// Starts a node under these limits, and waits until it listens.
    pub fn start(shards: u16, limits: Limits) -> Node {
        Node::start_with(shards, limits, Timeouts::all(Duration::from_secs(3600)))
    }

    /// The same, with its own patience with requests.
    pub fn start_with(shards: u16, limits: Limits, timeouts: Timeouts) -> Node {
        let sim = Simulation::new(1, Faults::NONE);
        sim.set_steps_max(u64::MAX);
        let serving = Rc::new(Cell::new(0));
        let tell = serving.clone();
        let outside =
            sim.start::<Message, _, _>(shards, move |io, mesh| serve(io, mesh, limits.clone(), timeouts, tell.clone()));
        sim.run_until(|| serving.get() == shards).unwrap();
        Node { sim, outside, shards }
    }

    /// Begins an operator's command; what comes of it is there to look at once the node has run on.
    pub fn operate(&self, operation: Operation) -> Receiver<Result<Reply, CqlError>> {
        let (sender, receiver) = channel();
        let answer = Box::new(move |reply| drop(sender.send(reply)));
        self.outside.send(ShardId(0), Message::Outside { request: Request::Everywhere(operation), answer });
        receiver
    }

    /// Connections open, as each shard counts them.
    pub fn connections(&self) -> Vec<u64> {
        self.reports().iter().map(|report| report.connections).collect()
    }

    /// A counter or gauge of all shards together.
    pub fn metric(&self, name: &str) -> u64 {
        let of = |report: &ShardReport| report.counters.iter().find(|(found, _)| *found == name).unwrap().1;
        self.reports().iter().map(of).sum()
    }

    /// Every shard's figures.
    fn reports(&self) -> Vec<ShardReport> {
        let ask = |shard| {
            let (sender, receiver) = channel();
            let answer = Box::new(move |reply| drop(sender.send(reply)));
            self.outside.send(ShardId(shard), Message::Outside { request: Request::Report, answer });
            self.sim.run_for(Duration::from_millis(1)).unwrap();
            match receiver.try_recv().unwrap() {
                Ok(Reply::Report(mut reports)) => reports.remove(0),
                other => panic!("{other:?}"),
            }
        };
        (0..self.shards).map(ask).collect()
    }

    /// An operator's flush of every table.
    pub fn flush(&self) {
        let operation = Operation::Flush { keyspace: None, tables: Vec::new() };
        let answer = Box::new(|reply: Result<Reply, CqlError>| assert!(reply.is_ok(), "{reply:?}"));
        self.outside.send(ShardId(0), Message::Outside { request: Request::Everywhere(operation), answer });
        self.sim.run_for(Duration::from_secs(10)).unwrap();
    }

    /// Runs what a client does to its end, which comes within ten minutes of the node's time.
    pub fn run<F: Future + 'static>(&self, task: F) -> F::Output {
        let late = self.sim.client_io().sleep(Duration::from_secs(600));
        let bounded = async move {
            match select(pin!(task), pin!(late)).await {
                Either::Left((output, _)) => output,
                Either::Right(_) => panic!("the client waits for ever"),
            }
        };
        self.sim.run_client(bounded).unwrap()
    }

    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.sim.client_io().spawn(TaskClass::Foreground, task);
    }

    /// A client that is connected and has sent nothing.
    pub fn connect(&self, version: ProtocolVersion) -> Client {
        self.connect_to(PORT, version)
    }

    pub fn connect_to_shard_aware(&self, version: ProtocolVersion) -> Client {
        self.connect_to(SHARD_AWARE_PORT, version)
    }

    fn connect_to(&self, port: u16, version: ProtocolVersion) -> Client {
        let stream = self.sim.client().connect(SocketAddr::from(([127, 0, 0, 1], port))).unwrap();
        Client {
            stream,
            version,
            encoder: FrameEncoder::requests(version),
            decoder: FrameDecoder::responses(BODY_BYTES_MAX),
            out: Vec::new(),
            received: Vec::new(),
        }
    }

    /// A client that has started.
    pub fn started(&self, version: ProtocolVersion) -> Client {
        let mut client = self.connect(version);
        self.run(async move {
            client.start().await;
            client
        })
    }
}

async fn serve(io: Io, mesh: Mesh<Message>, limits: Limits, timeouts: Timeouts, serving: Rc<Cell<u16>>) {
    let booted = boot(io.clone(), mesh, &config(timeouts)).await.unwrap();
    let net = Net::new(io.clone(), booted.router.clone(), limits, booted.local);
    io.spawn(TaskClass::Foreground, booted.router.clone().run(booted.early));
    if io.shard_id() == ShardId(0) {
        listen(&net, [127, 0, 0, 1].into(), PORT, SHARD_AWARE_PORT).await.unwrap();
    }
    serving.set(serving.get() + 1);
    booted.router.closed().await;
}

fn config(timeouts: Timeouts) -> NodeConfig {
    let log = LogConfig { segment_bytes: 4 << 20, total_bytes: 1 << 30, mode: SyncMode::Batch, ..LogConfig::default() };
    NodeConfig { timeouts, ..NodeConfig::simulated(log, Duration::from_secs(3600)) }
}

/// What came for a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Got {
    /// READY, SUPPORTED, or a result, with its size.
    Fine(usize),
    Error(ErrorCode, String),
}

impl Got {
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Got::Fine(_) => None,
            Got::Error(code, _) => Some(*code),
        }
    }
}

/// One connection of a client.
pub struct Client {
    pub stream: Stream,
    version: ProtocolVersion,
    encoder: FrameEncoder,
    decoder: FrameDecoder,
    /// Encoded and not sent.
    pub out: Vec<u8>,
    received: Vec<u8>,
}

impl Client {
    pub async fn start(&mut self) {
        self.put(0, Opcode::Startup, |_, out| put_startup(&[("CQL_VERSION", "3.0.0")], out));
        self.send().await;
        assert!(matches!(self.answer().await, Some((0, Got::Fine(_)))));
        let framing = Framing::after_startup(self.version, None).unwrap();
        self.encoder.set_framing(framing);
        self.decoder.set_framing(framing);
    }

    /// Encodes a request.
    pub fn put(&mut self, stream: i16, opcode: Opcode, body: impl FnOnce(ProtocolVersion, &mut Vec<u8>)) {
        let frame = self.encoder.begin(&mut self.out, stream, opcode);
        body(self.version, &mut self.out);
        self.encoder.finish(&mut self.out, frame);
    }

    /// Encodes a statement with its values.
    pub fn query(&mut self, stream: i16, text: &str, values: &[Value<'_>]) {
        let parameters = Parameters { values, ..Parameters::default() };
        self.put(stream, Opcode::Query, |version, out| put_query(version, text, &parameters, out));
    }

    /// What is encoded, as it goes over the wire.
    pub fn sealed(&mut self) -> Vec<u8> {
        self.encoder.seal(&mut self.out);
        std::mem::take(&mut self.out)
    }

    /// Sends what is encoded. Whether the server took it.
    pub async fn send(&mut self) -> bool {
        let bytes = self.sealed();
        self.stream.send_all(bytes).await.1.is_ok()
    }

    /// The next answer with its stream; `None` once the server has closed.
    pub async fn answer(&mut self) -> Option<(i16, Got)> {
        self.answer_as(|response, bytes| match response {
            Response::Error(error) => Got::Error(error.code(), error.message().to_owned()),
            _ => Got::Fine(bytes),
        })
        .await
    }

    /// The first values of the rows of one page of a statement, and where the next page starts.
    pub async fn page(&mut self, text: &str, page_size: i32, state: Option<&[u8]>) -> (Vec<Vec<u8>>, Option<Vec<u8>>) {
        let parameters = Parameters { page_size: Some(page_size), paging_state: state, ..Parameters::default() };
        self.put(1, Opcode::Query, |version, out| put_query(version, text, &parameters, out));
        assert!(self.send().await);
        let page = self.answer_as(|response, _| match response {
            Response::Result(ResultBody::Rows(rows)) => {
                let first = |row: Vec<Option<&[u8]>>| row[0].unwrap_or_default().to_vec();
                (rows.iter().map(first).collect(), rows.paging_state.map(<[u8]>::to_vec))
            }
            other => panic!("{other:?}"),
        });
        page.await.unwrap().1
    }

    async fn answer_as<T>(&mut self, take: impl Fn(&Response<'_>, usize) -> T) -> Option<(i16, T)> {
        loop {
            let step = self.decoder.next(&self.received).unwrap_or_else(|refused| panic!("{:?}", refused.error));
            let consumed = step.consumed;
            let got = step.frame.map(|frame| {
                assert_eq!(frame.version, self.version);
                (frame.stream, take(&Answer::decode(&frame).unwrap().response, frame.body.len()))
            });
            self.received.drain(..consumed);
            if got.is_some() {
                return got;
            }
            self.received.reserve(64 << 10);
            let (buffer, outcome) = self.stream.recv(std::mem::take(&mut self.received)).await;
            self.received = buffer;
            if !matches!(outcome, Ok(1..)) {
                return None;
            }
        }
    }

    /// Sends a statement and waits for its answer.
    pub async fn ask(&mut self, text: &str, values: &[Value<'_>]) -> Got {
        self.query(1, text, values);
        assert!(self.send().await);
        let (stream, got) = self.answer().await.unwrap();
        assert_eq!(stream, 1);
        got
    }
}
