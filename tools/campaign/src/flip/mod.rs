//! `helenus-campaign flip`: one byte of one file of a data directory is flipped, and everything is read.
//!
//! Two directories are built once: one left by a clean stop, one by kill -9. Each round copies one of them, flips a
//! byte (every kind of file in its turn, the place by seed), starts the server, and reads everything; in some rounds it
//! compacts, and reads everything again. Each answer must be right, or an error that names file and offset, at the
//! start or on the read. Excepted is what a server that was killed had not yet recorded as synced: the last write.

mod base;
mod damage;
mod judge;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitStatus;

use serde_json::{Map, Value};

use crate::admin;
use crate::cql::{Connection, Row};
use crate::dice::Dice;
use crate::outcome::Outcome;
use crate::scratch::Scratch;
use crate::server::{Server, ServerError};
use base::Ending;
use damage::{Flip, Kind};
use judge::{Fault, Question, Verdict};

/// More than this is one fault told many times.
const FAULTS_MAX: usize = 20;

#[derive(clap::Args)]
pub struct Arguments {
    /// How many bytes are flipped, one at a time.
    #[arg(long, default_value_t = 200)]
    rounds: u64,
    /// Fixes the rows, and each round's file, place and value.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The first round; a round chooses the same whatever went before it.
    #[arg(long, default_value_t = 0)]
    first: u64,
}

/// Runs the campaign.
pub fn run(arguments: &Arguments) -> Outcome {
    let mut outcome = Outcome::new("flip");
    let dice = Dice::new(arguments.seed);
    let command = format!("helenus-campaign flip --seed {}", arguments.seed);
    let mut bases = Vec::new();
    for ending in [Ending::Clean, Ending::Killed] {
        match Base::build(ending, &dice) {
            Ok(base) => bases.push(base),
            Err(what) => outcome.fail(format!("building the directory ({ending:?}): {what}"), command.as_str()),
        }
    }
    let mut tally = Tally::default();
    let mut rounds = 0;
    if let [clean, killed] = bases.as_slice() {
        for round in arguments.first..arguments.first.saturating_add(arguments.rounds) {
            rounds += 1;
            let base = if round % 2 == 0 { clean } else { killed };
            match base.round(round, &dice) {
                Ok((flip, result)) => {
                    tally.count(flip.kind, &result);
                    if let Err(fault) = result {
                        let replay = format!("{command} --first {round} --rounds 1");
                        outcome.fail(base.tell(round, &flip, &fault), replay);
                    }
                }
                Err(what) => outcome.fail(format!("round {round}: {what}"), command.as_str()),
            }
            if tally.faults() >= FAULTS_MAX {
                break;
            }
        }
    }
    outcome.figure("rounds", rounds);
    outcome.figure("seed", arguments.seed);
    tally.show(&mut outcome);
    outcome
}

/// A directory, and what it answers when nothing is flipped.
struct Base {
    ending: Ending,
    scratch: Scratch,
    questions: Vec<Question>,
    right: Vec<Vec<Row>>,
}

impl Base {
    fn build(ending: Ending, dice: &Dice) -> Result<Base, String> {
        let scratch = Scratch::new("flip").map_err(|error| format!("no directory to work in: {error}"))?;
        base::build(scratch.path(), ending, &mut dice.part(u64::MAX))?;
        let mut base = Base { ending, scratch, questions: base::questions(), right: Vec::new() };
        damage::copy(&base.pristine(), &base.copy()).map_err(|error| error.to_string())?;
        let server = base.start().map_err(|error| error.to_string())?;
        let mut connection = Connection::open(server.ready().cql).map_err(|error| error.to_string())?;
        for (question, reading) in base.questions.iter().zip(judge::read(&mut connection, &base.questions)) {
            if let Some(error) = reading.error {
                return Err(format!("{}: {error}", question.text));
            }
            base.right.push(reading.rows);
        }
        let tail = base.questions.iter().zip(&base.right).find(|(question, _)| question.tail);
        if tail.is_none_or(|(_, rows)| rows.len() as u64 != u64::from(base::TAIL_ROWS.unsigned_abs())) {
            return Err(format!("the {} rows written last are not all there", base::TAIL_ROWS));
        }
        Ok(base)
    }

    fn pristine(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    /// Below it lies the copy's data directory.
    fn work(&self) -> PathBuf {
        self.scratch.path().join("work")
    }

    fn copy(&self) -> PathBuf {
        self.work().join("data")
    }

    fn start(&self) -> Result<Server, ServerError> {
        Server::start(&base::options(&self.work(), self.ending))
    }

    fn round(&self, round: u64, dice: &Dice) -> Result<(Flip, Result<Verdict, Fault>), String> {
        let mut dice = dice.part(round);
        let turn = usize::try_from(round / 2).unwrap_or_default() % Kind::TURN.len();
        let say = |error: std::io::Error| error.to_string();
        let flip = Flip::choose(&self.pristine(), Kind::TURN[turn], &mut dice).map_err(say)?;
        damage::copy(&self.pristine(), &self.copy()).map_err(say)?;
        // Of this round alone.
        std::fs::File::create(self.work().join("server.log")).map_err(say)?;
        flip.apply(&self.copy()).map_err(say)?;
        let (compact, stop) = (dice.one_in(4), dice.one_in(4));
        let result = self.start_and_read(&flip, compact, stop);
        Ok((flip, result))
    }

    fn start_and_read(&self, flip: &Flip, compact: bool, stop: bool) -> Result<Verdict, Fault> {
        let mut server = match self.start() {
            Ok(server) => server,
            Err(ServerError::Ended { status, tail, .. }) => return refused(status, &tail, flip),
            Err(error @ ServerError::NotReady { .. }) => return Err(Fault::Hangs(error.to_string())),
            Err(error) => return Err(Fault::Crashed(error.to_string())),
        };
        let mut verdict = self.read(&server, flip)?;
        if compact {
            match admin::post(server.ready().admin, "/compact?keyspace=flip") {
                Ok((200, _)) => {}
                Ok((_, body)) if judge::names_place(&body, flip) => verdict = Verdict::ReadError,
                Ok((status, body)) => return Err(Fault::Unnamed(format!("POST /compact: {status} {body}"))),
                Err(error) => return Err(Fault::Crashed(format!("POST /compact: {error}"))),
            }
            if self.read(&server, flip)? == Verdict::ReadError {
                verdict = Verdict::ReadError;
            }
        }
        if !server.is_running() {
            return Err(Fault::Crashed(format!("after everything was read; its log ends:\n{}", server.log_tail())));
        }
        if stop {
            match server.stop() {
                Ok(status) if status.success() => {}
                Ok(status) => return Err(Fault::Crashed(format!("after SIGTERM it ended with {status}"))),
                Err(error) => return Err(Fault::Hangs(error.to_string())),
            }
        }
        Ok(verdict)
    }

    fn read(&self, server: &Server, flip: &Flip) -> Result<Verdict, Fault> {
        let mut connection =
            Connection::open(server.ready().cql).map_err(|error| Fault::Crashed(format!("connecting: {error}")))?;
        let readings = judge::read(&mut connection, &self.questions);
        let tail_rows_lost_max = match self.ending {
            Ending::Clean => 0,
            Ending::Killed => 1,
        };
        judge::judge(&self.questions, &self.right, &readings, flip, tail_rows_lost_max)
    }

    /// The failure in words, with a directory of its own to look at.
    fn tell(&self, round: u64, flip: &Flip, fault: &Fault) -> String {
        let kept = Scratch::new("flipped").and_then(|mut kept| {
            kept.keep();
            let data = kept.path().join("data");
            damage::copy(&self.pristine(), &data)?;
            flip.apply(&data)?;
            Ok(data)
        });
        let kept = kept.map_or_else(|error| format!("(not kept: {error})"), |data| data.display().to_string());
        let (ending, name, what) = (self.ending, fault.name(), fault.what());
        format!("round {round} ({ending:?}): {flip}: {name}: {what}\n  directory: {kept}")
    }
}

/// The server did not start: by itself, and with a reason that names the place?
fn refused(status: ExitStatus, tail: &str, flip: &Flip) -> Result<Verdict, Fault> {
    let told = format!("it did not start ({status}):\n{tail}");
    match status.code() {
        None => Err(Fault::Crashed(told)),
        Some(0) => Err(Fault::Hangs(told)),
        Some(_) if judge::names_place(tail, flip) => Ok(Verdict::Refused),
        Some(_) => Err(Fault::Unnamed(told)),
    }
}

/// How often each kind of file led to what.
#[derive(Debug, Default)]
struct Tally {
    counts: BTreeMap<(Kind, &'static str), u64>,
    faults: BTreeMap<&'static str, u64>,
}

impl Tally {
    fn count(&mut self, kind: Kind, result: &Result<Verdict, Fault>) {
        let name = match result {
            Ok(Verdict::Right) => "right",
            Ok(Verdict::TailCut) => "tail_cut",
            Ok(Verdict::Refused) => "refused",
            Ok(Verdict::ReadError) => "read_error",
            Err(fault) => {
                *self.faults.entry(fault.name()).or_default() += 1;
                fault.name()
            }
        };
        *self.counts.entry((kind, name)).or_default() += 1;
    }

    fn faults(&self) -> usize {
        usize::try_from(self.faults.values().sum::<u64>()).unwrap_or(usize::MAX)
    }

    fn show(&self, outcome: &mut Outcome) {
        for kind in Kind::ALL {
            let of_kind = self.counts.iter().filter(|((other, _), _)| *other == kind);
            let counts: Map<String, Value> =
                of_kind.map(|((_, name), count)| ((*name).to_owned(), Value::from(*count))).collect();
            outcome.figure(kind.name(), counts);
        }
        for name in ["crashed", "unnamed", "wrong", "missing", "hangs"] {
            outcome.figure(name, self.faults.get(name).copied().unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn a_refusal_names_the_place_and_is_no_signal() {
        let flip = Flip { kind: Kind::Root, file: PathBuf::from("ROOT"), offset_bytes: 3, from: 0, to: 1 };
        let (exited, aborted) = (ExitStatus::from_raw(3 << 8), ExitStatus::from_raw(6));
        assert_eq!(refused(exited, "/d/ROOT is damaged at byte 16", &flip), Ok(Verdict::Refused));
        let name = |result: Result<Verdict, Fault>| result.map_err(|fault| fault.name());
        assert_eq!(name(refused(exited, "it is damaged", &flip)), Err("unnamed"));
        assert_eq!(name(refused(aborted, "/d/ROOT is damaged at byte 16", &flip)), Err("crashed"));
    }

    #[test]
    fn the_tally_counts_by_kind_and_faults_by_name() {
        let mut tally = Tally::default();
        tally.count(Kind::Log, &Ok(Verdict::Right));
        tally.count(Kind::Log, &Ok(Verdict::Right));
        tally.count(Kind::Root, &Err(Fault::Wrong("a row".into())));
        let mut outcome = Outcome::new("flip");
        tally.show(&mut outcome);
        let line = outcome.summary();
        assert_eq!(line["log"], serde_json::json!({ "right": 2 }));
        assert_eq!(line["root"], serde_json::json!({ "wrong": 1 }));
        assert_eq!((line["wrong"].clone(), line["missing"].clone()), (Value::from(1), Value::from(0)));
        assert_eq!(tally.faults(), 1);
    }
}
