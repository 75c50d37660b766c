package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/svcfs/svcfs/service/faultpoint"
)

// maxTogether bounds the writes of one commit. PostgreSQL keeps 64
// subtransactions of a session in shared memory.
const maxTogether = 32

// patience is how long a commit waits for announced writes, once for all of them. They come
// within some 0.2 ms, later on a busy machine.
const patience = 2 * time.Millisecond

// pending is a write that waits for its turn.
type pending struct {
	ctx      context.Context // of the caller
	chains   Chains
	f        func(*Tx) error // nil = the caller wants no commit, but to be alone
	leads    chan struct{}   // the caller makes the next commit
	held     Chains          // by the commit that it makes
	done     chan error      // its answer
	err      error           // of f
	panicked any             // f's panic, raised again in the caller
	known    []answer        // what f need not ask any more
}

// Write runs f in a transaction that is durable when Write returns nil, and did not
// happen otherwise (but see [ErrUnavailable]). Writers of one chain take turns. f reads for its decision, and appends
// to, no other chains than it names.
//
// Writes that wait together are committed together, in the order in which they came. Where processes share, those
// whose chains are not held wait for another commit, of which a few are under way at once, and a write of [Everything]
// is a commit alone.
// Each sees the changes of those before it. A write that fails leaves no trace and does
// not disturb the others. A caller may leave only while it waits. A write that has begun
// is finished, so the context of a statement in f ends nothing.
//
// When the disk is full, Write frees the reserve and runs f again. f runs again, too, when it came into the way of
// a write of other chains: then alone.
func (s *Store) Write(ctx context.Context, chains Chains, f func(*Tx) error) error {
	return s.writeAfter(ctx, func() {}, chains, f)
}

// writeAfter is Write; it calls queued as soon as f waits for its turn.
func (s *Store) writeAfter(ctx context.Context, queued func(), chains Chains, f func(*Tx) error) (err error) {
	defer s.observed("write", &err)()
	chains, f = behindGuard(ctx, chains, f)
	err = s.writeOnce(ctx, queued, chains, f)
	if !chains.all && s.engine.lost(err) {
		chains = Everything()
		err = s.writeOnce(ctx, queued, chains, f)
	}
	for again := false; errors.Is(err, ErrFull) && s.makeRoom(ctx, again); again = true {
		err = s.writeOnce(ctx, queued, chains, f)
	}
	return err
}

// Announced is a write that comes within moments. A commit that is ready meanwhile waits for
// it a little, to include it: several writes at once are then fewer commits, which write
// fewer bytes. Whoever writes alone waits for nobody.
type Announced struct {
	store *Store
	once  sync.Once
}

// Announce announces a write. The caller ends every announcement, and does nothing between
// that lasts, such as waiting for a client or for a disk.
func (s *Store) Announce() *Announced {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announced++
	return &Announced{store: s}
}

// Write is [Store.Write], and ends the announcement.
func (a *Announced) Write(ctx context.Context, chains Chains, f func(*Tx) error) error {
	return a.store.writeAfter(ctx, a.End, chains, f)
}

// End ends the announcement: no write comes. After Write it does nothing.
func (a *Announced) End() {
	a.once.Do(func() {
		s := a.store
		s.mu.Lock()
		s.announced--
		s.mu.Unlock()
		select {
		case s.ended <- struct{}{}:
		default: // it is noted already
		}
	})
}

// makeRoom frees a part of the reserve of the database, while no write runs; again means that the
// write found no room even after that.
func (s *Store) makeRoom(ctx context.Context, again bool) bool {
	var err error
	defer s.observed("make room", &err)()
	ctx = context.WithoutCancel(ctx)
	err = s.alone(ctx, func() error {
		return s.bounded(ctx, func(ctx context.Context) error {
			if !s.engine.makeRoom(ctx, s.write, again) {
				return ErrFull
			}
			return nil
		})
	})
	return err == nil
}

func (s *Store) writeOnce(ctx context.Context, queued func(), chains Chains, f func(*Tx) error) error {
	p := &pending{ctx: ctx, chains: chains, f: f, leads: make(chan struct{}, 1), done: make(chan error, 1)}
	s.enqueue(p)
	queued()
	for {
		select {
		case err := <-p.done:
			if p.panicked != nil {
				panic(p.panicked)
			}
			return err
		case <-p.leads:
			s.writeTogether(ctx, p)
		case <-ctx.Done():
			if s.leave(p) {
				return ctx.Err()
			}
			ctx = context.WithoutCancel(ctx) // p has begun
		}
	}
}

// later takes the writes out of the queue that come while the commit of have others waits for
// announced ones; none when there is nothing left to wait for. patience is nil for a commit that does not wait.
func (s *Store) later(have int, held Chains, patience <-chan time.Time) []*pending {
	for {
		batch, more := s.next(maxTogether-have, held)
		if len(batch) > 0 || !more || have >= maxTogether || patience == nil {
			return batch
		}
		select {
		case <-s.ended:
		case <-patience:
			return nil
		}
	}
}

// writeTogether makes the commit that p leads, and answers its writes.
func (s *Store) writeTogether(ctx context.Context, p *pending) {
	ctx = context.WithoutCancel(ctx)
	patience := s.gather(p)
	defer s.end(p)
	batch, err := s.commitTogether(ctx, p, patience)
	if errors.Is(err, errSpoiled) && !errors.Is(err, ErrUnavailable) {
		s.commitEach(ctx, batch)
		return
	}
	for _, b := range batch {
		if err != nil {
			b.err = err
		}
		b.done <- b.err
	}
}

// commitTogether commits p with writes out of the queue, and returns all of them. Its error is that of each.
func (s *Store) commitTogether(ctx context.Context, p *pending, patience time.Duration) (batch []*pending, err error) {
	more := false
	take := func() {
		if batch = []*pending{p}; s.shares && p.held.all { // all processes wait for it: it is short
			return
		}
		batch, more = s.next(maxTogether-1, p.held)
		batch = append([]*pending{p}, batch...)
	}
	err = s.bounded(ctx, func(ctx context.Context) error {
		return s.transaction(ctx, p.held, s.timeout, func(tx *Tx, between transaction) error {
			take() // late, to include all that waited for the turn of this process
			if len(batch) == 1 && !more {
				if err := askAhead(ctx, tx, between, batch); err != nil {
					return err
				}
				p.run(tx)
				return p.err
			}
			var over <-chan time.Time
			if patience > 0 {
				timer := time.NewTimer(patience)
				defer timer.Stop()
				over = timer.C
			}
			return runAll(ctx, tx, between, batch, func() []*pending {
				later := s.later(len(batch), p.held, over)
				batch = append(batch, later...)
				return later
			})
		})
	})
	if batch == nil {
		take()
	}
	return batch, err
}

// commitEach commits each of several writes by itself, in their order, and answers it.
func (s *Store) commitEach(ctx context.Context, batch []*pending) {
	for _, b := range batch {
		b.known = nil // of the commit before
		b.done <- s.bounded(ctx, func(ctx context.Context) error {
			return s.transaction(ctx, s.toHold(b.chains), s.timeout, func(tx *Tx, _ transaction) error {
				b.run(tx)
				return b.err
			})
		})
	}
}

// bounded calls f with the time that a write may take.
func (s *Store) bounded(ctx context.Context, f func(context.Context) error) error {
	if s.timeout == 0 {
		return f(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return f(ctx)
}

// Statements around the writes of a commit. A savepoint stays after a rollback to it;
// the commit releases the last one.
const (
	beginOne = "SAVEPOINT one"
	undoOne  = "ROLLBACK TO SAVEPOINT one"
	nextOne  = "RELEASE SAVEPOINT one; SAVEPOINT one"
)

// runAll runs writes in one transaction, and those that come later; none ends it. Its error
// fails all of them.
func runAll(ctx context.Context, t *Tx, between transaction, batch []*pending, later func() []*pending) error {
	if err := between.between(ctx, beginOne); err != nil {
		return fmt.Errorf("begin several writes: %w", err)
	}
	var last *pending
	end := func(how string) error {
		if err := between.between(ctx, how); err != nil {
			// The transaction is lost, most likely by the failure of last. The others get
			// only the kind of that failure: a refusal is its own alone.
			return errors.Join(t.engine.kind(last.err), fmt.Errorf("end one of several writes: %w, after: %v",
				err, last.err))
		}
		return nil
	}
	for ; len(batch) > 0; batch = later() {
		if err := askAhead(ctx, t, between, batch); err != nil {
			return err
		}
		var changed Chains // by those of this batch, where it matters
		for i, p := range batch {
			if last != nil && last.err == nil {
				if err := end(nextOne); err != nil {
					return err
				}
			}
			last = p
			if i > 0 && between.asksAhead() {
				changed = changed.And(batch[i-1].chains)
				p.known = p.stillKnown(changed)
			}
			if p.run(t); p.err != nil {
				if err := end(undoOne); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// run calls f unless the caller has left.
func (p *pending) run(t *Tx) {
	if p.err = p.ctx.Err(); p.err != nil {
		return
	}
	defer func() {
		if p.panicked = recover(); p.panicked != nil {
			p.err = errors.New("a write panicked")
		}
	}()
	t.chains, t.known = p.chains, p.known
	p.err = mark(t.engine, p.f(t))
}

// Load is Write of [Everything] without a time limit, for filling an empty service. Other writers wait. The end of ctx
// ends the statements of f, but not the commit, whose answer would not be known.
func (s *Store) Load(ctx context.Context, f func(*Tx) error) error {
	return s.alone(ctx, func() error {
		return s.transaction(context.WithoutCancel(ctx), Everything(), loadPause, func(tx *Tx, _ transaction) error {
			tx.ctx, tx.chains = ctx, Everything()
			return f(tx)
		})
	})
}

// transaction runs f between begin and commit, alone in all processes with the chains that it holds.
func (s *Store) transaction(ctx context.Context, held Chains, idle time.Duration,
	f func(*Tx, transaction) error) error {
	tx, err := s.engine.beginWriting(ctx, s.write, held, idle)
	if err != nil {
		return mark(s.engine, fmt.Errorf("begin writing: %w", err))
	}
	defer tx.rollback()
	if err := f(&Tx{statements: tx, engine: s.engine, ctx: ctx}, tx); err != nil {
		return mark(s.engine, err)
	}
	faultpoint.Hit("write.before_commit")
	if err := tx.commit(ctx); err != nil {
		return mark(s.engine, err)
	}
	faultpoint.Hit("write.committed")
	if s.committed != nil {
		s.committed()
	}
	return nil
}
