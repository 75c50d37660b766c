package tree

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/fs/tree/report"
	"github.com/svcfs/svcfs/fs/tree/treetest"
	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/outbox"
	"github.com/svcfs/svcfs/sdk/outbox/outboxtest"
	"github.com/svcfs/svcfs/sdk/view"
	"github.com/svcfs/svcfs/sdk/wire"
)

// boxed is a mount with an outbox.
type boxed struct {
	*mounted
	box     *outbox.Outbox
	dir     string
	service *outboxtest.Service
	away    atomic.Pointer[error] // what every request of the outbox gets; nil = none
	change  []func(*Config)
	keys    outbox.Keys
	who     sdk.AccountID
}

var errAway error = &sdk.Error{Op: "upload", Kind: sdk.ErrUnavailable, Err: errors.New("connection refused")}

// mountBoxed mounts with an outbox of alice, whose service is the world.
func mountBoxed(t *testing.T, w *world, change ...func(*Config)) *boxed {
	t.Helper()
	b := mountBoxedAs(t, w, "alice", "g", append([]func(*Config){ours}, change...)...)
	b.service.Mine = append(b.service.Mine, sdk.Group{ID: "h"})
	return b
}

// mountBoxedAs mounts with an outbox of an account, which has one group.
func mountBoxedAs(t *testing.T, w *world, who sdk.AccountID, g sdk.GroupID, change ...func(*Config)) *boxed {
	t.Helper()
	b := &boxed{dir: t.TempDir() + "/box", change: change, who: who}
	person := w.As(who)
	b.service = &outboxtest.Service{ID: who, Mine: []sdk.Group{{ID: g}}}
	b.service.Refuse = func(string, *outbox.Upload) error {
		if err := b.away.Load(); err != nil {
			return *err
		}
		return nil
	}
	b.service.Version = func(f outbox.From) ([]byte, error) { return w.Content(f.Ref), nil }
	pool := mem.NewPool()
	b.service.Record = func(l *outbox.Upload, content []byte) outbox.Sent {
		buf, err := pool.Get(0)
		if err == nil {
			err = buf.Resize(int64(len(content)))
		}
		if err != nil {
			return outbox.Sent{Err: err}
		}
		defer buf.Release()
		copy(buf.Bytes(), content)
		r, err := person.Upload(context.Background(), l.Group, l.Name, buf,
			sdk.PutOptions{Attributes: l.Attributes, Base: l.Base, Upon: l.Upon})
		return outbox.Sent{Receipt: r, Err: err}
	}
	b.mount(t, w)
	t.Cleanup(func() { _ = b.box.Close() })
	return b
}

func (b *boxed) mount(t *testing.T, w *world) {
	t.Helper()
	var tree atomic.Pointer[Tree]
	box, err := outbox.New(b.dir, outbox.Config{Remote: b.service, Keys: b.keys, Coalesce: -1, Gather: -1, Told: func(i outbox.Item, r sdk.Receipt) {
		if t := tree.Load(); t != nil {
			t.Told(i, r)
		}
	}})
	ok(t, err)
	b.box = box
	b.mounted = mount(t, w, b.who, append([]func(*Config){func(c *Config) { c.Outbox = box }}, b.change...)...)
	tree.Store(b.Tree)
	b.AddWaiting()
}

// again mounts anew, as after a crash.
func (b *boxed) again() {
	b.t.Helper()
	b.restart(func() {})
}

// restart does something between the end of a mount and the beginning of the next.
func (b *boxed) restart(between func()) {
	b.t.Helper()
	b.end()
	between()
	b.mount(b.t.(*testing.T), b.w)
}

func (b *boxed) end() {
	b.t.Helper()
	_ = b.Tree.Close()
	ok(b.t, b.box.Close())
}

func (b *boxed) down() { b.away.Store(&errAway) }
func (b *boxed) up() {
	b.away.Store(nil)
	b.box.Again()
}

// drained waits until nothing waits.
func (b *boxed) drained() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), proctest.Hang)
	defer cancel()
	if left := b.box.Drain(ctx); len(left) > 0 {
		b.t.Fatalf("left: %+v", left)
	}
}

func (b *boxed) wantState(path, want string) {
	b.t.Helper()
	if got := b.node(path).(*File).OwnXattrs()["user.svcfs.state"]; got != want {
		b.t.Errorf("%s is %s, want %s", path, got, want)
	}
}

func newBoxWorld() *world {
	w := treetest.NewWorld()
	w.Member("g", "alice", "bob")
	w.Member("h", "alice")
	return w
}

// W10: the record of a save that waited moves no time of the file: a program that reads the file meanwhile, such as
// tar, would take that for a change.
func TestW10RecordOfAWaitingSaveMovesNoTime(t *testing.T) {
	b := mountBoxed(t, newBoxWorld())
	b.down()
	ok(t, b.save("/g/a", "one"))
	ok(t, b.save("/g/a", "twenty-two"))
	was := b.node("/g/a").Attr()
	b.up()
	b.drained()
	b.wantState("/g/a", "cached")
	if now := b.node("/g/a").Attr(); !now.Ctime.Equal(was.Ctime) || !now.Mtime.Equal(was.Mtime) {
		t.Errorf("ctime %v and mtime %v became %v and %v", was.Ctime, was.Mtime, now.Ctime, now.Mtime)
	}
}

// O1: close returns once the save is on the disk; what waits can be read, is listed, and is the
// same file once it is recorded.
func TestO1WhatWaitsIsThere(t *testing.T) {
	w := newBoxWorld()
	b := mountBoxed(t, w)
	b.down()
	ok(t, b.save("/g/a", "one"))
	ino := b.node("/g/a").Attr().Ino
	b.wantState("/g/a", "pending")
	b.wantContent("/g/a", "one")
	b.wantNames("/g", "a")
	if x := b.node("/g/a").(*File).OwnXattrs(); x["user.svcfs.ref"] != "" || x["user.svcfs.seq"] != "" {
		t.Errorf("what waits has %v", x)
	}
	if v := b.groups["g"].names["a"]; len(v.waiting) != 1 || len(v.entries) != 0 || b.groups["g"].view.Len() != 0 {
		t.Error("what waits is among the records")
	}
	if text := string(report.ShowPending(append(b.Pending(), b.unrecorded.inOutbox()...))); !strings.Contains(text, "/g/a") {
		t.Errorf("pending is %q", text)
	}
	if s := b.Status().Outbox; s == nil || s.Items != 1 {
		t.Errorf("status %+v", s)
	}
	b.wantCharges(0, 0)
	b.up()
	b.drained()
	b.wantState("/g/a", "cached")
	b.wantContent("/g/a", "one")
	b.wantCharges(0, 1)
	if e := b.node("/g/a").(*File).entry.Load(); b.groups["g"].view.Entry(e.Ref).Number == 0 {
		t.Error("the number of the record is not known")
	}
	if b.node("/g/a").Attr().Ino != ino {
		t.Error("it is another file now")
	}
	ok(t, b.Refresh(t.Context()))
	b.wantNames("/g", "a")
	b.wantNames("/g/.svcfs/history/a", versionOf(t, b))
}

func versionOf(t *testing.T, b *boxed) string {
	list := b.names("/g/.svcfs/history/a")
	if len(list) != 1 {
		t.Fatalf("versions %v", list)
	}
	return list[0]
}

// O1: what waits is read from the disk once it has left the memory, and costs nothing.
func TestO1ReadFromTheDisk(t *testing.T) {
	b := mountBoxed(t, newBoxWorld())
	b.down()
	ok(t, b.save("/g/a", "one"))
	b.contents.Cache.Purge(func(cache.Key) bool { return true })
	b.wantContent("/g/a", "one")
	b.wantCharges(0, 0)
}

// O4, O7: saves upon saves that wait are one version, and no conflict.
func TestO4SavesUponSaves(t *testing.T) {
	w := newBoxWorld()
	b := mountBoxed(t, w)
	ok(t, b.save("/g/a", "zero"))
	b.drained()
	b.down()
	ok(t, b.save("/g/other", "x"))
	waitTried(b)
	for _, text := range []string{"one", "two", "three"} {
		ok(t, b.save("/g/a", text))
	}
	b.wantContent("/g/a", "three")
	b.up()
	b.drained()
	b.wantContent("/g/a", "three")
	b.wantNames("/g", "a", "other")
	b.wantCharges(0, 3)
	ok(t, b.save("/g/a", "four"))
	b.drained()
	b.wantNames("/g", "a", "other")
}

// O7: what somebody else saved meanwhile stays the newest; the save from here has a name of its own.
func TestO7ConflictOnTheMount(t *testing.T) {
	w := newBoxWorld()
	b := mountBoxed(t, w)
	ok(t, b.save("/g/a.txt", "zero"))
	b.drained()
	b.down()
	ok(t, b.save("/g/a.txt", "mine"))
	for _, text := range []string{"theirs 1", "theirs 2", "theirs"} {
		w.Put("g", "bob", "a.txt", []byte(text))
	}
	ok(t, b.Refresh(t.Context()))
	b.wantContent("/g/a.txt", "mine")
	b.up()
	b.drained()
	ok(t, b.Refresh(t.Context()))
	b.wantContent("/g/a.txt", "theirs")
	list := b.names("/g")
	if len(list) != 2 || !strings.HasPrefix(list[0], "a (conflict alice ") || !strings.HasSuffix(list[0], ").txt") {
		t.Fatalf("names %v", list)
	}
	b.wantContent("/g/"+list[0], "mine")
	wantUpon(t, w, "g", list[0], w.Named("g", "a.txt")[0].Ref)
	if text := string(b.errors.Show()); !strings.Contains(text, "\tconflict\t") {
		t.Errorf("errors: %s", text)
	}
}

// O7: a file that was made anew and renamed over another replaces the version that its program had opened.
func TestO7ReplacedByRename(t *testing.T) {
	w := newBoxWorld()
	b := mountBoxed(t, w)
	ok(t, b.save("/g/a.txt", "zero"))
	b.drained()
	sed := Caller{PID: 7}
	b.open("/g/a.txt", OpenFlags{Read: true, Caller: sed}).Release()
	_, h, err := b.dir2("/g").Create(t.Context(), "sedA1b2C3", true, OpenFlags{Write: true, Caller: sed})
	ok(t, err)
	b.write(h, "zero and mine", 0)
	w.Put("g", "bob", "a.txt", []byte("theirs"))
	ok(t, b.Refresh(t.Context()))
	ok(t, h.Flush(t.Context()))
	h.Release()
	ok(t, b.dir2("/g").Rename(t.Context(), "sedA1b2C3", b.dir2("/g"), "a.txt", false))
	b.drained()
	ok(t, b.Refresh(t.Context()))
	b.wantContent("/g/a.txt", "theirs")
	list := b.names("/g")
	if len(list) != 2 || !strings.HasPrefix(list[0], "a (conflict alice ") {
		t.Fatalf("names %v", list)
	}
	b.wantContent("/g/"+list[0], "zero and mine")
	if text := string(b.errors.Show()); !strings.Contains(text, "\tconflict\t") {
		t.Errorf("errors: %s", text)
	}
}

// O10: what waits can be renamed and removed, and other files are as ever.
func TestO10RenameAndRemoveWhatWaits(t *testing.T) {
	w := newBoxWorld()
	b := mountBoxed(t, w)
	ok(t, b.save("/g/old", "zero"))
	b.drained()
	b.down()
	ok(t, b.save("/g/first", "x")) // it is tried, and keeps the others back
	waitTried(b)
	ok(t, b.save("/g/a", "one"))
	ok(t, b.save("/g/b", "two"))
	g := b.dir2("/g")
	ok(t, g.Rename(t.Context(), "a", g, "c", false))
	ok(t, g.Unlink(t.Context(), "b"))
	b.wantNames("/g", "c", "first", "old")
	b.wantContent("/g/c", "one")
	wantClass(t, g.Rename(t.Context(), "first", g, "second", false), ClassUnreachable)
	wantClass(t, g.Unlink(t.Context(), "first"), ClassUnreachable)
	b.up()
	b.drained()
	ok(t, b.Refresh(t.Context()))
	b.wantNames("/g", "c", "first", "old")
	b.wantCharges(0, 3)
	ok(t, b.save("/g/old", "new")) // recorded before: the rename comes after the save
	ok(t, g.Rename(t.Context(), "old", g, "renamed", false))
	b.wantContent("/g/renamed", "new")
	ok(t, g.Unlink(t.Context(), "c"))
	b.drained()
	ok(t, b.Refresh(t.Context()))
	b.wantNames("/g", "first", "renamed")
}

func (b *boxed) dir2(p string) *Dir { return b.mounted.dir(p) }

// waitTried waits until the first item was sent in vain.
func waitTried(b *boxed) {
	b.t.Helper()
	waitFor(b.t, func() bool { return b.box.Status().Reason != "" })
}

// O9: after a restart what waits is there again, under its name, refuses to be read or saved over until
// its key is fetched, and is sent.
func TestO9WhatWaitsAfterARestart(t *testing.T) {
	w := newBoxWorld()
	b := mountBoxed(t, w)
	ok(t, b.save("/g/old", "zero"))
	b.drained()
	b.down()
	ok(t, b.save("/g/new", "one"))
	ok(t, b.save("/g/old", "two"))
	b.again()
	b.wantNames("/g", "old") // without a keyring the names are not known yet
	b.up()
	b.drained()
	b.wantNames("/g", "new", "old")
	b.wantContent("/g/old", "two")
	if r, _ := w.Charged(); r > 1 {
		t.Errorf("%d retrievals", r)
	}
}

// O9: with a keyring the names are there before the keys of the files: until those come, a name is not read
// and not saved over.
func TestO9NamesBeforeTheirKeys(t *testing.T) {
	b := mountBoxed(t, newBoxWorld())
	b.keys.Names, _ = format.RandomKey()
	b.again()
	b.down()
	ok(t, b.save("/g/new", "one"))
	b.again()
	waitFor(t, func() bool { return len(b.names("/g")) == 1 })
	_, err := b.read("/g/new")
	wantClass(t, err, ClassUnreachable)
	_, err = b.node("/g/new").(*File).Open(t.Context(), OpenFlags{Write: true, Truncate: true})
	wantClass(t, err, ClassUnreachable)
	b.up()
	b.drained()
	b.wantContent("/g/new", "one")
}

// O8: a lost group takes what waits along; nothing of it can be read, and its items are parked.
func TestO8LostGroup(t *testing.T) {
	w := newBoxWorld()
	b := mountBoxed(t, w)
	b.down()
	ok(t, b.save("/g/a", "one"))
	waitTried(b)
	h, err := b.node("/g/a").(*File).Open(t.Context(), OpenFlags{Read: true})
	ok(t, err)
	defer h.Release()
	w.Revoke("g", "alice")
	ok(t, b.Refresh(t.Context()))
	if text, err := readAll(t, h); err == nil {
		t.Errorf("read %q", text)
	}
	waitFor(t, func() bool { l := b.box.Items(); return len(l) == 1 && l[0].State == "parked" && l[0].Locked })
}

func waitFor(t testing.TB, is func() bool) {
	t.Helper()
	proctest.Eventually(t, "the outbox is so far", is)
}

// O6: the budget is reserved when a save is queued, and what is not recorded is given back.
func TestO6BudgetIsReserved(t *testing.T) {
	one, err := wire.ParseTokens("1")
	ok(t, err)
	two, _ := one.Add(one)
	b := mountBoxed(t, newBoxWorld(), func(c *Config) {
		c.Budget = two
		c.Price = func(string) (sdk.Amount, bool) { return one, true }
	})
	b.down()
	ok(t, b.save("/g/first", "1"))
	waitTried(b)
	ok(t, b.save("/g/a", "1"))
	wantClass(t, b.save("/g/b", "1"), ClassBudget)
	ok(t, b.dir2("/g").Unlink(t.Context(), "a"))
	ok(t, b.save("/g/b", "22"))
	b.up()
	b.drained()
	if s := b.Status().Spent; s != "2" {
		t.Errorf("spent %s", s)
	}
}

// O11: a full outbox saves as a mount without one; while the service is away that is no space.
func TestO11FullOutbox(t *testing.T) {
	w := newBoxWorld()
	b := mountBoxed(t, w)
	full := &fullBox{Outbox: b.box}
	b.queue.Outbox = full
	ok(t, b.save("/g/a", "one"))
	b.wantCharges(0, 1)
	b.wantState("/g/a", "cached")
	w.Fail("upload", errAway)
	err := b.save("/g/b", "one")
	wantClass(t, err, ClassNoSpace)
	if !strings.Contains(err.Error(), ", and the service is away") {
		t.Errorf("it tells %q", err)
	}
}

type fullBox struct{ Outbox }

func (f *fullBox) Put(context.Context, outbox.Save) (outbox.Item, error) {
	return outbox.Item{}, outbox.ErrFull
}

// O14: with --outbox-fsync=record fsync waits for the record.
func TestO14FsyncWaitsForTheRecord(t *testing.T) {
	for _, record := range []bool{false, true} {
		w := newBoxWorld()
		b := mountBoxed(t, w, func(c *Config) { c.FsyncRecord = record })
		b.down()
		h := b.create("/g/a")
		_, err := h.WriteAt(t.Context(), []byte("x"), 0)
		ok(t, err)
		if err := h.Fsync(t.Context()); (err != nil) != record {
			t.Errorf("record %v: %v", record, err)
		} else if record {
			wantClass(t, err, ClassUnreachable)
		}
		h.Release()
		b.up()
		b.drained()
	}
}

// O3: a file in blocks comes after what waits of its group.
func TestO3LargeFilesComeAfterWhatWaits(t *testing.T) {
	w := newBoxWorld()
	w.BlocksAbove = 8 << 10
	b := mountBoxed(t, w)
	large := strings.Repeat("0123456789abcdef", 2<<10)
	b.down()
	ok(t, b.save("/g/a", "one"))
	waitTried(b)
	ok(t, b.save("/g/large", large))
	if got, err := b.read("/g/large"); err != nil || got != large {
		t.Errorf("it holds %d bytes, %v", len(got), err)
	}
	b.again()
	if b.down(); b.box.Status().Items != 2 {
		t.Errorf("%+v waits", b.box.Status())
	}
	b.up()
	b.drained()
	ok(t, b.save("/g/b", "two"))
	ok(t, b.save("/g/large2", large))
	b.drained()
	rows, err := w.As("alice").Entries(t.Context(), "g", view.New())
	ok(t, err)
	var names []string
	for _, e := range rows {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "a large b large2" {
		t.Errorf("recorded %s", got)
	}
}

// O7, O10: what waits and gets the name of a recorded file replaces that one; it is no conflict.
func TestO10RenameOntoARecordedName(t *testing.T) {
	b := mountBoxed(t, newBoxWorld())
	ok(t, b.save("/g/old", "zero"))
	b.drained()
	b.down()
	ok(t, b.save("/g/first", "x"))
	waitTried(b)
	ok(t, b.save("/g/new", "one"))
	g := b.dir2("/g")
	ok(t, g.Rename(t.Context(), "new", g, "old", false))
	b.wantContent("/g/old", "one")
	ok(t, b.save("/g/old", "two"))
	b.up()
	b.drained()
	ok(t, b.Refresh(t.Context()))
	b.wantNames("/g", "first", "old")
	b.wantContent("/g/old", "two")
	b.wantCharges(0, 3)
}

// O10: a rename that fails, because what it renames was sent and has no answer, takes nothing from what waits
// under the name that it would replace.
func TestO10FailedRenameKeepsWhatItWouldReplace(t *testing.T) {
	b := mountBoxed(t, newBoxWorld())
	b.down()
	ok(t, b.save("/g/first", "x"))
	waitTried(b)
	ok(t, b.save("/g/target", "kept"))
	g := b.dir2("/g")
	h := b.mounted.open("/g/first", OpenFlags{Read: true, Write: true})
	ok(t, put(t, h, []byte("changed"), 0))
	wantClass(t, g.Rename(t.Context(), "first", g, "target", false), ClassUnreachable)
	b.wantContent("/g/target", "kept")
	flush(t, h)
	h.Release()
	b.up()
	b.drained()
	ok(t, b.Refresh(t.Context()))
	b.wantNames("/g", "first", "target")
	b.wantContent("/g/first", "changed")
	b.wantContent("/g/target", "kept")
}

// O10: a rename of a recorded file that is open and changed takes nothing from what waits under the name that it
// would replace, while the service is away, and succeeds once it is back.
func TestO10RenameOntoWhatWaits(t *testing.T) {
	b := mountBoxed(t, newBoxWorld())
	ok(t, b.save("/g/old", "zero"))
	b.drained()
	b.down()
	ok(t, b.save("/g/first", "x"))
	waitTried(b)
	ok(t, b.save("/g/target", "kept"))
	g := b.dir2("/g")
	h := b.mounted.open("/g/old", OpenFlags{Read: true, Write: true})
	defer h.Release()
	ok(t, put(t, h, []byte("changed"), 0))
	wantClass(t, g.Rename(t.Context(), "old", g, "target", false), ClassUnreachable)
	b.wantNames("/g", "first", "old", "target")
	b.wantContent("/g/target", "kept")
	b.up()
	b.drained()
	ok(t, g.Rename(t.Context(), "old", g, "target", false))
	flush(t, h)
	b.drained()
	ok(t, b.Refresh(t.Context()))
	b.wantNames("/g", "first", "target")
	b.wantContent("/g/target", "changed")
}

// O10: a rename waits for the answer to what it replaces, when that was sent.
func TestO10RenameOntoWhatWasSent(t *testing.T) {
	b := mountBoxed(t, newBoxWorld())
	ok(t, b.save("/g/old", "zero"))
	b.drained()
	answer, record := make(chan struct{}), b.service.Record
	b.service.Record = func(l *outbox.Upload, content []byte) outbox.Sent {
		<-answer
		return record(l, content)
	}
	ok(t, b.save("/g/target", "kept"))
	waitFor(t, func() bool { items := b.box.Items(); return len(items) == 1 && items[0].Tried })
	g := b.dir2("/g")
	h := b.mounted.open("/g/old", OpenFlags{Read: true, Write: true})
	defer h.Release()
	ok(t, put(t, h, []byte("changed"), 0))
	impatient, interrupt := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, interrupt)
	wantClass(t, g.Rename(impatient, "old", g, "target", false), ClassInterrupted)
	b.wantContent("/g/target", "kept")
	close(answer)
	ok(t, g.Rename(t.Context(), "old", g, "target", false))
	flush(t, h)
	b.drained()
	ok(t, b.Refresh(t.Context()))
	b.wantNames("/g", "target")
	b.wantContent("/g/target", "changed")
}

// O10: a folder that was removed while its files waited does not come back, and neither do they, however
// often the mount begins anew.
func TestO10RemovedFoldersStayAway(t *testing.T) {
	b := mountBoxed(t, newBoxWorld())
	b.down()
	ok(t, b.save("/g/first", "x"))
	waitTried(b)
	g := b.dir2("/g")
	for _, folder := range []string{"d", "e"} {
		_, err := g.Mkdir(t.Context(), folder)
		ok(t, err)
		ok(t, b.save("/g/"+folder+"/a", "one"))
		ok(t, b.save("/g/"+folder+"/b", "two"))
		ok(t, b.save("/g/"+folder+"/a", "three"))
	}
	ok(t, b.dir2("/g/d").Unlink(t.Context(), "a"))
	ok(t, b.dir2("/g/d").Unlink(t.Context(), "b"))
	ok(t, g.Rmdir(t.Context(), "d"))
	b.wantNames("/g", "e", "first")
	b.again()
	b.up()
	b.drained()
	b.wantNames("/g", "e", "first")
	b.wantCharges(0, 3)
	ok(t, b.dir2("/g/e").Unlink(t.Context(), "a"))
	ok(t, b.dir2("/g/e").Unlink(t.Context(), "b"))
	ok(t, b.dir2("/g").Rmdir(t.Context(), "e"))
	b.again()
	b.drained()
	ok(t, b.Refresh(t.Context()))
	b.wantNames("/g", "first")
}

// O7: a changed backup that gets the name back replaces what was saved there meanwhile; it is no conflict.
func TestO7ChangedBackupTakesTheNameBack(t *testing.T) {
	b := mountBoxed(t, newBoxWorld())
	ok(t, b.save("/g/a", "one"))
	g := b.dir2("/g")
	ok(t, g.Rename(t.Context(), "a", g, "a~", false))
	ok(t, b.save("/g/a", "two"))
	b.drained()
	ok(t, b.save("/g/a~", "three"))
	ok(t, g.Rename(t.Context(), "a~", g, "a", false))
	b.drained()
	b.wantNames("/g", "a")
	b.wantContent("/g/a", "three")
}

// O10: a backup of a file that waits stays a backup when the file is recorded, and takes its name back.
func TestO10BackupOfWhatWaits(t *testing.T) {
	b := mountBoxed(t, newBoxWorld())
	b.down()
	ok(t, b.save("/g/a", "one"))
	g := b.dir2("/g")
	ok(t, g.Rename(t.Context(), "a", g, "a~", false))
	b.up()
	b.drained()
	b.wantNames("/g", "a~")
	b.wantContent("/g/a~", "one")
	ok(t, g.Rename(t.Context(), "a~", g, "a", false))
	b.wantNames("/g", "a")
	b.wantContent("/g/a", "one")
	b.wantCharges(0, 1)
}

// bigBox is an outbox mount in whose group film is recorded, in ten blocks, and which has them all in memory.
func bigBox(t *testing.T) (b *boxed, data []byte) {
	t.Helper()
	w := newBoxWorld()
	w.BlocksAbove = 1000
	data = noise(10*block + 5)
	w.Put("g", "alice", "film", data)
	b = mountBoxed(t, w)
	h := b.openAt("/g/film")
	wantRead(t, h, data, 0, len(data))
	h.Release()
	return b, data
}

// gone takes the whole service away, not the outbox's alone.
func (b *boxed) gone() {
	b.down()
	b.w.Fail("begin blocks", errAway)
	b.w.Fail("read blocks", errAway)
}

func (b *boxed) returns() {
	b.w.Fail("begin blocks", nil)
	b.w.Fail("read blocks", nil)
	b.up()
}

// changeFilm writes text into a block of film, and saves.
func (b *boxed) changeFilm(data []byte, text string, at int) error {
	b.t.Helper()
	h := b.mounted.open("/g/film", OpenFlags{Read: true, Write: true})
	defer h.Release()
	ok(b.t, put(b.t, h, []byte(text), at))
	copy(data[at:], text)
	return h.Flush(b.t.Context())
}

// R3: the blocks of a large file that was saved here, and that are still in memory, are read without a charge when
// its record has come.
func TestR3SavedLargeFileIsReadForNothingOnceRecorded(t *testing.T) {
	w := newBoxWorld()
	w.BlocksAbove = 1000
	b := mountBoxed(t, w)
	data := noise(10*block + 5)
	ok(t, b.save("/g/film", string(data)))
	b.drained()
	b.wantState("/g/film", "cached")
	b.wantContent("/g/film", string(data))
	b.wantCharges(0, 1)
}

// O1, O3, O4: a changed large file waits as its changed blocks, behind what was closed before it, and a change upon
// what waits as all that changed since the recorded version. Only these blocks are sent.
func TestO1ChangedLargeFilesWait(t *testing.T) {
	b, data := bigBox(t)
	b.gone()
	ok(t, b.save("/g/first", "1"))
	waitTried(b)
	ok(t, b.changeFilm(data, "one", 3*block))
	b.wantState("/g/film", "pending")
	b.wantContent("/g/film", string(data))
	ok(t, b.changeFilm(data, "two", 5*block)) // O4: upon what waits, and in its place
	ok(t, b.save("/g/last", "2"))
	if used := b.box.Status().Bytes; used > int64(3*block) {
		t.Errorf("%d bytes wait", used)
	}
	b.again()
	b.returns()
	b.drained()
	b.wantContent("/g/film", string(data))
	wantSaved(t, b.w, data)
	var names []string
	for _, e := range b.w.Rows("g") {
		names = append(names, e.Name)
	}
	if got := strings.Join(names, " "); got != "film first film last" {
		t.Errorf("recorded %s", got)
	}
	if n := b.service.Blocks; n != 2 || b.w.BlocksSent() != 0 {
		t.Errorf("%d blocks were sent, want 2, and %d beside the outbox", n, b.w.BlocksSent())
	}
	ok(t, b.changeFilm(data, "three", 7*block))
	b.drained()
	wantSaved(t, b.w, data)
	if n := b.service.Blocks; n != 3 {
		t.Errorf("%d blocks were sent while the service answered, want 1", n-2)
	}
}

// O1: the same where nothing waits before it and nobody knows yet that the service is away. O7: what others saved
// meanwhile stays.
func TestO1ChangedLargeFileFindsTheServiceAway(t *testing.T) {
	for _, tc := range []struct {
		name string
		then func(t *testing.T, b *boxed)
		want string
	}{
		{"recorded", func(*testing.T, *boxed) {}, "film"},
		{"others saved it", func(_ *testing.T, b *boxed) { b.w.Put("g", "bob", "film", noise(5*block)) }, "film (conflict"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, data := bigBox(t)
			b.gone()
			ok(t, b.changeFilm(data, "one", 3*block))
			b.wantState("/g/film", "pending")
			tc.then(t, b)
			b.returns()
			b.drained()
			rows := b.w.Rows("g")
			last := rows[len(rows)-1]
			if !strings.HasPrefix(last.Name, tc.want) || !bytes.Equal(b.w.Content(last.Ref), data) {
				t.Errorf("recorded %s of %d bytes", last.Name, last.Size)
			}
			ok(t, b.Refresh(t.Context()))
			b.wantContent("/g/"+last.Name, string(data))
		})
	}
}

// O1: a change of a large file waits also where none of its blocks are here. While the service is away, the blocks that
// were changed are read, and no others; a file that is cut or grows waits, too.
func TestO1ChangedLargeFileThatIsNotHere(t *testing.T) {
	for _, size := range []int{10*block + 5, 4 * block, 5*block + 7, 12 * block} {
		b, data := bigBox(t)
		b.contents.Cache.Purge(func(k cache.Key) bool { return true })
		h := b.mounted.open("/g/film", OpenFlags{Read: true, Write: true})
		ok(t, put(t, h, []byte("one"), 3*block))
		copy(data[3*block:], "one")
		ok(t, b.node("/g/film").(*File).Truncate(t.Context(), int64(size), h))
		data = append(data, make([]byte, 3*block)...)[:size]
		clear(data[min(size, 10*block+5):])
		b.gone()
		ok(t, h.Flush(t.Context()))
		h.Release()
		b.wantState("/g/film", "pending")
		h = b.openAt("/g/film")
		wantRead(t, h, data, 3*block, block)
		if _, err := h.ReadAt(t.Context(), make([]byte, block), 0); err == nil {
			t.Error("a block was read that is neither here nor at the service")
		} else {
			wantClass(t, err, ClassUnreachable)
		}
		h.Release()
		ok(t, b.changeFilm(data, "two", 3*block+5)) // upon what waits, with the base away
		b.returns()
		b.drained()
		b.wantContent("/g/film", string(data))
		wantSaved(t, b.w, data)
		if n := b.service.Blocks; n > 2*3 { // the first was on its way
			t.Errorf("of %d bytes %d blocks were sent", size, n)
		}
	}
}

// O1: while it is not known whether a change was recorded without the outbox, which was full, it does not wait to be
// recorded once more.
func TestO1ChangeWhoseAnswerWasLost(t *testing.T) {
	b, data := bigBox(t)
	box := b.queue.Outbox
	b.queue.Outbox = &fullBox{Outbox: b.box}
	b.w.Fail("uploaded", errAway)
	wantClass(t, b.changeFilm(data, "one", 3*block), ClassNoSpace)
	b.w.Fail("uploaded", nil)
	b.queue.Outbox = box
	b.Drain(t.Context())
	b.drained()
	b.wantNames("/g", "film")
	wantSaved(t, b.w, data)
}

// O12: what has a temporary name is in the next mount, is sent once it has another one, and never before.
func TestO12TemporaryFilesAreKept(t *testing.T) {
	for name, size := range map[string]int{"small": 100, "large": 3 * block} {
		t.Run(name, func(t *testing.T) {
			b, _ := bigBox(t)
			content := string(noise(size))
			ok(t, b.save("/g/song.part", content))
			ok(t, b.save("/g/gone.tmp", "content"))
			ok(t, b.save("/g/left.part", "content"))
			again := func() {
				_ = b.Tree.Drain(t.Context())
				if left := b.box.Drain(t.Context()); len(left) == 0 || left[0].State != "parked" || !left[0].Temporary {
					t.Errorf("the outbox has %+v", left)
				}
				b.restart(func() {})
				waitFor(b.t, func() bool { return !slices.ContainsFunc(b.box.Items(), func(i outbox.Item) bool { return i.Locked }) })
			}
			again()
			b.wantContent("/g/song.part", content)
			ok(t, b.save("/g/song.part", content+" and on"))
			again()
			b.wantContent("/g/song.part", content+" and on")
			g := b.dir2("/g")
			ok(t, g.Unlink(t.Context(), "gone.tmp"))
			ok(t, g.Rename(t.Context(), "song.part", g, "song", false))
			again()
			b.wantNames("/g", "film", "left.part", "song")
			if got := string(b.w.Content(b.w.Named("g", "song")[0].Ref)); got != content+" and on" {
				t.Errorf("the service has %d bytes", len(got))
			}
			for _, e := range b.w.Rows("g") {
				if strings.HasSuffix(e.Name, ".part") || strings.HasSuffix(e.Name, ".tmp") {
					t.Errorf("%s was uploaded", e.Name)
				}
			}
		})
	}
}
