//! An echo that speaks as much CQL as helenus-stress asks for, to measure the client by: a server that stores nothing. On
//! a bare io_uring as the other echo; every PREPARE, UPDATE and SELECT has the same answer each time.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use helenus::protocol::frame::BODY_BYTES_MAX;
use helenus::protocol::response::{put_supported, put_void};
use helenus::protocol::result::{ColumnSpec, MetadataMode, PreparedAnswer, ResultMetadata, RowsWriter, put_prepared};
use helenus::protocol::wire::put_bytes;
use helenus::protocol::{Frame, FrameDecoder, FrameEncoder, Opcode, ProtocolVersion, Request};
use helenus::types::CqlType;
use io_uring::{IoUring, opcode, types};

const BUFFER_BYTES: usize = 256 << 10;
const COLUMNS: usize = 5;
const VALUE_BYTES: usize = 34;
/// The accept's place among completions; the others are connections.
const ACCEPTED: u64 = u64::MAX;

/// Ids of statements, by what they do; told apart by their first byte.
const WRITES: [u8; 16] = [b'w'; 16];
const READS: [u8; 16] = [b'r'; 16];

/// Ends with its owner.
pub struct CqlEcho {
    pub address: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Serves any number of connections, on this core.
pub fn start(core: Option<usize>) -> Result<CqlEcho, String> {
    let ends = Arc::new(AtomicBool::new(false));
    let (told, taken) = channel();
    let ending = ends.clone();
    let thread = std::thread::spawn(move || {
        if let Some(id) = core {
            core_affinity::set_for_current(core_affinity::CoreId { id });
        }
        if let Err(error) = serve(&told, &ending) {
            eprintln!("the echo: {error}");
        }
    });
    let address = taken.recv().map_err(|_| "the echo did not start".to_owned())?;
    Ok(CqlEcho { address, ends, thread: Some(thread) })
}

impl Drop for CqlEcho {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // It looks when somebody connects, and ends once nobody is connected.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            let _ended = thread.join(); // its panic was printed
        }
    }
}

fn serve(told: &Sender<SocketAddr>, ends: &AtomicBool) -> std::io::Result<()> {
    let mut ring: IoUring = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(1024)?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    // Nobody waits any more where this fails; then nobody connects either.
    let _told = told.send(listener.local_addr()?);
    let answers = Answers::new();
    let mut connections: Vec<Option<Connection>> = Vec::new();
    let mut completed = Vec::new();
    push_accept(&mut ring, &listener);
    loop {
        ring.submit_and_wait(1)?;
        completed.extend(ring.completion().map(|done| (done.user_data(), done.result())));
        for (at, result) in completed.drain(..) {
            if at == ACCEPTED {
                let at = connections.iter().position(Option::is_none).unwrap_or(connections.len());
                connections.resize_with(connections.len().max(at + 1), || None);
                connections[at].insert(Connection::of(result)?).push(&mut ring, at as u64);
                push_accept(&mut ring, &listener);
                continue;
            }
            let slot = &mut connections[at as usize];
            let Some(connection) = slot else { continue };
            connection.turn(result, &answers);
            if connection.open {
                connection.push(&mut ring, at);
            } else {
                *slot = None;
            }
        }
        // Only an accept is under way then, which has no memory of ours.
        if ends.load(Ordering::Relaxed) && connections.iter().all(Option::is_none) {
            return Ok(());
        }
    }
}

fn push_accept(ring: &mut IoUring, listener: &TcpListener) {
    let accept = opcode::Accept::new(types::Fd(listener.as_raw_fd()), std::ptr::null_mut(), std::ptr::null_mut());
    // SAFETY: no address is asked for, and the listener stays open for as long as the ring is waited for.
    unsafe { ring.submission().push(&accept.build().user_data(ACCEPTED)) }.expect("room for one more");
}

/// One connection: it is receiving, or sending what of `out` is after `sent`.
struct Connection {
    socket: TcpStream,
    decoder: FrameDecoder,
    encoder: FrameEncoder,
    received: Vec<u8>,
    /// Bytes in it that no frame was made of yet.
    filled: usize,
    out: Vec<u8>,
    sent: usize,
    open: bool,
}

impl Connection {
    fn of(accepted: i32) -> std::io::Result<Connection> {
        if accepted < 0 {
            return Err(std::io::Error::from_raw_os_error(-accepted));
        }
        // SAFETY: the kernel has just made this descriptor for the accept, and nothing else knows it.
        let socket = unsafe { TcpStream::from_raw_fd(accepted) };
        socket.set_nodelay(true)?;
        Ok(Connection {
            socket,
            decoder: FrameDecoder::requests(BODY_BYTES_MAX),
            encoder: FrameEncoder::responses(ProtocolVersion::NEWEST),
            received: vec![0; BUFFER_BYTES],
            filled: 0,
            out: Vec::with_capacity(BUFFER_BYTES),
            sent: 0,
            open: true,
        })
    }

    /// Takes a completion: bytes moved, nothing where the peer has closed, or an error.
    fn turn(&mut self, result: i32, answers: &Answers) {
        match usize::try_from(result) {
            Ok(0) | Err(_) => self.open = false,
            Ok(moved) if !self.out.is_empty() => {
                self.sent += moved;
                if self.sent == self.out.len() {
                    self.out.clear();
                    self.sent = 0;
                }
            }
            Ok(got) => {
                self.filled += got;
                self.open = self.answer(answers).is_some();
            }
        }
    }

    /// Answers every frame that is whole; `None` where one is none.
    fn answer(&mut self, answers: &Answers) -> Option<()> {
        let mut at = 0;
        loop {
            let step = self.decoder.next(&self.received[at..self.filled]).ok()?;
            at += step.consumed;
            let Some(frame) = step.frame else { break };
            let framing = answers.put(&frame, &mut self.encoder, &mut self.out)?;
            if let Some(framing) = framing {
                self.encoder.set_framing(framing);
                self.decoder.set_framing(framing);
            }
        }
        self.encoder.seal(&mut self.out);
        self.received.copy_within(at..self.filled, 0);
        self.filled -= at;
        (self.filled < self.received.len()).then_some(())
    }

    fn push(&mut self, ring: &mut IoUring, at: u64) {
        let fd = types::Fd(self.socket.as_raw_fd());
        let entry = if self.out.is_empty() {
            let room = &mut self.received[self.filled..];
            opcode::Recv::new(fd, room.as_mut_ptr(), room.len() as u32).build()
        } else {
            let rest = &self.out[self.sent..];
            opcode::Send::new(fd, rest.as_ptr(), rest.len() as u32).build()
        };
        // SAFETY: one operation a connection is in flight, nothing else touches its buffers meanwhile, and buffers and
        // socket stay until that operation has completed.
        unsafe { ring.submission().push(&entry.user_data(at)) }.expect("room for every connection");
    }
}

/// Bodies of answers, made once.
struct Answers {
    void: Vec<u8>,
    row: Vec<u8>,
    columns: ResultMetadata,
    variables: [ResultMetadata; 2],
}

impl Answers {
    fn new() -> Answers {
        let names: Vec<String> = (0..COLUMNS).map(|at| format!("C{at}")).collect();
        let column = |name: &str| ColumnSpec {
            keyspace: "keyspace1".into(),
            table: "standard1".into(),
            name: name.into(),
            ty: CqlType::Blob,
        };
        let of = |names: &[&str]| ResultMetadata::new(names.iter().map(|name| column(name)).collect());
        let all: Vec<&str> = names.iter().map(String::as_str).chain(["key"]).collect();
        let columns = of(&all[..COLUMNS]);
        let (mut void, mut row) = (Vec::new(), Vec::new());
        put_void(&mut void);
        let mut writer = RowsWriter::begin(ProtocolVersion::NEWEST, &columns, MetadataMode::Skip, &mut row);
        writer.row();
        (0..COLUMNS).for_each(|_| put_bytes(&mut row, Some(&[7; VALUE_BYTES])));
        writer.finish(None, &mut row);
        Answers { void, row, columns, variables: [of(&all), of(&["key"])] }
    }

    /// Appends the answer to a frame, and gives the framing from there on, where it changes.
    fn put(
        &self,
        frame: &Frame<'_>,
        encoder: &mut FrameEncoder,
        out: &mut Vec<u8>,
    ) -> Option<Option<helenus::protocol::Framing>> {
        encoder.set_version(frame.version);
        let opcode = match frame.opcode {
            Opcode::Options => Opcode::Supported,
            Opcode::Startup | Opcode::Register => Opcode::Ready,
            _ => Opcode::Result,
        };
        let open = encoder.begin(out, frame.stream, opcode);
        let mut framing = None;
        match frame.opcode {
            // The id begins behind its length.
            Opcode::Execute if frame.body.get(2) == READS.first() => out.extend_from_slice(&self.row),
            Opcode::Options => put_supported(&[("CQL_VERSION", vec!["3.4.7".into()])], out),
            Opcode::Startup => {
                let Ok(Request::Startup(startup)) = frame.request() else { return None };
                framing = Some(startup.framing(frame.version).ok()?);
            }
            Opcode::Prepare => {
                let Ok(Request::Prepare(prepare)) = frame.request() else { return None };
                let reads = prepare.text.trim_start().to_ascii_uppercase().starts_with("SELECT");
                let none = ResultMetadata::none();
                let answer = PreparedAnswer {
                    id: if reads { &READS } else { &WRITES },
                    variables: &self.variables[usize::from(reads)],
                    partition_key: &[],
                    result: if reads { &self.columns } else { &none },
                };
                put_prepared(frame.version, &answer, out);
            }
            Opcode::Register => {}
            _ => out.extend_from_slice(&self.void),
        }
        encoder.finish(out, open);
        Some(framing)
    }
}
