package keys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/locked"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// Incoming is the key of a file on its way to its place: in the clear, where the client could not seal it, or held by
// the vault. The zero value is none. It prints as "redacted".
type Incoming struct {
	locked.Redacted
	key  *format.Key
	held []byte
}

// InClear is a key that the service has seen. It stays the caller's.
func InClear(key *format.Key) Incoming { return Incoming{key: key} }

// IsNone reports that there is no key.
func (i Incoming) IsNone() bool { return i.key == nil && i.held == nil }

// SelectNewestRoot gives the version of the root that wraps new keys of files.
const SelectNewestRoot store.Query = "SELECT max(version) FROM service_keys WHERE purpose = '" +
	vaultwire.PurposeFiles + "'"

// AskNewestRoot is what [NewestRoot] asks.
func AskNewestRoot() store.Ask { return store.Ask{Query: SelectNewestRoot} }

// NewestRoot runs [SelectNewestRoot].
func NewestRoot(ctx context.Context, tx *store.Tx) (version int64, err error) {
	if err := tx.Ask(ctx, AskNewestRoot()).Scan(&version); err != nil {
		return 0, fmt.Errorf("look for the newest root: %w", err)
	}
	return version, nil
}

// WrapKey wraps a key for exactly this binding, by a version of the root that tx knows.
func (k *Keys) WrapKey(ctx context.Context, tx *store.Tx, root int64, b vaultwire.Binding, key Incoming) ([]byte,
	error) {
	q := vaultwire.Wrap{Root: root, Binding: b, Held: key.held}
	if key.key != nil {
		q.Key = key.key.Bytes()
	}
	wrapped, err := anew(k.reloadsIn(ctx, tx), func() (vaultwire.Wrapped, error) { return k.Wrap(ctx, q) })
	if errors.Is(err, vaultwire.ErrHeld) {
		return nil, &fault.Error{Code: wire.CodeUnavailable, RetryAfter: time.Second, Err: err,
			Text: "the vault, which keeps the keys, was started anew meanwhile: try again in a moment"}
	}
	return wrapped.Wrapped, err
}

// FileKey is the key of a file for who retrieves it: in the clear, or sealed for the client.
type FileKey struct {
	Clear  *format.Key // the caller wipes it
	Sealed []byte
}

// FileKey opens the key of a file, for a retrieval whose record is committed. Errors: [vaultwire.ErrNotOpened].
func (k *Keys) FileKey(ctx context.Context, s *store.Store, q vaultwire.OpenFile) (key FileKey, err error) {
	opened, err := anew(k.reloads(ctx, s), func() (vaultwire.OpenedFile, error) { return k.OpenFile(ctx, q) })
	if errors.Is(err, vaultwire.ErrNoClaim) { // its answer was lost
		err = &fault.Error{Code: wire.CodeUnavailable, RetryAfter: time.Second, Err: err,
			Text: "the vault, which keeps the keys, gave this key already: try again"}
	}
	if err != nil || opened.Sealed != nil {
		return FileKey{Sealed: opened.Sealed}, err
	}
	key.Clear, err = keyOf(opened.Key)
	return key, err
}

// CheckKey checks the key of a file. Errors: [vaultwire.ErrNotOpened].
func (k *Keys) CheckKey(ctx context.Context, s *store.Store, q vaultwire.Check) (vaultwire.Checked, error) {
	return anew(k.reloads(ctx, s), func() (vaultwire.Checked, error) { return k.Check(ctx, q) })
}

// reloadsIn is [Keys.Reload] in a transaction, and reloads outside of one.
func (k *Keys) reloadsIn(ctx context.Context, tx *store.Tx) func() error {
	return func() error { return k.Reload(ctx, tx) }
}

func (k *Keys) reloads(ctx context.Context, s *store.Store) func() error {
	return func() error { return s.Read(ctx, func(tx *store.Tx) error { return k.Reload(ctx, tx) }) }
}

// anew calls f once more after a root was missing, or none opened a key: another process may have made one.
func anew[A any](reload func() error, f func() (A, error)) (a A, err error) {
	if a, err = f(); !errors.Is(err, vaultwire.ErrUnknownKey) && !errors.Is(err, vaultwire.ErrNotOpened) {
		return a, err
	}
	if err := reload(); err != nil {
		return a, err
	}
	return f()
}

// RewrapKeys wraps keys by the newest root that tx knows; see [vaultwire.Rewrapped].
func (k *Keys) RewrapKeys(ctx context.Context, tx *store.Tx, list []vaultwire.WrappedKey) (a vaultwire.Rewrapped,
	err error) {
	if err := k.Reload(ctx, tx); err != nil {
		return a, err
	}
	root, err := NewestRoot(ctx, tx)
	if err != nil {
		return a, err
	}
	return k.Rewrap(ctx, vaultwire.Rewrap{Root: root, Keys: list})
}
