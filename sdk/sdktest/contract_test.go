package sdktest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/svcfs/svcfs/sdk/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	for _, offers := range []struct {
		flavour sdktest.Flavour
		chunks  bool
	}{{sdktest.Hosted, false}, {sdktest.Ours, false}, {sdktest.Ours, true}} {
		name := offers.flavour.String()
		if offers.chunks {
			name += " with chunks"
		}
		t.Run(name, func(t *testing.T) {
			sdktest.Run(t, func(tb testing.TB) sdktest.World {
				s := sdktest.NewServer(tb, offers.flavour)
				if offers.chunks {
					s.OfferChunks()
				}
				return sdktest.World{Config: s.Config(), Alice: s.Account("alice", "100"), Bob: s.Account("bob", "100")}
			})
		})
	}
}
