//! The compaction options of a table.

use std::collections::BTreeMap;

use crate::protocol::CqlError;
use crate::types::number;

const PACKAGE: &str = "org.apache.cassandra.db.compaction.";

type Options = BTreeMap<String, String>;

/// A strategy and the options that it knows beside those that all have.
struct Strategy {
    name: &'static str,
    has_thresholds: bool,
    own: &'static [&'static str],
}

const COMMON: [&str; 7] = [
    "enabled",
    "log_all",
    "only_purge_repaired_tombstones",
    "provide_overlapping_tombstones",
    "tombstone_compaction_interval",
    "tombstone_threshold",
    "unchecked_tombstone_compaction",
];

const STRATEGIES: [Strategy; 4] = [
    Strategy {
        name: "SizeTieredCompactionStrategy",
        has_thresholds: true,
        own: &["bucket_high", "bucket_low", "min_sstable_size"],
    },
    Strategy {
        name: "LeveledCompactionStrategy",
        has_thresholds: true,
        own: &[
            "bucket_high",
            "bucket_low",
            "fanout_size",
            "min_sstable_size",
            "single_sstable_uplevel",
            "sstable_size_in_mb",
        ],
    },
    Strategy {
        name: "TimeWindowCompactionStrategy",
        has_thresholds: true,
        own: &[
            "bucket_high",
            "bucket_low",
            "compaction_window_size",
            "compaction_window_unit",
            "expired_sstable_check_frequency_seconds",
            "min_sstable_size",
            "timestamp_resolution",
            "unsafe_aggressive_sstable_expiration",
        ],
    },
    Strategy {
        name: "UnifiedCompactionStrategy",
        has_thresholds: false,
        own: &[
            "base_shard_count",
            "expired_sstable_check_frequency_seconds",
            "flush_size_override",
            "min_sstable_size",
            "overlap_inclusion_method",
            "scaling_parameters",
            "sstable_growth",
            "target_sstable_size",
            "unsafe_aggressive_sstable_expiration",
        ],
    },
];

/// The options to store for those that a statement gives: the class fully qualified, the thresholds filled in.
pub fn resolve(given: &[(String, String)]) -> Result<Options, CqlError> {
    let mut options: Options = given.iter().cloned().collect();
    let class = match options.remove("class") {
        None => return fail("Missing sub-option 'class' for the 'compaction' option"),
        Some(class) if class.contains('.') => class,
        Some(class) => format!("{PACKAGE}{class}"),
    };
    let found = class.strip_prefix(PACKAGE).and_then(|name| STRATEGIES.iter().find(|strategy| strategy.name == name));
    let Some(strategy) = found else {
        return fail(&format!("Unable to find compaction strategy class '{class}'"));
    };
    if strategy.has_thresholds {
        options.entry("min_threshold".to_owned()).or_insert_with(|| "4".to_owned());
        options.entry("max_threshold".to_owned()).or_insert_with(|| "32".to_owned());
    }
    check_names(&options, strategy)?;
    check_common(&options)?;
    check_own(&options, strategy)?;
    if strategy.has_thresholds {
        check_thresholds(&options)?;
    }
    options.insert("class".to_owned(), class);
    Ok(options)
}

fn fail<T>(message: &str) -> Result<T, CqlError> {
    Err(CqlError::config_error(message))
}

fn check_names(options: &Options, strategy: &Strategy) -> Result<(), CqlError> {
    let is_known = |name: &str| {
        let threshold = strategy.has_thresholds && matches!(name, "min_threshold" | "max_threshold");
        threshold || COMMON.contains(&name) || strategy.own.contains(&name)
    };
    let unknown: Vec<&str> = options.keys().map(String::as_str).filter(|name| !is_known(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    fail(&format!("Properties specified [{}] are not understood by {}", unknown.join(", "), strategy.name))
}

fn check_thresholds(options: &Options) -> Result<(), CqlError> {
    let read = |name: &str| -> Result<i64, CqlError> {
        let text = options.get(name).map_or("", String::as_str);
        match text.parse::<i32>() {
            Ok(number) => Ok(i64::from(number)),
            Err(_) => fail(&format!("Invalid value {text} for '{name}' compaction sub-option - must be an integer")),
        }
    };
    let (min, max) = (read("min_threshold")?, read("max_threshold")?);
    if min == 0 || max == 0 {
        return fail(
            "Disabling compaction by setting compaction thresholds to 0 has been removed, set the compaction option \
             'enabled' to false instead.",
        );
    }
    if min < 2 {
        return fail(&format!("Min compaction threshold cannot be less than 2 (got {min})"));
    }
    if min > max {
        return fail(&format!(
            "Min compaction threshold (got {min}) cannot be greater than max compaction threshold (got {max})"
        ));
    }
    Ok(())
}

fn check_common(options: &Options) -> Result<(), CqlError> {
    let is_boolean = |text: &str| text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false");
    for (name, value) in options {
        match name.as_str() {
            "enabled" if !is_boolean(value) => {
                return fail(&format!("enabled should either be 'true' or 'false', not {value}"));
            }
            "log_all" if !is_boolean(value) => {
                return fail(&format!("'log_all' should either be 'true' or 'false', not {value}"));
            }
            "unchecked_tombstone_compaction" if !is_boolean(value) => {
                return fail(&format!(
                    "'unchecked_tombstone_compaction' should be either 'true' or 'false', not '{value}'"
                ));
            }
            "tombstone_threshold" | "tombstone_compaction_interval" if number::parse_double(value).is_none() => {
                return fail(&format!("{value} is not a parsable int (base10) for {name}"));
            }
            "provide_overlapping_tombstones" => {
                let upper = value.to_ascii_uppercase();
                if !matches!(upper.as_str(), "NONE" | "ROW" | "CELL") {
                    return fail(&format!(
                        "Invalid value {upper} for 'provide_overlapping_tombstones' compaction sub-option - \
                         must be one of the following [NONE, ROW, CELL]."
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_own(options: &Options, strategy: &Strategy) -> Result<(), CqlError> {
    if strategy.has_thresholds {
        check_buckets(options)?;
    }
    for (name, value) in options {
        match name.as_str() {
            "sstable_size_in_mb" | "fanout_size" => match value.parse::<i64>() {
                Err(_) => return fail(&format!("{value} is not a parsable int (base10) for {name}")),
                Ok(number) if number < 1 => return fail(&format!("{name} must be larger than 0, but was {number}")),
                Ok(_) => {}
            },
            "compaction_window_unit"
                if !matches!(value.to_ascii_uppercase().as_str(), "MINUTES" | "HOURS" | "DAYS") =>
            {
                return fail(&format!("{value} is not valid for {name}"));
            }
            "timestamp_resolution"
                if !matches!(
                    value.as_str(),
                    "MICROSECONDS" | "MILLISECONDS" | "SECONDS" | "NANOSECONDS" | "MINUTES" | "HOURS" | "DAYS"
                ) =>
            {
                return fail(&format!("{value} is not valid for {name}"));
            }
            "compaction_window_size" => match value.parse::<i32>() {
                Err(_) => return fail(&format!("{value} is not a parsable int (base10) for {name}")),
                Ok(number) if number < 1 => return fail(&format!("{number} must be greater than 1 for {name}")),
                Ok(_) => {}
            },
            "scaling_parameters" => check_scaling(value)?,
            _ => {}
        }
    }
    Ok(())
}

/// The similarity of sizes by which tables are gathered into buckets.
fn check_buckets(options: &Options) -> Result<(), CqlError> {
    let read = |name: &str, default: f64| match options.get(name) {
        None => Ok(default),
        Some(text) => number::parse_double(text)
            .ok_or_else(|| CqlError::config_error(format!("{text} is not a parsable float for {name}"))),
    };
    if let Some(size) = options.get("min_sstable_size") {
        match size.parse::<i64>() {
            Err(_) => return fail(&format!("{size} is not a parsable int (base10) for min_sstable_size")),
            Ok(size) if size < 0 => return fail(&format!("min_sstable_size must be non negative: {size}")),
            Ok(_) => {}
        }
    }
    let (low, high) = (read("bucket_low", 0.5)?, read("bucket_high", 1.5)?);
    if high <= low {
        let (low, high) = (number::double_text(low), number::double_text(high));
        return fail(&format!("bucket_high value ({high}) is less than or equal to the bucket_low value ({low})"));
    }
    Ok(())
}

/// `N`, `T4`, `L10` or a signed number, separated by commas.
fn check_scaling(parameters: &str) -> Result<(), CqlError> {
    for parameter in parameters.split(',').map(str::trim) {
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = parameter.strip_prefix(['L', 'T', '+', '-']).unwrap_or(parameter);
        if parameter != "N" && !digits(number) {
            return fail(&format!("Scaling parameter {parameter} must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(class: &str, more: &[(&str, &str)], expected: Result<&str, &str>) {
        let all = [("class", class)].into_iter().chain(more.iter().copied());
        let owned: Vec<_> = all.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let got = resolve(&owned)
            .map(|map| map.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" "))
            .map_err(|error| error.message().to_owned());
        let expected = expected.map(|text| text.replace("class=", &format!("class={PACKAGE}")));
        assert_eq!(got, expected.map_err(str::to_owned), "{class} {more:?}");
    }

    const TIERED: &str = "SizeTieredCompactionStrategy";
    const LEVELED: &str = "LeveledCompactionStrategy";
    const WINDOWS: &str = "TimeWindowCompactionStrategy";
    const UNIFIED: &str = "UnifiedCompactionStrategy";

    #[test]
    fn options_are_completed() {
        let thresholds = "max_threshold=32 min_threshold=4";
        check(TIERED, &[], Ok(&format!("class={TIERED} {thresholds}")));
        check(TIERED, &[("enabled", "false")], Ok(&format!("class={TIERED} enabled=false {thresholds}")));
        check(
            LEVELED,
            &[("sstable_size_in_mb", "10")],
            Ok(&format!("class={LEVELED} {thresholds} sstable_size_in_mb=10")),
        );
        check(WINDOWS, &[], Ok(&format!("class={WINDOWS} {thresholds}")));
        check(
            UNIFIED,
            &[("scaling_parameters", "T4, N, -2")],
            Ok(&format!("class={UNIFIED} scaling_parameters=T4, N, -2")),
        );
    }

    #[test]
    fn wrong_classes_and_names() {
        assert!(resolve(&[]).is_err_and(|error| error.message().contains("Missing sub-option 'class'")));
        check(
            "NoSuch",
            &[],
            Err("Unable to find compaction strategy class 'org.apache.cassandra.db.compaction.NoSuch'"),
        );
        check("org.x.S", &[], Err("Unable to find compaction strategy class 'org.x.S'"));
        let not_understood =
            |class: &str, name: &str| format!("Properties specified [{name}] are not understood by {class}");
        check(TIERED, &[("nosuch", "1")], Err(&not_understood(TIERED, "nosuch")));
        check(UNIFIED, &[("min_threshold", "4")], Err(&not_understood(UNIFIED, "min_threshold")));
    }

    #[test]
    fn wrong_thresholds_and_buckets() {
        let disabling = "Disabling compaction by setting compaction thresholds to 0 has been removed, \
                         set the compaction option 'enabled' to false instead.";
        check(TIERED, &[("min_threshold", "1")], Err("Min compaction threshold cannot be less than 2 (got 1)"));
        check(TIERED, &[("max_threshold", "0")], Err(disabling));
        check(
            TIERED,
            &[("min_threshold", "x")],
            Err("Invalid value x for 'min_threshold' compaction sub-option - must be an integer"),
        );
        check(
            TIERED,
            &[("min_threshold", "10"), ("max_threshold", "5")],
            Err("Min compaction threshold (got 10) cannot be greater than max compaction threshold (got 5)"),
        );
        check(
            TIERED,
            &[("bucket_low", "2.0")],
            Err("bucket_high value (1.5) is less than or equal to the bucket_low value (2.0)"),
        );
        check(TIERED, &[("bucket_low", "x")], Err("x is not a parsable float for bucket_low"));
        check(TIERED, &[("min_sstable_size", "-1")], Err("min_sstable_size must be non negative: -1"));
    }

    #[test]
    fn wrong_values_of_other_options() {
        check(TIERED, &[("enabled", "x")], Err("enabled should either be 'true' or 'false', not x"));
        check(TIERED, &[("log_all", "x")], Err("'log_all' should either be 'true' or 'false', not x"));
        check(TIERED, &[("tombstone_threshold", "x")], Err("x is not a parsable int (base10) for tombstone_threshold"));
        check(
            TIERED,
            &[("unchecked_tombstone_compaction", "x")],
            Err("'unchecked_tombstone_compaction' should be either 'true' or 'false', not 'x'"),
        );
        check(
            TIERED,
            &[("provide_overlapping_tombstones", "x")],
            Err("Invalid value X for 'provide_overlapping_tombstones' compaction sub-option - \
                 must be one of the following [NONE, ROW, CELL]."),
        );
        check(LEVELED, &[("sstable_size_in_mb", "0")], Err("sstable_size_in_mb must be larger than 0, but was 0"));
        check(LEVELED, &[("fanout_size", "x")], Err("x is not a parsable int (base10) for fanout_size"));
        check(WINDOWS, &[("compaction_window_unit", "x")], Err("x is not valid for compaction_window_unit"));
        check(WINDOWS, &[("compaction_window_size", "0")], Err("0 must be greater than 1 for compaction_window_size"));
        check(WINDOWS, &[("timestamp_resolution", "x")], Err("x is not valid for timestamp_resolution"));
        check(
            UNIFIED,
            &[("scaling_parameters", "x")],
            Err("Scaling parameter x must match N|L[0-9]+|T[0-9]+|[+-]?[0-9]+"),
        );
    }
}
