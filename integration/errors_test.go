package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// wantError checks the errno a program gets, and the line that explains it (E1).
func (m *mount) wantError(err error, want syscall.Errno, path, sentence string) {
	m.p.w.t.Helper()
	if !errors.Is(err, want) {
		m.p.w.t.Errorf("%s: %v, want %v", path, err, want)
	}
	for line := range strings.Lines(m.control("errors")) {
		if strings.Contains(line, "\t/"+path+"\t") && strings.Contains(line, sentence) {
			return
		}
	}
	m.p.w.t.Errorf("E1: no line about %s with %q in\n%s", path, sentence, m.control("errors"))
}

func TestEWrongKeyIsRefusedBeforeMounting(t *testing.T) {
	proctest.Need(t, "mount")
	w, alice, _ := team(t)
	ok(t, os.WriteFile(alice.keyFile, []byte("svc_sk_"+strings.Repeat("A", 43)), 0o600))
	out, code := alice.try("mount", w.mkdir("m"))
	if code != 1 || !strings.Contains(out, "Invalid API key") || !strings.Contains(out, "hint: ") {
		t.Errorf("exit %d\n%s", code, out)
	}
	stranger := &person{w: w, id: "nobody.svc.testnet", keyFile: alice.keyFile}
	out, code = stranger.try("mount", w.mkdir("m"))
	if code == 0 || !strings.Contains(out, "not found") {
		t.Errorf("unknown account: exit %d\n%s", code, out)
	}
}

// Threat 23: a rotated key kills the tokens made with it.
func TestERotatedKey(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	write(t, a.path("team/f"), []byte("x"))
	if out, err := w.svcd("account", "rotate-key", "bob"); err != nil {
		t.Fatal(out)
	}
	_, err := os.ReadFile(b.path("team/f"))
	b.wantError(err, unix.EKEYREJECTED, "team/f", "rotate-key")
}

// E6: a mount goes on once the new key is where the old one was, and takes no key of another
// account.
func TestE6NewKeyOfTheAccount(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	for _, name := range []string{"team/f", "team/g"} {
		write(t, a.path(name), []byte("x"))
	}
	if got := string(read(t, b.path("team/f"))); got != "x" {
		t.Fatalf("read %q", got)
	}
	replace := func(key string) {
		ok(t, errors.Join(os.WriteFile(bob.keyFile+".new", []byte(key+"\n"), 0o600),
			os.Rename(bob.keyFile+".new", bob.keyFile)))
	}
	out, err := w.svcd("account", "rotate-key", "bob")
	ok(t, err)
	var made struct {
		Key string `json:"api_key"`
	}
	ok(t, json.Unmarshal([]byte(out), &made))
	replace(alice.key)
	const sentence = "not one of bob.svc.testnet, or revoked too"
	proctest.Eventually(t, sentence, func() bool {
		_, err := os.ReadFile(b.path("team/g"))
		return errors.Is(err, unix.EKEYREJECTED) && strings.Contains(b.control("errors"), sentence)
	})
	replace(made.Key)
	proctest.Eventually(t, "the mount reads with the new key", func() bool {
		text, err := os.ReadFile(b.path("team/g"))
		return err == nil && string(text) == "x"
	})
	for _, key := range []string{alice.key, made.Key} {
		if strings.Contains(b.control("errors")+b.log.String(), key) {
			t.Error("a key is shown")
		}
	}
}

// A group that an account was revoked from, that it left or that its owner deleted is gone.
func TestEThreat14RevokedThenGone(t *testing.T) {
	t.Run("revoked", func(t *testing.T) {
		losesGroup(t, func(alice, bob *person) { alice.must("group", "revoke", "team", bob.id) })
	})
	t.Run("left", func(t *testing.T) {
		losesGroup(t, func(_, bob *person) { bob.must("group", "leave", "team", "--yes") })
	})
	t.Run("deleted", func(t *testing.T) {
		a := losesGroup(t, func(alice, _ *person) { alice.must("group", "delete", "team", "--yes") })
		proctest.Eventually(t, "the owner's directory is listed no more", func() bool {
			names, err := os.ReadDir(a.dir)
			return err == nil && len(names) == 0
		})
	})
}

// losesGroup shows what bob's mount does when bob loses the group of alice, whose mount it returns.
func losesGroup(t *testing.T, lose func(alice, bob *person)) (ofAlice *mount) {
	t.Helper()
	_, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	write(t, a.path("team/f"), []byte("x"))
	write(t, a.path("team/g"), []byte("y"))
	write(t, a.path("team/cold"), []byte("z"))
	if got := string(read(t, b.path("team/f"))); got != "x" {
		t.Fatalf("read %q", got)
	}
	open, err := os.Open(b.path("team/g"))
	if err != nil {
		t.Fatal(err)
	}
	defer open.Close()
	if _, err := os.Stat(b.path("team/f")); err != nil {
		t.Fatal(err)
	}
	lose(alice, bob)
	if _, err = os.ReadFile(b.path("team/cold")); !errors.Is(err, unix.EKEYREVOKED) && !errors.Is(err, unix.ENOENT) {
		t.Errorf("after revocation: %v", err)
	}
	proctest.Eventually(t, "the directory is listed no more", func() bool {
		names, err := os.ReadDir(b.dir)
		return err == nil && len(names) == 0
	})
	if _, err := open.ReadAt(make([]byte, 10), 0); !errors.Is(err, unix.EKEYREVOKED) {
		t.Errorf("the open file still answers: %v", err)
	}
	if out, code := bob.try("ls", "team"); code != 1 || !strings.Contains(out, "not authorized") {
		t.Errorf("svcfs ls: exit %d\n%s", code, out)
	}
	return a
}

func TestEEmptyBalance(t *testing.T) {
	w, alice, _ := team(t)
	poor := w.account("poor", "0.01")
	alice.must("group", "add", "team", poor.id)
	a := alice.mount("a")
	write(t, a.path("team/f"), []byte("x"))
	p := poor.mount("p")
	_, err := os.ReadFile(p.path("team/f"))
	p.wantError(err, unix.EDQUOT, "team/f", "Insufficient")
	err = os.WriteFile(p.path("team/mine"), []byte("y"), 0o600)
	p.wantError(err, unix.EDQUOT, "team/mine", "Insufficient")
	if text := p.control("pending"); !strings.Contains(text, "/team/mine") {
		t.Errorf("W2: not pending: %q", text)
	}
	if out, err := w.svcd("account", "fund", "poor", "1"); err != nil {
		t.Fatal(out)
	}
	f, err := os.OpenFile(p.path("team/mine"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Errorf("after funding, fsync still fails: %v", err)
	}
	if text := p.control("pending"); text != "" {
		t.Errorf("still pending: %q", text)
	}
}

// inBackground does what may wait.
func inBackground(do func() error) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- do() }()
	return ended
}

// A service that is started anew makes no program fail: opening and closing wait for it.
func TestE5ShortGapsAreWaitedFor(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a", "--patience", "10m"), bob.mount("b", "--patience", "10m")
	write(t, a.path("team/old"), []byte("old"))
	proctest.Eventually(t, "b sees the file", func() bool {
		_, err := os.Stat(b.path("team/old"))
		return err == nil
	})
	for what, end := range map[string]func(){"stopped": w.stop, "killed": w.kill} {
		end()
		saved := inBackground(func() error { return os.WriteFile(a.path("team/"+what), []byte(what), 0o600) })
		proctest.Eventually(t, "the save waits",
			func() bool { return strings.Contains(a.control("status"), `"sending": 1`) })
		opened := inBackground(func() error {
			_, err := os.ReadFile(b.path("team/old"))
			return err
		})
		proctest.Eventually(t, "the status tells it", func() bool { return a.status().Service == "reconnecting" })
		if out := alice.must("status", a.dir); !strings.Contains(out, "reconnecting") {
			t.Errorf("%s: svcfs status shows\n%s", what, out)
		}
		select {
		case err := <-saved:
			t.Errorf("%s: the save did not wait: %v", what, err)
		default:
		}
		w.start()
		if err := errors.Join(<-saved, <-opened); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := a.control("pending"); got != "" {
			t.Errorf("%s: pending is %q", what, got)
		}
	}
	if got := string(read(t, a.path("team/stopped"))) + string(read(t, a.path("team/killed"))); got != "stoppedkilled" {
		t.Errorf("saved was %q", got)
	}
}

// Whoever waits for the service can be interrupted, and what was to be saved is sent later.
func TestE5WaitCanBeInterrupted(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a", "--patience", "10m"), bob.mount("b", "--patience", "10m")
	write(t, a.path("team/old"), []byte("old"))
	proctest.Eventually(t, "b sees the file", func() bool {
		_, err := os.Stat(b.path("team/old"))
		return err == nil
	})
	w.stop()
	for _, tc := range []struct {
		m          *mount
		line, told string // told by the status while it waits
	}{{b, "exec cat <" + b.path("team/old"), `"open": 1`}, {a, "echo new >" + a.path("team/new"), `"sending": 1`}} {
		cmd := exec.Command("sh", "-c", tc.line)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := inBackground(cmd.Wait)
		proctest.Eventually(t, "it waits in the mount",
			func() bool { return strings.Contains(tc.m.control("status"), tc.told) })
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		var exit *exec.ExitError
		if err := <-ended; !errors.As(err, &exit) {
			t.Errorf("%s: %v", tc.line, err)
		}
	}
	w.start()
	proctest.Eventually(t, "nothing is pending", func() bool { return a.control("pending") == "" })
}

// A service that is gone for longer is waited for by nobody.
func TestE5LongGapsEnd(t *testing.T) {
	w, alice, _ := team(t)
	a := alice.mount("a", "--patience", "1s")
	a.lost = true
	w.stop()
	for i := range 5 {
		err := os.WriteFile(a.path(fmt.Sprint("team/", i)), []byte("x"), 0o600)
		a.wantError(err, unix.EHOSTUNREACH, fmt.Sprint("team/", i), "connection refused")
	}
	proctest.Eventually(t, "the status tells it", func() bool { return a.status().Service == "unreachable" })
	w.start()
	proctest.Eventually(t, "nothing is pending", func() bool { return a.control("pending") == "" })
	proctest.Eventually(t, "the status tells it", func() bool { return a.status().Service == "reachable" })
}

func TestEStoppedService(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	write(t, a.path("team/cached"), []byte("x"))
	write(t, a.path("team/cold"), []byte("y"))
	if got := string(read(t, b.path("team/cached"))); got != "x" {
		t.Fatal(got)
	}
	proctest.Eventually(t, "b sees the file", func() bool { // b may have looked between the two uploads
		_, err := os.Stat(b.path("team/cold"))
		return err == nil
	})
	w.stop()
	_, err := os.ReadFile(b.path("team/cold"))
	b.wantError(err, unix.EHOSTUNREACH, "team/cold", "connection")
	if got, err := os.ReadFile(b.path("team/cached")); string(got) != "x" {
		t.Errorf("R3: what was read once is gone: %v", err)
	}
	err = os.WriteFile(a.path("team/new"), []byte("kept"), 0o600)
	a.wantError(err, unix.EHOSTUNREACH, "team/new", "connection")
	w.start()
	proctest.Eventually(t, "nothing is pending", func() bool { // what could not be sent is sent by itself
		return a.control("pending") == ""
	})
	proctest.Eventually(t, "b reads what was kept", func() bool {
		got, _ := os.ReadFile(b.path("team/new"))
		return string(got) == "kept"
	})
}

func TestECorruptBlob(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	write(t, a.path("team/small"), make([]byte, 20<<10)) // less lies in the database
	write(t, a.path("team/large"), make([]byte, 1<<20))
	write(t, a.path("team/good"), []byte("good"))
	for _, name := range []string{"small", "large"} {
		ref := make([]byte, 300)
		n, err := unix.Getxattr(a.path("team", name), "user.svcfs.ref", ref)
		if err != nil {
			t.Fatal(err)
		}
		damage(t, w, string(ref[:n]))
		_, err = os.ReadFile(b.path("team", name))
		b.wantError(err, unix.EIO, "team/"+name, "")
	}
	if got := string(read(t, b.path("team/good"))); got != "good" {
		t.Errorf("another file reads %q", got)
	}
	out, err := w.svcd("verify", "--read-data")
	if err == nil || !strings.Contains(out, "3 checked, 2 bad") {
		t.Errorf("svcd verify: %v\n%s", err, out)
	}
	if out, err := w.svcd("audit"); err != nil {
		t.Errorf("svcd audit: %v\n%s", err, out)
	}
}

// damage flips one bit in the middle of a file's ciphertext.
func damage(t *testing.T, w *world, ref string) {
	t.Helper()
	query := fmt.Sprintf("SELECT blob_id FROM files WHERE ref = '%s'", ref)
	id := strings.TrimSpace(blobID(t, filepath.Join(w.data, "svc.db"), query))
	path := filepath.Join(w.data, "blobs", id[:2], id)
	raw := read(t, path)
	raw[len(raw)/2] ^= 1
	ok(t, os.WriteFile(path, raw, 0o600))
}

// smallDisk returns a directory on a file system of 8 MiB: one made here, or for
// an ordinary user the one that SVCFS_TEST_SMALL names.
func smallDisk(t *testing.T, w *world) string {
	t.Helper()
	if dir := os.Getenv("SVCFS_TEST_SMALL"); dir != "" {
		return dir
	}
	proctest.Need(t, "root", "apart")
	dir := w.mkdir("small")
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", dir).CombinedOutput(); err != nil {
		t.Fatalf("mount a tmpfs: %s", out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %s", out)
		}
	})
	return dir
}

// Threat and fault "disk full": nothing acknowledged is lost, and the service
// goes on by itself when there is room.
func TestEFullDiskOfTheService(t *testing.T) {
	w := newWorld(t)
	w.stop()
	small := smallDisk(t, w)
	t.Cleanup(w.stop)
	w.data = filepath.Join(small, "data")
	w.start()
	alice := w.account("alice", "100")
	alice.must("group", "create", "team")
	a := alice.mount("a")
	a.lost = true
	write(t, a.path("team/first"), make([]byte, 1<<20))
	big := filepath.Join(small, "filler")
	shell(t, small, "head -c 20000000 /dev/zero >filler || true")
	err := os.WriteFile(a.path("team/second"), make([]byte, 2<<20), 0o600)
	a.wantError(err, unix.ENOSPC, "team/second", "storage is full")
	ok(t, os.Remove(big))
	if err := os.WriteFile(a.path("team/third"), make([]byte, 1<<20), 0o600); err != nil {
		t.Errorf("after making room: %v", err)
	}
	if out, err := w.svcd("verify", "--read-data"); err != nil || !strings.Contains(out, "0 bad") {
		t.Errorf("svcd verify: %v\n%s", err, out)
	}
	a.unmount()
}

// Threat 31, a disk that uploads have filled locks nobody out: one account cannot do it
// alone, and when several have, reading, removing and administration go on.
func TestThreat31FullDiskLocksNobodyOut(t *testing.T) {
	w := newWorld(t)
	w.stop()
	small := smallDisk(t, w)
	t.Cleanup(w.stop)
	w.data = filepath.Join(small, "full")
	w.start()
	alice, bob := w.account("alice", "1000"), w.account("bob", "1000")
	alice.must("group", "create", "team")
	alice.must("group", "add", "team", bob.id)
	bob.must("group", "create", "other")
	a, b := alice.mount("a", "--allow-delete"), bob.mount("b", "--allow-delete")
	a.lost, b.lost = true, true
	fill := func(m *mount, group string, size int, refusal string) (stored int) {
		for ; stored < 1000; stored++ {
			name := fmt.Sprintf("%s/f%d-%d", group, size, stored)
			if err := os.WriteFile(m.path(name), bytes.Repeat([]byte{byte(stored)}, size), 0o600); err != nil {
				m.wantError(err, unix.ENOSPC, name, refusal)
				return stored
			}
		}
		t.Fatal("the disk is not full")
		return 0
	}
	const size = 100 << 10
	stored := fill(a, "team", size, "storage of account alice.svc.testnet is full")
	fill(b, "other", size, "the service's storage is full")
	fill(b, "other", 1000, "the service's storage is full")
	t.Run("df and doctor tell", func(t *testing.T) {
		var shown unix.Statfs_t
		if err := unix.Statfs(bob.mount("df").path("other"), &shown); err != nil ||
			shown.Blocks*uint64(shown.Bsize) > 4<<20 || shown.Bavail*uint64(shown.Bsize) > size {
			t.Errorf("df shows %d blocks of %d, %d of them free, %v", shown.Blocks, shown.Bsize, shown.Bavail, err)
		}
		if out, _ := w.svcd("doctor"); !strings.Contains(out, "plan for more room") &&
			!strings.Contains(out, "make room") {
			t.Errorf("svcd doctor:\n%s", out)
		}
	})
	t.Run("members read on", func(t *testing.T) {
		want := make([][]byte, stored)
		for i := range want {
			want[i] = bytes.Repeat([]byte{byte(i)}, size)
		}
		for round := range 3 { // each time it costs records
			m := bob.mount(fmt.Sprint("reader", round))
			for i := range want {
				if got := read(t, m.path("team", fmt.Sprintf("f%d-%d", size, i))); !bytes.Equal(got, want[i]) {
					t.Errorf("f%d: %d other bytes", i, len(got))
				}
			}
			m.unmount()
		}
	})
	t.Run("members come and go", func(t *testing.T) {
		carol := w.account("carol", "10")
		alice.must("group", "add", "team", carol.id)
		alice.must("group", "revoke", "team", carol.id)
	})
	t.Run("removing makes room", func(t *testing.T) {
		for i := range stored / 2 {
			if err := os.Remove(a.path("team", fmt.Sprintf("f%d-%d", size, i))); err != nil {
				t.Errorf("rm: %v", err)
			}
		}
		if err := os.WriteFile(a.path("team/after"), make([]byte, size), 0o600); err != nil {
			t.Errorf("after making room: %v", err)
		}
	})
	if out, err := w.svcd("verify", "--read-data"); err != nil || !strings.Contains(out, "0 bad") {
		t.Errorf("svcd verify: %v\n%s", err, out)
	}
	b.unmount()
	a.unmount()
}

// Interrupting a program that waits for a dead service ends it at once (E2), and
// the mount can still be ended.
func TestE2HungServiceCanBeInterrupted(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	write(t, a.path("team/f"), []byte("x"))
	proctest.Eventually(t, "b sees the file", func() bool {
		_, err := os.Stat(b.path("team/f"))
		return err == nil
	})
	ok(t, w.service.Process.Signal(syscall.SIGSTOP))
	defer func() { _ = w.service.Process.Signal(syscall.SIGCONT) }()
	cat := exec.Command("timeout", "--signal=INT", "--kill-after=20", "1", "cat", b.path("team/f"))
	if out, _ := cat.CombinedOutput(); cat.ProcessState.ExitCode() == 137 {
		t.Errorf("cat had to be killed: %s", out)
	}
	b.unmount()
}
