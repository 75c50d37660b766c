package sdk_test

import (
	"net/http"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/testkit"
)

// A change is repeated when the service was too busy to look at it, and only then.
func TestChangesAreRepeatedOnlyWhenRefusedUnseen(t *testing.T) {
	t.Parallel()
	const path = wire.PathTools + wire.OpRegisterGroup
	for name, tc := range map[string]struct {
		status, requests int
		kind             sdk.Kind
	}{
		"too many requests": {http.StatusTooManyRequests, 2, sdk.ErrOther},
		"unavailable":       {http.StatusServiceUnavailable, 1, sdk.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := world(t, testkit.Ours)
			before := s.Hits(path)
			s.Disturb(path, scripted(say(tc.status, `{"error":"not now"}`)))
			_, err := c.Group("another").Register(t.Context())
			if n := s.Hits(path) - before; n != tc.requests || sdk.KindOf(err) != tc.kind || (err == nil) != (tc.requests == 2) {
				t.Errorf("%d requests, %v", n, err)
			}
		})
	}
}
