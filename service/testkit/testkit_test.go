package testkit_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/svcfs/svcfs/sdk/sdktest"
	"github.com/svcfs/svcfs/service/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What clients rely on holds in both dialects.
func TestContract(t *testing.T) {
	for _, d := range []testkit.Dialect{testkit.Ours, testkit.Hosted} {
		t.Run(d.String(), func(t *testing.T) {
			t.Parallel()
			sdktest.Run(t, func(tb testing.TB) sdktest.World { return testkit.Start(tb, d).World() })
		})
	}
}

// A start takes about ten milliseconds: tests begin with one each.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		testkit.Start(b, testkit.Ours)
	}
}
