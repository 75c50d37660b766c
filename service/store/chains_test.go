package store_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/store"
)

func TestChains(t *testing.T) {
	two := store.Named("b", "a", "b")
	for _, c := range []struct {
		chains store.Chains
		chain  string
		want   bool
	}{
		{store.Chains{}, "a", false},
		{two, "a", true},
		{two, "b", true},
		{two, "c", false},
		{two.And(store.Named("c")), "c", true},
		{two.And(store.Named("c")), "a", true},
		{two.And(store.Everything()), "x", true},
		{store.Everything(), "x", true},
	} {
		if got := c.chains.Has(c.chain); got != c.want {
			t.Errorf("%v has %q: %v", c.chains, c.chain, got)
		}
	}
}

// sharing are processes over one database of PostgreSQL.
func sharing(t *testing.T, n int) (list []*store.Store) {
	t.Helper()
	url := postgres.NewDatabase(t)
	for range n {
		list = append(list, open(t, func() (*store.Store, error) { return store.Open(t.Context(), "", url) }))
	}
	return list
}

// one returns one number that a query counts.
func one(t *testing.T, s *store.Store, query store.Query) (n int) {
	t.Helper()
	if err := s.Look(t.Context(), func(tx *store.Tx) error {
		return tx.QueryRowContext(t.Context(), query).Scan(&n)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// waitForLocks waits until so many transactions wait for a lock of writers.
func waitForLocks(t *testing.T, s *store.Store, n int) {
	t.Helper()
	proctest.Eventually(t, "writes wait for others", func() bool {
		return one(t, s, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted "+
			"AND database = (SELECT oid FROM pg_database WHERE datname = current_database())") == n
	})
}

// holding is a write that has its locks when it closes inside, until it may leave.
func holding(ctx context.Context, inside, leave chan struct{}) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		var n int
		err := tx.QueryRowContext(ctx, "SELECT 1").Scan(&n) // locks are taken with the first answer
		close(inside)
		<-leave
		return err
	}
}

// A write waits for writes of the same chains in other processes, and for no others; a write of everything waits for
// all, and all wait for it.
func TestOnlyTheSameChainsWait(t *testing.T) {
	list := sharing(t, 4)
	ctx := t.Context()
	write := func(s *store.Store, chains store.Chains, letter string) error {
		return s.Write(ctx, chains, func(tx *store.Tx) error { return appendTo(ctx, tx, letter, letter) })
	}
	for _, held := range []struct {
		name    string
		chains  store.Chains
		others  []store.Chains // that do not wait
		waiting []store.Chains
	}{
		{"two chains", store.Named("a", "b"), []store.Chains{store.Named("c"), store.Named("d", "e"), {}},
			[]store.Chains{store.Named("b", "c"), store.Named("a"), store.Everything()}},
		{"no chain", store.Chains{}, []store.Chains{store.Named("a", "b"), {}}, []store.Chains{store.Everything()}},
		{"everything", store.Everything(), nil,
			[]store.Chains{store.Named("x"), {}, store.Everything()}},
	} {
		t.Run(held.name, func(t *testing.T) {
			inside, leave, first := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() {
				first <- list[0].Write(ctx, held.chains, holding(ctx, inside, leave))
			}()
			<-inside
			for _, chains := range held.others {
				if err := write(list[1], chains, "others"); err != nil {
					t.Errorf("%v: %v", chains, err)
				}
			}
			answers := make(chan error, len(held.waiting))
			for i, chains := range held.waiting {
				go func() { answers <- write(list[1+i], chains, "waiting") }()
				waitForLocks(t, list[0], i+1)
			}
			if len(answers) > 0 {
				t.Error("a write of the same chains did not wait")
			}
			close(leave)
			for range held.waiting {
				if err := <-answers; err != nil {
					t.Error(err)
				}
			}
			if err := <-first; err != nil {
				t.Error(err)
			}
		})
	}
}

// Many writes of random chains, of three processes with some commits at once, lose no change of a chain and never
// wait for each other in a circle.
func TestRandomChains(t *testing.T) {
	for _, engine := range engines(t)[:2] {
		t.Run(engine.name, func(t *testing.T) {
			opener := engine.open(t)
			const chains, writers, rounds = 8, 12, 25
			var list []*store.Store
			for range 3 {
				list = append(list, open(t, opener))
			}
			var mu sync.Mutex
			want := make(map[string]int)
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					for range rounds {
						var names []string
						for _, n := range rand.Perm(chains)[:rand.IntN(4)] {
							names = append(names, fmt.Sprint("chain ", n))
						}
						named := store.Named(names...)
						if rand.IntN(20) == 0 {
							named = store.Everything()
						}
						if err := countUp(t, list[w%len(list)], named, names); err != nil {
							t.Error(err)
						}
						mu.Lock()
						for _, name := range names {
							want[name]++
						}
						mu.Unlock()
					}
				})
			}
			all.Wait()
			for name, n := range want {
				if got := get(t, list[0], name); got != fmt.Sprint(n) {
					t.Errorf("%s: %s writes happened, want %d", name, got, n)
				}
			}
			if engine.name == "postgres" {
				if n := one(t, list[0], "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n > 0 {
					t.Errorf("%d deadlocks", n)
				}
			}
		})
	}
}

// countUp reads a number of each chain and writes the next.
func countUp(t *testing.T, s *store.Store, chains store.Chains, names []string) error {
	ctx := t.Context()
	return s.Write(ctx, chains, func(tx *store.Tx) error {
		for _, name := range names {
			var n int
			err := tx.QueryRowContext(ctx, "SELECT CAST(value AS INTEGER) FROM meta WHERE name = ?", name).Scan(&n)
			if err != nil && !errors.Is(err, sql.ErrNoRows) {
				return err
			}
			if err := tx.Do(ctx, "count", "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE "+
				"SET value = excluded.value", name, fmt.Sprint(n+1)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Rows that writes of other chains share may make them wait in a circle, or give one key twice: the one that loses
// runs again.
func TestLostWritesRunAgain(t *testing.T) {
	t.Run("a circle", func(t *testing.T) {
		list := sharing(t, 2)
		var ready sync.WaitGroup
		ready.Add(2)
		race(t, list, func(i int, tx *store.Tx, isFirst bool) error {
			rows := []string{"x", "y"}
			if err := appendTo(t.Context(), tx, rows[i], "1"); err != nil {
				return err
			}
			if isFirst {
				ready.Done()
				ready.Wait()
			}
			return appendTo(t.Context(), tx, rows[1-i], "1")
		})
		if x, y := get(t, list[0], "x"), get(t, list[0], "y"); x != "11" || y != "11" {
			t.Errorf("written %q and %q", x, y)
		}
	})
	t.Run("one key", func(t *testing.T) {
		list := sharing(t, 2)
		var ready sync.WaitGroup
		ready.Add(2)
		race(t, list, func(_ int, tx *store.Tx, isFirst bool) error {
			var n int
			if err := tx.QueryRowContext(t.Context(), "SELECT count(*) FROM meta WHERE name LIKE 'key%'").
				Scan(&n); err != nil {
				return err
			}
			if isFirst {
				ready.Done()
				ready.Wait()
			}
			return tx.Do(t.Context(), "insert", "INSERT INTO meta (name, value) VALUES (?, '1')",
				strings.Repeat("key", n+1))
		})
		if n := one(t, list[0], "SELECT count(*) FROM meta WHERE name LIKE 'key%'"); n != 2 {
			t.Errorf("%d rows", n)
		}
	})
}

// race makes a write of its own chain in each process at the same time.
func race(t *testing.T, list []*store.Store, f func(i int, tx *store.Tx, isFirst bool) error) {
	t.Helper()
	answers := make(chan error, len(list))
	runs := make([]int, len(list))
	for i, s := range list {
		go func() {
			answers <- s.Write(t.Context(), store.Named(fmt.Sprint(i)), func(tx *store.Tx) error {
				runs[i]++
				return f(i, tx, runs[i] == 1)
			})
		}()
	}
	for range list {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if runs[0]+runs[1] != 3 {
		t.Errorf("the writes ran %v times, want one of them twice", runs)
	}
}
