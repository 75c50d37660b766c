package fs

import (
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// watched is what inotify(7) calls the events that tests tell apart.
var watched = []struct {
	bit  uint32
	name string
}{{unix.IN_CREATE, "create"}, {unix.IN_DELETE, "delete"}, {unix.IN_DELETE_SELF, "delete self"}, {unix.IN_MODIFY, "modify"}, {unix.IN_ATTRIB, "attrib"},
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

// R7: what programs that watch with inotify learn of what others do.
func TestR7WatchersOfOthersChanges(t *testing.T) {
	m := mounting(t, remembers, func(p *plan) { p.Renames, p.Trashes = true, true })
	for _, name := range []string{"replaced", "renamed", "removed", "folder/removed", "here"} {
		m.put(name, "one")
		m.inode("team/" + name)
	}
	for _, tc := range []struct {
		name  string
		watch string
		do    func()
		want  string
	}{
		{"a version", "team/replaced", func() { m.put("replaced", "two") }, "team/replaced: delete self"},
		{"a rename", "team/renamed", func() { m.must(order{Do: "moved", Group: "team", Size: 1, Name: "other"}) }, "team/renamed: delete self"},
		{"a removal", "team/removed", func() { m.must(order{Do: "removed", Group: "team", Name: "removed"}) }, "team/removed: delete self"},
		{"the last file of a folder", "team/folder", func() { m.must(order{Do: "removed", Group: "team", Name: "folder/removed"}) }, "team/folder: delete self"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			of, in := watch(m, tc.watch), watch(m, "team")
			tc.do()
			proctest.Eventually(t, tc.want, func() bool { return slices.Contains(of.events(), tc.want) })
			if got := in.events(); len(got) > 0 {
				t.Errorf("who watches the folder is told %q: the statement can promise more", got)
			}
		})
	}
	in, of := watch(m, "team"), watch(m, "team/here")
	m.put("new", "one")
	m.write("team/here", "two")
	m.must(order{Do: "settle"})
	ok(t, os.Remove(m.path("team/here")))
	proctest.Eventually(t, "what happens here is told", func() bool { return slices.Contains(in.events(), "team: delete here") })
	if got := in.events(); slices.Contains(got, "team: create new") {
		t.Errorf("who watches the folder is told of a new file: the statement can promise more")
	}
	if got := of.events(); !slices.Contains(got, "team/here: modify") {
		t.Errorf("a save here told only %q", got)
	}
}
