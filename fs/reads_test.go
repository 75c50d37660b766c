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

func passthrough(p *plan) {
	p.Options.Reads = ReadsPassthrough
}

// sharedBytes is content large enough to be shared, whose end lies inside a page.
const sharedBytes = 300_001

func TestPassthroughReadsEveryWay(t *testing.T) {
	proctest.Need(t, "root")
	m := mounting(t, passthrough)
	for _, size := range []int{sharedBytes, 256 << 10, 256<<10 - 8} { // the tag's room lies inside the page, behind it, across
		content := pattern(size)
		m.put("f", content)
		m.refresh()
		proctest.Eventually(t, "the new version shows", func() bool {
			info, err := os.Stat(m.path("team/f"))
			return err == nil && info.Size() == int64(size)
		})
		if got := m.read("team/f"); got != content {
			t.Errorf("%d bytes read differently", size)
		}
		readEveryWay(t, m.path("team/f"), content)
	}
	m.put("small", "text")
	m.refresh()
	if got := m.read("team/small"); got != "text" {
		t.Errorf("a small file reads %q", got)
	}
	m.wantCharges(4, 0)
}

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
	mem, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	return mem
}

// Shared memory is read while svcfs stands still.
func TestPassthroughAsksNobody(t *testing.T) {
	proctest.Need(t, "root")
	m := mounting(t, passthrough)
	content := pattern(sharedBytes)
	m.put("f", content)
	f := openToRead(t, m.path("team/f"))
	m.signal(unix.SIGSTOP)
	defer m.signal(unix.SIGCONT)
	var all []byte
	err := inTime(t, "reading shared memory", func() (err error) {
		all, err = io.ReadAll(f)
		return err
	})
	if err != nil || string(all) != content {
		t.Errorf("%d bytes, %v", len(all), err)
	}
}

func (m *mount) signal(s unix.Signal) {
	m.t.Helper()
	ok(m.t, m.cmd.Process.Signal(s))
}

// A writer and a reader of the same file: what the reader opened stays, whoever
// opens it after the close sees the change, and the writer sees its own.
func TestPassthroughIsClosedToOpen(t *testing.T) {
	proctest.Need(t, "root")
	m := mounting(t, passthrough)
	content := pattern(sharedBytes)
	m.put("f", content)
	reader := openToRead(t, m.path("team/f"))
	writer, err := os.OpenFile(m.path("team/f"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := writer.WriteAt([]byte("changed"), 3); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 7)
	if _, err := writer.ReadAt(p, 3); err != nil || string(p) != "changed" {
		t.Errorf("the writer reads %q, %v", p, err)
	}
	ok(t, writer.Close())
	changed := content[:3] + "changed" + content[10:]
	if got := m.read("team/f"); got != changed {
		t.Error("who opens it after the close does not see the change")
	}
	all, err := io.ReadAll(reader)
	if err != nil || string(all) != content {
		t.Errorf("what was open reads differently, %v", err)
	}
	ok(t, reader.Close())
	for range 3 { // at once, while the kernel may still hold the memory
		if got := m.read("team/f"); got != changed {
			t.Fatal("the change is gone")
		}
	}
	m.write("team/f", "short")
	if got := m.read("team/f"); got != "short" {
		t.Errorf("reads %q", got)
	}
	m.wantCharges(1, 2)
}

// everyReads runs a test with each way in which the kernel reads. Only root can have the
// kernel read from memory by itself.
func everyReads(t *testing.T, test func(t *testing.T, reads Reads, m *mount)) {
	for mode, name := range readsNames {
		if Reads(mode) == ReadsPassthrough && os.Geteuid() != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			test(t, Reads(mode), mounting(t, func(p *plan) { p.Options.Reads = Reads(mode) }))
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
	everyReads(t, func(t *testing.T, reads Reads, m *mount) {
		content := pattern(sharedBytes)
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
		want := changed
		if reads == ReadsPassthrough {
			want = content
		}
		all, err := io.ReadAll(reader)
		if err != nil || string(all) != want {
			t.Errorf("what was open reads differently, %v", err)
		}
		if string(seen) != want {
			t.Error("what was mapped reads differently")
		}
		if info, err := reader.Stat(); err != nil || info.Size() != int64(len(want)) {
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

// However a writer comes to a file that is lent, its program notices nothing of that.
func TestR3WritersOfLentFiles(t *testing.T) {
	everyReads(t, func(t *testing.T, reads Reads, m *mount) {
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
			content := pattern(sharedBytes)
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
			want := map[string]string{"truncated and written": "new", "cut by name": content[:3], "appended": content + "more", "replaced": "other"}[name]
			if got := m.read("team/" + name); got != want {
				t.Errorf("%s: %d bytes, want %d", name, len(got), len(want))
			}
			wantRecorded(t, path, want)
			if all, err := io.ReadAll(reader); reads == ReadsPassthrough && (err != nil || string(all) != content) {
				t.Errorf("%s: what was open reads differently, %v", name, err)
			}
		}
	})
}

// R3: who reads a lent file sees the size that it had at open, whatever is saved since.
func TestR3SizeOfALentFileStays(t *testing.T) {
	proctest.Need(t, "root")
	m := mounting(t, passthrough)
	content := pattern(sharedBytes)
	m.put("f", content)
	reader := openToRead(t, m.path("team/f"))
	wantSize := func(what string) {
		t.Helper()
		var st unix.Statx_t
		ok(t, unix.Statx(int(reader.Fd()), "", unix.AT_EMPTY_PATH|unix.AT_STATX_FORCE_SYNC, unix.STATX_SIZE, &st))
		if st.Size != uint64(len(content)) {
			t.Errorf("%s: what was open shows %d bytes, want %d", what, st.Size, len(content))
		}
	}
	m.write("team/f", "short")
	wantSize("truncated and written")
	ok(t, reader.Chmod(0o600))
	wantSize("mode set")
	if info, err := os.Stat(m.path("team/f")); err != nil || info.Size() != 5 {
		t.Errorf("the name shows %v, %v", info, err)
	}
}

// A new length by name is for the next open: a reader of lent memory keeps content and size.
func TestR3LengthByNameOfALentFile(t *testing.T) {
	proctest.Need(t, "root")
	m := mounting(t, passthrough)
	content := pattern(sharedBytes)
	m.put("f", content)
	reader := openToRead(t, m.path("team/f"))
	for _, size := range []int64{sharedBytes / 2, 0, 5} {
		ok(t, os.Truncate(m.path("team/f"), size))
		kept, err := reader.Stat()
		ok(t, err)
		if kept.Size() != sharedBytes {
			t.Errorf("cut to %d by name: what was open shows %d bytes, want %d", size, kept.Size(), sharedBytes)
		}
		if got, err := io.ReadAll(io.NewSectionReader(reader, 0, 2*sharedBytes)); err != nil || string(got) != content {
			t.Errorf("cut to %d by name: the reader got %d other bytes, %v", size, len(got), err)
		}
		if info, err := os.Stat(m.path("team/f")); err != nil || info.Size() != size {
			t.Errorf("the name shows %v, %v; want %d bytes", info, err, size)
		}
	}
}

// Readers and writers who open a file at the same moment all get it.
func TestR3ReadersAndWritersAtOnce(t *testing.T) {
	everyReads(t, func(t *testing.T, _ Reads, m *mount) {
		content := pattern(sharedBytes)
		for i := range 20 {
			m.put(fmt.Sprint(i), content)
		}
		for i := range 20 {
			path := m.path(fmt.Sprint("team/", i))
			var all sync.WaitGroup
			for _, flags := range []int{os.O_RDONLY, os.O_RDWR, os.O_RDONLY, os.O_RDWR | os.O_CREATE, os.O_WRONLY, os.O_RDONLY} {
				all.Go(func() {
					f, err := os.OpenFile(path, flags, 0o600)
					if err != nil {
						t.Error(err)
						return
					}
					defer f.Close()
					p := make([]byte, sharedBytes)
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

// A descriptor has no name to look up: the kernel cannot give it another inode.
func TestR3LentDescriptorIsNotReopenedForWriting(t *testing.T) {
	proctest.Need(t, "root")
	m := mounting(t, passthrough)
	content := pattern(sharedBytes)
	m.put("f", content)
	reader := openToRead(t, m.path("team/f"))
	_, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", reader.Fd()), os.O_RDWR, 0)
	wantErrno(t, "opening the descriptor for writing", err, unix.ESTALE)
	if got, err := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d", reader.Fd())); err != nil || string(got) != content {
		t.Errorf("opening the descriptor for reading: %d bytes, %v", len(got), err)
	}
	if got := m.read("team/f"); got != content {
		t.Errorf("reads %d bytes", len(got))
	}
}

// M5, with memory that the kernel reads itself.
func TestM5RevocationEmptiesWhatWasLent(t *testing.T) {
	proctest.Need(t, "root")
	m := mounting(t, passthrough)
	content := pattern(sharedBytes)
	m.put("f", content)
	f := openToRead(t, m.path("team/f"))
	mem := mapped(t, f, len(content))
	if string(mem) != content {
		t.Fatal("the mapping holds something else")
	}
	m.must(order{Do: "member", Group: "team"})
	m.refresh()
	proctest.Eventually(t, "the mapping is gone", func() bool { return faults(mem) })
	p := make([]byte, 10)
	if n, err := f.ReadAt(p, 0); n != 0 || err == nil {
		t.Errorf("read %q, %v after the revocation", p[:n], err)
	}
	if _, err := os.Open(m.path("team/f")); !errors.Is(err, unix.EKEYREVOKED) && !errors.Is(err, unix.ENOENT) {
		t.Errorf("open: %v", err)
	}
}

// M5: a file that was lent has two inodes while a program writes to it, and the pages of both
// go, whichever was opened last.
func TestM5PagesOfAWriterBesideAReader(t *testing.T) {
	proctest.Need(t, "root")
	m := mounting(t, passthrough)
	content := pattern(sharedBytes)
	m.put("f", content)
	reader := openToRead(t, m.path("team/f"))
	writer, err := os.OpenFile(m.path("team/f"), os.O_RDWR, 0)
	ok(t, err)
	defer writer.Close()
	mem := mapFile(t, writer, len(content), unix.PROT_READ|unix.PROT_WRITE)
	if string(mem) != content {
		t.Fatal("the mapping holds something else")
	}
	again := openToRead(t, fmt.Sprintf("/proc/self/fd/%d", reader.Fd()))
	lent := mapped(t, again, len(content))
	m.must(order{Do: "member", Group: "team"})
	m.refresh()
	proctest.Eventually(t, "the writer's mapping is gone", func() bool { return faults(mem) })
	proctest.Eventually(t, "the reader's mapping is gone", func() bool { return faults(lent) })
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
