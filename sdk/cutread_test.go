package sdk_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A whole file that is retrieved over a line with cuts goes on where the last connection ended, however often that
// is, where the service takes ranges; where it does not, or where the bytes changed, it begins anew.
func TestRetrievalGoesOnAfterCuts(t *testing.T) {
	t.Parallel()
	const size, piece = 400_000, 64_000
	for name, tc := range map[string]struct {
		ranges  bool // the service takes them
		changes bool // its name of the bytes does
		want    int  // bytes that are sent, at most; 0 = it fails
	}{
		"ranges": {true, false, size + 1000}, "no ranges": {false, false, 0}, "other bytes each time": {true, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testkit.Start(t, testkit.Ours)
			alice := s.Client(t, s.Account("alice", "10"))
			g := alice.Group("g")
			if _, err := g.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			content := noise(size)
			if _, err := g.Put(t.Context(), "f", bytes.NewReader(content)); err != nil {
				t.Fatal(err)
			}
			var sent, times atomic.Int64
			s.Disturb(wire.PathReadBlob+"*", func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					whole := httptest.NewRecorder()
					ask := r.Clone(r.Context())
					ask.Header.Del("Range")
					next.ServeHTTP(whole, ask)
					if !tc.ranges {
						r.Header.Del("Range")
					}
					n := times.Add(1)
					tag := `"one"`
					if tc.changes && n%2 == 0 {
						tag = `"other"`
					}
					w.Header().Set("ETag", tag)
					http.ServeContent(&cutAnswer{w, piece, &sent}, r, "", time.Time{}, bytes.NewReader(whole.Body.Bytes()))
				})
			})
			e, err := g.Stat(t.Context(), "f")
			if err != nil {
				t.Fatal(err)
			}
			b := buffer(t, 0)
			_, err = g.Retrieve(t.Context(), e, b)
			if (err == nil) != (tc.want > 0) || err == nil && (!bytes.Equal(b.Bytes(), content) || int(sent.Load()) > tc.want) || err != nil && sdk.KindOf(err) != sdk.ErrUnavailable {
				t.Errorf("%d bytes after %d sent, %v", b.Len(), sent.Load(), err)
			}
		})
	}
}

// cutAnswer is an answer whose connection ends after some bytes.
type cutAnswer struct {
	http.ResponseWriter
	left int
	sent *atomic.Int64
}

func (w *cutAnswer) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p[:min(len(p), w.left)])
	w.sent.Add(int64(n))
	if w.left -= n; w.left == 0 {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
		panic(http.ErrAbortHandler)
	}
	return n, err
}
