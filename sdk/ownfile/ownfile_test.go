package ownfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// stranger is a user who is neither root nor runs the tests.
const stranger = 4343

func TestThreat18Rules(t *testing.T) {
	me := os.Geteuid()
	for _, tc := range []struct {
		kind  Kind
		owner int
		mode  fs.FileMode
		want  error
	}{
		{Settings, me, 0o644, nil},
		{Settings, 0, 0o644, nil},
		{Settings, me, 0o664, ErrWritable},
		{Settings, me, 0o646, ErrWritable},
		{Settings, stranger, 0o600, ErrOwner},
		{Secret, me, 0o600, nil},
		{Secret, me, 0o400, nil},
		{Secret, me, 0o640, ErrReadable},
		{Secret, me, 0o604, ErrReadable},
		{Secret, me, 0o622, ErrWritable},
		{Secret, 0, 0o604, ErrReadable},
		{Secret, 0, 0o620, ErrWritable},
		{Secret, stranger, 0o600, ErrOwner},
		{Managed, me, 0o640, nil},
		{Managed, me, 0o644, ErrReadable},
		{Managed, stranger, 0o600, ErrOwner},
	} {
		err := judge("/x/a b", tc.mode, tc.owner, tc.kind)
		if !errors.Is(err, tc.want) {
			t.Errorf("kind %d, owner %d, mode %04o: %v, want %v", tc.kind, tc.owner, tc.mode, err, tc.want)
		}
		if mend := MendOf(err); (mend != "") != (tc.want != nil) || mend != "" && !strings.Contains(mend, "'/x/a b'") {
			t.Errorf("mode %04o: mend %q", tc.mode, mend)
		}
	}
}

// What a refusal tells to run makes the file acceptable.
func TestMendMends(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"it's open":     func(path string) error { return os.Chmod(path, 0o666) },
		"-dash":         func(path string) error { return os.Chmod(path, 0o604) },
		"link":          func(path string) error { return errors.Join(os.Rename(path, path+"2"), os.Symlink(path+"2", path)) },
		"group written": func(path string) error { return os.Chmod(path, 0o620) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := errors.Join(os.WriteFile(name, []byte("x"), 0o600), spoil(name)); err != nil {
				t.Fatal(err)
			}
			_, err := Open(name, Secret)
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Fatalf("opened, or the file is not named: %v", err)
			}
			if out, failed := exec.CommandContext(t.Context(), "sh", "-c", MendOf(err)).CombinedOutput(); failed != nil {
				t.Fatalf("%s: %v\n%s", MendOf(err), failed, out)
			}
			if _, err := Read(name, Secret, 1); err != nil {
				t.Errorf("after %q: %v", MendOf(err), err)
			}
		})
	}
}

func TestReadIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("1234"), 0o600); err != nil {
		t.Fatal(err)
	}
	if raw, err := Read(path, Secret, 4); err != nil || string(raw) != "1234" {
		t.Errorf("%q %v", raw, err)
	}
	if _, err := Read(path, Secret, 3); err == nil {
		t.Error("a longer file was read")
	}
	if _, err := Read(path+"2", Secret, 3); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestThreat18ManagedMayBeALink(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	if err := errors.Join(os.WriteFile(path+"1", nil, 0o640), os.Symlink("key1", path)); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, Managed)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

// A pipe that a shell made is taken as it is; a file given open is not.
func TestThreat18GivenDescriptors(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.WriteString(w, "key"); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	raw, err := Read("/dev/fd/"+strconv.Itoa(int(r.Fd())), Secret, 10)
	if err != nil || string(raw) != "key" {
		t.Errorf("%q %v", raw, err)
	}
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Chmod(0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("/proc/self/fd/"+strconv.Itoa(int(f.Fd())), Secret); !errors.Is(err, ErrReadable) {
		t.Error(err)
	}
	if _, err := Open("/dev/fd/9999", Secret); err == nil {
		t.Error("a descriptor that is not there was opened")
	}
}

// Root obeys nothing that another user could have put there.
func TestThreat18RootLooksAtFolders(t *testing.T) {
	if os.Geteuid() != 0 {
		return // others are not asked for more than the file
	}
	dir := t.TempDir()
	theirs, ours := filepath.Join(dir, "theirs"), filepath.Join(dir, "ours")
	key := filepath.Join(ours, "key")
	err := errors.Join(os.Mkdir(theirs, 0o755), os.Mkdir(ours, 0o755), os.WriteFile(key, []byte("svc_sk_root"), 0o600),
		os.WriteFile(filepath.Join(theirs, "key"), nil, 0o600), os.Symlink(ours, filepath.Join(theirs, "way")), os.Symlink(theirs, filepath.Join(dir, "there")),
		os.Chown(theirs, stranger, stranger), os.Symlink("../ours", filepath.Join(ours, "round")),
		os.Mkdir(filepath.Join(dir, "tmp"), 0o755), os.Chmod(filepath.Join(dir, "tmp"), 0o777|fs.ModeSticky),
		os.Symlink(ours, filepath.Join(dir, "tmp", "way")), os.Lchown(filepath.Join(dir, "tmp", "way"), stranger, stranger))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		key:                                        nil,
		filepath.Join(ours, "round", "key"):        nil, // links of root's
		filepath.Join(theirs, "key"):               ErrOwner,
		filepath.Join(theirs, "way", "key"):        ErrOwner, // a link of theirs to a file of root's
		filepath.Join(dir, "tmp", "way", "key"):    ErrOwner, // a link of theirs where everybody may make one
		filepath.Join(dir, "there", "key"):         ErrOwner,
		filepath.Join(dir, "there", "way", "key"):  ErrOwner,
		filepath.Join(theirs, "..", "ours", "key"): nil, // the same as ours/key
	} {
		f, err := Open(path, Secret)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
		_ = f.Close()
	}
	if err := os.Chmod(ours, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(key, Secret); !errors.Is(err, ErrWritable) || MendOf(err) != "chmod go-w "+ours {
		t.Errorf("a folder that everybody may write to: %v, %s", err, MendOf(err))
	}
	if err := os.Chmod(ours, 0o777|fs.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(key, Secret, 100); err != nil {
		t.Errorf("as /tmp is: %v", err)
	}
	if err := os.Chown(key, stranger, stranger); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(key, Secret); !errors.Is(err, ErrOwner) || !strings.Contains(MendOf(err), "sudo -u '#4343'") || strings.Contains(MendOf(err), "chown") {
		t.Errorf("a file of another user: %v, %s", err, MendOf(err))
	}
}

// A command that a message names can be copied whatever the path is.
func TestShellWord(t *testing.T) {
	for text, want := range map[string]string{"/home/a.b/c-d_e+f": "/home/a.b/c-d_e+f", "http://h:1/?a=b": "'http://h:1/?a=b'",
		"": "''", "my groups": "'my groups'", "it's": `'it'\''s'`, "$(reboot)": "'$(reboot)'", "-x": "'-x'", "a@b,c%d=": "a@b,c%d=", "é": "'é'"} {
		if got := ShellWord(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
