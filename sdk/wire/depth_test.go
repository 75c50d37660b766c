package wire_test

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
)

func TestDeeperThan(t *testing.T) {
	for _, tc := range []struct {
		raw   string
		limit int
		want  bool
	}{
		{``, 0, false},
		{`7`, 0, false},
		{`[]`, 0, true},
		{`[[],[],{}]`, 2, false},
		{`[[{}]]`, 2, true},
		{`{"a":"[[[[","b":"\"{{{"}`, 1, false},
		{`{"a":"\\",  "b":[{}]}`, 2, true},
		{strings.Repeat("[", 1e6), 64, true},
		{strings.Repeat("]", 100) + "[", 0, false}, // no JSON: the decoder refuses it
	} {
		if got := wire.DeeperThan([]byte(tc.raw), tc.limit); got != tc.want {
			t.Errorf("%.40q deeper than %d: %v", tc.raw, tc.limit, got)
		}
	}
}

// CountItems tells what the decoder will make of a list.
func TestCountItems(t *testing.T) {
	for raw, want := range map[string]int{
		`[1]`: 1, `[1,2]`: 2, `[{"a":1,"b":2},3]`: 2, `[[1,2,3],"a,b",{"c":[4,5]}]`: 3,
		`["\",\"",","]`: 2, `["\\",1]`: 2, `[null,null,null]`: 3,
	} {
		if got := wire.CountItems([]byte(raw)); got != want {
			t.Errorf("%s has %d items, want %d", raw, got, want)
		}
	}
}
