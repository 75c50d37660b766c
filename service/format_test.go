package service_test

import (
	"net/http"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// The owner of a group says which format version new files have at most; the chain of the
// group tells it, and other values are refused.
func TestGroupFormat(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	has := func(want int64) {
		t.Helper()
		if got := must[wire.FormatResult](bob, wire.OpGetGroupFormat, object{"group_id": "g"}); got.Format != want {
			t.Errorf("the format is %d, want %d", got.Format, want)
		}
	}
	has(2)
	for _, bad := range []any{0, 3, -1, "x", 1.5, nil} {
		if status, body := alice.tool(wire.OpSetGroupFormat,
			object{"group_id": "g", "format": bad}); status != http.StatusBadRequest {
			t.Errorf("format %v: %d %s", bad, status, body)
		}
	}
	has(2)
	must[string](alice, wire.OpSetGroupFormat, object{"group_id": "g", "format": 1})
	has(1)
	var details []string
	rows, _ := alice.chain("g", nil)
	for _, row := range rows {
		if row.Kind == chain.KindFormat {
			details = append(details, row.Detail)
		}
	}
	if len(details) != 1 || details[0] != "1" {
		t.Errorf("the chain tells %q", details)
	}
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}
