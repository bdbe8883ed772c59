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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::cast_possible_truncation)]
    use super::*;
    use crate::protocol::client::{Answer, PreparedStatement, Response, ResultBody, Rows};
    use crate::protocol::frame::Frame;
    use crate::protocol::request::Opcode;
    use proptest::prelude::*;

    fn column(table: &str, name: &str, ty: CqlType) -> ColumnSpec {
        ColumnSpec { keyspace: "ks".into(), table: table.into(), name: name.into(), ty }
    }

    fn metadata() -> ResultMetadata {
        ResultMetadata::new(vec![column("t", "a", CqlType::Int), column("t", "b", CqlType::list(CqlType::Text))])
    }

    fn two_tables() -> ResultMetadata {
        ResultMetadata::new(vec![column("t", "a", CqlType::Int), column("u", "a", CqlType::Date)])
    }

    fn answer(version: ProtocolVersion, body: &[u8]) -> Option<ResultBody<'_>> {
        let frame = Frame { version, flags: 0, stream: 1, opcode: Opcode::Result, body };
        match Answer::decode(&frame).ok()?.response {
            Response::Result(body) => Some(body),
            other => panic!("{other:?}"),
        }
    }

    fn rows(version: ProtocolVersion, body: &[u8]) -> Rows<'_> {
        match answer(version, body) {
            Some(ResultBody::Rows(rows)) => rows,
            other => panic!("{other:?}"),
        }
    }

    fn write(
        version: ProtocolVersion,
        metadata: &ResultMetadata,
        mode: MetadataMode,
        paging: Option<&[u8]>,
    ) -> Vec<u8> {
        let mut out = b"earlier".to_vec();
        let mut writer = RowsWriter::begin(version, metadata, mode, &mut out);
        assert_eq!(writer.rows_at(), out.len());
        for value in [7, 8] {
            writer.row();
            put_bytes(&mut out, Some(&[value]));
            put_bytes(&mut out, None);
        }
        assert_eq!(writer.rows(), 2);
        writer.finish(paging, &mut out);
        out.split_off(7)
    }

    #[test]
    fn rows_round_trip_in_every_version_and_mode() {
        for version in ProtocolVersion::ALL {
            for metadata in [metadata(), two_tables()] {
                for mode in [MetadataMode::Full, MetadataMode::Skip, MetadataMode::Changed] {
                    for paging in [None, Some(b"state".as_slice()), Some(&[])] {
                        let body = write(version, &metadata, mode, paging);
                        let rows = rows(version, &body);
                        let columns = if mode == MetadataMode::Skip { &[][..] } else { metadata.columns() };
                        assert_eq!(rows.columns, columns);
                        assert_eq!((rows.column_count, rows.row_count, rows.paging_state), (2, 2, paging));
                        let changed = mode == MetadataMode::Changed && version == ProtocolVersion::V5;
                        assert_eq!(rows.new_metadata_id, changed.then_some(metadata.id().as_slice()));
                        let cells: Vec<_> = rows.iter().collect();
                        assert_eq!(cells, [[Some(&[7u8][..]), None], [Some(&[8][..]), None]]);
                        assert!((0..body.len()).all(|len| answer(version, &body[..len]).is_none()));
                    }
                }
            }
        }
    }

    #[test]
    fn the_bytes_of_a_page() {
        let metadata = ResultMetadata::new(vec![column("t", "a", CqlType::Int)]);
        let mut out = Vec::new();
        let mut writer = RowsWriter::begin(ProtocolVersion::V4, &metadata, MetadataMode::Full, &mut out);
        writer.row();
        put_bytes(&mut out, Some(&[0, 0, 0, 5]));
        writer.finish(Some(&[1]), &mut out);
        let mut expected = vec![0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 1, 1];
        expected.extend(b"\x00\x02ks\x00\x01t\x00\x01a\x00\x09\x00\x00\x00\x01\x00\x00\x00\x04\x00\x00\x00\x05");
        assert_eq!(out, expected);
    }

    #[test]
    fn rows_cut_from_the_buffer_are_not_counted() {
        let mut out = Vec::new();
        let mut writer = RowsWriter::begin(ProtocolVersion::V4, &metadata(), MetadataMode::Skip, &mut out);
        writer.row();
        out.extend_from_slice(&[1; 30]);
        out.truncate(writer.rows_at());
        writer.set_rows(0);
        writer.finish(None, &mut out);
        assert_eq!(rows(ProtocolVersion::V4, &out).row_count, 0);
    }

    #[test]
    fn the_columns_go_out_when_the_client_knows_others() {
        let metadata = metadata();
        let of = |id: Option<&[u8]>, skip| MetadataMode::of(&metadata, id, skip);
        assert_eq!(of(None, false), MetadataMode::Full);
        assert_eq!(of(None, true), MetadataMode::Skip);
        assert_eq!(of(Some(metadata.id()), true), MetadataMode::Skip);
        assert_eq!(of(Some(metadata.id()), false), MetadataMode::Full);
        assert_eq!(of(Some(two_tables().id()), true), MetadataMode::Changed);
        assert_eq!(of(Some(&[]), false), MetadataMode::Changed);
    }

    #[test]
    fn prepared_statements_round_trip() {
        let (none, some) = (ResultMetadata::none(), metadata());
        for version in ProtocolVersion::ALL {
            for (variables, result) in [(&some, &none), (&none, &some), (&two_tables(), &two_tables())] {
                let prepared = PreparedAnswer { id: &[1; 16], variables, partition_key: &[1, 0], result };
                let mut body = Vec::new();
                put_prepared(version, &prepared, &mut body);
                let expected = PreparedStatement {
                    id: vec![1; 16],
                    result_metadata_id: (version == ProtocolVersion::V5).then(|| result.id().to_vec()),
                    variables: variables.columns().to_vec(),
                    partition_key: if version == ProtocolVersion::V3 { vec![] } else { vec![1, 0] },
                    columns: result.columns().to_vec(),
                };
                assert_eq!(answer(version, &body), Some(ResultBody::Prepared(expected)));
                assert!((0..body.len()).all(|len| answer(version, &body[..len]).is_none()));
            }
        }
    }

    #[test]
    fn the_bytes_of_a_prepared_write() {
        let variables = ResultMetadata::new(vec![column("t", "k", CqlType::BigInt)]);
        let result = ResultMetadata::none();
        let prepared = PreparedAnswer { id: &[5], variables: &variables, partition_key: &[0], result: &result };
        let mut out = Vec::new();
        put_prepared(ProtocolVersion::V4, &prepared, &mut out);
        let expected = [
            &[0, 0, 0, 4, 0, 1, 5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0][..],
            b"\x00\x02ks\x00\x01t\x00\x01k\x00\x02\x00\x00\x00\x04\x00\x00\x00\x00",
        ];
        assert_eq!(out, expected.concat());
    }

    #[test]
    fn the_id_follows_names_and_types() {
        assert_eq!(metadata().id(), metadata().id());
        assert_ne!(metadata().id(), two_tables().id());
        let renamed = ResultMetadata::new(vec![column("t", "x", CqlType::Int)]);
        let retyped = ResultMetadata::new(vec![column("t", "x", CqlType::Text)]);
        assert_ne!(renamed.id(), retyped.id());
    }

    proptest! {
        #[test]
        fn arbitrary_answers_are_endured(body in proptest::collection::vec(any::<u8>(), 0..200), flags in any::<u8>()) {
            for version in ProtocolVersion::ALL {
                for opcode in Opcode::ALL {
                    let frame = Frame { version, flags, stream: 0, opcode, body: &body };
                    let _ = Answer::decode(&frame);
                }
                for kind in 1..=5 {
                    let body = [&[0, 0, 0, kind], &body[..]].concat();
                    if let Some(ResultBody::Rows(rows)) = answer(version, &body) {
                        prop_assert!(rows.column_count == 0 || rows.iter().count() == rows.row_count);
                    }
                }
            }
        }

        #[test]
        fn cells_round_trip(cells in proptest::collection::vec(
            proptest::collection::vec(proptest::option::of(proptest::collection::vec(any::<u8>(), 0..20)), 2), 0..20)) {
            let mut out = Vec::new();
            put_rows(ProtocolVersion::V4, &metadata(), &cells, &mut out);
            let rows = rows(ProtocolVersion::V4, &out);
            let seen: Vec<Vec<Option<Vec<u8>>>> =
                rows.iter().map(|row| row.into_iter().map(|cell| cell.map(<[u8]>::to_vec)).collect()).collect();
            prop_assert_eq!(seen, cells);
        }
    }
}
