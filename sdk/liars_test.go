package sdk_test

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
)

// Threats 5 and 6 by a service that lies consistently: a client that runs, and one
// that begins and remembers what an earlier one saw, get an error that says what
// was proven false, and not one entry. When the service tells the truth again, so
// does the client.
func TestThreat5Threat6ConsistentLiars(t *testing.T) {
	for _, liar := range sdktest.Liars() {
		t.Run(liar.Name, func(t *testing.T) {
			t.Parallel()
			d := sdktest.NewDeceit(t, liar)
			path := t.TempDir()
			running := remembering(t, d, path)
			listed(t, running, d.Group, 4)
			remembered := remembering(t, d, path)
			listed(t, remembered, d.Group, 4)
			if err := remembered.Close(); err != nil {
				t.Fatal(err)
			}
			fresh := remembering(t, d, "")
			d.Lie()
			if liar.Name != "checkpoints are not offered any more" { // asked for once by a client
				deceived(t, "a client that runs", running, liar, d.Group)
			}
			deceived(t, "a client that remembers", remembering(t, d, path), liar, d.Group)
			if liar.Fresh {
				deceived(t, "a client that remembers nothing", fresh, liar, d.Group)
			}
			d.Repent()
			listed(t, running, d.Group, 4)
			listed(t, remembering(t, d, path), d.Group, 4)
		})
	}
}

func remembering(t *testing.T, d *sdktest.Deceit, dir string, changes ...func(*sdk.Config)) *sdk.Client {
	t.Helper()
	return d.Client(t, d.Bob, append(changes, func(c *sdk.Config) { c.StateDir = dir })...)
}

func listed(t *testing.T, c *sdk.Client, g sdk.GroupID, want int) {
	t.Helper()
	entries, err := c.Entries(t.Context(), g, 0)
	if err != nil || len(entries) != want {
		t.Fatalf("%d entries, %v; want %d", len(entries), err, want)
	}
}

func deceived(t *testing.T, who string, c *sdk.Client, liar sdktest.Liar, g sdk.GroupID) {
	t.Helper()
	entries, err := c.Entries(t.Context(), g, 0)
	if sdk.KindOf(err) != sdk.KindCorrupt || len(entries) > 0 {
		t.Fatalf("%s: %d entries, %v", who, len(entries), err)
	}
	if who != "a client that remembers nothing" && !strings.Contains(err.Error(), liar.Proven) {
		t.Errorf("%s is told %q, which lacks %q", who, err, liar.Proven)
	}
	if sdk.HintOf(err) == "" {
		t.Errorf("%s: no hint", who)
	}
	if b, _, err := c.RetrieveBytes(t.Context(), g, "payroll.txt"); err == nil {
		t.Errorf("%s read %q", who, b)
	}
}
