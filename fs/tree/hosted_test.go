package tree

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// hosted is a mount of bob's at the stand-in of the hosted network, which does not
// tell of changes by itself, beside alice's client. They share the group team.
func hosted(t *testing.T, s *sdktest.Server, change ...func(*Config)) (*mounted, *sdk.Client) {
	t.Helper()
	alice, bob := s.Client(t, s.Account("alice", "10")), s.Client(t, s.Account("bob", "10"))
	if _, err := alice.RegisterGroup(t.Context(), "team"); err != nil {
		t.Fatal(err)
	}
	if _, err := alice.AddGroupMember(t.Context(), "team", bob.Account()); err != nil {
		t.Fatal(err)
	}
	if _, err := bob.Capabilities(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg := Config{Remote: bob, Pool: bob.Pool(), Watch: bob.Watch, Price: bob.Price, RefreshInterval: time.Hour, EmptyDelay: time.Hour}
	for _, c := range change {
		c(&cfg)
	}
	tree, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tree.Close() })
	return &mounted{Tree: tree, t: t}, alice
}

// A list may take longer than the time limit while it moves (E2).
func TestE2LongListsAreWaitedFor(t *testing.T) {
	s := sdktest.NewServer(t, sdktest.GenB)
	m, alice := hosted(t, s, func(c *Config) { c.MetadataTimeout = time.Second })
	r, err := alice.UploadBytes(t.Context(), "team", "f", []byte("content"))
	if err != nil {
		t.Fatal(err)
	}
	s.Disturb(wire.PathTools+wire.OpGetGroupTransactions, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			for range 15 {
				_, _ = w.Write([]byte(strings.Repeat(" ", 64<<10)))
				_ = http.NewResponseController(w).Flush()
				time.Sleep(100 * time.Millisecond)
			}
			_, _ = w.Write(answer.Body.Bytes())
		})
	})
	if names := m.names("/team"); len(names) != 1 || !strings.HasPrefix(names[0], r.Hash.String()[:12]) {
		t.Errorf("lists %v", names)
	}
}
