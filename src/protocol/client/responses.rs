//! The bodies of answers.

use std::net::IpAddr;

use crate::protocol::error::{CqlError, ErrorCode, ErrorFields, FailureReasons, WriteType};
use crate::protocol::event::{Event, SchemaChange};
use crate::protocol::frame::{Frame, flag as frame_flag};
use crate::protocol::option::read_option;
use crate::protocol::request::Opcode;
use crate::protocol::result::{ColumnSpec, flag};
use crate::protocol::version::ProtocolVersion;
use crate::protocol::wire::{KeyedBytes, Malformed, Read, Reader};

/// An answer, with what stood before its body.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer<'a> {
    pub tracing_id: Option<[u8; 16]>,
    pub warnings: Vec<&'a str>,
    pub payload: Vec<KeyedBytes<'a>>,
    pub response: Response<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Response<'a> {
    Error(CqlError),
    Ready,
    Authenticate(&'a str),
    Supported(Vec<(&'a str, Vec<&'a str>)>),
    Result(ResultBody<'a>),
    Event(Event),
    AuthChallenge(Option<&'a [u8]>),
    AuthSuccess(Option<&'a [u8]>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum ResultBody<'a> {
    Void,
    Rows(Rows<'a>),
    SetKeyspace(&'a str),
    Prepared(PreparedStatement),
    SchemaChange(SchemaChange),
}

/// A page of rows; the cells stay where they were received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rows<'a> {
    /// Empty if the metadata was skipped.
    pub columns: Vec<ColumnSpec>,
    pub column_count: usize,
    /// There are more pages.
    pub paging_state: Option<&'a [u8]>,
    /// The columns changed since PREPARE.
    pub new_metadata_id: Option<&'a [u8]>,
    pub row_count: usize,
    cells: &'a [u8],
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedStatement {
    pub id: Vec<u8>,
    pub result_metadata_id: Option<Vec<u8>>,
    pub variables: Vec<ColumnSpec>,
    pub partition_key: Vec<u16>,
    pub columns: Vec<ColumnSpec>,
}

impl<'a> Answer<'a> {
    pub fn decode(frame: &Frame<'a>) -> Read<Answer<'a>> {
        let mut reader = Reader::new(frame.body);
        let has = |bit: u8| frame.flags & bit != 0;
        let tracing_id = if has(frame_flag::TRACING) { Some(reader.uuid("a tracing id")?) } else { None };
        let warnings = if has(frame_flag::WARNING) { reader.string_list("warnings")? } else { Vec::new() };
        let payload = if has(frame_flag::CUSTOM_PAYLOAD) { reader.bytes_map("a custom payload")? } else { Vec::new() };
        let response = Response::decode(&mut reader, frame.version, frame.opcode)?;
        Ok(Answer { tracing_id, warnings, payload, response })
    }
}

impl<'a> Response<'a> {
    fn decode(reader: &mut Reader<'a>, version: ProtocolVersion, opcode: Opcode) -> Read<Response<'a>> {
        match opcode {
            Opcode::Error => read_error(reader, version).map(Response::Error),
            Opcode::Ready => Ok(Response::Ready),
            Opcode::Authenticate => reader.string("an authenticator").map(Response::Authenticate),
            Opcode::Supported => reader.string_multimap("options").map(Response::Supported),
            Opcode::Result => ResultBody::decode(reader, version).map(Response::Result),
            Opcode::Event => Event::decode(reader).map(Response::Event),
            Opcode::AuthChallenge => reader.bytes("a token").map(Response::AuthChallenge),
            Opcode::AuthSuccess => reader.bytes("a token").map(Response::AuthSuccess),
            request => Err(Malformed::Code { what: "an answer's opcode", got: i64::from(request.number()) }),
        }
    }
}

impl<'a> ResultBody<'a> {
    fn decode(reader: &mut Reader<'a>, version: ProtocolVersion) -> Read<ResultBody<'a>> {
        match reader.int("a result's kind")? {
            1 => Ok(ResultBody::Void),
            2 => Rows::decode(reader).map(ResultBody::Rows),
            3 => reader.string("a keyspace").map(ResultBody::SetKeyspace),
            4 => PreparedStatement::decode(reader, version).map(ResultBody::Prepared),
            5 => SchemaChange::decode(reader).map(ResultBody::SchemaChange),
            got => Err(Malformed::Code { what: "a result's kind", got: i64::from(got) }),
        }
    }
}

impl<'a> Rows<'a> {
    fn decode(reader: &mut Reader<'a>) -> Read<Rows<'a>> {
        let flags = reader.int("metadata flags")?;
        let column_count = reader.int_count(0, "columns")?;
        let more = flags & flag::HAS_MORE_PAGES != 0;
        let paging_state = if more { reader.bytes("a paging state")? } else { None };
        let changed = flags & flag::METADATA_CHANGED != 0;
        let new_metadata_id = if changed { Some(reader.short_bytes("a result metadata id")?) } else { None };
        let columns = if flags & flag::NO_METADATA != 0 {
            Vec::new()
        } else {
            read_columns(reader, column_count, flags & flag::GLOBAL_TABLE != 0)?
        };
        let row_count = reader.int_count(4 * column_count, "rows")?;
        let cells = reader.rest();
        let walked = if column_count > 0 { row_count } else { 0 };
        for _ in 0..walked {
            read_row(reader, column_count)?;
        }
        Ok(Rows { columns, column_count, paging_state, new_metadata_id, row_count, cells })
    }

    /// The rows, a cell for each column; null is `None`.
    pub fn iter(&self) -> impl Iterator<Item = Vec<Option<&'a [u8]>>> + use<'a> {
        let (mut reader, column_count) = (Reader::new(self.cells), self.column_count);
        (0..self.row_count).map_while(move |_| {
            let mut cells = Vec::with_capacity(column_count);
            for _ in 0..column_count {
                cells.push(reader.bytes("a cell").ok()?);
            }
            Some(cells)
        })
    }
}

fn read_row(reader: &mut Reader<'_>, column_count: usize) -> Read<()> {
    for _ in 0..column_count {
        reader.bytes("a cell")?;
    }
    Ok(())
}

fn read_columns(reader: &mut Reader<'_>, count: usize, global_table: bool) -> Read<Vec<ColumnSpec>> {
    let table_of = |reader: &mut Reader<'_>| {
        Ok::<_, Malformed>((reader.string("a keyspace")?.to_owned(), reader.string("a table")?.to_owned()))
    };
    let global = if global_table { Some(table_of(reader)?) } else { None };
    let mut columns = Vec::new();
    for _ in 0..count {
        let (keyspace, table) = match &global {
            Some(table) => table.clone(),
            None => table_of(reader)?,
        };
        let name = reader.string("a column's name")?.to_owned();
        columns.push(ColumnSpec { keyspace, table, name, ty: read_option(reader)? });
    }
    Ok(columns)
}

impl PreparedStatement {
    fn decode(reader: &mut Reader<'_>, version: ProtocolVersion) -> Read<PreparedStatement> {
        let id = reader.short_bytes("a prepared statement's id")?.to_vec();
        let v5 = version >= ProtocolVersion::V5;
        let result_metadata_id = if v5 { Some(reader.short_bytes("a result metadata id")?.to_vec()) } else { None };
        let flags = reader.int("metadata flags")?;
        let variable_count = reader.int_count(0, "variables")?;
        let mut partition_key = Vec::new();
        if version >= ProtocolVersion::V4 {
            let count = reader.int_count(2, "the partition key's places")?;
            for _ in 0..count {
                partition_key.push(reader.short("a partition key's place")?);
            }
        }
        let variables = read_columns(reader, variable_count, flags & flag::GLOBAL_TABLE != 0)?;
        let flags = reader.int("metadata flags")?;
        let column_count = reader.int_count(0, "columns")?;
        let columns = if flags & flag::NO_METADATA != 0 {
            Vec::new()
        } else {
            read_columns(reader, column_count, flags & flag::GLOBAL_TABLE != 0)?
        };
        Ok(PreparedStatement { id, result_metadata_id, variables, partition_key, columns })
    }
}

fn read_error(reader: &mut Reader<'_>, version: ProtocolVersion) -> Read<CqlError> {
    let number = reader.uint("an error's code")?;
    let unknown = Malformed::Code { what: "an error", got: i64::from(number) };
    let code = u16::try_from(number).ok().and_then(ErrorCode::from_number).ok_or(unknown)?;
    let message = reader.string("an error's text")?;
    match CqlError::without_fields(code, message) {
        Some(plain) => Ok(plain),
        None => Ok(CqlError::with_fields(message, read_fields(reader, version, code)?)),
    }
}

fn read_fields(reader: &mut Reader<'_>, version: ProtocolVersion, code: ErrorCode) -> Read<ErrorFields> {
    match code {
        ErrorCode::FunctionFailure => {
            let keyspace = reader.string("a keyspace")?.to_owned();
            let function = reader.string("a function")?.to_owned();
            let arguments = reader.string_list("argument types")?.into_iter().map(str::to_owned).collect();
            Ok(ErrorFields::FunctionFailure { keyspace, function, arguments })
        }
        ErrorCode::AlreadyExists => {
            let keyspace = reader.string("a keyspace")?.to_owned();
            Ok(ErrorFields::AlreadyExists { keyspace, table: reader.string("a table")?.to_owned() })
        }
        ErrorCode::Unprepared => {
            Ok(ErrorFields::Unprepared { id: reader.short_bytes("a prepared statement's id")?.to_vec() })
        }
        counted => read_counts(reader, version, counted),
    }
}

/// The fields of errors that count replicas.
fn read_counts(reader: &mut Reader<'_>, version: ProtocolVersion, code: ErrorCode) -> Read<ErrorFields> {
    let consistency = reader.consistency()?;
    let received = reader.uint("a number of replicas")?;
    let block_for = reader.uint("a number of replicas")?;
    match code {
        ErrorCode::Unavailable => Ok(ErrorFields::Unavailable { consistency, required: received, alive: block_for }),
        ErrorCode::WriteTimeout => {
            let write_type = read_write_type(reader)?;
            let contended = version >= ProtocolVersion::V5 && write_type == WriteType::Cas;
            let contentions = if contended { reader.short("a number of contentions")? } else { 0 };
            Ok(ErrorFields::WriteTimeout { consistency, received, block_for, write_type, contentions })
        }
        ErrorCode::ReadTimeout => {
            let data_present = reader.byte("whether data is present")? != 0;
            Ok(ErrorFields::ReadTimeout { consistency, received, block_for, data_present })
        }
        ErrorCode::ReadFailure => {
            let failures = read_failures(reader, version)?;
            let data_present = reader.byte("whether data is present")? != 0;
            Ok(ErrorFields::ReadFailure { consistency, received, block_for, failures, data_present })
        }
        ErrorCode::WriteFailure => {
            let failures = read_failures(reader, version)?;
            let write_type = read_write_type(reader)?;
            Ok(ErrorFields::WriteFailure { consistency, received, block_for, failures, write_type })
        }
        _ => Ok(ErrorFields::CasWriteUnknown { consistency, received, block_for }),
    }
}

fn read_write_type(reader: &mut Reader<'_>) -> Read<WriteType> {
    let name = reader.string("a write type")?;
    let known = WriteType::ALL.into_iter().find(|known| known.name() == name);
    known.ok_or_else(|| Malformed::Name { what: "write type", got: name.to_owned() })
}

/// Version 4 has only their number: so many unnamed replicas.
fn read_failures(reader: &mut Reader<'_>, version: ProtocolVersion) -> Read<FailureReasons> {
    if version < ProtocolVersion::V5 {
        let count = reader.uint("a number of failures")?;
        let unnamed = (IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
        return Ok(std::iter::repeat_n(unnamed, usize::try_from(count).unwrap_or(0).min(1024)).collect());
    }
    let count = reader.int_count(7, "failures")?;
    (0..count).map(|_| Ok((reader.inet_addr("a replica's address")?, reader.short("a reason")?))).collect()
}
