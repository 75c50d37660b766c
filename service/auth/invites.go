package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// InviteLifetime is how long an invite makes its account, once.
const InviteLifetime = 7 * 24 * time.Hour

// Invited is an invite as the operator sees it.
type Invited struct {
	ID      string      `json:"id"`
	Account string      `json:"account_id"`
	Balance wire.Amount `json:"balance"`
	Expires time.Time   `json:"expires"`
}

// NewInviteSecret returns a secret that begins with the id of its invite, which is random where the request in ctx asks
// for no other.
func NewInviteSecret(ctx context.Context) (id string, secret Secret) {
	if id = ledger.InviteID(ctx); id == "" {
		raw := make([]byte, vaultwire.InviteIDBytes)
		_, _ = rand.Read(raw) // never fails
		id = hex.EncodeToString(raw)
	}
	return id, Secret{text: id + "." + newSecret().text}
}

// Invite lets whoever has the secret make account name with a balance, once, within [InviteLifetime]. by is the
// account of the operator. An account has one invite at most.
func (a *Accounts) Invite(ctx context.Context, by, name string,
	balance wire.Amount) (invited Invited, secret Secret, err error) {
	account, err := a.FullID(name)
	if err != nil {
		return invited, secret, err
	}
	id, secret := NewInviteSecret(ctx)
	now := a.ledger.Now()
	invited = Invited{ID: id, Account: account, Balance: balance, Expires: now.Add(InviteLifetime)}
	err = a.store.Write(ctx, ledger.By(by, account), func(tx *store.Tx) error {
		if err := mayInvite(ctx, tx, account, now); err != nil {
			return err
		}
		err := tx.Do(ctx, "insert invite", "INSERT INTO invites (id, hash, account, balance, expires_ns) VALUES (?, "+
			"?, ?, ?, ?)", invited.ID, hashOf(secret.text), account, balance.String(), invited.Expires.UnixNano())
		if err != nil {
			return err
		}
		_, err = a.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindInvite, Account: by,
			Detail: fmt.Sprintf("%s %s %s %d", invited.ID, account, balance, invited.Expires.UnixNano())})
		return err
	})
	return invited, secret, err
}

// mayInvite deletes invites that are too old, and refuses an account that exists, was deleted or has an invite.
func mayInvite(ctx context.Context, tx *store.Tx, account string, now time.Time) error {
	if err := mustBeNew(ctx, tx, account); err != nil {
		return err
	}
	if err := tx.Do(ctx, "delete old invites", "DELETE FROM invites WHERE expires_ns <= ?",
		now.UnixNano()); err != nil {
		return err
	}
	var other string
	err := tx.QueryRowContext(ctx, "SELECT id FROM invites WHERE account = ?", account).Scan(&other)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("look for an invite: %w", err)
	}
	return fault.New(wire.CodeConflict, "account %s has an invite already: take it back first with: "+
		"svcd invite revoke %s", account, other)
}

// Invites lists the invites that can be redeemed, by id.
func (a *Accounts) Invites(ctx context.Context) (list []Invited, err error) {
	err = a.store.Read(ctx, func(tx *store.Tx) error {
		list = []Invited{}
		for rows, err := range tx.Rows(ctx,
			"SELECT id, account, balance, expires_ns FROM invites WHERE expires_ns > ? "+
				"ORDER BY id", a.ledger.Now().UnixNano()) {
			if err != nil {
				return fmt.Errorf("list invites: %w", err)
			}
			invited, _, err := scanInvite(rows.Scan)
			if err != nil {
				return err
			}
			list = append(list, invited)
		}
		return nil
	})
	return list, err
}

// scanInvite reads id, account, balance and end of an invite, and further columns into more.
func scanInvite(scan func(...any) error, more ...any) (invited Invited, ends int64, err error) {
	var balance string
	err = scan(append([]any{&invited.ID, &invited.Account, &balance, &ends}, more...)...)
	if err != nil {
		return invited, 0, fmt.Errorf("read invite: %w", err)
	}
	invited.Expires = time.Unix(0, ends).UTC()
	invited.Balance, err = wire.ParseAmount(balance)
	return invited, ends, err
}

// RevokeInvite takes an invite back. by is the account of the operator.
func (a *Accounts) RevokeInvite(ctx context.Context, by, id string) error {
	return a.store.Write(ctx, ledger.By(by), func(tx *store.Tx) error {
		if err := deleteInvite(ctx, tx, id); err != nil {
			return err
		}
		_, err := a.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindEndInvite, Account: by, Detail: id})
		return err
	})
}

// deleteInvite refuses an invite that is not there.
func deleteInvite(ctx context.Context, tx *store.Tx, id string) error {
	n, err := tx.Count(ctx, "delete invite", "DELETE FROM invites WHERE id = ?", id)
	if err == nil && n != 1 {
		err = noInvite()
	}
	return err
}

// RedeemInvite makes the account of an invite, and returns its key, which is never shown again.
func (a *Accounts) RedeemInvite(ctx context.Context, secret string) (account string, key APIKey, err error) {
	invited, err := a.findInvite(ctx, secret)
	if account = invited.Account; err == nil { // a wrong secret costs no writing transaction
		key, err = a.redeem(ctx, secret, account)
	}
	var refused *fault.Error
	switch {
	case err == nil:
		a.signIns.Good(ctx, byInvite, account)
	case errors.As(err, &refused):
		a.signIns.Failed(ctx, byInvite, "", refused.Code)
	}
	return account, key, err
}

func (a *Accounts) redeem(ctx context.Context, secret, account string) (APIKey, error) {
	return a.newKey(ctx, account, func(tx *store.Tx, credential vaultwire.Credential) (made chain.Row, err error) {
		invited, err := a.findInviteIn(ctx, tx, secret)
		if err != nil {
			return made, err
		}
		if err := deleteInvite(ctx, tx, invited.ID); err != nil {
			return made, err
		}
		return a.create(ctx, tx, account, credential, invited.Balance,
			chain.Tag{Name: chain.TagInvite, Value: invited.ID})
	})
}

func (a *Accounts) findInvite(ctx context.Context, secret string) (invited Invited, err error) {
	err = a.store.Look(ctx, func(tx *store.Tx) error {
		invited, err = a.findInviteIn(ctx, tx, secret)
		return err
	})
	return invited, err
}

// findInviteIn finds an invite by its id, which is no secret, and compares the hash of the whole in constant time, for
// an unknown id too.
func (a *Accounts) findInviteIn(ctx context.Context, tx *store.Tx, secret string) (Invited, error) {
	id, _, _ := strings.Cut(secret, ".")
	hash := make([]byte, sha256.Size)
	row := tx.QueryRowContext(ctx, "SELECT id, account, balance, expires_ns, hash FROM invites WHERE id = ?", id)
	invited, ends, err := scanInvite(row.Scan, &hash)
	found := err == nil
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return invited, err
	}
	if equal := hmac.Equal(hashOf(secret), hash); !equal || !found || ends <= a.ledger.Now().UnixNano() {
		return Invited{}, noInvite()
	}
	return invited, nil
}

// noInvite says the same of a wrong secret, and of an invite that was used or revoked or is too old.
func noInvite() error {
	return fault.New(wire.CodeInvite,
		"not authorized: there is no such invite, or it was used or revoked, or is older "+
			"than %d days: ask the operator for another (svcd invite NAME)", int(InviteLifetime.Hours()/24))
}
