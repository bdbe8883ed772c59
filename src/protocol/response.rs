//! The bodies of answers, except RESULTs of rows and prepared statements.

use std::net::IpAddr;

use super::error::{CqlError, ErrorCode, ErrorFields, FailureReasons, WriteType};
use super::event::SchemaChange;
use super::version::ProtocolVersion;
use super::wire::{
    put_byte, put_bytes, put_consistency, put_count, put_inet_addr, put_int, put_len, put_short, put_short_bytes,
    put_string, put_string_list, put_uint,
};

/// What a RESULT is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResultKind {
    Void = 1,
    Rows = 2,
    SetKeyspace = 3,
    Prepared = 4,
    SchemaChange = 5,
}

impl ResultKind {
    pub fn number(self) -> i32 {
        self as i32
    }
}

/// RESULT: nothing to say.
pub fn put_void(out: &mut Vec<u8>) {
    put_int(out, ResultKind::Void.number());
}

/// RESULT of `USE`.
pub fn put_set_keyspace(keyspace: &str, out: &mut Vec<u8>) {
    put_int(out, ResultKind::SetKeyspace.number());
    put_string(out, keyspace);
}

/// RESULT of a DDL statement.
pub fn put_schema_change(version: ProtocolVersion, change: &SchemaChange, out: &mut Vec<u8>) {
    put_int(out, ResultKind::SchemaChange.number());
    change.encode(version, out);
}

/// SUPPORTED: options with their values.
pub fn put_supported(options: &[(&str, Vec<String>)], out: &mut Vec<u8>) {
    put_count(out, options.len());
    for (name, values) in options {
        put_string(out, name);
        put_string_list(out, values);
    }
}

/// AUTHENTICATE: the class of the authenticator, by which drivers choose how to answer.
pub fn put_authenticate(class: &str, out: &mut Vec<u8>) {
    put_string(out, class);
}

/// AUTH_CHALLENGE and AUTH_SUCCESS.
pub fn put_auth_token(token: Option<&[u8]>, out: &mut Vec<u8>) {
    put_bytes(out, token);
}

/// ERROR. What a version does not know is said in the nearest words that it does, as Cassandra does.
pub fn put_error(version: ProtocolVersion, error: &CqlError, out: &mut Vec<u8>) {
    let code = code_for(version, error.code());
    put_uint(out, u32::from(code.number()));
    put_string(out, error.message());
    if let Some(fields) = error.fields() {
        put_fields(version, fields, out);
    }
}

fn code_for(version: ProtocolVersion, code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::ReadFailure if version < ProtocolVersion::V4 => ErrorCode::ReadTimeout,
        ErrorCode::WriteFailure if version < ProtocolVersion::V4 => ErrorCode::WriteTimeout,
        ErrorCode::FunctionFailure if version < ProtocolVersion::V4 => ErrorCode::Invalid,
        ErrorCode::CdcWriteFailure if version < ProtocolVersion::V5 => ErrorCode::ServerError,
        ErrorCode::CasWriteUnknown if version < ProtocolVersion::V5 => ErrorCode::WriteTimeout,
        code => code,
    }
}

fn put_fields(version: ProtocolVersion, fields: &ErrorFields, out: &mut Vec<u8>) {
    match fields {
        ErrorFields::Unavailable { consistency, required, alive } => {
            put_consistency(out, *consistency);
            put_uint(out, *required);
            put_uint(out, *alive);
        }
        ErrorFields::WriteTimeout { consistency, received, block_for, write_type, contentions } => {
            put_consistency(out, *consistency);
            put_uint(out, *received);
            put_uint(out, *block_for);
            put_string(out, write_type.name());
            if version >= ProtocolVersion::V5 && *write_type == WriteType::Cas {
                put_short(out, *contentions);
            }
        }
        ErrorFields::ReadTimeout { consistency, received, block_for, data_present } => {
            put_consistency(out, *consistency);
            put_uint(out, *received);
            put_uint(out, *block_for);
            put_byte(out, u8::from(*data_present));
        }
        ErrorFields::ReadFailure { consistency, received, block_for, failures, data_present } => {
            put_consistency(out, *consistency);
            put_uint(out, *received);
            put_uint(out, *block_for);
            put_failures(version, failures, out);
            put_byte(out, u8::from(*data_present));
        }
        ErrorFields::WriteFailure { consistency, received, block_for, failures, write_type } => {
            put_consistency(out, *consistency);
            put_uint(out, *received);
            put_uint(out, *block_for);
            put_failures(version, failures, out);
            put_string(out, write_type.name());
        }
        ErrorFields::FunctionFailure { keyspace, function, arguments } => {
            if version >= ProtocolVersion::V4 {
                put_string(out, keyspace);
                put_string(out, function);
                put_string_list(out, arguments);
            }
        }
        ErrorFields::CasWriteUnknown { consistency, received, block_for } => {
            put_consistency(out, *consistency);
            put_uint(out, *received);
            put_uint(out, *block_for);
            if version < ProtocolVersion::V5 {
                put_string(out, WriteType::Cas.name());
            }
        }
        ErrorFields::AlreadyExists { keyspace, table } => {
            put_string(out, keyspace);
            put_string(out, table);
        }
        ErrorFields::Unprepared { id } => put_short_bytes(out, id),
    }
}

/// Version 5 names the replicas and their reasons, version 4 counts them, version 3 knows nothing of them.
fn put_failures(version: ProtocolVersion, failures: &FailureReasons, out: &mut Vec<u8>) {
    if version < ProtocolVersion::V4 {
        return;
    }
    put_len(out, failures.len());
    if version >= ProtocolVersion::V5 {
        for (address, reason) in failures {
            put_inet_addr(out, IpAddr::to_canonical(address));
            put_short(out, *reason);
        }
    }
}
