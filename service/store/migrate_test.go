package store_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/service/store"
)

// The schema changes in two steps. Expand adds what the next version needs, and the version before goes on
// beside it. Contract takes away what no version needs that still runs.
const (
	expand   = "ALTER TABLE leases ADD COLUMN note TEXT"
	contract = "UPDATE leases SET note = '' WHERE note IS NULL; DROP TABLE recent_deletions"
)

func next() map[string]string { return map[string]string{"0002_expand.sql": expand} }

func afterNext() map[string]string {
	return map[string]string{"0002_expand.sql": expand, "0003_contract.sql": contract}
}

// opensWith opens the stores of a test over one new database of each engine.
func opensWith(t *testing.T, test func(*testing.T, func(more map[string]string) (*store.Store, error))) {
	for engine, place := range map[string]func(*testing.T) (dir, url string){
		"sqlite":   func(t *testing.T) (dir, url string) { return t.TempDir(), "" },
		"postgres": func(t *testing.T) (dir, url string) { return "", postgres.NewDatabase(t) },
	} {
		t.Run(engine, func(t *testing.T) {
			dir, url := place(t)
			test(t, func(more map[string]string) (*store.Store, error) {
				return store.OpenWith(t.Context(), dir, url, more)
			})
		})
	}
}

// takeLease is a write of the version before, which knows nothing of the new column.
func takeLease(ctx context.Context, s *store.Store, name string) error {
	return s.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO leases (name, holder, until_ns) VALUES (?, 'a', 1)", name)
		return err
	})
}

// noteOf reads a note as the next version does: NULL is what the version before wrote.
func noteOf(t *testing.T, s *store.Store, name string) (note string) {
	t.Helper()
	err := s.Read(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRowContext(t.Context(), "SELECT COALESCE(note, 'none') FROM leases WHERE name = ?",
			name).Scan(&note)
	})
	if err != nil {
		t.Error(err)
	}
	return note
}

// A process of the version before reads and writes while and after the next version expands the schema; its
// rows stay. It starts over what was only expanded, and not once something was taken away that it needs.
func TestSchemaExpandsAndContracts(t *testing.T) {
	opensWith(t, func(t *testing.T, with func(map[string]string) (*store.Store, error)) {
		opened := func(more map[string]string) *store.Store {
			t.Helper()
			return open(t, func() (*store.Store, error) { return with(more) })
		}
		old := opened(nil)
		if err := takeLease(t.Context(), old, "before"); err != nil {
			t.Fatal(err)
		}
		newer := opened(next())
		again := opened(nil) // a process of the version before that ended, or a way back
		if err := takeLease(t.Context(), again, "again"); err != nil || again.SchemaVersion() != 1002 {
			t.Errorf("the version before, started again over schema %d: %v", again.SchemaVersion(), err)
		}
		if err := takeLease(t.Context(), old, "beside"); err != nil {
			t.Errorf("the version before cannot write: %v", err)
		}
		err := newer.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
			_, err := tx.ExecContext(t.Context(),
				"INSERT INTO leases (name, holder, until_ns, note) VALUES ('new', 'b', 1, 'said')")
			return err
		})
		if err != nil {
			t.Errorf("the next version cannot write: %v", err)
		}
		for name, want := range map[string]string{"before": "none", "beside": "none", "new": "said"} {
			if got := noteOf(t, newer, name); got != want {
				t.Errorf("note of %s: %q, want %q", name, got, want)
			}
		}
		last := opened(afterNext()) // no process of the version before runs any more
		if got := noteOf(t, last, "before"); got != "" {
			t.Errorf("after contract the note is %q", got)
		}
		if version := last.SchemaVersion(); version != 1003 {
			t.Errorf("schema %d", version)
		}
		if _, err := with(nil); err == nil || !strings.Contains(err.Error(), "newer svcd (schema 1003") {
			t.Errorf("a version whose tables were taken away starts: %v", err)
		}
		opened(next())      // it needs nothing that was taken away
		opened(afterNext()) // nothing is left to do
	})
}

// Processes of the next version that start at once migrate once: a second time would fail.
func TestMigrationsOfSeveralProcesses(t *testing.T) {
	opensWith(t, func(t *testing.T, with func(map[string]string) (*store.Store, error)) {
		open(t, func() (*store.Store, error) { return with(nil) })
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				s, err := with(afterNext())
				if err != nil {
					t.Error(err)
					return
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	})
}

// A migration that fails leaves nothing behind, also not what came before it in the same start.
func TestMigrationsAreWholeOrNotAtAll(t *testing.T) {
	opensWith(t, func(t *testing.T, with func(map[string]string) (*store.Store, error)) {
		s := open(t, func() (*store.Store, error) { return with(nil) })
		bad := map[string]string{"0002_expand.sql": expand,
			"0003_expand_bad.sql": "CREATE TABLE added (id INTEGER); SELECT * FROM nowhere"}
		if _, err := with(bad); err == nil || !strings.Contains(err.Error(), "migrate to schema 1003") {
			t.Fatalf("a bad migration: %v", err)
		}
		if err := takeLease(t.Context(), s, "a"); err != nil {
			t.Error(err)
		}
		again := open(t, func() (*store.Store, error) { return with(next()) }) // the column is not there yet
		if got := noteOf(t, again, "a"); got != "none" {
			t.Errorf("note %q", got)
		}
	})
}

// The numbers of migrations have no gaps, and each name says whether programs of the version before run on.
func TestMigrationsAreNumbered(t *testing.T) {
	for name, want := range map[string]string{"0003_expand.sql": "want number", "0001_expand.sql": "want number",
		"expand.sql": "want number", "0002_both.sql": "begins with expand or contract"} {
		_, err := store.OpenWith(t.Context(), t.TempDir(), "", map[string]string{name: expand})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
