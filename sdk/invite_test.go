package sdk_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// Threat 75: the secret of an invite to a group goes to no service without the log key of the invite, whether this
// machine has seen the service or not.
func TestThreat75InviteOfAnotherLog(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	owner := s.Client(t, s.Account("alice", "10"))
	knows := s.Client(t, s.Account("bob", "10"))
	for id, c := range map[sdk.GroupID]*sdk.Client{"team": owner, "bobs": knows} {
		if _, err := c.Group(id).Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Group(id).Put(t.Context(), "a", strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
		listed(t, c, id, 1) // the key is pinned
	}
	g := owner.Group("team")
	_, text, err := g.Invite(t.Context(), sdk.RoleReader)
	if err != nil {
		t.Fatal(err)
	}
	invite, err := wire.ParseInvite(text.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	other := invite
	if _, other.LogKey, err = note.GenerateKey(rand.Reader, "127.0.0.1/svc.testnet"); err != nil {
		t.Fatal(err)
	}
	fresh := s.Client(t, s.Account("carol", "10"))
	pinned := func() string {
		state, err := fresh.Trust(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return state.Key
	}
	for who, c := range map[string]*sdk.Client{"a client that knows the service": knows, "one that does not": fresh} {
		if _, err := c.UseInvite(t.Context(), other); sdk.KindOf(err) != sdk.ErrCorrupt {
			t.Errorf("%s: %v", who, err)
		}
	}
	if n := s.Hits("/tools/" + wire.OpUseGroupInvite); n != 0 {
		t.Errorf("the secret was sent %d times", n)
	}
	if key := pinned(); key != "" {
		t.Errorf("the key that the service does not have is pinned: %s", key)
	}
	if id, err := fresh.UseInvite(t.Context(), invite); err != nil || id != "team" {
		t.Errorf("joined %q: %v", id, err)
	}
	if key := pinned(); key != invite.LogKey {
		t.Errorf("pinned is %q, not the key of the invite", key)
	}
}
