package fs

import (
	"fmt"

	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/fs/tree"
)

// Reads is the way in which the kernel serves decrypted content.
type Reads uint8

const (
	// ReadsKeep lets the kernel keep pages from one open to the next.
	ReadsKeep Reads = iota
	// ReadsPlain answers every read from here; for measurements. Linux before 6.6 maps
	// no file shared then (ENODEV).
	ReadsPlain
)

var readsNames = []string{ReadsKeep: "keep", ReadsPlain: "plain"}

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
	if m.opt.Reads == ReadsPlain || fh.h.IsDirect() {
		return fuse.FOPEN_DIRECT_IO
	}
	return fuse.FOPEN_KEEP_CACHE
}

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
