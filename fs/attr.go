package fs

import (
	"context"
	"syscall"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/svcfs/svcfs/fs/tree"
)

const (
	// permBits are the bits of a mode that mean something here: no set-id bits.
	permBits = 0o777
	// writeBits are the bits that a read-only inode never shows.
	writeBits = 0o222
	// groupBits are the permissions of the group.
	groupBits = 0o070
	// statBlock is the block size that stat and statfs show, in bytes.
	statBlock = 4096
	// maxName is the longest name statfs promises, in bytes.
	maxName = 255
)

// fillEntry writes the answer to a look-up. The kernel believes no name in .svcfs: when one
// is moved out of the trash (W9), the kernel takes the folder of its versions along, and
// has to ask what is there.
func (m *mounted) fillEntry(a tree.Attr, out *fuse.EntryOut) {
	m.fill(a, &out.Attr)
	out.SetAttrTimeout(m.believed(a))
	if !a.Control {
		out.SetEntryTimeout(max(m.opt.Timeout, 0))
	}
}

// fillAttr writes the answer to stat.
func (m *mounted) fillAttr(a tree.Attr, out *fuse.AttrOut) {
	m.fill(a, &out.Attr)
	out.SetTimeout(m.believed(a))
}

// believed is how long the kernel may believe attributes. An unknown size, the owner of a
// group, and the times of a file that is about to be saved are not to be believed.
func (m *mounted) believed(a tree.Attr) time.Duration {
	if a.Unsized || a.Unsure {
		return 0
	}
	return max(m.opt.Timeout, 0)
}

func (m *mounted) fill(a tree.Attr, out *fuse.Attr) {
	out.Ino, out.Size, out.Blocks, out.Nlink = a.Ino, uint64(a.Size), uint64(a.Blocks), a.Nlink
	out.Owner, out.Mode, out.Blksize = m.owner(a), m.mode(a), statBlock
	mtime, ctime := shownTime(a.Mtime), shownTime(a.Ctime)
	out.SetTimes(&mtime, &mtime, &ctime)
}

// shownTime gives an unknown time as the epoch.
func shownTime(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0)
	}
	return t
}

// mode returns type and permissions. Where an access list follows, the group's bits
// are its mask.
func (m *mounted) mode(a tree.Attr) uint32 {
	kind, perm := uint32(fuse.S_IFREG), m.perm(a)
	switch {
	case a.Dir:
		kind = fuse.S_IFDIR
	case a.Link:
		return fuse.S_IFLNK | permBits // nobody asks for permission at a link
	}
	if m.listed(a) {
		perm |= perm >> 3 & groupBits
	}
	return kind | perm
}

// perm returns the permissions: 0600, or 0700 of folders and of files that may be executed, or
// those that chmod set, always without the bits of the umask of the mount (W10).
func (m *mounted) perm(a tree.Attr) uint32 {
	perm := uint32(0o666)
	if a.Dir || a.Executable {
		perm = permBits
	}
	if a.HasMode {
		perm = a.Mode & permBits
	}
	if a.ReadOnly {
		perm &^= writeBits
	}
	return perm &^ m.opt.Umask
}

// Getattr answers from memory.
func (n *node) Getattr(_ context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.m.fillAttr(n.shows.Attr(), out)
	return 0
}

// Setattr truncates a file, and keeps mode and times (W10, W16).
func (n *node) Setattr(ctx context.Context, fh gofs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if n.m.isStranger(ctx, n.shows.Attr(), asOwner) {
		return syscall.EPERM
	}
	if !n.m.sameOwner(in) {
		return n.m.refuseOwner(n.shows.Path())
	}
	if err := n.shows.Changeable("change attributes"); err != nil {
		return errno(err)
	}
	if size, ok := in.GetSize(); ok {
		f, isFile := n.shows.(*tree.File)
		if !isFile {
			return syscall.EISDIR
		}
		ctx, done := patiently(ctx)
		defer done()
		if err := f.Truncate(ctx, int64(size), treeHandle(fh)); err != nil {
			return errno(err)
		}
	}
	if mode, ok := in.GetMode(); ok {
		n.shows.SetMode(mode & permBits)
	}
	if mtime, ok := in.GetMTime(); ok {
		n.shows.SetTimes(mtime)
	} else if _, ok := in.GetATime(); ok {
		n.shows.SetAccessed()
	}
	n.m.fillAttr(n.shows.Attr(), out)
	return 0
}

// treeHandle returns the tree's handle, nil when the request came without one.
func treeHandle(fh gofs.FileHandle) *tree.Handle {
	if open, ok := fh.(*fileHandle); ok {
		return open.h
	}
	return nil
}

// sameOwner reports whether a chown is to an owner that is shown here. Such a chown
// changes nothing: copying tools set the owner of another file of the mount, and the
// owner of a file follows from its record.
func (m *mounted) sameOwner(in *fuse.SetAttrIn) bool {
	uid, setsUID := in.GetUID()
	gid, setsGID := in.GetGID()
	return (!setsUID || uid == m.opt.UID || uid == m.opt.ForeignUID) && (!setsGID || gid == m.opt.GID)
}

func (m *mounted) refuseOwner(path string) syscall.Errno {
	return m.refuse(tree.ClassByDesign, "chown", path,
		"owners here are the user who mounted it, and the one that stands for other accounts",
		"Copy without ownership, for example: cp -r")
}

// Statfs answers from memory (A3).
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	s := n.m.tree.StatFS(n.shows)
	out.Bsize, out.Frsize, out.NameLen = statBlock, statBlock, maxName
	out.Blocks, out.Bfree = uint64(s.TotalBytes/statBlock), uint64(s.FreeBytes/statBlock)
	out.Bavail = out.Bfree
	out.Files, out.Ffree = uint64(s.Files+s.FreeFiles), uint64(s.FreeFiles)
	return 0
}
