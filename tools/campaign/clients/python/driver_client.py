"""The Python driver (cassandra-driver) against a server, over protocol 3, 4 or 5.

Each function below is one check; `checks.run` at the end says in which order they run.
"""
import datetime
import decimal
import logging
import math
import uuid

from cassandra import AlreadyExists, ConsistencyLevel, InvalidRequest, ProtocolVersion
from cassandra.cluster import EXEC_PROFILE_DEFAULT, Cluster, ExecutionProfile
from cassandra.concurrent import execute_concurrent_with_args
from cassandra.metadata import Murmur3Token
from cassandra.policies import DCAwareRoundRobinPolicy, TokenAwarePolicy
from cassandra.protocol import (ConfigurationException, ErrorMessage, ExecuteMessage, PreparedQueryNotFound,
                                ProtocolException, SyntaxException)
from cassandra.query import UNSET_VALUE, BatchStatement, BatchType, SimpleStatement
from cassandra.util import Date, Duration, SortedSet, Time

import checks
from checks import eventually, fails, mixed, same

ARGS = checks.arguments(__doc__)
V = ARGS.protocol
logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")  # a connection closed, a host down
KEYSPACE = f"client_python{V}"
PARTITIONS = 100


def connected():
    profile = ExecutionProfile(request_timeout=60, consistency_level=ConsistencyLevel.LOCAL_ONE,
                               load_balancing_policy=TokenAwarePolicy(DCAwareRoundRobinPolicy("datacenter1")))
    cluster = Cluster([ARGS.host], port=ARGS.port, protocol_version=V, compression=ARGS.compression,
                      execution_profiles={EXEC_PROFILE_DEFAULT: profile}, schema_event_refresh_window=0)
    return cluster, cluster.connect()


CLUSTER, SESSION = connected()


def execute(cql, values=None):
    return SESSION.execute(cql, values)


def rows(cql, values=None):
    return [tuple(row) for row in execute(cql, values)]


def connect():
    same(CLUSTER.protocol_version, V, "protocol version")
    hosts = CLUSTER.metadata.all_hosts()
    same(len(hosts), 1, "hosts")
    host = hosts[0]
    same(host.address, ARGS.host, "address of the only host")
    assert host.is_up and host.host_id and host.datacenter and host.rack, vars(host)
    assert host.release_version.startswith("5."), host.release_version
    assert CLUSTER.metadata.partitioner.endswith("Murmur3Partitioner"), CLUSTER.metadata.partitioner


def system():
    (local,) = execute("SELECT * FROM system.local")
    same(local.key, "local")
    same(local.bootstrapped, "COMPLETED")
    assert local.tokens and local.cql_version.startswith("3."), local
    same(str(local.rpc_address), ARGS.host, "rpc_address is the address connected to")
    same(rows("SELECT * FROM system.peers_v2"), [])
    names = {row[0] for row in rows("SELECT keyspace_name FROM system_schema.keyspaces")}
    assert {"system", "system_schema"} <= names, names


def schema():
    execute(f"DROP KEYSPACE IF EXISTS {KEYSPACE}")
    execute(f"CREATE KEYSPACE {KEYSPACE} WITH replication = "
            "{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}")
    SESSION.set_keyspace(KEYSPACE)
    execute("CREATE TABLE big (p int, c int, v bigint, t text, PRIMARY KEY (p, c)) "
            "WITH CLUSTERING ORDER BY (c DESC) AND comment = 'rows to page over' AND gc_grace_seconds = 3600")
    keyspace = CLUSTER.metadata.keyspaces[KEYSPACE]
    same(keyspace.replication_strategy.export_for_schema(),
         "{'class': 'NetworkTopologyStrategy', 'datacenter1': '1'}")
    table = keyspace.tables["big"]
    same(list(table.columns), ["p", "c", "t", "v"], "columns: the key's, then by name")
    same([c.name for c in table.partition_key], ["p"])
    same([(c.name, c.is_reversed) for c in table.clustering_key], [("c", True)])
    same({n: c.cql_type for n, c in table.columns.items()}, {"p": "int", "c": "int", "v": "bigint", "t": "text"})
    same((table.options["comment"], table.options["gc_grace_seconds"]), ("rows to page over", 3600))
    assert "CLUSTERING ORDER BY (c DESC)" in table.export_as_string(), table.export_as_string()
    assert CLUSTER.control_connection.wait_for_schema_agreement(), "schema agreement"


SCALARS = {
    "ascii": ["", "plain", "~" * 1000],
    "bigint": [0, -1, 2**63 - 1, -2**63],
    "blob": [b"", b"\x00\xff" * 500],
    "boolean": [True, False],
    "date": [Date("1970-01-01"), Date("2024-02-29"), Date("0001-01-01")],
    "decimal": [decimal.Decimal("0"), decimal.Decimal("-1.50"), decimal.Decimal("1e-30"), decimal.Decimal("9" * 50)],
    "double": [0.0, -1.5, 1e308, math.inf],
    "duration": [Duration(1, 2, 3), Duration(-1, -2, -3), Duration(0, 0, 0)],
    "float": [0.0, -1.5, math.inf],
    "inet": ["127.0.0.1", "::1", "fe80::1"],
    "int": [0, -1, 2**31 - 1, -2**31],
    "smallint": [0, -1, 32767, -32768],
    "text": ["", "häuser ☃ 𝄞", "'quoted'"],
    "time": [Time(0), Time(86399999999999)],
    "timestamp": [datetime.datetime(1970, 1, 1), datetime.datetime(2038, 1, 19, 3, 14, 8, 123000)],
    "timeuuid": [uuid.UUID("8ac6d1dc-fbeb-11e9-8f0b-362b9e155667")],
    "tinyint": [0, -1, 127, -128],
    "uuid": [uuid.UUID(int=0), uuid.UUID("f066f76d-5e96-4b52-8d8a-0f51387df76b")],
    "varchar": ["a varchar is a text"],
    "varint": [0, -1, 128, -129, 10**40, -10**40],
}


def types():
    columns = ", ".join(f"v_{name} {name}" for name in SCALARS)
    execute(f"CREATE TABLE scalars (k int PRIMARY KEY, {columns})")
    for name, values in SCALARS.items():
        insert = SESSION.prepare(f"INSERT INTO scalars (k, v_{name}) VALUES (?, ?)")
        select = SESSION.prepare(f"SELECT v_{name} FROM scalars WHERE k = ?")
        for number, value in enumerate(values):
            SESSION.execute(insert, (number, value))
            same(SESSION.execute(select, (number,)).one()[0], value, name)
    nan = SESSION.prepare("INSERT INTO scalars (k, v_double, v_float) VALUES (99, ?, ?)")
    SESSION.execute(nan, (math.nan, math.nan))
    assert all(math.isnan(v) for v in rows("SELECT v_double, v_float FROM scalars WHERE k = 99")[0])
    for name in SCALARS:
        if name != "duration":  # which cannot be a key
            types_as_keys(name)


def types_as_keys(name):
    execute(f"CREATE TABLE key_{name} (k {name}, c {name}, PRIMARY KEY (k, c))")
    insert = SESSION.prepare(f"INSERT INTO key_{name} (k, c) VALUES (?, ?)")
    select = SESSION.prepare(f"SELECT c FROM key_{name} WHERE k = ? AND c = ?")
    for value in SCALARS[name]:
        if value in ("", b""):
            error = fails(InvalidRequest, lambda: SESSION.execute(insert, (value, value)))
            assert "Key may not be empty" in str(error), error
        else:
            SESSION.execute(insert, (value, value))
            same([tuple(row) for row in SESSION.execute(select, (value, value))], [(value,)], name)
    execute(f"DROP TABLE key_{name}")


def null_and_unset():
    insert = SESSION.prepare("INSERT INTO scalars (k, v_int, v_text) VALUES (?, ?, ?)")
    SESSION.execute(insert, (1000, 7, "seven"))
    SESSION.execute(insert, (1000, None, "still"))
    same(rows("SELECT v_int, v_text FROM scalars WHERE k = 1000"), [(None, "still")])
    if V >= 4:
        SESSION.execute(insert, (1000, 8, UNSET_VALUE))
        same(rows("SELECT v_int, v_text FROM scalars WHERE k = 1000"), [(8, "still")], "unset keeps what was there")
        named = SESSION.prepare("INSERT INTO scalars (k, v_int) VALUES (:key, :number)")
        SESSION.execute(named, {"key": 1001, "number": 9})
        same(rows("SELECT v_int FROM scalars WHERE k = 1001"), [(9,)], "values bound by name")


def collections():
    execute("CREATE TABLE collections (k int PRIMARY KEY, l frozen<list<int>>, s frozen<set<text>>, "
            "m frozen<map<text, bigint>>, t tuple<int, text, frozen<list<uuid>>>)")
    insert = SESSION.prepare("INSERT INTO collections (k, l, s, m, t) VALUES (?, ?, ?, ?, ?)")
    ident = uuid.UUID(int=5)
    SESSION.execute(insert, (1, [3, 1, 2, 1], {"b", "a"}, {"x": 1, "y": -1}, (1, None, [ident])))
    row = execute("SELECT l, s, m, t FROM collections WHERE k = 1").one()
    same((row.l, row.s, dict(row.m), row.t), ([3, 1, 2, 1], SortedSet(["a", "b"]), {"x": 1, "y": -1}, (1, None, [ident])))
    execute("CREATE TABLE by_frozen (k frozen<map<int, text>> PRIMARY KEY, v int)")
    by_map = SESSION.prepare("INSERT INTO by_frozen (k, v) VALUES (?, 1)")
    SESSION.execute(by_map, ({2: "two", 1: "one"},))
    select = SESSION.prepare("SELECT v FROM by_frozen WHERE k = ?")
    same(tuple(SESSION.execute(select, ({1: "one", 2: "two"},)).one()), (1,), "a map as key, in any order of entries")


def value_of(number):
    return mixed(ARGS.seed, number) - 2**63


def write_read():
    insert = SESSION.prepare("INSERT INTO big (p, c, v, t) VALUES (?, ?, ?, ?)")
    arguments = [(n % PARTITIONS, n // PARTITIONS, value_of(n), f"row {n}") for n in range(ARGS.rows)]
    execute_concurrent_with_args(SESSION, insert, arguments, concurrency=200)
    select = SESSION.prepare("SELECT v, t FROM big WHERE p = ? AND c = ?")
    for n in range(0, ARGS.rows, max(1, ARGS.rows // 200)):
        same(tuple(SESSION.execute(select, (n % PARTITIONS, n // PARTITIONS)).one()), (value_of(n), f"row {n}"))
    p0 = [n for n in range(ARGS.rows) if n % PARTITIONS == 0]
    same(rows("SELECT c FROM big WHERE p = 0 LIMIT 3"), [(n // PARTITIONS,) for n in reversed(p0[-3:])], "DESC")
    same(rows("SELECT c FROM big WHERE p = 0 AND c < 2 ORDER BY c ASC"), [(0,), (1,)], "read against the order")
    same(rows("SELECT c FROM big WHERE p = 0 AND c IN (1, 5) AND v > %s ALLOW FILTERING", (-2**63,)), [(5,), (1,)])


def paging():
    statement = SimpleStatement("SELECT p, c, v FROM big", fetch_size=1000)
    result, pages, seen = SESSION.execute(statement), 0, 0
    found = bytearray(ARGS.rows)
    while True:
        page = result.current_rows
        assert len(page) <= 1000, len(page)
        pages += 1
        for p, c, v in page:
            n = c * PARTITIONS + p
            assert not found[n], f"row {n} twice"
            found[n] = 1
            same(v, value_of(n), f"row {n}")
        seen += len(page)
        if not result.has_more_pages:
            break
        result.fetch_next_page()
    same(seen, ARGS.rows, "rows over all pages")
    assert ARGS.rows // 1000 <= pages <= ARGS.rows // 1000 + 1, pages
    same(rows("SELECT count(*) FROM big"), [(ARGS.rows,)])
    same(len(rows("SELECT p FROM big PER PARTITION LIMIT 2")), 2 * PARTITIONS)
    same(sorted(rows("SELECT DISTINCT p FROM big")), [(p,) for p in range(PARTITIONS)])


def paging_resumed():
    statement = SimpleStatement("SELECT c FROM big WHERE p = 7", fetch_size=10)
    whole = rows("SELECT c FROM big WHERE p = 7")
    first = SESSION.execute(statement)
    state = first.paging_state
    assert state, "a paging state"
    other_cluster, other = connected()
    try:
        other.set_keyspace(KEYSPACE)
        rest = SESSION.execute(statement, paging_state=state)
        elsewhere = other.execute(SimpleStatement("SELECT c FROM big WHERE p = 7", fetch_size=7), paging_state=state)
        same([tuple(r) for r in rest], whole[10:], "from the state on")
        same([tuple(r) for r in elsewhere], whole[10:], "on another connection, with other pages")
        # The driver closes a connection that got a protocol error, so this is the other's last request.
        wrong = fails(ProtocolException, lambda: other.execute(statement, paging_state=b"not one of yours"))
        same(wrong.code, 0x000A)
    finally:
        other_cluster.shutdown()


def token_ranges():
    edges = [-2**63 + step * 2**62 for step in range(5)]
    total = 0
    for low, high in zip(edges, edges[1:]):
        high = min(high, 2**63 - 1)
        total += rows("SELECT count(*) FROM big WHERE token(p) > %s AND token(p) <= %s", (low, high))[0][0]
    same(total, ARGS.rows, "rows over four token ranges")
    for p, token in rows("SELECT p, token(p) FROM big PER PARTITION LIMIT 1"):
        key = p.to_bytes(4, "big", signed=True)
        same(token, Murmur3Token.hash_fn(key), f"token of {p}")


def batches():
    execute("CREATE TABLE batched (k int PRIMARY KEY, v int)")
    insert = SESSION.prepare("INSERT INTO batched (k, v) VALUES (?, ?)")
    for kind, start in ((BatchType.LOGGED, 0), (BatchType.UNLOGGED, 100)):
        batch = BatchStatement(batch_type=kind)
        for k in range(start, start + 50):
            batch.add(insert, (k, k * 2))
        batch.add("DELETE FROM batched WHERE k = %s", (start + 200,))
        batch.add(SimpleStatement(f"UPDATE batched SET v = 1 WHERE k = {start + 60}"))
        SESSION.execute(batch)
        same(sorted(rows("SELECT k, v FROM batched WHERE k IN (%s, %s, %s)" % (start, start + 49, start + 60))),
             [(start, start * 2), (start + 49, (start + 49) * 2), (start + 60, 1)], str(kind))
    same(rows("SELECT count(*) FROM batched"), [(102,)])
    execute("BEGIN BATCH USING TIMESTAMP 5 INSERT INTO batched (k, v) VALUES (500, 1); "
            "INSERT INTO batched (k, v) VALUES (501, 1); APPLY BATCH")
    same(rows("SELECT writetime(v) FROM batched WHERE k IN (500, 501)"), [(5,), (5,)])


def timestamps_ttl():
    execute("INSERT INTO batched (k, v) VALUES (400, 1) USING TIMESTAMP 1000 AND TTL 1000")
    execute("INSERT INTO batched (k, v) VALUES (400, 2) USING TIMESTAMP 999 AND TTL 1000")
    ((v, written, ttl),) = rows("SELECT v, writetime(v), ttl(v) FROM batched WHERE k = 400")
    same((v, written), (1, 1000), "the later timestamp stays")
    assert 990 <= ttl <= 1000, ttl
    execute("DELETE FROM batched USING TIMESTAMP 999 WHERE k = 400")
    same(rows("SELECT v FROM batched WHERE k = 400"), [(1,)], "an older delete")
    execute("INSERT INTO batched (k, v) VALUES (401, 1) USING TTL 1")
    eventually(lambda: rows("SELECT v FROM batched WHERE k = 401") == [], "a row with a TTL of 1 s goes", 5)


def statics():
    execute("CREATE TABLE statics (p int, c int, s text STATIC, v int, PRIMARY KEY (p, c))")
    execute("INSERT INTO statics (p, s) VALUES (1, 'alone')")
    same(rows("SELECT p, c, s, v FROM statics WHERE p = 1"), [(1, None, "alone", None)])
    execute("INSERT INTO statics (p, c, v) VALUES (1, 1, 10)")
    execute("INSERT INTO statics (p, c, v, s) VALUES (1, 2, 20, 'shared')")
    same(rows("SELECT c, s, v FROM statics WHERE p = 1"), [(1, "shared", 10), (2, "shared", 20)])
    execute("DELETE FROM statics WHERE p = 1 AND c > 1")
    same(rows("SELECT DISTINCT p, s FROM statics"), [(1, "shared")])


def reprepare():
    execute("CREATE TABLE altered (k int PRIMARY KEY, a int)")
    select = SESSION.prepare("SELECT * FROM altered WHERE k = ?")
    insert = SESSION.prepare("INSERT INTO altered (k, a) VALUES (?, ?)")
    SESSION.execute(insert, (1, 10))
    same(tuple(SESSION.execute(select, (1,)).one()), (1, 10))
    execute("ALTER TABLE altered ADD b text")
    SESSION.execute(insert, (2, 20))
    execute("UPDATE altered SET b = 'new' WHERE k = 1")
    same(tuple(SESSION.execute(select, (1,)).one()), (1, 10, "new"), "SELECT * prepared before ALTER")
    execute("ALTER TABLE altered RENAME k TO key")
    gone = fails(InvalidRequest, lambda: SESSION.execute(select, (1,)))
    assert "k" in str(gone), gone
    execute("ALTER TABLE altered DROP a")
    same(rows("SELECT * FROM altered WHERE key = 1"), [(1, "new")])


def unprepared_id():
    ident = b"0123456789abcdef"
    pool = next(iter(SESSION._pools.values()))
    connection, _ = pool.borrow_connection(timeout=5)
    message = ExecuteMessage(ident, [], ConsistencyLevel.ONE, result_metadata_id=ident if V >= 5 else None)
    ((answered, answer),) = connection.wait_for_responses(message, timeout=60, fail_on_error=False)
    pool.return_connection(connection)
    assert not answered and isinstance(answer, PreparedQueryNotFound), answer
    same(answer.info, ident, "UNPREPARED names the id")


def schema_events():
    other_cluster, other = connected()
    tables = lambda: CLUSTER.metadata.keyspaces[KEYSPACE].tables
    try:
        other.execute(f"CREATE TABLE {KEYSPACE}.eventful (k int PRIMARY KEY)")
        eventually(lambda: "eventful" in tables(), "another's CREATE TABLE is seen")
        other.execute(f"ALTER TABLE {KEYSPACE}.eventful ADD v int")
        eventually(lambda: "v" in tables()["eventful"].columns, "another's ALTER TABLE is seen")
        other.execute(f"DROP TABLE {KEYSPACE}.eventful")
        eventually(lambda: "eventful" not in tables(), "another's DROP TABLE is seen")
        other.execute(f"CREATE KEYSPACE {KEYSPACE}_b WITH replication = "
                      "{'class': 'SimpleStrategy', 'replication_factor': 1}")
        eventually(lambda: f"{KEYSPACE}_b" in CLUSTER.metadata.keyspaces, "another's CREATE KEYSPACE is seen")
        other.execute(f"DROP KEYSPACE {KEYSPACE}_b")
        eventually(lambda: f"{KEYSPACE}_b" not in CLUSTER.metadata.keyspaces, "another's DROP KEYSPACE is seen")
    finally:
        other_cluster.shutdown()


def compression():
    connection = CLUSTER.control_connection._connection
    if ProtocolVersion.has_checksumming_support(V):
        same(connection._compressor is not None or connection.compression == ARGS.compression, True)
    else:
        assert connection.compressor is not None, f"{ARGS.compression} was not agreed on"
    execute("CREATE TABLE compressed (k int PRIMARY KEY, even blob, odd blob)")
    insert = SESSION.prepare("INSERT INTO compressed (k, even, odd) VALUES (?, ?, ?)")
    for size in (1, 1000, 131071, 131072, 1_000_000):
        even = b"abcd" * (size // 4)
        odd = b"".join(mixed(ARGS.seed, n).to_bytes(8, "big") for n in range(size // 8 + 1))
        SESSION.execute(insert, (size, even, odd))
        same(rows("SELECT even, odd FROM compressed WHERE k = %s", (size,)), [(even, odd)], f"{size} bytes")


def error_syntax():
    error = fails(SyntaxException, lambda: execute("SELEC nothing"))
    same(error.code, 0x2000)
    fails(SyntaxException, lambda: SESSION.prepare("INSERT INTO big (p, c VALUES (1, 2)"))


def error_invalid():
    for cql in ("SELECT nosuch FROM big", "SELECT * FROM nosuch", "INSERT INTO big (p) VALUES (1)",
                "SELECT * FROM big WHERE t = 'x'", "INSERT INTO big (p, c) VALUES ('one', 1)"):
        fails(InvalidRequest, lambda cql=cql: execute(cql))
    insert = SESSION.prepare("INSERT INTO batched (k, v) VALUES (?, ?)")
    bound = insert.bind((1, 1))
    bound.values[1] = b"\x00\x01"
    error = fails(InvalidRequest, lambda: SESSION.execute(bound))
    assert "2" in str(error), "an int of 2 bytes"


def error_unconfigured():
    error = fails(ErrorMessage, lambda: execute(f"CREATE TABLE {KEYSPACE}.strange (k int PRIMARY KEY) WITH nosuch = 1"))
    assert isinstance(error, (SyntaxException, ConfigurationException)), error
    keyspace = "CREATE KEYSPACE strange WITH replication = {'class': 'NoSuchStrategy'}"
    fails(ConfigurationException, lambda: execute(keyspace))


def error_exists():
    error = fails(AlreadyExists, lambda: execute("CREATE TABLE big (p int PRIMARY KEY)"))
    same((error.keyspace, error.table), (KEYSPACE, "big"))
    error = fails(AlreadyExists, lambda: execute(
        f"CREATE KEYSPACE {KEYSPACE} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}"))
    same((error.keyspace, error.table or None), (KEYSPACE, None))
    execute("CREATE TABLE IF NOT EXISTS big (p int PRIMARY KEY)")


def truncate():
    execute("TRUNCATE batched")
    same(rows("SELECT count(*) FROM batched"), [(0,)])
    execute("INSERT INTO batched (k, v) VALUES (1, 1)")
    same(rows("SELECT k, v FROM batched"), [(1, 1)], "written after TRUNCATE")
    execute(f"DROP KEYSPACE {KEYSPACE}")
    fails(InvalidRequest, lambda: execute(f"SELECT * FROM {KEYSPACE}.batched"))


checks.run([connect, system, schema, types, null_and_unset, collections, write_read, paging, paging_resumed,
            token_ranges, batches, timestamps_ttl, statics, reprepare, unprepared_id, schema_events, compression,
            error_syntax, error_invalid, error_unconfigured, error_exists, truncate])
CLUSTER.shutdown()
