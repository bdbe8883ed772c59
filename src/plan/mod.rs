//! From a statement and a schema to what a replica is asked. Pure: clocks and random numbers come in with the request.

pub mod data_type;
pub mod ddl;
pub mod describe;
pub mod functions;
pub mod markers;
pub mod names;
pub mod paging;
mod point;
pub mod prepared;
pub mod select;
pub mod system_rows;
pub mod term;
#[cfg(test)]
pub(crate) mod testing;
pub mod write;

use std::rc::Rc;

use crate::base::ids::Token;
use crate::protocol::Consistency;
use crate::schema::Table;

pub use prepared::{Prepared, prepare};
pub use term::{Binding, Bound, Scope, Term};
pub use write::{BatchLimits, bind_batch};

/// What a request knows beside its statement and values.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The wall clock, microseconds since 1970.
    pub now_us: i64,
    /// Fresh random bits, for `uuid()` and `now()`.
    pub random: [u64; 2],
}

/// The parameters of QUERY, EXECUTE and BATCH that planning needs.
#[derive(Clone, Copy, Debug)]
pub struct RequestOptions<'a> {
    pub consistency: Consistency,
    pub serial_consistency: Option<Consistency>,
    /// Rows a page; `None`: the whole result at once.
    pub page_size: Option<u32>,
    pub paging_state: Option<&'a [u8]>,
    /// The client's default timestamp.
    pub timestamp: Option<i64>,
    /// The clock that TTLs are measured by, where the client gives it (v5).
    pub now_in_seconds: Option<i32>,
    pub context: Context,
}

impl RequestOptions<'_> {
    /// The second by which expiry is judged.
    pub fn now_s(&self) -> i64 {
        self.now_in_seconds.map_or(self.context.now_us.div_euclid(1_000_000), i64::from)
    }
}

pub use crate::protocol::result::ColumnSpec;

/// One encoded mutation: all that a statement or batch does to one partition of one table.
#[derive(Clone, Debug)]
pub struct PlannedMutation {
    pub table: Rc<Table>,
    pub token: Token,
    pub bytes: Vec<u8>,
}

/// What a modification or a batch asks of the replicas. One timestamp serves all of it.
#[derive(Clone, Debug, Default)]
pub struct WritePlan {
    /// At most one for each table and partition.
    pub mutations: Vec<PlannedMutation>,
    /// Whether all or none of it must survive (BEGIN BATCH over several partitions).
    pub logged_batch: bool,
    /// The client's timestamp; `None`: the owner gives one.
    pub timestamp: Option<i64>,
    pub warnings: Vec<String>,
}

/// What executing a statement comes to.
#[derive(Debug)]
pub enum Plan {
    Write(WritePlan),
    Read(Box<select::ReadPlan>),
    /// The text goes to the shard that owns the schema, which plans it there.
    Ddl,
    Truncate(Rc<Table>),
    Use(String),
    /// Answered from the schema alone.
    Describe(Box<crate::cql::ast::Describe>),
    /// Nothing is to be done.
    Void,
}
