package blocks

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/svcfs/svcfs/cache"
)

const (
	// MaxAhead is how many blocks a reader in order has fetched before it comes to them.
	MaxAhead = 32
	// AheadRequests is how many requests for them are under way at a time, with that for the block that is read now.
	AheadRequests = 4
	// shuffled is by how many bytes reads of one reader may overtake each other: the kernel
	// sends several at a time.
	shuffled = 1 << 20
	// maxEarly is how many of them wait for those that they overtook, before these count as
	// read: the kernel has pages of its own.
	maxEarly = 8
)

// Reader follows the reads of a program through one handle: in order, they fetch blocks ahead. It is
// safe for concurrent use. The zero value has read nothing. A nil Reader follows nothing.
type Reader struct {
	// Whole says that the file will be read from here to its end: what is ahead is fetched from the first read on.
	Whole bool

	mu     sync.Mutex
	file   *File // nil = nothing was read, or the handle is closed
	closed bool
	at     int64  // end of what was read in order
	early  []span // what was read behind at
	window int64  // blocks to fetch ahead; 0 = nothing was read in order yet
	upTo   int64  // no block before this one is fetched ahead any more
	held   int64  // bytes counted in Memory.ahead
	loads  []*cache.Loading
}

// span is a range of bytes.
type span struct{ from, to int64 }

// come notes that the program reads from off to end, before the bytes are there.
func (r *Reader) come(ctx context.Context, f *File, off, end int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	bytes, most := f.Source.Layout().BlockBytes, AheadRequests
	switch before := r.at; {
	case r.file != f:
		r.seek(f, end)
		if r.Whole {
			r.window, most = MaxAhead, AheadRequests-1 // nobody fetched the block that is read now
		}
	case off <= r.at && end <= r.at && r.at-off <= shuffled: // once more
	case off <= r.at && r.at-off <= shuffled:
		r.at = end
		r.catchUp()
		if r.at > bytes {
			f.Memory.glances.Store(0)
		}
		if r.window == 0 && before-off <= end-before { // or most of it was read before
			r.window = f.firstWindow()
		}
		for i := (before-1)/bytes + 1; i <= (r.at-1)/bytes; i++ {
			r.window = min(max(2*r.window, f.firstWindow()), MaxAhead)
			if f.Passed != nil {
				f.Passed(i)
			}
		}
	case off > r.at && off-r.at <= shuffled:
		if r.early = append(r.early, span{off, end}); len(r.early) >= maxEarly {
			r.at = slices.MinFunc(r.early, func(a, b span) int { return cmp.Compare(a.from, b.from) }).from
			r.catchUp()
		}
	default:
		r.seek(f, end)
	}
	r.fetchAhead(ctx, most)
}

// firstWindow is how many blocks are fetched ahead once a reader is seen to read in order: what the line holds,
// and one where the service is near. Far away it is none for who may want no more than the first block.
func (f *File) firstWindow() int64 {
	bytes, line := f.Source.Layout().BlockBytes, f.Memory.line()
	if line > 0 && f.Memory.OnlyGlance() {
		return 0
	}
	return min(1+(line+bytes-1)/bytes, MaxAhead)
}

// catchUp takes in what was read early. Needs Reader.mu.
func (r *Reader) catchUp() {
	for more := true; more; {
		more = false
		r.early = slices.DeleteFunc(r.early, func(e span) bool {
			if e.from > r.at {
				return false
			}
			if e.to > r.at {
				r.at, more = e.to, true
			}
			return true
		})
	}
}

// seek begins anew at another place. What is on its way from the earlier place is given up. Needs
// Reader.mu.
func (r *Reader) seek(f *File, at int64) {
	for _, l := range r.loads {
		l.GiveUp()
	}
	r.loads = nil
	r.file, r.at, r.early, r.window, r.upTo = f, at, nil, 0, 0
	r.count()
}

// count brings Memory.ahead up to date. Needs Reader.mu.
func (r *Reader) count() {
	if r.file == nil {
		return
	}
	held := int64(0)
	if bytes := r.file.Source.Layout().BlockBytes; r.upTo > 0 {
		held = max(0, r.upTo*bytes-r.at)
	}
	r.file.Memory.ahead.Add(held - r.held)
	r.held = held
}

// fetchAhead begins requests for the blocks that come next. The first read at a place asks for
// nothing more than its blocks. At most so many requests are under way. Needs Reader.mu.
func (r *Reader) fetchAhead(ctx context.Context, most int) {
	f := r.file
	l := f.Source.Layout()
	r.loads = slices.DeleteFunc(r.loads, func(l *cache.Loading) bool { return l.IsDone() })
	next := (r.at-1)/l.BlockBytes + 1
	r.upTo = max(r.upTo, next)
	limit := min(next+r.window, l.Blocks())
	each := max(1, r.window/AheadRequests)
	for r.upTo < limit && len(r.loads) < most {
		n := min(each, limit-r.upTo)
		if n < each && limit < l.Blocks() || f.Memory.AheadNow()+n*l.BlockBytes > f.Memory.Ahead {
			break
		}
		done, began := f.begin(ctx, r.upTo, n)
		if began != nil {
			r.loads = append(r.loads, began)
		}
		if done == 0 {
			break // no room
		}
		r.upTo += done
		r.count()
	}
	r.count()
}

// Leave ends the reading: what was fetched ahead for nobody else is given up.
func (r *Reader) Leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file != nil {
		if l := r.file.Source.Layout(); l.Blocks() > 1 && r.at <= l.BlockBytes {
			r.file.Memory.glances.Add(1)
		}
		r.seek(r.file, 0)
	}
	r.closed = true
}
