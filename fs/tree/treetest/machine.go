package treetest

import (
	"fmt"
	"maps"
	"slices"

	"pgregory.net/rapid"
)

// System is the real thing: one mount of a group, and the service behind it.
// Names lie in the group. Outcomes are those of the model, other errors their text.
type System interface {
	Create(name string) (Handle, string)
	Open(name string) (Handle, string)   // for reading and writing
	Touch(name string) string            // opens for writing, creating, and closes
	Resize(name string, size int) string // truncates by name
	Rename(from, to string) string
	Unlink(name string) string
	Link(from, to string) string
	Symlink(target, name string) string
	Readlink(name string) string // "" when it is no link
	Mkdir(name string) string
	Rmdir(name string) string
	Read(name string) (string, string)
	List() []string // also of folders, whose own names end with a slash

	Chmod(name string, runs bool) string
	Times(name string, when int64) string
	Note(name, value string) string // "" removes it
	Shown(name string) Shown
	Keep()                      // records the attributes that wait
	Recorded(name string) Shown // as another member sees it, who has just mounted

	Put(name, data string) // by another member, and then a look at the ledger
	PutLink(name, target string)
	Shred(nth int) // the nth upload, and then a look at the ledger
	Moved(nth int, name string)
	MovedFolder(from, to string) // by another member, and then a look at the ledger
	MadeFolder(name string)      // by another member, and then a look at the ledger
	RemovedFolder(name string)   // by the owner of the group elsewhere, and then a look at the ledger
	Removed(name string)         // by another member, and then a look at the ledger
	Restored(name string)
	Member(on bool) // whether the account is one, and then a look at the ledger
	Uploads() int   // charged to this mount
}

// Boxed is a system with an outbox.
type Boxed interface {
	System
	Leave()   // the service records nothing from now on
	Return()  // it does again, and has recorded all that waits
	Restart() // the mount is killed and begins anew, with the service back, which has recorded all that waits
}

// Handle is an open file.
type Handle interface {
	Read() (string, string)
	Write(data string, off int) string
	Truncate(size int) string
	Sync() string
	Close() string
}

// machine drives model and system with the same steps.
type machine struct {
	m       *model
	sys     System
	handles []opened
}

type opened struct {
	n *node
	h Handle
}

// Run checks sys, which must be fresh, with random steps.
func Run(t *rapid.T, sys System, allows Allows) {
	x := &machine{m: newModel(allows), sys: sys}
	defer x.closeAll()
	steps := map[string]func(*rapid.T){
		"":         x.check,
		"create":   x.create,
		"open":     x.open,
		"write":    x.write,
		"truncate": x.truncate,
		"touch":    x.touch,
		"resize":   x.resize,
		"sync":     x.sync,
		"close":    x.close,
		"rename":   x.rename,
		"save":     x.save,
		"half":     x.half,
		"unlink":   x.unlink,
		"link":     x.link,
		"chmod":    x.chmod,
		"times":    x.times,
		"note":     x.note,
		"again":    x.present(x.again),
		"symlink":  x.symlink,
		"putlink":  x.present(x.putLink),
		"mkdir":    x.mkdir,
		"rmdir":    x.rmdir,
		"movedir":  x.present(x.renameFolder),
		"put":      x.present(x.put),
		"shred":    x.present(x.shred),
		"moved":    x.present(x.moved),
		"removed":  x.present(x.removed),
		"movedall": x.present(x.movedFolder),
		"madedir":  x.present(x.madeFolder),
		"gonedir":  x.present(x.removedFolder),
		"restored": x.present(x.restored),
		"revoke":   x.present(x.revoke),
	}
	if !allows.Ours {
		for _, step := range []string{"chmod", "times", "note", "symlink", "putlink", "madedir", "gonedir"} {
			delete(steps, step)
		}
	}
	if boxed, ok := sys.(Boxed); ok && allows.Outbox {
		steps["leave"] = func(*rapid.T) { boxed.Leave(); x.m.away = true }
		steps["return"] = func(*rapid.T) { boxed.Return(); x.m.back() }
		steps["restart"] = func(t *rapid.T) { x.restart(t, boxed) }
	}
	t.Repeat(steps)
}

// present leaves a step out while the service is away: others are not seen then. With an outbox, and without Asides, it does so also
// while a file is open or changed, or has a name that others do not see: what began from an earlier version would
// be recorded under a name of its own (O7).
func (x *machine) present(step func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		kept := len(x.handles) > 0
		for name, n := range x.m.names {
			kept = kept || n.staged || n.ver != nil && (n.scratch || name != n.main)
		}
		if x.m.away || (x.m.allows.Outbox || x.m.allows.Ours && !x.m.allows.Asides) && kept {
			t.Skip("the service is away, or a file stands on what is recorded now")
		}
		step(t)
	}
}

// restart is kill -9 of the mount: what was not saved is gone, and what was saved is there.
func (x *machine) restart(t *rapid.T, sys Boxed) {
	if rapid.IntRange(0, 9).Draw(t, "rarely") > 2 {
		t.Skip("not now")
	}
	for len(x.handles) > 0 {
		o := x.handles[0]
		x.handles = x.handles[1:]
		equal(t, "close "+o.n.main, o.h.Close(), x.m.close(o.n))
		equal(t, "names", fmt.Sprint(x.sys.List()), fmt.Sprint(x.m.list()))
	}
	sys.Restart()
	x.m.back()
	x.m.forget()
}

func equal[V comparable](t *rapid.T, what string, got, want V) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, the model says %v", what, got, want)
	}
}

// denied wants an error or the end of the file, and no byte of content (M5).
func denied(t *rapid.T, what string, h Handle) {
	t.Helper()
	if got, how := h.Read(); how != Revoked && (how != OK || got != "") {
		t.Fatalf("%s: got %q, %s; want nothing", what, got, how)
	}
}

// names are few, so that they meet: real ones, backups of them and a temporary one.
func name() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"a", "b", "a~", "b~", "t.tmp", "d/a", "d/a~", "e/a"})
}

// recorded are names that others use.
func recorded() *rapid.Generator[string] { return rapid.SampledFrom([]string{"a", "b", "d/a", "e/a"}) }

func folder() *rapid.Generator[string] { return rapid.SampledFrom([]string{"d", "e"}) }

func data() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "x", "yy", "content", "more content", inside})
}

func (x *machine) create(t *rapid.T) {
	name := name().Draw(t, "name")
	n, want := x.m.create(name)
	h, got := x.sys.Create(name)
	equal(t, "create "+name, got, want)
	if n != nil {
		x.handles = append(x.handles, opened{n, h})
	}
}

func (x *machine) open(t *rapid.T) {
	name := name().Draw(t, "name")
	n, want := x.m.open(name)
	h, got := x.sys.Open(name)
	equal(t, "open "+name, got, want)
	if n != nil {
		x.handles = append(x.handles, opened{n, h})
	}
}

// handle picks an open file.
func (x *machine) handle(t *rapid.T) (opened, int) {
	if len(x.handles) == 0 {
		t.Skip("nothing is open")
	}
	i := rapid.IntRange(0, len(x.handles)-1).Draw(t, "handle")
	return x.handles[i], i
}

func (x *machine) write(t *rapid.T) {
	o, _ := x.handle(t)
	text, off := rapid.SampledFrom([]string{"x", "yy", "content"}).Draw(t, "data"), rapid.IntRange(0, 12).Draw(t, "at")
	if old := resized(o.n.data, max(len(o.n.data), off+len(text))); x.m.mayBuy(o.n, old[:off]+text+old[off+len(text):]) {
		t.Skip("it may be bought or not")
	}
	equal(t, "write "+o.n.main, o.h.Write(text, off), x.m.write(o.n, text, off))
}

func (x *machine) truncate(t *rapid.T) {
	o, _ := x.handle(t)
	size := rapid.IntRange(0, 12).Draw(t, "size")
	if x.m.mayBuy(o.n, resized(o.n.data, size)) {
		t.Skip("it may be bought or not")
	}
	equal(t, "truncate "+o.n.main, o.h.Truncate(size), x.m.truncate(o.n, size))
}

func (x *machine) touch(t *rapid.T) {
	name := name().Draw(t, "name")
	equal(t, "touch "+name, x.sys.Touch(name), x.m.touch(name))
}

func (x *machine) resize(t *rapid.T) {
	name, size := name().Draw(t, "name"), rapid.IntRange(0, 12).Draw(t, "size")
	if n := x.m.names[name]; n != nil && x.m.mayBuy(n, resized(n.data, size)) {
		t.Skip("it may be bought or not")
	}
	equal(t, "resize "+name, x.sys.Resize(name, size), x.m.resize(name, size))
}

func (x *machine) sync(t *rapid.T) {
	o, _ := x.handle(t)
	want := x.m.commit(o.n, true)
	if want == OK {
		x.m.keep(o.n)
	}
	equal(t, "fsync "+o.n.main, o.h.Sync(), want)
}

func (x *machine) close(t *rapid.T) {
	o, i := x.handle(t)
	x.handles = slices.Delete(x.handles, i, i+1)
	equal(t, "close "+o.n.main, o.h.Close(), x.m.close(o.n))
}

// save is the way in which programs save: create, write, close, rename.
func (x *machine) save(t *rapid.T) {
	text, to := data().Draw(t, "data"), name().Draw(t, "to")
	h, got := x.sys.Create("t.tmp")
	n, want := x.m.create("t.tmp")
	equal(t, "create", got, want)
	if n == nil {
		return // the name is that of a link
	}
	equal(t, "write", h.Write(text, 0), x.m.write(n, text, 0))
	equal(t, "close", h.Close(), x.m.close(n))
	equal(t, "rename to "+to, x.sys.Rename("t.tmp", to), x.m.rename("t.tmp", to))
}

// half is a program that ignores that a write is refused (W15).
func (x *machine) half(t *rapid.T) {
	text, name := data().Draw(t, "data"), name().Draw(t, "name")
	n, want := x.m.create(name)
	h, got := x.sys.Create(name)
	equal(t, "create "+name, got, want)
	if n == nil {
		return
	}
	if text != "" {
		equal(t, "write", h.Write(text, 0), OK)
	}
	equal(t, "write too far", h.Write("x", MaxBytes), TooBig)
	equal(t, "close "+name, h.Close(), TooBig)
	x.m.halfSave(n, text)
}

func (x *machine) rename(t *rapid.T) {
	from, to := name().Draw(t, "from"), name().Draw(t, "to")
	equal(t, "rename "+from+" to "+to, x.sys.Rename(from, to), x.m.rename(from, to))
}

func (x *machine) unlink(t *rapid.T) {
	name := name().Draw(t, "name")
	equal(t, "unlink "+name, x.sys.Unlink(name), x.m.unlink(name))
}

func (x *machine) link(t *rapid.T) {
	from, to := name().Draw(t, "from"), name().Draw(t, "to")
	if n := x.m.names[from]; n != nil && x.m.other(n) != "" {
		t.Skip("it has a link already")
	}
	equal(t, "link "+from+" to "+to, x.sys.Link(from, to), x.m.link(from, to))
}

// Targets of symbolic links lead nowhere: a program that follows one finds no file. A link
// of others is safe only with the first.
const inside, outside = "nowhere/x", "/nowhere/x"

func target() *rapid.Generator[string] { return rapid.SampledFrom([]string{inside, outside}) }

func (x *machine) symlink(t *rapid.T) {
	target, name := target().Draw(t, "target"), name().Draw(t, "name")
	equal(t, "symlink "+name, x.sys.Symlink(target, name), x.m.symlink(target, name))
}

func (x *machine) putLink(t *rapid.T) {
	target, name := target().Draw(t, "target"), recorded().Draw(t, "name")
	x.sys.PutLink(name, target)
	x.m.put(name, target, true)
}

func (x *machine) mkdir(t *rapid.T) {
	name := folder().Draw(t, "name")
	equal(t, "mkdir "+name, x.sys.Mkdir(name), x.m.mkdir(name))
}

func (x *machine) rmdir(t *rapid.T) {
	name := folder().Draw(t, "name")
	equal(t, "rmdir "+name, x.sys.Rmdir(name), x.m.rmdir(name))
}

func (x *machine) renameFolder(t *rapid.T) {
	from, to := folder().Draw(t, "from"), folder().Draw(t, "to")
	equal(t, "rename "+from+" to "+to, x.sys.Rename(from, to), x.m.renameFolder(from, to))
}

func (x *machine) put(t *rapid.T) {
	name, text := recorded().Draw(t, "name"), data().Draw(t, "data")
	x.sys.Put(name, text)
	x.m.put(name, text, false)
}

func (x *machine) shred(t *rapid.T) {
	if len(x.m.ledger) == 0 {
		t.Skip("nothing is uploaded")
	}
	i := rapid.IntRange(0, len(x.m.ledger)-1).Draw(t, "nth")
	if x.m.allows.Blocks && x.isUnder(x.m.ledger[i]) {
		t.Skip("a changed file stands on it")
	}
	x.sys.Shred(i)
	x.m.shred(x.m.ledger[i])
}

// isUnder reports whether changes that are not saved stand on an upload.
func (x *machine) isUnder(v *version) bool {
	stands := func(n *node) bool { return n.staged && n.ver == v }
	for _, n := range x.m.names {
		if stands(n) {
			return true
		}
	}
	return slices.ContainsFunc(x.handles, func(o opened) bool { return stands(o.n) })
}

// moved is a rename of one upload by another member.
func (x *machine) moved(t *rapid.T) {
	if len(x.m.ledger) == 0 {
		t.Skip("nothing is uploaded")
	}
	i, name := rapid.IntRange(0, len(x.m.ledger)-1).Draw(t, "nth"), recorded().Draw(t, "name")
	if !x.m.ledger[i].lives() {
		t.Skip("it is deleted")
	}
	x.sys.Moved(i, name)
	x.m.moved(x.m.ledger[i], name)
}

func (x *machine) chmod(t *rapid.T) {
	name, runs := name().Draw(t, "name"), rapid.Bool().Draw(t, "runs")
	equal(t, "chmod "+name, x.sys.Chmod(name, runs), x.m.setAttribute(name, func(s *Shown) string { s.Runs = runs; return OK }))
}

func (x *machine) times(t *rapid.T) {
	name, when := name().Draw(t, "name"), rapid.Int64Range(1, 3).Draw(t, "when")
	equal(t, "times of "+name, x.sys.Times(name, when), x.m.setAttribute(name, func(s *Shown) string { s.When = when; return OK }))
}

func (x *machine) note(t *rapid.T) {
	name, value := name().Draw(t, "name"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "value")
	equal(t, "note of "+name, x.sys.Note(name, value), x.m.setAttribute(name, func(s *Shown) string {
		if value == "" && s.Note == "" {
			return NoAttr
		}
		s.Note = value
		return OK
	}))
}

// again is another member who mounts now.
func (x *machine) again(t *rapid.T) {
	x.sys.Keep()
	for _, n := range x.m.names {
		x.m.keep(n)
	}
	for _, name := range []string{"a", "b", "d/a", "e/a"} {
		if v := x.m.newest(name); v != nil && !v.link {
			equal(t, "attributes of "+name+" to others", v.shown.without(x.sys.Recorded(name)), v.shown)
		}
	}
}

// without leaves out of other what the model does not know.
func (s Shown) without(other Shown) Shown {
	if s.When == 0 {
		other.When = 0
	}
	return other
}

// movedFolder is a rename of a folder by another member.
func (x *machine) movedFolder(t *rapid.T) {
	from, to := folder().Draw(t, "from"), folder().Draw(t, "to")
	x.sys.MovedFolder(from, to)
	x.m.movedFolder(from, to)
}

func (x *machine) madeFolder(t *rapid.T) {
	name := folder().Draw(t, "name")
	x.sys.MadeFolder(name)
	x.m.madeFolder(name)
}

func (x *machine) removedFolder(t *rapid.T) {
	name := folder().Draw(t, "name")
	x.sys.RemovedFolder(name)
	x.m.removedFolder(name)
}

// removed is a removal to the trash by another member, and restored the way back.
func (x *machine) removed(t *rapid.T) {
	name := recorded().Draw(t, "name")
	x.sys.Removed(name)
	x.m.remove(name)
}

func (x *machine) restored(t *rapid.T) {
	name := recorded().Draw(t, "name")
	x.sys.Restored(name)
	x.m.restore(name)
}

// revoke takes the group away: open files fail, and nothing is listed. Then the group is
// back.
func (x *machine) revoke(t *rapid.T) {
	if rapid.IntRange(0, 9).Draw(t, "rarely") > 0 {
		t.Skip("not now")
	}
	x.sys.Member(false)
	for _, o := range x.handles {
		denied(t, "reading after the revocation", o.h)
	}
	_, got := x.sys.Read("a")
	equal(t, "read by name after the revocation", got, NoEntry)
	x.closeAll()
	x.sys.Member(true)
	x.m.forget()
}

func (x *machine) closeAll() {
	for _, o := range x.handles {
		_ = o.h.Close() // what could not be saved is lost, as the test knows
	}
	x.handles = nil
}

// check compares everything that shows.
func (x *machine) check(t *rapid.T) {
	equal(t, "names", fmt.Sprint(x.sys.List()), fmt.Sprint(x.m.list()))
	equal(t, "uploads", x.sys.Uploads(), x.m.uploads)
	for _, name := range slices.Sorted(maps.Keys(x.m.names)) {
		n := x.m.names[name]
		got, how := x.sys.Read(name)
		if n.link {
			equal(t, "reading through "+name, how, NoEntry)
			equal(t, name+" leads to", x.sys.Readlink(name), n.data)
			continue
		}
		equal(t, name+" is a link to", x.sys.Readlink(name), "")
		equal(t, "attributes of "+name, n.shown.without(x.sys.Shown(name)), n.shown)
		if n.gone() {
			equal(t, "reading "+name, how, NoEntry)
			continue
		}
		equal(t, "reading "+name, how, OK)
		equal(t, name+" holds", got, n.data)
	}
	for _, o := range x.handles {
		if o.n.gone() {
			denied(t, "reading "+o.n.main+", which is open", o.h)
			continue
		}
		got, how := o.h.Read()
		equal(t, "reading "+o.n.main+", which is open", how, OK)
		equal(t, o.n.main+", which is open, holds", got, o.n.data)
	}
}
