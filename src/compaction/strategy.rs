//! Which files to compact: pure functions of the files' sizes.
//!
//! Size-tiered, as Cassandra documents it: files of similar size form a bucket; a bucket with enough files is merged.

use std::collections::BTreeMap;

use crate::sstable::{SSTableId, SSTableInfo};

/// The options of size-tiered compaction, with Cassandra's defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeTiered {
    /// Whether compactions start by themselves.
    pub enabled: bool,
    pub min_threshold: usize,
    pub max_threshold: usize,
    /// A file belongs to a bucket where its size is between these multiples of the bucket's mean.
    pub bucket_low: f64,
    pub bucket_high: f64,
    /// All files below this share one bucket.
    pub min_sstable_bytes: u64,
}

impl Default for SizeTiered {
    fn default() -> Self {
        SizeTiered {
            enabled: true,
            min_threshold: 4,
            max_threshold: 32,
            bucket_low: 0.5,
            bucket_high: 1.5,
            min_sstable_bytes: 50 * 1024 * 1024,
        }
    }
}

/// A `compaction` option that cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompactionOptionError {
    #[error("unknown compaction strategy class '{0}'")]
    UnknownClass(String),
    #[error("compaction option {name}: '{value}' is not {wanted}")]
    Value { name: &'static str, value: String, wanted: &'static str },
    #[error("compaction option min_threshold {min} must be at least 2 and not above max_threshold {max}")]
    Thresholds { min: usize, max: usize },
    #[error("compaction option bucket_high must be above bucket_low, and both above 0")]
    Buckets,
}

/// What a table's `compaction` option asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    pub strategy: SizeTiered,
    /// What is done otherwise than asked, for the log.
    pub note: Option<String>,
}

/// The least `min_threshold`: fewer files are never merged by themselves.
pub const MIN_THRESHOLD_MIN: usize = 2;

/// Reads a table's `compaction` option. The other strategies of Cassandra run as size-tiered, and the note says so.
pub fn of_option(option: &BTreeMap<String, String>) -> Result<Chosen, CompactionOptionError> {
    let class = option.get("class").map_or("SizeTieredCompactionStrategy", String::as_str);
    let short = class.rsplit('.').next().unwrap_or(class);
    let note = match short {
        "SizeTieredCompactionStrategy" => None,
        "LeveledCompactionStrategy" | "TimeWindowCompactionStrategy" | "UnifiedCompactionStrategy" => {
            Some(format!("{short} is stored and shown; the table is compacted by size tiers"))
        }
        _ => return Err(CompactionOptionError::UnknownClass(class.to_owned())),
    };
    let defaults = SizeTiered::default();
    let strategy = SizeTiered {
        enabled: option.get("enabled").is_none_or(|enabled| !enabled.eq_ignore_ascii_case("false")),
        min_threshold: value(option, "min_threshold", "a number")?.unwrap_or(defaults.min_threshold),
        max_threshold: value(option, "max_threshold", "a number")?.unwrap_or(defaults.max_threshold),
        bucket_low: value(option, "bucket_low", "a number")?.unwrap_or(defaults.bucket_low),
        bucket_high: value(option, "bucket_high", "a number")?.unwrap_or(defaults.bucket_high),
        min_sstable_bytes: value(option, "min_sstable_size", "a number of bytes")?
            .unwrap_or(defaults.min_sstable_bytes),
    };
    if strategy.min_threshold < MIN_THRESHOLD_MIN || strategy.max_threshold < strategy.min_threshold {
        let (min, max) = (strategy.min_threshold, strategy.max_threshold);
        return Err(CompactionOptionError::Thresholds { min, max });
    }
    if strategy.bucket_low <= 0.0 || strategy.bucket_high <= strategy.bucket_low {
        return Err(CompactionOptionError::Buckets);
    }
    Ok(Chosen { strategy, note })
}

fn value<T: std::str::FromStr>(
    option: &BTreeMap<String, String>,
    name: &'static str,
    wanted: &'static str,
) -> Result<Option<T>, CompactionOptionError> {
    let Some(text) = option.get(name) else { return Ok(None) };
    let parsed = text.trim().parse();
    parsed.map(Some).map_err(|_| CompactionOptionError::Value { name, value: text.clone(), wanted })
}

/// The files to merge next, `None` where no bucket has enough: of the buckets that have, the one with the most files,
/// then the one with the smallest; of it, the smallest `max_threshold`.
pub fn size_tiered(files: &[SSTableInfo], options: &SizeTiered) -> Option<Vec<SSTableId>> {
    if !options.enabled {
        return None;
    }
    buckets(files, options)
        .into_iter()
        .filter(|bucket| bucket.files.len() >= options.min_threshold)
        .max_by(|a, b| a.files.len().cmp(&b.files.len()).then_with(|| b.mean_bytes().total_cmp(&a.mean_bytes())))
        .map(|bucket| bucket.files.into_iter().take(options.max_threshold).collect())
}

/// All files, for `nodetool compact`; `None` where a merge of them would change nothing for certain.
pub fn all(files: &[SSTableInfo]) -> Option<Vec<SSTableId>> {
    let droppable = files.iter().any(|file| file.statistics.tombstones + file.statistics.expiring > 0);
    (files.len() > 1 || droppable).then(|| files.iter().map(|file| file.id).collect())
}

/// Compactions that the strategy still wants, as `nodetool compactionstats` counts them.
pub fn pending(files: &[SSTableInfo], options: &SizeTiered) -> usize {
    let ready = |bucket: &Bucket| bucket.files.len() >= options.min_threshold;
    let merges = |bucket: &Bucket| bucket.files.len().div_ceil(options.max_threshold);
    buckets(files, options).iter().filter(|bucket| ready(bucket)).map(merges).sum()
}

struct Bucket {
    /// Smallest first.
    files: Vec<SSTableId>,
    bytes: u64,
}

impl Bucket {
    fn mean_bytes(&self) -> f64 {
        self.bytes as f64 / self.files.len() as f64
    }

    fn takes(&self, file_bytes: u64, options: &SizeTiered) -> bool {
        let (size, mean) = (file_bytes as f64, self.mean_bytes());
        let small = options.min_sstable_bytes as f64;
        (size > mean * options.bucket_low && size < mean * options.bucket_high) || (size < small && mean < small)
    }
}

fn buckets(files: &[SSTableInfo], options: &SizeTiered) -> Vec<Bucket> {
    let mut by_size: Vec<(u64, SSTableId)> = files.iter().map(|file| (file.file_bytes, file.id)).collect();
    by_size.sort_unstable();
    let mut buckets: Vec<Bucket> = Vec::new();
    for (bytes, id) in by_size {
        match buckets.iter_mut().find(|bucket| bucket.takes(bytes, options)) {
            Some(bucket) => {
                bucket.files.push(id);
                bucket.bytes += bytes;
            }
            None => buckets.push(Bucket { files: vec![id], bytes }),
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;
    use crate::sstable::Statistics;

    const MIB: u64 = 1024 * 1024;

    fn files(sizes_mib: &[u64]) -> Vec<SSTableInfo> {
        let statistics = Rc::new(Statistics::default());
        let file = |(n, mib): (usize, &u64)| SSTableInfo {
            id: SSTableId(n as u64),
            path: format!("/{n}").into(),
            file_bytes: mib * MIB,
            statistics: statistics.clone(),
        };
        sizes_mib.iter().enumerate().map(file).collect()
    }

    fn choose(sizes_mib: &[u64]) -> Option<Vec<u64>> {
        size_tiered(&files(sizes_mib), &SizeTiered::default()).map(|ids| ids.iter().map(|id| id.0).collect())
    }

    fn option(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn four_of_a_size_are_merged() {
        assert_eq!(choose(&[]), None);
        assert_eq!(choose(&[100, 100, 100]), None);
        assert_eq!(choose(&[100, 1000, 110, 90, 105]), Some(vec![3, 0, 4, 2]));
        assert_eq!(choose(&[100, 200, 400, 800]), None);
    }

    #[test]
    fn small_files_share_a_bucket() {
        assert_eq!(choose(&[1, 5, 20, 49, 400]), Some(vec![0, 1, 2, 3]));
    }

    #[test]
    fn the_fullest_bucket_goes_first_and_not_too_much_at_once() {
        assert_eq!(choose(&[1, 1, 1, 1, 100, 100, 100, 100, 100]), Some(vec![4, 5, 6, 7, 8]));
        assert_eq!(choose(&[100, 100, 100, 100, 1, 1, 1, 1]), Some(vec![4, 5, 6, 7]));
        assert_eq!(choose(&[1; 40]).unwrap().len(), 32);
        assert_eq!(pending(&files(&[1; 40]), &SizeTiered::default()), 2);
    }

    #[test]
    fn a_disabled_strategy_chooses_nothing() {
        let options = SizeTiered { enabled: false, ..SizeTiered::default() };
        assert_eq!(size_tiered(&files(&[1; 8]), &options), None);
    }

    #[test]
    fn all_takes_every_file_where_that_can_change_something() {
        assert_eq!(all(&files(&[5])), None);
        assert_eq!(all(&files(&[5, 900])).unwrap().len(), 2);
        let mut one = files(&[5]);
        one[0].statistics = Rc::new(Statistics { tombstones: 1, ..Statistics::default() });
        assert_eq!(all(&one).unwrap().len(), 1);
    }

    proptest! {
        #[test]
        fn what_is_chosen_is_similar_and_within_the_thresholds(
            sizes in proptest::collection::vec(1..5000u64, 0..80),
            min_threshold in 2..6usize,
            more in 0..20usize,
        ) {
            let options = SizeTiered { min_threshold, max_threshold: min_threshold + more, ..SizeTiered::default() };
            let files = files(&sizes);
            let chosen = size_tiered(&files, &options);
            prop_assert_eq!(chosen.is_some(), pending(&files, &options) > 0);
            let Some(chosen) = chosen else { return Ok(()) };
            prop_assert!(chosen.len() >= min_threshold && chosen.len() <= options.max_threshold);
            let mut once = chosen.clone();
            once.sort_unstable();
            once.dedup();
            prop_assert_eq!(once.len(), chosen.len(), "each file once");
            let size = |id: &SSTableId| files.iter().find(|file| file.id == *id).map_or(0, |file| file.file_bytes);
            let (least, most) = (size(&chosen[0]), size(&chosen[chosen.len() - 1]));
            prop_assert!(most < options.min_sstable_bytes || most <= 4 * least, "{} and {}", least, most);
        }
    }

    #[test]
    fn options_are_read_and_checked() {
        assert_eq!(of_option(&option(&[])).unwrap().strategy, SizeTiered::default());
        let chosen = of_option(&option(&[
            ("class", "org.apache.cassandra.db.compaction.SizeTieredCompactionStrategy"),
            ("min_threshold", "2"),
            ("max_threshold", "8"),
            ("bucket_high", "2.5"),
            ("min_sstable_size", "1048576"),
            ("enabled", "False"),
        ]))
        .unwrap();
        assert_eq!(chosen.note, None);
        let wanted = SizeTiered {
            enabled: false,
            min_threshold: 2,
            max_threshold: 8,
            bucket_high: 2.5,
            min_sstable_bytes: MIB,
            ..SizeTiered::default()
        };
        assert_eq!(chosen.strategy, wanted);
        assert!(of_option(&option(&[("class", "UnifiedCompactionStrategy")])).unwrap().note.is_some());
        assert!(matches!(of_option(&option(&[("class", "X")])), Err(CompactionOptionError::UnknownClass(_))));
        assert!(matches!(of_option(&option(&[("min_threshold", "x")])), Err(CompactionOptionError::Value { .. })));
        assert!(matches!(of_option(&option(&[("min_threshold", "1")])), Err(CompactionOptionError::Thresholds { .. })));
        assert_eq!(of_option(&option(&[("bucket_high", "0.1")])), Err(CompactionOptionError::Buckets));
    }
}
