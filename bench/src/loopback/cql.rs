//! A blocking client, which makes and fills the table.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use helenus::protocol::client::requests::{put_prepare, put_query, put_startup};
use helenus::protocol::client::{Answer, Parameters, Response, ResultBody};
use helenus::protocol::frame::{BODY_BYTES_MAX, HEADER_BYTES};
use helenus::protocol::{FrameDecoder, FrameEncoder, Opcode};

use super::Wire;
use crate::inprocess::{KEYSPACE, Kind, VERSION};

/// Different requests of a connection.
const REQUESTS: u64 = 256;

struct Client {
    socket: TcpStream,
    encoder: FrameEncoder,
    decoder: FrameDecoder,
    received: Vec<u8>,
}

/// Makes the table of a kind, fills it, and asks everything once: the answers are good and all of one size.
pub fn prepare(address: SocketAddr, kind: Kind) -> Result<Wire, String> {
    let mut client = Client::connect(address)?;
    client.query(KEYSPACE)?;
    client.query(kind.table())?;
    let filling = client.prepare(kind.filling())?;
    let measured = client.prepare(kind.statement())?;
    let mut requests = Vec::new();
    let mut answer_bytes = None;
    for number in 0..REQUESTS {
        let (key, mut out) = (kind.key(number), Vec::new());
        let count = kind.put_filling(&mut client.encoder, &filling, &key, &mut out);
        client.send(&out)?;
        for _ in 0..count {
            client.answer()?;
        }
        let start = requests.len();
        kind.put_request(&mut client.encoder, number, &measured, &key, &mut requests);
        client.send(&requests[start..])?;
        let (_, rows, bytes) = client.answer()?;
        if rows != kind.answer_rows() || *answer_bytes.get_or_insert(bytes) != bytes {
            return Err(format!("{}: an answer of {rows:?} rows and {bytes} B", kind.name()));
        }
    }
    let request_bytes = requests.len() / REQUESTS as usize;
    Ok(Wire { requests, request_bytes, answer_bytes: answer_bytes.unwrap_or(0) })
}

/// A connection that has said STARTUP.
pub fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    Client::connect(address).map(|client| client.socket)
}

impl Client {
    fn connect(address: SocketAddr) -> Result<Client, String> {
        let socket = TcpStream::connect(address).map_err(|error| format!("{address}: {error}"))?;
        socket.set_nodelay(true).map_err(|error| error.to_string())?;
        let (encoder, decoder) = (FrameEncoder::requests(VERSION), FrameDecoder::responses(BODY_BYTES_MAX));
        let mut client = Client { socket, encoder, decoder, received: Vec::new() };
        client.ask(Opcode::Startup, |out| put_startup(&[("CQL_VERSION", "3.0.0")], out))?;
        Ok(client)
    }

    fn query(&mut self, text: &str) -> Result<(), String> {
        self.ask(Opcode::Query, |out| put_query(VERSION, text, &Parameters::default(), out)).map(|_| ())
    }

    fn prepare(&mut self, text: &str) -> Result<Vec<u8>, String> {
        self.ask(Opcode::Prepare, |out| put_prepare(VERSION, text, None, out))
    }

    fn ask(&mut self, opcode: Opcode, put: impl FnOnce(&mut Vec<u8>)) -> Result<Vec<u8>, String> {
        let mut out = Vec::new();
        let frame = self.encoder.begin(&mut out, 0, opcode);
        put(&mut out);
        self.encoder.finish(&mut out, frame);
        self.send(&out)?;
        self.answer().map(|(id, _, _)| id)
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.write_all(bytes).map_err(|error| error.to_string())
    }

    /// A prepared statement's id, the rows of a page, and the answer's size.
    fn answer(&mut self) -> Result<(Vec<u8>, Option<usize>, usize), String> {
        loop {
            let step = self.decoder.next(&self.received).map_err(|error| error.error.message().to_owned())?;
            let consumed = step.consumed;
            if let Some(frame) = step.frame {
                let bytes = HEADER_BYTES + frame.body.len();
                let answered = match Answer::decode(&frame).map_err(|error| error.to_string())?.response {
                    Response::Error(error) => return Err(error.message().to_owned()),
                    Response::Result(ResultBody::Prepared(one)) => (one.id, None, bytes),
                    Response::Result(ResultBody::Rows(rows)) => (Vec::new(), Some(rows.row_count), bytes),
                    _ => (Vec::new(), None, bytes),
                };
                self.received.drain(..consumed);
                return Ok(answered);
            }
            self.received.drain(..consumed);
            let mut buffer = [0; 16 << 10];
            match self.socket.read(&mut buffer).map_err(|error| error.to_string())? {
                0 => return Err("the server closed the connection".into()),
                got => self.received.extend_from_slice(&buffer[..got]),
            }
        }
    }
}
