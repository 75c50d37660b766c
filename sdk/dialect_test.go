package sdk_test

import (
	"os"
	"regexp"
	"testing"

	"github.com/svcfs/svcfs/sdk"
	"github.com/svcfs/svcfs/service/testkit"
)

// The hosted service is never asked for an operation that package wire marks as ours.
func TestOperationsOfOursAreRefused(t *testing.T) {
	t.Parallel()
	var marked [][]string
	for _, file := range []string{"wire/http.go", "wire/sealed.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ours := regexp.MustCompile(`Op\w+ += "(\w+)" +// ours`)
		marked = append(marked, ours.FindAllStringSubmatch(string(source), -1)...)
	}
	if len(marked) < 25 {
		t.Fatalf("%d operations are marked", len(marked))
	}
	_, hosted := world(t, testkit.Hosted)
	_, ours := world(t, testkit.Ours)
	for _, m := range marked {
		if err := sdk.Offers(t.Context(), hosted, m[1]); sdk.KindOf(err) != sdk.ErrUnsupported {
			t.Errorf("%s at the hosted service: %v", m[1], err)
		}
		if err := sdk.Offers(t.Context(), ours, m[1]); err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
	}
}
