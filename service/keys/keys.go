// Package keys is what the service has of its keys: their wrapped form in the database, and a vault that opens them. It
// never sees a root, nor a key that signs the log or sessions.
package keys

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/service/checkpoint"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Table is the table of the wrapped keys. An export holds the whole table.
const Table = "service_keys"

// Keys is the keys of a service. It is safe for concurrent use.
type Keys struct {
	vaultwire.Vault
	store *store.Store

	mu      sync.RWMutex // guards the rest
	kept    vaultwire.Kept
	tickets locked.Bytes
}

// Open gives the vault the keys of a database, and has it make those of a database without any. Errors:
// [vaultwire.ErrOtherMaster].
func Open(ctx context.Context, s *store.Store, v vaultwire.Vault, now time.Time) (*Keys, error) {
	k := &Keys{Vault: v, store: s}
	begins := vaultwire.Keep{Again: true, Begins: true}
	err := k.refresh(ctx, s, begins)
	if errors.Is(err, vaultwire.ErrNoKeys) {
		err = s.Write(ctx, store.Everything(), func(tx *store.Tx) error { return k.begin(ctx, tx, now) })
		if err == nil {
			err = k.refresh(ctx, s, begins)
		}
	}
	if c, ok := v.(interface {
		Renew(func(context.Context) ([]vaultwire.Row, error))
	}); ok {
		c.Renew(func(ctx context.Context) ([]vaultwire.Row, error) { return rowsOf(ctx, s) })
	}
	if err != nil {
		return nil, fmt.Errorf("open vault: %w", err)
	}
	return k, nil
}

// begin makes the first keys, unless another process was faster.
func (k *Keys) begin(ctx context.Context, tx *store.Tx, now time.Time) error {
	rows, err := readRows(ctx, tx)
	if err != nil || len(rows) > 0 {
		return err
	}
	var list []vaultwire.Key
	for _, purpose := range vaultwire.Purposes() {
		list = append(list, vaultwire.Key{Purpose: purpose, Version: 1, Made: now.UnixNano()})
	}
	return k.make(ctx, tx, list...)
}

func (k *Keys) make(ctx context.Context, tx *store.Tx, list ...vaultwire.Key) error {
	made, err := k.Make(ctx, vaultwire.Make{Keys: list})
	if err != nil {
		return fmt.Errorf("make keys: %w", err)
	}
	return storeRows(ctx, tx, made.Rows)
}

func readRows(ctx context.Context, tx *store.Tx) ([]vaultwire.Row, error) {
	return store.List(ctx, tx, "read keys", func(r *vaultwire.Row) []any {
		return []any{&r.Purpose, &r.Version, &r.Master, &r.Made, &r.Wrapped}
	}, "SELECT purpose, version, master, made_ns, wrapped FROM service_keys ORDER BY version, purpose")
}

func storeRows(ctx context.Context, tx *store.Tx, rows []vaultwire.Row) error {
	for _, r := range rows {
		if err := tx.Do(ctx, "store key for "+r.Purpose,
			"INSERT INTO service_keys (purpose, version, master, made_ns, wrapped) VALUES (?, ?, ?, ?, ?)",
			r.Purpose, r.Version, r.Master, r.Made, r.Wrapped); err != nil {
			return err
		}
	}
	return nil
}

// Reload gives the vault the keys again: another process may have replaced them, and the master
// key. It does not run a command for the master key inside the transaction;
// [Keys.Refresh] does.
func (k *Keys) Reload(ctx context.Context, tx *store.Tx) error {
	rows, err := readRows(ctx, tx)
	if err != nil {
		return err
	}
	return k.keep(ctx, vaultwire.Keep{Rows: rows})
}

// Refresh is [Keys.Reload] from time to time.
func (k *Keys) Refresh(ctx context.Context, s *store.Store) error {
	return k.refresh(ctx, s, vaultwire.Keep{Again: true})
}

// Imported gives the vault the keys that an import brought, in the place of those that were made.
func (k *Keys) Imported(ctx context.Context, s *store.Store) error {
	return k.refresh(ctx, s, vaultwire.Keep{Replace: true})
}

func (k *Keys) refresh(ctx context.Context, s *store.Store, q vaultwire.Keep) (err error) {
	if q.Rows, err = rowsOf(ctx, s); err != nil {
		return err
	}
	return k.keep(ctx, q)
}

func rowsOf(ctx context.Context, s *store.Store) (rows []vaultwire.Row, err error) {
	err = s.Read(ctx, func(tx *store.Tx) (err error) {
		rows, err = readRows(ctx, tx)
		return err
	})
	return rows, err
}

func (k *Keys) keep(ctx context.Context, q vaultwire.Keep) error {
	kept, err := k.Keep(ctx, q)
	if err != nil {
		return fmt.Errorf("give the vault the keys of the service: %w", err)
	}
	if len(kept.Tickets) != vaultwire.KeyBytes {
		return errors.New("give the vault the keys of the service: there is none for " + vaultwire.PurposeTickets)
	}
	defer clear(kept.Tickets)
	k.mu.Lock()
	defer k.mu.Unlock()
	if !hmac.Equal(k.tickets.Slice(), kept.Tickets) {
		k.tickets = locked.Copy(kept.Tickets)
	}
	k.kept = kept
	k.kept.Tickets = nil
	return nil
}

// SignTicket returns HMAC-SHA-256 of a ticket, 32 bytes.
func (k *Keys) SignTicket(ticket []byte) []byte {
	k.mu.RLock()
	defer k.mu.RUnlock()
	mac := hmac.New(sha256.New, k.tickets.Slice())
	mac.Write(ticket)
	return mac.Sum(nil)
}

// MasterName is the name of the master key in use.
func (k *Keys) MasterName() string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.kept.Master
}

// Measurement is what the vault says of its program, see [wire.Vault].
func (k *Keys) Measurement() string {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.kept.Measurement
}

// versions returns the keys of a purpose, the newest first.
func (k *Keys) versions(purpose string) (list []vaultwire.Key) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	for _, key := range k.kept.Keys {
		if key.Purpose == purpose {
			list = append(list, key)
		}
	}
	slices.SortFunc(list, func(a, b vaultwire.Key) int { return int(b.Version - a.Version) })
	return list
}

// AskCurrent is what the newest key for a purpose is looked for with.
func AskCurrent(purpose string) store.Ask {
	return store.Ask{Query: "SELECT COALESCE(max(version), 0) FROM service_keys WHERE purpose = ?",
		Args: []any{purpose}}
}

// current makes sure that the vault has the newest key for a purpose in the transaction, and returns all of them, the
// newest first.
func (k *Keys) current(ctx context.Context, tx *store.Tx, purpose string) ([]vaultwire.Key, error) {
	var version int64
	if err := tx.Ask(ctx, AskCurrent(purpose)).Scan(&version); err != nil {
		return nil, fmt.Errorf("look for the newest key for %s: %w", purpose, err)
	}
	have := k.versions(purpose)
	if len(have) > 0 && have[0].Version >= version {
		return have, nil
	}
	if err := k.Reload(ctx, tx); err != nil {
		return nil, err
	}
	return k.versions(purpose), nil
}

// Replace makes another key for each purpose and keeps those from before. The vault gets them from the database, once
// the transaction is committed.
func (k *Keys) Replace(ctx context.Context, tx *store.Tx, now time.Time, purposes ...string) error {
	if err := k.Reload(ctx, tx); err != nil {
		return err
	}
	var next []vaultwire.Key
	for _, purpose := range purposes {
		key := vaultwire.Key{Purpose: purpose, Version: 1, Made: now.UnixNano()}
		if have := k.versions(purpose); len(have) > 0 {
			key.Version = have[0].Version + 1
		}
		next = append(next, key)
	}
	return k.make(ctx, tx, next...)
}

// Log gives the keys of the log, the oldest first.
func (k *Keys) Log(ctx context.Context, tx *store.Tx) (list []checkpoint.Key, err error) {
	keys, err := k.current(ctx, tx, vaultwire.PurposeLog)
	for _, key := range slices.Backward(keys) {
		list = append(list, logKey{k.Vault, key})
	}
	return list, err
}

// logKey implements [checkpoint.Key].
type logKey struct {
	vault vaultwire.Vault
	key   vaultwire.Key
}

func (l logKey) Version() int64            { return l.key.Version }
func (l logKey) Public() ed25519.PublicKey { return l.key.Public }

func (l logKey) Extend(ctx context.Context, e vaultwire.Extension) error {
	_, err := l.vault.Extend(ctx, e)
	return err
}

func (l logKey) NewestTree(ctx context.Context) (vaultwire.Tree, error) {
	return l.vault.NewestTree(ctx, vaultwire.Nothing{})
}

func (l logKey) Follow(ctx context.Context, q vaultwire.Follow) (vaultwire.Followed, error) {
	return l.vault.Follow(ctx, q)
}

func (l logKey) Unvouched(ctx context.Context, q vaultwire.LettingIn) (vaultwire.Unvouched, error) {
	return l.vault.Unvouched(ctx, q)
}

func (l logKey) Sign(ctx context.Context, q vaultwire.Sign) (vaultwire.Signed, error) {
	q.Version = l.key.Version
	return l.vault.Sign(ctx, q)
}

// Epoch is a key that clients seal file keys to.
type Epoch struct {
	Number   int64
	Public   []byte    // of [format.VaultKeyBytes]
	NotAfter time.Time // sealed keys are opened at least until then
}

// Epoch returns the newest epoch that a transaction knows. Without any it is [vaultwire.ErrEpoch].
func (k *Keys) Epoch(ctx context.Context, tx *store.Tx, now time.Time) (e Epoch, err error) {
	list, err := k.current(ctx, tx, vaultwire.PurposeUploads)
	if err != nil {
		return e, err
	}
	if len(list) == 0 {
		return e, vaultwire.ErrEpoch
	}
	// The same for a whole day, so that the answer is too. A new epoch gives at least as long.
	return Epoch{Number: list[0].Version, Public: list[0].Public,
		NotAfter: now.UTC().Truncate(24 * time.Hour).Add(vaultwire.EpochLife)}, nil
}

// EndEpochs destroys the keys of epochs that ended long enough ago.
func (k *Keys) EndEpochs(ctx context.Context, tx *store.Tx, now time.Time) error {
	list, err := k.current(ctx, tx, vaultwire.PurposeUploads) // another process may have begun one
	if err != nil {
		return err
	}
	ended := now.Add(-vaultwire.EpochLife).UnixNano()
	at := slices.IndexFunc(list, func(key vaultwire.Key) bool { return key.Made < ended })
	if at < 0 || at == len(list)-1 {
		return nil
	}
	oldest := list[at].Version // the newest that ends others
	if err := tx.Do(ctx, "end epochs", "DELETE FROM service_keys WHERE purpose = ? AND version < ?",
		vaultwire.PurposeUploads, oldest); err != nil {
		return err
	}
	k.mu.Lock()
	k.kept.Keys = slices.DeleteFunc(k.kept.Keys, func(key vaultwire.Key) bool {
		return key.Purpose == vaultwire.PurposeUploads && key.Version < oldest
	})
	k.mu.Unlock()
	_, err = k.Forget(ctx, vaultwire.Forget{Before: oldest})
	return err
}

// OpenUpload opens a key that a client sealed for an upload.
func (k *Keys) OpenUpload(ctx context.Context, s *store.Store, q vaultwire.OpenSealed) (Incoming, error) {
	var held vaultwire.Held
	err := k.again(ctx, s, func() (err error) {
		held, err = k.OpenSealed(ctx, q)
		return err
	})
	return Incoming{held: held.Held}, err
}

// IssueToken implements [vaultwire.Vault].
func (k *Keys) IssueToken(ctx context.Context, q vaultwire.IssueToken) (token vaultwire.Text, err error) {
	err = k.again(ctx, k.store, func() (err error) {
		token, err = k.Vault.IssueToken(ctx, q)
		return err
	})
	return token, err
}

// OpenJournalKey opens the key of a journal, sealed for the client.
func (k *Keys) OpenJournalKey(ctx context.Context, s *store.Store, q vaultwire.OpenJournal) ([]byte, error) {
	var opened vaultwire.SealedKey
	err := k.again(ctx, s, func() (err error) {
		opened, err = k.OpenJournal(ctx, q)
		return err
	})
	return opened.Sealed, err
}

// again calls f once more after it said that the vault lacks an epoch, which another process may have begun.
func (k *Keys) again(ctx context.Context, s *store.Store, f func() error) error {
	err := f()
	if !errors.Is(err, vaultwire.ErrUnknownKey) {
		return err
	}
	if err := k.reloads(ctx, s)(); err != nil {
		return err
	}
	if err = f(); errors.Is(err, vaultwire.ErrUnknownKey) {
		return vaultwire.ErrEpoch
	}
	return err
}

// keyOf takes a key over.
func keyOf(raw []byte) (*format.Key, error) {
	defer clear(raw)
	return format.NewKey(raw)
}
