//! Reading everything from a damaged directory, and what to make of the answers.

use super::damage::{Flip, Kind};
use crate::cql::{Connection, CqlFailure, Row};

/// Something that is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub text: String,
    pub page_size: i32,
    /// Asks for the rows that only the log holds.
    pub tail: bool,
}

/// What came of one: rows, perhaps not all of them, and the error that ended them.
#[derive(Debug)]
pub struct Reading {
    pub rows: Vec<Row>,
    pub error: Option<CqlFailure>,
}

/// Asks everything. A question that fails does not keep the others from being asked.
pub fn read(connection: &mut Connection, questions: &[Question]) -> Vec<Reading> {
    let ask = |question: &Question| {
        let mut rows = Vec::new();
        let outcome = connection.for_each_page(&question.text, question.page_size, |page| rows.extend(page));
        Reading { rows, error: outcome.err() }
    };
    questions.iter().map(ask).collect()
}

/// What a flip may lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Every answer was right.
    Right,
    /// Every answer was right, but for the end of the log that was not known to be synced.
    TailCut,
    /// The server did not start, and named file and offset.
    Refused,
    /// Some answers were errors that name file and offset, the others were right.
    ReadError,
}

/// What a flip must not lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The server was ended by a signal, or ended after it was ready.
    Crashed(String),
    /// An error that names no file, or no place in it.
    Unnamed(String),
    /// A row that is not right.
    Wrong(String),
    /// A row is not there, and no error says why.
    Missing(String),
    /// No answer.
    Hangs(String),
}

impl Fault {
    pub fn name(&self) -> &'static str {
        match self {
            Fault::Crashed(_) => "crashed",
            Fault::Unnamed(_) => "unnamed",
            Fault::Wrong(_) => "wrong",
            Fault::Missing(_) => "missing",
            Fault::Hangs(_) => "hangs",
        }
    }

    pub fn what(&self) -> &str {
        match self {
            Fault::Crashed(what)
            | Fault::Unnamed(what)
            | Fault::Wrong(what)
            | Fault::Missing(what)
            | Fault::Hangs(what) => what,
        }
    }
}

/// Judges all answers. `tail_rows_lost_max` is how many rows a cut of the log may take.
pub fn judge(
    questions: &[Question],
    right: &[Vec<Row>],
    readings: &[Reading],
    flip: &Flip,
    tail_rows_lost_max: usize,
) -> Result<Verdict, Fault> {
    let mut verdict = Verdict::Right;
    for ((question, right), reading) in questions.iter().zip(right).zip(readings) {
        match &reading.error {
            Some(error) => {
                starts_with(question, right, &reading.rows)?;
                judge_error(question, error, flip)?;
                verdict = Verdict::ReadError;
            }
            None if reading.rows == *right => {}
            None => {
                starts_with(question, right, &reading.rows)?;
                let lost = right.len() - reading.rows.len();
                if !question.tail || flip.kind != Kind::Log || lost > tail_rows_lost_max {
                    return Err(Fault::Missing(format!("{}: {lost} of {} rows", question.text, right.len())));
                }
                if verdict == Verdict::Right {
                    verdict = Verdict::TailCut;
                }
            }
        }
    }
    Ok(verdict)
}

/// What came before an error must be right as far as it goes.
fn starts_with(question: &Question, right: &[Row], rows: &[Row]) -> Result<(), Fault> {
    let different = right.iter().zip(rows).position(|(right, row)| right != row);
    if let Some(at) = different {
        let shown = format!("{}: row {at} is {:?}, not {:?}", question.text, rows[at], right[at]);
        let missing = !right.contains(&rows[at]);
        return Err(if missing { Fault::Wrong(shown) } else { Fault::Missing(shown) });
    }
    if rows.len() > right.len() {
        return Err(Fault::Wrong(format!("{}: {} rows, not {}", question.text, rows.len(), right.len())));
    }
    Ok(())
}

fn judge_error(question: &Question, error: &CqlFailure, flip: &Flip) -> Result<(), Fault> {
    let told = format!("{}: {error}", question.text);
    match error {
        CqlFailure::Refused { message, .. } if names_place(message, flip) => Ok(()),
        CqlFailure::Refused { .. } => Err(Fault::Unnamed(told)),
        CqlFailure::Gone(_) => Err(Fault::Crashed(told)),
        CqlFailure::Hangs => Err(Fault::Hangs(told)),
        CqlFailure::Nonsense(_) => Err(Fault::Wrong(told)),
    }
}

/// Whether a text names the flipped file, and a place in a file.
pub fn names_place(text: &str, flip: &Flip) -> bool {
    let name = flip.file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    text.contains(&name) && ["byte", "offset"].iter().any(|word| followed_by_number(text, word))
}

/// Whether `word` stands in the text with a number after it, as in `byte 17` or `offset_bytes=17`.
fn followed_by_number(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let rest = text[at + word.len()..].trim_start_matches(|c: char| c.is_ascii_alphabetic() || " _=:".contains(c));
        rest.starts_with(|c: char| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use helenus::protocol::ErrorCode;

    use super::*;

    fn flip(kind: Kind) -> Flip {
        Flip { kind, file: PathBuf::from("sstables/sst-1-0-3.db"), offset_bytes: 17, from: 1, to: 2 }
    }

    fn rows(values: &[u8]) -> Vec<Row> {
        values.iter().map(|value| vec![Some(vec![*value])]).collect()
    }

    fn refused(message: &str) -> Option<CqlFailure> {
        Some(CqlFailure::Refused { code: ErrorCode::ServerError, message: message.to_owned() })
    }

    /// The verdict on one answer where 1, 2, 3 is right.
    fn check(kind: Kind, tail: bool, got: &[u8], error: Option<CqlFailure>) -> Result<Verdict, &'static str> {
        let question = Question { text: "SELECT".to_owned(), page_size: 2, tail };
        let reading = Reading { rows: rows(got), error };
        judge(&[question], &[rows(&[1, 2, 3])], &[reading], &flip(kind), 1).map_err(|fault| fault.name())
    }

    #[test]
    fn right_answers_and_named_errors_are_well() {
        let named = "sst-1-0-3.db is damaged at byte 4096: checksum";
        assert_eq!(check(Kind::Sstable, false, &[1, 2, 3], None), Ok(Verdict::Right));
        assert_eq!(check(Kind::Sstable, false, &[], refused(named)), Ok(Verdict::ReadError));
        assert_eq!(check(Kind::Sstable, false, &[1, 2], refused(named)), Ok(Verdict::ReadError));
    }

    #[test]
    fn silence_and_wrong_rows_are_faults() {
        assert_eq!(check(Kind::Sstable, false, &[1, 2], None), Err("missing"));
        assert_eq!(check(Kind::Sstable, false, &[1, 3], None), Err("missing"));
        assert_eq!(check(Kind::Sstable, false, &[1, 9, 3], None), Err("wrong"));
        assert_eq!(check(Kind::Sstable, false, &[1, 2, 3, 4], None), Err("wrong"));
        assert_eq!(check(Kind::Sstable, false, &[1, 9], refused("sst-1-0-3.db at byte 1")), Err("wrong"));
        assert_eq!(check(Kind::Sstable, false, &[], refused("damaged")), Err("unnamed"));
        assert_eq!(check(Kind::Sstable, false, &[], Some(CqlFailure::Hangs)), Err("hangs"));
        let gone = Some(CqlFailure::Gone(std::io::ErrorKind::UnexpectedEof.into()));
        assert_eq!(check(Kind::Sstable, false, &[], gone), Err("crashed"));
    }

    #[test]
    fn only_the_end_of_the_log_may_be_cut() {
        assert_eq!(check(Kind::Log, true, &[1, 2], None), Ok(Verdict::TailCut));
        assert_eq!(check(Kind::Log, true, &[1], None), Err("missing"));
        assert_eq!(check(Kind::Log, false, &[1, 2], None), Err("missing"));
        assert_eq!(check(Kind::Sstable, true, &[1, 2], None), Err("missing"));
    }

    #[test]
    fn a_place_is_a_file_and_a_number() {
        for (text, named) in [
            ("/d/sst-1-0-3.db is damaged at byte 4096: x", true),
            ("corruption in sst-1-0-3.db at offset 12", true),
            ("file=sst-1-0-3.db offset_bytes=12", true),
            ("sst-1-0-3.db is damaged", false),
            ("sst-1-0-4.db is damaged at byte 4096", false),
            ("sst-1-0-3.db: some bytes are damaged", false),
        ] {
            assert_eq!(names_place(text, &flip(Kind::Sstable)), named, "{text}");
        }
    }
}
