package integration

import (
	"os/exec"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
)

// blobID asks the service's database, as an operator would.
func blobID(t *testing.T, db, query string) string {
	t.Helper()
	proctest.Need(t, "python3")
	script := "import sqlite3,sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchone()[0])"
	out, err := exec.Command("python3", "-c", script, db, query).CombinedOutput()
	if err != nil {
		t.Fatalf("ask %s: %v\n%s", db, err, out)
	}
	return string(out)
}
