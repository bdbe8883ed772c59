//! Why bytes, a literal or a JSON value are not a value of a type. The texts are Cassandra's, because clients and
//! operators know them; every one of them reaches the client as an INVALID error.

/// What is wrong with a value.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ValueError {
    /// The number of bytes is not one that the type allows; `want` reads like `Expected 4 or 0 byte int`.
    #[error("{want} ({got})")]
    Length { want: &'static str, got: usize },
    #[error("Expected 4 or 16 byte inetaddress; got {hex}")]
    InetLength { hex: String },
    #[error("Invalid byte for ascii: {0}")]
    NotAscii(i8),
    #[error("String didn't validate.")]
    NotUtf8,
    /// Cassandra always names version 0 here.
    #[error("Invalid version for TimeUUID type: 0x0")]
    TimeUuidVersion,
    #[error("The duration months, days and nanoseconds must be all of the same sign ({months}, {days}, {nanos})")]
    DurationSigns { months: i64, days: i64, nanos: i64 },
    #[error("The duration {part} must be a 32 bits integer but was: {got}")]
    DurationRange { part: &'static str, got: i64 },
    #[error("The bytes of a duration end within a number")]
    DurationTruncated,
    /// A collection's bytes end early; `kind` is `list`, `set` or `map`.
    #[error("Not enough bytes to read a {kind}")]
    CollectionTruncated { kind: &'static str },
    #[error("Unexpected extraneous bytes after {kind} value")]
    CollectionExtraneous { kind: &'static str },
    #[error("The data cannot be deserialized as a {kind}")]
    CollectionCount { kind: &'static str },
    #[error("Null value read when not allowed")]
    CollectionNull,
    #[error("Not enough bytes to read {part} {index}th component")]
    TupleTruncatedPart { part: &'static str, index: usize },
    #[error("Not enough bytes to read {index}th component")]
    TupleTruncated { index: usize },
    #[error("Not enough bytes to read {what}")]
    UdtTruncated { what: String },
    #[error("Invalid remaining data after end of {kind} value")]
    TupleExtraneous { kind: &'static str },
    #[error("Not enough bytes to read a vector")]
    VectorTruncated,
    #[error("Unexpected extraneous bytes after vector value")]
    VectorExtraneous,
    #[error("EmptyType only accept empty values")]
    NotEmpty,
    /// A literal of a kind that the type never takes.
    #[error("Invalid {kind} constant ({text}) for \"{receiver}\" of type {ty}")]
    LiteralKind { kind: &'static str, text: String, receiver: String, ty: String },
    /// A literal of the right kind whose text is no value of the type; the whole message, since Cassandra words it
    /// differently for each type.
    #[error("{0}")]
    LiteralText(String),
    /// A JSON value of the wrong shape, or JSON text that cannot be read; the whole message.
    #[error("{0}")]
    Json(String),
    /// The spelling of a type that does not exist; the whole message.
    #[error("{0}")]
    UnknownType(String),
}
