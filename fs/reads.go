package fs

import (
	"fmt"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/fs/tree"
)

// Reads says how the kernel serves what was decrypted.
type Reads uint8

const (
	// ReadsKeep lets the kernel keep pages from one open to the next.
	ReadsKeep Reads = iota
	// ReadsPassthrough lends the kernel decrypted memory of large files, which it
	// reads without asking. Needs root and Linux 6.9; else it is ReadsKeep. The
	// tree must be one that lends. A reader then sees the content as it
	// was when it opened the file.
	ReadsPassthrough
	// ReadsPlain answers every read from here; for measurements, and it takes
	// shared mappings away.
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

// openReply tells the kernel how it reads an open file, and that closing one that
// was opened for reading needs no answer: nothing is saved then.
func (m *mounted) openReply(fh *fileHandle, want tree.OpenFlags) uint32 {
	flags := m.readMode(fh)
	if !want.Write && !want.Truncate {
		flags |= fuse.FOPEN_NOFLUSH
	}
	return flags
}

// readMode decides how the kernel reads an open file.
func (m *mounted) readMode(fh *fileHandle) uint32 {
	switch m.opt.Reads {
	case ReadsPlain:
		return fuse.FOPEN_DIRECT_IO
	case ReadsPassthrough:
		var how tree.KernelReads
		if how, fh.memory = fh.h.Passthrough(); how == tree.ReadDirect {
			return fuse.FOPEN_DIRECT_IO
		}
	}
	switch fh.h.CacheMode() {
	case tree.CacheDirect:
		return fuse.FOPEN_DIRECT_IO
	case tree.CacheKeep:
		return fuse.FOPEN_KEEP_CACHE
	default:
		return 0
	}
}

// PassthroughFd tells go-fuse what the kernel is to read. It is asked for the
// first handle of an inode that reads memory; the others share that.
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
