// Package staging holds the content of files while programs change them. A small file is one
// buffer. A large one is cut into blocks, of which only the changed ones are here: some in
// memory, the others sealed in a spool on disk.
package staging

import (
	"fmt"
	"sync/atomic"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
)

// DefaultFileBytes is how much memory the blocks of one file take, in bytes, before they go to
// the spool.
const DefaultFileBytes = 32 << 20

// Options are the limits of a [Store].
type Options struct {
	Pool       *mem.Pool
	Bytes      int64  // memory for all contents
	FileBytes  int64  // memory for the blocks of one content, where there is a spool; 0 = DefaultFileBytes
	WholeBytes int64  // longer contents are cut into blocks; below 0 = none is
	BlockBytes int64  // of a block; 0 = [format.BlockBytes]
	PartBlocks int64  // aligned blocks that are sent together, see [Content.Rested]; 0 = 32
	Spool      *Spool // nil = all blocks stay in memory
}

// Store is what the contents of a mount share. It is safe for concurrent use.
type Store struct {
	opt  Options
	used atomic.Int64
}

// NewStore returns a store without contents.
func NewStore(o Options) *Store {
	if o.FileBytes == 0 {
		o.FileBytes = DefaultFileBytes
	}
	if o.BlockBytes == 0 {
		o.BlockBytes = format.BlockBytes
	}
	if o.PartBlocks == 0 {
		o.PartBlocks = 32
	}
	return &Store{opt: o}
}

// Memory returns the memory that contents hold, in bytes.
func (s *Store) Memory() int64 { return s.used.Load() }

// Spooled returns the disk that contents hold, in bytes.
func (s *Store) Spooled() int64 {
	if s.opt.Spool == nil {
		return 0
	}
	return s.opt.Spool.Used()
}

// Full is the error of a change for which there is no room. The content is as it was.
type Full struct {
	Held, Limit int64 // bytes, by all contents
	Disk        bool  // of the spool, else of memory
	Err         error // of the disk itself; may be nil
}

func (f *Full) Error() string {
	where := "memory"
	if f.Disk {
		where = "the spool"
	}
	text := fmt.Sprintf("files being written hold %d of %d bytes of %s", f.Held, f.Limit, where)
	if f.Err != nil {
		text += ": " + f.Err.Error()
	}
	return text
}

func (f *Full) Unwrap() error { return f.Err }

// take sets memory aside.
func (s *Store) take(bytes int64) error {
	if total := s.used.Add(bytes); total > s.opt.Bytes && bytes > 0 {
		s.used.Add(-bytes)
		return &Full{Held: total - bytes, Limit: s.opt.Bytes}
	}
	return nil
}

func (s *Store) give(bytes int64) { s.used.Add(-bytes) }
