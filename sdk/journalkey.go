package sdk

import (
	"context"
	"encoding/base64"
	"slices"
	"time"

	"github.com/svcfs/svcfs/format"
	"github.com/svcfs/svcfs/sdk/saving"
	"github.com/svcfs/svcfs/sdk/wire"
)

// NewJournalKey makes the key of a new journal of the group, and seals it. It is local and free once the client knows
// the service's capabilities and, verified, the key of its vault; else it asks for both. Errors: [ErrUnsupported] at a
// service without a vault of ours; [ErrCorrupt] with [wire.CodeVaultKey] if the key of the vault must not be used;
// [ErrUnavailable], [ErrTimeout]. Only svcd has it.
func (g Group) NewJournalKey(ctx context.Context) (*saving.JournalKey, saving.SealedJournalKey, error) {
	k, sealed, err := g.newJournalKey(ctx)
	return k, sealed, g.wrap("make the key of a journal", err)
}

func (g Group) newJournalKey(ctx context.Context) (*saving.JournalKey, saving.SealedJournalKey, error) {
	id, err := saving.NewID(time.Now())
	if err != nil {
		return nil, saving.SealedJournalKey{}, err
	}
	key, err := format.RandomKey()
	if err != nil {
		return nil, saving.SealedJournalKey{}, err
	}
	k := saving.NewJournalKey(id, key)
	sealed, err := g.sealJournalKey(ctx, k)
	if err != nil {
		k.Wipe()
		return nil, saving.SealedJournalKey{}, err
	}
	return k, sealed, nil
}

// SealJournalKey seals the key of a journal of the group to the newest key of the vault: after a day it asks the
// service whether there is another one. Errors and price are those of [Group.NewJournalKey].
func (g Group) SealJournalKey(ctx context.Context, k *saving.JournalKey) (saving.SealedJournalKey, error) {
	if g.c.vault.isOld() {
		_, _ = g.c.vault.newer(ctx) // else the known one serves as long as it is open
	}
	sealed, err := g.sealJournalKey(ctx, k)
	return sealed, g.wrap("seal the key of a journal", err)
}

func (g Group) sealJournalKey(ctx context.Context, k *saving.JournalKey) (saving.SealedJournalKey, error) {
	vault, err := g.c.vault.current(ctx)
	if err != nil {
		return saving.SealedJournalKey{}, err
	}
	return k.SealTo(vault.public, format.JournalFor{Service: vault.service, Account: string(g.c.account),
		Group: string(g.ID), Epoch: vault.stated.Epoch})
}

// OpenJournalKey has the vault open the key of a journal of the group that this account sealed. Free; it needs the API
// key. Errors: [ErrNotAuthorized] for who is no member; [ErrConflict] with [wire.CodeJournalEnded] for a journal that
// has ended, and with [wire.CodeEpoch] where the vault opens keys of that epoch no more; [ErrInvalid] for another
// account's, group's or journal's; [ErrUnsupported], [ErrUnavailable], [ErrTimeout]. Only svcd has it.
func (g Group) OpenJournalKey(ctx context.Context, s saving.SealedJournalKey) (*saving.JournalKey, error) {
	k, err := g.openJournalKey(ctx, s)
	return k, g.wrap("open the key of a journal", err)
}

func (g Group) openJournalKey(ctx context.Context, s saving.SealedJournalKey) (*saving.JournalKey, error) {
	request := wire.OpenJournalKeyRequest{Journal: s.Journal, GroupID: string(g.ID), Epoch: s.Epoch,
		SealedKey: base64.StdEncoding.EncodeToString(s.Key)}
	var answer wire.OpenJournalKeyResult
	if err := g.c.read(ctx, wire.OpOpenJournalKey, request, &answer); err != nil {
		return nil, err
	}
	key, err := g.c.sessions.keyIn("", answer.SealedKey, g.ID, Ref(format.JournalRef(s.Journal)))
	if err != nil {
		return nil, err
	}
	return saving.NewJournalKey(s.Journal, key), nil
}

// EndJournal has the vault open the key of a journal no more: all that waited in it has ended. To end it again changes
// nothing. Free; it needs the API key. Errors: [ErrUnsupported], [ErrUnavailable], [ErrTimeout]. Only svcd has it.
func (c *Client) EndJournal(ctx context.Context, s saving.SealedJournalKey) error {
	var text string
	err := c.read(ctx, wire.OpEndJournal, wire.EndJournalRequest{Journal: s.Journal, Epoch: s.Epoch}, &text)
	return c.wrap("end a journal", "", "", err)
}

// NewSave returns a save into the group with a random id; the caller sets Key and Mark. Ids made together are
// neighbours in the service's index. Local, free.
func (g Group) NewSave() (saving.Save, error) {
	id, err := saving.NewID(time.Now())
	return saving.Save{ID: id, After: g.c.memory.Group(string(g.ID)).Number}, err
}

// FindSave looks in the ledger for the record of a save of this account that was sent and whose answer was lost. Only
// the holder of its key can make such a record. size is in bytes; a zero hash means that it is not known. nil = there
// is none. Price and errors are those of [Group.Entries].
func (g Group) FindSave(ctx context.Context, s saving.Save, size int64, hash Digest) (*Receipt, error) {
	salt := saltOf(s.Key)
	known := commitment(salt, Entry{Size: size, Hash: hash})
	without := commitment(salt, Entry{Size: size}) // recorded with blocks that were taken over
	entries, err := g.c.entries(ctx, g.ID, listing{})
	if err != nil {
		return nil, g.wrap("look for the record of a save", err)
	}
	for _, e := range slices.Backward(entries) {
		if e.Uploader == g.c.account && e.Deleted == nil && (e.Commitment == known || e.Commitment == without) {
			e.Number = 0
			return &Receipt{Entry: e}, nil
		}
	}
	return nil, nil
}
