package tree

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/sdk"
)

// A3: statfs shows the figures of the service, of the group or in the root of the account,
// asks at most once in ten seconds, and does not wait for a slow answer.
func TestA3StatfsShowsWhatMayBeKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := team()
		w.Put("team", alice, "f", []byte("content"))
		var asked atomic.Int32
		var down, hangs atomic.Bool
		m := mount(t, w, bob, func(c *Config) {
			c.Storage = func(ctx context.Context, g sdk.GroupID) (sdk.Storage, error) {
				asked.Add(1)
				if hangs.Load() {
					<-ctx.Done()
				}
				switch {
				case down.Load() || hangs.Load():
					return sdk.Storage{}, errors.New("down")
				case g == "team":
					return sdk.Storage{Bytes: 700, Max: 1000, Left: 300}, nil
				case g == "":
					return sdk.Storage{Bytes: 900, Max: 5000, Left: 4100}, nil
				}
				return sdk.Storage{Left: -1}, nil
			}
		})
		want := func(n Node, total, free int64) {
			t.Helper()
			if s := m.StatFS(n); s.TotalBytes != total || s.FreeBytes != free {
				t.Errorf("statfs shows %d of %d free, want %d of %d", s.FreeBytes, s.TotalBytes, free, total)
			}
		}
		want(m.Root(), 5000, 4100)
		want(m.node("/team"), 1000, 300)
		want(m.node("/team/f"), 1000, 300)
		for range 100 {
			want(m.Root(), 5000, 4100)
		}
		if n := asked.Load(); n != 2 {
			t.Errorf("the service was asked %d times", n)
		}
		time.Sleep(look.StorageAge)
		hangs.Store(true)
		want(m.node("/team"), 1000, 300)
		hangs.Store(false)
		down.Store(true)
		time.Sleep(look.StorageAge)
		want(m.node("/team"), 1000, 300)
	})
}

// A3: whatever a service says, free is never above total.
func TestA3StatfsOfHostileSizes(t *testing.T) {
	w := team()
	for _, said := range []sdk.Storage{{}, {Bytes: math.MaxInt64, Left: math.MaxInt64}, {Bytes: math.MaxInt64, Left: -1}, {Bytes: 1, Left: 0}} {
		m := mount(t, w, bob, func(c *Config) {
			c.Storage = func(context.Context, sdk.GroupID) (sdk.Storage, error) { return said, nil }
		})
		if s := m.StatFS(m.Root()); s.FreeBytes < 0 || s.FreeBytes > s.TotalBytes {
			t.Errorf("%+v: %+v", said, s)
		}
	}
}
