package tree

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/sdk/mem"
)

func passes(c *Config) { c.Passthrough = true }

// wantReads checks what Passthrough decides, and that the memory holds content.
func wantReads(t *testing.T, h *Handle, want KernelReads, content string) {
	t.Helper()
	how, memory := h.Passthrough()
	if how != want {
		t.Errorf("Passthrough() = %d, want %d", how, want)
	}
	if memory == nil {
		return
	}
	defer memory.Close()
	if got, err := io.ReadAll(io.NewSectionReader(memory, 0, 1<<30)); err != nil || string(got) != content {
		t.Errorf("the memory differs: %d bytes, %v", len(got), err)
	}
}

// rested makes as if the memory was given up long ago.
func rested(f *File) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.passed.ended = time.Now().Add(-2 * passthroughRest)
}

func TestPassthroughIsOfOneContentAtATime(t *testing.T) {
	w := team()
	content := strings.Repeat("0123456789", 20_001)
	w.Put("team", bob, "f", []byte(content))
	w.Put("team", bob, "small", []byte("text"))
	m := mount(t, w, alice, passes)
	read, write := OpenFlags{Read: true}, OpenFlags{Read: true, Write: true}
	f := m.node("/team/f").(*File)

	small := m.open("/team/small", read)
	wantReads(t, small, ReadCached, "")
	small.Release()

	first, second := m.open("/team/f", read), (*Handle)(nil)
	wantReads(t, first, ReadMemory, content)
	second = m.open("/team/f", read)
	wantReads(t, second, ReadMemory, content)
	writer := m.open("/team/f", write)
	wantReads(t, writer, ReadDirect, "")
	m.write(writer, "changed", 0)
	late := m.open("/team/f", read)
	wantReads(t, late, ReadDirect, "") // sees the change, which is not what the kernel reads
	wantOpen(t, late, "changed"+content[7:])
	if err := writer.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*Handle{first, writer, late, second} {
		h.Release()
	}

	soon := m.open("/team/f", read)
	wantReads(t, soon, ReadDirect, "") // the kernel may still have the old content
	soon.Release()
	rested(f)
	again := m.open("/team/f", read)
	wantReads(t, again, ReadCached, "") // what was written here, the kernel has in pages
	wantOpen(t, again, "changed"+content[7:])
	again.Release()
	m.cache.Purge(func(cache.Key) bool { return true })
	anew := m.open("/team/f", read)
	wantReads(t, anew, ReadMemory, "changed"+content[7:])
	anew.Release()

	rested(f)
	cached := m.open("/team/f", write)
	wantReads(t, cached, ReadCached, "")
	beside := m.open("/team/f", read)
	wantReads(t, beside, ReadCached, "") // its pages are cached already
	cached.Release()
	beside.Release()
}

func TestSharedContentIsEmptiedByAPurgeAndKeptFromEviction(t *testing.T) {
	w := team()
	content := strings.Repeat("0123456789", 20_001)
	w.Put("team", bob, "f", []byte(content))
	w.Put("team", bob, "g", []byte(content))
	m := mount(t, w, alice, passes, func(c *Config) { c.CacheBytes = mem.FootprintOf(int64(len(content))) })
	h := m.open("/team/f", OpenFlags{Read: true})
	how, memory := h.Passthrough()
	if how != ReadMemory {
		t.Fatalf("Passthrough() = %d", how)
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
