package sdk

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

// tokenSource keeps a session token until shortly before its expiry. It fetches a new token
// once for all callers that wait.
type tokenSource struct {
	client    *Client
	refreshes singleflight.Group

	mu        sync.Mutex
	token     Secret
	old       Secret // the previous token, which calls in progress may still carry
	refreshAt time.Time
	key       Secret // the API key
	oldKey    Secret // the previous one
	refusal   refusal
}

// get returns a token that does not expire soon. stale, unless zero, is a token that the
// service refused: get replaces it even if it looks valid. A refresh continues when the
// caller that started it gives up.
func (s *tokenSource) get(ctx context.Context, stale Secret) (Secret, error) {
	if token, good := s.kept(stale); good {
		return token, nil
	}
	renewed := s.refreshes.DoChan("", func() (any, error) {
		if token, good := s.kept(stale); good { // another caller refreshed it just now
			return token, nil
		}
		return s.refresh(context.WithoutCancel(ctx))
	})
	select {
	case r := <-renewed:
		token, _ := r.Val.(Secret)
		return token, r.Err // even if its life is so short that its refresh is due
	case <-ctx.Done():
		return Secret{}, ended(ctx)
	}
}

// kept returns the kept token, and whether it is still good.
func (s *tokenSource) kept(stale Secret) (Secret, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token, !s.token.IsZero() && s.token != stale && time.Now().Before(s.refreshAt)
}

func (s *tokenSource) refresh(ctx context.Context) (Secret, error) {
	ctx, cancel := context.WithTimeout(notBridging(ctx), s.client.cfg.Timeout)
	defer cancel()
	key, refused := s.apiKey()
	var token Secret
	var life time.Duration
	var err error
	if refused == nil {
		token, life, err = s.fetch(ctx, key)
		if KindOf(err) == ErrUnauthenticated && s.client.cfg.NewKey != nil {
			refused = s.refuse(err)
		}
	}
	if refused != nil {
		key, token, life, err = s.fetchAnew(ctx, key, refused)
	}
	if err != nil {
		return Secret{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.token.IsZero() && s.token.Reveal() != token.Reveal() {
		s.old = s.token
	}
	if key != s.key {
		s.key, s.oldKey = key, s.key
	}
	s.refusal = refusal{}
	s.token, s.refreshAt = token, time.Now().Add(life-min(refreshMargin, life/5))
	return token, nil
}

// apiKey returns the key, and why it is not worth trying now.
func (s *tokenSource) apiKey() (Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Now().Before(s.refusal.until) {
		return s.key, s.refusal.err
	}
	return s.key, nil
}

// fetch exchanges a key for a token.
func (s *tokenSource) fetch(ctx context.Context, key Secret) (token Secret, life time.Duration, err error) {
	err = s.client.retry(ctx, func(ctx context.Context) (err error) {
		token, life, err = s.client.fetchToken(ctx, key)
		return err
	})
	return token, life, err
}

// refusal is what a client with Config.NewKey remembers of keys that the service refused. It
// tries them again after a pause only: a service makes an account wait after too many wrong keys.
// The zero value means that the key is good, as far as is known.
type refusal struct {
	err   error         // of the key, and why no other was taken
	cause error         // of the key alone
	other Secret        // a key of Config.NewKey that was refused as well
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
	r.err, r.cause, r.other, r.until = err, err, Secret{}, time.Now().Add(r.pause)
	return err
}

// fetchAnew exchanges the key that the account has now for a token, after the service
// refused the key that the client has. refused is the error if there is no other key.
func (s *tokenSource) fetchAnew(ctx context.Context, key Secret, refused error) (taken, token Secret, life time.Duration, err error) {
	other, due := s.askForKey()
	if !due {
		return key, Secret{}, 0, refused
	}
	now, why := s.client.cfg.NewKey(ctx)
	switch {
	case why != nil:
	case now.IsZero() || now.Reveal() == key.Reveal():
		why = errors.New("the same key is still there")
	case !fitsHeader(now.Reveal()):
		why = errors.New("what is there now is no API key")
	default:
		if now.Reveal() != other.Reveal() {
			s.noteOther(now) // an answer could repeat it
			token, life, err = s.fetch(ctx, now)
			if KindOf(err) != ErrUnauthenticated {
				s.noteOther(Secret{}) // not refused
				return now, token, life, err
			}
		}
		why = fmt.Errorf("the key that is there now is not one of %s, or revoked too", s.client.account)
	}
	return key, Secret{}, 0, s.explain(why)
}

// askForKey reports whether Config.NewKey is to be asked, and notes that it is. other is a
// key that it gave before, and that was refused.
func (s *tokenSource) askForKey() (other Secret, due bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.refusal.asked) < keyPause {
		return Secret{}, false
	}
	s.refusal.asked = now
	return s.refusal.other, true
}

func (s *tokenSource) noteOther(key Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refusal.other = key
}

// explain adds to the refusal of the key why no other was taken.
func (s *tokenSource) explain(why error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	code, cause := "", s.refusal.cause
	var e *Error
	if errors.As(cause, &e) && e.Err != nil {
		code, cause = e.Code, e.Err
	}
	s.refusal.err = &Error{Op: opSignIn, Kind: ErrUnauthenticated, Code: code, Err: fmt.Errorf("%w; the key was read again: %w", cause, why)}
	return s.refusal.err
}

// used returns the keys and tokens that a hostile answer could repeat.
func (s *tokenSource) used() []Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []Secret{s.token, s.old, s.key, s.oldKey, s.refusal.other}
}

const opSignIn = "get session token"

// fetchToken exchanges the API key for a session token (specification 4.1).
func (c *Client) fetchToken(ctx context.Context, key Secret) (Secret, time.Duration, error) {
	if key.IsZero() {
		return Secret{}, 0, &Error{Op: opSignIn, Kind: ErrUnauthenticated, Code: wire.CodeAuthRequired, Err: errors.New("no API key")}
	}
	var answer struct {
		Token     string          `json:"token"`
		AccountID string          `json:"account_id"`
		ExpiresIn json.RawMessage `json:"expires_in"`
	}
	header := http.Header{}
	header.Set(wire.HeaderAPIKey, key.Reveal())
	raw, err := c.post(ctx, c.cfg.AuthURL+wire.PathSessionToken, c.cfg.Timeout, header, wire.SessionTokenRequest{AccountID: string(c.account)})
	if err == nil {
		err = decode(raw, &answer)
	}
	if err != nil {
		return Secret{}, 0, withCode(ErrNotFound, wire.CodeAccountUnknown, c.wrap(opSignIn, "", "", err))
	}
	if answer.Token == "" || !fitsHeader(answer.Token) {
		return Secret{}, 0, &Error{Op: opSignIn, Kind: ErrUnauthenticated, Err: errors.New("the answer has no valid token")}
	}
	life := lifetime(answer.ExpiresIn)
	if exp, ok := expiryOf(answer.Token); ok {
		life = min(life, exp)
	}
	return NewSecret(answer.Token), life, nil
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

// expiryOf returns the life of a token from its claims exp and iat. The client cannot
// verify the token, and need not: a forged life only makes the next refresh earlier. The
// local clock is not used, so that a wrong clock does no harm.
func expiryOf(token string) (time.Duration, bool) {
	var claims jwt.RegisteredClaims
	if _, _, err := jwt.NewParser().ParseUnverified(token, &claims); err != nil || claims.ExpiresAt == nil || claims.IssuedAt == nil {
		return 0, false
	}
	life := claims.ExpiresAt.Sub(claims.IssuedAt.Time)
	return life, life > 0
}

// RefreshToken forces a new session token. It is rarely needed: every call refreshes a
// token that is about to expire. Free; needs the API key. Errors: [ErrUnauthenticated],
// [ErrNotFound] with the code [wire.CodeAccountUnknown] for an account that does not
// exist, [ErrUnavailable], [ErrTimeout]. Specification 4.2 (refreshToken).
func (c *Client) RefreshToken(ctx context.Context) error {
	c.tokens.mu.Lock()
	current := c.tokens.token
	c.tokens.mu.Unlock()
	if _, err := c.tokens.get(ctx, current); err != nil {
		return c.wrap("refresh token", "", "", err)
	}
	return nil
}
