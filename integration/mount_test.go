package integration

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
)

// A real tree, with odd names and files beside it, goes in with cp -r and comes back equal, also for somebody else.
func TestTreeOfFilesBothWays(t *testing.T) {
	w, alice, bob := team(t)
	a, b := alice.mount("a"), bob.mount("b")
	w.mkdir("src")
	goroot := strings.TrimSpace(shell(t, w.dir, "go env GOROOT"))
	shell(t, w.dir, fmt.Sprintf("cp -r %s/src/net/http src/", goroot))
	binary := make([]byte, 100_003)
	for i := range binary {
		binary[i] = byte(rand.Uint32())
	}
	for name, content := range map[string][]byte{"empty": {}, "one": {0}, "binary.bin": binary,
		"Grüße aus Köln.txt": []byte("ä"),
		"with space":         []byte("x"), "-rf": []byte("dash"), "100%.txt": []byte("%"), "My%20File": []byte("url")} {
		write(t, filepath.Join(w.mkdir("src/odd"), name), content)
	}
	if n := strings.Count(shell(t, w.dir, "find src -type f"), "\n"); n < 100 {
		t.Fatalf("the tree has only %d files", n)
	}
	// W5: else empty files wait for content
	shell(t, w.dir, "cp -r src a/team/ && find a/team/src -type d -exec sync {} +")
	shell(t, w.dir, "diff -r src b/team/src")
	shell(t, w.dir, "cp -r b/team/src back && diff -r src back")
	if got, want := a.control("pending"), ""; got != want {
		t.Errorf("pending: %q", got)
	}
	// R1: looking around is free.
	retrieves, uploads := b.charges()
	shell(t, w.dir, "ls -lR b/team >/dev/null; find b/team -newer src >/dev/null; du -s b/team >/dev/null; stat "+
		"b/team/src/http/* >/dev/null")
	if r, u := b.charges(); r != retrieves || u != uploads {
		t.Errorf("looking around cost %d retrievals", r-retrieves)
	}
}

// W12: the service's limit is told by write, not by close.
func TestW12LimitOfTheServiceOnAMount(t *testing.T) {
	w, alice, _ := team(t)
	alice.mount("before")
	shell(t, w.dir, "head -c 200000 /dev/zero >before/team/old")
	w.stop()
	w.stores = append(w.stores, "--max-file-bytes", "100000")
	w.start()
	m := alice.mount("m")
	f, err := os.Create(m.path("team/f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, 100_000)); err != nil {
		t.Error(err)
	}
	if _, err := f.Write([]byte("x")); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("a byte beyond the limit: %v", err)
	}
	if err := f.Truncate(100_001); !errors.Is(err, syscall.EFBIG) {
		t.Errorf("a length beyond the limit: %v", err)
	}
	if err := f.Close(); !errors.Is(err, syscall.EFBIG) { // W15
		t.Errorf("closing half a save: %v", err)
	}
	if err := os.Remove(m.path("team/f")); err != nil {
		t.Error(err)
	}
	if got := read(t, m.path("team/old")); len(got) != 200_000 {
		t.Errorf("what was there before: %d bytes", len(got))
	}
	shell(t, w.dir, "head -c 100001 /dev/zero >large")
	if out, code := alice.try("put", "team", w.dir+"/large"); code == 0 ||
		!strings.Contains(out, "too large: this service takes files of up to") {
		t.Errorf("put: exit %d, %s", code, out)
	}
}

// N5, W9, W10: what is refused, and what succeeds without effect.
func TestRefusalsByDesign(t *testing.T) {
	_, alice, bob := team(t)
	alice.must("group", "create", "other")
	a, b := alice.mount("a"), bob.mount("b")
	write(t, a.path("team/f"), []byte("x"))
	read(t, b.path("team/f"))
	for _, tc := range []struct {
		name string
		do   func() error
		want syscall.Errno
	}{
		{"W9 unlink of another's file", func() error { return os.Remove(b.path("team/f")) }, unix.EPERM},
		{"W8 rename to another group", func() error { return os.Rename(a.path("team/f"), a.path("other/f")) },
			unix.EXDEV},
		{"N5 rename of a group", func() error { return os.Rename(a.path("other"), a.path("others")) }, unix.EPERM},
		{"N5 mkdir in the root", func() error { return os.Mkdir(a.path("new"), 0o700) }, unix.EPERM},
		{"N6 symlink in the root", func() error { return os.Symlink("team/f", a.path("l")) }, unix.EPERM},
		{"N5 device", func() error { return unix.Mknod(a.path("team/d"), unix.S_IFIFO, 0) }, unix.EPERM},
		{"N5 link", func() error { return os.Link(a.path("team/f"), a.path("team/h")) }, unix.EPERM},
		{"file in the root", func() error { return os.WriteFile(a.path("x"), nil, 0o600) }, unix.EPERM},
		{"write to a control file", func() error { return os.WriteFile(a.path(".svcfs/status"), []byte("x"), 0o600) },
			unix.EPERM},
		{"W10 chown to somebody", func() error { return os.Chown(a.path("team/f"), 12345, 12345) }, unix.EPERM},
		{"absent", func() error { _, err := os.Stat(a.path("team/none")); return err }, unix.ENOENT},
		{"unknown group", func() error { _, err := os.ReadDir(a.path("nobody")); return err }, unix.ENOENT},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.do(); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
		})
	}
	t.Run("W10 what copying tools set is taken", func(t *testing.T) {
		for name, err := range map[string]error{
			"chmod":  os.Chmod(a.path("team/f"), 0o640),
			"utimes": os.Chtimes(a.path("team/f"), time.Unix(1_600_000_000, 0), time.Unix(1_600_000_000, 0)),
			"chown":  os.Chown(a.path("team/f"), os.Getuid(), os.Getgid()),
			"mkdir":  os.Mkdir(a.path("team/folder"), 0o700),
			"rmdir":  os.Remove(a.path("team/folder")),
		} {
			if err != nil {
				t.Errorf("W10: %s: %v", name, err)
			}
		}
	})
	t.Run("E1 every refusal left a line", func(t *testing.T) {
		if text := a.control("errors"); !strings.Contains(text, "svcfs group create") {
			t.Errorf("E1: errors holds %q", text)
		}
		if text := b.control("errors"); !strings.Contains(text, "unlink") || !strings.Contains(text, "can remove it") {
			t.Errorf("E1: errors holds %q", text)
		}
	})
	t.Run("A3 statfs", func(t *testing.T) {
		var stat unix.Statfs_t
		if err := unix.Statfs(a.path("team"), &stat); err != nil || stat.Bfree > stat.Blocks || stat.Bavail == 0 {
			t.Errorf("A3: statfs %+v, %v", stat, err)
		}
	})
	t.Run("A2 attributes", func(t *testing.T) {
		ref := make([]byte, 300)
		if n, err := unix.Getxattr(a.path("team/f"), "user.svcfs.ref", ref); err != nil ||
			!strings.HasPrefix(string(ref[:n]), "bafy") {
			t.Errorf("A2: user.svcfs.ref is %q, %v", ref[:max(n, 0)], err)
		}
	})
}

// M1: a bad mountpoint is refused before any secret is asked for.
func TestM1BadMountpoints(t *testing.T) {
	proctest.Need(t, "mount")
	w, alice, _ := team(t)
	full := w.mkdir("full")
	write(t, filepath.Join(full, "x"), nil)
	write(t, filepath.Join(w.dir, "file"), nil)
	mounted := alice.mount("a")
	for name, dir := range map[string]string{"not empty": full, "not a directory": filepath.Join(w.dir, "file"),
		"no such": filepath.Join(w.dir, "none"), "mounted": mounted.dir} {
		cmd := exec.Command(filepath.Join(w.bin, "svcfs"), "mount", dir) // no credentials at all
		cmd.Env = w.env()
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), name) {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if strings.Contains(string(out), "API key") {
			t.Errorf("%s: asked for the key first\n%s", name, out)
		}
	}
}

// M3, M4: signals end the mount; the process cannot be dumped or looked into.
func TestM4ProcessIsClosed(t *testing.T) {
	_, alice, _ := team(t)
	a := alice.mount("a")
	limits := string(read(t, fmt.Sprintf("/proc/%d/limits", a.cmd.Process.Pid)))
	if !strings.Contains(limits, "Max core file size        0                    0") {
		t.Errorf("core size is not zero:\n%s", limits)
	}
	info, err := os.Stat(fmt.Sprintf("/proc/%d/mem", a.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 {
		t.Errorf("memory belongs to user %d: the process is dumpable", owner)
	}
	environ, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", a.cmd.Process.Pid))
	cmdline, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", a.cmd.Process.Pid))
	if bytes.Contains(environ, []byte(alice.key)) || bytes.Contains(cmdline, []byte(alice.key)) {
		t.Error("the key is in the environment or the arguments")
	}
	a.unmount()
}

// A mount that was killed is cleared at the next start.
func TestM3DeadMountIsCleared(t *testing.T) {
	proctest.Need(t, "mount")
	_, alice, _ := team(t)
	a := alice.mount("a")
	a.gone = true
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
	again := alice.mount("a")
	write(t, again.path("team/f"), []byte("x"))
	if got := read(t, a.path("team/f")); string(got) != "x" {
		t.Errorf("the mount that took its place shows %q", got)
	}
}
