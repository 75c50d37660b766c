package main

import (
	"slices"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/names/namestest"
)

// The commands show a file under the name that it has in a mount, and find it by
// that name.
func TestCommandsShowTheNamesOfTheMount(t *testing.T) {
	for _, c := range namestest.Table() {
		t.Run(c.Name, func(t *testing.T) {
			entries := []sdk.Entry{{Name: c.Raw, ContentType: c.ContentType, Hash: namestest.Sum(), Ref: "ref", Seq: 1}}
			if _, paths := listingOf(entries).Current(); !slices.Equal(paths, []string{c.Shown}) {
				t.Errorf("%q is listed as %q, want %q", c.Raw, paths, c.Shown)
			}
			if got := shownName(&entries[0]); got != c.Shown {
				t.Errorf("%q alone is shown as %q, want %q", c.Raw, got, c.Shown)
			}
			for _, name := range []string{c.Shown, "ref"} {
				list := listingOf(entries)
				chosen, ok := list.choose(name)
				if found := list.chosen(chosen, lives); !ok || len(found) != 1 || len(found[0]) != 1 {
					t.Errorf("%q finds %v", name, found)
				}
			}
		})
	}
}
