package auth

import (
	"testing"
	"time"

	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// signer is a vault with new keys.
func signer(t *testing.T, now func() time.Time) vaultwire.Vault {
	t.Helper()
	v, err := vaulttest.InProcess(t.Context(), vaultwire.InDirectory(t.TempDir()), vaultwire.Source{}, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	made, err := v.Make(t.Context(),
		vaultwire.Make{Keys: []vaultwire.Key{{Purpose: vaultwire.PurposeTokens, Version: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Keep(t.Context(), vaultwire.Keep{Rows: made.Rows}); err != nil {
		t.Fatal(err)
	}
	return v
}

// Threat 20: a token that was verified before is refused when its time is over, or has not come.
func TestThreat20KnownTokensEnd(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	tokens := NewTokens(nil, signer(t, clock), "http://svc.example", time.Hour, clock)
	token, err := tokens.Issue(t.Context(), "alice.svc.testnet", 3)
	if err != nil {
		t.Fatal(err)
	}
	begin := now
	for _, tc := range []struct {
		after time.Duration
		good  bool
	}{{0, true}, {time.Hour, true}, {time.Hour + vaultwire.TokenLeeway + time.Second, false}, {time.Minute, true},
		{-vaultwire.TokenLeeway - 2*time.Second, false}, {0, true}} {
		now = begin.Add(tc.after)
		for range 2 {
			c, err := tokens.claimsOf(t.Context(), token)
			if (err == nil) != tc.good || tc.good && (c.Account != "alice.svc.testnet" || c.Generation != 3) {
				t.Errorf("after %v: %v, %v", tc.after, c, err)
			}
		}
	}
	if _, err := tokens.claimsOf(t.Context(), token[:len(token)-1]); err == nil {
		t.Error("the beginning of a known token is good")
	}
}

// A clock that is set goes on being believed once it has gone on evenly for a minute. Until then nobody signs in if it
// was set back; tokens from before are good, but for those that it has not come to yet.
func TestClockThatIsSet(t *testing.T) {
	wall, elapsed := time.Now(), time.Duration(0)
	pass := func(d time.Duration) { wall, elapsed = wall.Add(d), elapsed+d }
	clock := func() time.Time { return wall }
	tokens := NewTokens(nil, signer(t, clock), "http://svc.example", time.Hour, clock)
	tokens.clock.elapsed = func() time.Duration { return elapsed }
	issue := func(can bool) string {
		t.Helper()
		token, err := tokens.Issue(t.Context(), "alice.svc.testnet", 1)
		if (err == nil) != can || (tokens.Problem() == nil) != can {
			t.Errorf("after %s, with the clock at %s: %v, %v", elapsed, wall.Format(time.TimeOnly), err,
				tokens.Problem())
		}
		return token
	}
	good := func(token string, is bool) {
		t.Helper()
		if _, err := tokens.claimsOf(t.Context(), token); (err == nil) != is {
			t.Errorf("after %s: %v", elapsed, err)
		}
	}
	old := issue(true)
	pass(10 * time.Minute)
	fast := issue(true)
	wall = wall.Add(-20 * time.Second) // less than a step
	issue(true)

	wall = wall.Add(-90 * time.Second)
	issue(false)
	good(old, true)
	good(fast, false)
	pass(50 * time.Second)
	issue(false)
	wall = wall.Add(-time.Hour) // it is not even: the minute begins anew
	issue(false)
	pass(50 * time.Second)
	issue(false)
	pass(10 * time.Second)
	now := issue(true)
	good(now, true)
	pass(time.Minute)
	issue(true)

	wall = wall.Add(24 * time.Hour) // ahead: what is issued ends earlier, at the worst
	ahead := issue(true)
	pass(2 * time.Minute)
	issue(true)
	wall = wall.Add(-24 * time.Hour) // and right again
	issue(false)
	good(ahead, false)
	good(now, true)
	pass(time.Minute)
	good(issue(true), true)
}
