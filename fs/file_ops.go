package fs

import (
	"context"
	"syscall"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// Open retrieves and verifies the content unless it is in memory (R1).
func (n *fileNode) Open(ctx context.Context, flags uint32) (gofs.FileHandle, uint32, syscall.Errno) {
	ctx, done := patiently(ctx)
	defer done()
	n.m.knowFile(n) // before, so that a purge during the retrieval is not missed
	want := n.m.openFlags(ctx, flags)
	if n.m.isStranger(ctx, n.f.Attr(), toOpen(want)) {
		return nil, 0, unix.EACCES
	}
	h, err := n.f.Open(ctx, want)
	if err != nil {
		return nil, 0, errno(err)
	}
	if !n.f.Attr().Control {
		n.m.use()
	}
	n.tellSize()
	fh := n.m.newHandle(h, want)
	return fh, n.m.openReply(fh, want), 0
}

// tellSize makes the kernel know the size of a file whose record states none, before the first open is answered that
// could make a page or change one: the kernel itself places what a program appends. It takes the size from
// a byte for its page cache, and then drops the page, which is not the content.
func (n *fileNode) tellSize() {
	if n.f.IsSizeStated() || n.f.Attr().Unsized {
		return
	}
	n.size.Do(func() {
		if size := n.f.Attr().Size; size > 0 {
			_ = n.WriteCache(size-1, []byte{0})
			_ = n.NotifyContent(size-1, 1)
		}
	})
}

// Read answers with the bytes in the cache, without a copy.
func (fh *fileHandle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	ctx, done := patiently(ctx)
	defer done()
	v, err := fh.h.View(ctx, dest, off)
	if err != nil {
		return nil, errno(err)
	}
	if len(v.Bytes) == 0 { // go-fuse does not call Done for an empty answer
		v.Done()
		return fuse.ReadResultData(nil), 0
	}
	return &viewResult{view: v, parts: [1][]byte{v.Bytes}}, 0
}

// Write copies into the staged content; nothing leaves the machine (W1). The
// kernel has placed appended data already.
func (fh *fileHandle) Write(ctx context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	ctx, done := patiently(ctx)
	defer done()
	n, err := fh.h.WriteAt(ctx, data, off)
	if err != nil {
		return 0, errno(err)
	}
	return uint32(n), 0
}

// Flush saves the file at close (W2). The context ends when the program is
// interrupted; the tree decides what that means for an upload. A child that
// closes an inherited descriptor leaves the upload to the process that
// opened the file, as long as that has it open for writing: "{ a; b; } >f" is one
// save, not three. A killed program saves nothing (W15).
func (fh *fileHandle) Flush(ctx context.Context) syscall.Errno {
	caller, known := fuse.FromContext(ctx)
	if known && fh.opener != 0 && caller.Pid != fh.opener && fh.outside.isHeldBy(fh.opener, caller.Pid,
		fh.h.File().Attr().Ino) {
		return 0
	}
	if known && fh.h.Unsaved() && fh.outside.isKilled(caller.Pid) {
		fh.h.Abandon()
		return 0 // no program is left that could see an error
	}
	ctx, done := patiently(ctx)
	defer done()
	return errno(fh.h.Flush(ctx))
}

// Lseek leaves holes and data to the kernel, which knows the size: a file is all data.
func (n *fileNode) Lseek(context.Context, gofs.FileHandle, uint64, uint32) (uint64, syscall.Errno) {
	return 0, syscall.ENOSYS
}

// Fsync saves the file; 0 means that the ledger has the record.
func (fh *fileHandle) Fsync(ctx context.Context, _ uint32) syscall.Errno {
	ctx, done := patiently(ctx)
	defer done()
	return errno(fh.h.Fsync(ctx))
}

// Release closes the handle. The kernel passes no error of it to a program.
func (fh *fileHandle) Release(context.Context) syscall.Errno {
	fh.h.Release()
	return 0
}
