package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/powerfs"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

func openRoot(t *testing.T) *os.Root {
	t.Helper()
	dir, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dir.Close() })
	return dir
}

// leftovers lists temporary files in dir.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, wholePrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Both ways of writing make a new file, replace an old one, and keep its folder
// clean.
func TestWholeFiles(t *testing.T) {
	for _, named := range []bool{false, true} {
		t.Run(fmt.Sprintf("named %v", named), func(t *testing.T) {
			dir := openRoot(t)
			w := &wholeFiles{dir: dir, named: named}
			for _, content := range []string{"first", "the second, which is longer", ""} {
				ok(t, w.write("f", bytes.NewReader([]byte(content)), marks{}, true))
				got, err := dir.ReadFile("f")
				if err != nil || string(got) != content {
					t.Errorf("%q, %v", got, err)
				}
			}
			if err := w.write("f", bytes.NewReader([]byte("another")), marks{}, false); !errors.Is(err, fs.ErrExist) {
				t.Errorf("over a file that is to stay: %v", err)
			}
			if got, err := dir.ReadFile("f"); err != nil || len(got) > 0 {
				t.Errorf("a file that was to stay holds %q, %v", got, err)
			}
			if err := w.write("new", bytes.NewReader([]byte("x")), marks{}, false); err != nil {
				t.Error(err)
			}
			if info, err := dir.Stat("f"); err != nil || info.Mode() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
			ok(t, dir.Mkdir("taken", 0o700))
			if err := w.write("taken", bytes.NewReader([]byte("x")), marks{}, true); !errors.Is(err, fs.ErrExist) &&
				!errors.Is(err, unix.EISDIR) {
				t.Errorf("over a folder: %v", err)
			}
			if err := w.write("none/f", new(bytes.Buffer), marks{}, true); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("in no folder: %v", err)
			}
			ok(t, dir.Symlink("/tmp", "out"))
			if err := w.write("out/f", new(bytes.Buffer), marks{}, true); err == nil {
				t.Error("it left its folder")
			}
			if left := leftovers(t, dir.Name()); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// What get has brought survives a loss of power, under its name: files, links, and the folders above them.
func TestGetOutlastsALossOfPower(t *testing.T) {
	s := testkit.Start(t, testkit.Ours)
	alice := s.Account("alice", "100")
	w := &barWorld{server: s, dir: t.TempDir(), env: clientEnv(t, s, alice)}
	docs := filepath.Join(w.dir, "docs")
	for _, name := range []string{"f", "a/b/f"} {
		ok(t, os.MkdirAll(filepath.Dir(filepath.Join(docs, name)), 0o700))
		ok(t, os.WriteFile(filepath.Join(docs, name), []byte("second"), 0o600))
	}
	ok(t, os.MkdirAll(filepath.Join(docs, "c/d"), 0o700))
	ok(t, os.Symlink("../../f", filepath.Join(docs, "c/d/l")))
	w.must(t, "group", "create", "team")
	w.must(t, "put", "team", "docs")
	disk := powerfs.New(t)
	ok(t, os.WriteFile(filepath.Join(disk.Dir(), "one"), []byte("first"), 0o600))
	w.must(t, "get", "team", "docs/f", "-o", filepath.Join(disk.Dir(), "one"), "--force")
	one := disk.Position()
	w.must(t, "get", "team", "--all", "-o", filepath.Join(disk.Dir(), "new/back"))
	left := t.TempDir()
	ok(t, disk.Lose(one, 0, left))
	if got, err := os.ReadFile(filepath.Join(left, "one")); err != nil || string(got) != "second" {
		t.Errorf("%q, %v", got, err)
	}
	left = t.TempDir()
	ok(t, disk.Lose(disk.Position(), 0, left))
	if diff, err := exec.Command("diff", "-r", "--no-dereference", docs,
		filepath.Join(left, "new/back/docs")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

// What nobody writes any more is removed, what somebody writes is kept.
func TestWholeFilesRemoveWhatIsAbandoned(t *testing.T) {
	dir := openRoot(t)
	live, name, err := (&wholeFiles{dir: dir, named: true}).create(openFolder(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	for _, abandoned := range []string{wholePrefix + "DEAD", wholePrefix} {
		ok(t, dir.WriteFile(abandoned, []byte("half"), 0o600))
	}
	ok(t, dir.WriteFile(".svcfs-other", nil, 0o600))
	ok(t, (&wholeFiles{dir: dir}).write("f", strings.NewReader("x"), marks{}, true))
	if left := leftovers(t, dir.Name()); len(left) != 1 || filepath.Base(left[0]) != name {
		t.Errorf("left: %v, want only %s", left, name)
	}
	if _, err := dir.Stat(".svcfs-other"); err != nil {
		t.Error(err)
	}
}

func openFolder(t *testing.T, dir *os.Root) int {
	t.Helper()
	f, err := dir.Open(".")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return int(f.Fd())
}

// newHosted is a service in this process, an account with 100 tokens and its
// client.
func newHosted(t *testing.T, f testkit.Dialect) (*testkit.Server, testkit.Account, *sdk.Client) {
	t.Helper()
	s := testkit.Start(t, f)
	alice := s.Account("alice", "100")
	return s, alice, s.Client(t, alice)
}

// A get that is killed while it writes leaves the old file or none, and no other.
func TestGetKilledWhileWriting(t *testing.T) {
	s, alice, c := newHosted(t, testkit.Hosted)
	if _, err := c.Group("team").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	content := make([]byte, 8<<20)
	rand.NewChaCha8([32]byte{1}).Read(content)
	receipt, err := c.Group("team").Put(t.Context(), "f", bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	const kills = 4
	struck := 0
	for n := range kills {
		before := n%2 == 1 // every other time there is an older file
		_ = os.Remove(out)
		if before {
			ok(t, os.WriteFile(out, []byte("older"), 0o600))
		}
		cmd := exec.CommandContext(t.Context(), "svcfs", "get", "team", string(receipt.Ref), "-o", out)
		cmd.Env = clientEnv(t, s, alice)
		ok(t, cmd.Start())
		ended := make(chan struct{})
		go func() { _ = cmd.Wait(); close(ended) }()
		if writingIn(cmd.Process.Pid, dir, ended) {
			struck++
		}
		_ = cmd.Process.Kill()
		<-ended
		got, err := os.ReadFile(out)
		switch {
		case err != nil && !before && errors.Is(err, fs.ErrNotExist):
		case err == nil && before && string(got) == "older":
		case err == nil && sha256.Sum256(got) == receipt.Hash:
		default:
			t.Errorf("%d bytes, %v", len(got), err)
		}
		if left := leftovers(t, dir); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	}
	if struck == 0 {
		t.Error("no kill came while the file was written")
	}
	if got, err := os.ReadDir(dir); err != nil || len(got) > 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// writingIn waits until a process has a file of dir open that has no name, or has
// ended.
func writingIn(pid int, dir string, ended <-chan struct{}) bool {
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	for {
		select {
		case <-ended:
			return false
		default:
		}
		names, err := os.ReadDir(fds)
		if errors.Is(err, fs.ErrPermission) { // only root can look: let the kill come at any moment
			<-time.After(rand.N(50 * time.Millisecond))
			return true
		}
		if err != nil {
			return false
		}
		for _, fd := range names {
			target, _ := os.Readlink(filepath.Join(fds, fd.Name()))
			if strings.HasPrefix(target, dir+"/") && strings.HasSuffix(target, " (deleted)") {
				return true
			}
		}
	}
}
