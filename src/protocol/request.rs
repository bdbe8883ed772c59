//! The requests of a client, decoded so that texts and values borrow from the body.

use super::error::CqlError;
use super::event::EventKind;
use super::params::{QueryParameters, Values};
use super::version::ProtocolVersion;
use super::wire::{Malformed, Read, Reader};

/// The operations of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Opcode {
    Error = 0x00,
    Startup = 0x01,
    Ready = 0x02,
    Authenticate = 0x03,
    Options = 0x05,
    Supported = 0x06,
    Query = 0x07,
    Result = 0x08,
    Prepare = 0x09,
    Execute = 0x0A,
    Register = 0x0B,
    Event = 0x0C,
    Batch = 0x0D,
    AuthChallenge = 0x0E,
    AuthResponse = 0x0F,
    AuthSuccess = 0x10,
}

impl Opcode {
    pub const ALL: [Opcode; 16] = [
        Opcode::Error,
        Opcode::Startup,
        Opcode::Ready,
        Opcode::Authenticate,
        Opcode::Options,
        Opcode::Supported,
        Opcode::Query,
        Opcode::Result,
        Opcode::Prepare,
        Opcode::Execute,
        Opcode::Register,
        Opcode::Event,
        Opcode::Batch,
        Opcode::AuthChallenge,
        Opcode::AuthResponse,
        Opcode::AuthSuccess,
    ];

    pub fn from_number(number: u8) -> Option<Opcode> {
        Opcode::ALL.into_iter().find(|opcode| opcode.number() == number)
    }

    pub fn number(self) -> u8 {
        self as u8
    }

    /// Whether clients send it.
    pub fn is_request(self) -> bool {
        matches!(
            self,
            Opcode::Startup
                | Opcode::Options
                | Opcode::Query
                | Opcode::Prepare
                | Opcode::Execute
                | Opcode::Register
                | Opcode::Batch
                | Opcode::AuthResponse
        )
    }
}

/// What a client asks.
#[derive(Clone, Debug)]
pub enum Request<'a> {
    Startup(Startup<'a>),
    Options,
    Register(Vec<EventKind>),
    AuthResponse(Option<&'a [u8]>),
    Query(Query<'a>),
    Prepare(Prepare<'a>),
    Execute(Execute<'a>),
    Batch(Batch<'a>),
}

/// The options with which a connection starts; names are compared in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Startup<'a> {
    pub options: Vec<(&'a str, &'a str)>,
}

#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    pub text: &'a str,
    pub parameters: QueryParameters<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepare<'a> {
    pub text: &'a str,
    /// The keyspace to prepare in instead of the connection's (from version 5 on).
    pub keyspace: Option<&'a str>,
}

#[derive(Clone, Copy, Debug)]
pub struct Execute<'a> {
    pub id: &'a [u8],
    /// Which columns the client knows (from version 5 on).
    pub result_metadata_id: Option<&'a [u8]>,
    pub parameters: QueryParameters<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    Logged,
    Unlogged,
    Counter,
}

/// A batch. Its statements were checked when it was decoded, and are read from its body as they are walked.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    pub kind: BatchKind,
    pub parameters: QueryParameters<'a>,
    statements: &'a [u8],
    count: u16,
    version: ProtocolVersion,
}

/// How a batch names a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementRef<'a> {
    Text(&'a str),
    Prepared(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
pub struct BatchStatement<'a> {
    pub statement: StatementRef<'a>,
    pub values: Values<'a>,
}

impl<'a> Request<'a> {
    /// Decodes the body of a request, which starts with the custom payload if the frame's header says so. Bytes after
    /// the message are passed over, as Cassandra does.
    pub fn decode(
        version: ProtocolVersion,
        opcode: Opcode,
        body: &'a [u8],
        has_payload: bool,
    ) -> Result<Request<'a>, CqlError> {
        let mut reader = Reader::new(body);
        if has_payload {
            skip_payload(&mut reader, version)?;
        }
        let request = match opcode {
            Opcode::Startup => Request::Startup(Startup { options: reader.string_map("STARTUP's options")? }),
            Opcode::Options => Request::Options,
            Opcode::Register => Request::Register(read_events(&mut reader)?),
            Opcode::AuthResponse => Request::AuthResponse(reader.bytes("a token")?),
            Opcode::Query => Request::Query(Query {
                text: reader.long_string("a query")?,
                parameters: QueryParameters::decode(&mut reader, version)?,
            }),
            Opcode::Prepare => Request::Prepare(Prepare::decode(&mut reader, version)?),
            Opcode::Execute => Request::Execute(Execute::decode(&mut reader, version)?),
            Opcode::Batch => Request::Batch(Batch::decode(&mut reader, version)?),
            other => {
                return Err(CqlError::protocol_error(format!(
                    "Wrong protocol direction (expected REQUEST, got RESPONSE) for opcode {} ({other:?})",
                    other.number()
                )));
            }
        };
        Ok(request)
    }
}

/// Custom payloads are accepted and mean nothing here.
fn skip_payload(reader: &mut Reader<'_>, version: ProtocolVersion) -> Read<()> {
    if version < ProtocolVersion::V4 {
        return Err(Malformed::Version { what: "a custom payload", needs: 4 });
    }
    let count = reader.count(6, "a custom payload")?;
    for _ in 0..count {
        reader.string("a custom payload's key")?;
        reader.bytes("a custom payload's value")?;
    }
    Ok(())
}

fn read_events(reader: &mut Reader<'_>) -> Read<Vec<EventKind>> {
    let names = reader.string_list("event types")?;
    let known = |name: &str| {
        EventKind::from_name(name).ok_or_else(|| Malformed::Name { what: "event type", got: name.to_owned() })
    };
    names.into_iter().map(known).collect()
}

impl<'a> Startup<'a> {
    pub fn get(&self, name: &str) -> Option<&'a str> {
        self.options.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

impl<'a> Prepare<'a> {
    const HAS_KEYSPACE: u32 = 0x01;

    fn decode(reader: &mut Reader<'a>, version: ProtocolVersion) -> Read<Prepare<'a>> {
        let text = reader.long_string("a query")?;
        let flags = if version >= ProtocolVersion::V5 { reader.uint("PREPARE's flags")? } else { 0 };
        let keyspace = if flags & Prepare::HAS_KEYSPACE != 0 { Some(reader.string("a keyspace")?) } else { None };
        Ok(Prepare { text, keyspace })
    }
}

impl<'a> Execute<'a> {
    fn decode(reader: &mut Reader<'a>, version: ProtocolVersion) -> Read<Execute<'a>> {
        let id = reader.short_bytes("a prepared statement's id")?;
        let v5 = version >= ProtocolVersion::V5;
        let result_metadata_id = if v5 { Some(reader.short_bytes("a result metadata id")?) } else { None };
        Ok(Execute { id, result_metadata_id, parameters: QueryParameters::decode(reader, version)? })
    }
}

impl<'a> Batch<'a> {
    fn decode(reader: &mut Reader<'a>, version: ProtocolVersion) -> Read<Batch<'a>> {
        let kind = match reader.byte("a batch's type")? {
            0 => BatchKind::Logged,
            1 => BatchKind::Unlogged,
            2 => BatchKind::Counter,
            got => return Err(Malformed::Code { what: "a batch's type", got: i64::from(got) }),
        };
        let count = reader.short("the number of statements")?;
        let body = reader.rest();
        for _ in 0..count {
            BatchStatement::decode(reader, version)?;
        }
        let len_bytes = body.len() - reader.left_bytes();
        let statements = body.get(..len_bytes).unwrap_or_default();
        Ok(Batch { kind, parameters: QueryParameters::decode(reader, version)?, statements, count, version })
    }

    pub fn len(&self) -> usize {
        usize::from(self.count)
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn statements(&self) -> BatchIter<'a> {
        BatchIter { reader: Reader::new(self.statements), left: self.count, version: self.version }
    }
}

impl<'a> BatchStatement<'a> {
    fn decode(reader: &mut Reader<'a>, version: ProtocolVersion) -> Read<BatchStatement<'a>> {
        let statement = match reader.byte("a batched statement's kind")? {
            0 => StatementRef::Text(reader.long_string("a query")?),
            1 => StatementRef::Prepared(reader.short_bytes("a prepared statement's id")?),
            got => return Err(Malformed::Code { what: "a batched statement's kind", got: i64::from(got) }),
        };
        Ok(BatchStatement { statement, values: Values::decode(reader, false, version)? })
    }
}

/// See `Batch::statements`.
pub struct BatchIter<'a> {
    reader: Reader<'a>,
    left: u16,
    version: ProtocolVersion,
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = BatchStatement<'a>;

    fn next(&mut self) -> Option<BatchStatement<'a>> {
        self.left = self.left.checked_sub(1)?;
        let statement = BatchStatement::decode(&mut self.reader, self.version);
        debug_assert!(statement.is_ok(), "statements were checked when their batch was decoded");
        statement.ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for BatchIter<'_> {}
