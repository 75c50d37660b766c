package tree

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/sdk/mem"
)

const (
	// maxAhead is how many blocks a reader in order has fetched before it comes to them.
	maxAhead = 32
	// aheadRequests is how many requests for them are under way at a time.
	aheadRequests = 4
	// aheadShare is the part of the cache that all readers together may fill ahead.
	aheadShare = 4
	// mostGlances is how many files in a row readers leave within the first block before the next reader is taken
	// for one who does so, too.
	mostGlances = 2
	// shuffled is by how many bytes reads of one reader may overtake each other: the kernel
	// sends several at a time.
	shuffled = 1 << 20
	// maxEarly is how many of them wait for those that they overtook, before these count as
	// read: the kernel has pages of its own.
	maxEarly = 8
)

// reader follows the reads of a program through one handle: in order, they fetch blocks ahead. It is
// safe for concurrent use. The zero value has read nothing. A nil reader follows nothing.
type reader struct {
	mu     sync.Mutex
	source *blockSource // nil = nothing was read, or the handle is closed
	closed bool
	at     int64  // end of what was read in order
	early  []span // what was read behind at
	window int64  // blocks to fetch ahead; 0 = nothing was read in order yet
	upTo   int64  // no block before this one is fetched ahead any more
	held   int64  // bytes counted in Tree.ahead
	loads  []*cache.Loading
}

// span is a range of bytes.
type span struct{ from, to int64 }

// come notes that the program reads from off to end, before the bytes are there.
func (r *reader) come(ctx context.Context, s *blockSource, off, end int64) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	bytes := s.layout().BlockBytes
	switch before := r.at; {
	case r.source != s:
		r.seek(s, end)
	case off <= r.at && end <= r.at && r.at-off <= shuffled: // once more
	case off <= r.at && r.at-off <= shuffled:
		r.at = end
		r.catchUp()
		if r.at > bytes {
			s.t.glances.Store(0)
		}
		if r.window == 0 {
			r.window = s.firstWindow()
		}
		for i := (before-1)/bytes + 1; i <= (r.at-1)/bytes; i++ {
			r.window = min(max(2*r.window, s.firstWindow()), maxAhead)
			s.pass(i)
		}
	case off > r.at && off-r.at <= shuffled:
		if r.early = append(r.early, span{off, end}); len(r.early) >= maxEarly {
			r.at = slices.MinFunc(r.early, func(a, b span) int { return cmp.Compare(a.from, b.from) }).from
			r.catchUp()
		}
	default:
		r.seek(s, end)
	}
	r.fetchAhead(ctx)
}

// firstWindow is how many blocks are fetched ahead once a reader is seen to read in order: what the line holds,
// and one where the service is near. Far away it is none for who may want no more than the first block.
func (s *blockSource) firstWindow() int64 {
	bytes, line := s.layout().BlockBytes, s.t.line()
	if line > 0 && s.t.onlyGlance() {
		return 0
	}
	return min(1+(line+bytes-1)/bytes, maxAhead)
}

// line is what the line from the service holds, in bytes, see [sdk.Traffic]; 0 where the service is near.
func (t *Tree) line() int64 {
	if t.cfg.Traffic == nil {
		return 0
	}
	return t.cfg.Traffic().Line
}

// onlyGlance reports whether programs look at the beginnings of files, and at no more, as head and file do.
func (t *Tree) onlyGlance() bool { return t.glances.Load() >= mostGlances }

// startAhead is how many bytes behind the first block a reader who begins at the start of a file is to get at once.
func (t *Tree) startAhead() int64 {
	if t.onlyGlance() {
		return 0
	}
	return t.line()
}

// catchUp takes in what was read early. Needs reader.mu.
func (r *reader) catchUp() {
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
// reader.mu.
func (r *reader) seek(s *blockSource, at int64) {
	for _, l := range r.loads {
		l.GiveUp()
	}
	r.loads = nil
	r.source, r.at, r.early, r.window, r.upTo = s, at, nil, 0, 0
	r.count()
}

// count brings Tree.ahead up to date. Needs reader.mu.
func (r *reader) count() {
	if r.source == nil {
		return
	}
	held := int64(0)
	if bytes := r.source.layout().BlockBytes; r.upTo > 0 {
		held = max(0, r.upTo*bytes-r.at)
	}
	r.source.t.ahead.Add(held - r.held)
	r.held = held
}

// fetchAhead begins requests for the blocks that come next. The first read at a place asks for
// nothing more than its blocks. Needs reader.mu.
func (r *reader) fetchAhead(ctx context.Context) {
	s := r.source
	l := s.layout()
	r.loads = slices.DeleteFunc(r.loads, func(l *cache.Loading) bool { return l.IsDone() })
	next := (r.at-1)/l.BlockBytes + 1
	r.upTo = max(r.upTo, next)
	limit := min(next+r.window, l.Blocks())
	each := max(1, r.window/aheadRequests)
	for r.upTo < limit && len(r.loads) < aheadRequests {
		n := min(each, limit-r.upTo)
		if n < each && limit < l.Blocks() || s.t.ahead.Load()+n*l.BlockBytes > s.t.cfg.CacheBytes/aheadShare {
			break
		}
		done, began := s.begin(ctx, r.upTo, n)
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

// leave ends the reading.
func (r *reader) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.source != nil {
		if l := r.source.layout(); l.Blocks() > 1 && r.at <= l.BlockBytes {
			r.source.t.glances.Add(1)
		}
		r.seek(r.source, 0)
	}
	r.closed = true
}

// begin begins to fetch those of n blocks from first on that are not in memory, up to the next that
// is, where there is room. It returns how many of the first need nothing more.
func (s *blockSource) begin(ctx context.Context, first, n int64) (done int64, began *cache.Loading) {
	keys := make([]cache.Key, n)
	for i := range keys {
		keys[i] = s.blockKey(first + int64(i))
	}
	upTo, began := s.t.cache.Begin(ctx, keys, mem.FootprintOf(s.layout().BlockBytes), func(ctx context.Context, at, n int) ([]cache.Buffer, error) {
		return guarded(func() ([]cache.Buffer, error) { return s.fetch(ctx, first+int64(at), n) })
	})
	return int64(upTo), began
}
