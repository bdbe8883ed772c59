//! What is answered at once: an EXECUTE that reads one row by its whole key, on the shard that owns it, where all of it is
//! in memory. Its bytes go from the receive buffer to the key, and from the row into the send buffer; nothing is kept and
//! nothing allocated. Everything else, errors too, goes the way of `Call::run`.

use smallvec::SmallVec;

use crate::mutation::point::{PointKey, PointRow};
use crate::net::Net;
use crate::plan::select::PointSelect;
use crate::protocol::frame::{Frame, flag};
use crate::protocol::result::{MetadataMode, RowsWriter};
use crate::protocol::{Consistency, Execute, FrameEncoder, Opcode, QueryParameters, Request, Value};

/// An answer with more bytes of values than this is counted before it is there, which is done elsewhere.
const POINT_ANSWER_BYTES_MAX: usize = 64 << 10;

/// Answers the request, or does nothing: whether it did.
pub fn answer(net: &Net, frame: &Frame<'_>, encoder: &mut FrameEncoder, out: &mut Vec<u8>) -> bool {
    if frame.opcode != Opcode::Execute || frame.flags & flag::CUSTOM_PAYLOAD != 0 || frame.wants_tracing() {
        return false;
    }
    let Ok(Request::Execute(execute)) = Request::decode(frame.version, frame.opcode, frame.body, false) else {
        return false;
    };
    let Ok(statement) = net.statements.get(execute.id) else { return false };
    let Some((point, table)) = statement.prepared.point() else { return false };
    let mut key = net.point_key.borrow_mut();
    if !is_plain(&execute) || !locate(point, &execute, statement.prepared.variables.len(), &mut key) {
        return false;
    }
    let QueryParameters { consistency, skip_metadata, now_in_seconds, .. } = execute.parameters;
    let now_s = now_in_seconds.map_or_else(|| net.io.wall_us().div_euclid(1_000_000), i64::from);
    let answer = encoder.begin(out, frame.stream, Opcode::Result);
    let mode = MetadataMode::of(&statement.columns, execute.result_metadata_id, skip_metadata);
    let mut rows = RowsWriter::begin(frame.version, &statement.columns, mode, out);
    let put = |row: Option<&PointRow<'_>>| match row {
        Some(row) if row.len_bytes() > POINT_ANSWER_BYTES_MAX => false,
        Some(row) => {
            point.put_row(&key.key, row, out);
            rows.row();
            true
        }
        None => true,
    };
    if net.router.read_point(table, consistency, &key, now_s, put) != Some(true) {
        encoder.abandon(out, answer);
        return false;
    }
    rows.finish(None, out);
    encoder.finish(out, answer);
    true
}

/// Nothing in it asks for more than the row.
fn is_plain(execute: &Execute<'_>) -> bool {
    let parameters = &execute.parameters;
    parameters.consistency != Consistency::Any && parameters.paging_state.is_none() && !parameters.values.is_named()
}

fn locate(point: &PointSelect, execute: &Execute<'_>, variables: usize, key: &mut PointKey) -> bool {
    let values: SmallVec<[Value<'_>; 8]> = execute.parameters.values.iter().map(|(_, value)| value).collect();
    values.len() == variables && point.locate(&values, key)
}
