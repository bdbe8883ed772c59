//! What a partition must hold: its rows as a stock reader sees them, and how each change alters them.

use std::collections::BTreeMap;

/// A row. Without a marker (an UPDATE leaves none) it is there as long as one of its cells is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    pub marker: bool,
    pub v: Option<i32>,
    pub w: Option<String>,
    /// The value, and which life of the column `x` it was written in.
    pub x: Option<(u32, i32)>,
}

/// A partition: its static column and its rows by clustering key.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Partition {
    pub s: Option<i32>,
    pub rows: BTreeMap<i32, Row>,
}

/// The cells that an INSERT or UPDATE writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cells {
    pub v: Option<i32>,
    pub w: Option<String>,
    pub x: Option<i32>,
    /// They carry a TTL, of days: nothing expires while a campaign runs.
    pub expiring: bool,
}

/// A column whose cell is deleted by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Column {
    V,
    W,
}

/// One statement's effect on one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    Insert {
        ck: i32,
        cells: Cells,
    },
    Update {
        ck: i32,
        cells: Cells,
    },
    SetStatic(i32),
    /// Adds to the counter `v`.
    Count {
        ck: i32,
        delta: i32,
    },
    DeleteCell {
        ck: i32,
        column: Column,
    },
    DeleteRow {
        ck: i32,
    },
    /// `from` included, `to` excluded.
    DeleteRange {
        from: i32,
        to: i32,
    },
    DeletePartition,
}

/// A row as a SELECT shows it. `ck` is none where a partition has nothing but its static column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub ck: Option<i32>,
    pub s: Option<i32>,
    pub v: Option<i32>,
    pub w: Option<String>,
    pub x: Option<i32>,
}

impl Partition {
    /// The partition after `change`, made in life `x_life` of the column `x`.
    pub fn apply(&mut self, change: &Change, x_life: u32) {
        match change {
            Change::Insert { ck, cells } => {
                let row = self.rows.entry(*ck).or_default();
                row.marker = true;
                row.write(cells, x_life);
            }
            Change::Update { ck, cells } => self.rows.entry(*ck).or_default().write(cells, x_life),
            Change::SetStatic(s) => self.s = Some(*s),
            Change::Count { ck, delta } => {
                let row = self.rows.entry(*ck).or_default();
                row.v = Some(row.v.unwrap_or(0) + delta);
            }
            Change::DeleteCell { ck, column } => {
                if let Some(row) = self.rows.get_mut(ck) {
                    match column {
                        Column::V => row.v = None,
                        Column::W => row.w = None,
                    }
                }
            }
            Change::DeleteRow { ck } => {
                self.rows.remove(ck);
            }
            Change::DeleteRange { from, to } => self.rows.retain(|ck, _| ck < from || ck >= to),
            Change::DeletePartition => *self = Partition::default(),
        }
    }

    /// What a SELECT of the partition shows in clustering order, while the column `x` is in life `x_life`, or gone.
    pub fn seen(&self, x_life: Option<u32>, descending: bool) -> Vec<Seen> {
        let show = |(ck, row): (&i32, &Row)| row.seen(*ck, self.s, x_life);
        let mut seen: Vec<Seen> = if descending {
            self.rows.iter().rev().filter_map(show).collect()
        } else {
            self.rows.iter().filter_map(show).collect()
        };
        if seen.is_empty() && self.s.is_some() {
            seen.push(Seen { ck: None, s: self.s, v: None, w: None, x: None });
        }
        seen
    }
}

impl Row {
    fn write(&mut self, cells: &Cells, x_life: u32) {
        if cells.v.is_some() {
            self.v = cells.v;
        }
        if cells.w.is_some() {
            self.w.clone_from(&cells.w);
        }
        if let Some(x) = cells.x {
            self.x = Some((x_life, x));
        }
    }

    fn seen(&self, ck: i32, s: Option<i32>, x_life: Option<u32>) -> Option<Seen> {
        let x = self.x.and_then(|(life, x)| (Some(life) == x_life).then_some(x));
        let there = self.marker || self.v.is_some() || self.w.is_some() || x.is_some();
        there.then(|| Seen { ck: Some(ck), s, v: self.v, w: self.w.clone(), x })
    }
}

/// How an answer differs from what was right, row by row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// Rows, or cells of a row, that should be there.
    pub lost: Vec<String>,
    /// Rows, or cells of a row, that should not.
    pub back: Vec<String>,
    /// Rows with another value, or in another order.
    pub wrong: Vec<String>,
}

impl Difference {
    /// Compares an answer with what is right.
    pub fn of(want: &[Seen], got: &[Seen]) -> Difference {
        let mut difference = Difference::default();
        let key = |row: &Seen| row.ck;
        for row in want {
            match got.iter().find(|other| key(other) == key(row)) {
                None => difference.lost.push(show(row)),
                Some(other) => difference.compare(row, other),
            }
        }
        for row in got {
            if !want.iter().any(|other| key(other) == key(row)) {
                difference.back.push(show(row));
            }
        }
        if difference.is_none() && want != got {
            let order = |rows: &[Seen]| rows.iter().map(|row| row.ck).collect::<Vec<_>>();
            difference.wrong.push(format!("order {:?} for {:?}", order(got), order(want)));
        }
        difference
    }

    fn compare(&mut self, want: &Seen, got: &Seen) {
        if want == got {
            return;
        }
        let shown = format!("{} for {}", show(got), show(want));
        let cells = |row: &Seen| [row.s.is_some(), row.v.is_some(), row.w.is_some(), row.x.is_some()];
        let pairs = cells(want).into_iter().zip(cells(got));
        if pairs.clone().any(|(want, got)| want && !got) {
            self.lost.push(shown);
        } else if pairs.clone().any(|(want, got)| got && !want) {
            self.back.push(shown);
        } else {
            self.wrong.push(shown);
        }
    }

    pub fn is_none(&self) -> bool {
        self.count() == 0
    }

    /// Rows that differ.
    pub fn count(&self) -> usize {
        self.lost.len() + self.back.len() + self.wrong.len()
    }
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let kinds = [("lost", &self.lost), ("back", &self.back), ("wrong", &self.wrong)];
        let mut first = true;
        for (kind, rows) in kinds.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            let shown = rows.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
            write!(f, "{}{} {kind} ({shown})", if first { "" } else { ", " }, rows.len())?;
            first = false;
        }
        Ok(())
    }
}

/// A row in few words; long texts by their start and length.
fn show(row: &Seen) -> String {
    let text = row.w.as_ref().map(|w| {
        let start: String = w.chars().take(12).collect();
        format!("{start}…{}", w.len())
    });
    format!("ck {:?} s {:?} v {:?} w {text:?} x {:?}", row.ck, row.s, row.v, row.x)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells(v: i32) -> Cells {
        Cells { v: Some(v), ..Cells::default() }
    }

    fn after(changes: &[Change]) -> Partition {
        let mut partition = Partition::default();
        changes.iter().for_each(|change| partition.apply(change, 1));
        partition
    }

    fn keys(partition: &Partition) -> Vec<Option<i32>> {
        partition.seen(Some(1), false).iter().map(|row| row.ck).collect()
    }

    #[test]
    fn an_updated_row_goes_with_its_last_cell_and_an_inserted_one_stays() {
        let delete = |ck| Change::DeleteCell { ck, column: Column::V };
        let partition = after(&[
            Change::Insert { ck: 1, cells: cells(10) },
            Change::Update { ck: 2, cells: cells(20) },
            delete(1),
            delete(2),
        ]);
        assert_eq!(keys(&partition), [Some(1)]);
    }

    #[test]
    fn ranges_exclude_their_end_and_partitions_take_the_static_along() {
        let insert = |ck| Change::Insert { ck, cells: cells(ck) };
        let mut partition = after(&[insert(1), insert(2), insert(3), Change::SetStatic(7)]);
        partition.apply(&Change::DeleteRange { from: 1, to: 3 }, 1);
        assert_eq!(keys(&partition), [Some(3)]);
        partition.apply(&Change::DeletePartition, 1);
        assert_eq!(partition, Partition::default());
    }

    #[test]
    fn a_static_alone_shows_as_one_row_without_a_clustering_key() {
        let partition = after(&[Change::SetStatic(7)]);
        assert_eq!(partition.seen(None, true), [Seen { ck: None, s: Some(7), v: None, w: None, x: None }]);
    }

    #[test]
    fn cells_of_an_earlier_life_of_a_column_are_gone() {
        let only_x = Cells { x: Some(5), ..Cells::default() };
        let partition = after(&[Change::Update { ck: 1, cells: only_x }]);
        assert_eq!(partition.seen(Some(1), false).len(), 1);
        assert!(partition.seen(None, false).is_empty());
        assert!(partition.seen(Some(2), false).is_empty());
    }

    #[test]
    fn descending_is_ascending_reversed() {
        let insert = |ck| Change::Insert { ck, cells: cells(ck) };
        let partition = after(&[insert(1), insert(2), insert(3)]);
        let mut reversed = partition.seen(None, true);
        reversed.reverse();
        assert_eq!(reversed, partition.seen(None, false));
    }

    #[test]
    fn differences_are_told_by_kind() {
        let row = |ck, v| Seen { ck: Some(ck), s: None, v, w: None, x: None };
        let want = [row(1, Some(1)), row(2, Some(2)), row(3, None), row(4, Some(4))];
        let got = [row(2, Some(9)), row(3, Some(3)), row(4, None), row(5, Some(5))];
        let difference = Difference::of(&want, &got);
        let counts = (difference.lost.len(), difference.back.len(), difference.wrong.len());
        assert_eq!(counts, (2, 2, 1), "{difference}");
        assert!(Difference::of(&want, &want).is_none());
        let swapped = [row(2, Some(2)), row(1, Some(1))];
        assert_eq!(Difference::of(&want[..2], &swapped).wrong.len(), 1);
    }
}
