package sdk_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// Transfers of file content are reported to their end, in JSON and raw; small
// requests are not.
func TestProgress(t *testing.T) {
	t.Parallel()
	for _, flavour := range []testkit.Dialect{testkit.Hosted, testkit.Keyless} {
		t.Run(flavour.String(), func(t *testing.T) {
			s := testkit.Start(t, flavour)
			alice := s.Account("alice", "100")
			c := s.Client(t, alice)
			var mu sync.Mutex
			type step struct{ done, total int64 }
			noting := func(seen *step) func(done, total int64) {
				return func(done, total int64) {
					mu.Lock()
					defer mu.Unlock()
					if done <= seen.done && seen.total == total {
						t.Errorf("%d of %d after %+v", done, total, *seen)
					}
					if done > seen.done {
						*seen = step{done, total}
					}
				}
			}
			var up, down step
			ctx := t.Context()
			if _, err := c.Group("team").Register(ctx); err != nil {
				t.Fatal(err)
			}
			content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			r, err := c.Group("team").Put(ctx, "f", bytes.NewReader(content), sdk.PutOptions{Progress: noting(&up)})
			if err != nil {
				t.Fatal(err)
			}
			f, err := c.Group("team").OpenRef(ctx, r.Ref, noting(&down))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			mu.Lock()
			defer mu.Unlock()
			if up.done != up.total || up.done < int64(len(content)) {
				t.Errorf("the upload ended at %+v", up)
			}
			if down.done < int64(len(content)) || down.total >= 0 && down.done != down.total {
				t.Errorf("the download ended at %+v", down)
			}
		})
	}
}
