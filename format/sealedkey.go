package format

import (
	"crypto/hpke"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// A sealed key is the key of a file, or of a journal, encrypted to the vault of a service (HPKE, RFC 9180,
// base mode): MLKEM768-X25519, HKDF-SHA256, AES-256-GCM. Only the vault opens it. A key of a file opens only for
// the account, the upload, the epoch and the head, with its ciphertext, that it was sealed for; a key of a journal
// only for the account, the group, the journal and the epoch.

const (
	// SealedKeyKEM is the identifier of MLKEM768-X25519 (draft-ietf-hpke-pq).
	SealedKeyKEM = 0x647a
	// VaultKeyBytes is the length of a public key of a vault, in bytes.
	VaultKeyBytes = 1216
	// SealedKeyBytes is the length of a sealed key, in bytes: the encapsulated key, then the
	// encrypted key with its tag.
	SealedKeyBytes = 1120 + KeyBytes + TagBytes

	sealedKeyDomain     = "svc-upload-1"
	sealedJournalDomain = "svc-journal-1"
)

// SealedFor is what a sealed key is bound to.
type SealedFor struct {
	Service string // contract id of the service
	Account string
	Upload  string // id of the upload, chosen by the client
	Epoch   int64  // number of the vault's key
}

func (f SealedFor) info() []byte {
	return sealedInfo(sealedKeyDomain, f.Epoch, f.Service, f.Account, f.Upload)
}

// JournalFor is what the sealed key of a journal is bound to.
type JournalFor struct {
	Service string // contract id of the service
	Account string
	Group   string // whose members alone may open it
	Journal string // id of the journal, chosen by the client
	Epoch   int64  // number of the vault's key
}

func (f JournalFor) info() []byte {
	return sealedInfo(sealedJournalDomain, f.Epoch, f.Service, f.Account, f.Group, f.Journal)
}

func sealedInfo(domain string, epoch int64, texts ...string) []byte {
	out := []byte(domain)
	for _, s := range texts {
		out = binary.BigEndian.AppendUint64(out, uint64(len(s)))
		out = append(out, s...)
	}
	return binary.BigEndian.AppendUint64(out, uint64(epoch))
}

func sealedKeySuite() (hpke.KDF, hpke.AEAD) { return hpke.HKDFSHA256(), hpke.AES256GCM() }

// VaultPublic is the public half of a vault's key, ready to seal keys to. It is safe for
// concurrent use.
type VaultPublic struct {
	public hpke.PublicKey
}

// NewVaultPublic reads a public key of a vault, of [VaultKeyBytes], of which it keeps no slice.
// Bytes that are none are [ErrCorrupt].
func NewVaultPublic(raw []byte) (*VaultPublic, error) {
	public, err := hpke.MLKEM768X25519().NewPublicKey(raw)
	if err != nil {
		return nil, fmt.Errorf("read the key of the vault: %w: %w", ErrCorrupt, err)
	}
	return &VaultPublic{public}, nil
}

// SealKey encrypts the key of a file to the vault. head is the SHA-256 of all else that is said of the upload, with
// the hash of its ciphertext; SPEC.md lays it out. The result has [SealedKeyBytes] and belongs to the caller.
func (p *VaultPublic) SealKey(to SealedFor, head [sha256.Size]byte, key *Key) ([]byte, error) {
	return p.seal(to.info(), head[:], key)
}

// SealJournalKey encrypts the key of a journal to the vault. The result has [SealedKeyBytes] and belongs to the
// caller.
func (p *VaultPublic) SealJournalKey(to JournalFor, key *Key) ([]byte, error) {
	return p.seal(to.info(), nil, key)
}

func (p *VaultPublic) seal(info, bound []byte, key *Key) ([]byte, error) {
	if key.isZero() {
		return nil, errZeroKey
	}
	kdf, aead := sealedKeySuite()
	enc, sender, err := hpke.NewSender(p.public, kdf, aead, info)
	if err != nil {
		return nil, fmt.Errorf("seal key: %w", err)
	}
	sealed, err := sender.Seal(bound, key.Bytes())
	if err != nil {
		return nil, fmt.Errorf("seal key: %w", err)
	}
	return append(enc, sealed...), nil
}

// VaultSecret is the secret half of a vault's key. It prints as "redacted".
type VaultSecret struct {
	private hpke.PrivateKey
}

// NewVaultSecret derives a key of a vault from a seed of 32 bytes, of which it keeps no copy.
func NewVaultSecret(seed []byte) (*VaultSecret, error) {
	private, err := hpke.MLKEM768X25519().DeriveKeyPair(seed)
	if err != nil {
		return nil, fmt.Errorf("derive the key of the vault: %w", err)
	}
	return &VaultSecret{private}, nil
}

// Public returns the public half, of [VaultKeyBytes].
func (s *VaultSecret) Public() []byte { return s.private.PublicKey().Bytes() }

// Format prints "redacted" for every verb.
func (s VaultSecret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// OpenKey decrypts a sealed key. Another secret, another binding and changed bytes are
// [ErrAuthentication], another length is [ErrCorrupt].
func (s *VaultSecret) OpenKey(from SealedFor, head [sha256.Size]byte, sealed []byte) (*Key, error) {
	return s.open(from.info(), head[:], sealed)
}

// OpenJournalKey decrypts what [VaultPublic.SealJournalKey] made. The errors are those of OpenKey.
func (s *VaultSecret) OpenJournalKey(from JournalFor, sealed []byte) (*Key, error) {
	return s.open(from.info(), nil, sealed)
}

func (s *VaultSecret) open(info, bound, sealed []byte) (*Key, error) {
	if len(sealed) != SealedKeyBytes {
		return nil, fmt.Errorf("sealed key of %d bytes: want %d: %w", len(sealed), SealedKeyBytes, ErrCorrupt)
	}
	kdf, aead := sealedKeySuite()
	enc := len(sealed) - KeyBytes - TagBytes
	recipient, err := hpke.NewRecipient(sealed[:enc], s.private, kdf, aead, info)
	if err != nil {
		return nil, fmt.Errorf("open sealed key: %w", ErrAuthentication)
	}
	raw, err := recipient.Open(bound, sealed[enc:])
	if err != nil {
		return nil, fmt.Errorf("open sealed key: %w", ErrAuthentication)
	}
	defer clear(raw)
	return NewKey(raw)
}
