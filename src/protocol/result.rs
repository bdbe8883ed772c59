//! RESULTs of rows and of PREPARE.
//!
//! Rows go straight into the send buffer: `RowsWriter` writes the metadata, the caller appends each row's cells as
//! `[bytes]`, and row count, flags and paging state are filled in at the end.

use super::digest::columns_id;
use super::option::put_option;
use super::response::ResultKind;
use super::version::ProtocolVersion;
use super::wire::{put_bytes, put_int, put_len, put_short, put_short_bytes, put_string};
use crate::types::CqlType;

/// Bits of a metadata's flags.
pub mod flag {
    pub const GLOBAL_TABLE: i32 = 0x01;
    pub const HAS_MORE_PAGES: i32 = 0x02;
    pub const NO_METADATA: i32 = 0x04;
    /// From version 5 on.
    pub const METADATA_CHANGED: i32 = 0x08;
}

/// A column of a result, or a bind variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnSpec {
    pub keyspace: String,
    pub table: String,
    pub name: String,
    pub ty: CqlType,
}

/// The columns of a result, or the bind variables of a statement, with their bytes in every version: they are made
/// once a statement and copied into each answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultMetadata {
    columns: Vec<ColumnSpec>,
    id: [u8; 16],
    global_table: bool,
    /// The specifications as encoded, in the order of `ProtocolVersion::ALL`.
    encoded: [Vec<u8>; 3],
}

impl ResultMetadata {
    pub fn new(columns: Vec<ColumnSpec>) -> ResultMetadata {
        let one_table = |first: &ColumnSpec| {
            columns.iter().all(|column| column.keyspace == first.keyspace && column.table == first.table)
        };
        let global_table = columns.first().is_some_and(one_table);
        let classes: Vec<String> = columns.iter().map(|column| column.ty.marshal_name()).collect();
        let id = columns_id(columns.iter().map(|column| column.name.as_str()).zip(classes.iter().map(String::as_str)));
        let encoded = ProtocolVersion::ALL.map(|version| encode_columns(version, &columns, global_table));
        ResultMetadata { columns, id, global_table, encoded }
    }

    /// Of a statement that gives no rows.
    pub fn none() -> ResultMetadata {
        ResultMetadata::new(Vec::new())
    }

    pub fn columns(&self) -> &[ColumnSpec] {
        &self.columns
    }

    /// What version 5's clients present to be told when the columns have changed.
    pub fn id(&self) -> &[u8; 16] {
        &self.id
    }

    fn encoded(&self, version: ProtocolVersion) -> &[u8] {
        let [v3, v4, v5] = &self.encoded;
        match version {
            ProtocolVersion::V3 => v3,
            ProtocolVersion::V4 => v4,
            ProtocolVersion::V5 => v5,
        }
    }

    fn flags(&self) -> i32 {
        if self.global_table { flag::GLOBAL_TABLE } else { 0 }
    }
}

fn encode_columns(version: ProtocolVersion, columns: &[ColumnSpec], global_table: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if let (true, Some(first)) = (global_table, columns.first()) {
        put_string(&mut out, &first.keyspace);
        put_string(&mut out, &first.table);
    }
    for column in columns {
        if !global_table {
            put_string(&mut out, &column.keyspace);
            put_string(&mut out, &column.table);
        }
        put_string(&mut out, &column.name);
        put_option(version, &column.ty, &mut out);
    }
    out
}

/// How much of the metadata goes before rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataMode {
    Full,
    /// The client asked to skip it.
    Skip,
    /// Full, with the new id: the one that the client presented is stale (version 5).
    Changed,
}

impl MetadataMode {
    /// The mode of an answer to EXECUTE (or QUERY, which presents no id). The columns go out, skip-metadata or not,
    /// when the client knows others.
    pub fn of(metadata: &ResultMetadata, presented_id: Option<&[u8]>, skip_metadata: bool) -> MetadataMode {
        match presented_id {
            Some(id) if id != metadata.id => MetadataMode::Changed,
            _ if skip_metadata => MetadataMode::Skip,
            _ => MetadataMode::Full,
        }
    }
}

/// Rows being appended to a frame's body.
#[derive(Debug)]
#[must_use = "the row count is filled in by finish"]
pub struct RowsWriter {
    flags_at: usize,
    paging_at: usize,
    count_at: usize,
    flags: i32,
    rows: u32,
}

impl RowsWriter {
    /// Appends the head of a RESULT of rows.
    pub fn begin(
        version: ProtocolVersion,
        metadata: &ResultMetadata,
        mode: MetadataMode,
        out: &mut Vec<u8>,
    ) -> RowsWriter {
        put_int(out, ResultKind::Rows.number());
        let changed = mode == MetadataMode::Changed && version >= ProtocolVersion::V5;
        let flags = match mode {
            MetadataMode::Skip => flag::NO_METADATA,
            _ if changed => metadata.flags() | flag::METADATA_CHANGED,
            _ => metadata.flags(),
        };
        let flags_at = out.len();
        put_int(out, flags);
        put_len(out, metadata.columns.len());
        let paging_at = out.len();
        if changed {
            put_short_bytes(out, &metadata.id);
        }
        if mode != MetadataMode::Skip {
            out.extend_from_slice(metadata.encoded(version));
        }
        let count_at = out.len();
        put_int(out, 0);
        RowsWriter { flags_at, paging_at, count_at, flags, rows: 0 }
    }

    /// Counts a row; its cells are appended in column order, each as `[bytes]`.
    pub fn row(&mut self) {
        self.rows += 1;
    }

    /// Rows counted so far.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Takes back rows that were cut from the buffer again.
    pub fn set_rows(&mut self, rows: u32) {
        self.rows = rows;
    }

    /// Where the first row starts.
    pub fn rows_at(&self) -> usize {
        self.count_at + 4
    }

    /// Fills in the row count, and the paging state if there are more pages.
    pub fn finish(self, paging_state: Option<&[u8]>, out: &mut Vec<u8>) {
        overwrite(out, self.count_at, self.rows.to_be_bytes());
        if let Some(state) = paging_state {
            overwrite(out, self.flags_at, (self.flags | flag::HAS_MORE_PAGES).to_be_bytes());
            let mut encoded = Vec::with_capacity(4 + state.len());
            put_bytes(&mut encoded, Some(state));
            out.splice(self.paging_at..self.paging_at, encoded);
        }
    }
}

fn overwrite(out: &mut [u8], at: usize, bytes: [u8; 4]) {
    if let Some(place) = out.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<4>()) {
        *place = bytes;
    }
}

/// What PREPARE answers.
#[derive(Clone, Copy, Debug)]
pub struct PreparedAnswer<'a> {
    pub id: &'a [u8],
    pub variables: &'a ResultMetadata,
    /// Places among the variables of the partition key's columns, in key order; empty where not all are bound. Sent
    /// from version 4 on.
    pub partition_key: &'a [u16],
    pub result: &'a ResultMetadata,
}

/// RESULT of PREPARE.
pub fn put_prepared(version: ProtocolVersion, prepared: &PreparedAnswer<'_>, out: &mut Vec<u8>) {
    let PreparedAnswer { id, variables, partition_key, result } = prepared;
    put_int(out, ResultKind::Prepared.number());
    put_short_bytes(out, id);
    if version >= ProtocolVersion::V5 {
        put_short_bytes(out, &result.id);
    }
    put_int(out, variables.flags());
    put_len(out, variables.columns.len());
    if version >= ProtocolVersion::V4 {
        put_len(out, partition_key.len());
        partition_key.iter().for_each(|place| put_short(out, *place));
    }
    out.extend_from_slice(variables.encoded(version));
    if result.columns.is_empty() {
        put_int(out, flag::NO_METADATA);
        put_int(out, 0);
    } else {
        put_int(out, result.flags());
        put_len(out, result.columns.len());
        out.extend_from_slice(result.encoded(version));
    }
}

/// RESULT of few rows whose cells are at hand, such as the outcome of a condition.
pub fn put_rows(version: ProtocolVersion, metadata: &ResultMetadata, rows: &[Vec<Option<Vec<u8>>>], out: &mut Vec<u8>) {
    let mut writer = RowsWriter::begin(version, metadata, MetadataMode::Full, out);
    for row in rows {
        writer.row();
        row.iter().for_each(|cell| put_bytes(out, cell.as_deref()));
    }
    writer.finish(None, out);
}
