package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// newLargeWorld is a world whose groups bot reads in parts.
func newLargeWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, testkit.Ours)
	w.bot = w.Client(t, w.account, func(c *sdk.Config) { c.SmallGroup = -1 })
	return w
}

func (w *world) lists() int { return w.Hits(wire.PathTools + wire.OpGetGroupTransactions) }

// namesOf lists the files of team that begin with a prefix, in pages.
func (s *session) namesOf(prefix string, limit int) (list []string) {
	s.t.Helper()
	for cursor, more := "", true; more; {
		page := s.must("list_files",
			map[string]any{"group": "team", "limit": limit, "cursor": cursor, "prefix": prefix})
		for _, f := range page["files"].([]any) {
			list = append(list, f.(map[string]any)["name"].(string))
		}
		cursor, more = page["next_cursor"].(string)
	}
	return list
}

// In a large group an agent finds, reads and saves files without a list of the group, and sees what is in a list of it.
func TestLargeGroup(t *testing.T) {
	w := newLargeWorld(t)
	for _, name := range []string{"a", "a-b/c", "a.d", "docs/x", "docs/deep/y", "docs/deep/er/z", "dock"} {
		w.put("team", name, name)
	}
	small := w.connect(Options{Client: w.Client(t, w.account), Version: "test", Budget: tokens(t, "1")}, "", nil)
	o := w.options()
	o.AllowWrite = true
	s := w.connect(o, "", nil)
	check := func(most int) {
		t.Helper()
		for _, prefix := range []string{"", "a", "a-b", "do", "docs", "docs/", "docs/d", "docs/deep/er/", "none/x",
			"odd/"} {
			want := small.namesOf(prefix, 200)
			for _, limit := range []int{1, 2, 200} {
				before := w.lists()
				if got := s.namesOf(prefix, limit); !slices.Equal(got, want) {
					t.Errorf("%q by %d: %q, want %q", prefix, limit, got, want)
				}
				if n := w.lists() - before; n > most*(len(want)/limit+1) {
					t.Errorf("%q by %d took %d lists", prefix, limit, n)
				}
			}
		}
	}
	check(0)
	before := w.lists()
	file := s.must("stat", map[string]any{"group": "team", "name": "docs/x"})
	if _, content := s.read(map[string]any{"group": "team", "name": "docs/x"}); content != "docs/x" {
		t.Errorf("it has %q", content)
	}
	put := map[string]any{"group": "team", "name": "docs/x", "text": "new"}
	s.refused("put_file", put, "there is a file", "cid")
	put["replaces"] = file["cid"]
	s.must("confirm", map[string]any{"token": s.must("put_file", put)["confirm_token"]})
	s.must("confirm", map[string]any{"token": s.must("put_file",
		map[string]any{"group": "team", "name": "new/file", "text": "new"})["confirm_token"]})
	if _, content := s.read(map[string]any{"group": "team", "name": "docs/x"}); content != "new" {
		t.Errorf("it has %q", content)
	}
	if n := w.lists() - before; n != 0 {
		t.Errorf("%d lists", n)
	}
	w.put("team", "odd/b%41", "odd")
	check(1)
	s.refused("stat", map[string]any{"group": "team", "name": "docs"}, "there is no file")
	if got := s.must("stat", map[string]any{"group": "team", "name": file["cid"]}); got["name"] != "docs/x" {
		t.Errorf("by its cid it is %v", got)
	}
}

// H2: what passed by in a group costs nothing.
func TestGroupOfManyChanges(t *testing.T) {
	w := newWorld(t, testkit.Ours)
	w.bot = w.Client(t, w.account, func(c *sdk.Config) { c.SmallGroup = 10 })
	ref := w.put("team", "a", "a")
	w.put("team", "b", "b")
	for i := range 20 {
		must(t)(w.alice.Group("team").SetAttributes(t.Context(), ref, sdk.Attributes{Executable: i%2 == 0}))
	}
	before, asked := w.lists(), w.Requests()
	s := w.connect(w.options(), "", nil)
	if got := s.namesOf("", 200); fmt.Sprint(got) != "[a b]" {
		t.Errorf("files %q", got)
	}
	s.must("stat", map[string]any{"group": "team", "name": "a"})
	if n := w.lists() - before; n != 0 || w.Requests()-asked > 12 {
		t.Errorf("%d lists, %d requests", n, w.Requests()-asked)
	}
}

// Also in a large group nothing is handed out after a file was removed, or the account was revoked. What was open is
// forgotten.
func TestReadingALargeGroupEndsWithTheRight(t *testing.T) {
	w := newLargeWorld(t)
	ref := w.put("team", "gone", "content")
	w.put("team", "file", "content")
	s, _ := newServer(t.Context(), w.options())
	read := func(name string) error {
		_, err := s.readPiece(t.Context(), readArgs{Group: "team", Name: name})
		return err
	}
	must(t)(nil, read("gone"))
	must(t)(nil, read("file"))
	must(t)(w.alice.Group("team").Delete(t.Context(), ref))
	for name, want := range map[string]string{"gone": "there is no file", string(ref): "was removed"} {
		if err := read(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t)(w.alice.Group("team").Revoke(t.Context(), w.account.ID))
	if err := read("file"); !errors.Is(err, sdk.ErrNotAuthorized) {
		t.Errorf("after the end: %v", err)
	}
	proctest.Eventually(t, "nothing is open", func() bool {
		open := 0
		must(t)(nil, s.files.use(t.Context(), func() error { open = len(s.files.list); return nil }))
		return open == 0
	})
	if _, err := s.listFiles(t.Context(), listArgs{Group: "team"}); !errors.Is(err, sdk.ErrNotAuthorized) {
		t.Errorf("after the end: %v", err)
	}
}
