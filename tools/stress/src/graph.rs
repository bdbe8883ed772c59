//! The page of `-graph`: the figures of one run or several, and a script that draws them, in one HTML file that needs
//! nothing else.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::arguments::{Arguments, Command, Graph};
use crate::progress::{METRICS, Outcome};
use crate::summary;
use crate::tally::Counts;

/// The page without figures.
const PAGE: &str = include_str!("graph.html");
/// The figures stand between these.
const START: &str = "<script id=\"runs\" type=\"application/json\">";
const END: &str = "</script>";

#[derive(Debug, thiserror::Error)]
pub enum GraphError {
    #[error("the graph {path}: {source}")]
    File { path: PathBuf, source: io::Error },
    #[error("the graph {path}: the file is there and is no graph of this tool; it stays as it is")]
    Foreign { path: PathBuf },
}

/// Whether the graph can be written, before hours are spent on what it shows.
pub fn check(path: &Path) -> Result<(), GraphError> {
    read(path)?;
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let file = file.map_err(|source| GraphError::File { path: path.to_owned(), source })?;
    // An empty file is as good as none; leave none behind where the run fails.
    if file.metadata().is_ok_and(|metadata| metadata.len() == 0) {
        std::fs::remove_file(path).map_err(|source| GraphError::File { path: path.to_owned(), source })?;
    }
    Ok(())
}

/// Adds runs, each with its number of threads, to those that the file has.
pub fn add(
    graph: &Graph,
    arguments: &Arguments,
    names: &[String],
    runs: &[(usize, &Outcome)],
) -> Result<(), GraphError> {
    let mut all = read(&graph.file)?;
    let title = graph.title.clone().unwrap_or_else(|| "helenus-stress".into());
    all["title"] = Value::String(title);
    all["metrics"] = json!(&METRICS[1..]);
    if let Some(list) = all["runs"].as_array_mut() {
        let test = graph.operation.clone().unwrap_or_else(|| command_name(&arguments.command));
        for (threads, outcome) in runs {
            let revision = match runs.len() {
                1 => graph.revision.clone(),
                _ => format!("{} - {threads} threads", graph.revision),
            };
            list.push(run_of(&test, &revision, &arguments.line, names, outcome));
        }
    }
    // A `</script>` within a name would end the figures.
    let figures = all.to_string().replace("</", "<\\/");
    let (head, tail) = PAGE.split_once(START).expect("the page has a place for figures");
    let (_, tail) = tail.split_once(END).expect("which ends");
    let page = format!("{head}{START}{figures}{END}{tail}");
    std::fs::write(&graph.file, page).map_err(|source| GraphError::File { path: graph.file.clone(), source })
}

fn command_name(command: &Command) -> String {
    match command {
        Command::Basic(basic) => basic.name().into(),
        Command::Mixed(_) => "MIXED".into(),
        Command::User(_) => "USER".into(),
    }
}

fn run_of(test: &str, revision: &str, line: &str, names: &[String], outcome: &Outcome) -> Value {
    let summary: serde_json::Map<String, Value> = summary::lines(names, &outcome.tally, outcome.took)
        .iter()
        .filter_map(|line| line.split_once(':'))
        .filter(|(_, value)| !value.is_empty())
        .map(|(label, value)| (label.trim().to_lowercase(), Value::String(value.trim().to_owned())))
        .collect();
    let intervals: Vec<Vec<f64>> =
        outcome.points.iter().map(|point| point.iter().map(|v| rounded(*v)).collect()).collect();
    let latency = latency_of(&outcome.tally.total());
    json!({
        "test": test, "revision": revision, "command": line, "summary": summary, "latency": latency,
        "intervals": intervals
    })
}

/// The latencies of the whole run, finer than the summary has them, for those who read the figures.
fn latency_of(total: &Counts) -> Value {
    let quantile = |quantile: f64| total.latencies_us.value_at_quantile(quantile);
    json!({ "median_us": quantile(0.5), "p99_us": quantile(0.99), "max_us": total.latencies_us.max() })
}

/// To three decimals: a graph shows no more.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The figures that a file has; none where there is no file.
fn read(path: &Path) -> Result<Value, GraphError> {
    let foreign = || GraphError::Foreign { path: path.to_owned() };
    match std::fs::read_to_string(path) {
        Ok(text) if text.is_empty() => Ok(json!({ "runs": [] })),
        Ok(text) => {
            let figures = text.split_once(START).and_then(|(_, rest)| rest.split_once(END)).ok_or_else(foreign)?.0;
            let figures: Value = serde_json::from_str(figures).map_err(|_| foreign())?;
            if figures["runs"].is_array() { Ok(figures) } else { Err(foreign()) }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(json!({ "runs": [] })),
        Err(source) => Err(GraphError::File { path: path.to_owned(), source }),
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::time::Duration;

    use super::*;
    use crate::progress::Progress;
    use crate::tally::Tally;

    fn outcome() -> Outcome {
        let mut progress = Progress::new(vec!["</script>".into()]);
        let mut tally = Tally::new(1);
        (0..500).for_each(|_| tally.succeeded(0, 2_000, 1, 1));
        progress.add(&crate::driver::Counted { tally: Some(tally), until: Duration::from_secs(1) });
        progress.lines(Duration::from_secs(1));
        progress.finish(Duration::from_secs(1))
    }

    fn scratch(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("helenus-stress-{}-{name}.html", std::process::id()))
    }

    #[test]
    fn runs_gather_in_one_page() {
        let path = scratch("gather");
        let graph = Graph { file: path.clone(), title: None, revision: "r1".into(), operation: None };
        let arguments = Arguments::of("write n=5 -rate threads=1");
        check(&path).unwrap();
        assert!(!path.exists(), "a check leaves nothing behind");
        let names = ["</script>".to_owned()];
        add(&graph, &arguments, &names, &[(1, &outcome())]).unwrap();
        add(&Graph { revision: "r2".into(), ..graph }, &arguments, &names, &[(4, &outcome()), (8, &outcome())])
            .unwrap();
        check(&path).unwrap();
        let figures = read(&path).unwrap();
        let revisions: Vec<&str> =
            figures["runs"].as_array().unwrap().iter().map(|run| run["revision"].as_str().unwrap()).collect();
        assert_eq!(revisions, ["r1", "r2 - 4 threads", "r2 - 8 threads"]);
        let run = &figures["runs"][0];
        assert_eq!((run["test"].as_str(), run["command"].as_str()), (Some("WRITE"), Some("write n=5 -rate threads=1")));
        assert_eq!((run["intervals"][0][1].as_f64(), run["intervals"][0][4].as_f64()), (Some(500.0), Some(2.0)));
        assert_eq!(
            (run["latency"]["median_us"].as_u64(), run["latency"]["max_us"].as_u64()),
            (Some(2_000), Some(2_000))
        );
        assert!(run["summary"]["op rate"].as_str().unwrap().starts_with("500 op/s"), "{}", run["summary"]);
        assert_eq!(figures["metrics"].as_array().unwrap().len(), run["intervals"][0].as_array().unwrap().len());
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_page_needs_nothing_from_elsewhere() {
        assert!(PAGE.split_once(START).unwrap().1.contains(END));
        for outside in ["src=", "href=", "@import", "fetch(", "XMLHttpRequest", "url("] {
            assert!(!PAGE.contains(outside), "{outside}");
        }
        assert_eq!(PAGE.matches("http").count(), PAGE.matches("http://www.w3.org/2000/svg").count());
    }

    #[test]
    fn other_files_stay_as_they_are() {
        let path = scratch("foreign");
        std::fs::write(&path, "<html>mine</html>").unwrap();
        assert!(matches!(check(&path), Err(GraphError::Foreign { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "<html>mine</html>");
        std::fs::remove_file(&path).unwrap();
        let error = check(Path::new("/nonexistent/x.html")).unwrap_err().to_string();
        assert!(error.contains("/nonexistent/x.html"), "{error}");
    }
}
