package sdk_test

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/svcfs/svcfs/integration/proctest"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/mem"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// gone is a transport through which the service cannot be reached for some requests.
type gone struct {
	http.RoundTripper
	mu    sync.Mutex
	path  string        // of the requests; "" = all
	left  int           // requests that fail still; negative = all
	op    string        // "dial" or "read"
	lasts time.Duration // of a request that fails
	cause error
	tries int
}

func (g *gone) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	fails := g.left != 0 && strings.HasPrefix(r.URL.Path, g.path)
	if fails {
		g.left--
		g.tries++
	}
	g.mu.Unlock()
	if !fails {
		return g.RoundTripper.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	time.Sleep(g.lasts)
	return nil, &net.OpError{Op: g.op, Net: "tcp", Err: g.cause}
}

func (g *gone) fail(path, op string, cause error, times int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.path, g.op, g.cause, g.left, g.tries = path, op, cause, times, 0
}

func (g *gone) tried() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.tries
}

// gapClient has one uploaded file "f" in the group "g".
func gapClient(t *testing.T, flavour testkit.Dialect, patience time.Duration) (sdk.Group, *gone) {
	t.Helper()
	s, away := testkit.Start(t, flavour), &gone{RoundTripper: http.DefaultTransport}
	alice := s.Client(t, s.Account("alice", "10"), func(c *sdk.Config) { c.Transport, c.Patience = away, patience })
	g := alice.Group("g")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), g, "f"); err != nil {
		t.Fatal(err)
	}
	return g, away
}

func put(ctx context.Context, g sdk.Group, name string) error {
	_, err := g.Put(ctx, name, bytes.NewReader([]byte("content of "+name)))
	return err
}

func get(ctx context.Context, g sdk.Group) error {
	list, err := g.Entries(ctx)
	if err != nil {
		return err
	}
	pool := mem.NewPool()
	b, err := pool.Get(0)
	if err != nil {
		return err
	}
	defer b.Release()
	_, err = g.Retrieve(ctx, list[0], b)
	return err
}

// more tries than there are without patience
const manyTries = 5

// What was not sent is sent once the service takes connections again; what was lost on
// the way only where that is free.
func TestPatienceBridgesAGap(t *testing.T) {
	t.Parallel()
	uploads := map[testkit.Dialect]string{testkit.Hosted: wire.PathTools + wire.OpPrepareUpload, testkit.Keyless: wire.PathTools + wire.OpPrepareUpload, testkit.Ours: wire.PathSealed}
	for flavour, upload := range uploads {
		for _, op := range []string{"dial", "read"} {
			t.Run(flavour.String()+" "+op, func(t *testing.T) {
				t.Parallel()
				g, away := gapClient(t, flavour, time.Hour)
				cause := map[string]error{"dial": syscall.ECONNREFUSED, "read": syscall.ECONNRESET}[op]
				away.fail(wire.PathTools+wire.OpPrepareRetrieve, op, cause, manyTries)
				if err := get(t.Context(), g); err != nil {
					t.Errorf("retrieving: %v", err)
				}
				away.fail(upload, op, cause, manyTries)
				if err := put(t.Context(), g, "new"); err != nil || away.tried() != manyTries {
					t.Errorf("uploading, %d tries: %v", away.tried(), err)
				}
			})
		}
	}
}

// What may have been charged is not sent again by itself.
func TestPatiencePaysOnce(t *testing.T) {
	t.Parallel()
	g, away := gapClient(t, testkit.Hosted, time.Hour)
	away.fail(wire.PathTools+wire.OpFinalizeUpload, "read", syscall.ECONNRESET, manyTries)
	if err := put(t.Context(), g, "new"); sdk.KindOf(err) != sdk.ErrUnavailable || away.tried() != 1 {
		t.Errorf("a finalize that may have arrived: %v after %d tries", err, away.tried())
	}
	// The next upload looks in the list for the first. The hosted service charges for it.
	away.fail(wire.PathTools+wire.OpGetGroupTransactions, "read", syscall.ECONNRESET, manyTries)
	if err := put(t.Context(), g, "new"); sdk.KindOf(err) != sdk.ErrUnavailable || away.tried() >= manyTries {
		t.Errorf("a list that may have been charged: %v after %d tries", err, away.tried())
	}
	away.fail(wire.PathTools+wire.OpGetGroupTransactions, "dial", syscall.ECONNREFUSED, manyTries)
	if err := put(t.Context(), g, "new"); err != nil {
		t.Errorf("a list that was not asked for: %v", err)
	}
}

// A service that answers and breaks off every answer is not waited for without end.
func TestPatienceEndsWithAServiceThatBreaksOff(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	alice := s.Client(t, s.Account("alice", "10"), func(c *sdk.Config) { c.Patience = time.Second })
	g := alice.Group("g")
	if _, err := g.Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := put(t.Context(), g, "f"); err != nil {
		t.Fatal(err)
	}
	s.Answer(wire.PathTools+wire.OpPrepareRetrieve, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("{"))
	})
	if err := get(t.Context(), g); sdk.KindOf(err) != sdk.ErrUnavailable {
		t.Errorf("breaking off: %v", err)
	}
}

func TestPatienceEnds(t *testing.T) {
	t.Parallel()
	g, away := gapClient(t, testkit.Ours, time.Millisecond)
	away.fail("", "dial", syscall.ECONNREFUSED, -1)
	if err := get(t.Context(), g); sdk.KindOf(err) != sdk.ErrUnavailable {
		t.Errorf("after the patience: %v", err)
	}

	g, away = gapClient(t, testkit.Ours, time.Hour)
	away.fail("", "dial", syscall.ECONNREFUSED, -1)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- put(ctx, g, "new") }()
	proctest.Eventually(t, "the upload is tried", func() bool { return away.tried() > 0 })
	interrupt()
	if err := <-ended; sdk.KindOf(err) != sdk.ErrCanceled {
		t.Errorf("interrupted: %v", err)
	}
	if _, err := g.Members(t.Context()); sdk.KindOf(err) != sdk.ErrUnavailable {
		t.Errorf("a listing: %v", err)
	}
}

// The client tells a gap that it waits through from one that is too long.
func TestConnection(t *testing.T) {
	t.Parallel()
	for patience, want := range map[time.Duration]network.Connection{time.Hour: network.Reconnecting, time.Millisecond: network.Disconnected, 0: network.Disconnected} {
		t.Run(patience.String(), func(t *testing.T) {
			t.Parallel()
			s, away := testkit.Start(t, testkit.Ours), &gone{RoundTripper: http.DefaultTransport}
			alice := s.Client(t, s.Account("alice", "10"), func(c *sdk.Config) { c.Transport, c.Patience = away, patience })
			for range 2 {
				if _, err := alice.OwnedGroups(t.Context()); err != nil || alice.Connection() != network.Connected {
					t.Errorf("%v, %v", alice.Connection(), err)
				}
				away.fail("", "dial", syscall.ECONNREFUSED, -1)
				if _, err := alice.OwnedGroups(t.Context()); err == nil {
					t.Error("it is reached")
				}
				proctest.Eventually(t, "the gap is known", func() bool { return alice.Connection() == want })
				away.fail("", "", nil, 0)
			}
		})
	}
}

// A listing does not wait for an upload that asks the service for its dialect.
func TestPatienceIsNotShared(t *testing.T) {
	t.Parallel()
	s, away := testkit.Start(t, testkit.Ours), &gone{RoundTripper: http.DefaultTransport}
	alice := s.Client(t, s.Account("alice", "10"), func(c *sdk.Config) { c.Transport, c.Patience = away, time.Hour })
	away.fail(wire.PathCapabilities, "dial", syscall.ECONNREFUSED, -1)
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- put(ctx, alice.Group("g"), "new") }()
	proctest.Eventually(t, "the upload is tried often", func() bool { return away.tried() >= manyTries })
	listing, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := alice.Group("g").Entries(listing); sdk.KindOf(err) != sdk.ErrUnavailable {
		t.Errorf("a listing: %v", err)
	}
	before := away.tried()
	proctest.Eventually(t, "the upload still waits", func() bool { return away.tried() > before })
	interrupt()
	if err := <-ended; sdk.KindOf(err) != sdk.ErrCanceled {
		t.Errorf("interrupted: %v", err)
	}
	_, _ = alice.Capabilities(t.Context()) // ends with the question that the upload shared
}

// Where each attempt takes long, as when packets are dropped, the end of the patience is
// the end.
func TestPatienceEndsOnce(t *testing.T) {
	t.Parallel()
	g, away := gapClient(t, testkit.Ours, 500*time.Millisecond)
	away.lasts = 300 * time.Millisecond
	away.fail(wire.PathTools+wire.OpPrepareRetrieve, "dial", syscall.ETIMEDOUT, -1)
	if err := get(t.Context(), g); err == nil || away.tried() > 3 {
		t.Errorf("%v after %d tries", err, away.tried())
	}
}
