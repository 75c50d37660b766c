package auth

import (
	"testing"
	"time"
)

// Threat 20: a token that was verified before is refused when its time is over, or has not come.
func TestThreat20KnownTokensEnd(t *testing.T) {
	now := time.Now()
	tokens := NewTokens(nil, [32]byte{1}, "http://svc.example", time.Hour, func() time.Time { return now })
	token, err := tokens.Issue("alice.svc.testnet", 3)
	if err != nil {
		t.Fatal(err)
	}
	begin := now
	for _, tc := range []struct {
		after time.Duration
		good  bool
	}{{0, true}, {time.Hour, true}, {time.Hour + leeway + time.Second, false}, {time.Minute, true}, {-leeway - 2*time.Second, false}, {0, true}} {
		now = begin.Add(tc.after)
		for range 2 {
			c, err := tokens.claimsOf(token)
			if (err == nil) != tc.good || tc.good && (c.AccountID != "alice.svc.testnet" || c.Generation != 3) {
				t.Errorf("after %v: %v, %v", tc.after, c, err)
			}
		}
	}
	if _, err := tokens.claimsOf(token[:len(token)-1]); err == nil {
		t.Error("the beginning of a known token is good")
	}
}
