//! The client's end of a simulated connection.

use helenus::io::Stream;
use helenus::protocol::client::requests::{put_prepare, put_query, put_startup};
use helenus::protocol::client::{Answer, Parameters, Response, ResultBody};
use helenus::protocol::frame::{BODY_BYTES_MAX, HEADER_BYTES};
use helenus::protocol::{FrameDecoder, FrameEncoder, Opcode};

use super::workload::VERSION;

pub struct Client {
    stream: Stream,
    pub encoder: FrameEncoder,
    decoder: FrameDecoder,
    received: Vec<u8>,
}

/// What an answer says that is of use later.
pub struct Answered {
    /// Of a prepared statement; else empty.
    id: Vec<u8>,
    /// Rows of a page; `None` where the answer is none.
    pub rows: Option<usize>,
    /// On the wire, header and body.
    pub bytes: usize,
}

impl Client {
    pub fn new(stream: Stream) -> Self {
        Client {
            stream,
            encoder: FrameEncoder::requests(VERSION),
            decoder: FrameDecoder::responses(BODY_BYTES_MAX),
            received: Vec::with_capacity(256 << 10),
        }
    }

    pub async fn startup(&mut self) -> Result<(), String> {
        self.ask(Opcode::Startup, |out| put_startup(&[("CQL_VERSION", "3.0.0")], out)).await.map(|_| ())
    }

    pub async fn query(&mut self, text: &str) -> Result<(), String> {
        self.ask(Opcode::Query, |out| put_query(VERSION, text, &Parameters::default(), out)).await.map(|_| ())
    }

    /// The id of a statement.
    pub async fn prepare(&mut self, text: &str) -> Result<Vec<u8>, String> {
        self.ask(Opcode::Prepare, |out| put_prepare(VERSION, text, None, out)).await.map(|answered| answered.id)
    }

    async fn ask(&mut self, opcode: Opcode, put: impl FnOnce(&mut Vec<u8>)) -> Result<Answered, String> {
        let mut out = Vec::new();
        let frame = self.encoder.begin(&mut out, 0, opcode);
        put(&mut out);
        self.encoder.finish(&mut out, frame);
        self.send(&mut out).await?;
        self.answer().await
    }

    /// Sends all of it; the buffer comes back.
    pub async fn send(&mut self, buffer: &mut Vec<u8>) -> Result<(), String> {
        let (back, outcome) = self.stream.send_all(std::mem::take(buffer)).await;
        *buffer = back;
        outcome.map_err(|error| error.to_string())
    }

    /// The next answer. An error where it is one.
    pub async fn answer(&mut self) -> Result<Answered, String> {
        loop {
            let step = self.decoder.next(&self.received).map_err(|error| error.error.message().to_owned())?;
            let consumed = step.consumed;
            if let Some(frame) = step.frame {
                let bytes = HEADER_BYTES + frame.body.len();
                let answered = match Answer::decode(&frame).map_err(|error| error.to_string())?.response {
                    Response::Error(error) => return Err(error.message().to_owned()),
                    Response::Result(ResultBody::Prepared(one)) => Answered { id: one.id, rows: None, bytes },
                    Response::Result(ResultBody::Rows(rows)) => {
                        Answered { id: Vec::new(), rows: Some(rows.row_count), bytes }
                    }
                    _ => Answered { id: Vec::new(), rows: None, bytes },
                };
                self.received.drain(..consumed);
                return Ok(answered);
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

    /// Takes so many bytes of answers, unlooked at: their sizes are known.
    pub async fn take(&mut self, mut missing_bytes: usize) -> Result<(), String> {
        while missing_bytes > 0 {
            self.received.clear();
            let (buffer, outcome) = self.stream.recv(std::mem::take(&mut self.received)).await;
            self.received = buffer;
            let got = outcome.map_err(|error| error.to_string())?;
            missing_bytes = missing_bytes.checked_sub(got).filter(|_| got > 0).ok_or("an answer of another size")?;
        }
        self.received.clear();
        Ok(())
    }
}
