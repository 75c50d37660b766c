package cache

import (
	"context"
	"slices"
)

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
