package ledger

import (
	"slices"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// Tags are read as they were written, whatever is in them, and no other text of
// the same tags is taken.
func TestTagsAreReadAsWritten(t *testing.T) {
	for _, tags := range [][]chain.Tag{nil, {{Name: "size", Value: "14"}, {Name: "type", Value: "text/plain"}},
		{{Name: "name", Value: `","`}},
		{{Name: "name", Value: `a\"b`}, {Name: "other", Value: "<&>\u2028\x01ü"}}, {{Name: "name", Value: ""}},
		{{Name: "attributes", Value: `{"mtime":"5"}`}, {Name: "size", Value: "1"}},
		{{Name: "a", Value: `"`}, {Name: `b"`, Value: `","`}, {Name: "c", Value: `\`}},
		{{Name: `"b`, Value: `x"`}, {Name: "c", Value: `"y`}}, {{Name: "a", Value: `\"`}},
		{{Name: "a", Value: `","`}, {Name: "b", Value: `"`}}} {
		text, err := writeTags(tags)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readTags(text); err != nil || !slices.Equal(got, tags) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{`[]`, `["a", "b"]`, `["a" ,"b"]`, `["a","b"] `, `["b","1","a","2"]`, `["a"]`,
		`["a","\u0062"]`, `["a","\"]`, `["a","\"","b"]`, `["a","\",""]`, `{}`, `["a","b"`, `"]`, `["`, `["]`} {
		if got, err := readTags(text); err == nil {
			t.Errorf("%q was read as %q", text, got)
		}
	}
}
