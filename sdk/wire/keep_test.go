package wire

import "testing"

func TestKeep(t *testing.T) {
	for _, text := range []string{"all", "1", "5", "10000", "1d", "30d", "3650d"} {
		if k, err := ParseKeep(text); err != nil || k.String() != text || k.KeepsAll() != (text == "all") {
			t.Errorf("%s: %+v, %v", text, k, err)
		}
	}
	for _, text := range []string{"", "0", "-1", "+1", "01", "d", "0d", "10001", "3651d", "1D", " 1", "1 ", "All", "1dd", "9223372036854775808"} {
		if k, err := ParseKeep(text); err == nil || k != (Keep{}) {
			t.Errorf("%q: %+v, %v", text, k, err)
		}
	}
	for _, tc := range []struct {
		from, to string
		widens   bool
	}{
		{"all", "all", true}, {"5", "all", true}, {"30d", "all", true}, {"5", "5", true}, {"5", "6", true}, {"30d", "31d", true},
		{"all", "10000", false}, {"all", "3650d", false}, {"5", "4", false}, {"30d", "29d", false}, {"1", "3650d", false}, {"1d", "10000", false},
	} {
		from, _ := ParseKeep(tc.from)
		if to, _ := ParseKeep(tc.to); to.Widens(from) != tc.widens {
			t.Errorf("%s after %s widens: %v", tc.to, tc.from, !tc.widens)
		}
	}
}
