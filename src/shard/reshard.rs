//! Opening under another shard count. Every new shard gets a manifest that names all files in which it owns anything,
//! each under a hard link of its own and limited to the tokens it owns; compaction separates them later. The old logs
//! stay for replay. The root's switch is the moment of the change: a crash before it leaves the old layout whole, one
//! after it the new.

use std::path::{Path, PathBuf};

use crate::base::ids::{ShardId, TableId, Token};
use crate::base::plants::Planted;
use crate::io::Io;
use crate::schema::partitioner::Sharding;
use crate::shard::ShardError;
use crate::shard::manifest::{LiveSstable, Manifest, TableManifest, TokenSpan};
use crate::shard::root::{Root, RootError};

/// Writes the next layout's manifests and links, then switches `root` to it.
pub async fn reshard(
    io: &Io,
    data_dir: &Path,
    sstables_dir: &Path,
    root: &Root,
    shards: u16,
    is_system_table: impl Fn(TableId) -> bool,
    planted: Planted,
) -> Result<Root, ShardError> {
    let mut old = Vec::new();
    for shard in 0..root.shards {
        old.push(Manifest::load(io, data_dir, root.layout, ShardId(shard)).await?);
    }
    let mut next = root.with_shards(shards);
    let sharding = Sharding::new(shards);
    for shard in (0..shards).map(ShardId) {
        let (mut manifest, links) = successor(&old, next.layout, shard, sharding, &is_system_table);
        for (from, to) in links {
            let (from, to) = (sstables_dir.join(from), sstables_dir.join(to));
            // A link left by a start that did not get to the switch.
            if io.exists(&to).await? {
                io.remove_file(&to).await?;
            }
            io.hard_link(&from, &to).await?;
        }
        io.sync_dir(sstables_dir).await?;
        manifest.store(io, data_dir, planted).await?;
    }
    next.store(io, data_dir, planted).await.map_err(root_error)?;
    Ok(next)
}

/// A new shard's manifest, and the links (from, to) it needs.
fn successor(
    old: &[Manifest],
    layout: u64,
    shard: ShardId,
    sharding: Sharding,
    is_system_table: impl Fn(TableId) -> bool,
) -> (Manifest, Vec<(String, String)>) {
    let owned: Vec<TokenSpan> =
        sharding.spans_of(shard).into_iter().map(|(first, last)| TokenSpan { first, last }).collect();
    let mut manifest = Manifest::new(layout, shard);
    let mut links = Vec::new();
    for before in old {
        manifest.timestamp_high_water = manifest.timestamp_high_water.max(before.timestamp_high_water);
        manifest.log_ends.extend(before.log_ends.iter().map(|(stream, end)| (*stream, *end)));
        for (table, entry) in &before.tables {
            let system = is_system_table(*table);
            let mut taken = TableManifest { sstables: Vec::new(), ..entry.clone() };
            for file in &entry.sstables {
                let spans = match (system, shard) {
                    (true, ShardId(0)) => file.spans.clone(),
                    (true, _) => Vec::new(),
                    (false, _) => intersect(&file.spans, &owned),
                };
                if spans.is_empty() {
                    continue;
                }
                let id = manifest.next_sstable;
                manifest.next_sstable = id.next();
                let name = format!("sst-{layout}-{}-{}.db", shard.0, id.0);
                links.push((file.file.clone(), name.clone()));
                taken.sstables.push(LiveSstable { id, file: name, spans, level: 0 });
            }
            merge_table(manifest.tables.entry(*table).or_default(), taken);
        }
    }
    (manifest, links)
}

fn merge_table(into: &mut TableManifest, from: TableManifest) {
    into.sstables.extend(from.sstables);
    for (stream, set) in &from.flushed {
        into.flushed.entry(*stream).or_default().merge(set);
    }
    for (stream, before) in &from.discarded_before {
        into.discard(*stream, *before);
    }
    into.truncated_at = into.truncated_at.max(from.truncated_at);
}

/// What both lists of ascending, disjoint spans hold.
fn intersect(a: &[TokenSpan], b: &[TokenSpan]) -> Vec<TokenSpan> {
    let (mut at, mut bt) = (0, 0);
    let mut both = Vec::new();
    while let (Some(x), Some(y)) = (a.get(at), b.get(bt)) {
        let span = TokenSpan { first: x.first.max(y.first), last: x.last.min(y.last) };
        if span.first <= span.last {
            match both.last_mut() {
                Some(TokenSpan { last: Token(end), .. }) if *end != i64::MAX && *end + 1 == span.first.0 => {
                    *end = span.last.0;
                }
                _ => both.push(span),
            }
        }
        if x.last <= y.last { at += 1 } else { bt += 1 }
    }
    both
}

/// Removes files of SSTables that no current manifest names, and manifests of other layouts: what a crash left behind.
/// Gives what was removed.
pub async fn remove_orphans(
    io: &Io,
    data_dir: &Path,
    sstables_dir: &Path,
    root: &Root,
) -> Result<Vec<PathBuf>, ShardError> {
    let mut live = Vec::new();
    for shard in 0..root.shards {
        let manifest = Manifest::load(io, data_dir, root.layout, ShardId(shard)).await?;
        live.extend(manifest.tables.into_values().flat_map(|entry| entry.sstables).map(|file| file.file));
    }
    live.sort_unstable();
    let mut removed = Vec::new();
    for entry in io.list_dir(sstables_dir).await? {
        let ours = entry.name.starts_with("sst-") && entry.name.ends_with(".db");
        if ours && live.binary_search(&entry.name).is_err() {
            removed.push(sstables_dir.join(&entry.name));
        }
    }
    for entry in io.list_dir(data_dir).await? {
        let layout = crate::shard::manifest::parse_manifest_file_name(&entry.name).map(|(layout, _)| layout);
        if layout.is_some_and(|layout| layout != root.layout) {
            removed.push(data_dir.join(&entry.name));
        }
    }
    for path in &removed {
        io.remove_file(path).await?;
    }
    Ok(removed)
}

fn root_error(error: RootError) -> ShardError {
    ShardError::Refused(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sstable::SSTableId;

    fn span(first: i64, last: i64) -> TokenSpan {
        TokenSpan { first: Token(first), last: Token(last) }
    }

    #[test]
    fn what_two_lists_share() {
        let check = |a: &[TokenSpan], b: &[TokenSpan], expected: &[TokenSpan]| {
            assert_eq!(intersect(a, b), expected);
            assert_eq!(intersect(b, a), expected);
        };
        check(&[span(0, 10)], &[span(5, 20)], &[span(5, 10)]);
        check(&[span(0, 10), span(20, 30)], &[span(5, 25)], &[span(5, 10), span(20, 25)]);
        check(&[span(0, 1)], &[span(2, 3)], &[]);
        check(&[TokenSpan::ALL], &[span(0, 4), span(5, 9)], &[span(0, 9)]);
        check(&[TokenSpan::ALL], &[TokenSpan::ALL], &[TokenSpan::ALL]);
    }

    fn file(id: u64, spans: Vec<TokenSpan>) -> LiveSstable {
        LiveSstable { id: SSTableId(id), file: format!("sst-1-0-{id}.db"), spans, level: 0 }
    }

    #[test]
    fn from_one_shard_to_two_and_back_covers_every_token_once() {
        let table = TableId([3; 16]);
        let mut one = Manifest::new(1, ShardId(0));
        one.tables.entry(table).or_default().sstables.push(file(1, vec![TokenSpan::ALL]));
        let two: Vec<Manifest> =
            (0..2).map(|shard| successor(&[one.clone()], 2, ShardId(shard), Sharding::new(2), |_| false).0).collect();
        for token in [i64::MIN, -1, 0, 1 << 55, 1 << 54, i64::MAX] {
            let holders = two.iter().filter(|manifest| {
                manifest.tables[&table]
                    .sstables
                    .iter()
                    .any(|file| file.spans.iter().any(|span| span.contains(Token(token))))
            });
            assert_eq!(holders.count(), 1, "{token}");
        }
        let (back, links) = successor(&two, 3, ShardId(0), Sharding::new(1), |_| false);
        assert_eq!(links.len(), 2);
        let spans: Vec<_> = back.tables[&table].sstables.iter().flat_map(|file| file.spans.clone()).collect();
        for token in [i64::MIN, -1, 0, i64::MAX] {
            assert_eq!(spans.iter().filter(|span| span.contains(Token(token))).count(), 1, "{token}");
        }
    }

    #[test]
    fn system_tables_go_whole_to_shard_0() {
        let table = TableId([4; 16]);
        let mut one = Manifest::new(1, ShardId(0));
        one.tables.entry(table).or_default().sstables.push(file(1, vec![TokenSpan::ALL]));
        let next = |shard| successor(&[one.clone()], 2, ShardId(shard), Sharding::new(2), |_| true).0;
        assert_eq!(next(0).tables[&table].sstables[0].spans, [TokenSpan::ALL]);
        assert!(next(1).tables[&table].sstables.is_empty());
    }
}
