package vault

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/svcfs/svcfs/service/vaultwire"
)

const tokenType = "svc_session"

// claims are those of the specification 2.5, the hosted service's iss, sub and
// type, and the generation of the API key the token was made with.
type claims struct {
	AccountID  string `json:"account_id"`
	Type       string `json:"type"`
	Generation int64  `json:"gen"`
	jwt.RegisteredClaims
}

// IssueToken implements [vaultwire.Vault]: HS256.
func (v *Vault) IssueToken(_ context.Context, q vaultwire.Claims) (a vaultwire.Text, err error) {
	k, err := v.lasting(vaultwire.PurposeTokens)
	if err != nil {
		return a, err
	}
	if life := q.Expires.Sub(q.Issued); life <= 0 || life > vaultwire.MaxTokenLifetime {
		return a, fmt.Errorf("sign token: it would be good for %s", life)
	}
	// A map, because aud is one string, as the hosted service writes it.
	c := jwt.MapClaims{"account_id": q.Account, "type": tokenType, "gen": q.Generation, "iss": q.Address,
		"sub": "apikey|" + q.Account, "aud": q.Address, "iat": q.Issued.Unix(), "exp": q.Expires.Unix()}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(k.raw.Slice())
	if err != nil {
		return a, fmt.Errorf("sign token: %w", err)
	}
	a.Text = []byte(token)
	return a, nil
}

// OpenToken implements [vaultwire.Vault]. Everything is required: signature, algorithm, issuer, audience, times and
// type. Errors: [vaultwire.TokenError].
func (v *Vault) OpenToken(_ context.Context, q vaultwire.OpenToken) (a vaultwire.Claims, err error) {
	k, err := v.lasting(vaultwire.PurposeTokens)
	if err != nil {
		return a, err
	}
	var c claims
	_, err = jwt.ParseWithClaims(string(q.Token), &c, func(*jwt.Token) (any, error) { return k.raw.Slice(), nil },
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}), jwt.WithAudience(q.Address),
		jwt.WithIssuer(q.Address), jwt.WithExpirationRequired(), jwt.WithIssuedAt(),
		jwt.WithLeeway(vaultwire.TokenLeeway), jwt.WithStrictDecoding(), jwt.WithTimeFunc(v.now))
	const invalid = "invalid session token"
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return a, &vaultwire.TokenError{Text: invalid}
	case errors.Is(err, jwt.ErrTokenInvalidAudience) || errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return a, &vaultwire.TokenError{Audience: true, Text: "the token was made for another service address"}
	case err != nil:
		return a, &vaultwire.TokenError{Text: invalid}
	case !hasPlainTimes(string(q.Token)):
		return a, &vaultwire.TokenError{Text: invalid}
	case len(c.Audience) != 1:
		return a, &vaultwire.TokenError{Audience: true, Text: "the token names several addresses"}
	case c.Type != tokenType || c.AccountID == "" || c.IssuedAt == nil:
		return a, &vaultwire.TokenError{Text: "not a session token of this service"}
	case c.ExpiresAt.Sub(c.IssuedAt.Time) > vaultwire.MaxTokenLifetime:
		return a, &vaultwire.TokenError{Text: invalid}
	}
	return vaultwire.Claims{Account: c.AccountID, Generation: c.Generation, Address: q.Address, Issued: c.IssuedAt.Time,
		Expires: c.ExpiresAt.Time, Undated: c.NotBefore != nil}, nil
}

// hasPlainTimes reports whether exp and iat are JSON numbers (RFC 7519 section
// 2): the library also takes strings.
func hasPlainTimes(token string) bool {
	_, rest, _ := strings.Cut(token, ".")
	body, _, _ := strings.Cut(rest, ".")
	raw, err := base64.RawURLEncoding.DecodeString(body)
	var times struct {
		Exp float64 `json:"exp"`
		Iat float64 `json:"iat"`
	}
	return err == nil && json.Unmarshal(raw, &times) == nil
}
