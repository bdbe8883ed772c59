// The Node driver (cassandra-driver) against a server. Each function of CHECKS is one check.
'use strict';

const assert = require('assert');
const { parseArgs } = require('util');
const cassandra = require('cassandra-driver');
const { types } = cassandra;

const { values: given } = parseArgs({
  options: {
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '9042' },
    rows: { type: 'string', default: '100000' },
    seed: { type: 'string', default: '1' },
  },
});
const ROWS = Number(given.rows);
const SEED = BigInt(given.seed);
const KEYSPACE = 'client_node';
const PARTITIONS = 100;
const prepare = { prepare: true };

function client(options = {}) {
  return new cassandra.Client({
    contactPoints: [`${given.host}:${given.port}`],
    localDataCenter: 'datacenter1',
    queryOptions: { consistency: types.consistencies.localOne },
    socketOptions: { readTimeout: 60000 },
    ...options,
  });
}

const main = client();

// A bigint that depends on the seed and the number only (the last steps of SplitMix64).
function mixed(number) {
  let x = BigInt.asUintN(64, SEED * 0x9E3779B97F4A7C15n + BigInt(number) * 0xBF58476D1CE4E5B9n + 1n);
  x = BigInt.asUintN(64, (x ^ (x >> 30n)) * 0xBF58476D1CE4E5B9n);
  x = BigInt.asUintN(64, (x ^ (x >> 27n)) * 0x94D049BB133111EBn);
  return BigInt.asIntN(64, x ^ (x >> 31n));
}

const valueOf = (number) => types.Long.fromString(mixed(number).toString());

async function fails(code, action) {
  try {
    await action();
  } catch (error) {
    if (error.code !== code) throw error;
    return error;
  }
  throw new Error(`expected the error 0x${code.toString(16)}`);
}

async function eventually(condition, what) {
  for (let turn = 0; turn < 200; turn++) {
    if (await condition()) return;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not within 10 s: ${what}`);
}

async function rows(cql, parameters, options = prepare) {
  return (await main.execute(cql, parameters, options)).rows;
}

async function connect() {
  await main.connect();
  assert.strictEqual(main.controlConnection.protocolVersion, 4);
  assert.strictEqual(main.hosts.length, 1);
  const [host] = main.hosts.values();
  assert.strictEqual(host.address, `${given.host}:${given.port}`);
  assert.ok(host.isUp() && host.datacenter && host.rack && host.tokens.length > 0);
  assert.match(host.cassandraVersion, /^5\./);
}

async function schema() {
  await main.execute(`DROP KEYSPACE IF EXISTS ${KEYSPACE}`);
  await main.execute(`CREATE KEYSPACE ${KEYSPACE} WITH replication =
    {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}`);
  await main.execute(`USE ${KEYSPACE}`);
  await main.execute(`CREATE TABLE big (p int, c int, v bigint, t text, PRIMARY KEY (p, c))
    WITH CLUSTERING ORDER BY (c DESC) AND comment = 'rows to page over'`);
  assert.deepStrictEqual(main.metadata.keyspaces[KEYSPACE].strategyOptions, { datacenter1: '1' });
  const table = await main.metadata.getTable(KEYSPACE, 'big');
  assert.deepStrictEqual(table.partitionKeys.map((c) => c.name), ['p']);
  assert.deepStrictEqual(table.clusteringKeys.map((c) => c.name), ['c']);
  assert.deepStrictEqual(table.clusteringOrder, ['DESC']);
  assert.deepStrictEqual(table.columns.map((c) => c.name).sort(), ['c', 'p', 't', 'v']);
  assert.strictEqual(table.comment, 'rows to page over');
  assert.ok(await main.metadata.checkSchemaAgreement(), 'schema agreement');
}

const uuid = () => types.Uuid.fromString('f066f76d-5e96-4b52-8d8a-0f51387df76b');
const SCALARS = {
  ascii: ['', 'plain'],
  bigint: [types.Long.MIN_VALUE, types.Long.fromNumber(-1)],
  blob: [Buffer.alloc(0), Buffer.from('00ff', 'hex')],
  boolean: [true, false],
  date: [types.LocalDate.fromString('2024-02-29')],
  decimal: [types.BigDecimal.fromString('-1.50'), types.BigDecimal.fromString('0')],
  double: [0, -1.5, 1e308, Infinity],
  duration: [types.Duration.fromString('1mo2d3ns'), types.Duration.fromString('-1y')],
  float: [0, -1.5],
  inet: [types.InetAddress.fromString('127.0.0.1'), types.InetAddress.fromString('fe80::1')],
  int: [0, -1, 2147483647, -2147483648],
  smallint: [32767, -32768],
  text: ['', 'häuser ☃ 𝄞'],
  time: [types.LocalTime.fromString('23:59:59.999999999')],
  timestamp: [new Date(0), new Date('2038-01-19T03:14:08.123Z')],
  timeuuid: [types.TimeUuid.fromString('8ac6d1dc-fbeb-11e9-8f0b-362b9e155667')],
  tinyint: [127, -128],
  uuid: [uuid()],
  varint: [types.Integer.fromString('-10000000000000000000000000000'), types.Integer.fromInt(128)],
};

// One text for equal values, whatever objects they are.
const shown = (value) => (Buffer.isBuffer(value) ? value.toString('hex')
  : value instanceof Date ? value.toISOString() : String(value));

async function everyType() {
  const columns = Object.keys(SCALARS).map((name) => `v_${name} ${name}`);
  await main.execute(`CREATE TABLE scalars (k int PRIMARY KEY, ${columns.join(', ')})`);
  for (const [name, samples] of Object.entries(SCALARS)) {
    for (const [k, sample] of samples.entries()) {
      await main.execute(`INSERT INTO scalars (k, v_${name}) VALUES (?, ?)`, [k, sample], prepare);
      const [row] = await rows(`SELECT v_${name} AS v FROM scalars WHERE k = ?`, [k]);
      assert.strictEqual(shown(row.v), shown(sample), name);
    }
  }
  await main.execute('INSERT INTO scalars (k, v_int, v_text) VALUES (?, ?, ?)', [0, null, types.unset], prepare);
  const [row] = await rows('SELECT v_int, v_text FROM scalars WHERE k = 0');
  assert.deepStrictEqual([row.v_int, row.v_text], [null, ''], 'null deletes, unset keeps');
}

async function collections() {
  await main.execute(`CREATE TABLE collections (k int PRIMARY KEY, l frozen<list<int>>, s frozen<set<text>>,
    m frozen<map<text, bigint>>, t tuple<int, text, frozen<list<uuid>>>)`);
  const tuple = new types.Tuple(1, null, [uuid()]);
  const map = { x: types.Long.fromNumber(1), y: types.Long.fromNumber(-1) };
  await main.execute('INSERT INTO collections (k, l, s, m, t) VALUES (?, ?, ?, ?, ?)',
    [1, [3, 1, 2], ['b', 'a'], map, tuple], prepare);
  const [row] = await rows('SELECT l, s, m, t FROM collections WHERE k = 1');
  assert.deepStrictEqual(row.l, [3, 1, 2]);
  assert.deepStrictEqual(row.s, ['a', 'b']);
  assert.deepStrictEqual(Object.entries(row.m).map(shown), ['x,1', 'y,-1']);
  assert.deepStrictEqual(row.t.values().map(shown), ['1', 'null', uuid().toString()]);
}

async function writeRead() {
  const insert = 'INSERT INTO big (p, c, v, t) VALUES (?, ?, ?, ?)';
  const values = Array.from({ length: ROWS }, (_, n) =>
    [n % PARTITIONS, Math.floor(n / PARTITIONS), valueOf(n), `row ${n}`]);
  const done = await cassandra.concurrent.executeConcurrent(main, insert, values,
    { concurrencyLevel: 200, collectResults: false });
  assert.strictEqual(done.totalExecuted, ROWS);
  for (let n = 0; n < ROWS; n += Math.max(1, Math.floor(ROWS / 200))) {
    const [row] = await rows('SELECT v, t FROM big WHERE p = ? AND c = ?', [n % PARTITIONS, Math.floor(n / PARTITIONS)]);
    assert.deepStrictEqual([row.v.toString(), row.t], [mixed(n).toString(), `row ${n}`]);
  }
  const ascending = await rows('SELECT c FROM big WHERE p = 0 AND c < 2 ORDER BY c ASC');
  assert.deepStrictEqual(ascending.map((row) => row.c), [0, 1]);
  const byHint = await main.execute('SELECT v FROM big WHERE p = ? AND c = ?', [0, 0], { hints: ['int', 'int'] });
  assert.strictEqual(byHint.first().v.toString(), mixed(0).toString(), 'values sent without PREPARE');
}

function checker() {
  const found = new Uint8Array(ROWS);
  let count = 0;
  return {
    row({ p, c, v }) {
      const n = c * PARTITIONS + p;
      assert.strictEqual(found[n], 0, `row ${n} twice`);
      found[n] = 1;
      count += 1;
      assert.strictEqual(v.toString(), mixed(n).toString(), `row ${n}`);
    },
    end() {
      assert.strictEqual(count, ROWS);
    },
  };
}

async function paging() {
  const check = checker();
  await new Promise((resolve, reject) => {
    main.eachRow('SELECT p, c, v FROM big', [], { prepare: true, fetchSize: 1000, autoPage: true },
      (_, row) => { try { check.row(row); } catch (error) { reject(error); } },
      (error) => (error ? reject(error) : resolve()));
  });
  check.end();
}

async function pagingResumed() {
  const cql = 'SELECT c FROM big WHERE p = 7';
  const whole = (await rows(cql)).map((row) => row.c);
  const first = await main.execute(cql, [], { prepare: true, fetchSize: 10 });
  assert.strictEqual(first.rows.length, 10);
  const other = client({ keyspace: KEYSPACE });
  const rest = [];
  for (let pageState = first.pageState; pageState;) {
    const page = await other.execute(cql, [], { prepare: true, fetchSize: 7, pageState });
    rest.push(...page.rows.map((row) => row.c));
    pageState = page.pageState;
  }
  await other.shutdown();
  assert.deepStrictEqual(rest, whole.slice(10));
  await fails(types.responseErrorCodes.protocolError,
    () => main.execute(cql, [], { prepare: true, fetchSize: 10, pageState: '00112233445566' }));
}

async function stream() {
  const check = checker();
  for await (const row of main.stream('SELECT p, c, v FROM big', [], { prepare: true, fetchSize: 5000 })) {
    check.row(row);
  }
  check.end();
}

async function batches() {
  await main.execute('CREATE TABLE batched (k int PRIMARY KEY, v int)');
  for (const [logged, start] of [[true, 0], [false, 100]]) {
    const queries = Array.from({ length: 50 }, (_, k) =>
      ({ query: 'INSERT INTO batched (k, v) VALUES (?, ?)', params: [start + k, 2 * k] }));
    queries.push({ query: 'DELETE FROM batched WHERE k = ?', params: [start + 99] });
    await main.batch(queries, { prepare: true, logged, timestamp: types.Long.fromNumber(5 + start) });
    const [row] = await rows('SELECT v, writetime(v) AS w FROM batched WHERE k = ?', [start + 49]);
    assert.deepStrictEqual([row.v, row.w.toNumber()], [98, 5 + start]);
  }
  const [{ count }] = await rows('SELECT count(*) FROM batched');
  assert.strictEqual(count.toNumber(), 100);
}

async function timestampsTtl() {
  await main.execute('INSERT INTO batched (k, v) VALUES (400, 1) USING TIMESTAMP 1000 AND TTL 1000');
  await main.execute('INSERT INTO batched (k, v) VALUES (400, 2) USING TIMESTAMP 999');
  const [row] = await rows('SELECT v, writetime(v) AS w, ttl(v) AS t FROM batched WHERE k = 400');
  assert.deepStrictEqual([row.v, row.w.toNumber()], [1, 1000]);
  assert.ok(row.t >= 990 && row.t <= 1000, row.t);
}

async function reprepare() {
  const other = client({ keyspace: KEYSPACE });
  await main.execute('CREATE TABLE altered (k int PRIMARY KEY, a int)');
  const insert = 'INSERT INTO altered (k, a) VALUES (?, ?)';
  await main.execute(insert, [1, 10], prepare);
  assert.deepStrictEqual(Object.keys((await rows('SELECT * FROM altered WHERE k = ?', [1]))[0]), ['k', 'a']);
  await other.execute('ALTER TABLE altered ADD b text');
  await main.execute(insert, [2, 20], prepare);
  await main.execute('UPDATE altered SET b = ? WHERE k = ?', ['new', 1], prepare);
  const [row] = await rows('SELECT * FROM altered WHERE k = ?', [1]);
  assert.deepStrictEqual({ ...row }, { k: 1, a: 10, b: 'new' }, 'SELECT * prepared before ALTER');
  await other.shutdown();
}

async function schemaEvents() {
  const other = client({ keyspace: KEYSPACE });
  const names = async () => (await main.metadata.getTable(KEYSPACE, 'eventful'))?.columns.map((c) => c.name).join();
  await other.execute('CREATE TABLE eventful (k int PRIMARY KEY)');
  await eventually(async () => (await names()) === 'k', "another's CREATE TABLE is seen");
  await other.execute('ALTER TABLE eventful ADD v int');
  await eventually(async () => (await names()) === 'k,v', "another's ALTER TABLE is seen");
  await other.execute('DROP TABLE eventful');
  await eventually(async () => (await names()) === undefined, "another's DROP TABLE is seen");
  const second = `${KEYSPACE}_b`;
  await other.execute(`CREATE KEYSPACE ${second} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`);
  await eventually(() => main.metadata.keyspaces[second], "another's CREATE KEYSPACE is seen");
  await other.execute(`DROP KEYSPACE ${second}`);
  await eventually(() => !main.metadata.keyspaces[second], "another's DROP KEYSPACE is seen");
  await other.shutdown();
}

async function errorSyntax() {
  await fails(types.responseErrorCodes.syntaxError, () => main.execute('SELEC nothing'));
  await fails(types.responseErrorCodes.syntaxError, () => main.execute('INSERT INTO big (p VALUES (1)', [], prepare));
}

async function errorInvalid() {
  for (const cql of ['SELECT nosuch FROM big', 'SELECT * FROM nosuch', 'INSERT INTO big (p) VALUES (1)']) {
    await fails(types.responseErrorCodes.invalid, () => main.execute(cql));
  }
}

async function errorExists() {
  const table = await fails(types.responseErrorCodes.alreadyExists,
    () => main.execute('CREATE TABLE big (p int PRIMARY KEY)'));
  assert.deepStrictEqual([table.keyspace, table.table], [KEYSPACE, 'big']);
  await main.execute(`DROP KEYSPACE ${KEYSPACE}`);
}

const CHECKS = {
  connect,
  schema,
  types: everyType,
  collections,
  write_read: writeRead,
  paging,
  paging_resumed: pagingResumed,
  stream,
  batches,
  timestamps_ttl: timestampsTtl,
  reprepare,
  schema_events: schemaEvents,
  error_syntax: errorSyntax,
  error_invalid: errorInvalid,
  error_exists: errorExists,
};

async function run() {
  for (const [name, check] of Object.entries(CHECKS)) {
    try {
      await check();
    } catch (error) {
      console.error(error);
      console.error(`check ${name} failed`);
      process.exit(1);
    }
    console.log(`ok ${name}`);
  }
  await main.shutdown();
}

run();
