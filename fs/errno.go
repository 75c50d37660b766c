package fs

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// errnoOf is the one place that names an errno for what the tree says.
func errnoOf(class tree.Class) syscall.Errno {
	switch class {
	case tree.ClassNotExist:
		return unix.ENOENT
	case tree.ClassExist:
		return unix.EEXIST
	case tree.ClassNotDir:
		return unix.ENOTDIR
	case tree.ClassIsDir:
		return unix.EISDIR
	case tree.ClassNotEmpty:
		return unix.ENOTEMPTY
	case tree.ClassByDesign:
		return unix.EPERM
	case tree.ClassAccess:
		return unix.EACCES
	case tree.ClassRevoked:
		return unix.EKEYREVOKED
	case tree.ClassRejected:
		return unix.EKEYREJECTED
	case tree.ClassBudget:
		return unix.EDQUOT
	case tree.ClassUnreachable:
		return unix.EHOSTUNREACH
	case tree.ClassTimeout:
		return unix.ETIMEDOUT
	case tree.ClassInterrupted:
		return unix.EINTR
	case tree.ClassTooBig:
		return unix.EFBIG
	case tree.ClassNoMemory:
		return unix.ENOMEM
	case tree.ClassReadOnly:
		return unix.EROFS
	case tree.ClassCrossDevice:
		return unix.EXDEV
	case tree.ClassInvalid:
		return unix.EINVAL
	case tree.ClassNameTooLong:
		return unix.ENAMETOOLONG
	case tree.ClassBadHandle:
		return unix.EBADF
	case tree.ClassNoSpace:
		return unix.ENOSPC
	case tree.ClassBusy:
		return unix.EBUSY
	case tree.ClassNoAttr:
		return unix.ENODATA
	case tree.ClassUnsupported:
		return unix.ENOTSUP
	default: // ClassCorrupt, ClassOther
		return unix.EIO
	}
}

// errno maps an error of the tree; nil is 0.
func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var e *tree.Error
	if errors.As(err, &e) {
		return errnoOf(e.Class)
	}
	return unix.EIO
}
