package store_test

import (
	"testing"
	"time"

	"github.com/svcfs/svcfs/service/store"
)

// testLeaseOfTheFuture: a lease keeps others away, also the longest, until it ends so late that the clock went back
// since it was given.
func testLeaseOfTheFuture(t *testing.T, opener func() (*store.Store, error)) {
	s := open(t, opener)
	take := func(holder string, want int64) {
		t.Helper()
		var fence int64
		err := s.Beside(t.Context(), func(tx *store.Tx) (err error) {
			fence, err = store.Lease(t.Context(), tx, "work", holder, store.LongestLease)
			return err
		})
		if err != nil || fence != want {
			t.Errorf("%s got fence %d, %v; want %d", holder, fence, err, want)
		}
	}
	later := func(d time.Duration) {
		t.Helper()
		if err := s.Beside(t.Context(), func(tx *store.Tx) error {
			return tx.Do(t.Context(), "set the clock back", "UPDATE leases SET until_ns = until_ns + ?",
				d.Nanoseconds())
		}); err != nil {
			t.Fatal(err)
		}
	}
	take("one", 1)
	take("other", 0)
	later(time.Hour)
	take("other", 2)
	take("one", 0)
	later(time.Hour)
	take("other", 2)
	take("one", 0)
}
