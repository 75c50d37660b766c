// Package cache keeps decrypted files in memory within a budget of bytes. It
// loads each file once for all who ask at the same time, hands out leases, and
// wipes what it drops. Nothing in it ever touches a disk.
package cache

import (
	"context"
	"errors"
	"math"
	"os"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Errors of a lease or of a load that was overtaken by a purge.
var (
	ErrPurged   = errors.New("content was purged from the cache")
	ErrReleased = errors.New("lease was released")
	ErrClosed   = errors.New("cache is closed")
)

// Key names the content of one file. Content under a key never changes.
type Key struct{ Group, Ref string }

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

// load is one retrieval under way.
type load struct {
	key     Key
	room    Room
	cancel  context.CancelFunc
	waiters int  // by Store.mu
	purged  bool // by Store.mu
	ended   bool // by Store.mu: entry or err is set

	done  chan struct{} // closed after ended is set
	entry *entry
	err   error
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
		l = s.start(ctx, k, fetch)
	}
	l.waiters++
	s.mu.Unlock()
	return s.wait(ctx, l)
}

// start begins a load. Needs Store.mu.
func (s *Store) start(ctx context.Context, k Key, fetch func(context.Context, *Room) (Buffer, error)) *load {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &load{key: k, room: Room{store: s}, cancel: cancel, done: make(chan struct{})}
	s.loads[k], s.running[l] = l, struct{}{}
	go func() {
		defer cancel()
		buf, err := fetch(ctx, &l.room)
		s.finish(l, buf, err)
	}()
	return l
}

// finish stores what was loaded and leases it to every waiter. Content that
// came under the same key meanwhile stays: two entries under one key would leave
// the first where neither eviction nor a purge finds it.
func (s *Store) finish(l *load, buf Buffer, err error) {
	var unused Buffer
	var stored *entry
	s.mu.Lock()
	s.detach(l)
	delete(s.running, l)
	switch {
	case l.purged || s.closed:
		l.err = ErrPurged
		if err == nil {
			unused = buf
		}
	case err != nil:
		l.err = err
	default:
		e, ok := s.recency.Get(l.key)
		if ok {
			unused = buf
		} else {
			e = s.store(l.key, buf)
			stored = e
		}
		e.leases += l.waiters
		s.recount(e)
		l.entry = e
	}
	l.ended = true
	s.endRoom(&l.room, stored)
	wipe := s.evict()
	s.mu.Unlock()
	if unused != nil {
		unused.Release()
	}
	wipeAll(wipe)
	close(l.done) // last: whoever has an answer may rely on the wiping
}

// detach keeps further callers from joining l. Needs Store.mu.
func (s *Store) detach(l *load) {
	if s.loads[l.key] == l {
		delete(s.loads, l.key)
	}
}

func (s *Store) wait(ctx context.Context, l *load) (*Lease, error) {
	select {
	case <-l.done:
	case <-ctx.Done():
		s.leave(l)
		return nil, ctx.Err()
	}
	if l.err != nil {
		return nil, l.err
	}
	return &Lease{store: s, entry: l.entry}, nil
}

// leave gives up one waiter's claim on a load.
func (s *Store) leave(l *load) {
	s.mu.Lock()
	var wipe []*entry
	switch l.waiters--; {
	case l.ended && l.entry != nil:
		wipe = s.unlease(l.entry)
	case !l.ended && l.waiters == 0:
		l.cancel()
		s.detach(l) // the next caller starts afresh
	}
	s.mu.Unlock()
	wipeAll(wipe)
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
	switch {
	case e.leases > 0 || !e.stored:
	case e.retired:
		s.recency.Remove(e.key)
		e.stored = false
	default:
		return s.evict()
	}
	return s.drop(e)
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
		if match(l.key) {
			l.purged = true
			l.cancel()
			s.detach(l) // whoever asks from now on gets a load of their own
		}
	}
	s.mu.Unlock()
	wipeAll(wipe)
	return len(wipe)
}

// Retire drops and wipes every entry that match selects as soon as nobody leases it. Live
// leases keep reading, and a purge still ends them. match must not call the cache.
func (s *Store) Retire(match func(Key) bool) {
	s.mu.Lock()
	var wipe []*entry
	for _, k := range s.recency.Keys() {
		e, _ := s.recency.Peek(k)
		if !match(k) {
			continue
		}
		if e.retired = true; e.leases > 0 {
			continue
		}
		s.recency.Remove(k)
		e.stored = false
		wipe = append(wipe, s.drop(e)...)
	}
	s.mu.Unlock()
	wipeAll(wipe)
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

// Lease keeps content readable until it is released or purged.
type Lease struct {
	store    *Store
	entry    *entry
	released bool // by Store.mu
}

// Len returns the length of the content in bytes, 0 after a purge.
func (l *Lease) Len() int64 {
	l.entry.mu.RLock()
	defer l.entry.mu.RUnlock()
	if l.entry.gone {
		return 0
	}
	return int64(len(l.entry.buf.Bytes()))
}

// ReadAt copies content from off into p; n < len(p) only at the end, with a nil
// error. After a purge it fails with [ErrPurged].
func (l *Lease) ReadAt(p []byte, off int64) (n int, err error) {
	l.entry.mu.RLock()
	defer l.entry.mu.RUnlock()
	if l.entry.gone {
		return 0, ErrPurged
	}
	content := l.entry.buf.Bytes()
	if off < 0 || off >= int64(len(content)) {
		return 0, nil
	}
	return copy(p, content[off:]), nil
}

// View is content that was lent, not copied. The zero View is empty.
type View struct {
	Bytes []byte
	entry *entry
}

// View returns at most n bytes from off as they lie in the cache; fewer only at
// the end. The caller must call Done soon: wiping the content waits for it. After
// a purge it fails with [ErrPurged].
func (l *Lease) View(off int64, n int) (View, error) {
	l.entry.mu.RLock()
	if l.entry.gone {
		l.entry.mu.RUnlock()
		return View{}, ErrPurged
	}
	content := l.entry.buf.Bytes()
	if off < 0 || off >= int64(len(content)) {
		l.entry.mu.RUnlock()
		return View{}, nil
	}
	end := min(off+int64(n), int64(len(content)))
	return View{Bytes: content[off:end:end], entry: l.entry}, nil
}

// Done ends the loan: the bytes may not be touched any more. Call it once.
func (v View) Done() {
	if v.entry != nil {
		v.entry.mu.RUnlock()
	}
}

// sharer is a buffer whose memory has a descriptor. Its Release must empty the
// file.
type sharer interface {
	Share() (*os.File, bool)
}

// Share returns a new descriptor of memory that holds exactly the content, which
// the caller closes; false where the buffer has none, or was purged. A purge
// empties the file. Keep the lease for as long as the descriptor is in use.
func (l *Lease) Share() (*os.File, bool) {
	l.entry.mu.RLock()
	defer l.entry.mu.RUnlock()
	b, ok := l.entry.buf.(sharer)
	if !ok || l.entry.gone {
		return nil, false
	}
	return b.Share()
}

// Again leases the same content once more; nil when it is out of the cache.
func (l *Lease) Again() *Lease {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	if l.released || !l.entry.stored {
		return nil
	}
	return l.store.lease(l.entry)
}

// Shows reports whether other leases the same content.
func (l *Lease) Shows(other *Lease) bool { return other != nil && l.entry == other.entry }

// Release gives the lease up. Releasing twice does nothing.
func (l *Lease) Release() {
	s := l.store
	s.mu.Lock()
	if l.released {
		s.mu.Unlock()
		return
	}
	l.released = true
	wipe := s.unlease(l.entry)
	s.mu.Unlock()
	wipeAll(wipe)
}
