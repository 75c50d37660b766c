package tree

import (
	"errors"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
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
		if err := m.Tree.refresh(t.Context()); err == nil {
			t.Fatal("a refused look succeeded")
		} else {
			m.noteReached(err)
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
	m.noteReached(m.Tree.refresh(t.Context()))
	if s := m.Status(); s.Reachable || s.FailedLook == nil || s.Errors != 1 {
		t.Errorf("a service that is away: %+v", s)
	}
	w.Fail("entries", nil)
	m.noteReached(m.Tree.refresh(t.Context()))
	if s := m.Status(); s.FailedLook != nil || !s.Reachable {
		t.Errorf("afterwards: %+v", s)
	}
}
