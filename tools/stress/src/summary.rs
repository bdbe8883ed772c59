//! The lines at the end of a run, cassandra-stress's.

use std::time::Duration;

use crate::numbers::grouped;
use crate::progress::{Outcome, figures, header, line};
use crate::tally::{Counts, Tally};

/// All lines from `Results:` to the empty one that ends them. No collector is asked for the lines about garbage: they
/// are what cassandra-stress prints where it cannot reach one.
pub fn lines(names: &[String], tally: &Tally, took: Duration) -> Vec<String> {
    let total = tally.total();
    let seconds = took.as_secs_f64().max(1e-9);
    let row = |label: &str, width: usize, unit: &str, gap: &str, show: &dyn Fn(&Counts) -> String| {
        let shown = |counts: &Counts| if unit.is_empty() { show(counts) } else { format!("{} {unit}", show(counts)) };
        let kinds: Vec<String> = names
            .iter()
            .enumerate()
            .filter(|(kind, _)| !tally.of(*kind).is_empty())
            .map(|(kind, name)| format!("{name}: {}", shown(tally.of(kind))))
            .collect();
        let number = format!("{:>width$}", show(&total));
        let all = if unit.is_empty() { number } else { format!("{number} {unit}") };
        format!("{label:<26}: {all}{gap}[{}]", kinds.join(", "))
    };
    let per_second = |count: u64| grouped((count as f64 / seconds).round() as u64);
    let latency = |quantile: f64| move |counts: &Counts| format!("{:.1}", counts.latency_ms(quantile));
    let whole = took.as_secs();
    vec![
        String::new(),
        String::new(),
        "Results:".into(),
        row("Op rate", 8, "op/s", "  ", &|counts| per_second(counts.operations())),
        row("Partition rate", 8, "pk/s", "  ", &|counts| per_second(counts.partitions)),
        row("Row rate", 8, "row/s", " ", &|counts| per_second(counts.rows)),
        row("Latency mean", 6, "ms", " ", &|counts| format!("{:.1}", counts.mean_ms())),
        row("Latency median", 6, "ms", " ", &latency(0.5)),
        row("Latency 95th percentile", 6, "ms", " ", &latency(0.95)),
        row("Latency 99th percentile", 6, "ms", " ", &latency(0.99)),
        row("Latency 99.9th percentile", 6, "ms", " ", &latency(0.999)),
        row("Latency max", 6, "ms", " ", &|counts| format!("{:.1}", counts.max_ms())),
        row("Total partitions", 10, "", " ", &|counts| grouped(counts.partitions)),
        row("Total errors", 10, "", " ", &|counts| grouped(counts.errors)),
        format!("{:<26}: 0", "Total GC count"),
        format!("{:<26}: 0.000 KiB", "Total GC memory"),
        format!("{:<26}:    0.0 seconds", "Total GC time"),
        format!("{:<26}:    NaN ms", "Avg GC time"),
        format!("{:<26}:    0.0 ms", "StdDev GC time"),
        format!("{:<26}: {:02}:{:02}:{:02}", "Total operation time", whole / 3600, whole / 60 % 60, whole % 60),
        String::new(),
    ]
}

/// The table of several runs, each with its number of threads.
pub fn table(names: &[String], runs: &[(usize, Outcome)]) -> Vec<String> {
    let ids: Vec<String> = runs.iter().map(|(threads, _)| format!("{threads} threadCount")).collect();
    let width = ids.iter().map(String::len).max().unwrap_or(0);
    let mut lines = vec![format!("{:>width$}, {}", "id", header())];
    for (id, (_, run)) in ids.iter().zip(runs) {
        let seconds = run.took.as_secs_f64().max(1e-9);
        let shown = |name: &str, counts: &Counts| {
            let figures = figures(counts.operations(), counts, seconds, run.took, run.error);
            format!("{id:>width$}, {}", line(name, &figures))
        };
        let kinds = names.iter().enumerate().filter(|(kind, _)| !run.tally.of(*kind).is_empty());
        lines.extend(kinds.map(|(kind, name)| shown(name, run.tally.of(kind))));
        lines.push(shown("total", &run.tally.total()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        vec!["READ".into(), "WRITE".into()]
    }

    fn tally() -> Tally {
        let mut tally = Tally::new(2);
        (0..3_000).for_each(|_| tally.succeeded(1, 1_500, 1, 10));
        (0..27_000).for_each(|_| tally.succeeded(0, 2_500, 1, 1));
        tally.failed(0);
        tally
    }

    #[test]
    fn the_summary_of_two_kinds() {
        let lines = lines(&names(), &tally(), Duration::from_secs(10));
        for expected in [
            "Results:",
            "Op rate                   :    3,000 op/s  [READ: 2,700 op/s, WRITE: 300 op/s]",
            "Partition rate            :    3,000 pk/s  [READ: 2,700 pk/s, WRITE: 300 pk/s]",
            "Row rate                  :    5,700 row/s [READ: 2,700 row/s, WRITE: 3,000 row/s]",
            "Latency mean              :    2.4 ms [READ: 2.5 ms, WRITE: 1.5 ms]",
            "Latency 99.9th percentile :    2.5 ms [READ: 2.5 ms, WRITE: 1.5 ms]",
            "Total partitions          :     30,000 [READ: 27,000, WRITE: 3,000]",
            "Total errors              :          1 [READ: 1, WRITE: 0]",
            "Total GC count            : 0",
            "Avg GC time               :    NaN ms",
            "Total operation time      : 00:00:10",
        ] {
            assert!(lines.iter().any(|line| line == expected), "{expected}\n{}", lines.join("\n"));
        }
        assert_eq!(lines.last().map(String::as_str), Some(""));
    }

    #[test]
    fn the_summary_of_one_kind_names_it_alone() {
        let mut tally = Tally::new(2);
        tally.succeeded(1, 1_000, 1, 1);
        let lines = lines(&names(), &tally, Duration::from_secs(3_725));
        assert!(lines.iter().any(|line| line.ends_with("1 [WRITE: 1]")), "{}", lines.join("\n"));
        assert!(lines.iter().any(|line| line.ends_with(": 01:02:05")), "{}", lines.join("\n"));
    }

    #[test]
    fn several_runs_have_a_table() {
        let run = || Outcome { tally: tally(), took: Duration::from_secs(10), points: Vec::new(), error: 0.01 };
        let lines = table(&names(), &[(4, run()), (16, run())]);
        assert_eq!(lines.len(), 7);
        assert!(lines[0].starts_with("            id, type  "), "{}", lines[0]);
        assert!(lines[3].starts_with(" 4 threadCount, total,"), "{}", lines[3]);
        assert!(lines[4].starts_with("16 threadCount, READ,"), "{}", lines[4]);
    }
}
