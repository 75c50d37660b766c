package store

import (
	"context"
	"slices"
	"time"
)

// mostAtOnce bounds the commits of this process that are under way at once. While one travels to the server and back,
// the others do, too; with more of them each has fewer writes.
const mostAtOnce = 4

// chainSet are the chains of some writes.
type chainSet struct {
	some, all bool
	names     map[string]bool
}

func (s *chainSet) add(c Chains) {
	s.some, s.all = true, s.all || c.all
	if s.names == nil {
		s.names = make(map[string]bool)
	}
	for _, name := range c.names {
		s.names[name] = true
	}
}

// meets reports whether a write of these chains comes into the way of one of the others.
func (s *chainSet) meets(c Chains) bool {
	return s.all || s.some && c.all || slices.ContainsFunc(c.names, func(name string) bool { return s.names[name] })
}

// enqueue lets a write wait for its turn.
func (s *Store) enqueue(p *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting = append(s.waiting, p)
	s.begin()
}

// begin lets the first write lead a commit that may: none of its chains is in a commit under way, or in a write that
// came before it and waits. The caller has s.mu.
func (s *Store) begin() {
	if s.gathering || len(s.leading) >= mostAtOnce {
		return
	}
	busy := s.heldBy(nil)
	for i, p := range s.waiting {
		p.held = s.toHold(p.chains)
		if !busy.meets(p.held) {
			s.waiting = slices.Delete(s.waiting, i, i+1)
			s.leading, s.gathering = append(s.leading, p), true
			p.leads <- struct{}{}
			return
		}
		if busy.add(p.held); busy.all {
			return
		}
	}
}

// heldBy are the chains of the commits under way, but for one.
func (s *Store) heldBy(but *pending) (held chainSet) {
	for _, p := range s.leading {
		if p != but {
			held.add(p.held)
		}
	}
	return held
}

// toHold is what a commit holds for chains.
func (s *Store) toHold(chains Chains) Chains {
	if !s.shares || len(chains.names) > maxChains {
		return Everything()
	}
	return chains
}

// gather settles what the commit holds that p leads: the chains of p, and of those that wait, as far as one commit
// takes them. It returns how long the commit itself waits for announced writes. Where it shares with other processes,
// they come before it begins: afterwards their chains are not held.
func (s *Store) gather(p *pending) (patience time.Duration) {
	patience = s.patience
	if s.shares {
		patience = 0
	}
	if !p.held.all {
		s.awaitAnnounced()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := s.heldBy(p)
	for n, w := range s.waiting {
		if p.held.all || busy.all {
			break
		}
		both := p.held.And(w.chains)
		if n+1 < maxTogether && !both.all && len(both.names) <= maxChains && !busy.meets(w.chains) {
			p.held = both
		} else {
			busy.add(w.chains)
		}
	}
	s.gathering = false
	s.begin()
	return patience
}

// awaitAnnounced waits a little for writes that are announced.
func (s *Store) awaitAnnounced() {
	over := time.NewTimer(s.patience)
	defer over.Stop()
	for {
		s.mu.Lock()
		ready := s.announced == 0 || len(s.waiting) >= maxTogether
		s.mu.Unlock()
		if ready {
			return
		}
		select {
		case <-s.ended:
		case <-over.C:
			return
		}
	}
}

// end ends the turn of a write that led a commit.
func (s *Store) end(p *pending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.leading, p)
	s.leading = slices.Delete(s.leading, i, i+1)
	s.begin()
}

// leave removes a write from the queue, if it has not begun.
func (s *Store) leave(p *pending) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, p)
	if i < 0 {
		return false
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.begin() // those behind it may have waited for its chains
	return true
}

// next takes at most so many writes out of the queue, of those whose chains are held and in none that came before, and
// returns also whether others are announced.
func (s *Store) next(most int, held Chains) (batch []*pending, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var left []*pending
	var before chainSet // of those that are left
	for i, p := range s.waiting {
		if len(batch) == most || before.all {
			left = append(left, s.waiting[i:]...)
			break
		}
		if p.f != nil && held.hold(p.chains) && !before.meets(p.chains) {
			batch = append(batch, p)
			continue
		}
		left = append(left, p)
		before.add(p.chains)
	}
	s.waiting = left
	return batch, s.announced > 0
}

// alone runs f while no commit is under way in this process.
func (s *Store) alone(ctx context.Context, f func() error) error {
	p := &pending{chains: Everything(), leads: make(chan struct{}, 1)}
	s.enqueue(p)
	select {
	case <-p.leads:
	case <-ctx.Done():
		if s.leave(p) {
			return ctx.Err()
		}
		<-p.leads
	}
	s.gather(p)
	defer s.end(p)
	return f()
}
