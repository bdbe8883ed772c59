import com.datastax.oss.driver.api.core.CqlIdentifier;
import com.datastax.oss.driver.api.core.CqlSession;
import com.datastax.oss.driver.api.core.config.DefaultDriverOption;
import com.datastax.oss.driver.api.core.config.DriverConfigLoader;
import com.datastax.oss.driver.api.core.cql.AsyncResultSet;
import com.datastax.oss.driver.api.core.cql.BatchStatement;
import com.datastax.oss.driver.api.core.cql.BatchStatementBuilder;
import com.datastax.oss.driver.api.core.cql.DefaultBatchType;
import com.datastax.oss.driver.api.core.cql.PreparedStatement;
import com.datastax.oss.driver.api.core.cql.ResultSet;
import com.datastax.oss.driver.api.core.cql.Row;
import com.datastax.oss.driver.api.core.cql.SimpleStatement;
import com.datastax.oss.driver.api.core.data.CqlDuration;
import com.datastax.oss.driver.api.core.data.TupleValue;
import com.datastax.oss.driver.api.core.metadata.Metadata;
import com.datastax.oss.driver.api.core.metadata.Node;
import com.datastax.oss.driver.api.core.metadata.schema.ClusteringOrder;
import com.datastax.oss.driver.api.core.metadata.schema.TableMetadata;
import com.datastax.oss.driver.api.core.servererrors.AlreadyExistsException;
import com.datastax.oss.driver.api.core.servererrors.InvalidQueryException;
import com.datastax.oss.driver.api.core.servererrors.SyntaxError;
import com.datastax.oss.driver.api.core.type.TupleType;
import com.datastax.oss.driver.internal.core.context.InternalDriverContext;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalTime;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;

/** The Java driver 4 against a server; each entry of {@link #checks} is one check. */
public final class Client {
  private static final int PARTITIONS = 100;
  private static final int IN_FLIGHT = 200;

  private final Map<String, String> given;
  private final int rows;
  private final long seed;
  private final String keyspace;
  private final CqlSession session;

  private interface Check {
    void run() throws Exception;
  }

  private Client(Map<String, String> given) {
    this.given = given;
    this.rows = Integer.parseInt(given.get("rows"));
    this.seed = Long.parseLong(given.get("seed"));
    this.keyspace = "client_java_" + given.get("protocol").toLowerCase();
    this.session = connected();
  }

  private CqlSession connected() {
    DriverConfigLoader config =
        DriverConfigLoader.programmaticBuilder()
            .withString(DefaultDriverOption.PROTOCOL_VERSION, given.get("protocol"))
            .withString(DefaultDriverOption.PROTOCOL_COMPRESSION, given.get("compression"))
            .withDuration(DefaultDriverOption.REQUEST_TIMEOUT, Duration.ofMinutes(1))
            .withDuration(DefaultDriverOption.CONTROL_CONNECTION_TIMEOUT, Duration.ofMinutes(1))
            .withDuration(DefaultDriverOption.METADATA_SCHEMA_WINDOW, Duration.ofMillis(10))
            .build();
    return CqlSession.builder()
        .addContactPoint(new InetSocketAddress(given.get("host"), Integer.parseInt(given.get("port"))))
        .withLocalDatacenter("datacenter1")
        .withConfigLoader(config)
        .build();
  }

  /** Depends on the seed and the number only (the last steps of SplitMix64). */
  private long mixed(long number) {
    long x = seed * 0x9E3779B97F4A7C15L + number * 0xBF58476D1CE4E5B9L + 1;
    x = (x ^ (x >>> 30)) * 0xBF58476D1CE4E5B9L;
    x = (x ^ (x >>> 27)) * 0x94D049BB133111EBL;
    return x ^ (x >>> 31);
  }

  private static void same(Object got, Object want, String what) {
    if (!Objects.equals(got, want)) {
      throw new AssertionError(what + ": want " + want + ", got " + got);
    }
  }

  private static <E extends Exception> E fails(Class<E> kind, Check action) throws Exception {
    try {
      action.run();
    } catch (Exception error) {
      if (kind.isInstance(error)) {
        return kind.cast(error);
      }
      throw error;
    }
    throw new AssertionError("expected " + kind.getSimpleName());
  }

  private static void eventually(String what, BooleanSupplier condition) throws InterruptedException {
    for (int turn = 0; turn < 200; turn++) {
      if (condition.getAsBoolean()) {
        return;
      }
      Thread.sleep(50);
    }
    throw new AssertionError("not within 10 s: " + what);
  }

  private String table(String name) {
    return keyspace + "." + name;
  }

  private Row one(String cql, Object... values) {
    return session.execute(SimpleStatement.newInstance(cql, values)).one();
  }

  private void connect() {
    same(session.getContext().getProtocolVersion().name(), given.get("protocol"), "protocol version");
    same(session.getMetadata().getNodes().size(), 1, "nodes");
    Node node = session.getMetadata().getNodes().values().iterator().next();
    same(node.getCassandraVersion().getMajor(), 5, "release_version");
    same(node.getBroadcastRpcAddress().get().getAddress().getHostAddress(), given.get("host"), "rpc_address");
    same(session.getMetadata().getTokenMap().isPresent(), true, "a token map");
    same(session.checkSchemaAgreement(), true, "schema agreement");
  }

  private void schema() {
    session.execute("DROP KEYSPACE IF EXISTS " + keyspace);
    session.execute(
        "CREATE KEYSPACE " + keyspace
            + " WITH replication = {'class': 'NetworkTopologyStrategy', 'replication_factor': 1}");
    session.execute(
        "CREATE TABLE " + table("big") + " (p int, c int, v bigint, t text, PRIMARY KEY (p, c))"
            + " WITH CLUSTERING ORDER BY (c DESC) AND comment = 'rows to page over'");
    TableMetadata big = session.getMetadata().getKeyspace(keyspace).get().getTable("big").get();
    same(big.getPartitionKey().get(0).getName().asInternal(), "p", "partition key");
    same(big.getClusteringColumns().values().iterator().next(), ClusteringOrder.DESC, "clustering order");
    same(big.getColumns().size(), 4, "columns");
    same(big.getOptions().get(CqlIdentifier.fromCql("comment")), "rows to page over", "comment");
    same(
        session.getMetadata().getKeyspace(keyspace).get().getReplication().get("datacenter1"), "1", "replication");
  }

  private static Map<String, Object> samples() throws Exception {
    Map<String, Object> samples = new LinkedHashMap<>();
    samples.put("ascii", "plain");
    samples.put("bigint", Long.MIN_VALUE);
    samples.put("blob", ByteBuffer.wrap(new byte[] {0, -1}));
    samples.put("boolean", true);
    samples.put("date", LocalDate.of(2024, 2, 29));
    samples.put("decimal", new BigDecimal("-1.50"));
    samples.put("double", Double.POSITIVE_INFINITY);
    samples.put("duration", CqlDuration.newInstance(1, 2, 3));
    samples.put("float", -1.5f);
    samples.put("inet", InetAddress.getByName("fe80::1"));
    samples.put("int", Integer.MIN_VALUE);
    samples.put("smallint", Short.MIN_VALUE);
    samples.put("text", "häuser ☃ 𝄞");
    samples.put("time", LocalTime.of(23, 59, 59, 999_999_999));
    samples.put("timestamp", Instant.parse("2038-01-19T03:14:08.123Z"));
    samples.put("timeuuid", UUID.fromString("8ac6d1dc-fbeb-11e9-8f0b-362b9e155667"));
    samples.put("tinyint", Byte.MIN_VALUE);
    samples.put("uuid", UUID.fromString("f066f76d-5e96-4b52-8d8a-0f51387df76b"));
    samples.put("varint", new BigInteger("-10000000000000000000000000000"));
    return samples;
  }

  private void types() throws Exception {
    Map<String, Object> samples = samples();
    StringBuilder columns = new StringBuilder();
    samples.keySet().forEach(name -> columns.append(", v_").append(name).append(' ').append(name));
    session.execute("CREATE TABLE " + table("scalars") + " (k int PRIMARY KEY" + columns + ")");
    for (Map.Entry<String, Object> sample : samples.entrySet()) {
      String column = "v_" + sample.getKey();
      PreparedStatement insert =
          session.prepare("INSERT INTO " + table("scalars") + " (k, " + column + ") VALUES (?, ?)");
      session.execute(insert.bind(1, sample.getValue()));
      Row row = session.execute(session.prepare("SELECT " + column + " FROM " + table("scalars") + " WHERE k = ?")
          .bind(1)).one();
      same(row.getObject(0), sample.getValue(), sample.getKey());
      session.execute(insert.bind(2, null));
      session.execute(insert.boundStatementBuilder().setInt("k", 1).build());
      same(one("SELECT " + column + " FROM " + table("scalars") + " WHERE k = 1").getObject(0), sample.getValue(),
          sample.getKey() + " after an unset value");
    }
    same(one("SELECT count(*) FROM " + table("scalars") + " WHERE k = 2").getLong(0), 1L, "a row of nulls is a row");
    same(one("SELECT v_int FROM " + table("scalars") + " WHERE k = 2").isNull(0), true, "null");
  }

  private void collections() {
    session.execute("CREATE TABLE " + table("collections") + " (k int PRIMARY KEY, l frozen<list<int>>,"
        + " s frozen<set<text>>, m frozen<map<text, bigint>>, t tuple<int, text>)");
    PreparedStatement insert =
        session.prepare("INSERT INTO " + table("collections") + " (k, l, s, m, t) VALUES (?, ?, ?, ?, ?)");
    TupleType type = (TupleType) insert.getVariableDefinitions().get("t").getType();
    TupleValue tuple = type.newValue(7, null);
    Map<String, Long> map = new HashMap<>(Map.of("x", 1L, "y", -1L));
    session.execute(insert.bind(1, List.of(3, 1, 2), Set.of("a", "b"), map, tuple));
    Row row = one("SELECT l, s, m, t FROM " + table("collections") + " WHERE k = 1");
    same(row.getList("l", Integer.class), List.of(3, 1, 2), "list");
    same(new ArrayList<>(row.getSet("s", String.class)), List.of("a", "b"), "set, in its order");
    same(row.getMap("m", String.class, Long.class), map, "map");
    same(row.getTupleValue("t"), tuple, "tuple");
  }

  private void writeRead() throws Exception {
    PreparedStatement insert = session.prepare("INSERT INTO " + table("big") + " (p, c, v, t) VALUES (?, ?, ?, ?)");
    Semaphore room = new Semaphore(IN_FLIGHT);
    AtomicReference<Throwable> first = new AtomicReference<>();
    for (int n = 0; n < rows; n++) {
      room.acquire();
      session
          .executeAsync(insert.bind(n % PARTITIONS, n / PARTITIONS, mixed(n), "row " + n))
          .whenComplete((result, error) -> {
            first.compareAndSet(null, error);
            room.release();
          });
    }
    room.acquire(IN_FLIGHT);
    if (first.get() != null) {
      throw new AssertionError("a write failed", first.get());
    }
    PreparedStatement select = session.prepare("SELECT v, t FROM " + table("big") + " WHERE p = ? AND c = ?");
    for (int n = 0; n < rows; n += Math.max(1, rows / 200)) {
      Row row = session.execute(select.bind(n % PARTITIONS, n / PARTITIONS)).one();
      same(row.getLong("v") + row.getString("t"), mixed(n) + "row " + n, "row " + n);
    }
  }

  private void paging() {
    boolean[] found = new boolean[rows];
    int count = 0;
    SimpleStatement statement = SimpleStatement.newInstance("SELECT p, c, v FROM " + table("big")).setPageSize(1000);
    ResultSet result = session.execute(statement);
    for (Row row : result) {
      int n = row.getInt("c") * PARTITIONS + row.getInt("p");
      same(found[n], false, "row " + n + " twice");
      same(row.getLong("v"), mixed(n), "row " + n);
      found[n] = true;
      count++;
    }
    same(count, rows, "rows over all pages");
    int pages = result.getExecutionInfos().size();
    same(pages == rows / 1000 || pages == rows / 1000 + 1, true, pages + " pages");
  }

  private void pagingResumed() throws Exception {
    SimpleStatement whole = SimpleStatement.newInstance("SELECT c FROM " + table("big") + " WHERE p = 7");
    List<Integer> numbers = new ArrayList<>();
    session.execute(whole).forEach(row -> numbers.add(row.getInt(0)));
    AsyncResultSet first = session.executeAsync(whole.setPageSize(10)).toCompletableFuture().get();
    ByteBuffer state = first.getExecutionInfo().getPagingState();
    List<Integer> rest = new ArrayList<>();
    try (CqlSession other = connected()) {
      other.execute(whole.setPageSize(7).setPagingState(state)).forEach(row -> rest.add(row.getInt(0)));
    }
    same(rest, numbers.subList(10, numbers.size()), "from the state on, elsewhere, with other pages");
  }

  private void batches() {
    session.execute("CREATE TABLE " + table("batched") + " (k int PRIMARY KEY, v int)");
    PreparedStatement insert = session.prepare("INSERT INTO " + table("batched") + " (k, v) VALUES (?, ?)");
    for (DefaultBatchType type : List.of(DefaultBatchType.LOGGED, DefaultBatchType.UNLOGGED)) {
      int start = type == DefaultBatchType.LOGGED ? 0 : 100;
      BatchStatementBuilder batch = BatchStatement.builder(type).setQueryTimestamp(5 + start);
      for (int k = 0; k < 50; k++) {
        batch.addStatement(insert.bind(start + k, 2 * k));
      }
      batch.addStatement(
          SimpleStatement.newInstance("DELETE FROM " + table("batched") + " WHERE k = ?", start + 99));
      session.execute(batch.build());
      Row row = one("SELECT v, writetime(v) FROM " + table("batched") + " WHERE k = ?", start + 49);
      same(List.of(row.getInt(0), row.getLong(1)), List.of(98, 5L + start), type.toString());
    }
    same(one("SELECT count(*) FROM " + table("batched")).getLong(0), 100L, "rows of both batches");
  }

  private void timestampsTtl() {
    session.execute("INSERT INTO " + table("batched") + " (k, v) VALUES (400, 1) USING TIMESTAMP 1000 AND TTL 1000");
    session.execute("INSERT INTO " + table("batched") + " (k, v) VALUES (400, 2) USING TIMESTAMP 999");
    Row row = one("SELECT v, writetime(v), ttl(v) FROM " + table("batched") + " WHERE k = 400");
    same(List.of(row.getInt(0), row.getLong(1)), List.of(1, 1000L), "the later timestamp stays");
    int ttl = row.getInt(2);
    same(ttl >= 990 && ttl <= 1000, true, "ttl " + ttl);
  }

  private void reprepare() {
    session.execute("CREATE TABLE " + table("altered") + " (k int PRIMARY KEY, a int)");
    PreparedStatement insert = session.prepare("INSERT INTO " + table("altered") + " (k, a) VALUES (?, ?)");
    PreparedStatement select = session.prepare("SELECT * FROM " + table("altered") + " WHERE k = ?");
    session.execute(insert.bind(1, 10));
    same(session.execute(select.bind(1)).one().getColumnDefinitions().size(), 2, "columns before");
    try (CqlSession other = connected()) {
      other.execute("ALTER TABLE " + table("altered") + " ADD b text");
    }
    session.execute(insert.bind(2, 20));
    session.execute("UPDATE " + table("altered") + " SET b = 'new' WHERE k = 1");
    Row row = session.execute(select.bind(1)).one();
    same(row.getInt("a"), 10, "SELECT * prepared before ALTER");
    if (given.get("protocol").equals("V5")) { // before, a driver keeps the columns of PREPARE
      same(row.getString("b"), "new", "the new column");
    }
  }

  private void schemaEvents() throws Exception {
    try (CqlSession other = connected()) {
      other.execute("CREATE TABLE " + table("eventful") + " (k int PRIMARY KEY)");
      eventually("another's CREATE TABLE is seen", () -> columns(session.getMetadata()) == 1);
      other.execute("ALTER TABLE " + table("eventful") + " ADD v int");
      eventually("another's ALTER TABLE is seen", () -> columns(session.getMetadata()) == 2);
      other.execute("DROP TABLE " + table("eventful"));
      eventually("another's DROP TABLE is seen", () -> columns(session.getMetadata()) == 0);
    }
  }

  private int columns(Metadata metadata) {
    return metadata.getKeyspace(keyspace).flatMap(space -> space.getTable("eventful"))
        .map(table -> table.getColumns().size()).orElse(0);
  }

  private void compression() {
    same(((InternalDriverContext) session.getContext()).getCompressor().algorithm(), given.get("compression"), "compressor");
    session.execute("CREATE TABLE " + table("compressed") + " (k int PRIMARY KEY, even blob, odd blob)");
    PreparedStatement insert = session.prepare("INSERT INTO " + table("compressed") + " (k, even, odd) VALUES (?, ?, ?)");
    for (int size : new int[] {8, 1000, 131_072, 1_000_000}) {
      byte[] odd = new byte[size];
      for (int n = 0; n < size; n++) {
        odd[n] = (byte) mixed(n);
      }
      session.execute(insert.bind(size, ByteBuffer.wrap(new byte[size]), ByteBuffer.wrap(odd)));
      Row row = one("SELECT even, odd FROM " + table("compressed") + " WHERE k = ?", size);
      same(row.getByteBuffer("even"), ByteBuffer.wrap(new byte[size]), size + " even bytes");
      same(row.getByteBuffer("odd"), ByteBuffer.wrap(odd), size + " odd bytes");
    }
  }

  private void errorSyntax() throws Exception {
    fails(SyntaxError.class, () -> session.execute("SELEC nothing"));
    fails(SyntaxError.class, () -> session.prepare("INSERT INTO big (p VALUES (1)"));
  }

  private void errorInvalid() throws Exception {
    fails(InvalidQueryException.class, () -> session.execute("SELECT nosuch FROM " + table("big")));
    fails(InvalidQueryException.class, () -> session.execute("SELECT * FROM " + table("nosuch")));
    fails(InvalidQueryException.class, () -> session.prepare("INSERT INTO " + table("big") + " (p) VALUES (?)"));
  }

  private void errorExists() throws Exception {
    AlreadyExistsException error = fails(
        AlreadyExistsException.class, () -> session.execute("CREATE TABLE " + table("big") + " (p int PRIMARY KEY)"));
    same(error.getMessage(), "Object " + table("big") + " already exists", "its fields");
    session.execute("DROP KEYSPACE " + keyspace);
  }

  private Map<String, Check> checks() {
    Map<String, Check> checks = new LinkedHashMap<>();
    checks.put("connect", this::connect);
    checks.put("schema", this::schema);
    checks.put("types", this::types);
    checks.put("collections", this::collections);
    checks.put("write_read", this::writeRead);
    checks.put("paging", this::paging);
    checks.put("paging_resumed", this::pagingResumed);
    checks.put("batches", this::batches);
    checks.put("timestamps_ttl", this::timestampsTtl);
    checks.put("reprepare", this::reprepare);
    checks.put("schema_events", this::schemaEvents);
    checks.put("compression", this::compression);
    checks.put("error_syntax", this::errorSyntax);
    checks.put("error_invalid", this::errorInvalid);
    checks.put("error_exists", this::errorExists);
    return checks;
  }

  public static void main(String[] arguments) {
    Map<String, String> given = new HashMap<>(Map.of("host", "127.0.0.1", "port", "9042", "rows", "100000",
        "seed", "1", "protocol", "V5", "compression", "lz4"));
    for (int n = 0; n + 1 < arguments.length; n += 2) {
      given.put(arguments[n].replaceFirst("^--", ""), arguments[n + 1]);
    }
    String name = "connect";
    try {
      Client client = new Client(given);
      for (Map.Entry<String, Check> check : client.checks().entrySet()) {
        name = check.getKey();
        check.getValue().run();
        System.out.println("ok " + name);
      }
      client.session.close();
    } catch (Throwable error) {
      error.printStackTrace();
      System.err.println("check " + name + " failed");
      System.exit(1);
    }
  }
}
