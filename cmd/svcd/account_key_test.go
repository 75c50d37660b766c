package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/cmd/internal/cli"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/archive"
)

func TestAPIKeyFile(t *testing.T) {
	dir, _ := serving(t)
	file := filepath.Join(t.TempDir(), "carol.key")
	read := func() string {
		t.Helper()
		info, err := os.Stat(file)
		if err != nil || info.Mode() != 0o600 {
			t.Fatalf("%v, %v; want mode 0600", info, err)
		}
		text, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(text), "svc_sk_") || strings.Count(string(text), "\n") != 1 {
			t.Fatalf("not a key on a line: %d bytes, %v", len(text), err)
		}
		return string(text)
	}
	if out := mustRun(t, "account", "create", "carol", "--data", dir, "--api-key-file", file); strings.Contains(out,
		"svc_sk_") || !strings.Contains(out, file) {
		t.Errorf("printed %q", out)
	}
	first := read()
	_, stderr, code := execute(t, "account", "create", "dan", "--data", dir, "--api-key-file", file)
	if code != exitUsage || !strings.Contains(stderr, "name a new file") || read() != first {
		t.Errorf("a file that is there already: code %d, %s", code, stderr)
	}
	if list := mustRun(t, "account", "list", "--data", dir); strings.Contains(list, "dan.") {
		t.Errorf("an account without a key was made: %s", list)
	}
	if mustRun(t, "account", "rotate-key", "carol", "--data", dir, "--api-key-file", file); read() == first {
		t.Error("the old key is still in the file")
	}
	nowhere := filepath.Join(dir, "none", "key")
	if _, _, code := execute(t, "account", "rotate-key", "carol", "--data", dir, "--api-key-file",
		nowhere); code != exitOther {
		t.Errorf("a file that cannot be written: code %d", code)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// A file that appears while the key is made may hold another key: it stays.
func TestAPIKeyFileLeavesWhatAppears(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	s := &settings{stdout: io.Discard, stderr: io.Discard}
	err := s.makeKey(file, false, func() (service.NewAccount, error) {
		return service.NewAccount{AccountID: "carol"}, os.WriteFile(file, []byte("another key"), 0o600)
	})
	if !errors.Is(err, fs.ErrExist) ||
		!strings.Contains(cli.FailureOf(err).Hint, "make another one with svcd account rotate-key") {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "another key" {
		t.Errorf("the other key became %d bytes, %v", len(text), err)
	}
}

// So does one that appears while an export is written.
func TestExportLeavesWhatAppears(t *testing.T) {
	file := filepath.Join(t.TempDir(), "export")
	s := &settings{stdout: io.Discard, stderr: io.Discard}
	err := s.export(file, func(w io.Writer) (archive.Summary, error) {
		return archive.Summary{}, os.WriteFile(file, []byte("another export"), 0o600)
	})
	if err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "another export" {
		t.Errorf("the other export became %q, %v", text, err)
	}
}

// What an export did not find is named, also when the archive goes to standard output.
func TestExportWarns(t *testing.T) {
	for _, path := range []string{filepath.Join(t.TempDir(), "export"), standardStream} {
		var told strings.Builder
		s := &settings{stdout: io.Discard, stderr: &told, lookupEnv: func(string) (string, bool) { return "", false }}
		err := s.export(path, func(io.Writer) (archive.Summary, error) {
			return archive.Summary{Damage: []string{"file r is missing"}}, nil
		})
		if err != nil || told.String() != "warning: file r is missing\n" {
			t.Errorf("%s: %q, %v", path, told.String(), err)
		}
	}
}
