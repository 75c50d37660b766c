package keys

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Another master key comes in three steps, each of which can be interrupted and begun
// again. [Keys.Begin] wraps the keys of the service by both master keys and adds a
// root. Then every file's key is wrapped anew by that root. At last [Keys.Finish]
// removes the keys that the old master key wraps. Processes that know only the old
// master key continue until then.

// nextMaster names, in the table meta, the master key that is being brought in.
const nextMaster = "master_key_next"

// NextMaster returns the name of the master key that is being brought in, "" for none.
func NextMaster(ctx context.Context, tx *store.Tx) (name string, err error) {
	err = tx.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = ?", nextMaster).Scan(&name)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("look for a rotation: %w", err)
	}
	return name, nil
}

// Begin has the master key that the vault read with [vaultwire.Vault.ReadNext] open the database beside the one in
// use, and gives the database another root.
func (k *Keys) Begin(ctx context.Context, tx *store.Tx) error {
	rows, err := readRows(ctx, tx)
	if err != nil {
		return err
	}
	made, err := k.WrapForNext(ctx, vaultwire.Keep{Rows: rows})
	if err != nil {
		return fmt.Errorf("wrap the keys for another master key: %w", err)
	}
	if err := storeRows(ctx, tx, made.Rows); err != nil {
		return err
	}
	return tx.Do(ctx, "note the rotation", "INSERT INTO meta (name, value) VALUES (?, ?)", nextMaster, made.Master)
}

// Finish removes what other master keys than the one in use wrap, and the earlier roots.
func (k *Keys) Finish(ctx context.Context, tx *store.Tx) error {
	newest, err := NewestRoot(ctx, tx)
	if err != nil {
		return err
	}
	if err := tx.Do(ctx, "remove old keys", "DELETE FROM service_keys WHERE master <> ? OR purpose = ? AND version < ?",
		k.MasterName(), vaultwire.PurposeFiles, newest); err != nil {
		return err
	}
	return tx.Do(ctx, "note the end of the rotation", "DELETE FROM meta WHERE name = ?", nextMaster)
}
