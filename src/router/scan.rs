//! A range over all shards: each gives its own page, and the rows are merged by token and key. What is left of a
//! shard's page is read again by the next one, so a page's resume is a place in the ring, under any shard count.

use std::rc::Rc;

use futures_util::future::join_all;

use crate::base::ids::Token;
use crate::mutation::page::{PageItem, PageView, PageWriter};
use crate::mutation::read::{Limits, PartitionKey, ReadCommand, ReadPage, Resume};
use crate::mutation::{ReadStop, Row};
use crate::protocol::CqlError;
use crate::router::Router;
use crate::router::read::Given;

/// One partition of one shard's page.
struct Part<'a> {
    token: Token,
    key: &'a [u8],
    static_row: Option<Row<'a>>,
    rows: Vec<Row<'a>>,
}

impl Router {
    /// One page of all shards. `None`: the parts of some are larger than their `sizes`, which are now what those have.
    pub(super) async fn scan_all(
        self: &Rc<Self>,
        command: &ReadCommand,
        part_bytes: usize,
        sizes: &mut [usize],
        deadline_ns: u64,
    ) -> Result<Option<ReadPage>, CqlError> {
        let mut part = command.clone();
        part.limits.page_bytes = part.limits.page_bytes.min(part_bytes);
        let asked =
            self.shards().zip(sizes.iter()).map(|(shard, size)| self.read_at_most(shard, &part, *size, deadline_ns));
        let given = join_all(asked).await.into_iter().collect::<Result<Vec<_>, _>>()?;
        let mut pages = Vec::with_capacity(given.len());
        for (given, size) in given.into_iter().zip(sizes) {
            match given {
                Given::Page(page) => pages.push(page),
                Given::TooLarge { bytes } => *size = bytes,
            }
        }
        if pages.len() < usize::from(self.sharding.shards) {
            return Ok(None);
        }
        let wanted = Wanted { limits: command.limits, distinct: command.distinct, resume: command.resume.as_ref() };
        merge_pages(&pages, &wanted, |token, key| (token, key)).map(Some)
    }
}

/// What a read asks of a page, whichever its partitions.
pub(super) struct Wanted<'c> {
    pub limits: Limits,
    pub distinct: bool,
    pub resume: Option<&'c Resume>,
}

/// Merges pages of disjoint partitions, each in the order of `place`, into one within the limits.
pub(super) fn merge_pages<'p, P: Ord>(
    pages: &'p [ReadPage],
    wanted: &Wanted<'_>,
    place: impl Fn(Token, &'p [u8]) -> P,
) -> Result<ReadPage, CqlError> {
    let mut parts = Vec::new();
    for page in pages {
        parse(page, &mut parts).map_err(|stop| CqlError::server_error(format!("a shard's page: {stop:?}")))?;
    }
    parts.sort_by_cached_key(|part| place(part.token, part.key));
    let place_of = |resume: &'p Resume| place(resume.partition.token, &resume.partition.key);
    // Beyond this place, a shard that has more might give the next partition.
    let first_stop = pages.iter().filter_map(|page| page.resume.as_ref()).min_by_key(|resume| place_of(resume));
    let horizon = first_stop.map(place_of);
    let mut merged = ReadPage::default();
    let mut out = PageWriter::new(&mut merged.bytes);
    for part in &parts {
        if horizon.as_ref().is_some_and(|horizon| place(part.token, part.key) > *horizon) {
            break;
        }
        let before = carried_rows(wanted.resume, part);
        let taken = write_part(part, wanted, merged.rows, before, &mut out);
        merged.rows += taken.rows;
        merged.resume = Some(taken.resume);
        if merged.rows >= wanted.limits.rows || out.len_bytes() >= wanted.limits.page_bytes {
            return Ok(merged);
        }
    }
    // All that came before the horizon is in: the next page goes on from the shard that stopped first.
    merged.resume = first_stop.cloned();
    Ok(merged)
}

/// Rows of this partition in earlier pages.
fn carried_rows(resume: Option<&Resume>, part: &Part<'_>) -> u64 {
    match resume {
        Some(resume)
            if resume.after.is_some() && resume.partition.token == part.token && resume.partition.key == part.key =>
        {
            resume.partition_rows
        }
        _ => 0,
    }
}

struct Taken {
    rows: u64,
    resume: Resume,
}

fn write_part(part: &Part<'_>, wanted: &Wanted<'_>, rows_before: u64, carried: u64, out: &mut PageWriter<'_>) -> Taken {
    let room = usize::try_from(wanted.limits.rows - rows_before).unwrap_or(usize::MAX);
    out.partition(part.token, part.key);
    if let Some(row) = &part.static_row {
        out.static_row(row, None);
    }
    let mut last = None;
    let mut rows = 0;
    for row in part.rows.iter().take(room) {
        out.row(row, None);
        rows += 1;
        last = Some(row.clustering.to_vec());
    }
    // A partition without rows is there for its static row, and is done.
    let after = if wanted.distinct { None } else { last };
    let partition = PartitionKey { token: part.token, key: part.key.to_vec() };
    let partition_rows = if after.is_some() { carried + rows } else { 0 };
    Taken { rows: rows.max(1), resume: Resume { partition, after, partition_rows } }
}

fn parse<'a>(page: &'a ReadPage, parts: &mut Vec<Part<'a>>) -> Result<(), ReadStop> {
    let mut view = PageView::new(&page.bytes);
    while let Some(item) = view.next_item().map_err(|error| ReadStop::Corrupt(error.to_string()))? {
        match (item, parts.last_mut()) {
            (PageItem::Partition { token, key }, _) => {
                parts.push(Part { token, key, static_row: None, rows: Vec::new() });
            }
            (PageItem::Static(row), Some(part)) => part.static_row = Some(row),
            (PageItem::Row(row), Some(part)) => part.rows.push(row),
            (_, None) => return Err(ReadStop::Corrupt("rows before a partition".into())),
        }
    }
    Ok(())
}
