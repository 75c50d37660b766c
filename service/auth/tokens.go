package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// maxKnownTokens bounds the tokens that are remembered: of each some 600 bytes.
const maxKnownTokens = 10_000

// Signer makes and reads session tokens: the vault does.
type Signer interface {
	IssueToken(context.Context, vaultwire.Claims) (vaultwire.Text, error)
	OpenToken(context.Context, vaultwire.OpenToken) (vaultwire.Claims, error)
}

// Tokens issues and verifies session tokens.
type Tokens struct {
	accounts *Accounts
	signer   Signer
	address  string // of the service: issuer and audience
	lifetime time.Duration
	now      func() time.Time
	clock    *clock

	mu    sync.Mutex
	known map[[sha256.Size]byte]known // by the hash of their token
}

// NewTokens returns an issuer for the service at a public address.
func NewTokens(a *Accounts, signer Signer, address string, lifetime time.Duration, now func() time.Time) *Tokens {
	if lifetime <= 0 || lifetime > vaultwire.MaxTokenLifetime {
		lifetime = vaultwire.MaxTokenLifetime
	}
	return &Tokens{accounts: a, signer: signer, address: address, lifetime: lifetime, now: now,
		clock: newClock(now), known: make(map[[sha256.Size]byte]known)}
}

// Lifetime returns how long a token is good, as expires_in says it.
func (t *Tokens) Lifetime() string {
	if t.lifetime%time.Hour == 0 {
		return fmt.Sprintf("%dh", t.lifetime/time.Hour)
	}
	if t.lifetime%time.Minute == 0 {
		return fmt.Sprintf("%dm", t.lifetime/time.Minute)
	}
	return fmt.Sprintf("%ds", t.lifetime/time.Second)
}

// Issue makes a token for an account whose key of this generation was checked.
func (t *Tokens) Issue(ctx context.Context, account string, generation int64) (string, error) {
	now := t.now()
	if err := t.Problem(); err != nil {
		return "", &fault.Error{Code: wire.CodeUnavailable, RetryAfter: settled, Err: err,
			Text: "the clock of the service was set back: it signs nobody in until the clock has gone on evenly for " +
				"a minute"}
	}
	token, err := t.signer.IssueToken(ctx, vaultwire.Claims{Account: account, Generation: generation,
		Address: t.address, Issued: now, Expires: now.Add(t.lifetime)})
	return string(token.Text), err
}

// Problem returns why no tokens are issued for a while, nil if they are. Tokens that were issued before are good,
// but for those that the clock has not come to yet.
func (t *Tokens) Problem() error {
	if behind := t.clock.setBack(); behind > 0 {
		return fmt.Errorf("it was set back by %s: nobody can sign in until it has gone on evenly for a minute",
			behind.Round(time.Second))
	}
	return nil
}

// Verify returns the account of a token. Everything is required: signature,
// algorithm, issuer, audience, times, type, and that the account's key has not
// been rotated since.
func (t *Tokens) Verify(ctx context.Context, token string) (account string, err error) {
	s, err := t.open(ctx, token)
	if err == nil {
		err = s.Look(ctx)
	}
	if err != nil {
		return "", err
	}
	return s.Account, nil
}

// Session is the account of a request whose token is good by itself: whether the key of the account was rotated since,
// or the account was disabled, [Session.Check] finds in the transaction of the request, which saves a look beforehand.
// Each write of the request does that, see [Session.Guard].
type Session struct {
	Account string
	known   known
	tokens  *Tokens // nil = it was checked, see [Checked]
}

// Open returns the session of a token, of which it requires what [Tokens.Verify] does, but for the account's key,
// unless that was wrong before. Whoever opens a session has it checked before it reads or changes anything for the
// account.
func (t *Tokens) Open(ctx context.Context, token string) (*Session, error) {
	s, err := t.open(ctx, token)
	if err == nil && s.known.ended {
		err = s.Look(ctx)
	}
	return s, err
}

// Checked returns the session of an account that was checked.
func Checked(account string) *Session { return &Session{Account: account} }

func (t *Tokens) open(ctx context.Context, token string) (*Session, error) {
	k, err := t.claimsOf(ctx, token)
	if err != nil {
		return nil, t.failed(ctx, err)
	}
	return &Session{Account: k.Account, known: k, tokens: t}, nil
}

// Look is [Session.Check] by itself.
func (s *Session) Look(ctx context.Context) error {
	if s.tokens == nil {
		return nil
	}
	return s.tokens.accounts.store.Look(ctx, func(tx *store.Tx) error { return s.Check(ctx, tx) })
}

// Guard has each write of the request [Session.Check] it.
func (s *Session) Guard(ctx context.Context) { store.SetGuard(ctx, s.Asks(), s.Check) }

// Asks are what [Session.Check] asks.
func (s *Session) Asks() []store.Ask {
	if s.tokens == nil {
		return nil
	}
	return []store.Ask{askKey(s.Account)}
}

// Check refuses a token whose account has another key by now, or is disabled.
func (s *Session) Check(ctx context.Context, tx *store.Tx) error {
	if s.tokens == nil {
		return nil
	}
	key, err := readKey(ctx, tx, s.Account)
	switch {
	case err != nil:
		return err
	case key.disabled:
		err = accountDisabled(s.Account)
	case !key.found || key.generation != s.known.Generation:
		err = invalidToken("invalid session token: the API key was rotated since")
	default:
		return nil
	}
	ended := s.known
	ended.ended = true
	s.tokens.remember(ended)
	return s.tokens.failed(ctx, err)
}

// failed notes a refusal, and returns it.
func (t *Tokens) failed(ctx context.Context, err error) error {
	var wrong *fault.Error
	if errors.As(err, &wrong) {
		t.accounts.signIns.Failed(ctx, byToken, "", wrong.Code)
	}
	return err
}

// claimsOf returns the claims of a token that is good now, except for the account's key. It verifies a
// token once: clients send the same one with each request.
func (t *Tokens) claimsOf(ctx context.Context, token string) (known, error) {
	hash := sha256.Sum256([]byte(token))
	t.mu.Lock()
	k, ok := t.known[hash]
	t.mu.Unlock()
	if now := t.now(); ok && now.Before(k.Expires.Add(vaultwire.TokenLeeway)) &&
		!now.Before(k.Issued.Add(-vaultwire.TokenLeeway)) {
		return k, nil
	}
	c, err := t.signer.OpenToken(ctx, vaultwire.OpenToken{Token: []byte(token), Address: t.address})
	k = known{Claims: c, hash: hash}
	if err != nil || c.Undated {
		return k, refusedToken(err)
	}
	t.remember(k)
	return k, nil
}

// known is what is remembered of a token.
type known struct {
	vaultwire.Claims
	hash  [sha256.Size]byte // of the token
	ended bool              // it was refused for the key of its account
}

func (t *Tokens) remember(k known) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxKnownTokens {
		clear(t.known)
	}
	t.known[k.hash] = k
}

// refusedToken says to a client why its token is refused.
func refusedToken(err error) error {
	var refused *vaultwire.TokenError
	switch {
	case !errors.As(err, &refused):
		return err
	case refused.Audience:
		return fault.New(wire.CodeAudience, "Auth failed: Audience mismatch: %s", refused.Text)
	default:
		return invalidToken(refused.Text)
	}
}

func invalidToken(text string) error {
	return fault.New(wire.CodeInvalidToken, "Auth failed: %s", text)
}
