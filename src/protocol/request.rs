//! The requests of a client, decoded so that texts and values borrow from the body.

use super::compression::Compression;
use super::error::CqlError;
use super::event::EventKind;
use super::frame::Framing;
use super::params::{QueryParameters, Value, Values};
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
        Some(match number {
            0x00 => Opcode::Error,
            0x01 => Opcode::Startup,
            0x02 => Opcode::Ready,
            0x03 => Opcode::Authenticate,
            0x05 => Opcode::Options,
            0x06 => Opcode::Supported,
            0x07 => Opcode::Query,
            0x08 => Opcode::Result,
            0x09 => Opcode::Prepare,
            0x0A => Opcode::Execute,
            0x0B => Opcode::Register,
            0x0C => Opcode::Event,
            0x0D => Opcode::Batch,
            0x0E => Opcode::AuthChallenge,
            0x0F => Opcode::AuthResponse,
            0x10 => Opcode::AuthSuccess,
            _ => return None,
        })
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
            Opcode::Execute => Request::Execute(Execute::read(&mut reader, version, |_| ())?),
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

    /// How the connection is framed from the answer to this STARTUP on; an error where its options ask for what is
    /// not there.
    pub fn framing(&self, version: ProtocolVersion) -> Result<Framing, CqlError> {
        let missing = || CqlError::protocol_error("Missing value CQL_VERSION in STARTUP message");
        let cql_version = self.get("CQL_VERSION").ok_or_else(missing)?;
        let major = cql_version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_none_or(|major| major < 3) {
            return Err(CqlError::protocol_error(format!(
                "CQL version {cql_version} is not supported by the binary protocol (supported version are >= 3.0.0)"
            )));
        }
        let compression = match self.get("COMPRESSION") {
            None => None,
            Some(name) => Some(
                Compression::from_name(name)
                    .ok_or_else(|| CqlError::protocol_error(format!("Unknown compression algorithm: {name}")))?,
            ),
        };
        Framing::after_startup(version, compression)
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
    /// The body of an EXECUTE that has no custom payload; `each` of its values is seen in its turn.
    #[inline]
    pub fn decode_each(
        version: ProtocolVersion,
        body: &'a [u8],
        each: impl FnMut(Value<'a>),
    ) -> Result<Execute<'a>, CqlError> {
        Ok(Execute::read(&mut Reader::new(body), version, each)?)
    }

    #[inline]
    fn read(reader: &mut Reader<'a>, version: ProtocolVersion, each: impl FnMut(Value<'a>)) -> Read<Execute<'a>> {
        let id = reader.short_bytes("a prepared statement's id")?;
        let v5 = version >= ProtocolVersion::V5;
        let result_metadata_id = if v5 { Some(reader.short_bytes("a result metadata id")?) } else { None };
        Ok(Execute { id, result_metadata_id, parameters: QueryParameters::decode_each(reader, version, each)? })
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
            BatchStatement::decode(reader, version, |_| ())?;
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
    fn decode(
        reader: &mut Reader<'a>,
        version: ProtocolVersion,
        each: impl FnMut(Value<'a>),
    ) -> Read<BatchStatement<'a>> {
        let statement = match reader.byte("a batched statement's kind")? {
            0 => StatementRef::Text(reader.long_string("a query")?),
            1 => StatementRef::Prepared(reader.short_bytes("a prepared statement's id")?),
            got => return Err(Malformed::Code { what: "a batched statement's kind", got: i64::from(got) }),
        };
        Ok(BatchStatement { statement, values: Values::decode_each(reader, false, version, each)? })
    }
}

/// See `Batch::statements`.
pub struct BatchIter<'a> {
    reader: Reader<'a>,
    left: u16,
    version: ProtocolVersion,
}

impl<'a> BatchIter<'a> {
    /// The next statement; `each` of its values is seen in its turn.
    #[inline]
    pub fn next_each(&mut self, each: impl FnMut(Value<'a>)) -> Option<BatchStatement<'a>> {
        self.left = self.left.checked_sub(1)?;
        let statement = BatchStatement::decode(&mut self.reader, self.version, each);
        debug_assert!(statement.is_ok(), "statements were checked when their batch was decoded");
        statement.ok()
    }
}

impl<'a> Iterator for BatchIter<'a> {
    type Item = BatchStatement<'a>;

    fn next(&mut self) -> Option<BatchStatement<'a>> {
        self.next_each(|_| ())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (usize::from(self.left), Some(usize::from(self.left)))
    }
}

impl ExactSizeIterator for BatchIter<'_> {}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;
    use crate::protocol::client::requests::*;
    use crate::protocol::client::{BatchEntry, Parameters};
    use crate::protocol::consistency::Consistency;
    use crate::protocol::wire::{put_bytes, put_short, put_string};
    use proptest::prelude::*;

    fn decode(version: ProtocolVersion, opcode: Opcode, body: &[u8]) -> Result<Request<'_>, CqlError> {
        Request::decode(version, opcode, body, false)
    }

    /// One body of each kind of request.
    fn bodies(version: ProtocolVersion) -> Vec<(Opcode, Vec<u8>)> {
        let values = [Value::Bytes(b"one"), Value::Null];
        let parameters = Parameters {
            consistency: Consistency::Two,
            values: &values,
            names: &["a", "b"],
            page_size: Some(10),
            timestamp: Some(77),
            now_in_seconds: Some(5),
            ..Parameters::default()
        };
        let entries = [
            BatchEntry { statement: StatementRef::Text("INSERT"), values: &values },
            BatchEntry { statement: StatementRef::Prepared(&[9; 16]), values: &[] },
        ];
        let encode = |put: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            put(&mut out);
            out
        };
        let batch = Parameters { values: &[], names: &[], ..parameters };
        vec![
            (Opcode::Startup, encode(&|out| put_startup(&[("CQL_VERSION", "3.0.0"), ("compression", "lz4")], out))),
            (Opcode::Register, encode(&|out| put_register(&EventKind::ALL, out))),
            (Opcode::AuthResponse, encode(&|out| put_auth_response(Some(b"\0user\0pass"), out))),
            (Opcode::Query, encode(&|out| put_query(version, "SELECT", &parameters, out))),
            (Opcode::Prepare, encode(&|out| put_prepare(version, "SELECT ?", Some("ks"), out))),
            (Opcode::Execute, encode(&|out| put_execute(version, &[1; 16], &[2; 16], &parameters, out))),
            (Opcode::Batch, encode(&|out| put_batch(version, BatchKind::Unlogged, &entries, &batch, out))),
        ]
    }

    #[test]
    fn opcodes_and_their_numbers() {
        for opcode in Opcode::ALL {
            assert_eq!(Opcode::from_number(opcode.number()), Some(opcode));
        }
        let known = (0..=u8::MAX).filter(|number| Opcode::from_number(*number).is_some()).count();
        assert_eq!((known, Opcode::from_number(4)), (16, None));
    }

    #[test]
    fn requests_round_trip() {
        for version in ProtocolVersion::ALL {
            let v5 = version == ProtocolVersion::V5;
            for (opcode, body) in bodies(version) {
                match decode(version, opcode, &body).unwrap() {
                    Request::Startup(startup) => {
                        assert_eq!(startup.get("COMPRESSION"), Some("lz4"));
                        assert_eq!(startup.get("cql_version"), Some("3.0.0"));
                        assert_eq!(startup.get("other"), None);
                    }
                    Request::Options => unreachable!("no body was made for it"),
                    Request::Register(kinds) => assert_eq!(kinds, EventKind::ALL),
                    Request::AuthResponse(token) => assert_eq!(token, Some(b"\0user\0pass".as_slice())),
                    Request::Query(query) => {
                        assert_eq!(query.text, "SELECT");
                        check_parameters(&query.parameters, v5);
                    }
                    Request::Prepare(prepare) => {
                        assert_eq!(prepare, Prepare { text: "SELECT ?", keyspace: v5.then_some("ks") });
                    }
                    Request::Execute(execute) => {
                        assert_eq!(execute.id, [1; 16]);
                        assert_eq!(execute.result_metadata_id, v5.then_some([2; 16].as_slice()));
                        check_parameters(&execute.parameters, v5);
                    }
                    Request::Batch(batch) => check_batch(&batch),
                }
            }
        }
        assert!(matches!(decode(ProtocolVersion::V4, Opcode::Options, &[]), Ok(Request::Options)));
    }

    fn check_parameters(parameters: &QueryParameters<'_>, v5: bool) {
        assert_eq!(parameters.consistency, Consistency::Two);
        let values: Vec<_> = parameters.values.iter().collect();
        assert_eq!(values, [(Some("a"), Value::Bytes(b"one")), (Some("b"), Value::Null)]);
        assert_eq!((parameters.page_size, parameters.timestamp), (Some(10), Some(77)));
        assert_eq!(parameters.now_in_seconds, v5.then_some(5));
    }

    fn check_batch(batch: &Batch<'_>) {
        assert_eq!((batch.kind, batch.len(), batch.parameters.timestamp), (BatchKind::Unlogged, 2, Some(77)));
        let statements: Vec<_> = batch.statements().collect();
        assert_eq!(statements[0].statement, StatementRef::Text("INSERT"));
        assert_eq!(statements[0].values.len(), 2);
        assert_eq!(statements[1].statement, StatementRef::Prepared(&[9; 16]));
        assert!(statements[1].values.is_empty());
    }

    #[test]
    fn startup_decides_the_framing() {
        let framing = |version, options: &[(&str, &str)]| {
            let framing = Startup { options: options.to_vec() }.framing(version);
            framing.map_err(|error| error.message().to_owned())
        };
        let (v4, v5) = (ProtocolVersion::V4, ProtocolVersion::V5);
        assert_eq!(framing(v4, &[("CQL_VERSION", "3.0.0")]), Ok(Framing::Plain));
        assert_eq!(framing(v5, &[("CQL_VERSION", "4.0.0")]), Ok(Framing::Segments));
        let lz4 = [("cql_version", "3.4.5"), ("COMPRESSION", "LZ4")];
        assert_eq!(framing(v4, &lz4), Ok(Framing::Compressed(Compression::Lz4)));
        assert_eq!(framing(v5, &lz4), Ok(Framing::SegmentsLz4));
        assert_eq!(framing(v4, &[]), Err("Missing value CQL_VERSION in STARTUP message".into()));
        assert!(framing(v4, &[("CQL_VERSION", "2.0.0")]).is_err_and(|text| text.contains("CQL version 2.0.0 is not")));
        assert!(framing(v4, &[("CQL_VERSION", "x")]).is_err());
        let zip = [("CQL_VERSION", "3.0.0"), ("COMPRESSION", "zip")];
        assert_eq!(framing(v4, &zip), Err("Unknown compression algorithm: zip".into()));
        assert!(framing(v5, &[("CQL_VERSION", "3.0.0"), ("COMPRESSION", "snappy")]).is_err());
    }

    #[test]
    fn every_truncation_is_a_protocol_error() {
        for version in ProtocolVersion::ALL {
            for (opcode, body) in bodies(version) {
                for len in 0..body.len() {
                    let error = decode(version, opcode, &body[..len]).unwrap_err();
                    assert_eq!(error.code().number(), 0x0A, "{opcode:?} {len}");
                }
            }
        }
    }

    #[test]
    fn a_custom_payload_is_passed_over_from_version_4_on() {
        let mut body = Vec::new();
        put_short(&mut body, 1);
        put_string(&mut body, "key");
        put_bytes(&mut body, Some(&[1, 2, 3]));
        put_prepare(ProtocolVersion::V4, "SELECT", None, &mut body);
        let request = Request::decode(ProtocolVersion::V4, Opcode::Prepare, &body, true).unwrap();
        assert!(matches!(request, Request::Prepare(Prepare { text: "SELECT", keyspace: None })));
        let error = Request::decode(ProtocolVersion::V3, Opcode::Prepare, &body, true).unwrap_err();
        assert_eq!(error.message(), "a custom payload needs protocol version 4 or later");
    }

    #[test]
    fn odd_requests_are_refused_in_words() {
        let error = |opcode, body: &[u8]| decode(ProtocolVersion::V4, opcode, body).unwrap_err().message().to_owned();
        assert_eq!(error(Opcode::Batch, &[3, 0, 0, 0, 1, 0]), "Unknown code 3 for a batch's type");
        assert_eq!(error(Opcode::Batch, &[0, 0, 1, 7]), "Unknown code 7 for a batched statement's kind");
        assert_eq!(error(Opcode::Register, b"\x00\x01\x00\x03ZAP"), "Unknown event type 'ZAP'");
        assert!(error(Opcode::Ready, &[]).contains("Wrong protocol direction"));
        assert!(error(Opcode::Query, &[0xff, 0xff, 0xff, 0xff]).contains("cannot have length -1"));
    }

    proptest! {
        #[test]
        fn arbitrary_bodies_are_endured(body in proptest::collection::vec(any::<u8>(), 0..200), payload in any::<bool>()) {
            for version in ProtocolVersion::ALL {
                for opcode in Opcode::ALL {
                    if let Ok(Request::Batch(batch)) = Request::decode(version, opcode, &body, payload) {
                        prop_assert_eq!(batch.statements().count(), batch.len());
                    }
                }
            }
        }

        #[test]
        fn damaged_bodies_are_endured(which in 0usize..7, at in 0usize..200, to in any::<u8>()) {
            for version in ProtocolVersion::ALL {
                let (opcode, mut body) = bodies(version).swap_remove(which);
                let at = at % body.len();
                body[at] = to;
                match decode(version, opcode, &body) {
                    Ok(Request::Query(query)) => {
                        prop_assert_eq!(query.parameters.values.iter().count(), query.parameters.values.len());
                    }
                    Ok(Request::Batch(batch)) => {
                        prop_assert_eq!(batch.statements().count(), batch.len());
                        for statement in batch.statements() {
                            prop_assert_eq!(statement.values.iter().count(), statement.values.len());
                        }
                    }
                    _ => {}
                }
            }
        }
    }
}
