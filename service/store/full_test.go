package store_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/service/store"
)

// Fault "the disk of SQLite is full": the write-ahead log gives its space back, so that
// writes that only change rows continue.
func TestWritesOnAFullDisk(t *testing.T) {
	proctest.Need(t, "root", "apart") // mounts a small disk
	dir := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount a tmpfs: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	s := open(t, func() (*store.Store, error) { return store.Open(t.Context(), dir, "") })
	if err := errors.Join(s.Scrub(t.Context()), s.LetLogGrow(t.Context())); err != nil {
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
