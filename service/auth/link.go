package auth

import (
	"context"
	"database/sql"
	"errors"

	"github.com/svcfs/svcfs/service/store"
)

// LinkOf returns which account a link signs in. The link stays good.
func (t *Tokens) LinkOf(ctx context.Context, link string) (account string, err error) {
	err = t.accounts.store.Read(ctx, func(tx *store.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT account FROM sign_in_links WHERE hash = ? AND expires_ns > ?",
			hashOf(link), t.now().UnixNano()).Scan(&account)
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = usedLink()
	}
	return account, err
}
