package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/service/store"
)

// Clients seal the key of a file to the vault before they send the file. Each version of the
// key for that is an epoch. Another epoch ends the one before, which is still opened for
// EpochLife; then its key is destroyed.

// EpochLife is how long sealed keys of an epoch are opened after the epoch ended.
const EpochLife = 90 * 24 * time.Hour

// ErrEpoch means that the vault has no key of an epoch, or none any more.
var ErrEpoch = errors.New("the vault has no key of this epoch")

// Epoch is a key that clients seal file keys to.
type Epoch struct {
	Number   int64
	Public   []byte    // of [format.VaultKeyBytes]
	NotAfter time.Time // sealed keys are opened at least until then
}

// Epoch returns the newest epoch that a transaction knows. Without any it is [ErrEpoch].
func (v *Vault) Epoch(ctx context.Context, tx *store.Tx, now time.Time) (e Epoch, err error) {
	if err := v.Current(ctx, tx, PurposeUploads); err != nil {
		return e, err
	}
	list := v.versions(PurposeUploads)
	if len(list) == 0 {
		return e, ErrEpoch
	}
	secret, err := v.secret(list[0])
	if err != nil {
		return e, err
	}
	// The same for a whole day, so that the answer is too. A new epoch gives at least as long.
	return Epoch{Number: list[0].version, Public: secret.Public(),
		NotAfter: now.UTC().Truncate(24 * time.Hour).Add(EpochLife)}, nil
}

// secret returns the secret half of an epoch's key.
func (v *Vault) secret(k serviceKey) (*format.VaultSecret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.secrets[k.version]; s != nil {
		return s, nil
	}
	s, err := format.NewVaultSecret(k.raw.Slice())
	if err != nil {
		return nil, err
	}
	if v.secrets == nil {
		v.secrets = make(map[int64]*format.VaultSecret)
	}
	v.secrets[k.version] = s
	return s, nil
}

// OpenSealedKey opens a sealed key for exactly this binding. An epoch that ended, and one
// that never was, is [ErrEpoch]. Another binding is [format.ErrAuthentication].
func (v *Vault) OpenSealedKey(ctx context.Context, s *store.Store, now time.Time, from format.SealedFor,
	head [sha256.Size]byte, sealed []byte) (*format.Key, error) {
	secret, err := v.secretOf(ctx, s, now, from.Epoch)
	if err != nil {
		return nil, err
	}
	return secret.OpenKey(from, head, sealed)
}

// OpenJournalKey is [Vault.OpenSealedKey] for the key of a journal.
func (v *Vault) OpenJournalKey(ctx context.Context, s *store.Store, now time.Time, from format.JournalFor,
	sealed []byte) (*format.Key, error) {
	secret, err := v.secretOf(ctx, s, now, from.Epoch)
	if err != nil {
		return nil, err
	}
	return secret.OpenJournalKey(from, sealed)
}

// secretOf returns the secret half of the key of an epoch that is opened now, else [ErrEpoch].
func (v *Vault) secretOf(ctx context.Context, s *store.Store, now time.Time, epoch int64) (*format.VaultSecret, error) {
	k, ok := v.epoch(epoch, now)
	newest := v.versions(PurposeUploads)
	if !ok && epoch > 0 && (len(newest) == 0 || epoch == newest[0].version+1) { // another process may have made it
		if err := s.Read(ctx, func(tx *store.Tx) error { return v.Current(ctx, tx, PurposeUploads) }); err != nil {
			return nil, err
		}
		k, ok = v.epoch(epoch, now)
	}
	if !ok {
		return nil, ErrEpoch
	}
	return v.secret(k)
}

// epoch returns the key of an epoch, unless it ended too long ago.
func (v *Vault) epoch(number int64, now time.Time) (k serviceKey, ok bool) {
	list := v.versions(PurposeUploads)
	at := slices.IndexFunc(list, func(k serviceKey) bool { return k.version == number })
	if at < 0 || at > 0 && list[at-1].made < now.Add(-EpochLife).UnixNano() {
		return k, false
	}
	return list[at], true
}

// EndEpochs destroys the keys of epochs that are not opened any more.
func (v *Vault) EndEpochs(ctx context.Context, tx *store.Tx, now time.Time) error {
	if err := v.Current(ctx, tx, PurposeUploads); err != nil { // another process may have begun one
		return err
	}
	err := tx.Do(ctx, "end epochs", `DELETE FROM service_keys WHERE purpose = ?
		AND EXISTS (SELECT 1 FROM service_keys AS next
		WHERE next.purpose = service_keys.purpose AND next.version > service_keys.version AND next.made_ns < ?)`,
		PurposeUploads, now.Add(-EpochLife).UnixNano())
	if err != nil {
		return err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	newest := int64(0)
	for _, k := range v.keys {
		if k.purpose == PurposeUploads && k.made < now.Add(-EpochLife).UnixNano() {
			newest = max(newest, k.version)
		}
	}
	v.keys = slices.DeleteFunc(v.keys, func(k serviceKey) bool {
		return k.purpose == PurposeUploads && k.version < newest
	})
	for epoch := range v.secrets {
		if epoch < newest {
			delete(v.secrets, epoch)
		}
	}
	return nil
}
