//! The stored form of schema changes: what `system.helenus_schema` and the commit log's segments hold.
//!
//! Version 1. Integers are `base::vint`; a text or a byte string is its length and its bytes; a list is its count and its
//! elements; an option is a count of 0 or 1. A type is a tag byte and its parts. Unknown versions, tags and trailing
//! bytes are errors.

use std::collections::BTreeMap;
use std::mem::discriminant;

use crate::base::ids::{ColumnId, TableId};
use crate::base::vint;
use crate::schema::columns::{Column, ColumnKind, Columns};
use crate::schema::table::{DroppedColumn, SchemaOp, Table, TableOptions};
use crate::types::{CqlType, UdtType};

const VERSION: u8 = 1;

/// How deep types may nest: as deep as CQL lets them.
const NESTING_MAX: usize = 64;

/// Why stored bytes are no schema change.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaCodecError {
    #[error("schema format version {0} is newer than this server")]
    Version(u8),
    #[error("a stored schema change ends early or holds an unknown {0}")]
    Malformed(&'static str),
}

type Read<T> = Result<T, SchemaCodecError>;

/// One change as bytes.
pub fn encode_op(op: &SchemaOp) -> Vec<u8> {
    let mut out = Writer(vec![VERSION]);
    match op {
        SchemaOp::PutKeyspace { name, durable_writes, replication } => {
            out.tag(0).text(name).flag(*durable_writes).map(replication);
        }
        SchemaOp::DropKeyspace { name } => {
            out.tag(1).text(name);
        }
        SchemaOp::PutType(udt) => {
            out.tag(2).udt(udt);
        }
        SchemaOp::DropType { keyspace, name } => {
            out.tag(3).text(keyspace).text(name);
        }
        SchemaOp::PutTable(table) => return encode_table(table),
        SchemaOp::DropTable { keyspace, name, id } => {
            out.tag(5).text(keyspace).text(name).bytes(&id.0);
        }
    }
    out.0
}

/// `SchemaOp::PutTable` of this table as bytes.
pub fn encode_table(table: &Table) -> Vec<u8> {
    let mut out = Writer(vec![VERSION]);
    out.tag(4).table(table);
    out.0
}

/// The change that `encode_op` wrote.
pub fn decode_op(bytes: &[u8]) -> Read<SchemaOp> {
    let mut input = Reader(bytes);
    let version = input.tag()?;
    if version != VERSION {
        return Err(SchemaCodecError::Version(version));
    }
    let op = match input.tag()? {
        0 => SchemaOp::PutKeyspace { name: input.text()?, durable_writes: input.flag()?, replication: input.map()? },
        1 => SchemaOp::DropKeyspace { name: input.text()? },
        2 => SchemaOp::PutType(input.udt(0)?),
        3 => SchemaOp::DropType { keyspace: input.text()?, name: input.text()? },
        4 => SchemaOp::PutTable(Box::new(input.table()?)),
        5 => SchemaOp::DropTable { keyspace: input.text()?, name: input.text()?, id: input.table_id()? },
        _ => return Err(SchemaCodecError::Malformed("change")),
    };
    if input.0.is_empty() { Ok(op) } else { Err(SchemaCodecError::Malformed("trailing byte")) }
}

struct Writer(Vec<u8>);

impl Writer {
    fn tag(&mut self, tag: u8) -> &mut Self {
        self.0.push(tag);
        self
    }

    fn flag(&mut self, flag: bool) -> &mut Self {
        self.tag(u8::from(flag))
    }

    fn number(&mut self, number: i64) -> &mut Self {
        vint::write_i64(&mut self.0, number);
        self
    }

    fn count(&mut self, count: usize) -> &mut Self {
        vint::write_u64(&mut self.0, count as u64);
        self
    }

    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.count(bytes.len());
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    fn real(&mut self, real: f64) -> &mut Self {
        self.0.extend_from_slice(&real.to_bits().to_le_bytes());
        self
    }

    fn map(&mut self, map: &BTreeMap<String, String>) -> &mut Self {
        self.count(map.len());
        for (key, value) in map {
            self.text(key).text(value);
        }
        self
    }

    fn udt(&mut self, udt: &UdtType) -> &mut Self {
        self.text(&udt.keyspace).text(&udt.name).count(udt.fields.len());
        for (name, ty) in &udt.fields {
            self.text(name).ty(ty);
        }
        self
    }

    fn ty(&mut self, ty: &CqlType) -> &mut Self {
        if let Some(at) = CqlType::NATIVE.iter().position(|native| discriminant(native) == discriminant(ty)) {
            return self.tag(u8::try_from(at).expect("there are twenty native types"));
        }
        match ty {
            CqlType::List(element) => self.tag(32).ty(element),
            CqlType::Set(element) => self.tag(33).ty(element),
            CqlType::Map(key, value) => self.tag(34).ty(key).ty(value),
            CqlType::Tuple(elements) => {
                self.tag(35).count(elements.len());
                for element in elements {
                    self.ty(element);
                }
                self
            }
            CqlType::Udt(udt) => self.tag(36).udt(udt),
            CqlType::Vector(element, dimensions) => self.tag(37).ty(element).count(usize::from(*dimensions)),
            CqlType::Frozen(inner) => self.tag(38).ty(inner),
            CqlType::Custom(class) => self.tag(39).text(class),
            _ => self.tag(40),
        }
    }

    fn column(&mut self, column: &Column) -> &mut Self {
        self.count(usize::from(column.id.0)).text(&column.name).ty(&column.ty);
        match column.kind {
            ColumnKind::PartitionKey(position) => self.tag(0).count(usize::from(position)),
            ColumnKind::Clustering { position, descending } => {
                self.tag(1).count(usize::from(position)).flag(descending)
            }
            ColumnKind::Static => self.tag(2),
            ColumnKind::Regular => self.tag(3),
        }
    }

    fn table(&mut self, table: &Table) -> &mut Self {
        self.bytes(&table.id.0).text(&table.keyspace).text(&table.name).count(table.version as usize);
        self.count(table.columns.len());
        for column in &table.columns {
            self.column(column);
        }
        self.count(table.dropped.len());
        for dropped in &table.dropped {
            self.count(usize::from(dropped.id.0)).text(&dropped.name).ty(&dropped.ty);
            self.flag(dropped.is_static).number(dropped.dropped_at);
        }
        self.count(usize::from(table.next_column_id)).options(&table.options).flag(table.is_counter)
    }

    fn options(&mut self, options: &TableOptions) -> &mut Self {
        self.text(&options.additional_write_policy).flag(options.allow_auto_snapshot);
        self.real(options.bloom_filter_fp_chance).map(&options.caching).flag(options.cdc).text(&options.comment);
        self.map(&options.compaction).map(&options.compression).real(options.crc_check_chance);
        self.number(i64::from(options.default_time_to_live_s)).count(options.extensions.len());
        for (key, value) in &options.extensions {
            self.text(key).bytes(value);
        }
        self.number(i64::from(options.gc_grace_seconds)).flag(options.incremental_backups);
        self.number(i64::from(options.max_index_interval)).text(&options.memtable);
        self.number(i64::from(options.memtable_flush_period_in_ms)).number(i64::from(options.min_index_interval));
        self.text(&options.read_repair).text(&options.speculative_retry)
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn tag(&mut self) -> Read<u8> {
        let (tag, rest) = self.0.split_first().ok_or(SchemaCodecError::Malformed("tag"))?;
        self.0 = rest;
        Ok(*tag)
    }

    fn flag(&mut self) -> Read<bool> {
        match self.tag()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(SchemaCodecError::Malformed("flag")),
        }
    }

    fn number<T: TryFrom<i64>>(&mut self) -> Read<T> {
        let number = vint::read_i64(&mut self.0).ok_or(SchemaCodecError::Malformed("number"))?;
        T::try_from(number).map_err(|_| SchemaCodecError::Malformed("number"))
    }

    fn count<T: TryFrom<u64>>(&mut self) -> Read<T> {
        let count = vint::read_u64(&mut self.0).ok_or(SchemaCodecError::Malformed("count"))?;
        T::try_from(count).map_err(|_| SchemaCodecError::Malformed("count"))
    }

    fn bytes(&mut self) -> Read<&'a [u8]> {
        let len: usize = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(SchemaCodecError::Malformed("length"))?;
        self.0 = rest;
        Ok(bytes)
    }

    fn text(&mut self) -> Read<String> {
        String::from_utf8(self.bytes()?.to_vec()).map_err(|_| SchemaCodecError::Malformed("text"))
    }

    fn real(&mut self) -> Read<f64> {
        let (bits, rest) = self.0.split_first_chunk::<8>().ok_or(SchemaCodecError::Malformed("real"))?;
        self.0 = rest;
        Ok(f64::from_bits(u64::from_le_bytes(*bits)))
    }

    /// A list of what `element` reads. Nothing is reserved by a count that may lie.
    fn list<T>(&mut self, mut element: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let count: usize = self.count()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(element(self)?);
        }
        Ok(list)
    }

    fn map(&mut self) -> Read<BTreeMap<String, String>> {
        Ok(self.list(|input| Ok((input.text()?, input.text()?)))?.into_iter().collect())
    }

    fn table_id(&mut self) -> Read<TableId> {
        self.bytes()?.try_into().map(TableId).map_err(|_| SchemaCodecError::Malformed("table id"))
    }

    fn udt(&mut self, depth: usize) -> Read<UdtType> {
        let (keyspace, name) = (self.text()?, self.text()?);
        let fields = self.list(|input| Ok((input.text()?, input.ty(depth + 1)?)))?;
        Ok(UdtType { keyspace, name, fields })
    }

    fn ty(&mut self, depth: usize) -> Read<CqlType> {
        if depth > NESTING_MAX {
            return Err(SchemaCodecError::Malformed("nesting of types"));
        }
        let tag = self.tag()?;
        if let Some(native) = CqlType::NATIVE.get(usize::from(tag)) {
            return Ok(native.clone());
        }
        let deeper = depth + 1;
        Ok(match tag {
            32 => CqlType::List(Box::new(self.ty(deeper)?)),
            33 => CqlType::Set(Box::new(self.ty(deeper)?)),
            34 => CqlType::Map(Box::new(self.ty(deeper)?), Box::new(self.ty(deeper)?)),
            35 => CqlType::Tuple(self.list(|input| input.ty(deeper))?),
            36 => CqlType::Udt(Box::new(self.udt(deeper)?)),
            37 => CqlType::Vector(Box::new(self.ty(deeper)?), self.count()?),
            38 => CqlType::Frozen(Box::new(self.ty(deeper)?)),
            39 => CqlType::Custom(self.text()?),
            40 => CqlType::Empty,
            _ => return Err(SchemaCodecError::Malformed("type")),
        })
    }

    fn column(&mut self) -> Read<Column> {
        let (id, name, ty) = (ColumnId(self.count()?), self.text()?, self.ty(0)?);
        let kind = match self.tag()? {
            0 => ColumnKind::PartitionKey(self.count()?),
            1 => ColumnKind::Clustering { position: self.count()?, descending: self.flag()? },
            2 => ColumnKind::Static,
            3 => ColumnKind::Regular,
            _ => return Err(SchemaCodecError::Malformed("column kind")),
        };
        Ok(Column { id, name, ty, kind })
    }

    fn dropped(&mut self) -> Read<DroppedColumn> {
        Ok(DroppedColumn {
            id: ColumnId(self.count()?),
            name: self.text()?,
            ty: self.ty(0)?,
            is_static: self.flag()?,
            dropped_at: self.number()?,
        })
    }

    fn table(&mut self) -> Read<Table> {
        Ok(Table {
            id: self.table_id()?,
            keyspace: self.text()?,
            name: self.text()?,
            version: self.count()?,
            columns: Columns::new(self.list(Reader::column)?),
            dropped: self.list(Reader::dropped)?,
            next_column_id: self.count()?,
            options: self.options()?,
            is_counter: self.flag()?,
        })
    }

    fn options(&mut self) -> Read<TableOptions> {
        Ok(TableOptions {
            additional_write_policy: self.text()?,
            allow_auto_snapshot: self.flag()?,
            bloom_filter_fp_chance: self.real()?,
            caching: self.map()?,
            cdc: self.flag()?,
            comment: self.text()?,
            compaction: self.map()?,
            compression: self.map()?,
            crc_check_chance: self.real()?,
            default_time_to_live_s: self.number()?,
            extensions: self.list(|input| Ok((input.text()?, input.bytes()?.to_vec())))?.into_iter().collect(),
            gc_grace_seconds: self.number()?,
            incremental_backups: self.flag()?,
            max_index_interval: self.number()?,
            memtable: self.text()?,
            memtable_flush_period_in_ms: self.number()?,
            min_index_interval: self.number()?,
            read_repair: self.text()?,
            speculative_retry: self.text()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ops() -> Vec<SchemaOp> {
        let udt = UdtType {
            keyspace: "ks".into(),
            name: "address".into(),
            fields: vec![("street".into(), CqlType::Text), ("codes".into(), CqlType::set(CqlType::Int).freeze())],
        };
        let column = |id, name: &str, ty, kind| Column { id: ColumnId(id), name: name.into(), ty, kind };
        let table = Table {
            id: TableId([7; 16]),
            keyspace: "ks".into(),
            name: "t".into(),
            version: 3,
            columns: Columns::new(vec![
                column(0, "k", CqlType::Int, ColumnKind::PartitionKey(0)),
                column(1, "c", CqlType::Text, ColumnKind::Clustering { position: 0, descending: true }),
                column(2, "s", CqlType::tuple([CqlType::Int, CqlType::Duration]), ColumnKind::Static),
                column(
                    9,
                    "m",
                    CqlType::map(CqlType::Text, CqlType::Udt(Box::new(udt.clone())).freeze()),
                    ColumnKind::Regular,
                ),
                column(10, "v", CqlType::vector(CqlType::Float, 3), ColumnKind::Regular),
                column(11, "x", CqlType::Custom("org.example.X".into()), ColumnKind::Regular),
            ]),
            dropped: vec![DroppedColumn {
                id: ColumnId(4),
                name: "old".into(),
                ty: CqlType::list(CqlType::Int),
                is_static: false,
                dropped_at: -5,
            }],
            next_column_id: 12,
            options: TableOptions {
                comment: "ünï".into(),
                extensions: [("e".into(), vec![1, 2])].into(),
                ..TableOptions::default()
            },
            is_counter: false,
        };
        vec![
            SchemaOp::PutKeyspace {
                name: "ks".into(),
                durable_writes: false,
                replication: [("class".to_owned(), "Simple".to_owned())].into(),
            },
            SchemaOp::DropKeyspace { name: "ks".into() },
            SchemaOp::PutType(udt),
            SchemaOp::DropType { keyspace: "ks".into(), name: "address".into() },
            SchemaOp::PutTable(Box::new(table)),
            SchemaOp::DropTable { keyspace: "ks".into(), name: "t".into(), id: TableId([7; 16]) },
        ]
    }

    #[test]
    fn every_change_comes_back() {
        for op in ops() {
            assert_eq!(decode_op(&encode_op(&op)), Ok(op));
        }
    }

    #[test]
    fn every_cut_and_a_newer_version_are_errors() {
        for op in ops() {
            let bytes = encode_op(&op);
            for len in 0..bytes.len() {
                assert!(decode_op(&bytes[..len]).is_err());
            }
            let mut newer = bytes.clone();
            newer[0] = 2;
            assert_eq!(decode_op(&newer), Err(SchemaCodecError::Version(2)));
            newer[0] = 1;
            newer.push(0);
            assert!(decode_op(&newer).is_err());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(mut bytes: Vec<u8>) {
            let _ = decode_op(&bytes);
            bytes.splice(0..0, [VERSION, 4]);
            let _ = decode_op(&bytes);
        }
    }
}
