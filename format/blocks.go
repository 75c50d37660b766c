package format

import (
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

const (
	// VersionBlocks is the version of files that are cut into sealed blocks.
	VersionBlocks = 2
	// BlockBytes is the plaintext of a block, in bytes, that this package's users write.
	BlockBytes int64 = 256 << 10
	// MinBlockBytes is the least plaintext of a block, in bytes. A block has a power of two,
	// and the last one of a file what is left.
	MinBlockBytes int64 = 64 << 10
	// MaxBlockBytes is the most plaintext of a block, in bytes.
	MaxBlockBytes int64 = 1 << 20
	// MaxBlocksPerKey is how many blocks a writer seals under one key, at most (half of what
	// NIST SP 800-38D section 8.3 allows for random nonces).
	MaxBlocksPerKey int64 = 1 << 31

	blockLabel    = "svc-v2"
	keyCheckLabel = "svc-v2 key check"
	partKeyLabel  = "svc-v2 part key"
	contentLabel  = "svc-content-2"
)

// Layout is how a file of version 2 is cut into blocks.
type Layout struct {
	Size       int64 // of the plaintext, in bytes, at least 1
	BlockBytes int64 // plaintext of each block but the last
}

// Check returns [ErrCorrupt] for a layout that no file has.
func (l Layout) Check() error {
	if l.Size < 1 || l.Size > maxSize {
		return fmt.Errorf("a file of %d bytes in blocks: want 1 to %d: %w", l.Size, int64(maxSize), ErrCorrupt)
	}
	if l.BlockBytes < MinBlockBytes || l.BlockBytes > MaxBlockBytes || l.BlockBytes&(l.BlockBytes-1) != 0 {
		return fmt.Errorf("blocks of %d bytes: want a power of two from %d to %d: %w", l.BlockBytes, MinBlockBytes,
			MaxBlockBytes, ErrCorrupt)
	}
	return nil
}

// Blocks returns the number of blocks. This and the other methods want a layout that passes
// Check, and blocks from 0 to Blocks()-1.
func (l Layout) Blocks() int64 { return (l.Size + l.BlockBytes - 1) / l.BlockBytes }

// Plain returns the plaintext of block i, in bytes.
func (l Layout) Plain(i int64) int64 { return min(l.BlockBytes, l.Size-i*l.BlockBytes) }

// Sealed returns the length of sealed block i, in bytes.
func (l Layout) Sealed(i int64) int64 { return l.Plain(i) + Overhead }

// Offset returns where sealed block i begins among all sealed blocks, in bytes.
func (l Layout) Offset(i int64) int64 { return i * (l.BlockBytes + Overhead) }

// SealedBytes returns the length of all sealed blocks, in bytes.
func (l Layout) SealedBytes() int64 { return l.Size + l.Blocks()*Overhead }

// BlockCipher seals and opens blocks under the key of a part. It is safe for concurrent use.
type BlockCipher struct{ aead cipher.AEAD }

// NewBlockCipher returns the cipher of a part's key, which may be wiped afterwards.
func NewBlockCipher(k *Key) (*BlockCipher, error) {
	aead, err := k.aead()
	if err != nil {
		return nil, err
	}
	return &BlockCipher{aead}, nil
}

// Seal encrypts a block under a fresh random nonce and appends nonce, ciphertext and tag to
// dst. plain has 1 to [MaxBlockBytes] bytes and must not overlap the memory that dst grows
// into. The caller counts the blocks: at most [MaxBlocksPerKey] under one key.
func (c *BlockCipher) Seal(dst []byte, index int64, plain []byte) ([]byte, error) {
	if index < 0 || len(plain) == 0 || int64(len(plain)) > MaxBlockBytes {
		return dst, fmt.Errorf("seal block %d of %d bytes: want 1 to %d bytes", index, len(plain), MaxBlockBytes)
	}
	var nonce [NonceBytes]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return dst, fmt.Errorf("make nonce: %w", err)
	}
	return c.aead.Seal(append(dst, nonce[:]...), nonce[:], plain, blockContext(index)), nil
}

// Open decrypts a sealed block and appends the plaintext to dst, whose spare memory must
// not overlap sealed. Errors: [ErrAuthentication], after which nothing of the plaintext is left in the
// memory of dst, and [ErrCorrupt] for a length that no block has.
func (c *BlockCipher) Open(dst []byte, index int64, sealed []byte) ([]byte, error) {
	if index < 0 || len(sealed) <= Overhead || int64(len(sealed)) > MaxBlockBytes+Overhead {
		return dst, fmt.Errorf("open block %d of %d bytes: %w", index, len(sealed), ErrCorrupt)
	}
	plain, err := c.aead.Open(dst, sealed[:NonceBytes], sealed[NonceBytes:], blockContext(index))
	if err != nil {
		return dst, ErrAuthentication
	}
	return plain, nil
}

// blockContext is the additional data of block i: a block that is moved does not open.
func blockContext(i int64) []byte {
	return binary.BigEndian.AppendUint64([]byte(blockLabel), uint64(i))
}

// WrappedKeyBytes is the length of a wrapped key, in bytes: nonce, key, tag.
const WrappedKeyBytes = NonceBytes + KeyBytes + TagBytes

// WrapKey encrypts the key of a part under the key of a file.
func WrapKey(file, part *Key) (wrapped [WrappedKeyBytes]byte, err error) {
	aead, err := file.aead()
	if err != nil {
		return wrapped, err
	}
	if part.isZero() {
		return wrapped, errZeroKey
	}
	if _, err := rand.Read(wrapped[:NonceBytes]); err != nil {
		return wrapped, fmt.Errorf("make nonce: %w", err)
	}
	aead.Seal(wrapped[NonceBytes:NonceBytes], wrapped[:NonceBytes], part.raw[:], []byte(partKeyLabel))
	return wrapped, nil
}

// UnwrapKey decrypts the key of a part. The error is [ErrAuthentication], or [ErrCorrupt] for
// the key of only zeros.
func UnwrapKey(file *Key, wrapped [WrappedKeyBytes]byte) (*Key, error) {
	aead, err := file.aead()
	if err != nil {
		return nil, err
	}
	raw, err := aead.Open(nil, wrapped[:NonceBytes], wrapped[NonceBytes:], []byte(partKeyLabel))
	if err != nil {
		return nil, ErrAuthentication
	}
	defer clear(raw)
	return NewKey(raw)
}

// KeyCheck commits to a file key without telling it: GCM alone would allow two keys for one
// ciphertext.
func KeyCheck(file *Key) (check [sha256.Size]byte, err error) {
	if file.isZero() {
		return check, errZeroKey
	}
	raw, err := hkdf.Key(sha256.New, file.raw[:], nil, keyCheckLabel, sha256.Size)
	if err != nil {
		return check, fmt.Errorf("derive key check: %w", err)
	}
	return [sha256.Size]byte(raw), nil
}

// Content returns the hash that the ledger holds for a file of version 2: it binds size,
// blocks, manifest (see [ManifestSum]) and key. m must be of version 2.
func (m Metadata) Content(manifest [sha256.Size]byte) [sha256.Size]byte {
	text := binary.BigEndian.AppendUint64([]byte(contentLabel), uint64(m.OriginalSize))
	text = binary.BigEndian.AppendUint32(text, uint32(m.BlockBytes))
	text = append(text, m.Root[:]...)
	text = append(text, manifest[:]...)
	return sha256.Sum256(append(text, m.KeyCheck[:]...))
}

// Layout returns the layout that m states. m must be of version 2.
func (m Metadata) Layout() Layout { return Layout{Size: m.OriginalSize, BlockBytes: m.BlockBytes} }
