//! A server for tests: it speaks the protocol, keeps nothing, and counts what it is asked.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use helenus::protocol::frame::BODY_BYTES_MAX;
use helenus::protocol::wire::{put_bytes, put_count, put_int, put_len, put_short, put_short_bytes, put_string};
use helenus::protocol::{
    Batch, Compression, CqlError, ErrorFields, FrameDecoder, FrameEncoder, Framing, Opcode, ProtocolVersion, Request,
    StatementRef, Values,
};

use crate::poll::Poll;

/// A row of `system_schema.columns`: name, kind, position, type.
pub type SchemaColumn = (&'static str, &'static str, i32, &'static str);

/// How the server behaves.
#[derive(Clone, Default)]
pub struct Behaviour {
    /// What it says of any table.
    pub columns: Vec<SchemaColumn>,
    /// Pages of every SELECT, each of two rows; without them one row, the values of the key's own row where it was
    /// written.
    pub pages: u8,
    /// Every so many executions are refused; 0: none.
    pub refuses_every: u64,
    /// Every so many executions the statement is not known any more; 0: never.
    pub forgets_every: u64,
    /// After so many executions it closes all connections; 0: never.
    pub closes_after: u64,
    /// Where the shard-aware port is and how many shards there are.
    pub shards: Option<u16>,
    /// The core of the server's thread.
    pub core: Option<usize>,
    /// Keeps no account of what it is asked.
    pub forgets: bool,
}

/// What the server was asked.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    pub texts: Vec<String>,
    pub executions: u64,
    pub batches: u64,
    pub batch_entries: u64,
    /// The values of every execution, of batches too.
    pub values: Vec<Vec<Option<Vec<u8>>>>,
    /// Executions by the port that their connection came from.
    pub by_port: std::collections::BTreeMap<u16, u64>,
}

pub struct Server {
    pub address: SocketAddr,
    asked: Arc<Mutex<Asked>>,
    stop: Arc<AtomicBool>,
    cpu_ns: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Server {
    pub fn start(behaviour: Behaviour) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (asked, stop) = (Arc::new(Mutex::new(Asked::default())), Arc::new(AtomicBool::new(false)));
        let (accepted, sockets) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        let accepts = std::thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                if stopped.load(Ordering::Relaxed) || accepted.send(socket).is_err() {
                    break;
                }
            }
        });
        let (shared, stopped) = (Arc::clone(&asked), Arc::clone(&stop));
        let cpu_ns = Arc::new(AtomicU64::new(0));
        let used = Arc::clone(&cpu_ns);
        let serves = std::thread::spawn(move || {
            if let Some(id) = behaviour.core {
                core_affinity::set_for_current(core_affinity::CoreId { id });
            }
            serve(&behaviour, address.port(), &sockets, &shared, (&stopped, &used));
        });
        Server { address, asked, stop, cpu_ns, threads: vec![accepts, serves] }
    }

    /// CPU that the thread which answers has used.
    pub fn cpu_ns(&self) -> u64 {
        self.cpu_ns.load(Ordering::Relaxed)
    }

    /// What a command line needs to reach it.
    pub fn node(&self) -> String {
        format!("-node 127.0.0.1 -port native={}", self.address.port())
    }

    pub fn asked(&self) -> Asked {
        self.asked.lock().expect("no test holds it").clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
        for thread in self.threads.drain(..) {
            assert!(thread.join().is_ok() || std::thread::panicking(), "the test's server panicked");
        }
    }
}

/// A clock's time.
pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is whole for the length of the call.
    let result = unsafe { libc::clock_gettime(clock, &raw mut now) };
    assert_eq!(result, 0, "a clock that every Linux has");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

struct Client {
    socket: TcpStream,
    port: u16,
    decoder: FrameDecoder,
    encoder: FrameEncoder,
    received: Vec<u8>,
    out: Vec<u8>,
}

fn serve(
    behaviour: &Behaviour,
    port: u16,
    sockets: &Receiver<TcpStream>,
    asked: &Mutex<Asked>,
    (stop, cpu_ns): (&AtomicBool, &AtomicU64),
) {
    let (mut clients, mut poll) = (Vec::<Option<Client>>::new(), Poll::default());
    let mut state = State { behaviour, port, texts: Vec::new(), executions: 0, closed: false };
    while !stop.load(Ordering::Relaxed) {
        while let Ok(socket) = sockets.try_recv() {
            socket.set_nonblocking(true).expect("a socket");
            socket.set_nodelay(true).expect("a socket");
            poll.add(&socket);
            let port = socket.peer_addr().map_or(0, |peer| peer.port());
            let (decoder, encoder) =
                (FrameDecoder::requests(BODY_BYTES_MAX), FrameEncoder::responses(ProtocolVersion::V5));
            let (received, out) = (Vec::new(), Vec::new());
            clients.push(Some(Client { socket, port, decoder, encoder, received, out }));
        }
        cpu_ns.store(clock_ns(libc::CLOCK_THREAD_CPUTIME_ID), Ordering::Relaxed);
        poll.wait(Duration::from_millis(2)).expect("poll");
        for (at, slot) in clients.iter_mut().enumerate() {
            let Some(client) = slot else { continue };
            if state.closed || (poll.is_ready(at) && !client.turn(&mut state, asked)) {
                // A closed socket stays ready: it is not looked at again.
                poll.forget(at);
                *slot = None;
            }
        }
    }
}

impl Client {
    /// Answers what has come. False where the client is gone.
    fn turn(&mut self, state: &mut State<'_>, asked: &Mutex<Asked>) -> bool {
        let mut buffer = [0; 64 << 10];
        match self.socket.read(&mut buffer) {
            Ok(0) => return false,
            Ok(count) => self.received.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return true,
            Err(_) => return false,
        }
        let mut from = 0;
        let Client { decoder, encoder, received, out, port, .. } = self;
        loop {
            let step = decoder.next(&received[from..]).unwrap_or_else(|error| panic!("{}", error.error.message()));
            from += step.consumed;
            let Some(frame) = step.frame else { break };
            encoder.set_version(frame.version);
            let request = frame.request().unwrap_or_else(|error| panic!("{}", error.message()));
            let framing = state.answer(*port, frame.version, frame.stream, &request, encoder, out, asked);
            if let Some(framing) = framing {
                encoder.set_framing(framing);
                decoder.set_framing(framing);
            }
        }
        self.received.drain(..from);
        self.encoder.seal(&mut self.out);
        let sent = self.socket.set_nonblocking(false).and_then(|()| self.socket.write_all(&self.out));
        self.out.clear();
        sent.and_then(|()| self.socket.set_nonblocking(true)).is_ok()
    }
}

struct State<'a> {
    behaviour: &'a Behaviour,
    port: u16,
    /// Prepared statements; an id is the place.
    texts: Vec<String>,
    executions: u64,
    closed: bool,
}

impl State<'_> {
    #[expect(clippy::too_many_arguments, reason = "one call")]
    fn answer(
        &mut self,
        from_port: u16,
        version: ProtocolVersion,
        stream: i16,
        request: &Request<'_>,
        encoder: &mut FrameEncoder,
        out: &mut Vec<u8>,
        asked: &Mutex<Asked>,
    ) -> Option<Framing> {
        let mut log = (!self.behaviour.forgets).then(|| asked.lock().expect("no test holds it"));
        let (mut opcode, mut body, mut framing) = (Opcode::Result, Vec::new(), None);
        match request {
            Request::Options => {
                opcode = Opcode::Supported;
                self.put_supported(from_port, &mut body);
            }
            Request::Startup(startup) => {
                opcode = Opcode::Ready;
                let named = startup.options.iter().find(|(name, _)| *name == "COMPRESSION");
                let compression = named.and_then(|(_, name)| Compression::from_name(name));
                framing = Framing::after_startup(version, compression).ok();
            }
            Request::Query(query) => {
                if let Some(log) = &mut log {
                    log.texts.push(query.text.to_owned());
                }
                self.put_result(query.text, &[], None, &mut body);
            }
            Request::Prepare(prepare) => {
                let known = self.texts.iter().position(|text| text == prepare.text);
                let at = known.unwrap_or_else(|| {
                    self.texts.push(prepare.text.to_owned());
                    self.texts.len() - 1
                });
                put_prepared(version, at, prepare.text, &mut body);
            }
            Request::Execute(execute) => {
                if let Some(error) = self.refusal(execute.id) {
                    encoder.error(out, stream, &error);
                    return None;
                }
                let values = cells(execute.parameters.values);
                if let Some(log) = &mut log {
                    log.executions += 1;
                    *log.by_port.entry(from_port).or_default() += 1;
                    log.values.push(owned(&values));
                }
                let text = self.texts[id_place(execute.id)].clone();
                self.put_result(&text, &values, execute.parameters.paging_state, &mut body);
            }
            Request::Batch(batch) => {
                if let Some(log) = &mut log {
                    self.count_batch(batch, log);
                }
                put_int(&mut body, 1);
            }
            other => panic!("the tool asks {other:?}"),
        }
        let frame = encoder.begin(out, stream, opcode);
        out.extend_from_slice(&body);
        encoder.finish(out, frame);
        framing
    }

    /// Counts an execution, and says how it is refused, if it is. What comes after the connections close is answered
    /// with an error that nobody reads.
    fn refusal(&mut self, id: &[u8]) -> Option<CqlError> {
        self.executions += 1;
        let is_every = |every: u64| every > 0 && self.executions.is_multiple_of(every);
        let Behaviour { refuses_every, forgets_every, closes_after, .. } = self.behaviour;
        let (refuses_every, forgets_every, closes_after) = (*refuses_every, *forgets_every, *closes_after);
        self.closed |= closes_after > 0 && self.executions > closes_after;
        if self.closed || is_every(refuses_every) {
            return Some(CqlError::overloaded("busy"));
        }
        let fields = ErrorFields::Unprepared { id: id.to_vec() };
        is_every(forgets_every).then(|| CqlError::with_fields("forgotten", fields))
    }

    fn count_batch(&self, batch: &Batch<'_>, log: &mut Asked) {
        log.batches += 1;
        for entry in batch.statements() {
            assert!(matches!(entry.statement, StatementRef::Prepared(id) if id_place(id) < self.texts.len()));
            log.batch_entries += 1;
            log.values.push(owned(&cells(entry.values)));
        }
    }

    fn put_supported(&self, from_port: u16, body: &mut Vec<u8>) {
        let Some(shards) = self.behaviour.shards else { return put_count(body, 0) };
        let options = [
            ("SCYLLA_SHARD", (from_port % shards).to_string()),
            ("SCYLLA_NR_SHARDS", shards.to_string()),
            ("SCYLLA_SHARDING_IGNORE_MSB", "8".to_owned()),
            ("SCYLLA_SHARDING_ALGORITHM", "biased-token-round-robin".to_owned()),
            ("SCYLLA_SHARD_AWARE_PORT", self.port.to_string()),
        ];
        put_count(body, options.len());
        for (name, value) in options {
            put_string(body, name);
            put_count(body, 1);
            put_string(body, &value);
        }
    }

    fn put_result(&self, text: &str, values: &[Option<&[u8]>], state: Option<&[u8]>, body: &mut Vec<u8>) {
        if !text.starts_with("SELECT") && !text.starts_with("select") {
            return put_int(body, 1); // void
        }
        if text.contains("system_schema.columns") {
            return self.put_columns(body);
        }
        let page = state.and_then(|state| state.first()).copied().unwrap_or(0);
        let more = page + 1 < self.behaviour.pages;
        put_int(body, 2);
        put_int(body, 4 | if more { 2 } else { 0 }); // no metadata; more pages
        put_int(body, 1);
        if more {
            put_bytes(body, Some(&[page + 1]));
        }
        let rows = if self.behaviour.pages > 0 { 2 } else { 1 };
        put_int(body, rows);
        for _ in 0..rows {
            put_bytes(body, values.first().copied().flatten());
        }
    }

    fn put_columns(&self, body: &mut Vec<u8>) {
        put_int(body, 2);
        put_int(body, 4);
        put_int(body, 4);
        put_len(body, self.behaviour.columns.len());
        for (name, kind, position, ty) in &self.behaviour.columns {
            put_bytes(body, Some(name.as_bytes()));
            put_bytes(body, Some(kind.as_bytes()));
            put_bytes(body, Some(&position.to_be_bytes()));
            put_bytes(body, Some(ty.as_bytes()));
        }
    }
}

fn cells(values: Values<'_>) -> Vec<Option<&[u8]>> {
    values.iter().map(|(_, value)| value.bytes()).collect()
}

fn owned(values: &[Option<&[u8]>]) -> Vec<Option<Vec<u8>>> {
    values.iter().map(|value| value.map(<[u8]>::to_vec)).collect()
}

fn id_place(id: &[u8]) -> usize {
    usize::from(u16::from_be_bytes(id.try_into().expect("an id of this server")))
}

/// The answer to PREPARE: each `?` is bound to the last name before it.
fn put_prepared(version: ProtocolVersion, at: usize, text: &str, body: &mut Vec<u8>) {
    put_int(body, 4);
    put_short_bytes(body, &u16::try_from(at).expect("a few").to_be_bytes());
    if version >= ProtocolVersion::V5 {
        put_short_bytes(body, &[9; 16]);
    }
    let mut names = Vec::new();
    let mut last = "";
    for word in text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | ',' | '=' | '>' | '<' | '+' | '"')) {
        if word == "?" {
            names.push(last);
        } else if !word.is_empty() {
            last = word;
        }
    }
    put_int(body, 1); // of one table
    put_len(body, names.len());
    put_int(body, 0);
    if !names.is_empty() {
        put_string(body, "ks");
        put_string(body, "t");
    }
    for name in &names {
        put_string(body, name);
        put_short(body, 3); // blob
    }
    put_int(body, 4);
    put_int(body, 0);
}
