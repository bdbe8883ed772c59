//! `bench ring`: what an operation costs through Helenus's io, against a raw io_uring that does nothing else, and against
//! one whose receives are multishot with a ring of buffers. All serve the same echo (a receive, then a send of what came,
//! for each connection) to the same load generator, in turns.

mod load;
mod multishot;
mod ours;
mod raw;

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use helenus::io::allocated;

use crate::arguments::Takes;
use crate::counters::clock_ns;

/// The size of one message.
const MESSAGE_BYTES: usize = 128;
/// The buffer of one connection: more than all its messages in flight.
const BUFFER_BYTES: usize = 16 << 10;

/// Connections, and messages in flight on each.
const SHAPES: [(usize, usize); 4] = [(1, 1), (64, 1), (1, 64), (16, 64)];

/// What a server is told and what it tells.
struct Served {
    connections: usize,
    /// Messages before the measurement starts, and in all.
    warm_up: u64,
    total: u64,
    address: Sender<SocketAddr>,
}

/// A server's counters at one moment.
#[derive(Clone, Copy, Default)]
struct Reading {
    messages: u64,
    enters: u64,
    allocations: u64,
    cpu_ns: u64,
    wall_ns: u64,
}

impl Reading {
    fn now(messages: u64, enters: u64) -> Self {
        Reading {
            messages,
            enters,
            allocations: allocated().allocations,
            cpu_ns: clock_ns(libc::CLOCK_THREAD_CPUTIME_ID),
            wall_ns: clock_ns(libc::CLOCK_MONOTONIC),
        }
    }
}

/// Takes a reading when the warm-up is over and one at the end.
struct Meter {
    warm_up: u64,
    total: u64,
    messages: u64,
    first: Option<Reading>,
}

impl Meter {
    fn new(served: &Served) -> Self {
        Meter { warm_up: served.warm_up, total: served.total, messages: 0, first: None }
    }

    /// Counts `bytes` echoed (messages are counted by their bytes, as one send holds many). Gives both readings at the
    /// end.
    fn echoed(&mut self, bytes: usize, enters: impl Fn() -> u64) -> Option<(Reading, Reading)> {
        self.messages += bytes as u64;
        let messages = self.messages / MESSAGE_BYTES as u64;
        if self.first.is_none() && messages >= self.warm_up {
            self.first = Some(Reading::now(messages, enters()));
        }
        let first = self.first?;
        (messages >= self.total).then(|| (first, Reading::now(messages, enters())))
    }
}

/// The cost of one message.
#[derive(Clone, Copy)]
struct Cost {
    enters: f64,
    allocations: f64,
    cpu_us: f64,
    messages_per_s: f64,
}

impl Cost {
    fn between((from, to): (Reading, Reading)) -> Self {
        let messages = (to.messages - from.messages) as f64;
        Cost {
            enters: (to.enters - from.enters) as f64 / messages,
            allocations: (to.allocations - from.allocations) as f64 / messages,
            cpu_us: (to.cpu_ns - from.cpu_ns) as f64 / 1e3 / messages,
            messages_per_s: messages / ((to.wall_ns - from.wall_ns) as f64 / 1e9),
        }
    }
}

pub use load::Epoll;

type Server = fn(Served, Option<usize>) -> Receiver<(Reading, Reading)>;

pub fn run(arguments: &[String]) -> Result<(), String> {
    let (rounds, messages) = parse(arguments)?;
    let cores: Vec<usize> = core_affinity::get_core_ids().unwrap_or_default().iter().map(|core| core.id).collect();
    let server_core = (cores.len() > 1).then(|| cores[0]);
    if let [_, load_core, ..] = cores[..] {
        core_affinity::set_for_current(core_affinity::CoreId { id: load_core });
    } else {
        eprintln!("one core for server and load: times say little");
    }
    println!("echo of {MESSAGE_BYTES} B, median of {rounds} rounds in turns, costs of the server's thread a message");
    println!("{:>22} {:>16} {:>9} {:>9} {:>9} {:>11}", "", "", "enters", "allocs", "CPU us", "messages/s");
    for (connections, in_flight) in SHAPES {
        let mut costs: [Vec<Cost>; 3] = Default::default();
        for _ in 0..rounds {
            let servers = [ours::serve as Server, raw::serve, multishot::serve];
            for (server, costs) in servers.into_iter().zip(&mut costs) {
                costs.push(measure(server, server_core, connections, in_flight, messages));
            }
        }
        let shape = format!("{connections} x {in_flight} in flight");
        let [ours, raw, multishot] = costs.map(|costs| median(&costs));
        print(&shape, "ours", ours);
        print("", "raw", raw);
        print("", "raw, multishot", multishot);
        for (name, one) in [("ours to raw", ours), ("multishot to raw", multishot)] {
            println!(
                "{:>22} {name:>16} {:>29.2}x {:>10.2}x",
                "",
                one.cpu_us / raw.cpu_us,
                one.messages_per_s / raw.messages_per_s
            );
        }
    }
    Ok(())
}

/// Serves an echo from a thread of its own on this core.
fn on_core(
    served: Served,
    core: Option<usize>,
    echo: fn(&Served) -> (Reading, Reading),
) -> Receiver<(Reading, Reading)> {
    let (done, readings) = channel();
    std::thread::spawn(move || {
        if let Some(id) = core {
            core_affinity::set_for_current(core_affinity::CoreId { id });
        }
        done.send(echo(&served)).expect("the measurement waits for it");
    });
    readings
}

/// The connections of the load, which is told where to connect.
fn accepted(served: &Served) -> impl Iterator<Item = TcpStream> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    served.address.send(listener.local_addr().expect("bound")).expect("the load waits for it");
    (0..served.connections).map(move |_| {
        let (socket, _) = listener.accept().expect("a connection");
        socket.set_nodelay(true).expect("a TCP connection");
        socket
    })
}

fn parse(arguments: &[String]) -> Result<(usize, u64), String> {
    const TAKES: Takes = Takes { command: "ring", options: &["--rounds", "--messages"], flags: &[] };
    let given = TAKES.parse(arguments)?;
    given.no_words()?;
    let rounds = usize::try_from(given.number("--rounds", 3)?).map_err(|error| error.to_string())?;
    Ok((rounds, given.number("--messages", 50_000)?))
}

fn measure(server: Server, core: Option<usize>, connections: usize, in_flight: usize, messages: u64) -> Cost {
    let (address, listening) = channel();
    // Whole windows on every connection, so that the last message of each is answered.
    let per_connection = (messages / connections as u64).next_multiple_of(in_flight as u64);
    let total = per_connection * connections as u64;
    let readings = server(Served { connections, warm_up: total / 10, total, address }, core);
    let address = listening.recv().expect("the server listens");
    load::run(address, connections, in_flight, per_connection);
    Cost::between(readings.recv().expect("the server measured"))
}

fn median(costs: &[Cost]) -> Cost {
    let mut sorted = costs.to_vec();
    sorted.sort_by(|a, b| a.cpu_us.total_cmp(&b.cpu_us));
    sorted[sorted.len() / 2]
}

fn print(shape: &str, half: &str, cost: Cost) {
    let Cost { enters, allocations, cpu_us, messages_per_s } = cost;
    println!("{shape:>22} {half:>16} {enters:>9.3} {allocations:>9.3} {cpu_us:>9.3} {messages_per_s:>11.0}");
}
