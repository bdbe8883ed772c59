//! Simulated TCP: a connection is two byte pipes in memory. Bytes arrive a seeded time after they were sent and come out
//! in chunks of any size; a full pipe makes its sender wait.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::handle::Core;
use super::scheduler::{Owner, Wakes};
use super::trace::Kind;
use super::world::World;
use crate::io::IoError;

/// The most bytes on their way in one direction.
const PIPE_BYTES_MAX: usize = 128 * 1024;

/// The most connections that wait to be accepted at one address; the next are refused.
const BACKLOG_MAX: usize = 4096;

/// From a send to its arrival.
const FLIGHT_NS: (u64, u64) = (1_000, 100_000);

const PORT_FIRST: u16 = 32_768;

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    bytes: VecDeque<u8>,
    /// Of the bytes, those that have arrived.
    arrived: usize,
    /// The others, in order: when, how many.
    flying: VecDeque<(u64, usize)>,
    /// The sender sends no more.
    ended: bool,
    /// The receiver takes no more.
    refused: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// Waits for the end.
    watcher: Option<Waker>,
}

impl Pipe {
    fn wake(&mut self) {
        [self.reader.take(), self.writer.take(), self.watcher.take()].into_iter().flatten().for_each(Waker::wake);
    }

    fn land(&mut self, now_ns: u64) {
        while let Some((_, count)) = self.flying.pop_front_if(|(at_ns, _)| *at_ns <= now_ns) {
            self.arrived += count;
        }
    }
}

/// Both directions; end 0 connected, end 1 accepted. Pipe 0 leads to end 0.
struct Connection {
    id: u64,
    pipes: [Pipe; 2],
    reset: bool,
    addrs: [SocketAddr; 2],
}

impl Connection {
    /// One end is gone: the other may still read what was sent.
    fn close(&mut self, end: usize) {
        self.pipes[1 - end].ended = true;
        self.pipes[end].refused = true;
        self.pipes.iter_mut().for_each(Pipe::wake);
    }

    fn reset(&mut self) {
        self.reset = true;
        self.pipes.iter_mut().for_each(Pipe::wake);
    }
}

type Shared = Rc<RefCell<Connection>>;

struct Port {
    backlog: VecDeque<Shared>,
    acceptors: Vec<Waker>,
}

/// Who listens where, and the connections that no shard owns yet.
#[derive(Default)]
pub(super) struct Network {
    ports: BTreeMap<SocketAddr, Port>,
    unadopted: BTreeMap<u64, Shared>,
    connections: u64,
    ports_given: u16,
}

impl Network {
    /// An accepted connection was dropped.
    pub fn drop_unadopted(&mut self, id: u64) {
        if let Some(connection) = self.unadopted.remove(&id) {
            connection.borrow_mut().close(1);
        }
    }

    /// The node is down: nobody listens, and what was not adopted is reset.
    pub fn take_down(&mut self) {
        let waiting = std::mem::take(&mut self.ports).into_values().flat_map(|port| port.backlog);
        waiting.chain(std::mem::take(&mut self.unadopted).into_values()).for_each(|one| one.borrow_mut().reset());
    }

    fn port_free(&mut self, ip: IpAddr) -> SocketAddr {
        loop {
            let addr = SocketAddr::new(ip, PORT_FIRST + self.ports_given % (u16::MAX - PORT_FIRST));
            self.ports_given = self.ports_given.wrapping_add(1);
            if !self.ports.contains_key(&addr) {
                return addr;
            }
        }
    }
}

pub struct Listener {
    world: Rc<World>,
    owner: Owner,
    addr: SocketAddr,
}

impl Listener {
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    pub async fn accept(&self) -> Result<Accepted, IoError> {
        poll_fn(|context| {
            let mut network = self.world.network.borrow_mut();
            let Some(port) = network.ports.get_mut(&self.addr) else { return Poll::Pending };
            let Some(connection) = port.backlog.pop_front() else {
                port.acceptors.push(context.waker().clone());
                return Poll::Pending;
            };
            let (id, addrs) = (connection.borrow().id, connection.borrow().addrs);
            network.unadopted.insert(id, connection);
            let wakes = Some(self.world.wakes.clone());
            Poll::Ready(Ok(Accepted { id, peer: addrs[0], local: addrs[1], wakes }))
        })
        .await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Where the node is down already the address may be another life's by now.
        if self.world.is_alive(self.owner)
            && let Some(port) = self.world.network.borrow_mut().ports.remove(&self.addr)
        {
            port.backlog.iter().for_each(|connection| connection.borrow_mut().reset());
        }
    }
}

/// A connection on its way to a shard.
pub struct Accepted {
    id: u64,
    peer: SocketAddr,
    local: SocketAddr,
    /// Absent once it was adopted.
    wakes: Option<Arc<Wakes>>,
}

impl Accepted {
    pub fn peer_addr(&self) -> SocketAddr {
        self.peer
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }
}

impl Drop for Accepted {
    fn drop(&mut self) {
        if let Some(wakes) = &self.wakes {
            wakes.drop_connection(self.id);
        }
    }
}

/// One end of a connection, shared by its handles.
struct End {
    world: Rc<World>,
    owner: Owner,
    connection: Shared,
    end: usize,
}

impl Drop for End {
    fn drop(&mut self) {
        let mut connection = self.connection.borrow_mut();
        self.world.note(Kind::Close, connection.id, self.end as u64);
        if self.world.is_alive(self.owner) {
            connection.close(self.end);
        } else {
            // With the process goes what it had sent and the peer had not received, or not.
            if self.world.network_random.coin() {
                let lost = std::mem::take(&mut connection.pipes[1 - self.end]);
                connection.pipes[1 - self.end] = Pipe { reader: lost.reader, watcher: lost.watcher, ..Pipe::default() };
            }
            connection.reset();
        }
    }
}

#[derive(Clone)]
pub struct Stream(Rc<End>);

impl Stream {
    fn new(world: Rc<World>, owner: Owner, connection: Shared, end: usize) -> Self {
        Stream(Rc::new(End { world, owner, connection, end }))
    }

    pub fn peer_addr(&self) -> SocketAddr {
        self.0.connection.borrow().addrs[1 - self.0.end]
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.0.connection.borrow().addrs[self.0.end]
    }

    pub fn shutdown(&self) {
        if self.0.world.is_alive(self.0.owner) {
            self.0.connection.borrow_mut().close(self.0.end);
        }
    }

    pub async fn recv(&self, mut buf: Vec<u8>) -> (Vec<u8>, Result<usize, IoError>) {
        if buf.capacity() == buf.len() {
            buf.reserve(1);
        }
        let result = poll_fn(|context| self.poll_recv(&mut buf, context)).await;
        (buf, result)
    }

    pub async fn hung_up(&self) {
        poll_fn(|context| {
            let End { world, connection, end, .. } = &*self.0;
            let mut connection = connection.borrow_mut();
            let is_reset = connection.reset;
            let pipe = &mut connection.pipes[*end];
            pipe.land(world.now_ns());
            if pipe.refused || ((pipe.ended || is_reset) && pipe.flying.is_empty()) {
                return Poll::Ready(());
            }
            if (pipe.ended || is_reset)
                && let Some((at_ns, _)) = pipe.flying.back()
            {
                world.wake_at(*at_ns, context.waker().clone());
            }
            pipe.watcher = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    pub async fn send_all(&self, buf: Vec<u8>) -> (Vec<u8>, Result<(), IoError>) {
        let mut sent = 0;
        let result = poll_fn(|context| self.poll_send(&buf, &mut sent, context)).await;
        (buf, result)
    }

    fn poll_recv(&self, buf: &mut Vec<u8>, context: &Context<'_>) -> Poll<Result<usize, IoError>> {
        let End { world, connection, end, .. } = &*self.0;
        let mut connection = connection.borrow_mut();
        let Connection { id, pipes, reset, .. } = &mut *connection;
        let pipe = &mut pipes[*end];
        pipe.land(world.now_ns());
        if pipe.refused {
            return Poll::Ready(Ok(0));
        }
        if pipe.arrived == 0 {
            if *reset && pipe.flying.is_empty() {
                return Poll::Ready(Err(IoError::os("recv", None, libc::ECONNRESET)));
            }
            if pipe.ended && pipe.flying.is_empty() {
                return Poll::Ready(Ok(0));
            }
            if let Some((at_ns, _)) = pipe.flying.front() {
                world.wake_at(*at_ns, context.waker().clone());
            }
            pipe.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let most = pipe.arrived.min(buf.capacity() - buf.len());
        let count = if world.network_random.below(4) == 0 { 1 + world.network_random.index(most) } else { most };
        buf.extend(pipe.bytes.drain(..count));
        pipe.arrived -= count;
        if let Some(writer) = pipe.writer.take() {
            writer.wake();
        }
        let sum = u64::from(crc32c::crc32c(&buf[buf.len() - count..]));
        world.note(Kind::Receive, *id << 1 | *end as u64, sum);
        Poll::Ready(Ok(count))
    }

    fn poll_send(&self, buf: &[u8], sent: &mut usize, context: &Context<'_>) -> Poll<Result<(), IoError>> {
        let End { world, connection, end, owner } = &*self.0;
        if !world.is_alive(*owner) {
            return Poll::Pending;
        }
        let mut connection = connection.borrow_mut();
        if world.network_random.chance(world.faults.get().reset_ppm) {
            world.note(Kind::Fault, connection.id, u64::MAX);
            connection.reset();
        }
        let Connection { id, pipes, reset, .. } = &mut *connection;
        let pipe = &mut pipes[1 - *end];
        if *reset || pipe.refused || pipe.ended {
            return Poll::Ready(Err(IoError::os("send", None, if *reset { libc::ECONNRESET } else { libc::EPIPE })));
        }
        let count = (PIPE_BYTES_MAX - pipe.bytes.len()).min(buf.len() - *sent);
        if count > 0 {
            pipe.bytes.extend(&buf[*sent..*sent + count]);
            *sent += count;
            let last_ns = pipe.flying.back().map_or(0, |(at_ns, _)| *at_ns);
            let at_ns = last_ns.max(world.now_ns() + world.network_random.between(FLIGHT_NS.0, FLIGHT_NS.1));
            pipe.flying.push_back((at_ns, count));
            world.note(Kind::Send, *id << 1 | *end as u64, u64::from(crc32c::crc32c(&buf[*sent - count..*sent])));
            if let Some(reader) = &pipe.reader {
                world.wake_at(at_ns, reader.clone());
            }
        }
        if *sent == buf.len() {
            return Poll::Ready(Ok(()));
        }
        pipe.writer = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Core {
    /// Port 0 gives a free one. An address has one listener.
    pub async fn listen(&self, addr: SocketAddr) -> Result<Listener, IoError> {
        let world = self.world();
        let mut network = world.network.borrow_mut();
        let addr = if addr.port() == 0 { network.port_free(addr.ip()) } else { addr };
        if network.ports.contains_key(&addr) {
            return Err(IoError::os("listen", None, libc::EADDRINUSE));
        }
        if world.is_alive(self.owner()) {
            network.ports.insert(addr, Port { backlog: VecDeque::new(), acceptors: Vec::new() });
        }
        Ok(Listener { world: world.clone(), owner: self.owner(), addr })
    }

    pub fn adopt(&self, mut accepted: Accepted) -> Result<Stream, IoError> {
        accepted.wakes = None;
        let connection = self.world().network.borrow_mut().unadopted.remove(&accepted.id);
        let connection = connection.ok_or_else(|| IoError::os("adopt", None, libc::ECONNRESET))?;
        Ok(Stream::new(self.world().clone(), self.owner(), connection, 1))
    }

    /// Connects the client to the node.
    pub(super) fn connect(&self, to: SocketAddr) -> Result<Stream, IoError> {
        let world = self.world();
        let mut network = world.network.borrow_mut();
        let from = network.port_free(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let id = network.connections;
        world.note(Kind::Connect, id, u64::from(to.port()));
        let refused = || IoError::os("connect", None, libc::ECONNREFUSED);
        let running = world.is_running();
        let port = network.ports.get_mut(&to).filter(|port| running && port.backlog.len() < BACKLOG_MAX);
        let port = port.ok_or_else(refused)?;
        let pipes = [Pipe::default(), Pipe::default()];
        let connection = Rc::new(RefCell::new(Connection { id, pipes, reset: false, addrs: [from, to] }));
        port.backlog.push_back(connection.clone());
        port.acceptors.drain(..).for_each(Waker::wake);
        network.connections += 1;
        Ok(Stream::new(world.clone(), self.owner(), connection, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Client, Faults, Halted, Simulation};
    use crate::base::ids::ShardId;
    use crate::io::{Accepted, Io, Mesh, Stream, TaskClass};
    use std::cell::RefCell;
    use std::collections::BTreeSet;
    use std::io::ErrorKind;
    use std::net::SocketAddr;
    use std::rc::Rc;
    use std::time::Duration;

    fn addr() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 9042))
    }

    /// A node whose shard 0 accepts and gives each connection to the next shard, which echoes. Runs until it listens.
    fn echo_node(sim: &Simulation, shards: u16) {
        let _outside = sim.start(shards, |io: Io, mesh: Mesh<Accepted>| async move {
            if mesh.shard_id().0 == 0 {
                io.spawn(TaskClass::Foreground, accept_loop(io.clone(), mesh.clone()));
            }
            let mut accepted = Vec::new();
            loop {
                mesh.recv(&mut accepted).await;
                for (_, one) in accepted.drain(..) {
                    let stream = io.adopt(one).expect("still there");
                    io.spawn(TaskClass::Foreground, echo(stream));
                }
            }
        });
        sim.run_for(Duration::from_millis(1)).expect("it listens");
    }

    async fn accept_loop(io: Io, mesh: Mesh<Accepted>) {
        let listener = io.listen(addr()).await.expect("free");
        assert_eq!(listener.local_addr(), addr());
        let mut next = 0;
        while let Ok(accepted) = listener.accept().await {
            mesh.send(ShardId(next), accepted).await;
            next = (next + 1) % mesh.shard_count();
        }
    }

    async fn echo(stream: Stream) {
        let mut buf = Vec::with_capacity(1000);
        loop {
            let (mut got, count) = stream.recv(buf).await;
            match count {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let (back, sent) = stream.send_all(got).await;
            if sent.is_err() {
                return;
            }
            got = back;
            got.clear();
            buf = got;
        }
    }

    /// Sends `bytes` in one task and receives as many in another; gives them and the sizes of the receives.
    async fn exchange(client: Client, bytes: Vec<u8>) -> (Vec<u8>, BTreeSet<usize>) {
        let stream = client.connect(addr()).expect("listens");
        let expected = bytes.len();
        let sender = stream.clone();
        client.io().spawn(TaskClass::Foreground, async move {
            let (back, sent) = sender.send_all(bytes.clone()).await;
            assert_eq!((back == bytes, sent), (true, Ok(())));
        });
        let (mut got, mut sizes) = (Vec::new(), BTreeSet::new());
        while got.len() < expected {
            let (back, count) = stream.recv(got).await;
            sizes.insert(count.expect("connected"));
            got = back;
            got.reserve(5000);
        }
        (got, sizes)
    }

    #[test]
    fn bytes_arrive_whole_in_order_and_in_chunks_of_any_size() {
        let mut all_sizes = BTreeSet::new();
        for seed in 0..10 {
            let sim = Simulation::new(seed, Faults::NONE);
            echo_node(&sim, 2);
            // More than a pipe holds, so that both senders have to wait.
            let bytes: Vec<u8> = (0..400_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            let (got, sizes) = sim.run_client(exchange(sim.client(), bytes.clone())).expect("ends");
            assert!(got == bytes, "seed {seed}");
            all_sizes.extend(sizes);
        }
        assert!(all_sizes.len() > 50, "{all_sizes:?}");
    }

    #[test]
    fn nobody_listens_before_the_start_nor_after_the_end() {
        let sim = Simulation::new(0, Faults::NONE);
        let refused = |sim: &Simulation| sim.client().connect(addr()).err().map(|error| error.kind);
        assert_eq!(refused(&sim), Some(ErrorKind::ConnectionRefused));
        echo_node(&sim, 1);
        assert_eq!(refused(&sim), None);
        sim.crash();
        assert_eq!(refused(&sim), Some(ErrorKind::ConnectionRefused));
        echo_node(&sim, 1);
        assert_eq!(refused(&sim), None, "the address is free again");
    }

    #[test]
    fn an_address_has_one_listener_and_port_0_finds_a_free_one() {
        let sim = Simulation::new(0, Faults::NONE);
        let tried = sim.run_on_node(|io| async move {
            let first = io.listen(addr()).await.expect("free");
            let second = io.listen(addr()).await.err().map(|error| error.kind);
            drop(first);
            let again = io.listen(addr()).await.is_ok();
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let (a, b) = (io.listen(any).await.expect("free"), io.listen(any).await.expect("free"));
            (second, again, a.local_addr() != b.local_addr())
        });
        assert_eq!(tried, Ok((Some(ErrorKind::AddrInUse), true, true)));
    }

    #[test]
    fn a_close_is_seen_as_the_end_after_the_last_byte() {
        let sim = Simulation::new(4, Faults::NONE);
        echo_node(&sim, 1);
        let client = sim.client();
        let ended = sim.run_client(async move {
            let stream = client.connect(addr()).expect("listens");
            stream.send_all(b"last words".to_vec()).await.1.expect("sent");
            let mut got = Vec::new();
            while got.len() < 10 {
                let (back, count) = stream.recv(got).await;
                assert!(count.is_ok_and(|count| count > 0));
                got = back;
            }
            let waiting = stream.clone();
            let seen = Rc::new(RefCell::new(None));
            let result = seen.clone();
            client.io().spawn(TaskClass::Foreground, async move {
                *result.borrow_mut() = Some(waiting.recv(Vec::new()).await.1);
            });
            client.io().sleep(Duration::from_millis(1)).await;
            stream.shutdown();
            client.io().sleep(Duration::from_millis(1)).await;
            let error = stream.send_all(vec![1]).await.1.err().map(|error| error.kind);
            (got, seen.take(), error)
        });
        assert_eq!(ended, Ok((b"last words".to_vec(), Some(Ok(0)), Some(ErrorKind::BrokenPipe))));
    }

    #[test]
    fn an_accepted_connection_that_is_dropped_closes() {
        let sim = Simulation::new(0, Faults::NONE);
        let _outside = sim.start(1, |io: Io, _: Mesh<()>| async move {
            let listener = io.listen(addr()).await.expect("free");
            loop {
                let accepted = listener.accept().await.expect("accepted");
                assert_eq!(accepted.local_addr(), addr());
                drop(accepted);
            }
        });
        sim.run_for(Duration::from_millis(1)).expect("it listens");
        let stream = sim.client().connect(addr()).expect("listens");
        assert_eq!(sim.run_client(async move { stream.recv(Vec::new()).await.1 }), Ok(Ok(0)));
    }

    #[test]
    fn a_crash_resets_every_connection_and_clients_live_on() {
        for seed in 0..20 {
            let sim = Simulation::new(seed, Faults::NONE);
            echo_node(&sim, 2);
            let streams: Vec<Stream> = (0..4).map(|_| sim.client().connect(addr()).expect("listens")).collect();
            sim.run_for(Duration::from_micros(50)).expect("some are adopted by now, some are not");
            sim.crash();
            for stream in streams {
                let error = sim.run_client(async move { stream.recv(Vec::new()).await.1 }).expect("ends").err();
                assert_eq!(error.map(|error| error.kind), Some(ErrorKind::ConnectionReset), "seed {seed}");
            }
        }
    }

    #[test]
    fn resets_come_at_their_rate_and_both_ends_see_them() {
        let sim = Simulation::new(1, Faults { reset_ppm: 1_000_000, ..Faults::NONE });
        echo_node(&sim, 1);
        let client = sim.client();
        let sent = sim.run_client(async move {
            let stream = client.connect(addr()).expect("listens");
            stream.send_all(vec![0; 10]).await.1.err().map(|error| error.kind)
        });
        assert_eq!(sent, Ok(Some(ErrorKind::ConnectionReset)));
        assert!(matches!(sim.run_until(|| false), Err(Halted::Deadlock { .. })), "the server has let go");
    }
}
