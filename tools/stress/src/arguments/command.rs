//! The command and its own words.

use std::path::PathBuf;

use helenus::protocol::Consistency;

use super::words::Place;
use super::{Basic, Command, Truncate, Until, UsageError, User};
use crate::distribution::Distribution;
use crate::numbers;

/// Keys have so many bytes at most.
const KEY_BYTES_MAX: usize = 1024;

/// What a command and its words say; `None` where they say nothing.
#[derive(Debug)]
pub struct CommandWords {
    pub command: Command,
    pub until: Option<Until>,
    pub consistency: Option<Consistency>,
    pub warmup: bool,
    pub truncate: Option<Truncate>,
    pub clustering: Option<Distribution>,
    pub add: Option<Distribution>,
    pub key_bytes: Option<usize>,
}

/// What several words make up together.
#[derive(Default)]
struct Gathered {
    ratios: Option<Vec<(Basic, f64)>>,
    operations: Option<Vec<(String, f64)>>,
    profiles: Option<Vec<PathBuf>>,
    error: Option<f64>,
    min: Option<u32>,
    max: Option<u32>,
}

/// Whether an operation of a profile inserts.
pub fn is_insert(operation: &str) -> bool {
    operation.rsplit('.').next().is_some_and(|name| name.eq_ignore_ascii_case("insert"))
}

impl CommandWords {
    /// Reads the words of the command of this name, which is known and in lower case.
    pub fn parse(name: &str, words: &[String]) -> Result<CommandWords, UsageError> {
        let mut read = CommandWords {
            command: Command::Mixed(Vec::new()),
            until: None,
            consistency: None,
            warmup: true,
            truncate: None,
            clustering: None,
            add: None,
            key_bytes: None,
        };
        let mut gathered = Gathered::default();
        for word in words {
            let place = Place { group: name, word };
            let known = read.word_of_all(place)?
                || match name {
                    "user" => user_word(place, &mut read.clustering, &mut gathered)?,
                    "mixed" => read.word_of_basic(place)? || mixed_word(place, &mut read.clustering, &mut gathered)?,
                    _ => read.word_of_basic(place)?,
                }
                || uncertainty_word(place, &mut gathered)?;
            if !known {
                return Err(place.unknown());
            }
        }
        if let Some(converged) = gathered.converged()?
            && read.until.replace(converged).is_some()
        {
            return Err(UsageError::Combination("err<, n> and n< exclude n= and duration="));
        }
        read.command = gathered.command(name)?;
        Ok(read)
    }

    /// Takes a word that all commands have. Whether it is one.
    fn word_of_all(&mut self, place: Place<'_>) -> Result<bool, UsageError> {
        if let Some(value) = place.after("n=") {
            let count = numbers::count(value).ok_or_else(|| place.bad("a number"))?;
            self.set_until(Until::Operations(count))?;
        } else if let Some(value) = place.after("duration=") {
            let duration = numbers::duration(value).ok_or_else(|| place.bad("a number with s, m, h or d"))?;
            self.set_until(Until::Duration(duration))?;
        } else if let Some(value) = place.after("cl=") {
            let level = value.to_ascii_uppercase().parse().map_err(|_| place.bad("a consistency level"))?;
            place.once(&mut self.consistency, level)?;
        } else if place.is("no-warmup") {
            self.warmup = false;
        } else if let Some(value) = place.after("truncate=") {
            let when = match value.to_ascii_lowercase().as_str() {
                "never" => Truncate::Never,
                "once" => Truncate::Once,
                "always" => Truncate::Always,
                _ => return Err(place.bad("never, once or always")),
            };
            place.once(&mut self.truncate, when)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// Takes a word of the commands on the tool's own tables. Whether it is one.
    fn word_of_basic(&mut self, place: Place<'_>) -> Result<bool, UsageError> {
        if let Some(value) = place.after("add=") {
            place.once(&mut self.add, place.distribution(value)?)?;
        } else if let Some(value) = place.after("keysize=") {
            let bytes = value.parse().ok().filter(|bytes| (1..=KEY_BYTES_MAX).contains(bytes));
            place.once(&mut self.key_bytes, bytes.ok_or_else(|| place.bad("a number of bytes from 1 to 1024"))?)?;
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn set_until(&mut self, until: Until) -> Result<(), UsageError> {
        match self.until.replace(until) {
            None => Ok(()),
            Some(_) => Err(UsageError::Twice("n= or duration=".into())),
        }
    }
}

fn clustering_word(place: Place<'_>, clustering: &mut Option<Distribution>) -> Result<bool, UsageError> {
    let Some(value) = place.after("clustering=") else { return Ok(false) };
    let distribution = place.distribution(value)?;
    if distribution.min() < 1 {
        return Err(place.bad("a distribution of numbers above 0"));
    }
    place.once(clustering, distribution)?;
    Ok(true)
}

fn mixed_word(
    place: Place<'_>,
    clustering: &mut Option<Distribution>,
    gathered: &mut Gathered,
) -> Result<bool, UsageError> {
    let Some(parts) = place.parts("ratio") else { return clustering_word(place, clustering) };
    let bad = || place.bad("ratio(write=W,read=R,…) of write, read, counter_write and counter_read");
    let mut ratios = Vec::new();
    for (name, weight) in weights(&parts).ok_or_else(bad)? {
        let basic = Basic::of_command(&name.to_ascii_lowercase()).ok_or_else(bad)?;
        if ratios.iter().any(|(known, _)| *known == basic) {
            return Err(UsageError::Twice(format!("{name} of ratio(…)")));
        }
        ratios.push((basic, weight));
    }
    ratios.retain(|(_, weight)| *weight > 0.0);
    if ratios.is_empty() {
        return Err(bad());
    }
    place.once(&mut gathered.ratios, ratios)?;
    Ok(true)
}

fn user_word(
    place: Place<'_>,
    clustering: &mut Option<Distribution>,
    gathered: &mut Gathered,
) -> Result<bool, UsageError> {
    if let Some(value) = place.after("profile=") {
        let profiles: Vec<PathBuf> = value.split(',').map(PathBuf::from).collect();
        if profiles.iter().any(|path| path.as_os_str().is_empty()) {
            return Err(place.bad("a file, or several parted by commas"));
        }
        place.once(&mut gathered.profiles, profiles)?;
        return Ok(true);
    }
    let Some(parts) = place.parts("ops") else { return clustering_word(place, clustering) };
    let bad = || place.bad("ops(OPERATION=HOW OFTEN,…)");
    let mut operations: Vec<(String, f64)> = Vec::new();
    for (name, weight) in weights(&parts).ok_or_else(bad)? {
        if operations.iter().any(|(known, _)| known == name) {
            return Err(UsageError::Twice(format!("{name} of ops(…)")));
        }
        operations.push((name.to_owned(), weight));
    }
    operations.retain(|(_, weight)| *weight > 0.0);
    if operations.is_empty() {
        return Err(bad());
    }
    place.once(&mut gathered.operations, operations)?;
    Ok(true)
}

/// Names with their weights.
fn weights<'a>(parts: &[&'a str]) -> Option<Vec<(&'a str, f64)>> {
    let weight = |part: &&'a str| {
        let (name, weight) = part.split_once('=')?;
        let weight = weight.parse::<f64>().ok().filter(|weight| weight.is_finite() && *weight >= 0.0)?;
        (!name.is_empty()).then_some((name, weight))
    };
    parts.iter().map(weight).collect()
}

/// Takes a word of a run that ends when its rate is known well enough. Whether it is one.
fn uncertainty_word(place: Place<'_>, gathered: &mut Gathered) -> Result<bool, UsageError> {
    if let Some(value) = place.after("err<") {
        let error = value.parse::<f64>().ok().filter(|error| (0.0..1.0).contains(error) && *error > 0.0);
        place.once(&mut gathered.error, error.ok_or_else(|| place.bad("a share between 0 and 1"))?)?;
        return Ok(true);
    }
    for (name, slot) in [("n>", &mut gathered.min), ("n<", &mut gathered.max)] {
        if let Some(value) = place.after(name) {
            let count = value.parse().ok().filter(|count| *count > 0);
            place.once(slot, count.ok_or_else(|| place.bad("a number of intervals"))?)?;
            return Ok(true);
        }
    }
    Ok(false)
}

impl Gathered {
    fn converged(&self) -> Result<Option<Until>, UsageError> {
        if self.error.is_none() && self.min.is_none() && self.max.is_none() {
            return Ok(None);
        }
        let (error, min, max) = (self.error.unwrap_or(0.02), self.min.unwrap_or(30), self.max.unwrap_or(200));
        if min > max {
            return Err(UsageError::Combination("n> is more than n<: no run has so many intervals"));
        }
        Ok(Some(Until::Converged { error, min, max }))
    }

    fn command(self, name: &str) -> Result<Command, UsageError> {
        match name {
            "mixed" => Ok(Command::Mixed(self.ratios.unwrap_or_else(|| vec![(Basic::Read, 1.0), (Basic::Write, 1.0)]))),
            "user" => match (self.profiles, self.operations) {
                (Some(profiles), Some(operations)) => Ok(Command::User(User { profiles, operations })),
                (None, _) => Err(UsageError::Combination("`user` needs profile=FILE")),
                (_, None) => Err(UsageError::Combination("`user` needs ops(OPERATION=HOW OFTEN,…)")),
            },
            basic => {
                Basic::of_command(basic).map(Command::Basic).ok_or_else(|| UsageError::UnknownCommand(basic.to_owned()))
            }
        }
    }
}
