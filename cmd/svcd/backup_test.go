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
	try := func(date string, full bool) (path string, err error) {
		t.Helper()
		day, err := time.Parse(time.DateOnly, date)
		ok(t, err)
		mustRun(t, "account", "fund", "alice", "1", "--data", data)
		err = s.with(t.Context(), func(svc *service.Service) (err error) {
			path, err = s.backup(t.Context(), svc, to, day, full)
			return err
		})
		return path, err
	}
	night := func(date string, full bool) string {
		t.Helper()
		path, err := try(date, full)
		ok(t, err)
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

	// What ends before the link leads to its archive is ended by the next run.
	interrupted := func(date string) {
		t.Helper()
		newest := filepath.Join(to, "newest")
		ok(t, os.Rename(newest, newest+".old"))
		ok(t, os.Mkdir(newest, 0o700)) // cannot be replaced
		if path, err := try(date, false); err == nil {
			t.Errorf("%s is the newest", path)
		}
		ok(t, os.Remove(newest))
		ok(t, os.Rename(newest+".old", newest))
	}
	interrupted("2030-01-13")
	sunday = night("2030-01-13", false)
	imports(exitOK, sunday, night("2030-01-14", false))
	interrupted("2030-01-20")
	imports(exitOK, filepath.Join(to, "2030-01-20"), night("2030-01-21", false))
	for i, empty := range []bool{false, true} { // before there was an archive
		date := []string{"2030-01-22", "2030-01-23"}[i]
		ok(t, os.Symlink(date, filepath.Join(to, "newest.next")))
		if empty {
			ok(t, os.WriteFile(filepath.Join(to, date), nil, 0o600))
		}
		night(date, false)
	}

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
