package auth

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// countingVault counts what is asked of a vault.
type countingVault struct {
	Vault
	asked func(call string)
}

func (c countingVault) IssueToken(ctx context.Context, q vaultwire.IssueToken) (vaultwire.Text, error) {
	c.asked("ask the vault")
	return c.Vault.IssueToken(ctx, q)
}

// Threat 22: a wrong key is as much work as an unknown account, so that both take the
// same time: one look into the database, and one question to the vault, which compares, in constant time, hashes of one
// length.
func TestThreat22UnknownAndWrongAreTheSameWork(t *testing.T) {
	tokens, key := tokensOf(t, time.Now)
	var work []string
	tokens.accounts.store.Observe(func(call string, _ time.Duration, _ error) { work = append(work, call) })
	tokens.accounts.vault = countingVault{tokens.accounts.vault, func(call string) { work = append(work, call) }}
	wrong := vaultwire.APIKeyPrefix + strings.Repeat("A", 43)
	want := []string{"read", "ask the vault"}
	for _, tc := range []struct{ name, id, key, code string }{
		{"a wrong key", key.Account, wrong, wire.CodeInvalidKey},
		{"an unknown account", "absent.svc.testnet", wrong, wire.CodeAccountUnknown},
		{"the right key", key.Account, key.Clear, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			work = nil
			_, err := tokens.SignIn(t.Context(), Key{Account: tc.id, Clear: tc.key})
			if refused := (&fault.Error{}); tc.code != "" && (!errors.As(err, &refused) || refused.Code != tc.code) ||
				tc.code == "" && err != nil {
				t.Errorf("answer %v, want %q", err, tc.code)
			}
			if !slices.Equal(work, want) {
				t.Errorf("work %q, want %q", work, want)
			}
		})
	}
}

// Threat 75: every wrong invite is as much work as the right one until it is accepted.
func TestThreat75WrongInvitesAreTheSameWork(t *testing.T) {
	accounts := accountsOf(t, time.Now)
	invited, secret, err := accounts.Invite(t.Context(), "svc.testnet", "alice", wire.Amount{})
	if err != nil {
		t.Fatal(err)
	}
	var work []string
	accounts.store.Observe(func(call string, _ time.Duration, _ error) { work = append(work, call) })
	want := []string{"read"} // the comparison is in the transaction, in constant time
	for name, given := range map[string]string{"nothing": "",
		"an unknown id":  "0011223344556677." + strings.Repeat("A", 43),
		"another secret": invited.ID + "." + strings.Repeat("A", 43), "the id alone": invited.ID} {
		work = nil
		_, _, err := accounts.RedeemInvite(t.Context(), given)
		if refused := (&fault.Error{}); !errors.As(err, &refused) || refused.Code != wire.CodeInvite {
			t.Errorf("%s: %v", name, err)
		}
		if !slices.Equal(work, want) {
			t.Errorf("%s: work %q, want %q", name, work, want)
		}
	}
	if id, _, err := accounts.RedeemInvite(t.Context(), secret.Reveal()); err != nil || id != invited.Account {
		t.Errorf("the invite made %q: %v", id, err)
	}
}
