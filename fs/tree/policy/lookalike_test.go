package policy

import (
	"slices"
	"testing"
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
		{"mv", "\u217fv", true},                 // a Roman numeral
		{"file", "\ufb01le", true},              // a ligature
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
		a, b := Looks(tc.a), Looks(tc.b)
		if got := slices.Contains(b[:], a[0]) || slices.Contains(b[:], a[1]); got != tc.alike {
			t.Errorf("%q and %q: %v, as %q and %q", tc.a, tc.b, got, a, b)
		}
	}
}
