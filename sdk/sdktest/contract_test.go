package sdktest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/svcfs/svcfs/sdk/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	for _, f := range []sdktest.Flavour{sdktest.GenA, sdktest.GenB, sdktest.Extended, sdktest.Proving} {
		t.Run(f.String(), func(t *testing.T) {
			sdktest.Run(t, func(tb testing.TB) sdktest.World {
				s := sdktest.NewServer(tb, f)
				return sdktest.World{Config: s.Config(), Alice: s.Account("alice", "100"), Bob: s.Account("bob", "100")}
			})
		})
	}
}
