package fs

import (
	"errors"
	"io"
	"os"
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
	needRoot(t)
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

// Shared memory is read while svcfs stands still.
func TestPassthroughAsksNobody(t *testing.T) {
	needRoot(t)
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
	if err := m.cmd.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

// A writer and a reader of the same file: what the reader opened stays, whoever
// opens it after the close sees the change, and the writer sees its own.
func TestPassthroughIsClosedToOpen(t *testing.T) {
	needRoot(t)
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
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	changed := content[:3] + "changed" + content[10:]
	if got := m.read("team/f"); got != changed {
		t.Error("who opens it after the close does not see the change")
	}
	all, err := io.ReadAll(reader)
	if err != nil || string(all) != content {
		t.Errorf("what was open reads differently, %v", err)
	}
	if err := reader.Close(); err != nil {
		t.Fatal(err)
	}
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

// M5, with memory that the kernel reads itself.
func TestM5RevocationEmptiesWhatWasLent(t *testing.T) {
	needRoot(t)
	m := mounting(t, passthrough)
	content := pattern(sharedBytes)
	m.put("f", content)
	f := openToRead(t, m.path("team/f"))
	mem, err := unix.Mmap(int(f.Fd()), 0, len(content), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(mem) }()
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
