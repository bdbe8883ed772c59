//! `nodetool`: Cassandra's words and flags for what Helenus's admin endpoint does.

mod endpoint;
mod show;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::endpoint::Endpoint;

#[derive(Debug, Parser)]
#[command(name = "nodetool", version, about = "Operates a Helenus node", disable_help_flag = true)]
struct Arguments {
    /// Host of the admin endpoint
    #[arg(short = 'h', long, default_value = "127.0.0.1", global = true)]
    host: String,
    /// Port of the admin endpoint
    #[arg(short, long, default_value_t = 9180, global = true)]
    port: u16,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help, global = true)]
    help: Option<bool>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Show the node's state, load and ownership
    Status,
    /// Show the node's version, uptime and addresses
    Info,
    /// Write memtables to SSTables
    Flush { keyspace: Option<String>, tables: Vec<String> },
    /// Merge all SSTables of a table into one for each shard
    Compact { keyspace: Option<String>, tables: Vec<String> },
    /// Link the SSTables of keyspaces under a tag
    Snapshot {
        /// The snapshot's name [default: milliseconds since 1970]
        #[arg(short, long)]
        tag: Option<String>,
        /// Only these tables, of one keyspace
        #[arg(long = "table", visible_alias = "cf", value_delimiter = ',')]
        tables: Vec<String>,
        keyspaces: Vec<String>,
    },
    /// Remove snapshots
    Clearsnapshot {
        /// Only this snapshot
        #[arg(short, long)]
        tag: Option<String>,
        /// All snapshots
        #[arg(long)]
        all: bool,
        keyspace: Option<String>,
    },
    /// List snapshots
    Listsnapshots,
    /// Show each table's figures
    #[command(visible_alias = "cfstats")]
    Tablestats {
        /// `keyspace` or `keyspace.table`
        name: Option<String>,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let endpoint = Endpoint::new(&arguments.host, arguments.port);
    match run(&endpoint, &arguments.command) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("nodetool: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Does what was asked, and gives what to print.
fn run(endpoint: &Endpoint, command: &Command) -> Result<String, String> {
    match command {
        Command::Status => endpoint.get("/status", &[]).map(|status| show::status(&status)),
        Command::Info => endpoint.get("/info", &[]).map(|info| show::info(&info)),
        Command::Flush { keyspace, tables } => endpoint.work("flush", "/flush", &chosen(keyspace, tables)),
        Command::Compact { keyspace, tables } => endpoint.work("compact", "/compact", &chosen(keyspace, tables)),
        Command::Snapshot { tag, tables, keyspaces } => snapshot(endpoint, tag.as_deref(), tables, keyspaces),
        Command::Clearsnapshot { tag, all, keyspace } => {
            clear_snapshot(endpoint, tag.as_deref(), *all, keyspace.as_deref())
        }
        Command::Listsnapshots => endpoint.get("/snapshots", &[]).map(|list| show::snapshots(&list)),
        Command::Tablestats { name } => {
            let (keyspace, table) = match name.as_deref().map(|name| name.split_once('.').unwrap_or((name, ""))) {
                None => (None, None),
                Some((keyspace, "")) => (Some(keyspace), None),
                Some((keyspace, table)) => (Some(keyspace), Some(table)),
            };
            let parameters = given([("keyspace", keyspace), ("table", table)]);
            endpoint.get("/tablestats", &parameters).map(|stats| show::tablestats(&stats))
        }
    }
}

/// A request's parameters.
type Parameters = Vec<(&'static str, String)>;

fn given<const N: usize>(parameters: [(&'static str, Option<&str>); N]) -> Parameters {
    parameters.into_iter().filter_map(|(name, value)| value.map(|value| (name, value.to_owned()))).collect()
}

fn chosen(keyspace: &Option<String>, tables: &[String]) -> Parameters {
    let tables = (!tables.is_empty()).then(|| tables.join(","));
    given([("keyspace", keyspace.as_deref()), ("table", tables.as_deref())])
}

fn snapshot(endpoint: &Endpoint, tag: Option<&str>, tables: &[String], keyspaces: &[String]) -> Result<String, String> {
    if !tables.is_empty() && keyspaces.len() != 1 {
        return Err("when specifying tables for a snapshot, you must specify one and only one keyspace".into());
    }
    let join = |names: &[String]| (!names.is_empty()).then(|| names.join(","));
    let (keyspace, table) = (join(keyspaces), join(tables));
    let parameters = given([("tag", tag), ("keyspace", keyspace.as_deref()), ("table", table.as_deref())]);
    let shown = if keyspaces.is_empty() { "all keyspaces".to_owned() } else { keyspaces.join(", ") };
    let answer = endpoint.post("/snapshot", &parameters)?;
    let tag = answer.get("tag").and_then(|tag| tag.as_str()).unwrap_or_default();
    Ok(format!("Requested creating snapshot(s) for [{shown}] with snapshot name [{tag}]\nSnapshot directory: {tag}\n"))
}

fn clear_snapshot(endpoint: &Endpoint, tag: Option<&str>, all: bool, keyspace: Option<&str>) -> Result<String, String> {
    if tag.is_none() && !all {
        return Err("Specify snapshot name or --all".into());
    }
    if tag.is_some() && all {
        return Err("Specify only one of snapshot name or --all".into());
    }
    endpoint.post("/clearsnapshot", &given([("tag", tag), ("keyspace", keyspace)]))?;
    let of = keyspace.map_or_else(|| "all keyspaces".to_owned(), str::to_owned);
    let what = tag.map_or_else(|| "[all snapshots]".to_owned(), |tag| format!("snapshot name [{tag}]"));
    Ok(format!("Requested clearing snapshot(s) for [{of}] with {what}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cassandras_flags_are_taken() {
        let parse = |line: &str| Arguments::try_parse_from(line.split(' ')).map(|parsed| (parsed.host, parsed.port));
        let check = |line: &str, host: &str, port: u16| assert_eq!(parse(line).expect(line), (host.to_owned(), port));
        check("nodetool -h 127.0.0.2 -p 7 status", "127.0.0.2", 7);
        check("nodetool flush ks t u", "127.0.0.1", 9180);
        check("nodetool clearsnapshot --all", "127.0.0.1", 9180);
        check("nodetool snapshot -t tag ks", "127.0.0.1", 9180);
        check("nodetool compact keyspace1", "127.0.0.1", 9180);
        assert!(parse("nodetool no-such-command").is_err());
    }

    #[test]
    fn a_snapshot_is_cleared_by_name_or_all_together() {
        let endpoint = Endpoint::new("127.0.0.1", 1);
        assert!(clear_snapshot(&endpoint, None, false, None).expect_err("neither").contains("--all"));
        assert!(clear_snapshot(&endpoint, Some("a"), true, None).expect_err("both").contains("only one"));
        let tables = ["t".to_owned()];
        assert!(snapshot(&endpoint, None, &tables, &[]).expect_err("no keyspace").contains("one and only one"));
    }
}
