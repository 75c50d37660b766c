package sdktest_test

import (
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
)

// A program of one's own is tried against a service that lies: whatever it does
// with an error, it must not take a changed file for the real one.
func ExampleNewHostile() {
	_ = func(t *testing.T) { // in a test of one's own
		for _, mode := range sdktest.Modes() {
			if mode.Surface != sdktest.OnRetrieve {
				continue
			}
			t.Run(mode.Name, func(t *testing.T) {
				h := sdktest.NewHostile(t, mode)
				c := h.Client(t, h.Alice, func(cfg *sdk.Config) { cfg.MaxFileBytes = 8 << 20 })
				content, _, err := sdktest.Read(t.Context(), c.Group(h.Group), string(h.Entry.Ref))
				if (err == nil) != mode.Survives || err != nil && sdk.KindOf(err) != mode.Want || err == nil && string(content) != string(h.Content) {
					t.Errorf("%d bytes, %v", len(content), err)
				}
			})
		}
	}
}

// A service of one's own is checked against everything that clients rely on.
func ExampleRun() {
	_ = func(t *testing.T) { // in a test of one's own
		sdktest.Run(t, func(tb testing.TB) sdktest.World {
			s := sdktest.NewServer(tb, sdktest.Hosted) // start the service instead
			return sdktest.World{Config: s.Config(), Alice: s.Account("alice", "100"), Bob: s.Account("bob", "100")}
		})
	}
}
