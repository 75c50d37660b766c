package service_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service"
	"github.com/svcfs/svcfs/service/ledger"
)

// The owner of a group sets what a request names, with a record of each, or nothing; the chain and the events of the
// group tell it, and other values are refused.
func TestGroupSettings(t *testing.T) {
	t.Parallel()
	r, alice, bob := runWithMember(t)
	has := func(want wire.GroupSettings) {
		t.Helper()
		if got := must[wire.GroupSettings](bob, wire.OpGetGroupSettings, object{"group_id": "g"}); got != want {
			t.Errorf("the settings are %+v, want %+v", got, want)
		}
	}
	has(wire.GroupSettings{Format: 2, Appends: wire.AppendsApart, Keys: wire.KeysAny})
	bad := []object{{}, {"format": 1, "appends": "both"}, {"appends": "merge", "keys": "some"},
		{"keys": 1, "format": 1}}
	for name, values := range map[string][]any{"format": {0, 3, -1, "x", 1.5, nil}, "appends": {"", "Merge", 1, nil},
		"keys": {"", "Sealed", nil}, "of another version": {"x"}} {
		for _, value := range values {
			bad = append(bad, object{name: value})
		}
	}
	for _, settings := range bad {
		settings["group_id"] = "g"
		status, body := alice.tool(wire.OpSetGroupSettings, settings)
		if status != http.StatusBadRequest || strings.Contains(body, "GroupSettings") {
			t.Errorf("%v: %d %s", settings, status, body)
		}
	}
	has(wire.GroupSettings{Format: 2, Appends: wire.AppendsApart, Keys: wire.KeysAny})
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "format": 1, "of another version": "x"})
	has(wire.GroupSettings{Format: 1, Appends: wire.AppendsApart, Keys: wire.KeysAny})
	said := must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "appends": "merge", "keys": "sealed"})
	if want := "Appends in group 'g' to what others saved meanwhile: merge. " +
		"Keys of files of group 'g' are given: sealed"; said != want {
		t.Errorf("it says %q", said)
	}
	has(wire.GroupSettings{Format: 1, Appends: wire.AppendsMerge, Keys: wire.KeysSealed})
	kinds := []string{chain.KindFormat, chain.KindAppends, chain.KindKeys}
	var told []string
	rows, _ := alice.chain("g", nil)
	for _, row := range rows {
		if slices.Contains(kinds, row.Kind) {
			told = append(told, row.Kind+" "+row.Detail)
		}
	}
	if !slices.Equal(told, []string{kinds[0] + " 1", kinds[1] + " merge", kinds[2] + " sealed"}) {
		t.Errorf("the chain tells %q", told)
	}
	events := must[wire.WatchResult](bob, wire.OpWatch, object{"after_seq": 0, "timeout_ms": 1}).Events
	for _, kind := range kinds {
		if !slices.ContainsFunc(events, func(e wire.Event) bool { return e.Kind == kind }) {
			t.Errorf("no event tells %s", kind)
		}
	}
	r.audits()
}

// Each setting of a request has its own price, and one that cannot be paid has none set.
func TestGroupSettingsAllOrNone(t *testing.T) {
	t.Parallel()
	price, err := wire.ParseTokens("0.4")
	ok(t, err)
	r := runWith(t, service.Config{Fees: ledger.Fees{chain.KindFormat: price, chain.KindKeys: price}})
	alice := r.user("alice", "0.7")
	must[string](alice, wire.OpRegisterGroup, object{"group_id": "g"})
	both := object{"group_id": "g", "format": 1, "appends": "merge", "keys": "sealed"}
	if status, body := alice.tool(wire.OpSetGroupSettings, both); status != http.StatusPaymentRequired {
		t.Errorf("%d %s", status, body)
	}
	has := func(want wire.GroupSettings, balance string) {
		t.Helper()
		got := must[wire.GroupSettings](alice, wire.OpGetGroupSettings, object{"group_id": "g"})
		if got != want || alice.balance() != balance {
			t.Errorf("the settings are %+v, want %+v; %s left", got, want, alice.balance())
		}
	}
	has(wire.GroupSettings{Format: 2, Appends: "apart", Keys: "any"}, "0.7")
	must[string](alice, wire.OpSetGroupSettings, object{"group_id": "g", "format": 1, "appends": "merge"})
	has(wire.GroupSettings{Format: 1, Appends: "merge", Keys: "any"}, "0.3")
	r.audits()
}
