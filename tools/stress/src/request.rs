//! Requests whose bytes before and after the values are made once a statement.

use helenus::protocol::params::flag;
use helenus::protocol::wire::{
    put_byte, put_bytes, put_consistency, put_count, put_int, put_long_string, put_short_bytes, put_uint,
};
use helenus::protocol::{BatchKind, Consistency, Opcode, ProtocolVersion};

/// A prepared statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub id: Vec<u8>,
    /// Empty before version 5.
    pub result_metadata_id: Vec<u8>,
}

/// How the server is told which statement is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum How {
    Prepared(Statement),
    Text(String),
}

/// What goes with a statement, the same each time.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub consistency: Consistency,
    pub serial: Option<Consistency>,
    /// Rows of a page; `None` where all come at once.
    pub page_size: Option<i32>,
}

impl Terms {
    /// A serial level is that of conditions; the rest is left at the default then, as cassandra-stress does.
    pub fn of(consistency: Consistency, page_size: Option<i32>) -> Terms {
        match consistency {
            Consistency::Serial | Consistency::LocalSerial => {
                Terms { consistency: Consistency::LocalOne, serial: Some(consistency), page_size }
            }
            consistency => Terms { consistency, serial: None, page_size },
        }
    }
}

/// A statement's request, ready but for its values.
#[derive(Clone, Debug)]
pub struct Template {
    pub opcode: Opcode,
    /// Which statement it is.
    statement: Vec<u8>,
    /// The same, as an entry of a batch.
    entry: Vec<u8>,
    /// Between statement and values; and with the flag that a paging state follows.
    before: Vec<u8>,
    before_paged: Vec<u8>,
    page_size: Vec<u8>,
    serial: Vec<u8>,
    /// A batch's end.
    batch_end: Vec<u8>,
}

impl Template {
    pub fn new(version: ProtocolVersion, how: &How, values: usize, terms: Terms) -> Template {
        let (mut statement, mut entry) = (Vec::new(), Vec::new());
        let opcode = match how {
            How::Prepared(prepared) => {
                put_short_bytes(&mut statement, &prepared.id);
                if version >= ProtocolVersion::V5 {
                    put_short_bytes(&mut statement, &prepared.result_metadata_id);
                }
                put_byte(&mut entry, 1);
                put_short_bytes(&mut entry, &prepared.id);
                Opcode::Execute
            }
            How::Text(text) => {
                put_long_string(&mut statement, text);
                put_byte(&mut entry, 0);
                put_long_string(&mut entry, text);
                Opcode::Query
            }
        };
        put_count(&mut entry, values);
        let mut flags = if terms.serial.is_some() { flag::SERIAL_CONSISTENCY } else { 0 };
        let batch_end = [head(version, terms.consistency, flags), serial(terms)].concat();
        if opcode == Opcode::Execute {
            flags |= flag::SKIP_METADATA;
        }
        if terms.page_size.is_some() {
            flags |= flag::PAGE_SIZE;
        }
        let mut count = Vec::new();
        if values > 0 {
            flags |= flag::VALUES;
            put_count(&mut count, values);
        }
        let before = [head(version, terms.consistency, flags), count.clone()].concat();
        let before_paged = [head(version, terms.consistency, flags | flag::PAGING_STATE), count].concat();
        let mut page_size = Vec::new();
        if let Some(rows) = terms.page_size {
            put_int(&mut page_size, rows);
        }
        Template { opcode, statement, entry, before, before_paged, page_size, serial: serial(terms), batch_end }
    }

    /// Appends a request's start, for the page after `paging_state`; its values follow.
    #[inline]
    pub fn begin(&self, paging_state: Option<&[u8]>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.statement);
        out.extend_from_slice(if paging_state.is_some() { &self.before_paged } else { &self.before });
    }

    /// Appends what follows the values.
    #[inline]
    pub fn end(&self, paging_state: Option<&[u8]>, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.page_size);
        if paging_state.is_some() {
            put_bytes(out, paging_state);
        }
        out.extend_from_slice(&self.serial);
    }

    /// Appends a batch's start; its number of entries is filled in by `end_batch`.
    pub fn begin_batch(&self, kind: BatchKind, out: &mut Vec<u8>) {
        let number = match kind {
            BatchKind::Logged => 0,
            BatchKind::Unlogged => 1,
            BatchKind::Counter => 2,
        };
        out.extend_from_slice(&[number, 0, 0]);
    }

    /// Appends an entry's start; its values follow.
    pub fn put_entry(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.entry);
    }

    /// Completes a batch that starts at `start`. One of a single entry becomes a plain request. Gives the opcode.
    pub fn end_batch(&self, start: usize, entries: u32, out: &mut Vec<u8>) -> Opcode {
        if entries == 1 {
            let values_at = start + 3 + self.entry.len();
            let head = self.statement.iter().chain(&self.before).copied();
            out.splice(start..values_at, head).for_each(drop);
            out.extend_from_slice(&self.page_size);
            out.extend_from_slice(&self.serial);
            return self.opcode;
        }
        let count = u16::try_from(entries).expect("checked when the profile was read");
        out[start + 1..start + 3].copy_from_slice(&count.to_be_bytes());
        out.extend_from_slice(&self.batch_end);
        Opcode::Batch
    }
}

fn head(version: ProtocolVersion, consistency: Consistency, flags: u32) -> Vec<u8> {
    let mut out = Vec::new();
    put_consistency(&mut out, consistency);
    if version >= ProtocolVersion::V5 {
        put_uint(&mut out, flags);
    } else {
        let [.., low] = flags.to_be_bytes();
        put_byte(&mut out, low);
    }
    out
}

fn serial(terms: Terms) -> Vec<u8> {
    let mut out = Vec::new();
    if let Some(serial) = terms.serial {
        put_consistency(&mut out, serial);
    }
    out
}

#[cfg(test)]
mod tests {
    use helenus::protocol::client::requests::{put_batch, put_execute, put_query};
    use helenus::protocol::client::{BatchEntry, Parameters};
    use helenus::protocol::{StatementRef, Value};

    use super::*;

    const VERSIONS: [ProtocolVersion; 2] = [ProtocolVersion::V4, ProtocolVersion::V5];

    fn statement() -> Statement {
        Statement { id: vec![7; 16], result_metadata_id: vec![9; 16] }
    }

    fn put_two(out: &mut Vec<u8>) {
        put_bytes(out, Some(b"ab"));
        put_int(out, -1);
    }

    #[test]
    fn a_request_is_what_the_protocol_says() {
        let values = [Value::Bytes(b"ab"), Value::Null];
        for (version, state) in VERSIONS.into_iter().flat_map(|version| [(version, None), (version, Some(&b"st"[..]))])
        {
            let terms = Terms::of(Consistency::Quorum, Some(50));
            let parameters = Parameters {
                consistency: Consistency::Quorum,
                values: &values,
                page_size: Some(50),
                paging_state: state,
                ..Parameters::default()
            };
            let (mut got, mut expected) = (Vec::new(), Vec::new());
            let template = Template::new(version, &How::Prepared(statement()), 2, terms);
            template.begin(state, &mut got);
            put_two(&mut got);
            template.end(state, &mut got);
            let skipping = Parameters { skip_metadata: true, ..parameters };
            put_execute(version, &[7; 16], &[9; 16], &skipping, &mut expected);
            assert_eq!((got, template.opcode), (expected, Opcode::Execute));
            let (mut got, mut expected) = (Vec::new(), Vec::new());
            let template = Template::new(version, &How::Text("X".into()), 2, terms);
            template.begin(state, &mut got);
            put_two(&mut got);
            template.end(state, &mut got);
            put_query(version, "X", &parameters, &mut expected);
            assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_batch_is_what_the_protocol_says_and_one_entry_is_none() {
        let values = [Value::Bytes(b"ab"), Value::Null];
        let entry = BatchEntry { statement: StatementRef::Prepared(&[7; 16]), values: &values };
        for (version, kind) in VERSIONS.into_iter().zip([BatchKind::Unlogged, BatchKind::Logged]) {
            let template =
                Template::new(version, &How::Prepared(statement()), 2, Terms::of(Consistency::LocalSerial, None));
            let parameters = Parameters {
                consistency: Consistency::LocalOne,
                serial_consistency: Some(Consistency::LocalSerial),
                ..Parameters::default()
            };
            for entries in [1, 3] {
                let (mut got, mut expected) = (vec![1, 2], vec![1, 2]);
                template.begin_batch(kind, &mut got);
                for _ in 0..entries {
                    template.put_entry(&mut got);
                    put_two(&mut got);
                }
                let opcode = template.end_batch(2, entries, &mut got);
                if entries == 1 {
                    let parameters = Parameters { values: &values, skip_metadata: true, ..parameters };
                    put_execute(version, &[7; 16], &[9; 16], &parameters, &mut expected);
                } else {
                    put_batch(version, kind, &vec![entry; entries as usize], &parameters, &mut expected);
                }
                assert_eq!((got, opcode == Opcode::Execute), (expected, entries == 1));
            }
        }
    }
}
