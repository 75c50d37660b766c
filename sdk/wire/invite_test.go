package wire_test

import (
	"testing"

	"github.com/svcfs/svcfs/sdk/wire"
)

// Threat 75: an invite that somebody changed adds no line to the settings that are made of it.
func TestThreat75InviteHoldsNoLines(t *testing.T) {
	whole := wire.Invite{URL: "http://s", Contract: "svc.testnet", LogKey: "svc+1+A", Account: "a", Group: "g",
		Secret: "s"}
	if got, err := wire.ParseInvite(whole.Text()); err != nil || got.Contract != whole.Contract {
		t.Fatalf("%v, %v", got.Contract, err)
	}
	for _, field := range []func(*wire.Invite) *string{
		func(i *wire.Invite) *string { return &i.URL }, func(i *wire.Invite) *string { return &i.Contract },
		func(i *wire.Invite) *string { return &i.LogKey }, func(i *wire.Invite) *string { return &i.Account },
		func(i *wire.Invite) *string { return &i.Group }, func(i *wire.Invite) *string { return &i.Secret },
	} {
		changed := whole
		*field(&changed) += "\nSVC_API_KEY_COMMAND=x"
		if _, err := wire.ParseInvite(changed.Text()); err == nil {
			t.Errorf("taken: %q", *field(&changed))
		}
	}
}
