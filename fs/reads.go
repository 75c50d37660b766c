package fs

import (
	"errors"
	"fmt"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/fs/tree"
)

// Reads is the way in which the kernel serves decrypted content.
type Reads uint8

const (
	// ReadsKeep lets the kernel keep pages from one open to the next.
	ReadsKeep Reads = iota
	// ReadsPassthrough lends the kernel decrypted memory of large files, which it
	// reads without asking. Needs root and Linux 6.9; else it is ReadsKeep. The
	// tree must be one that lends. A reader then sees the content as it
	// was when it opened the file, and a writer is given an inode of its own.
	ReadsPassthrough
	// ReadsPlain answers every read from here; for measurements. Linux before 6.6 maps
	// no file shared then (ENODEV).
	ReadsPlain
)

var readsNames = []string{ReadsKeep: "keep", ReadsPassthrough: "passthrough", ReadsPlain: "plain"}

// String returns the mode's name.
func (r Reads) String() string { return readsNames[r] }

// Set reads a mode's name.
func (r *Reads) Set(name string) error {
	for mode, known := range readsNames {
		if name == known {
			*r = Reads(mode)
			return nil
		}
	}
	return fmt.Errorf("%q: want one of %v", name, readsNames)
}

// Type names the kind of value in a command's help.
func (*Reads) Type() string { return "mode" }

// lend decides whether the kernel reads memory through fh. false: the kernel must ask for
// another inode first.
func (n *fileNode) lend(fh *fileHandle) bool {
	if !n.m.lends.Load() {
		return true
	}
	memory, stale := fh.h.Lend(&n.lending)
	fh.memory = memory
	return !stale
}

// page makes sure that the kernel fills pages of the inode, for a program that writes to
// it. false: the kernel must ask for another inode first.
func (n *fileNode) page() bool {
	if !n.m.lends.Load() || n.lending.Page() {
		return true
	}
	n.f.Renew(n.StableAttr().Gen, true)
	return false
}

// openReply tells the kernel how it reads an open file, and that closing one that
// was opened for reading needs no answer: nothing is saved then.
func (m *mounted) openReply(fh *fileHandle, want tree.OpenFlags) uint32 {
	flags := m.readMode(fh)
	if !want.Write && !want.Truncate {
		flags |= fuse.FOPEN_NOFLUSH
	}
	return flags
}

// readMode decides how the kernel reads an open file; of lent memory go-fuse tells it.
func (m *mounted) readMode(fh *fileHandle) uint32 {
	if m.opt.Reads == ReadsPlain {
		return fuse.FOPEN_DIRECT_IO
	}
	if fh.h.IsDirect() {
		return fuse.FOPEN_DIRECT_IO
	}
	return fuse.FOPEN_KEEP_CACHE
}

// canLend tries whether the kernel takes memory of this process.
func canLend(server *fuse.Server) error {
	if server.KernelSettings().Flags64()&fuse.CAP_PASSTHROUGH == 0 {
		return errors.New("it needs Linux 6.9")
	}
	fd, err := unix.MemfdCreate("svcfs", unix.MFD_CLOEXEC)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	id, errno := server.RegisterBackingFd(&fuse.BackingMap{Fd: int32(fd)})
	if errno != 0 {
		return errno
	}
	if errno := server.UnregisterBackingFd(id); errno != 0 {
		return errno
	}
	return nil
}

// PassthroughFd tells go-fuse what the kernel is to read. go-fuse asks the first open
// handle of an inode, and gives all others the same memory: they show the same content.
func (fh *fileHandle) PassthroughFd() (int, bool) {
	if fh.memory == nil {
		return 0, false
	}
	return int(fh.memory.Fd()), true
}

var _ gofs.FilePassthroughFder = (*fileHandle)(nil)

// viewResult answers a read with bytes that stay where they are. Slices makes
// go-fuse write them to the kernel with writev; anything else it first tries to
// splice, which costs a pipe for each read, and then copies.
type viewResult struct {
	view  cache.View
	parts [1][]byte
}

func (r *viewResult) Slices() ([][]byte, fuse.Status) { return r.parts[:], fuse.OK }

func (r *viewResult) Bytes([]byte) ([]byte, fuse.Status) { return r.view.Bytes, fuse.OK }

func (r *viewResult) Size() int { return len(r.view.Bytes) }

// Done is called once the answer was written, or given up.
func (r *viewResult) Done() { r.view.Done() }

var _ fuse.ReadResult = (*viewResult)(nil)
