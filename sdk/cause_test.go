package sdk_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
)

// A call that its caller ends is canceled, whatever the cause that the caller gave: an
// errgroup gives the error of another call.
func TestCauseIsNotTheKind(t *testing.T) {
	t.Parallel()
	tokens := wire.PathSessionToken
	for name, cause := range map[string]error{
		"any error":           errors.New("the window was closed"),
		"of another call":     &sdk.Error{Kind: sdk.ErrNotFound, Code: wire.CodeFileNotFound},
		"of a slow call":      &sdk.Error{Kind: sdk.ErrTimeout, Err: context.DeadlineExceeded},
		"of something broken": sdk.ErrWrongContent,
	} {
		for _, stuck := range []string{wire.PathCapabilities, tokens, wire.PathTools} {
			t.Run(name+" at "+stuck, func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				gone := make(chan struct{})
				h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch {
					case strings.HasPrefix(r.URL.Path, stuck):
						end(cause)
						<-gone
					case r.URL.Path == tokens:
						_, _ = w.Write([]byte(`{"token":"token","expires_in":"24h"}`))
					default:
						http.NotFound(w, r)
					}
				}))
				defer h.Close()
				defer close(gone)
				c, err := sdk.New("alice.svc.testnet", sdk.Config{URL: h.URL, APIKey: sdk.NewSecret("svc_sk_0123456789012345678901234567890123456789012"), Timeout: time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				if stuck == wire.PathCapabilities {
					_, err = c.Capabilities(ctx)
				} else {
					_, err = c.OwnedGroups(ctx)
				}
				if sdk.KindOf(err) != sdk.ErrCanceled || !errors.Is(err, context.Canceled) || errors.Is(err, sdk.ErrNotFound) {
					t.Errorf("kind %q: %v", sdk.KindOf(err), err)
				}
				if !strings.Contains(err.Error(), cause.Error()) {
					t.Errorf("the cause is not told: %v", err)
				}
			})
		}
	}
}

// A limit of the caller's is a timeout, whatever its cause.
func TestCauseOfALimit(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	h := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-gone }))
	defer h.Close()
	defer close(gone)
	c, err := sdk.New("alice.svc.testnet", sdk.Config{URL: h.URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("no time left"))
	defer cancel()
	if _, err := c.Capabilities(ctx); sdk.KindOf(err) != sdk.ErrTimeout {
		t.Errorf("kind %q: %v", sdk.KindOf(err), err)
	}
}
