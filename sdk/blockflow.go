package sdk

import (
	"context"
	"sync"

	"github.com/svcfs/svcfs/sdk/internal/call"
)

// flow bounds how many blocks are under way. A lost connection loses what the service has not
// stored: the bound falls with each, and grows with each part that arrives. Nothing more is sent
// until the service answered whether a part arrived.
type flow struct {
	most int64 // blocks

	mu      sync.Mutex
	budget  int64 // blocks that may be under way
	sending int64 // blocks that are
	doubts  int   // attempts of which it is not known what arrived
	waiting chan struct{}
}

// take waits until blocks may be sent, and returns how many, at most want.
func (f *flow) take(ctx context.Context, want int64) (int64, error) {
	for {
		f.mu.Lock()
		n := min(want, f.budget)
		if f.doubts == 0 && (f.sending == 0 || f.sending+n <= f.budget) {
			f.sending += n
			f.mu.Unlock()
			return n, nil
		}
		if f.waiting == nil {
			f.waiting = make(chan struct{})
		}
		waiting := f.waiting
		f.mu.Unlock()
		select {
		case <-waiting:
		case <-ctx.Done():
			return 0, call.Ended(ctx)
		}
	}
}

// give ends what take began. After a doubt the caller must call sure.
func (f *flow) give(n int64, arrived, doubt bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sending -= n
	if arrived {
		f.budget = min(f.most, f.budget+max(1, f.budget/8))
	} else {
		f.budget = max(1, f.budget/4)
	}
	if doubt {
		f.doubts++
	}
	f.wake()
}

func (f *flow) sure() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.doubts--
	f.wake()
}

// wake lets all that wait look again. The caller holds mu.
func (f *flow) wake() {
	if f.waiting != nil {
		close(f.waiting)
		f.waiting = nil
	}
}

// partsMeter counts the bytes of all parts of an upload.
type partsMeter struct {
	mu     sync.Mutex
	report func(done, total int64)
	total  int64 // bytes of sealed blocks, -1 = not known
	sealed int64 // bytes of a sealed block
	done   int64 // bytes that arrived
	bodies map[*bodyMeter]struct{}
	told   int64
}

func newPartsMeter(report func(done, total int64), total, sealed int64) *partsMeter {
	if report == nil {
		return nil
	}
	return &partsMeter{report: report, total: total, sealed: sealed, bodies: make(map[*bodyMeter]struct{})}
}

// kept counts blocks that arrived.
func (m *partsMeter) kept(blocks int64) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done += blocks * m.sealed
	m.tell()
}

// tell reports, unless less is done than before. The caller holds mu.
func (m *partsMeter) tell() {
	done := m.done
	for b := range m.bodies {
		done += b.done
	}
	if m.total >= 0 {
		done = min(done, m.total)
	}
	if done > m.told {
		m.told = done
		m.report(done, m.total)
	}
}

// bodyMeter counts the bytes of one request.
type bodyMeter struct {
	m    *partsMeter
	done int64
	sent func(done, total int64)
}

func (m *partsMeter) body() *bodyMeter {
	b := &bodyMeter{m: m}
	if m == nil {
		return b
	}
	b.sent = func(done, _ int64) {
		m.mu.Lock()
		defer m.mu.Unlock()
		b.done = done
		m.tell()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bodies[b] = struct{}{}
	return b
}

// end takes the bytes back: kept counts those that arrived.
func (b *bodyMeter) end() {
	if b.m == nil {
		return
	}
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	delete(b.m.bodies, b)
}
