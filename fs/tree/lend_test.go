package tree

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/sdk"
)

func lends(c *Config) { c.Lend = true }

// wantLent checks what Lend decides, and that lent memory holds content.
func wantLent(t *testing.T, h *Handle, want Lending, content string) {
	t.Helper()
	how, memory := h.Lend()
	if how != want {
		t.Errorf("Lend() = %d, want %d", how, want)
	}
	if memory == nil {
		return
	}
	defer memory.Close()
	if got, err := io.ReadAll(io.NewSectionReader(memory, 0, 1<<30)); err != nil || string(got) != content {
		t.Errorf("the lent memory differs: %d bytes, %v", len(got), err)
	}
}

// rested makes as if what was lent last was given up long ago.
func rested(f *File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lent.ended = time.Now().Add(-2 * lendRest)
}

func TestLendingIsOfOneContentAtATime(t *testing.T) {
	w := team()
	content := strings.Repeat("0123456789", 20_001)
	w.Put("team", bob, "f", []byte(content))
	w.Put("team", bob, "small", []byte("text"))
	m := mount(t, w, alice, lends)
	read, write := OpenFlags{Read: true}, OpenFlags{Read: true, Write: true}
	f := m.node("/team/f").(*File)

	small := m.open("/team/small", read)
	wantLent(t, small, LendNot, "")
	small.Release()

	first, second := m.open("/team/f", read), (*Handle)(nil)
	wantLent(t, first, LendMemory, content)
	second = m.open("/team/f", read)
	wantLent(t, second, LendMemory, content)
	writer := m.open("/team/f", write)
	wantLent(t, writer, LendAround, "")
	m.write(writer, "changed", 0)
	late := m.open("/team/f", read)
	wantLent(t, late, LendAround, "") // sees the change, which is not what is lent
	wantOpen(t, late, "changed"+content[7:])
	if err := writer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*Handle{first, writer, late, second} {
		h.Release()
	}

	soon := m.open("/team/f", read)
	wantLent(t, soon, LendAround, "") // the kernel may still have the old content
	soon.Release()
	rested(f)
	again := m.open("/team/f", read)
	wantLent(t, again, LendNot, "") // what was written here, the kernel has in pages
	wantOpen(t, again, "changed"+content[7:])
	again.Release()
	m.cache.Purge(func(cache.Key) bool { return true })
	anew := m.open("/team/f", read)
	wantLent(t, anew, LendMemory, "changed"+content[7:])
	anew.Release()

	rested(f)
	cached := m.open("/team/f", write)
	wantLent(t, cached, LendNot, "")
	beside := m.open("/team/f", read)
	wantLent(t, beside, LendNot, "") // its pages are cached already
	cached.Release()
	beside.Release()
}

func TestLentContentIsEmptiedByAPurgeAndKeptFromEviction(t *testing.T) {
	w := team()
	content := strings.Repeat("0123456789", 20_001)
	w.Put("team", bob, "f", []byte(content))
	w.Put("team", bob, "g", []byte(content))
	m := mount(t, w, alice, lends, func(c *Config) { c.CacheBytes = sdk.FootprintOf(int64(len(content))) })
	h := m.open("/team/f", OpenFlags{Read: true})
	how, memory := h.Lend()
	if how != LendMemory {
		t.Fatalf("Lend() = %d", how)
	}
	defer memory.Close()
	if _, err := m.read("/team/g"); err != nil { // wants its place
		t.Fatal(err)
	}
	wantSize(t, memory, int64(len(content)))
	h.f.t.cache.Purge(func(k cache.Key) bool { return true })
	wantSize(t, memory, 0)
	h.Release()
}

func wantSize(t *testing.T, f *os.File, want int64) {
	t.Helper()
	info, err := f.Stat()
	if err != nil || info.Size() != want {
		t.Errorf("%v, %v; want %d bytes", info, err, want)
	}
}
