package service_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
)

// The owner of a group says what becomes of appends; the chain and the events of the group tell it, and other
// values are refused.
func TestGroupAppends(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	has := func(want string) {
		t.Helper()
		got := must[wire.AppendsResult](bob, wire.OpGetGroupAppends, object{"group_id": "g"})
		if got.Appends != want {
			t.Errorf("appends are %q, want %q", got.Appends, want)
		}
	}
	has(wire.AppendsApart)
	for _, bad := range []any{"", "both", "Merge", 1, nil} {
		status, body := alice.tool(wire.OpSetGroupAppends, object{"group_id": "g", "appends": bad})
		if status != http.StatusBadRequest {
			t.Errorf("appends %v: %d %s", bad, status, body)
		}
	}
	has(wire.AppendsApart)
	must[string](alice, wire.OpSetGroupAppends, object{"group_id": "g", "appends": "merge"})
	has(wire.AppendsMerge)
	var details []string
	rows, _ := alice.chain("g", nil)
	for _, row := range rows {
		if row.Kind == chain.KindAppends {
			details = append(details, row.Detail)
		}
	}
	if !slices.Equal(details, []string{"merge"}) {
		t.Errorf("the chain tells %q", details)
	}
	events := must[wire.WatchResult](bob, wire.OpWatch, object{"after_seq": 0, "timeout_ms": 1}).Events
	if !slices.ContainsFunc(events, func(e wire.Event) bool { return e.Kind == chain.KindAppends }) {
		t.Error("no event tells it")
	}
	if _, err := r.svc.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}
