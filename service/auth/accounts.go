package auth

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/ledger"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/throttle"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Accounts makes and checks accounts.
type Accounts struct {
	store     *store.Store
	ledger    *ledger.Ledger
	domain    string                     // ends the names
	failures  *throttle.Throttle[string] // by account
	rotations *throttle.Throttle[string] // by account, on the page
	signedIn  *throttle.Throttle[string] // by account, at the identity provider
	signIns   *SignIns
	vault     Vault
}

// Vault makes API keys, and makes and reads session tokens.
type Vault interface {
	MakeKey(context.Context, vaultwire.MakeKey) (vaultwire.MadeKey, error)
	TakeKey(context.Context, vaultwire.TakeKey) (vaultwire.Opened, error)
	SealOnly(context.Context, vaultwire.SealOnly) (vaultwire.MadeKey, error)
	IssueToken(context.Context, vaultwire.IssueToken) (vaultwire.Text, error)
	OpenToken(context.Context, vaultwire.OpenToken) (vaultwire.Claims, error)
	Vouch(context.Context, vaultwire.Vouch) (vaultwire.Vouched, error)
}

// NewAccounts returns the accounts of a service: account NAME becomes NAME.domain. signIns may be nil.
func NewAccounts(s *store.Store, l *ledger.Ledger, v Vault, domain string, signIns *SignIns) *Accounts {
	return &Accounts{store: s, ledger: l, vault: v, domain: domain, signIns: signIns,
		failures:  throttle.New[string](rate.Every(time.Minute/failuresPerMinute), failuresPerMinute),
		rotations: throttle.New[string](rate.Every(time.Minute), changesAtOnce),
		signedIn:  throttle.New[string](rate.Every(time.Minute), changesAtOnce)}
}

// maxName is the longest name of an account, in bytes, without the domain.
const maxName = 64

var nameForm = regexp.MustCompile(`^[a-z0-9_-]{2,64}$`)

// IsName reports whether a new account may have the name, without its ending.
func IsName(name string) bool { return nameForm.MatchString(name) }

// lower lowers ASCII letters only. In Unicode, other letters become ASCII letters too,
// such as the Kelvin sign.
func lower(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}, name)
}

// FullID completes a bare name and checks its form.
func (a *Accounts) FullID(name string) (string, error) {
	id := lower(strings.TrimSpace(name))
	bare := strings.TrimSuffix(id, "."+a.domain)
	if !strings.Contains(id, ".") {
		id += "." + a.domain
	}
	if !nameForm.MatchString(bare) && !foreignForm.MatchString(id) {
		return "", fault.New(wire.CodeValidation, "Invalid username format: %.80q: use 2 to 64 of a-z, 0-9, _ and -",
			name)
	}
	return id, nil
}

// foreignForm is any ledger account id: members need not have an account here.
var foreignForm = regexp.MustCompile(`^[a-z0-9_-]{1,64}(\.[a-z0-9_-]{1,64}){1,8}$`)

var domainForm = regexp.MustCompile(`^[a-z0-9_-]{1,64}(\.[a-z0-9_-]{1,64}){0,7}$`)

// IsDomain reports whether the names of accounts may end so.
func IsDomain(domain string) bool { return domainForm.MatchString(domain) }

// Create makes an account and returns its key, which is never shown again.
func (a *Accounts) Create(ctx context.Context, name string, balance wire.Amount) (id string, key APIKey, err error) {
	if id, err = a.FullID(name); err != nil {
		return "", key, err
	}
	key, err = a.newKey(ctx, id, func(tx *store.Tx, credential vaultwire.Credential) (chain.Row, error) {
		return a.create(ctx, tx, id, credential, balance)
	})
	return id, key, err
}

func (a *Accounts) create(ctx context.Context, tx *store.Tx, id string, credential vaultwire.Credential,
	balance wire.Amount, tags ...chain.Tag) (made chain.Row, err error) {
	n, err := tx.Count(ctx, "insert account", `INSERT INTO accounts
		(id, credential, key_generation, balance, created_ns) VALUES (?, ?, 1, ?, ?)
		ON CONFLICT DO NOTHING`, id, []byte(credential), balance.String(), a.ledger.Now().UnixNano())
	if err == nil && n == 0 {
		err = mustBeNew(ctx, tx, id)
	}
	if err != nil {
		return made, err
	}
	return a.ledger.Append(ctx, tx, chain.Record{Kind: chain.KindCreateAccount, Account: id,
		Detail: balance.String(), Tags: tags})
}

// Fund adds tokens to an account and returns its balance.
func (a *Accounts) Fund(ctx context.Context, name string, amount wire.Amount) (balance wire.Amount, err error) {
	id, err := a.FullID(name)
	if err != nil {
		return balance, err
	}
	err = a.store.Write(ctx, ledger.By(id), func(tx *store.Tx) error {
		if err := mustExist(ctx, tx, id); err != nil {
			return err
		}
		balance, err = a.ledger.Fund(ctx, tx, id, amount)
		return err
	})
	return balance, err
}

// Transfer moves tokens between two accounts and returns the rest of the payer.
func (a *Accounts) Transfer(ctx context.Context, from, to string, amount wire.Amount) (left wire.Amount, err error) {
	payer, err1 := a.FullID(from)
	receiver, err2 := a.FullID(to)
	if err := errors.Join(err1, err2); err != nil {
		return left, err
	}
	err = a.store.Write(ctx, ledger.By(payer, receiver), func(tx *store.Tx) error {
		if err := mustExist(ctx, tx, payer, receiver); err != nil {
			return err
		}
		left, err = a.ledger.Transfer(ctx, tx, payer, receiver, amount)
		return err
	})
	return left, err
}

// MemberOf returns how many groups an account belongs to. The account need not exist:
// owners may add a member before.
func (a *Accounts) MemberOf(ctx context.Context, id string) (n int64, err error) {
	err = a.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT count(*) FROM members JOIN groups ON groups.id = group_id WHERE "+
			"account = ? AND ended_ns IS NULL", id).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count groups: %w", err)
	}
	return n, nil
}

// Owns returns how many groups an account owns.
func (a *Accounts) Owns(ctx context.Context, id string) (n int64, err error) {
	err = a.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT count(*) FROM groups WHERE owner = ? AND ended_ns IS NULL", id).Scan(&n)
	})
	if err != nil {
		return 0, fmt.Errorf("count groups: %w", err)
	}
	return n, nil
}

// mustExist refuses accounts that do not exist.
func mustExist(ctx context.Context, tx *store.Tx, ids ...string) error {
	for _, id := range ids {
		switch exists, err := Exists(ctx, tx, id); {
		case err != nil:
			return err
		case !exists:
			return unknownAccount(id)
		}
	}
	return nil
}

// Exists reports whether there is an account, inside a transaction.
func Exists(ctx context.Context, tx *store.Tx, id string) (exists bool, err error) {
	if err := tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM accounts WHERE id = ? AND "+
		"deleted_ns IS NULL)", id).Scan(&exists); err != nil {
		return false, fmt.Errorf("look for account: %w", err)
	}
	return exists, nil
}

func unknownAccount(id string) error {
	return fault.New(wire.CodeAccountUnknown, "account %.80s not found: create it with: svcd account create NAME", id)
}

// Disable blocks an account until [Accounts.Enable]. When it returns, the key, tokens,
// sign-in links and page sessions of the account are refused; the tokens, links and
// sessions stay dead for good. Groups, files and balance stay. Destruction that the
// account asked for and that still waits is cancelled, and so are offers of its groups.
func (a *Accounts) Disable(ctx context.Context, name string) (id string, err error) {
	return a.setDisabled(ctx, name, chain.KindDisable, a.ledger.Now().UnixNano(), "account %s is disabled already")
}

// Enable lets a disabled account be used again, with the key it had. Offers that the operator made of its
// groups are taken back.
func (a *Accounts) Enable(ctx context.Context, name string) (id string, err error) {
	return a.setDisabled(ctx, name, chain.KindEnable, nil, "account %s is not disabled")
}

// setDisabled notes since when an account is disabled, nil for enabled. The new
// generation of the key ends the tokens; generation 0 means that the account never had a
// key.
func (a *Accounts) setDisabled(ctx context.Context, name, kind string, since any,
	already string) (id string, err error) {
	if id, err = a.FullID(name); err != nil {
		return "", err
	}
	err = a.store.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		disabled, err := IsDisabled(ctx, tx, id)
		if err != nil {
			return err
		}
		if disabled == (since != nil) {
			return fault.New(wire.CodeConflict, already, id)
		}
		err = tx.Do(ctx, "disable account", `UPDATE accounts SET disabled_ns = ?, key_generation = CASE key_generation
			WHEN 0 THEN 0 ELSE key_generation + 1 END
			WHERE id = ?`, since, id)
		if err != nil {
			return err
		}
		if err := endSignIns(ctx, tx, id, ""); err != nil {
			return err
		}
		if err := forgetDestruction(ctx, tx, id); err != nil {
			return err
		}
		_, err = a.ledger.Append(ctx, tx, chain.Record{Kind: kind, Account: id})
		return err
	})
	return id, err
}

// forgetDestruction cancels the destruction that the account asked for and that waits,
// offers of its groups, and invites to them: it may be the reason for disabling the account. Files that the account
// removed stay in the trash until the owner of their group decides.
func forgetDestruction(ctx context.Context, tx *store.Tx, id string) error {
	if err := tx.Do(ctx, "forget deletions", "DELETE FROM pending_deletions WHERE account = ?", id); err != nil {
		return err
	}
	if err := tx.Do(ctx, "forget invites",
		"DELETE FROM group_invites WHERE group_id IN (SELECT id FROM groups WHERE owner = ?)", id); err != nil {
		return err
	}
	if err := ledger.ForgetWaitingOf(ctx, tx, id); err != nil {
		return err
	}
	return tx.Do(ctx, "hold removed files",
		"UPDATE files SET trash_until_ns = NULL WHERE trash_by = ? AND trash_until_ns IS NOT NULL", id)
}

// IsDisabled reports whether an account is disabled, inside a transaction. It refuses one that does not exist.
func IsDisabled(ctx context.Context, tx *store.Tx, id string) (disabled bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT disabled_ns IS NOT NULL FROM accounts WHERE id = ? AND deleted_ns IS NULL",
		id).Scan(&disabled)
	if errors.Is(err, sql.ErrNoRows) {
		return false, unknownAccount(id)
	}
	if err != nil {
		return false, fmt.Errorf("read account: %w", err)
	}
	return disabled, nil
}

// requireEnabled refuses an account that is disabled or does not exist.
func requireEnabled(ctx context.Context, tx *store.Tx, id string) error {
	disabled, err := IsDisabled(ctx, tx, id)
	if err == nil && disabled {
		err = accountDisabled(id)
	}
	return err
}

func accountDisabled(id string) error {
	return fault.New(wire.CodeDisabled, "Auth failed: account %s is disabled: ask the operator", id)
}

// Listed is one account as the operator sees it.
type Listed struct {
	AccountID string      `json:"account_id"`
	Balance   wire.Amount `json:"balance"`
	Bytes     int64       `json:"bytes"` // of ciphertext that is kept for it
	Disabled  bool        `json:"disabled"`
}

// List returns all accounts by id, without those that were deleted.
func (a *Accounts) List(ctx context.Context) (list []Listed, err error) {
	err = a.store.Read(ctx, func(tx *store.Tx) error {
		for rows, err := range tx.Rows(ctx, `SELECT id, balance, COALESCE(bytes, 0), disabled_ns IS NOT NULL
			FROM accounts
			LEFT JOIN stored_bytes ON kind = 'account' AND name = id
			WHERE deleted_ns IS NULL ORDER BY id`) {
			var l Listed
			var balance string
			if err == nil {
				err = rows.Scan(&l.AccountID, &balance, &l.Bytes, &l.Disabled)
			}
			if err != nil {
				return fmt.Errorf("list accounts: %w", err)
			}
			if l.Balance, err = wire.ParseAmount(balance); err != nil {
				return err
			}
			list = append(list, l)
		}
		return nil
	})
	return list, err
}

// Balance returns the balance of an account.
func (a *Accounts) Balance(ctx context.Context, id string) (balance wire.Amount, err error) {
	err = a.store.Look(ctx, func(tx *store.Tx) error {
		balance, err = ledger.Balance(ctx, tx, id)
		return err
	})
	return balance, err
}
