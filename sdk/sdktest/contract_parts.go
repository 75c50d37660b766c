package sdktest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

// parts checks that one folder, and one name, tell of the living files what the whole list tells, after every kind of
// change.
func parts(t *testing.T, s *suite) {
	ctx := t.Context()
	w := s.world
	w.Config.SmallGroup = -1
	g := dial(t, w, w.Alice).Group(s.group)
	if !s.isOurs(t) {
		is(t, "a folder", second(g.Children(ctx, "")), sdk.ErrUnsupported)
		is(t, "a name", second(g.Child(ctx, "f")), sdk.ErrUnsupported)
		return
	}
	is(t, "a folder of a small group", second(s.alice.Group(s.group).Children(ctx, "")), sdk.ErrUnsupported)
	is(t, "a folder for a stranger", second(dial(t, w, w.Bob).Group(s.group).Children(ctx, "")), sdk.ErrNotAuthorized)
	is(t, "no such folder", second(g.Children(ctx, "none")), sdk.ErrNotFound)
	is(t, "no such name", second(g.Child(ctx, "none")), sdk.ErrNotFound)
	sameInParts(t, g)
	s.upload(t, s.alice, "docs/a", []byte("1"))
	second := s.upload(t, s.alice, "docs/a", []byte("22"))
	third := s.upload(t, s.alice, "docs/deep/b", []byte("333"))
	s.upload(t, s.alice, "top", []byte("4444"))
	sameInParts(t, g)
	for what, change := range []func() error{
		func() error {
			_, err := g.SetAttributes(ctx, second.Ref, sdk.Attributes{Executable: true})
			return err
		},
		func() error { _, err := g.MakeFolder(ctx, "docs/made"); return err },
		func() error { _, err := g.RenameFolder(ctx, "docs", "moved", third.Seq+2); return err },
		func() error { _, err := g.Rename(ctx, third.Ref, "moved/c"); return err },
		func() error { _, err := g.Remove(ctx, "top"); return err },
		func() error { _, err := g.Restore(ctx, "top"); return err },
		func() error { _, err := g.Delete(ctx, second.Ref); return err },
	} {
		ok(t, fmt.Sprint("change ", what), change())
		sameInParts(t, g)
	}
}

// sameInParts walks a group folder by folder, and compares it with the list.
func sameInParts(t *testing.T, g sdk.Group) {
	t.Helper()
	want := map[string]string{}
	files, err := g.Files(t.Context())
	ok(t, "list", err)
	for _, f := range files {
		want[f.Name] = fileText(f.Entry)
	}
	got := map[string]string{}
	walk(t, g, "", got)
	if !maps.Equal(got, want) {
		t.Errorf("in parts the group has %q, want %q", got, want)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if c, err := g.Child(t.Context(), name); err != nil || c.File == nil || fileText(*c.File) != want[name] {
			t.Errorf("%s alone is %+v, %v, want %s", name, c, err, want[name])
		}
	}
}

func walk(t *testing.T, g sdk.Group, folder string, into map[string]string) {
	t.Helper()
	children, err := g.Children(t.Context(), folder)
	ok(t, "folder "+folder, err)
	for _, c := range children {
		path := c.Name
		if folder != "" {
			path = folder + "/" + c.Name
		}
		if c.File == nil {
			walk(t, g, path, into)
			continue
		}
		into[path] = fileText(*c.File)
	}
}

// fileText is what a part tells of a file.
func fileText(e sdk.Entry) string {
	var a sdk.Attributes
	if e.Attributes != nil {
		a = *e.Attributes
	}
	return fmt.Sprint(e.Ref, e.Tx, e.Uploader, e.Time.UnixNano(), e.Seq, e.Name, e.ContentType, e.Size, e.Hash,
		e.Commitment, e.Content,
		e.Group, a)
}
