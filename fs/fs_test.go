package fs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// E: the errno of every class, as the contract names it.
func TestEErrnoOfEveryClass(t *testing.T) {
	want := map[tree.Class]syscall.Errno{
		tree.ClassOther: unix.EIO, tree.ClassNotExist: unix.ENOENT, tree.ClassExist: unix.EEXIST, tree.ClassNotDir: unix.ENOTDIR,
		tree.ClassIsDir: unix.EISDIR, tree.ClassNotEmpty: unix.ENOTEMPTY, tree.ClassByDesign: unix.EPERM, tree.ClassAccess: unix.EACCES,
		tree.ClassRevoked: unix.EKEYREVOKED, tree.ClassRejected: unix.EKEYREJECTED, tree.ClassBudget: unix.EDQUOT,
		tree.ClassCorrupt: unix.EIO, tree.ClassUnreachable: unix.EHOSTUNREACH, tree.ClassTimeout: unix.ETIMEDOUT,
		tree.ClassInterrupted: unix.EINTR, tree.ClassTooBig: unix.EFBIG, tree.ClassNoMemory: unix.ENOMEM, tree.ClassReadOnly: unix.EROFS,
		tree.ClassCrossDevice: unix.EXDEV, tree.ClassInvalid: unix.EINVAL, tree.ClassNameTooLong: unix.ENAMETOOLONG,
		tree.ClassBadHandle: unix.EBADF, tree.ClassNoSpace: unix.ENOSPC, tree.ClassBusy: unix.EBUSY, tree.ClassNoAttr: unix.ENODATA,
		tree.ClassUnsupported: unix.ENOTSUP,
	}
	for class := tree.ClassOther; class <= tree.ClassUnsupported; class++ {
		expected, ok := want[class]
		if !ok {
			t.Errorf("class %q has no expected errno", class)
		}
		if got := errno(&tree.Error{Class: class, Err: errors.New("x")}); got != expected {
			t.Errorf("%s: %v, want %v", class, got, expected)
		}
	}
	if errno(nil) != 0 || errno(errors.New("x")) != unix.EIO {
		t.Error("nil or a foreign error is mapped wrongly")
	}
}

// M1: bad mountpoints, each for its own reason.
func TestM1Mountpoints(t *testing.T) {
	dir := t.TempDir()
	full, file := filepath.Join(dir, "full"), filepath.Join(dir, "file")
	if err := errors.Join(os.MkdirAll(filepath.Join(full, "x"), 0o700), os.WriteFile(file, nil, 0o600), os.Mkdir(filepath.Join(dir, "good"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{full: ErrNotEmpty, file: ErrNotDirectory, filepath.Join(dir, "none"): ErrNoMountpoint,
		"/proc": ErrMounted, filepath.Join(dir, "good"): nil} {
		if err := CheckMountpoint(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

func TestMountinfoEscapes(t *testing.T) {
	for in, want := range map[string]string{`/a\040b`: "/a b", `/a\134b`: `/a\b`, "/plain": "/plain", `/end\04`: `/end\04`} {
		if got := unescape(in); got != want {
			t.Errorf("%s is read as %q, want %q", in, got, want)
		}
	}
}

func TestXattrProtocol(t *testing.T) {
	value := []byte("value")
	if n, e := copyOut(nil, value); n != 5 || e != unix.ERANGE {
		t.Errorf("asking for the size: %d, %v", n, e)
	}
	dest := make([]byte, 5)
	if n, e := copyOut(dest, value); n != 5 || e != 0 || string(dest) != "value" {
		t.Errorf("reading: %d, %v", n, e)
	}
}

func TestOpenFlags(t *testing.T) {
	for _, tc := range []struct {
		flags uint32
		want  tree.OpenFlags
	}{
		{unix.O_RDONLY, tree.OpenFlags{Read: true}},
		{unix.O_WRONLY | unix.O_TRUNC, tree.OpenFlags{Write: true, Truncate: true}},
		{unix.O_RDWR | unix.O_APPEND, tree.OpenFlags{Read: true, Write: true, Append: true}},
	} {
		if got := openFlags(context.Background(), tc.flags); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%#x: %+v, want %+v", tc.flags, got, tc.want)
		}
	}
}
