package auth

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

// Identity is a person at an OpenID Connect provider. Only the pair names one:
// subjects of different issuers are different people.
type Identity struct{ Issuer, Subject string }

func (i Identity) check() error {
	if i.Issuer == "" || i.Subject == "" || len(i.Issuer)+len(i.Subject) > maxIdentity {
		return fault.New(wire.CodeValidation, "an identity is an issuer and a subject, together at most %d bytes", maxIdentity)
	}
	return nil
}

// AccountOf returns the account an identity signs in to; ok is false when there
// is none.
func (a *Accounts) AccountOf(ctx context.Context, i Identity) (account string, ok bool, err error) {
	err = a.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT account FROM identities WHERE issuer = ? AND subject = ?", i.Issuer, i.Subject).Scan(&account)
	})
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
	err = a.store.Write(ctx, func(tx *store.Tx) error {
		if _, err := ledger.Balance(ctx, tx, id); err != nil {
			if fault.Of(err).Code == wire.CodeAccountUnknown {
				return unknownAccount(id)
			}
			return err
		}
		return insertIdentity(ctx, tx, id, i)
	})
	return id, err
}

func insertIdentity(ctx context.Context, tx *store.Tx, id string, i Identity) error {
	result, err := tx.ExecContext(ctx, "INSERT INTO identities (issuer, subject, account) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", i.Issuer, i.Subject, id)
	if err != nil {
		return fmt.Errorf("insert identity: %w", err)
	}
	if n, _ := result.RowsAffected(); n == 0 {
		return fault.New(wire.CodeConflict, "this identity belongs to an account already")
	}
	return nil
}

// CreateFor makes an account without an API key and with no tokens for an
// identity. An account of that name is not taken over.
func (a *Accounts) CreateFor(ctx context.Context, name string, i Identity) (id string, err error) {
	if err := i.check(); err != nil {
		return "", err
	}
	name = lower(name)
	if !nameForm.MatchString(name) {
		return "", fault.New(wire.CodeValidation, "Invalid username format: %.80q: use 2 to 64 of a-z, 0-9, _ and -", name)
	}
	id = name + "." + a.contract
	unusable := make([]byte, sha256.Size) // no key has this hash
	err = a.store.Write(ctx, func(tx *store.Tx) error {
		result, err := tx.ExecContext(ctx, `INSERT INTO accounts (id, key_hash, key_generation, balance, created_ns) VALUES (?, ?, 0, ?, ?)
			ON CONFLICT DO NOTHING`, id, unusable, wire.Amount{}.String(), time.Now().UnixNano())
		if err != nil {
			return fmt.Errorf("insert account: %w", err)
		}
		if n, _ := result.RowsAffected(); n == 0 {
			return fault.New(wire.CodeConflict, "account %s exists already and has another owner", id)
		}
		if err := insertIdentity(ctx, tx, id, i); err != nil {
			return err
		}
		_, err = a.ledger.Append(ctx, tx, ledger.Record{Kind: ledger.KindCreateAccount, Account: id, Detail: wire.Amount{}.String()})
		return err
	})
	return id, err
}
