//! The lines at the end of a run, cassandra-stress's.

use std::time::Duration;

use crate::numbers::grouped;
use crate::tally::{Counts, Kind, Tally};

/// All lines from `Results:` to `END`.
pub fn lines(tally: &Tally, took: Duration) -> Vec<String> {
    let total = tally.total();
    let seconds = took.as_secs_f64().max(f64::MIN_POSITIVE);
    let row = |label: &str, show: &dyn Fn(&Counts) -> String| {
        let kinds: Vec<String> = Kind::ALL
            .into_iter()
            .filter(|kind| tally.of(*kind).operations() + tally.of(*kind).errors > 0)
            .map(|kind| format!("{}: {}", kind.name(), show(tally.of(kind)).trim_start()))
            .collect();
        format!("{label:<26}:{} [{}]", show(&total), kinds.join(", "))
    };
    let rate = |counts: &Counts| grouped((counts.operations() as f64 / seconds).round() as u64);
    let latency = |quantile: f64| move |counts: &Counts| format!("{:>7.1} ms", counts.latency_ms(quantile));
    let whole = took.as_secs();
    vec![
        String::new(),
        "Results:".into(),
        row("Op rate", &|counts| format!("{:>9} op/s", rate(counts))),
        row("Partition rate", &|counts| format!("{:>9} pk/s", rate(counts))),
        row("Row rate", &|counts| format!("{:>9} row/s", rate(counts))),
        row("Latency mean", &|counts| format!("{:>7.1} ms", counts.mean_ms())),
        row("Latency median", &latency(0.5)),
        row("Latency 95th percentile", &latency(0.95)),
        row("Latency 99th percentile", &latency(0.99)),
        row("Latency 99.9th percentile", &latency(0.999)),
        row("Latency max", &|counts| format!("{:>7.1} ms", counts.max_ms())),
        row("Total partitions", &|counts| format!("{:>10}", grouped(counts.operations()))),
        row("Total errors", &|counts| format!("{:>10}", grouped(counts.errors))),
        format!("{:<26}: {:02}:{:02}:{:02}", "Total operation time", whole / 3600, whole / 60 % 60, whole % 60),
        String::new(),
        "END".into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_of_two_kinds() {
        let mut tally = Tally::default();
        (0..3_000).for_each(|_| tally.succeeded(Kind::Write, 1_500));
        (0..27_000).for_each(|_| tally.succeeded(Kind::Read, 2_500));
        tally.failed(Kind::Read);
        let lines = lines(&tally, Duration::from_secs(10));
        for expected in [
            "Op rate                   :    3,000 op/s [WRITE: 300 op/s, READ: 2,700 op/s]",
            "Latency mean              :    2.4 ms [WRITE: 1.5 ms, READ: 2.5 ms]",
            "Total partitions          :    30,000 [WRITE: 3,000, READ: 27,000]",
            "Total errors              :         1 [WRITE: 0, READ: 1]",
            "Total operation time      : 00:00:10",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected}\n{}", lines.join("\n"));
        }
        assert_eq!(lines.last().map(String::as_str), Some("END"));
    }

    #[test]
    fn the_summary_of_one_kind_names_it_alone() {
        let mut tally = Tally::default();
        tally.succeeded(Kind::Write, 1_000);
        let lines = lines(&tally, Duration::from_secs(3_725));
        assert!(lines.iter().any(|line| line.ends_with("1 [WRITE: 1]")), "{}", lines.join("\n"));
        assert!(lines.iter().any(|line| line.ends_with(": 01:02:05")), "{}", lines.join("\n"));
    }
}
