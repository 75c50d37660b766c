package vault

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/service/store"
)

// Purposes of the keys of the service. Each is a key of its own, which the
// database keeps wrapped by the master key, so that another master key changes
// nothing for clients.
const (
	PurposeLog     = "ledger-checkpoint" // seed of the key that signs checkpoints
	PurposeTokens  = "session tokens"
	PurposeTickets = "transfer tickets"
	PurposePage    = "sign-ins at an identity provider"

	// PurposeUploads: seeds of the keys that clients seal file keys to. The version is the
	// number of the epoch.
	PurposeUploads = "uploads"

	purposeFiles  = "file keys" // the root of the groups' keys
	purposeLegacy = "legacy files"
)

func purposes() []string {
	return []string{PurposeLog, PurposeTokens, PurposeTickets, PurposePage, PurposeUploads, purposeFiles, purposeLegacy}
}

// Table is the table of the wrapped keys. An export holds the whole table.
const Table = "service_keys"

// ErrOtherMaster means that a database was written under another master key.
var ErrOtherMaster = errors.New("the database was written under another master key")

// serviceKey is a key of the service. A later version replaces an earlier one.
type serviceKey struct {
	purpose string
	version int64
	made    int64 // ns
	raw     locked.Bytes
}

// newServiceKey makes a random key.
func newServiceKey(purpose string, version int64, now time.Time) serviceKey {
	k := serviceKey{purpose: purpose, version: version, made: now.UnixNano(), raw: locked.New(keyBytes)}
	_, _ = rand.Read(k.raw.Slice()) // never fails
	return k
}

func (k serviceKey) bytes() []byte {
	return fmt.Appendf(nil, "svc-service-key-1 %s %d", k.purpose, k.version)
}

// wrap returns the wrapped form of a key.
func (m Master) wrap(k serviceKey) ([]byte, error) {
	aead, err := m.aead()
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, k.raw.Slice(), k.bytes()), nil
}

// unwrapServiceKey fills in a key from its wrapped form.
func (m Master) unwrapServiceKey(k *serviceKey, wrapped []byte) error {
	aead, err := m.aead()
	if err != nil {
		return err
	}
	raw, err := aead.Open(nil, nil, wrapped, k.bytes())
	if err != nil || len(raw) != keyBytes {
		return fmt.Errorf("unwrap key for %s: the record was changed", k.purpose)
	}
	defer clear(raw)
	k.raw = locked.Copy(raw)
	return nil
}

// load reads the keys that a master key wraps. Without any it returns [ErrOtherMaster],
// or sql.ErrNoRows when the database has no keys at all.
func (m Master) load(ctx context.Context, tx *store.Tx) (list []serviceKey, err error) {
	name, err := m.Name()
	if err != nil {
		return nil, err
	}
	others := false
	for rows, err := range tx.Rows(ctx, "SELECT purpose, version, master, made_ns, wrapped FROM service_keys ORDER "+
		"BY version, purpose") {
		var k serviceKey
		var master string
		var wrapped []byte
		if err == nil {
			err = rows.Scan(&k.purpose, &k.version, &master, &k.made, &wrapped)
		}
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		if master != name {
			others = true
			continue
		}
		if err := m.unwrapServiceKey(&k, wrapped); err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	switch {
	case len(list) > 0:
		return list, nil
	case others:
		return nil, ErrOtherMaster
	default:
		return nil, sql.ErrNoRows
	}
}

// store keeps keys, wrapped by the master key.
func (m Master) store(ctx context.Context, tx *store.Tx, list []serviceKey) error {
	name, err := m.Name()
	if err != nil {
		return err
	}
	for _, k := range list {
		wrapped, err := m.wrap(k)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO service_keys (purpose, version, master, made_ns, wrapped) "+
			"VALUES (?, ?, ?, ?, ?)", k.purpose, k.version, name, k.made, wrapped); err != nil {
			return fmt.Errorf("store key for %s: %w", k.purpose, err)
		}
	}
	return nil
}

// begin makes the keys of a database without keys.
func (m Master) begin(ctx context.Context, tx *store.Tx, now time.Time) (list []serviceKey, err error) {
	for _, purpose := range purposes() {
		list = append(list, newServiceKey(purpose, 1, now))
	}
	return list, m.store(ctx, tx, list)
}

// Open reads the keys of the service from its database, or makes them. master was read
// from source.
func Open(ctx context.Context, s *store.Store, source Source, master Master, now time.Time) (*Vault, error) {
	var list []serviceKey
	err := s.Read(ctx, func(tx *store.Tx) (err error) {
		list, err = master.load(ctx, tx)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		err = s.Write(ctx, store.Everything(), func(tx *store.Tx) (err error) {
			list, err = master.load(ctx, tx) // another process may have been first
			if errors.Is(err, sql.ErrNoRows) {
				list, err = master.begin(ctx, tx, now)
			}
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("open vault: %w", err)
	}
	v := &Vault{source: source, master: master}
	v.keep(list)
	return v, nil
}

// SelectNewestRoot gives the version of the root that wraps new keys of files.
const SelectNewestRoot store.Query = "SELECT max(version) FROM service_keys WHERE purpose = '" + purposeFiles + "'"

// AskNewestRoot is what [NewestRoot] asks.
func AskNewestRoot() store.Ask { return store.Ask{Query: SelectNewestRoot} }

// NewestRoot runs [SelectNewestRoot].
func NewestRoot(ctx context.Context, tx *store.Tx) (version int64, err error) {
	if err := tx.Ask(ctx, AskNewestRoot()).Scan(&version); err != nil {
		return 0, fmt.Errorf("look for the newest root: %w", err)
	}
	return version, nil
}

// Reload reads the keys again: another process may have replaced them, and the master
// key. It does not run a command for the master key inside the transaction;
// [Vault.Refresh] does.
func (v *Vault) Reload(ctx context.Context, tx *store.Tx) error {
	master := v.Master()
	list, err := master.load(ctx, tx)
	if errors.Is(err, ErrOtherMaster) && v.source.Command == "" {
		if master, err = v.source.Read(ctx); err == nil {
			list, err = master.load(ctx, tx)
		}
	}
	if err != nil {
		return fmt.Errorf("read the keys of the service again: %w", err)
	}
	v.Use(master)
	v.keep(list)
	return nil
}

// Refresh is [Vault.Reload] from time to time.
func (v *Vault) Refresh(ctx context.Context, s *store.Store) error {
	reload := func(tx *store.Tx) error { return v.Reload(ctx, tx) }
	err := s.Read(ctx, reload)
	if errors.Is(err, ErrOtherMaster) && v.source.Command != "" {
		master, other := v.source.Read(ctx)
		if other != nil {
			return errors.Join(err, other)
		}
		v.Use(master)
		err = s.Read(ctx, reload)
	}
	return err
}

// keep adds keys. A root that is gone from the database stays: keys that were read
// before may be wrapped by it.
func (v *Vault) keep(list []serviceKey) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, k := range list {
		v.keys = slices.DeleteFunc(v.keys, func(have serviceKey) bool {
			return have.purpose == k.purpose && have.version == k.version
		})
		v.keys = append(v.keys, k)
	}
}

// versions returns the keys of a purpose, the newest first.
func (v *Vault) versions(purpose string) (list []serviceKey) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	for _, k := range v.keys {
		if k.purpose == purpose {
			list = append(list, k)
		}
	}
	slices.SortFunc(list, func(a, b serviceKey) int { return int(b.version - a.version) })
	return list
}

// Key returns the newest key for a purpose.
func (v *Vault) Key(purpose string) (newest [keyBytes]byte, err error) {
	list, err := v.Keys(purpose)
	if err == nil {
		newest = list[len(list)-1]
	}
	return newest, err
}

// Keys returns the keys for a purpose, the newest last.
func (v *Vault) Keys(purpose string) (list [][keyBytes]byte, err error) {
	for _, k := range slices.Backward(v.versions(purpose)) {
		list = append(list, [keyBytes]byte(k.raw.Slice()))
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("there is no key for %s", purpose)
	}
	return list, nil
}

// AskCurrent is what [Vault.Current] asks.
func AskCurrent(purpose string) store.Ask {
	return store.Ask{Query: "SELECT COALESCE(max(version), 0) FROM service_keys WHERE purpose = ?",
		Args: []any{purpose}}
}

// Current makes sure that the vault has the newest key for a purpose in the transaction.
func (v *Vault) Current(ctx context.Context, tx *store.Tx, purpose string) error {
	var version int64
	if err := tx.Ask(ctx, AskCurrent(purpose)).Scan(&version); err != nil {
		return fmt.Errorf("look for the newest key for %s: %w", purpose, err)
	}
	if have := v.versions(purpose); len(have) > 0 && have[0].version >= version {
		return nil
	}
	return v.Reload(ctx, tx)
}

// Replace makes another key for a purpose and keeps those from before.
func (v *Vault) Replace(ctx context.Context, tx *store.Tx, purpose string, now time.Time) error {
	if err := v.Reload(ctx, tx); err != nil {
		return err
	}
	version := int64(1)
	if have := v.versions(purpose); len(have) > 0 {
		version = have[0].version + 1
	}
	return v.Master().store(ctx, tx, []serviceKey{newServiceKey(purpose, version, now)})
}

// Master returns the master key in use.
func (v *Vault) Master() Master {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.master
}
