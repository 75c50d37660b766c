package store_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/store/pgtest"
)

func askMeta(name string) store.Ask {
	return store.Ask{Query: "SELECT value FROM meta WHERE name = ?", Args: []any{name}}
}

// asking is a write of some chains that was told what it will ask: what a name of meta has. It adds a letter to it.
type asking struct {
	chains store.Chains
	ask    store.Ask
	want   string
}

// run asks twice, before and after its change.
func (a asking) run(t *testing.T, tx *store.Tx) error {
	for _, want := range []string{a.want, a.want + "+"} {
		var got string
		if err := tx.Ask(t.Context(), a.ask).Scan(&got); err != nil || got != want {
			return fmt.Errorf("it reads %q, want %q: %w", got, want, err)
		}
		if want == a.want {
			err := tx.Do(t.Context(), "change", "UPDATE meta SET value = value || '+' WHERE name = ?", a.ask.Args[0])
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// testAsks: an answer that came before it was asked for is never an old one, whoever changed what it says: the write
// itself, one before it in the same commit, or anybody before that.
func testAsks(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	for _, name := range []string{"a", "b"} {
		if err := set(t.Context(), s, name, ""); err != nil {
			t.Fatal(err)
		}
	}
	whole := askMeta("b")
	whole.Whole = true
	all := []asking{
		{store.Named("a"), askMeta("a"), ""},
		{store.Named("b"), askMeta("b"), ""},
		{store.Named("x", "a"), askMeta("a"), "+"},
		{store.Named("a"), whole, "+"},
		{store.Named("y"), whole, "++"},
		{store.Everything(), askMeta("b"), "+++"}, // of a commit of its own where writes of other chains run at once
	}
	var chains []store.Chains
	var writes []func(*store.Tx) error
	for _, a := range all {
		chains = append(chains, a.chains.Asking(func() []store.Ask { return []store.Ask{a.ask, askMeta("none")} }))
		writes = append(writes, func(tx *store.Tx) error { return a.run(t, tx) })
	}
	for i, err := range queuedOf(t, s, chains, writes) {
		if err != nil {
			t.Errorf("write %d: %v", i, err)
		}
	}
}

// An ask that the server refuses fails its own write, in the same commit and by itself.
func testAskFails(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	bad := store.Ask{Query: "SELECT value FROM there_is_none WHERE name = ?", Args: []any{"a"}}
	answers := queuedOf(t, s, []store.Chains{store.Named("a"), store.Named("b").Asking(func() []store.Ask {
		return []store.Ask{bad}
	})}, []func(*store.Tx) error{
		func(tx *store.Tx) error { return appendTo(t.Context(), tx, "a", "1") },
		func(tx *store.Tx) error { return tx.Ask(t.Context(), bad).Scan(new(string)) },
	})
	if answers[0] != nil || answers[1] == nil {
		t.Errorf("answers %v", answers)
	}
	if got := get(t, s, "a"); got != "1" {
		t.Errorf("written %q, want 1", got)
	}
}

// TestRoundTripsOfACommit: writes of different chains that are committed together ask all they know beforehand in one
// round trip, and are committed in another, however many there are.
func TestRoundTripsOfACommit(t *testing.T) {
	line := pgtest.NewLine(t, postgres.NewDatabase(t))
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), "", line.URL) })
	commit := func(n int) int64 {
		var chains []store.Chains
		var writes []func(*store.Tx) error
		for i := range n {
			name := fmt.Sprint("g", i)
			chains = append(chains, store.Named(name).Asking(func() []store.Ask { return []store.Ask{askMeta(name)} }))
			writes = append(writes, func(tx *store.Tx) error {
				_ = tx.Ask(t.Context(), askMeta(name)).Scan(new(string))
				return tx.Do(t.Context(), "change", "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) "+
					"DO UPDATE SET value = excluded.value", name, name)
			})
		}
		before := line.Trips()
		for i, err := range queuedOf(t, s, chains, writes) {
			if err != nil {
				t.Errorf("write %d: %v", i, err)
			}
		}
		return line.Trips() - before
	}
	commit(2)                    // prepares statements
	if n := commit(24); n != 3 { // one is of the write before them
		t.Errorf("24 writes make %d round trips, want 2", n-1)
	}
}

// What triggers change is known where answers become old.
func TestTriggersAreKnown(t *testing.T) {
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), "", postgres.NewDatabase(t)) })
	var tables []string
	err := s.Read(t.Context(), func(tx *store.Tx) (err error) {
		tables, err = store.Values[string](t.Context(), tx, "list triggers", "SELECT DISTINCT relname::text FROM pg_trigger "+
			"JOIN pg_class ON pg_class.oid = tgrelid WHERE NOT tgisinternal")
		return err
	})
	if err != nil || len(tables) < 4 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		if changed := store.ChangedBy("UPDATE " + table + " SET x"); !slices.Contains(changed, "stored_bytes") {
			t.Errorf("a change of %s changes %v: what do its triggers change?", table, changed)
		}
	}
}
