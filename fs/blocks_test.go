package fs

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
)

// blocks makes the service of a mount one that has files of format version 2, in blocks of
// 64 KiB.
func blocks(p *plan) { p.Blocks = true }

const blockBytes = 64 << 10

func (m *mount) wantBlocks(what string, fetched int) {
	m.t.Helper()
	c := m.must(order{Do: "counts"}).Counts
	if c.Blocks != fetched || c.Twice != 0 {
		m.t.Errorf("%s: fetched %d blocks, %d of them again; want %d", what, c.Blocks, c.Twice, fetched)
	}
}

// However the kernel reads, the bytes are right, and every block is fetched once.
func TestR9BlocksAreReadEveryWay(t *testing.T) {
	everyReads(t, func(t *testing.T, m *mount) {
		content := pattern(20*blockBytes + 5)
		m.put("film", content)
		m.refresh()
		f := openToRead(t, m.path("team/film"))
		m.wantBlocks("open", 0)
		p := make([]byte, 4096)
		for i, off := range []int{7, 3, 12, 9} {
			if _, err := f.ReadAt(p, int64(off*blockBytes+8192)); err != nil ||
				string(p) != content[off*blockBytes+8192:][:len(p)] {
				t.Errorf("block %d reads differently, %v", off, err)
			}
			m.wantBlocks("a read of 4 KiB", i+1)
		}
		readEveryWay(t, m.path("team/film"), content)
		big := make([]byte, 10*blockBytes)
		if n, err := f.ReadAt(big, blockBytes+100); err != nil ||
			string(big[:n]) != content[blockBytes+100:][:len(big)] {
			t.Errorf("a read of ten blocks: %d bytes, %v", n, err)
		}
		if got := m.read("team/film"); got != content {
			t.Error("it reads differently from end to end")
		}
		m.wantBlocks("all of it", 21)
		m.wantCharges(1, 0)
	}, blocks)
}

// A version in the history opens and reads as the file does.
func TestR9OldVersionsHaveBlocks(t *testing.T) {
	m := mounting(t, blocks)
	content := pattern(5 * blockBytes)
	m.put("film", content)
	m.put("film", "newer")
	m.refresh()
	list, err := filepath.Glob(m.path("team/.svcfs/history/film/*"))
	if err != nil || len(list) != 2 {
		t.Fatal(list, err)
	}
	got, err := os.ReadFile(list[0])
	if err != nil || string(got) != content {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	m.wantCharges(1, 0)
}

// What programs get when a read fails, and that the next one works without another open.
func TestR9ErrnosAtRead(t *testing.T) {
	m := mounting(t, blocks)
	content := pattern(10 * blockBytes)
	m.put("film", content)
	m.refresh()
	f := openToRead(t, m.path("team/film"))
	p := make([]byte, 4096)
	for _, test := range []struct {
		kind sdk.Kind
		want syscall.Errno
	}{{sdk.ErrUnavailable, unix.EHOSTUNREACH}, {sdk.ErrTimeout, unix.ETIMEDOUT}, {sdk.ErrCorrupt, unix.EIO},
		{sdk.ErrDeleted, unix.EKEYREVOKED}} {
		m.must(order{Do: "spoil", Group: "team", Size: 7, On: true, Kind: &test.kind})
		_, err := f.ReadAt(p, 7*blockBytes+4096)
		wantErrno(t, "a read that fails", err, test.want)
		if _, err := f.ReadAt(p, 2*blockBytes); err != nil {
			t.Errorf("%v: another block: %v", test.want, err)
		}
	}
	m.must(order{Do: "spoil", Group: "team", Size: 7})
	if _, err := f.ReadAt(p, 7*blockBytes+4096); err != nil || string(p) != content[7*blockBytes+4096:][:4096] {
		t.Errorf("a later read: %v", err)
	}
	m.wantCharges(1, 0)
	errors := m.read(".svcfs/errors")
	for _, class := range []string{"unreachable", "timeout", "corrupt", "revoked"} {
		if !strings.Contains(errors, "\t/team/film\tread\t"+class+"\t") {
			t.Errorf("errors do not tell of %s: %s", class, errors)
		}
	}
}

// A program that waits in a read can be interrupted, and neither it nor the mount waits for the service.
func TestR9HungReadIsInterrupted(t *testing.T) {
	m := mounting(t, blocks)
	m.put("film", pattern(10*blockBytes))
	m.put("other", "y")
	m.refresh()
	m.must(order{Do: "stall", Name: "read blocks", On: true})
	cmd := exec.Command("cat", m.path("team/film"))
	ok(t, cmd.Start())
	m.waitFor(1)
	if got := m.read("team/other"); got != "y" {
		t.Errorf("another file reads %q", got)
	}
	ok(t, cmd.Process.Signal(unix.SIGINT))
	if err := inTime(t, "cat", cmd.Wait); err == nil {
		t.Error("cat succeeded")
	}
	m.must(order{Do: "unmount", Limit: hangLimit})
}

// A revocation takes the blocks, the kernel's pages of them, and mappings.
func TestR9RevocationDropsBlocks(t *testing.T) {
	m := mounting(t, blocks, func(p *plan) { p.Watches = true })
	content := pattern(10 * blockBytes)
	m.put("film", content)
	f := openToRead(t, m.path("team/film"))
	mem := mapped(t, f, len(content))
	if !bytes.Equal(mem[:8192], []byte(content[:8192])) {
		t.Fatal("the mapping holds something else")
	}
	m.must(order{Do: "member", Group: "team"})
	proctest.Eventually(t, "the mapping is gone", func() bool { return faults(mem) })
	for _, off := range []int64{0, 5 * blockBytes} {
		n, err := f.ReadAt(make([]byte, 100), off)
		if n != 0 {
			t.Errorf("read %d bytes at %d after the revocation", n, off)
		}
		wantErrno(t, "an open file", err, unix.EKEYREVOKED)
	}
}

// Common ways to look at a part of a large file fetch little of it.
func TestR10PartsOfALargeFileOnAMount(t *testing.T) {
	m := mounting(t, blocks)
	const all = 80
	content := pattern(all * blockBytes)
	m.put("film", content)
	m.refresh()
	at := 0
	for _, script := range []string{`head -c 9 "$1"`, `tail -c 1000 "$1"`,
		`dd if="$1" bs=4k skip=600 count=1 status=none`} {
		if out, err := exec.Command("sh", "-c", script, "sh", m.path("team/film")).Output(); err != nil ||
			len(out) == 0 {
			t.Errorf("%s: %v", script, err)
		}
		c := m.must(order{Do: "counts"}).Counts
		if c.Twice != 0 || c.Blocks-at > 4 {
			t.Errorf("%s fetched %d blocks, %d again", script, c.Blocks-at, c.Twice)
		}
		at = c.Blocks
	}
	f := openToRead(t, m.path("team/film"))
	mem := mapped(t, f, len(content))
	if mem[50*blockBytes] != content[50*blockBytes] || mem[25*blockBytes] != content[25*blockBytes] {
		t.Error("the mapping holds something else")
	}
	c := m.must(order{Do: "counts"}).Counts
	if c.Twice != 0 || c.Blocks-at > 8 { // the kernel reads 128 KiB around each fault
		t.Errorf("two bytes of a mapping fetched %d blocks, %d again", c.Blocks-at, c.Twice)
	}
	if n, err := io.Copy(io.Discard, f); err != nil || n != int64(len(content)) {
		t.Errorf("%d bytes, %v", n, err)
	}
	m.wantBlocks("all of it", all)
}
