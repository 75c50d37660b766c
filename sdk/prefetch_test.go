package sdk_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Small files that are saved one after another use tickets that were
// prefetched. Where the service has forgotten one, the upload begins once more.
func TestTicketsArePrefetched(t *testing.T) {
	for _, forgets := range []bool{false, true} {
		s, c := world(t, sdktest.Extended)
		if _, err := c.Group("small").Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		var refused atomic.Int64
		if forgets {
			s.Disturb(wire.PathTools+wire.OpFinalizeUpload, func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if s.Records() == 4 && refused.Add(1) == 1 { // on the way to the fifth
						answer(http.StatusNotFound, wire.Error{Error: "upload not found or expired", Code: wire.CodeUploadUnknown})(w, r)
						return
					}
					next.ServeHTTP(w, r)
				})
			})
		}
		const files = 6
		for i := range files {
			name := fmt.Sprint("file-", i)
			r, err := c.Group("small").Put(t.Context(), name, bytes.NewReader([]byte(name)))
			if err != nil || r.Hash != sdk.ComputeHash([]byte(name)) {
				t.Fatalf("%s: %+v, %v", name, r, err)
			}
			if data, _, err := sdktest.Read(t.Context(), c.Group("small"), name); err != nil || string(data) != name {
				t.Errorf("%s is %q, %v", name, data, err)
			}
		}
		if forgets && refused.Load() == 0 {
			t.Error("no ticket was refused")
		}
		prepared, finalized := s.Hits(wire.PathTools+wire.OpPrepareUpload), s.Hits(wire.PathTools+wire.OpFinalizeUpload)
		extra := finalized - files
		if prepared < files+extra || prepared > files+extra+1 || forgets != (extra == 1) {
			t.Errorf("%d tickets and %d finalizes for %d files", prepared, finalized, files)
		}
	}
}

// Closing a client ends the request for a ticket that nobody will take.
func TestCloseEndsPrefetches(t *testing.T) {
	s := sdktest.NewServer(t, sdktest.Extended)
	c := s.Client(t, s.Account("alice", "100"), func(cfg *sdk.Config) { cfg.Timeout = time.Minute })
	if _, err := c.Group("small").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	asked, ended := make(chan struct{}), make(chan struct{})
	s.Disturb(wire.PathTools+wire.OpPrepareUpload, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			if r.Body = io.NopCloser(bytes.NewReader(raw)); bytes.Contains(raw, []byte("file-")) {
				next.ServeHTTP(w, r)
				return
			}
			close(asked)
			<-r.Context().Done()
			close(ended)
		})
	})
	for _, name := range []string{"file-1", "file-2"} {
		if _, err := c.Group("small").Put(t.Context(), name, bytes.NewReader([]byte(name))); err != nil {
			t.Fatal(err)
		}
	}
	<-asked
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(30 * time.Second): // it would last a minute
		t.Error("the request for a ticket is still under way")
	}
}
