package integration

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestRetentionCommand(t *testing.T) {
	w := newWorld(t)
	alice := w.account("alice", "10")
	alice.must("group", "create", "g")
	file := filepath.Join(w.dir, "f.txt")
	write(t, file, []byte("content"))
	alice.must("put", "g", file, "--name", "two\nlines")
	alice.must("group", "config", "g", "retention", "0")
	w.stop() // its own sweep is not awaited here
	for _, tc := range []struct{ args, want string }{
		{"--dry-run", `"two\nlines"`}, {"--dry-run", "files: 1 would be deleted\n"}, {"", "files: 1 deleted\n"}, {"", "files: 0 deleted\n"},
		{"--dry-run", "files: 0 would be deleted\n"},
	} {
		out, err := w.svcd(append([]string{"retention"}, strings.Fields(tc.args)...)...)
		if err != nil || !strings.Contains(out, tc.want) {
			t.Errorf("svcd retention %s says %q, %v; want %q", tc.args, out, err, tc.want)
		}
	}
	w.start()
	if out, code := alice.try("get", "g", "two\nlines"); code != 2 {
		t.Errorf("get: exit code %d: %s", code, out)
	}
}
