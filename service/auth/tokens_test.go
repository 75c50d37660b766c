package auth

import (
	"context"
	"testing"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/keys"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaulttest"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// tokensOf are the tokens of a service with one account, whose key they return.
func tokensOf(t *testing.T, now func() time.Time) (*Tokens, Key) {
	t.Helper()
	a := accountsOf(t, now)
	id, key, err := a.Create(t.Context(), "alice", wire.Amount{})
	if err != nil {
		t.Fatal(err)
	}
	return NewTokens(a, "http://svc.example", time.Hour, now), Key{Account: id, Clear: key.Reveal()}
}

// accountsOf are the accounts of a service.
func accountsOf(t *testing.T, now func() time.Time) *Accounts {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	v, err := vaulttest.InProcess(t.Context(), vaultwire.InDirectory(dir), vaultwire.Source{}, now, nil)
	if err != nil {
		t.Fatal(err)
	}
	k, err := keys.Open(t.Context(), s, v, now())
	if err != nil {
		t.Fatal(err)
	}
	return NewAccounts(s, ledger.New(ledger.Fees{}, ledger.Bounds{}, now), k, "svc.testnet", nil)
}

// Threat 20: a token that was verified before is refused when its time is over, or has not come.
func TestThreat20KnownTokensEnd(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	tokens, key := tokensOf(t, clock)
	token, err := tokens.SignIn(t.Context(), key)
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
			if (err == nil) != tc.good || tc.good && (c.Account != "alice.svc.testnet" || c.Generation != 1) {
				t.Errorf("after %v: %v, %v", tc.after, c, err)
			}
		}
	}
	if _, err := tokens.claimsOf(t.Context(), token[:len(token)-1]); err == nil {
		t.Error("the beginning of a known token is good")
	}
}

// pageOf begins a session of the page.
func pageOf(t *testing.T, tokens *Tokens, account string) Secret {
	t.Helper()
	_, link, err := tokens.accounts.NewLink(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	_, page, err := tokens.UseLink(t.Context(), link.Reveal())
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// A session of the page from before the service had another public address is none, and no error to who signs in again.
func TestPageOfAnotherAddress(t *testing.T) {
	tokens, key := tokensOf(t, time.Now)
	page := pageOf(t, tokens, key.Account)
	moved := NewTokens(tokens.accounts, "http://other.example", time.Hour, time.Now)
	if id, err := moved.PageOf(t.Context(), page.Reveal()); id != "" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	if id, err := tokens.PageOf(t.Context(), page.Reveal()); id == "" || err != nil {
		t.Errorf("at its address: %q, %v", id, err)
	}
}

// silentVault is a vault that does not answer.
type silentVault struct{ Vault }

func (silentVault) OpenToken(context.Context, vaultwire.OpenToken) (c vaultwire.Claims, err error) {
	return c, fault.New(wire.CodeUnavailable, "the vault does not answer")
}

// Nobody is told to be signed out, or not signed in, while the vault, which reads tokens, does not answer.
func TestPageWhileTheVaultIsAway(t *testing.T) {
	tokens, key := tokensOf(t, time.Now)
	page := pageOf(t, tokens, key.Account)
	vault := tokens.accounts.vault
	tokens.accounts.vault = silentVault{vault}
	for what, err := range map[string]error{"signed out": tokens.EndPage(t.Context(), page.Reveal()),
		"not signed in": errOf(tokens.Page(t.Context(), page.Reveal()))} {
		if fault.Of(err).Code != wire.CodeUnavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
	tokens.accounts.vault = vault
	if err := tokens.EndPage(t.Context(), page.Reveal()); err != nil {
		t.Errorf("with the vault: %v", err)
	}
	if _, err := tokens.Page(t.Context(), page.Reveal()); fault.Of(err).Code != wire.CodeAuthRequired {
		t.Errorf("after it: %v", err)
	}
}

// Threat 31: only what is known to be good is not counted as a request of a stranger: each question of another token,
// key or cookie.
func TestThreat31UnknownCredentialsCount(t *testing.T) {
	tokens, key := tokensOf(t, time.Now)
	good, err := tokens.SignIn(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	asked, under, full := 0, 0, fault.New(wire.CodeRateLimited, "full")
	var refuse error
	tokens.Limit(func(context.Context) (func(), error) {
		asked, under = asked+1, under+1
		return func() { under-- }, refuse
	})
	open := func(token string) error { return errOf(tokens.Open(t.Context(), token)) }
	page := func(token string) error { return errOf(tokens.Page(t.Context(), token)) }
	byKey := func(clear string) error { return errOf(tokens.ByKey(t.Context(), key.Account, clear)) }
	for _, tc := range []struct {
		what         string
		try          func(string) error
		secret       string
		good         bool
		first, again int // how often it is asked
	}{
		{"a token", open, good, true, 1, 0},
		{"another token", open, good[:len(good)-1], false, 1, 1},
		{"a key", byKey, key.Clear, true, 1, 0},
		{"another key", byKey, key.Clear + "x", false, 1, 1},
		{"a cookie", page, "x", false, 1, 1},
	} {
		for _, want := range []int{tc.first, tc.again} {
			if asked = 0; (tc.try(tc.secret) == nil) != tc.good || asked != want || under != 0 {
				t.Errorf("%s: asked %d times, want %d; %d are under way", tc.what, asked, want, under)
			}
		}
		refuse = full
		if err := tc.try(tc.secret + "y"); fault.Of(err).Code != wire.CodeRateLimited {
			t.Errorf("%s beyond the limit: %v", tc.what, err)
		}
		if err := tc.try(tc.secret); tc.good && err != nil {
			t.Errorf("%s that is known, beyond the limit: %v", tc.what, err)
		}
		refuse, under = nil, 0
	}
	if _, _, err := tokens.accounts.Rotate(t.Context(), key.Account, ""); err != nil {
		t.Fatal(err)
	}
	s, err := tokens.Open(t.Context(), good)
	if err == nil {
		err = s.Look(t.Context())
	}
	if asked = 0; err == nil || open(good) == nil || asked != 1 {
		t.Errorf("the token of an earlier key: %v, asked %d times", err, asked)
	}
}

func errOf[T any](_ T, err error) error { return err }

// A clock that is set goes on being believed once it has gone on evenly for a minute. Until then nobody signs in if it
// was set back; tokens from before are good, but for those that it has not come to yet.
func TestClockThatIsSet(t *testing.T) {
	wall, elapsed := time.Now(), time.Duration(0)
	pass := func(d time.Duration) { wall, elapsed = wall.Add(d), elapsed+d }
	clock := func() time.Time { return wall }
	tokens, key := tokensOf(t, clock)
	tokens.clock.elapsed = func() time.Duration { return elapsed }
	issue := func(can bool) string {
		t.Helper()
		token, err := tokens.SignIn(t.Context(), key)
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
