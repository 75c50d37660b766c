package call

import (
	"context"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/network"
	"golang.org/x/time/rate"
)

const (
	// limitBurst is for how long a line that was idle may be as fast as it can be.
	limitBurst = 50 * time.Millisecond
	// burstPieces is in how many pieces at least large bodies take a burst. Small ones take a whole one: between two
	// of its bursts one piece of a large body may go, because a body waits for its next piece only once it was read.
	burstPieces = 4
	// smallBody is the largest body that goes before parts of larger ones, in bytes: a block of a large file fits.
	smallBody = 512 << 10
	// smallTurns is how many pieces of small bodies go before one of a large body that waits.
	smallTurns = 4
	// maxOwed is for how long content may wait for what went out of turn.
	maxOwed = 5 * time.Second
)

// SetLimit changes the limit, also for what is under way. It must have passed [network.Limit.Check].
func (c *Caller) SetLimit(l network.Limit) {
	c.down.set(l.Down)
	c.up.set(l.Up)
}

// Limit returns the limit.
func (c *Caller) Limit() network.Limit { return network.Limit{Down: c.down.limit(), Up: c.up.limit()} }

// line gives turns to the bytes of one direction. One body at a time waits for its bytes; small bodies are next
// before large ones. The zero value has no limit.
type line struct {
	mu           sync.Mutex
	bytes        int64         // a second; 0 = no limit
	tokens       *rate.Limiter // nil = no limit
	changed      chan struct{} // closed when the limit changes; nil = no limit
	busy         bool          // somebody has the turn
	small, large []chan struct{}
	passed       int // turns of small bodies since the last one of a large body
}

// set changes the limit, in bytes a second; 0 = none.
func (l *line) set(bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bytes == bytes {
		return
	}
	if l.changed != nil {
		close(l.changed)
	}
	l.bytes, l.tokens, l.changed = bytes, nil, nil
	if bytes > 0 {
		burst := int(float64(bytes) * limitBurst.Seconds())
		l.tokens, l.changed = rate.NewLimiter(rate.Limit(bytes), burst), make(chan struct{})
	}
}

func (l *line) limit() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// now returns the tokens, nil without a limit, and what is closed when these count no more.
func (l *line) now() (*rate.Limiter, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tokens, l.changed
}

// piece returns how many of n bytes may be taken at once.
func (l *line) piece(n int, isLarge bool) int {
	tokens, _ := l.now()
	switch {
	case tokens == nil:
		return n
	case isLarge:
		return min(n, tokens.Burst()/burstPieces)
	}
	return min(n, tokens.Burst())
}

// count takes n bytes at once. Content waits for it.
func (l *line) count(n int) {
	tokens, _ := l.now()
	if tokens == nil {
		return
	}
	now := time.Now()
	for n > 0 && tokens.TokensAt(now) > -float64(tokens.Limit())*maxOwed.Seconds() {
		piece := min(n, tokens.Burst())
		tokens.ReserveN(now, piece)
		n -= piece
	}
}

// take waits until n bytes may travel, which are one piece.
func (l *line) take(ctx context.Context, n int, isLarge bool) error {
	if tokens, _ := l.now(); tokens == nil || n == 0 {
		return nil
	}
	if err := l.turn(ctx, isLarge); err != nil {
		return err
	}
	defer l.pass()
	for {
		tokens, changed := l.now()
		if tokens == nil {
			return nil
		}
		now := time.Now()
		taken := tokens.ReserveN(now, min(n, tokens.Burst()))
		select {
		case <-time.After(taken.DelayFrom(now)):
			return nil
		case <-changed:
		case <-ctx.Done():
			taken.Cancel()
			return Ended(ctx)
		}
	}
}

// turn waits for the turn.
func (l *line) turn(ctx context.Context, isLarge bool) error {
	queue := &l.small
	if isLarge {
		queue = &l.large
	}
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	*queue = append(*queue, mine)
	l.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	at := slices.Index(*queue, mine)
	if at >= 0 {
		*queue = slices.Delete(*queue, at, at+1)
	}
	l.mu.Unlock()
	if at < 0 { // it came just now
		l.pass()
	}
	return Ended(ctx)
}

// pass gives the turn to who is next.
func (l *line) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	queue := &l.small
	l.passed++
	if len(l.small) == 0 || len(l.large) > 0 && l.passed > smallTurns {
		queue, l.passed = &l.large, 0
	}
	if len(*queue) == 0 {
		l.busy = false
		return
	}
	close((*queue)[0])
	*queue = (*queue)[1:]
}

// limited is a body that is read no faster than a line lets it. Of what is no content the bytes only count: a
// question must not wait behind content until its time is over.
type limited struct {
	io.ReadCloser
	ctx     context.Context
	line    *line
	content bool
	size    int64 // in bytes; -1 = nobody knows
	read    int64
}

// Read implements [io.Reader].
func (b *limited) Read(p []byte) (int, error) {
	isLarge := max(b.size, b.read) > smallBody
	if b.content {
		p = p[:b.line.piece(len(p), isLarge)]
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if !b.content {
		b.line.count(n)
		return n, err
	}
	if ended := b.line.take(b.ctx, n, isLarge); ended != nil {
		return 0, ended
	}
	return n, err
}

// limitRequest makes a request count, and its body travel as fast as it may if it is content.
func (c *Caller) limitRequest(req *http.Request, content bool) {
	c.up.count(len(req.Method) + len(req.URL.RequestURI()) + headBytes(req.Header))
	if req.Body == nil {
		return
	}
	wrap := func(body io.ReadCloser) io.ReadCloser {
		return &limited{ReadCloser: body, ctx: req.Context(), line: &c.up, content: content, size: req.ContentLength}
	}
	open := req.GetBody
	req.Body = wrap(req.Body)
	req.GetBody = func() (io.ReadCloser, error) {
		body, err := open()
		return wrap(body), err
	}
}

// limitAnswer is limitRequest for the body of an answer.
func (c *Caller) limitAnswer(ctx context.Context, resp *http.Response, content bool) io.ReadCloser {
	c.down.count(headBytes(resp.Header))
	return &limited{ReadCloser: resp.Body, ctx: ctx, line: &c.down, content: content, size: resp.ContentLength}
}

// lineBytes is what a line of a head takes beside its words, in bytes.
const lineBytes = len(": \r\n")

// headBytes is about how many bytes a head takes.
func headBytes(h http.Header) int {
	n := len("HTTP/1.1 200 OK\r\n\r\n")
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(value) + lineBytes
		}
	}
	return n
}
