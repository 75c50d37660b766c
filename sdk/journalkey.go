package sdk

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/internal/call"
	"github.com/svcfs/svcfs/sdk/wire"
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

// ID returns the id of the journal.
func (k *JournalKey) ID() string { return k.id }

// Derive returns a key for one purpose and one salt (HKDF-SHA256). The caller wipes it.
func (k *JournalKey) Derive(purpose string, salt []byte) (*format.Key, error) {
	raw, err := hkdf.Key(sha256.New, k.key.Bytes(), salt, purpose, format.KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	defer clear(raw)
	return format.NewKey(raw)
}

// Wipe overwrites the key in memory. No method may be called afterwards.
func (k *JournalKey) Wipe() { k.key.Wipe() }

// Format prints "redacted" for every verb.
func (k *JournalKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte("redacted")) }

// NewJournalKey makes the key of a new journal of the group, and seals it. It is local and free once the client knows
// the service's capabilities and, verified, the key of its vault; else it asks for both. Errors: [ErrUnsupported] at a
// service without a vault of ours; [ErrCorrupt] with [wire.CodeVaultKey] if the key of the vault must not be used;
// [ErrUnavailable], [ErrTimeout]. Only svcd has it.
func (g Group) NewJournalKey(ctx context.Context) (*JournalKey, SealedJournalKey, error) {
	id, err := newUploadID(time.Now())
	if err != nil {
		return nil, SealedJournalKey{}, g.wrap("make the key of a journal", err)
	}
	key, err := format.RandomKey()
	if err != nil {
		return nil, SealedJournalKey{}, g.wrap("make the key of a journal", err)
	}
	k := &JournalKey{id, key}
	sealed, err := g.c.sealJournalKey(ctx, g.ID, k)
	if err != nil {
		k.Wipe()
		return nil, SealedJournalKey{}, g.wrap("make the key of a journal", err)
	}
	return k, sealed, nil
}

// SealJournalKey seals the key of a journal of the group to the newest key of the vault: after a day it asks the
// service whether there is another one. Errors and price are those of [Group.NewJournalKey].
func (g Group) SealJournalKey(ctx context.Context, k *JournalKey) (SealedJournalKey, error) {
	if g.c.vaultIsOld() {
		_, _ = g.c.newerVault(ctx) // else the known one serves as long as it is open
	}
	sealed, err := g.c.sealJournalKey(ctx, g.ID, k)
	return sealed, g.wrap("seal the key of a journal", err)
}

func (c *Client) sealJournalKey(ctx context.Context, g GroupID, k *JournalKey) (s SealedJournalKey, err error) {
	vault, err := c.vault(ctx)
	if err != nil {
		return s, err
	}
	s = SealedJournalKey{Journal: k.id, Epoch: vault.stated.Epoch}
	s.Key, err = vault.public.SealJournalKey(format.JournalFor{Service: vault.service, Account: string(c.account),
		Group: string(g), Journal: k.id, Epoch: s.Epoch}, k.key)
	return s, err
}

// OpenJournalKey has the vault open the key of a journal of the group that this account sealed. Free; it needs the API
// key. Errors: [ErrNotAuthorized] for who is no member; [ErrConflict] with [wire.CodeJournalEnded] for a journal that
// has ended, and with [wire.CodeEpoch] where the vault opens keys of that epoch no more; [ErrInvalid] for another
// account's, group's or journal's; [ErrUnsupported], [ErrUnavailable], [ErrTimeout]. Only svcd has it.
func (g Group) OpenJournalKey(ctx context.Context, s SealedJournalKey) (*JournalKey, error) {
	k, err := g.c.openJournalKey(ctx, g.ID, s)
	return k, g.wrap("open the key of a journal", err)
}

func (c *Client) openJournalKey(ctx context.Context, g GroupID, s SealedJournalKey) (*JournalKey, error) {
	request := wire.OpenJournalKeyRequest{Journal: s.Journal, GroupID: string(g), Epoch: s.Epoch,
		SealedKey: base64.StdEncoding.EncodeToString(s.Key)}
	var answer wire.OpenJournalKeyResult
	if err := c.read(ctx, wire.OpOpenJournalKey, request, &answer); err != nil {
		return nil, err
	}
	key, err := format.ParseKey(answer.Key)
	if err != nil {
		return nil, call.Malformed(err)
	}
	return &JournalKey{s.Journal, key}, nil
}

// EndJournal has the vault open the key of a journal no more: all that waited in it has ended. To end it again changes
// nothing. Free; it needs the API key. Errors: [ErrUnsupported], [ErrUnavailable], [ErrTimeout]. Only svcd has it.
func (c *Client) EndJournal(ctx context.Context, s SealedJournalKey) error {
	var text string
	err := c.read(ctx, wire.OpEndJournal, wire.EndJournalRequest{Journal: s.Journal, Epoch: s.Epoch}, &text)
	return c.wrap("end a journal", "", "", err)
}

// SaveID makes an upload the same one each time it is sent, also after a restart and sealed under another key.
type SaveID struct {
	ID    string // of the upload, 32 hex digits
	After int64  // records of the group that were known when the save was made: its own comes later
	// Key is of this save alone, such as one of [JournalKey.Derive]. It stays the caller's, and must not change.
	Key *format.Key
	// Mark is a hash of what is saved: of the content, or of the blocks that changed. It makes an upload of other
	// content under the same id another one, which the service refuses with [wire.CodeSpent].
	Mark Digest
}

// NewSave returns a save into the group with a random id; the caller sets Key and Mark. Ids made together are
// neighbours in the service's index. Local, free.
func (g Group) NewSave() (SaveID, error) {
	id, err := newUploadID(time.Now())
	return SaveID{ID: id, After: g.c.memory.Group(string(g.ID)).Number}, err
}

// ForSave makes [Group.Seal] and [Group.BeginBlocks] use the id of a save, and keys that follow from its key. Sent
// again, it is recorded and paid once: the receipt is the first one, whatever became of the file since.
type ForSave SaveID

func (s ForSave) seal(o *options)  { o.save = (*SaveID)(&s) }
func (s ForSave) begin(o *options) { o.save = (*SaveID)(&s) }

// FindSave looks in the ledger for the record of a save of this account that was sent and whose answer was lost. Only
// the holder of its key can make such a record. size is in bytes; a zero hash means that it is not known. nil = there
// is none. Price and errors are those of [Group.Entries].
func (g Group) FindSave(ctx context.Context, s SaveID, size int64, hash Digest) (*Receipt, error) {
	salt := saltOf(s.Key)
	known := commitment(salt, Entry{Size: size, Hash: hash})
	without := commitment(salt, Entry{Size: size}) // recorded with blocks that were taken over
	r, err := g.findOwn(ctx, func(e *Entry) bool { return e.Commitment == known || e.Commitment == without })
	return r, g.wrap("look for the record of a save", err)
}

const (
	saveTagDomain = "svc-save-1"
	saveKeyDomain = "svc-save-file-1"
)

var errNoSave = &Error{Op: "check", Kind: ErrInvalid, Err: errors.New("a save needs an id of 32 hex digits and a key")}

func (s *SaveID) check() error {
	raw, err := hex.DecodeString(s.ID)
	if err != nil || len(raw) != wire.UploadIDBytes || hex.EncodeToString(raw) != s.ID || s.Key == nil {
		return errNoSave
	}
	return nil
}

// tag is what the service compares when the save is sent again.
func (s *SaveID) tag(g GroupID, name, base string) string {
	mac := hmac.New(sha256.New, s.Key.Bytes())
	b := []byte(saveTagDomain)
	for _, text := range []string{string(g), name, base, string(s.Mark[:])} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(text)))
		b = append(b, text...)
	}
	_, _ = mac.Write(b) // never fails
	return hex.EncodeToString(mac.Sum(nil))
}

// fileKey is the key of a file in blocks: always the same one, so that parts which were sent before a restart fit.
func (s *SaveID) fileKey() (*format.Key, error) {
	raw, err := hkdf.Key(sha256.New, s.Key.Bytes(), nil, saveKeyDomain, format.KeyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	defer clear(raw)
	return format.NewKey(raw)
}
