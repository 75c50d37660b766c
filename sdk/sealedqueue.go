package sdk

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
)

// sealedQueue sends the small uploads of a client in the order in which they came. One that
// meets no other is sent at once. While a request is under way, the others wait for it and
// travel together in the next one.
type sealedQueue struct {
	c *Client

	mu      sync.Mutex
	busy    bool
	waiting []*queued
	moving  []*queued     // in the request under way
	most    int           // waiting uploads that end the pause of gather
	full    chan struct{} // closed when so many wait; nil = nobody looks
}

// queued is one upload, and what became of it once done is closed.
type queued struct {
	s      *Sealed
	ctx    context.Context
	answer wire.FinalizeUploadResult
	err    error
	done   chan struct{}
	batch  *batch // once it is sent
}

// batch is a request with several uploads. It ends early when all callers are gone.
type batch struct {
	left   int                // callers that wait
	cancel context.CancelFunc // nil before it began
}

const (
	// The uploads that were answered together mostly come again together: callers that wait
	// for their turn. The next request waits for them for this part of the time that the last
	// request took, and never longer than gatherMost.
	gatherPart = 8
	gatherMost = 10 * time.Millisecond
)

// send sends one upload, and returns its answer, which is not verified.
func (q *sealedQueue) send(ctx context.Context, s *Sealed) (answer wire.FinalizeUploadResult, err error) {
	w := &queued{s: s, ctx: ctx, done: make(chan struct{})}
	q.mu.Lock()
	if q.busy {
		q.waiting = append(q.waiting, w)
		if q.full != nil && len(q.waiting) >= q.most {
			close(q.full)
			q.full = nil
		}
		q.mu.Unlock()
		return q.wait(w)
	}
	q.busy, q.moving = true, []*queued{w}
	q.mu.Unlock()
	err = q.c.putSealed(q.patient(ctx), s, &answer)
	if rest := q.next(); rest != nil {
		go q.run(rest)
	}
	return answer, err
}

// wait waits for the answer. An upload whose caller gives up before it was sent is never sent.
func (q *sealedQueue) wait(w *queued) (wire.FinalizeUploadResult, error) {
	select {
	case <-w.done:
		return w.answer, w.err
	case <-w.ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return wire.FinalizeUploadResult{}, ended(w.ctx)
	}
	select {
	case <-w.done:
		return w.answer, w.err
	default:
	}
	if w.batch.left--; w.batch.left == 0 && w.batch.cancel != nil {
		w.batch.cancel()
	}
	err := ended(w.ctx)
	w.s.noteOutcome(err)
	return wire.FinalizeUploadResult{}, err
}

// next takes the uploads of the next request. nil = none wait, and the queue is not busy.
func (q *sealedQueue) next() []*queued {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.moving = nil; len(q.waiting) == 0 {
		q.busy = false
		return nil
	}
	list := make([]*Sealed, len(q.waiting))
	for i, w := range q.waiting {
		list[i] = w.s
	}
	n := batchOf(list)
	q.moving = slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	b := &batch{left: n}
	for _, w := range q.moving {
		w.batch = b
	}
	return q.moving
}

// run sends what waits until nothing does.
func (q *sealedQueue) run(list []*queued) {
	for ; list != nil; list = q.next() {
		ctx, cancel := context.WithCancel(context.WithoutCancel(list[0].ctx))
		q.mu.Lock()
		list[0].batch.cancel = cancel
		if list[0].batch.left == 0 { // all callers left before it began
			cancel()
		}
		q.mu.Unlock()
		begun := time.Now()
		if len(list) == 1 {
			list[0].err = q.c.putSealed(q.patient(ctx), list[0].s, &list[0].answer)
		} else {
			_ = q.c.sendBatch(q.patient(ctx), list) // each has its own error
		}
		cancel()
		q.mu.Lock()
		for _, w := range list {
			close(w.done)
		}
		q.mu.Unlock()
		if len(list) > 1 {
			q.gather(len(list), min(time.Since(begun)/gatherPart, gatherMost))
		}
	}
}

// gather waits until n uploads wait, for d at most.
func (q *sealedQueue) gather(n int, d time.Duration) {
	q.mu.Lock()
	if len(q.waiting) >= n {
		q.mu.Unlock()
		return
	}
	full := make(chan struct{})
	q.full, q.most = full, n
	q.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-full:
	case <-timer.C:
	}
	q.mu.Lock()
	q.full = nil
	q.mu.Unlock()
}

// patient returns a context in which what moves counts for all callers: those of the request,
// and those that wait for their turn, see [WithPatience].
func (q *sealedQueue) patient(ctx context.Context) context.Context {
	return context.WithValue(ctx, patienceKey{}, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, list := range [][]*queued{q.moving, q.waiting} {
			for _, w := range list {
				if moves, ok := w.ctx.Value(patienceKey{}).(func()); ok {
					moves()
				}
			}
		}
	})
}
