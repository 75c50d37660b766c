package tree

import (
	"context"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
)

// E2: while the service does not answer, known names are shown from memory: the first
// time after a second, then at once; and the mount notices when the service is back. The
// clock is that of a bubble, in which nothing else takes time.
func TestE2KnownNamesWhileTheServiceIsAway(t *testing.T) {
	for name, watch := range map[string]func(context.Context, sdk.Seq) (iter.Seq2[sdk.Event, error], error){
		"without a watch": nil,
		"watched": func(ctx context.Context, _ sdk.Seq) (iter.Seq2[sdk.Event, error], error) {
			events := make(chan sdk.Event) // a watch waits faults out by itself
			context.AfterFunc(ctx, func() { close(events) })
			return treetest.Events(events), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := team()
				w.Put("team", alice, "f", []byte("content"))
				m := mount(t, w, bob, func(c *Config) { c.Watch, c.RefreshInterval = watch, 2*time.Second })
				m.names("/team")
				back, backToo := w.Stall("entries"), w.Stall("groups")
				looks := map[string]func(){
					"ls":      func() { m.names("/team") },
					"df":      func() { m.names("/") }, // opens the folder before it asks for its size
					"look-up": func() { _, _ = m.lookup("/team/absent") },
				}
				for what, do := range looks { // from memory once the look before is out of date
					time.Sleep(time.Second)
					if took := duration(do); took > look.Patience {
						t.Errorf("the first %s takes %s", what, took)
					}
				}
				time.Sleep(2 * m.cfg.MetadataTimeout)
				for range 20 {
					time.Sleep(time.Second)
					for what, do := range looks {
						if took := duration(do); took != 0 {
							t.Fatalf("%s takes %s", what, took)
						}
					}
				}
				if m.Status().Reachable {
					t.Error("status says that the service answers")
				}
				back()
				backToo()
				w.Put("team", alice, "new", nil)
				for range 20 {
					time.Sleep(time.Second)
					m.names("/team")
				}
				if !m.Status().Reachable || !m.shows("/team", "new")() {
					t.Error("nobody saw that the service is back")
				}
			})
		})
	}
}

func duration(do func()) time.Duration {
	began := time.Now()
	do()
	return time.Since(began)
}

// Content that could not be sent is sent once the service is back, also in an idle mount.
func TestUnsentFilesAreSentWithoutAWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := team()
		m := mount(t, w, bob, func(c *Config) { c.RefreshInterval = 2 * time.Second })
		m.names("/team")
		gone := &sdk.Error{Op: "upload", Kind: sdk.ErrUnavailable}
		w.Fail("upload", gone)
		w.Fail("groups", gone)
		if err := m.save("/team/f", "content"); err == nil {
			t.Fatal("saved")
		}
		defer m.open("/team/f", OpenFlags{Read: true}).Release() // whose close sends nothing
		time.Sleep(time.Minute)
		w.Fail("upload", nil)
		w.Fail("groups", nil)
		time.Sleep(look.LongestProbe + 2*m.cfg.RefreshInterval)
		if left := m.Pending(); len(left) > 0 {
			t.Errorf("still waits: %v", left)
		}
		before := w.Begun("groups")
		time.Sleep(time.Hour)
		if n := w.Begun("groups") - before; n != 0 {
			t.Errorf("asked %d times though nobody looked and nothing waits", n)
		}
	})
}
