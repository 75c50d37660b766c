package tree

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
)

// E7: the network is gone for a minute, an hour, a day. What is in memory can be used, the rest
// ends with the documented error, nothing waits longer than it may, and all goes on by itself.
func TestE7NetworkIsGone(t *testing.T) {
	operations := []string{"groups", "entries", "retrieve", "upload", "authorized"}
	for _, lasts := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		t.Run(lasts.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := team()
				w.Put("team", alice, "warm", []byte("warm"))
				w.Put("team", alice, "cold", []byte("cold"))
				m := mount(t, w, bob, func(c *Config) { c.RefreshInterval = 2 * time.Second })
				m.names("/team")
				m.wantContent("/team/warm", "warm")
				for _, operation := range operations {
					w.Fail(operation, &sdk.Error{Op: operation, Kind: sdk.ErrUnavailable})
				}
				most := func(what string, limit time.Duration, do func()) {
					t.Helper()
					if took := duration(do); took > limit {
						t.Errorf("%s takes %s", what, took)
					}
				}
				saved := 0
				for begun := time.Now(); time.Since(begun) < lasts; time.Sleep(lasts / 20) {
					most("a listing", look.Patience, func() { m.names("/team") })
					most("reading what is in memory", 0, func() { m.wantContent("/team/warm", "warm") })
					most("reading what is not", look.Patience, func() {
						_, err := m.read("/team/cold")
						wantClass(t, err, ClassUnreachable)
					})
					most("a save", look.Patience, func() {
						wantClass(t, m.save(fmt.Sprintf("/team/new-%d", saved), "kept"), ClassUnreachable)
						saved++
					})
				}
				if s := m.Status(); s.Service != report.ServiceUnreachable || s.Pending != saved {
					t.Errorf("status: %s, %d pending of %d", s.Service, s.Pending, saved)
				}
				w.Put("team", alice, "meanwhile", []byte("new"))
				for _, operation := range operations {
					w.Fail(operation, nil)
				}
				time.Sleep(look.LongestProbe + 2*m.cfg.RefreshInterval) // nobody looks
				if s := m.Status(); s.Service != report.ServiceReachable || s.Pending != 0 {
					t.Errorf("it is back: %s, %d pending", s.Service, s.Pending)
				}
				m.wantContent("/team/cold", "cold")
				m.wantContent("/team/meanwhile", "new")
				for i := range saved {
					m.wantContent(fmt.Sprintf("/team/new-%d", i), "kept")
				}
				m.wantCharges(3, saved)
			})
		})
	}
}
