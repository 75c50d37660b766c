package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	if out := mustRun(t, "account", "create", "carol", "--data", dir, "--api-key-file", file); strings.Contains(out, "svc_sk_") || !strings.Contains(out, file) {
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
	if _, _, code := execute(t, "account", "rotate-key", "carol", "--data", dir, "--api-key-file", nowhere); code != exitOther {
		t.Errorf("a file that cannot be written: code %d", code)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".new-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
