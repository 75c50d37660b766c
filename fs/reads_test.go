package fs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// largeBytes is content of many pages, whose end lies inside a page.
const largeBytes = 300_001

func openToRead(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// mapped is a shared mapping of an open file, for reading.
func mapped(t *testing.T, f *os.File, size int) []byte {
	t.Helper()
	return mapFile(t, f, size, unix.PROT_READ)
}

// everyReads runs a test with each way in which the kernel reads.
func everyReads(t *testing.T, test func(t *testing.T, m *mount), change ...func(*plan)) {
	for mode, name := range readsNames {
		t.Run(name, func(t *testing.T) {
			test(t, mounting(t, append(change, func(p *plan) { p.Options.Reads = Reads(mode) })...))
		})
	}
}

func mapFile(t *testing.T, f *os.File, size, prot int) []byte {
	t.Helper()
	mem, err := unix.Mmap(int(f.Fd()), 0, size, prot, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

// Who maps a file shared and writes changes the file, beside a reader too: the save is
// recorded, and no reader sees what is in no version.
func TestR3MappedWriterBesideAReader(t *testing.T) {
	everyReads(t, func(t *testing.T, m *mount) {
		content := pattern(largeBytes)
		m.put("f", content)
		reader := openToRead(t, m.path("team/f"))
		seen := mapFile(t, reader, len(content), unix.PROT_READ)
		if string(seen) != content {
			t.Fatal("the mapping holds something else")
		}
		writer, err := os.OpenFile(m.path("team/f"), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		mem := mapFile(t, writer, len(content), unix.PROT_READ|unix.PROT_WRITE)
		copy(mem, "mapped!")
		ok(t, unix.Msync(mem, unix.MS_SYNC))
		changed := "mapped!" + content[7:]
		wantRecorded(t, m.path("team/f"), changed)
		if _, err := writer.WriteAt([]byte("written"), 100); err != nil {
			t.Fatal(err)
		}
		changed = changed[:100] + "written" + changed[107:]
		if string(mem) != changed {
			t.Error("the writer's mapping does not show what it writes")
		}
		ok(t, writer.Close())
		wantRecorded(t, m.path("team/f"), changed)
		if got := m.read("team/f"); got != changed {
			t.Error("who opens it after the close does not see the change")
		}
		all, err := io.ReadAll(reader)
		if err != nil || string(all) != changed {
			t.Errorf("what was open reads differently, %v", err)
		}
		if string(seen) != changed {
			t.Error("what was mapped reads differently")
		}
		if info, err := reader.Stat(); err != nil || info.Size() != int64(len(changed)) {
			t.Errorf("what was open shows %v, %v", info, err)
		}
		m.wantCharges(1, 2)
	})
}

// wantRecorded checks that the newest version of a file is content.
func wantRecorded(t *testing.T, path, content string) {
	t.Helper()
	sum := make([]byte, 100)
	n, err := unix.Getxattr(path, "user.svcfs.sha256", sum)
	if want := fmt.Sprintf("%x", sha256.Sum256([]byte(content))); err != nil || string(sum[:n]) != want {
		t.Errorf("recorded is %s, %v; want %s", sum[:max(n, 0)], err, want)
	}
}

// However a writer comes to a file that a reader has open, its program notices nothing of that.
func TestR3WritersBesideAReader(t *testing.T) {
	everyReads(t, func(t *testing.T, m *mount) {
		for name, write := range map[string]func(path string) error{
			"truncated and written": func(path string) error { return os.WriteFile(path, []byte("new"), 0o600) },
			"cut by name":           func(path string) error { return os.Truncate(path, 3) },
			"appended": func(path string) error {
				f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
				if err != nil {
					return err
				}
				_, err = f.WriteString("more")
				return errors.Join(err, f.Close())
			},
			"replaced": func(path string) error {
				return errors.Join(os.WriteFile(path+".tmp", []byte("other"), 0o600), os.Rename(path+".tmp", path))
			},
		} {
			content := pattern(largeBytes)
			m.put(name, content)
			m.refresh()
			path := m.path("team/" + name)
			reader := openToRead(t, path)
			p := make([]byte, 10)
			if _, err := reader.ReadAt(p, 0); err != nil {
				t.Fatal(err)
			}
			if err := write(path); err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			want := map[string]string{"truncated and written": "new", "cut by name": content[:3],
				"appended": content + "more", "replaced": "other"}[name]
			if got := m.read("team/" + name); got != want {
				t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
			}
			wantRecorded(t, path, want)
		}
	})
}

// Readers and writers who open a file at the same moment all get it.
func TestR3ReadersAndWritersAtOnce(t *testing.T) {
	everyReads(t, func(t *testing.T, m *mount) {
		content := pattern(largeBytes)
		for i := range 20 {
			m.put(fmt.Sprint(i), content)
		}
		for i := range 20 {
			path := m.path(fmt.Sprint("team/", i))
			var all sync.WaitGroup
			for _, flags := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREATE, os.O_WRONLY,
				os.O_RDONLY} {
				all.Go(func() {
					f, err := os.OpenFile(path, flags, 0o600)
					if err != nil {
						t.Error(err)
						return
					}
					defer f.Close()
					p := make([]byte, largeBytes)
					if flags == os.O_WRONLY {
						return
					}
					if _, err := f.ReadAt(p, 0); err != nil || string(p) != content {
						t.Errorf("reads differently, %v", err)
					}
				})
			}
			all.Wait()
		}
	})
}

// M5: the pages of a writer and those of a reader beside it go.
func TestM5PagesOfAWriterBesideAReader(t *testing.T) {
	m := longMount(t)
	content := pattern(largeBytes)
	m.put("f", content)
	seen := mapped(t, openToRead(t, m.path("team/f")), len(content))
	writer, err := os.OpenFile(m.path("team/f"), os.O_RDWR, 0)
	ok(t, err)
	defer writer.Close()
	mem := mapFile(t, writer, len(content), unix.PROT_READ|unix.PROT_WRITE)
	if string(mem) != content || string(seen) != content {
		t.Fatal("a mapping holds something else")
	}
	m.must(order{Do: "member", Group: "team"})
	m.refresh()
	proctest.Eventually(t, "the writer's mapping is gone", func() bool { return faults(mem) })
	proctest.Eventually(t, "the reader's mapping is gone", func() bool { return faults(seen) })
}

func TestNoXattr(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Options.NoXattr = true })
	m.put("f", "text")
	if _, err := unix.Getxattr(m.path("team/f"), "user.svcfs.ref", nil); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("getxattr: %v", err)
	}
	if _, err := unix.Listxattr(m.path("team/f"), nil); !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("listxattr: %v", err)
	}
	if got := m.read("team/f"); got != "text" {
		t.Errorf("reads %q", got)
	}
}
