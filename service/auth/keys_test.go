package auth

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Threat 22: a wrong key is as much work as an unknown account, so that both take the
// same time: one look into the database, and one comparison, in constant time, of
// hashes of one length.
func TestThreat22UnknownAndWrongAreTheSameWork(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	accounts := NewAccounts(s, ledger.New(ledger.Fees{}, ledger.Bounds{}, time.Now), "svc.testnet", nil)
	id, key, err := accounts.Create(t.Context(), "alice", wire.Amount{})
	if err != nil {
		t.Fatal(err)
	}
	var work []string
	s.Observe(func(call string, _ time.Duration, _ error) { work = append(work, call) })
	accounts.equal = func(x, y []byte) int {
		work = append(work, fmt.Sprintf("compare %d and %d bytes", len(x), len(y)))
		return subtle.ConstantTimeCompare(x, y)
	}
	wrong := keyPrefix + strings.Repeat("A", 43)
	want := []string{"read", "compare 32 and 32 bytes"}
	for _, tc := range []struct{ name, id, key, code string }{
		{"a wrong key", id, wrong, wire.CodeInvalidKey},
		{"an unknown account", "absent.svc.testnet", wrong, wire.CodeAccountUnknown},
		{"the right key", id, key.Reveal(), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			work = nil
			_, err := accounts.CheckKey(t.Context(), tc.id, tc.key)
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
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	accounts := NewAccounts(s, ledger.New(ledger.Fees{}, ledger.Bounds{}, time.Now), "svc.testnet", nil)
	invited, secret, err := accounts.Invite(t.Context(), "svc.testnet", "alice", wire.Amount{})
	if err != nil {
		t.Fatal(err)
	}
	var work []string
	s.Observe(func(call string, _ time.Duration, _ error) { work = append(work, call) })
	accounts.equal = func(x, y []byte) int {
		work = append(work, fmt.Sprintf("compare %d and %d bytes", len(x), len(y)))
		return subtle.ConstantTimeCompare(x, y)
	}
	want := []string{"compare 32 and 32 bytes", "read"} // the comparison is in the transaction
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
