package fs

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// M1: a bad mountpoint is refused, and the refusal names the next step.
func TestM1BadMountpointsAreRefused(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"empty", "full", "own/state", "target"} {
		ok(t, os.MkdirAll(at(name), 0o700))
	}
	for _, name := range []string{"file", "full/x"} {
		ok(t, os.WriteFile(at(name), nil, 0o600))
	}
	for link, target := range map[string]string{"link": "target", "dangling": "nothing", "tofile": at("file")} {
		ok(t, os.Symlink(target, at(link)))
	}
	for _, tc := range []struct {
		dir  string
		want error
	}{
		{at("empty"), nil},
		{at("link"), nil},
		{at("empty/../empty/"), nil},
		{at("none"), ErrNoMountpoint},
		{at("none/deeper"), ErrNoMountpoint},
		{at("dangling"), ErrNoMountpoint},
		{at("file"), ErrNotDirectory},
		{at("file/below"), ErrNotDirectory},
		{at("tofile"), ErrNotDirectory},
		{at("full"), ErrNotEmpty},
		{at("own/state"), ErrOwnState},
		{"/proc", ErrMounted},
	} {
		err := CheckMountpoint(tc.dir, at("own"), at("not/there"))
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", tc.dir, err, tc.want)
		}
		var refused *MountpointError
		if err != nil && (!errors.As(err, &refused) || refused.Hint == "") {
			t.Errorf("%s: %v names no next step", tc.dir, err)
		}
	}
}

// M7: once a mount has ended, however that was, its folder takes no file of an
// ordinary user, and can be mounted on again. Modes do not stop root.
func TestM7FolderOfAnEndedMountTakesNoFiles(t *testing.T) {
	m := mounting(t)
	m.write("team/f", "sealed")
	m.must(order{Do: "unmount", Limit: hangLimit})
	saved := os.WriteFile(m.path("saved-too-late"), []byte("in the clear"), 0o600)
	if os.Geteuid() == 0 {
		if saved != nil {
			t.Errorf("root's folder changed: %v", saved)
		}
		return
	}
	if !errors.Is(saved, os.ErrPermission) {
		t.Errorf("a file was saved under the ended mount: %v", saved)
	}
	if err := CheckMountpoint(m.dir); err != nil {
		t.Errorf("mounting again: %v", err)
	}
	for _, mounted := range []bool{false, true} {
		under, err := coverable(m.dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Access(m.dir, unix.W_OK); err != nil {
			t.Errorf("fusermount3 would refuse the folder: %v", err)
		}
		if err := under.close(mounted); err != nil || unix.Access(m.dir, unix.W_OK) == nil {
			t.Errorf("mounted %v: the folder is open: %v", mounted, err)
		}
	}
}

func TestM1OwnStateBothWays(t *testing.T) {
	for _, tc := range []struct {
		dir, parent string
		want        bool
	}{
		{"/a/b", "/a/b", true}, {"/a/b/c", "/a/b", true}, {"/a/bc", "/a/b", false}, {"/a", "/a/b", false},
		{"/a", "/", true},
	} {
		if got := within(tc.dir, tc.parent); got != tc.want {
			t.Errorf("within(%q, %q) = %v", tc.dir, tc.parent, got)
		}
	}
}

func TestMountinfo(t *testing.T) {
	const text = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
30 22 0:40 / /home/a\040b\134c\011d rw,nosuid,nodev - fuse.svcfs svcfs:alice\040x rw,user_id=0
31 22 0:41 / /mnt rw,nosuid shared:5 master:2 - fuse.sshfs host: rw
32 22 0:42 / /mnt rw - fuse.svcfs svcfs:bob rw
33 22 0:43 / /odd\9zz\4 rw - tmpfs tmpfs rw
`
	points, err := readMountinfo(strings.NewReader(text))
	if err != nil || len(points) != 5 {
		t.Fatalf("%d mounts: %+v, %v", len(points), points, err)
	}
	if want := (MountInfo{"/home/a b\\c\td", "fuse.svcfs", "svcfs:alice x", 0, points[1].ID}); points[1] != want ||
		points[2].User != -1 {
		t.Errorf("got %+v, want %+v", points[1], want)
	}
	if at, ok := mountAt(points, "/mnt"); !ok || at.Source != "svcfs:bob" {
		t.Errorf("what shows at /mnt is %+v", at)
	}
	if points[4].Dir != `/odd\9zz\4` { // not octal, and too short
		t.Errorf("what is no escape became %q", points[4].Dir)
	}
	if isMounted(points, "/none") {
		t.Error("/none is mounted")
	}
	if _, err := readMountinfo(strings.NewReader(text + "short line\n")); err == nil {
		t.Error("a list that breaks off is believed")
	}
}
