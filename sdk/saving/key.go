// Package saving has what a client keeps beside saves that wait on a disk: the key of a journal, the id under which a
// save is recorded once, and which parts of a large one the service has.
//
// It is for the programs of this module: there is no promise that it stays as it is.
package saving

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"

	"github.com/svcfs/svcfs/format"
)

// JournalKey is the key of a journal: what waits on this machine's disk to be saved into one group. It is in memory
// only; on a disk it lies as a [SealedJournalKey], which the vault of the service opens for the account that sealed it,
// while the account is a member of the group and the journal has not ended. It prints as "redacted".
type JournalKey struct {
	id  string
	key *format.Key
}

// SealedJournalKey is the key of a journal, sealed to the vault.
type SealedJournalKey struct {
	Journal string `json:"journal"` // id, 32 hex digits
	Epoch   int64  `json:"epoch"`   // number of the vault's key
	Key     []byte `json:"key"`     // of [format.SealedKeyBytes]
}

// NewJournalKey returns the key of a journal with an id. It owns key from now on.
func NewJournalKey(id string, key *format.Key) *JournalKey { return &JournalKey{id, key} }

// ID returns the id of the journal.
func (k *JournalKey) ID() string { return k.id }

// Derive returns a key for one purpose and one salt (HKDF-SHA256). The caller wipes it.
func (k *JournalKey) Derive(purpose string, salt []byte) (*format.Key, error) {
	return derived(k.key, purpose, salt)
}

// Take returns the key itself, for who knows that it is the key of a file. No method may be called afterwards.
func (k *JournalKey) Take() *format.Key { return k.key }

// SealTo seals the key to a key of the vault.
func (k *JournalKey) SealTo(vault *format.VaultPublic, of format.JournalFor) (s SealedJournalKey, err error) {
	of.Journal = k.id
	s = SealedJournalKey{Journal: k.id, Epoch: of.Epoch}
	s.Key, err = vault.SealJournalKey(of, k.key)
	return s, err
}

// Wipe overwrites the key in memory. No method may be called afterwards.
func (k *JournalKey) Wipe() { k.key.Wipe() }

// Format prints "redacted" for every verb.
func (k *JournalKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("redacted")) }

func derived(from *format.Key, purpose string, salt []byte) (*format.Key, error) {
	raw, err := hkdf.Key(sha256.New, from.Bytes(), salt, purpose, format.KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	defer clear(raw)
	return format.NewKey(raw)
}
