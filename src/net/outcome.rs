//! What a request came to, and its bytes.

use std::rc::Rc;

use crate::net::budget::Held;
use crate::net::statements::{Statement, StatementId};
use crate::plan::describe::ReadyRows;
use crate::plan::select::FinishedRows;
use crate::protocol::response::{put_schema_change, put_set_keyspace, put_supported, put_void};
use crate::protocol::result::{MetadataMode, PreparedAnswer, RowsWriter, put_prepared, put_rows};
use crate::protocol::{CqlError, Extras, FrameEncoder, Opcode, ProtocolVersion, ResultMetadata, SchemaChange};

/// The answer to one request, not encoded yet: versions, compression and framing are the connection's.
pub enum Outcome {
    Ready,
    Supported(Vec<(&'static str, Vec<String>)>),
    Void,
    SetKeyspace(String),
    SchemaChange(SchemaChange),
    Prepared(StatementId, Rc<Statement>),
    Rows {
        statement: Rc<Statement>,
        rows: FinishedRows,
        mode: MetadataMode,
        /// Gives the rows' bytes back once they are encoded.
        #[expect(dead_code, reason = "held: dropping it gives the rows' bytes back")]
        held: Held,
    },
    /// Rows that no table holds.
    Table(ReadyRows),
    Error(CqlError),
}

/// An outcome with what goes beside it.
pub struct Answer {
    pub stream: i16,
    pub outcome: Outcome,
    pub warnings: Vec<String>,
    pub tracing_id: Option<[u8; 16]>,
}

impl Answer {
    /// Appends the answer's frame.
    pub fn encode(&self, encoder: &mut FrameEncoder, out: &mut Vec<u8>) {
        if let Outcome::Error(error) = &self.outcome {
            return encoder.error(out, self.stream, error);
        }
        let opcode = match &self.outcome {
            Outcome::Ready => Opcode::Ready,
            Outcome::Supported(_) => Opcode::Supported,
            _ => Opcode::Result,
        };
        let version = encoder.version();
        let frame = encoder.begin(out, self.stream, opcode);
        self.put_body(version, out);
        let extras = Extras { tracing_id: self.tracing_id, warnings: &self.warnings, payload: &[] };
        encoder.finish_with(out, frame, &extras);
    }

    fn put_body(&self, version: ProtocolVersion, out: &mut Vec<u8>) {
        match &self.outcome {
            Outcome::Ready | Outcome::Error(_) => {}
            Outcome::Supported(options) => put_supported(options, out),
            Outcome::Void => put_void(out),
            Outcome::SetKeyspace(keyspace) => put_set_keyspace(keyspace, out),
            Outcome::SchemaChange(change) => put_schema_change(version, change, out),
            Outcome::Prepared(id, statement) => {
                let answer = PreparedAnswer {
                    id,
                    variables: &statement.variables,
                    partition_key: &statement.prepared.pk_indexes,
                    result: &statement.columns,
                };
                put_prepared(version, &answer, out);
            }
            Outcome::Rows { statement, rows, mode, held: _ } => {
                let mut writer = RowsWriter::begin(version, &statement.columns, *mode, out);
                out.extend_from_slice(&rows.bytes);
                writer.set_rows(rows.rows);
                writer.finish(rows.paging_state.as_deref(), out);
            }
            Outcome::Table(table) => {
                put_rows(version, &ResultMetadata::new(table.columns.clone()), &table.rows, out);
            }
        }
    }
}
