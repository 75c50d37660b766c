package auth

import (
	"testing"
	"time"
)

// Two first sign-ins of one person that found no account both get the one that is made.
func TestTwoFirstSignInsMakeOneAccount(t *testing.T) {
	accounts := accountsOf(t, time.Now)
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
