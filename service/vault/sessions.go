package vault

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/golang-jwt/jwt/v5"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	tokenType = "svc_session"
	pageType  = "svc_page"
)

const (
	// maxSessions bounds the sessions whose tokens are remembered: to read a token takes longer than to open a key.
	maxSessions = 4096
	// maxCredentials bounds the accounts of which the newest credential is remembered.
	maxCredentials = 1 << 16
)

// MakeKey implements [vaultwire.Vault].
func (v *Vault) MakeKey(_ context.Context, q vaultwire.MakeKey) (a vaultwire.MadeKey, err error) {
	made := v.now()
	if len(q.Before) > 0 {
		if err := v.isOurs(q.Account, q.Before); err != nil {
			return a, err
		}
		if next := q.Before.Made().Add(1); made.Before(next) { // a clock that was set back
			made = next
		}
	}
	if q.NoKey {
		a.Credential, err = v.credential(q.Account, vaultwire.NewCredential(made, make([]byte, sha256.Size), false))
		return a, err
	}
	raw := make([]byte, keyBytes)
	_, _ = rand.Read(raw) // never fails
	key := []byte(vaultwire.APIKeyPrefix + base64.RawURLEncoding.EncodeToString(raw))
	clear(raw)
	defer clear(key)
	hash := sha256.Sum256(key)
	a.Credential, err = v.credential(q.Account, vaultwire.NewCredential(made, hash[:], false))
	a.Held = v.hold.Seal(nil, nil, key, heldFor(q.Account))
	return a, err
}

// credential adds the HMAC of the vault.
func (v *Vault) credential(account string, c vaultwire.Credential) (vaultwire.Credential, error) {
	if len(account) > maxNameBytes {
		return nil, fmt.Errorf("an account whose name has %d bytes: %w", len(account), vaultwire.ErrCredential)
	}
	k, err := v.newest(vaultwire.PurposeCredentials)
	if err != nil {
		return nil, err
	}
	return append(c, credentialMAC(k, account, c)...), nil
}

func credentialMAC(k serviceKey, account string, c vaultwire.Credential) []byte {
	mac := hmac.New(sha256.New, k.raw.Slice())
	mac.Write(c.Text(account))
	return mac.Sum(nil)
}

func heldFor(account string) []byte { return []byte("svc-api-key-1\n" + account) }

// TakeKey implements [vaultwire.Vault].
func (v *Vault) TakeKey(_ context.Context, q vaultwire.TakeKey) (a vaultwire.Opened, err error) {
	if err := vaultwire.CheckRecord(&q.Record, q.Record.Account, chain.KindCreateAccount,
		chain.KindRotateKey); err != nil {
		return a, err
	}
	key, err := v.hold.Open(nil, nil, q.Held, heldFor(q.Record.Account))
	if err != nil || len(key) == keyBytes {
		return a, fmt.Errorf("give an API key: %w", vaultwire.ErrHeld)
	}
	if err := v.opens.use(&q.Record, v.now(), notCounted, nil); err != nil {
		clear(key)
		return a, err
	}
	a.Key = key
	return a, nil
}

// SealOnly implements [vaultwire.Vault].
func (v *Vault) SealOnly(_ context.Context, q vaultwire.SealOnly) (a vaultwire.MadeKey, err error) {
	if err := v.isOurs(q.Account, q.Credential); err != nil {
		return a, err
	}
	a.Credential, err = v.credential(q.Account, vaultwire.NewCredential(q.Credential.Made(), q.Credential.Hash(), true))
	return a, err
}

// isOurs checks that a credential is of this vault, and none from before the newest of its account that the vault
// believes, see [Vault.believes].
func (v *Vault) isOurs(account string, c vaultwire.Credential) error {
	if len(c) != vaultwire.CredentialBytes {
		return fmt.Errorf("a credential of %d bytes: %w", len(c), vaultwire.ErrCredential)
	}
	ours := false
	for _, k := range v.versions(vaultwire.PurposeCredentials) {
		ours = ours || hmac.Equal(c.MAC(), credentialMAC(k, account, c))
	}
	v.comparing.Lock()
	defer v.comparing.Unlock()
	newest, seen := v.credentials.Get(sha256.Sum256([]byte(account)))
	if !ours || seen && (c.Made().Before(newest.Made()) || newest.SealedOnly() && !c.SealedOnly() &&
		c.Made().Equal(newest.Made())) {
		return fmt.Errorf("the credential of %.80q: %w", account, vaultwire.ErrCredential)
	}
	return nil
}

// believes has a credential be the newest of its account: somebody has its key, or there is a record.
func (v *Vault) believes(account string, c vaultwire.Credential) {
	v.comparing.Lock()
	defer v.comparing.Unlock()
	if newest, seen := v.credentials.Get(sha256.Sum256([]byte(account))); !seen || !c.Made().Before(newest.Made()) {
		v.credentials.Add(sha256.Sum256([]byte(account)), c)
	}
}

// checkKey checks the API key of an account. It is as much work for an account without one.
func (v *Vault) checkKey(account string, c vaultwire.Credential, key []byte) error {
	hash := sha256.Sum256(key)
	if len(c) == 0 {
		c = make(vaultwire.Credential, vaultwire.CredentialBytes)
		_ = v.isOurs(account, c)
	} else if err := v.isOurs(account, c); err != nil {
		return err
	}
	if !hmac.Equal(hash[:], c.Hash()) { // nobody has the key whose hash is zeros
		return vaultwire.ErrWrongKey
	}
	v.believes(account, c)
	return nil
}

// claims are those of the specification 2.5, the hosted service's iss, sub and
// type, the generation of the API key the token was made with, and of a sealed session its secret, sealed for the vault
// (RFC 7800, section 3.3).
type claims struct {
	AccountID    string `json:"account_id"`
	Type         string `json:"type"`
	Generation   int64  `json:"gen"`
	Confirmation *struct {
		Sealed []byte `json:"svc_sealed"`
	} `json:"cnf"`
	jwt.RegisteredClaims
}

// IssueToken implements [vaultwire.Vault]: HS256.
func (v *Vault) IssueToken(_ context.Context, q vaultwire.IssueToken) (a vaultwire.Text, err error) {
	k, err := v.lasting(vaultwire.PurposeTokens)
	if err != nil {
		return a, err
	}
	if q.Issued.After(v.now().Add(vaultwire.TokenLeeway)) { // a client dates its proofs by it
		return a, errors.New("sign token: it is of a time to come")
	}
	if life := q.Expires.Sub(q.Issued); life <= 0 || life > vaultwire.MaxTokenLifetime {
		return a, fmt.Errorf("sign token: it would be good for %s", life)
	}
	// A map, because aud is one string, as the hosted service writes it.
	c := jwt.MapClaims{"account_id": q.Account, "type": tokenType, "gen": q.Generation, "iss": q.Address,
		"sub": "apikey|" + q.Account, "aud": q.Address, "iat": q.Issued.Unix(), "exp": q.Expires.Unix()}
	switch {
	case q.SignIn != nil:
		err = v.signIn(q)
		c["type"], c["sub"], c["jti"] = pageType, "page|"+q.Account, q.Page
	case q.Opening != nil:
		var sealed []byte
		if sealed, err = v.begin(q, k); err == nil {
			c["cnf"] = map[string]any{"svc_sealed": sealed}
		}
	case q.Credential.SealedOnly():
		err = vaultwire.ErrSealedOnly
	default:
		err = v.checkKey(q.Account, q.Credential, q.Key)
	}
	if err != nil {
		return a, err
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, c).SignedString(k.raw.Slice())
	if err != nil {
		return a, fmt.Errorf("sign token: %w", err)
	}
	if len(token) > wire.MaxTokenBytes { // or svcd would have what it says of an account kept for each of maxSessions
		return a, fmt.Errorf("sign token: it would have %d bytes, at most %d are allowed", len(token),
			wire.MaxTokenBytes)
	}
	a.Text = []byte(token)
	return a, nil
}

// signIn checks a sign-in at the account page, of which the record alone says that the account asked for it.
func (v *Vault) signIn(q vaultwire.IssueToken) error {
	switch err := vaultwire.CheckRecord(q.SignIn, q.Account, chain.KindSignIn); {
	case err != nil:
		return err
	case q.Page == "":
		return errors.New("sign token: the session of the page has no id")
	}
	if err := v.isOurs(q.Account, q.Credential); err != nil {
		return err
	}
	if q.Credential.SealedOnly() {
		return vaultwire.ErrSealedOnly
	}
	if err := v.opens.use(q.SignIn, v.now(), notCounted, nil); err != nil {
		return err
	}
	v.believes(q.Account, q.Credential)
	return nil
}

// begin begins a sealed session, and returns its secret, sealed for the vault.
func (v *Vault) begin(q vaultwire.IssueToken, tokens serviceKey) ([]byte, error) {
	if q.Opening.For.Account != q.Account {
		return nil, fmt.Errorf("a session of another account: %w", vaultwire.ErrSealed)
	}
	secret, err := v.secretOf(q.Opening.For.Epoch)
	if err != nil {
		return nil, err
	}
	key, session, err := secret.OpenSession(q.Opening.For, q.Opening.Sealed)
	if err != nil {
		return nil, sealedError(err)
	}
	defer clear(key)
	if err := v.checkKey(q.Account, q.Credential, key); err != nil {
		return nil, err
	}
	aead, err := confirmation(tokens)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, session.Secret(), []byte(q.Account)), nil
}

// confirmation seals the secrets of sessions in tokens.
func confirmation(tokens serviceKey) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, tokens.raw.Slice(), nil, "svc-confirmation-1", keyBytes)
	if err != nil {
		return nil, err
	}
	defer clear(key)
	return newGCM(key)
}

// session is what a token says.
type session struct {
	vaultwire.Claims
	sealed *format.Session // nil = keys of files are given in the clear
}

// mayHave refuses a key that is given sealed alone, for a session in which keys come in the clear.
func (s session) mayHave(u unwrapped) error {
	if u.owner.Sealed && s.sealed == nil {
		return fmt.Errorf("open a key in the clear: %w", vaultwire.ErrSealedOnly)
	}
	return nil
}

// OpenToken implements [vaultwire.Vault]. Everything is required: signature, algorithm, issuer, audience, times and
// type. Errors: [vaultwire.TokenError].
func (v *Vault) OpenToken(_ context.Context, q vaultwire.OpenToken) (a vaultwire.Claims, err error) {
	s, err := v.read(string(q.Token), q.Address)
	if err == nil && s.sealed != nil {
		s.Request = slices.Clone(s.sealed.RequestKey())
	}
	return s.Claims, err
}

// sessionOf returns the session of a token. It reads a token once: a client sends the same one with each retrieval.
// Errors: [vaultwire.TokenError].
func (v *Vault) sessionOf(token []byte) (session, error) {
	id := sha256.Sum256(token)
	s, ok := v.sessions.Get(id)
	if !ok || !v.now().Before(s.Expires.Add(vaultwire.TokenLeeway)) {
		var err error
		if s, err = v.read(string(token), ""); err != nil {
			return s, err
		}
		v.sessions.Add(id, s)
	}
	if newest, _ := v.credentials.Get(sha256.Sum256([]byte(s.Account))); newest.SealedOnly() && s.sealed == nil {
		return s, &vaultwire.TokenError{Text: "the API key of this account is taken sealed alone since"}
	}
	return s, nil
}

// read reads a token that was made for the service at an address; "" = whichever.
func (v *Vault) read(token, address string) (s session, err error) {
	k, err := v.lasting(vaultwire.PurposeTokens)
	if err != nil {
		return s, err
	}
	var c claims
	parser := []jwt.ParserOption{jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithExpirationRequired(), jwt.WithIssuedAt(), jwt.WithLeeway(vaultwire.TokenLeeway),
		jwt.WithStrictDecoding(), jwt.WithTimeFunc(v.now)}
	if address != "" {
		parser = append(parser, jwt.WithAudience(address), jwt.WithIssuer(address))
	}
	_, err = jwt.ParseWithClaims(token, &c, func(*jwt.Token) (any, error) { return k.raw.Slice(), nil }, parser...)
	const invalid = "invalid session token"
	switch {
	case errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return s, &vaultwire.TokenError{Text: invalid}
	case errors.Is(err, jwt.ErrTokenInvalidAudience) || errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return s, &vaultwire.TokenError{Audience: true, Text: "the token was made for another service address"}
	case err != nil:
		return s, &vaultwire.TokenError{Text: invalid}
	case !hasPlainTimes(token):
		return s, &vaultwire.TokenError{Text: invalid}
	case len(c.Audience) != 1:
		return s, &vaultwire.TokenError{Audience: true, Text: "the token names several addresses"}
	case c.Type != tokenType && (c.Type != pageType || c.ID == "") || c.AccountID == "" || c.IssuedAt == nil:
		return s, &vaultwire.TokenError{Text: "not a session token of this service"}
	case c.ExpiresAt.Sub(c.IssuedAt.Time) > vaultwire.MaxTokenLifetime:
		return s, &vaultwire.TokenError{Text: invalid}
	}
	s.Claims = vaultwire.Claims{Account: c.AccountID, Generation: c.Generation, Address: c.Audience[0],
		Issued: c.IssuedAt.Time, Expires: c.ExpiresAt.Time, Undated: c.NotBefore != nil}
	if c.Type == pageType {
		s.Page = c.ID
	}
	if c.Confirmation == nil {
		return s, nil
	}
	aead, err := confirmation(k)
	if err != nil {
		return s, err
	}
	secret, err := aead.Open(nil, nil, c.Confirmation.Sealed, []byte(c.AccountID))
	if err != nil {
		return s, &vaultwire.TokenError{Text: invalid}
	}
	s.sealed, err = format.SessionOf(secret)
	return s, err
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
