package store_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/space"
	"github.com/svcfs/svcfs/service/store"
)

// smallDisk is a disk of its own for a test.
func smallDisk(t *testing.T, size string) (dir string) {
	t.Helper()
	proctest.Need(t, "root", "apart") // mounts a small disk
	dir = filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount a tmpfs: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return dir
}

// Fault "the disk of SQLite is full": the write-ahead log gives its space back, so that
// writes that only change rows continue.
func TestWritesOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "8m")
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), dir, "") })
	if err := errors.Join(s.Scrub(t.Context(), store.ScrubShort), s.LetLogGrow(t.Context())); err != nil {
		t.Fatal(err)
	}
	write := func(n int) {
		t.Helper()
		for i := range n {
			if err := set(t.Context(), s, "a", fmt.Sprint(i)); err != nil {
				t.Fatalf("write %d: %v", i, err)
			}
		}
	}
	write(100)
	filler, err := os.Create(filepath.Join(dir, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for err == nil {
		_, err = filler.Write(make([]byte, 4096))
	}
	write(200)
}

// Fault "the disk of SQLite is full": a write that needs more than is free, and more than a piece of
// what is held back, gets as many pieces as it needs.
func TestLargeWriteOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "160m")
	if err := space.HoldBack(dir); err != nil {
		t.Fatal(err)
	}
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), dir, "") })
	if err := s.Scrub(t.Context(), store.ScrubShort); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, space.Free(dir)-3<<19), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := set(t.Context(), s, "a", strings.Repeat("x", 3<<20)); err != nil {
		t.Errorf("with %d bytes free: %v", space.Free(dir), err)
	}
}

// A disk that takes no archive is no database that cannot be reached: an errno is a net.Error, too.
func TestAFaultOfAFileIsNoneOfTheDatabase(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "archive", Err: syscall.ENOSPC}
	if kind := store.KindAtPostgres(fmt.Errorf("table ledger: %w", full)); kind != nil {
		t.Errorf("a full disk is %v", kind)
	}
	if kind := store.KindAtPostgres(&net.OpError{Op: "read", Err: syscall.ECONNRESET}); !errors.Is(kind,
		store.ErrUnavailable) {
		t.Errorf("a lost connection is %v", kind)
	}
	for code, want := range map[string]error{"28P01": store.ErrLogin, "3D000": store.ErrNoDatabase} {
		err := fmt.Errorf("begin: %w", &pgconn.PgError{Code: code})
		if kind := store.KindAtPostgres(err); !errors.Is(kind, want) {
			t.Errorf("SQLSTATE %s is %v", code, kind)
		}
	}
}
