package tree

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/svcfs/svcfs/fs/tree/content"
	"github.com/svcfs/svcfs/fs/tree/staging"
	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// spooled gives a mount a spool, and little memory for each file.
func spooled(t *testing.T, blocks int64) func(c *Config) {
	t.Helper()
	s, err := staging.OpenSpool(t.TempDir(), blocks*int64(block))
	ok(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return func(c *Config) { c.Spool, c.stageBytes = s, int64(20*block) }
}

// put writes data in requests of 100,000 bytes.
func put(t testing.TB, h *Handle, data []byte, off int) error {
	t.Helper()
	for i, part := range slices.Collect(slices.Chunk(data, 100_000)) {
		if _, err := h.WriteAt(t.Context(), part, int64(off+i*100_000)); err != nil {
			return err
		}
	}
	return nil
}

func flush(t testing.TB, h *Handle) {
	t.Helper()
	ok(t, h.Flush(t.Context()))
}

// wantSaved compares the newest upload of g/film with data.
func wantSaved(t testing.TB, w *world, data []byte) sdk.Entry {
	t.Helper()
	rows := w.Named("g", "film")
	e := rows[len(rows)-1]
	if !bytes.Equal(w.Content(e.Ref), data) {
		t.Errorf("the newest upload has %d bytes, want %d, or others", len(w.Content(e.Ref)), len(data))
	}
	return e
}

// blocksOf returns the blocks that were fetched.
func fetched(w *world, e sdk.Entry) string {
	return fmt.Sprint(slices.Sorted(maps.Keys(w.Fetched(e.Ref))))
}

func TestW17ChangeFetchesAndSendsItsBlocks(t *testing.T) {
	for _, tc := range []struct {
		name    string
		change  func(t *testing.T, h *Handle, data []byte) []byte
		fetched string
		sent    int
	}{
		{"opened and closed", func(_ *testing.T, _ *Handle, data []byte) []byte { return data }, "[]", 0},
		{"bytes in a block", func(t *testing.T, h *Handle, data []byte) []byte {
			copy(data[3*block+5:], "change")
			ok(t, put(t, h, []byte("change"), 3*block+5))
			return data
		}, "[3]", 1},
		{"the bytes that are there", func(t *testing.T, h *Handle, data []byte) []byte {
			ok(t, put(t, h, data[3*block+5:3*block+50], 3*block+5))
			return data
		}, "[3]", 0},
		{"appended", func(t *testing.T, h *Handle, data []byte) []byte {
			ok(t, put(t, h, []byte("line"), len(data)))
			return append(data, "line"...)
		}, "[10]", 1},
		{"whole blocks", func(t *testing.T, h *Handle, data []byte) []byte {
			ok(t, put(t, h, make([]byte, 2*block), 4*block))
			clear(data[4*block : 6*block])
			return data
		}, "[5]", 2}, // the first is not needed: all of it is written at once
		{"cut off in a block", func(t *testing.T, h *Handle, data []byte) []byte {
			ok(t, h.f.Truncate(t.Context(), int64(2*block+7), h))
			return data[:2*block+7]
		}, "[2]", 1},
		{"cut off between blocks", func(t *testing.T, h *Handle, data []byte) []byte {
			ok(t, h.f.Truncate(t.Context(), int64(4*block), h))
			return data[:4*block]
		}, "[]", 0},
		{"made longer", func(t *testing.T, h *Handle, data []byte) []byte {
			ok(t, h.f.Truncate(t.Context(), int64(13*block), h))
			return append(data, make([]byte, 13*block-len(data))...)
		}, "[10]", 3},
		{"cut off and made longer", func(t *testing.T, h *Handle, data []byte) []byte {
			ok(t, h.f.Truncate(t.Context(), int64(2*block), h))
			ok(t, h.f.Truncate(t.Context(), int64(5*block), h))
			return append(data[:2*block], make([]byte, 3*block)...)
		}, "[]", 3},
		{"written far behind its end", func(t *testing.T, h *Handle, data []byte) []byte {
			ok(t, put(t, h, []byte("end"), 20*block))
			return append(append(data, make([]byte, 20*block-len(data))...), "end"...)
		}, "[10]", 11},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, e, data := largeWorld(10*block + 5)
			m := mount(t, w, "bob")
			h := m.open("/g/film", OpenFlags{Read: true, Write: true})
			defer h.Release()
			want := tc.change(t, h, bytes.Clone(data))
			if got := fetched(w, e); got != tc.fetched || w.OpenedFromStart() != 0 {
				t.Errorf("blocks %s were fetched, want %s; the first one with the key: %d", got, tc.fetched, w.OpenedFromStart())
			}
			wantRead(t, h, want, max(0, len(want)-3*block), 4*block)
			flush(t, h)
			if n := w.BlocksSent(); n != tc.sent {
				t.Errorf("%d blocks were sent, want %d", n, tc.sent)
			}
			wantSaved(t, w, want)
			uploads := 1
			if bytes.Equal(want, data) {
				uploads = 0
			}
			m.wantCharges(1, uploads)
			flush(t, h)
			m.wantCharges(1, uploads)
		})
	}
}

// What a save leaves in memory is read from there, and the next change needs no more than its
// block.
func TestW18SaveAfterSave(t *testing.T) {
	w, e, data := largeWorld(10 * block)
	m := mount(t, w, "bob")
	h := m.open("/g/film", OpenFlags{Read: true, Write: true})
	for i := range 3 {
		copy(data[5*block:], fmt.Sprint("change ", i))
		ok(t, put(t, h, fmt.Append(nil, "change ", i), 5*block))
		ok(t, h.Fsync(t.Context()))
		e = wantSaved(t, w, data)
	}
	if n := w.BlocksSent(); n != 3 {
		t.Errorf("%d blocks were sent, want one for each save", n)
	}
	wantRead(t, h, data, 5*block, 100)
	if got := fetched(w, e); got != "[]" {
		t.Errorf("blocks %s were fetched after they were saved", got)
	}
	wantRead(t, h, data, 0, len(data))
	m.wantCharges(1, 3)
	copy(data[7*block:], "once more")
	ok(t, put(t, h, []byte("once more"), 7*block))
	flush(t, h)
	e = wantSaved(t, w, data)
	wantRead(t, h, data, 0, len(data)) // what was taken over was in memory
	if got := fetched(w, e); got != "[]" {
		t.Errorf("blocks %s were fetched that the version before had in memory", got)
	}
	h.Release()
	m.wantCharges(1, 4)
	proctest.Eventually(t, "no file stays open at the service", func() bool { return w.OpenBlocksNow() == 0 })
}

func TestW18PartsGoWhileTheProgramWrites(t *testing.T) {
	w, _, _ := largeWorld(1)
	m := mount(t, w, "bob", spooled(t, 1000))
	h := m.create("/g/film")
	data := noise(5 * treetest.PartBlocks * block)
	ok(t, put(t, h, data, 0))
	proctest.Eventually(t, "three parts are there", func() bool { return w.BlocksSent() == 3*treetest.PartBlocks })
	m.wantCharges(0, 0)
	if n := m.contents.Staging.Memory(); n > int64(20*block) {
		t.Errorf("%d bytes of memory are held", n)
	}
	wantRead(t, h, data, 0, len(data)) // from memory and spool
	copy(data[block:], "changed later")
	ok(t, put(t, h, []byte("changed later"), block))
	flush(t, h)
	if e := wantSaved(t, w, data); e.Hash != sha256.Sum256(data) {
		t.Error("the record has no hash, or another")
	}
	if n := w.BlocksSent(); n != 5*treetest.PartBlocks+1 {
		t.Errorf("%d blocks were sent, want each once and the changed one twice", n)
	}
	m.wantCharges(0, 1)
	h.Release()
	if m.contents.Staging.Memory() != 0 || m.contents.Staging.Spooled() != 0 {
		t.Errorf("%d bytes of memory and %d of the spool are held after the save", m.contents.Staging.Memory(), m.contents.Staging.Spooled())
	}
}

// A failed save keeps what arrived: the next one sends the rest.
func TestW18FailedSaveGoesOn(t *testing.T) {
	w, _, _ := largeWorld(1)
	m := mount(t, w, "bob", spooled(t, 1000))
	data := noise(2*treetest.PartBlocks*block + 10)
	h := m.create("/g/film")
	ok(t, put(t, h, data, 0))
	away := &sdk.Error{Op: "put part", Kind: sdk.ErrUnavailable, Err: errors.New("connection refused")}
	w.Fail("upload", away)
	wantClass(t, h.Flush(t.Context()), ClassUnreachable)
	sent := w.BlocksSent()
	if len(m.Pending()) != 1 || sent != 2*treetest.PartBlocks+1 {
		t.Errorf("%d blocks were sent, pending is %v", sent, m.Pending())
	}
	wantRead(t, h, data, 0, len(data))
	w.Fail("upload", nil)
	flush(t, h)
	h.Release()
	wantSaved(t, w, data)
	if w.BlocksSent() != sent {
		t.Errorf("%d blocks were sent again", w.BlocksSent()-sent)
	}
}

// A save that may be recorded is asked for again, and paid once, whatever the error.
func TestW18SaveThatMayBeRecordedIsPaidOnce(t *testing.T) {
	for _, lost := range []*sdk.Error{
		{Kind: sdk.ErrUnavailable},
		{Kind: sdk.ErrCorrupt, Code: wire.CodeReceipt},
		{Kind: sdk.ErrOther, Code: wire.CodeInternal},
		{Kind: sdk.ErrUnauthenticated, Code: wire.CodeInvalidKey},
	} {
		for _, name := range []string{"small", "film"} {
			w, _, _ := largeWorld(10 * block)
			w.Put("g", "bob", "small", []byte("what was before"))
			m := mount(t, w, "bob", ours, still)
			h := m.open("/g/"+name, OpenFlags{Read: true, Write: true})
			ok(t, put(t, h, []byte("other"), 0))
			w.Fail("uploaded", lost)
			for range 2 {
				if err := h.Flush(t.Context()); err == nil {
					t.Fatal("the answer was not lost")
				}
				w.Fail("uploaded", nil)
				w.Fail("upload", lost)
			}
			w.Fail("upload", nil)
			flush(t, h)
			h.Release()
			if list := m.names("/g"); len(list) != 2 {
				t.Errorf("%v: the group lists %q", lost, list)
			}
			m.wantCharges(1, 1)
		}
	}
}

// Where nothing can be taken over, all blocks are sent.
func TestW18NothingTakenOver(t *testing.T) {
	change := func(t *testing.T, h *Handle) { ok(t, put(t, h, []byte("change"), 3*block)) }
	for _, tc := range []struct {
		name string
		do   func(t *testing.T, w *world, m *mounted, e sdk.Entry, h *Handle)
		who  sdk.AccountID
	}{
		{"of another account", func(t *testing.T, _ *world, _ *mounted, _ sdk.Entry, h *Handle) { change(t, h) }, "alice"},
		{"in the trash by then", func(t *testing.T, w *world, _ *mounted, e sdk.Entry, h *Handle) {
			change(t, h)
			w.Edit("g", e.Ref, func(e *sdk.Entry) { e.Deleted = &sdk.Deletion{InTrash: true} })
		}, "bob"},
		{"renamed by others", func(t *testing.T, w *world, _ *mounted, e sdk.Entry, h *Handle) {
			change(t, h)
			ok(t, last(w.As("bob").RenameFile(t.Context(), "g", e.Ref, "elsewhere")))
		}, "bob"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, e, data := largeWorld(10*block + 5)
			m := mount(t, w, tc.who)
			h := m.open("/g/film", OpenFlags{Read: true, Write: true})
			defer h.Release()
			tc.do(t, w, m, e, h)
			copy(data[3*block:], "change")
			flush(t, h)
			if n := w.BlocksSent(); n < 11 {
				t.Errorf("%d blocks were sent, want all", n)
			}
			if e := wantSaved(t, w, data); e.Hash != sha256.Sum256(data) {
				t.Error("the record has no hash, or another")
			}
		})
	}
}

// The spool ends at its limit when a program writes, and holes take nothing of it.
func TestW17SpoolEndsAtWrite(t *testing.T) {
	w, _, _ := largeWorld(1)
	m := mount(t, w, "bob", spooled(t, 30))
	h := m.create("/g/film")
	data := noise(40 * block)
	ok(t, put(t, h, data, 0))
	failed := put(t, h, noise(100*block), len(data))
	wantClass(t, failed, ClassNoSpace)
	wantClass(t, h.Flush(t.Context()), ClassNoSpace) // half a save (W15)
	ok(t, h.f.Truncate(t.Context(), int64(len(data)), h))
	flush(t, h)
	h.Release()
	wantSaved(t, w, data)
	h = m.create("/g/hole")
	ok(t, h.f.Truncate(t.Context(), int64(500*block), h))
	flush(t, h)
	h.Release()
	if rows := w.Named("g", "hole"); len(rows) != 1 || rows[0].Size != int64(500*block) {
		t.Errorf("the hole became %v", rows)
	}
}

// A disk of the spool that fails is no lack of memory.
func TestW17DiskOfTheSpoolFails(t *testing.T) {
	failed := fmt.Errorf("read %w: %w", staging.ErrSpool, syscall.EIO)
	wantClass(t, wrapRemote("read", "/g/film", &content.NoRoom{Err: failed}), ClassOther)
	wantClass(t, wrapRemote("read", "/g/film", &content.NoRoom{Err: syscall.ENOMEM}), ClassNoMemory)
}

// A service, or a group, without blocks takes what fits into memory, as before.
func TestW17WithoutBlocks(t *testing.T) {
	w := treetest.NewWorld()
	w.Member("g", "bob")
	m := mount(t, w, "bob", func(c *Config) { c.WholeBytes, c.MaxFileBytes = 1000, int64(3*block) })
	data := noise(2 * block)
	ok(t, m.save("/g/film", string(data)))
	e := wantSaved(t, w, data)
	if e.Content != (sdk.Digest{}) {
		t.Error("it was saved in blocks")
	}
	h := m.create("/g/larger")
	defer h.Release()
	wantClass(t, put(t, h, noise(4*block), 0), ClassTooBig)
}

// A group that took files whole is believed to do so until an event says otherwise, and without one for a while.
func TestW17GroupTakesBlocksLater(t *testing.T) {
	for _, watched := range []bool{true, false} {
		w := treetest.NewWorld()
		w.Member("g", "bob")
		var c clock
		events := make(chan sdk.Event)
		m := mount(t, w, "bob", c.use, func(cfg *Config) {
			cfg.WholeBytes = 1000
			if watched {
				cfg.Watch = func(context.Context, sdk.Seq) (iter.Seq2[sdk.Event, error], error) {
					return treetest.Events(events), nil
				}
			}
		})
		t.Cleanup(func() { close(events) })
		asked := func(name string) int {
			ok(t, m.save("/g/"+name, string(noise(2*block))))
			return w.Begun("begin blocks")
		}
		if first, second := asked("a"), asked("b"); first != 1 || second != 1 {
			t.Errorf("asked to take blocks %d and %d times", first, second)
		}
		w.BlocksAbove = 1000 // from here on
		if watched {
			events <- sdk.Event{Kind: sdk.EventFormat, Group: "g"}
			events <- sdk.Event{Kind: "of no concern"} // it has seen the one before
		} else {
			c.ns.Add(int64(settingAge))
		}
		if n := asked("c"); n != 2 || w.Named("g", "c")[0].Content == (sdk.Digest{}) {
			t.Errorf("watched %t: it is not saved in blocks", watched)
		}
	}
}

// Programs read while the file is being sent, and a writer waits.
func TestW18ReadersDoNotWaitForTheSave(t *testing.T) {
	w, _, _ := largeWorld(1)
	m := mount(t, w, "bob")
	data := noise(3 * block)
	h := m.create("/g/film")
	defer h.Release()
	ok(t, put(t, h, data, 0))
	release := w.Stall("put part")
	done := make(chan error, 1)
	go func() { done <- h.Flush(context.WithoutCancel(t.Context())) }()
	proctest.Eventually(t, "it is being sent", func() bool { return w.Hanging() > 0 })
	wantRead(t, h, data, 10, block)
	release()
	ok(t, <-done)
	wantSaved(t, w, data)
}

// A save sends the rest of a file while parts are on their way that were begun before it, and sends none of it twice.
func TestW18SaveWaitsForNoPart(t *testing.T) {
	const blocks = 6*treetest.PartBlocks + 3
	w, _, _ := largeWorld(1)
	m := mount(t, w, "bob")
	data := noise(blocks * block)
	h := m.create("/g/film")
	defer h.Release()
	arrive := w.Stall("put part")
	ok(t, put(t, h, data, 0))
	proctest.Eventually(t, "two parts are on their way", func() bool { return w.Hanging() == 2 })
	w.Stall("put part")() // the others pass
	done := make(chan error, 1)
	go func() { done <- h.Flush(context.WithoutCancel(t.Context())) }()
	proctest.Eventually(t, "the rest is sent", func() bool { return w.BlocksSent() == blocks-2*treetest.PartBlocks })
	select {
	case err := <-done:
		t.Errorf("saved without the parts on their way: %v", err)
	default:
	}
	arrive()
	ok(t, <-done)
	wantSaved(t, w, data)
	if n := w.BlocksSent(); n != blocks {
		t.Errorf("%d blocks were sent, of %d", n, blocks)
	}
}

// What a part on its way holds, and was written again before the save, is sent again, after it.
func TestW18ChangedWhileItWasOnItsWay(t *testing.T) {
	w, _, _ := largeWorld(1)
	m := mount(t, w, "bob")
	data := noise(6 * treetest.PartBlocks * block)
	h := m.create("/g/film")
	defer h.Release()
	arrive := w.Stall("put part")
	ok(t, put(t, h, data, 0))
	proctest.Eventually(t, "two parts are on their way", func() bool { return w.Hanging() == 2 })
	copy(data[5:], "changed")
	ok(t, put(t, h, []byte("changed"), 5))
	w.Stall("put part")()
	done := make(chan error, 1)
	go func() { done <- h.Flush(context.WithoutCancel(t.Context())) }()
	proctest.Eventually(t, "the rest is sent", func() bool { return w.BlocksSent() == 4*treetest.PartBlocks })
	arrive()
	ok(t, <-done)
	wantSaved(t, w, data)
}

// A large file lives under a scratch name, and is sent when it gets a real one; one that is removed is
// never sent.
func TestW18ScratchNames(t *testing.T) {
	w, _, _ := largeWorld(1)
	m := mount(t, w, "bob", spooled(t, 1000))
	data := noise(4 * treetest.PartBlocks * block)
	for _, name := range []string{"film.part", "gone.part"} {
		h := m.create("/g/" + name)
		ok(t, put(t, h, data, 0))
		flush(t, h)
		h.Release()
	}
	journal := m.create("/g/db-journal")
	ok(t, put(t, journal, data, 0))
	if n := w.Begun("begin blocks"); n != 0 {
		t.Errorf("%d uploads were begun", n)
	}
	ok(t, m.dir("/g").Unlink(t.Context(), "db-journal"))
	journal.Release()
	g := m.dir("/g")
	ok(t, g.Rename(t.Context(), "film.part", g, "film", false))
	wantSaved(t, w, data)
	ok(t, g.Unlink(t.Context(), "gone.part"))
	if m.contents.Staging.Memory() != 0 || m.contents.Staging.Spooled() != 0 {
		t.Errorf("%d bytes of memory and %d of the spool are held", m.contents.Staging.Memory(), m.contents.Staging.Spooled())
	}
	h := m.create("/g/other") // removed while parts of it are on their way
	ok(t, put(t, h, data, 0))
	ok(t, g.Unlink(t.Context(), "other"))
	flush(t, h)
	h.Release()
	m.wantCharges(0, 1)
}

// Free space is what is left when all that was written is sent.
func TestA3StatfsCountsWhatIsWritten(t *testing.T) {
	w, _, _ := largeWorld(10 * block)
	m := mount(t, w, "bob", func(c *Config) {
		c.Storage = func(context.Context, sdk.GroupID) (sdk.Storage, error) {
			return sdk.Storage{Bytes: 1000, Left: 1 << 30}, nil
		}
	})
	free := m.StatFS(m.dir("/g")).FreeBytes
	h := m.open("/g/film", OpenFlags{Read: true, Write: true})
	defer h.Release()
	ok(t, put(t, h, []byte("x"), 3*block))
	ok(t, m.save("/g/small.tmp", "scratch is never sent"))
	if got := free - m.StatFS(m.dir("/g")).FreeBytes; got != int64(block) {
		t.Errorf("free space fell by %d for one changed block", got)
	}
}

// The bytes of an upload in one piece, written anew in blocks, are not saved again; the open
// file has them, and goes on.
func TestW3LargeFileInOnePiece(t *testing.T) {
	for _, tc := range []struct {
		name      string
		size      int
		truncate  bool
		retrieves int
	}{
		{"rewritten", 5*block + 7, false, 1},
		{"truncated and rewritten", 5*block + 7, true, 0},
		{"cut off until it is small", 900, true, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := treetest.NewWorld()
			w.Member("g", "alice", "bob")
			data := noise(tc.size)
			w.Put("g", "bob", "film", data)
			w.BlocksAbove = 1000 // from here on
			m := mount(t, w, "bob")
			h := m.open("/g/film", OpenFlags{Read: true, Write: true, Truncate: tc.truncate})
			ok(t, put(t, h, noise(5*block), tc.size))
			ok(t, put(t, h, data, 0))
			ok(t, h.f.Truncate(t.Context(), int64(tc.size), h))
			ok(t, h.Fsync(t.Context()))
			m.wantCharges(tc.retrieves, 0)
			wantRead(t, h, data, 0, len(data))
			data[3]++
			ok(t, put(t, h, data[3:4], 3))
			flush(t, h)
			wantSaved(t, w, data)
			m.wantCharges(tc.retrieves, 1)
			h.Release()
		})
	}
}

// A large file that stays open, or that could not be saved, takes the spool and not all memory.
func TestW17LargeFileLeavesMemoryToOthers(t *testing.T) {
	w, _, _ := largeWorld(1)
	m := mount(t, w, "bob", spooled(t, 1000), func(c *Config) { c.stageBytes, c.StagingBytes = 0, int64(32*block) })
	h, other := m.create("/g/film"), m.create("/g/other")
	defer h.Release()
	defer other.Release()
	ok(t, put(t, h, noise(100*block), 0))
	ok(t, put(t, other, noise(20*block), 0))
	if n := m.contents.Staging.Memory(); n > int64(20*block) {
		t.Errorf("two files take %d bytes of memory", n)
	}
}

// W3, W17: what equals a version that another client cut into blocks of another size is read right, by
// the program that saved it and by those that open it later.
func TestW17EqualsAVersionInOtherBlocks(t *testing.T) {
	for _, tc := range []struct {
		size   int
		closed bool // before it is read
	}{{block / 2, false}, {2 * block, false}, {block / 2, true}, {2 * block, true}} {
		t.Run(fmt.Sprint(tc), func(t *testing.T) {
			w, _, data := largeWorld(30*block + 5)
			m := mount(t, w, "bob", func(c *Config) { c.BlockBytes, c.CacheBytes = int64(tc.size), 12*int64(block) }, spooled(t, 100))
			h := m.open("/g/film", OpenFlags{Read: true, Write: true, Truncate: true})
			ok(t, put(t, h, data, 0))
			flush(t, h)
			if n := len(w.Named("g", "film")); n != 1 {
				t.Errorf("%d versions", n)
			}
			compare := func(h *Handle) {
				t.Helper()
				got := make([]byte, 777)
				for off := 0; off < len(data); off += 5000 {
					n, err := h.ReadAt(t.Context(), got, int64(off))
					if err != nil || !bytes.Equal(got[:n], data[off:min(off+777, len(data))]) {
						t.Fatalf("reads %d other bytes at %d, %v", n, off, err)
					}
				}
			}
			if tc.closed {
				h.Release()
				h = m.open("/g/film", OpenFlags{Read: true, Write: true})
			}
			compare(h)
			ok(t, put(t, h, []byte("new"), 3*block+5))
			copy(data[3*block+5:], "new")
			compare(h)
			flush(t, h)
			compare(h)
			h.Release()
			wantSaved(t, w, data)
			h = m.openAt("/g/film")
			defer h.Release()
			compare(h)
		})
	}
}

// W17: a file that was shortened and grown again has zeros where bytes were cut off, also where the cut was at the
// end of a block, and is saved so.
func TestW17ShortenedAndGrownAgain(t *testing.T) {
	for _, cut := range []int64{1, int64(block), int64(block) + 1, 2 * int64(block)} {
		w, _, data := largeWorld(3*block + 5)
		m := mount(t, w, "alice")
		h := m.open("/g/film", OpenFlags{Read: true, Write: true})
		f := h.File()
		ok(t, f.Truncate(t.Context(), cut, h))
		ok(t, f.Truncate(t.Context(), int64(len(data)), h))
		flush(t, h)
		h.Release()
		want := append(bytes.Clone(data[:cut]), make([]byte, int64(len(data))-cut)...)
		other := mount(t, w, "bob")
		got, err := other.read("/g/film")
		ok(t, err)
		if got != string(want) {
			t.Errorf("cut at %d: other bytes", cut)
		}
		m.wantCharges(2, 1)
	}
}

// W3: a large file that is in memory, and of which a program writes the same bytes again, from the middle of a block to
// the end of another, is not bought again.
func TestW3SameBytesAcrossBlocksAreFree(t *testing.T) {
	w, _, data := largeWorld(3*block + 5)
	m := mount(t, w, "alice")
	wantRead(t, m.openAt("/g/film"), data, 0, len(data))
	h := m.open("/g/film", OpenFlags{Read: true, Write: true})
	ok(t, put(t, h, data[block/2:2*block], block/2))
	flush(t, h)
	h.Release()
	m.wantCharges(1, 0)
}
