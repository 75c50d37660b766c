package tree

import (
	"errors"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/network"
)

// E1: a look at the ledger that is refused appears in status, with the next step, and
// once in errors, until another look succeeds. The service did answer.
func TestE1FailedLookIsTold(t *testing.T) {
	w := team()
	w.Put("team", alice, "f", []byte("x"))
	m := mount(t, w, bob, advises)
	m.names("/team")
	if s := m.Status(); s.FailedLook != nil || !s.Reachable {
		t.Fatalf("before: %+v", s)
	}
	w.Fail("entries", &sdk.Error{Op: "list", Kind: sdk.ErrCorrupt, Err: errors.New("not what it signed")})
	for range 3 {
		if err := m.look.Refresh(t.Context()); err == nil {
			t.Fatal("a refused look succeeded")
		} else {
			m.look.NoteReached(err)
		}
	}
	s := m.Status()
	if f := s.FailedLook; f == nil || f.Path != "/team" || f.Class != "corrupt" || !strings.Contains(f.Error, "not what it signed") || f.Hint != "About corrupt." {
		t.Errorf("failed look: %+v", f)
	}
	if !s.Reachable || s.Errors != 1 {
		t.Errorf("reachable %v, %d errors", s.Reachable, s.Errors)
	}
	w.Fail("entries", &sdk.Error{Op: "list", Kind: sdk.ErrUnavailable, Err: errors.New("no route")})
	m.look.NoteReached(m.look.Refresh(t.Context()))
	if s := m.Status(); s.Reachable || s.FailedLook == nil || s.Errors != 1 {
		t.Errorf("a service that is away: %+v", s)
	}
	w.Fail("entries", nil)
	m.look.NoteReached(m.look.Refresh(t.Context()))
	if s := m.Status(); s.FailedLook != nil || !s.Reachable {
		t.Errorf("afterwards: %+v", s)
	}
}

// E5: the status tells a service that is waited for from one that is not.
func TestE5StateOfTheService(t *testing.T) {
	w, now := team(), network.Connected
	m := mount(t, w, bob, func(c *Config) { c.Connection = func() network.Connection { return now } })
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
		m.look.NoteReached(m.look.Refresh(t.Context()))
		if got := m.Status(); got.Service != tc.want || got.Reachable != tc.answers {
			t.Errorf("%d, answers %v: the service is %s, reachable %v", tc.connection, tc.answers, got.Service, got.Reachable)
		}
	}
}
