package sdk_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/service/testkit"
)

// Files are what a mount shows: the newest version of each living name, under names that are safe.
func TestFilesAreWhatAMountShows(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	g := s.Client(t, s.Account("alice", "10")).Group("team")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if files, err := g.Files(t.Context()); err != nil || files == nil || len(files) != 0 {
		t.Errorf("of an empty group: %v, %v", files, err)
	}
	for _, f := range [][2]string{{"b", "first"}, {"gone", "x"}, {"ended", "x"}, {"a/c", "deep"}, {"b", "second"}} {
		receipt, err := g.Put(t.Context(), f[0], strings.NewReader(f[1]))
		if err != nil {
			t.Fatal(err)
		}
		if text := fmt.Sprint(receipt); !strings.HasPrefix(text, string(receipt.Ref)+": ") || !strings.HasSuffix(text, " tokens") {
			t.Errorf("a receipt prints %s", text)
		}
		if f[0] == "ended" {
			if _, err := g.Delete(t.Context(), receipt.Ref); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := g.Remove(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	files, err := g.Files(t.Context())
	if err != nil || len(files) != 2 || files[0].Name != "a/c" || files[1].Name != "b" {
		t.Fatalf("%+v, %v", files, err)
	}
	f, err := g.OpenEntry(t.Context(), files[1].Entry)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var content string
	if _, err := fmt.Fscan(f, &content); err != nil || content != "second" {
		t.Errorf("b holds %q, %v", content, err)
	}
}
