package sdk

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/wire"
)

// sealedQueue sends the small uploads of a client. One that meets no other is sent at once.
// Where requests are quick, the others wait for the one under way and travel together in the
// next: that is less work. Where a request takes long, it is the line that takes the time: then
// several are under way at once, and only what is more travels together. Requests begin in the
// order in which the uploads came.
type sealedQueue struct {
	c         *Client
	slowAfter time.Duration // slowRequest, but for tests

	mu      sync.Mutex
	lanes   int  // requests under way, or about to begin
	slow    bool // what the newest request says of the line
	waiting []*queued
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
	// slowLanes is how many requests are under way at most where requests take long.
	slowLanes = 8
	// A request takes long if it takes longer than slowRequest, and slowEach for each upload
	// in it: a service nearby is faster, also one that is busy.
	slowRequest = 20 * time.Millisecond
	slowEach    = 2 * time.Millisecond
	// The uploads that were answered together mostly come again together: callers that wait
	// for their turn. The next request waits for them for this part of the time that the last
	// request took, and never longer than gatherMost: fewer requests are fewer commits.
	gatherPart = 2
	gatherMost = 10 * time.Millisecond
)

// send sends one upload, and returns its answer, which is not verified.
func (q *sealedQueue) send(ctx context.Context, s *Sealed) (answer wire.FinalizeUploadResult, err error) {
	w := &queued{s: s, ctx: ctx, done: make(chan struct{})}
	q.mu.Lock()
	if len(q.waiting) > 0 || q.lanes >= q.allowed() {
		q.waiting = append(q.waiting, w)
		if q.full != nil && len(q.waiting) >= q.most {
			close(q.full)
			q.full = nil
		}
		q.mu.Unlock()
		return q.wait(w)
	}
	q.lanes++
	q.mu.Unlock()
	begun := time.Now()
	err = q.put(q.patient(ctx, []*queued{w}), s, &answer)
	q.ended(1, time.Since(begun), err)
	q.leave()
	return answer, err
}

// allowed returns how many requests may be under way. The caller holds mu.
func (q *sealedQueue) allowed() int {
	if q.slow {
		return slowLanes
	}
	return 1
}

// ended notes how long a request with n uploads took; one that failed says nothing.
func (q *sealedQueue) ended(n int, took time.Duration, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err == nil {
		q.slow = took > q.slowAfter+time.Duration(n)*slowEach
	}
}

// leave ends a request, and begins those that may begin now.
func (q *sealedQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.lanes--
	for free := q.allowed() - q.lanes; free > 0 && len(q.waiting) > 0; free-- {
		q.lanes++
		go q.run(q.next((len(q.waiting) + free - 1) / free))
	}
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
		return wire.FinalizeUploadResult{}, call.Ended(w.ctx)
	}
	select {
	case <-w.done:
		return w.answer, w.err
	default:
	}
	if w.batch.left--; w.batch.left == 0 && w.batch.cancel != nil {
		w.batch.cancel()
	}
	err := call.Ended(w.ctx)
	w.s.noteOutcome(err)
	return wire.FinalizeUploadResult{}, err
}

// next takes the uploads of the next request, at most so many. The caller holds mu.
func (q *sealedQueue) next(most int) []*queued {
	list := make([]*Sealed, min(most, len(q.waiting)))
	for i := range list {
		list[i] = q.waiting[i].s
	}
	n := batchOf(list)
	taken := slices.Clone(q.waiting[:n])
	q.waiting = slices.Delete(q.waiting, 0, n)
	b := &batch{left: n}
	for _, w := range taken {
		w.batch = b
	}
	return taken
}

// run sends one request.
func (q *sealedQueue) run(list []*queued) {
	defer q.leave()
	ctx, cancel := context.WithCancel(context.WithoutCancel(list[0].ctx))
	defer cancel()
	q.mu.Lock()
	list[0].batch.cancel = cancel
	if list[0].batch.left == 0 { // all callers left before it began
		cancel()
	}
	q.mu.Unlock()
	begun := time.Now()
	var err error
	if len(list) == 1 {
		err = q.put(q.patient(ctx, list), list[0].s, &list[0].answer)
		list[0].err = err
	} else {
		err = q.sendBatch(q.patient(ctx, list), list) // each has its own error, too
	}
	took := time.Since(begun)
	q.ended(len(list), took, err)
	q.mu.Lock()
	for _, w := range list {
		close(w.done)
	}
	slow := q.slow
	q.mu.Unlock()
	if len(list) > 1 && !slow {
		q.gather(len(list), min(took/gatherPart, gatherMost))
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
// and those that wait for their turn, see [network.WithPatience].
func (q *sealedQueue) patient(ctx context.Context, moving []*queued) context.Context {
	return network.OnMove(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		for _, list := range [][]*queued{moving, q.waiting} {
			for _, w := range list {
				network.Moved(w.ctx)
			}
		}
	})
}
