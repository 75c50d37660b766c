package sdk_test

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/network"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// slowly sends spaces before the answer, in pieces, as a long list over a slow line
// would come.
func slowly(pieces int, pause time.Duration) func(next http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			w.WriteHeader(answer.Code)
			for range pieces {
				_, _ = w.Write([]byte(strings.Repeat(" ", 1<<10)))
				if f, ok := w.(http.Flusher); ok {
					f.Flush()
				}
				select {
				case <-time.After(pause):
				case <-r.Context().Done():
					return
				}
			}
			_, _ = w.Write(answer.Body.Bytes())
		})
	}
}

// A list may take longer than the time limit while it moves, and no longer than
// that once it stands still.
func TestListsTakeAsLongAsTheyMove(t *testing.T) {
	t.Parallel()
	for _, flavour := range []testkit.Dialect{testkit.Hosted, testkit.Keyless} {
		t.Run(flavour.String(), func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, flavour)
			alice := s.Client(t, s.Account("alice", "10"), func(c *sdk.Config) { c.Timeout = 2 * time.Second })
			if _, err := alice.Group("g").Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := alice.Group("g").Put(t.Context(), "f", bytes.NewReader([]byte("content"))); err != nil {
				t.Fatal(err)
			}
			path := wire.PathTools + wire.OpGetGroupTransactions
			s.Disturb(path, slowly(24, 100*time.Millisecond))
			if list, err := alice.Group("g").Entries(t.Context()); err != nil || len(list) != 1 {
				t.Errorf("a list that moves: %v, %v", list, err)
			}
			patient, cancel := network.WithPatience(t.Context(), 2*time.Second)
			defer cancel()
			if list, err := alice.Group("g").Entries(patient); err != nil || len(list) != 1 {
				t.Errorf("within a patience of two seconds: %v, %v", list, err)
			}
			s.Disturb(path, slowly(2, time.Hour))
			_, err := alice.Group("g").Entries(t.Context())
			if sdk.KindOf(err) != sdk.ErrTimeout {
				t.Errorf("a list that stands still: %v", err)
			}
			impatient, cancel := network.WithPatience(t.Context(), 100*time.Millisecond)
			defer cancel()
			if _, err = alice.Group("g").Entries(impatient); sdk.KindOf(err) != sdk.ErrTimeout {
				t.Errorf("without patience: %v", err)
			}
			gone, cancel := context.WithCancel(t.Context())
			cancel()
			patient, cancel = network.WithPatience(gone, time.Hour)
			defer cancel()
			if _, err = alice.Group("g").Entries(patient); sdk.KindOf(err) != sdk.ErrCanceled {
				t.Errorf("given up: %v", err)
			}
		})
	}
}

// A network that wants a sign-in answers with its page in the place of the service: that is no answer. What
// is under way waits for the service, and nothing is sent or paid twice.
func TestPagesAreNoAnswers(t *testing.T) {
	t.Parallel()
	page := func(times int64) func(http.Handler) http.Handler {
		var left atomic.Int64 // requests come at the same time
		left.Store(times)
		return func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				n := left.Add(-1)
				if n < 0 {
					next.ServeHTTP(w, r)
					return
				}
				switch n % 3 {
				case 2:
					w.Header().Set("Content-Type", "text/html")
					w.WriteHeader(http.StatusForbidden)
				case 0:
					w.Header().Set("Content-Type", "Text/HTML; charset=utf-8")
					_, _ = w.Write([]byte("<html>Welcome on board</html>"))
				default:
					w.Header().Set("Location", "http://portal.example/welcome")
					w.WriteHeader(http.StatusFound)
				}
			})
		}
	}
	one := func(c *sdk.Config) { c.Patience = time.Minute }
	s, g := chunkWorld(t, one)
	content := noise(5 << 20)
	paths := []string{wire.PathSealed + "*", wire.PathTools + wire.OpGetGroupSettings, wire.PathParts + "*",
		wire.PathTools + wire.OpPrepareRetrieve, wire.PathBlocks + "*", wire.PathTools + wire.OpGetGroupTransactions}
	for _, path := range paths {
		s.Disturb(path, page(1))
	}
	s.Disturb(wire.PathParts+"*", page(5)) // more than the tries without patience
	if _, err := g.Put(t.Context(), "f", bytes.NewReader(content)); err != nil || s.Records() != 1 {
		t.Fatalf("%d records, %v", s.Records(), err)
	}
	b := openBlocks(t, g, newest(t, g, "f"))
	if got := contentOf(t, b); !bytes.Equal(got, content) {
		t.Error("other content comes back")
	}
	hasty := s.Client(t, s.Account("bob", "1")).Group("h")
	for _, path := range paths {
		s.Disturb(path, page(1<<30))
	}
	for what, try := range map[string]func() error{
		"put":  func() error { _, err := hasty.Put(t.Context(), "f", bytes.NewReader(content[:10])); return err },
		"list": func() error { _, err := hasty.Entries(t.Context()); return err },
	} {
		if err := try(); sdk.KindOf(err) != sdk.ErrUnavailable || codeOf(err) != wire.CodeSignIn {
			t.Errorf("%s: %v", what, err)
		}
	}
	s.Disturb(wire.PathCapabilities, page(1<<30)) // as a service that has a page for every path it lacks
	if caps, err := s.Client(t, s.Account("carol", "1")).Capabilities(t.Context()); err != nil || caps.Dialect.IsOurs() {
		t.Errorf("capabilities %v, %v", caps, err)
	}
}
