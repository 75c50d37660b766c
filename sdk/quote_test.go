package sdk

import (
	"strings"
	"testing"
)

// References of one account and group differ at their end only.
func TestLongReferencesAreToldByTheirEnd(t *testing.T) {
	t.Parallel()
	long := Ref("bafy.svc.testnet/fastfs.svc.testnet/" + strings.Repeat("0", 64) + "/01a1fead-9b3b-7759-8000-000000000001")
	for ref, want := range map[Ref]string{
		long: `"…/01a1fead-9b3b-7759-8000-000000000001"`,
		"QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKZ8JU": `"QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWKZ8JU"`,
		Ref(strings.Repeat("a", 2*maxQuoted)):            `"` + strings.Repeat("a", maxQuoted) + `…"`,
	} {
		err := &Error{Op: "retrieve", Ref: ref, Kind: ErrNotFound}
		if got := err.Error(); !strings.HasPrefix(got, "retrieve of "+want+": ") {
			t.Errorf("%s", got)
		}
	}
}
