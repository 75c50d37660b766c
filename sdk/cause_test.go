package sdk_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A call that its caller ends is canceled, whatever the cause that the caller gave: an
// errgroup gives the error of another call.
func TestCauseIsNotTheKind(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{
		"any error":           errors.New("the window was closed"),
		"of another call":     &sdk.Error{Kind: sdk.ErrNotFound, Code: wire.CodeFileNotFound},
		"of a slow call":      &sdk.Error{Kind: sdk.ErrTimeout, Err: context.DeadlineExceeded},
		"of something broken": sdk.ErrWrongContent,
	} {
		for _, stuck := range []string{wire.PathCapabilities, wire.PathSessionToken, wire.PathTools + wire.OpGetOwnedGroups} {
			t.Run(name+" at "+stuck, func(t *testing.T) {
				ctx, end := context.WithCancelCause(t.Context())
				gone := make(chan struct{})
				s := testkit.Start(t, testkit.Ours)
				t.Cleanup(func() { close(gone) })
				c := s.Client(t, s.Account("alice", "1"), func(cfg *sdk.Config) { cfg.Timeout = time.Minute })
				s.Answer(stuck, func(http.ResponseWriter, *http.Request) { end(cause); <-gone })
				var err error
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
	s := testkit.Start(t, testkit.Ours)
	t.Cleanup(func() { close(gone) })
	c := s.Client(t, s.Account("alice", "1"), func(cfg *sdk.Config) { cfg.Timeout = time.Minute })
	s.Answer(wire.PathCapabilities, func(http.ResponseWriter, *http.Request) { <-gone })
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("no time left"))
	defer cancel()
	if _, err := c.Capabilities(ctx); sdk.KindOf(err) != sdk.ErrTimeout {
		t.Errorf("kind %q: %v", sdk.KindOf(err), err)
	}
}
