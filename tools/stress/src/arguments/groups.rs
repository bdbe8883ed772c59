//! The groups of words that begin with a dash.

use std::time::Duration;

use helenus::protocol::{Compression, ProtocolVersion};

use super::words::{Groups, Place};
use super::{Columns, Graph, Inserts, Log, Mode, Order, Rate, Schema, THREADS_MAX, Threads, UsageError};
use crate::distribution::Distribution;
use crate::numbers;
use crate::population::Population;

const COLUMNS_MAX: i64 = 1_000;
const COLUMN_BYTES_MAX: i64 = 16 << 20;

/// The words of a group, each with its place; none where the group is not given.
fn words<'a>(groups: &'a Groups, group: &'a str) -> impl Iterator<Item = Place<'a>> {
    groups.get(group).into_iter().flatten().map(move |word| Place { group, word })
}

pub fn rate(groups: &Groups) -> Result<(Option<Threads>, Rate), UsageError> {
    let (mut threads, mut from, mut to, mut auto) = (None, None, None, false);
    let mut rate = None;
    for place in words(groups, "-rate") {
        let count = |value: &str| {
            let count = value.parse().ok().filter(|count| (1..=THREADS_MAX).contains(count));
            count.ok_or_else(|| place.bad("a number from 1 to 65536"))
        };
        if let Some(value) = place.after("threads=") {
            place.once(&mut threads, count(value)?)?;
        } else if let Some(value) = place.after("threads>=") {
            place.once(&mut from, count(value)?)?;
        } else if let Some(value) = place.after("threads<=") {
            place.once(&mut to, count(value)?)?;
        } else if place.is("auto") {
            auto = true;
        } else if let Some((fixed, value)) =
            place.after("throttle=").map(|value| (false, value)).or(place.after("fixed=").map(|value| (true, value)))
        {
            let number = numbers::rate(value).ok_or_else(|| place.bad("a number above 0, as N/s"))?;
            if rate.replace(if fixed { Rate::Fixed(number) } else { Rate::Throttle(number) }).is_some() {
                return Err(UsageError::Twice("throttle= or fixed=".into()));
            }
        } else {
            return Err(place.unknown());
        }
    }
    let growing = auto || from.is_some() || to.is_some();
    if growing && (threads.is_some() || rate.is_some()) {
        return Err(UsageError::Combination(
            "-rate: threads=, throttle= and fixed= exclude auto, threads>= and threads<=",
        ));
    }
    if rate.is_some() && threads.is_none() {
        return Err(UsageError::Combination("-rate: throttle= and fixed= need threads=N"));
    }
    let (from, to) = (from.unwrap_or(4), to.unwrap_or(1000));
    if growing && from > to {
        return Err(UsageError::Combination("-rate: threads>= is more than threads<="));
    }
    let threads = threads.map(Threads::Exactly).or(growing.then_some(Threads::Growing { from, to, auto }));
    Ok((threads, rate.unwrap_or(Rate::Unlimited)))
}

/// The nodes of `-node`, each with its own port or that of `-port`.
pub fn nodes(groups: &Groups) -> Result<Vec<(String, u16)>, UsageError> {
    let (mut port, mut jmx) = (None, None);
    for place in words(groups, "-port") {
        let number = |value: &str| value.parse::<u16>().map_err(|_| place.bad("native=PORT"));
        if let Some(value) = place.after("native=") {
            place.once(&mut port, number(value)?)?;
        } else if let Some(value) = place.after("jmx=") {
            // Nothing is asked over JMX; the columns that it fills are 0.
            place.once(&mut jmx, number(value)?)?;
        } else {
            return Err(place.bad("native=PORT"));
        }
    }
    let (port, mut list) = (port.unwrap_or(9042), None);
    for place in words(groups, "-node") {
        if place.is("whitelist") {
            // Only the nodes named are ever connected to.
        } else if let Some(path) = place.after("file=") {
            let file = |problem: String| UsageError::NodeFile { path: path.to_owned(), problem };
            let text = std::fs::read_to_string(path).map_err(|error| file(error.to_string()))?;
            let lines: Vec<String> =
                text.lines().map(str::trim).filter(|line| !line.is_empty()).map(Into::into).collect();
            if lines.is_empty() {
                return Err(file("it names no node".into()));
            }
            place.once(&mut list, lines)?;
        } else if place.after("datacenter=").is_some() {
            return Err(place.not_yet(" (the nodes to connect to are named)"));
        } else if place.word.contains('=') {
            return Err(place.unknown());
        } else {
            let names: Vec<String> = place.word.split(',').map(str::to_owned).collect();
            if names.iter().any(String::is_empty) {
                return Err(place.bad("HOST, or several parted by commas"));
            }
            place.once(&mut list, names)?;
        }
    }
    let list = list.unwrap_or_else(|| vec!["localhost".into()]);
    Ok(list.into_iter().map(|node| host_and_port(node, port)).collect())
}

/// Splits `HOST:PORT` and `[ADDRESS]:PORT`; an IPv6 address without brackets has no port.
fn host_and_port(node: String, port: u16) -> (String, u16) {
    if let Some((host, rest)) = node.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let own = rest.strip_prefix(':').and_then(|own| own.parse().ok());
        return (host.to_owned(), own.unwrap_or(port));
    }
    match node.split_once(':') {
        Some((host, own)) if !own.contains(':') => match own.parse() {
            Ok(own) => (host.to_owned(), own),
            Err(_) => (node, port),
        },
        _ => (node, port),
    }
}

pub fn population(groups: &Groups) -> Result<(Option<Population>, Order), UsageError> {
    let (mut sequence, mut drawn, mut order, mut wrap) = (None, None, None, true);
    for place in words(groups, "-pop") {
        if let Some(value) = place.after("seq=") {
            let range = numbers::range(value).ok_or_else(|| place.bad("FROM..TO"))?;
            place.once(&mut sequence, range)?;
        } else if let Some(value) = place.after("dist=") {
            place.once(&mut drawn, place.distribution(value)?)?;
        } else if place.is("no-wrap") {
            wrap = false;
        } else if let Some(value) = place.after("contents=") {
            let parsed = match value.to_ascii_lowercase().as_str() {
                "sorted" => Order::Sorted,
                "shuffled" => Order::Shuffled,
                _ => return Err(place.bad("sorted or shuffled")),
            };
            place.once(&mut order, parsed)?;
        } else if place.after("read-lookback=").is_some() {
            return Err(place.not_yet(""));
        } else {
            return Err(place.unknown());
        }
    }
    if drawn.is_some() && (sequence.is_some() || !wrap) {
        return Err(UsageError::Combination("-pop: dist= excludes seq= and no-wrap"));
    }
    if !wrap && sequence.is_none() {
        return Err(UsageError::Combination("-pop: no-wrap needs seq=FROM..TO"));
    }
    let sequence = sequence.map(|range| Population::Sequence { range, wrap });
    Ok((sequence.or(drawn.map(Population::Drawn)), order.unwrap_or(Order::Arbitrary)))
}

pub fn columns(groups: &Groups) -> Result<Columns, UsageError> {
    let (mut names, mut count, mut size, mut timestamp, mut slice) = (None, None, None, None, false);
    for place in words(groups, "-col") {
        if let Some(value) = place.after("names=") {
            let mut list: Vec<String> = value.split(',').map(str::to_owned).collect();
            list.sort_unstable();
            list.dedup();
            if list.len() != value.split(',').count() || list.iter().any(|name| name.is_empty() || name.contains('"')) {
                return Err(place.bad("NAME,NAME,… without repeats"));
            }
            place.once(&mut names, list)?;
        } else if let Some(value) = place.after("n=") {
            let columns = place.distribution(value)?.only();
            let columns = columns.filter(|columns| (1..=COLUMNS_MAX).contains(columns));
            place.once(&mut count, columns.ok_or_else(|| place.bad("fixed(N) with N from 1 to 1000"))?)?;
        } else if let Some(value) = place.after("size=") {
            let distribution = place.distribution(value)?;
            if distribution.min() < 0 || distribution.max() > COLUMN_BYTES_MAX {
                return Err(place.bad("a distribution of sizes from 0 to 16 MiB"));
            }
            place.once(&mut size, distribution)?;
        } else if let Some(value) = place.after("timestamp=") {
            place.once(&mut timestamp, value.parse::<i64>().map_err(|_| place.bad("microseconds"))?)?;
        } else if place.is("slice") {
            slice = true;
        } else if place.is("super=0") || place.is("comparator=AsciiType") || place.is("comparator=UTF8Type") {
            // What every table here is.
        } else if place.after("super=").is_some() || place.after("comparator=").is_some() {
            return Err(place.not_yet(""));
        } else {
            return Err(place.unknown());
        }
    }
    if names.is_some() && count.is_some() {
        return Err(UsageError::Combination("-col: names= excludes n="));
    }
    let names = names.unwrap_or_else(|| {
        let mut names: Vec<String> = (0..count.unwrap_or(5)).map(|at| format!("C{at}")).collect();
        names.sort_unstable();
        names
    });
    Ok(Columns { names, size: size.unwrap_or_else(|| Distribution::fixed(34)), slice, timestamp })
}

pub fn inserts(groups: &Groups) -> Result<Inserts, UsageError> {
    let mut inserts = Inserts::default();
    for place in words(groups, "-insert") {
        if let Some(value) = place.after("partitions=") {
            place.once(&mut inserts.partitions, place.distribution(value)?)?;
        } else if let Some(value) = place.after("select-ratio=") {
            place.once(&mut inserts.select, place.ratio(value)?)?;
        } else if let Some(value) = place.after("row-population-ratio=") {
            place.once(&mut inserts.row_population, place.ratio(value)?)?;
        } else if let Some(value) = place.after("batchtype=") {
            if !["LOGGED", "UNLOGGED", "COUNTER"].iter().any(|known| value.eq_ignore_ascii_case(known)) {
                return Err(place.bad("logged, unlogged or counter"));
            }
            place.once(&mut inserts.batch_type, value.to_ascii_uppercase())?;
        } else if let Some(value) = place.after("visits=") {
            if place.distribution(value)?.only() != Some(1) {
                return Err(place.not_yet(" (partitions are written in one visit)"));
            }
        } else if let Some(value) = place.after("revisit=") {
            // Only what takes several visits is visited again.
            place.distribution(value)?;
        } else {
            return Err(place.unknown());
        }
    }
    Ok(inserts)
}

pub fn schema(groups: &Groups) -> Result<Schema, UsageError> {
    let (mut keyspace, mut replication, mut compression, mut compaction) = (None, None, None, None);
    for place in words(groups, "-schema") {
        if let Some(name) = place.after("keyspace=") {
            if !is_name(name) {
                return Err(place.bad("a name of letters, digits and _"));
            }
            place.once(&mut keyspace, name.to_owned())?;
        } else if let Some(class) = place.after("compression=") {
            if !is_text(class) {
                return Err(place.bad("the name of a compression"));
            }
            place.once(&mut compression, class.to_owned())?;
        } else if let Some(parts) = place.parts("replication") {
            let mut options = options(place, &parts)?;
            let strategy = take(&mut options, "strategy");
            if let Some(factor) = take(&mut options, "factor") {
                options.push(("replication_factor".into(), factor));
            }
            place.once(&mut replication, (strategy, options))?;
        } else if let Some(parts) = place.parts("compaction") {
            let mut options = options(place, &parts)?;
            let strategy = take(&mut options, "strategy").ok_or_else(|| place.bad("compaction(strategy=NAME,…)"))?;
            place.once(&mut compaction, (strategy, options))?;
        } else {
            return Err(place.unknown());
        }
    }
    let (strategy, mut replication) = replication.unwrap_or_default();
    let strategy = strategy.unwrap_or_else(|| "org.apache.cassandra.locator.SimpleStrategy".into());
    let factor = replication.iter().any(|(name, _)| name == "replication_factor");
    if !factor && strategy.ends_with("SimpleStrategy") {
        replication.push(("replication_factor".into(), "1".into()));
    }
    let keyspace = keyspace.unwrap_or_else(|| "keyspace1".into());
    Ok(Schema { keyspace, strategy, replication, compression, compaction })
}

/// The `NAME=VALUE`s of a parenthesis.
fn options(place: Place<'_>, parts: &[&str]) -> Result<Vec<(String, String)>, UsageError> {
    let option = |part: &&str| {
        let (name, value) = part.split_once('=')?;
        (is_text(name) && is_text(value)).then(|| (name.to_owned(), value.to_owned()))
    };
    parts.iter().map(option).collect::<Option<_>>().ok_or_else(|| place.bad("NAME(OPTION=VALUE,…)"))
}

fn take(options: &mut Vec<(String, String)>, name: &str) -> Option<String> {
    let at = options.iter().position(|(known, _)| known.eq_ignore_ascii_case(name))?;
    Some(options.remove(at).1)
}

/// A name that means the same quoted and unquoted, but for its case.
fn is_name(name: &str) -> bool {
    (1..=48).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// What stands between quotes as it is.
fn is_text(text: &str) -> bool {
    !text.is_empty() && !text.contains('\'')
}

pub fn mode(groups: &Groups) -> Result<Mode, UsageError> {
    let mut mode = Mode {
        version: None,
        prepared: true,
        compression: None,
        user: None,
        password: None,
        connections: None,
        pending: None,
    };
    for place in words(groups, "-mode") {
        if ["native", "cql3", "prepared"].iter().any(|word| place.is(word)) {
            // What it is anyway.
        } else if place.is("unprepared") {
            mode.prepared = false;
        } else if let Some(value) = place.after("protocolVersion=") {
            let version = value.parse().ok().and_then(ProtocolVersion::from_number);
            let version = version.filter(|version| *version >= ProtocolVersion::V4);
            place.once(&mut mode.version, version.ok_or_else(|| place.bad("4 or 5"))?)?;
        } else if let Some(value) = place.after("connectionsPerHost=") {
            let count = value.parse().ok().filter(|count| (1..=1024).contains(count));
            place.once(&mut mode.connections, count.ok_or_else(|| place.bad("a number from 1 to 1024"))?)?;
        } else if let Some(value) = place.after("maxPending=") {
            let count = value.parse().ok().filter(|count| (1..=32_767).contains(count));
            place.once(&mut mode.pending, count.ok_or_else(|| place.bad("a number from 1 to 32767"))?)?;
        } else if let Some(value) = place.after("compression=") {
            mode.compression = match value.to_ascii_lowercase().as_str() {
                "none" => None,
                name => Some(Compression::from_name(name).ok_or_else(|| place.bad("none, lz4 or snappy"))?),
            };
        } else if let Some(value) = place.after("user=") {
            place.once(&mut mode.user, value.to_owned())?;
        } else if let Some(value) = place.after("password=") {
            place.once(&mut mode.password, value.to_owned())?;
        } else if place.is("simplenative") || place.after("auth-provider=").is_some() || place.after("port=").is_some()
        {
            return Err(place.not_yet(""));
        } else {
            return Err(place.unknown());
        }
    }
    if mode.user.is_some() != mode.password.is_some() {
        return Err(UsageError::Combination("-mode: user= and password= go together"));
    }
    Ok(mode)
}

/// Retries, whether errors are ignored, whether nothing is made sure of.
pub fn errors(groups: &Groups) -> Result<(u32, bool, bool), UsageError> {
    let (mut retries, mut ignore, mut skip) = (None, false, false);
    for place in words(groups, "-errors") {
        if let Some(value) = place.after("retries=") {
            place.once(&mut retries, value.parse().map_err(|_| place.bad("a number"))?)?;
        } else if place.is("ignore") {
            ignore = true;
        } else if place.is("skip-read-validation") {
            skip = true;
        } else {
            return Err(place.unknown());
        }
    }
    Ok((retries.unwrap_or(9), ignore, skip))
}

pub fn log(groups: &Groups) -> Result<Log, UsageError> {
    let mut log = Log { file: None, interval: Duration::from_secs(1), summary: true, settings: true, failures: true };
    for place in words(groups, "-log") {
        if let Some(path) = place.after("file=").filter(|path| !path.is_empty()) {
            place.once(&mut log.file, path.into())?;
        } else if let Some(value) = place.after("interval=") {
            let milliseconds = match value.strip_suffix("ms") {
                Some(digits) => digits.parse::<u64>().ok(),
                None => value.strip_suffix('s').unwrap_or(value).parse().ok().and_then(|s: u64| s.checked_mul(1000)),
            };
            let milliseconds = milliseconds.filter(|milliseconds| *milliseconds > 0);
            log.interval = Duration::from_millis(milliseconds.ok_or_else(|| place.bad("a number, as Ns or Nms"))?);
        } else if let Some(level) = place.after("level=") {
            log.failures = match level.to_ascii_lowercase().as_str() {
                "minimal" => false,
                "normal" | "verbose" => true,
                _ => return Err(place.bad("minimal, normal or verbose")),
            };
        } else if place.is("no-summary") {
            log.summary = false;
        } else if place.is("no-settings") {
            log.settings = false;
        } else if place.after("hdrfile=").is_some() {
            return Err(place.not_yet(""));
        } else {
            return Err(place.unknown());
        }
    }
    Ok(log)
}

pub fn graph(groups: &Groups) -> Result<Option<Graph>, UsageError> {
    if !groups.contains_key("-graph") {
        return Ok(None);
    }
    let (mut file, mut title, mut revision, mut operation) = (None, None, None, None);
    for place in words(groups, "-graph") {
        if let Some(path) = place.after("file=").filter(|path| !path.is_empty()) {
            place.once(&mut file, path.into())?;
        } else if let Some(value) = place.after("title=") {
            place.once(&mut title, value.to_owned())?;
        } else if let Some(value) = place.after("revision=") {
            place.once(&mut revision, value.to_owned())?;
        } else if let Some(value) = place.after("op=") {
            place.once(&mut operation, value.to_owned())?;
        } else {
            return Err(place.unknown());
        }
    }
    let file = file.ok_or(UsageError::Combination("-graph needs file=FILE"))?;
    Ok(Some(Graph { file, title, revision: revision.unwrap_or_else(|| "unknown".into()), operation }))
}

/// Whether what is read is compared.
pub fn verify(groups: &Groups) -> Result<bool, UsageError> {
    match words(groups, "-verify").next() {
        None => Ok(groups.contains_key("-verify")),
        Some(place) => Err(place.unknown()),
    }
}

/// Core numbers, as `0,2` or `0-3,8`.
pub fn cores(groups: &Groups) -> Result<Option<Vec<usize>>, UsageError> {
    let mut cores = None;
    for place in words(groups, "-cores") {
        place.once(&mut cores, core_list(place.word).ok_or_else(|| place.bad("core numbers, as 0,2 or 0-3,8"))?)?;
    }
    match (cores, groups.contains_key("-cores")) {
        (None, true) => Err(UsageError::Combination("-cores needs a list, as 0,2 or 0-3,8")),
        (cores, _) => Ok(cores),
    }
}

fn core_list(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.parse::<usize>().ok()?, to.parse::<usize>().ok()?);
        if to < from || to > 4096 {
            return None;
        }
        cores.extend(from..=to);
    }
    Some(cores)
}
