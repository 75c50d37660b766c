package blocks

import (
	"context"
	"sync/atomic"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/mem"
)

// Source is the content of a recorded file.
type Source interface {
	// Layout says how the content is cut. It never changes.
	Layout() format.Layout
	// Fetch returns blocks from first on, decrypted and proven, with one request: all of them, or none. The caller owns
	// them.
	Fetch(ctx context.Context, first int64, count int) ([]cache.Buffer, error)
}

// Memory is what the readers of a program share. It must not be copied.
type Memory struct {
	Store *cache.Store
	Ahead int64 // bytes that all readers together may have fetched ahead
	// Line returns what the line from the service holds, in bytes; 0 where the service is near. nil = it is near.
	Line func() int64
	// Wait calls take, which waits for room for so many bytes, and bounds how long it waits. nil = without bound.
	Wait func(ctx context.Context, bytes int64, take func(context.Context, int64) error) error

	ahead   atomic.Int64 // bytes that were fetched ahead
	glances atomic.Int64 // files in a row of which readers wanted no more than some of the first block
}

// AheadNow returns how many bytes were fetched ahead and not read yet.
func (m *Memory) AheadNow() int64 { return m.ahead.Load() }

// mostGlances is how many files in a row readers leave within the first block before the next reader is taken for one
// who does so, too.
const mostGlances = 2

// OnlyGlance reports whether programs look at the beginnings of files, and at no more, as head and file do.
func (m *Memory) OnlyGlance() bool { return m.glances.Load() >= mostGlances }

func (m *Memory) line() int64 {
	if m.Line == nil {
		return 0
	}
	return m.Line()
}

// StartAhead returns how many bytes behind the first block a reader who begins at the start of a file is to get at
// once.
func (m *Memory) StartAhead() int64 {
	if m.OnlyGlance() {
		return 0
	}
	return m.line()
}

// File is an open file whose blocks lie in a [Memory]. It is safe for concurrent use.
type File struct {
	Memory *Memory
	Key    cache.Key // of the file; its blocks have keys of their own
	Source Source
	// Passed is told each block that a reader in order comes to. nil = nobody is.
	Passed func(block int64)
}

// BlockKey returns the key of a block.
func (f *File) BlockKey(i int64) cache.Key { return f.Key.BlockOf(i, f.Source.Layout().BlockBytes) }

// View returns what the file has from off on, at most len(p) bytes and fewer only at its end: bytes of one block as
// they lie in memory, else a copy in p. It fetches blocks that are not in memory. r follows the reader; it may be nil.
// Errors: those of Fetch and of ctx, [cache.ErrPurged], [cache.ErrNoRoom].
func (f *File) View(ctx context.Context, r *Reader, p []byte, off int64) (cache.View, error) {
	l := f.Source.Layout()
	end := min(off+int64(len(p)), l.Size)
	if off < 0 || off >= end {
		return cache.View{}, nil
	}
	first, last := off/l.BlockBytes, (end-1)/l.BlockBytes
	if first == last {
		return f.Lend(ctx, r, off, end-off)
	}
	r.come(ctx, f, off, end)
	if _, began := f.begin(ctx, first, last-first+1); began != nil {
		defer began.GiveUp()
	}
	n := 0
	for i := first; i <= last; i++ {
		lease, err := f.block(ctx, i)
		if err != nil {
			return cache.View{}, err
		}
		got, err := lease.ReadAt(p[n:end-off], off+int64(n)-i*l.BlockBytes)
		lease.Release()
		if err != nil {
			return cache.View{}, err
		}
		n += got
	}
	return cache.View{Bytes: p[:n]}, nil
}

// Lend is View of at most n bytes, and no more than the rest of one block: it copies nothing.
func (f *File) Lend(ctx context.Context, r *Reader, off, n int64) (cache.View, error) {
	l := f.Source.Layout()
	if off < 0 || off >= l.Size || n <= 0 {
		return cache.View{}, nil
	}
	i := off / l.BlockBytes
	end := min(off+n, l.Size, (i+1)*l.BlockBytes)
	r.come(ctx, f, off, end)
	lease, err := f.block(ctx, i)
	if err != nil {
		return cache.View{}, err
	}
	return lease.ViewOnce(off-i*l.BlockBytes, int(end-off))
}

// block leases a block, which it fetches unless it is in memory. A fetch that was begun for later, or by others, and
// fails is tried once more.
func (f *File) block(ctx context.Context, i int64) (*cache.Lease, error) {
	for again := false; ; again = true {
		var own atomic.Bool
		lease, err := f.Memory.Store.Get(ctx, f.BlockKey(i),
			func(ctx context.Context, room *cache.Room) (cache.Buffer, error) {
				own.Store(true)
				if err := f.wait(ctx, mem.FootprintOf(f.Source.Layout().Plain(i)), room); err != nil {
					return nil, err
				}
				got, err := f.Source.Fetch(ctx, i, 1)
				if err != nil {
					return nil, err
				}
				return got[0], nil
			})
		if err == nil || own.Load() || again || ctx.Err() != nil {
			return lease, err
		}
	}
}

func (f *File) wait(ctx context.Context, bytes int64, room *cache.Room) error {
	if f.Memory.Wait == nil {
		return room.Reserve(ctx, bytes)
	}
	return f.Memory.Wait(ctx, bytes, room.Reserve)
}

// begin begins to fetch those of n blocks from first on that are not in memory, up to the next that is, where there is
// room. It returns how many of the first need nothing more.
func (f *File) begin(ctx context.Context, first, n int64) (done int64, began *cache.Loading) {
	keys := make([]cache.Key, n)
	for i := range keys {
		keys[i] = f.BlockKey(first + int64(i))
	}
	upTo, began := f.Memory.Store.Begin(ctx, keys, mem.FootprintOf(f.Source.Layout().BlockBytes),
		func(ctx context.Context, at, n int) ([]cache.Buffer, error) {
			return f.Source.Fetch(ctx, first+int64(at), n)
		})
	return int64(upTo), began
}
