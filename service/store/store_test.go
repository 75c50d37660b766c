package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

// postgres is the server of the tests that do not stop it.
var postgres pgtest.Shared

func TestMain(m *testing.M) {
	code := m.Run()
	if err := postgres.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// source opens stores over one database.
type source struct {
	name string
	open func(t *testing.T) func() (*store.Store, error)
}

// engines lists the databases; every test of the suite runs on each.
func engines(t *testing.T) []source {
	return []source{
		{"sqlite", func(t *testing.T) func() (*store.Store, error) {
			dir := t.TempDir()
			return func() (*store.Store, error) { return store.Open(t.Context(), dir, "") }
		}},
		{"postgres", func(t *testing.T) func() (*store.Store, error) {
			url := postgres.NewDatabase(t)
			return func() (*store.Store, error) { return store.Open(t.Context(), "", url) }
		}},
		{"postgres with defaults of its own", func(t *testing.T) func() (*store.Store, error) {
			address, err := url.Parse(postgres.NewDatabase(t))
			if err != nil {
				t.Fatal(err)
			}
			query := address.Query()
			query.Set("default_transaction_isolation", "serializable")
			address.RawQuery = query.Encode()
			return func() (*store.Store, error) { return store.Open(t.Context(), "", address.String()) }
		}},
	}
}

func TestStore(t *testing.T) {
	suite := map[string]func(*testing.T, func() (*store.Store, error)){
		"a write is seen, a failed one is not":              testWrite,
		"a reader sees one state":                           testSnapshot,
		"writers of several processes take turns":           testTurns,
		"processes that start at once make one schema":      testStartTogether,
		"the ledger cannot be changed":                      testAppendOnly,
		"a newer schema is refused":                         testNewer,
		"the schema of an early program is refused":         testEarly,
		"text is compared by bytes, NUL is refused":         testText,
		"a caller who leaves waiting leaves nothing behind": testGivenUp,
		"scrubbing works beside readers":                    testScrub,
		"writes that wait together are committed together":  testTogether,
		"more writes wait than one commit takes":            testManyTogether,
		"an answer that came beforehand is no old one":      testAsks,
		"an ask that is refused fails its own write":        testAskFails,
		"a statement that fails late fails its own write":   testFailsLate,
		"each write has an answer of its own":               testAnswersOfTheirOwn,
		"a commit waits for announced writes":               testAnnounced,
		"a caller who leaves inside breaks nothing":         testLeaveInside,
		"a lease outlives no clock that went back":          testLeaseOfTheFuture,
		"who needs the database alone waits for writes":     testAlone,
		"one text is read twice at once":                    testSameTextTwice,
	}
	for _, engine := range engines(t) {
		for name, test := range suite {
			t.Run(engine.name+"/"+name, func(t *testing.T) { test(t, engine.open(t)) })
		}
	}
}

func open(t *testing.T, opener func() (*store.Store, error)) *store.Store {
	t.Helper()
	s, err := opener()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func set(ctx context.Context, s *store.Store, name, value string) error {
	return s.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET "+
			"value = excluded.value", name, value)
		return err
	})
}

func get(t *testing.T, s *store.Store, name string) (value string) {
	t.Helper()
	err := s.Read(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT value FROM meta WHERE name = ? AND value <> '?'",
			name).Scan(&value)
	})
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		t.Fatal(err)
	}
	return value
}

func testWrite(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	if err := set(t.Context(), s, "a", "1"); err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "UPDATE meta SET value = ? WHERE name = ?", "2", "a"); err != nil {
			return err
		}
		return refused
	})
	if !errors.Is(err, refused) {
		t.Fatal(err)
	}
	if got := get(t, s, "a"); got != "1" {
		t.Errorf("after a failed write the value is %q", got)
	}
	err = s.Read(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), "DELETE FROM meta")
		return err
	})
	if err == nil {
		t.Error("a reading transaction could write")
	}
}

func testSnapshot(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	if err := set(t.Context(), s, "a", "1"); err != nil {
		t.Fatal(err)
	}
	var before, after string
	err := s.Read(t.Context(), func(tx *store.Tx) error {
		const query = "SELECT value FROM meta WHERE name = 'a'"
		if err := tx.QueryRowContext(t.Context(), query).Scan(&before); err != nil {
			return err
		}
		if err := set(t.Context(), s, "a", "2"); err != nil {
			return err
		}
		return tx.QueryRowContext(t.Context(), query).Scan(&after)
	})
	if err != nil || before != "1" || after != "1" {
		t.Errorf("a reader saw %q, then %q, %v", before, after, err)
	}
}

func testTurns(t *testing.T, opener func() (*store.Store, error)) {
	const processes, each = 3, 20
	first := open(t, opener)
	if err := set(t.Context(), first, "n", "0"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range processes {
		s := open(t, opener)
		wg.Go(func() {
			for range each {
				err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
					var n int
					if err := tx.QueryRowContext(t.Context(),
						"SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'n'").Scan(&n); err != nil {
						return err
					}
					_, err := tx.ExecContext(t.Context(), "UPDATE meta SET value = ? WHERE name = 'n'", fmt.Sprint(n+1))
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := get(t, first, "n"); got != fmt.Sprint(processes*each) {
		t.Errorf("%d increments gave %s", processes*each, got)
	}
}

func testStartTogether(t *testing.T, opener func() (*store.Store, error)) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := opener()
			if err != nil {
				t.Error(err)
				return
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// testAppendOnly is threat 26: not even the service's own connection changes history.
func testAppendOnly(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO ledger (seq, tx_id, kind, time_ns, account, group_id, ref, file_hash, detail, fee, request, prev_hash, hash)
			VALUES (1, 'a', 'k', 1, '', '', '', '', '', '0', '', ?, ?)`, []byte{1}, []byte{2})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []store.Query{"UPDATE ledger SET fee = '1'", "DELETE FROM ledger"} {
		err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(), statement)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v", statement, err)
		}
	}
}

func testNewer(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	var statement store.Query = "PRAGMA user_version = 1099; PRAGMA application_id = 1099"
	if s.Engine() == "postgres" {
		statement = "INSERT INTO schema_version VALUES (1099)"
	}
	err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opener(); err == nil || !strings.Contains(err.Error(), "newer svcd") {
		t.Errorf("a newer schema opens: %v", err)
	}
}

func testText(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	for _, name := range []string{"b", "B", "ä", "a b", "a", "\U0001F600", "a?'; DROP TABLE meta; --"} {
		if err := set(t.Context(), s, name, name); err != nil {
			t.Fatal(err)
		}
		if got := get(t, s, name); got != name {
			t.Errorf("%q came back as %q", name, got)
		}
	}
	var order []string
	err := s.Read(t.Context(), func(tx *store.Tx) error {
		var err error
		order, err = store.List(t.Context(), tx, "list names", func(name *string) []any { return []any{name} },
			"SELECT name FROM meta WHERE name IN ('a', 'b', 'B', 'a b') ORDER BY name")
		return err
	})
	if got := strings.Join(order, "|"); err != nil || got != "B|a|a b|b" {
		t.Errorf("order %s, %v", got, err)
	}
	if s.Engine() == "postgres" {
		if err := set(t.Context(), s, "x\x00y", "1"); !errors.Is(err, store.ErrInvalidText) {
			t.Errorf("NUL: %v", err)
		}
	}
}

func testGivenUp(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	ctx, cancel := context.WithCancel(t.Context())
	inside, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- s.Write(t.Context(), store.Everything(), func(*store.Tx) error {
			close(inside)
			<-leave
			return nil
		})
	}()
	<-inside
	cancel()
	if err := set(ctx, s, "a", "1"); !errors.Is(err, context.Canceled) {
		t.Errorf("waiting for its turn after leaving: %v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := get(t, s, "a"); got != "" {
		t.Errorf("it was written: %q", got)
	}
}

func testScrub(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	if err := set(t.Context(), s, "a", "1"); err != nil {
		t.Fatal(err)
	}
	err := s.Read(t.Context(), func(tx *store.Tx) error {
		var n int
		if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM meta").Scan(&n); err != nil {
			return err
		}
		scrubbed := make(chan error, 1)
		written := 0
		for begun := false; ; written++ {
			if err := set(t.Context(), s, "b", fmt.Sprint(written)); err != nil {
				return err
			}
			if !begun { // now the reader has an earlier state
				go func() { scrubbed <- s.Scrub(t.Context(), store.ScrubShort) }()
				begun = true
			}
			select {
			case err := <-scrubbed:
				if err != nil && written < 10 {
					t.Errorf("%d writes were made while it waited for a reader: %v", written, err)
				}
				return nil
			default:
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Scrub(t.Context(), store.ScrubShort); err != nil {
		t.Fatal(err)
	}
	if got := get(t, s, "a"); got != "1" {
		t.Errorf("after scrubbing: %q", got)
	}
}

// TestThreat39DatabaseGone: a server that goes away gives a typed error, and the store
// recovers when the server is back.
func TestThreat39DatabaseGone(t *testing.T) {
	server := pgtest.Start(t)
	s, err := store.Open(t.Context(), "", server.NewDatabase(t))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := set(t.Context(), s, "a", "1"); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	for range 3 {
		if err := set(t.Context(), s, "a", "2"); !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("without a server: %v", err)
		}
	}
	server.Restart(t)
	if err := set(t.Context(), s, "a", "3"); err != nil {
		t.Errorf("the server is back: %v", err)
	}
	if got := get(t, s, "a"); got != "3" {
		t.Errorf("value %q", got)
	}
}

func TestAddressIsChecked(t *testing.T) {
	for url, want := range map[string]string{
		"mysql://x":                           "postgres://USER",
		"postgres://u:secret-word@host:bad/x": "parse",
		"somewhere":                           "postgres://USER",
	} {
		_, err := store.Open(t.Context(), t.TempDir(), url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret-word") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A copy of the database goes from each engine to the other: tables, columns and
// their order are the same, and no table comes before one it refers to.
func TestTablesAreTheSameOnBothEngines(t *testing.T) {
	described := make(map[string]string)
	for _, engine := range engines(t) {
		s := open(t, engine.open(t))
		if version := s.SchemaVersion(); version != 1001 {
			t.Errorf("schema %d", version)
		}
		err := s.Read(t.Context(), func(tx *store.Tx) error {
			tables, err := s.Tables(t.Context(), tx)
			// the one has places as a view, the other ids of records
			tables = slices.DeleteFunc(tables, func(t store.Table) bool {
				return slices.Contains([]string{"places", "record_ids", "unplaced", "sequencer"}, t.Name)
			})
			for i, table := range tables {
				for k, c := range table.Columns {
					if c.Kind == store.KindBool {
						tables[i].Columns[k].Kind = store.KindInt // SQLite has none
					}
				}
			}
			described[engine.name] = fmt.Sprint(tables)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Check(t.Context()); err != nil {
			t.Error(err)
		}
		// the owner may
		if may, err := s.MayChangeLedger(t.Context()); err != nil || may != strings.HasPrefix(engine.name, "postgres") {
			t.Errorf("%s: %v %v", engine.name, may, err)
		}
	}
	if described["sqlite"] != described["postgres"] {
		t.Errorf("SQLite has   %s\nPostgreSQL has %s", described["sqlite"], described["postgres"])
	}
	all := described["sqlite"]
	for _, pair := range [][2]string{{"{accounts ", "{groups "}, {"{groups ", "{files "}, {"{groups ", "{members "}} {
		if strings.Index(all, pair[0]) > strings.Index(all, pair[1]) || !strings.Contains(all, pair[0]) {
			t.Errorf("%v are in the wrong order in %s", pair, all)
		}
	}
}

// An early program numbered other tables from 1 on: its database is never taken for an older one of this program.
func testEarly(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	var statement store.Query = "PRAGMA user_version = 30"
	if s.Engine() == "postgres" {
		statement = "UPDATE schema_version SET version = 30"
	}
	err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(t.Context(), statement)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := opener(); err == nil || !strings.Contains(err.Error(), "early svcd (schema 30)") {
		t.Errorf("the schema of an early program opens: %v", err)
	}
}

// A statement that ends many uploads of an account changes what is counted of it once.
func TestUploadsAreCountedOnceForAStatement(t *testing.T) {
	s := onPostgres(t)
	err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		if _, err := tx.ExecContext(t.Context(), `INSERT INTO uploads
			(id, account, group_id, ref, filename, key_version, expires_ns, blob_id, blob_size)
			SELECT i, 'a', 'g', '', '', 1, 1, i, 5 FROM generate_series(1, 100) i`); err != nil {
			return err
		}
		if _, err := tx.ExecContext(t.Context(), "DELETE FROM uploads"); err != nil {
			return err
		}
		var changed, bytes int
		if err := tx.QueryRowContext(t.Context(), `SELECT pg_stat_get_xact_tuples_updated('stored_bytes'::regclass),
			(SELECT sum(bytes) FROM stored_bytes)`).Scan(&changed, &bytes); err != nil {
			return err
		}
		if changed != 2 || bytes != 0 {
			t.Errorf("%d changes, and %d bytes are left", changed, bytes)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// A connection of the pool to a primary that was given up meanwhile is used no more, and nor is a new one.
func TestPrimaryThatWasGivenUp(t *testing.T) {
	address := postgres.NewDatabase(t) + "&target_session_attrs=read-write"
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), "", address) })
	get(t, s, "a")
	s.SeeTimeline(1 << 20)
	err := s.Look(t.Context(), func(tx *store.Tx) error {
		var one int
		return tx.QueryRowContext(t.Context(), "SELECT 1").Scan(&one)
	})
	if !errors.Is(err, store.ErrUnavailable) || !strings.Contains(fmt.Sprint(err), "was given up") {
		t.Errorf("%v", err)
	}
}

// A scrub of PostgreSQL ends while somebody else maintains the tables, and its connection waits for locks as before.
func TestScrubBesideMaintenance(t *testing.T) {
	t.Parallel()
	s := onPostgres(t)
	err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
		if _, err := tx.ExecContext(t.Context(), "LOCK TABLE openings IN SHARE UPDATE EXCLUSIVE MODE"); err != nil {
			return err
		}
		if err := s.Scrub(t.Context(), store.ScrubShort); err == nil || !strings.Contains(err.Error(), "lock timeout") {
			t.Errorf("a scrub while the table is locked: %v", err)
		}
		return s.Look(t.Context(), func(tx *store.Tx) error {
			var wait string
			err := tx.QueryRowContext(t.Context(), "SELECT current_setting('lock_timeout')").Scan(&wait)
			if wait != "0" {
				t.Errorf("a connection waits for locks %s", wait)
			}
			return err
		})
	})
	if err != nil {
		t.Error(err)
	}
	if err := s.Scrub(t.Context(), store.ScrubShort); err != nil {
		t.Error(err)
	}
}
