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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;
    use crate::protocol::client::{Answer, Response, ResultBody};
    use crate::protocol::consistency::Consistency;
    use crate::protocol::event::{Change, SchemaChange};
    use crate::protocol::frame::Frame;
    use crate::protocol::request::Opcode;

    /// Decodes a body, and sees that no truncation of it decodes.
    fn check(version: ProtocolVersion, opcode: Opcode, body: &[u8], expected: &Response<'_>) {
        let frame = |body| Frame { version, flags: 0, stream: 1, opcode, body };
        assert_eq!(&Answer::decode(&frame(body)).unwrap().response, expected, "{version:?}");
        for len in 0..body.len() {
            assert!(Answer::decode(&frame(&body[..len])).is_err(), "{version:?} {expected:?} {len}");
        }
    }

    fn errors() -> Vec<CqlError> {
        let level = Consistency::Quorum;
        let failures = vec![("10.0.0.1".parse().unwrap(), 2), ("::1".parse().unwrap(), 0)];
        vec![
            CqlError::server_error("a"),
            CqlError::protocol_error("b"),
            CqlError::bad_credentials("c"),
            CqlError::overloaded("d"),
            CqlError::is_bootstrapping("e"),
            CqlError::truncate_error("f"),
            CqlError::syntax("g"),
            CqlError::unauthorized("h"),
            CqlError::invalid("i"),
            CqlError::config_error("j"),
            CqlError::keyspace_exists("ks"),
            CqlError::table_exists("ks", "t"),
            CqlError::unprepared(&[1, 2, 3]),
            CqlError::unavailable(level, 3, 1),
            CqlError::write_timeout(level, 1, 2, WriteType::BatchLog),
            CqlError::write_timeout(level, 1, 2, WriteType::Cas),
            CqlError::read_timeout(level, 1, 2, true),
            CqlError::read_failure(level, 1, 2, failures.clone(), false),
            CqlError::write_failure(level, 1, 2, failures, WriteType::Simple),
            CqlError::function_failure("k", "ks", "f", vec!["int".into()]),
            CqlError::cas_write_unknown(level, 1, 2),
        ]
    }

    #[test]
    fn errors_round_trip_in_version_5() {
        for error in errors() {
            let mut body = Vec::new();
            put_error(ProtocolVersion::V5, &error, &mut body);
            check(ProtocolVersion::V5, Opcode::Error, &body, &Response::Error(error));
        }
    }

    #[test]
    fn older_versions_hear_of_failures_in_their_own_words() {
        for version in [ProtocolVersion::V3, ProtocolVersion::V4] {
            for error in errors() {
                let mut body = Vec::new();
                put_error(version, &error, &mut body);
                let frame = Frame { version, flags: 0, stream: 1, opcode: Opcode::Error, body: &body };
                let Response::Error(seen) = Answer::decode(&frame).unwrap().response else { panic!() };
                assert_eq!(seen.message(), error.message());
                assert_eq!(seen.code(), code_for(version, error.code()));
                if let Some(ErrorFields::ReadFailure { failures, .. }) = seen.fields() {
                    assert_eq!(failures.len(), 2, "version 4 counts them");
                }
            }
        }
        let known = |version, code| code_for(version, code) == code;
        assert!(known(ProtocolVersion::V4, ErrorCode::FunctionFailure));
        assert!(!known(ProtocolVersion::V3, ErrorCode::FunctionFailure));
        assert!(!known(ProtocolVersion::V4, ErrorCode::CasWriteUnknown));
    }

    #[test]
    fn golden_bytes_of_errors() {
        let body = |version, error: &CqlError| {
            let mut out = Vec::new();
            put_error(version, error, &mut out);
            out
        };
        let unprepared = body(ProtocolVersion::V4, &CqlError::unprepared(&[0xab]));
        assert_eq!(unprepared[..4], [0, 0, 0x25, 0]);
        assert!(unprepared.ends_with(&[0, 1, 0xab]));
        let exists = body(ProtocolVersion::V4, &CqlError::already_exists("m", "ks", "t"));
        assert_eq!(exists, b"\x00\x00\x24\x00\x00\x01m\x00\x02ks\x00\x01t");
        let unavailable = body(ProtocolVersion::V4, &CqlError::unavailable(Consistency::Two, 2, 1));
        assert!(unavailable.ends_with(&[0, 2, 0, 0, 0, 2, 0, 0, 0, 1]));
        let cas = body(ProtocolVersion::V5, &CqlError::write_timeout(Consistency::Serial, 0, 1, WriteType::Cas));
        assert!(cas.ends_with(b"\x00\x03CAS\x00\x00"));
    }

    #[test]
    fn other_answers_round_trip() {
        let version = ProtocolVersion::V4;
        let encode = |put: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            put(&mut out);
            out
        };
        let result = |body: &[u8], expected| check(version, Opcode::Result, body, &Response::Result(expected));
        result(&encode(&put_void), ResultBody::Void);
        result(&encode(&|out| put_set_keyspace("ks", out)), ResultBody::SetKeyspace("ks"));
        let change = SchemaChange::table(Change::Dropped, "ks", "t");
        result(&encode(&|out| put_schema_change(version, &change, out)), ResultBody::SchemaChange(change.clone()));
        let options =
            [("CQL_VERSION", vec!["3.4.7".to_owned()]), ("COMPRESSION", vec!["a".to_owned(), "b".to_owned()])];
        let supported = encode(&|out| put_supported(&options, out));
        let expected = Response::Supported(vec![("CQL_VERSION", vec!["3.4.7"]), ("COMPRESSION", vec!["a", "b"])]);
        check(version, Opcode::Supported, &supported, &expected);
        let class = encode(&|out| put_authenticate("A", out));
        check(version, Opcode::Authenticate, &class, &Response::Authenticate("A"));
        let token = encode(&|out| put_auth_token(Some(&[1]), out));
        check(version, Opcode::AuthSuccess, &token, &Response::AuthSuccess(Some(&[1])));
        check(version, Opcode::AuthChallenge, &token, &Response::AuthChallenge(Some(&[1])));
        check(version, Opcode::Ready, &[], &Response::Ready);
    }
}
