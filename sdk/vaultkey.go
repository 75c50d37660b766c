package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/proof"
	"github.com/svcfs/svcfs/sdk/wire"
)

// vaultKeyAge is after which time a client that sends asks for a newer key of the vault, because
// the service may have begun another epoch.
const vaultKeyAge = 24 * time.Hour

// vaultKey is a verified key of the service's vault, to which keys of files are sealed.
type vaultKey struct {
	stated   wire.VaultKey
	service  string // contract id of the service. A lie here makes a key that no vault opens
	public   *format.VaultPublic
	verified time.Time
}

// vault is what a client knows of the vault of its service.
type vault struct {
	c *Client

	mu  sync.Mutex
	key *vaultKey // nil until it was verified
}

// ended reports whether the service opens no more keys that are sealed to k.
func (k *vaultKey) ended(now time.Time) bool { return now.Unix() >= k.stated.NotAfter }

// current returns the key of the vault. It asks the service for another one if none is known, or
// if the known one has ended.
func (v *vault) current(ctx context.Context) (*vaultKey, error) {
	caps, err := v.c.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	if !caps.TakesSealed() {
		return nil, errNotSealed
	}
	v.mu.Lock()
	known := v.key
	v.mu.Unlock()
	if known != nil && !known.ended(time.Now()) {
		return known, nil
	}
	if known != nil {
		return v.newer(ctx)
	}
	return v.verify(ctx, caps)
}

// newer asks the service for the key of the vault again. After an error the known one stays.
func (v *vault) newer(ctx context.Context) (*vaultKey, error) {
	caps, err := v.c.caps.shared(ctx)
	if err != nil {
		return nil, err
	}
	if !caps.TakesSealed() {
		return nil, errNotSealed
	}
	return v.verify(ctx, caps)
}

var errNotSealed = &Error{Op: "check", Kind: ErrUnsupported, Code: wire.CodeUnsupported,
	Err: errors.New("the service takes no sealed uploads")}

// isOld reports whether the key of the vault has been known for so long that the service may
// have begun another epoch.
func (v *vault) isOld() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.key != nil && time.Since(v.key.verified) >= vaultKeyAge
}

// verify verifies the key of the vault with the key of the log, and keeps it. Nothing is
// sealed to another key (threat 51).
func (v *vault) verify(ctx context.Context, caps wire.Capabilities) (*vaultKey, error) {
	k := &vaultKey{stated: caps.Vault.VaultKey, service: caps.ContractID, verified: time.Now()}
	switch {
	case k.stated.KEM != format.SealedKeyKEM:
		return nil, refuseVault(
			"its kind is %#x, and this client knows %#x only: update svcfs", k.stated.KEM,
			format.SealedKeyKEM)
	case k.stated.Epoch <= 0:
		return nil, refuseVault("its number is %d", k.stated.Epoch)
	case k.ended(k.verified):
		return nil, refuseVault("it ended at %s: look at the clock of this machine, or tell the operator "+
			"of the service",
			time.Unix(k.stated.NotAfter, 0).UTC().Format(time.RFC3339))
	}
	public, err := retryWithNewKey(ctx, v.c, func() ([]byte, error) {
		log, _, err := v.c.log.open(ctx)
		if err != nil {
			return nil, err
		}
		public, err := proof.CheckVaultKey(log, k.stated)
		if err != nil {
			if other := v.c.log.keyChanged(ctx, log); other != nil {
				return nil, other
			}
			return nil, refuseVault("%w", err)
		}
		return public, nil
	})
	if err != nil {
		return nil, err
	}
	if len(public) != format.VaultKeyBytes {
		return nil, refuseVault("it has %d bytes, want %d", len(public), format.VaultKeyBytes)
	}
	if k.public, err = format.NewVaultPublic(public); err != nil {
		return nil, refuseVault("%w", err)
	}
	if seen := v.c.memory.Vault(); k.stated.Epoch < seen {
		return nil, refuseVault("it is number %d, and number %d was seen before", k.stated.Epoch, seen)
	}
	v.c.memory.SawVault(k.stated.Epoch)
	v.mu.Lock()
	v.key = k
	v.mu.Unlock()
	return k, nil
}

// refuseVault is the error for a key of the vault that must not be used.
func refuseVault(text string, args ...any) error {
	return &Error{Op: "verify", Kind: ErrCorrupt, Code: wire.CodeVaultKey,
		Err: fmt.Errorf("the service shows a key of its vault that must not be used: "+text, args...)}
}
