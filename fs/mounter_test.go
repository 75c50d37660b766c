package fs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk/ownfile"
)

// startMounter makes a mounter and what asks it.
func startMounter(t *testing.T, m MountFor) *Outside {
	t.Helper()
	proctest.Need(t, "root")
	socket, err := StartMounter(m)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.FcntlInt(socket.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	ok(t, errors.Join(err, socket.Close()))
	o, err := StartOutside(m.Dir, fd)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// Threat 19: a mounter mounts once, as root's line says, and takes away what it
// mounted: nothing that came over it or in its place.
func TestThreat19MounterDoesOneThing(t *testing.T) {
	above := filepath.Join(place(t), "above")
	dir := filepath.Join(above, "m")
	ok(t, os.MkdirAll(dir, 0o700))
	o := startMounter(t, MountFor{Dir: dir, UID: 65534, GID: 65533, ReadOnly: true, NoExec: true})
	defer o.Close()
	refused := func(what string, err error, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	ok(t, unix.Mount("x", dir, "tmpfs", 0, ""))
	refused("somebody else's mount", o.unmount(dir, true), unix.EINVAL)
	ok(t, unix.Unmount(dir, 0))
	_, err := o.mount(mountRequest{Source: "/dev/sda1"})
	refused("another source", err, unix.EINVAL)
	fd, err := o.mount(mountRequest{Source: "svcfs:x"})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	shown := func(dir string) string {
		raw, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(raw)) {
			if strings.Contains(line, " "+dir+" ") {
				return line
			}
		}
		return ""
	}
	if got := shown(dir); !strings.Contains(got, " ro,nosuid,nodev,noexec,") ||
		!strings.Contains(got, "user_id=65534,group_id=65533,max_read=1048576\n") {
		t.Errorf("mounted as %q", got)
	}
	_, err = o.mount(mountRequest{Source: "svcfs:x"})
	refused("a second mount", err, unix.EPERM)
	_, err = o.mounter.ask(outsideRequest{Do: askHolders})
	refused("a look at processes", err, unix.EPERM)

	ok(t, unix.Mount("x", dir, "tmpfs", 0, ""))
	refused("what was mounted over it", o.unmount(dir, true), unix.EINVAL)
	ok(t, unix.Unmount(dir, 0))
	if err := os.Rename(above, above+"2"); err != nil { // it is found all the same
		t.Fatal(err)
	}
	if err := o.unmount(dir, false); err != nil {
		t.Error(err)
	}
	if got := shown(filepath.Join(above+"2", "m")); got != "" {
		t.Errorf("still mounted: %s", got)
	}
	refused("unmounting again", o.unmount(dir, true), unix.EINVAL)
}

// Threat 19: a mounter mounts nothing on a folder that was moved away meanwhile.
func TestThreat19MounterOfAMovedFolderMountsNothing(t *testing.T) {
	dir := filepath.Join(place(t), "m")
	ok(t, os.Mkdir(dir, 0o700))
	o := startMounter(t, MountFor{Dir: dir, UID: 65534, GID: 65533})
	defer o.Close()
	ok(t, os.Rename(dir, dir+"2"))
	for _, name := range []string{"nothing there", "another folder", "a link"} {
		if fd, err := o.mount(mountRequest{Source: "svcfs:x"}); !errors.Is(err, unix.ESTALE) {
			_ = unix.Close(fd)
			t.Errorf("%s: %v, want ESTALE", name, err)
		}
		if name == "nothing there" {
			ok(t, os.Mkdir(dir, 0o700))
		} else if err := errors.Join(os.Remove(dir), os.Symlink("m2", dir)); err != nil {
			t.Fatal(err)
		}
	}
	ok(t, errors.Join(os.Remove(dir), os.Rename(dir+"2", dir)))
	fd, err := o.mount(mountRequest{Source: "svcfs:x"})
	if err != nil {
		t.Fatalf("with its name again: %v", err)
	}
	defer unix.Close(fd)
	if _, err := o.mount(mountRequest{Source: "svcfs:x"}); !errors.Is(err, unix.EPERM) {
		t.Errorf("a second mount: %v, want EPERM", err)
	}
	if err := o.unmount(dir, true); err != nil {
		t.Error(err)
	}
}

// Threat 19: a mounter mounts on an empty folder only, also when the folder was empty before.
func TestThreat19MounterWantsAnEmptyFolder(t *testing.T) {
	dir := place(t)
	ok(t, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	if _, err := StartMounter(MountFor{Dir: dir}); !errors.Is(err, ErrNotEmpty) {
		t.Errorf("a full folder: %v", err)
	}
	if _, err := StartMounter(MountFor{Dir: filepath.Join(dir, "f")}); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("a file: %v", err)
	}
	if _, err := StartMounter(MountFor{Dir: filepath.Join(dir, "none")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
}

// Threat 19: no link of the user's leads a mount to a directory of root's.
func TestThreat19MounterFollowsNoLinkOfTheUser(t *testing.T) {
	const user = 65534
	proctest.Need(t, "root")
	top := place(t)
	theirs, roots := filepath.Join(top, "theirs"), filepath.Join(top, "roots")
	for _, dir := range []string{theirs, filepath.Join(theirs, "own"), filepath.Join(theirs, "m"), roots,
		filepath.Join(roots, "m")} {
		ok(t, os.Mkdir(dir, 0o755))
	}
	for _, path := range []string{theirs, filepath.Join(theirs, "own")} {
		ok(t, os.Chown(path, user, -1))
	}
	link := filepath.Join(theirs, "link")
	ok(t, errors.Join(os.Symlink(roots, link), os.Lchown(link, user, -1)))
	for _, c := range []struct {
		dir     string
		refused error
	}{
		{filepath.Join(theirs, "own"), nil},
		{filepath.Join(roots, "m"), nil},
		{filepath.Join(link, "m"), ownfile.ErrOwner},
		{filepath.Join(theirs, "m"), ownfile.ErrOwner},
	} {
		mounter, err := StartMounter(MountFor{Dir: c.dir, UID: user})
		if err == nil {
			_ = mounter.Close()
		}
		if !errors.Is(err, c.refused) {
			t.Errorf("%s: %v, want %v", c.dir, err, c.refused)
		}
	}
}
