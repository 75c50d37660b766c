package fs

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// E: every class of the tree has its errno, and few of them are EIO.
func TestEErrnoTableIsComplete(t *testing.T) {
	want := map[tree.Class]syscall.Errno{
		tree.ClassOther: unix.EIO, tree.ClassNotExist: unix.ENOENT, tree.ClassExist: unix.EEXIST,
		tree.ClassNotDir: unix.ENOTDIR,
		tree.ClassIsDir:  unix.EISDIR, tree.ClassNotEmpty: unix.ENOTEMPTY, tree.ClassByDesign: unix.EPERM,
		tree.ClassAccess:  unix.EACCES,
		tree.ClassRevoked: unix.EKEYREVOKED, tree.ClassRejected: unix.EKEYREJECTED, tree.ClassBudget: unix.EDQUOT,
		tree.ClassCorrupt: unix.EIO, tree.ClassUnreachable: unix.EHOSTUNREACH, tree.ClassTimeout: unix.ETIMEDOUT,
		tree.ClassInterrupted: unix.EINTR, tree.ClassTooBig: unix.EFBIG, tree.ClassNoMemory: unix.ENOMEM,
		tree.ClassReadOnly:    unix.EROFS,
		tree.ClassCrossDevice: unix.EXDEV, tree.ClassInvalid: unix.EINVAL, tree.ClassNameTooLong: unix.ENAMETOOLONG,
		tree.ClassBadHandle: unix.EBADF, tree.ClassNoSpace: unix.ENOSPC, tree.ClassBusy: unix.EBUSY,
		// never returned
		tree.ClassUnsupported: unix.ENOTSUP, tree.ClassNoAttribute: unix.ENODATA, tree.ClassStale: unix.ESTALE,
		tree.ClassConflict: unix.EIO,
	}
	classes := 0
	for c := tree.ClassOther; c == tree.ClassOther || c.String() != tree.ClassOther.String(); c++ {
		classes++
		if no, ok := want[c]; !ok || errnoOf(c) != no {
			t.Errorf("class %q gives %v, want %v", c, errnoOf(c), no)
		}
	}
	if classes != len(want) {
		t.Errorf("the tree has %d classes, the table %d", classes, len(want))
	}
	if got := errnoOf(tree.Class(200)); got != unix.EIO {
		t.Errorf("an unknown class gives %v", got)
	}
}

func TestErrnoOfErrors(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want syscall.Errno
	}{
		{nil, 0},
		{&tree.Error{Class: tree.ClassBudget, Err: errors.New("x")}, unix.EDQUOT},
		{fmt.Errorf("wrapped: %w", &tree.Error{Class: tree.ClassTooBig, Err: errors.New("x")}), unix.EFBIG},
		{&tree.Error{Class: tree.ClassCorrupt, Err: context.Canceled}, unix.EIO}, // the class decides
		{context.Canceled, unix.EINTR},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), unix.ETIMEDOUT},
		{errors.New("anything"), unix.EIO},
	} {
		if got := errno(tc.err); got != tc.want {
			t.Errorf("errno(%v) = %v, want %v", tc.err, got, tc.want)
		}
	}
}
