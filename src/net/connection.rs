//! One connection: receives, starts requests, sends their answers together.
//!
//! One receive yields all its frames. What is answered at once goes out with the next send; what waits is polled here,
//! in the connection's own task. A client that does not read stops being read; nothing else does.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use futures_util::stream::{FuturesUnordered, Stream as _};

use crate::io::{IoError, Sleep, Stream};
use crate::net::Net;
use crate::net::events::Inbox;
use crate::net::limits::{FRAMES_A_TURN, RECEIVE_BYTES};
use crate::net::outcome::{Answer, Outcome};
use crate::net::request::{Admitted, Call};
use crate::protocol::frame::{Frame, flag};
use crate::protocol::{CqlError, FrameDecoder, FrameEncoder, Framing, Opcode, ProtocolVersion, Request, Startup};

type Transfer<T> = Pin<Box<dyn Future<Output = (Vec<u8>, Result<T, IoError>)>>>;
type Flight = Pin<Box<dyn Future<Output = Answer>>>;

/// What a connection's wait ended with.
enum Woken {
    Received(Vec<u8>, Result<usize, IoError>),
    Sent(Vec<u8>, Result<(), IoError>),
    /// Answers were appended, or events came, or the shard stops.
    Progress,
    /// Patience with the client ran out.
    Late,
}

pub struct Connection {
    net: Rc<Net>,
    stream: Stream,
    decoder: FrameDecoder,
    encoder: FrameEncoder,
    keyspace: Rc<RefCell<Option<String>>>,
    inbox: Rc<Inbox>,
    /// Received and not decoded; empty while a receive is under way.
    received: Vec<u8>,
    receiving: Option<Transfer<usize>>,
    /// Encoded and not handed to a send.
    out: Vec<u8>,
    sending: Option<Transfer<()>>,
    /// The buffer of the last send.
    spare: Vec<u8>,
    in_flight: FuturesUnordered<Flight>,
    /// When patience ends: with the handshake, then with a send.
    patience: Option<Pin<Box<Sleep>>>,
    started: bool,
    /// Nothing more is taken from the client; what is in flight is answered.
    ending: bool,
    /// Nobody reads any more: nothing is answered either.
    gone: bool,
}

impl Connection {
    pub fn new(net: Rc<Net>, stream: Stream) -> Self {
        let inbox = Rc::new(Inbox::default());
        net.listeners.add(&inbox);
        let patience = Some(Box::pin(net.io.sleep(net.limits.startup_patience)));
        Connection {
            decoder: FrameDecoder::requests(net.limits.frame_bytes_max),
            encoder: FrameEncoder::responses(ProtocolVersion::NEWEST),
            net,
            stream,
            keyspace: Rc::default(),
            inbox,
            received: Vec::new(),
            receiving: None,
            out: Vec::new(),
            sending: None,
            spare: Vec::new(),
            in_flight: FuturesUnordered::new(),
            patience,
            started: false,
            ending: false,
            gone: false,
        }
    }

    /// Serves until the client closes, breaks the protocol or stops reading, or the shard stops.
    pub async fn serve(mut self) {
        while !self.gone {
            let more = self.take_frames();
            self.take_events();
            self.ending |= self.net.is_stopping();
            self.start_transfers(more);
            if self.ending && self.in_flight.is_empty() && self.sending.is_none() && self.out.is_empty() {
                break;
            }
            if more {
                self.net.io.yield_now().await;
            }
            match self.wait(more).await {
                Woken::Received(buffer, result) => self.take_received(buffer, &result),
                Woken::Sent(buffer, result) => self.take_sent(buffer, &result),
                Woken::Progress => {}
                Woken::Late => self.gone = true,
            }
        }
        self.stream.shutdown();
    }

    /// Starts a send of all that is encoded, and a receive where the client is keeping up.
    fn start_transfers(&mut self, more: bool) {
        if self.sending.is_none() && !self.out.is_empty() {
            self.encoder.seal(&mut self.out);
            let full = std::mem::replace(&mut self.out, std::mem::take(&mut self.spare));
            let stream = self.stream.clone();
            self.sending = Some(Box::pin(async move { stream.send_all(full).await }));
            self.patience = Some(Box::pin(self.net.io.sleep(self.net.limits.send_patience)));
        }
        if self.receiving.is_none() && !more && self.takes_more() {
            let mut buffer = std::mem::take(&mut self.received);
            buffer.reserve(RECEIVE_BYTES);
            let stream = self.stream.clone();
            self.receiving = Some(Box::pin(async move { stream.recv(buffer).await }));
        }
    }

    /// Whether the client may send more: it reads its answers, and not too much is in flight.
    fn takes_more(&self) -> bool {
        !self.ending
            && self.out.len() <= self.net.limits.unsent_bytes_max
            && self.in_flight.len() < self.net.limits.in_flight_max
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
        let mut progress = self.inbox.woken.replace(false);
        while let Poll::Ready(Some(answer)) = Pin::new(&mut self.in_flight).poll_next(context) {
            answer.encode(&mut self.encoder, &mut self.out);
            progress = true;
        }
        if let Some(sending) = &mut self.sending
            && let Poll::Ready((buffer, result)) = sending.as_mut().poll(context)
        {
            self.sending = None;
            return Poll::Ready(Woken::Sent(buffer, result));
        }
        if let Some(receiving) = &mut self.receiving
            && let Poll::Ready((buffer, result)) = receiving.as_mut().poll(context)
        {
            self.receiving = None;
            return Poll::Ready(Woken::Received(buffer, result));
        }
        if progress {
            return Poll::Ready(Woken::Progress);
        }
        if let Some(patience) = &mut self.patience
            && patience.as_mut().poll(context).is_ready()
        {
            return Poll::Ready(Woken::Late);
        }
        self.inbox.wait(context.waker());
        Poll::Pending
    }

    fn take_received(&mut self, buffer: Vec<u8>, result: &Result<usize, IoError>) {
        self.received = buffer;
        if !matches!(result, Ok(bytes) if *bytes > 0) {
            self.gone = true;
        }
    }

    fn take_sent(&mut self, mut buffer: Vec<u8>, result: &Result<(), IoError>) {
        buffer.clear();
        self.spare = buffer;
        self.patience = None;
        self.gone |= result.is_err();
    }

    fn take_events(&mut self) {
        for event in self.inbox.take() {
            self.encoder.event(&mut self.out, &event);
        }
    }

    /// Serves the frames received, at most a turn's worth. Whether there may be more.
    fn take_frames(&mut self) -> bool {
        if self.receiving.is_some() {
            return false;
        }
        let mut buffer = std::mem::take(&mut self.received);
        let mut at = 0;
        let mut frames = 0;
        let more = loop {
            if frames == FRAMES_A_TURN || !self.takes_more() {
                break frames == FRAMES_A_TURN && self.takes_more();
            }
            let mut decoder = std::mem::replace(&mut self.decoder, FrameDecoder::requests(0));
            let step = decoder.next(buffer.get(at..).unwrap_or_default());
            let found = match step {
                Ok(step) => {
                    at += step.consumed;
                    step.frame.map(|frame| self.take_frame(frame))
                }
                Err(refused) => {
                    at += refused.consumed;
                    self.encoder.frame_error(&mut self.out, &refused);
                    self.ending |= refused.fatal;
                    Some(None)
                }
            };
            self.decoder = decoder;
            match found {
                None => break false,
                Some(Some(framing)) => self.decoder.set_framing(framing),
                Some(None) => {}
            }
            frames += 1;
        };
        buffer.drain(..at);
        self.received = buffer;
        more
    }

    /// Answers what concerns the connection itself, and starts every other request. Gives the framing from here on,
    /// where the frame changes it.
    fn take_frame(&mut self, frame: Frame<'_>) -> Option<Framing> {
        self.encoder.set_version(frame.version);
        let early = matches!(frame.opcode, Opcode::Startup | Opcode::Options | Opcode::AuthResponse);
        if !self.started && !early {
            let error = CqlError::protocol_error(format!(
                "Unexpected message {:?}, expecting STARTUP or OPTIONS",
                frame.opcode
            ));
            self.encoder.error(&mut self.out, frame.stream, &error);
            return None;
        }
        if !early && frame.opcode != Opcode::Register {
            self.start_call(&frame);
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
        answer.encode(&mut self.encoder, &mut self.out);
        if let Some(framing) = framing {
            self.encoder.set_framing(framing);
        }
        framing
    }

    fn startup(&mut self, startup: &Startup<'_>, version: ProtocolVersion) -> Result<Framing, CqlError> {
        if self.started {
            return Err(CqlError::protocol_error("Unexpected message STARTUP: the connection has started already"));
        }
        let framing = startup.framing(version)?;
        self.started = true;
        self.patience = None;
        Ok(framing)
    }

    /// Starts a request; what is answered at once is encoded at once.
    fn start_call(&mut self, frame: &Frame<'_>) {
        let admitted = match Admitted::take(&self.net, frame.body.len()) {
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
            admitted,
        };
        self.in_flight.push(Box::pin(call.run()));
    }
}
