package call

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"

	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/wire"
)

const (
	// refreshMargin is how long before its expiry a token is replaced. A short-lived token
	// is replaced after four fifths of its life.
	refreshMargin = 5 * time.Minute
	// keyPause is the least time between two questions for a new API key.
	keyPause = 2 * time.Second
	// maxKeyPause is the longest time before a refused API key is tried again.
	maxKeyPause      = time.Minute
	unparsedLifetime = 23 * time.Hour // for an expires_in in an unknown form
	absentLifetime   = 24 * time.Hour // without expires_in
	longestLifetime  = 365 * 24 * time.Hour
)

// grant is a session token, and what proves that a request is of its session.
type grant struct {
	token  locked.Secret
	proof  *wire.ProofKeys // nil = a request needs no proof
	issued time.Time       // the token, by the clock of the service
	at     time.Time       // when it came
}

// tokenSource keeps a session token until shortly before its expiry. It fetches a new token
// once for all callers that wait.
type tokenSource struct {
	c         *Caller
	refreshes singleflight.Group

	mu sync.Mutex
	grant
	old       locked.Secret // the previous token, which calls in progress may still carry
	refreshAt time.Time
	key       locked.Secret // the API key
	oldKey    locked.Secret // the previous one
	refusal   refusal
}

// get returns a token that does not expire soon. stale, unless zero, is a token that the
// service refused: get replaces it even if it looks valid. A refresh continues when the
// caller that started it gives up.
func (s *tokenSource) get(ctx context.Context, stale locked.Secret) (grant, error) {
	if g, good := s.kept(stale); good {
		return g, nil
	}
	renewed := s.refreshes.DoChan("", func() (any, error) {
		if g, good := s.kept(stale); good { // another caller refreshed it just now
			return g, nil
		}
		return s.refresh(context.WithoutCancel(ctx))
	})
	select {
	case r := <-renewed:
		g, _ := r.Val.(grant)
		return g, r.Err // even if its life is so short that its refresh is due
	case <-ctx.Done():
		return grant{}, Ended(ctx)
	}
}

// kept returns the kept token, and whether it is still good.
func (s *tokenSource) kept(stale locked.Secret) (grant, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant, !s.token.IsZero() && s.token != stale && time.Now().Before(s.refreshAt)
}

func (s *tokenSource) refresh(ctx context.Context) (grant, error) {
	ctx, cancel := context.WithTimeout(NotBridging(ctx), s.c.cfg.Timeout)
	defer cancel()
	key, refused := s.apiKey()
	var granted grant
	var life time.Duration
	var err error
	if refused == nil {
		granted, life, err = s.fetch(ctx, key)
		if isKeyRefused(err) && s.c.cfg.NewKey != nil {
			refused = s.refuse(err)
		}
	}
	if refused != nil {
		key, granted, life, err = s.fetchAnew(ctx, key, refused)
	}
	if err != nil {
		return grant{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.token.IsZero() && s.token.Reveal() != granted.token.Reveal() {
		s.old = s.token
	}
	if key != s.key {
		s.key, s.oldKey = key, s.key
	}
	s.refusal = refusal{}
	s.grant, s.refreshAt = granted, time.Now().Add(life-min(refreshMargin, life/5))
	return granted, nil
}

// apiKey returns the key, and why it is not worth trying now.
func (s *tokenSource) apiKey() (locked.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.refusal.until) {
		return s.key, s.refusal.err
	}
	return s.key, nil
}

// refusal is what a caller with Config.NewKey remembers of keys that the service refused. It
// tries them again after a pause only: a service makes an account wait after too many wrong keys.
// The zero value means that the key is good, as far as is known.
type refusal struct {
	err   error         // of the key, and why no other was taken
	cause error         // of the key alone
	other locked.Secret // a key of Config.NewKey that was refused as well
	until time.Time     // then they are tried again
	pause time.Duration // before that
	asked time.Time     // when Config.NewKey was asked last
}

// refuse remembers that the service refused the key.
func (s *tokenSource) refuse(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.refusal
	r.pause = min(max(2*r.pause, keyPause), maxKeyPause)
	r.err, r.cause, r.other, r.until = err, err, locked.Secret{}, time.Now().Add(r.pause)
	return err
}

// fetchAnew exchanges the key that the account has now for a token, after the service
// refused the key that the caller has. refused is the error if there is no other key.
func (s *tokenSource) fetchAnew(ctx context.Context, key locked.Secret, refused error) (taken locked.Secret,
	granted grant, life time.Duration, err error) {
	other, due := s.askForKey()
	if !due {
		return key, grant{}, 0, refused
	}
	now, why := s.c.cfg.NewKey(ctx)
	switch {
	case why != nil:
	case now.IsZero() || now.Reveal() == key.Reveal():
		why = errors.New("the same key is still there")
	case !FitsHeader(now.Reveal()):
		why = errors.New("what is there now is no API key")
	default:
		if now.Reveal() != other.Reveal() {
			s.noteOther(now) // an answer could repeat it
			granted, life, err = s.fetch(ctx, now)
			if !isKeyRefused(err) {
				s.noteOther(locked.Secret{}) // not refused
				return now, granted, life, err
			}
		}
		why = fmt.Errorf("the key that is there now is not one of %s, or revoked too", s.c.cfg.Account)
	}
	return key, grant{}, 0, s.explain(why)
}

// askForKey reports whether Config.NewKey is to be asked, and notes that it is. other is a
// key that it gave before, and that was refused.
func (s *tokenSource) askForKey() (other locked.Secret, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.refusal.asked) < keyPause {
		return locked.Secret{}, false
	}
	s.refusal.asked = now
	return s.refusal.other, true
}

func (s *tokenSource) noteOther(key locked.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal.other = key
}

// explain adds to the refusal of the key why no other was taken.
func (s *tokenSource) explain(why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &SignInError{Refused: true, Err: s.refusal.cause}
	var refused *SignInError
	if errors.As(e.Err, &refused) {
		e.Code, e.Err = refused.Code, refused.Err
	}
	e.Err = fmt.Errorf("%w; the key was read again: %w", e.Err, why)
	s.refusal.err = e
	return e
}

// used returns the keys and tokens that a hostile answer could repeat.
func (s *tokenSource) used() []locked.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []locked.Secret{s.token, s.old, s.key, s.oldKey, s.refusal.other}
}

// fetch exchanges the API key for a session token (specification 4.1).
func (s *tokenSource) fetch(ctx context.Context, key locked.Secret) (g grant, life time.Duration, err error) {
	if key.IsZero() {
		return g, 0, &SignInError{Code: wire.CodeAuthRequired, Refused: true, Err: errors.New("no API key")}
	}
	var begun *Begun
	for again := false; ; again = true { // once more where the service does not open the session
		if s.c.cfg.Begin != nil {
			if begun, err = s.c.cfg.Begin(ctx, key, again); err != nil {
				return g, 0, err
			}
		}
		g, life, err = s.exchange(ctx, key, begun)
		var refused *Refusal
		if begun == nil || again || !errors.As(err, &refused) || refused.Code != wire.CodeEpoch {
			return g, life, err
		}
	}
}

// exchange asks for a token with an API key, or with the session that began with it.
func (s *tokenSource) exchange(ctx context.Context, key locked.Secret, begun *Begun) (g grant, life time.Duration,
	err error) {
	var answer struct {
		Token     string          `json:"token"`
		AccountID string          `json:"account_id"`
		ExpiresIn json.RawMessage `json:"expires_in"`
	}
	header := http.Header{}
	if begun == nil {
		header.Set(wire.HeaderAPIKey, key.Reveal())
	} else {
		header.Set(wire.HeaderOpening, begun.Opening.String())
		g.proof = &begun.Proof
	}
	err = s.c.Do(ctx, Call{URL: s.c.cfg.AuthURL + wire.PathSessionToken, Header: header,
		Request: wire.SessionTokenRequest{AccountID: s.c.cfg.Account}, Answer: Document(&answer)})
	if err != nil {
		var refused *Refusal
		bad := errors.As(err, &refused) && refused.BadKey
		return grant{}, 0, &SignInError{Refused: bad, Err: s.c.Scrubbed(WithoutURL(err))}
	}
	if answer.Token == "" || !FitsHeader(answer.Token) {
		return grant{}, 0, &SignInError{Refused: true, Err: errors.New("the answer has no valid token")}
	}
	life = lifetime(answer.ExpiresIn)
	issued, exp := timesOf(answer.Token)
	if exp > 0 {
		life = min(life, exp)
	}
	g.token, g.issued, g.at = locked.NewSecret(answer.Token), issued, time.Now()
	return g, life, nil
}

// lifetime reads expires_in: digits with h, m, d or s, or a number of seconds. For anything
// else it returns the values of the JavaScript SDK.
func lifetime(raw json.RawMessage) time.Duration {
	if len(raw) == 0 || string(raw) == "null" {
		return absentLifetime
	}
	var seconds float64
	if json.Unmarshal(raw, &seconds) == nil && seconds > 0 {
		return time.Duration(min(seconds, longestLifetime.Seconds()) * float64(time.Second))
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return unparsedLifetime
	}
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	if text == "" {
		return unparsedLifetime
	}
	last := len(text) - 1
	n, err := strconv.ParseUint(text[:last], 10, 31)
	unit, known := units[text[last]]
	if err != nil || !known {
		return unparsedLifetime
	}
	return min(time.Duration(n), longestLifetime/unit) * unit
}

// timesOf returns the time of a token and its life, from its claims exp and iat; 0 = it says none. The client cannot
// verify the token, and need not: a forged life only makes the next refresh earlier. The
// local clock is not used, so that a wrong clock does no harm.
func timesOf(token string) (issued time.Time, life time.Duration) {
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil || claims.ExpiresAt == nil ||
		claims.IssuedAt == nil {
		return issued, 0
	}
	return claims.IssuedAt.Time, max(claims.ExpiresAt.Sub(claims.IssuedAt.Time), 0)
}

// RefreshToken forces a new session token.
func (c *Caller) RefreshToken(ctx context.Context) error {
	c.tokens.mu.Lock()
	current := c.tokens.token
	c.tokens.mu.Unlock()
	_, err := c.tokens.get(ctx, current)
	return err
}
