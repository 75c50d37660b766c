package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// maxKnownTokens bounds the tokens that are remembered: of each some 600 bytes.
const maxKnownTokens = 10_000

// Tokens issues and verifies session tokens.
type Tokens struct {
	accounts *Accounts
	address  string // of the service: issuer and audience
	lifetime time.Duration
	now      func() time.Time
	clock    *clock
	ask      func(context.Context) (done func(), err error) // see [Tokens.Limit]

	mu    sync.Mutex
	known map[[sha256.Size]byte]known // by the hash of their token
}

// NewTokens returns an issuer for the service at a public address.
func NewTokens(a *Accounts, address string, lifetime time.Duration, now func() time.Time) *Tokens {
	if lifetime <= 0 || lifetime > vaultwire.MaxTokenLifetime {
		lifetime = vaultwire.MaxTokenLifetime
	}
	return &Tokens{accounts: a, address: address, lifetime: lifetime, now: now,
		clock: newClock(now), known: make(map[[sha256.Size]byte]known),
		ask: func(context.Context) (func(), error) { return func() {}, nil }}
}

// Limit has ask be called before a credential is looked at that is not known to be good, and done afterwards. The error
// of ask ends the request. It is set before the first request.
func (t *Tokens) Limit(ask func(context.Context) (done func(), err error)) { t.ask = ask }

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

// Key is the API key of an account, in the clear or sealed.
type Key struct {
	Account string
	Clear   string
	Opening *vaultwire.Opening // nil = Clear
}

// SignIn makes a token for an API key. After too many wrong keys for an account, the answer to a wrong key is to wait.
// The right key is always accepted: guessing locks nobody out.
func (t *Tokens) SignIn(ctx context.Context, key Key) (token string, err error) {
	if err := t.Problem(); err != nil {
		return "", &fault.Error{Code: wire.CodeUnavailable, RetryAfter: settled, Err: err,
			Text: "the clock of the service was set back: it signs nobody in until the clock has gone on evenly for " +
				"a minute"}
	}
	issued, err := t.signIn(ctx, key)
	return issued.token, err
}

func (t *Tokens) signIn(ctx context.Context, key Key) (k known, err error) {
	stored, err := t.accounts.keyOf(ctx, key.Account)
	if err == nil {
		k, err = t.issue(ctx, key, stored)
	}
	if err == nil {
		t.accounts.signIns.Good(ctx, byKey, key.Account)
		return k, nil
	}
	var wrong *fault.Error
	if !errors.As(err, &wrong) {
		return k, err
	}
	known := ""
	if stored.found {
		known = key.Account
	}
	t.accounts.signIns.Failed(ctx, byKey, known, wrong.Code)
	isKey := wrong.Code == wire.CodeInvalidKey || wrong.Code == wire.CodeAccountUnknown
	if isKey && !t.accounts.failures.Allow(key.Account) {
		return k, &fault.Error{Code: wire.CodeRateLimited,
			Text:       "too many requests: too many wrong keys for this account, try again in a minute",
			RetryAfter: time.Minute}
	}
	return k, err
}

// issue has the vault compare the key, for an unknown account too.
func (t *Tokens) issue(ctx context.Context, key Key, stored storedKey) (k known, err error) {
	if key.Opening == nil && (!strings.HasPrefix(key.Clear, vaultwire.APIKeyPrefix) || len(key.Clear) < minKeyLength) {
		return k, fault.New(wire.CodeInvalidKey, "Invalid format")
	}
	now := t.now()
	k.Claims = vaultwire.Claims{Account: key.Account, Generation: stored.generation, Address: t.address, Issued: now,
		Expires: now.Add(t.lifetime)}
	issued, err := t.accounts.vault.IssueToken(ctx, vaultwire.IssueToken{Claims: k.Claims,
		Credential: stored.credential, Key: []byte(key.Clear), Opening: key.Opening})
	switch {
	case errors.Is(err, vaultwire.ErrWrongKey) && !stored.found:
		return k, unknownAccount(key.Account)
	case errors.Is(err, vaultwire.ErrWrongKey):
		return k, fault.New(wire.CodeInvalidKey, "Invalid API key")
	case errors.Is(err, vaultwire.ErrSealedOnly):
		return k, sealedOnly()
	case errors.Is(err, vaultwire.ErrCredential):
		return k, otherCredential(err)
	case errors.Is(err, vaultwire.ErrEpoch):
		return k, fault.New(wire.CodeEpoch, "the session was sealed for epoch %d, which the service does not open: "+
			"ask for its capabilities, and seal it again", key.Opening.For.Epoch)
	case errors.Is(err, vaultwire.ErrSealed):
		return k, fault.New(wire.CodeValidation, "opening: it does not open for this service and account")
	case err != nil:
		return k, err
	case stored.disabled:
		return k, accountDisabled(key.Account)
	}
	k.token, k.hash = string(issued.Text), sha256.Sum256(issued.Text)
	return k, nil
}

func sealedOnly() error {
	return fault.New(wire.CodeSealedOnly, "Auth failed: the API key of this account is taken sealed alone: use svcfs, "+
		"or ask the operator for another key (svcd account rotate-key NAME)")
}

// ByKey returns the session of a request that has the API key itself. The vault is asked for a token once, as clients
// send the same key with each request.
func (t *Tokens) ByKey(ctx context.Context, account, key string) (*Session, error) {
	hash := sha256.Sum256([]byte("key\n" + account + "\n" + key))
	k, ok := t.knownAs(hash)
	if !ok || k.ended {
		done, err := t.ask(ctx)
		if err != nil {
			return nil, err
		}
		defer done()
		issued, err := t.signIn(ctx, Key{Account: account, Clear: key})
		if err != nil {
			return nil, err
		}
		k, k.hash, k.byKey = issued, hash, true
		t.remember(k)
	}
	return &Session{Account: account, known: k, tokens: t, token: k.token}, nil
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
	Account   string
	known     known
	token     string
	tokens    *Tokens             // nil = it was checked, see [Checked]
	asked     *wire.ProvenRequest // of a sealed session; nil = the vault vouches for none of what it asks
	askedBody func() []byte
}

// Token is the token of the session, which the vault wants to see before it gives the key of a file out.
func (s *Session) Token() vaultwire.Secret { return vaultwire.Secret(s.token) }

// Refused is an error of the vault. If it is about the session, that is forgotten: the vault has other keys by now.
func (s *Session) Refused(err error) error {
	if s.tokens != nil && errors.As(err, new(*vaultwire.TokenError)) {
		s.tokens.mu.Lock()
		delete(s.tokens.known, s.known.hash)
		s.tokens.mu.Unlock()
	}
	if errors.Is(err, vaultwire.ErrSealedOnly) {
		return fault.New(wire.CodeSealedOnly, "not authorized: this key is given sealed alone, such as that of a file "+
			"whose group had it so when the file was saved: use svcfs")
	}
	if errors.Is(err, vaultwire.ErrNoMember) {
		return fault.New(wire.CodeNotAuthorized, "User not authorized: this account is no member of the group, as its "+
			"records say: ask the owner of the group to revoke it, if it is shown there, and to add it")
	}
	return refusedToken(err)
}

// IsSealed reports whether the vault seals keys of files for the session.
func (s *Session) IsSealed() bool { return s.known.Request != nil }

// RequestKey is what proves who sends a request, see [wire.HeaderProof]; nil = the session has none.
func (s *Session) RequestKey() []byte { return s.known.Request }

// Open returns the session of a token, of which it requires what [Tokens.Verify] does, but for the account's key,
// unless that was wrong before. Whoever opens a session has it checked before it reads or changes anything for the
// account.
func (t *Tokens) Open(ctx context.Context, token string) (*Session, error) {
	done, err := t.mayOpen(ctx, token)
	if err != nil {
		return nil, err
	}
	defer done()
	s, err := t.open(ctx, token)
	if err == nil && s.known.ended {
		err = s.Look(ctx)
	}
	return s, err
}

// mayOpen asks before a token is opened that is not known to be good.
func (t *Tokens) mayOpen(ctx context.Context, token string) (done func(), err error) {
	if k, ok := t.knownAs(sha256.Sum256([]byte(token))); ok && !k.ended {
		return func() {}, nil
	}
	return t.ask(ctx)
}

// Checked returns the session of an account that was checked.
func Checked(account string) *Session { return &Session{Account: account} }

func (t *Tokens) open(ctx context.Context, token string) (*Session, error) {
	k, err := t.claimsOf(ctx, token)
	if err != nil {
		return nil, t.failed(ctx, err)
	}
	if k.Page != "" {
		return nil, t.failed(ctx, invalidToken("the token is that of the account page"))
	}
	return &Session{Account: k.Account, known: k, tokens: t, token: token}, nil
}

// Look is [Session.Check] by itself.
func (s *Session) Look(ctx context.Context) error {
	if s.tokens == nil {
		return nil
	}
	return s.tokens.accounts.store.Look(ctx, func(tx *store.Tx) error { return s.Check(ctx, tx) })
}

// Guard has each write of the request [Session.Check] it, and the vault vouch for its records. Its reads are counted
// as those of the account.
func (s *Session) Guard(ctx context.Context) {
	store.SetGuard(ctx, s.Account, s.Asks(), s.Check)
	s.vouchBy(ctx, s.tokens.accounts.vault)
}

// Asked has the vault be shown a request of a sealed session, when it is to vouch for a record. body is called when the
// body was read.
func (s *Session) Asked(asked wire.ProvenRequest, body func() []byte) {
	s.asked, s.askedBody = &asked, body
}

// vouchBy has a vault vouch for the records of the request.
func (s *Session) vouchBy(ctx context.Context, v Vault) {
	by := ledger.Voucher{Vouch: func(ctx context.Context, r chain.Record) (string, error) {
		q := vaultwire.Vouch{Record: r, Token: s.Token()}
		if s.asked != nil {
			q.Asked = &vaultwire.Asked{ProvenRequest: *s.asked, JSON: s.askedBody()}
		}
		a, err := v.Vouch(ctx, q)
		if errors.Is(err, vaultwire.ErrNotVouched) {
			err = notVouched(&r)
		}
		return a.Word, s.Refused(err)
	}}
	if s.asked != nil {
		by.InviteID = vaultwire.InviteID(s.asked.ForVault)
	}
	ledger.VouchBy(ctx, by)
}

func notVouched(r *chain.Record) error {
	if r.Kind == chain.KindAdd {
		return fault.New(wire.CodeNotAuthorized, "not authorized: the vault does not find that this request asks for "+
			"the member %s: give the whole id of the member, and ask again", r.Detail)
	}
	return fault.New(wire.CodeNotAuthorized, "not authorized: the vault does not find that this request asks for the "+
		"change: ask again; if this stays, sign in again, with the newest svcfs")
}

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
	case (!key.found || key.generation != s.known.Generation) && s.known.byKey:
		err = fault.New(wire.CodeInvalidKey, "Invalid API key")
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
	k, ok := t.knownAs(hash)
	if ok {
		return k, nil
	}
	c, err := t.accounts.vault.OpenToken(ctx, vaultwire.OpenToken{Token: []byte(token), Address: t.address})
	k = known{Claims: c, hash: hash}
	if err != nil || c.Undated {
		return k, refusedToken(err)
	}
	t.remember(k)
	return k, nil
}

// knownAs returns what is remembered of a credential that is good now, except for the account's key.
func (t *Tokens) knownAs(hash [sha256.Size]byte) (k known, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k, ok = t.known[hash]
	return k, ok && t.isNow(k)
}

func (t *Tokens) isNow(k known) bool {
	now := t.now()
	// the token of a key that comes with each request does not leave the service
	return now.Before(k.Expires.Add(vaultwire.TokenLeeway)) &&
		(k.byKey || !now.Before(k.Issued.Add(-vaultwire.TokenLeeway)))
}

// known is what is remembered of a token.
type known struct {
	vaultwire.Claims
	hash  [sha256.Size]byte // of the token, or of the API key
	token string            // of an API key that comes with each request
	byKey bool
	ended bool // it was refused for the key of its account
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
