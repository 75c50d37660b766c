package tree

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/sdk/mem"
)

func passes(c *Config) { c.Passthrough = true }

// wantLent checks that the inode lends h the content.
func wantLent(t *testing.T, h *Handle, l *Lending, content string) {
	t.Helper()
	memory, stale := h.Lend(l)
	if memory == nil || stale {
		t.Fatalf("Lend() = %v, stale %v; want memory", memory, stale)
	}
	defer memory.Close()
	if got, err := io.ReadAll(io.NewSectionReader(memory, 0, 1<<30)); err != nil || string(got) != content {
		t.Errorf("the memory differs: %d bytes, %v", len(got), err)
	}
	if _, err := memory.WriteAt([]byte("x"), 0); !errors.Is(err, unix.EPERM) {
		t.Errorf("R3: lent memory takes a write: %v", err)
	}
}

// wantNotLent checks that h reads pages, or where stale is wanted, that its inode cannot show
// what h does.
func wantNotLent(t *testing.T, h *Handle, l *Lending, wantStale bool) {
	t.Helper()
	memory, stale := h.Lend(l)
	if memory != nil || stale != wantStale {
		t.Errorf("Lend() = %v, stale %v; want no memory, stale %v", memory, stale, wantStale)
	}
}

func TestR3InodeIsLentOrPaged(t *testing.T) {
	w := team()
	content := strings.Repeat("0123456789", 20_001)
	w.Put("team", bob, "f", []byte(content))
	w.Put("team", bob, "small", []byte("text"))
	m := mount(t, w, alice, passes)
	read, write := OpenFlags{Read: true}, OpenFlags{Read: true, Write: true}
	f := m.node("/team/f").(*File)

	small, ofSmall := m.open("/team/small", read), &Lending{}
	wantNotLent(t, small, ofSmall, false)
	small.Release()

	inode, first := &Lending{}, m.open("/team/f", read)
	wantLent(t, first, inode, content)
	second := m.open("/team/f", read)
	wantLent(t, second, inode, content)
	if inode.Page() {
		t.Error("a lent inode has pages")
	}
	before := f.Attr()
	f.Renew(before.Gen, true)
	now := f.Attr()
	if now.Gen == before.Gen || now.Ino != before.Ino {
		t.Errorf("the new inode is %d of generation %d, was %d of %d", now.Ino, now.Gen, before.Ino, before.Gen)
	}
	if f.Renew(before.Gen, true); f.Attr().Gen != now.Gen {
		t.Error("two writers at once are given two inodes")
	}
	own := &Lending{}
	if !own.Page() {
		t.Error("the writer's inode has no pages")
	}
	writer := m.open("/team/f", write)
	wantNotLent(t, writer, own, false)
	m.write(writer, "changed", 0)
	wantOpen(t, first, content)
	late := m.open("/team/f", read)
	wantNotLent(t, late, own, false)
	wantOpen(t, late, "changed"+content[7:])
	wantNotLent(t, m.open("/team/f", read), inode, true)
	if size, lent := inode.Size(); !lent || size != int64(len(content)) {
		t.Errorf("the lent inode has %d bytes, %v", size, lent)
	}
	ok(t, writer.Flush(t.Context()))
	wantOpen(t, second, content)
	for _, h := range []*Handle{first, writer, late, second} {
		h.Release()
	}
	wantNotLent(t, m.open("/team/f", read), &Lending{}, false) // its pages may be anywhere
}

func TestR3EvictedContentIsLentThroughAnotherInode(t *testing.T) {
	w := team()
	content := strings.Repeat("0123456789", 20_001)
	w.Put("team", bob, "f", []byte(content))
	m := mount(t, w, alice, passes)
	f, inode := m.node("/team/f").(*File), &Lending{}
	h := m.open("/team/f", OpenFlags{Read: true})
	wantLent(t, h, inode, content)
	h.Release()
	m.cache.Purge(func(cache.Key) bool { return true })
	again := m.open("/team/f", OpenFlags{Read: true})
	wantNotLent(t, again, inode, true)
	f.Renew(f.Attr().Gen, false)
	wantLent(t, again, &Lending{}, content)
	again.Release()
}

func TestSharedContentIsEmptiedByAPurgeAndKeptFromEviction(t *testing.T) {
	w := team()
	content := strings.Repeat("0123456789", 20_001)
	w.Put("team", bob, "f", []byte(content))
	w.Put("team", bob, "g", []byte(content))
	m := mount(t, w, alice, passes, func(c *Config) { c.CacheBytes = mem.FootprintOf(int64(len(content))) })
	h := m.open("/team/f", OpenFlags{Read: true})
	memory, _ := h.Lend(&Lending{})
	if memory == nil {
		t.Fatal("nothing is lent")
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
