//! Where progress and summary go: standard output, and the file of `-log`.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// A log file that cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("the log file {path}: {source}")]
pub struct LogError {
    path: PathBuf,
    source: io::Error,
}

pub struct Output {
    log: Option<(PathBuf, File)>,
}

impl Output {
    /// Creates the log file, where one is asked for.
    pub fn open(log: Option<&Path>) -> Result<Output, LogError> {
        let Some(path) = log else { return Ok(Output { log: None }) };
        match File::create(path) {
            Ok(file) => Ok(Output { log: Some((path.to_owned(), file)) }),
            Err(source) => Err(LogError { path: path.to_owned(), source }),
        }
    }

    /// Writes one line to both.
    pub fn line(&mut self, text: &str) -> Result<(), LogError> {
        println!("{text}");
        match &mut self.log {
            None => Ok(()),
            Some((path, file)) => writeln!(file, "{text}").map_err(|source| LogError { path: path.clone(), source }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn lines_go_to_the_log_file() {
        let path = std::env::temp_dir().join(format!("helenus-stress-{}.log", std::process::id()));
        let mut output = Output::open(Some(&path)).unwrap();
        output.line("one").unwrap();
        output.line("two").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_log_file_that_cannot_be_made_is_named() {
        let Err(error) = Output::open(Some(Path::new("/nonexistent/x.log"))) else { panic!("it was made") };
        assert!(error.to_string().contains("/nonexistent/x.log"));
    }
}
