// Package cache keeps decrypted files in memory within a budget of bytes. It
// loads each file once for all who ask at the same time, hands out leases, and
// wipes what it drops. Nothing in it ever touches a disk.
package cache

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Errors of a lease or of a load that was overtaken by a purge.
var (
	ErrPurged   = errors.New("content was purged from the cache")
	ErrReleased = errors.New("lease was released")
	ErrClosed   = errors.New("cache is closed")
)

// Key names the content of one file, or a block of it. Content under a key never changes.
type Key struct {
	Group, Ref string
	Block      int64 // 0 = the file, else the number of a block and 1
	BlockBytes int64 // 0 = the file, else how the file is cut
}

// BlockOf returns the key of a block, in blocks of so many bytes, of the file that k names; the
// first is block 0.
func (k Key) BlockOf(i, bytes int64) Key { return Key{k.Group, k.Ref, i + 1, bytes} }

// IsOf reports whether k names the file, or a block of the file, that file names.
func (k Key) IsOf(file Key) bool { return k.Group == file.Group && k.Ref == file.Ref }

// Buffer is decrypted content. The cache calls Release exactly once, when the
// content is dropped and no lease is left; Release must wipe it.
type Buffer interface {
	Bytes() []byte    // the content, until Release
	Footprint() int64 // memory occupied, in bytes
	Release()         // wipes it
}

// Store is the cache. It is safe for concurrent use.
//
// Lock order: Store.mu, then entry.mu. Neither is held while a load runs.
type Store struct {
	budget int64

	mu      sync.Mutex
	recency *simplelru.LRU[Key, *entry] // every entry that may be handed out
	loads   map[Key]*load               // loads that further callers may join
	running map[*load]struct{}          // all loads, also those nobody waits for any more
	stats   Stats
	closed  bool

	// See [Room].
	loading   int64         // reserved by loads within the budget
	pinned    int64         // size of leased entries that loads within the budget brought
	over      bool          // a load, or what it brought, is beyond the budget
	overEntry *entry        // what it brought
	freed     chan struct{} // closed when room may have become free; nil while nobody waits
}

// Stats counts what the cache did since it was made.
type Stats struct {
	Bytes     int64 // footprint of all entries, leased ones included
	Entries   int
	Hits      int64
	Misses    int64
	Evictions int64
	Purged    int64
}

// entry is one buffer. It is wiped when it is out of the store and nobody
// leases it, or at once by a purge.
type entry struct {
	key     Key
	buf     Buffer
	size    int64 // footprint, as it was when the entry was made
	leases  int   // by Store.mu
	stored  bool  // by Store.mu: in recency
	dropped bool  // by Store.mu: no longer in the statistics
	retired bool  // by Store.mu: it goes with its last lease

	counted, over, pins bool // by Store.mu: see [Room]

	mu   sync.RWMutex // held for reading while bytes are copied out, for writing while they are wiped
	gone bool
}

// New returns an empty cache for budget bytes, which bound what lies in it together
// with what is being loaded (see [Room]). Content larger than the budget lives only as
// long as somebody leases it.
func New(budget int64) *Store {
	recency, err := simplelru.NewLRU[Key, *entry](math.MaxInt, nil)
	if err != nil {
		panic("cache: " + err.Error()) // only for a size below one
	}
	return &Store{budget: budget, recency: recency, loads: make(map[Key]*load), running: make(map[*load]struct{})}
}

// Get leases the content of k, which fetch loads unless it is cached. All who
// ask for k while it loads share one load; a caller whose context ends leaves it
// to the others, and the load is cancelled only when nobody waits any more. A
// failed load caches nothing. fetch asks its room before it takes memory; what it
// does not ask for is not bounded while it loads.
func (s *Store) Get(ctx context.Context, k Key, fetch func(context.Context, *Room) (Buffer, error)) (*Lease, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, ErrClosed
	}
	if e, ok := s.recency.Get(k); ok {
		s.stats.Hits++
		lease := s.lease(e)
		s.mu.Unlock()
		return lease, nil
	}
	l := s.loads[k]
	if l == nil {
		s.stats.Misses++
		l = s.start(ctx, []Key{k}, func(ctx context.Context, room *Room) ([]Buffer, error) {
			buf, err := fetch(ctx, room)
			return []Buffer{buf}, err
		})
	}
	i := slices.Index(l.keys, k)
	l.waiters[i]++
	s.mu.Unlock()
	return s.wait(ctx, l, i)
}

// Lookup leases the content of k if it is cached.
func (s *Store) Lookup(k Key) (*Lease, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.recency.Get(k)
	if !ok {
		return nil, false
	}
	s.stats.Hits++
	return s.lease(e), true
}

// Contains reports whether k is cached, without making it more recent.
func (s *Store) Contains(k Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.recency.Contains(k)
}

// Add stores b, which the cache owns from now on, and leases it. If k is cached
// already, b is released and the present content is leased.
func (s *Store) Add(k Key, b Buffer) *Lease {
	s.mu.Lock()
	e, ok := s.recency.Get(k)
	if ok {
		defer b.Release()
	} else {
		e = s.store(k, b)
	}
	lease := s.lease(e)
	wipe := s.evict()
	s.mu.Unlock()
	wipeAll(wipe)
	return lease
}

// store makes an entry for b under k. Needs Store.mu.
func (s *Store) store(k Key, b Buffer) *entry {
	e := &entry{key: k, buf: b, size: b.Footprint()}
	s.stats.Bytes += e.size
	s.stats.Entries++
	if s.closed {
		return e
	}
	e.stored = true
	s.recency.Add(k, e)
	return e
}

func (s *Store) lease(e *entry) *Lease {
	e.leases++
	s.recount(e)
	return &Lease{store: s, entry: e}
}

// evict takes the least recently used entries nobody leases out of the store
// until the budget holds, and returns what is to be wiped. Leased entries stay:
// they may exceed the budget for as long as they are read. Needs Store.mu.
func (s *Store) evict() []*entry {
	var wipe []*entry
	for range s.recency.Len() {
		if s.within() <= s.budget {
			break
		}
		k, e, _ := s.recency.GetOldest()
		if e.leases > 0 {
			s.recency.Get(k) // in use now: the most recent
			continue
		}
		s.recency.Remove(k)
		e.stored = false
		s.stats.Evictions++
		wipe = append(wipe, s.drop(e)...)
	}
	return wipe
}

// unlease takes one lease off e and returns what is to be wiped. Needs Store.mu.
func (s *Store) unlease(e *entry) []*entry {
	e.leases--
	s.recount(e)
	if e.leases == 0 && e.stored && e.retired {
		s.recency.Remove(e.key)
		e.stored = false
	}
	return append(s.drop(e), s.evict()...) // what was beyond the budget may be within it now
}

// drop returns e for wiping when it is out of the store and nobody leases it.
// Needs Store.mu.
func (s *Store) drop(e *entry) []*entry {
	if e.dropped || e.stored || e.leases > 0 {
		return nil
	}
	s.forget(e)
	return []*entry{e}
}

// forget takes e out of the statistics, which the caller does once. Needs
// Store.mu.
func (s *Store) forget(e *entry) {
	e.dropped = true
	s.stats.Bytes -= e.size
	s.stats.Entries--
	s.recount(e)
}

// wipeAll releases buffers outside the store's lock: wiping takes time.
func wipeAll(entries []*entry) {
	for _, e := range entries {
		e.wipe()
	}
}

func (e *entry) wipe() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.gone {
		e.gone = true
		e.buf.Release()
	}
}

// Purge drops and wipes every entry that match selects, now, cancels loads of
// such keys and makes them fail with [ErrPurged]. Live leases fail their next
// read. It returns how many entries it dropped. match must not call the cache.
func (s *Store) Purge(match func(Key) bool) (n int) {
	s.mu.Lock()
	var wipe []*entry
	for _, k := range s.recency.Keys() {
		if !match(k) {
			continue
		}
		e, _ := s.recency.Peek(k)
		s.recency.Remove(k)
		e.stored = false
		s.forget(e)
		s.stats.Purged++
		wipe = append(wipe, e)
	}
	for l := range s.running {
		if slices.ContainsFunc(l.keys, match) {
			l.purged = true
			l.cancel()
			s.detach(l) // whoever asks from now on gets a load of their own
		}
	}
	n = len(wipe)
	wipe = append(wipe, s.evict()...) // what was beyond the budget may be within it now
	s.mu.Unlock()
	wipeAll(wipe)
	return n
}

// Retire drops and wipes every entry that match selects as soon as nobody leases it. Live
// leases keep reading, and a purge still ends them. match must not call the cache.
func (s *Store) Retire(match func(Key) bool) {
	s.mu.Lock()
	var wipe []*entry
	for _, k := range s.recency.Keys() {
		if match(k) {
			wipe = append(wipe, s.retire(k)...)
		}
	}
	s.mu.Unlock()
	wipeAll(wipe)
}

// Move gives what is cached under a key another key, under which there is nothing. Leases stay as
// they are. It reports whether it did.
func (s *Store) Move(from, to Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.recency.Peek(from)
	if !ok || e.retired || s.recency.Contains(to) || s.loads[to] != nil {
		return false
	}
	s.recency.Remove(from)
	e.key = to
	s.recency.Add(to, e)
	return true
}

// Drop is Retire for one key.
func (s *Store) Drop(k Key) {
	s.mu.Lock()
	wipe := s.retire(k)
	s.mu.Unlock()
	wipeAll(wipe)
}

// retire needs Store.mu.
func (s *Store) retire(k Key) []*entry {
	e, ok := s.recency.Peek(k)
	if !ok {
		return nil
	}
	if e.retired = true; e.leases > 0 {
		return nil
	}
	s.recency.Remove(k)
	e.stored = false
	return s.drop(e)
}

// Close purges everything; loads under way are cancelled and fail.
func (s *Store) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.Purge(func(Key) bool { return true })
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}
