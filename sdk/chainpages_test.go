package sdk_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A chain of any length is one request, and every record is there, proven. After a lost connection the
// list goes on behind the last record that came.
func TestChainsInOneRequest(t *testing.T) {
	t.Parallel()
	const files = wire.MaxPageRows + 7
	s, c := world(t, testkit.Ours, func(cfg *sdk.Config) { cfg.Timeout = time.Minute })
	var names []string
	for i := range files {
		names = append(names, fmt.Sprint("file ", i))
	}
	s.AddRecords(testkit.Account{ID: c.Account()}, "g", names)
	const list = wire.PathTools + wire.OpGetGroupTransactions
	before, cut := s.Hits(list), 0
	s.Disturb(list, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			answer := httptest.NewRecorder()
			next.ServeHTTP(answer, r)
			raw := answer.Body.Bytes()
			if cut > 0 {
				cut--
				_, _ = w.Write(raw[:len(raw)/2])
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(raw)
		})
	})
	for _, cuts := range []int{0, 6} { // more than a request is repeated without success
		cut = cuts
		entries, err := c.Group("g").Entries(t.Context())
		if err != nil || len(entries) != files {
			t.Fatalf("%d files, %v", len(entries), err)
		}
		for i, e := range entries {
			if e.Name != fmt.Sprint("file ", i) || i > 0 && e.Number != entries[i-1].Number+1 {
				t.Fatalf("entry %d is %s, number %d", i, e.Name, e.Number)
			}
		}
		if n := s.Hits(list) - before; n != cuts+1 {
			t.Errorf("%d requests after %d lost connections", n, cuts)
		}
		before = s.Hits(list)
	}
}
