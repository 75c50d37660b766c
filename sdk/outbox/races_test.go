package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/outbox"
)

// O2, O3, O10: whatever is called at the same time, and whatever the disk and the service refuse: in the end each save
// is recorded or was given up, and what was given up before it was sent is not recorded.
func TestO2RacesOfAllCalls(t *testing.T) {
	for seed := range uint64(20) {
		run(t, func(c *outbox.Config) { c.Coalesce = -1 }, func(t *testing.T, b *box) {
			b.s.Mine = []sdk.Group{{ID: "g"}, {ID: "h"}}
			var mu sync.Mutex
			given, removed := map[string]string{}, map[string]bool{} // by content
			var calm atomic.Bool
			b.disk.OnSync(func() { time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond) })
			b.s.Refuse = func(op string, _ *outbox.Upload) error {
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
				kind := rand.IntN(6)
				switch {
				case calm.Load():
				case kind == 0:
					return &sdk.Error{Op: op, Kind: sdk.ErrUnavailable, Err: errors.New("away")}
				case kind == 1:
					return &sdk.Error{Op: op, Kind: sdk.ErrTooLarge, Err: errors.New("no")}
				}
				return nil
			}
			var all sync.WaitGroup
			for worker := range 4 {
				random := rand.New(rand.NewPCG(seed, uint64(worker)))
				all.Go(func() {
					for n := range 40 {
						time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
						items := b.Items()
						if random.IntN(2) == 0 || len(items) == 0 {
							content := fmt.Sprint("content ", worker, " ", n)
							save := outbox.Save{Group: "g", Name: fmt.Sprint("name", random.IntN(20)), Content: []byte(content)}
							i, err := b.Put(t.Context(), save)
							if err != nil {
								continue
							}
							mu.Lock()
							given[i.ID] = content
							mu.Unlock()
							if random.IntN(3) == 0 {
								_ = b.Rename(t.Context(), i.ID, fmt.Sprint("early", n), "")
							}
							b.Ready(i.ID)
							continue
						}
						i := items[random.IntN(len(items))]
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.IntN(40))*time.Millisecond)
						switch random.IntN(7) {
						case 0:
							err := b.Remove(ctx, i.ID)
							mu.Lock()
							if err == nil {
								removed[i.ID] = true
							}
							mu.Unlock()
						case 1:
							_ = b.Discard(ctx, i.ID)
						case 2:
							_ = b.Rename(ctx, i.ID, fmt.Sprint("renamed", n), "")
						case 3:
							_ = b.Move(ctx, i.ID, "h")
						case 4:
							_ = b.Retry(i.ID)
						case 5:
							b.disk.Broken(true)
							time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
							b.disk.Broken(false)
						case 6:
							_ = b.Content(i.ID, buffer(t))
							_ = b.Status()
						}
						cancel()
					}
				})
			}
			all.Wait()
			calm.Store(true)
			for range 5 {
				_ = b.Retry("")
				time.Sleep(20 * time.Minute)
				synctest.Wait()
			}
			b.wantStates("")
			got := slices.Collect(maps.Values(b.s.Contents))
			for id := range removed {
				if slices.Contains(got, given[id]) {
					t.Errorf("seed %d: %s was removed, and recorded", seed, id)
				}
			}
			if st := b.Status(); st.Bytes != 0 || st.Items != 0 {
				t.Errorf("seed %d: %+v", seed, st)
			}
			if len(b.disk.Files()) > 3 {
				t.Errorf("seed %d: %v", seed, slices.Collect(maps.Keys(b.disk.Files())))
			}
		})
	}
}
