package call

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/svcfs/svcfs/sdk/network"
)

const limitURL = "http://127.0.0.1/"

// wireOf is a transport that is as fast as it can be. It reads bodies, and answers with as many bytes as the
// query of the address says.
type wireOf struct {
	answer int64
	length bool // the answer says how long it is
}

func (w wireOf) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		if err := drain(req.Body); err != nil {
			return nil, err
		}
	}
	resp := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, ContentLength: -1, Request: req,
		Body: io.NopCloser(zeros(w.answer))}
	if w.length {
		resp.ContentLength = w.answer
	}
	return resp, nil
}

// drain reads as the transport of net/http does.
func drain(r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, r, make([]byte, 32<<10))
	return err
}

// zeros returns a reader of n bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func limitedCaller(l network.Limit, w wireOf) *Caller {
	c := New(Config{Timeout: DefaultTimeout, Transport: w, ReadError: func(*http.Response, []byte) *Refusal {
		return &Refusal{}
	}})
	c.SetLimit(l)
	return c
}

// sendBytes uploads n bytes, and returns how long that took.
func (c *Caller) sendBytes(ctx context.Context, n int64) (time.Duration, error) {
	began := time.Now()
	err := c.Do(ctx, Call{Kind: Once, Method: http.MethodPut, URL: limitURL,
		Body: &Body{Length: n, Open: func() io.Reader { return zeros(n) }}})
	return time.Since(began), err
}

// fetchBytes downloads what the transport answers, and returns how long that took.
func (c *Caller) fetchBytes(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	err := c.Do(ctx, Call{Kind: Once, Method: http.MethodGet, URL: limitURL, Long: true,
		Answer: func(resp *http.Response) error { return drain(resp.Body) }})
	return time.Since(began), err
}

// wantTook fails unless a transfer took a time, within 5 %.
func wantTook(t *testing.T, got, want time.Duration, err error) {
	t.Helper()
	if err != nil || got < want*95/100 || got > want*105/100 {
		t.Errorf("took %s (%v), want %s", got, err, want)
	}
}

// E9: a limit holds within 5 %, in each direction by itself, whatever travels at the same time.
func TestE9LimitHolds(t *testing.T) {
	for _, limit := range []int64{network.LeastLimit, 500 << 10, 16 << 20} {
		for _, together := range []int64{1, 7} {
			total := 20 * limit
			synctest.Test(t, func(t *testing.T) {
				c := limitedCaller(network.Limit{Up: limit}, wireOf{})
				var all sync.WaitGroup
				began := time.Now()
				for range together {
					all.Go(func() {
						if _, err := c.sendBytes(t.Context(), total/together); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				wantTook(t, time.Since(began), 20*time.Second, nil)
			})
			synctest.Test(t, func(t *testing.T) {
				c := limitedCaller(network.Limit{Down: limit}, wireOf{answer: total / together, length: together > 1})
				var all sync.WaitGroup
				began := time.Now()
				for range together {
					all.Go(func() {
						if _, err := c.fetchBytes(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				all.Wait()
				wantTook(t, time.Since(began), 20*time.Second, nil)
				took, err := c.sendBytes(t.Context(), total)
				if took != 0 || err != nil {
					t.Errorf("the other direction took %s (%v)", took, err)
				}
			})
		}
	}
}

// E9: also files of a few bytes, whose heads are larger, are no faster together.
func TestE9LimitCountsHeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := limitedCaller(network.Limit{Up: 64 << 10}, wireOf{})
		head := http.Header{"Authorization": {strings.Repeat("x", 2000)}}
		began, sent := time.Now(), 0
		for time.Since(began) < 20*time.Second {
			if err := c.Do(t.Context(), Call{Kind: Once, URL: limitURL, Header: head,
				Body: &Body{Length: 100, Open: func() io.Reader { return zeros(100) }}}); err != nil {
				t.Fatal(err)
			}
			sent += 100 + 2000
		}
		if each := sent / 20; each > 64<<10*105/100 || each < 64<<10*90/100 {
			t.Errorf("%d bytes a second", each)
		}
	})
}

// E9: a small save, and a small read, go before what large ones have left; these go on all the same.
func TestE9SmallBodiesGoFirst(t *testing.T) {
	const limit, small = 1 << 20, 64 << 10
	synctest.Test(t, func(t *testing.T) {
		c := limitedCaller(network.Limit{Down: limit, Up: limit}, wireOf{answer: small, length: true})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { _, _ = c.sendBytes(ctx, 1<<30) })
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		took, err := c.sendBytes(ctx, small)
		const alone = time.Second * small / limit
		if err != nil || took > alone*(burstPieces+1)/burstPieces+limitBurst/burstPieces {
			t.Errorf("a small save beside large ones took %s (%v), alone it takes %s", took, err, alone)
		}
		for range 20 { // without end
			all.Go(func() {
				for ctx.Err() == nil {
					_, _ = c.sendBytes(ctx, small)
				}
			})
		}
		time.Sleep(time.Second)
		before := c.traffic.total()
		took, err = c.sendBytes(ctx, smallBody+1)
		const round = smallTurns*32<<10 + limit/20/burstPieces // what travels until a piece of a large body does
		if all := 9 * time.Second * smallBody / (limit / 20 / burstPieces) * round / limit * 11 / 10; err != nil || took > all {
			t.Errorf("a large save beside eight large and very many small ones took %s (%v)", took, err)
		}
		if moved := c.traffic.total() - before; moved < int64(took.Seconds()*limit*95/100) {
			t.Errorf("%d bytes moved in %s", moved, took)
		}
		cancel()
		all.Wait()
	})
	synctest.Test(t, func(t *testing.T) { // an answer of unknown length is small until it is not
		c := limitedCaller(network.Limit{Down: limit}, wireOf{answer: 64 << 20})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() { _, _ = c.fetchBytes(ctx) })
		}
		time.Sleep(5 * time.Second)
		body := &limited{ReadCloser: io.NopCloser(zeros(small)), ctx: ctx, line: &c.down, content: true, size: small}
		began := time.Now()
		if err := drain(body); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("a small read beside large ones took %s", took)
		}
		cancel()
		all.Wait()
	})
}

// E9: a limit that is changed holds at once, also for what is under way.
func TestE9LimitChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := limitedCaller(network.Limit{Up: network.LeastLimit}, wireOf{})
		done := make(chan time.Duration)
		send := func() {
			took, err := c.sendBytes(t.Context(), 4<<20) // 256 s
			if err != nil {
				t.Error(err)
			}
			done <- took
		}
		change := func(after time.Duration, l network.Limit) {
			time.Sleep(after)
			c.SetLimit(l)
			if got := c.Limit(); got != l {
				t.Errorf("the limit is %v, want %v", got, l)
			}
		}
		go send()
		change(128*time.Second, network.Limit{Up: 1 << 20}) // for 2 MiB
		wantTook(t, <-done, 130*time.Second, nil)
		c.SetLimit(network.Limit{Up: network.LeastLimit})
		go send()
		change(10*time.Second, network.Limit{})
		if took := <-done; took != 10*time.Second {
			t.Errorf("without a limit it took %s", took)
		}
		c.SetLimit(network.Limit{Up: 1 << 20})
		go send()
		change(2*time.Second, network.Limit{Up: 512 << 10})
		wantTook(t, <-done, 6*time.Second, nil)
	})
}

// E9: a question waits for no content: its time would be over. What it took content makes up for.
func TestE9QuestionsDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := limitedCaller(network.Limit{Down: network.LeastLimit, Up: network.LeastLimit}, wireOf{answer: 48 << 10})
		began := time.Now()
		if err := c.Do(t.Context(), Call{Kind: Once, URL: limitURL, Request: strings.Repeat("x", 48<<10)}); err != nil ||
			time.Since(began) != 0 {
			t.Errorf("a question took %s: %v", time.Since(began), err)
		}
		took, err := c.sendBytes(t.Context(), network.LeastLimit)
		wantTook(t, took, 4*time.Second, err)
		took, err = c.fetchBytes(t.Context())
		wantTook(t, took, 6*time.Second, err) // the answer to what was sent is a question's, too
	})
}

// E9: who gives up leaves his place to others.
func TestE9WhoGivesUpLeavesTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := limitedCaller(network.Limit{Up: network.LeastLimit}, wireOf{})
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if _, err := c.sendBytes(ctx, 1<<30); !errors.Is(err, context.Canceled) {
					t.Errorf("ended with %v", err)
				}
			})
		}
		time.Sleep(time.Minute)
		cancel()
		all.Wait()
		took, err := c.sendBytes(t.Context(), 10*network.LeastLimit)
		wantTook(t, took, 10*time.Second, err)
	})
}

func TestLimitsThatAreTooLow(t *testing.T) {
	t.Parallel()
	for l, good := range map[network.Limit]bool{{}: true, {Down: network.LeastLimit}: true, {Up: network.LeastLimit - 1}: false,
		{Down: 1}: false, {Down: -1}: false, {Down: 1 << 40, Up: 1 << 40}: true} {
		if err := l.Check(); (err == nil) != good {
			t.Errorf("%+v: %v", l, err)
		}
	}
}
