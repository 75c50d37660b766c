package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/svcfs/svcfs/service/faultpoint"
)

// maxTogether bounds the writes of one commit. PostgreSQL keeps 64
// subtransactions of a session in shared memory.
const maxTogether = 32

// pending is a write that waits for its turn.
type pending struct {
	ctx      context.Context // of the caller
	f        func(*Tx) error
	done     chan error // its answer
	err      error      // of f
	panicked any        // f's panic, raised again in the caller
}

// Write runs f in a transaction that is durable when Write returns nil, and did not
// happen otherwise (but see [ErrUnavailable]). Writers take turns.
//
// Writes that wait together are committed together, in the order in which they came.
// Each sees the changes of those before it. A write that fails leaves no trace and does
// not disturb the others. A caller may leave only while it waits. A write that has begun
// is finished, so the context of a statement in f ends nothing.
//
// When the disk is full, Write frees the reserve and runs f again.
func (s *Store) Write(ctx context.Context, f func(*Tx) error) (err error) {
	defer s.observed("write", &err)()
	err = s.writeOnce(ctx, f)
	if errors.Is(err, ErrFull) && s.makeRoom(ctx) {
		err = s.writeOnce(ctx, f)
	}
	return err
}

// makeRoom frees the reserve of the database, while no write runs.
func (s *Store) makeRoom(ctx context.Context) bool {
	var err error
	defer s.observed("make room", &err)()
	ctx = context.WithoutCancel(ctx)
	if err = s.takeTurn(ctx); err != nil {
		return false
	}
	defer s.passTurn()
	err = s.bounded(ctx, func(ctx context.Context) error {
		if !s.engine.makeRoom(ctx, s.write) {
			return ErrFull
		}
		return nil
	})
	return err == nil
}

func (s *Store) writeOnce(ctx context.Context, f func(*Tx) error) error {
	p := &pending{ctx: ctx, f: f, done: make(chan error, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, p)
	s.mu.Unlock()
	for {
		select {
		case err := <-p.done:
			if p.panicked != nil {
				panic(p.panicked)
			}
			return err
		case s.turn <- struct{}{}:
			s.writeTogether(ctx, p)
			s.passTurn()
		case <-ctx.Done():
			if s.leave(p) {
				return ctx.Err()
			}
			ctx = context.WithoutCancel(ctx) // another caller runs p in its turn
		}
	}
}

// leave removes a write from the queue, if it has not begun.
func (s *Store) leave(p *pending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, p)
	if i < 0 {
		return false
	}
	s.waiting = append(s.waiting[:i:i], s.waiting[i+1:]...)
	return true
}

// next takes writes out of the queue.
func (s *Store) next() []*pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(len(s.waiting), maxTogether)
	batch := s.waiting[:n:n]
	s.waiting = s.waiting[n:]
	return batch
}

func (s *Store) isWaiting(p *pending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.waiting, p)
}

// writeTogether commits the waiting writes, until p has its answer.
func (s *Store) writeTogether(ctx context.Context, p *pending) {
	ctx = context.WithoutCancel(ctx)
	for s.isWaiting(p) {
		var batch []*pending
		err := s.bounded(ctx, func(ctx context.Context) error {
			return s.transaction(ctx, s.timeout, func(tx *Tx) error {
				batch = s.next() // late, to include all that waited for the turn of this process
				return tx.runAll(ctx, batch)
			})
		})
		if batch == nil { // the transaction did not begin
			batch = s.next()
		}
		for _, b := range batch {
			if err != nil {
				b.err = err
			}
			b.done <- b.err
		}
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
	nextOne  = "RELEASE SAVEPOINT one; SAVEPOINT one" // one round trip
)

// runAll runs writes in one transaction. Its error fails all of them.
func (t *Tx) runAll(ctx context.Context, batch []*pending) error {
	if len(batch) == 1 {
		batch[0].run(t)
		return batch[0].err
	}
	if _, err := t.tx.ExecContext(ctx, beginOne); err != nil {
		return fmt.Errorf("begin several writes: %w", err)
	}
	for i, p := range batch {
		p.run(t)
		after := nextOne
		if p.err != nil {
			after = undoOne
		} else if i == len(batch)-1 {
			return nil
		}
		if _, err := t.tx.ExecContext(ctx, after); err != nil {
			// The transaction is lost, most likely by the failure of p. The others get
			// only the kind of that failure: a refusal is p's alone.
			return errors.Join(t.engine.kind(p.err), fmt.Errorf("end one of several writes: %w, after: %v", err, p.err))
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
	p.err = mark(t.engine, p.f(t))
}

// Load is Write without a time limit, for filling an empty service. Other writers wait.
func (s *Store) Load(ctx context.Context, f func(*Tx) error) error {
	if err := s.takeTurn(ctx); err != nil {
		return err
	}
	defer s.passTurn()
	return s.transaction(ctx, 0, f)
}

func (s *Store) takeTurn(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) passTurn() { <-s.turn }

// transaction runs f between begin and commit, alone in all processes.
func (s *Store) transaction(ctx context.Context, idle time.Duration, f func(*Tx) error) error {
	tx, err := s.engine.beginWriting(ctx, s.write)
	if err != nil {
		return mark(s.engine, fmt.Errorf("begin writing: %w", err))
	}
	defer func() { _ = tx.Rollback() }()
	if err := s.engine.serialise(ctx, tx, idle); err != nil {
		return mark(s.engine, fmt.Errorf("wait for other writers: %w", err))
	}
	if err := f(&Tx{tx: tx, engine: s.engine, ctx: ctx}); err != nil {
		return mark(s.engine, err)
	}
	faultpoint.Hit("write.before_commit")
	if err := tx.Commit(); err != nil {
		return mark(s.engine, fmt.Errorf("commit: %w", err))
	}
	faultpoint.Hit("write.committed")
	return nil
}
