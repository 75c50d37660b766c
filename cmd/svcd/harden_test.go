package main

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/service"
)

// Every command that loads the master key closes its process first: no core dump,
// and no other process of the same user looks into it.
func TestEveryCommandClosesItsProcess(t *testing.T) {
	dir, work := filepath.Join(t.TempDir(), "data"), t.TempDir()
	mustRun(t, "account", "create", "alice", "--data", makeData(t, dir))
	for _, line := range [][]string{
		{"account", "list"}, {"audit"}, {"verify"}, {"retention", "--dry-run"}, {"doctor"},
		{"export", filepath.Join(work, "export")}, {"config"},
	} {
		ok(t, unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0))
		_, _, _ = execute(t, append(line, "--data", dir)...)
		if dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || dumpable != 0 {
			t.Errorf("svcd %v: dumpable %d, %v", line, dumpable, err)
		}
	}
}

// A command on a wrong folder, or on that of a disk that is not mounted, makes no service there.
func TestNoServiceBegins(t *testing.T) {
	empty, archives := t.TempDir(), t.TempDir()
	for _, line := range [][]string{
		{"audit"}, {"verify"}, {"backup", archives}, {"export", filepath.Join(archives, "export")},
		{"retention", "--dry-run"}, {"checksum", "team"}, {"account", "list"}, {"invite", "alice"},
		{"rotate-master-key"}, {"rotate-log-key"}, {"where", "alice"},
	} {
		refused(t, exitOther, "its disk is mounted", append(line, "--data", empty)...)
	}
	for _, dir := range []string{empty, archives} {
		if made, err := os.ReadDir(dir); err != nil || len(made) > 0 {
			t.Errorf("%v, %v", made, err)
		}
	}
}

// makeData makes a data directory, as svcd serve does.
func makeData(t *testing.T, dir string) string {
	t.Helper()
	svc, err := openService(t.Context(), service.Config{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ok(t, svc.Close())
	return dir
}
