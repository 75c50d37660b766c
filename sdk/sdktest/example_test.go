package sdktest_test

import (
	"testing"

	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/service/testkit"
)

// A service of one's own is checked against everything that clients rely on.
func ExampleRun() {
	_ = func(t *testing.T) { // in a test of one's own
		sdktest.Run(t, func(tb testing.TB) sdktest.World {
			return testkit.Start(tb, testkit.Hosted).World() // start the service instead
		})
	}
}
