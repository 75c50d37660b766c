package main

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A file is renamed with all its versions, or none: a failure between two of them leaves the old name to all.
func TestMvRenamesAllVersionsOrNone(t *testing.T) {
	s, alice, c := newHosted(t, testkit.Ours)
	g := c.Group("team")
	_, err := g.Register(t.Context())
	ok(t, err)
	for _, content := range []string{"1", "2", "3", "4", "5"} {
		_, err := g.Put(t.Context(), "f", strings.NewReader(content))
		ok(t, err)
	}
	var asked atomic.Int64
	s.Disturb(wire.PathTools+wire.OpRenameFile, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if asked.Add(1) == 3 {
				http.Error(rw, `{"error":"refused"}`, http.StatusBadRequest)
				return
			}
			next.ServeHTTP(rw, r)
		})
	})
	w := &barWorld{server: s, dir: t.TempDir(), env: clientEnv(t, s, alice)}
	named := func(want string) {
		t.Helper()
		list, err := g.Entries(t.Context())
		ok(t, err)
		for _, e := range list {
			if e.Name != want {
				t.Errorf("version %d is named %s, want %s", e.Number, e.Name, want)
			}
		}
	}
	var errs strings.Builder
	if w.command(t, io.Discard, &errs, "mv", "team", "f", "g").Run() == nil {
		t.Error("it goes well")
	}
	if got := errs.String(); !strings.Contains(got, "refused") {
		t.Errorf("it says %s", got)
	}
	named("f")
	if got := w.must(t, "mv", "team", "f", "g"); got != "renamed f to g, with 5 versions\n" {
		t.Errorf("it says %s", got)
	}
	named("g")
}
