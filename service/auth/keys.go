// Package auth authenticates callers: accounts with one API key each, session tokens
// made with a key, and sessions of the account page.
package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

const (
	minKeyLength = 40
	// failuresPerMinute is how many wrong keys an account may have per minute before
	// guessing is slowed down.
	failuresPerMinute = 10
	// changesAtOnce is how many keys an account may make on the page at once, and how often it may sign in there at an
	// identity provider, and one more every minute: each is a free record.
	changesAtOnce = 10
)

// APIKey is shown once, when it is made.
type APIKey = Secret

// Rotate replaces the key of an account. When it returns, the old key, tokens made with
// it and sign-in links are dead. So are page sessions, because they could make a key
// themselves, except the session that asked for this; "" is none, the operator.
func (a *Accounts) Rotate(ctx context.Context, name, session string) (id string, key APIKey, err error) {
	if id, err = a.FullID(name); err != nil {
		return "", key, err
	}
	if session != "" && !a.rotations.Allow(id) {
		return "", key, &fault.Error{Code: wire.CodeRateLimited,
			Text: "too many requests: too many keys were made for this account, wait a minute", RetryAfter: time.Minute}
	}
	key, err = a.newKey(ctx, id, func(tx *store.Tx, credential vaultwire.Credential) (chain.Row, error) {
		n, err := tx.Count(ctx, "update key", "UPDATE accounts SET credential = ?, key_generation = key_generation + "+
			"1 WHERE id = ? AND deleted_ns IS NULL", []byte(credential), id)
		if err != nil {
			return chain.Row{}, err
		}
		if n == 0 {
			return chain.Row{}, unknownAccount(id)
		}
		if err := endSignIns(ctx, tx, id, session); err != nil {
			return chain.Row{}, err
		}
		return a.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindRotateKey, Account: id})
	})
	return id, key, err
}

// newKey has the vault make a key of an account, and gives it once keep kept its credential, with a record.
func (a *Accounts) newKey(ctx context.Context, id string,
	keep func(*store.Tx, vaultwire.Credential) (chain.Row, error)) (key APIKey, err error) {
	before, err := a.keyOf(ctx, id)
	if err != nil {
		return key, err
	}
	made, err := a.vault.MakeKey(ctx, vaultwire.MakeKey{Account: id, Before: before.credential})
	if err != nil {
		return key, otherCredential(err)
	}
	var record chain.Row
	err = a.store.Write(ctx, ledger.By(id), func(tx *store.Tx) error {
		record, err = keep(tx, made.Credential)
		return err
	})
	if err != nil {
		return key, err
	}
	taken, err := a.vault.TakeKey(ctx, vaultwire.TakeKey{Held: made.Held, Record: record.Record})
	if err != nil {
		return key, &fault.Error{Code: wire.CodeUnavailable, Err: err, Text: fmt.Sprintf("the vault, which keeps the "+
			"keys, made a key of %s and did not give it out: make another with: svcd account rotate-key NAME", id)}
	}
	defer clear(taken.Key)
	return SecretFrom(string(taken.Key)), nil
}

// otherCredential says what to do about a credential that is not the one that the vault made last; another err stays.
func otherCredential(err error) error {
	if !errors.Is(err, vaultwire.ErrCredential) {
		return err
	}
	return &fault.Error{Code: wire.CodeInternal, Err: err, Text: "the database has another API key of this account " +
		"than the vault made last: the operator restarts svcvault, if the database was restored on purpose"}
}

// SealKey has the key of an account be taken sealed alone from now on. When it returns, tokens, page sessions and links
// from before are dead.
func (a *Accounts) SealKey(ctx context.Context, id string) error {
	return a.store.Write(ctx, ledger.By(id), func(tx *store.Tx) error {
		key, err := readKey(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case !key.found:
			return unknownAccount(id)
		case key.credential.SealedOnly():
			return nil
		}
		made, err := a.vault.SealOnly(ctx, vaultwire.SealOnly{Account: id, Credential: key.credential})
		if err != nil {
			return otherCredential(err)
		}
		if err := tx.Do(ctx, "seal key", "UPDATE accounts SET credential = ?, key_generation = key_generation + 1 "+
			"WHERE id = ?", []byte(made.Credential), id); err != nil {
			return err
		}
		if err := endSignIns(ctx, tx, id, ""); err != nil {
			return err
		}
		_, err = a.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindSealKey, Account: id})
		return err
	})
}

// storedKey is the stored part of an account's key.
type storedKey struct {
	credential      vaultwire.Credential
	generation      int64 // 0 = there never was a key
	found, disabled bool
}

func (a *Accounts) keyOf(ctx context.Context, id string) (k storedKey, err error) {
	err = a.store.Look(ctx, func(tx *store.Tx) error {
		k, err = readKey(ctx, tx, id)
		return err
	})
	return k, err
}

// askKey is what [readKey] asks.
func askKey(id string) store.Ask {
	return store.Ask{Query: "SELECT credential, key_generation, disabled_ns IS NOT NULL FROM accounts " +
		"WHERE id = ? AND deleted_ns IS NULL", Args: []any{id}}
}

func readKey(ctx context.Context, tx *store.Tx, id string) (storedKey, error) {
	k := storedKey{found: true}
	err := tx.Ask(ctx, askKey(id)).Scan((*[]byte)(&k.credential), &k.generation, &k.disabled)
	if errors.Is(err, sql.ErrNoRows) {
		return storedKey{}, nil
	}
	if err != nil {
		return storedKey{}, fmt.Errorf("read credential: %w", err)
	}
	return k, nil
}

// HasKey reports whether the account ever had an API key. An account made for an
// identity has none at first.
func (a *Accounts) HasKey(ctx context.Context, id string) (bool, error) {
	key, err := a.keyOf(ctx, id)
	return key.generation > 0, err
}
