package fs

import (
	"context"
	"slices"
	"strings"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/fs/tree"
)

// fileNode shows a file of the tree to the kernel.
type fileNode struct {
	gofs.Inode
	m *mounted
	f *tree.File
}

// fileHandle is an open file.
type fileHandle struct {
	m *mounted
	h *tree.Handle
}

// openFlags translates what a program asked for.
func openFlags(ctx context.Context, flags uint32) tree.OpenFlags {
	access := flags & unix.O_ACCMODE
	of := tree.OpenFlags{Read: access != unix.O_WRONLY, Write: access != unix.O_RDONLY,
		Append: flags&unix.O_APPEND != 0, Truncate: flags&unix.O_TRUNC != 0}
	if caller, ok := fuse.FromContext(ctx); ok {
		of.Caller.PID = caller.Pid
	}
	return of
}

// openMode tells the kernel how to cache an open file's pages.
func openMode(h *tree.Handle) uint32 {
	switch h.CacheMode() {
	case tree.CacheDirect:
		return fuse.FOPEN_DIRECT_IO
	case tree.CacheKeep:
		return fuse.FOPEN_KEEP_CACHE
	default:
		return 0
	}
}

// Open retrieves and verifies the content unless it is in memory (R1).
func (n *fileNode) Open(ctx context.Context, flags uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	h, err := n.f.Open(ctx, openFlags(ctx, flags))
	if err != nil {
		return nil, 0, errno(err)
	}
	return n.m.opened(n.f, h, n.EmbeddedInode()), openMode(h), 0
}

// Getattr answers from memory.
func (n *fileNode) Getattr(_ context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.m.fill(n.f.Attr(), &out.Attr)
	return 0
}

// Setattr truncates, and keeps mode and times for this mount (W10).
func (n *fileNode) Setattr(ctx context.Context, fh gofs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if !n.m.sameOwner(in) {
		return unix.EPERM
	}
	if size, ok := in.GetSize(); ok {
		var h *tree.Handle
		if open, ok := fh.(*fileHandle); ok {
			h = open.h
		}
		if err := n.f.Truncate(ctx, int64(size), h); err != nil {
			return errno(err)
		}
	}
	if mode, ok := in.GetMode(); ok {
		n.f.SetMode(mode & permBits)
	}
	if mtime, ok := in.GetMTime(); ok {
		n.f.SetTimes(mtime)
	}
	n.m.fill(n.f.Attr(), &out.Attr)
	return 0
}

// xattrPrefix is the namespace of our own attributes (A2).
const xattrPrefix = "user.svcfs."

// Getxattr answers from memory.
func (n *fileNode) Getxattr(_ context.Context, attr string, dest []byte) (uint32, syscall.Errno) {
	if !strings.HasPrefix(attr, xattrPrefix) {
		return 0, unix.ENODATA
	}
	value, ok := n.f.Xattrs()[attr]
	if !ok {
		return 0, unix.ENODATA
	}
	return copyOut(dest, []byte(value))
}

// Listxattr names our own attributes.
func (n *fileNode) Listxattr(_ context.Context, dest []byte) (uint32, syscall.Errno) {
	var names []string
	for name := range n.f.Xattrs() {
		names = append(names, name)
	}
	slices.Sort(names)
	var list []byte
	for _, name := range names {
		list = append(append(list, name...), 0)
	}
	return copyOut(dest, list)
}

// copyOut follows the protocol of xattr calls: no room asks for the size.
func copyOut(dest, value []byte) (uint32, syscall.Errno) {
	if len(dest) < len(value) {
		return uint32(len(value)), unix.ERANGE
	}
	return uint32(copy(dest, value)), 0
}

// Setxattr succeeds without effect, as copying tools expect (W10).
func (n *fileNode) Setxattr(_ context.Context, attr string, _ []byte, _ uint32) syscall.Errno {
	return ignoredXattr(attr)
}

// Removexattr succeeds without effect.
func (n *fileNode) Removexattr(_ context.Context, attr string) syscall.Errno {
	return ignoredXattr(attr)
}

func ignoredXattr(attr string) syscall.Errno {
	if strings.HasPrefix(attr, xattrPrefix) {
		return unix.EPERM
	}
	return 0
}

// Read copies from memory.
func (fh *fileHandle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := fh.h.ReadAt(ctx, dest, off)
	if err != nil {
		return nil, errno(err)
	}
	return fuse.ReadResultData(dest[:n]), 0
}

// Write copies into the staged content; nothing leaves the machine (W1).
func (fh *fileHandle) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	n, err := fh.h.WriteAt(ctx, data, off)
	return uint32(n), errno(err)
}

// Flush commits what was written, at close (W2).
func (fh *fileHandle) Flush(ctx context.Context) syscall.Errno { return errno(fh.h.Flush(ctx)) }

// Fsync commits what was written; 0 means recorded on the ledger.
func (fh *fileHandle) Fsync(ctx context.Context, _ uint32) syscall.Errno {
	return errno(fh.h.Fsync(ctx))
}

// Release gives the handle up; nobody hears of an error here.
func (fh *fileHandle) Release(context.Context) syscall.Errno {
	fh.h.Release()
	fh.m.closed(fh.h.File())
	return 0
}
