package sdk_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/testkit"
)

// A service whose ledger proves nothing vouches for no key: its clients upload as before.
func TestThreat51NothingIsSealedWithoutALog(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, testkit.Ours)
	s.Disturb(wire.PathCapabilities, func(next http.Handler) http.Handler {
		return testkit.Changed(next, func(caps *wire.Capabilities) { caps.Dialect = wire.Hosted })
	})
	c := s.Client(t, s.Account("alice", "100"))
	if _, err := c.Group("g").Register(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := putNamed(t, c, "f"); err != nil || s.Hits(wire.PathTools+wire.OpFinalizeUpload) != 1 {
		t.Errorf("%v", err)
	}
	if _, err := c.Group("g").Seal(t.Context(), "f", nil, nil); !errors.Is(err, sdk.ErrUnsupported) {
		t.Errorf("seal: %v", err)
	}
}

// batchAnswer is the answer to finalize_uploads.
type batchAnswer struct {
	Result wire.FinalizeUploadsResult `json:"result"`
}

// A batch whose answers lie fails each close, and the next ones find what was recorded.
func TestThreat13LiesToClosesThatWait(t *testing.T) {
	t.Parallel()
	s, c := world(t, testkit.Ours)
	sdk.SlowLine(c, false)
	h := hold(s, 1)
	var all sync.WaitGroup
	var mu sync.Mutex
	failed := 0
	begin := func(name string) {
		all.Go(func() {
			if err := putNamed(t, c, name); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed++
				if !errors.Is(err, sdk.ErrCorrupt) {
					t.Error(err)
				}
			}
		})
	}
	begin("first")
	<-h.began
	for i := range 3 {
		begin(fmt.Sprint(i))
		wait(t, c, i+1)
	}
	s.Disturb(wire.PathTools+wire.OpFinalizeUploads, func(next http.Handler) http.Handler {
		return testkit.Changed(next, func(a *batchAnswer) { a.Result.Uploads = a.Result.Uploads[1:] })
	})
	close(h.let)
	all.Wait()
	s.Disturb(wire.PathTools+wire.OpFinalizeUploads, nil)
	for i := range 3 {
		if err := putNamed(t, c, fmt.Sprint(i)); err != nil {
			t.Error(err)
		}
	}
	if failed != 3 || s.Records() != 4 || sdk.Unsure(c) != 0 {
		t.Errorf("%d closes failed, %d records, %d are not sure", failed, s.Records(), sdk.Unsure(c))
	}
}

// Refusals that are lies end the call with their reason, and keep nothing from being saved later.
func TestThreat13FalseRefusals(t *testing.T) {
	t.Parallel()
	for code, tc := range map[string]struct {
		kind  sdk.Kind
		tries int
	}{
		wire.CodeSpent: {sdk.ErrConflict, 1}, wire.CodeHead: {sdk.ErrCorrupt, 1}, wire.CodeEpoch: {sdk.ErrConflict, 2}, wire.CodeInsufficient: {sdk.ErrInsufficient, 1},
	} {
		s, c := world(t, testkit.Ours)
		tries := 0
		s.DisturbUploads(func(http.Handler) http.Handler {
			tries++
			return answer(409, wire.Error{Error: "no", Code: code})
		})
		if err := putNamed(t, c, "f"); sdk.KindOf(err) != tc.kind || tries != tc.tries || sdk.Unsure(c) != 0 {
			t.Errorf("%s: %v after %d tries, %d are kept", code, err, tries, sdk.Unsure(c))
		}
		s.DisturbUploads(nil)
		if err := putNamed(t, c, "f"); err != nil || s.Records() != 1 {
			t.Errorf("%s, later: %d records, %v", code, s.Records(), err)
		}
	}
}

// A service that records another version than the one that an upload says it was made from, or none, is found out: a
// merge upon a wrong one would lose changes.
func TestThreat13LiesOfWhatAnUploadWasMadeFrom(t *testing.T) {
	t.Parallel()
	for _, f := range []testkit.Dialect{testkit.Ours, testkit.Keyless} {
		s, c := world(t, f)
		for what, tags := range map[string][]string{"another": {chain.TagUpon, "bafyother"}, "not said": nil} {
			s.DisturbUploads(func(next http.Handler) http.Handler {
				return testkit.Changed(next, func(a *struct {
					Result wire.FinalizeUploadResult `json:"result"`
				}) {
					at := slices.Index(a.Result.Record.Tags, chain.TagUpon)
					a.Result.Record.Tags = slices.Replace(a.Result.Record.Tags, at, at+2, tags...)
				})
			})
			_, err := c.Group("g").Put(t.Context(), what, strings.NewReader(what),
				sdk.PutOptions{Upon: new(sdk.Ref(""))})
			if sdk.KindOf(err) != sdk.ErrCorrupt || !strings.Contains(err.Error(), "made from another version") {
				t.Errorf("dialect %d: %s: %v", f, what, err)
			}
		}
	}
}
