//! A profile's table as the server has it, and what inserts into it and queries of it share.

use std::sync::Arc;

use helenus::types::{parse_cql_type, quote_name};

use super::Profile;
use super::column::{Column, ColumnError};
use super::partition::Table;

/// Statements of a batch are counted in 16 bits.
pub const BATCH_ROWS_MAX: u32 = 65_535;
/// Tells the draws of rows from others of the same operation.
pub const ROWS_SALT: u64 = 0x726f_7773;

/// A profile that does not fit its table.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("{profile}: there is no table {table}: the profile has no table_definition, or one of another name")]
    NoTable { profile: String, table: String },
    #[error("{profile}: {source}")]
    Column { profile: String, source: ColumnError },
    #[error("{profile}: column `{column}` has the type `{ty}`, which is not known")]
    Type { profile: String, column: String, ty: String },
    #[error("{profile}: columnspec `{column}` names no column of the table")]
    NoColumn { profile: String, column: String },
    #[error(
        "{profile}: an insert has up to {rows:.0} rows, and a batch {} at most: fewer partitions, rows or a smaller \
         select are needed",
        BATCH_ROWS_MAX
    )]
    BatchTooLarge { profile: String, rows: f64 },
    #[error("{profile}: partitions: numbers from 1 to 65535 are expected")]
    Partitions { profile: String },
    #[error("{profile}: query `{query}`: what to bind to `{variable}` is not known: it is no column of the table")]
    Variable { profile: String, query: String, variable: String },
    #[error("{profile}: query `{query}` compares what is there with a value to bind (IF … ?), which is not there yet")]
    Condition { profile: String, query: String },
}

/// A row of `system_schema.columns`.
#[derive(Clone, Debug)]
pub struct Draft {
    pub name: String,
    /// `partition_key`, `clustering`, `regular` or `static`.
    pub kind: String,
    /// Among those of the key of the same kind.
    pub position: i32,
    pub ty: String,
}

/// What operations share.
pub type Shared = Arc<Table>;

impl Table {
    /// The table that the profile is about, as the server describes it.
    pub fn of(profile: &Profile, mut drafts: Vec<Draft>) -> Result<Table, PlanError> {
        let name = || profile.name.clone();
        if drafts.is_empty() {
            return Err(PlanError::NoTable {
                profile: name(),
                table: format!("{}.{}", profile.keyspace, profile.table),
            });
        }
        if let Some(column) = profile.columns.keys().find(|column| drafts.iter().all(|draft| draft.name != **column)) {
            return Err(PlanError::NoColumn { profile: name(), column: column.clone() });
        }
        drafts.sort_by(|a, b| a.position.cmp(&b.position).then_with(|| a.name.cmp(&b.name)));
        let of_kind = |kinds: &[&str]| -> Result<Vec<Column>, PlanError> {
            let drafts = drafts.iter().filter(|draft| kinds.contains(&draft.kind.as_str()));
            drafts.map(|draft| column_of(profile, draft)).collect()
        };
        Ok(Table {
            keyspace: profile.keyspace.clone(),
            name: profile.table.clone(),
            partition: of_kind(&["partition_key"])?,
            clustering: of_kind(&["clustering"])?,
            values: of_kind(&["regular", "static"])?,
        })
    }

    pub fn qualified(&self) -> String {
        format!("{}.{}", quote_name(&self.keyspace), quote_name(&self.name))
    }

    pub fn truncate_statement(&self) -> String {
        format!("TRUNCATE {}", self.qualified())
    }

    /// Appends the partition key in the form whose token is taken; `encoded` has the values with their lengths.
    pub fn put_routing_key(&self, mut encoded: &[u8], out: &mut Vec<u8>) {
        if self.partition.len() == 1 {
            out.extend_from_slice(&encoded[4..]);
            return;
        }
        while let Some(([_, _, len @ ..], rest)) = encoded.split_first_chunk::<4>() {
            let (value, rest) = rest.split_at(usize::from(u16::from_be_bytes(*len)));
            out.extend_from_slice(len);
            out.extend_from_slice(value);
            out.push(0);
            encoded = rest;
        }
    }
}

fn column_of(profile: &Profile, draft: &Draft) -> Result<Column, PlanError> {
    let unknown =
        || PlanError::Type { profile: profile.name.clone(), column: draft.name.clone(), ty: draft.ty.clone() };
    let ty = parse_cql_type(&draft.ty, &|_| None).map_err(|_| unknown())?;
    Column::new(&draft.name, ty, profile.columns.get(&draft.name))
        .map_err(|source| PlanError::Column { profile: profile.name.clone(), source })
}

/// What an operation sends, while it is made. Kept, so that nothing is allocated an operation.
#[derive(Default)]
pub struct Buffers {
    pub body: Vec<u8>,
    /// What the token of the request is taken of; empty where it has none.
    pub routing_key: Vec<u8>,
    /// The partition key's values, and the clustering ones, each with its length before it.
    pub partition: Vec<u8>,
    pub clustering: Vec<u8>,
}

impl Buffers {
    pub fn clear(&mut self) {
        self.body.clear();
        self.routing_key.clear();
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
