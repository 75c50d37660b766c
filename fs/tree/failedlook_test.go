package tree

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/look"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/view"
)

// watching mounts bob at a service that announces changes, and looks at all groups when the test says so.
func watching(t *testing.T, w *world, change ...func(*Config)) (m *mounted, lookAgain func()) {
	t.Helper()
	var c clock
	events := make(chan sdk.Event)
	m = mount(t, w, bob, append(change, c.use, func(cfg *Config) {
		cfg.Watch = func(context.Context, sdk.Seq) (iter.Seq2[sdk.Event, error], error) {
			return treetest.Events(events), nil
		}
	})...)
	t.Cleanup(func() { close(events) })
	proctest.Eventually(t, "changes are announced", m.look.Watched)
	return m, func() {
		c.ns.Add(int64(look.WatchedInterval))
		m.look.Tick(t.Context())
	}
}

// refusing is a service that refuses the records of one group.
type refusing struct {
	remote
	group sdk.GroupID
	with  error
}

func (r *refusing) Entries(ctx context.Context, g sdk.GroupID, since *view.View) ([]sdk.Entry, error) {
	if g == r.group && r.with != nil {
		return nil, r.with
	}
	return r.remote.Entries(ctx, g, since)
}

// E2: a service that refuses to list one group, or says of it what cannot be believed, is not away. Other groups are
// as before, and programs are told of this one.
func TestE2OneGroupIsRefused(t *testing.T) {
	w := team()
	w.Member("healthy", alice, bob)
	r := &refusing{remote: remote{w.As(bob)}, group: "team"}
	m, lookAgain := watching(t, w, ours, func(c *Config) { c.Remote = r })
	m.wantNames("/team")
	m.wantNames("/healthy")
	r.with = &sdk.Error{Op: "list", Kind: sdk.ErrCorrupt, Err: errors.New("not what it signed")}
	lookAgain()
	if !m.look.Reached() {
		t.Error("the service is taken for one that is away")
	}
	m.mkdir("/healthy", "d")
	if got := w.Folders("healthy"); !slices.Equal(got, []string{"d"}) {
		t.Errorf("recorded: %q", got)
	}
	_, err := m.dir("/team").Entries(t.Context())
	wantClass(t, err, ClassCorrupt)
	w.Fail("groups", &sdk.Error{Op: "list", Kind: sdk.ErrUnavailable, Err: errors.New("no route")})
	lookAgain()
	if m.look.Reached() {
		t.Error("the service is not taken for one that is away")
	}
	w.Fail("groups", &sdk.Error{Op: "list", Kind: sdk.ErrCorrupt, Err: errors.New("not what it signed")})
	lookAgain()
	if !m.look.Reached() {
		t.Error("a service that is back, and refuses, is taken for one that is away")
	}
}

// E1: a look at the ledger that is refused appears in status, with the next step, and
// once in errors, until another look succeeds. The service did answer.
func TestE1FailedLookIsTold(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	m, lookAgain := watching(t, w, advises)
	m.names("/team")
	if s := m.Status(); s.FailedLook != nil || !s.Reachable {
		t.Fatalf("before: %+v", s)
	}
	w.Fail("entries", &sdk.Error{Op: "list", Kind: sdk.ErrCorrupt, Err: errors.New("not what it signed")})
	for range 3 {
		lookAgain()
	}
	s := m.Status()
	if f := s.FailedLook; f == nil || f.Path != "/team" || f.Class != "corrupt" || !strings.Contains(f.Error, "not what it signed") || f.Hint != "About corrupt." {
		t.Errorf("failed look: %+v", f)
	}
	if !s.Reachable || s.Errors != 1 {
		t.Errorf("reachable %v, %d errors", s.Reachable, s.Errors)
	}
	w.Fail("entries", &sdk.Error{Op: "list", Kind: sdk.ErrUnavailable, Err: errors.New("no route")})
	lookAgain()
	if s := m.Status(); s.Reachable || s.FailedLook == nil || s.Errors != 1 {
		t.Errorf("a service that is away: %+v", s)
	}
	w.Fail("entries", nil)
	lookAgain()
	if s := m.Status(); s.FailedLook != nil || !s.Reachable {
		t.Errorf("afterwards: %+v", s)
	}
}

// E5: the status tells a service that is waited for from one that is not.
func TestE5StateOfTheService(t *testing.T) {
	w, now := team(), network.Connected
	m, lookAgain := watching(t, w, func(c *Config) { c.Connection = func() network.Connection { return now } })
	for _, tc := range []struct {
		connection network.Connection
		answers    bool
		want       string
	}{
		{network.Connected, true, report.ServiceReachable},
		{network.Reconnecting, true, report.ServiceReconnecting},
		{network.Reconnecting, false, report.ServiceReconnecting},
		{network.Disconnected, false, report.ServiceUnreachable},
		{network.Disconnected, true, report.ServiceUnreachable},
		{network.Connected, false, report.ServiceUnreachable}, // it hangs
		{network.Connected, true, report.ServiceReachable},
	} {
		now = tc.connection
		w.Fail("groups", nil)
		if !tc.answers {
			w.Fail("groups", &sdk.Error{Op: "list", Kind: sdk.ErrTimeout, Err: errors.New("no answer")})
		}
		lookAgain()
		if got := m.Status(); got.Service != tc.want || got.Reachable != tc.answers {
			t.Errorf("%d, answers %v: the service is %s, reachable %v", tc.connection, tc.answers, got.Service, got.Reachable)
		}
	}
}
