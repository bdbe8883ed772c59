//! A blocking CQL connection: one request at a time, over the engine's own client half of the protocol.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use helenus::protocol::client::{Answer, Parameters, Response, ResultBody, requests};
use helenus::protocol::{CqlError, ErrorCode, Frame, FrameDecoder, FrameEncoder, Opcode, ProtocolVersion};

/// A request that takes longer than this hangs.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Room for an answer; pages are far smaller.
const ANSWER_BYTES_MAX: usize = 64 << 20;
const VERSION: ProtocolVersion = ProtocolVersion::V4;

/// Why a request has no result.
#[derive(Debug, thiserror::Error)]
pub enum CqlFailure {
    /// The server closed the connection, or is not there.
    #[error("the connection is gone: {0}")]
    Gone(std::io::Error),
    #[error("no answer within {} s", ANSWER_WITHIN.as_secs())]
    Hangs,
    /// The server answered with an error.
    #[error("{code:?}: {message}")]
    Refused { code: ErrorCode, message: String },
    #[error("an answer that makes no sense: {0}")]
    Nonsense(String),
}

impl From<std::io::Error> for CqlFailure {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::TimedOut => CqlFailure::Hangs,
            _ => CqlFailure::Gone(error),
        }
    }
}

impl From<CqlError> for CqlFailure {
    fn from(error: CqlError) -> Self {
        CqlFailure::Refused { code: error.code(), message: error.message().to_owned() }
    }
}

/// A row as it came: a value's bytes, or none for null.
pub type Row = Vec<Option<Vec<u8>>>;

/// One page of rows; empty for statements that give none.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub rows: Vec<Row>,
    /// There is more.
    pub next: Option<Vec<u8>>,
}

/// A connection that was started up.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    wire: Wire,
}

struct Wire {
    encoder: FrameEncoder,
    decoder: FrameDecoder,
    received: Vec<u8>,
    outgoing: Vec<u8>,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Wire").field("received_bytes", &self.received.len()).finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects and starts up.
    pub fn open(address: SocketAddr) -> Result<Connection, CqlFailure> {
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).map_err(CqlFailure::Gone)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        let wire = Wire {
            encoder: FrameEncoder::requests(VERSION),
            decoder: FrameDecoder::responses(ANSWER_BYTES_MAX),
            received: Vec::new(),
            outgoing: Vec::new(),
        };
        let mut connection = Connection { stream, wire };
        connection.ask(Opcode::Startup, |out| requests::put_startup(&[("CQL_VERSION", "3.4.7")], out))?;
        Ok(connection)
    }

    /// Runs a statement without paging.
    pub fn run(&mut self, text: &str) -> Result<Page, CqlFailure> {
        self.ask(Opcode::Query, |out| requests::put_query(VERSION, text, &Parameters::default(), out))
    }

    /// One page of a statement's rows.
    pub fn page(&mut self, text: &str, page_size: i32, state: Option<&[u8]>) -> Result<Page, CqlFailure> {
        let parameters = Parameters { page_size: Some(page_size), paging_state: state, ..Parameters::default() };
        self.ask(Opcode::Query, |out| requests::put_query(VERSION, text, &parameters, out))
    }

    /// All rows of a statement, page by page, handed over as they come.
    pub fn for_each_page(
        &mut self,
        text: &str,
        page_size: i32,
        mut each: impl FnMut(Vec<Row>),
    ) -> Result<(), CqlFailure> {
        let mut state: Option<Vec<u8>> = None;
        loop {
            let page = self.page(text, page_size, state.as_deref())?;
            each(page.rows);
            match page.next {
                Some(next) if state.as_ref() == Some(&next) => {
                    return Err(CqlFailure::Nonsense(format!("{text}: a page leads to itself")));
                }
                Some(next) => state = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// All rows of a statement, page by page.
    pub fn rows(&mut self, text: &str, page_size: i32) -> Result<Vec<Row>, CqlFailure> {
        let mut rows = Vec::new();
        self.for_each_page(text, page_size, |page| rows.extend(page))?;
        Ok(rows)
    }

    fn ask(&mut self, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) -> Result<Page, CqlFailure> {
        self.stream.write_all(self.wire.request(opcode, body))?;
        let mut chunk = vec![0; 64 << 10];
        loop {
            if let Some(page) = self.wire.answer()? {
                return Ok(page);
            }
            match self.stream.read(&mut chunk)? {
                0 => return Err(CqlFailure::Gone(ErrorKind::UnexpectedEof.into())),
                read => self.wire.received.extend_from_slice(&chunk[..read]),
            }
        }
    }
}

impl Wire {
    /// The bytes of one request, on stream 0.
    fn request(&mut self, opcode: Opcode, body: impl FnOnce(&mut Vec<u8>)) -> &[u8] {
        self.outgoing.clear();
        let frame = self.encoder.begin(&mut self.outgoing, 0, opcode);
        body(&mut self.outgoing);
        self.encoder.finish(&mut self.outgoing, frame);
        self.encoder.seal(&mut self.outgoing);
        &self.outgoing
    }

    /// The next answer in what was received, if it is all there.
    fn answer(&mut self) -> Result<Option<Page>, CqlFailure> {
        let step = self.decoder.next(&self.received).map_err(|error| CqlFailure::Nonsense(format!("{error:?}")))?;
        let answer = step.frame.as_ref().map(page_of).transpose();
        let consumed = step.consumed;
        self.received.drain(..consumed);
        answer
    }
}

fn page_of(frame: &Frame<'_>) -> Result<Page, CqlFailure> {
    let answer = Answer::decode(frame).map_err(|error| CqlFailure::Nonsense(error.to_string()))?;
    match answer.response {
        Response::Error(error) => Err(error.into()),
        Response::Result(ResultBody::Rows(rows)) => {
            let owned = |row: Vec<Option<&[u8]>>| row.into_iter().map(|cell| cell.map(<[u8]>::to_vec)).collect();
            Ok(Page { rows: rows.iter().map(owned).collect(), next: rows.paging_state.map(<[u8]>::to_vec) })
        }
        Response::Result(_) | Response::Ready => Ok(Page::default()),
        other => Err(CqlFailure::Nonsense(format!("{other:?}"))),
    }
}

/// The value of an `int` cell; none for null, and for bytes that are no int.
pub fn int(cell: Option<&Option<Vec<u8>>>) -> Option<i32> {
    let bytes = cell?.as_deref()?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

/// The value of a `bigint` or `counter` cell; none for null and for other lengths.
pub fn bigint(cell: Option<&Option<Vec<u8>>>) -> Option<i64> {
    let bytes = cell?.as_deref()?;
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

/// The value of a `text` cell; none for null. Bytes that are no text show as such.
pub fn text(cell: Option<&Option<Vec<u8>>>) -> Option<String> {
    Some(String::from_utf8_lossy(cell?.as_deref()?).into_owned())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::net::TcpListener;

    use super::*;

    /// Answers the requests of one connection, one after the other, with these frames.
    fn pretender(answers: Vec<Vec<u8>>) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            for answer in answers {
                assert!(stream.read(&mut request).unwrap() > 9);
                // In two parts: an answer need not come at once.
                let (head, tail) = answer.split_at(answer.len() / 2);
                stream.write_all(head).unwrap();
                stream.flush().unwrap();
                stream.write_all(tail).unwrap();
            }
        });
        address
    }

    fn frame(opcode: Opcode, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut encoder = FrameEncoder::responses(VERSION);
        let frame = encoder.begin(&mut out, 0, opcode);
        out.extend_from_slice(body);
        encoder.finish(&mut out, frame);
        out
    }

    /// A page of one column without metadata: flags, columns, paging state where there is one, rows.
    fn rows_frame(state: Option<&[u8]>, values: &[i32]) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 2];
        body.extend_from_slice(&(if state.is_some() { 6_i32 } else { 4 }).to_be_bytes());
        body.extend_from_slice(&1_i32.to_be_bytes());
        if let Some(state) = state {
            body.extend_from_slice(&i32::try_from(state.len()).unwrap().to_be_bytes());
            body.extend_from_slice(state);
        }
        body.extend_from_slice(&i32::try_from(values.len()).unwrap().to_be_bytes());
        for value in values {
            body.extend_from_slice(&4_i32.to_be_bytes());
            body.extend_from_slice(&value.to_be_bytes());
        }
        frame(Opcode::Result, &body)
    }

    #[test]
    fn pages_are_followed_to_the_end() {
        let ready = frame(Opcode::Ready, &[]);
        let address = pretender(vec![ready, rows_frame(Some(b"on"), &[1, 2]), rows_frame(None, &[3])]);
        let mut connection = Connection::open(address).unwrap();
        let rows = connection.rows("SELECT v FROM t", 2).unwrap();
        let values: Vec<_> = rows.iter().map(|row| int(row.first())).collect();
        assert_eq!(values, [Some(1), Some(2), Some(3)]);
    }

    #[test]
    fn a_page_that_leads_to_itself_is_nonsense() {
        let ready = frame(Opcode::Ready, &[]);
        let address = pretender(vec![ready, rows_frame(Some(b"on"), &[1]), rows_frame(Some(b"on"), &[1])]);
        let failure = Connection::open(address).unwrap().rows("SELECT v FROM t", 1).unwrap_err();
        assert!(matches!(failure, CqlFailure::Nonsense(_)), "{failure}");
    }

    #[test]
    fn an_error_keeps_its_code_and_text_and_an_end_is_told_apart() {
        let mut error = Vec::new();
        FrameEncoder::responses(VERSION).error(&mut error, 0, &CqlError::invalid("no such table"));
        let address = pretender(vec![frame(Opcode::Ready, &[]), error]);
        let mut connection = Connection::open(address).unwrap();
        let failure = connection.run("SELECT v FROM t").unwrap_err();
        assert_eq!(failure.to_string(), "Invalid: no such table");
        assert!(matches!(connection.run("SELECT v FROM t"), Err(CqlFailure::Gone(_))));
    }

    #[test]
    fn cells_are_read_by_type() {
        assert_eq!(int(Some(&Some(vec![0, 0, 1, 0]))), Some(256));
        assert_eq!(int(Some(&Some(vec![0]))), None);
        assert_eq!((int(Some(&None)), int(None)), (None, None));
        assert_eq!(text(Some(&Some(b"abc".to_vec()))), Some("abc".to_owned()));
    }
}
