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
	// writeBits are what a read-only inode is shown without.
	writeBits = 0o222
	// statBlock is the block size that stat and statfs show, in bytes.
	statBlock = 4096
	// unbelieved is how long the kernel believes the size of a file that nobody
	// has told: the next open tells it. 0 would mean the default.
	unbelieved = time.Nanosecond
	// maxName is the longest name statfs promises, in bytes.
	maxName = 255
)

// fill writes what stat shows.
func (m *mounted) fill(a tree.Attr, out *fuse.Attr) {
	out.Ino, out.Size, out.Blocks, out.Nlink = a.Ino, uint64(a.Size), uint64(a.Blocks), a.Nlink
	out.Owner = fuse.Owner{Uid: m.opt.UID, Gid: m.opt.GID}
	out.Mode, out.Blksize = m.mode(a), statBlock
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

// mode returns type and permissions: 0600 and 0700, or what chmod set, never
// more than the umask of the mount leaves (W10).
func (m *mounted) mode(a tree.Attr) uint32 {
	kind, perm := uint32(fuse.S_IFREG), uint32(0o666)
	if a.Dir {
		kind, perm = fuse.S_IFDIR, permBits
	}
	if a.HasMode {
		perm = a.Mode & permBits
	}
	if a.ReadOnly {
		perm &^= writeBits
	}
	return kind | perm&^m.opt.Umask
}

// Getattr answers from memory.
func (n *dirNode) Getattr(_ context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.m.fill(n.d.Attr(), &out.Attr)
	return 0
}

// Getattr answers from memory.
func (n *fileNode) Getattr(_ context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	attr := n.f.Attr()
	n.m.fill(attr, &out.Attr)
	if attr.Unsized {
		out.SetTimeout(unbelieved)
	}
	return 0
}

// settable is what chmod and utimens change; they last as long as the mount.
type settable interface {
	SetMode(mode uint32)
	SetTimes(mtime time.Time)
}

func setModeAndTimes(s settable, in *fuse.SetAttrIn) {
	if mode, ok := in.GetMode(); ok {
		s.SetMode(mode & permBits)
	}
	if mtime, ok := in.GetMTime(); ok {
		s.SetTimes(mtime)
	}
}

// Setattr keeps mode and times for this mount (W10).
func (n *dirNode) Setattr(_ context.Context, _ gofs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if !n.m.sameOwner(in) {
		return n.m.refuseOwner(n.d.Path())
	}
	setModeAndTimes(n.d, in)
	n.m.fill(n.d.Attr(), &out.Attr)
	return 0
}

// Setattr truncates, and keeps mode and times for this mount (W10).
func (n *fileNode) Setattr(ctx context.Context, fh gofs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if !n.m.sameOwner(in) {
		return n.m.refuseOwner(n.f.Path())
	}
	if size, ok := in.GetSize(); ok {
		ctx, done := patiently(ctx)
		defer done()
		if err := n.f.Truncate(ctx, int64(size), treeHandle(fh)); err != nil {
			return errno(err)
		}
	}
	setModeAndTimes(n.f, in)
	n.m.fill(n.f.Attr(), &out.Attr)
	return 0
}

// treeHandle returns the tree's handle, nil when the request came without one.
func treeHandle(fh gofs.FileHandle) *tree.Handle {
	if open, ok := fh.(*fileHandle); ok {
		return open.h
	}
	return nil
}

// sameOwner reports whether a chown changes nothing: there is one owner.
func (m *mounted) sameOwner(in *fuse.SetAttrIn) bool {
	uid, setsUID := in.GetUID()
	gid, setsGID := in.GetGID()
	return (!setsUID || uid == m.opt.UID) && (!setsGID || gid == m.opt.GID)
}

func (m *mounted) refuseOwner(path string) syscall.Errno {
	return m.refuse(tree.ClassByDesign, "chown", path, "everything here belongs to the user who mounted it", "Copy without ownership, for example: cp -r")
}

// Statfs answers from memory (A3).
func (n *dirNode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	n.m.statfs(out)
	return 0
}

// Statfs answers from memory (A3).
func (n *fileNode) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	n.m.statfs(out)
	return 0
}

func (m *mounted) statfs(out *fuse.StatfsOut) {
	s := m.tree.StatFS()
	out.Bsize, out.Frsize, out.NameLen = statBlock, statBlock, maxName
	out.Blocks, out.Bfree = uint64(s.TotalBytes/statBlock), uint64(s.FreeBytes/statBlock)
	out.Bavail = out.Bfree
	out.Files, out.Ffree = uint64(s.Files+s.FreeFiles), uint64(s.FreeFiles)
}
