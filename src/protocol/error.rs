//! The errors of CQL: the one place where their codes are chosen.
//!
//! Whatever fails above this layer ends as a `CqlError`, made by the constructor that names its kind, so that code
//! and fields always belong together. Texts follow Cassandra's where drivers or people look for them.

use std::fmt;
use std::net::IpAddr;

use super::consistency::Consistency;

/// What kind of error this is, as the protocol numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ErrorCode {
    ServerError,
    ProtocolError,
    BadCredentials,
    Unavailable,
    Overloaded,
    IsBootstrapping,
    TruncateError,
    WriteTimeout,
    ReadTimeout,
    ReadFailure,
    FunctionFailure,
    WriteFailure,
    CdcWriteFailure,
    CasWriteUnknown,
    SyntaxError,
    Unauthorized,
    Invalid,
    ConfigError,
    AlreadyExists,
    Unprepared,
}

const NUMBERS: [(ErrorCode, u16); 20] = [
    (ErrorCode::ServerError, 0x0000),
    (ErrorCode::ProtocolError, 0x000A),
    (ErrorCode::BadCredentials, 0x0100),
    (ErrorCode::Unavailable, 0x1000),
    (ErrorCode::Overloaded, 0x1001),
    (ErrorCode::IsBootstrapping, 0x1002),
    (ErrorCode::TruncateError, 0x1003),
    (ErrorCode::WriteTimeout, 0x1100),
    (ErrorCode::ReadTimeout, 0x1200),
    (ErrorCode::ReadFailure, 0x1300),
    (ErrorCode::FunctionFailure, 0x1400),
    (ErrorCode::WriteFailure, 0x1500),
    (ErrorCode::CdcWriteFailure, 0x1600),
    (ErrorCode::CasWriteUnknown, 0x1700),
    (ErrorCode::SyntaxError, 0x2000),
    (ErrorCode::Unauthorized, 0x2100),
    (ErrorCode::Invalid, 0x2200),
    (ErrorCode::ConfigError, 0x2300),
    (ErrorCode::AlreadyExists, 0x2400),
    (ErrorCode::Unprepared, 0x2500),
];

impl ErrorCode {
    pub fn number(self) -> u16 {
        NUMBERS.get(self as usize).map_or(0, |(_, number)| *number)
    }

    pub fn from_number(number: u16) -> Option<ErrorCode> {
        NUMBERS.iter().find(|(_, known)| *known == number).map(|(code, _)| *code)
    }
}

/// What kind of write timed out or failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteType {
    Simple,
    Batch,
    UnloggedBatch,
    Counter,
    BatchLog,
    Cas,
    View,
    Cdc,
}

impl WriteType {
    pub const ALL: [WriteType; 8] = [
        WriteType::Simple,
        WriteType::Batch,
        WriteType::UnloggedBatch,
        WriteType::Counter,
        WriteType::BatchLog,
        WriteType::Cas,
        WriteType::View,
        WriteType::Cdc,
    ];

    pub fn name(self) -> &'static str {
        match self {
            WriteType::Simple => "SIMPLE",
            WriteType::Batch => "BATCH",
            WriteType::UnloggedBatch => "UNLOGGED_BATCH",
            WriteType::Counter => "COUNTER",
            WriteType::BatchLog => "BATCH_LOG",
            WriteType::Cas => "CAS",
            WriteType::View => "VIEW",
            WriteType::Cdc => "CDC",
        }
    }
}

/// Replicas that failed, each with its reason code; the code of an unknown reason is 0.
pub type FailureReasons = Vec<(IpAddr, u16)>;

/// What an error carries beside its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorFields {
    Unavailable {
        consistency: Consistency,
        required: u32,
        alive: u32,
    },
    /// `contentions` is sent for `WriteType::Cas` from version 5 on.
    WriteTimeout {
        consistency: Consistency,
        received: u32,
        block_for: u32,
        write_type: WriteType,
        contentions: u16,
    },
    ReadTimeout {
        consistency: Consistency,
        received: u32,
        block_for: u32,
        data_present: bool,
    },
    ReadFailure {
        consistency: Consistency,
        received: u32,
        block_for: u32,
        failures: FailureReasons,
        data_present: bool,
    },
    WriteFailure {
        consistency: Consistency,
        received: u32,
        block_for: u32,
        failures: FailureReasons,
        write_type: WriteType,
    },
    FunctionFailure {
        keyspace: String,
        function: String,
        arguments: Vec<String>,
    },
    CasWriteUnknown {
        consistency: Consistency,
        received: u32,
        block_for: u32,
    },
    /// `table` is empty where a keyspace exists already.
    AlreadyExists {
        keyspace: String,
        table: String,
    },
    Unprepared {
        id: Vec<u8>,
    },
}

/// An error as the client sees it.
#[derive(Clone, PartialEq, Eq)]
pub struct CqlError {
    code: ErrorCode,
    message: String,
    fields: Option<Box<ErrorFields>>,
}

impl CqlError {
    fn plain(code: ErrorCode, message: impl Into<String>) -> CqlError {
        CqlError { code, message: message.into(), fields: None }
    }

    /// The error that carries these fields; they decide its code.
    pub fn with_fields(message: impl Into<String>, fields: ErrorFields) -> CqlError {
        let code = match fields {
            ErrorFields::Unavailable { .. } => ErrorCode::Unavailable,
            ErrorFields::WriteTimeout { .. } => ErrorCode::WriteTimeout,
            ErrorFields::ReadTimeout { .. } => ErrorCode::ReadTimeout,
            ErrorFields::ReadFailure { .. } => ErrorCode::ReadFailure,
            ErrorFields::WriteFailure { .. } => ErrorCode::WriteFailure,
            ErrorFields::FunctionFailure { .. } => ErrorCode::FunctionFailure,
            ErrorFields::CasWriteUnknown { .. } => ErrorCode::CasWriteUnknown,
            ErrorFields::AlreadyExists { .. } => ErrorCode::AlreadyExists,
            ErrorFields::Unprepared { .. } => ErrorCode::Unprepared,
        };
        CqlError { code, message: message.into(), fields: Some(Box::new(fields)) }
    }

    /// An error of a kind that carries no fields; `None` for those that do.
    pub fn without_fields(code: ErrorCode, message: impl Into<String>) -> Option<CqlError> {
        let carries_fields = matches!(
            code,
            ErrorCode::Unavailable
                | ErrorCode::WriteTimeout
                | ErrorCode::ReadTimeout
                | ErrorCode::ReadFailure
                | ErrorCode::WriteFailure
                | ErrorCode::FunctionFailure
                | ErrorCode::CasWriteUnknown
                | ErrorCode::AlreadyExists
                | ErrorCode::Unprepared
        );
        (!carries_fields).then(|| CqlError::plain(code, message))
    }

    pub fn code(&self) -> ErrorCode {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn fields(&self) -> Option<&ErrorFields> {
        self.fields.as_deref()
    }

    /// Something broke here that the client cannot mend.
    pub fn server_error(message: impl Into<String>) -> CqlError {
        CqlError::plain(ErrorCode::ServerError, message)
    }

    /// The message broke the rules of the protocol.
    pub fn protocol_error(message: impl Into<String>) -> CqlError {
        CqlError::plain(ErrorCode::ProtocolError, message)
    }

    pub fn bad_credentials(message: impl Into<String>) -> CqlError {
        CqlError::plain(ErrorCode::BadCredentials, message)
    }

    /// Shed: the client may try again later.
    pub fn overloaded(message: impl Into<String>) -> CqlError {
        CqlError::plain(ErrorCode::Overloaded, message)
    }

    pub fn is_bootstrapping(message: impl Into<String>) -> CqlError {
        CqlError::plain(ErrorCode::IsBootstrapping, message)
    }

    pub fn truncate_error(message: impl Into<String>) -> CqlError {
        CqlError::plain(ErrorCode::TruncateError, message)
    }

    /// The statement does not parse.
    pub fn syntax(message: impl Into<String>) -> CqlError {
        CqlError::plain(ErrorCode::SyntaxError, message)
    }

    pub fn unauthorized(message: impl Into<String>) -> CqlError {
        CqlError::plain(ErrorCode::Unauthorized, message)
    }

    /// The statement parses but cannot be done.
    pub fn invalid(message: impl Into<String>) -> CqlError {
        CqlError::plain(ErrorCode::Invalid, message)
    }

    /// The statement asks for a configuration that cannot be (mostly table and keyspace options).
    pub fn config_error(message: impl Into<String>) -> CqlError {
        CqlError::plain(ErrorCode::ConfigError, message)
    }

    /// `CREATE KEYSPACE` of one that exists.
    pub fn keyspace_exists(keyspace: &str) -> CqlError {
        CqlError::already_exists(format!("Cannot add existing keyspace \"{keyspace}\""), keyspace, "")
    }

    /// `CREATE TABLE` (or a view) of a name that is taken.
    pub fn table_exists(keyspace: &str, table: &str) -> CqlError {
        let message = format!("Cannot add already existing table \"{table}\" to keyspace \"{keyspace}\"");
        CqlError::already_exists(message, keyspace, table)
    }

    pub fn already_exists(message: impl Into<String>, keyspace: &str, table: &str) -> CqlError {
        let fields = ErrorFields::AlreadyExists { keyspace: keyspace.to_owned(), table: table.to_owned() };
        CqlError::with_fields(message, fields)
    }

    /// EXECUTE of an id that is not known: the driver prepares again and repeats.
    pub fn unprepared(id: &[u8]) -> CqlError {
        let mut hex = String::with_capacity(2 * id.len());
        for byte in id {
            hex.push_str(&format!("{byte:02x}"));
        }
        let message = format!(
            "Prepared query with ID {hex} not found (either the query was not prepared on this host \
             (maybe the host has been restarted?) or you have prepared too many queries and it has been evicted \
             from the internal cache)"
        );
        CqlError::with_fields(message, ErrorFields::Unprepared { id: id.to_vec() })
    }

    pub fn unavailable(consistency: Consistency, required: u32, alive: u32) -> CqlError {
        let message = format!("Cannot achieve consistency level {consistency}");
        CqlError::with_fields(message, ErrorFields::Unavailable { consistency, required, alive })
    }

    pub fn write_timeout(consistency: Consistency, received: u32, block_for: u32, write_type: WriteType) -> CqlError {
        let fields = ErrorFields::WriteTimeout { consistency, received, block_for, write_type, contentions: 0 };
        CqlError::with_fields(format!("Operation timed out - received only {received} responses."), fields)
    }

    pub fn read_timeout(consistency: Consistency, received: u32, block_for: u32, data_present: bool) -> CqlError {
        let fields = ErrorFields::ReadTimeout { consistency, received, block_for, data_present };
        CqlError::with_fields(format!("Operation timed out - received only {received} responses."), fields)
    }

    pub fn read_failure(
        consistency: Consistency,
        received: u32,
        block_for: u32,
        failures: FailureReasons,
        data_present: bool,
    ) -> CqlError {
        let message = failure_text(received, &failures);
        let fields = ErrorFields::ReadFailure { consistency, received, block_for, failures, data_present };
        CqlError::with_fields(message, fields)
    }

    pub fn write_failure(
        consistency: Consistency,
        received: u32,
        block_for: u32,
        failures: FailureReasons,
        write_type: WriteType,
    ) -> CqlError {
        let message = failure_text(received, &failures);
        let fields = ErrorFields::WriteFailure { consistency, received, block_for, failures, write_type };
        CqlError::with_fields(message, fields)
    }

    /// A function of CQL failed on the values it was given.
    pub fn function_failure(
        message: impl Into<String>,
        keyspace: &str,
        function: &str,
        arguments: Vec<String>,
    ) -> CqlError {
        let (keyspace, function) = (keyspace.to_owned(), function.to_owned());
        CqlError::with_fields(message, ErrorFields::FunctionFailure { keyspace, function, arguments })
    }

    /// A lightweight transaction may have been applied or not.
    pub fn cas_write_unknown(consistency: Consistency, received: u32, block_for: u32) -> CqlError {
        let message = format!(
            "CAS operation result is unknown - proposal accepted by {received} but not a quorum of {block_for}"
        );
        CqlError::with_fields(message, ErrorFields::CasWriteUnknown { consistency, received, block_for })
    }
}

fn failure_text(received: u32, failures: &FailureReasons) -> String {
    format!("Operation failed - received {received} responses and {} failures", failures.len())
}

impl fmt::Display for CqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for CqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} (0x{:04X}): {}", self.code, self.code.number(), self.message)?;
        match &self.fields {
            Some(fields) => write!(f, " {fields:?}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for CqlError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_at_its_place() {
        for (place, (code, number)) in NUMBERS.iter().enumerate() {
            assert_eq!(*code as usize, place);
            assert_eq!(code.number(), *number);
            assert_eq!(ErrorCode::from_number(*number), Some(*code));
        }
        assert_eq!(ErrorCode::from_number(0x2600), None);
    }

    #[test]
    fn fields_decide_the_code() {
        assert_eq!(CqlError::unavailable(Consistency::Two, 2, 1).code(), ErrorCode::Unavailable);
        assert_eq!(CqlError::unprepared(&[1]).code(), ErrorCode::Unprepared);
        assert_eq!(CqlError::read_timeout(Consistency::One, 0, 1, false).code(), ErrorCode::ReadTimeout);
        assert_eq!(CqlError::cas_write_unknown(Consistency::Serial, 0, 1).code(), ErrorCode::CasWriteUnknown);
        for (code, number) in NUMBERS {
            let plain = CqlError::without_fields(code, "text");
            assert!(plain.is_none_or(|error| error.code().number() == number));
        }
        assert!(CqlError::without_fields(ErrorCode::Unprepared, "").is_none());
    }

    #[test]
    fn texts_are_those_of_cassandra() {
        assert_eq!(CqlError::keyspace_exists("ks2").message(), "Cannot add existing keyspace \"ks2\"");
        assert_eq!(
            CqlError::table_exists("ks", "t").message(),
            "Cannot add already existing table \"t\" to keyspace \"ks\""
        );
        assert_eq!(CqlError::unavailable(Consistency::Two, 2, 1).message(), "Cannot achieve consistency level TWO");
        assert!(CqlError::unprepared(&[0xab, 1]).message().starts_with("Prepared query with ID ab01 not found"));
    }

    #[test]
    fn debug_shows_code_and_fields() {
        assert_eq!(format!("{:?}", CqlError::invalid("no")), "Invalid (0x2200): no");
        let text = format!("{:?}", CqlError::unavailable(Consistency::All, 3, 1));
        assert!(text.contains("0x1000") && text.contains("required: 3"), "{text}");
    }
}
