//! Whole runs against a server that keeps nothing.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use helenus::base::ids::ShardId;
use helenus::schema::partitioner::{Sharding, token_of};

use crate::arguments::Arguments;
use crate::progress::{METRICS, header};
use crate::run::{RunError, run};
use crate::testing::{Asked, Behaviour, Server, clock_ns};

const PROFILE: &str = "
keyspace: ks
keyspace_definition: |
  CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}
table: t
table_definition: CREATE TABLE t (pk text, ck text, c0 text, PRIMARY KEY (pk, ck))
columnspec:
  - {name: pk, size: fixed(15), population: seq(1..2000000)}
  - {name: ck, size: fixed(10), cluster: fixed(10), population: seq(1..1000)}
  - {name: c0, size: fixed(10), population: seq(1..1000)}
insert: {partitions: fixed(1), batchtype: UNLOGGED, select: fixed(1)/1}
queries:
  one: {cql: select * from t where pk = ? and ck = ?, fields: samerow}
token_range_queries:
  all: {columns: '*'}
";

fn profile_columns() -> Behaviour {
    let columns =
        vec![("c0", "regular", -1, "text"), ("ck", "clustering", 0, "text"), ("pk", "partition_key", 0, "text")];
    Behaviour { columns, ..Behaviour::default() }
}

/// A file of this test's own, gone at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        Scratch(std::env::temp_dir().join(format!("helenus-stress-{}-{name}", std::process::id())))
    }

    fn profile(name: &str) -> Scratch {
        let scratch = Scratch::new(name);
        std::fs::write(&scratch.0, PROFILE).unwrap();
        scratch
    }

    fn text(&self) -> String {
        std::fs::read_to_string(&self.0).unwrap()
    }
}

impl std::fmt::Display for Scratch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn asked(behaviour: Behaviour, line: &str) -> Asked {
    let server = Server::start(behaviour);
    let arguments = Arguments::of(&format!("{line} {}", server.node()));
    assert!(run(&arguments).unwrap_or_else(|error| panic!("{line}: {error}")), "{line}");
    server.asked()
}

fn refused(behaviour: Behaviour, line: &str) -> String {
    let server = Server::start(behaviour);
    let arguments = Arguments::of(&format!("{line} {}", server.node()));
    match run(&arguments) {
        Err(error) => error.to_string(),
        Ok(success) => panic!("{line}: {success}"),
    }
}

#[test]
fn w1_in_small() {
    let (log, graph) = (Scratch::new("w1.log"), Scratch::new("w1.html"));
    let line = format!("write n=4000 cl=ONE -rate threads=384 -log file={log} -graph file={graph}");
    let asked = asked(Behaviour::default(), &line);
    // A quarter of them warms up, with the same rows.
    assert_eq!((asked.executions, asked.batches), (5000, 0));
    assert!(asked.texts.iter().any(|text| text.starts_with("CREATE TABLE IF NOT EXISTS \"standard1\"")));
    let keys: BTreeSet<&Option<Vec<u8>>> = asked.values.iter().map(|values| values.last().unwrap()).collect();
    assert_eq!(keys.len(), 4000);
    assert!(asked.values.iter().all(|values| values.len() == 6 && values[0].as_ref().unwrap().len() == 34));
    let text = log.text();
    for expected in [
        "Warming up WRITE with 1000 iterations...",
        "Running WRITE with 384 threads for 4000 iteration",
        "Total partitions          :      4,000 [WRITE: 4,000]",
        "Total errors              :          0 [WRITE: 0]",
        "END",
    ] {
        assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
    }
    let mut lines = text.lines().skip_while(|line| *line != header());
    assert_eq!(lines.next(), Some(header().as_str()));
    assert_eq!(lines.next().unwrap().split(',').count(), METRICS.len());
    assert!(graph.text().contains("\"test\":\"WRITE\""));
}

#[test]
fn mixed_runs_by_time_and_rate() {
    let line = "mixed ratio(write=10,read=90) duration=1s no-warmup cl=ONE -rate threads=10 fixed=500/s";
    let asked = asked(Behaviour::default(), line);
    assert!((400..=501).contains(&asked.executions), "{}", asked.executions);
    let writes = asked.values.iter().filter(|values| values.len() == 6).count() as u64;
    assert!(writes > 0 && writes < asked.executions / 2, "{writes}");
}

#[test]
fn counters_and_columns_of_all_sizes() {
    let asked = self::asked(
        Behaviour::default(),
        "counter_write n=50 no-warmup add=fixed(7) keysize=4 -col n=fixed(2) -rate threads=3",
    );
    assert_eq!(asked.executions, 50);
    let seven = Some(7i64.to_be_bytes().to_vec());
    assert!(
        asked
            .values
            .iter()
            .all(|values| values[..2] == [seven.clone(), seven.clone()] && values[2].as_ref().unwrap().len() == 4)
    );
    let read = self::asked(Behaviour::default(), "counter_read n=50 no-warmup -rate threads=3");
    assert!(read.texts.iter().all(|text| !text.starts_with("CREATE")) && read.executions == 50);
}

#[test]
fn w2_in_small() {
    let profile = Scratch::profile("w2.yaml");
    let line = format!("user profile={profile} ops(insert=1) n=500 no-warmup -rate threads=64");
    let asked = asked(profile_columns(), &line);
    assert_eq!((asked.batches, asked.batch_entries, asked.executions), (500, 5000, 0));
    assert!(asked.texts[0].starts_with("CREATE KEYSPACE ks") && asked.texts.iter().any(|text| text == "USE \"ks\""));
    let rows: BTreeSet<&[Option<Vec<u8>>]> = asked.values.iter().map(|values| &values[1..]).collect();
    assert_eq!(rows.len(), 5000, "every row has a key of its own");
    // The command line comes before the profile.
    let single = format!("{line} -insert select-ratio=fixed(0)/1 -mode unprepared");
    let server = Server::start(profile_columns());
    assert!(run(&Arguments::of(&format!("{single} {}", server.node()))).unwrap());
    let texts = server.asked().texts;
    assert_eq!(texts.iter().filter(|text| text.starts_with("UPDATE ks.t SET c0 = ? WHERE")).count(), 500);
}

#[test]
fn queries_follow_their_pages() {
    let profile = Scratch::profile("pages.yaml");
    let log = Scratch::new("pages.log");
    let line = format!("user profile={profile} ops(one=1) n=20 no-warmup -rate threads=2 -log file={log}");
    let asked = asked(Behaviour { pages: 3, ..profile_columns() }, &line);
    assert_eq!(asked.executions, 60);
    // Every page of an operation binds the same.
    let mut times = BTreeMap::<&Vec<Option<Vec<u8>>>, u64>::new();
    asked.values.iter().for_each(|values| *times.entry(values).or_default() += 1);
    assert!(times.values().all(|count| count % 3 == 0), "{times:?}");
    let text = log.text();
    assert!(text.lines().any(|line| line.starts_with("Total partitions") && line.ends_with("[one: 20]")), "{text}");
}

#[test]
fn what_is_busy_is_asked_again_and_failures_end_the_run() {
    let busy = Behaviour { refuses_every: 10, ..Behaviour::default() };
    assert_eq!(asked(busy.clone(), "read n=200 no-warmup -rate threads=4").executions, 200);
    let server = Server::start(Behaviour { refuses_every: 1, ..busy.clone() });
    let line = format!("read n=200 no-warmup -rate threads=4 -log level=minimal {}", server.node());
    assert!(!run(&Arguments::of(&line)).unwrap(), "a failure");
    assert!(run(&Arguments::of(&format!("{line} -errors ignore retries=1"))).unwrap(), "ignored");
    let warm = Arguments::of(&line.replace(" no-warmup", ""));
    assert!(matches!(run(&warm), Err(RunError::Warmup)));
}

#[test]
fn what_the_server_forgot_is_prepared_again() {
    let forgets = Behaviour { forgets_every: 10, ..Behaviour::default() };
    // A forgotten one is not counted as executed there.
    assert_eq!(asked(forgets, "write n=200 no-warmup -rate threads=4").executions, 200);
    let server = Server::start(Behaviour { forgets_every: 1, ..Behaviour::default() });
    let line = format!("write n=20 no-warmup -rate threads=4 -log level=minimal {}", server.node());
    assert!(!run(&Arguments::of(&line)).unwrap());
}

#[test]
fn a_run_that_loses_its_server_still_sums_up() {
    let log = Scratch::new("lost.log");
    let server = Server::start(Behaviour { closes_after: 100, ..Behaviour::default() });
    let line = format!("write n=2000 no-warmup -rate threads=4 -log file={log} {}", server.node());
    assert!(!run(&Arguments::of(&line)).unwrap());
    let text = log.text();
    assert!(text.contains("Results:") && text.lines().last() == Some("FAILURE"), "{text}");
}

#[test]
fn other_bytes_than_were_written_are_noticed() {
    let server = Server::start(Behaviour::default());
    let line = format!("read n=20 no-warmup -rate threads=4 -log level=minimal {}", server.node());
    assert!(run(&Arguments::of(&line)).unwrap(), "a row is there");
    assert!(!run(&Arguments::of(&format!("{line} -verify"))).unwrap(), "and not the right one");
}

#[test]
fn requests_go_to_the_shard_that_owns_them() {
    let server = Server::start(Behaviour { shards: Some(3), ..Behaviour::default() });
    let line = format!("write n=3000 no-warmup -rate threads=30 -mode connectionsPerHost=6 {}", server.node());
    assert!(run(&Arguments::of(&line)).unwrap());
    let asked = server.asked();
    let mut by_shard = [0u64; 3];
    for (port, count) in &asked.by_port {
        by_shard[usize::from(port % 3)] += count;
    }
    let mut owned = [0u64; 3];
    let sharding = Sharding { shards: 3, ignore_msb: 8 };
    for values in &asked.values {
        let ShardId(owner) = sharding.shard_of(token_of(values.last().unwrap().as_ref().unwrap()));
        owned[usize::from(owner)] += 1;
    }
    assert_eq!((by_shard, asked.by_port.len()), (owned, 6));
}

#[test]
fn threads_grow_and_rates_converge() {
    let log = Scratch::new("grow.log");
    let line =
        format!("read err<0.9 n>2 n<3 no-warmup -rate threads>=2 threads<=4 -log file={log} interval=20ms no-settings");
    asked(Behaviour::default(), &line);
    let text = log.text();
    assert!(text.contains("Running with 2 threadCount") && text.contains("Running with 4 threadCount"), "{text}");
    assert!(text.contains("Running READ with 4 threads until stderr of mean < 0.9"), "{text}");
    assert!(text.contains("Improvement over 2 threadCount") && text.contains("           id, type"), "{text}");
}

#[test]
fn sequences_end_and_nothing_is_done_for_nothing() {
    let line = "write n=500 no-warmup -pop seq=1..100 no-wrap -rate threads=4";
    assert_eq!(asked(Behaviour::default(), line).executions, 100);
    let nothing = asked(Behaviour::default(), "write n=0");
    assert!(nothing.executions == 0 && nothing.texts.iter().any(|text| text.starts_with("CREATE TABLE")));
    let emptied = asked(Behaviour::default(), "write n=5 truncate=once -rate threads=1");
    assert!(emptied.texts.iter().any(|text| text == "TRUNCATE \"keyspace1\".\"standard1\""));
}

#[test]
fn what_profiles_cannot_do_is_said() {
    let profile = Scratch::profile("cannot.yaml");
    let say = |ops: &str| refused(profile_columns(), &format!("user profile={profile} ops({ops}) n=1 -rate threads=1"));
    assert!(say("all=1").contains("`all` of `ks.t` is not there yet"), "{}", say("all=1"));
    assert!(say("validate=1").contains("is not there yet"));
    assert!(say("two=1").ends_with("`two` is no query of `ks.t`; it has insert, one"), "{}", say("two=1"));
    assert!(say("other.t.one=1").contains("there is no profile `other.t`"));
    let none = refused(Behaviour::default(), &format!("user profile={profile} ops(insert=1) n=1 -rate threads=1"));
    assert!(none.contains("there is no table ks.t"), "{none}");
    let many = refused(Behaviour::default(), "read n=1 -rate threads=9 -mode connectionsPerHost=1 maxPending=2");
    assert!(many.contains("9 requests in flight are too many for 1 connections"), "{many}");
}

/// What an operation costs this tool, against one core that answers and does nothing else:
/// `cargo test --release -p helenus-stress -- --ignored --nocapture it_costs_little`.
#[test]
#[ignore = "a measurement"]
fn it_costs_little() {
    let cores: Vec<usize> = core_affinity::get_core_ids().unwrap().iter().map(|core| core.id).collect();
    let server = Server::start(Behaviour { core: Some(cores[0]), forgets: true, ..profile_columns() });
    let profile = Scratch::profile("cost.yaml");
    let log = Scratch::new("cost.log");
    let user = format!("user profile={profile} ops(insert=1)");
    for command in ["write", "read", &user] {
        for (threads, connections) in [(1024, 16), (64, 1)] {
            let line = format!(
                "{command} duration=3s no-warmup -errors skip-read-validation -rate threads={threads} -mode \
                 connectionsPerHost={connections} -cores {} -log file={log} {}",
                cores[cores.len() - 1],
                server.node()
            );
            let cpu = || clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID) - server.cpu_ns();
            let before = cpu();
            assert!(run(&Arguments::of(&line)).unwrap());
            let used = cpu() - before;
            let text = log.text();
            let total = text.lines().find_map(|line| line.strip_prefix("Total partitions")).unwrap();
            let total = total.trim_start_matches([' ', ':']).split(' ').next().unwrap().replace(',', "");
            let operations: u64 = total.parse().unwrap();
            let name = command.split(' ').next().unwrap();
            println!(
                "COST {name} {threads}/{connections}: {operations} operations, {} ns of CPU each",
                used / operations
            );
        }
    }
}
