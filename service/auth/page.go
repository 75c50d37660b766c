package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	// LinkLifetime is how long a sign-in link is good, once.
	LinkLifetime = 15 * time.Minute
	// PageLifetime is how long a session of the account page lasts.
	PageLifetime = 12 * time.Hour
	// secretBytes is the size of random secrets: 256 bits, 43 base64url characters.
	secretBytes = 32
	// maxIdentity bounds issuer and subject of an identity, in bytes.
	maxIdentity = 512
)

// Secret is an API key, a sign-in link, a token of a page session, or the secret of this service at
// an identity provider. The database keeps none of them. A Secret
// prints as "redacted"; Reveal is the one way to its text.
type Secret struct {
	locked.Redacted
	text string
}

// SecretFrom wraps a secret that was configured.
func SecretFrom(text string) Secret { return Secret{text: text} }

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return s.text }

func newSecret() Secret {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails
	return Secret{text: base64.RawURLEncoding.EncodeToString(raw)}
}

func hashOf(secret string) []byte {
	sum := sha256.Sum256([]byte(secret))
	return sum[:]
}

// NewLink makes a secret that signs the account in at the page, once, within
// [LinkLifetime].
func (a *Accounts) NewLink(ctx context.Context, name string) (id string, link Secret, err error) {
	if id, err = a.FullID(name); err != nil {
		return "", link, err
	}
	link = newSecret()
	now := a.ledger.Now()
	err = a.store.Write(ctx, ledger.By(id), func(tx *store.Tx) error {
		if err := requireEnabled(ctx, tx, id); err != nil {
			return err
		}
		key, err := readKey(ctx, tx, id)
		if err != nil {
			return err
		}
		if key.credential.SealedOnly() {
			return fault.New(wire.CodeSealedOnly, "the API key of %s is taken sealed alone: nobody signs in to its "+
				"account page (svcd account rotate-key undoes it)", id)
		}
		if err := tx.Do(ctx, "delete old links", "DELETE FROM sign_in_links WHERE expires_ns < ?",
			now.UnixNano()); err != nil {
			return err
		}
		return tx.Do(ctx, "insert link", "INSERT INTO sign_in_links (hash, account, expires_ns) VALUES (?, ?, ?)",
			hashOf(link.text), id, now.Add(LinkLifetime).UnixNano())
	})
	return id, link, err
}

// UseLink exchanges a link for the token of a page session of its account.
func (t *Tokens) UseLink(ctx context.Context, link string) (account string, token Secret, err error) {
	account, token, err = t.useLink(ctx, link)
	var wrong *fault.Error
	switch {
	case err == nil:
		t.accounts.signIns.Good(ctx, byLink, account)
	case errors.As(err, &wrong):
		t.accounts.signIns.Failed(ctx, byLink, "", wrong.Code)
	}
	return account, token, err
}

// LinkOf returns which account a link signs in. The link stays good.
func (t *Tokens) LinkOf(ctx context.Context, link string) (account string, err error) {
	err = t.accounts.store.Read(ctx, func(tx *store.Tx) (err error) {
		account, err = t.findLink(ctx, tx, link)
		return err
	})
	return account, err
}

func (t *Tokens) findLink(ctx context.Context, tx *store.Tx, link string) (account string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT account FROM sign_in_links WHERE hash = ? AND expires_ns > ?", hashOf(link),
		t.now().UnixNano()).Scan(&account)
	if errors.Is(err, sql.ErrNoRows) {
		err = usedLink()
	}
	return account, err
}

func (t *Tokens) useLink(ctx context.Context, link string) (account string, token Secret, err error) {
	if account, err = t.LinkOf(ctx, link); err != nil { // a wrong link costs no writing transaction
		return "", token, err
	}
	token, err = t.beginPage(ctx, account, byLink, func(tx *store.Tx) error {
		if _, err := t.findLink(ctx, tx, link); err != nil {
			return err
		}
		n, err := tx.Count(ctx, "use link", "DELETE FROM sign_in_links WHERE hash = ?", hashOf(link))
		if err != nil {
			return err
		}
		if n != 1 {
			return usedLink()
		}
		return nil
	})
	return account, token, err
}

func usedLink() error {
	return fault.New(wire.CodeAuthRequired, "this link was used already or is older than %d minutes: ask the "+
		"operator for another (svcd account link NAME)",
		int(LinkLifetime.Minutes()))
}

// SignedInAt begins a page session for an account that an identity provider authenticated, and returns its token.
func (t *Tokens) SignedInAt(ctx context.Context, account string) (token Secret, err error) {
	if !t.accounts.signedIn.Allow(account) {
		return token, &fault.Error{Code: wire.CodeRateLimited,
			Text: "too many requests: too many sign-ins to this account, wait a minute", RetryAfter: time.Minute}
	}
	token, err = t.beginPage(ctx, account, byProvider, func(*store.Tx) error { return nil })
	if err == nil {
		t.accounts.signIns.Good(ctx, byProvider, account)
	}
	return token, err
}

// ProviderFailed notes a failed sign-in at the identity provider.
func (t *Tokens) ProviderFailed(ctx context.Context, code string) {
	t.accounts.signIns.Failed(ctx, byProvider, "", code)
}

// beginPage records that an account signed in to the page, in a transaction that begins with check, and has the vault
// make the token for the record.
func (t *Tokens) beginPage(ctx context.Context, account, way string, check func(*store.Tx) error) (token Secret,
	err error) {
	id, now := newSecret().text, t.now()
	ends := now.Add(PageLifetime)
	var record chain.Row
	var key storedKey
	err = t.accounts.store.Write(ctx, ledger.By(account), func(tx *store.Tx) error {
		if err := check(tx); err != nil {
			return err
		}
		if err := requireEnabled(ctx, tx, account); err != nil {
			return err
		}
		if key, err = readKey(ctx, tx, account); err != nil {
			return err
		}
		if key.credential.SealedOnly() {
			return sealedOnly()
		}
		if err := tx.Do(ctx, "delete old sessions", "DELETE FROM web_sessions WHERE expires_ns < ?",
			now.UnixNano()); err != nil {
			return err
		}
		if err := tx.Do(ctx, "insert session", "INSERT INTO web_sessions (hash, account, created_ns, expires_ns) "+
			"VALUES (?, ?, ?, ?)", hashOf(id), account, now.UnixNano(), ends.UnixNano()); err != nil {
			return err
		}
		record, err = t.accounts.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindSignIn, Account: account,
			Detail: way})
		return err
	})
	if err != nil {
		return token, err
	}
	issued, err := t.accounts.vault.IssueToken(ctx, vaultwire.IssueToken{Claims: vaultwire.Claims{Account: account,
		Generation: key.generation, Address: t.address, Issued: now, Expires: ends, Page: id},
		Credential: key.credential, SignIn: &record.Record})
	return SecretFrom(string(issued.Text)), err
}

// endSignIns ends the links of an account, and its page sessions except one.
func endSignIns(ctx context.Context, tx *store.Tx, account, except string) error {
	if err := tx.Do(ctx, "delete links", "DELETE FROM sign_in_links WHERE account = ?", account); err != nil {
		return err
	}
	return tx.Do(ctx, "delete sessions", "DELETE FROM web_sessions WHERE account = ? AND hash <> ?", account,
		hashOf(except))
}

// Page returns the session of the token in the cookie of the account page. Each write of the request checks the session
// once more.
func (t *Tokens) Page(ctx context.Context, token string) (*Session, error) {
	done, err := t.mayOpen(ctx, token)
	if err != nil {
		return nil, err
	}
	defer done()
	k, err := t.pageClaims(ctx, token)
	if err != nil {
		return nil, err
	}
	if k.Page == "" {
		return nil, noPage()
	}
	ask := store.Ask{Query: "SELECT account FROM web_sessions WHERE hash = ? AND expires_ns > ?",
		Args: []any{hashOf(k.Page), t.now().UnixNano()}}
	look := func(ctx context.Context, tx *store.Tx) error {
		var account string
		err := tx.Ask(ctx, ask).Scan(&account)
		switch {
		case errors.Is(err, sql.ErrNoRows), err == nil && account != k.Account:
			return noPage()
		case err != nil:
			return fmt.Errorf("read session: %w", err)
		}
		return nil
	}
	err = t.accounts.store.Read(ctx, func(tx *store.Tx) error { return look(ctx, tx) })
	if err != nil {
		return nil, err
	}
	store.SetGuard(ctx, k.Account, []store.Ask{ask}, look)
	s := &Session{Account: k.Account, known: k, token: token}
	s.vouchBy(ctx, t.accounts.vault)
	return s, nil
}

func noPage() error {
	return fault.New(wire.CodeAuthRequired, "not signed in, or the session of %d hours is over: sign in again",
		int(PageLifetime.Hours()))
}

// PageOf returns the id of a session of the account page, "" for any other token.
func (t *Tokens) PageOf(ctx context.Context, token string) (string, error) {
	k, err := t.pageClaims(ctx, token)
	return k.Page, err
}

// pageClaims returns the claims of a token, none of one that is refused. That the vault does not answer is no refusal.
func (t *Tokens) pageClaims(ctx context.Context, token string) (known, error) {
	k, err := t.claimsOf(ctx, token)
	if code := fault.Of(err).Code; code == wire.CodeInvalidToken || code == wire.CodeAudience {
		return known{}, nil
	}
	return k, err
}

// EndPage signs out.
func (t *Tokens) EndPage(ctx context.Context, token string) error {
	id, err := t.PageOf(ctx, token)
	if err != nil || id == "" {
		return err
	}
	return t.accounts.store.Write(ctx, store.Chains{}, func(tx *store.Tx) error {
		return tx.Do(ctx, "delete session", "DELETE FROM web_sessions WHERE hash = ?", hashOf(id))
	})
}
