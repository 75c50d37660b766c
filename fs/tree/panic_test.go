package tree

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// E8: a panic while a file is fetched or sent, or in the background, is the error of one request, and nothing is lost.
func TestE8PanicsEndOneRequest(t *testing.T) {
	w := team()
	w.Put("team", alice, "old", []byte("content"))
	var log bytes.Buffer
	m := mount(t, w, alice, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })

	w.Fail("retrieve", treetest.Panic("a mistake in retrieve"))
	_, err := m.read("/team/old")
	wantClass(t, err, ClassOther)
	w.Fail("retrieve", nil)
	m.wantContent("/team/old", "content")

	w.Fail("upload", treetest.Panic("a mistake in upload"))
	wantClass(t, m.save("/team/new", "saved"), ClassOther)
	if left := m.Pending(); len(left) != 1 || left[0].Path != "/team/new" {
		t.Errorf("left %+v", left)
	}
	w.Fail("upload", nil)
	h := m.open("/team/new", OpenFlags{Read: true, Write: true})
	ok(t, h.Flush(t.Context()))
	h.Release()
	m.wantContent("/team/new", "saved")
	if left := m.Pending(); len(left) != 0 {
		t.Errorf("left %+v", left)
	}

	w.Fail("groups", treetest.Panic("a mistake in groups"))
	m.alone("refresh", func(ctx context.Context) { _ = m.Refresh(ctx) })
	w.Fail("groups", nil)
	ok(t, m.Refresh(t.Context()))

	told, err := m.read("/.svcfs/errors")
	ok(t, err)
	for _, where := range []string{"retrieve", "upload", "groups"} {
		if !strings.Contains(told, "svcfs made a mistake: a mistake in "+where) || !strings.Contains(log.String(), "a mistake in "+where) {
			t.Errorf("a mistake in %s is not told", where)
		}
	}
	if !strings.Contains(log.String(), "treetest/world.go") {
		t.Error("the log has no stack")
	}
}

// E8: after a panic nothing is held that later requests need: looks go on, names can change, and what was set aside of
// the budget is given back.
func TestE8PanicsLeaveNothingBehind(t *testing.T) {
	w := team()
	w.Put("team", alice, "old", []byte("content"))
	var c clock
	one, _ := wire.ParseTokens("1")
	m := mount(t, w, bob, c.use, func(cfg *Config) {
		cfg.Budget, _ = wire.ParseTokens("2")
		cfg.Price = func(string) (sdk.Amount, bool) { return one, true }
	})
	m.wantNames("/team", "old")

	w.Fail("entries", treetest.Panic("a mistake in entries"))
	c.ns.Add(int64(2 * missInterval))
	m.names("/team")
	m.look.Wait()
	w.Fail("entries", nil)
	w.Put("team", alice, "new", nil)
	c.ns.Add(int64(2 * missInterval))
	m.wantNames("/team", "new", "old")

	m.alone("change", func(context.Context) { m.change(func() []notice { panic("a mistake in change") }) })
	if !m.mu.TryLock() {
		t.Fatal("names cannot change any more")
	}
	m.mu.Unlock()

	w.Fail("upload", treetest.Panic("a mistake in upload"))
	wantClass(t, m.save("/team/a", "1"), ClassOther)
	w.Fail("upload", nil)
	ok(t, m.save("/team/a", "2"))
	ok(t, m.save("/team/b", "3"))
}

// E8: a file that is open is readable and can be written to, whatever took its content from memory.
func TestE8OpenMeansReadable(t *testing.T) {
	for _, size := range []int64{7, 3 * treetest.DefaultBlock} {
		w := team()
		w.BlocksAbove = treetest.DefaultBlock
		content := bytes.Repeat([]byte("content"), int(size/7))
		w.Put("team", alice, "f", content)
		m := mount(t, w, alice)
		h := m.open("/team/f", OpenFlags{Read: true, Write: true})
		f := h.File()
		take := func() {
			f.mu.Lock()
			held := f.held
			f.held = nil
			f.mu.Unlock()
			held.Release()
		}
		take()
		got := make([]byte, len(content)+1)
		if n, err := h.ReadAt(t.Context(), got, 0); err != nil || !bytes.Equal(got[:n], content) {
			t.Errorf("%d of %d bytes are read, %v", n, len(content), err)
		}
		take()
		if _, err := h.WriteAt(t.Context(), []byte("C"), 0); err != nil {
			t.Fatal(err)
		}
		ok(t, h.Flush(t.Context()))
		h.Release()
		m.wantContent("/team/f", "C"+string(content[1:]))
	}
}
