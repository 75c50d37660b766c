package sdk

import (
	"context"
	"encoding/json"
	"errors"
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
	refreshMargin    = 5 * time.Minute
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
	var token Secret
	var life time.Duration
	err := s.client.retry(ctx, func(ctx context.Context) (err error) {
		token, life, err = s.client.fetchToken(ctx)
		return err
	})
	if err != nil {
		return Secret{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.token.IsZero() && s.token.Reveal() != token.Reveal() {
		s.old = s.token
	}
	s.token, s.refreshAt = token, time.Now().Add(life-min(refreshMargin, life/5))
	return token, nil
}

// used returns the tokens that a hostile answer could repeat.
func (s *tokenSource) used() []Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return []Secret{s.token, s.old}
}

const opSignIn = "get session token"

// fetchToken exchanges the API key for a session token (specification 4.1).
func (c *Client) fetchToken(ctx context.Context) (Secret, time.Duration, error) {
	if c.cfg.APIKey.IsZero() {
		return Secret{}, 0, &Error{Op: opSignIn, Kind: ErrUnauthenticated, Code: wire.CodeAuthRequired, Err: errors.New("no API key")}
	}
	var answer struct {
		Token     string          `json:"token"`
		AccountID string          `json:"account_id"`
		ExpiresIn json.RawMessage `json:"expires_in"`
	}
	header := http.Header{}
	header.Set(wire.HeaderAPIKey, c.cfg.APIKey.Reveal())
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
