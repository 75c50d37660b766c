package web

import (
	"encoding/hex"
	"testing"

	"github.com/svcfs/svcfs/sdk/names/namestest"
	"github.com/svcfs/svcfs/sdk/wire"
)

// The page shows a file under the name that it has in a mount.
func TestPageShowsTheNamesOfTheMount(t *testing.T) {
	t.Parallel()
	sum := namestest.Sum()
	for _, c := range namestest.Table() {
		t.Run(c.Name, func(t *testing.T) {
			row := wire.TransactionRow{FileHash: hex.EncodeToString(sum[:]), IPFSHash: "ref", Filename: &c.Raw,
				ContentType: &c.ContentType}
			if got := viewFile(row).Shown; got != c.Shown {
				t.Errorf("%q is shown as %q, want %q", c.Raw, got, c.Shown)
			}
		})
	}
}
