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
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
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

// Secret is an API key, a sign-in link, a page session, or the secret of this service at
// an identity provider. The database keeps only the SHA-256 of the first three. A Secret
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
		if err := tx.Do(ctx, "delete old links", "DELETE FROM sign_in_links WHERE expires_ns < ?",
			now.UnixNano()); err != nil {
			return err
		}
		return tx.Do(ctx, "insert link", "INSERT INTO sign_in_links (hash, account, expires_ns) VALUES (?, ?, ?)",
			hashOf(link.text), id, now.Add(LinkLifetime).UnixNano())
	})
	return id, link, err
}

// UseLink exchanges a link for a page session of its account.
func (a *Accounts) UseLink(ctx context.Context, link string) (account string, session Secret, err error) {
	account, session, err = a.useLink(ctx, link)
	var wrong *fault.Error
	switch {
	case err == nil:
		a.signIns.Good(ctx, byLink, account)
	case errors.As(err, &wrong):
		a.signIns.Failed(ctx, byLink, "", wrong.Code)
	}
	return account, session, err
}

func (a *Accounts) useLink(ctx context.Context, link string) (account string, session Secret, err error) {
	hash, now := hashOf(link), a.ledger.Now().UnixNano()
	find := func(tx *store.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT account FROM sign_in_links WHERE hash = ? AND expires_ns > ?", hash,
			now).Scan(&account)
		if errors.Is(err, sql.ErrNoRows) {
			return usedLink()
		}
		return err
	}
	if err := a.store.Read(ctx, find); err != nil { // a wrong link costs no writing transaction
		return "", session, err
	}
	session = newSecret()
	err = a.store.Write(ctx, ledger.By(account), func(tx *store.Tx) error {
		if err := find(tx); err != nil {
			return err
		}
		n, err := tx.Count(ctx, "use link", "DELETE FROM sign_in_links WHERE hash = ?", hash)
		if err != nil {
			return err
		}
		if n != 1 {
			return usedLink()
		}
		return a.beginSession(ctx, tx, account, session)
	})
	return account, session, err
}

func usedLink() error {
	return fault.New(wire.CodeAuthRequired, "this link was used already or is older than %d minutes: ask the "+
		"operator for another (svcd account link NAME)",
		int(LinkLifetime.Minutes()))
}

// BeginSession begins a page session for an account that an identity provider
// authenticated.
func (a *Accounts) BeginSession(ctx context.Context, account string) (Secret, error) {
	session := newSecret()
	err := a.store.Write(ctx, ledger.By(account), func(tx *store.Tx) error {
		return a.beginSession(ctx, tx, account, session)
	})
	if err == nil {
		a.signIns.Good(ctx, byProvider, account)
	}
	return session, err
}

// ProviderFailed notes a failed sign-in at the identity provider.
func (a *Accounts) ProviderFailed(ctx context.Context, code string) {
	a.signIns.Failed(ctx, byProvider, "", code)
}

func (a *Accounts) beginSession(ctx context.Context, tx *store.Tx, account string, session Secret) error {
	if err := requireEnabled(ctx, tx, account); err != nil {
		return err
	}
	now := a.ledger.Now()
	if err := tx.Do(ctx, "delete old sessions", "DELETE FROM web_sessions WHERE expires_ns < ?",
		now.UnixNano()); err != nil {
		return err
	}
	return tx.Do(ctx, "insert session", "INSERT INTO web_sessions (hash, account, created_ns, expires_ns) VALUES (?, "+
		"?, ?, ?)", hashOf(session.text), account, now.UnixNano(), now.Add(PageLifetime).UnixNano())
}

// endSignIns ends the links of an account, and its page sessions except one.
func endSignIns(ctx context.Context, tx *store.Tx, account, except string) error {
	if err := tx.Do(ctx, "delete links", "DELETE FROM sign_in_links WHERE account = ?", account); err != nil {
		return err
	}
	return tx.Do(ctx, "delete sessions", "DELETE FROM web_sessions WHERE account = ? AND hash <> ?", account,
		hashOf(except))
}

// Session returns the account of a page session. Each write of the request checks the session once more.
func (a *Accounts) Session(ctx context.Context, session string) (account string, err error) {
	ask := store.Ask{Query: "SELECT account FROM web_sessions WHERE hash = ? AND expires_ns > ?",
		Args: []any{hashOf(session), a.ledger.Now().UnixNano()}}
	look := func(ctx context.Context, tx *store.Tx) (account string, err error) {
		err = tx.Ask(ctx, ask).Scan(&account)
		if errors.Is(err, sql.ErrNoRows) {
			return "", fault.New(wire.CodeAuthRequired,
				"not signed in, or the session of %d hours is over: sign in again", int(PageLifetime.Hours()))
		}
		if err != nil {
			return "", fmt.Errorf("read session: %w", err)
		}
		return account, nil
	}
	err = a.store.Read(ctx, func(tx *store.Tx) error {
		account, err = look(ctx, tx)
		return err
	})
	if err == nil {
		store.SetGuard(ctx, []store.Ask{ask}, func(ctx context.Context, tx *store.Tx) error {
			_, err := look(ctx, tx)
			return err
		})
	}
	return account, err
}

// EndSession signs out.
func (a *Accounts) EndSession(ctx context.Context, session string) error {
	return a.store.Write(ctx, store.Chains{}, func(tx *store.Tx) error {
		return tx.Do(ctx, "delete session", "DELETE FROM web_sessions WHERE hash = ?", hashOf(session))
	})
}
