package keys

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
	"github.com/svcfs/svcfs/service/fault"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// LegacyKey is the key of a group that the service seals files from before it with. The caller wipes it.
func (k *Keys) LegacyKey(ctx context.Context, group string, version int64) (*format.Key, error) {
	opened, err := k.Legacy(ctx, vaultwire.Binding{Group: group, Version: version})
	if errors.Is(err, vaultwire.ErrNoLegacy) {
		return nil, fault.New(wire.CodeValidation, "%v: start svcvault with --legacy for the import, and without it "+
			"afterwards", err)
	}
	if err != nil {
		return nil, err
	}
	return keyOf(opened.Key)
}

// ReadFileKey reads a key of another service from a file: 32 bytes, or standard base64
// of them. A file that other users may read is refused.
func ReadFileKey(path string) (*format.Key, error) {
	raw, err := vaultwire.ReadSecret(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return format.NewKey(raw[:])
}

// ErrWrongKey means that a key does not open a blob, or the blob was changed.
var ErrWrongKey = errors.New("the key does not open the file, or its bytes were changed")

// OpenLegacy decrypts a copy of a file in the format of version 0, for importing.
func OpenLegacy(key *format.Key, blob []byte) ([]byte, error) {
	plain, err := format.OpenBlob(key, bytes.Clone(blob))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrWrongKey, err)
	}
	return plain, nil
}
