package store_test

import (
	"context"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/service/store"
)

// Threat 31: however much one account reads, the reads of another one do not wait for it.
func TestThreat31ReadsOfOneAccount(t *testing.T) {
	const most = 3 // of the four connections of SQLite
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), t.TempDir(), "") })
	of := func(account string) context.Context {
		ctx := store.WithGuard(t.Context())
		store.SetGuard(ctx, account, nil, nil)
		return ctx
	}
	var all sync.WaitGroup
	reads, leave := make(chan struct{}), make(chan struct{})
	for range 20 {
		all.Go(func() {
			if err := s.Read(of("reads"), func(*store.Tx) error {
				reads <- struct{}{}
				<-leave
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	for range most {
		<-reads
	}
	ctx, cancel := context.WithCancel(of("other"))
	all.Go(func() {
		<-reads // one too many, or others are done
		cancel()
		for range 20 - most - 1 {
			<-reads
		}
	})
	for range 10 {
		if err := s.Look(ctx, func(tx *store.Tx) error {
			var n int
			return tx.QueryRowContext(ctx, "SELECT count(*) FROM meta").Scan(&n)
		}); err != nil {
			t.Errorf("the read of another account: %v", err)
		}
	}
	close(leave)
	all.Wait()
}
