"""cqlsh against a server: `-e`, `-f`, DESCRIBE, COPY both ways.

Every call is a process of its own, as an operator's would be. Each function below is one check.
"""
import csv
import os
import re
import subprocess
import sys

import checks
from checks import mixed, same

ARGS = checks.arguments(__doc__)
KEYSPACE = "client_cqlsh"
CQLSH = os.path.join(os.path.dirname(sys.executable), "cqlsh")


def start(*arguments, within_s=300):
    """Runs cqlsh to its end."""
    command = [sys.executable, CQLSH, ARGS.host, str(ARGS.port), "--no-color", "--request-timeout=60", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=within_s, stdin=subprocess.DEVNULL)


def cqlsh(*arguments, within_s=300):
    """What it printed; it must have ended well and complained about nothing."""
    done = start(*arguments, within_s=within_s)
    complaints = [line for line in done.stderr.splitlines() if line.strip() and "Warning" not in line]
    if done.returncode != 0 or complaints:
        raise AssertionError(f"cqlsh {arguments}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
    return re.sub(r"(?m)^WARNING: cqlsh was built against .*\n+", "", done.stdout)


def execute(cql, **how):
    return cqlsh("-e", cql, **how)


def table(printed):
    """The rows of one printed result, without headers, frames and the count."""
    lines = printed.splitlines()
    rule = next((n for n, line in enumerate(lines) if re.fullmatch(r"-[-+]*", line)), None)
    if rule is None:
        raise AssertionError(f"no result in\n{printed}")
    body = [line for line in lines[rule + 1:] if "|" in line or re.match(r" +\S", line)]
    return [tuple(cell.strip() for cell in line.split("|")) for line in body if not re.match(r"\(\d+ rows\)", line)]


def refused(*arguments, saying, status=2):
    """A call that must fail, with these words on its standard error."""
    done = start(*arguments)
    same(done.returncode, status, f"status of cqlsh {arguments}: {done.stderr}")
    for words in saying:
        assert words in done.stderr, f"{words!r} is not in {done.stderr!r}"


def connect():
    shown = execute("SHOW VERSION")
    assert re.search(r"\[cqlsh 6\.2\.\d+ \| Cassandra 5\.0[\w.-]* \| CQL spec 3\.4\.\d+ \| Native protocol v5\]", shown), shown
    assert ARGS.host in execute("SHOW HOST"), "SHOW HOST"


def execute_():
    execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")
    execute(f"USE {KEYSPACE}; CREATE TABLE small (k int PRIMARY KEY, v text); INSERT INTO small (k, v) VALUES (1, 'one')")
    same(table(execute(f"SELECT k, v FROM {KEYSPACE}.small")), [("1", "one")])
    same(table(cqlsh("-k", KEYSPACE, "-e", "SELECT v FROM small WHERE k = 1")), [("one",)], "-k")
    same(table(execute(f"CONSISTENCY QUORUM; SELECT count(*) FROM {KEYSPACE}.small")), [("1",)])


def file():
    with open("statements.cql", "w", encoding="utf-8") as out:
        out.write(f"-- a comment\nUSE {KEYSPACE};\n/* another,\n over lines */\n")
        out.write("CREATE TABLE from_file (p text, c int, s int STATIC, v text,\n  PRIMARY KEY (p, c))\n"
                  "  WITH CLUSTERING ORDER BY (c DESC);\n")
        out.write("".join(f"INSERT INTO from_file (p, c, v) VALUES ('ä;b', {c}, 'it''s {c}');\n" for c in range(20)))
        out.write("SELECT c, v FROM from_file WHERE p = 'ä;b' LIMIT 2;\n")
    same(table(cqlsh("-f", "statements.cql")), [("19", "it's 19"), ("18", "it's 18")])


def types():
    with open("types.cql", "w", encoding="utf-8") as out:
        out.write(f"""USE {KEYSPACE};
CREATE TABLE types (k int PRIMARY KEY, a ascii, b bigint, bl blob, bo boolean, d date, de decimal, du duration,
  do double, f float, i inet, s smallint, t text, ti time, ts timestamp, tu timeuuid, ty tinyint, u uuid, vi varint,
  l frozen<list<int>>, m frozen<map<text, int>>, se frozen<set<int>>, tup tuple<int, text>);
INSERT INTO types (k, a, b, bl, bo, d, de, du, do, f, i, s, t, ti, ts, tu, ty, u, vi, l, m, se, tup) VALUES (
  1, 'ascii', -9223372036854775808, 0x00ff, true, '2024-02-29', 1.50, 1mo2d3ns, 0.1, 1.5, '::1', -32768, 'ünï',
  '08:12:54.123456789', '2011-02-03T04:05:06.789+0000', 8ac6d1dc-fbeb-11e9-8f0b-362b9e155667, -128,
  f066f76d-5e96-4b52-8d8a-0f51387df76b, 123456789012345678901234567890, [3, 1], {{'x': 1}}, {{2, 1}}, (1, 'two'));
SELECT a, b, bl, bo, d, de, du, do, f, i, s FROM types;
""")
    same(table(cqlsh("-f", "types.cql")),
         [("ascii", "-9223372036854775808", "0x00ff", "True", "2024-02-29", "1.50", "1mo2d3ns", "0.1", "1.5", "::1",
           "-32768")])
    same(table(execute(f"SELECT t, ti, ts, tu, ty, u, vi, l, m, se, tup FROM {KEYSPACE}.types")),
         [("ünï", "08:12:54.123456789", "2011-02-03 04:05:06.789000+0000", "8ac6d1dc-fbeb-11e9-8f0b-362b9e155667",
           "-128", "f066f76d-5e96-4b52-8d8a-0f51387df76b", "123456789012345678901234567890", "[3, 1]", "{'x': 1}",
           "{1, 2}", "(1, 'two')")])


def describe_cluster():
    shown = execute("DESCRIBE CLUSTER")
    assert "Cluster: " in shown and "Partitioner: Murmur3Partitioner" in shown and "Snitch: " in shown, shown


def describe_keyspaces():
    names = set(execute("DESCRIBE KEYSPACES").split())
    assert {KEYSPACE, "system", "system_schema", "system_virtual_schema"} <= names, names
    same(set(cqlsh("-k", KEYSPACE, "-e", "DESCRIBE TABLES").split()), {"from_file", "small", "types"})
    assert "CREATE TABLE system.local" in execute("DESCRIBE FULL SCHEMA"), "system tables in the full schema"


def describe_table():
    shown = execute(f"DESCRIBE TABLE {KEYSPACE}.from_file")
    for part in (f"CREATE TABLE {KEYSPACE}.from_file (\n    p text,\n    c int,\n    s int static,\n    v text,\n"
                 "    PRIMARY KEY (p, c)\n) WITH CLUSTERING ORDER BY (c DESC)",
                 "AND gc_grace_seconds = 864000", "AND speculative_retry = '99p';"):
        assert part in shown, f"{part}\nis not in\n{shown}"
    refused("-e", f"DESCRIBE TABLE {KEYSPACE}.nosuch", saying=["nosuch"])


def describe_recreates():
    described = execute(f"DESCRIBE KEYSPACE {KEYSPACE}")
    with open("described.cql", "w", encoding="utf-8") as out:
        out.write(described)
    execute(f"DROP KEYSPACE {KEYSPACE}")
    cqlsh("-f", "described.cql")
    same(execute(f"DESCRIBE KEYSPACE {KEYSPACE}"), described, "described, dropped, created from it, described")


def rows_of_file():
    """Rows with what CSV finds hard: quotes, commas, other scripts (not line ends or tabs: cqlsh itself changes those)."""
    for n in range(ARGS.rows):
        text = ("plain", "with, comma", 'with "quotes"', "it's", "semi;colon", "ünï☃")[n % 6]
        yield [str(n % 500), str(n), f"{text} {n}", f"0x{mixed(ARGS.seed, n):016x}", str(n % 7 == 0)]


def copy_from():
    execute(f"CREATE TABLE {KEYSPACE}.copied (p int, c bigint, t text, b blob, o boolean, PRIMARY KEY (p, c))")
    with open("in.csv", "w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out, doublequote=False, escapechar="\\", lineterminator="\n")
        for p, c, t, b, o in rows_of_file():
            writer.writerow([p, c, t, b, o])
    shown = execute(f"COPY {KEYSPACE}.copied (p, c, t, b, o) FROM 'in.csv' WITH NUMPROCESSES = 2", within_s=600)
    assert f"{ARGS.rows} rows imported from 1 files" in shown and "0 skipped" in shown, shown


def copy_to():
    columns = "(p, c, t, b, o)"
    shown = execute(f"COPY {KEYSPACE}.copied {columns} TO 'out.csv' WITH NUMPROCESSES = 2", within_s=600)
    assert f"{ARGS.rows} rows exported to 1 files" in shown, shown
    read = lambda name: sorted(csv.reader(open(name, encoding="utf-8", newline=""), doublequote=False, escapechar="\\"))
    came_back, went_in = read("out.csv"), read("in.csv")
    same(len(came_back), len(went_in))
    for got, want in zip(came_back, went_in):
        same(got, want)
    with open("header.cql", "w", encoding="utf-8") as out:
        out.write(f"COPY {KEYSPACE}.small TO 'small.csv' WITH HEADER = TRUE;\n")
    execute(f"INSERT INTO {KEYSPACE}.small (k, v) VALUES (2, 'two')")
    cqlsh("-f", "header.cql")
    same(sorted(open("small.csv", encoding="utf-8").read().split()), ["2,two", "k,v"])


def paging():
    shown = execute(f"PAGING 1000; SELECT c FROM {KEYSPACE}.copied", within_s=600)
    numbers = sorted(int(line) for line in shown.splitlines() if re.fullmatch(r" *\d+", line))
    same(len(numbers), ARGS.rows, "rows printed over all pages")
    same(numbers, list(range(ARGS.rows)))
    same(table(execute(f"SELECT count(*) FROM {KEYSPACE}.copied")), [(str(ARGS.rows),)])


def batch():
    inserts = " ".join(f"INSERT INTO {KEYSPACE}.small (k, v) VALUES ({k}, 'b{k}');" for k in (10, 11, 12))
    execute(f"BEGIN BATCH {inserts} DELETE FROM {KEYSPACE}.small WHERE k = 1; APPLY BATCH")
    execute(f"BEGIN UNLOGGED BATCH UPDATE {KEYSPACE}.small SET v = 'u' WHERE k = 13; APPLY BATCH")
    same(sorted(table(execute(f"SELECT k, v FROM {KEYSPACE}.small WHERE k IN (10, 11, 12, 13, 1)"))),
         [("10", "b10"), ("11", "b11"), ("12", "b12"), ("13", "u")])


def alter():
    execute(f"ALTER TABLE {KEYSPACE}.small ADD n int; UPDATE {KEYSPACE}.small SET n = 5 WHERE k = 10")
    same(table(execute(f"SELECT * FROM {KEYSPACE}.small WHERE k = 10")), [("10", "5", "b10")])
    execute(f"ALTER TABLE {KEYSPACE}.small WITH comment = 'changed'")
    assert "comment = 'changed'" in execute(f"DESCRIBE TABLE {KEYSPACE}.small")
    execute(f"TRUNCATE {KEYSPACE}.small")
    same(table(execute(f"SELECT count(*) FROM {KEYSPACE}.small")), [("0",)])


def error_syntax():
    refused("-e", "SELEC nothing", saying=["SyntaxException"])


def error_invalid():
    refused("-e", f"SELECT nosuch FROM {KEYSPACE}.small", saying=["InvalidRequest", "code=2200", "nosuch"])


def error_exists():
    refused("-e", f"CREATE TABLE {KEYSPACE}.small (k int PRIMARY KEY)", saying=["AlreadyExists", "small"])


def error_in_file():
    with open("wrong.cql", "w", encoding="utf-8") as out:
        out.write(f"SELECT * FROM {KEYSPACE}.nosuch;\nINSERT INTO {KEYSPACE}.small (k) VALUES (77);\n")
    refused("-f", "wrong.cql", saying=["wrong.cql:", "InvalidRequest", "nosuch"])
    same(table(execute(f"SELECT k FROM {KEYSPACE}.small WHERE k = 77")), [("77",)], "the file went on")
    execute(f"DROP KEYSPACE {KEYSPACE}")


execute_.__name__ = "execute"
checks.run([connect, execute_, file, types, describe_cluster, describe_keyspaces, describe_table, describe_recreates,
            copy_from, copy_to, paging, batch, alter, error_syntax, error_invalid, error_exists, error_in_file])
