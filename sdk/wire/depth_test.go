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
