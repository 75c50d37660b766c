package saving

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/wire"
)

// Save makes an upload the same one each time it is sent, also after a restart and sealed under another key.
type Save struct {
	ID    string // of the upload, 32 hex digits
	After int64  // records of the group that were known when the save was made: its own comes later
	// Key is of this save alone, such as one of [JournalKey.Derive]. It stays the caller's, and must not change.
	Key *format.Key
	// Mark is a hash of what is saved: of the content, or of the blocks that changed. It makes an upload of other
	// content under the same id another one, which the service refuses with [wire.CodeSpent].
	Mark [sha256.Size]byte
}

// Part is a part of an upload that this account sent, or was sending. Who has it cannot read it without the key of
// the file.
type Part struct {
	ID     string `json:"id"`
	Key    []byte `json:"key"` // under the key of the file
	Blocks string `json:"blocks"`
	Root   string `json:"root"`
	// Leaves are those of a part whose root is no node of the tree of the file.
	Leaves []byte `json:"leaves,omitempty"`
}

// Sent is what became of an upload: a receipt, or an error.
type Sent[Receipt any] struct {
	Receipt Receipt
	Err     error // an *sdk.Error
}

// Begun is a save in blocks that may have been begun before.
type Begun struct {
	Save Save
	Sent []Part // that an earlier upload of the save sent, as far as the service has them
	// Note, if it is not nil, is called with each part that arrives from then on, from several goroutines.
	Note func(Part)
}

const (
	saveTagDomain = "svc-save-1"
	saveKeyDomain = "svc-save-file-1"
)

// NewID returns a random id of an upload or a journal. Ids made together are neighbours in the service's index.
func NewID(at time.Time) (string, error) {
	id := make([]byte, wire.UploadIDBytes)
	if _, err := rand.Read(id); err != nil {
		return "", fmt.Errorf("make an id: %w", err)
	}
	binary.BigEndian.PutUint64(id, uint64(at.UnixMilli())<<16|uint64(binary.BigEndian.Uint16(id[6:])))
	return hex.EncodeToString(id), nil
}

// Check refuses a save without an id of an upload, or without a key.
func (s *Save) Check() error {
	raw, err := hex.DecodeString(s.ID)
	if err != nil || len(raw) != wire.UploadIDBytes || hex.EncodeToString(raw) != s.ID || s.Key == nil {
		return errors.New("a save needs an id of 32 hex digits and a key")
	}
	return nil
}

// Tag is what the service compares when the save is sent again.
func (s *Save) Tag(group, name, base string) string {
	mac := hmac.New(sha256.New, s.Key.Bytes())
	b := []byte(saveTagDomain)
	for _, text := range []string{group, name, base, string(s.Mark[:])} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	_, _ = mac.Write(b) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// FileKey is the key of a file in blocks: always the same one, so that parts which were sent before a restart fit. The
// caller wipes it.
func (s *Save) FileKey() (*format.Key, error) { return derived(s.Key, saveKeyDomain, nil) }
