package fs

import (
	"context"
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// errnoOf is the one table from the classes of the tree to the errors of programs
// (E). A class without a line of its own is an I/O error.
func errnoOf(class tree.Class) syscall.Errno {
	table := [...]syscall.Errno{
		tree.ClassOther:       unix.EIO,
		tree.ClassNotExist:    unix.ENOENT,
		tree.ClassExist:       unix.EEXIST,
		tree.ClassNotDir:      unix.ENOTDIR,
		tree.ClassIsDir:       unix.EISDIR,
		tree.ClassNotEmpty:    unix.ENOTEMPTY,
		tree.ClassByDesign:    unix.EPERM,
		tree.ClassAccess:      unix.EACCES,
		tree.ClassRevoked:     unix.EKEYREVOKED,
		tree.ClassRejected:    unix.EKEYREJECTED,
		tree.ClassBudget:      unix.EDQUOT,
		tree.ClassCorrupt:     unix.EIO,
		tree.ClassUnreachable: unix.EHOSTUNREACH,
		tree.ClassTimeout:     unix.ETIMEDOUT,
		tree.ClassInterrupted: unix.EINTR,
		tree.ClassTooBig:      unix.EFBIG,
		tree.ClassNoMemory:    unix.ENOMEM,
		tree.ClassReadOnly:    unix.EROFS,
		tree.ClassCrossDevice: unix.EXDEV,
		tree.ClassInvalid:     unix.EINVAL,
		tree.ClassNameTooLong: unix.ENAMETOOLONG,
		tree.ClassBadHandle:   unix.EBADF,
		tree.ClassNoSpace:     unix.ENOSPC,
		tree.ClassBusy:        unix.EBUSY,
		tree.ClassUnsupported: unix.ENOTSUP,
		tree.ClassStale:       unix.ESTALE,
		tree.ClassNoAttribute: unix.ENODATA,
		tree.ClassConflict:    unix.EIO, // only in /.svcfs/errors, never returned
	}
	if int(class) < len(table) && table[class] != 0 {
		return table[class]
	}
	return unix.EIO
}

// errno maps an error of the tree; nil is 0.
func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var e *tree.Error
	switch {
	case errors.As(err, &e):
		return errnoOf(e.Class)
	case errors.Is(err, context.Canceled):
		return unix.EINTR
	case errors.Is(err, context.DeadlineExceeded):
		return unix.ETIMEDOUT
	default:
		return unix.EIO
	}
}
