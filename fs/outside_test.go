package fs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func confined(p *plan) { p.Confine = true }

// Threat 19: a mount that confined itself can still be unmounted, names its users, and knows
// the open files of other processes.
func TestThreat19ConfinedMountUnmounts(t *testing.T) {
	m := mounting(t, confined)
	m.write("team/f", "x")
	m.wantUnmountedOnceUnused()
}

// Threat 19: W2 in a confined mount.
func TestThreat19ConfinedMountKnowsDescriptors(t *testing.T) {
	m := mounting(t, confined)
	before := m.must(order{Do: "counts"}).Counts.Uploads
	cmd := exec.Command("sh", "-c", "{ /bin/echo a; /bin/echo b; } >f")
	cmd.Dir = m.path("team")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	c := m.must(order{Do: "counts"})
	if got := m.read("team/f"); got != "a\nb\n" || c.Counts.Uploads != before+1 {
		t.Errorf("%q with %d uploads", got, c.Counts.Uploads-before)
	}
}

// The process outside answers one request while another waits, refuses requests that are
// not its task, and ends with the process that started it.
func TestOutside(t *testing.T) {
	o, err := StartOutside(place(t), -1)
	if err != nil {
		t.Fatal(err)
	}
	if o.hasLoaded(uint32(os.Getpid()), "no such library") {
		t.Error("a library is loaded that there is not")
	}
	if err := o.unmount(t.TempDir(), false); err == nil || errors.Is(err, errOutside) {
		t.Errorf("unmounted what is not mounted: %v", err)
	}
	if list := o.holders(""); list != nil {
		t.Errorf("holders: %v", list)
	}
	if err := unix.Sendmsg(o.socket, []byte("nonsense"), nil, nil, 0); err != nil {
		t.Error(err)
	}
	if _, err := o.ask(outsideRequest{Do: "nonsense"}); err != nil {
		t.Error(err)
	}
	if err := o.Close(); err != nil {
		t.Error(err)
	}
	if _, err := o.ask(outsideRequest{Do: askHolders}); !errors.Is(err, errOutside) {
		t.Errorf("after its end: %v", err)
	}
}

// readTestKey reads the key of tests: the whole of a file.
func readTestKey(place []byte) ([]byte, error) { return os.ReadFile(string(place)) }

// Threat 19: the process outside reads the key again from the place that it was told first, and
// from no other, whatever becomes of the mount.
func TestThreat19KeyIsReadFromOnePlace(t *testing.T) {
	o, err := StartOutside(place(t), -1)
	ok(t, err)
	defer o.Close()
	if _, err := o.Key(); err == nil || errors.Is(err, errOutside) {
		t.Errorf("a key of no place: %v", err)
	}
	dir := t.TempDir()
	at, other := filepath.Join(dir, "key"), filepath.Join(dir, "other")
	ok(t, errors.Join(os.WriteFile(at, []byte("one"), 0o600), os.WriteFile(other, []byte("private"), 0o600),
		o.KeepKeyPlace([]byte(at))))
	if err := o.KeepKeyPlace([]byte(other)); err == nil {
		t.Error("another place is taken")
	}
	for _, want := range []string{"one", "two"} {
		ok(t, os.WriteFile(at+".new", []byte(want), 0o600))
		ok(t, os.Rename(at+".new", at))
		if key, err := o.Key(); err != nil || string(key) != want {
			t.Errorf("got %q, %v; want %q", key, err, want)
		}
	}
	ok(t, os.Remove(at))
	if _, err := o.Key(); err == nil {
		t.Error("a key of a file that is gone")
	}
}

// The process outside keeps no descriptor that it was sent and has no use for.
func TestOutsideKeepsNoDescriptors(t *testing.T) {
	o, err := StartOutside(place(t), -1)
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for name, request := range map[string]string{"nonsense": "{", "a request": `{"Do":"nothing"}`} {
		var ours, theirs []int
		for range 2 {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(pair[0])
			ours, theirs = append(ours, pair[0]), append(theirs, pair[1])
		}
		err := unix.Sendmsg(o.socket, []byte(request), unix.UnixRights(theirs...), nil, 0)
		for _, fd := range theirs {
			_ = unix.Close(fd)
		}
		if err != nil {
			t.Fatal(err)
		}
		limit := unix.Timeval{Sec: 5}
		for i, fd := range ours {
			_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit)
			buf := make([]byte, maxOutsideBytes)
			n, err := unix.Read(fd, buf)
			for n > 0 || errors.Is(err, unix.EINTR) { // the answer, and signals of the Go runtime
				n, err = unix.Read(fd, buf)
			}
			if n != 0 || err != nil {
				t.Errorf("%s: descriptor %d stays open: %v", name, i, err)
			}
		}
	}
}
