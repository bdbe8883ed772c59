//! What is done at once: EXECUTEs that read or write one row by its whole key, and BATCHes of such writes on one partition,
//! on the shard that owns it. A read goes from the receive buffer to the key and from the row into the send buffer, where
//! all of it is in memory; a write is encoded from the receive buffer, logged and applied, and its answer waits in the
//! connection's queue for the log. Nothing is allocated. Everything else, errors too, goes the way of `Call::run`.

use std::rc::Rc;

use smallvec::SmallVec;

use crate::base::ids::LogPosition;
use crate::mutation::MutationBuilder;
use crate::mutation::point::{PointKey, PointRow};
use crate::net::Net;
use crate::net::statements::Statement;
use crate::plan::select::PointSelect;
use crate::protocol::frame::{Frame, flag};
use crate::protocol::result::{MetadataMode, RowsWriter};
use crate::protocol::{
    Batch, BatchKind, Consistency, Execute, FrameEncoder, Opcode, QueryParameters, Request, StatementRef, Value, Values,
};
use crate::schema::Table;

/// Bytes of a request, or of the values it reads, above which it is counted before it is done: elsewhere.
const POINT_BYTES_MAX: usize = 64 << 10;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtOnce {
    /// Nothing was done: it goes the long way.
    Not,
    /// It is answered.
    Answered,
    /// It is done, and to be answered once the log is acknowledged up to here; at once where nothing was logged.
    Written(Option<LogPosition>),
}

/// Memory that is used again and again.
#[derive(Default)]
pub struct Scratch {
    /// Of the row that is read; of a write, its partition.
    key: PointKey,
    /// The place of the row that is written next.
    next: PointKey,
    mutation: Vec<u8>,
}

type PointValues<'v> = SmallVec<[Value<'v>; 16]>;

/// Does what the request asks, if that can be done at once.
pub fn take(net: &Net, frame: &Frame<'_>, encoder: &mut FrameEncoder, out: &mut Vec<u8>) -> AtOnce {
    if !matches!(frame.opcode, Opcode::Execute | Opcode::Batch)
        || frame.body.len() > POINT_BYTES_MAX
        || frame.flags & flag::CUSTOM_PAYLOAD != 0
        || frame.wants_tracing()
    {
        return AtOnce::Not;
    }
    match Request::decode(frame.version, frame.opcode, frame.body, false) {
        Ok(Request::Execute(execute)) => take_execute(net, frame, &execute, encoder, out),
        Ok(Request::Batch(batch)) => write_batch(net, &batch).map_or(AtOnce::Not, AtOnce::Written),
        _ => AtOnce::Not,
    }
}

fn take_execute(
    net: &Net,
    frame: &Frame<'_>,
    execute: &Execute<'_>,
    encoder: &mut FrameEncoder,
    out: &mut Vec<u8>,
) -> AtOnce {
    let Ok(statement) = net.statements.get(execute.id) else { return AtOnce::Not };
    if let Some((point, table)) = statement.prepared.point_select() {
        let is_read = read(net, frame, (&statement, point, table), execute, encoder, out);
        return if is_read { AtOnce::Answered } else { AtOnce::Not };
    }
    let part = Some((statement, execute.parameters.values));
    write(net, std::iter::once(part), &execute.parameters).map_or(AtOnce::Not, AtOnce::Written)
}

/// Answers a read, or does nothing: whether it did.
fn read(
    net: &Net,
    frame: &Frame<'_>,
    (statement, point, table): (&Statement, &PointSelect, &Table),
    execute: &Execute<'_>,
    encoder: &mut FrameEncoder,
    out: &mut Vec<u8>,
) -> bool {
    let QueryParameters { consistency, skip_metadata, now_in_seconds, paging_state, page_size, .. } =
        execute.parameters;
    let Scratch { key, .. } = &mut *net.scratch.borrow_mut();
    let Some(values) = values_of(statement, execute.parameters.values) else { return false };
    // A page of one row is full with it, and says where the next begins. Where clients leave much unread, the long way
    // counts what is given to them.
    let is_plain = consistency != Consistency::Any && paging_state.is_none() && page_size != Some(1);
    let is_plain = is_plain && net.answers.has_ample_room() && point.locate(&values, key);
    if !is_plain || !net.router.is_here(table, key.token, consistency) {
        return false;
    }
    let now_s = now_in_seconds.map_or_else(|| net.io.wall_us().div_euclid(1_000_000), i64::from);
    let answer = encoder.begin(out, frame.stream, Opcode::Result);
    let mode = MetadataMode::of(&statement.columns, execute.result_metadata_id, skip_metadata);
    let mut rows = RowsWriter::begin(frame.version, &statement.columns, mode, out);
    let put = |row: Option<&PointRow<'_>>| match row {
        Some(row) => {
            rows.row();
            point.put_row(&key.key, row, POINT_BYTES_MAX, out)
        }
        None => true,
    };
    if !net.router.shard().read_point(table.id, key, now_s, put) {
        encoder.abandon(out, answer);
        return false;
    }
    rows.finish(None, out);
    encoder.finish(out, answer);
    true
}

/// Logs and applies writes of rows of one partition, as one mutation in one pass; `None` where nothing was done.
fn write<'v>(
    net: &Net,
    parts: impl Iterator<Item = Option<(Rc<Statement>, Values<'v>)>>,
    parameters: &QueryParameters<'_>,
) -> Option<Option<LogPosition>> {
    let Scratch { key, next, mutation } = &mut *net.scratch.borrow_mut();
    mutation.clear();
    let mut begun: Option<(Rc<Table>, MutationBuilder<'_>)> = None;
    for part in parts {
        let (statement, values) = part?;
        let (point, table) = statement.prepared.point_write()?;
        let values = values_of(&statement, values)?;
        if !point.locate(&values, next) {
            return None;
        }
        if begun.is_none() {
            key.clone_partition(next);
            begun = Some((table.clone(), MutationBuilder::begin(mutation, table.id, table.version, &key.key)));
        }
        let (first, builder) = begun.as_mut()?;
        let is_here = Rc::ptr_eq(first, table) && next.key == key.key;
        if !is_here || !point.put_row(&values, next, builder) {
            return None;
        }
    }
    let (table, _) = begun?;
    apply(net, &table, key, mutation, parameters)
}

fn write_batch(net: &Net, batch: &Batch<'_>) -> Option<Option<LogPosition>> {
    if batch.kind == BatchKind::Counter {
        return None;
    }
    let parts = batch.statements().map(|part| match part.statement {
        StatementRef::Prepared(id) => net.statements.get(id).ok().map(|statement| (statement, part.values)),
        StatementRef::Text(_) => None,
    });
    write(net, parts, &batch.parameters)
}

fn apply(
    net: &Net,
    table: &Table,
    key: &PointKey,
    mutation: &mut [u8],
    parameters: &QueryParameters<'_>,
) -> Option<Option<LogPosition>> {
    let is_plain = !parameters.consistency.is_serial() && parameters.timestamp.is_none_or(|given| given > i64::MIN);
    if !is_plain || !net.router.is_here(table, key.token, parameters.consistency) {
        return None;
    }
    let applied = net.router.shard().apply_at_once(mutation, key.token, parameters.timestamp)?;
    Some(applied.logged)
}

/// As many as the statement has variables, and in their order.
fn values_of<'v>(statement: &Statement, values: Values<'v>) -> Option<PointValues<'v>> {
    let are_all = !values.is_named() && values.len() == statement.prepared.variables.len();
    are_all.then(|| values.iter().map(|(_, value)| value).collect())
}
