package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/svcfs/svcfs/service"
)

// A folder gets a full archive first and each Sunday, and increments between; the link leads to the newest.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	data, to := filepath.Join(dir, "data"), filepath.Join(dir, "to")
	ok(t, os.Mkdir(data, 0o700))
	ok(t, os.Mkdir(to, 0o700))
	mustRun(t, "account", "create", "alice", "--data", data)
	key, err := os.ReadFile(filepath.Join(data, "master.key"))
	ok(t, err)
	var out bytes.Buffer
	s := &settings{stdout: &out, stderr: &out, lookupEnv: func(string) (string, bool) { return "", false }}
	s.cfg.DataDir = data
	night := func(date string, full bool) string {
		t.Helper()
		day, err := time.Parse(time.DateOnly, date)
		ok(t, err)
		mustRun(t, "account", "fund", "alice", "1", "--data", data)
		path := ""
		ok(t, s.with(t.Context(), func(svc *service.Service) (err error) {
			path, err = s.backup(t.Context(), svc, to, day, full)
			return err
		}))
		if newest, err := filepath.EvalSymlinks(filepath.Join(to, "newest")); err != nil || newest != path ||
			filepath.Base(path) != date {
			t.Errorf("%s: the newest is %s, %v", date, newest, err)
		}
		return path
	}
	imports := func(code int, archives ...string) {
		t.Helper()
		empty := t.TempDir()
		ok(t, os.WriteFile(filepath.Join(empty, "master.key"), key, 0o600))
		if _, errs, got := execute(t, append(append([]string{"import"}, archives...), "--data",
			empty)...); got != code {
			t.Errorf("import of %v: exit %d, want %d: %s", archives, got, code, errs)
		}
	}
	friday, saturday := night("2030-01-04", false), night("2030-01-05", false)
	sunday, monday := night("2030-01-06", false), night("2030-01-07", false)
	tuesday := night("2030-01-08", true)
	imports(exitOK, friday, saturday)
	imports(exitOK, sunday, monday)
	imports(exitOK, tuesday)
	imports(exitUsage, saturday)
	imports(exitUsage, monday)

	again := []string{"backup", once(t, to, data), "--data", data}
	refused(t, exitUsage, time.Now().Format(time.DateOnly)+" exists already", again...)
	refused(t, exitUsage, "for another one now: svcd export FILE", again...)
	refused(t, exitUsage, "want exactly one DIR", "backup", "--data", data)
	refused(t, exitUsage, "there is no folder ", "backup", filepath.Join(dir, "nowhere"), "--data", data)
}

// once writes today's archive, so that the next one of today is refused.
func once(t *testing.T, to, data string) string {
	t.Helper()
	mustRun(t, "backup", to, "--data", data)
	return to
}
