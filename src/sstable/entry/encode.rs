//! Writing entries.

use super::{
    CELL_DELETED, CELL_EXPIRES, CELL_PATH, CELL_TIMESTAMP, CELL_VALUE, CHANGE_AFTER, CHANGE_BEFORE,
    CHANGE_WEIGHT_SHIFT, HEAD_CONTINUED, HEAD_DELETION, HEAD_OPEN, HEAD_STATIC, KIND_CHANGE, KIND_HEAD, KIND_ROW,
    ROW_COMPLEX, ROW_DELETION, ROW_EXPIRES, ROW_LIVENESS,
};
use crate::base::ids::{TimestampMicros, Token};
use crate::base::vint::{write_i64, write_u64};
use crate::mutation::{Cell, DeletionTime, NEVER_S, Row};
use crate::schema::Position;

/// What a block's timestamps are counted from: the first one that is written in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct BaseTimestamp(Option<TimestampMicros>);

impl BaseTimestamp {
    pub fn get(self) -> TimestampMicros {
        self.0.unwrap_or(0)
    }

    fn write(&mut self, out: &mut Vec<u8>, timestamp: TimestampMicros) {
        let base = *self.0.get_or_insert(timestamp);
        write_i64(out, timestamp.wrapping_sub(base));
    }

    fn write_deletion(&mut self, out: &mut Vec<u8>, deletion: DeletionTime) {
        self.write(out, deletion.timestamp);
        write_i64(out, deletion.local_deletion_s);
    }
}

/// A partition's head. `continued` is the range deletion open at the start of a block that begins within a partition;
/// such a head has no static row.
pub fn write_head(
    out: &mut Vec<u8>,
    base: &mut BaseTimestamp,
    (token, key): (Token, &[u8]),
    deletion: DeletionTime,
    static_row: Option<&Row<'_>>,
    continued: Option<DeletionTime>,
) {
    let open = continued.filter(|open| !open.is_live());
    let static_row = static_row.filter(|row| !row.is_empty());
    let mut flags = KIND_HEAD;
    flags |= if deletion.is_live() { 0 } else { HEAD_DELETION };
    flags |= if continued.is_some() { HEAD_CONTINUED } else { 0 };
    flags |= if static_row.is_some() { HEAD_STATIC } else { 0 };
    flags |= if open.is_some() { HEAD_OPEN } else { 0 };
    out.push(flags);
    out.extend_from_slice(&token.0.to_le_bytes());
    write_bytes(out, key);
    if !deletion.is_live() {
        base.write_deletion(out, deletion);
    }
    if let Some(open) = open {
        base.write_deletion(out, open);
    }
    if let Some(row) = static_row {
        write_row(out, base, row);
    }
}

pub fn write_row(out: &mut Vec<u8>, base: &mut BaseTimestamp, row: &Row<'_>) {
    let mut flags = KIND_ROW;
    flags |= if row.liveness.is_none() { 0 } else { ROW_LIVENESS };
    let expires = row.liveness.ttl_s != 0 || row.liveness.expires_s != NEVER_S;
    flags |= if !row.liveness.is_none() && expires { ROW_EXPIRES } else { 0 };
    flags |= if row.deletion.is_live() { 0 } else { ROW_DELETION };
    flags |= if row.complex.is_empty() { 0 } else { ROW_COMPLEX };
    out.push(flags);
    write_bytes(out, row.clustering);
    let mut previous = None;
    if flags & ROW_LIVENESS != 0 {
        base.write(out, row.liveness.timestamp);
        previous = Some(row.liveness.timestamp);
    }
    if flags & ROW_EXPIRES != 0 {
        write_u64(out, u64::from(row.liveness.ttl_s));
        write_i64(out, row.liveness.expires_s);
    }
    if flags & ROW_DELETION != 0 {
        base.write_deletion(out, row.deletion);
    }
    if flags & ROW_COMPLEX != 0 {
        write_u64(out, row.complex.len() as u64);
        for (column, deletion) in &row.complex {
            write_u64(out, u64::from(column.0));
            base.write_deletion(out, *deletion);
        }
    }
    write_u64(out, row.cells.len() as u64);
    for cell in &row.cells {
        write_cell(out, base, cell, &mut previous);
    }
}

fn write_cell(
    out: &mut Vec<u8>,
    base: &mut BaseTimestamp,
    cell: &Cell<'_>,
    previous_timestamp: &mut Option<TimestampMicros>,
) {
    let mut flags = 0;
    flags |= if cell.path.is_some() { CELL_PATH } else { 0 };
    flags |= if *previous_timestamp == Some(cell.timestamp) { 0 } else { CELL_TIMESTAMP };
    flags |= if cell.local_deletion_s == NEVER_S { 0 } else { CELL_DELETED };
    flags |= if cell.ttl_s == 0 { 0 } else { CELL_EXPIRES };
    flags |= if cell.value.is_empty() { 0 } else { CELL_VALUE };
    out.push(flags);
    write_u64(out, u64::from(cell.column.0));
    if let Some(path) = cell.path {
        write_bytes(out, path);
    }
    if flags & CELL_TIMESTAMP != 0 {
        base.write(out, cell.timestamp);
        *previous_timestamp = Some(cell.timestamp);
    }
    if flags & CELL_DELETED != 0 {
        write_i64(out, cell.local_deletion_s);
    }
    if flags & CELL_EXPIRES != 0 {
        write_u64(out, u64::from(cell.ttl_s));
    }
    if flags & CELL_VALUE != 0 {
        write_bytes(out, cell.value);
    }
}

/// A change of the range deletion at `position`, with the one that holds before it and the one that holds after, so
/// that a walk in either direction needs no other entry.
pub fn write_change(
    out: &mut Vec<u8>,
    base: &mut BaseTimestamp,
    position: Position<'_>,
    before: DeletionTime,
    after: DeletionTime,
) {
    let weight = match position.weight {
        ..0 => 0,
        0 => 1,
        1.. => 2,
    };
    let mut flags = KIND_CHANGE | (weight << CHANGE_WEIGHT_SHIFT);
    flags |= if before.is_live() { 0 } else { CHANGE_BEFORE };
    flags |= if after.is_live() { 0 } else { CHANGE_AFTER };
    out.push(flags);
    write_bytes(out, position.prefix);
    for deletion in [before, after].into_iter().filter(|deletion| !deletion.is_live()) {
        base.write_deletion(out, deletion);
    }
}

fn write_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    write_u64(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
