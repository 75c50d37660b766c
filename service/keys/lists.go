package keys

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire/chain"
	"github.com/svcfs/svcfs/service/store"
	"github.com/svcfs/svcfs/service/vaultwire"
)

// ListKey seals what the records of a group's files commit to, see [chain.Opening]. It opens no
// file: whoever holds it sees what any member's listing shows. The zero value opens nothing.
type ListKey struct{ aead cipher.AEAD }

// SealedOpeningBytes is the length of a sealed opening: nonce, opening and tag.
const SealedOpeningBytes = 12 + chain.OpeningBytes + 16

// OpenListKey opens the list key of a group. Errors: [vaultwire.ErrNotOpened].
func (k *Keys) OpenListKey(ctx context.Context, tx *store.Tx, group string, wrapped []byte) (ListKey, error) {
	opened, err := anew(k.reloadsIn(ctx, tx), func() (vaultwire.Opened, error) {
		return k.OpenList(ctx, vaultwire.OpenList{Group: group, Wrapped: wrapped})
	})
	if err != nil {
		return ListKey{}, err
	}
	key, err := keyOf(opened.Key)
	if err != nil {
		return ListKey{}, err
	}
	defer key.Wipe()
	return NewListKey(key)
}

// NewListKey returns the list key that key is. key may be wiped afterwards.
func NewListKey(key *format.Key) (ListKey, error) {
	block, err := aes.NewCipher(key.Bytes())
	if err != nil {
		return ListKey{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	return ListKey{aead}, err
}

// Seal seals the opening of the upload with a sequence, for that sequence only.
func (k ListKey) Seal(seq int64, o *chain.Opening) []byte {
	return k.aead.Seal(nil, nil, o.Bytes(), openingData(seq))
}

// Open reverses [ListKey.Seal]. ok is false for what does not open: it was destroyed, or is damaged.
func (k ListKey) Open(seq int64, sealed []byte) (o chain.Opening, ok bool) {
	if k.aead == nil || len(sealed) != SealedOpeningBytes {
		return o, false
	}
	raw, err := k.aead.Open(nil, nil, sealed, openingData(seq))
	if err != nil {
		return o, false
	}
	o, err = chain.OpeningOf(raw)
	return o, err == nil
}

func openingData(seq int64) []byte {
	return binary.BigEndian.AppendUint64([]byte("svc-opening-1"), uint64(seq))
}
