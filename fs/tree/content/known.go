package content

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/svcfs/svcfs/cache"
	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
)

// Known is what stays known of the recorded content of a file while no program has it open: how it is cut, for
// content in blocks that was opened. The zero value knows nothing. It is safe for concurrent use.
type Known struct{ shape atomic.Pointer[shape] }

// shape is how one version is cut. It never changes.
type shape struct {
	key    cache.Key
	layout format.Layout

	mu     sync.Mutex
	passed []int64 // blocks in memory that readers read in order, see pass; the last one last
}

// Rename keeps what is known of a version that is recorded now, and had another reference while it waited.
func (k *Known) Rename(was, now *sdk.Entry) {
	if s := k.shape.Load(); s != nil && s.key == KeyOf(was) {
		k.shape.CompareAndSwap(s, &shape{key: KeyOf(now), layout: s.layout})
	}
}

// IsCached reports whether all of the content of e is in memory: whole, or each block.
func (k *Known) IsCached(store *Store, e *sdk.Entry) bool {
	return !IsCut(e) && store.Cache.Contains(KeyOf(e)) || k.hasAllBlocks(store, e)
}

func (k *Known) hasAllBlocks(store *Store, e *sdk.Entry) bool {
	s, key := k.shape.Load(), KeyOf(e)
	if s == nil || s.key != key {
		return false
	}
	for i := range s.layout.Blocks() {
		if !store.Cache.Contains(key.BlockOf(i, s.layout.BlockBytes)) {
			return false
		}
	}
	return true
}

// Who reads a film leaves the memory to others.
const (
	// PassedBytes is how much memory the blocks of a file take that readers went through in order,
	// in bytes, of a file that is larger than its share of the cache.
	PassedBytes = 32 << 20
	// keptShare is the part of the cache that a file may have which is kept as a whole.
	keptShare = 2
)

// pass notes that a reader in order came to a block, and drops the block that was passed
// longest ago when there are too many.
func (s *Source) pass(i int64) {
	if s.Layout().Size <= s.store.opt.CacheBytes/keptShare {
		return
	}
	most := int(max(1, PassedBytes/mem.FootprintOf(s.Layout().BlockBytes)))
	oldest := int64(-1)
	s.shape.mu.Lock()
	passed := s.shape.passed
	if at := slices.Index(passed, i); at >= 0 {
		passed = slices.Delete(passed, at, at+1)
	} else if len(passed) >= most {
		oldest = passed[0]
		passed = slices.Delete(passed, 0, 1)
	}
	s.shape.passed = append(passed, i)
	s.shape.mu.Unlock()
	if oldest >= 0 {
		s.store.Cache.Drop(s.file.BlockKey(oldest))
	}
}
