//! A memtable's partition or map that grows: what one more costs, and what it takes.

use std::rc::Rc;

use helenus::base::ids::ColumnId;
use helenus::memtable::{Memtable, SlabPool};
use helenus::mutation::{MutationBuilder, MutationView, Stamp, set_timestamp};
use helenus::schema::Table;

use super::rows::{POSITION, clustered_table, clustering, flat_table};
use crate::calibration::median;
use crate::counters::Counters;

/// What one more element or row costs, and the memory of each.
pub struct Grown {
    pub apply_ns: f64,
    pub allocations: f64,
    pub live_bytes: f64,
    /// Whole slabs, as a share of one.
    pub taken_bytes: f64,
}

/// Additions that are measured, so few beside a large partition that it keeps its size; a small one is made anew, in
/// rounds.
const ADDED: u64 = 1_000;
const ADDED_SMALL: u64 = 10;
const ROUNDS: usize = 31;

/// Texts of 10 characters under texts of 10.
pub fn grow_map(count: u64) -> Grown {
    let write = |table: &Table, number: u64| {
        let mut bytes = Vec::new();
        let path = format!("{number:010}");
        let mut builder = MutationBuilder::begin(&mut bytes, table.id, table.version, b"key");
        builder.row(&[]).cell(ColumnId(1), Some(path.as_bytes()), Stamp::Base(0), None, b"0123456789");
        set_timestamp(&mut bytes, 1 + number as i64);
        bytes
    };
    grow(&flat_table(1), count, write)
}

/// Rows of one text of 10 characters, under one of 10.
pub fn grow_partition(count: u64) -> Grown {
    let write = |table: &Table, number: u64| {
        let mut bytes = Vec::new();
        let mut builder = MutationBuilder::begin(&mut bytes, table.id, table.version, b"key");
        builder.row(&clustering(number)).liveness(Stamp::Base(0), None);
        builder.cell(ColumnId(1), None, Stamp::Base(0), None, b"0123456789");
        set_timestamp(&mut bytes, 1 + number as i64);
        bytes
    };
    grow(&clustered_table(1), count, write)
}

fn grow(table: &Rc<Table>, count: u64, write: impl Fn(&Table, u64) -> Vec<u8>) -> Grown {
    let pool = SlabPool::new();
    let apply = |memtable: &mut Memtable, bytes: &[u8]| {
        memtable.apply(&MutationView::parse(bytes).expect("it was encoded here"), POSITION);
    };
    let (added, rounds) = if count < 1_000 { (ADDED_SMALL, ROUNDS) } else { (ADDED, 5) };
    // In no order, even numbers first, so that those which are added come in between.
    let present: Vec<Vec<u8>> = (0..count).map(|at| write(table, at * 7_919 % count * 2)).collect();
    let more: Vec<Vec<u8>> = (0..added).map(|at| write(table, at * 7_919 % count * 2 + 1)).collect();
    let (mut costs, mut live_bytes, mut taken_bytes) = (Vec::new(), 0, 0);
    for _ in 0..rounds {
        let mut memtable = Memtable::new(table.clone(), pool.clone());
        present.iter().for_each(|bytes| apply(&mut memtable, bytes));
        (live_bytes, taken_bytes) = (memtable.bytes_live(), memtable.bytes_allocated());
        let before = Counters::now();
        more.iter().for_each(|bytes| apply(&mut memtable, bytes));
        costs.push(Counters::now().since(before));
    }
    Grown {
        apply_ns: median(costs.iter().map(|cost| cost.cpu_ns as f64)) / added as f64,
        allocations: median(costs.iter().map(|cost| cost.allocations as f64)) / added as f64,
        live_bytes: live_bytes as f64 / count as f64,
        taken_bytes: taken_bytes as f64 / count as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_element_takes_memory_and_allocates_nothing() {
        let grown = grow_map(100);
        assert!(grown.live_bytes > 20.0 && grown.allocations == 0.0, "{} B", grown.live_bytes);
    }
}
