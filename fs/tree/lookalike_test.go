package tree

import (
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

// N1, N3, threat 17: no other group takes a group's name: neither with escapes that give it,
// nor with one that looks like it, nor in a mount that comes later.
func TestThreat17GroupsKeepTheirNames(t *testing.T) {
	const carol sdk.AccountID = "carol.svc.testnet"
	w := team()
	w.Member("a/b", bob, alice)
	w.Member("proj", bob, alice)
	w.Member("Mine", alice)
	known := make(thisMount) // what a machine remembers
	remembers := func(c *Config) { c.Known = known }
	before := mount(t, w, alice, remembers)
	want := []string{"Mine", "a%2Fb", "proj", "team"}
	if got := before.names("/"); !slices.Equal(got, want) {
		t.Fatalf("the root lists %q", got)
	}
	w.Member("a%2Fb", carol, alice)
	w.Member("\u0440roj", carol, alice)
	w.Member("PROJ", carol, alice)
	w.Member("A/B", carol, alice)
	w.Member("proj~"+sdk.GroupID(bob), carol, alice)
	w.Member("mine", alice)
	want = append(want, "mine", "\u0440roj~"+string(carol), "PROJ~"+string(carol), "A%2FB~"+string(carol), "a%252Fb", "proj%7E"+string(bob))
	slices.Sort(want)
	before.refresh()
	after := mount(t, w, alice, remembers)
	for when, m := range map[string]*mounted{"a mount that goes on": before, "a later mount": after} {
		if got := m.names("/"); !slices.Equal(got, want) {
			t.Errorf("%s lists\n%q, want\n%q", when, got, want)
		}
		if err := m.save("/a%2Fb/f", when); err != nil {
			t.Error(err)
		}
	}
	if got := len(w.Rows("a/b")); got != 2 || len(w.Rows("a%2Fb")) > 0 {
		t.Errorf("%d saves went to the group, %d to the one with its name in escapes", got, len(w.Rows("a%2Fb")))
	}

	// One that looks like none is shown as it is.
	w.Member("\u217fv", carol, alice)
	after.refresh()
	if got := after.names("/"); !slices.Contains(got, "\u217fv") {
		t.Errorf("without another one that looks so: %q", got)
	}
	w.Member("mv", carol, alice)
	after.refresh()
	if got := after.names("/"); !slices.Contains(got, "mv~"+string(carol)) || !slices.Contains(got, "\u217fv") {
		t.Errorf("and with a later one: %q", got)
	}
	w.Revoke("\u217fv", alice)
	w.Revoke("mv", alice)

	// Without an owner, and without a memory, they get different names as well.
	w.Fail("members", &sdk.Error{Kind: sdk.ErrUnavailable})
	first := mount(t, w, alice)
	names := first.names("/")
	if len(names) != len(want) || !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "proj~") || strings.HasPrefix(name, "PROJ~") }) {
		t.Errorf("without owners: %q", names)
	}
	for _, own := range []string{"Mine", "mine", "team"} {
		if !slices.Contains(names, own) {
			t.Errorf("%q is not among %q", own, names)
		}
	}
}

// Groups that the account came to know first come first, and of others its own; only those of others look alike.
func TestNewcomers(t *testing.T) {
	listed := []sdk.Group{{ID: "board"}, {ID: "zoo", Owned: true}, {ID: "b0ard"}, {ID: "team"}, {ID: "boa\u0433d", Owned: true}}
	there := groupSet{"team": {}}
	known := thisMount{"b0ard": 1}
	newcomers := newcomersOf(listed, there, known)
	var order []sdk.GroupID
	for _, g := range newcomers {
		order = append(order, g.ID)
	}
	if want := []sdk.GroupID{"b0ard", "boa\u0433d", "zoo", "board"}; !slices.Equal(order, want) {
		t.Errorf("the order is %q, want %q", order, want)
	}
	if alike := lookAlikesOf(newcomers, there); !slices.Equal(alike, []sdk.GroupID{"board"}) {
		t.Errorf("%q look like others", alike)
	}
	if len(listed) != 5 || listed[0].ID != "board" || !isNewsOf(listed, there) || isNewsOf(listed[3:4], there) || !isNewsOf(nil, there) {
		t.Error("what is news")
	}
}
