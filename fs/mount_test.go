package fs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
)

func pattern(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8*13)
	}
	return string(b)
}

// R4: looking at everything spends nothing; reading spends once.
func TestR4ListingsSpendNothingAndReadsSpendOnce(t *testing.T) {
	m := mounting(t)
	content := pattern(300_000)
	m.put("a/b/big", content)
	m.put("plain", "text")
	err := filepath.WalkDir(m.dir, func(_ string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		_, err = d.Info()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("sh", "-c", `cd "$1" && ls -laR . && find . && du -a . && stat team/plain`, "sh",
		m.dir).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	info, err := os.Stat(m.path("team/a/b/big"))
	if err != nil || info.Size() != int64(len(content)) {
		t.Fatalf("A1: %+v, %v", info, err)
	}
	m.wantCharges(0, 0)

	if got := m.read("team/a/b/big"); got != content {
		t.Error("the whole file reads differently")
	}
	readEveryWay(t, m.path("team/a/b/big"), content)
	m.wantCharges(1, 0)
}

func readEveryWay(t *testing.T, path, content string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, off := range []int{0, 1, 4095, 4096, 131_071, len(content) - 3} {
		p := make([]byte, 5000)
		n, err := f.ReadAt(p, int64(off))
		if want := content[off:min(off+len(p), len(content))]; string(p[:n]) != want || err != nil &&
			!errors.Is(err, io.EOF) {
			t.Errorf("at %d: %d bytes, %v", off, n, err)
		}
	}
	mem, err := unix.Mmap(int(f.Fd()), 0, len(content), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal("mmap: ", err)
	}
	if string(mem) != content {
		t.Error("the mapping holds something else")
	}
	if err := unix.Munmap(mem); err != nil {
		t.Error(err)
	}
	out, err := os.Create(filepath.Join(t.TempDir(), "copy"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	if n, err := unix.Sendfile(int(out.Fd()), int(f.Fd()), new(int64), len(content)); n <= 0 || err != nil {
		t.Errorf("sendfile: %d, %v", n, err)
	}
	for script, want := range map[string]string{"tail -c 7": content[len(content)-7:], "head -c 9": content[:9]} {
		if got, err := exec.Command("sh", "-c", script+` "$1"`, "sh", path).Output(); string(got) != want {
			t.Errorf("%s: %q, %v", script, got, err)
		}
	}
}

// A1: what is appended stands at the end, also while the kernel has asked for no size that is known.
func TestA1AppendingWhereTheSizeWasUnknown(t *testing.T) {
	m := mounting(t)
	for name, before := range map[string]func(path string){
		"not opened": func(string) {},
		"read": func(path string) {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) // os.Open asks for the size
			ok(t, err)
			_, err = unix.Read(fd, make([]byte, 3))
			ok(t, errors.Join(err, unix.Close(fd)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			m.must(order{Do: "put", Group: "team", Name: name, Data: []byte("hello\n"), Size: sdk.SizeUnknown})
			m.refresh()
			path := m.path("team/" + name)
			before(path)
			fd, err := unix.Open(path, unix.O_WRONLY|unix.O_APPEND|unix.O_CLOEXEC, 0)
			ok(t, err)
			for _, text := range []string{"more\n", "end\n"} {
				_, err := unix.Write(fd, []byte(text))
				ok(t, err)
			}
			ok(t, unix.Close(fd))
			if got := m.read("team/" + name); got != "hello\nmore\nend\n" {
				t.Errorf("it holds %q", got)
			}
		})
	}
}

// A1: an unknown size is right once the file was read.
func TestA1UnknownSizeReadsWhole(t *testing.T) {
	m := mounting(t)
	content := pattern(50_000)
	m.must(order{Do: "put", Group: "team", Name: "f", Data: []byte(content), Size: sdk.SizeUnknown})
	if info, err := os.Stat(m.path("team/f")); err != nil || info.Size() != 0 {
		t.Errorf("size before: %+v, %v", info, err)
	}
	if got := m.read("team/f"); got != content {
		t.Errorf("read %d bytes of %d", len(got), len(content))
	}
	if info, err := os.Stat(m.path("team/f")); err != nil || info.Size() != int64(len(content)) {
		t.Errorf("size afterwards: %+v, %v", info, err)
	}
	m.wantCharges(1, 0)
}

// W1: create, write anywhere, append, truncate and read back.
func TestW1WriteAppendTruncateReadBack(t *testing.T) {
	m := mounting(t)
	f, err := os.OpenFile(m.path("team/f"), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	steps := []func() error{
		func() error { _, err := f.WriteAt([]byte("world"), 6); return err },
		func() error { _, err := f.WriteAt([]byte("hello"), 0); return err },
		func() error { return f.Truncate(20) },
		func() error { return f.Truncate(11) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	back := make([]byte, 30)
	if n, _ := f.ReadAt(back, 0); string(back[:n]) != "hello\x00world" {
		t.Errorf("read back %q", back[:n])
	}
	m.wantCharges(0, 0)
	ok(t, f.Close())
	m.wantCharges(0, 1)
	appendTo(t, m.path("team/f"), "!")
	if got := m.read("team/f"); got != "hello\x00world!" {
		t.Errorf("after appending: %q", got)
	}
	ok(t, os.Truncate(m.path("team/f"), 5))
	if got := m.read("team/f"); got != "hello" {
		t.Errorf("after truncate by name: %q", got)
	}
	m.wantCharges(0, 3)
	_, err = os.OpenFile(m.path("team/f"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	wantErrno(t, "exclusive create", err, unix.EEXIST)
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// W3: closing twice, closing after fsync and duplicated descriptors pay once.
func TestW3SecondCloseIsFree(t *testing.T) {
	m := mounting(t)
	f, err := os.Create(m.path("team/f"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	ok(t, f.Sync())
	m.wantCharges(0, 1)
	for range 3 {
		fd, err := unix.Dup(int(f.Fd()))
		if err == nil {
			err = unix.Close(fd)
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	m.write("team/f", "x")
	m.wantCharges(0, 1)
	dir, err := os.Open(m.path("team"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); err != nil {
		t.Errorf("fsync of a directory: %v", err)
	}
}

// W4: O_TRUNC arrives with open and retrieves nothing; without it the content is needed.
func TestW4TruncatingOpenRetrievesNothing(t *testing.T) {
	m := mounting(t)
	m.put("f", "before")
	m.write("team/f", "after")
	m.wantCharges(0, 1)
	m.put("g", "before")
	m.refresh()
	appendTo(t, m.path("team/g"), " and after")
	if got := m.read("team/g"); got != "before and after" {
		t.Errorf("g holds %q", got)
	}
	m.wantCharges(1, 2)
}

// W7: renaming a scratch file onto a name is one save.
func TestW7RenameOverSavesOnce(t *testing.T) {
	m := mounting(t)
	m.put("f", "old")
	m.write("team/f.tmp", "new")
	m.wantCharges(0, 0)
	err := unix.Renameat2(unix.AT_FDCWD, m.path("team/f.tmp"), unix.AT_FDCWD, m.path("team/f"), unix.RENAME_NOREPLACE)
	wantErrno(t, "rename without replacing", err, unix.EEXIST)
	err = unix.Renameat2(unix.AT_FDCWD, m.path("team/f.tmp"), unix.AT_FDCWD, m.path("team/f"), unix.RENAME_EXCHANGE)
	wantErrno(t, "exchange", err, unix.EINVAL)
	ok(t, os.Rename(m.path("team/f.tmp"), m.path("team/f")))
	if got := m.read("team/f"); got != "new" {
		t.Errorf("f holds %q", got)
	}
	if _, err := os.Stat(m.path("team/f.tmp")); !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("the old name: %v", err)
	}
	m.wantCharges(0, 1)
}

// N5, W9: a refused operation is refused at once, with a line that gives the reason.
func TestN5SpecialFilesAreRefused(t *testing.T) {
	m := mounting(t)
	m.put("f", "x")
	for what, err := range map[string]error{
		"symlink":        os.Symlink("f", m.path("team/link")),
		"symlink in /":   os.Symlink("f", m.path("link")),
		"fifo":           unix.Mkfifo(m.path("team/fifo"), 0o600),
		"socket":         unix.Mknod(m.path("team/socket"), unix.S_IFSOCK|0o600, 0),
		"link":           os.Link(m.path("team/f"), m.path("team/second")),
		"unlink":         os.Remove(m.path("team/f")),
		"mkdir in /":     os.Mkdir(m.path("group"), 0o700),
		"file in /":      os.WriteFile(m.path("file"), nil, 0o600),
		"remove a group": os.Remove(m.path("team")),
		"chown":          os.Chown(m.path("team/f"), 12345, -1),
	} {
		wantErrno(t, what, err, unix.EPERM)
	}
	_, err := unix.Open(m.path("team"), unix.O_TMPFILE|unix.O_RDWR, 0o600)
	wantErrno(t, "O_TMPFILE", err, unix.EOPNOTSUPP)
	errorsText := m.read(".svcfs/errors")
	for _, want := range []string{"\t/team/link\tsymlink\trefused by design\t", "\t/link\tsymlink\t",
		"\t/team/fifo\tmknod\t", "\t/team/f\tchown\t"} {
		if !strings.Contains(errorsText, want) {
			t.Errorf("E1: %q is not in\n%s", want, errorsText)
		}
	}
	m.wantCharges(0, 0)
}

// N5: folders inside a group are free, and go again while they are empty.
func TestN5MkdirRmdir(t *testing.T) {
	m := mounting(t)
	ok(t, os.MkdirAll(m.path("team/a/b"), 0o755))
	wantErrno(t, "mkdir again", os.Mkdir(m.path("team/a"), 0o700), unix.EEXIST)
	wantErrno(t, "rmdir of a full folder", unix.Rmdir(m.path("team/a")), unix.ENOTEMPTY)
	wantErrno(t, "unlink of a folder", unix.Unlink(m.path("team/a")), unix.EISDIR)
	m.write("team/a/b/x.tmp", "scratch")
	wantErrno(t, "rmdir of a file", unix.Rmdir(m.path("team/a/b/x.tmp")), unix.ENOTDIR)
	if err := os.RemoveAll(m.path("team/a")); err != nil {
		t.Error(err)
	}
	m.wantCharges(0, 0)
}

// N5: tar --xattrs makes a file with mknod before it sets attributes and writes.
func TestN5MknodMakesAFile(t *testing.T) {
	m := mounting(t)
	path := m.path("team/f")
	ok(t, unix.Mknod(path, unix.S_IFREG|0o700, 0))
	wantErrno(t, "mknod again", unix.Mknod(path, unix.S_IFREG|0o600, 0), unix.EEXIST)
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o700 || info.Size() != 0 {
		t.Errorf("stat: %v, %v", info, err)
	}
	m.wantCharges(0, 0)
	m.write("team/f", "content")
	m.wantCharges(0, 1)
}

// N3: a name that is longer than names can be is that to every operation.
func TestN3LongNamesAreRefusedEverywhere(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Ours, p.Deletes = true, true })
	m.put("f", "x")
	for _, size := range []int{256, 1000} {
		long := m.path("team/" + strings.Repeat("n", size))
		_, stat := os.Lstat(long)
		_, open := os.Open(long)
		for what, err := range map[string]error{"stat": stat, "open": open, "create": os.WriteFile(long, nil, 0o600),
			"chmod":    os.Chmod(long, 0o600),
			"truncate": os.Truncate(long, 1), "unlink": unix.Unlink(long), "rmdir": unix.Rmdir(long),
			"mkdir": os.Mkdir(long, 0o700), "rename": os.Rename(long, m.path("team/g")),
			"rename to it": os.Rename(m.path("team/f"), long), "link": os.Link(m.path("team/f"), long),
			"times": os.Chtimes(long, time.Now(), time.Now())} {
			wantErrno(t, what, err, unix.ENAMETOOLONG)
		}
	}
	m.wantCharges(0, 0)
}

// A file is all data, up to its end (R4).
func TestR4SeekingForHolesAndData(t *testing.T) {
	everyReads(t, func(t *testing.T, m *mount) {
		content := pattern(largeBytes)
		m.put("f", content)
		m.put("empty", "")
		for _, c := range []struct {
			name   string
			whence int
			from   int64
			want   int64
			err    error
		}{
			{"f", unix.SEEK_DATA, 0, 0, nil}, {"f", unix.SEEK_DATA, 7, 7, nil},
			{"f", unix.SEEK_DATA, largeBytes, 0, unix.ENXIO},
			{"f", unix.SEEK_HOLE, 0, largeBytes, nil}, {"f", unix.SEEK_HOLE, largeBytes, 0, unix.ENXIO},
			{"empty", unix.SEEK_DATA, 0, 0, unix.ENXIO}, {"empty", unix.SEEK_HOLE, 0, 0, unix.ENXIO},
		} {
			f, err := os.Open(m.path("team/" + c.name))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := unix.Seek(int(f.Fd()), c.from, c.whence); err != c.err || err == nil && got != c.want {
				t.Errorf("%s, whence %d from %d: %d, %v; want %d, %v", c.name, c.whence, c.from, got, err, c.want,
					c.err)
			}
			ok(t, f.Close())
		}
	})
}

// Setting the access time alone changes nothing else, and that is a change of the status.
func TestW10AccessTimeMovesTheCtime(t *testing.T) {
	m := mounting(t)
	m.put("f", "text")
	for _, name := range []string{"team/f", "team"} {
		var before, after unix.Stat_t
		ok(t, unix.Stat(m.path(name), &before))
		ok(t, unix.UtimesNanoAt(unix.AT_FDCWD, m.path(name), []unix.Timespec{{Sec: 1}, {Nsec: unix.UTIME_OMIT}}, 0))
		ok(t, unix.Stat(m.path(name), &after))
		if after.Ctim.Nano() <= before.Ctim.Nano() || after.Mtim != before.Mtim {
			t.Errorf("%s: ctime %v, then %v; mtime %v, then %v", name, before.Ctim, after.Ctim, before.Mtim, after.Mtim)
		}
	}
}

// W10: times of changes move as POSIX says.
func TestW10TimesOfChanges(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Ours, p.Deletes, p.Clock = true, true, true })
	old := time.Unix(1_000_000_000, 0)
	stat := func(name string) (mtime, ctime time.Time) {
		t.Helper()
		var st unix.Stat_t
		if err := unix.Stat(m.path(name), &st); err != nil {
			t.Fatal(err)
		}
		return time.Unix(st.Mtim.Unix()), time.Unix(st.Ctim.Unix())
	}
	m.put("uploaded", "x")
	m.write("team/f", "x")
	for _, tc := range []struct {
		what, file string // whose ctime moves; "" = of none
		folder     bool   // the folder's mtime moves
		do         func() error
	}{
		{"chmod", "team/f", false, func() error { return os.Chmod(m.path("team/f"), 0o700) }},
		{"utimes", "team/f", false, func() error { return os.Chtimes(m.path("team/f"), old, old) }},
		{"write", "team/f", false, func() error { return os.WriteFile(m.path("team/f"), []byte("y"), 0o600) }},
		{"rename", "team/g", true, func() error { return os.Rename(m.path("team/f"), m.path("team/g")) }},
		{"rename back", "team/f", true, func() error { return os.Rename(m.path("team/g"), m.path("team/f")) }},
		{"create", "", true, func() error { return os.WriteFile(m.path("team/new"), nil, 0o600) }},
		{"replace", "team/f", true, func() error { return os.Rename(m.path("team/new"), m.path("team/f")) }},
		{"mkdir", "", true, func() error { return os.Mkdir(m.path("team/d"), 0o700) }},
		{"move a folder", "team/e", true, func() error { return os.Rename(m.path("team/d"), m.path("team/e")) }},
		{"rmdir", "", true, func() error { return os.Remove(m.path("team/e")) }},
		{"unlink", "", true, func() error { return os.Remove(m.path("team/uploaded")) }},
		{"chmod of the folder", "team", false, func() error { return os.Chmod(m.path("team"), 0o750) }},
	} {
		ok(t, os.Chtimes(m.path("team"), old, old))
		_, folder := stat("team")
		time.Sleep(2 * time.Millisecond) // clocks tell milliseconds at least
		begun := time.Now()
		time.Sleep(2 * time.Millisecond)
		ok(t, tc.do())
		mtime, ctime := stat("team")
		if tc.folder != mtime.After(begun) || tc.folder && ctime.Before(folder) {
			t.Errorf("%s: the folder has mtime %v, ctime %v", tc.what, mtime, ctime)
		}
		if tc.file == "" {
			continue
		}
		if _, ctime := stat(tc.file); ctime.Before(begun) {
			t.Errorf("%s: the ctime is %v, before %v", tc.what, ctime, begun)
		}
	}
	if mtime, _ := stat("team/f"); mtime.Before(old) {
		t.Errorf("the mtime is %v", mtime)
	}
}

// W10: a copy of a file with the access list of the mount succeeds, and gives nobody rights.
func TestW10AccessListsOfCopies(t *testing.T) {
	proctest.Need(t, "root")
	m := mounting(t, func(p *plan) { p.Options.AllowOther, p.Options.ForeignUID = true, 65534 })
	m.put("f", "x")
	list := make([]byte, 200)
	n, err := unix.Getxattr(m.path("team/f"), "system.posix_acl_access", list)
	if err != nil {
		t.Fatal(err)
	}
	m.write("team/copy", "x")
	if err := unix.Setxattr(m.path("team/copy"), "system.posix_acl_access", list[:n], 0); err != nil {
		t.Errorf("the list of the mount: %v", err)
	}
	list[4+8+4] = 77 // the user of the second entry
	wantErrno(t, "a list for another user", unix.Setxattr(m.path("team/copy"), "system.posix_acl_access", list[:n], 0),
		unix.EOPNOTSUPP)
	if out, err := exec.Command("cp", "-a", m.path("team/f"), m.path("team/again")).CombinedOutput(); err != nil {
		t.Errorf("cp -a: %v %s", err, out)
	}
}

// W10: what copying tools set succeeds, and shows no more than the umask leaves.
func TestW10AttributesOfCopyingTools(t *testing.T) {
	m := mounting(t)
	m.put("f", "x")
	m.write("team/new", "x")
	path, when := m.path("team/f"), time.Unix(1_500_000_000, 123_000_000)
	for what, err := range map[string]error{
		"chown to the owner": os.Chown(path, os.Getuid(), os.Getgid()),
		"times":              os.Chtimes(path, when, when),
		"chmod":              os.Chmod(path, 0o755),
		"chmod of a folder":  os.Chmod(m.path("team"), 0o750),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	t.Run("files go to nobody else", func(t *testing.T) {
		wantErrno(t, "chown to another user", os.Chown(path, os.Getuid()+1, os.Getgid()), unix.EPERM)
		wantErrno(t, "chown to another group", os.Chown(path, os.Getuid(), os.Getgid()+1), unix.EPERM)
	})
	t.Run("extended attributes would be lost", func(t *testing.T) {
		for what, err := range map[string]error{
			"ours, as cp -a sets it": unix.Setxattr(path, "user.svcfs.ref", []byte("x"), 0),
			"user xattr":             unix.Setxattr(path, "user.comment", []byte("x"), 0),
			"security xattr":         unix.Setxattr(m.path("team/new"), "security.selinux", []byte("x"), 0),
			"xattr of a folder":      unix.Setxattr(m.path("team"), "user.comment", []byte("x"), 0),
		} {
			wantErrno(t, what, err, unix.EOPNOTSUPP)
		}
		ok(t, unix.Removexattr(path, "user.svcfs.ref")) // rsync -X does so
		wantErrno(t, "removal of one from a folder", unix.Removexattr(m.path("team"), "user.comment"), unix.ENODATA)
		ref := make([]byte, 20)
		if n, err := unix.Getxattr(path, "user.svcfs.ref", ref); err != nil || string(ref[:n]) != "ref/1" {
			t.Errorf("our own xattr is %q afterwards, %v", ref[:max(n, 0)], err)
		}
		trusted := unix.EOPNOTSUPP
		if os.Geteuid() != 0 {
			trusted = unix.ENODATA // the kernel does not even ask for who may not see it
		}
		for name, want := range map[string]unix.Errno{"user.comment": unix.ENODATA, "user.svcfs.none": unix.ENODATA,
			"security.selinux":        unix.EOPNOTSUPP,
			"system.posix_acl_access": unix.EOPNOTSUPP, "trusted.overlay.opaque": trusted} {
			for _, at := range []string{path, m.path("team")} {
				_, err := unix.Getxattr(at, name, nil)
				wantErrno(t, name+" afterwards", err, want)
			}
		}
	})
	t.Run("rights are not taken", func(t *testing.T) {
		toSomebody := []byte{2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 2, 0, 6, 0, 57, 48, 0, 0, 4, 0, 0, 0, 255, 255,
			255, 255,
			16, 0, 6, 0, 255, 255, 255, 255, 32, 0, 0, 0, 255, 255, 255, 255}
		ok(t, os.Mkdir(m.path("team/own"), 0o700)) // of files of others the kernel says EPERM to an ordinary user
		for _, at := range []string{m.path("team/new"), m.path("team/own")} {
			wantErrno(t, "an access list", unix.Setxattr(at, "system.posix_acl_access", toSomebody, 0), unix.EOPNOTSUPP)
		}
		wantErrno(t, "a list for what comes",
			unix.Setxattr(m.path("team/own"), "system.posix_acl_default", toSomebody, 0), unix.EOPNOTSUPP)
		if os.Geteuid() == 0 {
			raw := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
			wantErrno(t, "capabilities", unix.Setxattr(path, "security.capability", raw, 0), unix.EOPNOTSUPP)
		}
	})
	t.Run("modes and times are kept", func(t *testing.T) {
		for name, want := range map[string]iofs.FileMode{"team/f": 0o700, "team/new": 0o600,
			"team": 0o700 | iofs.ModeDir, ".svcfs/status": 0o400, ".svcfs": 0o500 | iofs.ModeDir} {
			if info, err := os.Stat(m.path(name)); err != nil || info.Mode() != want {
				t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
			}
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		st := info.Sys().(*syscall.Stat_t)
		if !info.ModTime().Equal(when) || st.Uid != theirUID() || st.Nlink != 1 || st.Blocks == 0 {
			t.Errorf("stat shows %+v", st)
		}
	})
	t.Run("cp -a copies a program", func(t *testing.T) {
		src := filepath.Join(t.TempDir(), "tool.sh")
		ok(t, os.WriteFile(src, []byte("#!/bin/sh\n"), 0o755))
		if out, err := exec.Command("cp", "-a", src, m.path("team/")).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("cp -a: %v %s", err, out)
		}
		if info, err := os.Stat(m.path("team/tool.sh")); err != nil || info.Mode() != 0o700 {
			t.Errorf("a copied program: %v, %v", info, err)
		}
	})
	m.wantCharges(0, 2)
}

func TestW10UmaskOption(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Options.Umask = 0o027 })
	m.write("team/f", "x")
	ok(t, os.Chmod(m.path("team/f"), 0o777))
	for name, want := range map[string]iofs.FileMode{"team/f": 0o750, "team": 0o750 | iofs.ModeDir} {
		if info, err := os.Stat(m.path(name)); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, info, err, want)
		}
	}
}

func TestW10ReadOnlyMount(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Options.ReadOnly = true })
	m.put("f", "x")
	if got := m.read("team/f"); got != "x" {
		t.Errorf("f holds %q", got)
	}
	for what, err := range map[string]error{
		"write":    os.WriteFile(m.path("team/f"), nil, 0o600),
		"create":   os.WriteFile(m.path("team/g"), nil, 0o600),
		"mkdir":    os.Mkdir(m.path("team/d"), 0o700),
		"rename":   os.Rename(m.path("team/f"), m.path("team/g")),
		"truncate": os.Truncate(m.path("team/f"), 0),
		"unlink":   os.Remove(m.path("team/f")),
		"chmod":    os.Chmod(m.path("team/f"), 0o600),
	} {
		wantErrno(t, what, err, unix.EROFS)
	}
}

// W15: a program that ignores that a write was refused is told again when it closes.
func TestW15RefusedWriteOnAMount(t *testing.T) {
	m := mounting(t, func(p *plan) { p.MaxFile = 10_000 })
	m.put("f", "whole")
	out, err := exec.Command("cp", "/proc/self/exe", m.path("team/f")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "File too large") {
		t.Errorf("cp: %v, %s", err, out)
	}
	a := m.must(order{Do: "counts"})
	if a.Counts.Uploads != 0 || len(a.Pending) != 1 || !strings.Contains(a.Pending[0].Error, "larger than") {
		t.Errorf("%d uploads, pending %+v", a.Counts.Uploads, a.Pending)
	}
	m.write("team/f", "short")
	wantRecorded(t, m.path("team/f"), "short")
	m.wantCharges(0, 1)
}

// W15: what a killed program leaves is not recorded, until somebody asks for it.
func TestW15KilledProgramOnAMount(t *testing.T) {
	m := mounting(t)
	m.put("f", "whole")
	for what, signal := range map[string]unix.Signal{"killed": unix.SIGKILL, "terminated": unix.SIGTERM} {
		cmd := exec.Command("sh", "-c", "exec cat >"+m.path("team/f"))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		ok(t, cmd.Start())
		if _, err := in.Write([]byte("half")); err != nil {
			t.Fatal(err)
		}
		proctest.Eventually(t, "half is written", func() bool {
			info, err := os.Stat(m.path("team/f"))
			return err == nil && info.Size() == 4
		})
		ok(t, cmd.Process.Signal(signal))
		ok(t, ignoreExit(cmd.Wait()))
		if a := m.must(order{Do: "counts"}); len(a.Pending) != 1 || !strings.Contains(a.Pending[0].Error, "killed") {
			t.Errorf("%s: pending %+v", what, a.Pending)
		}
		state := make([]byte, 20) // A2
		if n, err := unix.Getxattr(m.path("team/f"), "user.svcfs.state", state); err != nil ||
			string(state[:n]) != "failed" {
			t.Errorf("%s: the state is %q, %v", what, state[:max(n, 0)], err)
		}
		wantRecorded(t, m.path("team/f"), "whole")
		m.write("team/f", "whole")
	}
	m.wantCharges(0, 0)
}

// W15: a program that leaves by itself has saved its files, however many threads it has.
func TestW15ProgramThatLeavesIsNotKilled(t *testing.T) {
	proctest.Need(t, "python3")
	m := mounting(t)
	for i := range 4 {
		out, err := exec.Command("python3", "-c", `import os, sys, threading, time
f = open(sys.argv[1], "w")
f.write("whole")
f.flush()
for i in range(4):
    threading.Thread(target=lambda: time.sleep(1000)).start()
os._exit(0)`, m.path(fmt.Sprint("team/", i))).CombinedOutput()
		if err != nil {
			t.Fatalf("%v, %s", err, out)
		}
	}
	if a := m.must(order{Do: "counts"}); len(a.Pending) != 0 {
		t.Errorf("pending %+v", a.Pending)
	}
	m.wantCharges(0, 4)
}

// W13: locks work, and a writable mapping is uploaded.
func TestW13LocksAndMappings(t *testing.T) {
	m := mounting(t)
	m.write("team/f", pattern(8192))
	a, b := openFile(t, m.path("team/f")), openFile(t, m.path("team/f"))
	ok(t, unix.Flock(int(a.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	wantErrno(t, "second flock", unix.Flock(int(b.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	whole := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(a.Fd(), unix.F_OFD_SETLK, &whole); err != nil {
		t.Error(err)
	}
	wantErrno(t, "second lock", unix.FcntlFlock(b.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}),
		unix.EAGAIN)

	mem, err := unix.Mmap(int(a.Fd()), 0, 8192, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	copy(mem[5000:], "mapped")
	if err := unix.Msync(mem, unix.MS_SYNC); err != nil {
		t.Error(err)
	}
	m.wantCharges(0, 2)
	if err := unix.Munmap(mem); err != nil {
		t.Error(err)
	}
	if got := m.read("team/f"); got[5000:5006] != "mapped" || got[:5000] != pattern(8192)[:5000] {
		t.Error("the mapping was not written")
	}
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A2: the attributes, and the protocol of asking for their size.
func TestA2Xattrs(t *testing.T) {
	m := mounting(t)
	m.put("f", "hello")
	path := m.path("team/f")
	for name, want := range map[string]string{"user.svcfs.ref": "ref/1", "user.svcfs.tx": "tx1",
		"user.svcfs.group":  "team",
		"user.svcfs.sha256": sdk.ComputeHash([]byte("hello")).String(), "user.svcfs.state": "remote",
		"user.svcfs.uploader": "bob.svc.testnet"} {
		size, err := unix.Getxattr(path, name, nil)
		if err != nil || size != len(want) {
			t.Errorf("%s: size %d, %v", name, size, err)
			continue
		}
		_, err = unix.Getxattr(path, name, make([]byte, size-1))
		wantErrno(t, name+" with too little room", err, unix.ERANGE)
		value := make([]byte, size+10)
		if n, err := unix.Getxattr(path, name, value); err != nil || string(value[:n]) != want {
			t.Errorf("%s: %q, %v", name, value[:max(n, 0)], err)
		}
	}
	size, err := unix.Listxattr(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = unix.Listxattr(path, make([]byte, size-1))
	wantErrno(t, "list with too little room", err, unix.ERANGE)
	list := make([]byte, size)
	n, err := unix.Listxattr(path, list)
	names := strings.Split(strings.TrimSuffix(string(list[:max(n, 0)]), "\x00"), "\x00")
	if err != nil || !slices.IsSorted(names) || !slices.Contains(names, "user.svcfs.ref") {
		t.Errorf("names %q, %v", names, err)
	}
	if n, err := unix.Listxattr(m.path("team"), nil); n != 0 || err != nil {
		t.Errorf("names of a folder: %d, %v", n, err)
	}
	m.wantCharges(0, 0)
}

// A2: the state shows where the content is, and the price of opening depends on it.
func TestA2State(t *testing.T) {
	m := mounting(t)
	m.put("f", "hello")
	state := func(name, want string) {
		t.Helper()
		value := make([]byte, 20)
		if n, err := unix.Getxattr(m.path(name), "user.svcfs.state", value); err != nil || string(value[:n]) != want {
			t.Errorf("%s is %q, %v; want %s", name, value[:max(n, 0)], err, want)
		}
	}
	state("team/f", "remote")
	m.read("team/f")
	state("team/f", "cached")
	f, err := os.OpenFile(m.path("team/f"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("x"); err != nil {
		t.Error(err)
	}
	state("team/f", "staged")
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	state("team/f", "cached")
	m.write("team/f~", "x")
	state("team/f~", "scratch")
	m.wantCharges(1, 1)
}

// A4: a name has one inode number, in this mount and in the next, whatever is
// saved under it.
func TestA4NamesKeepTheirInode(t *testing.T) {
	names := []string{"team", "team/folder", "team/folder/f", "team/g"}
	seen := map[uint64]string{}
	for range 2 {
		m := mounting(t)
		m.put("folder/f", "one")
		m.put("g", "one")
		for _, version := range []string{"one", "two"} {
			if version == "two" {
				m.write("team/folder/f", version)
				m.refresh()
				m.must(order{Do: "settle"})
			}
			for _, name := range names {
				no := m.inode(name)
				if before, ok := seen[no]; ok && before != name {
					t.Errorf("%s and %s share inode %d", name, before, no)
				}
				seen[no] = name
			}
		}
	}
	if len(seen) != len(names) {
		t.Errorf("%d names had %d inodes: %v", len(names), len(seen), seen)
	}
}

// A3: room enough, never more free than there is, on files as well.
func TestA3Statfs(t *testing.T) {
	m := mounting(t)
	// more than is claimed without it
	m.must(order{Do: "put", Group: "team", Name: "f", Data: []byte("x"), Size: 3 << 40})
	m.refresh()
	if _, err := os.ReadDir(m.path("team")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "team", "team/f"} {
		var st unix.Statfs_t
		if err := unix.Statfs(m.path(name), &st); err != nil || st.Bfree > st.Blocks || st.Bavail == 0 ||
			st.Ffree > st.Files || st.Namelen != maxName {
			t.Errorf("%q: %+v, %v", name, st, err)
		}
	}
}

// An open directory is a snapshot: removing while listing skips nothing, and
// rewinding shows the present names.
func TestA4ListingWhileRemoving(t *testing.T) {
	m := mounting(t)
	const many = 900 // more than four answers
	ok(t, os.Mkdir(m.path("team/d"), 0o700))
	for i := range many {
		m.write(fmt.Sprintf("team/d/%04d.tmp", i), "")
	}
	dir, err := os.Open(m.path("team/d"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	seen := map[string]bool{}
	for {
		names, err := dir.Readdirnames(100)
		for _, name := range names {
			if seen[name] {
				t.Errorf("%s comes twice", name)
			}
			seen[name] = true
			if err := os.Remove(m.path("team/d/" + name)); err != nil {
				t.Error(err)
			}
		}
		if err != nil {
			break
		}
	}
	if len(seen) != many {
		t.Errorf("saw %d of %d names", len(seen), many)
	}
	m.write("team/d/after.tmp", "")
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if names, err := dir.Readdirnames(-1); err != nil || !slices.Equal(names, []string{"after.tmp"}) {
		t.Errorf("after rewinding: %v, %v", names, err)
	}
	if out, err := exec.Command("ls", "-a", m.path("team")).Output(); err != nil || string(out) != ".\n..\nd\n" {
		t.Errorf("ls -a: %q, %v", out, err)
	}
	if out, err := exec.Command("rm", "-r", m.path("team/d")).CombinedOutput(); err != nil {
		t.Errorf("rm -r: %v %s", err, out)
	}
}

// A listing is whole for programs whose buffer takes less than an answer of the kernel, as those of musl,
// also where they look at names in between: the kernel then asks for names with attributes and for names alone in
// turns.
func TestA4ListingWithASmallBuffer(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Options.Timeout = -1 }) // each look asks
	const many = 400                                           // more than two answers
	for i := range many {
		m.must(order{Do: "put", Group: "team", Name: fmt.Sprintf("f%04d", i), Data: []byte("x"), Size: 1})
	}
	m.refresh()
	for _, size := range []int{512, 2048, 3000, 32 << 10} {
		for _, looks := range []int{0, 1, 2, 3} { // from which answer on
			fd, err := unix.Open(m.path("team"), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			ok(t, err)
			var all []string
			for buf, answer := make([]byte, size), 1; ; answer++ {
				n, err := unix.Getdents(fd, buf)
				ok(t, err)
				if n == 0 {
					break
				}
				_, _, names := unix.ParseDirent(buf[:n], -1, nil)
				all = append(all, names...)
				for _, name := range names {
					if looks > 0 && answer >= looks {
						var st unix.Stat_t
						ok(t, unix.Lstat(m.path("team/"+name), &st))
					}
				}
			}
			ok(t, unix.Close(fd))
			once := slices.Compact(slices.Sorted(slices.Values(all)))
			if len(all) != many || len(once) != many {
				t.Errorf("buffer of %d, looks from answer %d: %d names, %d of them once", size, looks, len(all),
					len(once))
			}
		}
	}
}

// A listing tells the numbers and kinds that a look at each name tells. The kernel asks for the names
// alone, but of the first ones, until a program looks at them.
func TestA4NumbersInAListing(t *testing.T) {
	m := mounting(t)
	const many = 600 // three answers
	for i := range many {
		m.write(fmt.Sprintf("team/%04d.tmp", i), "")
	}
	ok(t, os.Mkdir(m.path("team/zz"), 0o700))
	for _, looks := range []bool{false, true} {
		var ls []string
		if looks {
			ls = append(ls, "-l")
		}
		out, err := exec.Command("ls", append(ls, "-i", "--time-style=+", m.path("team"))...).Output()
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		lines = slices.DeleteFunc(lines, func(line string) bool { return strings.HasPrefix(line, "total") })
		if len(lines) != many+1 {
			t.Fatalf("%d lines, want %d", len(lines), many+1)
		}
		for _, line := range lines {
			words := strings.Fields(line)
			if name := words[len(words)-1]; words[0] != fmt.Sprint(m.inode("team/"+name)) {
				t.Errorf("%s: number %s, and %d to who looks at it", name, words[0], m.inode("team/"+name))
			}
		}
	}
	entries, err := os.ReadDir(m.path("team"))
	if err != nil || len(entries) != many+1 || !entries[many].IsDir() || entries[0].Type() != 0 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// E: the errno reaches the program, at open.
func TestEErrnosReachPrograms(t *testing.T) {
	m := mounting(t)
	m.put("f", "x")
	m.refresh()
	for kind, want := range map[sdk.Kind]syscall.Errno{
		sdk.ErrInsufficient: unix.EDQUOT, sdk.ErrUnavailable: unix.EHOSTUNREACH, sdk.ErrTimeout: unix.ETIMEDOUT,
		sdk.ErrCorrupt: unix.EIO, sdk.ErrUnauthenticated: unix.EKEYREJECTED, sdk.ErrNotAuthorized: unix.EACCES,
		sdk.ErrDeleted: unix.ENOENT, sdk.ErrTooLarge: unix.EFBIG, sdk.ErrStorageFull: unix.ENOSPC,
	} {
		m.must(order{Do: "fail", Name: "retrieve", Kind: &kind})
		_, err := os.ReadFile(m.path("team/f"))
		wantErrno(t, kind.Error(), err, want)
	}
	m.must(order{Do: "fail", Name: "retrieve"})
	if got := m.read("team/f"); got != "x" {
		t.Errorf("afterwards: %q", got)
	}
	kind := sdk.ErrInsufficient
	m.must(order{Do: "fail", Name: "upload", Kind: &kind})
	wantErrno(t, "W2: close", os.WriteFile(m.path("team/g"), []byte("x"), 0o600), unix.EDQUOT)
	if p := m.must(order{Do: "counts"}).Pending; len(p) != 1 || p[0].Path != "/team/g" {
		t.Errorf("W2: pending %+v", p)
	}
	m.must(order{Do: "fail", Name: "upload"})
	m.write("team/g", "y")
}

// waitFor polls until n requests hang in the service.
func (m *mount) waitFor(n int) {
	m.t.Helper()
	proctest.Eventually(m.t, fmt.Sprintf("%d requests hang", n),
		func() bool { return m.must(order{Do: "counts"}).Counts.Waiting == n })
}

// E2: Ctrl-C ends a program that waits for a service without an answer, and no other program
// waits.
func TestE2InterruptEndsHungPrograms(t *testing.T) {
	m := mounting(t)
	m.put("f", "x")
	m.put("other", "y")
	if got := m.read("team/other"); got != "y" {
		t.Fatal(got)
	}
	src := filepath.Join(t.TempDir(), "src")
	ok(t, os.WriteFile(src, []byte("content"), 0o600))
	for _, tc := range []struct {
		op   string
		args []string
	}{
		{"retrieve", []string{"cat", m.path("team/f")}},
		{"upload", []string{"cp", src, m.path("team/new")}},
		{"entries", []string{"ls", m.path("second")}},
	} {
		if tc.op == "entries" {
			m.must(order{Do: "member", Group: "second", On: true})
			m.refresh()
		}
		m.must(order{Do: "stall", Name: tc.op, On: true})
		cmd := exec.Command(tc.args[0], tc.args[1:]...)
		ok(t, cmd.Start())
		m.waitFor(1)
		if got := m.read("team/other"); got != "y" {
			t.Errorf("%s hangs: another file reads %q", tc.op, got)
		}
		if err := cmd.Process.Signal(unix.SIGINT); err != nil {
			t.Error(err)
		}
		if err := inTime(t, strings.Join(tc.args, " "), cmd.Wait); err == nil {
			t.Errorf("%v succeeded", tc.args)
		}
		m.must(order{Do: "stall", Name: tc.op})
	}
}

// E2, threat 12: unmounting never waits for the service.
func TestE2UnmountNeverHangs(t *testing.T) {
	m := mounting(t)
	m.write("team/kept", "x")
	for _, op := range []string{"groups", "entries", "retrieve", "upload"} {
		m.must(order{Do: "stall", Name: op, On: true})
	}
	cmd := exec.Command("sh", "-c", `echo y > "$1"`, "sh", m.path("team/pending"))
	ok(t, cmd.Start())
	m.waitFor(1)
	a := m.order(order{Do: "unmount", Limit: hangLimit})
	if !strings.Contains(a.Error, ErrBusy.Error()) {
		t.Errorf("while a program waits: %q", a.Error)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = inTime(t, "a killed program", cmd.Wait)
	if err := inTime(t, "unmount", func() error {
		if a := m.order(order{Do: "unmount", Limit: hangLimit}); a.Error != "" {
			return errors.New(a.Error)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// M2, threat 1: only the mounting user can enter.
func TestM2OtherUsersCannotEnter(t *testing.T) {
	proctest.Need(t, "root")
	m := mounting(t)
	m.put("f", "x")
	if out, err := asNobody(exec.Command("ls", filepath.Dir(m.dir))).CombinedOutput(); err != nil {
		t.Fatalf("nobody does not even reach the mountpoint: %v %s", err, out)
	}
	for _, args := range [][]string{{"ls", m.dir}, {"stat", m.path("team/f")}, {"cat", m.path("team/f")},
		{"cat", m.path(".svcfs/status")}, {"touch", m.path("team/g")}} {
		if out, err := asNobody(exec.Command(args[0], args[1:]...)).CombinedOutput(); err == nil ||
			!bytes.Contains(out, []byte("Permission denied")) {
			t.Errorf("nobody: %v: %v %s", args, err, out)
		}
	}
	m.wantCharges(0, 0)
}

// M2: with AllowOther others enter as far as the bits permit.
func TestM2AllowOtherChecksPermissions(t *testing.T) {
	proctest.Need(t, "root")
	mounts := make(map[uint32]*mount)
	for _, umask := range []uint32{0, 0o022} {
		mounts[umask] = mounting(t, func(p *plan) { p.Options.AllowOther, p.Options.Umask = true, umask })
		mounts[umask].put("f", "x")
	}
	for _, tc := range []struct {
		umask  uint32
		script string
		ok     bool
	}{
		{0, "ls DIR/team", false},
		{0, "cat DIR/team/f", false},
		{0o022, "ls DIR/team", true},
		{0o022, "cat DIR/team/f", true},
		{0o022, "echo x >DIR/team/f", false},
		{0o022, "echo x >DIR/team/g", false},
		{0o022, "chmod 777 DIR/team/f", false},
	} {
		out, err := asNobody(exec.Command("sh", "-c",
			strings.ReplaceAll(tc.script, "DIR", mounts[tc.umask].dir))).CombinedOutput()
		if (err == nil) != tc.ok {
			t.Errorf("umask %03o: nobody: %s: %v %s", tc.umask, tc.script, err, out)
		}
	}
}

// M1, M3: a directory that is mounted on is refused; a mount in use names its users.
func TestM3BusyMountNamesItsUsers(t *testing.T) {
	m := mounting(t)
	if err := CheckMountpoint(m.dir); !errors.Is(err, ErrMounted) {
		t.Errorf("M1: %v", err)
	}
	mounts, err := Mounts()
	i := slices.IndexFunc(mounts, func(i MountInfo) bool { return i.Dir == m.dir })
	if err != nil || i < 0 || mounts[i].Source != "svcfs:alice.svc.testnet" || mounts[i].Type != "fuse.svcfs" {
		t.Errorf("%+v, %v", mounts, err)
	}
	m.wantUnmountedOnceUnused()
}

// wantUnmountedOnceUnused checks that a mount which a program uses stays and names it, and
// that it is gone when the program is.
func (m *mount) wantUnmountedOnceUnused() {
	t := m.t
	t.Helper()
	user := exec.Command("sleep", "1000")
	user.Dir = m.path("team")
	ok(t, user.Start())
	a := m.order(order{Do: "unmount", Limit: hangLimit})
	if !strings.Contains(a.Error, "in use by sleep (") || len(a.Busy) != 1 || a.Busy[0].PID != user.Process.Pid ||
		a.Busy[0].Path != m.path("team") {
		t.Errorf("busy: %+v", a)
	}
	_ = user.Process.Kill()
	_ = user.Wait()
	m.must(order{Do: "unmount", Limit: hangLimit})
	if a := m.order(order{Do: "unmount", Limit: hangLimit}); a.Error != "" {
		t.Errorf("unmounting again: %s", a.Error)
	}
	if err := CheckMountpoint(m.dir); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// M3: a mount whose process was killed is found and cleaned.
func TestM3DeadMountIsCleaned(t *testing.T) {
	m := mounting(t)
	ok(t, m.cmd.Process.Kill())
	proctest.Eventually(t, "the mount is dead", func() bool { return errors.Is(CheckMountpoint(m.dir), ErrDeadMount) })
	wantRefusal := CheckMountpoint(m.path("team"))
	if !errors.Is(wantRefusal, ErrDeadMount) {
		t.Errorf("beneath a dead mount: %v", wantRefusal)
	}
	ok(t, UnmountLazily(m.dir))
	if err := CheckMountpoint(m.dir); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// The check does not wait for a mount that does not answer, and does not call it dead.
func TestM1HungMountIsNotWaitedFor(t *testing.T) {
	m := mounting(t)
	ok(t, m.cmd.Process.Signal(unix.SIGSTOP))
	defer func() { _ = m.cmd.Process.Signal(unix.SIGCONT) }()
	if err := inTime(t, "checking a hung mount", func() error { return CheckMountpoint(m.dir) }); !errors.Is(err,
		ErrMounted) {
		t.Errorf("a hung mount: %v", err)
	}
}

// longMount makes the kernel believe answers for an hour, so that only
// a notification can change its mind.
func longMount(t *testing.T) *mount {
	return mounting(t, func(p *plan) { p.Options.Timeout = time.Hour })
}

// A change elsewhere is seen at once; open descriptors keep the old version (R3).
func TestR3NewVersionIsSeenAtOnce(t *testing.T) {
	m := longMount(t)
	m.put("f", "one")
	m.put("gone/x", "y")
	if got := m.read("team/f"); got != "one" {
		t.Fatal(got)
	}
	old := openFile(t, m.path("team/f"))
	m.put("f", "number two")
	m.put("new", "z")
	m.refresh()
	proctest.Eventually(t, "the new version shows", func() bool {
		info, err := os.Stat(m.path("team/f"))
		return err == nil && info.Size() == int64(len("number two"))
	})
	if got := m.read("team/f") + m.read("team/new"); got != "number twoz" {
		t.Errorf("reads %q", got)
	}
	p := make([]byte, 20)
	if n, _ := old.ReadAt(p, 0); string(p[:n]) != "one" {
		t.Errorf("the old version reads %q", p[:n])
	}
	m.must(order{Do: "member", Group: "later", On: true})
	m.refresh()
	if _, err := os.Stat(m.path("later")); err != nil {
		t.Errorf("N1: a new group: %v", err)
	}
}

// M5: after a revocation no byte of content is handed out: not by name, not through open
// descriptors, not from the kernel's pages.
func TestM5RevocationDropsPages(t *testing.T) {
	m := longMount(t)
	content := pattern(3 * 4096)
	m.put("f", content)
	f, err := os.Open(m.path("team/f"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	mem := mapped(t, f, len(content))
	if string(mem) != content {
		t.Fatal("the mapping holds something else")
	}
	m.must(order{Do: "member", Group: "team"})
	m.refresh()
	proctest.Eventually(t, "the mapping is gone", func() bool { return faults(mem) })
	p := make([]byte, 10)
	n, err := f.ReadAt(p, 0)
	if n != 0 {
		t.Errorf("read %q after the revocation", p[:n])
	}
	wantErrno(t, "an open file", err, unix.EKEYREVOKED)
	proctest.Eventually(t, "the directory is gone", func() bool {
		_, err := os.Stat(m.path("team/f"))
		return errors.Is(err, unix.ENOENT)
	})
	if names, err := os.ReadDir(m.dir); err != nil || len(names) != 0 {
		t.Errorf("the root lists %v, %v", names, err)
	}
}

// faults reports whether touching memory is answered by a signal.
func faults(mem []byte) (failed bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { failed = recover() != nil }()
	return mem[4096] == 0 && mem[0] == 1
}

// A notification never waits for a directory that a slow rename holds.
func TestM5SlowRenameDoesNotDelayRevocation(t *testing.T) {
	m := longMount(t)
	m.must(order{Do: "member", Group: "slow", On: true})
	m.must(order{Do: "put", Group: "slow", Name: "known", Data: []byte("1"), Size: 1})
	m.put("f", pattern(4096))
	m.refresh()
	openFile(t, m.path("slow/known")) // so that the kernel does not forget it
	m.write("slow/x.tmp", "x")
	f, err := os.Open(m.path("team/f"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := io.ReadAll(f); err != nil {
		t.Fatal(err)
	}
	m.must(order{Do: "stall", Name: "upload", On: true})
	mv := exec.Command("mv", m.path("slow/x.tmp"), m.path("slow/x"))
	ok(t, mv.Start())
	m.waitFor(1)
	m.must(order{Do: "put", Group: "slow", Name: "known", Data: []byte("22"), Size: 2})
	m.refresh() // the notice of the new version waits for the directory
	m.must(order{Do: "member", Group: "team"})
	m.refresh()
	proctest.Eventually(t, "the open file fails", func() bool {
		_, err := f.ReadAt(make([]byte, 1), 0)
		return errors.Is(err, unix.EKEYREVOKED)
	})
	m.must(order{Do: "stall", Name: "upload"})
	if err := inTime(t, "mv", mv.Wait); err != nil {
		t.Error(err)
	}
	proctest.Eventually(t, "the new version shows", func() bool {
		info, err := os.Stat(m.path("slow/known"))
		return err == nil && info.Size() == 2
	})
}

// N5: git's way to make a file: link the temporary name to the real one.
func TestN5LinkThenUnlinkIsASave(t *testing.T) {
	m := mounting(t)
	m.write("team/x.tmp", "content")
	ok(t, os.Link(m.path("team/x.tmp"), m.path("team/x")))
	var st unix.Stat_t
	if err := unix.Stat(m.path("team/x"), &st); err != nil || st.Nlink != 2 {
		t.Errorf("%d links, %v", st.Nlink, err)
	}
	ok(t, os.Remove(m.path("team/x.tmp")))
	if got := m.read("team/x"); got != "content" {
		t.Errorf("x holds %q", got)
	}
	if err := unix.Stat(m.path("team/x"), &st); err != nil || st.Nlink != 1 {
		t.Errorf("afterwards %d links, %v", st.Nlink, err)
	}
	m.wantCharges(0, 1)
}

// W10: a file without any permission bit, from create and from chmod.
func TestW10ModeZero(t *testing.T) {
	m := mounting(t)
	f, err := os.OpenFile(m.path("team/a.tmp"), os.O_CREATE|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	m.write("team/b.tmp", "x")
	ok(t, os.Chmod(m.path("team/b.tmp"), 0))
	for _, name := range []string{"a.tmp", "b.tmp"} {
		if info, err := os.Stat(m.path("team/" + name)); err != nil || info.Mode() != 0 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

// W5: fsync of a directory records the empty files closed in it.
func TestW5FsyncOfADirectory(t *testing.T) {
	m := mounting(t)
	m.write("team/empty", "")
	m.wantCharges(0, 0)
	dir, err := os.Open(m.path("team"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); err != nil {
		t.Error(err)
	}
	m.wantCharges(0, 1)
}

// W9: an unlinked or replaced file stays readable and writable until it is closed.
func TestW9UnlinkedFilesStayOpen(t *testing.T) {
	m := mounting(t)
	m.write("team/x.tmp", pattern(10_000))
	f := openFile(t, m.path("team/x.tmp"))
	ok(t, os.Remove(m.path("team/x.tmp")))
	if _, err := f.WriteAt([]byte("!"), 10_000); err != nil {
		t.Error(err)
	}
	got := make([]byte, 20_000)
	if n, _ := f.ReadAt(got, 0); string(got[:n]) != pattern(10_000)+"!" {
		t.Errorf("%d bytes after the unlink", n)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
	m.wantCharges(0, 0)
}

// M5: mappings that could be written are dropped as well, of the shown version
// and of one that was overtaken, whose descriptors are closed.
func TestM5MappingsOfOldVersionsAreDropped(t *testing.T) {
	m := longMount(t)
	content := pattern(3 * 4096)
	mapped := func(write bool) []byte {
		f := openFile(t, m.path("team/f"))
		prot := unix.PROT_READ
		if write {
			prot |= unix.PROT_WRITE
		}
		mem, err := unix.Mmap(int(f.Fd()), 0, len(content), prot, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Munmap(mem) })
		if string(mem) != content {
			t.Fatal("the mapping holds something else")
		}
		return mem
	}
	m.put("f", content)
	old := mapped(false)
	m.put("f", content+"2")
	m.refresh()
	proctest.Eventually(t, "the new version shows", func() bool {
		info, err := os.Stat(m.path("team/f"))
		return err == nil && info.Size() == int64(len(content)+1)
	})
	content += "2"
	newer := mapped(true)
	copy(newer, "changed")
	m.must(order{Do: "member", Group: "team"})
	m.refresh()
	proctest.Eventually(t, "the old version's mapping is gone", func() bool { return faults(old) })
	proctest.Eventually(t, "the newer version's mapping is gone", func() bool { return faults(newer) })
}

// E8: a panic in a request is the error of that request. The mount goes on with what is not saved.
func TestE8RequestsThatPanic(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Ours = true })
	ok(t, os.Mkdir(m.path("team/d"), 0o700))
	m.write("team/d/f", "saved")
	unsaved, err := os.Create(m.path("team/unsaved"))
	ok(t, err)
	defer unsaved.Close()
	_, err = unsaved.WriteString("kept")
	ok(t, err)
	m.must(order{Do: "panic", Name: "rename folder"})
	wantErrno(t, "rename", os.Rename(m.path("team/d"), m.path("team/e")), unix.EIO)
	m.must(order{Do: "fail", Name: "rename folder"})
	if told := m.read(".svcfs/errors"); !strings.Contains(told, "svcfs made a mistake: a mistake in rename folder") {
		t.Errorf("errors say %q", told)
	}
	ok(t, os.Rename(m.path("team/d"), m.path("team/e")))
	ok(t, unsaved.Close())
	if m.read("team/e/f") != "saved" || m.read("team/unsaved") != "kept" {
		t.Error("content was lost")
	}
}

// E1: every refusal leaves one line of six fields that says what to do next.
func TestE1EveryRefusalLeavesALine(t *testing.T) {
	m := mounting(t, func(p *plan) { p.MaxFile = 1000 })
	m.put("f", "x")
	m.refresh()
	corrupt := sdk.ErrCorrupt
	for _, tc := range []struct {
		path, op, class string
		do              func() error
		want            syscall.Errno
	}{
		{"/team/f", "unlink", "refused by design", func() error { return os.Remove(m.path("team/f")) }, unix.EPERM},
		{"/team/f", "rename", "refused by design",
			func() error { return os.Rename(m.path("team/f"), m.path("team/g")) }, unix.EPERM},
		{"/new", "mkdir", "refused by design", func() error { return os.Mkdir(m.path("new"), 0o700) }, unix.EPERM},
		{"/team/l", "symlink", "refused by design", func() error { return os.Symlink("f", m.path("team/l")) },
			unix.EPERM},
		{"/team/p", "mknod", "refused by design", func() error { return unix.Mkfifo(m.path("team/p"), 0o600) },
			unix.EPERM},
		{"/team/f", "rename", "invalid", func() error {
			return unix.Renameat2(unix.AT_FDCWD, m.path("team/f"), unix.AT_FDCWD, m.path("team/f2"),
				unix.RENAME_WHITEOUT)
		}, unix.EINVAL},
		{"/team/l", "link", "refused by design", func() error { return os.Link(m.path("team/f"), m.path("team/l")) },
			unix.EPERM},
		{"/team/big", "truncate", "too large", func() error {
			m.write("team/big", "x")
			return os.Truncate(m.path("team/big"), 2000)
		}, unix.EFBIG},
		{"/team/f", "open", "corrupt", func() error {
			m.must(order{Do: "fail", Name: "retrieve", Kind: &corrupt})
			defer m.must(order{Do: "fail", Name: "retrieve"})
			_, err := os.ReadFile(m.path("team/f"))
			return err
		}, unix.EIO},
		{"/team/n", "close", "corrupt", func() error {
			m.must(order{Do: "fail", Name: "upload", Kind: &corrupt})
			defer m.must(order{Do: "fail", Name: "upload"})
			return os.WriteFile(m.path("team/n"), []byte("x"), 0o600)
		}, unix.EIO},
	} {
		before := strings.Count(m.read(".svcfs/errors"), "\n")
		wantErrno(t, tc.op, tc.do(), tc.want)
		lines := strings.Split(strings.TrimSuffix(m.read(".svcfs/errors"), "\n"), "\n")
		if len(lines) != before+1 {
			t.Errorf("%s %s leaves %d lines", tc.op, tc.path, len(lines)-before)
		}
		fields := strings.Split(lines[len(lines)-1], "\t")
		if len(fields) != 6 || fields[1] != tc.path || fields[2] != tc.op || fields[3] != tc.class || fields[4] == "" {
			t.Errorf("%s %s: %q", tc.op, tc.path, fields)
		}
		if _, err := time.Parse(time.RFC3339Nano, fields[0]); err != nil {
			t.Errorf("%s %s: %v", tc.op, tc.path, err)
		}
	}
	m.write("team/n", "y") // or it stays pending
}

// A1: size, time and owner are right before anything was retrieved.
func TestA1AttributesBeforeReading(t *testing.T) {
	m := mounting(t)
	m.put("f", pattern(12_345))
	var st unix.Stat_t
	if err := unix.Stat(m.path("team/f"), &st); err != nil || st.Size != 12_345 || st.Mtim.Sec != 1_700_000_001 ||
		st.Uid != theirUID() || st.Gid != uint32(os.Getgid()) || st.Mode != unix.S_IFREG|0o600 {
		t.Errorf("%+v, %v", st, err)
	}
	m.wantCharges(0, 0)
}

// N3: hostile names can be listed, read and walked over through the kernel, and lead
// nowhere else.
func TestN3HostileNamesOnTheMount(t *testing.T) {
	m := mounting(t)
	outside := filepath.Join(filepath.Dir(m.dir), "outside")
	names := []string{"../outside", "../../outside", "/etc/passwd", "a/../../b", ".", "..", "", "a//b", ".svcfs",
		".svcfs/status", "nul\x00byte", "new\nline",
		"esc\x1b[2J", "bidi\u202egnp.exe", "\xff\xfe", strings.Repeat("long", 100), "%2F", "same", "same/below", "-rf",
		"*"}
	for _, name := range names {
		m.put(name, "content of "+name)
	}
	m.refresh()
	out, err := exec.Command("find", m.path("team"), "-type", "f", "-print0").Output()
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	seen := map[string]bool{}
	for _, file := range files {
		if !strings.HasPrefix(file, m.path("team")+"/") || strings.ContainsFunc(file, unicode.IsControl) ||
			!utf8.ValidString(file) {
			t.Errorf("listed as %q", file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%q: %v", file, err)
		}
		seen[string(data)] = true
	}
	for _, name := range names {
		if !seen["content of "+name] {
			t.Errorf("%q is not found", name)
		}
	}
	if len(files) != len(names) {
		t.Errorf("%d files for %d names: %q", len(files), len(names), files)
	}
	if _, err := os.Lstat(outside); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("outside the mount: %v", err)
	}
	m.wantCharges(len(names), 0)
}

// W9: what comes back from the trash is the file at once, not the folder of its versions.
func TestW9ComesBackAtOnce(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Ours = true })
	for i := range 20 {
		name := fmt.Sprint(i)
		m.write("team/"+name, "text")
		ok(t, os.Remove(m.path("team/"+name)))
		ok(t, os.Rename(m.path("team/.svcfs/trash/"+name), m.path("team/"+name)))
		if got := m.read("team/" + name); got != "text" {
			t.Errorf("reads %q", got)
		}
	}
}

// W16: what programs set through the kernel is recorded, and shows as on other file
// systems.
func TestW16AttributesOnAMount(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Ours = true })
	when := time.Unix(1_500_000_000, 123_456_789)
	m.put("theirs", "x")
	m.write("team/f", "#!/bin/sh\necho it runs\n")
	for _, name := range []string{"team/f", "team/theirs"} {
		path := m.path(name)
		ok(t, os.Chmod(path, 0o755))
		ok(t, unix.Setxattr(path, "user.note", []byte("one"), unix.XATTR_CREATE))
		ok(t, unix.Setxattr(path, "user.note", []byte("two"), unix.XATTR_REPLACE))
		wantErrno(t, "one that is there", unix.Setxattr(path, "user.note", nil, unix.XATTR_CREATE), unix.EEXIST)
		wantErrno(t, "one that is not", unix.Setxattr(path, "user.none", nil, unix.XATTR_REPLACE), unix.ENODATA)
		wantErrno(t, "one that is too large", unix.Setxattr(path, "user.large", make([]byte, 5000), 0), unix.ENOSPC)
		wantErrno(t, "one of the mount", unix.Setxattr(path, "user.svcfs.ref", []byte("x"), 0), unix.ENOTSUP)
		ok(t, unix.Setxattr(path, "user.gone", []byte("x"), 0))
		ok(t, unix.Removexattr(path, "user.gone"))
		wantErrno(t, "removing it again", unix.Removexattr(path, "user.gone"), unix.ENODATA)
		ok(t, os.Chtimes(path, when, when))
		value, small := make([]byte, 10), make([]byte, 2)
		if n, err := unix.Getxattr(path, "user.note", value); err != nil || string(value[:n]) != "two" {
			t.Errorf("user.note is %q, %v", value[:max(n, 0)], err)
		}
		if n, err := unix.Getxattr(path, "user.note", nil); err != nil || n != 3 {
			t.Errorf("the size of user.note is %d, %v", n, err)
		}
		_, err := unix.Getxattr(path, "user.note", small)
		wantErrno(t, "too little room", err, unix.ERANGE)
		list := make([]byte, 1000)
		if n, err := unix.Listxattr(path, list); err != nil || !strings.Contains(string(list[:n]), "user.note\x00") ||
			strings.Contains(string(list[:n]), "gone") {
			t.Errorf("listed are %q, %v", list[:max(n, 0)], err)
		}
		want := sdk.Attributes{ModTime: when, Executable: true, XAttrs: map[string]string{"user.note": "two"}}
		if a := m.must(order{Do: "drain", Group: "team", Name: filepath.Base(name)}); a.Attributes == nil ||
			!a.Attributes.Equal(want) {
			t.Errorf("recorded are %+v, want %+v", a.Attributes, want)
		}
	}
	if out, err := exec.Command(m.path("team/f")).Output(); err != nil || string(out) != "it runs\n" {
		t.Errorf("running it: %s, %v", out, err)
	}
	wantErrno(t, "a label", unix.Setxattr(m.path("team/f"), "security.selinux", []byte("x"), 0), unix.ENOTSUP)
	wantErrno(t, "an attribute of a folder", unix.Setxattr(m.path("team"), "user.note", nil, 0), unix.ENOTSUP)
	if c := m.must(order{Do: "counts"}).Counts; c.Requests != 2 || c.Uploads != 1 {
		t.Errorf("it took %+v", c)
	}
}

// W16: what others change shows, also at a file that the kernel knows.
func TestW16AttributesOfOthersOnAMount(t *testing.T) {
	m := mounting(t, func(p *plan) { p.Ours, p.Options.Timeout = true, time.Hour })
	m.put("f", "x")
	before, err := os.Stat(m.path("team/f"))
	ok(t, err)
	when := time.Unix(1_500_000_000, 0)
	m.must(order{Do: "attributes", Group: "team", Name: "f",
		Attributes: &sdk.Attributes{ModTime: when, Executable: true, XAttrs: map[string]string{"user.note": "x"}}})
	m.refresh()
	m.must(order{Do: "settle"})
	after, err := os.Stat(m.path("team/f"))
	ok(t, err)
	if !os.SameFile(before, after) || !after.ModTime().Equal(when) || after.Mode() != 0o700 {
		t.Errorf("shown are %v, %v", after.ModTime(), after.Mode())
	}
	if n, err := unix.Getxattr(m.path("team/f"), "user.note", nil); err != nil || n != 1 {
		t.Errorf("user.note has %d bytes, %v", n, err)
	}
	m.wantCharges(0, 0)
}

// W16: what others change shows at every descriptor of the file.
func TestW16AttributesOfOthersAtEveryDescriptor(t *testing.T) {
	for mode, name := range readsNames {
		t.Run(name, func(t *testing.T) {
			m := mounting(t, func(p *plan) {
				p.Ours, p.Options.Reads, p.Options.Timeout = true, Reads(mode), time.Hour
			})
			m.put("f", pattern(largeBytes))
			reader := openToRead(t, m.path("team/f"))
			writer, err := os.OpenFile(m.path("team/f"), os.O_RDWR, 0)
			ok(t, err)
			defer writer.Close()
			when := time.Unix(1_500_000_000, 0)
			for _, set := range []*sdk.Attributes{{ModTime: when.Add(time.Hour)}, {ModTime: when}} {
				m.must(order{Do: "attributes", Group: "team", Name: "f", Attributes: set})
				m.refresh()
				m.must(order{Do: "settle"})
				for what, f := range map[string]*os.File{"reader": reader, "writer": writer} {
					if info, err := f.Stat(); err != nil || !info.ModTime().Equal(set.ModTime) {
						t.Errorf("the %s shows %v, %v; want %v", what, info.ModTime(), err, set.ModTime)
					}
				}
			}
		})
	}
}
