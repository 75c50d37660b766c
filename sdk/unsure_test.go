package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// wantUnsure checks what the error of an upload says of the record.
func wantUnsure(t *testing.T, when string, err error, want bool) {
	t.Helper()
	var e *sdk.Error
	if !errors.As(err, &e) || e.Unsure != want {
		t.Errorf("%s: want unsure %t of %v", when, want, err)
	}
}

// refuses answers all requests with a refusal.
func refuses(code string) func(http.Handler) http.Handler {
	return func(http.Handler) http.Handler { return answer(409, wire.Error{Error: "no", Code: code}) }
}

// The error of an upload is unsure from the first request without an answer on: a refusal says nothing of that request,
// unless the service, or a look at the ledger, says that nothing is recorded.
func TestErrorsTellWhetherAnUploadMayBeRecorded(t *testing.T) {
	t.Parallel()
	type uploads func(*testing.T, *sdk.Client) (again func(context.Context) error)
	upon := sdk.PutOptions{Base: new(sdk.Ref(""))}
	put := func(size int64, o ...sdk.PutOptions) uploads {
		return func(_ *testing.T, c *sdk.Client) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := c.Group("g").Put(ctx, "f", bytes.NewReader(noise(size)), o...)
				return err
			}
		}
	}
	send := func(n int) uploads {
		return func(t *testing.T, c *sdk.Client) func(context.Context) error {
			t.Helper()
			list := []*sdk.Sealed{sealed(t, c, "f", nil, upon), sealed(t, c, "other", nil)}[:n]
			return func(ctx context.Context) error { return c.SendSealed(ctx, list...)[0].Err }
		}
	}
	finish := func(t *testing.T, c *sdk.Client) func(context.Context) error {
		t.Helper()
		u, content := begin(t, c.Group("g"), nil), noise(3*smallBlock)
		if err := u.PutPart(t.Context(), extents(0, 3), blocksOf(content, smallBlock)); err != nil {
			t.Fatal(err)
		}
		return func(ctx context.Context) error {
			_, err := u.Finish(ctx, "f", int64(len(content)), sdk.ComputeHash(content), upon)
			return err
		}
	}
	const looks = "looks" // for the record before it sends again
	for name, tc := range map[string]struct {
		dialect testkit.Dialect
		begin   uploads
		knows   string // the code by which the service says that nothing is recorded
	}{
		"small":         {testkit.Ours, put(10, upon), wire.CodeHead},
		"sealed":        {testkit.Ours, put(200_000, upon), wire.CodeHead},
		"blocks":        {testkit.Ours, put(wire.WholeFileBytes+1, upon), wire.CodeHead},
		"finish":        {testkit.Ours, finish, wire.CodeHead},
		"send":          {testkit.Ours, send(1), wire.CodeHead},
		"send two":      {testkit.Ours, send(2), ""},
		"prepared":      {testkit.Keyless, put(10), ""},
		"prepared, raw": {testkit.Keyless, put(200_000), ""},
		"bound":         {testkit.Keyless, put(10, upon), wire.CodeHead},
		"bound, raw":    {testkit.Keyless, put(200_000, upon), wire.CodeHead},
		"hosted":        {testkit.Hosted, put(10), looks},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := world(t, tc.dialect)
			upload := tc.begin(t, c)
			ended, end := context.WithCancel(t.Context())
			end()
			if name != "send two" { // of a request for several nobody says
				wantUnsure(t, "canceled before anything is sent", upload(ended), false)
			}
			s.DisturbUploads(refuses(wire.CodeInsufficient))
			wantUnsure(t, "refused", upload(t.Context()), false)
			s.DisturbUploads(cut)
			wantUnsure(t, "cut off", upload(t.Context()), true)
			s.DisturbUploads(refuses(wire.CodeInsufficient))
			wantUnsure(t, "cut off and refused", upload(t.Context()), tc.knows != looks)
			if tc.dialect == testkit.Keyless || tc.knows == wire.CodeHead {
				s.DisturbUploads(refuses(wire.CodeHead)) // a lie where the upload names no base
				wantUnsure(t, "cut off and refused for its base", upload(t.Context()), tc.knows != wire.CodeHead)
				if tc.knows == wire.CodeHead && sdk.Unsure(c) != 0 {
					t.Errorf("%d uploads are kept that are known not to be recorded", sdk.Unsure(c))
				}
			}
			s.DisturbUploads(nil)
			if err := upload(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// What goes wrong after the service said that an upload is recorded leaves the error unsure, whatever it is.
func TestErrorsAfterTheRecordAreUnsure(t *testing.T) {
	t.Parallel()
	for _, f := range []testkit.Dialect{testkit.Keyless, testkit.Ours} {
		for what, path := range map[string]string{"attributes": wire.PathTools + wire.OpSetAttributes,
			"a look for it": wire.PathTools + wire.OpGetGroupTransactions} {
			s, c := world(t, f)
			put := func(executable bool) error {
				_, err := c.Group("g").Put(t.Context(), "f", strings.NewReader("x"),
					sdk.PutOptions{Attributes: sdk.Attributes{Executable: executable}})
				return err
			}
			s.DisturbUploads(lost(math.MaxInt32, 0))
			wantUnsure(t, "lost", put(false), true)
			s.DisturbUploads(nil)
			s.Disturb(path, refuses(wire.CodeSpent))
			wantUnsure(t, what, put(what == "attributes"), true)
			s.Disturb(path, nil)
			if err := put(true); err != nil || s.Records() != 1 {
				t.Errorf("%s: %d records, %v", what, s.Records(), err)
			}
		}
	}
}
