//! The command line, cassandra-stress's: a command with its words, then groups of words that each begin with a dash.

use std::path::PathBuf;
use std::time::Duration;

use helenus::protocol::{Consistency, ProtocolVersion};

use crate::numbers;
use crate::population::Population;

pub const USAGE: &str = "\
usage: helenus-stress write|read|mixed [WORDS] -rate threads=N [GROUPS]

  write                        write rows
  read                         read rows
  mixed                        both; ratio(write=W,read=R) says how often each [default: 1 to 1]
  help                         this text

words after the command:
  n=N                          operations (K, M and B count)
  duration=N[s|m|h]            run for so long instead
  cl=LEVEL                     consistency level [default: LOCAL_ONE]
  ratio(write=W,read=R)        of mixed
  no-warmup                    count from the first operation

groups:
  -rate threads=N              requests in flight, over all connections
        [throttle=N/s]         at most so many operations a second
        [fixed=N/s]            exactly so many, latency counted from when each was due
  -node HOST                   [default: localhost]
  -port native=N               [default: 9042]
  -pop seq=FROM..TO            rows one after the other [default for write: 1..n]
  -pop dist=DISTRIBUTION       uniform(A..B), gaussian(A..B[,DEVIATIONS]), fixed(N)
                               [default for read and mixed: gaussian(1..n)]
  -mode [native] [cql3] [protocolVersion=4|5] [connectionsPerHost=N]
  -schema keyspace=NAME        [default: keyspace1]
  -errors [ignore] [retries=N] [default: 9 retries, and the run ends at the first failure]
  -log file=FILE [interval=Ns] also write progress and summary there
  -verify                      compare what is read, byte for byte";

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
    #[error("`{0}` is given twice")]
    Twice(String),
    #[error("{0}")]
    Combination(&'static str),
}

/// What the operations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    Write,
    Read,
    /// So many of each.
    Mixed {
        write: u64,
        read: u64,
    },
}

/// When a run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    Operations(u64),
    Duration(Duration),
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

/// A whole run.
#[derive(Clone, Debug, PartialEq)]
pub struct Arguments {
    pub command: Command,
    pub until: Until,
    pub consistency: Consistency,
    pub warmup: bool,
    pub threads: usize,
    pub rate: Rate,
    pub node: String,
    pub port: u16,
    pub population: Population,
    /// Given, or tried from the newest down.
    pub version: Option<ProtocolVersion>,
    pub connections: usize,
    pub keyspace: String,
    pub retries: u32,
    pub ignore_errors: bool,
    pub log: Option<PathBuf>,
    pub interval: Duration,
    pub verify: bool,
}

/// What a command line asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Parsed {
    Run(Box<Arguments>),
    Help,
}

/// Commands and options of cassandra-stress that are known here and refused.
const COMMANDS_NOT_YET: [&str; 6] = ["counter_write", "counter_read", "user", "print", "legacy", "version"];
const GROUPS_NOT_YET: [&str; 9] =
    ["-graph", "-insert", "-sample", "-transport", "-sendto", "-tokenrange", "-credentials-file", "-reporting", "-jmx"];

/// Rows that a read or a run by time draws from, unless told: cassandra-stress's million.
const ROWS_DEFAULT: u64 = 1_000_000;
/// cassandra-stress's number of connections to a host.
const CONNECTIONS_DEFAULT: usize = 8;
/// Streams of a connection that are used at most.
const THREADS_MAX: usize = 1 << 16;

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
    pub fn parse(words: &[String]) -> Result<Parsed, UsageError> {
        let mut draft = Draft::default();
        let mut words = words.iter().map(String::as_str);
        let command = words.next().ok_or(UsageError::NoCommand)?;
        draft.command = match command {
            "write" => Command::Write,
            "read" => Command::Read,
            "mixed" => Command::Mixed { write: 1, read: 1 },
            "help" | "-h" | "--help" => return Ok(Parsed::Help),
            known if COMMANDS_NOT_YET.contains(&known) => return Err(UsageError::NotYet(known.into())),
            unknown => return Err(UsageError::UnknownCommand(unknown.into())),
        };
        let mut group = command;
        for word in words {
            if word.starts_with('-') {
                group = word;
                draft.begin_group(group)?;
            } else if group == command {
                draft.command_word(group, word)?;
            } else {
                draft.group_word(group, word)?;
            }
        }
        draft.finish().map(|arguments| Parsed::Run(Box::new(arguments)))
    }
}

/// Arguments of which some are still to come.
struct Draft {
    command: Command,
    until: Option<Until>,
    consistency: Consistency,
    warmup: bool,
    threads: Option<usize>,
    rate: Rate,
    node: String,
    port: u16,
    population: Option<Population>,
    version: Option<ProtocolVersion>,
    connections: usize,
    keyspace: String,
    retries: u32,
    ignore_errors: bool,
    log: Option<PathBuf>,
    interval: Duration,
    verify: bool,
}

impl Default for Draft {
    fn default() -> Self {
        Draft {
            command: Command::Write,
            until: None,
            consistency: Consistency::LocalOne,
            warmup: true,
            threads: None,
            rate: Rate::Unlimited,
            node: "localhost".into(),
            port: 9042,
            population: None,
            version: None,
            connections: CONNECTIONS_DEFAULT,
            keyspace: "keyspace1".into(),
            retries: 9,
            ignore_errors: false,
            log: None,
            interval: Duration::from_secs(1),
            verify: false,
        }
    }
}

impl Draft {
    fn begin_group(&mut self, group: &str) -> Result<(), UsageError> {
        match group {
            "-rate" | "-node" | "-port" | "-pop" | "-mode" | "-schema" | "-errors" | "-log" | "-col" => Ok(()),
            "-verify" => {
                self.verify = true;
                Ok(())
            }
            known if GROUPS_NOT_YET.contains(&known) => Err(UsageError::NotYet(known.into())),
            unknown => Err(UsageError::UnknownGroup(unknown.into())),
        }
    }

    fn command_word(&mut self, group: &str, word: &str) -> Result<(), UsageError> {
        let bad = |expected| bad_value(group, word, expected);
        if let Some(value) = word.strip_prefix("n=") {
            let count = numbers::count(value).filter(|count| *count > 0).ok_or_else(|| bad("a number above 0"))?;
            return self.set_until(word, Until::Operations(count));
        }
        if let Some(value) = word.strip_prefix("duration=") {
            let duration = numbers::duration(value).ok_or_else(|| bad("a number with s, m or h"))?;
            return self.set_until(word, Until::Duration(duration));
        }
        if let Some(value) = word.strip_prefix("cl=") {
            self.consistency = value.to_ascii_uppercase().parse().map_err(|_| bad("a consistency level"))?;
            return Ok(());
        }
        match word {
            "no-warmup" => self.warmup = false,
            word if word.starts_with("ratio(") && matches!(self.command, Command::Mixed { .. }) => {
                self.command = ratio(word).ok_or_else(|| bad("ratio(write=W,read=R)"))?;
            }
            word if ["err<", "n>", "n<", "truncate=", "profile=", "ops("]
                .iter()
                .any(|known| word.starts_with(known)) =>
            {
                return Err(UsageError::NotYet(word.into()));
            }
            word => return Err(UsageError::UnknownWord { group: group.into(), word: word.into() }),
        }
        Ok(())
    }

    fn set_until(&mut self, word: &str, until: Until) -> Result<(), UsageError> {
        match self.until.replace(until) {
            None => Ok(()),
            Some(_) => Err(UsageError::Twice(format!("n= or duration= ({word})"))),
        }
    }

    fn group_word(&mut self, group: &str, word: &str) -> Result<(), UsageError> {
        match group {
            "-rate" => self.rate_word(word),
            "-mode" => self.mode_word(word),
            "-pop" => self.population_word(word),
            "-log" => self.log_word(word),
            "-errors" => self.errors_word(word),
            "-node" if word.contains(',') => Err(UsageError::NotYet(format!("-node {word} (several nodes)"))),
            "-node" if !word.contains('=') => {
                word.clone_into(&mut self.node);
                Ok(())
            }
            "-port" => {
                let port = word.strip_prefix("native=").and_then(|port| port.parse().ok());
                self.port = port.ok_or_else(|| bad_value(group, word, "native=PORT"))?;
                Ok(())
            }
            "-schema" => match word.strip_prefix("keyspace=") {
                Some(name) if is_name(name) => {
                    name.clone_into(&mut self.keyspace);
                    Ok(())
                }
                Some(_) => Err(bad_value(group, word, "a name of letters, digits and _")),
                None => Err(UsageError::NotYet(format!("-schema {word}"))),
            },
            "-col" => match word.to_ascii_lowercase().as_str() {
                "size=fixed(34)" | "n=fixed(5)" => Ok(()),
                _ => Err(UsageError::NotYet(format!("-col {word} (rows have five columns of 34 bytes)"))),
            },
            group => Err(UsageError::UnknownWord { group: group.into(), word: word.into() }),
        }
    }

    fn rate_word(&mut self, word: &str) -> Result<(), UsageError> {
        let bad = |expected| bad_value("-rate", word, expected);
        match word.split_once('=') {
            Some(("threads", value)) => {
                let threads = value.parse().ok().filter(|threads| (1..=THREADS_MAX).contains(threads));
                self.threads = Some(threads.ok_or_else(|| bad("a number from 1 to 65536"))?);
            }
            Some((name @ ("throttle" | "fixed"), value)) => {
                let rate = numbers::rate(value).ok_or_else(|| bad("a number above 0, as N/s"))?;
                if self.rate != Rate::Unlimited {
                    return Err(UsageError::Twice("throttle= or fixed=".into()));
                }
                self.rate = if name == "fixed" { Rate::Fixed(rate) } else { Rate::Throttle(rate) };
            }
            _ if word == "auto" || word.starts_with("threads<") || word.starts_with("threads>") => {
                return Err(UsageError::NotYet(format!("-rate {word} (runs with growing threads)")));
            }
            _ => return Err(UsageError::UnknownWord { group: "-rate".into(), word: word.into() }),
        }
        Ok(())
    }

    fn mode_word(&mut self, word: &str) -> Result<(), UsageError> {
        let bad = |expected| bad_value("-mode", word, expected);
        match word.split_once('=') {
            None if matches!(word, "native" | "cql3" | "prepared") => {}
            Some(("protocolVersion", value)) => {
                let version = value.parse().ok().and_then(ProtocolVersion::from_number);
                let version = version.filter(|version| *version >= ProtocolVersion::V4);
                self.version = Some(version.ok_or_else(|| bad("4 or 5"))?);
            }
            Some(("connectionsPerHost", value)) => {
                let count = value.parse().ok().filter(|count| (1..=1024).contains(count));
                self.connections = count.ok_or_else(|| bad("a number from 1 to 1024"))?;
            }
            Some(("user" | "password" | "auth-provider" | "compression" | "maxPending", _)) => {
                return Err(UsageError::NotYet(format!("-mode {word}")));
            }
            _ if matches!(word, "unprepared" | "simplenative" | "thrift") => {
                return Err(UsageError::NotYet(format!("-mode {word}")));
            }
            _ => return Err(UsageError::UnknownWord { group: "-mode".into(), word: word.into() }),
        }
        Ok(())
    }

    fn population_word(&mut self, word: &str) -> Result<(), UsageError> {
        let bad = |expected| bad_value("-pop", word, expected);
        let population = match word.split_once('=') {
            Some(("seq", range)) => Population::Sequence(numbers::range(range).ok_or_else(|| bad("a range FROM..TO"))?),
            Some(("dist", text)) => {
                Population::distribution(text).ok_or_else(|| bad("uniform(A..B), gaussian(A..B) or fixed(N)"))?
            }
            _ if ["no-wrap", "read-lookback", "contents"].iter().any(|known| word.starts_with(known)) => {
                return Err(UsageError::NotYet(format!("-pop {word}")));
            }
            _ => return Err(UsageError::UnknownWord { group: "-pop".into(), word: word.into() }),
        };
        match self.population.replace(population) {
            None => Ok(()),
            Some(_) => Err(UsageError::Twice("seq= or dist=".into())),
        }
    }

    fn log_word(&mut self, word: &str) -> Result<(), UsageError> {
        match word.split_once('=') {
            Some(("file", path)) if !path.is_empty() => self.log = Some(path.into()),
            Some(("interval", text)) => {
                let interval = numbers::duration(text);
                self.interval = interval.ok_or_else(|| bad_value("-log", word, "a number of seconds, as 10s"))?;
            }
            Some(("hdrfile" | "level", _)) => return Err(UsageError::NotYet(format!("-log {word}"))),
            _ => return Err(UsageError::UnknownWord { group: "-log".into(), word: word.into() }),
        }
        Ok(())
    }

    fn errors_word(&mut self, word: &str) -> Result<(), UsageError> {
        match word.split_once('=') {
            None if word == "ignore" => self.ignore_errors = true,
            Some(("retries", text)) => {
                self.retries = text.parse().map_err(|_| bad_value("-errors", word, "a number"))?;
            }
            _ => return Err(UsageError::UnknownWord { group: "-errors".into(), word: word.into() }),
        }
        Ok(())
    }

    fn finish(self) -> Result<Arguments, UsageError> {
        let until = self.until.ok_or(UsageError::Combination("n= or duration= is needed"))?;
        let threads = self.threads.ok_or(UsageError::Combination("-rate threads=N is needed"))?;
        let rows = match until {
            Until::Operations(count) => count,
            Until::Duration(_) => ROWS_DEFAULT,
        };
        let population = self.population.unwrap_or(match self.command {
            Command::Write => Population::Sequence(1..=rows),
            Command::Read | Command::Mixed { .. } => Population::Gaussian(1..=rows, 3.0),
        });
        if self.verify && self.command == Command::Write {
            return Err(UsageError::Combination("-verify compares what is read: write reads nothing"));
        }
        Ok(Arguments {
            command: self.command,
            until,
            consistency: self.consistency,
            warmup: self.warmup,
            threads,
            rate: self.rate,
            node: self.node,
            port: self.port,
            population,
            version: self.version,
            connections: self.connections.min(threads),
            keyspace: self.keyspace,
            retries: self.retries,
            ignore_errors: self.ignore_errors,
            log: self.log,
            interval: self.interval,
            verify: self.verify,
        })
    }
}

fn bad_value(group: &str, word: &str, expected: &'static str) -> UsageError {
    UsageError::BadValue { group: group.into(), word: word.into(), expected }
}

/// Reads `ratio(write=W,read=R)`, in either order.
fn ratio(word: &str) -> Option<Command> {
    let inner = word.strip_prefix("ratio(")?.strip_suffix(')')?;
    let (mut write, mut read) = (0, 0);
    for part in inner.split(',') {
        let (name, weight) = part.split_once('=')?;
        let weight = weight.parse::<u32>().ok()?.into();
        match name.trim().to_ascii_lowercase().as_str() {
            "write" => write = weight,
            "read" => read = weight,
            _ => return None,
        }
    }
    (write + read > 0).then_some(Command::Mixed { write, read })
}

/// A name that means the same quoted and unquoted, but for its case.
fn is_name(name: &str) -> bool {
    (1..=48).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Parsed, UsageError> {
        Arguments::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn refused(line: &str) -> String {
        parse(line).expect_err(line).to_string()
    }

    #[test]
    fn a_write_of_cassandra_stress() {
        let got = Arguments::of("write n=10000000 cl=ONE -rate threads=384 -node 127.0.0.1 -log file=cload.log");
        assert_eq!((got.command, got.until), (Command::Write, Until::Operations(10_000_000)));
        assert_eq!((got.consistency, got.threads, got.connections), (Consistency::One, 384, 8));
        assert_eq!((got.node.as_str(), got.port, got.log), ("127.0.0.1", 9042, Some("cload.log".into())));
        assert_eq!((got.population, got.warmup), (Population::Sequence(1..=10_000_000), true));
    }

    #[test]
    fn a_mixed_run_of_cassandra_stress() {
        let got = Arguments::of(
            "mixed ratio(write=10,read=90) duration=10m cl=ONE -rate threads=100 fixed=5000/s -node localhost",
        );
        assert_eq!(got.command, Command::Mixed { write: 10, read: 90 });
        assert_eq!(got.until, Until::Duration(Duration::from_secs(600)));
        assert_eq!((got.rate, got.population), (Rate::Fixed(5000.0), Population::Gaussian(1..=1_000_000, 3.0)));
    }

    #[test]
    fn a_read_that_verifies() {
        let got = Arguments::of(
            "read n=1M no-warmup -pop seq=1..1M -rate threads=2 throttle=9/s -port native=19142 -verify \
             -mode native cql3 protocolVersion=4 connectionsPerHost=3 -schema keyspace=mine -errors ignore retries=2",
        );
        assert_eq!((got.verify, got.warmup, got.port), (true, false, 19142));
        assert_eq!((got.population, got.version), (Population::Sequence(1..=1_000_000), Some(ProtocolVersion::V4)));
        // Never more connections than requests in flight.
        assert_eq!((got.connections, got.rate, got.keyspace.as_str()), (2, Rate::Throttle(9.0), "mine"));
        assert_eq!((got.retries, got.ignore_errors), (2, true));
    }

    #[test]
    fn help_is_no_error() {
        assert_eq!(parse("help"), Ok(Parsed::Help));
        assert_eq!(parse("--help"), Ok(Parsed::Help));
    }

    #[test]
    fn what_is_not_there_yet_is_refused_by_name() {
        for (line, name) in [
            ("counter_write n=1", "counter_write"),
            ("user profile=x.yaml", "user"),
            ("write n=1 -rate threads=1 -graph file=x.html", "-graph"),
            ("write n=1 -rate auto", "-rate auto"),
            ("write n=1 -schema replication(factor=3)", "-schema replication(factor=3)"),
            ("write n=1 -col n=fixed(8)", "-col n=fixed(8)"),
            ("write n=1 -mode unprepared", "-mode unprepared"),
            ("write n=1 -node a,b", "-node a,b"),
            ("write err<0.02", "err<0.02"),
        ] {
            let text = refused(line);
            assert!(text.contains(name) && text.ends_with("is not there yet"), "{line}: {text}");
        }
    }

    #[test]
    fn what_is_unknown_or_wrong_says_where() {
        for (line, part) in [
            ("", "a command is needed"),
            ("wirte n=1", "unknown command `wirte`"),
            ("write n=1 -rates threads=1", "unknown option `-rates`"),
            ("write m=1", "`m=1` means nothing to `write`"),
            ("write n=0", "a number above 0"),
            ("write n=1 duration=1m", "twice"),
            ("write ratio(write=1,read=1)", "means nothing to `write`"),
            ("mixed ratio(write=0,read=0)", "ratio(write=W,read=R) is expected"),
            ("write duration=5", "s, m or h"),
            ("write cl=SOME", "a consistency level is expected"),
            ("write n=1 -rate threads=0", "from 1 to 65536"),
            ("write n=1 -rate fixed=1/s throttle=1/s", "twice"),
            ("write n=1 -port native=x", "native=PORT"),
            ("write n=1 -pop seq=5..1", "FROM..TO"),
            ("write n=1 -pop dist=odd(1..2)", "uniform(A..B)"),
            ("write n=1 -schema keyspace=a\"b", "letters, digits"),
            ("write n=1 -verify yes", "means nothing to `-verify`"),
            ("write n=1", "threads=N is needed"),
            ("write -rate threads=1", "n= or duration= is needed"),
            ("write n=1 -rate threads=1 -verify", "write reads nothing"),
        ] {
            assert!(refused(line).contains(part), "{line}: {}", refused(line));
        }
    }
}
