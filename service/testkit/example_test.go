package testkit_test

import (
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/service/testkit"
)

// A program of one's own is tried against a service that lies: whatever it does
// with an error, it must not take a changed file for the real one.
func ExampleLies() {
	_ = func(t *testing.T) { // in a test of one's own
		for _, lie := range testkit.Lies() {
			if lie.On != testkit.OnRetrieve {
				continue
			}
			t.Run(lie.Name, func(t *testing.T) {
				h := testkit.NewWorld(t, lie.On, lie.Large)
				h.Tell(lie)
				c := h.Client(t, h.Alice, func(cfg *sdk.Config) { cfg.MaxFileBytes = 8 << 20 })
				content, _, err := sdktest.Read(t.Context(), c.Group(h.Group), string(h.Entry.Ref))
				if (err == nil) != lie.Survives || err != nil && sdk.KindOf(err) != lie.Want || err == nil &&
					string(content) != string(h.Content) {
					t.Errorf("%d bytes, %v", len(content), err)
				}
			})
		}
	}
}
