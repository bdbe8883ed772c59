//! The options of CREATE and ALTER TABLE: which there are, what they may be, how they are stored.

use std::collections::BTreeMap;

use crate::base::ids::TableId;
use crate::cql::ast::Properties;
use crate::plan::ddl::{compaction, compression, properties, retry};
use crate::protocol::CqlError;
use crate::schema::TableOptions;
use crate::types::{number, uuid};

const KNOWN: [&str; 20] = [
    "additional_write_policy",
    "allow_auto_snapshot",
    "bloom_filter_fp_chance",
    "caching",
    "cdc",
    "comment",
    "compaction",
    "compression",
    "crc_check_chance",
    "default_time_to_live",
    "extensions",
    "gc_grace_seconds",
    "id",
    "incremental_backups",
    "max_index_interval",
    "memtable",
    "memtable_flush_period_in_ms",
    "min_index_interval",
    "read_repair",
    "speculative_retry",
];

/// The longest time to live: 20 years.
const TTL_S_MAX: i32 = 630_720_000;
/// A filter of smaller chance would not fit.
const BLOOM_CHANCE_MIN: f64 = 6.71e-5;
/// What leveled compaction asks of its filters where the statement asks nothing.
const BLOOM_CHANCE_LEVELED: f64 = 0.1;

/// What a statement's WITH says; `None` where it says nothing.
pub struct Given<'a> {
    pub id: Option<TableId>,
    properties: &'a Properties,
}

/// Checks the names, and the id.
pub fn read(properties: &Properties) -> Result<Given<'_>, CqlError> {
    properties::check_known(properties, &KNOWN)?;
    let id = match properties::text(properties, "id")? {
        Some(text) => Some(TableId(uuid::parse(text).ok_or_else(|| CqlError::config_error("Invalid table id"))?)),
        None => None,
    };
    Ok(Given { id, properties })
}

impl Given<'_> {
    /// The options of a new table.
    pub fn for_new_table(&self, is_counter: bool) -> Result<TableOptions, CqlError> {
        let mut options = self.applied_to(&TableOptions::default(), is_counter)?;
        let leveled =
            options.compaction.get("class").is_some_and(|class| class.ends_with(".LeveledCompactionStrategy"));
        if leveled && self.properties.get("bloom_filter_fp_chance").is_none() {
            options.bloom_filter_fp_chance = BLOOM_CHANCE_LEVELED;
        }
        Ok(options)
    }

    /// The options of a table that is altered.
    pub fn for_alter(&self, options: &TableOptions, is_counter: bool) -> Result<TableOptions, CqlError> {
        if self.id.is_some() {
            return Err(CqlError::config_error("Cannot alter table id."));
        }
        self.applied_to(options, is_counter)
    }

    fn applied_to(&self, options: &TableOptions, is_counter: bool) -> Result<TableOptions, CqlError> {
        let mut options = options.clone();
        self.apply_texts(&mut options)?;
        self.apply_maps(&mut options)?;
        self.apply_numbers(&mut options)?;
        validate(&options)?;
        if is_counter && options.default_time_to_live_s > 0 {
            return Err(CqlError::invalid("Cannot set default_time_to_live on a table with counters"));
        }
        Ok(options)
    }

    fn apply_texts(&self, options: &mut TableOptions) -> Result<(), CqlError> {
        let text = |name| properties::text(self.properties, name);
        if let Some(policy) = text("additional_write_policy")? {
            options.additional_write_policy = retry::normalised(policy)?;
        }
        if let Some(policy) = text("speculative_retry")? {
            options.speculative_retry = retry::normalised(policy)?;
        }
        set(&mut options.comment, text("comment")?.map(str::to_owned));
        if let Some(memtable) = text("memtable")? {
            if memtable != "default" {
                return Err(CqlError::config_error(format!("Memtable configuration \"{memtable}\" not found.")));
            }
            options.memtable = memtable.to_owned();
        }
        if let Some(repair) = text("read_repair")? {
            options.read_repair = match repair.to_ascii_uppercase() {
                known if matches!(known.as_str(), "NONE" | "BLOCKING") => known,
                _ => {
                    return Err(CqlError::config_error(format!(
                        "Invalid value {repair} for option 'read_repair': must be NONE or BLOCKING"
                    )));
                }
            };
        }
        let boolean = |name| properties::boolean(self.properties, name);
        set(&mut options.allow_auto_snapshot, boolean("allow_auto_snapshot")?);
        set(&mut options.cdc, boolean("cdc")?);
        set(&mut options.incremental_backups, boolean("incremental_backups")?);
        Ok(())
    }

    fn apply_maps(&self, options: &mut TableOptions) -> Result<(), CqlError> {
        let map = |name| properties::map(self.properties, name);
        if let Some(caching) = map("caching")? {
            options.caching = self::caching(caching)?;
        }
        if let Some(given) = map("compaction")? {
            options.compaction = compaction::resolve(given)?;
        }
        if let Some(given) = map("compression")? {
            options.compression = compression::resolve(given)?;
        }
        Ok(())
    }

    fn apply_numbers(&self, options: &mut TableOptions) -> Result<(), CqlError> {
        let double = |name| properties::double(self.properties, name);
        set(&mut options.bloom_filter_fp_chance, double("bloom_filter_fp_chance")?);
        set(&mut options.crc_check_chance, double("crc_check_chance")?);
        let int = |name| properties::int(self.properties, name);
        set(&mut options.default_time_to_live_s, int("default_time_to_live")?);
        set(&mut options.gc_grace_seconds, int("gc_grace_seconds")?);
        set(&mut options.max_index_interval, int("max_index_interval")?);
        set(&mut options.memtable_flush_period_in_ms, int("memtable_flush_period_in_ms")?);
        set(&mut options.min_index_interval, int("min_index_interval")?);
        Ok(())
    }
}

fn set<T>(option: &mut T, given: Option<T>) {
    if let Some(given) = given {
        *option = given;
    }
}

fn validate(options: &TableOptions) -> Result<(), CqlError> {
    let fail = |message: String| Err(CqlError::config_error(message));
    let bloom = options.bloom_filter_fp_chance;
    if bloom <= BLOOM_CHANCE_MIN || bloom > 1.0 {
        let got = number::double_text(bloom);
        return fail(format!(
            "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0 (got {got})"
        ));
    }
    let crc = options.crc_check_chance;
    if !(crc.is_nan() || (0.0..=1.0).contains(&crc)) {
        let got = number::double_text(crc);
        return fail(format!(
            "crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got {got})"
        ));
    }
    let at_least = |name: &str, least: i32, got: i32| {
        if got < least {
            return Err(CqlError::config_error(format!("{name} must be greater than or equal to {least} (got {got})")));
        }
        Ok(())
    };
    at_least("default_time_to_live", 0, options.default_time_to_live_s)?;
    let ttl = options.default_time_to_live_s;
    if ttl > TTL_S_MAX {
        return fail(format!("default_time_to_live must be less than or equal to {TTL_S_MAX} (got {ttl})"));
    }
    at_least("gc_grace_seconds", 0, options.gc_grace_seconds)?;
    at_least("min_index_interval", 1, options.min_index_interval)?;
    let (min, max) = (options.min_index_interval, options.max_index_interval);
    if max < min {
        return fail(format!(
            "max_index_interval must be greater than or equal to min_index_interval ({min}) (got {max})"
        ));
    }
    at_least("memtable_flush_period_in_ms", 0, options.memtable_flush_period_in_ms)
}

fn caching(given: &[(String, String)]) -> Result<BTreeMap<String, String>, CqlError> {
    let fail = |message: String| Err(CqlError::config_error(message));
    let mut caching: BTreeMap<String, String> =
        [("keys", "ALL"), ("rows_per_partition", "NONE")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let unknown: Vec<&str> =
        given.iter().map(|(name, _)| name.as_str()).filter(|name| !caching.contains_key(*name)).collect();
    if !unknown.is_empty() {
        return fail(format!(
            "Invalid caching sub-options [{}]: only 'keys' and 'rows_per_partition' are allowed",
            unknown.join(", ")
        ));
    }
    for (name, value) in given {
        let upper = value.to_ascii_uppercase();
        let is_word = matches!(upper.as_str(), "ALL" | "NONE");
        if name == "keys" && !is_word {
            return fail(format!(
                "Invalid value '{value}' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed"
            ));
        }
        if !is_word && value.parse::<i32>().ok().is_none_or(|rows| rows < 0) {
            return fail(format!(
                "Invalid value '{value}' for caching sub-option 'rows_per_partition': \
                 only 'ALL', 'NONE', and integer values are allowed"
            ));
        }
        caching.insert(name.clone(), upper);
    }
    Ok(caching)
}

#[cfg(test)]
mod tests {
    use crate::plan::ddl::testing::Node;
    use crate::schema::TableOptions;

    /// What `ALTER TABLE t WITH …` answers after `0x2300 `, or the answer.
    fn check(with: &str, expected: &str) {
        let mut node = Node::new();
        node.check("CREATE TABLE t (k int PRIMARY KEY, v int)", "CREATED TABLE t");
        node.check(&format!("ALTER TABLE t WITH {with}"), expected);
    }

    fn altered(with: &str) -> TableOptions {
        let mut node = Node::new();
        node.check("CREATE TABLE t (k int PRIMARY KEY, v int)", "CREATED TABLE t");
        node.check(&format!("ALTER TABLE t WITH {with}"), "UPDATED TABLE t");
        node.schema.table("ks", "t").map(|table| table.options.clone()).unwrap_or_default()
    }

    fn map(map: &std::collections::BTreeMap<String, String>) -> String {
        map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_are_stored_in_cassandras_spelling() {
        let options = altered("comment = 'it''s' AND gc_grace_seconds = '0' AND bloom_filter_fp_chance = 0.5");
        assert_eq!((options.comment.as_str(), options.gc_grace_seconds), ("it's", 0));
        assert_eq!(options.bloom_filter_fp_chance.to_string(), "0.5");
        assert_eq!(
            map(&altered("caching = {'rows_per_partition': 'all', 'keys': 'none'}").caching),
            "keys=NONE rows_per_partition=ALL"
        );
        assert_eq!(map(&altered("caching = {'rows_per_partition': '10'}").caching), "keys=ALL rows_per_partition=10");
        assert_eq!(altered("read_repair = 'none'").read_repair, "NONE");
        assert_eq!(altered("comment = 1").comment, "1");
        assert!(altered("cdc = true").cdc);
        assert!(!altered("allow_auto_snapshot = 'no' AND incremental_backups = 0").incremental_backups);
        assert_eq!(altered("default_time_to_live = 630720000").default_time_to_live_s, 630_720_000);
    }

    #[test]
    fn what_changes_nothing_is_void() {
        check("speculative_retry = '99PERCENTILE'", "VOID");
        check("memtable = 'default'", "VOID");
        check("comment = ''", "VOID");
        check("extensions = {'a': '0x01'}", "VOID");
    }

    #[test]
    fn values_out_of_bounds_are_refused() {
        let bloom = "bloom_filter_fp_chance must be larger than 6.71E-5 and less than or equal to 1.0";
        check("bloom_filter_fp_chance = 0", &format!("0x2300 {bloom} (got 0.0)"));
        check("bloom_filter_fp_chance = 1.1", &format!("0x2300 {bloom} (got 1.1)"));
        check("gc_grace_seconds = -1", "0x2300 gc_grace_seconds must be greater than or equal to 0 (got -1)");
        check("default_time_to_live = -1", "0x2300 default_time_to_live must be greater than or equal to 0 (got -1)");
        check(
            "default_time_to_live = 630720001",
            "0x2300 default_time_to_live must be less than or equal to 630720000 (got 630720001)",
        );
        check(
            "crc_check_chance = 2",
            "0x2300 crc_check_chance must be larger than or equal to 0 and smaller than or equal to 1.0 (got 2.0)",
        );
        check("min_index_interval = 0", "0x2300 min_index_interval must be greater than or equal to 1 (got 0)");
        check(
            "min_index_interval = 256 AND max_index_interval = 128",
            "0x2300 max_index_interval must be greater than or equal to min_index_interval (256) (got 128)",
        );
        check(
            "memtable_flush_period_in_ms = -1",
            "0x2300 memtable_flush_period_in_ms must be greater than or equal to 0 (got -1)",
        );
    }

    #[test]
    fn values_of_another_sort_are_refused() {
        check("bloom_filter_fp_chance = 'x'", "0x2000 Invalid double value x for 'bloom_filter_fp_chance'");
        check("gc_grace_seconds = 1.5", "0x2000 Invalid integer value 1.5 for 'gc_grace_seconds'");
        check("caching = 'ALL'", "0x2000 Invalid value for property 'caching'. It should be a map.");
        check("nosuch_option = 1", "0x2000 Unknown property 'nosuch_option'");
        check("dclocal_read_repair_chance = 0.1", "0x2000 Unknown property 'dclocal_read_repair_chance'");
        check("id = 'x'", "0x2300 Invalid table id");
        check("id = 123e4567-e89b-12d3-a456-426614174000", "0x2300 Cannot alter table id.");
        check("memtable = 'nosuch'", "0x2300 Memtable configuration \"nosuch\" not found.");
        check(
            "read_repair = 'SOMETIMES'",
            "0x2300 Invalid value SOMETIMES for option 'read_repair': must be NONE or BLOCKING",
        );
    }

    #[test]
    fn caching_has_two_sub_options() {
        check(
            "caching = {'keys': 'SOME'}",
            "0x2300 Invalid value 'SOME' for caching sub-option 'keys': only 'ALL' and 'NONE' are allowed",
        );
        check(
            "caching = {'nosuch': 'ALL'}",
            "0x2300 Invalid caching sub-options [nosuch]: only 'keys' and 'rows_per_partition' are allowed",
        );
        check(
            "caching = {'rows_per_partition': '-1'}",
            "0x2300 Invalid value '-1' for caching sub-option 'rows_per_partition': \
             only 'ALL', 'NONE', and integer values are allowed",
        );
    }

    #[test]
    fn leveled_tables_have_smaller_filters() {
        let mut node = Node::new();
        let leveled = "compaction = {'class': 'LeveledCompactionStrategy'}";
        node.check(&format!("CREATE TABLE t (k int PRIMARY KEY) WITH {leveled}"), "CREATED TABLE t");
        let table = node.schema.table("ks", "t").map(|table| table.options.bloom_filter_fp_chance.to_string());
        assert_eq!(table.as_deref(), Some("0.1"));
    }
}
