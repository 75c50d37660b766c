package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// A log stays within its limit, keeps the newest records and is nobody else's.
func TestLogFileRotates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mount.log")
	ok(t, os.WriteFile(path, []byte("from an earlier run\n"), 0o644))
	const limit, writers, records = 1000, 4, 100
	l, err := openLogFile(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := range records {
				if _, err := fmt.Fprintf(l, "writer %d record %03d\n", w, i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if _, err := l.Write([]byte("the last\n")); err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	names, err := filepath.Glob(path + "*")
	if err != nil || len(names) != 1+keptLogs {
		t.Errorf("kept %v, %v", names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil || len(text) > limit || !bytes.HasSuffix(text, []byte("\n")) {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.HasPrefix(line, "writer ") && line != "the last\n" {
				t.Errorf("%s holds %q", name, line)
			}
		}
		if info, err := os.Stat(name); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasSuffix(string(text), "the last\n") {
		t.Errorf("the log ends with %q, %v", text, err)
	}
}

func TestLogFileFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	ok(t, os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "log")))
	if _, err := openLogFile(filepath.Join(dir, "log"), 1000); err == nil {
		t.Error("a link was followed")
	}
}

// A log that is no regular file keeps its mode: /dev/null belongs to everybody.
func TestLogFileLeavesDevicesAlone(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	ok(t, errors.Join(unix.Mkfifo(pipe, 0o600), os.Chmod(pipe, 0o666)))
	reader, err := os.OpenFile(pipe, os.O_RDWR, 0) // a writer would wait for it
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	l, err := openLogFile(pipe, 1000)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if info, err := os.Stat(pipe); err != nil || info.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
