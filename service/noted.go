package service

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/service/auth"
	"github.com/svcfs/svcfs/service/store"
)

// metaContract is the contract in the names of the accounts.
const metaContract = "contract"

// checkContract refuses another contract than that of the accounts: their owners could not sign in, and
// new accounts would have another ending.
func checkContract(ctx context.Context, s *store.Store, contract string) error {
	first, err := firstNoted(ctx, s, metaContract, contract)
	if err == nil && first != contract {
		err = s.Write(ctx, store.Everything(), func(tx *store.Tx) error {
			accounts, err := hasAccounts(ctx, tx)
			if err != nil {
				return err
			}
			if accounts {
				return &refusal{fmt.Errorf("the accounts of this database are of contract %s, not %s", first, contract),
					"give --contract " + first + ", or a new database and data directory for another contract"}
			}
			_, err = tx.ExecContext(ctx, "UPDATE meta SET value = ? WHERE name = ?", contract, metaContract)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("compare the contract: %w", err)
	}
	return nil
}

// metaAccountDomain is the ending of the accounts, where it is not the contract.
const metaAccountDomain = "account_domain"

// accountDomain is the ending of the names of accounts: the wanted one, else the one of before, else the contract. It
// is for good once there is an account.
func accountDomain(ctx context.Context, s *store.Store, wanted, contract string) (domain string, err error) {
	noted, err := firstNoted(ctx, s, metaAccountDomain, "")
	domain = cmp.Or(noted, contract)
	if err != nil || wanted == "" || wanted == domain {
		return domain, err
	}
	if !auth.IsDomain(wanted) {
		return "", &refusal{fmt.Errorf("%.80q cannot end the names of accounts", wanted),
			"give --account-domain a name such as files.example.org, of lower-case letters, digits, _, - and dots"}
	}
	err = s.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		switch accounts, err := hasAccounts(ctx, tx); {
		case err != nil:
			return err
		case accounts:
			return &refusal{fmt.Errorf("the names of the accounts of this database end in %s, not in %s", domain,
				wanted), "leave --account-domain out, or give --account-domain " + domain}
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET "+
			"value = excluded.value", metaAccountDomain, wanted)
		return err
	})
	return wanted, err
}

func hasAccounts(ctx context.Context, tx *store.Tx) (accounts bool, err error) {
	err = tx.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM accounts)").Scan(&accounts)
	return accounts, err
}

// firstNoted returns what was first noted under a name, "" if nothing was. It notes now if that is the first.
func firstNoted(ctx context.Context, s *store.Store, name, now string) (first string, err error) {
	read := func(tx *store.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = ?", name).Scan(&first)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	}
	if err = s.Read(ctx, read); err != nil || first != "" || now == "" {
		return first, err
	}
	err = s.Write(ctx, store.Everything(), func(tx *store.Tx) error {
		const note = "INSERT INTO meta (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING"
		if _, err := tx.ExecContext(ctx, note, name, now); err != nil {
			return err
		}
		return read(tx)
	})
	return first, err
}
