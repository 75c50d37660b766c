package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Clients seal the key of a file to the vault before they send the file. Each version of the
// key for that is an epoch. Another epoch ends the one before, which is still opened for
// [vaultwire.EpochLife]; then its key is destroyed.

// secret returns the secret of a key. It is kept as long as the key: making it takes longer than opening a key.
func (v *Vault) secret(k serviceKey) (*format.VaultSecret, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s := v.secrets[k.Version]; s != nil {
		return s, nil
	}
	s, err := format.NewVaultSecret(k.raw.Slice())
	if err != nil {
		return nil, err
	}
	isKept := func(o serviceKey) bool { return o.Purpose == k.Purpose && o.Version == k.Version }
	if slices.ContainsFunc(v.keys, isKept) { // else it was forgotten meanwhile
		v.secrets[k.Version] = s
	}
	return s, nil
}

// OpenSealed implements [vaultwire.Vault].
func (v *Vault) OpenSealed(_ context.Context, q vaultwire.OpenSealed) (a vaultwire.Held, err error) {
	secret, err := v.secretOf(q.For.Epoch)
	if err != nil {
		return a, err
	}
	group, err := wire.GroupOfBound(q.Head)
	if err != nil {
		return a, fmt.Errorf("%w: %w", vaultwire.ErrSealed, err)
	}
	key, err := secret.OpenKey(q.For, sha256.Sum256(q.Head), q.Sealed)
	if err != nil {
		return a, sealedError(err)
	}
	defer key.Wipe()
	a.Held = v.hold.Seal(nil, nil, key.Bytes(), []byte(group))
	return a, nil
}

// OpenJournal implements [vaultwire.Vault].
func (v *Vault) OpenJournal(_ context.Context, q vaultwire.OpenJournal) (a vaultwire.SealedKey, err error) {
	session, err := v.sessionOf(q.Token)
	if err != nil {
		return a, err
	}
	if session.sealed == nil || session.Account != q.For.Account {
		return a, fmt.Errorf("the key of a journal of %.80q: %w", q.For.Account, vaultwire.ErrSealedOnly)
	}
	secret, err := v.secretOf(q.For.Epoch)
	if err != nil {
		return a, err
	}
	key, err := secret.OpenJournalKey(q.For, q.Sealed)
	if err != nil {
		return a, sealedError(err)
	}
	defer key.Wipe()
	a.Sealed = session.sealed.Seal(q.For.Group, format.JournalRef(q.For.Journal), key)
	return a, nil
}

func sealedError(err error) error {
	if errors.Is(err, format.ErrAuthentication) || errors.Is(err, format.ErrCorrupt) {
		return fmt.Errorf("%w: %w", vaultwire.ErrSealed, err)
	}
	return err
}

// secretOf returns the secret of an epoch, if it is still opened.
func (v *Vault) secretOf(number int64) (*format.VaultSecret, error) {
	list := v.versions(vaultwire.PurposeUploads)
	at := slices.IndexFunc(list, func(k serviceKey) bool { return k.Version == number })
	switch ended := v.now().Add(-vaultwire.EpochLife).UnixNano(); {
	case at < 0 && number > 0 && (len(list) == 0 || number == list[0].Version+1): // another process may have made it
		return nil, vaultwire.ErrUnknownKey
	case at < 0, at > 0 && list[at-1].Made < ended:
		return nil, vaultwire.ErrEpoch
	}
	return v.secret(list[at])
}

// Forget implements [vaultwire.Vault].
func (v *Vault) Forget(_ context.Context, q vaultwire.Forget) (vaultwire.Nothing, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.keys = slices.DeleteFunc(v.keys, func(k serviceKey) bool {
		return k.Purpose == vaultwire.PurposeUploads && k.Version < q.Before
	})
	for epoch := range v.secrets {
		if epoch < q.Before {
			delete(v.secrets, epoch)
		}
	}
	return vaultwire.Nothing{}, nil
}
