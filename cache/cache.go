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

// load is one retrieval under way, of one key or of several that are fetched together.
type load struct {
	keys    []Key
	room    Room
	cancel  context.CancelFunc
	waiters []int // by Store.mu: for each key, and behind them who began it for later
	purged  bool  // by Store.mu
	ended   bool  // by Store.mu: entries or err is set

	done    chan struct{} // closed after ended is set
	entries []*entry
	err     error
}

// isWanted reports whether anybody waits for l. Needs Store.mu.
func (l *load) isWanted() bool {
	return slices.ContainsFunc(l.waiters, func(n int) bool { return n > 0 })
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

// Begin begins to load the first of keys that are neither cached nor on their way, together, up to
// the next that is. It returns how many of keys are cached, on their way or begun now, from the
// first on, and the load, nil if none began. room is what each of them takes, in bytes: only as many are loaded as
// find room at once, and what is loaded is leased to nobody. [Store.Get] of one of them waits for the load. fetch
// loads n keys from place first on: all of them, or none. When the caller gives the load up and
// nobody waits for it, it is cancelled.
func (s *Store) Begin(ctx context.Context, keys []Key, room int64,
	fetch func(ctx context.Context, first, n int) ([]Buffer, error)) (upTo int, began *Loading) {
	s.mu.Lock()
	upTo, began = s.begin(ctx, keys, room, fetch)
	wipe := s.evict()
	s.mu.Unlock()
	wipeAll(wipe)
	return upTo, began
}

// begin needs Store.mu.
func (s *Store) begin(ctx context.Context, keys []Key, room int64,
	fetch func(ctx context.Context, first, n int) ([]Buffer, error)) (upTo int, began *Loading) {
	if s.closed {
		return 0, nil
	}
	isThere := func(k Key) bool { return s.loads[k] != nil || s.recency.Contains(k) }
	first := 0
	for first < len(keys) && isThere(keys[first]) {
		first++
	}
	upTo = first
	for fits := first + int(max(0, s.budget-s.pinned-s.loading)/room); upTo < min(len(keys), fits) &&
		!isThere(keys[upTo]); {
		upTo++
	}
	n := upTo - first
	if n == 0 {
		return upTo, nil
	}
	s.stats.Misses += int64(n)
	l := s.start(ctx, slices.Clone(keys[first:upTo]), func(ctx context.Context, _ *Room) ([]Buffer, error) {
		return fetch(ctx, first, n)
	})
	s.loading += int64(n) * room
	l.room.held = int64(n) * room
	l.waiters[n]++
	return upTo, &Loading{s, l}
}

// Loading is a load that [Store.Begin] began.
type Loading struct {
	store *Store
	load  *load
}

// IsDone reports whether the load has ended.
func (l *Loading) IsDone() bool {
	select {
	case <-l.load.done:
		return true
	default:
		return false
	}
}

// GiveUp tells that the caller does not want what is loaded any more. Call it at most once.
func (l *Loading) GiveUp() { l.store.leave(l.load, len(l.load.keys)) }

// start begins a load. Needs Store.mu.
func (s *Store) start(ctx context.Context, keys []Key, fetch func(context.Context, *Room) ([]Buffer, error)) *load {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &load{keys: keys, room: Room{store: s}, cancel: cancel, waiters: make([]int, len(keys)+1),
		done: make(chan struct{})}
	for _, k := range keys {
		s.loads[k] = l
	}
	s.running[l] = struct{}{}
	go func() {
		defer cancel()
		bufs, err := fetch(ctx, &l.room)
		s.finish(l, bufs, err)
	}()
	return l
}

// finish stores what was loaded and leases it to every waiter. Content that
// came under the same key meanwhile stays: two entries under one key would leave
// the first where neither eviction nor a purge finds it.
func (s *Store) finish(l *load, bufs []Buffer, err error) {
	var unused []Buffer
	stored := make([]*entry, 0, len(l.keys))
	s.mu.Lock()
	s.detach(l)
	delete(s.running, l)
	switch {
	case l.purged || s.closed:
		l.err = ErrPurged
		if err == nil {
			unused = bufs
		}
	case err != nil:
		l.err = err
	default:
		for i, k := range l.keys {
			e, ok := s.recency.Get(k)
			if ok {
				unused = append(unused, bufs[i])
			} else {
				e = s.store(k, bufs[i])
				stored = append(stored, e)
			}
			e.leases += l.waiters[i]
			s.recount(e)
			l.entries = append(l.entries, e)
		}
	}
	l.ended = true
	s.endRoom(&l.room, stored)
	wipe := s.evict()
	s.mu.Unlock()
	for _, buf := range unused {
		buf.Release()
	}
	wipeAll(wipe)
	close(l.done) // last: whoever has an answer may rely on the wiping
}

// detach keeps further callers from joining l. Needs Store.mu.
func (s *Store) detach(l *load) {
	for _, k := range l.keys {
		if s.loads[k] == l {
			delete(s.loads, k)
		}
	}
}

// wait waits for the key at place i of a load.
func (s *Store) wait(ctx context.Context, l *load, i int) (*Lease, error) {
	select {
	case <-l.done:
	case <-ctx.Done():
		s.leave(l, i)
		return nil, ctx.Err()
	}
	if l.err != nil {
		return nil, l.err
	}
	return &Lease{store: s, entry: l.entries[i]}, nil
}

// leave gives up one waiter's claim on the key at place i of a load.
func (s *Store) leave(l *load, i int) {
	s.mu.Lock()
	var wipe []*entry
	switch l.waiters[i]--; {
	case l.ended && i < len(l.entries):
		wipe = s.unlease(l.entries[i])
	case !l.ended && !l.isWanted():
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

// Lease keeps content readable until it is released or purged.
type Lease struct {
	store    *Store
	entry    *entry
	released bool // by Store.mu
}

// Buffer returns the content itself, which may be more than bytes; false after a purge. It
// may end at any moment.
func (l *Lease) Buffer() (Buffer, bool) {
	l.entry.mu.RLock()
	defer l.entry.mu.RUnlock()
	return l.entry.buf, !l.entry.gone
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
	owner *Lease // ends with the view; nil = none
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
	if v.owner != nil {
		v.owner.Release()
	}
}

// ViewOnce is View of a lease that ends with the view, or with the error.
func (l *Lease) ViewOnce(off int64, n int) (View, error) {
	v, err := l.View(off, n)
	if err != nil {
		l.Release()
		return v, err
	}
	v.owner = l
	return v, nil
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
