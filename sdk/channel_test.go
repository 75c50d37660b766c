package sdk_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// Threat 79: no key of a file that a client reads is in what the service answers, whole or in blocks, also after the
// epoch of the vault ended; and where a service has no channels, keys come as they always did.
func TestThreat79KeysComeSealed(t *testing.T) {
	t.Parallel()
	s := newShelf(t, testkit.Ours)
	forgets := false
	var asked []wire.PrepareRetrieveRequest
	var answers []wire.PrepareRetrieveResult
	s.Disturb(wire.PathTools+wire.OpPrepareRetrieve, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(body))
			var q wire.PrepareRetrieveRequest
			var a struct{ Result wire.PrepareRetrieveResult }
			_ = json.Unmarshal(body, &q)
			if forgets && len(q.Channel.Encapsulated) == 0 { // as another process of the service
				forgets = false
				http.Error(w, `{"error":"no","code":"`+wire.CodeChannel+`"}`, http.StatusConflict)
				return
			}
			kept := httptest.NewRecorder()
			next.ServeHTTP(kept, r)
			_ = json.Unmarshal(kept.Body.Bytes(), &a)
			asked, answers = append(asked, q), append(answers, a.Result)
			w.WriteHeader(kept.Code)
			_, _ = w.Write(kept.Body.Bytes())
		})
	})
	put, err := s.g.Put(t.Context(), "a.txt", strings.NewReader("content"))
	if err != nil {
		t.Fatal(err)
	}
	whole, blocks := s.entry(t, put.Ref), s.add(t, noise(3*small))
	reads := func(c *sdk.Client) {
		t.Helper()
		b := buffers(t, 1)[0]
		if _, err := c.Group("shelf").Retrieve(t.Context(), whole, b); err != nil || string(b.Bytes()) != "content" {
			t.Errorf("%q: %v", b.Bytes(), err)
		}
		f, err := c.Group("shelf").OpenBlocks(t.Context(), blocks)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
	}
	sealed := func(want int) { // one channel whole
		t.Helper()
		given, whole := 0, 0
		for i, a := range answers {
			if asked[i].Channel == nil || a.Key != "" {
				t.Errorf("asked %+v, given %+v", asked[i], a)
			} else if len(asked[i].Channel.Encapsulated) > 0 {
				whole++
			}
			if len(a.SealedKey) == format.ChannelKeyBytes {
				given++
			}
		}
		if given != want || whole != 1 {
			t.Errorf("%d of %d answers have a sealed key, want %d; %d channels came whole", given, len(answers), want,
				whole)
		}
		asked, answers = nil, nil
	}
	reads(s.c)
	sealed(2)
	forgets = true
	reads(s.c)
	sealed(2)
	s.NextEpoch(true)
	balance, err := s.c.Balance(t.Context(), s.alice.ID)
	if err != nil {
		t.Fatal(err)
	}
	reads(s.c) // asks once with the channel of the epoch that ended
	sealed(2)
	after, err := s.c.Balance(t.Context(), s.alice.ID)
	if spent, ok := balance.Sub(after); err != nil || !ok || spent.Tokens() != "0.026" {
		t.Errorf("%s for two files: %v", spent.Tokens(), err)
	}
	s.Disturb(wire.PathCapabilities, func(next http.Handler) http.Handler {
		return testkit.Changed(next, func(c *wire.Capabilities) { c.Vault.Channels = false })
	})
	reads(s.Client(t, s.alice))
	for i, a := range answers {
		if asked[i].Channel != nil || a.Key == "" || a.SealedKey != nil {
			t.Errorf("asked %+v, given %+v", asked[i], a)
		}
	}
}
