package integration

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
)

func TestRetentionCommand(t *testing.T) {
	w := newWorld(t)
	alice := w.account("alice", "10")
	alice.must("group", "create", "g")
	c, err := sdk.New(sdk.AccountID(alice.id), sdk.Config{URL: w.url, APIKey: sdk.NewSecret(alice.key)})
	ok(t, err)
	_, err = c.Group("g").Put(t.Context(), "two\nlines", strings.NewReader("content")) // svcfs refuses such a name
	ok(t, err)
	ok(t, c.Close())
	alice.must("group", "config", "g", "retention", "0", "--yes")
	w.stop() // its own sweep is not awaited here
	for _, tc := range []struct{ args, want string }{
		{"--dry-run", `"two\nlines"`}, {"--dry-run", "files: 1 would be deleted\n"}, {"", "files: 1 deleted\n"},
		{"", "files: 0 deleted\n"},
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
