package auth

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Identity is a person at an OpenID Connect provider. Only issuer and subject together
// name a person: the same subject at another issuer is another person.
type Identity struct{ Issuer, Subject string }

func (i Identity) check() error {
	if i.Issuer == "" || i.Subject == "" || len(i.Issuer)+len(i.Subject) > maxIdentity {
		return fault.New(wire.CodeValidation, "an identity is an issuer and a subject, together at most %d bytes",
			maxIdentity)
	}
	return nil
}

// AccountOf returns the account an identity signs in to; ok is false when there
// is none.
func (a *Accounts) AccountOf(ctx context.Context, i Identity) (account string, ok bool, err error) {
	err = a.store.Read(ctx, func(tx *store.Tx) error {
		account, ok, err = accountOf(ctx, tx, i)
		return err
	})
	return account, ok, err
}

func accountOf(ctx context.Context, tx *store.Tx, i Identity) (account string, ok bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT account FROM identities WHERE issuer = ? AND subject = ?", i.Issuer,
		i.Subject).Scan(&account)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	if err != nil {
		return "", false, fmt.Errorf("read identity: %w", err)
	}
	return account, true, nil
}

// AddIdentity lets an identity sign in to an existing account. An identity has
// one account; an account may have several identities.
func (a *Accounts) AddIdentity(ctx context.Context, name string, i Identity) (id string, err error) {
	if err := i.check(); err != nil {
		return "", err
	}
	if id, err = a.FullID(name); err != nil {
		return "", err
	}
	err = a.store.Write(ctx, ledger.By(id), func(tx *store.Tx) error {
		if err := mustExist(ctx, tx, id); err != nil {
			return err
		}
		return insertIdentity(ctx, tx, id, i)
	})
	return id, err
}

func insertIdentity(ctx context.Context, tx *store.Tx, id string, i Identity) error {
	n, err := tx.Count(ctx, "insert identity", "INSERT INTO identities (issuer, subject, account) VALUES (?, ?, ?) "+
		"ON CONFLICT DO NOTHING", i.Issuer, i.Subject, id)
	if err == nil && n == 0 {
		err = fault.New(wire.CodeConflict, "this identity belongs to an account already")
	}
	return err
}

// fallbackName begins the name of an account when the provider gives no usable name.
const fallbackName = "user"

// names lists the possible names for the account of the identity, the best first: the
// name that the provider gives, then this name with a mark that only this identity has.
// Names of providers are neither unique nor stable (OpenID Connect Core 5.7).
func (i Identity) names(preferred string) []string {
	preferred = lower(preferred)
	var list []string
	if nameForm.MatchString(preferred) {
		list = append(list, preferred)
	} else {
		preferred = fallbackName
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s%s", len(i.Issuer), i.Issuer, i.Subject))
	mark := hex.EncodeToString(sum[:])
	for _, n := range []int{8, 16, 32} {
		list = append(list, preferred[:min(len(preferred), maxName-1-n)]+"-"+mark[:n])
	}
	return list
}

// isNew reports that the name id was never used here: by an account, by a member that an
// owner added, or in the ledger. Only such a name goes to a new identity. Otherwise the
// identity would get what others meant for the earlier owner of the name.
func isNew(ctx context.Context, tx *store.Tx, id string) (unused bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT NOT EXISTS (SELECT 1 FROM accounts WHERE id = ? UNION ALL SELECT 1 FROM "+
		"members WHERE account = ?)", id, id).Scan(&unused)
	if err != nil || !unused {
		return false, err
	}
	wasNamed, err := ledger.WasNamed(ctx, tx, id)
	return !wasNamed, err
}

// CreateFor makes an account without an API key and without tokens for an identity. The
// account gets the preferred name if that is new here, else a name from the identity. An identity that has got an
// account meanwhile, by another sign-in, keeps that one.
func (a *Accounts) CreateFor(ctx context.Context, preferred string, i Identity) (id string, err error) {
	if err := i.check(); err != nil {
		return "", err
	}
	names := i.names(preferred)
	for n := range names {
		names[n] += "." + a.domain
	}
	err = a.store.Write(ctx, ledger.By(names...), func(tx *store.Tx) (err error) {
		var known bool
		if id, known, err = accountOf(ctx, tx, i); err != nil || known {
			return err
		}
		if id, err = freeName(ctx, tx, names); err != nil {
			return err
		}
		none, err := a.vault.MakeKey(ctx, vaultwire.MakeKey{Account: id, NoKey: true})
		if err != nil {
			return err
		}
		err = tx.Do(ctx, "insert account", `INSERT INTO accounts (id, credential, key_generation, balance, created_ns)
			VALUES (?, ?, 0, ?, ?)`,
			id, []byte(none.Credential), wire.Amount{}.String(), a.ledger.Now().UnixNano())
		if err != nil {
			return err
		}
		if err := insertIdentity(ctx, tx, id, i); err != nil {
			return err
		}
		_, err = a.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindCreateAccount, Account: id,
			Detail: wire.Amount{}.String()})
		return err
	})
	return id, err
}

// freeName returns the first id that is new.
func freeName(ctx context.Context, tx *store.Tx, ids []string) (id string, err error) {
	for _, id = range ids {
		if unused, err := isNew(ctx, tx, id); err != nil || unused {
			return id, err
		}
	}
	return "", fault.New(wire.CodeConflict, "every name for this identity has another owner already")
}
