// Package auth authenticates callers: accounts with one API key each, session tokens
// made with a key, and sessions of the account page.
package auth

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
)

const (
	keyPrefix    = "svc_sk_"
	minKeyLength = 40
	// failuresPerMinute is how many wrong keys an account may have per minute before
	// guessing is slowed down.
	failuresPerMinute = 10
	// rotationsAtOnce is how many keys an account may make on the page at once, and one
	// more every minute: each is a free record.
	rotationsAtOnce = 10
	// maxAccountID is the longest id an account can have, in bytes: nine parts of
	// 64 and the dots between them.
	maxAccountID = 9*64 + 8
)

// APIKey is shown once, when it is made.
type APIKey = Secret

// newKey returns a random key.
func newKey() APIKey { return SecretFrom(keyPrefix + newSecret().text) }

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
	key = newKey()
	err = a.store.Write(ctx, ledger.By(id), func(tx *store.Tx) error {
		n, err := tx.Count(ctx, "update key", "UPDATE accounts SET key_hash = ?, key_generation = key_generation + 1 "+
			"WHERE id = ? AND deleted_ns IS NULL", hashOf(key.text), id)
		if err != nil {
			return err
		}
		if n == 0 {
			return unknownAccount(id)
		}
		if err := endSignIns(ctx, tx, id, session); err != nil {
			return err
		}
		_, err = a.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindRotateKey, Account: id})
		return err
	})
	return id, key, err
}

// CheckKey verifies an API key and returns its generation. After too many wrong keys for
// an account, the answer to a wrong key is to wait. The right key is always accepted:
// guessing locks nobody out.
func (a *Accounts) CheckKey(ctx context.Context, id, key string) (generation int64, err error) {
	if len(id) > maxAccountID {
		return 0, unknownAccount(id)
	}
	generation, found, err := a.compareKey(ctx, id, key)
	if err == nil {
		a.signIns.Good(ctx, byKey, id)
		return generation, nil
	}
	var wrong *fault.Error
	if !errors.As(err, &wrong) {
		return 0, err
	}
	known := ""
	if found {
		known = id
	}
	a.signIns.Failed(ctx, byKey, known, wrong.Code)
	if wrong.Code != wire.CodeDisabled && !a.failures.Allow(id) {
		return 0, &fault.Error{Code: wire.CodeRateLimited,
			Text:       "too many requests: too many wrong keys for this account, try again in a minute",
			RetryAfter: time.Minute}
	}
	return 0, wrong
}

// GuardKey has each write of a request, whose key of this generation was checked, check once more that the key is good.
func (a *Accounts) GuardKey(ctx context.Context, id string, generation int64) {
	store.SetGuard(ctx, []store.Ask{askKey(id)}, func(ctx context.Context, tx *store.Tx) error {
		key, err := readKey(ctx, tx, id)
		switch {
		case err != nil:
			return err
		case key.disabled:
			return accountDisabled(id)
		case !key.found || key.generation != generation:
			return fault.New(wire.CodeInvalidKey, "Invalid API key")
		}
		return nil
	})
}

// compareKey compares the hash of the key in constant time, for an unknown account too. found tells whether
// there is the account, also where the key is none.
func (a *Accounts) compareKey(ctx context.Context, id, key string) (generation int64, found bool, err error) {
	stored, err := a.keyOf(ctx, id)
	if err != nil {
		return 0, false, err
	}
	if !strings.HasPrefix(key, keyPrefix) || len(key) < minKeyLength {
		return 0, stored.found, fault.New(wire.CodeInvalidKey, "Invalid format")
	}
	equal := a.equal(hashOf(key), stored.hash) == 1
	switch {
	case !stored.found:
		return 0, false, unknownAccount(id)
	case !equal:
		return 0, true, fault.New(wire.CodeInvalidKey, "Invalid API key")
	case stored.disabled:
		return 0, true, accountDisabled(id)
	}
	return stored.generation, true, nil
}

// storedKey is the stored part of an account's key.
type storedKey struct {
	hash            []byte // zeros for an unknown account
	generation      int64  // 0 = there never was a key
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
	return store.Ask{Query: "SELECT key_hash, key_generation, disabled_ns IS NOT NULL FROM accounts WHERE id = ? AND " +
		"deleted_ns IS NULL", Args: []any{id}}
}

func readKey(ctx context.Context, tx *store.Tx, id string) (storedKey, error) {
	k := storedKey{hash: make([]byte, sha256.Size), found: true}
	err := tx.Ask(ctx, askKey(id)).Scan(&k.hash, &k.generation, &k.disabled)
	if errors.Is(err, sql.ErrNoRows) {
		return storedKey{hash: k.hash}, nil
	}
	if err != nil {
		return storedKey{}, fmt.Errorf("read key hash: %w", err)
	}
	return k, nil
}

// HasKey reports whether the account ever had an API key. An account made for an
// identity has none at first.
func (a *Accounts) HasKey(ctx context.Context, id string) (bool, error) {
	key, err := a.keyOf(ctx, id)
	return key.generation > 0, err
}
