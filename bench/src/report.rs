//! Results: a line each as text, and a JSON file of them to compare two commits with.

use std::path::Path;

use serde::{Deserialize, Serialize};

/// One figure of a run. Its name is the same in every run that measures the same thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    pub name: String,
    pub value: f64,
    pub unit: String,
    /// More is better.
    #[serde(default)]
    pub rising: bool,
    /// At this it is good, where design.md has a line for it; scaled to the machine where it is a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<f64>,
}

/// All figures of one run of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub command: String,
    pub commit: String,
    pub machine: String,
    /// This machine's times over those of the reference (`calibration`).
    pub machine_factor: f64,
    pub figures: Vec<Figure>,
}

impl Report {
    pub fn new(command: &str, machine_factor: f64) -> Report {
        let (commit, machine) = (commit(), machine());
        Report { command: command.to_owned(), commit, machine, machine_factor, figures: Vec::new() }
    }

    pub fn add(&mut self, name: impl Into<String>, value: f64, unit: &str) -> &mut Figure {
        let figure = Figure { name: name.into(), value, unit: unit.into(), rising: false, good: None, aim: None };
        self.figures.push(figure);
        let last = self.figures.len() - 1;
        &mut self.figures[last]
    }

    /// Writes the file, where one is asked for.
    pub fn save(&self, path: Option<&str>) -> Result<(), String> {
        let Some(path) = path else { return Ok(()) };
        let text = serde_json::to_string_pretty(self).map_err(|error| error.to_string())?;
        std::fs::write(path, text + "\n").map_err(|error| format!("{path}: {error}"))?;
        println!("results in {path}");
        Ok(())
    }

    pub fn load(path: &Path) -> Result<Report, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// The commit of the sources, and whether they differ from it.
fn commit() -> String {
    let git = |words: &[&str]| {
        let output = std::process::Command::new("git").args(["-C", env!("CARGO_MANIFEST_DIR")]).args(words).output();
        let output = output.ok().filter(|output| output.status.success())?;
        Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let Some(hash) = git(&["rev-parse", "--short=12", "HEAD"]) else { return "unknown".into() };
    let changed = git(&["status", "--porcelain"]).is_some_and(|files| !files.is_empty());
    if changed { format!("{hash} with changes") } else { hash }
}

/// The processor's name and the number of its cores.
fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{} × {cores}", model.map_or("unknown", |(_, name)| name))
}

/// A number with as many digits as say something.
pub fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        size if size >= 1000.0 => grouped(value.round()),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// `12,345`.
fn grouped(whole: f64) -> String {
    let digits = format!("{:.0}", whole.abs());
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if whole < 0.0 { format!("-{out}") } else { out }
}

/// `bench compare A.json B.json`: what B's figures are beside A's.
pub fn compare(arguments: &[String]) -> Result<(), String> {
    let [before, after] = arguments else { return Err("bench compare: two files of results are needed".into()) };
    let (before, after) = (Report::load(Path::new(before))?, Report::load(Path::new(after))?);
    if before.command != after.command {
        return Err(format!("`{}` cannot be compared with `{}`", before.command, after.command));
    }
    println!("{}: {} → {}", before.command, before.commit, after.commit);
    let (first, second) = (before.machine_factor, after.machine_factor);
    println!("machine: {} × {first:.2} → {} × {second:.2}; times are not scaled here", before.machine, after.machine);
    println!("{:<52} {:>12} {:>12} {:>8}", "", "before", "after", "change");
    for figure in &after.figures {
        let old = before.figures.iter().find(|old| old.name == figure.name);
        println!("{}", compared(old, figure));
    }
    for gone in before.figures.iter().filter(|old| after.figures.iter().all(|new| new.name != old.name)) {
        println!("{:<52} {:>12} {:>12}", gone.name, short(gone.value), "–");
    }
    Ok(())
}

fn compared(old: Option<&Figure>, new: &Figure) -> String {
    let Figure { name, value, unit, rising, .. } = new;
    let Some(old) = old else { return format!("{name:<52} {:>12} {:>12}          {unit}", "–", short(*value)) };
    let change = if old.value == 0.0 { 0.0 } else { (value / old.value - 1.0) * 100.0 };
    let verdict = match (change.abs() < 1.0, (change > 0.0) == *rising) {
        (true, _) => "",
        (false, true) => "  better",
        (false, false) => "  worse",
    };
    format!("{name:<52} {:>12} {:>12} {change:>+7.1}% {unit}{verdict}", short(old.value), short(*value))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn a_report_comes_back_from_its_file() {
        let mut report = Report::new("design", 1.5);
        report.add("read", 3000.0, "instructions").good = Some(3000.0);
        let path = std::env::temp_dir().join(format!("bench-report-{}.json", std::process::id()));
        report.save(path.to_str()).unwrap();
        let back = Report::load(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(back, report);
        assert!(Report::load(&path).unwrap_err().contains("bench-report"));
    }

    #[test]
    fn changes_are_judged_by_what_is_better() {
        let mut report = Report::new("design", 1.0);
        report.add("a", 200.0, "ns");
        report.add("b", 200.0, "op/s").rising = true;
        let [time, rate] = &report.figures[..] else { panic!("two figures") };
        let old = |figure: &Figure| Figure { value: 100.0, ..figure.clone() };
        assert!(compared(Some(&old(time)), time).contains("+100.0% ns  worse"));
        assert!(compared(Some(&old(rate)), rate).contains("better"));
        assert!(!compared(Some(&time.clone()), time).contains("better"));
    }

    #[test]
    fn numbers_have_the_digits_that_say_something() {
        let shown = [0.0, 0.1234, 1.234, 12.34, 123.4, 1234.4, 1_234_567.0, -1234.0].map(short);
        assert_eq!(shown, ["0", "0.123", "1.23", "12.3", "123", "1,234", "1,234,567", "-1,234"]);
    }
}
