//! One connection: receives, starts requests, sends their answers together.
//!
//! One receive yields all its frames. A request runs at once as far as it can; one that must wait is polled here, in the
//! connection's own task. A client that does not read its answers has no more requests started, is not received from
//! any more, and later closed; other connections never wait for it.

use std::cell::RefCell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, Stream as _};

use crate::base::ids::TimestampMicros;
use crate::base::repeated::Repeated;
use crate::io::{IoError, Sleep, Stream};
use crate::net::budget::{Budget, Held};
use crate::net::events::Inbox;
use crate::net::limits::{FRAME_PROGRESS_BYTES, FRAMES_A_LOOK, FRAMES_A_TURN, LOOK_BYTES, RECEIVE_BYTES_MIN, TURN_NS};
use crate::net::outcome::{Answer, Outcome};
use crate::net::point::{self, AtOnce};
use crate::net::request::Call;
use crate::net::undecoded::Undecoded;
use crate::net::unsent::Unsent;
use crate::net::written::Written;
use crate::net::{Net, count};
use crate::protocol::frame::{Frame, flag};
use crate::protocol::{CqlError, FrameDecoder, FrameEncoder, Framing, Opcode, ProtocolVersion, Request, Startup};

type Transfer<T> = Repeated<Vec<u8>, (Vec<u8>, Result<T, IoError>)>;
type Flight = Pin<Box<dyn Future<Output = Answer>>>;

/// What a connection's wait ended with.
enum Woken {
    Received(Vec<u8>, Result<usize, IoError>),
    Sent(Vec<u8>, Result<(), IoError>),
    /// Answers were appended, or events came, or the shard stops.
    Progress,
    /// Patience with the client ran out.
    Late,
    /// The client has gone, or sends no more.
    HungUp,
}

pub struct Connection {
    net: Rc<Net>,
    stream: Stream,
    /// What the client is shown as the node's address, where it is not what `system.local` holds.
    address: Option<IpAddr>,
    decoder: FrameDecoder,
    encoder: FrameEncoder,
    keyspace: Rc<RefCell<Option<String>>>,
    inbox: Rc<Inbox>,
    undecoded: Undecoded,
    /// No whole frame is in `undecoded`.
    is_hungry: bool,
    /// What was received ends within a frame.
    is_within_frame: bool,
    /// Counts such a frame, where more of it is held than a small receive buffer.
    unfinished: Held,
    /// Since when more of an unfinished frame is received, and too little has come.
    frame_since_ns: Option<u64>,
    /// Fires when that may have been for too long.
    frame_wait: Option<Sleep>,
    receiving: Transfer<usize>,
    /// Ends when the client hangs up; for while nothing is received.
    hang_up: Option<Pin<Box<dyn Future<Output = ()>>>>,
    /// Encoded and not handed to a send.
    out: Vec<u8>,
    /// Sealed, before `out`.
    unsent: Unsent,
    sending: Transfer<()>,
    /// What this connection may hold of answers.
    answers: Rc<Budget>,
    /// Counts those that are encoded and not sent.
    unsent_held: Held,
    in_flight: FuturesUnordered<Flight>,
    /// Done at once, and not answered yet.
    written: Written,
    /// As many of those were answered as others wait for at most: theirs is the next turn.
    is_turn_over: bool,
    /// The last request was not done at once.
    is_slow: bool,
    /// The wall clock, as it was when this turn last looked.
    now_us: TimestampMicros,
    /// The size that an answer may well have, by the last ones.
    answer_bytes: usize,
    /// Until STARTUP.
    handshake: Option<Sleep>,
    /// While a send is under way.
    patience: Option<Sleep>,
    /// Nothing more is taken from the client; what is in flight is answered.
    ending: bool,
    /// Nobody reads any more: nothing is answered either.
    gone: bool,
}

impl Connection {
    pub fn new(net: Rc<Net>, stream: Stream) -> Self {
        let inbox = Rc::new(Inbox::new(net.limits.events_waiting_max));
        net.listeners.add(&inbox);
        let handshake = Some(net.io.sleep(net.limits.startup_patience));
        let answers = net.answers.share(net.limits.answer_bytes_max);
        let shows_address = net.shows_connected_address.get();
        let (receives, sends) = (stream.clone(), stream.clone());
        let receiving = Repeated::new(move |buffer| {
            let stream = receives.clone();
            async move { stream.recv(buffer).await }
        });
        let sending = Repeated::new(move |buffer| {
            let stream = sends.clone();
            async move { stream.send_all(buffer).await }
        });
        Connection {
            // One that came over IPv6's form of an IPv4 address is shown that.
            address: shows_address.then(|| stream.local_addr().ip().to_canonical()),
            decoder: FrameDecoder::requests(net.limits.frame_bytes_max),
            encoder: FrameEncoder::responses(ProtocolVersion::NEWEST),
            unfinished: net.unfinished.holder(),
            unsent_held: answers.holder(),
            answers,
            undecoded: Undecoded::new(&net.receives),
            net,
            stream,
            keyspace: Rc::default(),
            inbox,
            is_hungry: true,
            is_within_frame: false,
            frame_since_ns: None,
            frame_wait: None,
            receiving,
            hang_up: None,
            out: Vec::new(),
            unsent: Unsent::default(),
            sending,
            in_flight: FuturesUnordered::new(),
            written: Written::default(),
            is_turn_over: false,
            is_slow: false,
            now_us: 0,
            answer_bytes: 0,
            handshake,
            patience: None,
            ending: false,
            gone: false,
        }
    }

    /// Serves until the client closes, breaks the protocol or stops reading, or the shard stops.
    pub async fn serve(mut self) {
        while !self.gone {
            let more = poll_fn(|context| Poll::Ready(self.take_frames(context))).await;
            self.take_events();
            self.ending |= self.net.is_stopping();
            self.start_transfers(more);
            if self.gone {
                break;
            }
            if self.ending && self.requests() == 0 && !self.sending.is_under_way() {
                break;
            }
            if more || std::mem::take(&mut self.is_turn_over) {
                self.net.io.yield_now().await;
            }
            match self.wait(more).await {
                Woken::Received(buffer, result) => self.take_received(buffer, &result),
                Woken::Sent(buffer, result) => self.take_sent(buffer, &result),
                Woken::Progress => {}
                Woken::HungUp => self.gone = true,
                Woken::Late => {
                    let peer = self.stream.peer_addr();
                    tracing::debug!(%peer, "a client has not started, does not read, or does not finish a frame: closed");
                    self.gone = true;
                }
            }
        }
        self.stream.shutdown();
    }

    /// Starts a send of all that is encoded, and a receive where the client is keeping up. Where it is not, and nothing
    /// else is to be done at once, watches for its end.
    fn start_transfers(&mut self, more: bool) {
        // Events, and what was answered at once: it may wait for the send that is under way.
        self.count_unsent();
        if !self.sending.is_under_way() {
            self.seal();
            if let Some(piece) = self.unsent.next() {
                let limits = &self.net.limits;
                let waited = Duration::from_nanos(self.net.io.now_ns().saturating_sub(piece.ready_ns));
                let patience = limits.send_patience.min(limits.answer_patience.saturating_sub(waited));
                self.patience = Some(self.net.io.sleep(patience));
                self.sending.begin(piece.bytes);
                count(&self.net.traffic.sends);
            }
        }
        if self.receiving.is_under_way() {
            return;
        }
        if self.is_hungry && self.takes_more() {
            self.await_frame();
            self.receiving.begin(self.undecoded.lend());
            return;
        }
        // It could not go on with its frame.
        self.frame_since_ns = None;
        if self.hang_up.is_none() && !more {
            let stream = self.stream.clone();
            self.hang_up = Some(Box::pin(async move { stream.hung_up().await }));
        }
    }

    /// The rest of an unfinished frame is waited for from now on, where it is not already. The timer outlives the frame,
    /// so that a client that sends many costs one now and then.
    fn await_frame(&mut self) {
        if !self.is_within_frame {
            return;
        }
        if self.frame_since_ns.is_none() {
            self.frame_since_ns = Some(self.net.io.now_ns());
            self.undecoded.take_progress(0);
        }
        if self.frame_wait.is_none() {
            self.frame_wait = Some(self.net.io.sleep(self.net.limits.frame_patience));
        }
    }

    fn poll_frame_wait(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while let Some(wait) = &mut self.frame_wait {
            std::task::ready!(Pin::new(wait).poll(context));
            self.frame_wait = None;
            let Some(since_ns) = self.frame_since_ns else { break };
            let waited = Duration::from_nanos(self.net.io.now_ns().saturating_sub(since_ns));
            let left = self.net.limits.frame_patience.saturating_sub(waited);
            if left.is_zero() {
                return Poll::Ready(());
            }
            self.frame_wait = Some(self.net.io.sleep(left));
        }
        Poll::Pending
    }

    /// Makes what is encoded ready to be sent, where nothing else is.
    fn seal(&mut self) {
        if self.unsent.is_waiting() || self.out.is_empty() {
            return;
        }
        self.encoder.seal(&mut self.out);
        // A segment in which no frame stands was taken back.
        if self.out.is_empty() {
            return;
        }
        self.unsent.put(&mut self.out, self.net.io.now_ns());
        self.count_unsent();
    }

    /// Whether the client may send more: it reads its answers, and not too much is in flight.
    fn takes_more(&self) -> bool {
        let limits = &self.net.limits;
        !self.ending
            && self.unsent_bytes() <= limits.unsent_bytes_max
            && self.requests() < limits.in_flight_max
            && self.in_flight.len().saturating_mul(self.answer_bytes) <= limits.answer_bytes_max / 2
    }

    /// Requests that are not answered.
    fn requests(&self) -> usize {
        self.in_flight.len() + self.written.len()
    }

    /// Bytes encoded and not sent.
    fn unsent_bytes(&self) -> usize {
        self.out.len() + self.unsent.len_bytes()
    }

    /// Waits for whatever comes first; with `poll_only`, only looks.
    async fn wait(&mut self, poll_only: bool) -> Woken {
        poll_fn(|context| match self.poll(context) {
            Poll::Pending if poll_only => Poll::Ready(Woken::Progress),
            polled => polled,
        })
        .await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Woken> {
        if !self.receiving.is_under_way()
            && let Some(hang_up) = &mut self.hang_up
            && hang_up.as_mut().poll(context).is_ready()
        {
            self.hang_up = None;
            return Poll::Ready(Woken::HungUp);
        }
        let mut progress = self.inbox.woken.replace(false);
        for _ in 0..FRAMES_A_TURN {
            // Not polled where it is empty: it would keep the waker in a place for all threads.
            if self.in_flight.is_empty() {
                break;
            }
            let Poll::Ready(Some(answer)) = Pin::new(&mut self.in_flight).poll_next(context) else { break };
            self.put_answer(answer);
            progress = true;
        }
        progress |= self.answer_written(context);
        if let Poll::Ready((buffer, result)) = self.sending.poll(context) {
            return Poll::Ready(Woken::Sent(buffer, result));
        }
        if let Poll::Ready((buffer, result)) = self.receiving.poll(context) {
            return Poll::Ready(Woken::Received(buffer, result));
        }
        if progress {
            return Poll::Ready(Woken::Progress);
        }
        let waits = [&mut self.handshake, &mut self.patience];
        let is_late = waits.into_iter().flatten().any(|wait| Pin::new(wait).poll(context).is_ready());
        if is_late || self.poll_frame_wait(context).is_ready() {
            return Poll::Ready(Woken::Late);
        }
        self.inbox.wait(context.waker());
        Poll::Pending
    }

    /// Answers what the log has acknowledged, at most a turn's worth. Whether that was any.
    fn answer_written(&mut self, context: &mut Context<'_>) -> bool {
        if self.written.is_empty() {
            return false;
        }
        let acknowledged = self.net.router.acknowledged_position();
        for answered in 0..FRAMES_A_TURN {
            if let Some(stream) = self.written.next_acknowledged(acknowledged) {
                self.answer_write(stream, Ok(()));
                continue;
            }
            let Poll::Ready((stream, outcome)) = self.written.poll_next(&self.net.router, context) else {
                return answered > 0;
            };
            self.answer_write(stream, outcome);
        }
        self.is_turn_over = true;
        true
    }

    /// Encodes an answer. One whose rows went over the limit on their way has become an error already.
    fn put_answer(&mut self, answer: Answer) {
        let before = self.out.len();
        answer.encode(&mut self.encoder, &mut self.out);
        // Its rows are given back first, and counted again as what is not sent.
        drop(answer);
        self.note_answer(before);
        self.count_unsent();
    }

    fn answer_write(&mut self, stream: i16, outcome: Result<(), CqlError>) {
        let before = self.out.len();
        match outcome {
            Ok(()) => self.encoder.void(&mut self.out, stream),
            Err(error) => self.encoder.error(&mut self.out, stream, &error),
        }
        self.note_answer(before);
    }

    /// An answer was encoded from `before` on. It is counted before the next transfer (`start_transfers`).
    fn note_answer(&mut self, before: usize) {
        let bytes = self.out.len().saturating_sub(before);
        self.answer_bytes = bytes.max(self.answer_bytes - self.answer_bytes.div_ceil(16));
    }

    fn count_unsent(&mut self) {
        self.unsent_held.set(self.unsent_bytes());
    }

    fn take_received(&mut self, buffer: Vec<u8>, result: &Result<usize, IoError>) {
        let got = result.as_ref().map_or(0, |bytes| *bytes);
        if got > 0 {
            count(&self.net.traffic.receives);
        }
        self.undecoded.give_back(buffer, got, self.is_started());
        if self.undecoded.take_progress(FRAME_PROGRESS_BYTES) {
            self.frame_since_ns = None;
        }
        self.is_hungry = false;
        self.gone |= got == 0;
    }

    fn take_sent(&mut self, buffer: Vec<u8>, result: &Result<(), IoError>) {
        self.unsent.sent(buffer);
        self.count_unsent();
        self.patience = None;
        self.gone |= result.is_err();
    }

    /// Encodes the events that came, while the client reads. One that lost some is closed: it cannot be told of them.
    fn take_events(&mut self) {
        if self.inbox.has_overflowed() {
            tracing::warn!(peer = %self.stream.peer_addr(), "a client does not read the events it registered for: closed");
            self.gone = true;
        }
        while self.unsent_bytes() <= self.net.limits.unsent_bytes_max
            && let Some(event) = self.inbox.next()
        {
            self.encoder.event(&mut self.out, &event);
        }
    }

    /// Serves the frames received, at most a turn's worth. Whether there may be more at once.
    fn take_frames(&mut self, context: &mut Context<'_>) -> bool {
        if self.is_hungry || !self.takes_more() {
            return false;
        }
        let buffer = self.undecoded.take();
        let mut decoder = std::mem::replace(&mut self.decoder, FrameDecoder::requests(0));
        let turn_ends_ns = self.net.io.now_ns() + TURN_NS;
        self.now_us = self.net.io.wall_us();
        let (mut at, mut looked_at, mut frames) = (0, 0, 0);
        let mut is_turn_over = false;
        while !self.is_hungry && self.takes_more() && !is_turn_over {
            at += self.take_next(&mut decoder, buffer.get(at..).unwrap_or_default(), context);
            frames += 1;
            is_turn_over = frames == FRAMES_A_TURN;
            // The clock costs as much as a part of a small request.
            let is_looked_at = frames % FRAMES_A_LOOK == 0 || at - looked_at >= LOOK_BYTES;
            if is_looked_at || std::mem::take(&mut self.is_slow) {
                is_turn_over |= self.net.io.now_ns() > turn_ends_ns;
                self.now_us = self.net.io.wall_us();
                looked_at = at;
            }
        }
        self.decoder = decoder;
        self.undecoded.keep(buffer, at);
        is_turn_over
    }

    /// Serves the frame at the front of what was received, if it is whole. Gives the bytes that are done with.
    fn take_next(&mut self, decoder: &mut FrameDecoder, received: &[u8], context: &mut Context<'_>) -> usize {
        let consumed = match decoder.next(received) {
            Ok(step) => {
                self.is_hungry = step.frame.is_none();
                let (consumed, frame) = (step.consumed, step.frame);
                if let Some(framing) = frame.and_then(|frame| self.take_frame(frame, context)) {
                    decoder.set_framing(framing);
                }
                consumed
            }
            Err(refused) => {
                self.answer_in(decoder.version());
                self.encoder.frame_error(&mut self.out, &refused);
                self.ending |= refused.fatal;
                refused.consumed
            }
        };
        if self.is_hungry {
            self.count_unfinished(decoder, received.get(consumed..).unwrap_or_default());
        }
        consumed
    }

    /// Counts the frame that `rest` begins; where there is no room for it, it is answered OVERLOADED and passed over.
    fn count_unfinished(&mut self, decoder: &mut FrameDecoder, rest: &[u8]) {
        let ahead_bytes = self.undecoded.reserve_ahead(rest.len(), decoder.missing_bytes(rest));
        let bytes = rest.len() + decoder.unfinished_bytes() + ahead_bytes;
        self.is_within_frame = bytes > 0;
        let counted = if bytes > RECEIVE_BYTES_MIN { bytes } else { 0 };
        if let Err(error) = self.unfinished.resize(counted)
            && let Some(stream) = decoder.pass_over(rest)
        {
            self.unfinished.set(0);
            self.is_hungry = false;
            self.answer_in(decoder.version());
            self.encoder.error(&mut self.out, stream, &error);
        }
    }

    /// The version of a frame that is answered though it was not taken.
    fn answer_in(&mut self, version: Option<ProtocolVersion>) {
        if let Some(version) = version {
            self.encoder.set_version(version);
        }
    }

    /// Answers what concerns the connection itself, and starts every other request. Gives the framing from here on,
    /// where the frame changes it.
    fn take_frame(&mut self, frame: Frame<'_>, context: &mut Context<'_>) -> Option<Framing> {
        count(&self.net.traffic.requests);
        self.unfinished.set(0);
        self.is_within_frame = false;
        self.frame_since_ns = None;
        self.encoder.set_version(frame.version);
        let early = matches!(frame.opcode, Opcode::Startup | Opcode::Options | Opcode::AuthResponse);
        if !self.is_started() && !early {
            let error = CqlError::protocol_error(format!(
                "Unexpected message {:?}, expecting STARTUP or OPTIONS",
                frame.opcode
            ));
            self.encoder.error(&mut self.out, frame.stream, &error);
            return None;
        }
        if !early && frame.opcode != Opcode::Register {
            self.start_call(&frame, context);
            return None;
        }
        let mut framing = None;
        let outcome = match frame.request() {
            Ok(Request::Startup(startup)) => self.startup(&startup, frame.version).map(|asked| {
                framing = Some(asked);
                Outcome::Ready
            }),
            Ok(Request::Options) => Ok(Outcome::Supported(self.net.supported())),
            Ok(Request::Register(kinds)) => {
                self.inbox.register(&kinds);
                Ok(Outcome::Ready)
            }
            Ok(_) => Err(CqlError::protocol_error("no authentication is under way")),
            Err(error) => Err(error),
        };
        let outcome = outcome.unwrap_or_else(Outcome::Error);
        let answer = Answer { stream: frame.stream, outcome, warnings: Vec::new(), tracing_id: None };
        self.put_answer(answer);
        if let Some(framing) = framing {
            self.encoder.set_framing(framing);
        }
        framing
    }

    fn startup(&mut self, startup: &Startup<'_>, version: ProtocolVersion) -> Result<Framing, CqlError> {
        if self.is_started() {
            return Err(CqlError::protocol_error("Unexpected message STARTUP: the connection has started already"));
        }
        let framing = startup.framing(version)?;
        self.handshake = None;
        Ok(framing)
    }

    fn is_started(&self) -> bool {
        self.handshake.is_none()
    }

    /// Starts a request; what is answered at once is encoded at once.
    fn start_call(&mut self, frame: &Frame<'_>, context: &mut Context<'_>) {
        let before = self.out.len();
        match point::take(&self.net, frame, self.now_us, &mut self.encoder, &mut self.out) {
            AtOnce::Not => {}
            AtOnce::Answered => return self.note_answer(before),
            AtOnce::Written(None) => return self.answer_write(frame.stream, Ok(())),
            AtOnce::Written(Some(end)) => return self.written.push(end, frame.stream),
        }
        self.is_slow = true;
        let admitted = match self.net.requests.hold(frame.body.len()) {
            Ok(admitted) => admitted,
            Err(error) => return self.encoder.error(&mut self.out, frame.stream, &error),
        };
        let call = Call {
            net: self.net.clone(),
            version: frame.version,
            stream: frame.stream,
            opcode: frame.opcode,
            has_payload: frame.flags & flag::CUSTOM_PAYLOAD != 0,
            wants_tracing: frame.wants_tracing(),
            body: frame.body.to_vec(),
            keyspace: self.keyspace.clone(),
            address: self.address,
            admitted,
            answers: self.answers.clone(),
            answer_bytes: self.answer_bytes,
        };
        let mut flight: Flight = Box::pin(call.run());
        match flight.as_mut().poll(context) {
            Poll::Ready(answer) => self.put_answer(answer),
            Poll::Pending => self.in_flight.push(flight),
        }
    }
}
