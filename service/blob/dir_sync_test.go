package blob

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// After a sync fails, at whichever place, nothing is acknowledged any more, and
// reading goes on. Opening the store again is the operator's decision.
func TestFailedSyncStopsUploads(t *testing.T) {
	for nth := 1; ; nth++ {
		d, err := OpenDir(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		kept, err := d.Put(t.Context(), strings.NewReader("kept"), 100)
		if err != nil {
			t.Fatal(err)
		}
		syncs := 0
		d.sync = func(f *os.File) error {
			if syncs++; syncs == nth {
				return &os.PathError{Op: "sync", Path: f.Name(), Err: syscall.EIO}
			}
			return f.Sync()
		}
		_, err = d.Put(t.Context(), strings.NewReader("lost"), 100)
		if syncs < nth {
			if err != nil || nth < 3 {
				t.Errorf("a put made %d syncs, %v", syncs, err)
			}
			return
		}
		if !errors.Is(err, syscall.EIO) {
			t.Errorf("sync %d failed and the put says %v", nth, err)
		}
		if _, err := d.Put(t.Context(), strings.NewReader("later"), 100); !errors.Is(err, ErrUnavailable) {
			t.Errorf("after sync %d failed: %v", nth, err)
		}
		if err := d.Check(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("health after sync %d failed: %v", nth, err)
		}
		r, _, err := d.Open(t.Context(), kept.ID)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, []byte("kept")) {
			t.Errorf("reading: %q %v", got, err)
		}
		if err := errors.Join(r.Close(), d.Close()); err != nil {
			t.Error(err)
		}
	}
}

// A folder that another put or process has just made gets a durable name before a blob in
// it counts as stored, once.
func TestFoundFolderIsMadeDurable(t *testing.T) {
	dir := t.TempDir()
	d, err := OpenDir(dir, "")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	var synced []string
	d.sync = func(f *os.File) error {
		synced = append(synced, f.Name())
		return f.Sync()
	}
	if err := os.Mkdir(filepath.Join(dir, "ab"), 0o700); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.makeFolder("ab"); err != nil {
			t.Fatal(err)
		}
	}
	if len(synced) != 1 || filepath.Clean(synced[0]) != filepath.Clean(dir) {
		t.Errorf("synced were %q", synced)
	}
}
