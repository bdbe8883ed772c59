//! How a campaign ends: failures with the command that replays each, one line of figures, the exit status.

use std::io::Write;
use std::process::ExitCode;

use serde_json::{Map, Value, json};

/// One thing that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What was seen, in words; may span lines.
    pub what: String,
    /// The command that shows it again.
    pub replay: String,
}

/// What a campaign found, gathered while it runs.
#[derive(Debug)]
pub struct Outcome {
    campaign: &'static str,
    figures: Map<String, Value>,
    failures: Vec<Failure>,
}

impl Outcome {
    /// Nothing found yet.
    pub fn new(campaign: &'static str) -> Outcome {
        Outcome { campaign, figures: Map::new(), failures: Vec::new() }
    }

    /// Sets one figure of the last line; a name that was there before is overwritten.
    pub fn figure(&mut self, name: &str, value: impl Into<Value>) {
        self.figures.insert(name.to_owned(), value.into());
    }

    /// Records a failure and prints it at once, so that a campaign that is cut short has told what it knew.
    pub fn fail(&mut self, what: impl Into<String>, replay: impl Into<String>) {
        let failure = Failure { what: what.into(), replay: replay.into() };
        eprintln!("FAILED {}: {}\n  replay: {}", self.campaign, failure.what, failure.replay);
        self.failures.push(failure);
    }

    /// Whether nothing has failed so far.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// The object of the last line: `campaign`, `passed`, the figures in the order they were first set, `failures`.
    pub fn summary(&self) -> Value {
        let mut line = Map::new();
        line.insert("campaign".to_owned(), json!(self.campaign));
        line.insert("passed".to_owned(), json!(self.passed()));
        line.extend(self.figures.clone());
        let failures = self.failures.iter().map(|f| json!({ "what": f.what, "replay": f.replay })).collect();
        line.insert("failures".to_owned(), Value::Array(failures));
        Value::Object(line)
    }

    /// Prints the last line and gives the exit status.
    pub fn finish(self) -> ExitCode {
        println!("{}", self.summary());
        // A closed pipe must not turn a failure into success, nor the other way round.
        let _flushed = std::io::stdout().flush();
        if self.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_the_figures_in_order_and_no_failure() {
        let mut outcome = Outcome::new("clients");
        outcome.figure("rounds", 2);
        outcome.figure("checks", 40);
        outcome.figure("rounds", 3);
        assert!(outcome.passed());
        assert_eq!(
            outcome.summary().to_string(),
            r#"{"campaign":"clients","passed":true,"rounds":3,"checks":40,"failures":[]}"#
        );
    }

    #[test]
    fn a_failure_carries_its_replay_command() {
        let mut outcome = Outcome::new("clients");
        outcome.fail("gocql: paging: 99999 rows", "helenus-campaign clients --only gocql --seed 7");
        assert!(!outcome.passed());
        assert_eq!(outcome.summary()["failures"][0]["replay"], json!("helenus-campaign clients --only gocql --seed 7"));
        assert_eq!(outcome.summary()["passed"], json!(false));
    }
}
