package tree

import (
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

// N1, threat 17: names that people take for each other have a look in common.
func TestThreat17LookAlikes(t *testing.T) {
	for _, tc := range []struct {
		a, b  string
		alike bool
	}{
		{"proj", "\u0440roj", true},             // Cyrillic er
		{"proj", "\u0420ROJ", true},             // in capitals
		{"proj", "PROJ", true},                  // case
		{"proj", "proj.", true},                 // a dot at the end
		{"proj", "proj\u2024", true},            // a one dot leader
		{"proj", "p\u2060roj", true},            // invisible
		{"proj", "proj\ufe0f", true},            // a variation selector
		{"proj", "\uff50roj", true},             // full width
		{"proj", "\U0001d429roj", true},         // mathematical bold
		{"team", "tearn", true},                 // m and rn
		{"Bob", "\u0392ob", true},               // Greek beta
		{"team 1", "team\u00a0l", true},         // a no-break space, one and el
		{"a b", "a  b", true},                   // spaces
		{"отчёт", "отчe\u0308т", true},          // composed or not, with a Latin e
		{"команда", "к\u006fманда", true},       // a Latin o in a Cyrillic word
		{"proj", "project", false},              //
		{"proj", "proj2", false},                //
		{"plan", "plum", false},                 //
		{"2024", "2025", false},                 //
		{"команда", "командир", false},          //
		{"a", "\u00e4", false},                  // an umlaut can be seen
		{"\u6587\u66f8", "\u6587\u5b57", false}, // Han
	} {
		a, b := looks(sdk.GroupID(tc.a)), looks(sdk.GroupID(tc.b))
		if got := slices.Contains(b[:], a[0]) || slices.Contains(b[:], a[1]); got != tc.alike {
			t.Errorf("%q and %q: %v, as %q and %q", tc.a, tc.b, got, a, b)
		}
	}
}

// N1, N3, threat 17: nobody takes a group's name: neither with escapes that give it,
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

	// Without an owner, and without a memory, they are told apart as well.
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
