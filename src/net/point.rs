//! What is done at once: EXECUTEs that read or write one row by its whole key, and BATCHes of such writes on one partition,
//! on the shard that owns it. A read goes from the receive buffer to the key and from the row into the send buffer, where
//! all of it is in memory; a write is encoded from the receive buffer, logged and applied, and its answer waits in the
//! connection's queue for the log. Nothing is allocated. Everything else, errors too, goes the way of `Call::run`.

use std::rc::Rc;

use crate::base::ids::{LogPosition, TimestampMicros};
use crate::mutation::MutationBuilder;
use crate::mutation::point::{PointKey, PointRow};
use crate::net::Net;
use crate::net::statements::Statement;
use crate::plan::select::PointSelect;
use crate::protocol::frame::{Frame, flag};
use crate::protocol::result::{MetadataMode, RowsWriter};
use crate::protocol::{
    Batch, BatchKind, Consistency, Execute, FrameEncoder, Opcode, QueryParameters, Request, StatementRef, Value,
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
    /// The place of the row that is read, or written first.
    first: PointKey,
    /// The place of a row that is written later.
    row: PointKey,
    mutation: Vec<u8>,
}

/// Bound values in their order.
type PointValues<'v> = Vec<Value<'v>>;

/// The same memory for values of another request: what is collected from a vector's own elements stays where they were.
fn emptied<'v>(mut values: PointValues<'_>) -> PointValues<'v> {
    values.clear();
    values.into_iter().map(|_| Value::Null).collect()
}

/// Does what the request asks, if that can be done at once. `now_us` is what the wall clock says, or said shortly before.
pub fn take(
    net: &Net,
    frame: &Frame<'_>,
    now_us: TimestampMicros,
    encoder: &mut FrameEncoder,
    out: &mut Vec<u8>,
) -> AtOnce {
    if !matches!(frame.opcode, Opcode::Execute | Opcode::Batch)
        || frame.body.len() > POINT_BYTES_MAX
        || frame.flags & flag::CUSTOM_PAYLOAD != 0
        || frame.wants_tracing()
    {
        return AtOnce::Not;
    }
    let mut values: PointValues<'_> = net.values.take();
    let taken = if frame.opcode == Opcode::Execute {
        take_execute(net, frame, now_us, &mut values, encoder, out)
    } else if let Ok(Request::Batch(batch)) = frame.request() {
        write_batch(net, &batch, now_us, &mut values).map_or(AtOnce::Not, AtOnce::Written)
    } else {
        AtOnce::Not
    };
    net.values.set(emptied(values));
    taken
}

fn take_execute<'v>(
    net: &Net,
    frame: &Frame<'v>,
    now_us: TimestampMicros,
    values: &mut PointValues<'v>,
    encoder: &mut FrameEncoder,
    out: &mut Vec<u8>,
) -> AtOnce {
    let Ok(execute) = Execute::decode_each(frame.version, frame.body, |value| values.push(value)) else {
        return AtOnce::Not;
    };
    let Ok(statement) = net.statements.get(execute.id) else { return AtOnce::Not };
    if execute.parameters.values.is_named() || values.len() != statement.prepared.variables.len() {
        return AtOnce::Not;
    }
    if let Some((point, table)) = statement.prepared.point_select() {
        let now_s = execute.parameters.now_in_seconds.map_or(now_us.div_euclid(1_000_000), i64::from);
        let is_read = read(net, frame, (&statement, point, table), (&execute, values, now_s), encoder, out);
        return if is_read { AtOnce::Answered } else { AtOnce::Not };
    }
    let mut statement = Some(statement);
    let written = write(net, values, |_| Some(statement.take()), (&execute.parameters, now_us));
    written.map_or(AtOnce::Not, AtOnce::Written)
}

/// Answers a read, or does nothing: whether it did.
fn read(
    net: &Net,
    frame: &Frame<'_>,
    (statement, point, table): (&Statement, &PointSelect, &Table),
    (execute, values, now_s): (&Execute<'_>, &[Value<'_>], i64),
    encoder: &mut FrameEncoder,
    out: &mut Vec<u8>,
) -> bool {
    let QueryParameters { consistency, skip_metadata, paging_state, page_size, .. } = execute.parameters;
    let Scratch { first: key, .. } = &mut *net.scratch.borrow_mut();
    // A page of one row is full with it, and says where the next begins. Where clients leave much unread, the long way
    // counts what is given to them.
    let is_plain = consistency != Consistency::Any && paging_state.is_none() && page_size != Some(1);
    let is_plain = is_plain && net.answers.has_ample_room() && point.locate(values, key);
    if !is_plain || !net.router.is_here(table, key.token, consistency) {
        return false;
    }
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

/// Logs and applies writes of rows of one partition, as one mutation in one pass; `None` where nothing was done. `next`
/// gives their statements and puts their values into place; `None` for one that is not of this kind.
fn write<'v>(
    net: &Net,
    values: &mut PointValues<'v>,
    mut next: impl FnMut(&mut PointValues<'v>) -> Option<Option<Rc<Statement>>>,
    under: (&QueryParameters<'_>, TimestampMicros),
) -> Option<Option<LogPosition>> {
    let Scratch { first, row, mutation } = &mut *net.scratch.borrow_mut();
    mutation.clear();
    let mut begun: Option<(Rc<Table>, MutationBuilder<'_>)> = None;
    while let Some(statement) = next(values)? {
        let (point, table) = statement.prepared.point_write()?;
        if values.len() != statement.prepared.variables.len() || !point.locate(values, row) {
            return None;
        }
        let is_first = begun.is_none();
        if is_first {
            std::mem::swap(first, row);
            begun = Some((table.clone(), MutationBuilder::begin(mutation, table.id, table.version, &first.key)));
        }
        let (first_table, builder) = begun.as_mut()?;
        let is_here = is_first || (Rc::ptr_eq(first_table, table) && row.key == first.key);
        let at = if is_first { &*first } else { &*row };
        if !is_here || !point.put_row(values, at, builder) {
            return None;
        }
    }
    let (table, _) = begun?;
    apply(net, &table, first, mutation, under)
}

fn write_batch<'v>(
    net: &Net,
    batch: &Batch<'v>,
    now_us: TimestampMicros,
    values: &mut PointValues<'v>,
) -> Option<Option<LogPosition>> {
    if batch.kind == BatchKind::Counter {
        return None;
    }
    let mut parts = batch.statements();
    let next = |values: &mut PointValues<'v>| {
        values.clear();
        match parts.next_each(|value| values.push(value)).map(|part| part.statement) {
            None => Some(None),
            Some(StatementRef::Prepared(id)) => net.statements.get(id).ok().map(Some),
            Some(StatementRef::Text(_)) => None,
        }
    };
    write(net, values, next, (&batch.parameters, now_us))
}

fn apply(
    net: &Net,
    table: &Table,
    key: &PointKey,
    mutation: &mut [u8],
    (parameters, now_us): (&QueryParameters<'_>, TimestampMicros),
) -> Option<Option<LogPosition>> {
    let is_plain = !parameters.consistency.is_serial() && parameters.timestamp.is_none_or(|given| given > i64::MIN);
    if !is_plain || !net.router.is_here(table, key.token, parameters.consistency) {
        return None;
    }
    let applied = net.router.shard().apply_at_once(mutation, key.token, parameters.timestamp, now_us)?;
    Some(applied.logged)
}
