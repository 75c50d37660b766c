package integration

import (
	"bytes"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// R7: who watches a folder of one mount is told of what is saved and removed in another.
func TestR7WatchersAcrossMounts(t *testing.T) {
	_, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	write(t, a.path("team/first"), []byte("x"))
	proctest.BeforeAWatchEnds(t, "b lists the group", func() bool {
		_, err := os.Stat(b.path("team/first"))
		return err == nil
	})
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	ok(t, err)
	defer func() { _ = unix.Close(fd) }()
	watch := func(events uint32) {
		_, err := unix.InotifyAddWatch(fd, b.path("team"), events)
		ok(t, err)
	}
	told := func(name string) func() bool {
		return func() bool {
			buf := make([]byte, 4096)
			n, err := unix.Read(fd, buf)
			return err == nil && bytes.Contains(buf[:n], []byte(name))
		}
	}
	watch(unix.IN_CLOSE_WRITE)
	write(t, a.path("team/second"), []byte("y"))
	proctest.BeforeAWatchEnds(t, "the save is told", told("second"))
	watch(unix.IN_DELETE)
	ok(t, os.Remove(a.path("team/second")))
	proctest.BeforeAWatchEnds(t, "the removal is told", told("second"))
	if retrieves, uploads := b.charges(); retrieves != 0 || uploads != 0 {
		t.Errorf("telling was charged %d retrievals and %d uploads", retrieves, uploads)
	}
}
