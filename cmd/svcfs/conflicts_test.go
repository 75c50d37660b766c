package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A settling that saved and could not remove the save goes on when it is run again: it uploads nothing more.
func TestConflictIsPaidOnce(t *testing.T) {
	s := testkit.Start(t, testkit.Ours)
	w := &barWorld{server: s, dir: t.TempDir(), env: clientEnv(t, s, s.Account("alice", "100"))}
	w.must(t, "group", "create", "team")
	for _, content := range []string{"theirs", "mine"} {
		ok(t, os.WriteFile(filepath.Join(w.dir, content), []byte(content), 0o600))
	}
	for name, settle := range map[string][]string{
		"kept":   {"--keep", "mine"},
		"merged": {"--merge", `cat "$MINE" > "$MERGED"`},
	} {
		w.must(t, "put", "-q", "team", "theirs", "--name", name)
		w.must(t, "put", "-q", "team", "mine", "--name", name+" (conflict alice.svc.testnet 2026-11-28 10.00.00)")
		before := s.Records()
		s.Answer(wire.PathTools+wire.OpRemoveFile, func(rw http.ResponseWriter, _ *http.Request) {
			http.Error(rw, "broken", http.StatusInternalServerError)
		})
		args := append([]string{"conflicts", "team", name}, settle...)
		if err := w.command(t, io.Discard, io.Discard, args...).Run(); err == nil || s.Records() != before+1 {
			t.Errorf("%s: %d records more, %v", name, s.Records()-before, err)
		}
		s.Disturb(wire.PathTools+wire.OpRemoveFile, nil)
		w.must(t, args...)
		if s.Records() != before+1 {
			t.Errorf("%s, again: %d records more", name, s.Records()-before)
		}
		if out := w.must(t, "conflicts", "team"); out != "" {
			t.Errorf("%s is left: %s", name, out)
		}
		if got := w.must(t, "get", "team", name); got != "mine" {
			t.Errorf("%s holds %q", name, got)
		}
	}
}
