package auth

import (
	"testing"
	"time"

	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Two first sign-ins of one person that found no account both get the one that is made.
func TestTwoFirstSignInsMakeOneAccount(t *testing.T) {
	s, err := store.Open(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	accounts := NewAccounts(s, ledger.New(ledger.Fees{}, ledger.Bounds{}, time.Now), "svc.testnet", nil)
	who := Identity{Issuer: "https://idp.example", Subject: "1"}
	for range 2 {
		if id, err := accounts.CreateFor(t.Context(), "alice", who); err != nil || id != "alice.svc.testnet" {
			t.Errorf("%q, %v", id, err)
		}
	}
	who.Subject = "2"
	if id, err := accounts.CreateFor(t.Context(), "alice", who); err != nil || id == "alice.svc.testnet" {
		t.Errorf("another person gets %q, %v", id, err)
	}
}
