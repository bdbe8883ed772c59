use super::*;

fn parse(line: &str) -> Result<Parsed, UsageError> {
    Arguments::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
}

fn refused(line: &str) -> String {
    parse(line).expect_err(line).to_string()
}

#[test]
fn a_write_of_cassandra_stress() {
    let got = Arguments::of(
        "write n=10000000 cl=ONE -rate threads=384 -node 127.0.0.1 -log file=cload.log -graph file=cload.html",
    );
    assert_eq!((&got.command, got.until), (&Command::Basic(Basic::Write), Until::Operations(10_000_000)));
    assert_eq!((got.consistency, got.threads), (Consistency::One, Threads::Exactly(384)));
    assert_eq!((got.nodes, got.log.file), (vec![("127.0.0.1".to_owned(), 9042)], Some("cload.log".into())));
    assert_eq!((got.population, got.warmup), (Population::sequence(1..=10_000_000), true));
    let graph = got.graph.expect("asked for");
    assert_eq!((graph.file, graph.revision, graph.title), ("cload.html".into(), "unknown".into(), None));
    assert!(got.line.starts_with("write n=10000000 cl=ONE"));
}

#[test]
fn a_mixed_run_of_cassandra_stress() {
    let got = Arguments::of(
        "mixed ratio(write=10,read=90) duration=10m cl=ONE -rate threads=100 fixed=5000/s -node localhost",
    );
    assert_eq!(got.command, Command::Mixed(vec![(Basic::Write, 10.0), (Basic::Read, 90.0)]));
    assert_eq!(got.until, Until::Duration(Duration::from_secs(600)));
    assert_eq!(got.rate, Rate::Fixed(5000.0));
    assert_eq!(got.population, Population::Drawn(Distribution::gaussian(1, 1_000_000)));
    assert_eq!(got.clustering, Distribution::gaussian(1, 10));
    let counters = Arguments::of("mixed ratio(counter_write=1,counter_read=0.5,read=0) n=9 clustering=fixed(3)");
    assert_eq!(counters.command, Command::Mixed(vec![(Basic::CounterWrite, 1.0), (Basic::CounterRead, 0.5)]));
}

#[test]
fn a_user_run_of_cassandra_stress() {
    let got = Arguments::of("user profile=a.yaml,b.yaml ops(insert=1,ks.t.one=2.5) n=10000 no-warmup -rate threads=64");
    let Command::User(user) = &got.command else { panic!("{:?}", got.command) };
    assert_eq!(user.profiles, [PathBuf::from("a.yaml"), PathBuf::from("b.yaml")]);
    assert_eq!(user.operations, [("insert".to_owned(), 1.0), ("ks.t.one".to_owned(), 2.5)]);
    assert_eq!((got.population, got.warmup), (Population::Drawn(Distribution::gaussian(1, 10_000)), false));
    let only = Arguments::of("user profile=a.yaml ops(insert=1) n=10K -rate threads=64");
    assert_eq!(only.population, Population::sequence(1..=10_000));
}

#[test]
fn counters_have_commands_of_their_own() {
    for (name, basic) in [
        ("counter_write", Basic::CounterWrite),
        ("counterwrite", Basic::CounterWrite),
        ("COUNTER_ADD", Basic::CounterWrite),
        ("counter_read", Basic::CounterRead),
        ("counter_get", Basic::CounterRead),
        ("insert", Basic::Write),
    ] {
        assert_eq!(Arguments::of(&format!("{name} n=1")).command, Command::Basic(basic), "{name}");
    }
    let got = Arguments::of("counter_write n=100 add=uniform(1..5) keysize=12 truncate=once");
    assert_eq!((got.add, got.key_bytes, got.truncate), (Distribution::uniform(1, 5), 12, Truncate::Once));
}

#[test]
fn a_read_that_verifies() {
    let got = Arguments::of(
        "read n=1M no-warmup -pop seq=1..1M -rate threads=2 throttle=9/s -port native=19142 -verify \
         -mode native cql3 protocolVersion=4 connectionsPerHost=3 -schema keyspace=mine -errors ignore retries=2",
    );
    assert_eq!((got.validation, got.warmup, got.nodes[0].1), (Validation::Bytes, false, 19142));
    assert_eq!((got.population, got.mode.version), (Population::sequence(1..=1_000_000), Some(ProtocolVersion::V4)));
    assert_eq!((got.mode.connections, got.rate), (Some(3), Rate::Throttle(9.0)));
    assert_eq!((got.schema.keyspace.as_str(), got.retries, got.ignore_errors), ("mine", 2, true));
    assert_eq!(Arguments::of("read n=1 -errors skip-read-validation").validation, Validation::Nothing);
    assert_eq!(Arguments::of("read n=1").validation, Validation::Present);
}

#[test]
fn a_run_without_an_end_ends_when_its_rate_is_known() {
    assert_eq!(Arguments::of("read").until, Until::Converged { error: 0.02, min: 30, max: 200 });
    let got = Arguments::of("read err<0.5 n>2 n<3");
    assert_eq!(got.until, Until::Converged { error: 0.5, min: 2, max: 3 });
}

#[test]
fn threads_are_given_or_grow() {
    let threads = |line: &str| Arguments::of(line).threads;
    assert_eq!(threads("write n=1"), Threads::Exactly(200));
    assert_eq!(threads("read n=1"), Threads::Growing { from: 4, to: 1000, auto: true });
    assert_eq!(threads("read n=1 -rate threads>=2 threads<=8"), Threads::Growing { from: 2, to: 8, auto: false });
    assert_eq!(threads("read n=1 -rate auto threads<=8"), Threads::Growing { from: 4, to: 8, auto: true });
}

#[test]
fn columns_and_schema() {
    let got = Arguments::of(
        "write n=1 -col names=b,a size=uniform(1..9) slice timestamp=7 \
         -schema replication(strategy=NetworkTopologyStrategy,dc1=3) compression=LZ4Compressor \
         compaction(strategy=LeveledCompactionStrategy,sstable_size_in_mb=9)",
    );
    assert_eq!((got.columns.names.join(" "), got.columns.timestamp), ("a b".into(), Some(7)));
    assert!(got.columns.slice && got.columns.size == Distribution::uniform(1, 9));
    assert_eq!(got.schema.strategy, "NetworkTopologyStrategy");
    assert_eq!(got.schema.replication, [("dc1".to_owned(), "3".to_owned())]);
    let (strategy, options) = got.schema.compaction.expect("given");
    assert_eq!((strategy.as_str(), options[0].0.as_str()), ("LeveledCompactionStrategy", "sstable_size_in_mb"));
    let plain = Arguments::of("write n=1 -schema replication(factor=3)");
    assert_eq!(plain.schema.replication, [("replication_factor".to_owned(), "3".to_owned())]);
    assert_eq!(plain.columns.names, ["C0", "C1", "C2", "C3", "C4"]);
}

#[test]
fn nodes_modes_inserts_and_cores() {
    let got = Arguments::of(
        "write n=1 -node a,b:9,[::1]:7,::1 -port native=5 jmx=7199 -mode unprepared compression=lz4 maxPending=9 \
         user=u password=p -insert partitions=fixed(2) select-ratio=fixed(1)/2 batchtype=unlogged visits=fixed(1) \
         -cores 0-2,5 -pop seq=1..5 no-wrap contents=sorted",
    );
    let nodes: Vec<(&str, u16)> = got.nodes.iter().map(|(host, port)| (host.as_str(), *port)).collect();
    assert_eq!(nodes, [("a", 5), ("b", 9), ("::1", 7), ("::1", 5)]);
    assert_eq!((got.mode.prepared, got.mode.compression, got.mode.pending), (false, Some(Compression::Lz4), Some(9)));
    assert!(got.line.ends_with("contents=sorted") && !got.line.contains("password=p"));
    assert_eq!((got.inserts.batch_type.as_deref(), got.inserts.row_population), (Some("UNLOGGED"), None));
    assert_eq!((got.cores, got.order), (Some(vec![0, 1, 2, 5]), Order::Sorted));
    assert_eq!(got.population, Population::Sequence { range: 1..=5, wrap: false });
}

#[test]
fn what_is_logged() {
    let log = Arguments::of("write n=1 -log file=x interval=250ms level=minimal no-summary no-settings").log;
    assert_eq!(
        (log.interval, log.summary, log.settings, log.failures),
        (Duration::from_millis(250), false, false, false)
    );
    assert_eq!(Arguments::of("write n=1 -log interval=2").log.interval, Duration::from_secs(2));
}

#[test]
fn help_is_no_error() {
    assert_eq!(parse("help"), Ok(Parsed::Help));
    assert_eq!(parse("--help"), Ok(Parsed::Help));
    assert_eq!(parse("version"), Ok(Parsed::Version));
    for group in GROUPS {
        assert!(USAGE.contains(group), "{group}");
    }
}

#[test]
fn what_is_not_there_yet_is_refused_by_name() {
    for (line, name) in [
        ("print dist=uniform(1..2)", "print"),
        ("write n=1 -transport truststore=x", "-transport"),
        ("write n=1 -tokenrange wrap", "-tokenrange"),
        ("write n=1 -col super=2", "-col super=2"),
        ("write n=1 -mode simplenative", "-mode simplenative"),
        ("write n=1 -log hdrfile=x", "-log hdrfile=x"),
        ("write n=1 -pop seq=1..2 read-lookback=fixed(1)", "read-lookback"),
        ("write n=1 -insert visits=fixed(2)", "visits=fixed(2)"),
        ("write n=1 -node datacenter=dc1", "datacenter=dc1"),
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
        ("write n=1 -rate threads=1 -rate threads=2", "`-rate` is given twice"),
        ("write m=1", "`m=1` means nothing to `write`"),
        ("write n=x", "a number is expected"),
        ("write n=1 duration=1m", "twice"),
        ("write n=1 err<0.1", "exclude n="),
        ("write ratio(write=1,read=1)", "means nothing to `write`"),
        ("write profile=x", "means nothing to `write`"),
        ("user profile=x add=fixed(1)", "means nothing to `user`"),
        ("user ops(insert=1) n=1", "`user` needs profile=FILE"),
        ("user profile=x n=1", "`user` needs ops("),
        ("user profile=x ops(insert) n=1", "ops(OPERATION=HOW OFTEN"),
        ("user profile=x ops(insert=1,insert=1)", "insert of ops(…)` is given twice"),
        ("user profile=x ops(insert=1) -schema keyspace=y", "a profile has its own"),
        ("mixed ratio(write=0,read=0)", "ratio(write=W,read=R,…)"),
        ("mixed ratio(scan=1)", "ratio(write=W,read=R,…)"),
        ("mixed clustering=fixed(0)", "numbers above 0"),
        ("write duration=5", "s, m, h or d"),
        ("write cl=SOME", "a consistency level is expected"),
        ("write keysize=0", "1 to 1024"),
        ("write n=1 -rate threads=0", "from 1 to 65536"),
        ("write n=1 -rate threads=1 fixed=1/s throttle=1/s", "twice"),
        ("write n=1 -rate fixed=1/s", "need threads=N"),
        ("write n=1 -rate auto threads=1", "exclude auto"),
        ("write n=1 -rate threads>=9 threads<=8", "more than threads<="),
        ("write n=1 -port native=x", "native=PORT"),
        ("write n=1 -node file=/nonexistent/nodes", "/nonexistent/nodes"),
        ("write n=1 -pop seq=5..1", "FROM..TO"),
        ("write n=1 -pop dist=odd(1..2)", "`dist=odd(1..2)` of `-pop`: `odd(1..2)` is no distribution"),
        ("write n=1 -pop dist=uniform(1..2) no-wrap", "excludes seq="),
        ("write n=1 -col n=uniform(1..2)", "fixed(N) with N from 1 to 1000"),
        ("write n=1 -col names=a,a", "without repeats"),
        ("write n=1 -schema keyspace=a\"b", "letters, digits"),
        ("write n=1 -schema compaction(a=b)", "strategy=NAME"),
        ("write n=1 -insert batchtype=odd", "logged, unlogged or counter"),
        ("write n=1 -mode user=a", "go together"),
        ("write n=1 -mode protocolVersion=3", "4 or 5"),
        ("write n=1 -graph title=a", "-graph needs file=FILE"),
        ("write n=1 -log interval=0s", "as Ns or Nms"),
        ("write n=1 -cores 3-1", "core numbers"),
        ("write n=1 -cores", "needs a list"),
        ("read n=1 -verify yes", "means nothing to `-verify`"),
        ("write n=1 -verify", "nothing here does"),
        ("read n=1 -verify -errors skip-read-validation", "exclude each other"),
    ] {
        assert!(refused(line).contains(part), "{line}: {}", refused(line));
    }
}
