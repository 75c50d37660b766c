package integration

import (
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/service/testkit"
)

// TestContract runs the suite every service has to pass against svcd.
func TestContract(t *testing.T) {
	w := newWorld(t)
	sdktest.Run(t, func(tb testing.TB) sdktest.World {
		name := strings.ToLower(tb.Name()[strings.LastIndexByte(tb.Name(), '/')+1:])
		return sdktest.World{Config: sdk.Config{URL: w.url}, Alice: credentials(tb, w, "alice-"+name),
			Bob: credentials(tb, w, "bob-"+name)}
	})
}

func credentials(tb testing.TB, w *world, name string) testkit.Account {
	tb.Helper()
	p := w.account(name, "100")
	return testkit.Account{ID: sdk.AccountID(p.id), Key: sdk.NewSecret(p.key)}
}
