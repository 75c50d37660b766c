package fs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
	"github.com/svcfs/svcfs/integration/proctest"
)

// watched is what inotify(7) calls the events that tests tell apart.
var watched = []struct {
	bit  uint32
	name string
}{{unix.IN_CREATE, "create"}, {unix.IN_DELETE, "delete"}, {unix.IN_DELETE_SELF, "delete self"},
	{unix.IN_MODIFY, "modify"}, {unix.IN_ATTRIB, "attrib"},
	{unix.IN_MOVED_FROM, "moved from"}, {unix.IN_MOVED_TO, "moved to"}, {unix.IN_CLOSE_WRITE, "close write"}}

// watcher is a program that watches files and folders.
type watcher struct {
	fd    int
	names map[int32]string
	seen  []string
}

func watch(m *mount, names ...string) *watcher {
	m.t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	ok(m.t, err)
	m.t.Cleanup(func() { _ = unix.Close(fd) })
	w := &watcher{fd: fd, names: make(map[int32]string)}
	var all uint32
	for _, e := range watched {
		all |= e.bit
	}
	for _, name := range names {
		wd, err := unix.InotifyAddWatch(fd, m.path(name), all)
		ok(m.t, err)
		w.names[int32(wd)] = name
	}
	return w
}

// events are what the watcher was told until now, and since the last call: "team: create f".
func (w *watcher) events() []string {
	buf := make([]byte, 64<<10)
	n, _ := unix.Read(w.fd, buf)
	for at := 0; at+unix.SizeofInotifyEvent <= n; {
		e := (*unix.InotifyEvent)(unsafe.Pointer(&buf[at]))
		at += unix.SizeofInotifyEvent
		name := strings.TrimRight(string(buf[at:at+int(e.Len)]), "\x00")
		at += int(e.Len)
		for _, known := range watched {
			if e.Mask&known.bit != 0 {
				w.seen = append(w.seen, strings.TrimSpace(w.names[e.Wd]+": "+known.name+" "+name))
			}
		}
	}
	return w.seen
}

// R7: programs that watch with inotify learn of what others do, once, and nothing comes of
// that.
func TestR7WatchersOfOthersChanges(t *testing.T) {
	m := mounting(t, remembers, confined, func(p *plan) { p.Ours = true })
	for _, name := range []string{"replaced", "renamed", "removed", "folder/removed", "open"} {
		m.put(name, "one")
		m.inode("team/" + name)
	}
	m.must(order{Do: "settle"})
	before := m.must(order{Do: "counts"}).Counts
	for _, tc := range []struct {
		name  string
		watch string // beside the folder of the group
		do    func()
		want  []string // in any order
	}{
		{"a new file", "team", func() { m.put("new", "one") }, []string{"team: create new", "team: close write new"}},
		{"a new folder", "team", func() { m.put("made/deep/f", "one") }, []string{"team: create made"}},
		{"a version", "team/replaced", func() {
			m.put("replaced", "two")
		}, []string{"team: create replaced", "team: close write replaced", "team: delete replaced",
			"team/replaced: delete self"}},
		{"a rename", "team/renamed", func() { m.must(order{Do: "moved", Group: "team", Size: 1, Name: "other"}) },
			[]string{"team: create other", "team: close write other", "team: delete renamed",
				"team/renamed: delete self"}},
		{"a removal", "team/removed", func() { m.must(order{Do: "removed", Group: "team", Name: "removed"}) },
			[]string{"team: delete removed", "team/removed: delete self"}},
		{"the last file of a folder", "team/folder", func() {
			m.must(order{Do: "removed", Group: "team", Name: "folder/removed"})
		}, []string{"team: delete folder", "team/folder: delete self"}},
		{"a recorded folder", "team", func() { m.must(order{Do: "made folder", Group: "team", Name: "empty"}) },
			[]string{"team: create empty"}},
		{"a removed folder", "team/empty", func() { m.must(order{Do: "removed folder", Group: "team", Name: "empty"}) },
			[]string{"team: delete empty", "team/empty: delete self"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in, of := watch(m, "team"), watch(m, tc.watch)
			tc.do()
			for _, want := range tc.want {
				proctest.BeforeAWatchEnds(t, want,
					func() bool { return slices.Contains(in.events(), want) || slices.Contains(of.events(), want) })
			}
			m.must(order{Do: "settle"})
			for _, got := range in.events() {
				if !slices.Contains(tc.want, got) {
					t.Errorf("watchers are told of %q", got)
				}
			}
		})
	}
	held, err := os.Open(m.path("team/open"))
	ok(t, err)
	before.Retrieves++
	in, of := watch(m, "team"), watch(m, "team/open")
	m.must(order{Do: "removed", Group: "team", Name: "open"})
	proctest.BeforeAWatchEnds(t, "the removal is told",
		func() bool { return slices.Contains(in.events(), "team: delete open") })
	ok(t, held.Close()) // at the latest then
	proctest.BeforeAWatchEnds(t, "the file is gone",
		func() bool { return slices.Contains(of.events(), "team/open: delete self") })
	if got := m.must(order{Do: "counts"}).Counts; got != before {
		t.Errorf("telling cost %+v, before %+v", got, before)
	}
	for name, want := range map[string]string{"replaced": "two", "other": "one", "new": "one", "made/deep/f": "one"} {
		if got := m.read("team/" + name); got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"renamed", "removed", "folder"} {
		if _, err := os.Lstat(m.path("team/" + name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is there: %v", name, err)
		}
	}
	in = watch(m, "team")
	m.write("team/here", "three")
	ok(t, os.Remove(m.path("team/here")))
	m.put("last", "one")
	proctest.BeforeAWatchEnds(t, "the last change is told",
		func() bool { return slices.Contains(in.events(), "team: close write last") })
	if got := in.events(); !slices.Equal(got, []string{"team: create here", "team: modify here",
		"team: close write here", "team: delete here", "team: create last", "team: close write last"}) {
		t.Errorf("of changes here and there watchers are told %q", got)
	}
}

// R7: a new file that a program has open when its watchers are told stays one file, whose name and
// descriptors show the same bytes.
func TestR7ToldFileStaysOne(t *testing.T) {
	for mode, name := range readsNames {
		t.Run(name, func(t *testing.T) {
			// the kernel asks for each name
			m := mounting(t, confined, func(p *plan) {
				p.Options.Reads, p.Options.Timeout, p.Ours, p.Deletes = Reads(mode), -1, true, true
			})
			in := watch(m, "team")
			known := m.must(order{Do: "known"}).Counts.Waiting
			m.put("f", "0123456789")
			held, err := os.OpenFile(m.path("team/f"), os.O_RDWR, 0)
			ok(t, err)
			defer held.Close()
			m.must(order{Do: "told", Group: "team", Name: "f"})
			proctest.BeforeAWatchEnds(t, "the new file is told",
				func() bool { return slices.Contains(in.events(), "team: close write f") })
			m.must(order{Do: "settle"})
			again, err := os.OpenFile(m.path("team/f"), os.O_RDWR|os.O_APPEND, 0)
			ok(t, err)
			defer again.Close()
			want := func(what, content string) {
				t.Helper()
				for at, f := range map[string]*os.File{"before": held, "after": again} {
					p := make([]byte, 100)
					if n, _ := unix.Pread(int(f.Fd()), p, 0); string(p[:n]) != content {
						t.Errorf("%s: what was opened %s the news reads %q, want %q", what, at, p[:n], content)
					}
				}
			}
			want("as recorded", "0123456789")
			_, err = held.WriteAt([]byte("changed"), 0)
			ok(t, err)
			want("written", "changed789")
			_, err = held.WriteAt([]byte("longer"), 10)
			ok(t, err)
			_, err = again.WriteString("!") // at the end, wherever that is by now
			ok(t, err)
			want("appended", "changed789longer!")
			if info, err := os.Stat(m.path("team/f")); err != nil || info.Size() != 17 ||
				inodeOf(t, held) != inodeOf(t, again) {
				t.Errorf("the name shows %v, %v; the descriptors have the numbers %d and %d", info, err,
					inodeOf(t, held), inodeOf(t, again))
			}
			ok(t, errors.Join(held.Close(), again.Close(), os.Remove(m.path("team/f"))))
			proctest.BeforeAWatchEnds(t, "the mount forgets the file",
				func() bool { return m.must(order{Do: "known"}).Counts.Waiting <= known })
		})
	}
}

// R7: nothing is told of a read-only mount, but that a watched file is gone.
func TestR7WatchersOfAReadOnlyMount(t *testing.T) {
	m := mounting(t, remembers, confined, func(p *plan) { p.Options.ReadOnly = true })
	m.put("f", "one")
	m.inode("team/f")
	in, of := watch(m, "team"), watch(m, "team/f")
	m.put("f", "two")
	proctest.BeforeAWatchEnds(t, "the old file is gone",
		func() bool { return slices.Contains(of.events(), "team/f: delete self") })
	m.put("new", "one")
	m.must(order{Do: "settle"})
	if got := in.events(); len(got) > 0 {
		t.Errorf("who watches the folder is told %q: the statement can promise more", got)
	}
}

// R7: a file that a program removed before its news is told does not come back: what is written under
// the name then belongs to the file that has it.
func TestR7NewsOfARemovedFile(t *testing.T) {
	for mode, name := range readsNames {
		t.Run(name, func(t *testing.T) {
			m := mounting(t, confined, func(p *plan) {
				p.Options.Reads, p.Options.Timeout, p.Ours, p.Deletes = Reads(mode), time.Minute, true, true
			})
			m.put("f", "theirs")
			m.must(order{Do: "to be told", Group: "team", Name: "f"})
			ok(t, os.Remove(m.path("team/f")))
			m.write("team/f", "one")
			m.must(order{Do: "told late"})
			m.must(order{Do: "settle"})
			var st unix.Stat_t
			ok(t, unix.Stat(m.path("team/f"), &st))
			if st.Nlink != 1 {
				t.Errorf("the name shows a file with %d names", st.Nlink)
			}
			m.write("team/f", "two")
			m.wantCharges(0, 2)
		})
	}
}

// R7: a folder that a program holds for long, because a rename in it uploads, ends nothing.
func TestR7TellingWaitsForPrograms(t *testing.T) {
	shown, err := tree.New(t.Context(), tree.Config{Remote: newWorld()})
	ok(t, err)
	defer shown.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	ok(t, err)
	o := &Outside{socket: pair[0], limit: time.Millisecond}
	defer o.Close()
	told := make(chan bool)
	teller := newTeller(o)
	go func() { told <- teller.tell(tree.Change{Dir: shown.Root(), Name: "f", Now: shown.Root()}) }()
	_, reply, err := receive(pair[1])
	ok(t, err)
	if _, err := o.Key(); !errors.Is(err, errOutside) { // of which the limit has passed by then
		t.Errorf("an answer that does not come: %v", err)
	}
	send(reply, outsideAnswer{})
	if !<-told {
		t.Error("nothing more would be told")
	}
	ok(t, unix.Close(reply))
	go func() { told <- teller.tell(tree.Change{Dir: shown.Root(), Name: "f", Now: shown.Root()}) }()
	ok(t, unix.Close(pair[1]))
	if <-told {
		t.Error("the process outside is gone, and telling goes on")
	}
}

// R7: the mount finds what the kernel knows beneath a folder also after the folder itself was looked up
// again.
func TestR7FolderLookedUpAgain(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Watches, p.Options.Timeout = true, -1 })
	m.put("f", "one")
	of := watch(m, "team/f")
	m.inode("team")
	m.put("f", "two")
	proctest.BeforeAWatchEnds(t, "the old file is gone",
		func() bool { return slices.Contains(of.events(), "team/f: delete self") })
}

// Threat 19: the process outside makes events in the mount and nothing anywhere else, and what
// it asks the mount for changes nothing.
func TestThreat19EventsChangeNothing(t *testing.T) {
	dir := place(t)
	o, err := StartOutside(dir, -1)
	ok(t, err)
	defer o.Close()
	ok(t, os.WriteFile(filepath.Join(dir, "f"), []byte("x"), 0o600))
	for _, r := range []tellRequest{{Dir: "/", Name: "f", Do: tellUnlink}, {Dir: "/", Name: "new", Do: tellCreate},
		{Dir: "/..", Name: "new", Do: tellMkdir}, {Dir: "/", Name: "../x", Do: tellCreate}} {
		if _, err := o.ask(outsideRequest{Do: askTell, Tell: r}); err == nil || errors.Is(err, errOutside) {
			t.Errorf("%+v, where nothing is mounted: %v", r, err)
		}
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}

	m := mounting(t, confined)
	m.write("team/f", "x")
	other := newTold(dir)
	other.answer(outsideRequest{Do: askTeller})
	other.dir = m.path("")
	for _, r := range []tellRequest{{Dir: "/team", Name: "f", Do: tellUnlink},
		{Dir: "/team", Name: "new", Do: tellCreate}} {
		if err := other.act(r); !errors.Is(err, errNoMount) {
			t.Errorf("%+v, in another mount: %v", r, err)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	m.must(order{Do: "teller", Size: int64(unix.Gettid())}) // as if a request came late
	wantErrno(t, "unlink", unix.Unlink(m.path("team/f")), unix.EPERM)
	wantErrno(t, "mkdir", unix.Mkdir(m.path("team/d"), 0o700), unix.EPERM)
	wantErrno(t, "rmdir", unix.Rmdir(m.path("team")), unix.EPERM)
	wantErrno(t, "symlink", unix.Symlink("x", m.path("team/l")), unix.EPERM)
	_, err = unix.Open(m.path("team/new"), unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o600)
	wantErrno(t, "create", err, unix.EPERM)
	m.must(order{Do: "teller", Size: 1})
	if list, err := os.ReadDir(m.path("team")); err != nil || len(list) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}
