//! The command line, cassandra-stress's: a command with its words, then groups of words that each begin with a dash.

mod command;
mod groups;
mod help;
mod words;

use std::path::PathBuf;
use std::time::Duration;

use helenus::protocol::{Compression, Consistency, ProtocolVersion};

use crate::distribution::{Distribution, DistributionError, Ratio};
use crate::population::Population;
use command::CommandWords;
pub use help::USAGE;

/// What is wrong with a command line.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    #[error("a command is needed")]
    NoCommand,
    #[error("unknown command `{0}`")]
    UnknownCommand(String),
    #[error("`{0}` is not there yet")]
    NotYet(String),
    #[error("unknown option `{0}`")]
    UnknownGroup(String),
    #[error("`{word}` means nothing to `{group}`")]
    UnknownWord { group: String, word: String },
    #[error("`{word}` of `{group}`: {expected} is expected")]
    BadValue { group: String, word: String, expected: &'static str },
    #[error("`{word}` of `{group}`: {source}")]
    Distribution { group: String, word: String, source: DistributionError },
    #[error("`{0}` is given twice")]
    Twice(String),
    #[error("the nodes' file {path}: {problem}")]
    NodeFile { path: String, problem: String },
    #[error("{0}")]
    Combination(&'static str),
}

/// The operations on the tables that the tool makes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basic {
    Write,
    Read,
    CounterWrite,
    CounterRead,
}

impl Basic {
    /// As progress and summary call it.
    pub fn name(self) -> &'static str {
        match self {
            Basic::Write => "WRITE",
            Basic::Read => "READ",
            Basic::CounterWrite => "COUNTER_WRITE",
            Basic::CounterRead => "COUNTER_READ",
        }
    }

    pub fn is_write(self) -> bool {
        matches!(self, Basic::Write | Basic::CounterWrite)
    }

    /// The operation of a command's name or alias, in lower case.
    fn of_command(name: &str) -> Option<Basic> {
        Some(match name {
            "write" | "insert" => Basic::Write,
            "read" => Basic::Read,
            "counter_write" | "counterwrite" | "counter_add" | "counteradd" => Basic::CounterWrite,
            "counter_read" | "counterread" | "counter_get" | "counterget" => Basic::CounterRead,
            _ => return None,
        })
    }
}

/// What the operations are.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Basic(Basic),
    /// Several, each so often.
    Mixed(Vec<(Basic, f64)>),
    User(User),
}

/// A run of what profiles describe.
#[derive(Clone, Debug, PartialEq)]
pub struct User {
    pub profiles: Vec<PathBuf>,
    /// `insert` or the name of a query, in the profile named before its last dot or in the first, and how often.
    pub operations: Vec<(String, f64)>,
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Until {
    /// So many partitions were visited: as many as operations, where each visits one.
    Operations(u64),
    Duration(Duration),
    /// The rates of `min` intervals at least have a mean whose standard error is below this share of it; after `max`
    /// intervals whatever it is.
    Converged {
        error: f64,
        min: u32,
        max: u32,
    },
}

/// Requests in flight, over all connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    Exactly(usize),
    /// One run after the other, with more each; with `auto` until that gains nothing.
    Growing {
        from: usize,
        to: usize,
        auto: bool,
    },
}

/// How fast operations come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// As soon as others are answered.
    Unlimited,
    /// At most so many a second; latency counts from sending.
    Throttle(f64),
    /// So many a second; latency counts from when each was due.
    Fixed(f64),
}

/// When tables are emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Truncate {
    Never,
    /// After the warm-up.
    Once,
    /// Before every run of several.
    Always,
}

/// In which order a partition's rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Always the same.
    Arbitrary,
    Sorted,
    Shuffled,
}

/// What is made sure of about the rows that a read gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    Nothing,
    /// There is one row.
    Present,
    /// It holds, byte for byte, what is written there.
    Bytes,
}

/// The columns of the tool's own tables.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    pub names: Vec<String>,
    pub size: Distribution,
    /// Read whole rows rather than columns by name.
    pub slice: bool,
    /// Written with each cell, in microseconds.
    pub timestamp: Option<i64>,
}

/// What the command line says of inserts, where a profile says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inserts {
    pub partitions: Option<Distribution>,
    pub select: Option<Ratio>,
    pub row_population: Option<Ratio>,
    /// LOGGED, UNLOGGED or COUNTER.
    pub batch_type: Option<String>,
}

/// The keyspace and the tables that the tool makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Schema {
    pub keyspace: String,
    pub strategy: String,
    /// In the order given; `replication_factor` among them.
    pub replication: Vec<(String, String)>,
    pub compression: Option<String>,
    pub compaction: Option<(String, Vec<(String, String)>)>,
}

/// How the server is spoken to.
#[derive(Clone, Debug, PartialEq)]
pub struct Mode {
    /// Given, or tried from the newest down.
    pub version: Option<ProtocolVersion>,
    pub prepared: bool,
    pub compression: Option<Compression>,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Connections to each node; by default eight, or one for each shard where those are more.
    pub connections: Option<usize>,
    /// Requests in flight on each.
    pub pending: Option<usize>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    pub file: Option<PathBuf>,
    pub interval: Duration,
    pub summary: bool,
    pub settings: bool,
    /// Failures are told as they come.
    pub failures: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    pub file: PathBuf,
    pub title: Option<String>,
    pub revision: String,
    pub operation: Option<String>,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    /// As it was given, but for a password.
    pub line: String,
    pub command: Command,
    pub until: Until,
    pub consistency: Consistency,
    pub warmup: bool,
    pub truncate: Truncate,
    /// How many operations of a kind come after each other, where there are several kinds.
    pub clustering: Distribution,
    /// What is added to counters.
    pub add: Distribution,
    pub key_bytes: usize,
    pub threads: Threads,
    pub rate: Rate,
    /// Hosts with their ports.
    pub nodes: Vec<(String, u16)>,
    pub population: Population,
    pub order: Order,
    pub columns: Columns,
    pub inserts: Inserts,
    pub schema: Schema,
    pub mode: Mode,
    pub retries: u32,
    pub ignore_errors: bool,
    pub validation: Validation,
    pub log: Log,
    pub graph: Option<Graph>,
    /// The cores that send; by default half of the allowed ones.
    pub cores: Option<Vec<usize>>,
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    Run(Box<Arguments>),
    Help,
    Version,
}

/// Commands and options of cassandra-stress that are known here and refused.
const COMMANDS_NOT_YET: [&str; 2] = ["print", "legacy"];
const GROUPS_NOT_YET: [&str; 7] =
    ["-transport", "-tokenrange", "-credentials-file", "-reporting", "-jmx", "-sample", "-sendto"];
const GROUPS: [&str; 13] = [
    "-rate", "-node", "-port", "-pop", "-mode", "-schema", "-errors", "-log", "-col", "-insert", "-graph", "-verify",
    "-cores",
];

/// Partitions that are drawn from, unless told: cassandra-stress's million.
const PARTITIONS_DEFAULT: u64 = 1_000_000;
/// Requests in flight at most.
const THREADS_MAX: usize = 1 << 16;
/// cassandra-stress's threads of a write.
const THREADS_OF_WRITES: usize = 200;

impl Arguments {
    /// The arguments of a run, from words parted by spaces.
    #[cfg(test)]
    pub fn of(line: &str) -> Arguments {
        match Arguments::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()) {
            Ok(Parsed::Run(arguments)) => *arguments,
            other => panic!("{line}: {other:?}"),
        }
    }

    /// Reads the words after the program's name.
    pub fn parse(given: &[String]) -> Result<Parsed, UsageError> {
        let words = words::repair(given);
        let Some((name, rest)) = words.split_first() else { return Err(UsageError::NoCommand) };
        let command = match name.to_ascii_lowercase().as_str() {
            "help" | "-h" | "-?" | "--help" => return Ok(Parsed::Help),
            "version" | "-v" | "--version" => return Ok(Parsed::Version),
            known if COMMANDS_NOT_YET.contains(&known) => return Err(UsageError::NotYet(known.into())),
            "mixed" | "user" => name.to_ascii_lowercase(),
            basic if Basic::of_command(basic).is_some() => name.to_ascii_lowercase(),
            _ => return Err(UsageError::UnknownCommand(name.clone())),
        };
        let line = words::without_password(given);
        let (own, groups) = words::grouped(rest)?;
        let own = CommandWords::parse(&command, &own)?;
        finish(own, &groups, line).map(|arguments| Parsed::Run(Box::new(arguments)))
    }

    /// The connections to each node, unless told.
    pub const CONNECTIONS_DEFAULT: usize = 8;

    /// Whether the operations change data: their tables are made where they are missing.
    pub fn writes(&self) -> bool {
        match &self.command {
            Command::Basic(basic) => basic.is_write(),
            Command::Mixed(ratios) => ratios.iter().any(|(basic, _)| basic.is_write()),
            Command::User(_) => true,
        }
    }
}

/// Puts command and groups together, with the defaults that depend on each other.
fn finish(own: CommandWords, groups: &words::Groups, line: String) -> Result<Arguments, UsageError> {
    let until = own.until.unwrap_or(Until::Converged { error: 0.02, min: 30, max: 200 });
    let partitions = match until {
        Until::Operations(count) if count > 0 => count,
        _ => PARTITIONS_DEFAULT,
    };
    let only_writes = match &own.command {
        Command::Basic(basic) => basic.is_write(),
        Command::Mixed(_) => false,
        Command::User(user) => user.operations.iter().all(|(name, _)| command::is_insert(name)),
    };
    let default_population = || {
        if only_writes {
            Population::sequence(1..=partitions)
        } else {
            Population::Drawn(Distribution::gaussian(1, i64::try_from(partitions).unwrap_or(i64::MAX)))
        }
    };
    let (threads, rate) = groups::rate(groups)?;
    let threads = threads.unwrap_or_else(|| match (&own.command, until) {
        (Command::Basic(basic), Until::Operations(_)) if basic.is_write() => Threads::Exactly(THREADS_OF_WRITES),
        _ => Threads::Growing { from: 4, to: 1000, auto: true },
    });
    let (population, order) = groups::population(groups)?;
    if matches!(own.command, Command::User(_)) && groups.contains_key("-schema") {
        return Err(UsageError::Combination("-schema goes with the tool's own tables; a profile has its own"));
    }
    let (retries, ignore_errors, skips_validation) = groups::errors(groups)?;
    let validation = match (groups::verify(groups)?, skips_validation) {
        (true, true) => return Err(UsageError::Combination("-verify and skip-read-validation exclude each other")),
        (true, false) if !reads_rows(&own.command) => {
            return Err(UsageError::Combination("-verify compares what `read` reads: nothing here does"));
        }
        (true, false) => Validation::Bytes,
        (false, true) => Validation::Nothing,
        (false, false) => Validation::Present,
    };
    Ok(Arguments {
        line,
        until,
        consistency: own.consistency.unwrap_or(Consistency::LocalOne),
        warmup: own.warmup,
        truncate: own.truncate.unwrap_or(Truncate::Never),
        clustering: own.clustering.unwrap_or_else(|| Distribution::gaussian(1, 10)),
        add: own.add.unwrap_or_else(|| Distribution::fixed(1)),
        key_bytes: own.key_bytes.unwrap_or(crate::row::KEY_BYTES),
        threads,
        rate,
        nodes: groups::nodes(groups)?,
        population: population.unwrap_or_else(default_population),
        order,
        columns: groups::columns(groups)?,
        inserts: groups::inserts(groups)?,
        schema: groups::schema(groups)?,
        mode: groups::mode(groups)?,
        retries,
        ignore_errors,
        validation,
        log: groups::log(groups)?,
        graph: groups::graph(groups)?,
        cores: groups::cores(groups)?,
        command: own.command,
    })
}

fn reads_rows(command: &Command) -> bool {
    match command {
        Command::Basic(basic) => *basic == Basic::Read,
        Command::Mixed(ratios) => ratios.iter().any(|(basic, _)| *basic == Basic::Read),
        Command::User(_) => false,
    }
}

#[cfg(test)]
mod tests;
