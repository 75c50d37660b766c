package view_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A walk visits everything once, by path, unless it is told to leave it out; a folder that goes meanwhile has nothing.
func TestWalk(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g := s.Client(t, s.Account("alice", "100"), func(c *sdk.Config) { c.SmallGroup = -1 }).Group("g")
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(g.Register(t.Context()))
	for _, name := range []string{"a", "a-b/c", "a.d", "docs/x", "docs/deep/er/y", "z"} {
		must(g.Put(t.Context(), name, strings.NewReader(name)))
	}
	failed := errors.New("failed")
	for _, tc := range []struct {
		folder, at string
		answer     error // of visit at that path
		want       string
		asked      int
		err        error
	}{
		{"", "", nil, "a a-b/ a-b/c a.d docs/ docs/deep/ docs/deep/er/ docs/deep/er/y docs/x z", 5, nil},
		{"docs", "", nil, "docs/deep/ docs/deep/er/ docs/deep/er/y docs/x", 3, nil},
		{"docs", "docs/deep", fs.SkipDir, "docs/deep/ docs/x", 1, nil},
		{"", "docs/deep/er", fs.SkipDir, "a a-b/ a-b/c a.d docs/ docs/deep/ docs/deep/er/ docs/x z", 4, nil},
		{"", "a.d", fs.SkipAll, "a a-b/ a-b/c a.d", 2, nil},
		{"", "docs", failed, "a a-b/ a-b/c a.d docs/", 2, failed},
		{"docs/x", "", nil, "", 1, sdk.ErrNotFound},
	} {
		before := s.Hits(wire.PathTools + wire.OpGetNames)
		var got []string
		err := view.Walk(t.Context(), g, tc.folder, func(path string, file *sdk.Entry) error {
			if file == nil {
				got = append(got, path+"/")
			} else if got = append(got, path); file.Name != path {
				t.Errorf("%s is %s", path, file.Name)
			}
			if path == tc.at {
				return tc.answer
			}
			return nil
		})
		if !errors.Is(err, tc.err) || strings.Join(got, " ") != tc.want {
			t.Errorf("%+v: %q, %v", tc, got, err)
		}
		if n := s.Hits(wire.PathTools+wire.OpGetNames) - before; n != tc.asked {
			t.Errorf("%+v: %d requests", tc, n)
		}
	}
	e, err := g.Stat(t.Context(), "docs/x")
	must(e, err)
	left := 0
	must(nil, view.Walk(t.Context(), g, "", func(path string, _ *sdk.Entry) error {
		if path == "docs" {
			must(g.Rename(t.Context(), e.Ref, "x"))
			deep, err := g.Stat(context.WithoutCancel(t.Context()), "docs/deep/er/y")
			must(deep, err)
			must(g.Rename(t.Context(), deep.Ref, "y"))
		}
		left++
		return nil
	}))
	if left != 6 { // a a-b a-b/c a.d docs z
		t.Errorf("%d were visited", left)
	}
	must(g.Put(t.Context(), "odd/%41", strings.NewReader("odd")))
	err = view.Walk(t.Context(), g, "", func(string, *sdk.Entry) error { return nil })
	if !errors.Is(err, sdk.ErrUnsupported) {
		t.Errorf("an odd name: %v", err)
	}
}
