package vault

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"

	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/ownfile"
	"github.com/svcfs/svcfs/service/store"
)

// Another master key comes in three steps, each of which can be interrupted and begun
// again. [Vault.Begin] wraps the keys of the service by both master keys and adds a
// root. Then every file's key is wrapped anew by that root. At last [Vault.Finish]
// removes the keys that the old master key wraps. Processes that know only the old
// master key continue until then.

// nextMaster is the entry of the table meta that names the master key to come.
const nextMaster = "master_key_next"

// keptName is how much of a master key's name is in the name of its file.
const keptName = 16

// NextMaster returns the name of the master key that is being brought in, "" when
// none is.
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

// Begin lets next open the database beside the current master key, and adds a root.
func (v *Vault) Begin(ctx context.Context, tx *store.Tx, next Master) error {
	now := v.Master()
	list, err := now.load(ctx, tx)
	if err != nil {
		return err
	}
	root := serviceKey{purpose: purposeFiles, raw: locked.New(keyBytes)}
	for _, k := range list {
		if k.purpose == purposeFiles {
			root.version = max(root.version, k.version+1)
		}
	}
	_, _ = rand.Read(root.raw.Slice()) // never fails
	if err := now.store(ctx, tx, []serviceKey{root}); err != nil {
		return err
	}
	if err := next.store(ctx, tx, append(list, root)); err != nil {
		return err
	}
	name, err := next.Name()
	if err != nil {
		return err
	}
	return tx.Do(ctx, "note the rotation", "INSERT INTO meta (name, value) VALUES (?, ?)", nextMaster, name)
}

// Finish removes the keys that other master keys wrap, and the roots before the newest.
// The keys of all files must be wrapped by the newest root.
func (v *Vault) Finish(ctx context.Context, tx *store.Tx) error {
	name, err := v.Master().Name()
	if err != nil {
		return err
	}
	newest, err := NewestRoot(ctx, tx)
	if err != nil {
		return err
	}
	if err := tx.Do(ctx, "remove old keys", "DELETE FROM service_keys WHERE master <> ? OR purpose = ? AND version < ?",
		name, purposeFiles, newest); err != nil {
		return err
	}
	return tx.Do(ctx, "note the end of the rotation", "DELETE FROM meta WHERE name = ?", nextMaster)
}

// Use makes next the master key in use.
func (v *Vault) Use(next Master) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.master = next
}

// Next is the place in which a new master key is prepared.
func (s Source) Next() Source { return Source{File: s.File + ".new", Make: true} }

// Replace brings the prepared master key in file to its place. The earlier one is kept
// beside it; its file is named after the name in archives.
func (s Source) Replace(file string, before Master) (kept string, err error) {
	name, err := before.Name()
	if err != nil {
		return "", err
	}
	kept = s.File + "." + name[:keptName]
	if err := ownfile.Replace(kept, before.raw.Slice()); err != nil {
		return "", fmt.Errorf("keep the earlier master key: %w", err)
	}
	next, err := readSecret(file)
	if err != nil {
		return kept, fmt.Errorf("read the new master key: %w", err)
	}
	if err := ownfile.Replace(s.File, next[:]); err != nil {
		return kept, fmt.Errorf("write the new master key: %w", err)
	}
	if err := os.Remove(file); err != nil {
		return kept, fmt.Errorf("remove the prepared master key: %w", err)
	}
	return kept, nil
}
