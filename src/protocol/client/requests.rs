//! The bodies of requests.

use crate::protocol::consistency::Consistency;
use crate::protocol::event::EventKind;
use crate::protocol::params::{Value, flag};
use crate::protocol::request::{BatchKind, StatementRef};
use crate::protocol::version::ProtocolVersion;
use crate::protocol::wire::{
    put_byte, put_bytes, put_consistency, put_count, put_int, put_long, put_long_string, put_short_bytes, put_string,
    put_string_list, put_string_map, put_uint,
};

/// What goes with a statement. Keyspace and now-in-seconds are sent in version 5 only.
#[derive(Clone, Copy, Debug)]
pub struct Parameters<'a> {
    pub consistency: Consistency,
    pub values: &'a [Value<'a>],
    /// A name for each value; empty where they are positional.
    pub names: &'a [&'a str],
    pub skip_metadata: bool,
    pub page_size: Option<i32>,
    pub paging_state: Option<&'a [u8]>,
    pub serial_consistency: Option<Consistency>,
    pub timestamp: Option<i64>,
    pub keyspace: Option<&'a str>,
    pub now_in_seconds: Option<i32>,
}

impl Default for Parameters<'_> {
    fn default() -> Self {
        Parameters {
            consistency: Consistency::One,
            values: &[],
            names: &[],
            skip_metadata: false,
            page_size: None,
            paging_state: None,
            serial_consistency: None,
            timestamp: None,
            keyspace: None,
            now_in_seconds: None,
        }
    }
}

/// A statement of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchEntry<'a> {
    pub statement: StatementRef<'a>,
    pub values: &'a [Value<'a>],
}

pub fn put_startup(options: &[(&str, &str)], out: &mut Vec<u8>) {
    put_string_map(out, options);
}

pub fn put_register(kinds: &[EventKind], out: &mut Vec<u8>) {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    put_string_list(out, &names);
}

pub fn put_auth_response(token: Option<&[u8]>, out: &mut Vec<u8>) {
    put_bytes(out, token);
}

pub fn put_query(version: ProtocolVersion, text: &str, parameters: &Parameters<'_>, out: &mut Vec<u8>) {
    put_long_string(out, text);
    parameters.encode(version, out);
}

pub fn put_prepare(version: ProtocolVersion, text: &str, keyspace: Option<&str>, out: &mut Vec<u8>) {
    put_long_string(out, text);
    if version >= ProtocolVersion::V5 {
        put_uint(out, u32::from(keyspace.is_some()));
        if let Some(keyspace) = keyspace {
            put_string(out, keyspace);
        }
    }
}

/// `result_metadata_id` is sent in version 5 only.
pub fn put_execute(
    version: ProtocolVersion,
    id: &[u8],
    result_metadata_id: &[u8],
    parameters: &Parameters<'_>,
    out: &mut Vec<u8>,
) {
    put_short_bytes(out, id);
    if version >= ProtocolVersion::V5 {
        put_short_bytes(out, result_metadata_id);
    }
    parameters.encode(version, out);
}

pub fn put_batch(
    version: ProtocolVersion,
    kind: BatchKind,
    entries: &[BatchEntry<'_>],
    parameters: &Parameters<'_>,
    out: &mut Vec<u8>,
) {
    put_byte(
        out,
        match kind {
            BatchKind::Logged => 0,
            BatchKind::Unlogged => 1,
            BatchKind::Counter => 2,
        },
    );
    put_count(out, entries.len());
    for entry in entries {
        match entry.statement {
            StatementRef::Text(text) => {
                put_byte(out, 0);
                put_long_string(out, text);
            }
            StatementRef::Prepared(id) => {
                put_byte(out, 1);
                put_short_bytes(out, id);
            }
        }
        put_count(out, entry.values.len());
        entry.values.iter().for_each(|value| put_value(*value, out));
    }
    parameters.encode(version, out);
}

fn put_value(value: Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Null => put_int(out, -1),
        Value::Unset => put_int(out, -2),
        Value::Bytes(bytes) => put_bytes(out, Some(bytes)),
    }
}

impl Parameters<'_> {
    pub fn encode(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        put_consistency(out, self.consistency);
        let flags = self.flags(version);
        if version >= ProtocolVersion::V5 {
            put_uint(out, flags);
        } else {
            let [.., low] = flags.to_be_bytes();
            put_byte(out, low);
        }
        if flags & flag::VALUES != 0 {
            self.put_values(out);
        }
        if let Some(size) = self.page_size {
            put_int(out, size);
        }
        if let Some(state) = self.paging_state {
            put_bytes(out, Some(state));
        }
        if let Some(consistency) = self.serial_consistency {
            put_consistency(out, consistency);
        }
        if let Some(timestamp) = self.timestamp {
            put_long(out, timestamp);
        }
        if version < ProtocolVersion::V5 {
            return;
        }
        if let Some(keyspace) = self.keyspace {
            put_string(out, keyspace);
        }
        if let Some(now) = self.now_in_seconds {
            put_int(out, now);
        }
    }

    fn flags(&self, version: ProtocolVersion) -> u32 {
        let v5 = version >= ProtocolVersion::V5;
        [
            (!self.values.is_empty(), flag::VALUES),
            (self.skip_metadata, flag::SKIP_METADATA),
            (self.page_size.is_some(), flag::PAGE_SIZE),
            (self.paging_state.is_some(), flag::PAGING_STATE),
            (self.serial_consistency.is_some(), flag::SERIAL_CONSISTENCY),
            (self.timestamp.is_some(), flag::TIMESTAMP),
            (!self.names.is_empty(), flag::NAMES),
            (v5 && self.keyspace.is_some(), flag::KEYSPACE),
            (v5 && self.now_in_seconds.is_some(), flag::NOW_IN_SECONDS),
        ]
        .into_iter()
        .filter(|(set, _)| *set)
        .fold(0, |flags, (_, bit)| flags | bit)
    }

    fn put_values(&self, out: &mut Vec<u8>) {
        put_count(out, self.values.len());
        let mut names = self.names.iter();
        for value in self.values {
            if let Some(name) = names.next() {
                put_string(out, name);
            }
            put_value(*value, out);
        }
    }
}
