// Command gocql-client runs gocql against a server: each entry of checks is one check.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/big"
	"net"
	"os"
	"reflect"
	"sort"
	"sync"
	"time"

	"github.com/gocql/gocql"
	"gopkg.in/inf.v0"
)

const (
	keyspace   = "client_gocql"
	partitions = 100
)

var (
	host = flag.String("host", "127.0.0.1", "address of the server")
	port = flag.Int("port", 9042, "its CQL port")
	rows = flag.Int("rows", 100_000, "rows to write, and to page over")
	seed = flag.Uint64("seed", 1, "makes the values written")
)

var session *gocql.Session

// cluster configures a connection over protocol 4, compressed where asked.
func cluster(space string, compress bool) *gocql.ClusterConfig {
	config := gocql.NewCluster(*host)
	config.Port = *port
	config.ProtoVersion = 4
	config.Keyspace = space
	config.Consistency = gocql.LocalOne
	config.Timeout = time.Minute
	config.ConnectTimeout = time.Minute
	if compress {
		config.Compressor = gocql.SnappyCompressor{}
	}
	return config
}

// mixed depends on the seed and the number only (the last steps of SplitMix64).
func mixed(number int) int64 {
	x := *seed*0x9E3779B97F4A7C15 + uint64(number)*0xBF58476D1CE4E5B9 + 1
	x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
	x = (x ^ (x >> 27)) * 0x94D049BB133111EB
	return int64(x ^ (x >> 31))
}

func same(got, want any, what string) error {
	if reflect.DeepEqual(got, want) {
		return nil
	}
	return fmt.Errorf("%s: want %v, got %v", what, want, got)
}

func eventually(what string, condition func() bool) error {
	for until := time.Now().Add(10 * time.Second); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		if condition() {
			return nil
		}
	}
	return fmt.Errorf("not within 10 s: %s", what)
}

// fails wants an error of the protocol with this code.
func fails(code int, err error) error {
	var answer gocql.RequestError
	if !errors.As(err, &answer) {
		return fmt.Errorf("expected the error 0x%04x, got %v", code, err)
	}
	return same(answer.Code(), code, answer.Message())
}

// execute runs statements until one fails.
func execute(statements ...string) error {
	for _, cql := range statements {
		if err := session.Query(cql).Exec(); err != nil {
			return fmt.Errorf("%s: %w", cql, err)
		}
	}
	return nil
}

func connect() error {
	plain, err := cluster("", true).CreateSession()
	if err != nil {
		return err
	}
	defer plain.Close()
	var address net.IP
	var version string
	err = plain.Query("SELECT rpc_address, release_version FROM system.local").Scan(&address, &version)
	if err != nil {
		return err
	}
	if err := same(address.String(), *host, "rpc_address"); err != nil {
		return err
	}
	if version[:2] != "5." {
		return fmt.Errorf("release_version %s", version)
	}
	for _, cql := range []string{
		"DROP KEYSPACE IF EXISTS " + keyspace,
		"CREATE KEYSPACE " + keyspace + " WITH replication = " +
			"{'class': 'NetworkTopologyStrategy', 'replication_factor': 1}",
	} {
		if err := plain.Query(cql).Exec(); err != nil {
			return err
		}
	}
	session, err = cluster(keyspace, true).CreateSession()
	return err
}

func schema() error {
	err := execute("CREATE TABLE big (p int, c int, v bigint, t text, PRIMARY KEY (p, c)) " +
		"WITH CLUSTERING ORDER BY (c DESC)")
	if err != nil {
		return err
	}
	var found *gocql.TableMetadata
	err = eventually("the table in the metadata", func() bool {
		space, err := session.KeyspaceMetadata(keyspace)
		return err == nil && space.Tables["big"] != nil && func() bool { found = space.Tables["big"]; return true }()
	})
	if err != nil {
		return err
	}
	names := append([]string{}, found.OrderedColumns...)
	sort.Strings(names)
	order := found.ClusteringColumns[0].Order
	return errors.Join(
		same(names, []string{"c", "p", "t", "v"}, "columns"),
		same(found.PartitionKey[0].Name, "p", "partition key"),
		same(bool(order), bool(gocql.DESC), "clustering order"),
	)
}

// sample is a value of a type and the variable that it is read into.
type sample struct {
	cqlType string
	value   any
	into    func() any
}

func into[T any]() func() any { return func() any { return new(T) } }

func ident() gocql.UUID {
	parsed, err := gocql.ParseUUID("8ac6d1dc-fbeb-11e9-8f0b-362b9e155667")
	if err != nil {
		panic(err)
	}
	return parsed
}

func samples() []sample {
	huge, _ := new(big.Int).SetString("-10000000000000000000000000000", 10)
	return []sample{
		{"ascii", "plain", into[string]()},
		{"bigint", int64(math.MinInt64), into[int64]()},
		{"blob", []byte{0, 255}, into[[]byte]()},
		{"boolean", true, into[bool]()},
		{"date", time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC), into[time.Time]()},
		{"decimal", *inf.NewDec(-150, 2), into[inf.Dec]()},
		{"double", -1.5e300, into[float64]()},
		{"duration", gocql.Duration{Months: 1, Days: 2, Nanoseconds: 3}, into[gocql.Duration]()},
		{"float", float32(-1.5), into[float32]()},
		{"inet", net.ParseIP("fe80::1"), into[net.IP]()},
		{"int", math.MinInt32, into[int]()},
		{"smallint", int16(-32768), into[int16]()},
		{"text", "häuser ☃ 𝄞", into[string]()},
		{"time", 23*time.Hour + 59*time.Minute + time.Nanosecond, into[time.Duration]()},
		{"timestamp", time.UnixMilli(2147483648123).UTC(), into[time.Time]()},
		{"timeuuid", ident(), into[gocql.UUID]()},
		{"tinyint", int8(-128), into[int8]()},
		{"uuid", ident(), into[gocql.UUID]()},
		{"varint", *huge, into[big.Int]()},
	}
}

func types() error {
	for n, one := range samples() {
		table := fmt.Sprintf("type_%d", n)
		if err := execute("CREATE TABLE " + table + " (k int PRIMARY KEY, v " + one.cqlType + ")"); err != nil {
			return err
		}
		if err := session.Query("INSERT INTO "+table+" (k, v) VALUES (?, ?)", 1, one.value).Exec(); err != nil {
			return fmt.Errorf("%s: %w", one.cqlType, err)
		}
		got := one.into()
		if err := session.Query("SELECT v FROM "+table+" WHERE k = ?", 1).Scan(got); err != nil {
			return fmt.Errorf("%s: %w", one.cqlType, err)
		}
		shown := func(v any) string { return fmt.Sprint(v) }
		value := reflect.ValueOf(got).Elem().Interface()
		if err := same(shown(value), shown(one.value), one.cqlType); err != nil {
			return err
		}
		var nothing *string
		err := errors.Join(
			session.Query("INSERT INTO "+table+" (k, v) VALUES (?, ?)", 1, nil).Exec(),
			session.Query("SELECT CAST(v AS text) FROM "+table+" WHERE k = ?", 1).Scan(&nothing))
		if one.cqlType != "duration" && one.cqlType != "blob" && (err != nil || nothing != nil) {
			return fmt.Errorf("%s: null came back as %v, %v", one.cqlType, nothing, err)
		}
	}
	return nil
}

func collections() error {
	err := execute("CREATE TABLE collections (k int PRIMARY KEY, l frozen<list<int>>, s frozen<set<text>>, " +
		"m frozen<map<text, bigint>>, t tuple<int, text>)")
	if err != nil {
		return err
	}
	err = session.Query("INSERT INTO collections (k, l, s, m, t) VALUES (?, ?, ?, ?, (?, ?))", 1, []int{3, 1, 2},
		[]string{"b", "a"}, map[string]int64{"x": 1, "y": -1}, 7, "seven").Exec()
	if err != nil {
		return err
	}
	var l []int
	var s []string
	var m map[string]int64
	var number int
	var text string
	err = session.Query("SELECT l, s, m, t FROM collections WHERE k = 1").Scan(&l, &s, &m, &number, &text)
	return errors.Join(err,
		same(l, []int{3, 1, 2}, "list"),
		same(s, []string{"a", "b"}, "set"),
		same(m, map[string]int64{"x": 1, "y": -1}, "map"),
		same(fmt.Sprint(number, " ", text), "7 seven", "tuple"))
}

func writeRead() error {
	numbers := make(chan int)
	failed := make(chan error, 64)
	var workers sync.WaitGroup
	for range cap(failed) {
		workers.Add(1)
		go func() {
			defer workers.Done()
			var first error
			for n := range numbers {
				err := session.Query("INSERT INTO big (p, c, v, t) VALUES (?, ?, ?, ?)",
					n%partitions, n/partitions, mixed(n), fmt.Sprintf("row %d", n)).Exec()
				if err != nil && first == nil {
					first = fmt.Errorf("row %d: %w", n, err)
				}
			}
			failed <- first
		}()
	}
	for n := range *rows {
		numbers <- n
	}
	close(numbers)
	workers.Wait()
	close(failed)
	for err := range failed {
		if err != nil {
			return err
		}
	}
	for n := 0; n < *rows; n += max(1, *rows/200) {
		var v int64
		var t string
		err := session.Query("SELECT v, t FROM big WHERE p = ? AND c = ?", n%partitions, n/partitions).Scan(&v, &t)
		if err != nil {
			return fmt.Errorf("row %d: %w", n, err)
		}
		if err := same(fmt.Sprint(v, t), fmt.Sprint(mixed(n), fmt.Sprintf("row %d", n)), "row"); err != nil {
			return err
		}
	}
	return nil
}

func paging() error {
	found := make([]bool, *rows)
	count := 0
	iter := session.Query("SELECT p, c, v FROM big").PageSize(1000).Iter()
	var p, c int
	var v int64
	for iter.Scan(&p, &c, &v) {
		n := c*partitions + p
		if found[n] || v != mixed(n) {
			return fmt.Errorf("row %d: seen before: %v, value %d", n, found[n], v)
		}
		found[n] = true
		count++
	}
	return errors.Join(iter.Close(), same(count, *rows, "rows over all pages"))
}

// numbersOf reads one int column to the end of the pages.
func numbersOf(iter *gocql.Iter) ([]int, error) {
	var numbers []int
	var number int
	for iter.Scan(&number) {
		numbers = append(numbers, number)
	}
	return numbers, iter.Close()
}

func pagingResumed() error {
	const cql = "SELECT c FROM big WHERE p = 7"
	whole, err := numbersOf(session.Query(cql).Iter())
	if err != nil {
		return err
	}
	var rest []int
	first := session.Query(cql).PageSize(10).PageState(nil).Iter()
	state := first.PageState()
	if err := errors.Join(same(first.NumRows(), 10, "first page"), first.Close()); err != nil {
		return err
	}
	for len(state) > 0 {
		page := session.Query(cql).PageSize(7).PageState(state).Iter()
		state = page.PageState()
		var number int
		for left := page.NumRows(); left > 0 && page.Scan(&number); left-- {
			rest = append(rest, number)
		}
		if err := page.Close(); err != nil {
			return err
		}
	}
	return same(rest, whole[10:], "from the state on, with other pages")
}

func batches() error {
	if err := execute("CREATE TABLE batched (k int PRIMARY KEY, v int)"); err != nil {
		return err
	}
	for start, kind := range map[int]gocql.BatchType{0: gocql.LoggedBatch, 100: gocql.UnloggedBatch} {
		batch := session.NewBatch(kind).WithTimestamp(int64(5 + start))
		for k := range 50 {
			batch.Query("INSERT INTO batched (k, v) VALUES (?, ?)", start+k, 2*k)
		}
		batch.Query(fmt.Sprintf("DELETE FROM batched WHERE k = %d", start+99))
		if err := session.ExecuteBatch(batch); err != nil {
			return err
		}
		var v int
		var written int64
		err := session.Query("SELECT v, writetime(v) FROM batched WHERE k = ?", start+49).Scan(&v, &written)
		if err := errors.Join(err, same([]int64{int64(v), written}, []int64{98, int64(5 + start)}, "row")); err != nil {
			return err
		}
	}
	var count int
	err := session.Query("SELECT count(*) FROM batched").Scan(&count)
	return errors.Join(err, same(count, 100, "rows of both batches"))
}

func timestampsTTL() error {
	err := execute("INSERT INTO batched (k, v) VALUES (400, 1) USING TIMESTAMP 1000 AND TTL 1000",
		"INSERT INTO batched (k, v) VALUES (400, 2) USING TIMESTAMP 999")
	if err != nil {
		return err
	}
	var v, ttl int
	var written int64
	err = session.Query("SELECT v, writetime(v), ttl(v) FROM batched WHERE k = 400").Scan(&v, &written, &ttl)
	if ttl < 990 || ttl > 1000 {
		return fmt.Errorf("ttl %d", ttl)
	}
	return errors.Join(err, same([]int64{int64(v), written}, []int64{1, 1000}, "the later timestamp stays"))
}

func reprepare() error {
	other, err := cluster(keyspace, false).CreateSession()
	if err != nil {
		return err
	}
	defer other.Close()
	const insert = "INSERT INTO altered (k, a) VALUES (?, ?)"
	err = errors.Join(execute("CREATE TABLE altered (k int PRIMARY KEY, a int)"), session.Query(insert, 1, 10).Exec())
	if err != nil {
		return err
	}
	row := func() (map[string]any, error) {
		got := map[string]any{}
		return got, session.Query("SELECT * FROM altered WHERE k = ?", 1).MapScan(got)
	}
	before, err := row()
	if err := errors.Join(err, same(before, map[string]any{"k": 1, "a": 10}, "before")); err != nil {
		return err
	}
	err = errors.Join(
		other.Query("ALTER TABLE altered ADD b text").Exec(),
		session.Query(insert, 2, 20).Exec(),
		session.Query("UPDATE altered SET b = ? WHERE k = ?", "new", 1).Exec())
	if err != nil {
		return err
	}
	after, err := row()
	return errors.Join(err, same(after, map[string]any{"k": 1, "a": 10, "b": "new"}, "after ALTER"))
}

func schemaEvents() error {
	other, err := cluster(keyspace, false).CreateSession()
	if err != nil {
		return err
	}
	defer other.Close()
	columns := func() int {
		space, err := session.KeyspaceMetadata(keyspace)
		if err != nil || space.Tables["eventful"] == nil {
			return 0
		}
		return len(space.Tables["eventful"].Columns)
	}
	for want, cql := range []string{
		1: "CREATE TABLE eventful (k int PRIMARY KEY)",
		2: "ALTER TABLE eventful ADD v int",
	} {
		if cql == "" {
			continue
		}
		if err := other.Query(cql).Exec(); err != nil {
			return err
		}
		if err := eventually(cql+" is seen", func() bool { return columns() == want }); err != nil {
			return err
		}
	}
	if err := other.Query("DROP TABLE eventful").Exec(); err != nil {
		return err
	}
	return eventually("DROP TABLE is seen", func() bool { return columns() == 0 })
}

func compression() error {
	if err := execute("CREATE TABLE compressed (k int PRIMARY KEY, even blob, odd blob)"); err != nil {
		return err
	}
	for _, size := range []int{8, 1000, 131_072, 1_000_000} {
		even, odd := make([]byte, size), make([]byte, size)
		for n := range odd {
			odd[n] = byte(mixed(n))
		}
		err := session.Query("INSERT INTO compressed (k, even, odd) VALUES (?, ?, ?)", size, even, odd).Exec()
		if err != nil {
			return fmt.Errorf("%d bytes: %w", size, err)
		}
		var gotEven, gotOdd []byte
		err = session.Query("SELECT even, odd FROM compressed WHERE k = ?", size).Scan(&gotEven, &gotOdd)
		if err != nil || !reflect.DeepEqual(gotEven, even) || !reflect.DeepEqual(gotOdd, odd) {
			return fmt.Errorf("%d bytes came back changed: %w", size, err)
		}
	}
	return nil
}

func errorSyntax() error {
	return errors.Join(
		fails(gocql.ErrCodeSyntax, session.Query("SELEC nothing").Exec()),
		fails(gocql.ErrCodeSyntax, session.Query("INSERT INTO big (p VALUES (?)", 1).Exec()))
}

func errorInvalid() error {
	return errors.Join(
		fails(gocql.ErrCodeInvalid, session.Query("SELECT nosuch FROM big").Exec()),
		fails(gocql.ErrCodeInvalid, session.Query("SELECT * FROM nosuch WHERE k = ?", 1).Exec()),
		fails(gocql.ErrCodeInvalid, session.Query("INSERT INTO big (p) VALUES (?)", 1).Exec()))
}

func errorExists() error {
	err := session.Query("CREATE TABLE big (p int PRIMARY KEY)").Exec()
	var exists *gocql.RequestErrAlreadyExists
	if !errors.As(err, &exists) {
		return fmt.Errorf("expected ALREADY_EXISTS, got %v", err)
	}
	return errors.Join(
		same([]string{exists.Keyspace, exists.Table}, []string{keyspace, "big"}, "its fields"),
		execute("DROP KEYSPACE "+keyspace))
}

var checks = []struct {
	name string
	run  func() error
}{
	{"connect", connect},
	{"schema", schema},
	{"types", types},
	{"collections", collections},
	{"write_read", writeRead},
	{"paging", paging},
	{"paging_resumed", pagingResumed},
	{"batches", batches},
	{"timestamps_ttl", timestampsTTL},
	{"reprepare", reprepare},
	{"schema_events", schemaEvents},
	{"compression", compression},
	{"error_syntax", errorSyntax},
	{"error_invalid", errorInvalid},
	{"error_exists", errorExists},
}

func main() {
	flag.Parse()
	for _, check := range checks {
		if err := check.run(); err != nil {
			fmt.Fprintf(os.Stderr, "check %s failed: %v\n", check.name, err)
			os.Exit(1)
		}
		fmt.Println("ok", check.name)
	}
	session.Close()
}
