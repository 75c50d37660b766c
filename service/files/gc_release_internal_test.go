package files

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/service/store"
)

// Deletions wait for two cleanings at most, the one that runs and the next, also while every cleaning waits in vain for
// a reader: they do not wait for one another's.
func TestDeletionsShareACleaningThatFails(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var cleanings atomic.Int64
	s.Observe(func(call string, _ time.Duration, err error) {
		if call == "scrub" {
			if cleanings.Add(1); err == nil {
				t.Error("it did not fail")
			}
		}
	})
	f := New(s, nil, nil, nil, nil, Config{})
	err = s.Read(t.Context(), func(tx *store.Tx) error {
		if _, err := store.Values[string](t.Context(), tx, "read", "SELECT name FROM meta"); err != nil {
			return err
		}
		err := s.Write(t.Context(), store.Everything(), func(tx *store.Tx) error {
			return tx.Do(t.Context(), "write", "INSERT INTO meta (name, value) VALUES ('a', '1')")
		})
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				f.traces.Store(true)
				if f.scrub(t.Context()) == nil {
					t.Error("it is told as done")
				}
			})
		}
		all.Wait()
		if !f.traces.Load() {
			t.Error("nobody cleans again")
		}
		return err
	})
	if n := cleanings.Load(); err != nil || n > 4 {
		t.Errorf("%d cleanings for ten deletions at once: %v", n, err)
	}
}

// A deletion waits no longer than its own cleaning would for that of a sweep, which waits long for readers. The next
// deletion cleans again.
func TestDeletionsDoNotWaitForASweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(nil, nil, nil, nil, nil, Config{})
		f.traces.Store(false)
		f.scrubbing <- struct{}{} // as a sweep does
		begun := time.Now()
		if err := f.scrub(t.Context()); err == nil || time.Since(begun) != store.ScrubShort {
			t.Errorf("after %s: %v", time.Since(begun), err)
		}
		<-f.scrubbing
		if err := f.scrub(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
